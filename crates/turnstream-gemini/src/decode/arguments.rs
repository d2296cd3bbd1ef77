//! Arguments that come in pieces, written as JSON text.
//!
//! With `streamFunctionCallArguments` the wire sends no JSON text but assignments: a path into the arguments
//! and the value there, strings in several pieces. They come in the order of the text that the model wrote, so
//! that each can be written at once, and nothing of what has been written is kept but the names in the objects
//! that are open.

use std::{borrow::Cow, collections::HashSet};

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use turnstream_core::JsonText;

/// Writes the arguments of one call.
#[derive(Debug, Default)]
pub(super) struct ArgumentWriter {
    /// The objects and arrays that are open, the arguments themselves first. Each knows its member that is
    /// being written, and so they are the path of the last value.
    open: Vec<Container>,
    /// The last value is a string that goes on.
    in_string: bool,
    /// A piece had no place in the text. Nothing more is written, so that the text stays torn.
    is_broken: bool,
}

#[derive(Debug)]
enum Container {
    Object { names: HashSet<Box<str>>, name: Box<str> },
    Array { length: usize },
}

/// One step of a path.
#[derive(Debug, PartialEq)]
enum Step<'a> {
    Name(Cow<'a, str>),
    Index(usize),
}

/// A piece of arguments, as the wire sends it. Of the values at most one is there.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Piece<'a> {
    #[serde(borrow)]
    json_path: JsonText<'a>,
    #[serde(borrow)]
    string_value: Option<&'a RawValue>,
    #[serde(borrow)]
    number_value: Option<&'a RawValue>,
    bool_value: Option<bool>,
    /// `null` and `"NULL_VALUE"` are the same here.
    #[serde(borrow, default, deserialize_with = "present")]
    null_value: Option<&'a RawValue>,
    #[serde(borrow)]
    will_continue: Option<&'a RawValue>,
}

/// The piece has no place behind what has been written: a value that has been left, an element out of order,
/// a value that JSON does not have.
#[derive(Debug, PartialEq)]
pub(super) struct Misplaced;

impl ArgumentWriter {
    /// Whether nothing has been written.
    pub(super) fn is_blank(&self) -> bool {
        self.open.is_empty()
    }

    /// Writes what a piece adds to the text.
    pub(super) fn write(&mut self, piece: &RawValue, text: &mut String) -> Result<(), Misplaced> {
        if self.is_broken {
            return Err(Misplaced);
        }
        let written = self.try_write(piece, text);
        if written.is_err() {
            self.is_broken = true;
            if self.open.is_empty() {
                // Blank arguments would be whole.
                text.push('{');
            }
        }
        written
    }

    /// Ends the text. `is_ended`: the wire said that the call is over; else the model went on to something
    /// else, and a string that was to go on stays torn.
    pub(super) fn finish(&mut self, is_ended: bool, text: &mut String) {
        if self.is_broken || (self.in_string && !is_ended) {
            return;
        }
        self.end_string(text);
        self.close_down_to(0, text);
        self.is_broken = true;
    }

    fn try_write(&mut self, piece: &RawValue, text: &mut String) -> Result<(), Misplaced> {
        let piece: Piece<'_> = serde_json::from_str(piece.get()).map_err(|_| Misplaced)?;
        let path = piece.json_path.as_str().and_then(steps).ok_or(Misplaced)?;
        // What stands between the quotes is legal between quotes again: half a character stays an escape, and
        // finds its other half in the next piece.
        let inner = match piece.string_value.map(RawValue::get) {
            Some(string) => {
                Some(string.strip_prefix('"').and_then(|s| s.strip_suffix('"')).ok_or(Misplaced)?)
            }
            None => None,
        };
        let will_continue = piece.will_continue.is_some_and(|raw| raw.get() == "true");
        let scalar = match (piece.number_value.map(RawValue::get), piece.bool_value) {
            (Some(number), _) if number.starts_with(|first: char| first == '-' || first.is_ascii_digit()) => {
                Some(number)
            }
            (Some(_), _) => return Err(Misplaced),
            (None, Some(true)) => Some("true"),
            (None, Some(false)) => Some("false"),
            (None, None) => piece.null_value.map(|_| "null"),
        };
        if self.is_at(&path) {
            return match (self.in_string, inner, scalar) {
                (true, inner, None) => {
                    text.push_str(inner.unwrap_or_default());
                    if !will_continue {
                        self.end_string(text);
                    }
                    Ok(())
                }
                // An end that was said already.
                (false, None | Some(""), None) => Ok(()),
                _ => Err(Misplaced),
            };
        }
        match (inner, scalar) {
            (Some(inner), _) => {
                self.enter(path, text)?;
                text.push('"');
                text.push_str(inner);
                self.in_string = true;
                if !will_continue {
                    self.end_string(text);
                }
            }
            (None, Some(scalar)) => {
                self.enter(path, text)?;
                text.push_str(scalar);
            }
            // A path alone says nothing.
            (None, None) => {}
        }
        Ok(())
    }

    /// Whether the last value stands at this path.
    fn is_at(&self, path: &[Step<'_>]) -> bool {
        self.open.len() == path.len()
            && self.open.iter().zip(path).all(|(container, step)| container.is_at(step))
    }

    /// Goes on to a new value: leaves what does not hold it, and opens what does.
    fn enter(&mut self, path: Vec<Step<'_>>, text: &mut String) -> Result<(), Misplaced> {
        self.end_string(text);
        // The outermost containers that the path shares with the one before. The last step names the value.
        let shared =
            self.open.iter().zip(&path).take_while(|(container, step)| container.is_at(step)).count();
        self.close_down_to((shared + 1).min(path.len()), text);
        let known = self.open.len();
        for (depth, step) in path.into_iter().enumerate().skip(known.saturating_sub(1)) {
            if depth >= known {
                let container = Container::for_step(&step);
                // The arguments are an object.
                if depth == 0 && matches!(container, Container::Array { .. }) {
                    return Err(Misplaced);
                }
                text.push(container.opening());
                self.open.push(container);
            }
            self.open.last_mut().ok_or(Misplaced)?.go_to(step, text)?;
        }
        Ok(())
    }

    fn end_string(&mut self, text: &mut String) {
        if std::mem::take(&mut self.in_string) {
            text.push('"');
        }
    }

    fn close_down_to(&mut self, depth: usize, text: &mut String) {
        while self.open.len() > depth
            && let Some(container) = self.open.pop()
        {
            text.push(container.closing());
        }
    }
}

impl Container {
    fn for_step(step: &Step<'_>) -> Self {
        match step {
            Step::Name(_) => Self::Object { names: HashSet::new(), name: Box::default() },
            Step::Index(_) => Self::Array { length: 0 },
        }
    }

    fn opening(&self) -> char {
        if matches!(self, Self::Object { .. }) { '{' } else { '[' }
    }

    fn closing(&self) -> char {
        if matches!(self, Self::Object { .. }) { '}' } else { ']' }
    }

    fn is_at(&self, step: &Step<'_>) -> bool {
        match (self, step) {
            (Self::Object { names, name }, Step::Name(wanted)) => !names.is_empty() && **name == **wanted,
            (Self::Array { length }, Step::Index(wanted)) => length.checked_sub(1) == Some(*wanted),
            _ => false,
        }
    }

    /// Begins the next member. One that has been there cannot come again, and an element has its place.
    fn go_to(&mut self, step: Step<'_>, text: &mut String) -> Result<(), Misplaced> {
        match (self, step) {
            (Self::Object { names, name }, Step::Name(next)) => {
                if !names.is_empty() {
                    text.push(',');
                }
                *name = next.into();
                if !names.insert(name.clone()) {
                    return Err(Misplaced);
                }
                text.push_str(&serde_json::to_string(name).map_err(|_| Misplaced)?);
                text.push(':');
            }
            (Self::Array { length }, Step::Index(next)) if *length == next => {
                if *length > 0 {
                    text.push(',');
                }
                *length += 1;
            }
            _ => return Err(Misplaced),
        }
        Ok(())
    }
}

/// The steps of a JSON path (RFC 9535) that names one value: `$.a[0].b`, `$['a'][0]["b"]`. `None` for any other,
/// for the root, which is no value of its own here, and for one that lies deeper than anybody reads.
fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let step;
        (step, rest) = if let Some(quoted) = rest.strip_prefix("['").or_else(|| rest.strip_prefix("[\"")) {
            let (name, behind) = quoted_name(quoted, rest.as_bytes().get(1).copied()?)?;
            (Step::Name(name), behind.strip_prefix(']')?)
        } else if let Some(index) = rest.strip_prefix('[') {
            let (index, behind) = index.split_once(']')?;
            (Step::Index(index.trim().parse().ok()?), behind)
        } else {
            // Without a dot only at the very start, where the `$` was left out.
            let name = match rest.strip_prefix('.') {
                Some(name) => name,
                None if steps.is_empty() && !path.starts_with('$') => rest,
                None => return None,
            };
            let (name, behind) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
            (Step::Name(Cow::Borrowed(not_empty(name)?)), behind)
        };
        if steps.len() == MOST_STEPS {
            return None;
        }
        steps.push(step);
    }
    (!steps.is_empty()).then_some(steps)
}

fn not_empty(name: &str) -> Option<&str> {
    Some(name).filter(|name| !name.is_empty())
}

/// The name up to its quote, and what follows the quote.
fn quoted_name(quoted: &str, quote: u8) -> Option<(Cow<'_, str>, &str)> {
    let mut bytes = quoted.bytes().enumerate();
    let mut has_escapes = false;
    let end = loop {
        match bytes.next()? {
            (end, byte) if byte == quote => break end,
            (_, b'\\') => {
                has_escapes = true;
                bytes.next()?;
            }
            _ => {}
        }
    };
    let (name, behind) = (quoted.get(..end)?, quoted.get(end + 1..)?);
    if !has_escapes {
        return Some((Cow::Borrowed(name), behind));
    }
    // A JSON string has the same escapes, but for that of the single quote, and needs one for the double.
    let mut json = String::from("\"");
    let mut characters = name.chars();
    while let Some(character) = characters.next() {
        match (character, characters.clone().next()) {
            ('\\', Some('\'')) => {
                json.push('\'');
                characters.next();
            }
            ('\\', Some(escaped)) => {
                json.extend(['\\', escaped]);
                characters.next();
            }
            ('"', _) => json.push_str("\\\""),
            _ => json.push(character),
        }
    }
    json.push('"');
    Some((Cow::Owned(serde_json::from_str(&json).ok()?), behind))
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// How deep a value may lie. Readers of JSON give up there, and every level that is open takes memory.
const MOST_STEPS: usize = 127;

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    /// The text after each piece, and the whole one at the end.
    fn written(pieces: &[Value]) -> (Vec<Result<String, Misplaced>>, String) {
        let mut writer = ArgumentWriter::default();
        let (mut each, mut whole) = (Vec::new(), String::new());
        for piece in pieces {
            let raw = serde_json::value::to_raw_value(piece).unwrap();
            let mut text = String::new();
            let result = writer.write(&raw, &mut text);
            whole += &text;
            each.push(result.map(|()| text));
        }
        writer.finish(true, &mut whole);
        (each, whole)
    }

    fn string(path: &str, value: &str, goes_on: bool) -> Value {
        match goes_on {
            true => json!({ "jsonPath": path, "stringValue": value, "willContinue": true }),
            false => json!({ "jsonPath": path, "stringValue": value }),
        }
    }

    #[test]
    fn each_piece_is_written_when_it_comes() {
        let (each, whole) = written(&[
            string("$.a.list[0].name", "Bos", true),
            string("$.a.list[0].name", "ton\n", true),
            string("$.a.list[0].name", "", false),
            json!({ "jsonPath": "$.a.list[0].ok", "boolValue": true }),
            json!({ "jsonPath": "$.a.list[1].price", "numberValue": 0.50 }),
            json!({ "jsonPath": "$.a.none", "nullValue": "NULL_VALUE" }),
            json!({ "jsonPath": "$.steps[0]", "nullValue": null }),
            string("$.steps[1]", "x", false),
        ]);
        let want = [
            r#"{"a":{"list":[{"name":"Bos"#,
            r"ton\n",
            "\"",
            r#","ok":true"#,
            r#"},{"price":0.5"#,
            r#"}],"none":null"#,
            r#"},"steps":[null"#,
            r#","x""#,
        ];
        assert_eq!(each, want.map(|text| Ok(text.to_owned())));
        assert_eq!(
            whole,
            r#"{"a":{"list":[{"name":"Boston\n","ok":true},{"price":0.5}],"none":null},"steps":[null,"x"]}"#
        );
    }

    #[test]
    fn numbers_and_escapes_are_kept_as_they_are_spelled_and_halves_meet() {
        let pieces = [
            r#"{"jsonPath":"$.n","numberValue":1.0}"#,
            r#"{"jsonPath":"$.m","numberValue":-2e+05}"#,
            r#"{"jsonPath":"$.s","stringValue":"\u00e9\ud83d","willContinue":true}"#,
            r#"{"jsonPath":"$.s","stringValue":"\ude00\/"}"#,
        ];
        let (mut writer, mut text) = (ArgumentWriter::default(), String::new());
        for piece in pieces {
            writer.write(serde_json::from_str(piece).unwrap(), &mut text).unwrap();
        }
        writer.finish(false, &mut text);
        assert_eq!(text, r#"{"n":1.0,"m":-2e+05,"s":"\u00e9\ud83d\ude00\/"}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["s"], "é😀/");
    }

    #[test]
    fn a_string_ends_with_its_last_piece_or_where_another_value_begins() {
        let want = r#"{"a":"x","b":"y"}"#;
        assert_eq!(written(&[string("$.a", "x", true), string("$.b", "y", false)]).1, want);
        assert_eq!(written(&[string("$.a", "x", true), string("$.b", "y", true)]).1, want);
        let again = [string("$.a", "x", false), string("$.a", "", false), string("$.b", "y", false)];
        assert_eq!(written(&again).1, want);
        let alone = [json!({ "jsonPath": "$.a", "willContinue": true }), string("$.a", "x", false)];
        assert_eq!(written(&alone).1, r#"{"a":"x"}"#);
    }

    #[test]
    fn what_the_model_left_without_an_end_is_whole_only_if_its_values_are() {
        let left = |goes_on| {
            let (mut writer, mut text) = (ArgumentWriter::default(), String::new());
            let piece = serde_json::value::to_raw_value(&string("$.a[0]", "x", goes_on)).unwrap();
            writer.write(&piece, &mut text).unwrap();
            writer.finish(false, &mut text);
            text
        };
        assert_eq!(left(false), r#"{"a":["x"]}"#);
        assert_eq!(left(true), r#"{"a":["x"#);
        assert_eq!(written(&[]).1, "");
    }

    #[test]
    fn what_has_no_place_is_refused_and_the_text_stays_torn() {
        let first = || string("$.a[0].b", "x", false);
        let table = [
            string("$.a[0].b", "y", false),
            string("$.a[2]", "y", false),
            string("$.a.b", "y", false),
            string("$.a[0][0]", "y", false),
            string("$", "y", false),
            string("$.a[0].b.c", "y", false),
            string("$..c", "y", false),
            string("$.c[*]", "y", false),
            string("$.c[-1]", "y", false),
            string("$['c", "y", false),
            json!({ "jsonPath": "$.c", "numberValue": "NaN" }),
            json!({ "jsonPath": "$.c", "stringValue": 7 }),
            json!({ "stringValue": "y" }),
            json!({ "jsonPath": "$.c[18446744073709551615]", "boolValue": true }),
            json!("$.c"),
        ];
        for piece in table {
            let (each, whole) = written(&[first(), piece.clone(), string("$.z", "z", false)]);
            assert_eq!(each[1..], [Err(Misplaced), Err(Misplaced)], "{piece}");
            assert!(serde_json::from_str::<Value>(&whole).is_err(), "{piece}: {whole}");
        }
        // Back in what has been left: an object cannot have a name twice.
        let (each, whole) = written(&[first(), string("$.c", "y", false), string("$.a[0].d", "z", false)]);
        assert_eq!(each[2], Err(Misplaced));
        assert!(serde_json::from_str::<Value>(&whole).is_err(), "{whole}");
        assert_eq!(written(&[string("$[0]", "x", false)]), (vec![Err(Misplaced)], "{".to_owned()));
    }

    #[test]
    fn paths_are_read_in_each_notation() {
        let name = |name: &'static str| Step::Name(Cow::Borrowed(name));
        let table = [
            ("$.a", vec![name("a")]),
            ("a.b", vec![name("a"), name("b")]),
            ("$.a[0][12].b-c", vec![name("a"), Step::Index(0), Step::Index(12), name("b-c")]),
            (r#"$['a.b']["c"]"#, vec![name("a.b"), name("c")]),
            (r#"$['it\'s "so"\\ \u00e9']"#, vec![name(r#"it's "so"\ é"#)]),
            (r#"$["\"'"].x"#, vec![name(r#""'"#), name("x")]),
            ("$['']", vec![name("")]),
            ("$.é", vec![name("é")]),
        ];
        for (path, want) in table {
            assert_eq!(steps(path), Some(want), "{path}");
        }
        for path in ["", "$", "$.", "$a", "$.a.", "$.a[", "$.a[]", "$.a[x]", "$['a'", "$['a']b"] {
            assert_eq!(steps(path), None, "{path}");
        }
    }

    #[test]
    fn a_value_deeper_than_json_is_read_is_refused_and_takes_no_memory() {
        let path = |steps: usize| format!("${}", ".a".repeat(steps));
        let (each, whole) = written(&[string(&path(MOST_STEPS), "x", false)]);
        assert!(each[0].is_ok() && serde_json::from_str::<Value>(&whole).is_ok(), "{whole}");
        let deep = path(MOST_STEPS) + ".a";
        assert_eq!(written(&[string(&deep, "x", false)]), (vec![Err(Misplaced)], "{".to_owned()));
        assert_eq!(steps(&path(1 << 20)), None);
        assert_eq!(steps(&format!("${}", "[0]".repeat(1 << 20))), None);
    }

    #[test]
    fn any_arguments_come_out_as_they_were() {
        let mut random = Random(7);
        for round in 0..2000 {
            let arguments = Value::Object(random.object(4));
            let mut pieces = Vec::new();
            random.pieces("$", &arguments, &mut pieces);
            let (each, whole) = written(&pieces);
            assert!(each.iter().all(Result::is_ok), "round {round}: {pieces:?}");
            if !pieces.is_empty() {
                let got: Value = serde_json::from_str(&whole).unwrap();
                assert_eq!(got, arguments, "round {round}: {whole}");
            }
        }
    }

    #[test]
    fn the_work_is_linear_in_a_long_string_and_in_a_long_array() {
        let mut writer = ArgumentWriter::default();
        let mut text = String::new();
        for index in 0..100_000 {
            let piece = json!({ "jsonPath": format!("$.a[{index}]"), "boolValue": true });
            writer.write(&serde_json::value::to_raw_value(&piece).unwrap(), &mut text).unwrap();
        }
        // Nothing of the array is kept but its length.
        assert_eq!(writer.open.len(), 2);
        writer.finish(true, &mut text);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["a"].as_array().unwrap().len(), 100_000);
    }

    /// Arguments by chance, the same in every run (xorshift).
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % end
        }

        /// The wire has no word for an empty object or array, so there is none.
        fn object(&mut self, depth: u64) -> Map<String, Value> {
            let names = ["a", "b.c", "it's", "\"q\"", "d[0]", "é😀", "", "back\\slash"];
            (0..=self.below(4))
                .map(|index| (names[(index * 2 + self.below(2)) as usize % 8].to_owned(), self.value(depth)))
                .collect()
        }

        fn value(&mut self, depth: u64) -> Value {
            match self.below(if depth == 0 { 4 } else { 6 }) {
                0 => json!(["", "x", "two words\n", "é😀\"\\\u{0}", "  "][self.below(5) as usize]),
                1 => json!(self.below(1000) as f64 / 8.0 - 20.0),
                2 => json!(self.below(2) == 0),
                3 => Value::Null,
                4 => Value::Object(self.object(depth - 1)),
                _ => (0..=self.below(3)).map(|_| self.value(depth - 1)).collect(),
            }
        }

        fn pieces(&mut self, path: &str, value: &Value, pieces: &mut Vec<Value>) {
            match value {
                Value::Object(fields) => {
                    for (name, value) in fields {
                        let is_plain =
                            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
                        let escaped = name.replace('\\', "\\\\").replace('\'', "\\'");
                        let step = if is_plain { format!(".{name}") } else { format!("['{escaped}']") };
                        self.pieces(&format!("{path}{step}"), value, pieces);
                    }
                }
                Value::Array(values) => {
                    for (index, value) in values.iter().enumerate() {
                        self.pieces(&format!("{path}[{index}]"), value, pieces);
                    }
                }
                Value::String(text) => {
                    let mut rest = text.chars().peekable();
                    while rest.peek().is_some() && self.below(4) > 0 {
                        let length = 1 + self.below(3) as usize;
                        let piece: String = rest.by_ref().take(length).collect();
                        pieces.push(string(path, &piece, true));
                    }
                    pieces.push(string(path, &rest.collect::<String>(), false));
                }
                Value::Number(number) => pieces.push(json!({ "jsonPath": path, "numberValue": number })),
                Value::Bool(value) => pieces.push(json!({ "jsonPath": path, "boolValue": value })),
                Value::Null => pieces.push(json!({ "jsonPath": path, "nullValue": "NULL_VALUE" })),
            }
        }
    }
}
