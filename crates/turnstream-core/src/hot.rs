//! The quick way for hot frames. A stream says the same envelope thousands of times, around texts that differ:
//! what was read once need not be read again.
//!
//! It is exact, and no guess. A frame is recognised only if it is, byte for byte, one that was read before, but
//! for the inside of *one* JSON string, its text; at most one object, which the wire reads by itself; the values
//! of fields that the wire never reads; and padding. Such a frame reads as the first one did, with the other text. Everything else, also every text that is
//! not plainly a text (half of a surrogate pair), goes the long way.

use memchr::memchr2;

use crate::{
    frame::Frame,
    json_text::{JsonText, first_escape},
};

/// The hot frames of one stream, and what each means to its wire.
///
/// ```
/// # use turnstream_core::{Frame, HotFrames};
/// let mut hot = HotFrames::new(&["n"]);
/// let frame = |data| Frame { event: "", data };
/// let first = r#"{"n":1,"index":0,"text":"Hel"}"#;
/// assert!(hot.recognise(frame(first)).is_none());
/// hot.learn(frame(first), &first[25..28], None, "the text of block 0");
///
/// let hot_frame = hot.recognise(frame(r#"{"n":2,"index":0,"text":"lo\n"}"#)).unwrap();
/// assert_eq!((*hot_frame.meaning, hot_frame.text.as_str()), ("the text of block 0", Some("lo\n")));
/// assert!(hot.recognise(frame(r#"{"n":3,"index":1,"text":"!"}"#)).is_none());
/// ```
#[derive(Debug)]
pub struct HotFrames<M> {
    passed_over: &'static [&'static str],
    shapes: Vec<Shape<M>>,
    /// The shape that matched last: hot frames come in runs.
    latest: usize,
    /// How many shapes were learned since one matched.
    wasted: usize,
    /// A text that had escapes. Kept, so that the next one costs no allocation.
    unescaped: String,
}

/// A frame that is like one that was learned.
#[derive(Debug)]
#[non_exhaustive]
pub struct HotFrame<'f, M> {
    /// What the frame means.
    pub meaning: &'f M,
    /// Its text.
    pub text: JsonText<'f>,
    /// Its object, as it stands, if what was learned has one. Its brackets meet, and no more is known of it.
    pub object: Option<&'f str>,
}

impl<M> HotFrames<M> {
    /// Knows no frame yet. `passed_over` names the fields that the wire never reads, at any depth, and whose
    /// values change from frame to frame: sequence numbers, padding.
    pub fn new(passed_over: &'static [&'static str]) -> Self {
        Self { passed_over, shapes: Vec::new(), latest: 0, wasted: 0, unescaped: String::new() }
    }

    /// What a frame means, and its text, if it is like one that was learned.
    pub fn recognise<'f>(&'f mut self, frame: Frame<'f>) -> Option<HotFrame<'f, M>> {
        let Self { shapes, latest, unescaped, .. } = self;
        let (index, found) = match shapes.get(*latest)?.find_in(frame, unescaped) {
            Some(found) => (*latest, found),
            None => shapes
                .iter()
                .enumerate()
                .find_map(|(index, shape)| Some((index, shape.find_in(frame, unescaped)?)))?,
        };
        *latest = index;
        self.wasted = 0;
        let text = JsonText::from(found.text.unwrap_or(&self.unescaped));
        Some(HotFrame { meaning: &self.shapes.get(index)?.meaning, text, object: found.object })
    }

    /// Learns a frame that was read the long way: all that it means is `meaning`, of `text` and of `object`, if
    /// there is one that changes from frame to frame and is read by itself. Where they are no pieces of the frame,
    /// as a text that had escapes, nothing is learned.
    pub fn learn(&mut self, frame: Frame<'_>, text: &str, object: Option<&str>, meaning: M) {
        // A stream that does not repeat itself is left alone.
        if self.wasted >= MOST_WASTED || frame.data.len() > text.len().saturating_add(MOST_ENVELOPE) {
            return;
        }
        let Some(shape) = Shape::of(frame, text, object, self.passed_over, meaning) else { return };
        self.wasted += 1;
        if self.shapes.len() < MOST_SHAPES {
            self.shapes.push(shape);
            self.latest = self.shapes.len() - 1;
        } else {
            self.latest = (self.latest + 1) % MOST_SHAPES;
            if let Some(old) = self.shapes.get_mut(self.latest) {
                *old = shape;
            }
        }
    }
}

/// A frame with holes.
#[derive(Debug)]
struct Shape<M> {
    event: Box<str>,
    pieces: Vec<Piece>,
    meaning: M,
}

#[derive(Debug, PartialEq)]
enum Piece {
    Literal(Box<str>),
    /// The inside of the text's string.
    Text,
    /// The object that is read by itself.
    Object,
    /// A whole number that nobody reads.
    Number,
    /// The inside of a string that nobody reads.
    Word,
    /// Blanks in front of a closing bracket.
    Padding,
}

/// What stands in a frame's holes.
#[derive(Default)]
struct Found<'f> {
    /// The text as it stands; `None` for one that had escapes.
    text: Option<&'f str>,
    object: Option<&'f str>,
}

impl<M> Shape<M> {
    /// The shape of a frame, which is JSON.
    fn of(
        frame: Frame<'_>,
        text: &str,
        object: Option<&str>,
        passed_over: &[&str],
        meaning: M,
    ) -> Option<Self> {
        let data = frame.data;
        let text_start = place_of(text, data)?;
        let object = match object {
            Some(object) => Some((place_of(object, data)?, object.len())),
            None => None,
        };
        let (mut pieces, mut literal, mut at) = (Vec::new(), 0, 0);
        let (mut has_text, mut has_object) = (false, object.is_none());
        // Ends the literal in front of a hole, and goes on behind it.
        let mut hole = |pieces: &mut Vec<Piece>, piece, start, end| {
            pieces.push(Piece::Literal(data.get(literal..start).unwrap_or_default().into()));
            pieces.push(piece);
            literal = end;
        };
        let mut name = "";
        while let Some(byte) = data.as_bytes().get(at) {
            let start = at + 1;
            match byte {
                b'{' if object.is_some_and(|(place, _)| place == at) => {
                    let end = at + object.map_or(0, |(_, length)| length);
                    hole(&mut pieces, Piece::Object, at, end);
                    (name, at, has_object) = ("", end, true);
                }
                b'"' => {
                    let inside = string(data.get(start..)?)?;
                    let end = start + inside.len();
                    if start == text_start {
                        hole(&mut pieces, Piece::Text, start, end);
                        has_text = true;
                    } else if passed_over.contains(&name) && is_word(inside) {
                        hole(&mut pieces, Piece::Word, start, end);
                    }
                    name = if data.get(end + 1..)?.starts_with(':') { inside } else { "" };
                    at = end + 1;
                }
                b'0'..=b'9' if passed_over.contains(&name) => {
                    let end = at + number(data.get(at..)?)?.len();
                    if data.get(end..)?.starts_with([',', '}']) {
                        hole(&mut pieces, Piece::Number, at, end);
                    }
                    (name, at) = ("", end);
                }
                byte if is_blank(*byte) => {
                    let rest = data.get(at..)?.trim_start_matches(BLANKS);
                    let end = data.len() - rest.len();
                    if rest.starts_with('}') {
                        hole(&mut pieces, Piece::Padding, at, end);
                    }
                    at = end;
                }
                b':' => at = start,
                _ => (name, at) = ("", start),
            }
        }
        pieces.push(Piece::Literal(data.get(literal..)?.into()));
        (has_text && has_object).then(|| Self { event: frame.event.into(), pieces, meaning })
    }

    /// What stands in the holes of a frame of this shape. A text with escapes is written into `unescaped`.
    fn find_in<'f>(&self, frame: Frame<'f>, unescaped: &mut String) -> Option<Found<'f>> {
        if frame.event != &*self.event {
            return None;
        }
        let (mut rest, mut found) = (frame.data, Found::default());
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => rest = rest.strip_prefix(&**literal)?,
                Piece::Text => {
                    let (plain, after) = plain(rest)?;
                    if after.starts_with('"') {
                        (found.text, rest) = (Some(plain), after);
                    } else {
                        rest = unescape(rest, unescaped)?;
                    }
                }
                Piece::Object => {
                    let (object, after) = object(rest)?;
                    (found.object, rest) = (Some(object), after);
                }
                Piece::Number => rest = rest.get(number(rest)?.len()..)?,
                Piece::Word => {
                    let (word, after) = plain(rest)?;
                    rest = is_word(word).then_some(after)?;
                }
                Piece::Padding => rest = rest.trim_start_matches(BLANKS),
            }
        }
        rest.is_empty().then_some(found)
    }
}

/// Where a piece that is not empty stands in the data that it was taken from.
fn place_of(piece: &str, data: &str) -> Option<usize> {
    let place = (piece.as_ptr() as usize).checked_sub(data.as_ptr() as usize)?;
    let is_there = !piece.is_empty() && data.get(place..)?.get(..piece.len())? == piece;
    is_there.then_some(place)
}

/// An object up to the bracket that closes it, and what follows.
fn object(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    if !text.starts_with('{') {
        return None;
    }
    // Objects of this kind are short and all brackets and quotes: a search would not pay.
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.split_at_checked(at + 1);
        }
    }
    None
}

/// The inside of a JSON string, from its first byte to its quote, as it stands.
fn string(inside: &str) -> Option<&str> {
    let mut end = 0;
    loop {
        end += memchr2(b'"', b'\\', inside.as_bytes().get(end..)?)?;
        match inside.as_bytes().get(end)? {
            b'"' => return inside.get(..end),
            _ => end += 2,
        }
    }
}

/// The inside of a JSON string up to its quote or its first escape, and what follows.
fn plain(inside: &str) -> Option<(&str, &str)> {
    inside.split_at_checked(memchr2(b'"', b'\\', inside.as_bytes())?)
}

/// Writes out the inside of a JSON string, and gives what follows. `None` for what is no text.
fn unescape<'f>(inside: &'f str, text: &mut String) -> Option<&'f str> {
    text.clear();
    let mut rest = inside;
    loop {
        // Between escapes there is little: a search would not pay.
        let end = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\'))?;
        let (plain, after) = rest.split_at_checked(end)?;
        text.push_str(plain);
        if after.starts_with('"') {
            return Some(after);
        }
        let (character, after) = first_escape(after)?;
        text.push(character);
        rest = after;
    }
}

/// A whole number without a sign, as JSON spells it.
fn number(text: &str) -> Option<&str> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let number = text.get(..end)?;
    (number == "0" || !number.starts_with('0')).then_some(number).filter(|number| !number.is_empty())
}

/// Whether the inside of a string is one for every reader, as it stands.
fn is_word(inside: &str) -> bool {
    inside.bytes().all(|byte| byte >= b' ' && byte != b'\\')
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// A turn has a text, a reasoning and perhaps calls at once.
const MOST_SHAPES: usize = 4;
const MOST_WASTED: usize = 16;
const MOST_ENVELOPE: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Deserialize)]
    struct Delta<'a> {
        #[serde(borrow)]
        text: JsonText<'a>,
        #[serde(borrow)]
        object: Option<&'a RawValue>,
    }

    fn frame(data: &str) -> Frame<'_> {
        Frame { event: "delta", data }
    }

    /// Has read one frame the long way.
    fn learned(data: &str) -> HotFrames<u8> {
        let mut hot = HotFrames::new(&["n", "pad"]);
        let delta: Delta<'_> = serde_json::from_str(data).unwrap();
        hot.learn(frame(data), delta.text.as_str().unwrap(), delta.object.map(RawValue::get), 7);
        hot
    }

    fn text(hot: &mut HotFrames<u8>, data: &str) -> Option<String> {
        let HotFrame { meaning, text, .. } = hot.recognise(frame(data))?;
        assert_eq!(*meaning, 7);
        Some(text.as_str().unwrap().to_owned())
    }

    #[test]
    fn whatever_is_recognised_reads_as_serde_reads_it() {
        let insides = [
            "",
            "b",
            "über 😀",
            "\u{1}\t",
            "\\n",
            "a\\\"b",
            "\\\\",
            "\\/",
            "\\b\\f\\r\\t",
            "\\u00e9",
            "\\uD83D\\uDE00",
            "\\u0000",
            "\\u",
            "\\u00g0",
            "\\x",
            "\\ud83d",
            "\\ude00",
            "\\ud83dx",
            "\\ud83d\\n",
            "\\u+0e9",
            "\\",
            "a\"",
            "\"",
            "a\\\\\\\"",
        ];
        let mut hot = learned(r#"{"a":[1,{"text":"no"}],"text":"first","b":null}"#);
        let mut recognised = 0;
        for inside in insides {
            for tail in ["", " ", "}"] {
                let data =
                    format!("{{\"a\":[1,{{\"text\":\"no\"}}],\"text\":\"{inside}\",\"b\":null}}{tail}");
                let Some(quick) = text(&mut hot, &data) else { continue };
                recognised += 1;
                let slow: Delta<'_> = serde_json::from_str(&data).unwrap();
                assert_eq!(Some(&*quick), slow.text.as_str(), "{data}");
            }
        }
        assert_eq!(recognised, 13);
    }

    #[test]
    fn any_other_byte_of_the_envelope_is_another_frame() {
        let data = r#"{"n":12,"index":0,"delta":{"x":"y"},"text":"t","pad":"abc"}"#;
        let mut hot = learned(data);
        let holes = [data.find("12"), data.find("12").map(|at| at + 1), data.find("\"t\"").map(|at| at + 1)];
        let pad = data.find("abc").unwrap();
        for at in 0..data.len() {
            for byte in ["~", "9", "\"", " ", "\\", "{", "}"] {
                let mut other = data.to_owned();
                other.replace_range(at..=at, byte);
                if holes.contains(&Some(at)) || (pad..pad + 3).contains(&at) || other == data {
                    // Inside of a hole it may be the same frame; then it must be JSON.
                    if text(&mut hot, &other).is_some() {
                        serde_json::from_str::<serde_json::Value>(&other).unwrap();
                    }
                    continue;
                }
                assert_eq!(text(&mut hot, &other), None, "{other}");
            }
        }
        assert_eq!(hot.recognise(Frame { event: "other", data }).map(|hot| *hot.meaning), None);
    }

    #[test]
    fn numbers_words_and_padding_that_nobody_reads_may_change() {
        let mut hot = learned(r#"{"n":9,"text":"t","pad":"x" }"#);
        for data in [r#"{"n":10,"text":"t","pad":""}"#, r#"{"n":0,"text":"t","pad":"éé"    }"#] {
            assert_eq!(text(&mut hot, data).as_deref(), Some("t"), "{data}");
        }
        for data in [
            r#"{"n":010,"text":"t","pad":""}"#,
            r#"{"n":,"text":"t","pad":""}"#,
            r#"{"n":1.5,"text":"t","pad":""}"#,
            r#"{"n":1,"text":"t","pad":"\n"}"#,
            "{\"n\":1,\"text\":\"t\",\"pad\":\"\n\"}",
        ] {
            assert_eq!(text(&mut hot, data), None, "{data}");
        }
    }

    #[test]
    fn a_string_that_looks_like_a_field_is_none() {
        let mut hot = learned(r#"{"a":"\"n\":1","n":"x\"","text":"t"}"#);
        assert_eq!(text(&mut hot, r#"{"a":"\"n\":1","n":"x\"","text":"u"}"#).as_deref(), Some("u"));
        assert_eq!(text(&mut hot, r#"{"a":"\"n\":2","n":"x\"","text":"u"}"#), None);
        let mut hot = learned(r#"{"a":["n",1],"text":"t"}"#);
        assert_eq!(text(&mut hot, r#"{"a":["n",2],"text":"t"}"#), None);
    }

    #[test]
    fn a_text_that_had_escapes_is_not_learned() {
        let data = r#"{"text":"a\n"}"#;
        let mut hot = HotFrames::new(&[]);
        hot.learn(frame(data), "a\n", None, 7);
        assert_eq!(text(&mut hot, data), None);
    }

    #[test]
    fn an_object_that_is_read_by_itself_is_handed_out_as_it_stands() {
        let mut hot = learned(r#"{"x":{"object":{"a":1}},"text":"t","object":{"a":1},"b":[]}"#);
        for object in ["{}", r#"{"a":{"b":"}\"{"},"c":[{}]}"#, "{]}"] {
            let data = format!(r#"{{"x":{{"object":{{"a":1}}}},"text":"u","object":{object},"b":[]}}"#);
            let found = hot.recognise(frame(&data)).unwrap();
            assert_eq!((found.text.as_str(), found.object), (Some("u"), Some(object)));
        }
        for object in ["7", "null", "{", r#"{"a":"}"#, "}{", "[{}]", "{}{}"] {
            let data = format!(r#"{{"x":{{"object":{{"a":1}}}},"text":"u","object":{object},"b":[]}}"#);
            assert_eq!(text(&mut hot, &data), None, "{data}");
        }
        assert_eq!(text(&mut hot, r#"{"x":{"object":{"a":2}},"text":"u","object":{},"b":[]}"#), None);
    }

    #[test]
    fn several_shapes_are_known_at_once_and_the_oldest_gives_way() {
        let data = |index: usize| format!(r#"{{"index":{index},"text":"t"}}"#);
        let mut hot = HotFrames::new(&[]);
        for index in 0..=MOST_SHAPES {
            let data = data(index);
            hot.learn(frame(&data), &data[data.len() - 3..data.len() - 2], None, 7);
        }
        let known = |hot: &mut _| {
            (0..=MOST_SHAPES).filter(|index| text(hot, &data(*index)).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(known(&mut hot), [1, 2, 3, 4]);
    }

    #[test]
    fn a_stream_that_never_repeats_itself_is_left_alone() {
        let mut hot = HotFrames::new(&[]);
        for index in 0..100 {
            let data = format!(r#"{{"index":{index},"text":"t"}}"#);
            hot.learn(frame(&data), &data[data.len() - 3..data.len() - 2], None, 7);
        }
        assert_eq!(text(&mut hot, r#"{"index":15,"text":"t"}"#).as_deref(), Some("t"));
        assert_eq!(text(&mut hot, r#"{"index":99,"text":"t"}"#), None);
    }
}
