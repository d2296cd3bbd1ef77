//! The Gemini wire for turnstream: requests for `streamGenerateContent`, at the Gemini Developer API or at Vertex
//! AI, and what comes back as events.
//!
//! ```
//! use turnstream_core::{End, Event, Events, Request, Wire};
//! use turnstream_gemini::Gemini;
//!
//! let wire = Gemini::new("gemini-2.5-flash").key("the key");
//! let request = wire.encode(&Request::new().user("Say hi."))?;
//! let url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent";
//! assert_eq!(request.url.as_str(), format!("{url}?alt=sse"));
//!
//! let body = br#"data: {"candidates":[{"content":{"parts":[{"text":"Hi."}]},"finishReason":"STOP"}]}
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
//! # Where it is asked
//!
//! | profile | how | the key |
//! |---|---|---|
//! | `google` | [`Gemini::new`] | an API key, sent as `x-goog-api-key`; `GEMINI_API_KEY` |
//! | `vertex` | [`Gemini::vertex`] | an OAuth token, sent as `Authorization: Bearer`. It lives an hour, so give the client a source of tokens |
//! | `vertex-express` | [`Gemini::profile`] | an API key, sent as `x-goog-api-key`; `GOOGLE_API_KEY` |
//!
//! # What goes out
//!
//! - Tools go as `parametersJsonSchema`, as they stand. A tool that is `strict` asks for the mode `VALIDATED`.
//! - Results go in one message, in the order of the calls, as `{"output": ...}`, and failures as
//!   `{"error": ...}`. Images in them stand inside the result from Gemini 3 on, and behind it before.
//! - Ids that the provider gave go back; the ones that were made up for calls without an id stay here.
//! - A [thought signature](https://ai.google.dev/gemini-api/docs/thought-signatures) goes back on the very part
//!   that it came with. From Gemini 3 on the first call of a turn has to have one; where it comes from elsewhere
//!   it gets the documented word that says so.
//! - A reasoning effort is a `thinkingLevel` from Gemini 3 on, and else a `thinkingBudget`, by the numbers of
//!   Google's [OpenAI compatibility](https://ai.google.dev/gemini-api/docs/openai). Both ask for summaries.
//! - Labels of a request are `labels`, which only Vertex AI has; elsewhere they are a warning.
//! - To forbid several calls in one turn is an error: the wire has no word for it.
//!
//! # What comes in
//!
//! - Server-sent events, one JSON array that is written while it grows (without `alt=sse`), and one object (the
//!   reply of `generateContent`): the body's first byte says which.
//! - A call without an id gets one, in events and messages; a call without `args` has blank arguments. The
//!   reason is `tool_calls` where there is one, though the provider says `STOP`.
//! - A reason ends nothing, because some models give one with every piece, and the last one may be another:
//!   `STOP`, `STOP`, `RECITATION`. The turn ends at a clean end of the body after a reason, and an array has to
//!   be closed.
//! - With [`Options::stream_arguments`] arguments come as paths and values. They are written as JSON text, in
//!   the order in which they come, names and numbers as they are spelled. Values that have no place there (a
//!   second value for one path, an element out of order) are `Provider` events, and their call is malformed.
//! - Sources are [`Citation`](turnstream_core::Event::Citation)s of the text before them. `groundingMetadata`,
//!   `citationMetadata`, `urlContextMetadata`, `safetyRatings`, `promptFeedback` and their like are
//!   [`Provider`](turnstream_core::Event::Provider) events of these names.
//! - A blocked prompt ends as `content_filter`. `MALFORMED_FUNCTION_CALL` and other words for a failure are errors.
//! - Code that the provider runs, its results, images, and parts that nobody knows are opaque parts, which go
//!   back as they came, and `Provider` events.
//!
//! # What is not supported
//!
//! More candidates than one (others are `Provider` events), free-form tools, the Live and Interactions APIs,
//! uploads, caches, token counting.

mod decode;
mod encode;
mod error;

use std::{collections::BTreeMap, fmt, str::FromStr};

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use turnstream_core::{
    Decode, Endpoint, Error, KeyHeader, Limits, RawJson, Request, SseOrJsonDecoder, Wire, WireOptions,
    WireRequest,
};

/// The wire's name.
pub const WIRE: &str = "gemini";

/// The Gemini wire: a model, and where it is asked.
///
/// Its `Debug` shows no key and no header value.
#[derive(Debug, Clone)]
pub struct Gemini {
    model: String,
    endpoint: Endpoint,
    profile: Profile,
    limits: Limits,
}

impl Gemini {
    /// A model at the Gemini Developer API, without a key. A name with a `/` says its collection itself, for example
    /// `tunedModels/m`; others are below `models`. One that would lead out of the base URL is an error when a request
    /// is encoded.
    pub fn new(model: impl Into<String>) -> Self {
        let Row { base_url, key_header, .. } = Profile::Google.row();
        Self {
            model: model.into(),
            endpoint: Endpoint::new(base_url.unwrap_or_default(), key_header),
            profile: Profile::Google,
            limits: Limits::default(),
        }
    }

    /// A model at the Gemini Developer API, with the key in `GEMINI_API_KEY`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) when the variable is not set or empty.
    pub fn from_env(model: impl Into<String>) -> Result<Self, Error> {
        Self::new(model).key_from_env()
    }

    /// A model at Vertex AI, in a project and a location such as `europe-west4`, `us`, `eu` or `global`. The key
    /// is an OAuth token. With what is no name of a project or a location nothing is sent: there is no base URL then.
    pub fn vertex(project: &str, location: &str, model: impl Into<String>) -> Self {
        let wire = Self::new(model).profile(Profile::Vertex);
        // They become a part of the address, and the token goes there.
        let is_name = |name: &str| {
            !matches!(name, "" | "." | "..")
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
        };
        if !is_name(project) || !is_name(location) || location.contains(['.', ':']) {
            return wire;
        }
        let host = match location {
            "global" => "aiplatform.googleapis.com".to_owned(),
            // The regions that are a continent have addresses of another form.
            "us" | "eu" => format!("aiplatform.{location}.rep.googleapis.com"),
            location => format!("{location}-aiplatform.googleapis.com"),
        };
        let url = format!("https://{host}/v1/projects/{project}/locations/{location}/publishers/google");
        wire.base_url(url)
    }

    /// Says what server it is: its differences, and its base URL and the header of its key, unless they are set.
    pub fn profile(self, profile: Profile) -> Self {
        let Row { name, base_url, key_header, .. } = profile.row();
        Self { endpoint: self.endpoint.profile(name, base_url, key_header), profile, ..self }
    }

    /// Sets the base URL, to which `models/...:streamGenerateContent` is appended. Its query is kept.
    pub fn base_url(self, base_url: impl Into<String>) -> Self {
        Self { endpoint: self.endpoint.base_url(base_url), ..self }
    }

    /// Sets the key: an API key, or at Vertex AI an OAuth token.
    pub fn key(self, key: impl Into<SecretString>) -> Self {
        Self { endpoint: self.endpoint.key(key), ..self }
    }

    /// Sets the key from the profile's environment variable. With a profile that has none, no key is sent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) when the variable is not set or empty.
    pub fn key_from_env(self) -> Result<Self, Error> {
        let Some(variable) = self.profile.key_variable() else { return Ok(self) };
        Ok(Self { endpoint: self.endpoint.key_from_env(variable)?, ..self })
    }

    /// Sets the header in which the key is sent. Without this the profile decides.
    pub fn key_header(self, key_header: KeyHeader) -> Self {
        Self { endpoint: self.endpoint.key_header(key_header), ..self }
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

    /// The number of the model's series, for example 3 for `gemini-3.1-pro-preview`, where its name says it.
    fn series(&self) -> Option<u32> {
        let (_, behind) = self.model.rsplit_once("gemini-")?;
        behind.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
    }
}

impl Wire for Gemini {
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
        let responses = decode::Responses::new(self.limits);
        Box::new(SseOrJsonDecoder::new(decode::RULES, self.limits, responses))
    }

    fn refused(&self, status: u16, headers: &http::HeaderMap, body: &[u8]) -> Error {
        error::refused(status, headers, body)
    }
}

/// What only this wire has. Set it with [`Request::options`].
///
/// ```
/// use turnstream_core::Request;
/// use turnstream_gemini::Options;
///
/// let options = Options::new().top_k(40).server_tool(serde_json::json!({ "googleSearch": {} }));
/// let request = Request::new().user("Who won yesterday?").options(options);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_thoughts: Option<bool>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    safety: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    modalities: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream_arguments: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    server_tools: Vec<RawJson>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    generation: BTreeMap<String, RawJson>,
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

    /// Samples from the `k` likeliest tokens only.
    pub fn top_k(self, top_k: u64) -> Self {
        Self { top_k: Some(top_k), ..self }
    }

    /// Makes sampling repeatable, as far as the provider can.
    pub fn seed(self, seed: i64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Makes tokens that have occurred less likely, -2 to 2.
    pub fn presence_penalty(self, penalty: f64) -> Self {
        Self { presence_penalty: Some(penalty), ..self }
    }

    /// Makes frequent tokens less likely, -2 to 2.
    pub fn frequency_penalty(self, penalty: f64) -> Self {
        Self { frequency_penalty: Some(penalty), ..self }
    }

    /// Thinks with a fixed budget, in tokens: 0 turns it off, -1 lets the model decide. For the 2.5 series; from
    /// Gemini 3 on say a [reasoning effort](Request::reasoning), which excludes it.
    pub fn thinking_budget(self, tokens: i64) -> Self {
        Self { thinking_budget: Some(tokens), ..self }
    }

    /// Asks for summaries of the thoughts, or not. Without this they are asked for with a reasoning effort or
    /// a budget.
    pub fn include_thoughts(self, include_thoughts: bool) -> Self {
        Self { include_thoughts: Some(include_thoughts), ..self }
    }

    /// Sets from what on the provider's filter blocks, for example `HARM_CATEGORY_HARASSMENT` and
    /// `BLOCK_ONLY_HIGH`.
    pub fn safety(mut self, category: impl Into<String>, threshold: impl Into<String>) -> Self {
        self.safety.insert(category.into(), threshold.into());
        self
    }

    /// Begins with a cache that was made before, by its resource name.
    pub fn cached_content(self, name: impl Into<String>) -> Self {
        Self { cached_content: Some(name.into()), ..self }
    }

    /// Adds a kind of answer that is wanted, for example `IMAGE` or `TEXT`.
    pub fn modality(mut self, modality: impl Into<String>) -> Self {
        self.modalities.push(modality.into());
        self
    }

    /// Streams arguments while they are written. Vertex AI, from Gemini 3 on; without it each call comes whole.
    pub fn stream_arguments(self, stream_arguments: bool) -> Self {
        Self { stream_arguments, ..self }
    }

    /// Offers one of the provider's own tools, for example `{"googleSearch": {}}`, as it stands, behind the
    /// request's tools.
    pub fn server_tool(mut self, tool: impl Into<RawJson>) -> Self {
        self.server_tools.push(tool.into());
        self
    }

    /// Sets a field of `generationConfig` that this crate has no word for, for example `mediaResolution`. One
    /// that the request itself sets is an error when it is encoded.
    pub fn generation(mut self, name: impl Into<String>, value: impl Into<RawJson>) -> Self {
        self.generation.insert(name.into(), value.into());
        self
    }

    /// Sets a field of the body that this crate has no word for, for example `serviceTier`. One that the
    /// request itself sets is an error when it is encoded.
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<RawJson>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }
}

/// A server that speaks this wire, with its differences. Decoding needs none.
///
/// It is read from its name in lower case with dashes, for example `vertex-express`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// The Gemini Developer API.
    #[default]
    Google,
    /// Vertex AI, with an OAuth token. It has no base URL of its own: see [`Gemini::vertex`].
    Vertex,
    /// Vertex AI in express mode, with an API key and without a project.
    VertexExpress,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 3] = [Self::Google, Self::Vertex, Self::VertexExpress];

    /// The name, for example `vertex`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its base URL; `None` where the caller has to give one.
    pub fn base_url(self) -> Option<&'static str> {
        self.row().base_url
    }

    /// The environment variable in which its key is looked for; `None` where the key is a token that expires.
    pub fn key_variable(self) -> Option<&'static str> {
        self.row().key_variable
    }

    /// The table of differences, from <https://ai.google.dev/api> and
    /// <https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest>.
    fn row(self) -> Row {
        match self {
            Self::Google => Row {
                name: "google",
                base_url: Some("https://generativelanguage.googleapis.com/v1beta"),
                key_variable: Some("GEMINI_API_KEY"),
                key_header: KeyHeader::Named("x-goog-api-key"),
                is_vertex: false,
            },
            Self::Vertex => Row {
                name: "vertex",
                base_url: None,
                key_variable: None,
                key_header: KeyHeader::Bearer,
                is_vertex: true,
            },
            Self::VertexExpress => Row {
                name: "vertex-express",
                base_url: Some("https://aiplatform.googleapis.com/v1/publishers/google"),
                key_variable: Some("GOOGLE_API_KEY"),
                key_header: KeyHeader::Named("x-goog-api-key"),
                is_vertex: true,
            },
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|profile| profile.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::config(format!("{WIRE} has no profile `{name}`; it has {names}"))
        })
    }
}

/// A profile's differences.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    base_url: Option<&'static str>,
    key_variable: Option<&'static str>,
    key_header: KeyHeader,
    /// Whether it takes `labels` and `streamFunctionCallArguments`, which the Developer API refuses.
    is_vertex: bool,
}

#[cfg(test)]
mod tests {
    use turnstream_core::ErrorKind;

    use super::*;

    fn sent(wire: &Gemini) -> (String, Option<String>, Option<String>) {
        let request = wire.encode(&Request::new().user("hi")).unwrap();
        let header = |name| request.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        (request.url.to_string(), header("x-goog-api-key"), header("authorization"))
    }

    #[test]
    fn each_profile_has_its_address_and_its_key() {
        let end = "models/m:streamGenerateContent?alt=sse";
        let key = || Some("k".to_owned());
        assert_eq!(
            sent(&Gemini::new("m").key("k")),
            (format!("https://generativelanguage.googleapis.com/v1beta/{end}"), key(), None)
        );
        assert_eq!(
            sent(&Gemini::new("m").profile(Profile::VertexExpress).key("k")),
            (format!("https://aiplatform.googleapis.com/v1/publishers/google/{end}"), key(), None)
        );
        for (location, host) in [
            ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
            ("global", "aiplatform.googleapis.com"),
            ("eu", "aiplatform.eu.rep.googleapis.com"),
        ] {
            assert_eq!(
                sent(&Gemini::vertex("p", location, "m").key("k")),
                (
                    format!("https://{host}/v1/projects/p/locations/{location}/publishers/google/{end}"),
                    None,
                    Some("Bearer k".to_owned())
                )
            );
        }
        let nowhere = [
            Gemini::new("m").profile(Profile::Vertex),
            Gemini::vertex("p", "h.example/", "m"),
            Gemini::vertex("p", "user@h.example", "m"),
            Gemini::vertex("p", "", "m"),
            Gemini::vertex("p/../x", "eu", "m"),
            Gemini::vertex("", "eu", "m"),
            Gemini::vertex("..", "eu", "m"),
        ];
        for wire in nowhere {
            let error = wire.encode(&Request::new()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{wire:?}");
        }
        assert!(sent(&Gemini::vertex("example.com:p-1", "eu", "m")).0.contains("/projects/example.com:p-1/"));
    }

    #[test]
    fn the_address_keeps_its_query_and_the_model_its_path() {
        let url = |wire: Gemini| sent(&wire).0;
        assert_eq!(
            url(Gemini::new("m").base_url("https://h/v1/?a=b&alt=json")),
            "https://h/v1/models/m:streamGenerateContent?a=b&alt=json"
        );
        assert_eq!(
            url(Gemini::new("tunedModels/m").base_url("https://h?a=b")),
            "https://h/tunedModels/m:streamGenerateContent?a=b&alt=sse"
        );
        assert_eq!(
            url(Gemini::new("models/m").base_url("https://h")),
            "https://h/models/m:streamGenerateContent?alt=sse"
        );
    }

    #[test]
    fn no_models_name_leads_out_of_the_base_url() {
        let url = |model: &str| sent(&Gemini::new(model).base_url("https://h/v1?a=b")).0;
        for (model, path) in [
            ("m?x=y#z", "models/m%3Fx%3Dy%23z"),
            ("m:countTokens", "models/m%3AcountTokens"),
            ("%2e%2e/m", "%252e%252e/m"),
            ("publishers/meta/models/m", "publishers/meta/models/m"),
        ] {
            assert_eq!(url(model), format!("https://h/v1/{path}:streamGenerateContent?a=b&alt=sse"));
        }
        for model in
            ["", ".", "..", "/", "/m", "m/", "a//b", "../../admin/x", "models/../../../etc", "a/../b"]
        {
            let error = Gemini::new(model).encode(&Request::new().user("hi")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{model}");
        }
    }

    #[test]
    fn a_models_name_says_its_series() {
        for (model, series) in [
            ("gemini-2.5-flash", Some(2)),
            ("models/gemini-3-pro-preview", Some(3)),
            ("gemini-3.1-pro", Some(3)),
            ("gemini-10", Some(10)),
            ("gemini-flash-latest", None),
            ("gemma-3-27b-it", None),
        ] {
            assert_eq!(Gemini::new(model).series(), series, "{model}");
        }
    }

    #[test]
    fn profiles_are_read_from_their_names() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse::<Profile>().unwrap(), profile);
        }
        let error = "unheard-of".parse::<Profile>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("vertex-express"), "{error}");
    }

    #[test]
    fn no_secret_is_shown() {
        let wire = Gemini::new("m")
            .key("sk-SECRET-1")
            .header("authorization", "Bearer sk-SECRET-2")
            .base_url("https://h/v1?key=sk-SECRET-3");
        let request = wire.encode(&Request::new().user("hi")).unwrap();
        let shown = format!("{wire:?} {wire:#?} {request:?}");
        assert!(!shown.contains("SECRET"), "{shown}");
    }

    #[test]
    fn options_are_the_same_after_json() {
        let options = Options::new()
            .top_k(5)
            .seed(-1)
            .presence_penalty(0.5)
            .frequency_penalty(-0.5)
            .thinking_budget(-1)
            .include_thoughts(false)
            .safety("HARM_CATEGORY_HARASSMENT", "BLOCK_NONE")
            .cached_content("cachedContents/1")
            .modality("IMAGE")
            .stream_arguments(true)
            .server_tool(serde_json::json!({ "googleSearch": {} }))
            .generation("mediaResolution", serde_json::json!("MEDIA_RESOLUTION_LOW"))
            .extra("serviceTier", serde_json::json!("flex"));
        let request = Request::new().options(options.clone());
        let json = serde_json::to_string(&request).unwrap();
        let request: Request = serde_json::from_str(&json).unwrap();
        assert_eq!(request.options_of::<Options>().unwrap(), options);
        assert_eq!(Request::new().options(Options::new()).options_of::<Options>().unwrap(), Options::new());
    }
}
