//! The built-in tools: they read nothing and change nothing.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use turnstream::{Schema, Tool};

/// All of them.
pub(super) fn all() -> [Tool; 3] {
    [current_time(), calculate(), count()]
}

fn current_time() -> Tool {
    Tool::new("current_time")
        .description("The current time, in seconds since 1970 (UTC).")
        .parameters(Schema::object())
        .handler(|_: Value| async {
            let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
            Ok(json!({ "unix_seconds": since.as_secs() }))
        })
}

fn calculate() -> Tool {
    Tool::new("calculate")
        .description("One step of arithmetic.")
        .parameters(
            Schema::object()
                .number("left", "The left number.")
                .one_of("operator", "What to do with them.", ["+", "-", "*", "/"])
                .number("right", "The right number."),
        )
        .handler(|args: Value| async move {
            let number =
                |name: &str| args.get(name).and_then(Value::as_f64).ok_or(format!("`{name}` is no number"));
            let (left, right) = (number("left")?, number("right")?);
            let value = match args.get("operator").and_then(Value::as_str) {
                Some("+") => left + right,
                Some("-") => left - right,
                Some("*") => left * right,
                Some("/") => left / right,
                _ => return Err("`operator` is none of + - * /".into()),
            };
            Ok(json!({ "value": value }))
        })
}

fn count() -> Tool {
    Tool::new("count")
        .description("Counts the characters and words of a text.")
        .parameters(Schema::object().string("text", "The text."))
        .handler(|args: Value| async move {
            let text = args.get("text").and_then(Value::as_str).ok_or("`text` is no string")?;
            Ok(json!({ "characters": text.chars().count(), "words": text.split_whitespace().count() }))
        })
}
