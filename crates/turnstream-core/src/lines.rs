//! The line buffer that both text framers share.

use std::{fmt, ops::Range};

use memchr::{memchr, memchr2};

/// Bytes of a body, cut into lines.
///
/// A line is given as a range, which is good until the next [`LineBuffer::push`]. Every byte is searched for
/// a line end once. A byte-order mark at the very start is left out.
pub(crate) struct LineBuffer {
    ends: LineEnds,
    bytes: Vec<u8>,
    /// Where the next line begins; what lies before it has been given out.
    line_start: usize,
    /// Up to here there is no line end behind `line_start`.
    searched: usize,
    /// The last line was ended by a CR: an LF right after it belongs to that end.
    after_cr: bool,
    /// The start of the body is still to be looked at for a byte-order mark.
    at_body_start: bool,
}

/// What ends a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LineEnds {
    /// LF, CR, or both in this order. A CR ends the line at once, whatever follows.
    LfOrCr,
    /// LF alone; a CR before it is part of the line.
    Lf,
}

/// A line, finished or not, is longer than the caller has room for.
#[derive(Debug)]
pub(crate) struct TooLong;

impl LineBuffer {
    pub(crate) fn new(ends: LineEnds) -> Self {
        Self { ends, bytes: Vec::new(), line_start: 0, searched: 0, after_cr: false, at_body_start: true }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        // Moving at most as many bytes as have been given out since the last move keeps the whole linear,
        // also if the caller leaves lines in the buffer.
        if self.line_start >= self.bytes.len() - self.line_start {
            self.bytes.drain(..self.line_start);
            self.searched -= self.line_start;
            self.line_start = 0;
            // The memory of a huge line is not kept.
            if self.bytes.len() + chunk.len() <= KEPT_BYTES {
                self.bytes.shrink_to(KEPT_BYTES);
            }
        }
        // A long line grows by a quarter of itself: twice its memory is too much, and this is linear, too.
        if self.bytes.len() + chunk.len() > KEPT_BYTES.max(self.bytes.capacity()) {
            self.bytes.reserve_exact(chunk.len().max(self.bytes.len() / 4));
        }
        self.bytes.extend_from_slice(chunk);
    }

    /// The next line that has ended, without its end. `room` is how long it may be.
    #[inline]
    pub(crate) fn next_line(&mut self, room: usize) -> Result<Option<Range<usize>>, TooLong> {
        if self.at_body_start && !self.skip_byte_order_mark() {
            return Ok(None);
        }
        if self.after_cr {
            match self.bytes.get(self.line_start) {
                Some(b'\n') => self.line_start += 1,
                Some(_) => {}
                None => return Ok(None),
            }
            self.after_cr = false;
            self.searched = self.line_start;
        }
        let new = self.bytes.get(self.searched..).unwrap_or_default();
        // Every third line is blank, and behind the last one there is nothing: neither needs a search.
        let found = match (new.first(), self.ends) {
            (None, _) => None,
            (Some(b'\n'), _) => Some(0),
            (_, LineEnds::LfOrCr) => memchr2(b'\n', b'\r', new),
            (_, LineEnds::Lf) => memchr(b'\n', new),
        };
        let line = self.line_start..found.map_or(self.bytes.len(), |distance| self.searched + distance);
        if line.len() > room {
            return Err(TooLong);
        }
        self.searched = line.end;
        if found.is_none() {
            return Ok(None);
        }
        self.after_cr = self.bytes.get(line.end) == Some(&b'\r');
        self.line_start = line.end + 1;
        self.searched = self.line_start;
        Ok(Some(line))
    }

    /// What comes next, at most `most` bytes, if that is the start of a line of which nothing was looked at.
    #[inline]
    pub(crate) fn ahead(&self, most: usize) -> &[u8] {
        if self.at_body_start || self.searched != self.line_start {
            return &[];
        }
        let ahead = self.bytes.get(self.line_start..).unwrap_or_default();
        let ahead = ahead.strip_prefix(b"\n").filter(|_| self.after_cr).unwrap_or(ahead);
        ahead.get(..most).unwrap_or(ahead)
    }

    /// Gives out whole lines, so many bytes of [`ahead`](Self::ahead).
    #[inline]
    pub(crate) fn skip(&mut self, bytes: usize) {
        let line_feed = self.after_cr && self.bytes.get(self.line_start) == Some(&b'\n');
        self.line_start += bytes + usize::from(line_feed);
        self.searched = self.line_start;
        self.after_cr = self.line_start.checked_sub(1).and_then(|last| self.bytes.get(last)) == Some(&b'\r');
    }

    /// Whether everything that came was looked at: until more comes there is no next line.
    #[inline]
    pub(crate) fn is_searched(&self) -> bool {
        self.searched == self.bytes.len()
    }

    /// Where the next line begins, if all of the last one's end has come.
    pub(crate) fn given_out(&self) -> usize {
        self.line_start
    }

    /// At the end of the body: the last line, if nothing ended it. It is empty if the body ended with a line
    /// end.
    pub(crate) fn last_line(&mut self) -> Range<usize> {
        let line = self.line_start..self.bytes.len();
        self.line_start = self.bytes.len();
        self.searched = self.bytes.len();
        line
    }

    /// The bytes of a line, or of a part of it.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// Forgets all and gives the memory back.
    pub(crate) fn clear(&mut self) {
        *self = Self { at_body_start: false, ..Self::new(self.ends) };
    }

    /// False if too little has come to tell.
    fn skip_byte_order_mark(&mut self) -> bool {
        if self.bytes.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(&self.bytes) {
            return false;
        }
        if self.bytes.starts_with(BYTE_ORDER_MARK) {
            self.line_start = BYTE_ORDER_MARK.len();
            self.searched = self.line_start;
        }
        self.at_body_start = false;
        true
    }
}

/// A body can be megabytes, and nobody reads those in a debug print.
impl fmt::Debug for LineBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineBuffer")
            .field("ends", &self.ends)
            .field("buffered", &(self.bytes.len() - self.line_start))
            .finish_non_exhaustive()
    }
}

/// How much memory may stay from one line to the next.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

/// U+FEFF in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// How much is kept of the start of a body that may turn out to be no stream.
pub(crate) const PREAMBLE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_left_in_the_buffer_survive_a_push_and_are_not_moved_each_time() {
        let mut lines = LineBuffer::new(LineEnds::LfOrCr);
        for number in 0..100 {
            lines.push(format!("line {number}\r\nand a half ").as_bytes());
        }
        let mut seen = Vec::new();
        while let Ok(Some(line)) = lines.next_line(100) {
            seen.push(String::from_utf8(lines.bytes(line).to_vec()).unwrap());
            lines.push(b"");
        }
        assert_eq!(seen.len(), 100);
        assert_eq!(seen[99], "and a half line 99");
        let last = lines.last_line();
        assert_eq!(lines.bytes(last), b"and a half ");
    }

    #[test]
    fn what_has_been_given_out_does_not_stay() {
        let mut lines = LineBuffer::new(LineEnds::Lf);
        for _ in 0..10_000 {
            lines.push(b"0123456789\n0123");
            lines.push(b"456789\n");
            while let Ok(Some(line)) = lines.next_line(10) {
                assert_eq!(lines.bytes(line), b"0123456789");
            }
        }
        assert!(lines.bytes.capacity() < 256, "{}", lines.bytes.capacity());
    }

    #[test]
    fn the_memory_of_a_huge_line_is_little_more_than_the_line_and_is_given_back() {
        let mut lines = LineBuffer::new(LineEnds::Lf);
        for _ in 0..4096 {
            lines.push(&[b'x'; 1024]);
        }
        lines.push(b"\n");
        assert!(lines.bytes.capacity() < 5 << 20, "{}", lines.bytes.capacity());
        assert_eq!(lines.next_line(usize::MAX).unwrap(), Some(0..4 << 20));
        lines.push(b"x\n");
        assert!(lines.bytes.capacity() <= KEPT_BYTES, "{}", lines.bytes.capacity());
        let line = lines.next_line(1).unwrap().unwrap();
        assert_eq!(lines.bytes(line), b"x");
    }
}
