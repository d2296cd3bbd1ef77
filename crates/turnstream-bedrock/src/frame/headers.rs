//! The headers of an AWS event-stream message, lent out of its bytes.

/// One header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header<'m> {
    pub(super) name: &'m str,
    /// Its value, if that is a text.
    pub(super) text: Option<&'m str>,
}

/// All headers, from the first byte to the last. Every one is checked, also those that nobody looks at.
///
/// # Errors
///
/// What is wrong with them, in words.
pub(super) fn read(mut rest: &[u8]) -> Result<Vec<Header<'_>>, &'static str> {
    let mut headers = Vec::new();
    while let Some((name_length, after)) = rest.split_first() {
        let (name, after) = after.split_at_checked(usize::from(*name_length)).ok_or(TOO_LONG)?;
        let (kind, after) = after.split_first().ok_or(TOO_LONG)?;
        let (length, after) = match *kind {
            TRUE | FALSE => (0, after),
            BYTE => (1, after),
            SHORT => (2, after),
            INTEGER => (4, after),
            LONG | TIMESTAMP => (8, after),
            UUID => (16, after),
            BYTES | TEXT => {
                let (length, after) = after.split_first_chunk().ok_or(TOO_LONG)?;
                (usize::from(u16::from_be_bytes(*length)), after)
            }
            _ => return Err("the value of a header is of no known type"),
        };
        let (value, after) = after.split_at_checked(length).ok_or(TOO_LONG)?;
        let text = (*kind == TEXT).then(|| utf8(value)).transpose()?;
        headers.push(Header { name: utf8(name)?, text });
        rest = after;
    }
    Ok(headers)
}

fn utf8(bytes: &[u8]) -> Result<&str, &'static str> {
    str::from_utf8(bytes).map_err(|_| "a header is not UTF-8")
}

const TOO_LONG: &str = "a header is longer than its headers";

/// The types of values, as the encoding numbers them.
const TRUE: u8 = 0;
const FALSE: u8 = 1;
const BYTE: u8 = 2;
const SHORT: u8 = 3;
const INTEGER: u8 = 4;
const LONG: u8 = 5;
/// A length of two bytes stands before the value.
const BYTES: u8 = 6;
/// The same.
const TEXT: u8 = 7;
const TIMESTAMP: u8 = 8;
const UUID: u8 = 9;
