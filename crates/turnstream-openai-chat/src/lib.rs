//! OpenAI Chat Completions for turnstream, and the many servers that speak it.
//!
//! ```
//! use turnstream_core::{End, Events, Request, Wire};
//! use turnstream_openai_chat::OpenAiChat;
//!
//! let wire = OpenAiChat::new("gpt-5-nano").key("sk-example".to_owned());
//! let request = wire.encode(&Request::new().user("Say hello."))?;
//! assert_eq!(request.url.as_str(), "https://api.openai.com/v1/chat/completions");
//!
//! let (mut decoder, mut events) = (wire.decoder(), Events::new());
//! decoder.feed(b"data: {\"choices\":[{\"delta\":{\"content\":\"Hello!\"},\"finish_reason\":\"stop\"}]}\n\n", &mut events);
//! decoder.feed(b"data: [DONE]\n\n", &mut events);
//! decoder.end(End::Closed, &mut events);
//! assert_eq!(events.len(), 4); // turn_started, text_delta, part_finished, turn_finished
//! # Ok::<(), turnstream_core::Error>(())
//! ```
//!
//! **Supported:** text, images, sound and files to the model; text, reasoning, refusals and calls from it, with
//! JSON input and free-form; every key, id and ending that compatible servers are known to send; usage; errors
//! inside the stream. [`Profile`] names the servers whose differences are known, [`Options`] has what
//! [`Request`] does not.
//!
//! **Not supported:** more than one choice (others come out as `provider` events), spoken answers (their
//! `audio` comes out so, too), log probabilities, predicted outputs, the provider's own web search options
//! other than through [`Options::extra`], and `<think>` tags inside the text, which stay text.
//!
//! # What this wire cannot say
//!
//! - That a call failed: the text of its result begins with `Error: `.
//! - An image or a file in a result: those of one turn follow all its results in one user message.
//! - A document at an address (except [`Profile::Mistral`]), an uploaded image, sound at an address: these are
//!   [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) errors.

//! # What servers do that nothing here mends
//!
//! A switch for a server's fault is built where a recording shows the fault, and lives in its [`Profile`]. For these
//! there is none, since to guess would break honest streams:
//!
//! | a server | what happens |
//! |---|---|
//! | cuts a tool's name over several chunks | the first piece is the name; nobody knows such a tool, and the model is told so |
//! | says the arguments whole once more behind their fragments | the text is not one JSON value: the call is aborted as malformed, and no handler runs |
//! | says in each chunk all arguments so far | the same |
//! | refuses `"content": null` beside calls | its refusal is the turn's error; [`Options::extra`] cannot mend it, a gateway can |
//! | refuses a tool without parameters | the same; give the tool a parameter that is optional |

mod decode;
mod encode;
mod error;

use std::{
    collections::BTreeMap,
    fmt,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::HeaderMap;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use turnstream_core::{
    Decode, Endpoint, Error, KeyHeader, Limits, RawJson, Request, SseDecoder, Wire, WireOptions, WireRequest,
};

/// The wire's name.
pub const WIRE: &str = "openai-chat";

/// A model behind Chat Completions: at OpenAI, or at a server of one of the [`Profile`]s.
#[derive(Debug, Clone)]
pub struct OpenAiChat {
    model: String,
    endpoint: Endpoint,
    profile: Profile,
    include_usage: Option<bool>,
    /// Whether the server was found not to know `stream_options`, where that is found out.
    usage_refused: Option<Arc<AtomicBool>>,
    replay_reasoning: Option<bool>,
    join_system: Option<bool>,
    limits: Limits,
}

impl OpenAiChat {
    /// A model at OpenAI, without a key.
    pub fn new(model: impl Into<String>) -> Self {
        let Row { base_url, key_header, idempotency_header, .. } = Profile::OpenAi.row();
        let endpoint = Endpoint::new(base_url.unwrap_or_default(), key_header);
        Self {
            model: model.into(),
            endpoint: endpoint.idempotency_header(idempotency_header),
            profile: Profile::OpenAi,
            include_usage: None,
            usage_refused: None,
            replay_reasoning: None,
            join_system: None,
            limits: Limits::default(),
        }
    }

    /// A model at OpenAI, with the key in `OPENAI_API_KEY`. For another server take [`new`](Self::new), its
    /// [`profile`](Self::profile) and [`key_from_env`](Self::key_from_env), in this order.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) when the variable is not set.
    pub fn from_env(model: impl Into<String>) -> Result<Self, Error> {
        Self::new(model).key_from_env()
    }

    /// A deployment at Azure OpenAI, for example of the resource `https://name.openai.azure.com`, with the
    /// API's version, for example `2024-10-21`. The key goes in the header `api-key`. With what is no name of a
    /// deployment, or no version, nothing is sent: there is no base URL then.
    pub fn azure(resource: &str, deployment: &str, api_version: &str) -> Self {
        let wire = Self::new(deployment).profile(Profile::Azure);
        let is_version =
            api_version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
        // Behind a query or a fragment the path would be a part of it.
        let Ok(deployment) = Endpoint::segment(deployment) else { return wire };
        if !is_version || resource.contains(['?', '#']) {
            return wire;
        }
        let resource = resource.trim_end_matches('/');
        wire.base_url(format!("{resource}/openai/deployments/{deployment}?api-version={api_version}"))
    }

    /// Says what server it is: its differences, and its base URL and the header of its key, unless they are set.
    pub fn profile(self, profile: Profile) -> Self {
        let Row { name, base_url, key_header, idempotency_header, .. } = profile.row();
        let endpoint = self.endpoint.profile(name, base_url, key_header);
        Self { endpoint: endpoint.idempotency_header(idempotency_header), profile, ..self }
    }

    /// Sets the base URL, to which `chat/completions` is appended: mostly one that ends in `/v1`. Its query
    /// is kept.
    pub fn base_url(self, base_url: impl Into<String>) -> Self {
        // Another server has to be asked anew what it knows.
        let usage_refused = self.usage_refused.as_ref().map(|_| Arc::default());
        Self { endpoint: self.endpoint.base_url(base_url), usage_refused, ..self }
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

    /// Limits what is taken of a reply.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Asks for a report of tokens at the end of the stream, or does not. Without this the profile decides:
    /// some servers report unasked, and some refuse to be asked.
    pub fn include_usage(self, include_usage: bool) -> Self {
        Self { include_usage: Some(include_usage), ..self }
    }

    /// Asks for a report of tokens, and if the server refuses that (status 400 or 422, in words that name
    /// `stream_options`), asks the same turn once more without. That is remembered for this base URL, by this
    /// value and those cloned from it. It takes an attempt that the client's retry policy allows.
    pub fn include_usage_if_known(self) -> Self {
        Self { include_usage: Some(true), usage_refused: Some(Arc::default()), ..self }
    }

    /// Sends the model's reasoning text back as `reasoning_content` while the calls of a user's turn are
    /// being answered, or does not. Without this the profile decides: some servers demand it, others refuse it.
    pub fn replay_reasoning(self, replay_reasoning: bool) -> Self {
        Self { replay_reasoning: Some(replay_reasoning), ..self }
    }

    /// Joins several system texts into one message, or does not. Without this the profile decides: the templates
    /// of many open models allow one, at the beginning.
    pub fn join_system(self, join_system: bool) -> Self {
        Self { join_system: Some(join_system), ..self }
    }
}

impl Wire for OpenAiChat {
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
        let reply = decode::Reply::new(self.limits.text_bytes);
        Box::new(SseDecoder::new(decode::RULES, self.limits, reply))
    }

    fn refused(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Error {
        turnstream_core::refused(status, headers, body)
    }

    fn other_form(&self, request: &WireRequest, error: &Error) -> Option<WireRequest> {
        let refused = self.usage_refused.as_ref()?;
        let names_it = [error.message(), error.body().unwrap_or_default()]
            .into_iter()
            .any(|words| words.contains(encode::STREAM_OPTIONS));
        if !matches!(error.status(), Some(400 | 422)) || !names_it {
            return None;
        }
        let body = RawJson::parse(std::str::from_utf8(&request.body).ok()?).ok()?;
        let body = body.without_field(encode::STREAM_OPTIONS)?;
        refused.store(true, Ordering::Relaxed);
        let mut request = request.clone();
        request.body = body.as_str().as_bytes().to_vec().into();
        Some(request)
    }
}

/// What Chat Completions has and [`Request`] does not. All of it is optional, and not every server knows it.
/// Set it with [`Request::options`].
///
/// ```
/// use turnstream_core::Request;
/// use turnstream_openai_chat::Options;
///
/// let request = Request::new().user("List three ports as JSON.").options(Options::new().json_object());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    logit_bias: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verbosity: Option<Verbosity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safety_identifier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    developer_role: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    json_object: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    grammars: BTreeMap<String, Grammar>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    server_tools: Vec<RawJson>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, RawJson>,
}

impl Options {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes sampling repeatable, as far as the provider can.
    pub fn seed(self, seed: i64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Makes frequent tokens less likely, -2 to 2.
    pub fn frequency_penalty(self, penalty: f64) -> Self {
        Self { frequency_penalty: Some(penalty), ..self }
    }

    /// Makes tokens that have occurred less likely, -2 to 2.
    pub fn presence_penalty(self, penalty: f64) -> Self {
        Self { presence_penalty: Some(penalty), ..self }
    }

    /// Makes one token, by its number in the model's vocabulary, more or less likely, -100 to 100.
    pub fn logit_bias(mut self, token: impl Into<String>, bias: f64) -> Self {
        self.logit_bias.insert(token.into(), bias);
        self
    }

    /// Chooses how the request is served, for example `flex` or `priority`.
    pub fn service_tier(self, tier: impl Into<String>) -> Self {
        Self { service_tier: Some(tier.into()), ..self }
    }

    /// Whether the provider keeps the reply.
    pub fn store(self, store: bool) -> Self {
        Self { store: Some(store), ..self }
    }

    /// How much the answer should say.
    pub fn verbosity(self, verbosity: Verbosity) -> Self {
        Self { verbosity: Some(verbosity), ..self }
    }

    /// Names a group of requests with a common beginning, so that they find the same cache.
    pub fn prompt_cache_key(self, key: impl Into<String>) -> Self {
        Self { prompt_cache_key: Some(key.into()), ..self }
    }

    /// Names the end user, hashed, for the provider's safety checks.
    pub fn safety_identifier(self, identifier: impl Into<String>) -> Self {
        Self { safety_identifier: Some(identifier.into()), ..self }
    }

    /// Names the end user. OpenAI has replaced it by the two above; compatible servers have not.
    pub fn user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// Sends system texts under the role `developer`. OpenAI turns `system` into it where it has to; many
    /// compatible servers refuse it.
    pub fn developer_role(self) -> Self {
        Self { developer_role: true, ..self }
    }

    /// Holds a free-form tool's input to a grammar.
    pub fn grammar(mut self, tool: impl Into<String>, grammar: Grammar) -> Self {
        self.grammars.insert(tool.into(), grammar);
        self
    }

    /// Asks for an answer that is a JSON object, of whatever form: the only structured answers of some servers.
    /// Where a schema can be had, see [`Request::output_schema`].
    pub fn json_object(self) -> Self {
        Self { json_object: true, ..self }
    }

    /// Offers one of the provider's own tools, for example `{"type": "browser_search"}`, as it stands, behind
    /// the request's tools.
    pub fn server_tool(mut self, tool: impl Into<RawJson>) -> Self {
        self.server_tools.push(tool.into());
        self
    }

    /// Sets a field of the body that this crate has no word for, for example `top_k`. One that the request
    /// itself sets is an error when it is encoded.
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<RawJson>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }
}

impl WireOptions for Options {
    const WIRE: &'static str = WIRE;
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

/// A server that speaks this wire, with its differences. Decoding needs none: every server's replies are read
/// in the same way.
///
/// It is read from its name in lower case with dashes, for example `mistral` or `llama-cpp`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// OpenAI itself.
    #[default]
    OpenAi,
    /// Azure OpenAI, by deployment. See [`OpenAiChat::azure`].
    Azure,
    /// A server of which nothing is known but that it speaks the wire. It has no base URL of its own.
    Compatible,
    /// Mistral: call ids of nine letters and digits, reasoning inside the content, documents by address.
    Mistral,
    /// DeepSeek.
    DeepSeek,
    /// Moonshot (Kimi).
    Moonshot,
    /// Z.ai (GLM).
    Zai,
    /// MiniMax.
    MiniMax,
    /// DashScope (Qwen), its international address.
    DashScope,
    /// xAI (Grok).
    Xai,
    /// Groq.
    Groq,
    /// Cerebras.
    Cerebras,
    /// OpenRouter.
    OpenRouter,
    /// Together.
    Together,
    /// Fireworks.
    Fireworks,
    /// Perplexity.
    Perplexity,
    /// Gemini's compatible address.
    Gemini,
    /// GitHub Models.
    GitHub,
    /// A llama.cpp server on this machine.
    LlamaCpp,
    /// Ollama's `/v1` on this machine.
    Ollama,
    /// A vLLM server on this machine.
    Vllm,
    /// An SGLang server on this machine.
    Sglang,
    /// LM Studio on this machine.
    LmStudio,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 23] = [
        Self::OpenAi,
        Self::Azure,
        Self::Compatible,
        Self::Mistral,
        Self::DeepSeek,
        Self::Moonshot,
        Self::Zai,
        Self::MiniMax,
        Self::DashScope,
        Self::Xai,
        Self::Groq,
        Self::Cerebras,
        Self::OpenRouter,
        Self::Together,
        Self::Fireworks,
        Self::Perplexity,
        Self::Gemini,
        Self::GitHub,
        Self::LlamaCpp,
        Self::Ollama,
        Self::Vllm,
        Self::Sglang,
        Self::LmStudio,
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

    /// The table of differences. Where a line says no more, it is [`Row::COMPATIBLE`]'s, the careful one.
    fn row(self) -> Row {
        let hosted = |name, base_url, key_variable| Row {
            name,
            base_url: Some(base_url),
            key_variable: Some(key_variable),
            ..Row::COMPATIBLE
        };
        // Chat templates of open models mostly allow one system text, at the beginning.
        let local = |name, base_url| Row {
            name,
            base_url: Some(base_url),
            include_usage: true,
            joins_system: true,
            ..Row::COMPATIBLE
        };
        match self {
            Self::OpenAi => Row::OPENAI,
            // Takes an Entra token, too: give it as the header `authorization`.
            Self::Azure => Row {
                name: "azure",
                base_url: None,
                key_variable: Some("AZURE_OPENAI_API_KEY"),
                key_header: KeyHeader::Named("api-key"),
                idempotency_header: None,
                ..Row::OPENAI
            },
            Self::Compatible => Row::COMPATIBLE,
            // Unknown fields are a 422 there. Usage comes unasked.
            Self::Mistral => Row {
                nine_character_ids: true,
                names_results: true,
                random_seed: true,
                thinking_parts: true,
                documents_by_url: true,
                takes_extras: false,
                ..hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY")
            },
            // A turn with calls that comes back without its reasoning is a 400 at the next two.
            Self::DeepSeek => Row {
                replays_reasoning: true,
                include_usage: true,
                ..hosted("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY")
            },
            Self::Moonshot => Row {
                replays_reasoning: true,
                ..hosted("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY")
            },
            Self::Zai => Row {
                replays_reasoning: true,
                ..hosted("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY")
            },
            Self::MiniMax => hosted("minimax", "https://api.minimax.io/v1", "MINIMAX_API_KEY"),
            // Usage comes in a chunk of its own, only if asked for.
            Self::DashScope => Row {
                include_usage: true,
                ..hosted(
                    "dashscope",
                    "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
                    "DASHSCOPE_API_KEY",
                )
            },
            Self::Xai => Row { include_usage: true, ..hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY") },
            Self::Groq => Row {
                include_usage: true,
                ..hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY")
            },
            Self::Cerebras => Row {
                include_usage: true,
                ..hosted("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY")
            },
            Self::OpenRouter => Row {
                include_usage: true,
                ..hosted("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY")
            },
            Self::Together => hosted("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
            Self::Fireworks => {
                hosted("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY")
            }
            // Usage is in every chunk.
            Self::Perplexity => hosted("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
            Self::Gemini => Row {
                include_usage: true,
                ..hosted(
                    "gemini",
                    "https://generativelanguage.googleapis.com/v1beta/openai",
                    "GEMINI_API_KEY",
                )
            },
            Self::GitHub => hosted("github", "https://models.github.ai/inference", "GITHUB_TOKEN"),
            Self::LlamaCpp => local("llama-cpp", "http://localhost:8080/v1"),
            Self::Ollama => local("ollama", "http://localhost:11434/v1"),
            Self::Vllm => local("vllm", "http://localhost:8000/v1"),
            Self::Sglang => local("sglang", "http://localhost:30000/v1"),
            Self::LmStudio => local("lm-studio", "http://localhost:1234/v1"),
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

/// A profile's differences. The comments say why each is there.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    base_url: Option<&'static str>,
    key_variable: Option<&'static str>,
    key_header: KeyHeader,
    /// The header in which an idempotency key is sent. OpenAI does not say what it makes of one; gateways in
    /// front of it that tell retries from second orders look for it there.
    idempotency_header: Option<&'static str>,
    /// OpenAI's reasoning models accept only `max_completion_tokens`, and many servers only `max_tokens`.
    completion_limit: bool,
    /// Whether `stream_options` is sent unasked: some refuse it, and report usage without it.
    include_usage: bool,
    /// Whether a refusal has a field of its own in what is sent; else it is text.
    refusal_field: bool,
    /// Whether several system texts are joined into one message.
    joins_system: bool,
    /// Whether `reasoning_content` goes back while calls are being answered.
    replays_reasoning: bool,
    /// Whether fields of its own that a server sent with a turn (`reasoning_details`, `extra_content`) may
    /// go back.
    takes_extras: bool,
    /// Whether call ids must be nine letters or digits.
    nine_character_ids: bool,
    /// Whether a result also names its tool.
    names_results: bool,
    /// Whether the seed is called `random_seed`.
    random_seed: bool,
    /// Whether reasoning goes back inside the content.
    thinking_parts: bool,
    /// Whether a document may be at an address.
    documents_by_url: bool,
}

impl Row {
    const OPENAI: Self = Self {
        name: "openai",
        base_url: Some("https://api.openai.com/v1"),
        key_variable: Some("OPENAI_API_KEY"),
        idempotency_header: Some("idempotency-key"),
        completion_limit: true,
        include_usage: true,
        refusal_field: true,
        joins_system: false,
        ..Self::COMPATIBLE
    };

    const COMPATIBLE: Self = Self {
        name: "compatible",
        base_url: None,
        key_variable: None,
        key_header: KeyHeader::Bearer,
        idempotency_header: None,
        completion_limit: false,
        include_usage: false,
        refusal_field: false,
        joins_system: false,
        replays_reasoning: false,
        takes_extras: true,
        nine_character_ids: false,
        names_results: false,
        random_seed: false,
        thinking_parts: false,
        documents_by_url: false,
    };
}

#[cfg(test)]
mod tests {
    use turnstream_core::ErrorKind;

    use super::*;

    #[test]
    fn profiles_are_read_from_their_names() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse::<Profile>().unwrap(), profile);
        }
        let error = "unheard-of".parse::<Profile>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("llama-cpp"), "{error}");
    }

    #[test]
    fn options_are_the_same_after_json_and_refuse_what_they_do_not_know() {
        let options = Options::new().seed(7).store(false).grammar("calc", Grammar::lark("start: /\\d+/"));
        let json = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<Options>(&json).unwrap(), options);
        assert!(serde_json::from_str::<Options>(r#"{"sead":7}"#).is_err());
    }

    #[test]
    fn no_key_is_shown() {
        let wire = OpenAiChat::new("m").key("sk-SECRET-1".to_owned()).header("x", "SECRET-2".to_owned());
        let shown = format!("{wire:?} {wire:#?}");
        assert!(!shown.contains("SECRET"), "{shown}");
    }
}
