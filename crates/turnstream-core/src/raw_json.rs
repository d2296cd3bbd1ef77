//! [`RawJson`]: one JSON value, kept as it was written.

use std::{
    borrow::{Borrow, Cow},
    collections::BTreeMap,
    fmt,
    sync::Arc,
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, MapAccess, Visitor},
};
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

    /// The object with these fields set: one that it has in its place, the others behind. Everything else
    /// stands as it stood. `None` if it is no object.
    pub fn with_fields<K: Borrow<str> + Ord>(&self, fields: &BTreeMap<K, Self>) -> Option<Self> {
        let old: RawFields<'_> = serde_json::from_str(self.as_str()).ok()?;
        let mut rest: BTreeMap<&str, &Self> =
            fields.iter().map(|(name, value)| (name.borrow(), value)).collect();
        let mut all: Vec<(&str, &str)> = Vec::new();
        for (name, value) in &old.0 {
            all.push((name, rest.remove(&**name).map_or(value.get(), Self::as_str)));
        }
        all.extend(rest.into_iter().map(|(name, value)| (name, value.as_str())));
        Self::object(&all)
    }

    /// The object without a field. Everything else stands as it stood. `None` if it is no object, or does not
    /// have the field.
    pub fn without_field(&self, name: &str) -> Option<Self> {
        let old: RawFields<'_> = serde_json::from_str(self.as_str()).ok()?;
        old.get(name)?;
        let rest = old.0.iter().filter(|(field, _)| field != name);
        Self::object(&rest.map(|(field, value)| (&**field, value.get())).collect::<Vec<_>>())
    }

    fn object(fields: &[(&str, &str)]) -> Option<Self> {
        let mut json = String::from("{");
        for (name, value) in fields {
            if json.len() > 1 {
                json.push(',');
            }
            json.push_str(&serde_json::to_string(name).ok()?);
            json.push(':');
            json.push_str(value);
        }
        json.push('}');
        Self::parse(&json).ok()
    }
}

/// The fields of one JSON object, in their order, each value as it stands. It reads through `serde_json`,
/// from text that it may borrow.
#[derive(Debug)]
pub struct RawFields<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RawFields<'a> {
    /// The value of the first field of that name.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = RawFields<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(RawFields(fields))
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
    fn a_field_is_set_in_its_place_and_all_else_stands_as_it_stood() {
        let object = RawJson::parse(r#"{"b": 1.0, "a":{ }, "\u00e9":null}"#).unwrap();
        let value = |json: &str| RawJson::parse(json).unwrap();
        let fields = BTreeMap::from([("a", value("[2.50]")), ("z", value("true")), ("\"", value("0"))]);
        let want = r#"{"b":1.0,"a":[2.50],"é":null,"\"":0,"z":true}"#;
        assert_eq!(object.with_fields(&fields).unwrap().as_str(), want);
        assert_eq!(value("{}").with_fields(&BTreeMap::<&str, RawJson>::new()), Some(value("{}")));
        assert_eq!(value("[]").with_fields(&fields), None);
    }

    #[test]
    fn two_values_are_refused() {
        assert!(RawJson::parse("{} {}").is_err());
        assert!(RawJson::parse("").is_err());
    }

    #[test]
    fn a_field_is_taken_out_and_the_rest_stands_as_it_stood() {
        let object = RawJson::parse(r#"{"b": 1.0, "a":[ 1 ],"\u0063":"\u0064"}"#).unwrap();
        assert_eq!(object.without_field("a").unwrap().as_str(), r#"{"b":1.0,"c":"\u0064"}"#);
        assert_eq!(object.without_field("x"), None);
        assert_eq!(RawJson::parse("[1]").unwrap().without_field("a"), None);
        assert_eq!(RawJson::parse(r#"{"a":1}"#).unwrap().without_field("a").unwrap().as_str(), "{}");
    }
}
