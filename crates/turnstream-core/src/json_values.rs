//! Frames of a body that is JSON: one array that is written value by value, one value alone, or values in a
//! row.

use std::{fmt, mem, ops::Range};

use memchr::memchr2;

use crate::{
    frame::{Frame, FrameError, Framer},
    lines::{BYTE_ORDER_MARK, KEPT_BYTES, PREAMBLE_BYTES},
};

/// Cuts a body of JSON values into the values: the elements of an array at the top, or values that stand one
/// behind the other. A value is given out as soon as its last byte has come, while the array goes on.
///
/// It finds where values end, and does not check what is inside of them. A body that begins with anything but
/// `{` or `[` is something else, and gives no frame. A byte-order mark at the very start is left out.
///
/// ```
/// # use turnstream_core::{Frame, Framer, JsonValuesFramer};
/// let mut framer = JsonValuesFramer::new(1024);
/// framer.push(b"[{\"a\": 1},\n{\"b\": \"]");
/// assert_eq!(framer.next_frame(), Some(Ok(Frame::new("", "{\"a\": 1}"))));
/// assert_eq!(framer.next_frame(), None);
/// framer.push(b"}\"}\n]");
/// assert_eq!(framer.next_frame(), Some(Ok(Frame::new("", "{\"b\": \"]}\"}"))));
/// assert_eq!(framer.next_frame(), None);
/// assert_eq!(framer.finish(), None);
/// ```
pub struct JsonValuesFramer {
    limit: usize,
    bytes: Vec<u8>,
    /// Where the value that is being read begins, or what has not been looked at yet.
    start: usize,
    /// Up to here every byte has been looked at.
    seen: usize,
    place: Place,
    /// Inside the array at the top.
    in_array: bool,
    ended: bool,
}

/// What the next byte belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// The body has said nothing yet.
    BodyStart,
    /// Between two values.
    Between,
    /// A value that its brackets or its quotes end.
    Value(Inside),
    /// A number or a word: what follows ends it.
    Scalar,
    /// Something that is no JSON value; the start of the body.
    Foreign(Vec<u8>),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Inside {
    /// Brackets that are open.
    depth: usize,
    in_string: bool,
    after_backslash: bool,
}

/// The limit counts the bytes of one value.
impl Framer for JsonValuesFramer {
    const FRAME: &'static str = "JSON value";

    fn new(limit: usize) -> Self {
        let (bytes, place) = (Vec::new(), Place::BodyStart);
        Self { limit, bytes, start: 0, seen: 0, place, in_array: false, ended: false }
    }

    fn push(&mut self, chunk: &[u8]) {
        if self.ended {
            return;
        }
        if let Place::Foreign(start) = &mut self.place {
            let room = PREAMBLE_BYTES.saturating_sub(start.len());
            start.extend(chunk.iter().take(room));
            return;
        }
        // Moving at most as many bytes as have been given out since the last move keeps the whole linear.
        if self.start >= self.bytes.len() - self.start {
            self.bytes.drain(..self.start);
            self.seen -= self.start;
            self.start = 0;
            // The memory of a huge value is not kept.
            if self.bytes.len() + chunk.len() <= KEPT_BYTES {
                self.bytes.shrink_to(KEPT_BYTES);
            }
        }
        // A long value grows by a quarter of itself: twice its memory is too much, and this is linear, too.
        if self.bytes.len() + chunk.len() > KEPT_BYTES.max(self.bytes.capacity()) {
            self.bytes.reserve_exact(chunk.len().max(self.bytes.len() / 4));
        }
        self.bytes.extend_from_slice(chunk);
    }

    fn next_frame(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        match self.advance()? {
            Ok(value) => Some(self.lend(value)),
            Err(error) => Some(Err(error)),
        }
    }

    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        match self.advance() {
            Some(Ok(value)) => return Some(self.lend(value)),
            Some(Err(error)) => return Some(Err(error)),
            None if self.ended => return None,
            None => {}
        }
        if matches!(self.place, Place::Foreign(_)) {
            return None;
        }
        let is_torn = matches!(self.place, Place::Value(_) | Place::Scalar);
        if self.place == Place::Scalar {
            // The end of the body ends it like any other byte.
            self.place = Place::Between;
        }
        self.ended = true;
        let value = self.start..self.bytes.len();
        is_torn.then(|| self.lend(value))
    }

    fn foreign(&self) -> Option<&[u8]> {
        match &self.place {
            Place::Foreign(start) => Some(start),
            _ => None,
        }
    }

    fn is_torn(&self) -> bool {
        self.in_array || matches!(self.place, Place::Value(_))
    }
}

impl JsonValuesFramer {
    /// Looks at bytes up to the end of the next value.
    fn advance(&mut self) -> Option<Result<Range<usize>, FrameError>> {
        while !self.ended {
            let found = match self.place {
                Place::BodyStart => {
                    self.begin_body()?;
                    None
                }
                Place::Between => match self.skip_to_value()? {
                    Ok(()) => None,
                    Err(error) => return Some(Err(self.give_up(error))),
                },
                Place::Value(inside) => self.value_end(inside),
                Place::Scalar => self.scalar_end(),
                Place::Foreign(_) => return None,
            };
            if self.seen - self.start > self.limit {
                return Some(Err(self.give_up(FrameError::too_large(self.limit))));
            }
            match found {
                Some(end) => {
                    self.place = Place::Between;
                    return Some(Ok(mem::replace(&mut self.start, end)..end));
                }
                None if self.seen == self.bytes.len() => return None,
                None => {}
            }
        }
        None
    }

    /// Leaves a byte-order mark and blanks out. `None` if nothing has come that says what the body is.
    fn begin_body(&mut self) -> Option<()> {
        if self.bytes.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(&self.bytes) {
            return None;
        }
        let body = self.bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.bytes);
        let said = body.trim_ascii_start();
        match said.first() {
            Some(b'{' | b'[') => {
                self.start = self.bytes.len() - said.len();
                self.seen = self.start;
                self.place = Place::Between;
            }
            Some(_) => {
                // Blanks before it have been dropped or not, by where the chunks end.
                let start = said.get(..PREAMBLE_BYTES).unwrap_or(said).to_vec();
                self.bytes = Vec::new();
                self.place = Place::Foreign(start);
            }
            // Only blanks: the mark, which may stand before them, has been looked at.
            None if body.is_empty() => return None,
            None => self.bytes.truncate(self.bytes.len() - body.len() + 1),
        }
        if self.place == Place::BodyStart { None } else { Some(()) }
    }

    /// Goes on to the next value's first byte. `None` if it has not come.
    fn skip_to_value(&mut self) -> Option<Result<(), FrameError>> {
        let between = self.bytes.get(self.seen..).unwrap_or_default();
        for (distance, byte) in between.iter().enumerate() {
            let place = match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b',' => continue,
                b'[' if !self.in_array => {
                    self.in_array = true;
                    continue;
                }
                b']' if self.in_array => {
                    self.in_array = false;
                    continue;
                }
                b'{' | b'[' | b'"' => Place::Value(Inside::default()),
                b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => Place::Scalar,
                _ => {
                    let problem = "neither a value nor a comma stands between the JSON values";
                    return Some(Err(FrameError::Damaged { problem: problem.to_owned() }));
                }
            };
            self.start = self.seen + distance;
            self.seen = self.start;
            self.place = place;
            return Some(Ok(()));
        }
        self.start = self.bytes.len();
        self.seen = self.start;
        None
    }

    /// Where the value ends; or what is known of its inside so far is kept.
    fn value_end(&mut self, mut inside: Inside) -> Option<usize> {
        while let Some(rest) = self.bytes.get(self.seen..).filter(|rest| !rest.is_empty()) {
            if mem::take(&mut inside.after_backslash) {
                self.seen += 1;
                continue;
            }
            if inside.in_string {
                let Some(distance) = memchr2(b'"', b'\\', rest) else {
                    self.seen = self.bytes.len();
                    break;
                };
                let is_quote = rest.get(distance) == Some(&b'"');
                (inside.in_string, inside.after_backslash) = (!is_quote, !is_quote);
                self.seen += distance + 1;
            } else {
                let is_mark = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']');
                let Some(distance) = rest.iter().position(is_mark) else {
                    self.seen = self.bytes.len();
                    break;
                };
                match rest.get(distance) {
                    Some(b'"') => inside.in_string = true,
                    Some(b'{' | b'[') => inside.depth += 1,
                    _ => inside.depth = inside.depth.saturating_sub(1),
                }
                self.seen += distance + 1;
            }
            if inside.depth == 0 && !inside.in_string && !inside.after_backslash {
                return Some(self.seen);
            }
        }
        self.place = Place::Value(inside);
        None
    }

    fn scalar_end(&mut self) -> Option<usize> {
        let ends =
            |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}' | b'[' | b'{' | b'"');
        let rest = self.bytes.get(self.seen..).unwrap_or_default();
        let end = rest.iter().position(ends).map(|distance| self.seen + distance);
        self.seen = end.unwrap_or(self.bytes.len());
        end
    }

    /// Nothing more is given out behind an error that is not one value's own.
    fn give_up(&mut self, error: FrameError) -> FrameError {
        (self.ended, self.bytes) = (true, Vec::new());
        (self.start, self.seen) = (0, 0);
        error
    }

    fn lend(&self, value: Range<usize>) -> Result<Frame<'_>, FrameError> {
        let bytes = self.bytes.get(value).unwrap_or_default();
        let data = FrameError::text(bytes)?;
        Ok(Frame::new("", data))
    }
}

/// A body can be megabytes, and nobody reads those in a debug print.
impl fmt::Debug for JsonValuesFramer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonValuesFramer")
            .field("limit", &self.limit)
            .field("buffered", &(self.bytes.len() - self.start))
            .field("in_array", &self.in_array)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Frames = Vec<Result<String, FrameError>>;

    /// The values that ended by themselves, the ones that the end of the body gave, and whether it was torn.
    fn frames<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Frames, Frames, bool) {
        let mut framer = JsonValuesFramer::new(limit);
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
        (ended, last, framer.is_torn())
    }

    /// The same however it is cut.
    fn of(limit: usize, body: &[u8]) -> (Frames, Frames, bool) {
        let whole = frames(limit, [body]);
        assert_eq!(frames(limit, body.chunks(1)), whole, "byte by byte: {}", String::from_utf8_lossy(body));
        for cut in 1..body.len() {
            let (left, right) = body.split_at(cut);
            assert_eq!(frames(limit, [left, right]), whole, "cut at {cut}");
        }
        whole
    }

    fn texts(frames: &Frames) -> Vec<&str> {
        frames.iter().map(|frame| frame.as_deref().unwrap()).collect()
    }

    #[test]
    fn values_come_one_by_one_out_of_an_array_or_a_row_or_alone() {
        let table: [(&str, &[&str], &[&str], bool); 15] = [
            (r#"[{"a":1},{"b":[2,{}]}]"#, &[r#"{"a":1}"#, r#"{"b":[2,{}]}"#], &[], false),
            ("\u{feff} \r\n[{}\n,\r\n{} ]\n\n", &["{}", "{}"], &[], false),
            // No blank of JSON's, but one before it begins.
            ("\r\x0c\r [{}]", &["{}"], &[], false),
            (r#"{"a":"\\\"}]{["}"#, &[r#"{"a":"\\\"}]{["}"#], &[], false),
            ("{}{}\n{}", &["{}", "{}", "{}"], &[], false),
            ("[{}][{}] {}", &["{}", "{}", "{}"], &[], false),
            (
                r#"[1, -2.5e3 ,true,"x\"",null,[[]]]"#,
                &["1", "-2.5e3", "true", r#""x\"""#, "null", "[[]]"],
                &[],
                false,
            ),
            ("{\n  \"a\": [\n  ]\n}", &["{\n  \"a\": [\n  ]\n}"], &[], false),
            ("[]", &[], &[], false),
            ("", &[], &[], false),
            (" \n", &[], &[], false),
            ("[{},", &["{}"], &[], true),
            (r#"[{},{"a"#, &["{}"], &[r#"{"a"#], true),
            (r#"{"a":"\"#, &[], &[r#"{"a":"\"#], true),
            ("{} 12", &["{}"], &["12"], false),
        ];
        for (body, ended, last, torn) in table {
            let (got_ended, got_last, got_torn) = of(64, body.as_bytes());
            assert_eq!((&*texts(&got_ended), &*texts(&got_last), got_torn), (ended, last, torn), "{body:?}");
        }
    }

    #[test]
    fn a_value_over_the_limit_is_refused_at_its_first_byte_too_many_and_ends_the_body() {
        let body = br#"[{"a":1},{"a":12},{"a":1}]"#;
        let (ended, last, _) = of(7, body);
        assert_eq!(ended, [Ok(r#"{"a":1}"#.to_owned()), Err(FrameError::too_large(7))]);
        assert_eq!(last, []);
        let endless = format!("[{{\"a\":\"{}", "x".repeat(100));
        assert_eq!(of(7, endless.as_bytes()).0, [Err(FrameError::too_large(7))]);
        // Blanks between values are no value.
        let blanks = format!("[{{}},{}{{}}]", " ".repeat(100));
        assert_eq!(texts(&of(7, blanks.as_bytes()).0), ["{}", "{}"]);
    }

    #[test]
    fn a_value_that_is_not_utf8_is_one_bad_value() {
        let (ended, ..) = of(64, b"[{\"a\":\"\xff\"},{}]");
        assert!(matches!(ended[0], Err(FrameError::NotUtf8 { valid_up_to: 6, .. })), "{ended:?}");
        assert_eq!(ended[1], Ok("{}".to_owned()));
    }

    #[test]
    fn what_stands_between_values_and_is_no_json_is_damage() {
        for body in ["[{};{}]", "{}}{}", "{}<html>"] {
            let (ended, last, _) = of(64, body.as_bytes());
            assert_eq!(ended[0], Ok("{}".to_owned()));
            assert!(matches!(ended[1], Err(FrameError::Damaged { .. })), "{body}");
            assert_eq!((ended.len(), last), (2, vec![]));
        }
    }

    #[test]
    fn a_body_that_does_not_begin_like_one_is_foreign() {
        for body in ["<html>{}", "data: {}\n\n", "\u{feff} x"] {
            let mut framer = JsonValuesFramer::new(64);
            body.bytes().for_each(|byte| {
                framer.push(&[byte]);
                assert_eq!(framer.next_frame(), None);
            });
            assert_eq!(framer.finish(), None);
            let start = framer.foreign().map(String::from_utf8_lossy).unwrap();
            assert_eq!(start, body.trim_start_matches(['\u{feff}', ' ']));
        }
        let mut long = JsonValuesFramer::new(64);
        long.push(&[b'x'; PREAMBLE_BYTES + 1]);
        assert_eq!(long.next_frame(), None);
        long.push(b"y");
        assert_eq!(long.foreign().map(<[u8]>::len), Some(PREAMBLE_BYTES));
        assert_eq!(JsonValuesFramer::new(64).foreign(), None);
    }

    #[test]
    fn what_has_been_given_out_takes_no_memory() {
        let mut framer = JsonValuesFramer::new(1 << 20);
        framer.push(b"[");
        for _ in 0..10_000 {
            framer.push(br#"{"a":"0123456789"},"#);
            assert!(framer.next_frame().is_some());
            assert_eq!(framer.next_frame(), None);
        }
        assert!(framer.bytes.capacity() <= KEPT_BYTES, "{}", framer.bytes.capacity());
    }
}
