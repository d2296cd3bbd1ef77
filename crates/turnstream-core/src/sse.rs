//! Frames of a `text/event-stream` body.
//!
//! The rules are those of the WHATWG standard, with two liberties: a block that has only empty data gives no
//! frame, since no provider says anything with one, and bytes that are not UTF-8 are an error instead of
//! U+FFFD, since they would change what the model said.

use std::{fmt, mem, ops::Range};

use memchr::memchr;

use crate::{
    frame::{Frame, FrameError, Framer},
    lines::{BYTE_ORDER_MARK, KEPT_BYTES, LineBuffer, LineEnds, PREAMBLE_BYTES, TooLong},
};

/// Cuts the body of an event stream into frames.
///
/// How the bytes are cut into chunks changes nothing. A frame is given out as soon as the first byte of its
/// blank line's end has come. Bytes are framed first and decoded then, so half a character at the end of a
/// chunk waits for the rest. After every [`push`](Self::push), call [`next_frame`](Self::next_frame) until it
/// gives `None`: what it has not given out stays in memory.
///
/// ```
/// # use turnstream_core::{Frame, Framer, SseFramer};
/// let mut framer = SseFramer::new(1024);
/// framer.push(b": hello\n\nevent: ping\ndata: {\"a\"");
/// assert_eq!(framer.next_frame(), None);
/// framer.push(b":1}\n\n");
/// assert_eq!(framer.next_frame(), Some(Ok(Frame::new("ping", "{\"a\":1}"))));
/// assert_eq!(framer.next_frame(), None);
/// assert_eq!(framer.finish(), None);
/// ```
pub struct SseFramer {
    limit: usize,
    lines: LineBuffer,
    /// The event name of the block that is being read.
    event: Vec<u8>,
    /// The data of the block that is being read.
    data: Data,
    /// The data, where `data` says so; else what is left of an earlier frame.
    joined: Vec<u8>,
    /// The event name of the frame that was given out last, kept apart because that frame is only lent.
    lent_event: Vec<u8>,
    /// An event name that was found to be UTF-8.
    name: String,
    preamble: Vec<u8>,
    saw_field: bool,
    saw_anything: bool,
    ended: bool,
    takes_bare_json: bool,
    /// The block that is being read is bare JSON.
    is_bare: bool,
    /// Where the block that is being read begins, once it has begun; nowhere any more, if more was pushed since.
    block_start: Option<usize>,
}

/// The limit counts a frame's data so far and the line that is being read, together. A comment or an ignored
/// field is held to it as a line, and then forgotten. The last line of a body need not have an end.
impl Framer for SseFramer {
    const FRAME: &'static str = "server-sent event";

    fn new(limit: usize) -> Self {
        Self {
            limit,
            lines: LineBuffer::new(LineEnds::LfOrCr),
            event: Vec::new(),
            data: Data::Absent,
            joined: Vec::new(),
            lent_event: Vec::new(),
            name: String::new(),
            preamble: Vec::new(),
            saw_field: false,
            saw_anything: false,
            ended: false,
            takes_bare_json: false,
            is_bare: false,
            block_start: None,
        }
    }

    fn push(&mut self, chunk: &[u8]) {
        if self.ended || chunk.is_empty() {
            return;
        }
        if !self.saw_field {
            let room = PREAMBLE_BYTES.saturating_sub(self.preamble.len());
            self.preamble.extend(chunk.iter().take(room));
        }
        // The buffer may drop what lies before the line that is being read, so the block keeps its data
        // itself. That is rare: a block mostly ends in the chunk in which its data line ends.
        if matches!(self.data, Data::Line(_)) {
            self.join(None);
        }
        self.block_start = self.block_start.map(|_| usize::MAX);
        if !matches!(self.data, Data::Joined) && self.joined.capacity() > KEPT_BYTES {
            self.joined = Vec::new();
        }
        self.lines.push(chunk);
    }

    #[inline]
    fn next_frame(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        if self.lines.is_searched() {
            return None;
        }
        match self.advance()? {
            Ok(block) => Some(self.lend(block)),
            Err(error) => Some(Err(error)),
        }
    }

    #[inline]
    fn ahead(&self) -> &[u8] {
        let at_block_start = self.block_start.is_none() && !self.ended;
        if at_block_start { self.lines.ahead(self.limit) } else { &[] }
    }

    #[inline]
    fn skip(&mut self, bytes: usize) {
        self.lines.skip(bytes);
    }

    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        match self.advance() {
            Some(Ok(block)) => return Some(self.lend(block)),
            Some(Err(error)) => return Some(Err(error)),
            None if self.ended => return None,
            None => {}
        }
        self.ended = true;
        let line = self.lines.last_line();
        if !line.is_empty() {
            self.read_line(line);
        }
        let block = self.end_block()?;
        Some(self.lend(block))
    }

    fn foreign(&self) -> Option<&[u8]> {
        let is_native = self.saw_field() || !self.saw_anything() || starts_a_field(self.preamble());
        (!is_native).then(|| self.preamble())
    }
}

impl SseFramer {
    /// The same framer, for which a block of lines that begins with `{` or `[`, in the place of a field's
    /// name, is a frame: the lines are its data as they stand. Without this such lines are ignored, as the
    /// standard says.
    pub fn with_bare_json(self) -> Self {
        Self { takes_bare_json: true, ..self }
    }

    /// True once a line with a field that the standard knows (`data`, `event`, `id`, `retry`) has ended. At
    /// [`finish`](Self::finish) a last line without an end counts too.
    ///
    /// A body in which this stays false is no event stream, or an empty one.
    pub fn saw_field(&self) -> bool {
        self.saw_field
    }

    /// True once a line that is neither blank nor a comment has ended. At [`finish`](Self::finish) a last
    /// line without an end counts too.
    pub fn saw_anything(&self) -> bool {
        self.saw_anything
    }

    /// The first bytes of the body, at most 64 KiB, as long as no field has been seen; then nothing.
    ///
    /// With them a caller can show, or parse, a body that is no event stream. A byte-order mark is left out.
    pub fn preamble(&self) -> &[u8] {
        self.preamble.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.preamble)
    }

    /// Reads lines up to the end of the next block that has data.
    fn advance(&mut self) -> Option<Result<Block, FrameError>> {
        while !self.ended {
            let room = self.limit.saturating_sub(self.data_bytes());
            match self.lines.next_line(room) {
                Ok(line) => {
                    let line = line?;
                    if !line.is_empty() {
                        self.block_start = self.block_start.or(Some(line.start));
                        self.read_line(line);
                    } else if let Some(block) = self.end_block() {
                        return Some(Ok(block));
                    }
                }
                Err(TooLong) => {
                    self.ended = true;
                    self.lines.clear();
                    self.joined = Vec::new();
                    return Some(Err(FrameError::too_large(self.limit)));
                }
            }
        }
        None
    }

    fn read_line(&mut self, line: Range<usize>) {
        let bytes = self.lines.bytes(line.clone());
        let (name, value) = match bytes {
            [b':', ..] => return,
            // Nearly all lines, and long ones: where the colon is need not be searched.
            [b'd', b'a', b't', b'a', b':', value @ ..] => (&b"data"[..], value),
            [b'e', b'v', b'e', b'n', b't', b':', value @ ..] => (&b"event"[..], value),
            _ => match memchr(b':', bytes) {
                Some(colon) => {
                    let (name, rest) = bytes.split_at(colon);
                    (name, rest.strip_prefix(b":").unwrap_or(rest))
                }
                None => (bytes, &[][..]),
            },
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let value = line.end - value.len()..line.end;
        self.saw_anything = true;
        let begins_bare = self.takes_bare_json && matches!(self.data, Data::Absent);
        match name {
            _ if self.is_bare => self.join(Some(line)),
            [b'{' | b'[', ..] if begins_bare => {
                (self.is_bare, self.data) = (true, Data::Line(line));
            }
            b"data" => match self.data {
                Data::Absent => self.data = Data::Line(value),
                Data::Line(_) | Data::Joined => self.join(Some(value)),
            },
            b"event" => {
                self.event.clear();
                self.event.extend_from_slice(self.lines.bytes(value));
            }
            b"id" | b"retry" => {}
            _ => return,
        }
        if !self.saw_field {
            self.saw_field = true;
            self.preamble = Vec::new();
        }
    }

    /// Makes the block's data its own, and adds a line to it.
    fn join(&mut self, line: Option<Range<usize>>) {
        if let Data::Line(first) = mem::replace(&mut self.data, Data::Joined) {
            self.joined.clear();
            self.joined.extend_from_slice(self.lines.bytes(first));
        }
        if let Some(line) = line {
            self.joined.push(b'\n');
            self.joined.extend_from_slice(self.lines.bytes(line));
        }
    }

    /// Ends the block, and gives its data unless all of its data lines are empty.
    fn end_block(&mut self) -> Option<Block> {
        let start = self.block_start.take();
        mem::swap(&mut self.event, &mut self.lent_event);
        self.event.clear();
        self.is_bare = false;
        let data = mem::replace(&mut self.data, Data::Absent);
        let has_text = self.bytes_of(&data).iter().any(|&byte| byte != b'\n');
        let in_body = start.unwrap_or(usize::MAX)..self.lines.given_out();
        has_text.then_some(Block { data, in_body })
    }

    fn lend(&mut self, Block { data, in_body }: Block) -> Result<Frame<'_>, FrameError> {
        // The same few names come again and again, and need to be looked at once.
        let name = match self.lent_event == self.name.as_bytes() {
            true => Ok(()),
            false => FrameError::text(&self.lent_event).map(|name| {
                self.name.clear();
                self.name.push_str(name);
            }),
        };
        let data = FrameError::text(self.bytes_of(&data))?;
        name.map(|()| Frame { data, event: &self.name, in_body: self.lines.bytes(in_body) })
    }

    fn bytes_of(&self, data: &Data) -> &[u8] {
        match data {
            Data::Absent => &[],
            Data::Line(line) => self.lines.bytes(line.clone()),
            Data::Joined => &self.joined,
        }
    }

    fn data_bytes(&self) -> usize {
        match &self.data {
            Data::Absent => 0,
            Data::Line(line) => line.len(),
            Data::Joined => self.joined.len(),
        }
    }
}

/// A body can be megabytes, and nobody reads those in a debug print.
impl fmt::Debug for SseFramer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseFramer")
            .field("limit", &self.limit)
            .field("lines", &self.lines)
            .field("data_bytes", &self.data_bytes())
            .field("saw_field", &self.saw_field)
            .field("saw_anything", &self.saw_anything)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// Whether a body of nothing but comments was cut where it may have been going to say a field's name.
fn starts_a_field(body: &[u8]) -> bool {
    let mut lines = body.rsplit(|byte| matches!(byte, b'\n' | b'\r'));
    let torn = lines.next().unwrap_or_default();
    ["data:", "event:", "id:", "retry:"].iter().any(|field| field.as_bytes().starts_with(torn))
        && lines.all(|line| matches!(line, [] | [b':', ..]))
}

/// A block that has ended, and has data.
#[derive(Debug)]
struct Block {
    data: Data,
    /// Where all of it is in the line buffer, if it is there.
    in_body: Range<usize>,
}

/// Where a block's data is.
#[derive(Debug)]
enum Data {
    /// No data line has come.
    Absent,
    /// In the line buffer: the usual block has one data line, and that is lent from where it lies.
    Line(Range<usize>),
    /// In `joined`.
    Joined,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_json_is_a_frame_only_where_it_is_asked_for() {
        let body = b"data: 1\n\n{\n  \"error\": {\n: x\n  data: 2\n  }\n}\n\n[3]\n\ndata: 4\n{\n\n";
        let frames = |mut framer: SseFramer, size: usize| {
            let mut frames = Vec::new();
            for chunk in body.chunks(size) {
                framer.push(chunk);
                while let Some(frame) = framer.next_frame() {
                    frames.push(frame.unwrap().data.to_owned());
                }
            }
            frames
        };
        for size in [1, 7, usize::MAX] {
            assert_eq!(frames(SseFramer::new(LIMIT), size), ["1", "4"]);
            assert_eq!(
                frames(SseFramer::new(LIMIT).with_bare_json(), size),
                ["1", "{\n  \"error\": {\n  data: 2\n  }\n}", "[3]", "4"]
            );
        }
    }

    const LIMIT: usize = 1024;

    #[derive(Debug, PartialEq)]
    struct Seen {
        frames: Vec<Result<(String, String), FrameError>>,
        unended: Vec<Result<(String, String), FrameError>>,
        saw_field: bool,
        saw_anything: bool,
    }

    fn owned(frame: Result<Frame<'_>, FrameError>) -> Result<(String, String), FrameError> {
        frame.map(|frame| (frame.event.to_owned(), frame.data.to_owned()))
    }

    fn run<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Seen {
        let mut framer = SseFramer::new(limit);
        let (mut frames, mut unended) = (Vec::new(), Vec::new());
        for chunk in chunks {
            framer.push(chunk);
            while let Some(frame) = framer.next_frame() {
                frames.push(owned(frame));
            }
        }
        while let Some(frame) = framer.finish() {
            unended.push(owned(frame));
        }
        assert_eq!(framer.next_frame(), None);
        Seen { frames, unended, saw_field: framer.saw_field(), saw_anything: framer.saw_anything() }
    }

    /// Runs a body whole, byte by byte and at every cut, which must all give the same.
    fn run_all_cuts(limit: usize, body: &[u8]) -> Seen {
        let whole = run(limit, [body]);
        assert_eq!(run(limit, body.chunks(1)), whole, "byte by byte");
        for cut in 0..=body.len() {
            let (left, right) = body.split_at(cut);
            assert_eq!(run(limit, [left, b"", right]), whole, "cut at {cut}");
        }
        whole
    }

    fn check(body: impl AsRef<[u8]>, expected: &[(&str, &str)]) {
        check_unended(body, expected, None);
    }

    fn check_unended(body: impl AsRef<[u8]>, expected: &[(&str, &str)], unended: Option<(&str, &str)>) {
        let owned = |&(event, data): &(&str, &str)| Ok((event.to_owned(), data.to_owned()));
        let seen = run_all_cuts(LIMIT, body.as_ref());
        assert_eq!(seen.frames, expected.iter().map(owned).collect::<Vec<_>>());
        assert_eq!(seen.unended, unended.iter().map(owned).collect::<Vec<_>>());
    }

    #[test]
    fn a_block_of_one_data_line_is_a_frame() {
        check("data: {\"a\":1}\n\n", &[("", "{\"a\":1}")]);
        check("event: ping\ndata: {}\n\ndata: [DONE]\n\n", &[("ping", "{}"), ("", "[DONE]")]);
    }

    #[test]
    fn lines_end_with_lf_cr_or_both_in_any_mixture() {
        let expected = &[("e", "a\nb"), ("", "c")];
        check("event: e\ndata: a\ndata: b\n\ndata: c\n\n", expected);
        check("event: e\r\ndata: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", expected);
        check("event: e\rdata: a\rdata: b\r\rdata: c\r\r", expected);
        check("event: e\rdata: a\r\ndata: b\n\r\ndata: c\r\n\n", expected);
        check("event: e\ndata: a\r\ndata: b\r\r\ndata: c\n\r", expected);
    }

    #[test]
    fn a_frame_does_not_wait_for_the_byte_behind_a_cr() {
        let mut framer = SseFramer::new(LIMIT);
        framer.push(b"data: a\r\n\r");
        assert_eq!(framer.next_frame().map(owned), Some(Ok(("".into(), "a".into()))));
        framer.push(b"\ndata: b\r\r");
        assert_eq!(framer.next_frame().map(owned), Some(Ok(("".into(), "b".into()))));
        assert_eq!(framer.next_frame(), None);
    }

    #[test]
    fn a_byte_order_mark_is_left_out_at_the_start_only() {
        check("\u{feff}data: a\n\n", &[("", "a")]);
        check("\u{feff}\u{feff}data: a\n\ndata: b\n\n", &[("", "b")]);
        check("\n\u{feff}data: a\n\n", &[]);
        check("data: \u{feff}a\n\n", &[("", "\u{feff}a")]);
        assert_eq!(
            run(LIMIT, [&b"\xEF"[..], b"\xBB", b"\xBFdata: a\n\n"]),
            run(LIMIT, [&b"data: a\n\n"[..]])
        );
    }

    #[test]
    fn half_a_byte_order_mark_is_a_line_like_any_other() {
        check(b"\xEF\xBBdata: a\n\ndata: b\n\n", &[("", "b")]);
        let seen = run_all_cuts(LIMIT, b"\xEF\xBB");
        assert_eq!((seen.frames.len(), seen.unended.len()), (0, 0));
        assert_eq!((seen.saw_field, seen.saw_anything), (false, true));
    }

    #[test]
    fn comments_are_ignored_wherever_they_stand() {
        check(": ping\n\n:\n\ndata: a\n:data: no\ndata: b\n: x\n\n", &[("", "a\nb")]);
    }

    #[test]
    fn one_space_behind_the_colon_is_no_part_of_the_value() {
        check(
            "data:a\n\ndata: a\n\ndata:  a\n\ndata:\ta \n\n",
            &[("", "a"), ("", "a"), ("", " a"), ("", "\ta ")],
        );
        check("data: a: b\n\n", &[("", "a: b")]);
    }

    #[test]
    fn a_line_without_a_colon_is_a_field_without_a_value() {
        check("data: a\ndata\ndata: b\n\n", &[("", "a\n\nb")]);
        check("event: e\nevent\ndata: a\n\n", &[("", "a")]);
    }

    #[test]
    fn other_fields_are_ignored() {
        check(
            "id: 7\nretry: 100\nfoo: bar\ndata : x\n data: x\nDATA: x\ndatax: x\ndata: a\n\n",
            &[("", "a")],
        );
    }

    #[test]
    fn a_block_without_text_gives_no_frame() {
        check("event: a\n\ndata: b\n\n", &[("", "b")]);
        check("event: a\ndata:\n\ndata\n\ndata:\ndata: \n\ndata: b\n\n", &[("", "b")]);
        check("data:\ndata: a\n\n", &[("", "\na")]);
        check("\n\n\r\r\n\n", &[]);
        check("", &[]);
    }

    #[test]
    fn the_last_event_name_of_a_block_counts_and_for_that_block_only() {
        check("event: a\ndata: 1\nevent: b\n\ndata: 2\n\n", &[("b", "1"), ("", "2")]);
    }

    #[test]
    fn a_block_that_nothing_ended_is_told_apart() {
        check_unended("data: a\n\nevent: e\ndata: b\n", &[("", "a")], Some(("e", "b")));
        check_unended("data: a\n\ndata: b\r", &[("", "a")], Some(("", "b")));
        check_unended("data: a\n\ndata: b\ndata: {\"to", &[("", "a")], Some(("", "b\n{\"to")));
        check_unended("data: [DONE]", &[], Some(("", "[DONE]")));
        check_unended("data: a\n\nevent: e", &[("", "a")], None);
        check_unended("data: a\n\nda", &[("", "a")], None);
        check_unended("data: a\n\ndata:", &[("", "a")], None);
        check_unended("data: a\nda", &[], Some(("", "a")));
    }

    #[test]
    fn characters_may_be_cut() {
        check("event: é\ndata: 東京 😀\n\n", &[("é", "東京 😀")]);
    }

    #[test]
    fn a_frame_that_is_not_utf8_is_an_error_and_the_next_one_follows() {
        let seen = run_all_cuts(LIMIT, b"data: ok\n\ndata: ab\xF0\x9F\ndata: c\n\ndata: fine\n\n");
        let error = FrameError::NotUtf8 { valid_up_to: 2, start: "ab\u{fffd}\nc".into() };
        assert_eq!(
            seen.frames,
            [Ok((String::new(), "ok".into())), Err(error), Ok((String::new(), "fine".into()))]
        );
        let seen = run_all_cuts(LIMIT, b"event: a\xFF\ndata: x\n\n: \xFF\nfoo: \xFF\ndata: y\n\ndata: \xC3");
        let error = FrameError::NotUtf8 { valid_up_to: 1, start: "a\u{fffd}".into() };
        assert_eq!(seen.frames, [Err(error), Ok((String::new(), "y".into()))]);
        assert_eq!(seen.unended, [Err(FrameError::NotUtf8 { valid_up_to: 0, start: "\u{fffd}".into() })]);
    }

    #[test]
    fn the_start_of_a_broken_frame_is_short_and_has_whole_characters() {
        for text in ["x".repeat(1000), "é".repeat(500), "東".repeat(300), format!("x{}", "😀".repeat(200))]
        {
            let mut data = text.clone().into_bytes();
            data.push(0xFF);
            let error = FrameError::text(&data).unwrap_err();
            let FrameError::NotUtf8 { valid_up_to, start } = error else { unreachable!() };
            assert_eq!(valid_up_to, text.len());
            assert!(text.starts_with(&start) && (253..=256).contains(&start.len()), "{start}");
        }
        let noise = vec![0xFF; 1000];
        let FrameError::NotUtf8 { start, .. } = FrameError::text(&noise).unwrap_err() else { unreachable!() };
        assert_eq!(start, "\u{fffd}".repeat(85));
    }

    #[test]
    fn a_frame_beyond_the_limit_is_the_last_thing() {
        let too_large = |body: &str| {
            let seen = run_all_cuts(20, body.as_bytes());
            assert_eq!(
                seen.frames.last(),
                Some(&Err(FrameError::TooLarge { limit: 20, seen: 21 })),
                "{body:?}"
            );
            assert_eq!(seen.frames.iter().filter(|frame| frame.is_err()).count(), 1);
            assert_eq!(seen.unended, []);
            seen.frames.len()
        };
        let fits = |body: &str| {
            let seen = run_all_cuts(20, body.as_bytes());
            assert!(seen.frames.iter().all(Result::is_ok), "{body:?}");
            seen.frames.len()
        };
        assert_eq!(fits("data: 12345678901234\n\ndata: 12345678901234\n\n"), 2);
        assert_eq!(too_large("data: a\n\ndata: 123456789012345\n\ndata: b\n\n"), 2);
        assert_eq!(too_large("data: a\n\ndata: 123456789012345"), 2);
        assert_eq!(fits("data: 12345\ndata: 123456789\n\ndata: a\n\n"), 2);
        assert_eq!(too_large("data: 12345\ndata: 1234567890\n\ndata: a\n\n"), 1);
        assert_eq!(too_large(&"data: 1\n".repeat(20)), 1);
        assert_eq!(too_large(&"data\n".repeat(20)), 1);
        assert_eq!(fits(&format!(": {}\n\ndata: a\n\n", "c".repeat(18))), 1);
        assert_eq!(too_large(&format!(": {}\n\ndata: a\n\n", "c".repeat(19))), 1);
        assert_eq!(too_large(&format!("foo{}\n\ndata: a\n\n", "o".repeat(18))), 1);
    }

    #[test]
    fn lines_that_say_nothing_take_no_memory() {
        let mut framer = SseFramer::new(LIMIT);
        framer.push(b"data: a\n");
        for _ in 0..100_000 {
            framer.push(b": ping\nid: 1\n");
            assert_eq!(framer.next_frame(), None);
        }
        assert_eq!(framer.joined, b"a");
        let last = framer.lines.last_line();
        assert!(last.end < 100, "{last:?}");
    }

    #[test]
    fn the_usual_frame_is_lent_without_a_copy() {
        let mut framer = SseFramer::new(LIMIT);
        framer.push(b"event: e\ndata: {\"a\":1}\n\ndata: b\n\n");
        assert_eq!(framer.next_frame().map(owned), Some(Ok(("e".into(), "{\"a\":1}".into()))));
        assert_eq!(framer.next_frame().map(owned), Some(Ok(("".into(), "b".into()))));
        assert_eq!(framer.joined.capacity(), 0);
    }

    #[test]
    fn what_was_seen_tells_a_stream_from_something_else() {
        let seen = |body: &str| {
            let seen = run_all_cuts(LIMIT, body.as_bytes());
            (seen.saw_field, seen.saw_anything)
        };
        assert_eq!(seen(""), (false, false));
        assert_eq!(seen("\u{feff}\r\n: ping\n\n: pi"), (false, false));
        assert_eq!(seen("<html>\n<body>: x"), (false, true));
        assert_eq!(seen("{\"error\": {}}"), (false, true));
        assert_eq!(seen("database: x\n\n"), (false, true));
        for field in ["data", "event:", "id: 1", "retry: 1"] {
            assert_eq!(seen(field), (true, true), "{field}");
            assert_eq!(seen(&format!("x\n{field}\n")), (true, true), "{field}");
        }
    }

    #[test]
    fn a_field_counts_once_its_line_has_ended() {
        let mut framer = SseFramer::new(LIMIT);
        framer.push(b"data: a");
        assert_eq!(framer.next_frame(), None);
        assert_eq!((framer.saw_field(), framer.preamble()), (false, &b"data: a"[..]));
        framer.push(b"\n");
        assert_eq!(framer.next_frame(), None);
        assert_eq!((framer.saw_field(), framer.preamble()), (true, &b""[..]));
        assert_eq!(framer.preamble.capacity(), 0);
    }

    #[test]
    fn the_start_of_a_body_that_is_no_stream_is_kept() {
        let mut framer = SseFramer::new(LIMIT);
        for chunk in [&b"\xEF\xBB"[..], b"\xBF{\n", b"\"error\": 1}"] {
            framer.push(chunk);
            assert_eq!(framer.next_frame(), None);
        }
        assert_eq!(framer.finish(), None);
        assert_eq!(framer.preamble(), b"{\n\"error\": 1}");

        let mut framer = SseFramer::new(LIMIT);
        for _ in 0..1000 {
            framer.push(&[b'x'; 99]);
            framer.push(b"\n");
            assert_eq!(framer.next_frame(), None);
        }
        assert_eq!(framer.preamble().len(), PREAMBLE_BYTES);
    }

    #[test]
    fn frames_that_were_not_asked_for_come_out_at_the_end_in_order() {
        let mut framer = SseFramer::new(LIMIT);
        framer.push(b"data: a\n\ndata: b\n\nda");
        framer.push(b"ta: c\n");
        let rest: Vec<_> =
            std::iter::from_fn(|| framer.finish().map(owned)).map(|frame| frame.unwrap().1).collect();
        assert_eq!(rest, ["a", "b", "c"]);
    }

    #[test]
    fn a_frame_of_four_mebibytes_in_small_chunks_comes_out_whole() {
        let data = "0123456789abcdef".repeat(4 * 1024 * 1024 / 16);
        for body in [format!("data: {data}\n\n"), format!("data: {data}\ndata: end\n\n")] {
            let mut framer = SseFramer::new(5 * 1024 * 1024);
            let mut frames = 0;
            for chunk in body.as_bytes().chunks(1024) {
                framer.push(chunk);
                while let Some(frame) = framer.next_frame() {
                    assert!(frame.is_ok_and(|frame| frame.data.starts_with(&data)));
                    frames += 1;
                }
            }
            assert_eq!(frames, 1);
        }
    }
}
