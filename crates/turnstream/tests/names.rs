//! What stands in the public interface can be named through this crate alone.
#![cfg(all(feature = "anthropic", feature = "client", feature = "tools", feature = "schemars"))]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use turnstream::{
    KeyHeader, Tool, ToolLoop, TurnStream,
    anthropic::Anthropic,
    schemars::JsonSchema,
    wire::reexports::{
        futures_core::Stream,
        secrecy::{ExposeSecret, SecretString},
        serde_json::Value,
        url::Url,
    },
};

#[test]
fn keys_streams_values_and_schemas_have_names_here() {
    fn is_a_stream<S: Stream>() {}
    fn has_a_schema<T: JsonSchema>() {}
    is_a_stream::<TurnStream>();
    is_a_stream::<turnstream::Run>();
    has_a_schema::<String>();
    let key = SecretString::from("sk-1".to_owned());
    assert_eq!(key.expose_secret(), "sk-1");
    let wire = Anthropic::new("m").key(key).key_header(KeyHeader::Bearer).base_url("https://h/v1");
    let tool = Tool::new("f").handler(|arguments: Value| async move { Ok(arguments) });
    let request = turnstream::wire::Wire::encode(&wire, &turnstream::Request::new().user("hi")).unwrap();
    assert_eq!(request.url, Url::parse("https://h/v1/messages").unwrap());
    let _: ToolLoop = ToolLoop::new(turnstream::Client::new(wire)).tool(tool);
}
