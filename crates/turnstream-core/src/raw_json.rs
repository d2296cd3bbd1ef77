//! [`RawJson`]: one JSON value, kept as it was written.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

/// One JSON value, spelled as the provider spelled it: key order, number forms and escapes are kept.
///
/// Cloning shares the text. Line breaks between tokens are turned into blanks, so that it prints on one
/// line. It reads and writes through `serde_json` only.
#[derive(Clone)]
pub struct RawJson(Arc<RawValue>);

impl RawJson {
    /// Takes one JSON value.
    ///
    /// # Errors
    ///
    /// When `text` is not exactly one JSON value.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let value = serde_json::from_str::<&RawValue>(text)?;
        Ok(value.into())
    }

    /// Writes `value` as JSON.
    ///
    /// # Errors
    ///
    /// When `value` refuses to be serialised, or has map keys that are not strings.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self(serde_json::value::to_raw_value(value)?.into()))
    }

    /// The text of the value.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads the value as `T`.
    ///
    /// # Errors
    ///
    /// When the value does not fit `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }
}

impl From<&RawValue> for RawJson {
    fn from(value: &RawValue) -> Self {
        // JSON strings cannot hold a raw line break, so one can only stand between tokens.
        if value.get().contains(['\n', '\r']) {
            let one_line = value.get().replace(['\n', '\r'], " ");
            if let Ok(value) = RawValue::from_string(one_line) {
                return Self(value.into());
            }
        }
        Self(Arc::from(value.to_owned()))
    }
}

impl From<serde_json::Value> for RawJson {
    fn from(value: serde_json::Value) -> Self {
        Self::of(&value).expect("a JSON value has string keys and serialises")
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|value| (&*value).into())
    }
}

/// Reads one JSON object and its `type`, for enums told apart by it. Serde's own internal tagging goes
/// through a buffer that cannot hold a [`RawJson`].
pub(crate) fn tagged<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(String, RawJson), D::Error> {
    #[derive(Deserialize)]
    struct Tag {
        #[serde(rename = "type")]
        tag: String,
    }
    let raw = RawJson::deserialize(deserializer)?;
    let Tag { tag } = raw.read().map_err(serde::de::Error::custom)?;
    Ok((tag, raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spelling_is_kept_on_one_line() {
        let raw = RawJson::parse(" {\"b\": 1.0,\r\n \"a\":\"\\u00e9\\n\"}\n").unwrap();
        assert_eq!(raw.as_str(), "{\"b\": 1.0,   \"a\":\"\\u00e9\\n\"}");
        assert_eq!(serde_json::to_string(&raw).unwrap(), raw.as_str());
        assert_eq!(serde_json::from_str::<RawJson>(raw.as_str()).unwrap(), raw);
    }

    #[test]
    fn two_values_are_refused() {
        assert!(RawJson::parse("{} {}").is_err());
        assert!(RawJson::parse("").is_err());
    }
}
