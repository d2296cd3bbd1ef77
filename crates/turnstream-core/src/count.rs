//! [`Count`]: a number of a reply, read leniently.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A number of a reply that counts something: an index, tokens. Where there should be one, proxies send null,
/// a float or a string, and none of it is a reason to lose a turn: what is no count says nothing.
///
/// It reads through `serde_json`, from text that it may borrow. In a struct the field needs
/// `#[serde(default)]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count(Option<u64>);

impl Count {
    /// Reads one JSON value, or a number in a string.
    pub fn of(raw: &RawValue) -> Self {
        let text = raw.get().trim_matches('"');
        Self(text.parse().ok().or_else(|| {
            let number: f64 = text.parse().ok()?;
            // Above this, not every integer is a float, and no count is so large.
            let is_count = number.fract() == 0.0 && (0.0..9.0e15).contains(&number);
            is_count.then_some(number as u64)
        }))
    }

    /// The number, if it is one.
    pub fn get(self) -> Option<u64> {
        self.0
    }

    /// This one, or the other if this one says nothing.
    pub fn or(self, other: Self) -> Self {
        Self(self.0.or(other.0))
    }
}

impl From<u64> for Count {
    fn from(count: u64) -> Self {
        Self(Some(count))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(Self::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_count_in_whatever_form_and_all_else_says_nothing() {
        let table = [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("\"7\"", Some(7)),
            ("\"7.0\"", Some(7)),
            ("1e3", Some(1000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("1.5", None),
            ("-1", None),
            ("1e999", None),
            ("null", None),
            ("true", None),
            ("\"\"", None),
            (r#""\ud83d""#, None),
            ("[7]", None),
            ("{\"a\":{}}", None),
        ];
        for (json, count) in table {
            assert_eq!(serde_json::from_str::<Count>(json).unwrap().get(), count, "{json}");
        }
    }
}
