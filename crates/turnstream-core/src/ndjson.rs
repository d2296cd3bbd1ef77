//! Frames of a body of JSON lines.

use std::ops::Range;

use crate::{
    lines::{LineBuffer, LineEnds, TooLong},
    sse::FrameError,
};

/// Cuts a body of JSON lines (`application/x-ndjson`) into its lines. It does not look at the JSON.
///
/// Lines end with LF or CRLF, blank ones are left out, and so is a byte-order mark at the very start. How the
/// bytes are cut into chunks changes nothing. After every [`push`](Self::push), call
/// [`next_frame`](Self::next_frame) until it gives `None`: what it has not given out stays in memory.
///
/// ```
/// # use turnstream_core::NdjsonFramer;
/// let mut framer = NdjsonFramer::new(1024);
/// framer.push(b"{\"done\":false}\n{\"do");
/// assert_eq!(framer.next_frame(), Some(Ok("{\"done\":false}")));
/// assert_eq!(framer.next_frame(), None);
/// framer.push(b"ne\":true}");
/// assert_eq!(framer.next_frame(), None);
/// assert_eq!(framer.finish(), Some(Ok("{\"done\":true}")));
/// ```
#[derive(Debug)]
pub struct NdjsonFramer {
    limit: usize,
    lines: LineBuffer,
    ended: bool,
}

impl NdjsonFramer {
    /// A framer at the start of a body. `limit` is how many bytes a line may have, without its LF.
    pub fn new(limit: usize) -> Self {
        Self { limit, lines: LineBuffer::new(LineEnds::Lf), ended: false }
    }

    /// Takes the next bytes of the body.
    pub fn push(&mut self, chunk: &[u8]) {
        if !self.ended {
            self.lines.push(chunk);
        }
    }

    /// The next line, if all of it has come.
    ///
    /// # Errors
    ///
    /// [`FrameError::NotUtf8`] stands for one line, and the next ones follow. After [`FrameError::TooLarge`]
    /// there is nothing more.
    pub fn next_frame(&mut self) -> Option<Result<&str, FrameError>> {
        match self.advance()? {
            Ok(line) => Some(self.lend(line)),
            Err(error) => Some(Err(error)),
        }
    }

    /// At the end of the body: the last line, if nothing ended it. The caller decides whether it counts.
    ///
    /// Lines that [`next_frame`](Self::next_frame) has not given out yet come first, one a call.
    ///
    /// # Errors
    ///
    /// As [`next_frame`](Self::next_frame).
    pub fn finish(&mut self) -> Option<Result<&str, FrameError>> {
        match self.advance() {
            Some(Ok(line)) => return Some(self.lend(line)),
            Some(Err(error)) => return Some(Err(error)),
            None if self.ended => return None,
            None => {}
        }
        self.ended = true;
        let line = self.lines.last_line();
        if self.is_blank(&line) { None } else { Some(self.lend(line)) }
    }

    fn advance(&mut self) -> Option<Result<Range<usize>, FrameError>> {
        while !self.ended {
            match self.lines.next_line(self.limit) {
                Ok(line) => {
                    let line = line?;
                    if !self.is_blank(&line) {
                        return Some(Ok(line));
                    }
                }
                Err(TooLong) => {
                    self.ended = true;
                    self.lines.clear();
                    return Some(Err(FrameError::too_large(self.limit)));
                }
            }
        }
        None
    }

    fn is_blank(&self, line: &Range<usize>) -> bool {
        self.lines.bytes(line.clone()).trim_ascii_start().is_empty()
    }

    fn lend(&self, line: Range<usize>) -> Result<&str, FrameError> {
        let bytes = self.lines.bytes(line);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        str::from_utf8(bytes).map_err(|error| FrameError::not_utf8(bytes, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Frames = Vec<Result<String, FrameError>>;

    /// The frames that lines ended, and the one that the end of the body gave.
    fn frames<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Frames, Frames) {
        let mut framer = NdjsonFramer::new(limit);
        let (mut ended, mut last) = (Frames::new(), Frames::new());
        for chunk in chunks {
            framer.push(chunk);
            while let Some(frame) = framer.next_frame() {
                ended.push(frame.map(str::to_owned));
            }
        }
        while let Some(frame) = framer.finish() {
            last.push(frame.map(str::to_owned));
        }
        assert_eq!(framer.next_frame(), None);
        (ended, last)
    }

    fn check(
        limit: usize,
        body: &[u8],
        ended: &[Result<&str, FrameError>],
        last: &[Result<&str, FrameError>],
    ) {
        let owned = |frames: &[Result<&str, FrameError>]| {
            frames.iter().cloned().map(|frame| frame.map(str::to_owned)).collect::<Frames>()
        };
        let expected = (owned(ended), owned(last));
        assert_eq!(frames(limit, [body]), expected, "whole");
        assert_eq!(frames(limit, body.chunks(1)), expected, "byte by byte");
        for cut in 0..=body.len() {
            let (left, right) = body.split_at(cut);
            assert_eq!(frames(limit, [left, b"", right]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn lines_end_with_lf_or_crlf() {
        check(99, b"{\"a\":1}\n{\"b\":2}\r\n[]\n", &[Ok("{\"a\":1}"), Ok("{\"b\":2}"), Ok("[]")], &[]);
    }

    #[test]
    fn blank_lines_are_left_out() {
        check(99, b"\n\r\n  \t\n1\n\n \n2\n ", &[Ok("1"), Ok("2")], &[]);
    }

    #[test]
    fn a_cr_inside_a_line_is_white_space_of_the_line() {
        check(99, b"[1,\r2]\n", &[Ok("[1,\r2]")], &[]);
    }

    #[test]
    fn a_byte_order_mark_is_left_out_at_the_start_only() {
        check(99, b"\xEF\xBB\xBF1\n\xEF\xBB\xBF2\n", &[Ok("1"), Ok("\u{feff}2")], &[]);
        check(99, b"\xEF\xBB\xBF", &[], &[]);
    }

    #[test]
    fn the_last_line_needs_no_end_but_is_told_apart() {
        check(99, b"1\n{\"torn\":", &[Ok("1")], &[Ok("{\"torn\":")]);
        check(99, b"1\r", &[], &[Ok("1")]);
    }

    #[test]
    fn a_line_that_is_not_utf8_is_an_error_and_the_next_one_follows() {
        let error = FrameError::NotUtf8 { valid_up_to: 2, start: "\"a\u{fffd}\"".into() };
        check(99, b"\"a\xFF\"\r\n\"\xC3\xA9\"\n", &[Err(error), Ok("\"é\"")], &[]);
    }

    #[test]
    fn a_line_beyond_the_limit_is_the_last_thing() {
        let error = FrameError::TooLarge { limit: 4, seen: 5 };
        check(4, b"1234\n12345\n1\n", &[Ok("1234"), Err(error.clone())], &[]);
        check(4, b"1\n12345", &[Ok("1"), Err(error)], &[]);
    }

    #[test]
    fn lines_that_were_not_asked_for_come_out_at_the_end_in_order() {
        let mut framer = NdjsonFramer::new(99);
        framer.push(b"1\n2\n3");
        assert_eq!(framer.finish(), Some(Ok("1")));
        assert_eq!(framer.finish(), Some(Ok("2")));
        assert_eq!(framer.finish(), Some(Ok("3")));
        assert_eq!(framer.finish(), None);
    }
}
