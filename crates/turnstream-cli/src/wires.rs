//! The wires by name.

use std::{str::FromStr, sync::Arc};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use turnstream::{
    anthropic::Anthropic,
    ollama::Ollama,
    openai_chat::{self, OpenAiChat},
    openai_responses::{self, OpenAiResponses},
    wire::Wire,
};

/// Which format to speak, and to whom.
#[derive(Debug, Clone, Args)]
pub(crate) struct WireChoice {
    /// The wire.
    #[arg(long, value_enum)]
    wire: WireName,
    /// A vendor's variant of the wire, for example `mistral` for `openai-chat`.
    #[arg(long)]
    profile: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WireName {
    AnthropicMessages,
    Ollama,
    OpenaiChat,
    OpenaiResponses,
}

impl WireChoice {
    /// The wire for a model, at an address of the caller's or the provider's own, without a key.
    pub(crate) fn build(&self, model: &str, base_url: Option<&str>) -> Result<Arc<dyn Wire>> {
        self.wire(model, base_url, false)
    }

    /// The same with the key that the environment holds for this provider, if it does. A vendor gets its own
    /// key and never another's.
    pub(crate) fn build_with_key(&self, model: &str, base_url: Option<&str>) -> Result<Arc<dyn Wire>> {
        self.wire(model, base_url, true)
    }

    fn wire(&self, model: &str, base_url: Option<&str>, with_key: bool) -> Result<Arc<dyn Wire>> {
        let key = |variable: Option<&str>| {
            let key = std::env::var(variable.filter(|_| with_key)?).ok()?;
            Some(key.trim().to_owned()).filter(|key| !key.is_empty())
        };
        Ok(match self.wire {
            WireName::AnthropicMessages => {
                if let Some(profile) = &self.profile {
                    bail!("anthropic-messages has no profile `{profile}`");
                }
                let mut wire = Anthropic::new(model);
                if let Some(base_url) = base_url {
                    wire = wire.base_url(base_url);
                }
                if let Some(key) = key(Some("ANTHROPIC_API_KEY")) {
                    wire = wire.key(key);
                }
                Arc::new(wire)
            }
            WireName::Ollama => {
                let (mut wire, variable) = match self.profile.as_deref() {
                    None => (Ollama::from_env(model), None),
                    Some("cloud") => (Ollama::cloud(model), Some("OLLAMA_API_KEY")),
                    Some(profile) => bail!("ollama has no profile `{profile}`"),
                };
                if let Some(base_url) = base_url {
                    wire = wire.base_url(base_url);
                }
                if let Some(key) = key(variable) {
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
        P: FromStr<Err: std::error::Error + Send + Sync + 'static>,
    {
        self.profile.as_deref().unwrap_or(default).parse().context("--profile")
    }
}
