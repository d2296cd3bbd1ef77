//! Anthropic's Messages wire for turnstream: requests for `POST /v1/messages`, and its stream as events.
//!
//! ```
//! use turnstream_anthropic::Anthropic;
//! use turnstream_core::{End, Event, Events, Request, Wire};
//!
//! let wire = Anthropic::new("claude-sonnet-4-5").key("the key");
//! let request = wire.encode(&Request::new().user("Say hi."))?;
//! assert_eq!(request.url.as_str(), "https://api.anthropic.com/v1/messages");
//!
//! let body = br#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi."}}
//!
//! data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}
//!
//! data: {"type":"message_stop"}
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
//! - System texts become the top-level `system`. Messages of one role in a row are one message, and results
//!   come first in it. Blank texts are left out, because the provider refuses them.
//! - `max_tokens` is required by the provider. Where a request does not say it, it is
//!   [`DEFAULT_MAX_TOKENS`], plus the thinking budget if there is one.
//! - A reasoning effort asks for adaptive thinking and sets `output_config.effort`; effort `none` turns
//!   thinking off. Models from before adaptive thinking want a [budget](Options::thinking_budget) instead.
//! - Thinking and a forced tool choice exclude each other on many models: then thinking is turned off, with a
//!   warning. A request that asks for no thinking says nothing about it.
//! - `tool_use.input` has to be an object. Arguments in a history that are none, for example free text of
//!   another wire's custom tool, are sent as `{"input": ...}`.
//! - Ids of calls that came from another wire are made to fit, in call and result alike.
//! - Thinking goes back with its signature; thinking without one is left out, because the provider refuses
//!   it. See [`Anthropic::unsigned_thinking`].
//! - A server-side call whose turn was over before its result came is left out, once a user's message has said more
//!   than results: the provider refuses it then.
//!
//! # What comes in
//!
//! - Blocks that are not text, thinking or a client's `tool_use` (server-side tools and their results,
//!   redacted thinking, compaction, news) are opaque parts, which go back as they came. All but redacted
//!   thinking are shown as [`Provider`](turnstream_core::Event::Provider) events, too, named by their type.
//! - `stop_sequence`, `stop_details`, `container` and `context_management`, where the provider fills them in,
//!   are `Provider` events of these names.
//! - The stop reason `compaction` is a pause: send the turn back and the model goes on.
//! - A block that never stopped and whose input is not complete is left out of the message.
//!
//! # Who speaks it
//!
//! Vendors that speak the wire are [profiles](Profile) of it: a row of a table each, and no code of their own.
//!
//! | profile | its differences | source |
//! |---|---|---|
//! | [`Anthropic`](Profile::Anthropic) | none | Anthropic's API reference |
//! | [`Vertex`](Profile::Vertex) | the model stands in the path, and the version in the body; a Google token is the key | Google's *Claude on Vertex AI*, `anthropic.lib.vertex` |
//! | [`Azure`](Profile::Azure) | none but its address, which is the resource's | Microsoft's *Claude in Foundry*, `anthropic.lib.foundry` |
//! | [`LlamaCpp`](Profile::LlamaCpp) | no key; a call's block may start without `input`, and before the last one stopped, which every decoder here takes | llama.cpp's server, seen here |
//! | `InvokeAnthropic` of the crate `turnstream-bedrock` | Bedrock's InvokeModel: frames of AWS around this wire's events, and signatures | Amazon's API reference |
//! | [`Compatible`](Profile::Compatible) | none: gateways, Bedrock's `mantle` address, Claude Platform on AWS | |
//!
//! # What is not supported
//!
//! Cache breakpoints on single blocks (only the [automatic one](Options::cache)), free-form tools, sound,
//! images in the model's own messages, batches, token counting. What the provider has and this crate does not name
//! can be sent through [`Options::extra`].

mod decode;
mod encode;
mod error;

use std::{collections::BTreeMap, fmt, str::FromStr};

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use turnstream_core::{
    Decode, Endpoint, Error, Interpret, KeyHeader, Limits, RawJson, Request, SseDecoder, Wire, WireOptions,
    WireRequest,
};

/// The wire's name.
pub const WIRE: &str = "anthropic-messages";

pub use decode::RULES;

/// The `max_tokens` of a request that does not say it: the provider has no default.
pub const DEFAULT_MAX_TOKENS: u64 = 4096;

/// Where requests go by default.
const BASE_URL: &str = "https://api.anthropic.com/v1";

/// The version that still takes sampling parameters.
const VERSION: &str = "2023-06-01";

/// The Messages wire: a model, and where it is asked.
///
/// Its `Debug` shows no key and no header value.
#[derive(Debug, Clone)]
pub struct Anthropic {
    model: String,
    endpoint: Endpoint,
    profile: Profile,
    limits: Limits,
    version: Option<String>,
    unsigned_thinking: bool,
}

impl Anthropic {
    /// A model at `https://api.anthropic.com/v1`, without a key.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            endpoint: Endpoint::new(BASE_URL, KeyHeader::Named("x-api-key")),
            profile: Profile::Anthropic,
            limits: Limits::default(),
            version: None,
            unsigned_thinking: false,
        }
    }

    /// A model at Google's Vertex AI, of a project and a location, for example `us-east5`, or `global`. The key is
    /// a Google access token, which expires after an hour: a client can be given a source of fresh ones. With what is
    /// no name of a project or a location nothing is sent: there is no base URL then.
    ///
    /// ```
    /// # use turnstream_anthropic::Anthropic;
    /// # use turnstream_core::{Request, Wire};
    /// let wire = Anthropic::vertex("my-project", "global", "claude-sonnet-4-5").key("ya29.token");
    /// let request = wire.encode(&Request::new().user("hi"))?;
    /// assert_eq!(
    ///     request.url.as_str(),
    ///     "https://aiplatform.googleapis.com/v1/projects/my-project/locations/global/publishers/anthropic/models/\
    ///      claude-sonnet-4-5:streamRawPredict",
    /// );
    /// # Ok::<(), turnstream_core::Error>(())
    /// ```
    pub fn vertex(project: &str, location: &str, model: impl Into<String>) -> Self {
        let wire = Self::new(model).profile(Profile::Vertex);
        // They become a part of the address, and the token goes there.
        let is_project = project.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
        if matches!(project, "" | "." | "..") || !is_project || !is_host_label(location) {
            return wire;
        }
        let host = match location {
            "global" => "aiplatform.googleapis.com".to_owned(),
            "us" | "eu" => format!("aiplatform.{location}.rep.googleapis.com"),
            region => format!("{region}-aiplatform.googleapis.com"),
        };
        let place = format!("v1/projects/{project}/locations/{location}/publishers/anthropic/models");
        wire.base_url(format!("https://{host}/{place}"))
    }

    /// A deployment in Azure's Foundry, of the resource with this name. With what is no name of a resource nothing is
    /// sent: there is no base URL then.
    pub fn azure(resource: &str, deployment: impl Into<String>) -> Self {
        let wire = Self::new(deployment).profile(Profile::Azure);
        if !is_host_label(resource) {
            return wire;
        }
        wire.base_url(format!("https://{resource}.services.ai.azure.com/anthropic/v1"))
    }

    /// Says whose variant of the wire it is: its differences, and its base URL and the header of its key, unless
    /// they are set.
    pub fn profile(self, profile: Profile) -> Self {
        let Row { name, base_url, key_header, .. } = profile.row();
        Self { endpoint: self.endpoint.profile(name, base_url, key_header), profile, ..self }
    }

    /// A model at `https://api.anthropic.com/v1`, with the key in `ANTHROPIC_API_KEY`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) when the variable is not set or empty.
    pub fn from_env(model: impl Into<String>) -> Result<Self, Error> {
        Self::new(model).key_from_env()
    }

    /// Sets the key from the environment variable of its profile: `ANTHROPIC_API_KEY` by default. A profile that
    /// needs none is left as it is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) when the variable is not set or empty.
    pub fn key_from_env(self) -> Result<Self, Error> {
        match self.profile.key_variable() {
            Some(variable) => Ok(Self { endpoint: self.endpoint.key_from_env(variable)?, ..self }),
            None => Ok(self),
        }
    }

    /// Sets the key, sent in the header of its profile: `x-api-key` by default.
    pub fn key(self, key: impl Into<SecretString>) -> Self {
        Self { endpoint: self.endpoint.key(key), ..self }
    }

    /// Sets the header in which the key is sent: gateways may want it as
    /// [`Bearer`](KeyHeader::Bearer).
    pub fn key_header(self, key_header: KeyHeader) -> Self {
        Self { endpoint: self.endpoint.key_header(key_header), ..self }
    }

    /// Sets the base URL. `messages` is appended to its path, or on Vertex the model and its method; its query is
    /// kept, and no version segment is added.
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

    /// Sets the version of the API: `2023-06-01` by default, in the header `anthropic-version`; on Vertex
    /// `vertex-2023-10-16`, in the body. Later versions refuse sampling parameters.
    pub fn version(self, version: impl Into<String>) -> Self {
        Self { version: Some(version.into()), ..self }
    }

    /// Sends thinking that came without a signature back, too. Anthropic refuses it, which is why it is left
    /// out by default; some compatible servers ask for it.
    pub fn unsigned_thinking(self, unsigned_thinking: bool) -> Self {
        Self { unsigned_thinking, ..self }
    }
}

/// Whether a name can be a part of a host's name without leading to another host.
fn is_host_label(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whose variant of the wire it is. The crate's page has their table.
///
/// It is read from its name in lower case with dashes, for example `vertex` or `llama-cpp`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// Anthropic.
    #[default]
    Anthropic,
    /// Google's Vertex AI. See [`Anthropic::vertex`].
    Vertex,
    /// Azure's Foundry. See [`Anthropic::azure`].
    Azure,
    /// A llama.cpp server on this machine.
    LlamaCpp,
    /// A server of which nothing is known but that it speaks the wire. It has no base URL of its own.
    Compatible,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 5] = [Self::Anthropic, Self::Vertex, Self::Azure, Self::LlamaCpp, Self::Compatible];

    /// The name, for example `llama-cpp`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its base URL; `None` where the caller has to give one.
    pub fn base_url(self) -> Option<&'static str> {
        self.row().base_url
    }

    /// The environment variable in which its key is looked for; `None` where no key is needed, or nothing is
    /// known of it.
    pub fn key_variable(self) -> Option<&'static str> {
        self.row().key_variable
    }

    /// The table of differences.
    fn row(self) -> Row {
        let compatible = Row {
            name: "compatible",
            base_url: None,
            key_variable: None,
            key_header: KeyHeader::Named("x-api-key"),
            version: VERSION,
            model_in_path: false,
        };
        match self {
            Self::Anthropic => Row {
                name: "anthropic",
                base_url: Some(BASE_URL),
                key_variable: Some("ANTHROPIC_API_KEY"),
                ..compatible
            },
            Self::Vertex => Row {
                name: "vertex",
                key_header: KeyHeader::Bearer,
                version: "vertex-2023-10-16",
                model_in_path: true,
                ..compatible
            },
            Self::Azure => {
                Row { name: "azure", key_variable: Some("ANTHROPIC_FOUNDRY_API_KEY"), ..compatible }
            }
            Self::LlamaCpp => {
                Row { name: "llama-cpp", base_url: Some("http://localhost:8080/v1"), ..compatible }
            }
            Self::Compatible => compatible,
        }
    }
}

/// A profile's differences.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    base_url: Option<&'static str>,
    key_variable: Option<&'static str>,
    key_header: KeyHeader,
    version: &'static str,
    /// The model stands in the path, in front of the method's name; then the version stands in the body.
    model_in_path: bool,
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

impl Anthropic {
    /// What this wire's events mean, without their framing: for hosts that frame them otherwise. It goes by
    /// [`RULES`].
    pub fn interpreter(&self) -> impl Interpret + fmt::Debug + use<> {
        decode::Messages::new(self.limits)
    }
}

impl Wire for Anthropic {
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
        Box::new(SseDecoder::new(RULES, self.limits, decode::Messages::new(self.limits)))
    }

    fn refused(&self, status: u16, headers: &http::HeaderMap, body: &[u8]) -> Error {
        error::refused(status, headers, body)
    }
}

/// What only this wire has. Set it with [`Request::options`].
///
/// ```
/// use turnstream_anthropic::{CacheLifetime, Options};
/// use turnstream_core::Request;
///
/// let options = Options::new().thinking_budget(2048).cache(CacheLifetime::FiveMinutes);
/// let request = Request::new().user("Prove it.").options(options);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_display: Option<ThinkingDisplay>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<CacheLifetime>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    eager_input: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    betas: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    server_tools: Vec<RawJson>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, RawJson>,
}

/// What is shown of a model's thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ThinkingDisplay {
    /// A summary.
    Summarized,
    /// Nothing; its signature still comes, and goes back.
    Omitted,
}

/// How long a cached prefix lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CacheLifetime {
    /// Five minutes after its last use.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// One hour after its last use.
    #[serde(rename = "1h")]
    OneHour,
}

impl WireOptions for Options {
    const WIRE: &'static str = WIRE;
}

impl Options {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Thinks with a fixed budget, in tokens: at least 1,024, and less than `max_tokens`. For models from
    /// before adaptive thinking; later ones refuse it.
    pub fn thinking_budget(self, tokens: u64) -> Self {
        Self { thinking_budget: Some(tokens), ..self }
    }

    /// What is shown of the thinking. By default the model decides; asking for it asks for thinking.
    pub fn thinking_display(self, display: ThinkingDisplay) -> Self {
        Self { thinking_display: Some(display), ..self }
    }

    /// Samples from the `k` likeliest tokens only.
    pub fn top_k(self, top_k: u64) -> Self {
        Self { top_k: Some(top_k), ..self }
    }

    /// How the request is served: `auto` or `standard_only`.
    pub fn service_tier(self, service_tier: impl Into<String>) -> Self {
        Self { service_tier: Some(service_tier.into()), ..self }
    }

    /// Caches the request up to its last block that can be cached, for so long.
    pub fn cache(self, lifetime: CacheLifetime) -> Self {
        Self { cache: Some(lifetime), ..self }
    }

    /// Streams the input of client tools as it is written, without the provider's buffering and checks:
    /// fragments come earlier, and a call may end malformed.
    pub fn eager_input(self, eager_input: bool) -> Self {
        Self { eager_input, ..self }
    }

    /// Adds a name to the header `anthropic-beta`.
    pub fn beta(mut self, name: impl Into<String>) -> Self {
        self.betas.push(name.into());
        self
    }

    /// Offers one of the provider's own tools, for example
    /// `{"type": "web_search_20250305", "name": "web_search"}`, as it stands, behind the request's tools.
    pub fn server_tool(mut self, tool: impl Into<RawJson>) -> Self {
        self.server_tools.push(tool.into());
        self
    }

    /// Sets a field of the body that this crate has no word for, for example `mcp_servers`. One that the
    /// request itself sets is an error when it is encoded.
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
        let wire = Anthropic::new("m")
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
            .thinking_budget(2048)
            .thinking_display(ThinkingDisplay::Omitted)
            .top_k(5)
            .service_tier("auto")
            .cache(CacheLifetime::OneHour)
            .eager_input(true)
            .beta("files-api-2025-04-14")
            .server_tool(serde_json::json!({"type": "web_search_20250305", "name": "web_search"}))
            .extra("container", serde_json::json!("container_1"));
        let request = Request::new().options(options.clone());
        let json = serde_json::to_string(&request).unwrap();
        let request: Request = serde_json::from_str(&json).unwrap();
        assert_eq!(request.options_of::<Options>().unwrap(), options);
        assert_eq!(Request::new().options(Options::new()).options_of::<Options>().unwrap(), Options::new());
    }
}
