//! The wires by name.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use turnstream::{
    anthropic::Anthropic, openai_chat::OpenAiChat, openai_responses::OpenAiResponses, wire::Wire,
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
    OpenaiChat,
    OpenaiResponses,
}

impl WireChoice {
    /// The wire for a model, at an address of the caller's or the provider's own, with a key or without.
    pub(crate) fn build(
        &self,
        model: &str,
        base_url: Option<&str>,
        key: Option<String>,
    ) -> Result<Arc<dyn Wire>> {
        Ok(match self.wire {
            WireName::AnthropicMessages => {
                if let Some(profile) = &self.profile {
                    bail!("anthropic-messages has no profile `{profile}`");
                }
                let mut wire = Anthropic::new(model);
                if let Some(base_url) = base_url {
                    wire = wire.base_url(base_url);
                }
                if let Some(key) = key {
                    wire = wire.key(key);
                }
                Arc::new(wire)
            }
            WireName::OpenaiChat => {
                let mut wire = OpenAiChat::new(model);
                if let Some(profile) = &self.profile {
                    wire = wire.profile(profile.parse().context("--profile")?);
                }
                if let Some(base_url) = base_url {
                    wire = wire.base_url(base_url);
                }
                if let Some(key) = key {
                    wire = wire.key(key);
                }
                Arc::new(wire)
            }
            WireName::OpenaiResponses => {
                let mut wire = OpenAiResponses::new(model);
                if let Some(profile) = &self.profile {
                    wire = wire.profile(profile.parse().context("--profile")?);
                }
                if let Some(base_url) = base_url {
                    wire = wire.base_url(base_url);
                }
                if let Some(key) = key {
                    wire = wire.key(key);
                }
                Arc::new(wire)
            }
        })
    }

    /// The environment variable that holds the wire's key.
    pub(crate) fn key_variable(&self) -> &'static str {
        match self.wire {
            WireName::AnthropicMessages => "ANTHROPIC_API_KEY",
            WireName::OpenaiChat | WireName::OpenaiResponses => "OPENAI_API_KEY",
        }
    }
}
