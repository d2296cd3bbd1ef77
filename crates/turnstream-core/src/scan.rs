//! An incremental check of JSON syntax.
//!
//! A call's arguments arrive as fragments that are cut anywhere, and the ledger has to know whether the text
//! so far is one JSON value. Parsing the text again after every fragment would be quadratic; this scanner
//! looks at every byte once, when it comes.

/// An incremental scanner that says whether a text is exactly one JSON value.
///
/// It checks the syntax of RFC 8259, strictly, and nothing else: numbers may be too large for any type,
/// unpaired surrogate escapes (`"\ud83d"`) and repeated keys are accepted, as the grammar accepts them, and
/// so is any depth of nesting. It builds no value, keeps one bit a level of nesting, and never recurses.
///
/// The input is taken to be UTF-8, cut anywhere: bytes beyond ASCII are accepted inside strings, unchecked,
/// and refused everywhere else (a byte-order mark, too).
///
/// ```
/// # use turnstream_core::JsonScanner;
/// let mut scanner = JsonScanner::default();
/// scanner.push(br#"{"order_id": "A-44"#);
/// assert!(!scanner.is_complete() && !scanner.is_invalid());
/// scanner.push(br#"71"}"#);
/// assert!(scanner.is_complete());
/// scanner.push(b"{");
/// assert!(scanner.is_invalid());
/// ```
#[derive(Debug, Clone, Default)]
pub struct JsonScanner {
    state: State,
    nesting: Nesting,
}

impl JsonScanner {
    /// Takes the next bytes of the text. They may be cut anywhere, also inside an escape, a number or a
    /// character.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            match self.state {
                // Nearly all bytes of a long text lie inside strings and change nothing.
                State::String(_) => rest = behind_plain(rest),
                State::Invalid => return,
                _ => {}
            }
            let Some((&byte, after)) = rest.split_first() else { return };
            self.state = self.after(byte);
            rest = after;
        }
    }

    /// True if the text so far is exactly one JSON value, with or without white space around it.
    ///
    /// A number at the top level counts as it stands: `12` is complete, although more digits may follow.
    pub fn is_complete(&self) -> bool {
        let at_value_end = match self.state {
            State::AfterValue => true,
            State::Number(number) => number.can_end(),
            _ => false,
        };
        at_value_end && self.nesting.depth == 0
    }

    /// True if nothing but JSON white space has come, or nothing at all.
    pub fn is_blank(&self) -> bool {
        matches!(self.state, State::Start)
    }

    /// True if the text can no longer become one JSON value, whatever follows. It stays so for ever.
    pub fn is_invalid(&self) -> bool {
        matches!(self.state, State::Invalid)
    }

    /// What may come next.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// How many containers are open.
    pub(crate) fn depth(&self) -> usize {
        self.nesting.depth
    }

    fn after(&mut self, byte: u8) -> State {
        match (self.state, byte) {
            (
                State::Start
                | State::Value
                | State::FirstElement
                | State::FirstKey
                | State::Key
                | State::Colon
                | State::AfterValue,
                b' ' | b'\t' | b'\n' | b'\r',
            ) => self.state,
            (State::FirstElement, b']') | (State::FirstKey, b'}') => self.close(),
            (State::Start | State::Value | State::FirstElement, _) => self.begin_value(byte),
            (State::FirstKey | State::Key, b'"') => State::String(Role::Key),
            (State::Colon, b':') => State::Value,
            (State::AfterValue, _) => self.separate(byte),
            (State::String(Role::Key), b'"') => State::Colon,
            (State::String(Role::Value), b'"') => State::AfterValue,
            (State::String(role), b'\\') => State::Escape(role),
            (State::String(role), 0x20..) => State::String(role),
            (State::Escape(role), b'u') => State::Hex(role, 4),
            (State::Escape(role), b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                State::String(role)
            }
            (State::Hex(role, digits_left), _) if byte.is_ascii_hexdigit() => match digits_left {
                0..=1 => State::String(role),
                _ => State::Hex(role, digits_left - 1),
            },
            (State::Literal([expected, rest @ ..]), _) if byte == *expected => match rest {
                [] => State::AfterValue,
                _ => State::Literal(rest),
            },
            (State::Number(number), _) => match number.after(byte) {
                Some(longer) => State::Number(longer),
                // Only the byte behind a number shows where it ends, so that byte is looked at again.
                None if number.can_end() => {
                    self.state = State::AfterValue;
                    self.after(byte)
                }
                None => State::Invalid,
            },
            _ => State::Invalid,
        }
    }

    fn begin_value(&mut self, byte: u8) -> State {
        match byte {
            b'{' => {
                self.nesting.push(Container::Object);
                State::FirstKey
            }
            b'[' => {
                self.nesting.push(Container::Array);
                State::FirstElement
            }
            b'"' => State::String(Role::Value),
            b'-' => State::Number(Number::Minus),
            b'0' => State::Number(Number::Zero),
            b'1'..=b'9' => State::Number(Number::Integer),
            b't' => State::Literal(b"rue"),
            b'f' => State::Literal(b"alse"),
            b'n' => State::Literal(b"ull"),
            _ => State::Invalid,
        }
    }

    fn separate(&mut self, byte: u8) -> State {
        match (byte, self.nesting.innermost()) {
            (b',', Some(Container::Object)) => State::Key,
            (b',', Some(Container::Array)) => State::Value,
            (b'}', Some(Container::Object)) | (b']', Some(Container::Array)) => self.close(),
            _ => State::Invalid,
        }
    }

    fn close(&mut self) -> State {
        self.nesting.pop();
        State::AfterValue
    }
}

/// Says whether a text is exactly one JSON value, with or without white space around it, as [`JsonScanner`]
/// sees it.
///
/// ```
/// # use turnstream_core::is_json;
/// assert!(is_json(r#" {"a": [1, 2]} "#));
/// assert!(!is_json(r#"{"a": 1} {"a": 2}"#));
/// ```
pub fn is_json(text: &str) -> bool {
    let mut scanner = JsonScanner::default();
    scanner.push(text.as_bytes());
    scanner.is_complete()
}

/// What may come next.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum State {
    /// The value, and nothing but white space has come.
    #[default]
    Start,
    /// A value, behind a colon or a comma.
    Value,
    /// An element or the end of an array.
    FirstElement,
    /// A key or the end of an object.
    FirstKey,
    /// A key, behind a comma.
    Key,
    Colon,
    /// A comma or the end of the innermost container; at the top level nothing.
    AfterValue,
    String(Role),
    /// What follows a backslash.
    Escape(Role),
    /// So many hexadecimal digits of a `\u` escape.
    Hex(Role, u8),
    /// The rest of `true`, `false` or `null`; never empty.
    Literal(&'static [u8]),
    Number(Number),
    Invalid,
}

/// What a string is: it decides what may follow its end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    Key,
    Value,
}

/// How far a number has come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

impl Number {
    fn after(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Minus, b'0') => Some(Self::Zero),
            (Self::Minus | Self::Integer, b'0'..=b'9') => Some(Self::Integer),
            (Self::Zero | Self::Integer, b'.') => Some(Self::Point),
            (Self::Point | Self::Fraction, b'0'..=b'9') => Some(Self::Fraction),
            (Self::Zero | Self::Integer | Self::Fraction, b'e' | b'E') => Some(Self::Exponent),
            (Self::Exponent, b'+' | b'-') => Some(Self::ExponentSign),
            (Self::Exponent | Self::ExponentSign | Self::ExponentDigits, b'0'..=b'9') => {
                Some(Self::ExponentDigits)
            }
            _ => None,
        }
    }

    fn can_end(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::ExponentDigits)
    }
}

#[derive(Debug, Clone, Copy)]
enum Container {
    Array,
    Object,
}

/// The open containers, a bit each, so that a hostile depth costs next to nothing.
///
/// The innermost ones are kept inline: arguments of ordinary depth need no allocation.
#[derive(Debug, Clone, Default)]
struct Nesting {
    depth: usize,
    innermost: u64,
    outer: Vec<u64>,
}

impl Nesting {
    fn push(&mut self, container: Container) {
        if self.depth != 0 && self.depth.is_multiple_of(LEVELS_A_WORD) {
            self.outer.push(self.innermost);
        }
        self.innermost = self.innermost << 1 | u64::from(matches!(container, Container::Object));
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.innermost >>= 1;
        if self.depth.is_multiple_of(LEVELS_A_WORD) {
            self.innermost = self.outer.pop().unwrap_or_default();
        }
    }

    fn innermost(&self) -> Option<Container> {
        match (self.depth, self.innermost & 1) {
            (0, _) => None,
            (_, 0) => Some(Container::Array),
            _ => Some(Container::Object),
        }
    }
}

/// What follows the part of a string that changes nothing. Escapes belong to it, if they are whole and have two bytes.
fn behind_plain(mut bytes: &[u8]) -> &[u8] {
    loop {
        bytes = bytes.get(plain_run(bytes)..).unwrap_or_default();
        match bytes {
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', after @ ..] => bytes = after,
            _ => return bytes,
        }
    }
}

/// How many bytes at the start of `bytes` stay inside a string and mean nothing to the syntax.
pub(crate) fn plain_run(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks();
    for (count, word) in words.iter().enumerate() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return count * WORD_BYTES + special.trailing_zeros() as usize / 8;
        }
    }
    let is_special = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\');
    let plain = words.len() * WORD_BYTES;
    plain + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// The highest bit of the lowest byte of a word that is a quote, a backslash or a control character. Higher bits may
/// be set behind it; none is, if the word has no such byte.
fn special_bytes(word: u64) -> u64 {
    const LOWEST_BITS: u64 = u64::from_ne_bytes([1; WORD_BYTES]);
    // A byte that is less than `least` borrows from the next one, and its own highest bit was not set.
    let less_than = |word: u64, least: u8| word.wrapping_sub(LOWEST_BITS * u64::from(least)) & !word;
    let equal_to = |byte: u8| less_than(word ^ (LOWEST_BITS * u64::from(byte)), 1);
    (less_than(word, 0x20) | equal_to(b'"') | equal_to(b'\\')) & (LOWEST_BITS * 0x80)
}

const LEVELS_A_WORD: usize = u64::BITS as usize;
const WORD_BYTES: usize = size_of::<u64>();

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::*;

    const VALID: &[&str] = &[
        "0",
        "-0",
        "12",
        "-12.50",
        "1e5",
        "1E+05",
        "0.0e-0",
        "1e999",
        "123456789012345678901234567890",
        "true",
        "false",
        "null",
        " \t\r\n null \t\r\n ",
        r#""""#,
        r#""a""#,
        r#""\"\\\/\b\f\n\r\t\u00e9\uABCD""#,
        r#""\ud83d""#,
        r#""\ude00\ud83d""#,
        "\"\u{7f}\u{80}é€😀\u{feff}\"",
        r#""a string that is longer than one block, with an escape \" behind the block's end""#,
        r#""0123456789abcdef0123456789abcdef""#,
        "[]",
        "[ ]",
        "{}",
        "{ }",
        "[1]",
        "[1,-2 , 3.5e1]",
        "[[],[[]],{}]",
        r#"{"a":1}"#,
        r#"{"a":{"b":[{"c":null}]},"a":"again"}"#,
        r#" { "a" : [ true , false ] , "" : "" } "#,
        r#"{"order_id": "A-4471", "include_line_items": true, "note": "Grüße, 東京"}"#,
    ];

    const INVALID: &[&str] = &[
        "",
        " ",
        "-",
        "+1",
        "01",
        "-01",
        "00",
        "1.",
        ".5",
        "1.e5",
        "1e",
        "1e+",
        "1.5.5",
        "0x10",
        "1_000",
        "--1",
        "NaN",
        "-NaN",
        "Infinity",
        "-Infinity",
        "True",
        "tru",
        "truee",
        "nul",
        "undefined",
        "'a'",
        "a",
        r#"""#,
        r#""a"#,
        r#""\"#,
        r#""\""#,
        r#""\x41""#,
        r#""\u12""#,
        r#""\u123g""#,
        r#""\U0041""#,
        "\"\t\"",
        "\"\n\"",
        "\"\0\"",
        "\"0123456789abcde\u{1f}0123456789abcdef\"",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1,,2]",
        "[}",
        "[1}",
        "{",
        "}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{"a":1]"#,
        r#"{"a" 1}"#,
        r#"{"a"::1}"#,
        r#"{a:1}"#,
        r#"{1:1}"#,
        r#"{,}"#,
        r#"{"a":1"#,
        r#"{"a":1,"b"#,
        "1 2",
        "{}{}",
        "{} []",
        "null,",
        "[] // comment",
        "/* comment */ []",
        "\u{feff}{}",
        "\u{a0}1",
        "1\u{2028}",
        "é",
        "[é]",
    ];

    fn scanned<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> JsonScanner {
        let mut scanner = JsonScanner::default();
        pieces.into_iter().for_each(|piece| scanner.push(piece));
        scanner
    }

    fn verdict(scanner: &JsonScanner) -> (bool, bool, bool) {
        (scanner.is_complete(), scanner.is_blank(), scanner.is_invalid())
    }

    #[test]
    fn the_grammar_is_followed_strictly() {
        for text in VALID {
            assert!(is_json(text), "{text:?}");
        }
        for text in INVALID {
            assert!(!is_json(text), "{text:?}");
        }
    }

    #[test]
    fn cuts_do_not_matter() {
        for text in VALID.iter().chain(INVALID) {
            let bytes = text.as_bytes();
            let whole = verdict(&scanned([bytes]));
            assert_eq!(verdict(&scanned(bytes.chunks(1))), whole, "{text:?} byte by byte");
            for cut in 0..=bytes.len() {
                let (left, right) = bytes.split_at(cut);
                assert_eq!(verdict(&scanned([left, b"", right])), whole, "{text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn no_start_of_a_valid_text_is_invalid() {
        for text in VALID {
            for cut in 0..=text.len() {
                let start = &text.as_bytes()[..cut];
                let scanner = scanned([start]);
                assert!(!scanner.is_invalid(), "{text:?} up to {cut}");
                assert_eq!(scanner.is_blank(), start.trim_ascii().is_empty(), "{text:?} up to {cut}");
            }
        }
    }

    #[test]
    fn a_text_is_invalid_from_the_first_byte_that_cannot_be_mended() {
        let first_bad_byte = [
            ("[1,]", 3),
            ("01", 1),
            ("-a", 1),
            ("1.e", 2),
            ("nulL", 3),
            ("{}x", 2),
            ("1 2", 2),
            (r#""\u12g4""#, 5),
            ("\"ab\n", 3),
            (r#"{"a":1]"#, 6),
            ("é", 0),
        ];
        for (text, position) in first_bad_byte {
            assert!(!scanned([&text.as_bytes()[..position]]).is_invalid(), "{text:?} before {position}");
            assert!(scanned([&text.as_bytes()[..=position]]).is_invalid(), "{text:?} at {position}");
            assert!(scanned([&text.as_bytes()[..=position], b"{}"]).is_invalid(), "{text:?} later");
        }
    }

    #[test]
    fn a_number_at_the_top_is_complete_as_it_stands() {
        let mut scanner = JsonScanner::default();
        let steps =
            [("-", false), ("1", true), ("2", true), (".", false), ("5", true), ("e", false), ("7 ", true)];
        for (piece, complete) in steps {
            scanner.push(piece.as_bytes());
            assert_eq!(scanner.is_complete(), complete, "after {piece:?}");
        }
        scanner.push(b"1");
        assert!(scanner.is_invalid());
    }

    #[test]
    fn every_byte_in_a_string_is_judged_alike_at_every_place_in_a_block() {
        for before in 0..40 {
            for byte in 0..=u8::MAX {
                let mut bytes = vec![b'"'];
                bytes.resize(1 + before, b'x');
                bytes.push(byte);
                let scanner = scanned([&*bytes]);
                assert_eq!(scanner.is_invalid(), byte < 0x20, "{byte:#x} behind {before}");
                assert_eq!(scanner.is_complete(), byte == b'"', "{byte:#x} behind {before}");
            }
        }
    }

    #[test]
    fn any_depth_is_followed_and_every_closing_checked() {
        for depth in [1, 63, 64, 65, 127, 128, 129, 100_000] {
            let open: String =
                (0..depth).map(|level| if level % 3 == 0 { r#"{"k":"# } else { "[" }).collect();
            let close: String =
                (0..depth).rev().map(|level| if level % 3 == 0 { '}' } else { ']' }).collect();
            let mut scanner = scanned([open.as_bytes(), b"null"]);
            for (level, byte) in close.bytes().enumerate() {
                assert!(!scanner.is_complete(), "depth {depth}, level {level}");
                if depth < 1_000 {
                    let mut wrong = scanner.clone();
                    wrong.push(if byte == b'}' { b"]" } else { b"}" });
                    assert!(wrong.is_invalid(), "depth {depth}, level {level}");
                }
                scanner.push(&[byte]);
            }
            assert!(scanner.is_complete(), "depth {depth}");
        }
    }

    /// `IgnoredAny` judges a whole text just as the scanner does: both accept unpaired surrogate escapes, any
    /// depth and `1e999`, all of which `serde_json::Value` refuses. They differ only about texts that are no
    /// value *yet*, which this test does not ask about: serde_json calls `1.` and `-` a syntax error and not
    /// an early end, and it does not look at the digits of a `\u` escape before there are four.
    #[test]
    fn serde_json_agrees_about_every_whole_text() {
        let agree = |text: &str| {
            let expected = serde_json::from_str::<IgnoredAny>(text).is_ok();
            let scanner = scanned([text.as_bytes()]);
            assert_eq!(scanner.is_complete(), expected, "{text:?}");
            assert!(!(scanner.is_complete() && scanner.is_invalid()), "{text:?}");
        };
        VALID.iter().chain(INVALID).for_each(|text| agree(text));

        let alphabet: Vec<char> = "{}[],:\"\\/ \t\n\0\u{1f}-+.eEu0123456789abdftrunlsé😀".chars().collect();
        let mut random = Random(0x5eed);
        for _ in 0..60_000 {
            let mut text: Vec<char> = random.pick(VALID).chars().collect();
            for _ in 0..=random.below(3) {
                let position = random.below(text.len() + 1);
                let end = (position + random.below(3)).min(text.len());
                let inserted: Vec<char> = (0..random.below(3)).map(|_| *random.pick(&alphabet)).collect();
                text.splice(position..end, inserted);
            }
            agree(&text.into_iter().collect::<String>());
        }
    }

    /// A generator of our own, so that a failure comes again (xorshift64).
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as usize % bound
        }

        fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
            &items[self.below(items.len())]
        }
    }
}
