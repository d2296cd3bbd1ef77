//! What the tests share: the wires by name, and where the checkout is.

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
};

use turnstream::{
    Client, Error, Limits, RetryPolicy,
    anthropic::Anthropic,
    bedrock::Bedrock,
    cohere::Cohere,
    gemini::Gemini,
    ollama::Ollama,
    openai_chat::OpenAiChat,
    openai_responses::OpenAiResponses,
    wire::{Decode, Wire, reexports::http::HeaderMap},
};

/// A wire of the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestedWire {
    /// Anthropic Messages.
    Anthropic,
    /// Cohere's chat wire, version 2.
    Cohere,
    /// Gemini.
    Gemini,
    /// Ollama's chat wire.
    Ollama,
    /// Amazon Bedrock's ConverseStream.
    Bedrock,
    /// OpenAI Chat Completions.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
}

/// How a body is cut into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Sse,
    /// JSON lines.
    Lines,
    /// AWS event-stream messages.
    Messages,
}

impl TestedWire {
    /// All wires.
    pub const ALL: [Self; 7] = [
        Self::Anthropic,
        Self::Bedrock,
        Self::Cohere,
        Self::Gemini,
        Self::Ollama,
        Self::OpenAiChat,
        Self::OpenAiResponses,
    ];

    /// The wire with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wire| wire.name() == name)
    }

    /// The wire's name, which is also that of its folder of fixtures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic-messages",
            Self::Cohere => "cohere-v2",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Bedrock => "bedrock-converse",
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
        }
    }

    /// How its bodies are cut into frames.
    pub fn framing(self) -> Framing {
        match self {
            Self::Ollama => Framing::Lines,
            Self::Bedrock => Framing::Messages,
            Self::Anthropic | Self::Cohere | Self::Gemini | Self::OpenAiChat | Self::OpenAiResponses => {
                Framing::Sse
            }
        }
    }

    /// How the names of files with its bodies end.
    pub fn extension(self) -> &'static str {
        match self.framing() {
            Framing::Sse => "sse",
            Framing::Lines => "ndjson",
            Framing::Messages => "bin",
        }
    }

    /// Whether arguments come in fragments. On the other wires a call comes whole, and so it is never cut.
    pub fn sends_fragments(self) -> bool {
        !matches!(self, Self::Gemini | Self::Ollama)
    }

    /// A new decoder.
    pub fn decoder(self) -> Box<dyn Decode> {
        match self {
            Self::Anthropic => Anthropic::new("m").decoder(),
            Self::Cohere => Cohere::new("m").decoder(),
            Self::Gemini => Gemini::new("m").decoder(),
            Self::Ollama => Ollama::new("m").decoder(),
            Self::Bedrock => Bedrock::new("m", "us-east-1").decoder(),
            Self::OpenAiChat => OpenAiChat::new("m").decoder(),
            Self::OpenAiResponses => OpenAiResponses::new("m").decoder(),
        }
    }

    /// What a reply with another status than 200 means.
    pub fn refused(self, status: u16, headers: &HeaderMap, body: &[u8]) -> Error {
        match self {
            Self::Anthropic => Anthropic::new("m").refused(status, headers, body),
            Self::Cohere => Cohere::new("m").refused(status, headers, body),
            Self::Gemini => Gemini::new("m").refused(status, headers, body),
            Self::Ollama => Ollama::new("m").refused(status, headers, body),
            Self::Bedrock => Bedrock::new("m", "us-east-1").refused(status, headers, body),
            Self::OpenAiChat => OpenAiChat::new("m").refused(status, headers, body),
            Self::OpenAiResponses => OpenAiResponses::new("m").refused(status, headers, body),
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
            Self::Cohere => {
                let url = format!("{server}/v2");
                Client::new(Cohere::new("m").key("secret").base_url(url).limits(limits))
            }
            Self::Gemini => Client::new(Gemini::new("m").key("secret").base_url(url).limits(limits)),
            Self::Ollama => {
                let url = format!("{server}/api");
                Client::new(Ollama::new("m").key("secret").base_url(url).limits(limits))
            }
            Self::Bedrock => {
                Client::new(Bedrock::new("m", "us-east-1").key("secret").base_url(server).limits(limits))
            }
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

/// A folder of the conformance corpora, which lie beside the checkout unless `TURNSTREAM_CORPORA` says where.
/// They are not part of the project: a test that finds none says so by name and passes.
pub fn corpora(name: &str) -> Option<PathBuf> {
    let beside = || root().join("..").join("shared");
    let folder = env::var_os("TURNSTREAM_CORPORA").map_or_else(beside, PathBuf::from).join(name);
    folder.is_dir().then_some(folder)
}

/// Says that something is not tested, also where the test passes.
pub fn skip(what: &str) {
    // What is printed with `eprintln` is shown only when the test fails. If it cannot be said, so be it.
    let _ = io::stderr().write_all(format!("skipped: {what}\n").as_bytes());
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
