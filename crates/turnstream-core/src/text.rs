//! The small string types of events: [`Text`] for prose, [`ArgumentFragment`] for pieces of a call's
//! arguments, [`Arguments`] for the whole of them.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

use compact_str::CompactString;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A piece of prose, an id or a name. Held inline, without an allocation, up to 24 bytes.
///
/// It reads as a `str`: it derefs to one, prints, compares and hashes as one.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Text(CompactString);

impl Text {
    /// The text as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), formatter)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0.into()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

/// A piece of one call's argument text, cut anywhere: in the middle of a key, an escape or a number.
///
/// On purpose it cannot be printed, compared with prose, or turned into a string by accident:
/// it has no `Display`, no `Deref`, no `AsRef<str>`, no `Into<String>`. Arguments are not prose, and a
/// piece of a JSON document means nothing by itself. Wait for [`CallFinished`](crate::CallFinished);
/// to forward or log a piece, say so with [`as_raw_str`](Self::as_raw_str).
///
/// ```compile_fail
/// let fragment = turnstream_core::ArgumentFragment::new("{\"order");
/// println!("{fragment}");
/// ```
/// ```compile_fail
/// let fragment = turnstream_core::ArgumentFragment::new("{\"order");
/// let text: &str = &fragment;
/// ```
/// ```compile_fail
/// let fragment = turnstream_core::ArgumentFragment::new("{\"order");
/// let text: String = fragment.into();
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArgumentFragment(CompactString);

impl ArgumentFragment {
    /// Wraps a piece of argument text, byte for byte.
    pub fn new(raw: &str) -> Self {
        Self(raw.into())
    }

    /// The piece as it came. It may start or end anywhere inside a JSON document.
    pub fn as_raw_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ArgumentFragment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ArgumentFragment").field(&self.as_raw_str()).finish()
    }
}

/// Law 4 at compile time: if `$type` implemented `$trait`, the two blanket impls would overlap and the
/// inference of `_` would be ambiguous.
macro_rules! assert_not_implemented {
    ($type:ty: $($trait:path),+) => {
        $(const _: fn() = || {
            trait Ambiguous<Marker> {
                fn proof() {}
            }
            impl<T: ?Sized> Ambiguous<()> for T {}
            #[allow(dead_code)]
            struct Implemented;
            impl<T: ?Sized + $trait> Ambiguous<Implemented> for T {}
            let _ = <$type as Ambiguous<_>>::proof;
        };)+
    };
}

pub(crate) use assert_not_implemented;

assert_not_implemented!(
    ArgumentFragment: fmt::Display, Deref<Target = str>, AsRef<str>, Into<String>, Borrow<str>, ToString
);

/// The whole arguments of a call that the wire has ended: verbatim, the concatenation of its fragments.
///
/// Cloning shares the text. For a call with JSON input the text is blank or exactly one JSON value;
/// for a free-form tool it is whatever the model wrote.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Arguments(Arc<String>);

impl Arguments {
    /// The text as the model wrote it. Blank stays blank here; [`json`](Self::json) reads it as `{}`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text in its JSON reading: blank and a literal `null` are `{}`, as every provider means them.
    pub fn json(&self) -> &str {
        match self.0.trim_matches([' ', '\t', '\n', '\r']) {
            "" | "null" => "{}",
            _ => &self.0,
        }
    }

    /// Reads the arguments as `T`; blank ones as `{}`.
    ///
    /// # Errors
    ///
    /// When the text is not JSON or does not fit `T`; the error says where.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.json())
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

impl fmt::Display for Arguments {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), formatter)
    }
}

impl From<String> for Arguments {
    fn from(text: String) -> Self {
        Self(Arc::new(text))
    }
}

impl From<&str> for Arguments {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl PartialEq<str> for Arguments {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Arguments {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_and_null_arguments_read_as_an_empty_object() {
        for text in ["", " \n", "null", " null\n"] {
            let arguments = Arguments::from(text);
            assert_eq!(arguments.as_str(), text);
            assert_eq!(arguments.parse::<serde_json::Value>().unwrap(), serde_json::json!({}));
        }
    }

    #[test]
    fn a_fragment_is_the_same_after_json() {
        let fragment = ArgumentFragment::new("{\"a\\u00");
        let json = serde_json::to_string(&fragment).unwrap();
        assert_eq!(serde_json::from_str::<ArgumentFragment>(&json).unwrap(), fragment);
    }
}
