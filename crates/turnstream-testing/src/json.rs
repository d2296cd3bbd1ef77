//! JSON text with its keys in the order of writing, as providers send it. `serde_json::Value` would sort
//! them, and a decoder that depends on an order should not pass by luck of the alphabet.

use std::fmt::Write;

/// An object of members that are JSON text already.
pub(crate) fn object<'a>(members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut text = String::from("{");
    for (index, (name, value)) in members.into_iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(text, "{comma}\"{name}\":{value}").expect("a string takes everything");
    }
    text.push('}');
    text
}

/// An array of elements that are JSON text already.
pub(crate) fn array(elements: impl IntoIterator<Item = String>) -> String {
    let elements: Vec<String> = elements.into_iter().collect();
    format!("[{}]", elements.join(","))
}

/// A string.
pub(crate) fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `null`.
pub(crate) fn null() -> String {
    "null".to_owned()
}
