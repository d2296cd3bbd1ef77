//! Ollama's chat wire for turnstream: requests for `POST /api/chat`, and its JSON lines as events.
//!
//! ```
//! use turnstream_core::{End, Event, Events, Request, Wire};
//! use turnstream_ollama::Ollama;
//!
//! let wire = Ollama::new("qwen3:4b");
//! let request = wire.encode(&Request::new().user("What is the time?"))?;
//! assert_eq!(request.url.as_str(), "http://localhost:11434/api/chat");
//!
//! let body = br#"{"model":"qwen3:4b","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"index":0,"name":"now","arguments":{"zone": "UTC"}}}]},"done":false}
//! {"model":"qwen3:4b","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}
//! "#;
//! let (mut decoder, mut events) = (wire.decoder(), Events::new());
//! decoder.feed(body, &mut events);
//! decoder.end(End::Closed, &mut events);
//! let calls: Vec<String> = events
//!     .filter_map(|event| match event {
//!         Ok(Event::CallFinished(call)) => Some(format!("{} {}", call.name, call.arguments.as_str())),
//!         _ => None,
//!     })
//!     .collect();
//! assert_eq!(calls, [r#"now {"zone": "UTC"}"#]);
//! # Ok::<(), turnstream_core::Error>(())
//! ```
//!
//! # What goes out
//!
//! - System texts become one system message, a blank line between them: some of the server's built-in
//!   templates read the first one only.
//! - `max_tokens` becomes `options.num_predict`; temperature, top-p and stop texts are `options`, too.
//! - A reasoning effort becomes `think`: `none` is `false`, and the wire's words are `low`, `medium`, `high`
//!   and `max`. Servers from before these words take `true`: `Options::new().extra("think", json!(true))`.
//! - Without tools no call can be made, so the tool choice `none` leaves the tools out. To force a call, or
//!   to forbid several, is an error: the wire has no words for it.
//! - A call's arguments go back as the object that they are: the server refuses a text. Arguments that are no
//!   object are sent as `{"input": ...}`.
//! - A result is a message of its own under `tool_name` and `tool_call_id`, in the order given: older servers
//!   look at the order alone. Ids that were made up are left out. Images of results follow in a user's
//!   message.
//! - Thinking goes back with the call that it led to; the server's templates decide what the model sees of it.
//! - Images are base64. The wire has no documents and no sound.
//!
//! # What comes in
//!
//! - A call comes whole: one fragment, the object's own text as it stands in the line. Older servers give no
//!   ids; then one is made up.
//! - The turn ends at `done: true` and nowhere else. A body that ends without it is cut, however it looks.
//! - The word for the end is `stop`, also where the model waits for results; a turn with a call is
//!   `tool_calls` all the same. A line that is done and says no reason is a plain end, marked as inferred.
//! - `prompt_eval_count` is the input and may be missing where all of it was cached; `eval_count` is the
//!   output. Timings are left out.
//! - `logprobs` and `images` are [`Provider`](turnstream_core::Event::Provider) events of these names.
//!
//! # Traps
//!
//! - The context is small by default, and what does not fit is left out of the prompt without a word: set
//!   [`Options::num_ctx`].
//! - A model that is loaded first answers nothing for up to minutes, not even headers: give the client a long
//!   first-byte timeout.
//! - `OLLAMA_HOST` often names another machine over plain `http`. The client refuses that unless it is told
//!   that the network is safe: `Client::allow_insecure_http`.
//! - A model without tools answers 400 to a request that offers some.
//! - A call that the server cannot read comes as text, the model's markup in it.
//!
//! Sources: the [API's documentation](https://docs.ollama.com/api/chat) and the server's
//! [`api/types.go`](https://github.com/ollama/ollama/blob/main/api/types.go).
//!
//! # What is not supported
//!
//! `/api/generate`, model management, and the server's addresses that speak other wires, which those wires'
//! crates ask.

mod decode;
mod encode;
mod error;

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use turnstream_core::{
    Decode, Endpoint, Error, KeyHeader, Limits, NdjsonDecoder, RawJson, Request, Wire, WireOptions,
    WireRequest, refused,
};

/// The wire's name.
pub const WIRE: &str = "ollama";

/// A server on this machine.
const BASE_URL: &str = "http://localhost:11434/api";

/// The cloud, which wants a key.
const CLOUD_URL: &str = "https://ollama.com/api";

/// Where a server listens if an address does not say so.
const PORT: u16 = 11434;

/// Ollama's chat wire: a model, and where it is asked.
///
/// Its `Debug` shows no key and no header value.
#[derive(Debug, Clone)]
pub struct Ollama {
    model: String,
    endpoint: Endpoint,
    limits: Limits,
}

impl Ollama {
    /// A model of the server at `http://localhost:11434`, without a key.
    pub fn new(model: impl Into<String>) -> Self {
        let endpoint = Endpoint::new(BASE_URL, KeyHeader::Bearer);
        Self { model: model.into(), endpoint, limits: Limits::default() }
    }

    /// A model of `https://ollama.com`, which wants a [key](Self::key_from_env).
    pub fn cloud(model: impl Into<String>) -> Self {
        Self::new(model).base_url(CLOUD_URL)
    }

    /// A model of the server in `OLLAMA_HOST`, written as Ollama's own tools take it: `gpu.local`,
    /// `0.0.0.0:8080`, `https://h/ollama`. Without it, of the server on this machine. No key is read.
    pub fn from_env(model: impl Into<String>) -> Self {
        let wire = Self::new(model);
        match std::env::var("OLLAMA_HOST") {
            Ok(host) if !host.trim().is_empty() => wire.base_url(url_of_host(host.trim())),
            _ => wire,
        }
    }

    /// Sets the key from `OLLAMA_API_KEY`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) when the variable is not set or empty.
    pub fn key_from_env(self) -> Result<Self, Error> {
        Ok(Self { endpoint: self.endpoint.key_from_env("OLLAMA_API_KEY")?, ..self })
    }

    /// Sets the key, sent as a bearer token. A server on this machine wants none.
    pub fn key(self, key: impl Into<SecretString>) -> Self {
        Self { endpoint: self.endpoint.key(key), ..self }
    }

    /// Sets the header in which the key is sent.
    pub fn key_header(self, key_header: KeyHeader) -> Self {
        Self { endpoint: self.endpoint.key_header(key_header), ..self }
    }

    /// Sets the base URL, for example `http://gpu.local:11434/api`. `chat` is appended to its path; its query
    /// is kept, and no segment is added.
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

impl Wire for Ollama {
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
        Box::new(NdjsonDecoder::new(decode::RULES, self.limits, decode::Lines::default()))
    }

    fn refused(&self, status: u16, headers: &http::HeaderMap, body: &[u8]) -> Error {
        refused(status, headers, body)
    }
}

/// What only this wire has. Set it with [`Request::options`].
///
/// ```
/// use turnstream_core::Request;
/// use turnstream_ollama::Options;
///
/// let options = Options::new().num_ctx(32_768).keep_alive("30m");
/// let request = Request::new().user("Sum this up.").options(options);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    num_ctx: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_alive: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    json_object: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    model_options: BTreeMap<String, RawJson>,
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

    /// The size of the context, in tokens. The server's default is small, and what does not fit is left out of
    /// the prompt without a word.
    pub fn num_ctx(self, tokens: u64) -> Self {
        Self { num_ctx: Some(tokens), ..self }
    }

    /// Samples from the `k` likeliest tokens only.
    pub fn top_k(self, top_k: u64) -> Self {
        Self { top_k: Some(top_k), ..self }
    }

    /// Leaves out tokens that are less likely than this share of the likeliest one, 0 to 1.
    pub fn min_p(self, min_p: f64) -> Self {
        Self { min_p: Some(min_p), ..self }
    }

    /// Samples in the same way every time.
    pub fn seed(self, seed: i64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Makes what has been said less likely; 1 changes nothing.
    pub fn repeat_penalty(self, penalty: f64) -> Self {
        Self { repeat_penalty: Some(penalty), ..self }
    }

    /// How long the model stays loaded afterwards: `5m`, `24h`, `0s` to unload it, `-1m` to keep it.
    pub fn keep_alive(self, duration: impl Into<String>) -> Self {
        Self { keep_alive: Some(duration.into()), ..self }
    }

    /// Asks for any JSON object as the answer. For one of a schema see
    /// [`Request::output_schema`](turnstream_core::Request::output_schema).
    pub fn json_object(self, json_object: bool) -> Self {
        Self { json_object, ..self }
    }

    /// Sets a field of the body's `options` that this crate has no word for, for example `num_gpu`. One that
    /// the request itself sets is an error when it is encoded.
    pub fn model_option(mut self, name: impl Into<String>, value: impl Into<RawJson>) -> Self {
        self.model_options.insert(name.into(), value.into());
        self
    }

    /// Sets a field of the body that this crate has no word for, for example `logprobs`. One that the request
    /// itself sets is an error when it is encoded.
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<RawJson>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }
}

/// The base URL of a server that is named as in `OLLAMA_HOST`.
fn url_of_host(host: &str) -> String {
    let base_url = match host.split_once("://") {
        Some(_) => host.to_owned(),
        None => {
            let (authority, path) = host.split_once('/').unwrap_or((host, ""));
            // The colons of an IPv6 address stand in brackets.
            let has_port = authority.rsplit(']').next().unwrap_or(authority).contains(':');
            let port = if has_port { String::new() } else { format!(":{PORT}") };
            format!("http://{authority}{port}/{path}")
        }
    };
    format!("{}/api", base_url.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        let wire = Ollama::cloud("m")
            .key("sk-SECRET-1")
            .header("authorization", "Bearer sk-SECRET-2")
            .base_url("https://h/api?key=sk-SECRET-3");
        let request = wire.encode(&Request::new().user("hi")).unwrap();
        let shown = format!("{wire:?} {wire:#?} {request:?}");
        assert!(!shown.contains("SECRET"), "{shown}");
    }

    #[test]
    fn options_are_the_same_after_json() {
        let options = Options::new()
            .num_ctx(8192)
            .top_k(5)
            .min_p(0.05)
            .seed(-1)
            .repeat_penalty(1.1)
            .keep_alive("10m")
            .json_object(true)
            .model_option("num_gpu", serde_json::json!(1))
            .extra("truncate", serde_json::json!(false));
        let request = Request::new().options(options.clone());
        let json = serde_json::to_string(&request).unwrap();
        let request: Request = serde_json::from_str(&json).unwrap();
        assert_eq!(request.options_of::<Options>().unwrap(), options);
        assert_eq!(Request::new().options(Options::new()).options_of::<Options>().unwrap(), Options::new());
    }

    #[test]
    fn a_host_is_read_as_the_servers_own_tools_read_it() {
        let table = [
            ("gpu.local", "http://gpu.local:11434/api"),
            ("0.0.0.0:8080", "http://0.0.0.0:8080/api"),
            ("[::1]", "http://[::1]:11434/api"),
            ("[::1]:80", "http://[::1]:80/api"),
            ("h/ollama/", "http://h:11434/ollama/api"),
            ("https://h", "https://h/api"),
            ("http://h:1/ollama", "http://h:1/ollama/api"),
        ];
        for (host, url) in table {
            assert_eq!(url_of_host(host), url, "{host}");
        }
    }
}
