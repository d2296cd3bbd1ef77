//! What the tests share: the wires by name, and where the checkout is.

use std::{
    io,
    path::{Path, PathBuf},
};

use turnstream::{
    Client, Limits, RetryPolicy,
    anthropic::Anthropic,
    openai_chat::OpenAiChat,
    openai_responses::OpenAiResponses,
    wire::{Decode, Wire},
};

/// A wire of the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestedWire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
}

impl TestedWire {
    /// All wires.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAiChat, Self::OpenAiResponses];

    /// The wire with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wire| wire.name() == name)
    }

    /// The wire's name, which is also that of its folder of fixtures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic-messages",
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
        }
    }

    /// A new decoder.
    pub fn decoder(self) -> Box<dyn Decode> {
        match self {
            Self::Anthropic => Anthropic::new("m").decoder(),
            Self::OpenAiChat => OpenAiChat::new("m").decoder(),
            Self::OpenAiResponses => OpenAiResponses::new("m").decoder(),
        }
    }

    /// A client for a server of the test's. It retries nothing.
    pub fn client(self, server: &str) -> Client {
        self.client_with(server, Limits::new())
    }

    /// A client with limits of its own.
    pub fn client_with(self, server: &str, limits: Limits) -> Client {
        let url = format!("{server}/v1");
        let client = match self {
            Self::Anthropic => Client::new(Anthropic::new("m").key("secret").base_url(url).limits(limits)),
            Self::OpenAiChat => Client::new(OpenAiChat::new("m").key("secret").base_url(url).limits(limits)),
            Self::OpenAiResponses => {
                Client::new(OpenAiResponses::new("m").key("secret").base_url(url).limits(limits))
            }
        };
        client.retries(RetryPolicy::never())
    }
}

/// The root of the checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".."))
}

/// The entries of a folder, sorted.
///
/// # Errors
///
/// When it cannot be read.
pub fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        entries.push(entry?.path());
    }
    entries.sort();
    Ok(entries)
}
