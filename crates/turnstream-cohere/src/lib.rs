//! Cohere's chat wire (v2) for turnstream: requests for `POST /v2/chat`, and its stream as events.
//!
//! ```
//! use turnstream_cohere::Cohere;
//! use turnstream_core::{End, Event, Events, Request, Wire};
//!
//! let wire = Cohere::new("command-a-03-2025").key("the key");
//! let request = wire.encode(&Request::new().user("Say hi."))?;
//! assert_eq!(request.url.as_str(), "https://api.cohere.com/v2/chat");
//!
//! let body = br#"data: {"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}
//!
//! data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"Hi."}}}}
//!
//! data: {"type":"message-end","delta":{"finish_reason":"COMPLETE"}}
//!
//! "#;
//! let (mut decoder, mut events) = (wire.decoder(), Events::new());
//! decoder.feed(body, &mut events);
//! decoder.end(End::Closed, &mut events);
//! let text = events.filter_map(|event| match event {
//!     Ok(Event::TextDelta(delta)) => Some(delta.text.to_string()),
//!     _ => None,
//! });
//! assert_eq!(text.collect::<String>(), "Hi.");
//! # Ok::<(), turnstream_core::Error>(())
//! ```
//!
//! # What goes out
//!
//! - System texts become one system message, a blank line between them.
//! - The tool plan goes back as `tool_plan`, thinking as a part of the content. Text that stands beside calls
//!   goes back as the plan: the provider has either text or calls in a message.
//! - A result is a message of its own under `tool_call_id`. The wire has no mark for a failure, so that its
//!   text begins with `Error: `. Images of results follow in a user's message.
//! - The tool choice `required` is `REQUIRED`, `none` is `NONE`, `auto` is nothing. A choice of one tool offers
//!   that tool alone, with `REQUIRED`. To forbid several calls is an error: the wire has no word for it.
//! - Strict tools are a switch for all of them: it is set when every tool asks for it.
//! - A reasoning effort turns thinking on, with a warning: the wire knows a
//!   [budget](Options::thinking_budget) instead. Effort `none` turns it off.
//! - An output schema becomes `response_format`. Images are addresses or base64. Documents to be cited are
//!   [`Options::document`].
//!
//! # What comes in
//!
//! - The tool plan is reasoning, a part of its own, and so is thinking.
//! - Content and calls are counted apart; a call is finished by its `tool-call-end`, the turn by
//!   `message-end`. `[DONE]`, which some addresses append, ends nothing.
//! - An error in the stream stands in `message-end`: the reasons `ERROR` and `TIMEOUT`, or an `error` beside any
//!   reason.
//! - `tokens` are counted, `cached_tokens` among the input; `billed_units` stand in only where they are missing.
//! - Citations belong to the content that they name, else to the last text. They do not go back.
//!
//! Sources: the [API's reference](https://docs.cohere.com/reference/chat-stream) and the guide to
//! [streaming](https://docs.cohere.com/v2/docs/streaming).
//!
//! # What is not supported
//!
//! Version 1 of the API, which is another wire; Cohere's models on Bedrock and Azure; its address that speaks
//! Chat Completions, which that wire's crate asks; free-form tools, sound, and files.

mod decode;
mod encode;
mod error;

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use turnstream_core::{
    Decode, Endpoint, Error, KeyHeader, Limits, RawJson, Request, SseDecoder, Wire, WireOptions, WireRequest,
};

/// The wire's name.
pub const WIRE: &str = "cohere-v2";

/// Where requests go by default.
const BASE_URL: &str = "https://api.cohere.com/v2";

/// Cohere's chat wire: a model, and where it is asked.
///
/// Its `Debug` shows no key and no header value.
#[derive(Debug, Clone)]
pub struct Cohere {
    model: String,
    endpoint: Endpoint,
    limits: Limits,
}

impl Cohere {
    /// A model at `https://api.cohere.com/v2`, without a key.
    pub fn new(model: impl Into<String>) -> Self {
        let endpoint = Endpoint::new(BASE_URL, KeyHeader::Bearer);
        Self { model: model.into(), endpoint, limits: Limits::default() }
    }

    /// A model at `https://api.cohere.com/v2`, with the key in `CO_API_KEY`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) when the variable is not set or empty.
    pub fn from_env(model: impl Into<String>) -> Result<Self, Error> {
        Self::new(model).key_from_env()
    }

    /// Sets the key from `CO_API_KEY`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) when the variable is not set or empty.
    pub fn key_from_env(self) -> Result<Self, Error> {
        Ok(Self { endpoint: self.endpoint.key_from_env("CO_API_KEY")?, ..self })
    }

    /// Sets the key, sent as a bearer token.
    pub fn key(self, key: impl Into<SecretString>) -> Self {
        Self { endpoint: self.endpoint.key(key), ..self }
    }

    /// Sets the header in which the key is sent.
    pub fn key_header(self, key_header: KeyHeader) -> Self {
        Self { endpoint: self.endpoint.key_header(key_header), ..self }
    }

    /// Sets the base URL. `chat` is appended to its path; its query is kept, and no version segment is added.
    pub fn base_url(self, base_url: impl Into<String>) -> Self {
        Self { endpoint: self.endpoint.base_url(base_url), ..self }
    }

    /// Adds a header. It replaces one of the wire's own of the same name; a header that carries a key
    /// replaces the key.
    pub fn header(self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        Self { endpoint: self.endpoint.header(name, value), ..self }
    }

    /// Sets how much of a reply is taken.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
}

impl Wire for Cohere {
    fn name(&self) -> &'static str {
        WIRE
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn encode(&self, request: &Request) -> Result<WireRequest, Error> {
        encode::encode(self, request)
    }

    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(SseDecoder::new(decode::RULES, self.limits, decode::Reply::default()))
    }

    fn refused(&self, status: u16, headers: &http::HeaderMap, body: &[u8]) -> Error {
        error::refused(status, headers, body)
    }
}

/// What only this wire has. Set it with [`Request::options`].
///
/// ```
/// use turnstream_cohere::Options;
/// use turnstream_core::Request;
///
/// let options = Options::new().thinking_budget(1024).citation_mode("ACCURATE");
/// let request = Request::new().user("Prove it.").options(options);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safety_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    citation_mode: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    json_object: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    documents: Vec<RawJson>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, RawJson>,
}

impl WireOptions for Options {
    const WIRE: &'static str = WIRE;
}

impl Options {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Thinks, with at most so many tokens.
    pub fn thinking_budget(self, tokens: u64) -> Self {
        Self { thinking_budget: Some(tokens), ..self }
    }

    /// Samples from the `k` likeliest tokens only.
    pub fn top_k(self, top_k: u64) -> Self {
        Self { top_k: Some(top_k), ..self }
    }

    /// Samples in the same way every time, as far as the provider can.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Makes what has been said often less likely, 0 to 1.
    pub fn frequency_penalty(self, penalty: f64) -> Self {
        Self { frequency_penalty: Some(penalty), ..self }
    }

    /// Makes what has been said at all less likely, 0 to 1.
    pub fn presence_penalty(self, penalty: f64) -> Self {
        Self { presence_penalty: Some(penalty), ..self }
    }

    /// The provider's instructions for safety: `CONTEXTUAL`, `STRICT` or `OFF`.
    pub fn safety_mode(self, mode: impl Into<String>) -> Self {
        Self { safety_mode: Some(mode.into()), ..self }
    }

    /// How sources are cited, for example `ACCURATE`, `FAST` or `OFF`.
    pub fn citation_mode(self, mode: impl Into<String>) -> Self {
        Self { citation_mode: Some(mode.into()), ..self }
    }

    /// Asks for any JSON object as the answer. For one of a schema see
    /// [`Request::output_schema`](turnstream_core::Request::output_schema).
    pub fn json_object(self, json_object: bool) -> Self {
        Self { json_object, ..self }
    }

    /// Adds a document that the answer can cite: a text, or an object such as
    /// `{"id": "1", "data": {"title": "..", "text": ".."}}`.
    pub fn document(mut self, document: impl Into<RawJson>) -> Self {
        self.documents.push(document.into());
        self
    }

    /// Sets a field of the body that this crate has no word for, for example `priority`. One that the request
    /// itself sets is an error when it is encoded.
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<RawJson>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        let wire = Cohere::new("m")
            .key("sk-SECRET-1")
            .header("authorization", "Bearer sk-SECRET-2")
            .base_url("https://h/v2?key=sk-SECRET-3");
        let request = wire.encode(&Request::new().user("hi")).unwrap();
        let shown = format!("{wire:?} {wire:#?} {request:?}");
        assert!(!shown.contains("SECRET"), "{shown}");
    }

    #[test]
    fn options_are_the_same_after_json() {
        let options = Options::new()
            .thinking_budget(100)
            .top_k(5)
            .seed(7)
            .frequency_penalty(0.1)
            .presence_penalty(0.2)
            .safety_mode("STRICT")
            .citation_mode("OFF")
            .json_object(true)
            .document(serde_json::json!("a text"))
            .extra("priority", serde_json::json!(1));
        let request = Request::new().options(options.clone());
        let json = serde_json::to_string(&request).unwrap();
        let request: Request = serde_json::from_str(&json).unwrap();
        assert_eq!(request.options_of::<Options>().unwrap(), options);
        assert_eq!(Request::new().options(Options::new()).options_of::<Options>().unwrap(), Options::new());
    }
}
