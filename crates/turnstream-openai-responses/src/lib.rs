//! The OpenAI Responses wire for turnstream: OpenAI itself, Azure, xAI, and the local servers that speak it.
//!
//! [`OpenAiResponses`] is the config and the [`Wire`]: [`Request`] to HTTP request, body to events, refusal to
//! error. It does no IO.
//!
//! ```
//! use turnstream_core::{End, Event, Events, Request, Wire};
//! use turnstream_openai_responses::OpenAiResponses;
//!
//! let wire = OpenAiResponses::new("gpt-5-mini").key("sk-...".to_owned());
//! let request = wire.encode(&Request::new().user("Where is order A-4471?"))?;
//! assert_eq!(request.url.as_str(), "https://api.openai.com/v1/responses");
//!
//! let mut events = Events::new();
//! let mut decoder = wire.decoder();
//! decoder.feed(br#"data: {"type":"response.output_text.delta","output_index":0,"delta":"On its way."}
//!
//! data: {"type":"response.completed","response":{"status":"completed"}}
//!
//! "#, &mut events);
//! decoder.end(End::Closed, &mut events);
//! let text: Vec<_> = events.filter_map(|event| match event {
//!     Ok(Event::TextDelta(delta)) => Some(delta.text.to_string()),
//!     _ => None,
//! }).collect();
//! assert_eq!(text, ["On its way."]);
//! # Ok::<(), turnstream_core::Error>(())
//! ```
//!
//! # How items become parts
//!
//! | item | part |
//! |---|---|
//! | `message` | a text or refusal part for each of its content parts; each keeps the item's `id`, `status` and `phase` |
//! | `reasoning` | a reasoning part for each summary or content part; the last one keeps the item as it came. Without visible text: one opaque part |
//! | `function_call`, `custom_tool_call` | a call, under its `call_id`; it keeps the item's `id`, `status`, `namespace` and `caller` |
//! | all others (`web_search_call`, `mcp_call`, `compaction`, ...) | an opaque part with the item as it came; its progress comes out as provider events |
//!
//! What a part keeps goes back to this wire unchanged and in order. Reasoning and opaque parts of other wires
//! are left out.
//!
//! # State
//!
//! Requests are stateless by default where the server keeps state: `store: false`, and
//! `include: ["reasoning.encrypted_content"]` so that reasoning can go back. Models that do not reason refuse
//! that `include`; names that hold `gpt-4`, `gpt-3`, `chatgpt` or `-chat` are asked without it. An Azure
//! deployment may have any name: say [`Options::encrypted_reasoning`] where the guess is wrong. With
//! [`Options::previous_response_id`] give only the new messages, but the system texts again.
//!
//! # Not supported
//!
//! * Stop texts: the wire has no word for them. A request with one is refused with
//!   [`ErrorKind::Config`](turnstream_core::ErrorKind::Config).
//! * Sound, in or out; background responses; the WebSocket mode.
//! * Tools that a client runs without declaring a function (`computer_call`, `shell_call` and the like) come
//!   out as opaque parts, and no loop runs them.
//! * xAI sends the calls of its own server-side tools as `custom_tool_call` items, which look like a
//!   client's. Their names (`x_keyword_search` and others) are not among the tools that you declared: a
//!   declared name is the only sign.
//! * Text that comes only in a `done` event is given out if no delta of that content part came; a `done` text
//!   that says more than the deltas is not compared.

mod decode;
mod encode;
mod error;

use std::{collections::BTreeMap, fmt, str::FromStr};

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use turnstream_core::{
    Decode, Endpoint, Error, KeyHeader, Limits, RawJson, Request, SseDecoder, Wire, WireOptions, WireRequest,
};

use decode::{Interpreter, RULES};

/// The wire's name, in [`Replay::wire`](turnstream_core::Replay) and for [`Options`].
pub const WIRE: &str = "openai-responses";

/// The config of the wire: which model, where, under which key.
///
/// Its `Debug` shows no key and no header value.
#[derive(Debug, Clone)]
pub struct OpenAiResponses {
    model: String,
    profile: Profile,
    endpoint: Endpoint,
    limits: Limits,
}

impl OpenAiResponses {
    /// Asks `model` at OpenAI, as yet without a key.
    pub fn new(model: impl Into<String>) -> Self {
        let Row { base_url, key_header, idempotency_header, .. } = Profile::OpenAi.row();
        let endpoint = Endpoint::new(base_url.unwrap_or_default(), key_header);
        Self {
            model: model.into(),
            profile: Profile::OpenAi,
            endpoint: endpoint.idempotency_header(idempotency_header),
            limits: Limits::default(),
        }
    }

    /// Asks `model` at OpenAI with the key in `OPENAI_API_KEY`. For another server take [`new`](Self::new), its
    /// [`profile`](Self::profile) and [`key_from_env`](Self::key_from_env), in this order.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) when the variable is not set.
    pub fn from_env(model: impl Into<String>) -> Result<Self, Error> {
        Self::new(model).key_from_env()
    }

    /// Asks a deployment at Azure OpenAI, for example of the resource `https://name.openai.azure.com`. The key
    /// goes in the header `api-key`. With a resource that has a query nothing is sent: there is no base URL then.
    pub fn azure(resource: &str, deployment: &str) -> Self {
        let wire = Self::new(deployment).profile(Profile::Azure);
        // Behind a query or a fragment the path would be a part of it.
        if resource.contains(['?', '#']) {
            return wire;
        }
        wire.base_url(format!("{}/openai/v1", resource.trim_end_matches('/')))
    }

    /// Says whose variant of the wire it is: its differences, and its base URL and the header of its key, unless
    /// they are set.
    pub fn profile(self, profile: Profile) -> Self {
        let Row { name, base_url, key_header, idempotency_header, .. } = profile.row();
        let endpoint = self.endpoint.profile(name, base_url, key_header);
        Self { endpoint: endpoint.idempotency_header(idempotency_header), profile, ..self }
    }

    /// Sets the base URL, for example `http://127.0.0.1:8080/v1`; `/responses` is appended to its path, and its
    /// query is kept.
    pub fn base_url(self, base_url: impl Into<String>) -> Self {
        Self { endpoint: self.endpoint.base_url(base_url), ..self }
    }

    /// Sets the key.
    pub fn key(self, key: impl Into<SecretString>) -> Self {
        Self { endpoint: self.endpoint.key(key), ..self }
    }

    /// Sets the key from the profile's environment variable. With a profile that has none, no key is sent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) when the variable is not set.
    pub fn key_from_env(self) -> Result<Self, Error> {
        let Some(variable) = self.profile.key_variable() else { return Ok(self) };
        Ok(Self { endpoint: self.endpoint.key_from_env(variable)?, ..self })
    }

    /// Sets the header in which the key is sent. Without this the profile decides.
    pub fn key_header(self, key_header: KeyHeader) -> Self {
        Self { endpoint: self.endpoint.key_header(key_header), ..self }
    }

    /// Adds a header to every request. It replaces one of the wire's own of the same name; a header that
    /// carries a key replaces the wire's key.
    pub fn header(self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        Self { endpoint: self.endpoint.header(name, value), ..self }
    }

    /// Names the organisation that pays, in the header `OpenAI-Organization`.
    pub fn organization(self, organization: impl Into<String>) -> Self {
        self.header("openai-organization", organization.into())
    }

    /// Names the project that the request belongs to, in the header `OpenAI-Project`.
    pub fn project(self, project: impl Into<String>) -> Self {
        self.header("openai-project", project.into())
    }

    /// Sets how much of a reply is taken.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
}

impl Wire for OpenAiResponses {
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
        Box::new(SseDecoder::new(RULES, self.limits, Interpreter::default()))
    }

    fn refused(&self, status: u16, headers: &http::HeaderMap, body: &[u8]) -> Error {
        turnstream_core::refused(status, headers, body)
    }
}

/// Whose variant of the wire it is. The decoder is the same for all of them.
///
/// It is read from its name in lower case with dashes, for example `openai` or `llama-cpp`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// OpenAI.
    #[default]
    OpenAi,
    /// Azure OpenAI. See [`OpenAiResponses::azure`].
    Azure,
    /// A server of which nothing is known but that it speaks the wire. It has no base URL of its own.
    Compatible,
    /// xAI (Grok).
    Xai,
    /// OpenRouter, which keeps no state.
    OpenRouter,
    /// A llama.cpp server on this machine. It keeps no state, and says that a reply is complete where the token
    /// limit cut it.
    LlamaCpp,
    /// LM Studio on this machine.
    LmStudio,
    /// Ollama on this machine. It keeps no state.
    Ollama,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 8] = [
        Self::OpenAi,
        Self::Azure,
        Self::Compatible,
        Self::Xai,
        Self::OpenRouter,
        Self::LlamaCpp,
        Self::LmStudio,
        Self::Ollama,
    ];

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
            key_header: KeyHeader::Bearer,
            idempotency_header: None,
            keeps_state: false,
            is_strict: false,
        };
        let local = |name, base_url| Row { name, base_url: Some(base_url), ..compatible };
        let hosted =
            |name, base_url, key_variable| Row { key_variable: Some(key_variable), ..local(name, base_url) };
        let openai = Row {
            idempotency_header: Some("idempotency-key"),
            keeps_state: true,
            is_strict: true,
            ..hosted("openai", "https://api.openai.com/v1", "OPENAI_API_KEY")
        };
        match self {
            Self::OpenAi => openai,
            Self::Azure => Row {
                name: "azure",
                base_url: None,
                key_variable: Some("AZURE_OPENAI_API_KEY"),
                key_header: KeyHeader::Named("api-key"),
                idempotency_header: None,
                ..openai
            },
            Self::Compatible => compatible,
            Self::Xai => Row { keeps_state: true, ..hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY") },
            Self::OpenRouter => hosted("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
            Self::LlamaCpp => local("llama-cpp", "http://localhost:8080/v1"),
            Self::LmStudio => local("lm-studio", "http://localhost:1234/v1"),
            Self::Ollama => local("ollama", "http://localhost:11434/v1"),
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
    /// The header in which an idempotency key is sent. OpenAI does not say what it makes of one; gateways in
    /// front of it that tell retries from second orders look for it there.
    idempotency_header: Option<&'static str>,
    /// The server keeps responses unless told not to, and knows encrypted reasoning.
    keeps_state: bool,
    /// A reasoning item must be followed by another item of the same reply.
    is_strict: bool,
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

/// What only this wire has. Set it with [`Request::options`].
///
/// ```
/// use turnstream_core::Request;
/// use turnstream_openai_responses::{Options, Summary};
///
/// let request = Request::new().user("hi").options(Options::new().summary(Summary::Auto));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encrypted_reasoning: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_response_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verbosity: Option<Verbosity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncation: Option<Truncation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safety_identifier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_role: Option<SystemRole>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    server_tools: Vec<RawJson>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    json_object: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    grammars: BTreeMap<String, Grammar>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, RawJson>,
}

impl Options {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the server keeps the response, for `previous_response_id`. By default it is told not to.
    pub fn store(self, store: bool) -> Self {
        Self { store: Some(store), ..self }
    }

    /// Whether to ask for encrypted reasoning. By default yes if nothing is stored, unless the model's name
    /// says that it does not reason: such models refuse the question.
    pub fn encrypted_reasoning(self, asked: bool) -> Self {
        Self { encrypted_reasoning: Some(asked), ..self }
    }

    /// Asks for more in the reply, for example `web_search_call.action.sources`.
    pub fn include(mut self, what: impl Into<String>) -> Self {
        self.include.push(what.into());
        self
    }

    /// Goes on from a stored response. Give only the new messages then.
    pub fn previous_response_id(self, id: impl Into<String>) -> Self {
        Self { previous_response_id: Some(id.into()), ..self }
    }

    /// Asks for summaries of the reasoning.
    pub fn summary(self, summary: Summary) -> Self {
        Self { summary: Some(summary), ..self }
    }

    /// How much the answer should say.
    pub fn verbosity(self, verbosity: Verbosity) -> Self {
        Self { verbosity: Some(verbosity), ..self }
    }

    /// What happens when the conversation is longer than the context.
    pub fn truncation(self, truncation: Truncation) -> Self {
        Self { truncation: Some(truncation), ..self }
    }

    /// The processing tier, for example `flex`.
    pub fn service_tier(self, tier: impl Into<String>) -> Self {
        Self { service_tier: Some(tier.into()), ..self }
    }

    /// Routes requests with the same key to the same cache.
    pub fn prompt_cache_key(self, key: impl Into<String>) -> Self {
        Self { prompt_cache_key: Some(key.into()), ..self }
    }

    /// A stable, hashed name of the end user.
    pub fn safety_identifier(self, identifier: impl Into<String>) -> Self {
        Self { safety_identifier: Some(identifier.into()), ..self }
    }

    /// Where system texts go. In `instructions` by default.
    pub fn system_role(self, role: SystemRole) -> Self {
        Self { system_role: Some(role), ..self }
    }

    /// Holds a free-form tool's input to a grammar.
    pub fn grammar(mut self, tool: impl Into<String>, grammar: Grammar) -> Self {
        self.grammars.insert(tool.into(), grammar);
        self
    }

    /// Asks for an answer that is a JSON object, of whatever form. Where a schema can be had, see
    /// [`Request::output_schema`].
    pub fn json_object(self) -> Self {
        Self { json_object: true, ..self }
    }

    /// Offers one of the provider's own tools, for example `{"type": "web_search"}`, as it stands, behind the
    /// request's tools.
    pub fn server_tool(mut self, tool: impl Into<RawJson>) -> Self {
        self.server_tools.push(tool.into());
        self
    }

    /// Sets a field of the body that this crate has no word for, for example `max_tool_calls`. One that the
    /// request itself sets is an error when it is encoded.
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<RawJson>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }
}

impl WireOptions for Options {
    const WIRE: &'static str = WIRE;
}

/// How much of the reasoning is summarised. See [`Options::summary`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Summary {
    /// As much as the model can.
    Auto,
    /// Briefly.
    Concise,
    /// At length.
    Detailed,
}

/// How much an answer says. See [`Options::verbosity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verbosity {
    /// Little.
    Low,
    /// The usual.
    Medium,
    /// Much.
    High,
}

/// What a free-form tool's input must look like. See [`Options::grammar`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Grammar {
    /// In which language the grammar is written: `lark` or `regex`.
    pub syntax: String,
    /// The grammar.
    pub definition: String,
}

impl Grammar {
    /// A grammar in [Lark](https://lark-parser.readthedocs.io)'s language.
    pub fn lark(definition: impl Into<String>) -> Self {
        Self { syntax: "lark".to_owned(), definition: definition.into() }
    }

    /// A regular expression.
    pub fn regex(definition: impl Into<String>) -> Self {
        Self { syntax: "regex".to_owned(), definition: definition.into() }
    }
}

/// What happens to a conversation that is too long. See [`Options::truncation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Truncation {
    /// Items in its middle are left out.
    Auto,
    /// The request is refused.
    Disabled,
}

/// Where system texts go. See [`Options::system_role`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SystemRole {
    /// Joined, in `instructions`.
    Instructions,
    /// Each in a message of the role `system`, before the conversation.
    System,
    /// Each in a message of the role `developer`, before the conversation.
    Developer,
}

#[cfg(test)]
mod tests {
    use turnstream_core::ErrorKind;

    use super::*;

    #[test]
    fn every_profile_is_found_by_its_name() {
        for profile in Profile::ALL {
            assert_eq!(profile.name().parse::<Profile>().unwrap(), profile);
        }
        assert_eq!("OpenAI".parse::<Profile>().unwrap_err().kind(), ErrorKind::Config);
    }

    #[test]
    fn a_profile_sets_the_address_and_the_keys_header_but_not_over_the_callers() {
        let request = Request::new().user("hi");
        let xai = OpenAiResponses::new("grok-4").profile(Profile::Xai).key("k".to_owned());
        let request_of = |wire: OpenAiResponses| wire.encode(&request).unwrap();
        assert_eq!(request_of(xai).url.as_str(), "https://api.x.ai/v1/responses");
        let base = "https://r.openai.azure.com/openai/v1?api-version=preview";
        let azure = OpenAiResponses::new("d").base_url(base).profile(Profile::Azure).key("k".to_owned());
        let sent = request_of(azure);
        let want = "https://r.openai.azure.com/openai/v1/responses?api-version=preview";
        assert_eq!(sent.url.as_str(), want);
        assert_eq!(sent.headers.get("api-key").unwrap(), "k");
        assert!(!sent.headers.contains_key("authorization"));
        let nowhere = OpenAiResponses::new("d").profile(Profile::Azure).encode(&request).unwrap_err();
        assert_eq!(nowhere.message(), "the profile `azure` has no base URL of its own: give one");
        let short = OpenAiResponses::azure("https://r.openai.azure.com/", "d");
        assert_eq!(request_of(short).url.as_str(), "https://r.openai.azure.com/openai/v1/responses");
        let error = OpenAiResponses::azure("https://h?", "d").encode(&Request::new().user("hi")).unwrap_err();
        assert_eq!(error.message(), "the profile `azure` has no base URL of its own: give one");
    }

    #[test]
    fn a_callers_key_header_replaces_the_wires_key() {
        let wire = OpenAiResponses::new("m")
            .key("k".to_owned())
            .header("Authorization", "Api-Key z".to_owned())
            .header("x-trace", "1".to_owned());
        let sent = wire.encode(&Request::new().user("hi")).unwrap();
        assert_eq!(sent.headers.get_all("authorization").iter().collect::<Vec<_>>(), ["Api-Key z"]);
        assert_eq!(sent.headers.get("x-trace").unwrap(), "1");
    }

    #[test]
    fn no_secret_is_shown() {
        let wire = OpenAiResponses::new("m").key("sk-SECRET".to_owned()).header("h", "SECRET".to_owned());
        assert!(!format!("{wire:?}").contains("SECRET"));
    }

    #[test]
    fn options_are_the_same_after_json_and_unknown_ones_are_refused() {
        let options = Options::new()
            .store(true)
            .include("web_search_call.action.sources")
            .summary(Summary::Auto)
            .server_tool(RawJson::parse(r#"{"type": "web_search"}"#).unwrap())
            .grammar("sql", Grammar::regex("[a-z ]+"))
            .extra("stop", RawJson::parse(r#"["x"]"#).unwrap());
        let request = Request::new().options(options.clone());
        assert_eq!(request.options_of::<Options>().unwrap(), options);
        let unknown = serde_json::from_str::<Options>(r#"{"stor":true}"#);
        assert!(unknown.is_err());
    }
}
