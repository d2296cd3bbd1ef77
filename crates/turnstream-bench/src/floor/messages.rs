//! Messages of an AWS event stream, lent out of the bytes that came. The checksums are not looked at.

use serde::de::Error as _;

/// One message.
#[derive(Debug)]
pub(super) struct Message<'b> {
    /// What its header `:event-type` says. Nothing for one that is an error.
    pub(super) event: &'b str,
    pub(super) payload: &'b [u8],
}

/// The first message, if it is whole, and what follows it.
pub(super) fn first(bytes: &[u8]) -> Result<Option<(Message<'_>, &[u8])>, serde_json::Error> {
    let Some([length, headers_length]) = lengths(bytes) else { return Ok(None) };
    let Some((message, rest)) = bytes.split_at_checked(length) else { return Ok(None) };
    let inside = message.get(PRELUDE_BYTES..length.saturating_sub(CHECKSUM_BYTES));
    let found = inside.and_then(|inside| inside.split_at_checked(headers_length));
    let found = found.and_then(|(headers, payload)| {
        let event = event_type(headers)?;
        Some((Message { event, payload }, rest))
    });
    found.map(Some).ok_or_else(|| serde_json::Error::custom("a message is not as its lengths say"))
}

/// How many bytes are missing of a message that has begun, as far as can be told. At least one.
pub(super) fn missing(begun: &[u8]) -> usize {
    let length = lengths(begun).map_or(PRELUDE_BYTES, |[length, _]| length);
    length.saturating_sub(begun.len()).max(1)
}

/// How long the message is, and how long its headers are.
fn lengths(bytes: &[u8]) -> Option<[usize; 2]> {
    let [a, b, c, d, e, f, g, h, ..] = *bytes else { return None };
    Some([[a, b, c, d], [e, f, g, h]].map(|length| u32::from_be_bytes(length) as usize))
}

/// What the header says, or nothing where it is missing. `None` for headers that are not all texts, as the
/// service's are.
fn event_type(mut headers: &[u8]) -> Option<&str> {
    while let Some((name_length, rest)) = headers.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*name_length))?;
        let [TEXT, a, b, rest @ ..] = rest else { return None };
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*a, *b])))?;
        if name == b":event-type" {
            return str::from_utf8(value).ok();
        }
        headers = rest;
    }
    Some("")
}

/// Two lengths and a checksum over them.
const PRELUDE_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 4;
/// The type of a header that is a text.
const TEXT: u8 = 7;
