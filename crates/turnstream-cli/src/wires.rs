//! The wires by name.

use std::{str::FromStr, sync::Arc};

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use turnstream::{
    AwsEnvironment, Client, Error, SigV4,
    anthropic::{self, Anthropic},
    bedrock::{self, Bedrock, InvokeAnthropic},
    cohere::Cohere,
    gemini::{self, Gemini},
    ollama::Ollama,
    openai_chat::{self, OpenAiChat},
    openai_responses::{self, OpenAiResponses},
    wire::Wire,
};

use crate::output::Misuse;

/// Whom to ask, and how.
#[derive(Debug, Clone, Args)]
pub(crate) struct Provider {
    #[command(flatten)]
    wire: WireChoice,
    /// The model to ask.
    #[arg(long)]
    model: Option<String>,
    /// The address to ask, instead of the provider's own. The provider's key is not sent there.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The environment variable that holds the key, instead of the provider's own.
    #[arg(long, value_name = "VARIABLE")]
    key_from: Option<String>,
    /// Speak plain http with hosts that are not loopback, too: everyone on the way can read the key and the
    /// conversation.
    #[arg(long)]
    allow_insecure_http: bool,
}

/// Which format to speak.
#[derive(Debug, Clone, Args)]
pub(crate) struct WireChoice {
    /// The wire.
    #[arg(long, value_enum)]
    wire: Option<WireName>,
    /// A vendor's variant of the wire, for example `mistral` for `openai-chat`.
    #[arg(long)]
    profile: Option<String>,
}

/// Where a key comes from.
enum Key<'a> {
    Nowhere,
    /// From the provider's own variable.
    Provider,
    Variable(&'a str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WireName {
    AnthropicMessages,
    BedrockConverse,
    CohereV2,
    Gemini,
    Ollama,
    OpenaiChat,
    OpenaiResponses,
}

impl Provider {
    /// The wire with the key that the environment holds, if it does.
    pub(crate) fn build(&self) -> Result<Arc<dyn Wire>> {
        let model = self.model.as_deref();
        self.build_for(model.ok_or_else(|| misuse("--model says which model to ask"))?)
    }

    /// The wire for a server of ours that speaks `wire`. It gets no key.
    pub(crate) fn build_at(&self, wire: &str, base_url: &str) -> Result<Arc<dyn Wire>> {
        let wire = self.wire.or_named(wire)?;
        wire.wire(self.model.as_deref().unwrap_or("model"), Some(base_url), &Key::Nowhere)
    }

    /// The client for the wire, with the signatures that it wants, if it wants some and the environment holds what
    /// they are made with. As with keys, they go to those who gave it out.
    pub(crate) fn client(&self, wire: impl Wire + 'static) -> Client {
        let client = Client::new(wire).allow_insecure_http(self.allow_insecure_http);
        let is_set = |variable: &str| std::env::var(variable).is_ok_and(|value| !value.trim().is_empty());
        let is_bedrock = match self.wire.wire {
            Some(WireName::BedrockConverse) => true,
            Some(WireName::AnthropicMessages) => self.wire.profile.as_deref() == Some(INVOKE),
            _ => false,
        };
        let is_asked = is_bedrock && self.base_url.is_none() && self.key_from.is_none();
        if is_asked && !is_set("AWS_BEARER_TOKEN_BEDROCK") && is_set("AWS_ACCESS_KEY_ID") {
            return client.authorize(SigV4::new(AwsEnvironment));
        }
        client
    }

    fn build_for(&self, model: &str) -> Result<Arc<dyn Wire>> {
        let key = match &self.key_from {
            Some(variable) => {
                std::env::var(variable).with_context(|| format!("--key-from {variable}"))?;
                Key::Variable(variable)
            }
            // A key goes to those who gave it out and to nobody else, unless that was asked for.
            None if self.base_url.is_some() => Key::Nowhere,
            None => Key::Provider,
        };
        self.wire.wire(model, self.base_url.as_deref(), &key)
    }
}

impl WireChoice {
    /// The wire without a key, to decode with.
    pub(crate) fn build(&self) -> Result<Arc<dyn Wire>> {
        self.wire("model", None, &Key::Nowhere)
    }

    /// Whether a wire was named.
    pub(crate) fn is_named(&self) -> bool {
        self.wire.is_some()
    }

    /// The same choice, or the wire of this name where none was made.
    pub(crate) fn or_named(&self, name: &str) -> Result<Self> {
        let named = || WireName::from_str(name, false).map_err(|_| anyhow!("there is no wire `{name}`"));
        let wire = self.wire.map_or_else(named, Ok)?;
        Ok(Self { wire: Some(wire), profile: self.profile.clone() })
    }

    /// The wire for a model, at an address of the caller's or the provider's own. A vendor gets its own key
    /// and never another's.
    fn wire(&self, model: &str, base_url: Option<&str>, key: &Key<'_>) -> Result<Arc<dyn Wire>> {
        let wire = self.wire.ok_or_else(|| misuse("--wire says which wire to speak"))?;
        let key = |variable: Option<&str>| {
            let variable = match key {
                Key::Nowhere => None,
                Key::Provider => variable,
                Key::Variable(variable) => Some(*variable),
            };
            let key = std::env::var(variable?).ok()?;
            Some(key.trim().to_owned()).filter(|key| !key.is_empty())
        };
        Ok(match wire {
            WireName::AnthropicMessages if self.profile.as_deref() == Some(INVOKE) => {
                let mut wire = InvokeAnthropic::new(model, region());
                if let Some(base_url) = base_url {
                    wire = wire.base_url(base_url);
                }
                if let Some(key) = key(Some("AWS_BEARER_TOKEN_BEDROCK")) {
                    wire = wire.key(key);
                }
                Arc::new(wire)
            }
            WireName::AnthropicMessages => {
                let profile: anthropic::Profile = self.profile_or("anthropic")?;
                let mut wire = Anthropic::new(model).profile(profile);
                if let Some(base_url) = base_url {
                    wire = wire.base_url(base_url);
                }
                if let Some(key) = key(profile.key_variable()) {
                    wire = wire.key(key);
                }
                Arc::new(wire)
            }
            WireName::BedrockConverse => {
                let mut wire = Bedrock::new(model, region());
                if let Some(profile) = &self.profile {
                    wire = wire.profile(profile.parse::<bedrock::Profile>().map_err(no_profile)?);
                }
                if let Some(base_url) = base_url {
                    wire = wire.base_url(base_url);
                }
                if let Some(key) = key(Some("AWS_BEARER_TOKEN_BEDROCK")) {
                    wire = wire.key(key);
                }
                Arc::new(wire)
            }
            WireName::CohereV2 => {
                if let Some(profile) = &self.profile {
                    return Err(misuse(format!("--profile: cohere-v2 has no profile `{profile}`")));
                }
                let mut wire = Cohere::new(model);
                if let Some(base_url) = base_url {
                    wire = wire.base_url(base_url);
                }
                if let Some(key) = key(Some("CO_API_KEY")) {
                    wire = wire.key(key);
                }
                Arc::new(wire)
            }
            WireName::Ollama => {
                let (mut wire, variable) = match self.profile.as_deref() {
                    None => (Ollama::from_env(model), None),
                    Some("cloud") => (Ollama::cloud(model), Some("OLLAMA_API_KEY")),
                    Some(profile) => {
                        return Err(misuse(format!("--profile: ollama has no profile `{profile}`")));
                    }
                };
                if let Some(base_url) = base_url {
                    wire = wire.base_url(base_url);
                }
                if let Some(key) = key(variable) {
                    wire = wire.key(key);
                }
                Arc::new(wire)
            }
            WireName::Gemini => {
                let profile: gemini::Profile = self.profile_or("google")?;
                let mut wire = Gemini::new(model).profile(profile);
                if let Some(base_url) = base_url {
                    wire = wire.base_url(base_url);
                }
                if let Some(key) = key(profile.key_variable()) {
                    wire = wire.key(key);
                }
                Arc::new(wire)
            }
            WireName::OpenaiChat => {
                let profile: openai_chat::Profile = self.profile_or("openai")?;
                let mut wire = OpenAiChat::new(model).profile(profile);
                if let Some(base_url) = base_url {
                    wire = wire.base_url(base_url);
                }
                if let Some(key) = key(profile.key_variable()) {
                    wire = wire.key(key);
                }
                Arc::new(wire)
            }
            WireName::OpenaiResponses => {
                let profile: openai_responses::Profile = self.profile_or("openai")?;
                let mut wire = OpenAiResponses::new(model).profile(profile);
                if let Some(base_url) = base_url {
                    wire = wire.base_url(base_url);
                }
                if let Some(key) = key(profile.key_variable()) {
                    wire = wire.key(key);
                }
                Arc::new(wire)
            }
        })
    }

    fn profile_or<P>(&self, default: &str) -> Result<P>
    where
        P: FromStr<Err = Error>,
    {
        self.profile.as_deref().unwrap_or(default).parse().map_err(no_profile)
    }
}

/// A wrong call.
fn misuse(problem: impl Into<String>) -> anyhow::Error {
    Misuse(problem.into()).into()
}

/// A profile that there is not: what it says names those that there are.
fn no_profile(error: Error) -> anyhow::Error {
    misuse(format!("--profile: {}", error.message()))
}

/// The region of the environment.
fn region() -> String {
    let variables = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter();
    let mut regions = variables.filter_map(|variable| std::env::var(variable).ok());
    regions.find(|region| !region.trim().is_empty()).unwrap_or_else(|| "us-east-1".to_owned())
}

/// The profile of the Messages wire that asks Bedrock for Anthropic's models in their own words.
const INVOKE: &str = "bedrock";
