//! Texts out of JSON strings, read leniently.
//!
//! Models cut their output between tokens, and a token can be half a character: an emoji then comes as
//! `"\ud83d"` in one event and `"\ude00"` in the next. Each is legal JSON, but no Unicode text, and a
//! `String` refuses it. [`JsonText`] takes it, and [`SurrogateJoiner`] puts the halves together.

use std::{borrow::Cow, fmt};

use compact_str::CompactString;
use serde::{
    Deserialize, Deserializer,
    de::{self, Unexpected, Visitor},
};

use crate::scan::plain_run;

/// The text of one JSON string, which may hold unpaired surrogates.
///
/// It borrows from the JSON where that is possible, and short texts that had escapes lie inline, so that
/// neither allocates. In a struct the field needs `#[serde(borrow)]`; `Option<JsonText>` reads a `null`.
///
/// Unpaired surrogates are taken from `serde_json` reading text, not from a `serde_json::Value`, nor inside
/// `flatten` or an untagged or internally tagged enum: there serde makes a `String` first. Asked in this way,
/// `serde_json` also lets raw control characters through, which a `String` refuses.
///
/// ```
/// # use turnstream_core::JsonText;
/// #[derive(serde::Deserialize)]
/// struct Delta<'a> {
///     #[serde(borrow)]
///     content: Option<JsonText<'a>>,
/// }
/// let delta: Delta = serde_json::from_str(r#"{"content": "caf\u00e9"}"#)?;
/// assert_eq!(delta.content.as_ref().and_then(JsonText::as_str), Some("café"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone)]
pub struct JsonText<'a>(Text<'a>);

/// Puts together a text that comes in pieces, where a surrogate pair may be cut between two of them.
///
/// One joiner belongs to one text: one part, one call.
///
/// ```
/// # use turnstream_core::{JsonText, SurrogateJoiner};
/// let high: JsonText = serde_json::from_str(r#""so \ud83d""#)?;
/// let low: JsonText = serde_json::from_str(r#""\ude00!""#)?;
/// let mut joiner = SurrogateJoiner::default();
/// assert_eq!(joiner.join(&high), "so ");
/// assert_eq!(joiner.join(&low), "😀!");
/// assert_eq!(joiner.flush(), None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct SurrogateJoiner {
    held: Option<u16>,
}

impl<'a> JsonText<'a> {
    /// The text, if it was borrowed: it stood in the JSON as it is.
    pub fn as_borrowed(&self) -> Option<&'a str> {
        match self.0 {
            Text::Borrowed(text) => Some(text),
            Text::Owned(_) | Text::Wtf8(_) => None,
        }
    }

    /// The text, or `None` if it holds unpaired surrogates.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Text::Borrowed(text) => Some(text),
            Text::Owned(text) => Some(text),
            Text::Wtf8(_) => None,
        }
    }

    /// The text in [WTF-8](https://wtf-8.codeberg.page/): UTF-8 in which an unpaired surrogate stands as
    /// three bytes.
    pub fn as_wtf8(&self) -> &[u8] {
        match &self.0 {
            Text::Borrowed(text) => text.as_bytes(),
            Text::Owned(text) => text.as_bytes(),
            Text::Wtf8(bytes) => bytes,
        }
    }

    /// True if the string is `""`. An unpaired surrogate is not nothing.
    pub fn is_empty(&self) -> bool {
        self.as_wtf8().is_empty()
    }

    /// The text with U+FFFD for each unpaired surrogate. For one text of several pieces use
    /// [`SurrogateJoiner`].
    pub fn to_lossy(&self) -> Cow<'_, str> {
        let mut joiner = SurrogateJoiner::default();
        let mut text = joiner.join(self);
        if let Some(replacement) = joiner.flush() {
            text.to_mut().push(replacement);
        }
        text
    }
}

impl<'a> From<&'a str> for JsonText<'a> {
    fn from(text: &'a str) -> Self {
        Self(Text::Borrowed(text))
    }
}

/// Texts are equal if they say the same, wherever they are kept.
impl PartialEq for JsonText<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_wtf8() == other.as_wtf8()
    }
}

impl Eq for JsonText<'_> {}

impl fmt::Debug for JsonText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JsonText").field(&self.to_lossy()).finish()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Asked for bytes, serde_json hands an unpaired surrogate over as WTF-8; asked for a string, it
        // fails.
        deserializer.deserialize_bytes(TextVisitor).map(Self)
    }
}

impl SurrogateJoiner {
    /// The next piece of the text, as far as it can be said.
    ///
    /// A high half at its end is held back. If the next piece that is not empty begins with a low half, the
    /// character stands in front of that piece, and else U+FFFD does. Any other unpaired half becomes U+FFFD.
    ///
    /// A piece that is valid, while nothing is held, is lent as it is.
    pub fn join<'t>(&mut self, text: &'t JsonText<'_>) -> Cow<'t, str> {
        if let Some(valid) = text.as_str()
            && (self.held.is_none() || valid.is_empty())
        {
            return Cow::Borrowed(valid);
        }
        let mut rest = text.as_wtf8();
        let mut joined = String::with_capacity(rest.len() + char::REPLACEMENT_CHARACTER.len_utf8());
        while let Some((piece, after)) = next_piece(rest) {
            match (piece, self.held.take()) {
                (Piece::Half(low @ 0xDC00..=0xDFFF), Some(high)) => {
                    joined.extend(char::decode_utf16([high, low]).flatten());
                }
                (piece, held) => {
                    joined.extend(held.map(|_| char::REPLACEMENT_CHARACTER));
                    match piece {
                        Piece::Valid(valid) => joined.push_str(valid),
                        Piece::Half(high @ 0xD800..=0xDBFF) => self.held = Some(high),
                        Piece::Half(_) | Piece::Broken => joined.push(char::REPLACEMENT_CHARACTER),
                    }
                }
            }
            rest = after;
        }
        Cow::Owned(joined)
    }

    /// True if a high half is held back.
    pub fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// At the end of the text: U+FFFD if a half was held back. Then nothing is held any more.
    pub fn flush(&mut self) -> Option<char> {
        self.held.take().map(|_| char::REPLACEMENT_CHARACTER)
    }
}

/// Whether a JSON string, in its quotes, spells `text`. It is compared as it stands, and nothing is allocated.
/// A string with an unpaired surrogate spells no text.
pub(crate) fn spells(json: &str, text: &str) -> bool {
    let inner = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
    inner.and_then(|inner| rest_behind(inner, text)) == Some("")
}

#[derive(Clone)]
enum Text<'a> {
    Borrowed(&'a str),
    /// Inline up to 24 bytes.
    Owned(CompactString),
    /// Holds at least one unpaired surrogate.
    Wtf8(Vec<u8>),
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_bytes<E: de::Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        str::from_utf8(bytes).map_or_else(|_| self.visit_bytes(bytes), |text| Ok(Text::Borrowed(text)))
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        match str::from_utf8(bytes) {
            Ok(text) => self.visit_str(text),
            Err(_) if is_wtf8(bytes) => Ok(Text::Wtf8(bytes.to_vec())),
            Err(_) => Err(E::invalid_value(Unexpected::Bytes(bytes), &self)),
        }
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text::Borrowed(text))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text::Owned(text.into()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(Text::Owned(text.into()))
    }
}

/// What `text` has behind the text that the inside of a JSON string spells; `None` if it does not begin so.
fn rest_behind<'t>(inner: &str, text: &'t str) -> Option<&'t str> {
    let (mut inner, mut text) = (inner, text);
    loop {
        let (plain, escaped) = inner.split_at_checked(plain_run(inner.as_bytes()))?;
        let rest = text.strip_prefix(plain)?;
        if escaped.is_empty() {
            return Some(rest);
        }
        let (character, length) = first_escape(escaped.as_bytes())?;
        (inner, text) = (escaped.get(length..)?, rest.strip_prefix(character)?);
    }
}

/// The character of the escape at the start, and how many bytes spell it.
pub(crate) fn first_escape(escaped: &[u8]) -> Option<(char, usize)> {
    let &[b'\\', letter] = escaped.first_chunk()? else { return None };
    let character = match letter {
        b'"' | b'\\' | b'/' => char::from(letter),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = code_unit(escaped)?;
            if let Some(character) = char::from_u32(first.into()) {
                return Some((character, ESCAPED_UNIT_BYTES));
            }
            let second = code_unit(escaped.get(ESCAPED_UNIT_BYTES..)?)?;
            let character = char::decode_utf16([first, second]).next()?.ok()?;
            return Some((character, 2 * ESCAPED_UNIT_BYTES));
        }
        _ => return None,
    };
    Some((character, 2))
}

/// The UTF-16 code unit of the `\u` escape at the start.
fn code_unit(escaped: &[u8]) -> Option<u16> {
    let digits = escaped.get(..ESCAPED_UNIT_BYTES)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}

const ESCAPED_UNIT_BYTES: usize = 6;

/// False for bytes that came straight from a body that is not UTF-8: serde_json does not check those.
fn is_wtf8(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some((piece, after)) = next_piece(rest) {
        if matches!(piece, Piece::Broken) {
            return false;
        }
        rest = after;
    }
    true
}

/// A stretch of WTF-8.
enum Piece<'t> {
    Valid(&'t str),
    /// An unpaired surrogate.
    Half(u16),
    /// A byte that is no WTF-8.
    Broken,
}

/// The longest piece at the start of `bytes`, and what follows it; `None` if there is nothing.
fn next_piece(bytes: &[u8]) -> Option<(Piece<'_>, &[u8])> {
    if let &[0xED, second @ 0xA0..=0xBF, third @ 0x80..=0xBF, ref after @ ..] = bytes {
        let half = 0xD000 | u16::from(second & 0x3F) << 6 | u16::from(third & 0x3F);
        return Some((Piece::Half(half), after));
    }
    let valid = match str::from_utf8(bytes) {
        Ok(valid) => valid,
        // It stops at the first bad byte, so a text full of them is still read once.
        Err(error) => str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?,
    };
    match valid {
        "" => bytes.split_first().map(|(_, after)| (Piece::Broken, after)),
        _ => Some((Piece::Valid(valid), bytes.get(valid.len()..)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> JsonText<'_> {
        serde_json::from_str(json).unwrap()
    }

    /// Joins JSON strings, and gives every piece and what was flushed.
    fn joined(jsons: &[&str]) -> (Vec<String>, Option<char>) {
        let mut joiner = SurrogateJoiner::default();
        let pieces = jsons.iter().map(|json| joiner.join(&read(json)).into_owned()).collect();
        let holding = joiner.is_holding();
        let flushed = joiner.flush();
        assert_eq!(flushed.is_some(), holding);
        assert!(!joiner.is_holding());
        (pieces, flushed)
    }

    fn check(jsons: &[&str], pieces: &[&str], flushed: Option<char>) {
        assert_eq!(
            joined(jsons),
            (pieces.iter().map(|&piece| piece.to_owned()).collect(), flushed),
            "{jsons:?}"
        );
    }

    #[test]
    fn valid_strings_are_read_as_a_string_reads_them() {
        let jsons = [
            r#""""#,
            r#""plain""#,
            r#""caf\u00e9""#,
            "\"café 東京 😀\"",
            r#""\"\\\/\b\f\n\r\t""#,
            r#""\ud83d\ude00 and \u0000""#,
            r#""a longer one with an escape: \n, and then some more text behind it""#,
        ];
        for json in jsons {
            let expected: String = serde_json::from_str(json).unwrap();
            assert_eq!(read(json).as_str(), Some(&*expected), "{json}");
            assert_eq!(read(json).as_wtf8(), expected.as_bytes(), "{json}");
            assert_eq!(read(json).to_lossy(), expected, "{json}");
            assert_eq!(read(json).is_empty(), expected.is_empty(), "{json}");
            assert_eq!(read(json), JsonText::from(&*expected), "{json}");

            let from_reader: JsonText<'_> = serde_json::from_slice(json.as_bytes()).unwrap();
            assert_eq!(from_reader, read(json));
            let value = serde_json::Value::String(expected.clone());
            assert_eq!(JsonText::deserialize(&value).unwrap(), read(json));
        }
    }

    #[test]
    fn a_json_string_spells_its_text_and_no_other() {
        let jsons = [
            r#""""#,
            r#""plain""#,
            r#""caf\u00e9 \ud83d\ude00 \uD83D\uDE00""#,
            "\"café 東京 😀\"",
            r#""\"\\\/\b\f\n\r\t""#,
            r#""\\u0041\u0041\u0000""#,
        ];
        for json in jsons {
            let text: String = serde_json::from_str(json).unwrap();
            assert!(spells(json, &text), "{json}");
            assert!(!spells(json, &format!("{text}x")), "{json}");
            assert!(!spells(json, &format!("x{text}")), "{json}");
            let shorter: String = text.chars().skip(1).collect();
            assert_eq!(spells(json, &shorter), text.is_empty(), "{json}");
        }
        for json in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83dx""#, r#""\ud83d\ud83d""#, "{}", "\"", "", "1"] {
            for text in ["", "\u{fffd}", "\u{fffd}x", "{}", "1"] {
                assert!(!spells(json, text), "{json} {text}");
            }
        }
    }

    #[test]
    fn plain_text_is_borrowed_and_short_text_lies_inline() {
        assert!(matches!(read(r#""no escape, and longer than twenty-four bytes""#).0, Text::Borrowed(_)));
        let Text::Owned(text) = read(r#""\n0123456789abcdefghijklm""#).0 else { panic!("not owned") };
        assert_eq!((text.len(), text.is_heap_allocated()), (24, false));
    }

    #[test]
    fn unpaired_surrogates_are_kept_as_wtf8() {
        let text = read(r#""a\ud83d""#);
        assert_eq!(text.as_wtf8(), b"a\xED\xA0\xBD");
        assert_eq!((text.as_str(), text.is_empty()), (None, false));
        assert_eq!(text.to_lossy(), "a\u{fffd}");
        assert_eq!(format!("{text:?}"), "JsonText(\"a\u{fffd}\")");
        assert_eq!(read(r#""\ude00é\udfff\ud83d\ud83d\ude00""#).to_lossy(), "\u{fffd}é\u{fffd}\u{fffd}😀");
    }

    #[test]
    fn every_surrogate_is_read_as_itself() {
        for half in 0xD800..=0xDFFF_u16 {
            let json = format!(r#""\u{half:04x}""#);
            let text = read(&json);
            let Some((Piece::Half(read_half), [])) = next_piece(text.as_wtf8()) else { panic!("{half:04x}") };
            assert_eq!(read_half, half);
        }
    }

    #[test]
    fn null_is_an_option_and_nothing_else_is_a_string() {
        assert_eq!(serde_json::from_str::<Option<JsonText<'_>>>("null").unwrap(), None);
        assert_eq!(serde_json::from_str::<Option<JsonText<'_>>>(r#""a""#).unwrap(), Some("a".into()));
        for json in ["null", "1", "true", "[1, 2]", "[]", "{}", r#""open"#, r#""\x""#] {
            assert!(serde_json::from_str::<JsonText<'_>>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn raw_control_characters_are_let_through() {
        assert_eq!(read("\"a\n\tb\\n\"").as_str(), Some("a\n\tb\n"));
    }

    #[test]
    fn bytes_that_are_no_text_at_all_are_refused() {
        for json in [&b"\"\xFF\""[..], b"\"a\xC3\"", b"\"\\n\xED\xA0\"", b"\"\xF8\x80\x80\x80\x80\""] {
            assert!(serde_json::from_slice::<JsonText<'_>>(json).is_err(), "{json:?}");
        }
    }

    #[test]
    fn a_pair_over_two_pieces_is_one_character() {
        check(&[r#""\ud83d""#, r#""\ude00""#], &["", "😀"], None);
        check(&[r#""so \ud83d""#, r#""\ude00 it is""#], &["so ", "😀 it is"], None);
        check(&[r#""\ud83d""#, r#""""#, r#""\ude00\ud83d""#, r#""\ude01""#], &["", "", "😀", "😁"], None);
    }

    #[test]
    fn a_half_without_its_other_half_is_replaced() {
        check(&[r#""\ude00""#, r#""\ud83d""#], &["\u{fffd}", ""], Some('\u{fffd}'));
        check(&[r#""\ude00\ud83d""#], &["\u{fffd}"], Some('\u{fffd}'));
        check(&[r#""\ud83d""#, r#""plain""#, r#""\ude00""#], &["", "\u{fffd}plain", "\u{fffd}"], None);
        check(&[r#""\ud83d x""#], &["\u{fffd} x"], None);
        check(&[r#""\ud83d""#, r#""""#], &["", ""], Some('\u{fffd}'));
    }

    #[test]
    fn of_three_halves_the_two_that_fit_are_joined() {
        check(&[r#""\ud83d""#, r#""\ud83d""#, r#""\ude00""#], &["", "\u{fffd}", "😀"], None);
        check(&[r#""\ud83d""#, r#""\ude00""#, r#""\ude00""#], &["", "😀", "\u{fffd}"], None);
        check(&[r#""\ud83d""#, r#""\ud83d\ude00""#], &["", "\u{fffd}😀"], None);
        check(&[r#""\ud83d""#, r#""\ude00\ude00\ud83d""#], &["", "😀\u{fffd}"], Some('\u{fffd}'));
    }

    #[test]
    fn a_valid_piece_is_lent_while_nothing_is_held() {
        let mut joiner = SurrogateJoiner::default();
        for json in [r#""plain""#, r#""caf\u00e9""#, r#""""#] {
            assert!(matches!(joiner.join(&read(json)), Cow::Borrowed(_)), "{json}");
        }
    }

    #[test]
    fn halves_that_another_format_left_unjoined_are_joined() {
        let text = JsonText(Text::Wtf8(b"\xED\xA0\xBD\xED\xB8\x80".to_vec()));
        assert_eq!(text.to_lossy(), "😀");
    }
}
