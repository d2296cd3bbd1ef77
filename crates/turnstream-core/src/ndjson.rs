//! Frames of a body of JSON lines.

use std::{fmt, ops::Range};

use crate::{
    frame::{Frame, FrameError, Framer},
    lines::{BYTE_ORDER_MARK, LineBuffer, LineEnds, PREAMBLE_BYTES, TooLong},
};

/// Cuts a body of JSON lines (`application/x-ndjson`) into its lines. It does not look at the JSON, but for
/// the first byte of the body: lines are objects, so a body that begins with anything but `{` is something
/// else, and gives no frame.
///
/// Lines end with LF or CRLF, blank ones are left out, and so is a byte-order mark at the very start.
///
/// ```
/// # use turnstream_core::{Frame, Framer, NdjsonFramer};
/// let mut framer = NdjsonFramer::new(1024);
/// framer.push(b"{\"done\":false}\n{\"do");
/// assert_eq!(framer.next_frame(), Some(Ok(Frame::new("", "{\"done\":false}"))));
/// assert_eq!(framer.next_frame(), None);
/// framer.push(b"ne\":true}");
/// assert_eq!(framer.next_frame(), None);
/// assert_eq!(framer.finish(), Some(Ok(Frame::new("", "{\"done\":true}"))));
/// ```
pub struct NdjsonFramer {
    limit: usize,
    lines: LineBuffer,
    body: Body,
    ended: bool,
}

/// What the first bytes of a body say that it is.
enum Body {
    /// Nothing yet: the first blanks, or a part of a byte-order mark.
    Unknown(Vec<u8>),
    Lines,
    /// Something else; its start.
    Foreign(Vec<u8>),
}

/// The limit counts a line without its LF.
impl Framer for NdjsonFramer {
    const FRAME: &'static str = "JSON line";

    fn new(limit: usize) -> Self {
        let body = Body::Unknown(Vec::new());
        Self { limit, lines: LineBuffer::new(LineEnds::Lf), body, ended: false }
    }

    fn push(&mut self, chunk: &[u8]) {
        if self.ended {
            return;
        }
        match &mut self.body {
            Body::Lines => self.lines.push(chunk),
            Body::Foreign(start) => keep_start(start, chunk),
            Body::Unknown(start) => {
                start.extend_from_slice(chunk);
                // Blanks before it have been dropped or not, by where the chunks end.
                let body = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start).trim_ascii_start();
                match first_byte(start) {
                    // Only blanks so far, and of those nobody needs more than the last few.
                    None => start.truncate(BYTE_ORDER_MARK.len()),
                    Some(b'{') => {
                        self.lines.push(body);
                        self.body = Body::Lines;
                    }
                    Some(_) => {
                        self.body = Body::Foreign(body.get(..PREAMBLE_BYTES).unwrap_or(body).to_vec());
                    }
                }
            }
        }
    }

    fn next_frame(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        match self.advance()? {
            Ok(line) => Some(self.lend(line)),
            Err(error) => Some(Err(error)),
        }
    }

    #[inline]
    fn ahead(&self) -> &[u8] {
        let is_known = matches!(self.body, Body::Lines) && !self.ended;
        if is_known { self.lines.ahead(self.limit) } else { &[] }
    }

    #[inline]
    fn skip(&mut self, bytes: usize) {
        self.lines.skip(bytes);
    }

    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
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

    fn foreign(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Foreign(start) => Some(start),
            Body::Unknown(_) | Body::Lines => None,
        }
    }
}

impl NdjsonFramer {
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

    fn lend(&self, line: Range<usize>) -> Result<Frame<'_>, FrameError> {
        let start = line.start;
        let bytes = self.lines.bytes(line);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let data = FrameError::text(bytes)?;
        Ok(Frame { event: "", data, in_body: self.lines.bytes(start..self.lines.given_out()) })
    }
}

/// A body can be megabytes, and nobody reads those in a debug print.
impl fmt::Debug for NdjsonFramer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NdjsonFramer")
            .field("limit", &self.limit)
            .field("lines", &self.lines)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

fn keep_start(start: &mut Vec<u8>, chunk: &[u8]) {
    let room = PREAMBLE_BYTES.saturating_sub(start.len());
    start.extend(chunk.iter().take(room));
}

/// The first byte of a body that says something.
fn first_byte(start: &[u8]) -> Option<u8> {
    if BYTE_ORDER_MARK.starts_with(start) {
        return None;
    }
    let start = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start);
    start.iter().copied().find(|byte| !byte.is_ascii_whitespace())
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
                ended.push(frame.map(|frame| frame.data.to_owned()));
            }
        }
        while let Some(frame) = framer.finish() {
            last.push(frame.map(|frame| frame.data.to_owned()));
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
        check(99, b"\n\r\n  \t\n{}\n\n \n2\n ", &[Ok("{}"), Ok("2")], &[]);
    }

    #[test]
    fn a_cr_inside_a_line_is_white_space_of_the_line() {
        check(99, b"{\"a\":\r2}\n", &[Ok("{\"a\":\r2}")], &[]);
    }

    #[test]
    fn a_byte_order_mark_is_left_out_at_the_start_only() {
        check(99, b"\xEF\xBB\xBF{}\n\xEF\xBB\xBF2\n", &[Ok("{}"), Ok("\u{feff}2")], &[]);
        check(99, b"\xEF\xBB\xBF", &[], &[]);
    }

    #[test]
    fn the_last_line_needs_no_end_but_is_told_apart() {
        check(99, b"{}\n{\"torn\":", &[Ok("{}")], &[Ok("{\"torn\":")]);
        check(99, b"{}\r", &[], &[Ok("{}")]);
    }

    #[test]
    fn a_line_that_is_not_utf8_is_an_error_and_the_next_one_follows() {
        let error = FrameError::NotUtf8 { valid_up_to: 2, start: "{a\u{fffd}}".into() };
        check(99, b"{a\xFF}\r\n\"\xC3\xA9\"\n", &[Err(error), Ok("\"é\"")], &[]);
    }

    #[test]
    fn a_line_beyond_the_limit_is_the_last_thing() {
        let error = FrameError::TooLarge { limit: 4, seen: 5 };
        check(4, b"{34}\n12345\n1\n", &[Ok("{34}"), Err(error.clone())], &[]);
        check(4, b"{}\n12345", &[Ok("{}"), Err(error)], &[]);
    }

    #[test]
    fn blanks_before_the_first_line_are_no_line_however_many_they_are() {
        check(4, b"\n          \r\n     {}\n", &[Ok("{}")], &[]);
        check(4, b"\xEF\xBB\xBF          {}", &[], &[Ok("{}")]);
        check(4, b"          x\n{}\n", &[], &[]);
    }

    #[test]
    fn lines_that_were_not_asked_for_come_out_at_the_end_in_order() {
        let mut framer = NdjsonFramer::new(99);
        framer.push(b"{}\n2\n3");
        let mut left = Vec::new();
        while let Some(frame) = framer.finish() {
            left.push(frame.map(|frame| frame.data.to_owned()));
        }
        assert_eq!(left, [Ok("{}".to_owned()), Ok("2".to_owned()), Ok("3".to_owned())]);
    }

    #[test]
    fn a_body_that_begins_with_no_object_is_foreign_and_gives_no_frame() {
        let body = b"\xEF\xBB\xBF \n<html>\n{}\n";
        for size in 1..=body.len() {
            let mut framer = NdjsonFramer::new(99);
            for chunk in body.chunks(size) {
                framer.push(chunk);
                assert_eq!(framer.next_frame(), None);
            }
            assert_eq!(framer.finish(), None);
            let start = String::from_utf8_lossy(framer.foreign().unwrap()).into_owned();
            assert_eq!(start.trim_start(), "<html>\n{}\n", "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_shown_of_a_foreign_body_does_not_depend_on_the_chunks() {
        for body in ["\n\n\n\n\n <html> \n", "\u{feff}      x", "\u{feff}", " \t"] {
            let shown = |size: usize| {
                let mut framer = NdjsonFramer::new(64);
                for chunk in body.as_bytes().chunks(size) {
                    framer.push(chunk);
                    assert_eq!(framer.next_frame(), None);
                }
                framer.foreign().map(<[u8]>::to_vec)
            };
            let whole = shown(usize::MAX);
            assert_eq!(whole.is_some(), body.contains(['<', 'x']), "{body:?}");
            (1..body.len()).for_each(|size| assert_eq!(shown(size), whole, "{body:?} in pieces of {size}"));
        }
    }

    #[test]
    fn an_empty_body_is_not_foreign() {
        let mut framer = NdjsonFramer::new(99);
        framer.push(b" \n");
        assert_eq!(framer.finish(), None);
        assert_eq!(framer.foreign(), None);
    }
}
