//! [`Schema`]: the JSON schema of an object, written by hand.

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};
use turnstream_core::RawJson;

/// The JSON schema of an object, built property by property and kept in that order.
///
/// Other properties are forbidden, which every provider's strict mode asks for. For more than this, write the
/// schema as a `serde_json::Value`.
///
/// ```
/// use turnstream_core::RawJson;
/// use turnstream_tools::Schema;
///
/// let schema = Schema::object().string("order_id", "For example A-4471.").optional_boolean("brief", "");
/// let json = r#"{"type":"object","properties":{"order_id":{"description":"For example A-4471.","type":"string"},"brief":{"type":"boolean"}},"required":["order_id"],"additionalProperties":false}"#;
/// assert_eq!(RawJson::from(schema).as_str(), json);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    properties: Vec<Property>,
}

#[derive(Debug, Clone, PartialEq)]
struct Property {
    name: String,
    schema: RawJson,
    is_required: bool,
}

impl Schema {
    /// An object without properties.
    pub fn object() -> Self {
        Self::default()
    }

    /// Adds a string.
    pub fn string(self, name: impl Into<String>, description: &str) -> Self {
        self.property(name, described("string", description))
    }

    /// Adds a string that may be absent.
    pub fn optional_string(self, name: impl Into<String>, description: &str) -> Self {
        self.optional_property(name, described("string", description))
    }

    /// Adds a whole number.
    pub fn integer(self, name: impl Into<String>, description: &str) -> Self {
        self.property(name, described("integer", description))
    }

    /// Adds a whole number that may be absent.
    pub fn optional_integer(self, name: impl Into<String>, description: &str) -> Self {
        self.optional_property(name, described("integer", description))
    }

    /// Adds a number.
    pub fn number(self, name: impl Into<String>, description: &str) -> Self {
        self.property(name, described("number", description))
    }

    /// Adds a number that may be absent.
    pub fn optional_number(self, name: impl Into<String>, description: &str) -> Self {
        self.optional_property(name, described("number", description))
    }

    /// Adds a truth value.
    pub fn boolean(self, name: impl Into<String>, description: &str) -> Self {
        self.property(name, described("boolean", description))
    }

    /// Adds a truth value that may be absent.
    pub fn optional_boolean(self, name: impl Into<String>, description: &str) -> Self {
        self.optional_property(name, described("boolean", description))
    }

    /// Adds a string that is one of `words`.
    pub fn one_of<W: Into<String>>(
        self,
        name: impl Into<String>,
        description: &str,
        words: impl IntoIterator<Item = W>,
    ) -> Self {
        self.property(name, choice(description, words.into_iter().map(Into::into).collect()))
    }

    /// Adds a string that is one of `words` and may be absent.
    pub fn optional_one_of<W: Into<String>>(
        self,
        name: impl Into<String>,
        description: &str,
        words: impl IntoIterator<Item = W>,
    ) -> Self {
        self.optional_property(name, choice(description, words.into_iter().map(Into::into).collect()))
    }

    /// Adds a property with any schema: a `serde_json::Value`, or another `Schema`.
    pub fn property(self, name: impl Into<String>, schema: impl Into<RawJson>) -> Self {
        self.with(Property { name: name.into(), schema: schema.into(), is_required: true })
    }

    /// Adds a property with any schema that may be absent.
    pub fn optional_property(self, name: impl Into<String>, schema: impl Into<RawJson>) -> Self {
        self.with(Property { name: name.into(), schema: schema.into(), is_required: false })
    }

    /// A property of the same name is replaced: a key must not stand twice in an object.
    fn with(mut self, property: Property) -> Self {
        match self.properties.iter_mut().find(|old| old.name == property.name) {
            Some(old) => *old = property,
            None => self.properties.push(property),
        }
        self
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let required: Vec<&str> = self
            .properties
            .iter()
            .filter(|property| property.is_required)
            .map(|property| &*property.name)
            .collect();
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("type", "object")?;
        map.serialize_entry("properties", &Properties(&self.properties))?;
        map.serialize_entry("required", &required)?;
        map.serialize_entry("additionalProperties", &false)?;
        map.end()
    }
}

impl From<Schema> for RawJson {
    fn from(schema: Schema) -> Self {
        Self::of(&schema).expect("a schema is plain data with string keys")
    }
}

/// A `serde_json::Map` would sort them by name.
struct Properties<'a>(&'a [Property]);

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|property| (&property.name, &property.schema)))
    }
}

fn described(kind: &str, description: &str) -> Value {
    match description {
        "" => json!({ "type": kind }),
        _ => json!({ "type": kind, "description": description }),
    }
}

fn choice(description: &str, words: Vec<String>) -> Value {
    let mut schema = described("string", description);
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("enum".to_owned(), words.into());
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_property_is_written() {
        let schema = Schema::object()
            .string("s", "S")
            .optional_integer("i", "")
            .number("n", "")
            .one_of("o", "", ["a", "b"])
            .optional_property("nested", Schema::object().boolean("b", ""))
            .optional_string("s", "again");
        let want = json!({
            "type": "object",
            "properties": {
                "s": { "type": "string", "description": "again" },
                "i": { "type": "integer" },
                "n": { "type": "number" },
                "o": { "type": "string", "enum": ["a", "b"] },
                "nested": {
                    "type": "object",
                    "properties": { "b": { "type": "boolean" } },
                    "required": ["b"],
                    "additionalProperties": false,
                },
            },
            "required": ["n", "o"],
            "additionalProperties": false,
        });
        assert_eq!(serde_json::to_value(&schema).unwrap(), want);
    }
}
