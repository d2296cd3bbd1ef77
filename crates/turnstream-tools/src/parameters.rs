//! [`Parameters`]: what a handler can take.

use serde::de::{DeserializeOwned, Error as _, value::StrDeserializer};
use turnstream_core::{Arguments, InputKind, RawJson};

/// What a handler can take as its arguments.
///
/// With the feature `schemars` this is every type that implements `serde::Deserialize` and
/// `schemars::JsonSchema`: the tool's schema follows from it. With and without the feature it is
/// `serde_json::Value`, for tools whose schema is given; `String`, for [free-form](crate::Tool::free_form)
/// tools; `()`, for tools that take nothing; and [`Given`].
pub trait Parameters: Sized + Send + 'static {
    /// The JSON schema that follows from the type, if one does.
    fn schema() -> Option<RawJson>;

    /// Reads a call's arguments.
    ///
    /// # Errors
    ///
    /// When they do not fit; the error says where.
    fn read(arguments: &Arguments, input: InputKind) -> Result<Self, serde_json::Error>;
}

/// Arguments of a type that says no schema of its own: it was given by
/// [`parameters`](crate::Tool::parameters).
///
/// ```
/// use turnstream_tools::{Given, Schema, Tool};
///
/// #[derive(serde::Deserialize)]
/// struct LookupOrder {
///     order_id: String,
/// }
///
/// let lookup = Tool::new("lookup_order")
///     .parameters(Schema::object().string("order_id", "For example A-4471."))
///     .handler(|Given(args): Given<LookupOrder>| async move { Ok(args.order_id) });
/// # let _ = lookup;
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Given<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> Parameters for Given<T> {
    fn schema() -> Option<RawJson> {
        None
    }

    fn read(arguments: &Arguments, input: InputKind) -> Result<Self, serde_json::Error> {
        read(arguments, input).map(Self)
    }
}

#[cfg(feature = "schemars")]
impl<T: DeserializeOwned + schemars::JsonSchema + Send + 'static> Parameters for T {
    fn schema() -> Option<RawJson> {
        use std::any::TypeId;

        // Neither says anything: `Value` may be all, and `()` is written as `{}` by every provider.
        if [TypeId::of::<serde_json::Value>(), TypeId::of::<()>()].contains(&TypeId::of::<T>()) {
            return None;
        }
        let mut settings = schemars::generate::SchemaSettings::draft2020_12();
        // Providers know only some of JSON Schema: what stands in its place is understood everywhere.
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        let mut schema = settings.into_generator().into_root_schema_for::<T>();
        // The type's name in our program says nothing to the model, which has the tool's name.
        schema.remove("title");
        Some(schema.to_value().into())
    }

    fn read(arguments: &Arguments, input: InputKind) -> Result<Self, serde_json::Error> {
        if std::any::TypeId::of::<T>() == std::any::TypeId::of::<()>() {
            return serde_json::from_str("null");
        }
        read(arguments, input)
    }
}

#[cfg(not(feature = "schemars"))]
impl Parameters for serde_json::Value {
    fn schema() -> Option<RawJson> {
        None
    }

    fn read(arguments: &Arguments, input: InputKind) -> Result<Self, serde_json::Error> {
        read(arguments, input)
    }
}

#[cfg(not(feature = "schemars"))]
impl Parameters for String {
    fn schema() -> Option<RawJson> {
        None
    }

    fn read(arguments: &Arguments, input: InputKind) -> Result<Self, serde_json::Error> {
        read(arguments, input)
    }
}

#[cfg(not(feature = "schemars"))]
impl Parameters for () {
    fn schema() -> Option<RawJson> {
        None
    }

    fn read(_: &Arguments, _: InputKind) -> Result<Self, serde_json::Error> {
        Ok(())
    }
}

fn read<T: DeserializeOwned>(arguments: &Arguments, input: InputKind) -> Result<T, serde_json::Error> {
    match input {
        InputKind::Text => T::deserialize(StrDeserializer::new(arguments.as_str())),
        _ => arguments.parse().map_err(|error| located::<T>(arguments, error)),
    }
}

/// Whether a text says nothing as JSON.
pub(crate) fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
}

/// The error with the path of the place that does not fit: a line and a column say little to a model.
fn located<T: DeserializeOwned>(arguments: &Arguments, error: serde_json::Error) -> serde_json::Error {
    let mut deserializer = serde_json::Deserializer::from_str(arguments.json());
    match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Err(found) if found.path().iter().next().is_some() => {
            serde_json::Error::custom(format_args!("`{}`: {}", found.path(), found.inner()))
        }
        _ => error,
    }
}

#[cfg(all(test, feature = "schemars"))]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    /// An order to look for.
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct LookupOrder {
        /// For example A-4471.
        order_id: String,
        #[serde(default)]
        priority: Priority,
    }

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Priority {
        #[default]
        Normal,
        High,
    }

    #[test]
    fn a_derived_schema_stands_alone() {
        let schema: Value = LookupOrder::schema().unwrap().read().unwrap();
        let want = json!({
            "type": "object",
            "description": "An order to look for.",
            "properties": {
                "order_id": { "type": "string", "description": "For example A-4471." },
                "priority": { "type": "string", "enum": ["normal", "high"] },
            },
            "required": ["order_id"],
        });
        assert_eq!(schema, want);
    }

    #[test]
    fn an_error_says_where() {
        let error = LookupOrder::read(&"{\"order_id\": 1}".into(), InputKind::Json).unwrap_err();
        let want = "`order_id`: invalid type: integer `1`, expected a string at line 1 column 14";
        assert_eq!(error.to_string(), want);
    }

    #[test]
    fn an_error_says_where_in_what_is_nested() {
        #[derive(Debug, Deserialize)]
        struct Cart {
            #[expect(dead_code, reason = "it is only read")]
            items: Vec<Item>,
        }
        #[derive(Debug, Deserialize)]
        struct Item {
            #[expect(dead_code, reason = "it is only read")]
            qty: u32,
        }
        let misfit = |arguments: &str| {
            <Given<Cart> as Parameters>::read(&arguments.into(), InputKind::Json).unwrap_err().to_string()
        };
        assert_eq!(
            misfit(r#"{"items": [{"qty": 1}, {"qty": 2}, {"qty": "three"}]}"#),
            "`items[2].qty`: invalid type: string \"three\", expected u32 at line 1 column 50"
        );
        let missing = "`items[0]`: missing field `qty` at line 1 column 13";
        assert_eq!(misfit(r#"{"items": [{}]}"#), missing);
        assert_eq!(misfit("{}"), "missing field `items` at line 1 column 2");
    }

    #[test]
    fn nothing_raw_text_and_any_value_can_be_taken() {
        <() as Parameters>::read(&"{}".into(), InputKind::Json).unwrap();
        <() as Parameters>::read(&"".into(), InputKind::Json).unwrap();
        let text = <String as Parameters>::read(&"ls \"-l\"".into(), InputKind::Text).unwrap();
        assert_eq!(text, "ls \"-l\"");
        assert_eq!(<Value as Parameters>::read(&"".into(), InputKind::Json).unwrap(), json!({}));
        assert_eq!((<()>::schema(), Value::schema()), (None, None));
    }
}
