//! A look at a call's arguments while they are still coming, for screens and for nothing else.

use std::{
    fmt::{self, Write},
    mem,
    ops::Deref,
};

use compact_str::CompactString;

use crate::{
    raw_json::RawJson,
    scan::{JsonScanner, Role, State, plain_run},
    text::{ArgumentFragment, Arguments, assert_not_implemented},
};

/// What can be read so far of one call's arguments, for screens: the title of a document while its body is
/// still being written, the file that an edit is going to touch.
///
/// Push the fragments of one call (of one [`CallIndex`](crate::CallIndex)), in order.
///
/// ```
/// # use turnstream_core::{ArgumentFragment, CallPreview};
/// let mut preview = CallPreview::new();
/// preview.push(&ArgumentFragment::new(r#"{"title": "Lost in the \u00"#));
/// assert_eq!(preview.value().to_string(), r#"{"title": "Lost in the …"}"#);
/// preview.push(&ArgumentFragment::new(r#"e9ther", "priority": 1"#));
/// let title = preview.value().get("title").expect("the key has come");
/// assert_eq!(title.as_str(), Some("Lost in the éther"));
/// assert!(title.is_complete());
/// assert_eq!(preview.value().to_string(), r#"{"title": "Lost in the éther", "priority": …}"#);
/// ```
///
/// **Never run a tool from it.** A preview may look whole when the call is not: the model may have been cut,
/// or the provider may yet refuse. Only [`CallFinished`](crate::CallFinished) says that the call is meant, and
/// it brings the arguments. That is why a preview turns into no JSON value, no [`Arguments`] and no
/// `String`, and is not serialisable. The calls of free-form tools
/// ([`InputKind::Text`](crate::InputKind::Text)) are no JSON: show their fragments as they are.
///
/// # What is shown
///
/// - A string as far as it has come. Half an escape (`\`, `\u00`, a high surrogate whose low half may follow)
///   waits for its rest; an unpaired surrogate is U+FFFD.
/// - `true`, `false` and `null` when they are whole, and a number when the byte behind it has come, since
///   only that byte shows where the number ends. So a lone number at the top needs white space behind it.
/// - A key when it is whole. Until there is something to show of its value, that is
///   [`PreviewKind::Pending`].
/// - An object or an array with what it holds so far. An array's element is there once it can be shown.
/// - 128 levels of nesting. What lies deeper is [`PreviewKind::TooDeep`]: checked, but not kept.
///
/// What has been shown is never taken back: it grows until the whole value is there, and then it is the
/// value that a parser reads. Text that is no JSON makes the preview [broken](Self::is_broken); what was
/// readable stays.
///
/// # Cost
///
/// Every byte is looked at once, when it comes, and the memory is linear in what came. Reading
/// [`value`](Self::value) costs nothing; printing it costs its length, each time.
#[derive(Clone, Default)]
pub struct CallPreview {
    /// Knows the grammar. The preview only watches its steps.
    scanner: JsonScanner,
    /// The values, in the order of their starts: the first one is the outermost.
    nodes: Vec<Node>,
    /// The containers that are open, from the outside to the inside, as far as they are shown.
    open: Vec<usize>,
    /// The key that is coming.
    key: String,
    /// The number or literal that is coming.
    scalar: CompactString,
    /// The digits so far of the `\u` escape that is coming.
    unit: u16,
    /// A high surrogate whose low half may follow.
    high_half: Option<u16>,
}

impl CallPreview {
    /// A preview of which nothing has come.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the call's next fragment. It may be cut anywhere.
    pub fn push(&mut self, fragment: &ArgumentFragment) {
        let mut rest = fragment.as_raw_str();
        loop {
            if let State::String(role) = self.scanner.state() {
                let (plain, after) = rest
                    .split_at_checked(plain_run(rest.as_bytes()))
                    .expect("a plain run stops at an ASCII byte or at the end");
                if !plain.is_empty() {
                    self.append(role, plain);
                }
                rest = after;
            }
            let Some(&byte) = rest.as_bytes().first() else { return };
            self.step(byte);
            if self.is_broken() {
                return;
            }
            rest = rest.get(1..).expect("beyond ASCII everything is in a plain run or broken");
        }
    }

    /// What can be read so far.
    pub fn value(&self) -> PreviewValue<'_> {
        PreviewValue { preview: self, node: (!self.nodes.is_empty()).then_some(0) }
    }

    /// True if the text so far is not the beginning of one JSON value. It stays so for ever, what was readable
    /// stays too, and later fragments are ignored.
    pub fn is_broken(&self) -> bool {
        self.scanner.is_invalid()
    }

    fn step(&mut self, byte: u8) {
        let before = self.scanner.state();
        let was_too_deep = self.is_too_deep();
        self.scanner.push(&[byte]);
        if was_too_deep {
            if !self.is_too_deep() {
                self.complete_last();
            }
            return;
        }
        match (before, self.scanner.state()) {
            (_, State::Invalid) => {}
            (State::Number(_), State::Number(_)) | (State::Literal(_), State::Literal(_)) => {
                self.scalar.push(char::from(byte));
            }
            (State::Literal(_), _) => {
                self.scalar.push(char::from(byte));
                self.end_scalar();
            }
            // The byte behind a number ends it, and means something itself.
            (State::Number(_), _) => {
                self.end_scalar();
                self.structure(byte);
            }
            (State::String(_), State::Escape(_)) => {}
            (State::String(role), _) => self.end_string(role),
            (State::Escape(_), State::Hex(..)) => self.unit = 0,
            (State::Escape(role), _) => self.append(role, unescaped(byte)),
            (State::Hex(role, _), after) => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                self.unit = self.unit << 4 | digit as u16;
                if let State::String(_) = after {
                    self.append_unit(role, self.unit);
                }
            }
            _ => self.structure(byte),
        }
    }

    fn structure(&mut self, byte: u8) {
        match (byte, self.scanner.state()) {
            (b'{' | b'[', _) if self.is_too_deep() => self.place(Content::TooDeep, false),
            (b'{', _) => self.open(Content::Object(Vec::new())),
            (b'[', _) => self.open(Content::Array(Vec::new())),
            (b'}' | b']', _) => {
                let closed = self.open.pop().and_then(|container| self.nodes.get_mut(container));
                closed.expect("the scanner closes open containers only").complete = true;
            }
            (b'"', State::String(Role::Value)) => self.place(Content::String(String::new()), false),
            (_, State::Number(_) | State::Literal(_)) => self.scalar.push(char::from(byte)),
            // White space, a comma, a colon, or the start of a key.
            _ => {}
        }
    }

    fn open(&mut self, container: Content) {
        let node = self.nodes.len();
        self.place(container, false);
        self.open.push(node);
    }

    /// Puts a value where the next one belongs.
    fn place(&mut self, content: Content, complete: bool) {
        let node = self.nodes.len();
        match self.innermost() {
            Some(Content::Array(items)) => items.push(node),
            Some(Content::Object(members)) => {
                members.last_mut().expect("a value stands behind its key").value = Some(node);
            }
            _ => {}
        }
        self.nodes.push(Node { content, complete });
    }

    fn end_scalar(&mut self) {
        let scalar = mem::take(&mut self.scalar);
        let content = match &*scalar {
            "null" => Content::Null,
            "true" => Content::Bool(true),
            "false" => Content::Bool(false),
            _ => Content::Number(scalar),
        };
        self.place(content, true);
    }

    fn end_string(&mut self, role: Role) {
        self.append(role, "");
        match role {
            Role::Value => self.complete_last(),
            Role::Key => {
                let key = mem::take(&mut self.key);
                if let Some(Content::Object(members)) = self.innermost() {
                    members.push(Member { key, value: None });
                }
            }
        }
    }

    /// Appends to the string that is coming. If half a pair was held, its other half did not follow.
    fn append(&mut self, role: Role, text: &str) {
        if self.is_too_deep() {
            return;
        }
        let string = match (role, self.nodes.last_mut()) {
            (Role::Key, _) => &mut self.key,
            (Role::Value, Some(Node { content: Content::String(string), .. })) => string,
            (Role::Value, _) => return,
        };
        string.extend(self.high_half.take().map(|_| char::REPLACEMENT_CHARACTER));
        string.push_str(text);
    }

    fn append_unit(&mut self, role: Role, unit: u16) {
        if let 0xD800..=0xDBFF = unit {
            self.append(role, "");
            self.high_half = Some(unit);
            return;
        }
        let held = match unit {
            0xDC00..=0xDFFF => self.high_half.take(),
            _ => None,
        };
        for character in char::decode_utf16(held.into_iter().chain([unit])) {
            let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
            self.append(role, character.encode_utf8(&mut [0; 4]));
        }
    }

    /// An open string and what is too deep hold no other value, so they are the last one while they come.
    fn complete_last(&mut self) {
        if let Some(last) = self.nodes.last_mut() {
            last.complete = true;
        }
    }

    fn innermost(&mut self) -> Option<&mut Content> {
        let node = *self.open.last()?;
        self.nodes.get_mut(node).map(|node| &mut node.content)
    }

    fn is_too_deep(&self) -> bool {
        self.scanner.depth() > MAX_DEPTH
    }
}

impl fmt::Debug for CallPreview {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CallPreview({})", self.value())
    }
}

/// A value in a [`CallPreview`], as far as it has come.
///
/// It prints as one line, with an ellipsis where something is still open and control characters escaped:
/// `{"order_id": "A-44…"}`. That line is for reading; it is no JSON.
#[derive(Clone, Copy)]
pub struct PreviewValue<'p> {
    preview: &'p CallPreview,
    node: Option<usize>,
}

/// What a [`PreviewValue`] is, as far as that can be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PreviewKind<'p> {
    /// Nothing can be shown yet.
    Pending,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as the model wrote it: `1.0`, `-0`, `1e5`.
    Number(&'p str),
    /// A string as far as it has come, unescaped. It may hold control characters.
    String(&'p str),
    /// An array: see [`PreviewValue::items`].
    Array,
    /// An object: see [`PreviewValue::members`].
    Object,
    /// An object or array below 128 others. What it holds is not kept.
    TooDeep,
}

impl<'p> PreviewValue<'p> {
    /// What it is, to match on.
    pub fn kind(self) -> PreviewKind<'p> {
        match self.content() {
            None => PreviewKind::Pending,
            Some(Content::Null) => PreviewKind::Null,
            Some(&Content::Bool(value)) => PreviewKind::Bool(value),
            Some(Content::Number(number)) => PreviewKind::Number(number),
            Some(Content::String(text)) => PreviewKind::String(text),
            Some(Content::Array(_)) => PreviewKind::Array,
            Some(Content::Object(_)) => PreviewKind::Object,
            Some(Content::TooDeep) => PreviewKind::TooDeep,
        }
    }

    /// True if the value's end has come. The call may still be cut: see [`CallPreview`].
    pub fn is_complete(self) -> bool {
        self.node().is_some_and(|node| node.complete)
    }

    /// A string as far as it has come.
    pub fn as_str(self) -> Option<&'p str> {
        match self.kind() {
            PreviewKind::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value of an object's key; `None` if the key has not come, or this is no object.
    ///
    /// Of a repeated key the last one counts, as most parsers have it.
    pub fn get(self, key: &str) -> Option<PreviewValue<'p>> {
        self.members().rfind(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The elements of an array that can be shown so far; none if this is no array.
    pub fn items(self) -> impl DoubleEndedIterator<Item = PreviewValue<'p>> + ExactSizeIterator {
        let items = match self.content() {
            Some(Content::Array(items)) => items.as_slice(),
            _ => &[],
        };
        items.iter().map(move |&node| Self { preview: self.preview, node: Some(node) })
    }

    /// The keys of an object so far with their values, in the order in which they came; none if this is no
    /// object. Repeated keys are kept.
    pub fn members(self) -> impl DoubleEndedIterator<Item = (&'p str, PreviewValue<'p>)> + ExactSizeIterator {
        let members = match self.content() {
            Some(Content::Object(members)) => members.as_slice(),
            _ => &[],
        };
        members
            .iter()
            .map(move |Member { key, value }| (&**key, Self { preview: self.preview, node: *value }))
    }

    fn content(self) -> Option<&'p Content> {
        self.node().map(|node| &node.content)
    }

    fn node(self) -> Option<&'p Node> {
        self.preview.nodes.get(self.node?)
    }

    /// The last ellipsis of an open container, unless what it holds last is open itself and says so.
    fn fmt_rest(self, last: Option<PreviewValue<'_>>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match last {
            _ if self.is_complete() => Ok(()),
            None => formatter.write_char(ELLIPSIS),
            Some(last) if last.is_complete() => write!(formatter, ", {ELLIPSIS}"),
            Some(_) => Ok(()),
        }
    }
}

// Recursion is safe here: the depth is bounded.
impl fmt::Display for PreviewValue<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            PreviewKind::Pending | PreviewKind::TooDeep => formatter.write_char(ELLIPSIS),
            PreviewKind::Null => formatter.write_str("null"),
            PreviewKind::Bool(value) => write!(formatter, "{value}"),
            PreviewKind::Number(number) => formatter.write_str(number),
            PreviewKind::String(text) if self.is_complete() => write!(formatter, "{text:?}"),
            PreviewKind::String(text) => {
                let quoted = format!("{text:?}");
                write!(formatter, "{}{ELLIPSIS}\"", quoted.strip_suffix('"').unwrap_or(&quoted))
            }
            PreviewKind::Array => {
                formatter.write_char('[')?;
                for (position, item) in self.items().enumerate() {
                    write!(formatter, "{}{item}", separator(position))?;
                }
                self.fmt_rest(self.items().next_back(), formatter)?;
                formatter.write_char(']')
            }
            PreviewKind::Object => {
                formatter.write_char('{')?;
                for (position, (key, value)) in self.members().enumerate() {
                    write!(formatter, "{}{key:?}: {value}", separator(position))?;
                }
                self.fmt_rest(self.members().next_back().map(|(_, value)| value), formatter)?;
                formatter.write_char('}')
            }
        }
    }
}

impl fmt::Debug for PreviewValue<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PreviewValue({self})")
    }
}

// Nothing that takes arguments takes a preview.
assert_not_implemented!(
    CallPreview: fmt::Display, Deref<Target = str>, AsRef<str>, Into<String>, Into<serde_json::Value>,
    Into<Arguments>, Into<RawJson>, serde::Serialize
);
assert_not_implemented!(
    PreviewValue<'static>: Deref<Target = str>, AsRef<str>, Into<String>, Into<serde_json::Value>,
    Into<Arguments>, Into<RawJson>, serde::Serialize
);

/// A value lies beside the others, not in its container, so that nothing has to walk down to the open one.
#[derive(Clone)]
struct Node {
    content: Content,
    complete: bool,
}

/// Values inside are positions in the list of all nodes.
#[derive(Clone)]
enum Content {
    Null,
    Bool(bool),
    Number(CompactString),
    String(String),
    Array(Vec<usize>),
    Object(Vec<Member>),
    TooDeep,
}

#[derive(Clone)]
struct Member {
    key: String,
    value: Option<usize>,
}

/// What the escape of a backslash and `byte` stands for.
fn unescaped(byte: u8) -> &'static str {
    match byte {
        b'b' => "\u{8}",
        b'f' => "\u{c}",
        b'n' => "\n",
        b'r' => "\r",
        b't' => "\t",
        b'/' => "/",
        b'\\' => "\\",
        _ => "\"",
    }
}

fn separator(position: usize) -> &'static str {
    if position == 0 { "" } else { ", " }
}

const ELLIPSIS: char = '…';

/// One level more than `serde_json` parses. It is bounded so that a walk through a preview may recurse.
const MAX_DEPTH: usize = 128;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const TEXTS: &[&str] = &[
        "{}",
        " [ ] ",
        "null",
        "true",
        "false",
        "12 ",
        "-0.5e-3\n",
        r#""""#,
        r#""\"\\\/\b\f\n\r\t""#,
        r#""caf\u00e9, \u0000, \uD83D\uDE00, \ud83d\ude00!""#,
        "\"Grüße, 東京 😀\u{7f}, and long enough for more than one block\"",
        "[1.0, -0, 1e5, 1E+05, 0.25, 12345678901234567890, -7]",
        r#"[[], [[]], {}, [{"a": {}}], "", null, [true, [false]]]"#,
        r#"{"order_id": "A-4471", "lines": [{"sku": "x", "n": 2}, {"sku": "y"}], "gift": false}"#,
        r#"{ "" : "" , "k\u00e9y \ud83d\ude00\n" : { "b" : [ { "c" : null } ] } , "z" : 1 }"#,
        r#"{"a": 1, "a": {"b": 2}, "c": [], "a": "last"}"#,
        r#"{"brackets": "}]{[,:\"", "tru": "tru", "n": 1}"#,
    ];

    const BROKEN: &[(&str, &str)] = &[
        (r#"{"a": 1, "b": [tru3"#, r#"{"a": 1, "b": […]}"#),
        (r#"{"a": "x\q"}"#, r#"{"a": "x…"}"#),
        (r#"{"a": "\ud83d\u12g4"}"#, r#"{"a": "…"}"#),
        ("{\"a\": \"two\nlines\"}", r#"{"a": "two…"}"#),
        ("[1é]", "[…]"),
        ("[\"x\", \u{feff}1]", r#"["x", …]"#),
        (r#"{"a": 1]"#, r#"{"a": …}"#),
        (r#"{"a": 01}"#, r#"{"a": …}"#),
        ("{} {", "{}"),
        ("I am prose", "…"),
    ];

    fn preview_of<'t>(pieces: impl IntoIterator<Item = &'t str>) -> CallPreview {
        let mut preview = CallPreview::new();
        pieces.into_iter().for_each(|piece| preview.push(&ArgumentFragment::new(piece)));
        preview
    }

    fn cuts(text: &str) -> impl Iterator<Item = (&str, &str)> {
        (0..=text.len()).filter_map(|cut| text.split_at_checked(cut))
    }

    fn characters(text: &str) -> impl Iterator<Item = &str> {
        text.split("").filter(|character| !character.is_empty())
    }

    fn to_json(value: PreviewValue<'_>) -> Value {
        assert!(value.is_complete(), "{value}");
        match value.kind() {
            PreviewKind::Null => Value::Null,
            PreviewKind::Bool(value) => value.into(),
            PreviewKind::Number(number) => serde_json::from_str(number).unwrap(),
            PreviewKind::String(text) => text.into(),
            PreviewKind::Array => value.items().map(to_json).collect(),
            PreviewKind::Object => value.members().map(|(key, value)| (key, to_json(value))).collect(),
            PreviewKind::Pending | PreviewKind::TooDeep => panic!("not shown: {value}"),
        }
    }

    /// True if `late` is what `early` can have grown into.
    fn is_prefix_of(early: PreviewValue<'_>, late: PreviewValue<'_>) -> bool {
        if early.is_complete() {
            return late.is_complete() && early.to_string() == late.to_string();
        }
        match (early.kind(), late.kind()) {
            (PreviewKind::Pending, _) | (PreviewKind::TooDeep, PreviewKind::TooDeep) => true,
            (PreviewKind::String(early), PreviewKind::String(late)) => late.starts_with(early),
            (PreviewKind::Array, PreviewKind::Array) => {
                early.items().len() <= late.items().len()
                    && early.items().rev().skip(1).all(PreviewValue::is_complete)
                    && early.items().zip(late.items()).all(|(early, late)| is_prefix_of(early, late))
            }
            (PreviewKind::Object, PreviewKind::Object) => {
                early.members().len() <= late.members().len()
                    && early.members().rev().skip(1).all(|(_, value)| value.is_complete())
                    && early.members().zip(late.members()).all(
                        |((early_key, early_value), (late_key, late_value))| {
                            early_key == late_key && is_prefix_of(early_value, late_value)
                        },
                    )
            }
            _ => false,
        }
    }

    #[test]
    fn cut_anywhere_the_last_preview_is_what_a_parser_reads_and_every_earlier_one_its_beginning() {
        for text in TEXTS {
            let expected: Value = serde_json::from_str(text).unwrap();
            let whole = preview_of(characters(text));
            assert_eq!(to_json(whole.value()), expected, "{text}");
            for (start, rest) in cuts(text) {
                let early = preview_of([start]);
                assert!(!early.is_broken(), "{start}");
                assert!(is_prefix_of(early.value(), whole.value()), "{start} shows {early:?}");

                let late = preview_of([start, "", rest]);
                assert_eq!(to_json(late.value()), expected, "{start} | {rest}");
                assert_eq!(late.value().to_string(), whole.value().to_string(), "{start} | {rest}");
            }
        }
    }

    #[test]
    fn what_was_readable_of_a_broken_text_stays() {
        for (text, shown) in BROKEN {
            for (start, rest) in cuts(text) {
                let early = preview_of([start]);
                let mut broken = preview_of([start, rest]);
                assert!(is_prefix_of(early.value(), broken.value()), "{start} shows {early:?}");
                assert_eq!((broken.is_broken(), &*broken.value().to_string()), (true, *shown), "{text}");
                broken.push(&ArgumentFragment::new(r#"", "more": 1}"#));
                assert_eq!((broken.is_broken(), &*broken.value().to_string()), (true, *shown), "{text}");
            }
        }
    }

    #[test]
    fn a_preview_prints_as_one_line_with_an_ellipsis_where_it_is_open() {
        let shown = [
            ("", "…"),
            ("{", "{…}"),
            (r#"{"order"#, "{…}"),
            (r#"{"order""#, r#"{"order": …}"#),
            (r#"{"order": tru"#, r#"{"order": …}"#),
            (r#"{"order": true"#, r#"{"order": true, …}"#),
            (r#"{"order": true}"#, r#"{"order": true}"#),
            ("[1, 2", "[1, …]"),
            ("[1, 2,", "[1, 2, …]"),
            (r#"[[], {"a": ["#, r#"[[], {"a": […]}]"#),
            (r#"{"a": "one\ntwo \u001b"#, r#"{"a": "one\ntwo \u{1b}…"}"#),
            (r#"["\\"#, r#"["\\…"]"#),
            (r#"["\"#, r#"["…"]"#),
            (r#"["\u00e"#, r#"["…"]"#),
            (r#"["x\ud83d"#, r#"["x…"]"#),
            (r#"["x\ud83d\ud"#, r#"["x…"]"#),
            (r#"["x\ud83d\ude00"#, r#"["x😀…"]"#),
        ];
        for (text, line) in shown {
            assert_eq!(preview_of([text]).value().to_string(), line, "{text}");
        }
    }

    #[test]
    fn unpaired_surrogates_are_replaced() {
        for text in [r#""\ude00""#, r#""\ud83d""#, r#""\ud83d\n""#, r#""\ud83dx""#, r#""\ud83d\ud83d\ude00""#]
        {
            let lossy: crate::JsonText<'_> = serde_json::from_str(text).unwrap();
            assert_eq!(preview_of(characters(text)).value().as_str(), Some(&*lossy.to_lossy()), "{text}");
            let object = format!(r#"{{{text}: 1}}"#);
            let key = preview_of(characters(&object));
            assert_eq!(
                key.value().get(&lossy.to_lossy()).unwrap().kind(),
                PreviewKind::Number("1"),
                "{text}"
            );
        }
    }

    #[test]
    fn of_a_repeated_key_all_values_are_kept_and_the_last_one_counts() {
        let preview = preview_of([r#"{"a": 1, "b": 2, "a": "#]);
        assert_eq!(preview.value().members().len(), 3);
        assert_eq!(preview.value().get("a").unwrap().kind(), PreviewKind::Pending);
        assert_eq!(preview.value().get("b").unwrap().kind(), PreviewKind::Number("2"));
        assert!(preview.value().get("c").is_none());
    }

    #[test]
    fn what_lies_too_deep_is_followed_but_not_kept() {
        for depth in [MAX_DEPTH, MAX_DEPTH + 1, 100_000] {
            let open: String =
                (0..depth).map(|level| if level % 2 == 0 { "[" } else { r#"{"k":"# }).collect();
            let close: String =
                (0..depth).rev().map(|level| if level % 2 == 0 { ']' } else { '}' }).collect();
            let start = format!(r#"[{open}["a]\ud83d"#);
            let preview = preview_of(characters(&format!(r#"{start}", 1, {{"b": "c"}}]{close}, "behind"]"#)));
            assert_eq!(preview.nodes.len(), MAX_DEPTH + 2, "the containers, what is too deep, and a string");
            assert!(preview.value().is_complete() && !preview.is_broken());
            assert_eq!(preview.value().items().next_back().unwrap().as_str(), Some("behind"));
            assert_eq!(preview.value().to_string().matches(ELLIPSIS).count(), 1);

            let early = preview_of([&*start]);
            assert!(!early.is_broken() && is_prefix_of(early.value(), preview.value()));
            assert_eq!(early.value().to_string().matches(ELLIPSIS).count(), 1);
            assert!(preview_of([&*start, "\", }"]).is_broken());
        }
    }

    #[test]
    fn whatever_a_parser_can_read_is_shown_whole() {
        let parsable = MAX_DEPTH - 1;
        let text = format!("{}{}", "[".repeat(parsable), "]".repeat(parsable));
        assert_eq!(to_json(preview_of([&*text]).value()), serde_json::from_str::<Value>(&text).unwrap());
        assert!(serde_json::from_str::<Value>(&format!("[{text}]")).is_err());
    }
}
