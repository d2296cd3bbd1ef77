//! How each wire writes a reply, in the fields and the order in which its provider does.

mod anthropic;
mod bedrock;
mod cohere;
mod gemini;
mod ollama;
mod openai_chat;
mod openai_responses;

use std::str::FromStr;

use turnstream_anthropic::Anthropic;
use turnstream_bedrock::Bedrock;
use turnstream_cohere::Cohere;
use turnstream_core::{Decode, Limits, Wire};
use turnstream_gemini::Gemini;
use turnstream_http::Client;
use turnstream_ollama::Ollama;
use turnstream_openai_chat::OpenAiChat;
use turnstream_openai_responses::OpenAiResponses;

use crate::body::Body;

/// A wire that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchWire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Gemini's generateContent.
    Gemini,
    /// Cohere's v2 chat.
    Cohere,
    /// Ollama's chat.
    Ollama,
    /// Bedrock's ConverseStream.
    Bedrock,
}

impl BenchWire {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Anthropic,
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::Gemini,
        Self::Cohere,
        Self::Ollama,
        Self::Bedrock,
    ];

    /// Those on which a call's arguments come in fragments.
    pub const FRAGMENTS: [Self; 5] =
        [Self::Anthropic, Self::OpenAiChat, Self::OpenAiResponses, Self::Cohere, Self::Bedrock];

    /// The wire's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic-messages",
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Cohere => "cohere-v2",
            Self::Ollama => "ollama",
            Self::Bedrock => "bedrock-converse",
        }
    }

    /// A decoder for one body.
    pub fn decoder(self, limits: Limits) -> Box<dyn Decode> {
        match self {
            Self::Anthropic => Anthropic::new(MODEL).limits(limits).decoder(),
            Self::OpenAiChat => OpenAiChat::new(MODEL).limits(limits).decoder(),
            Self::OpenAiResponses => OpenAiResponses::new(MODEL).limits(limits).decoder(),
            Self::Gemini => Gemini::new(MODEL).limits(limits).decoder(),
            Self::Cohere => Cohere::new(MODEL).limits(limits).decoder(),
            Self::Ollama => Ollama::new(MODEL).limits(limits).decoder(),
            Self::Bedrock => Bedrock::new(MODEL, REGION).limits(limits).decoder(),
        }
    }

    /// A client of ours that asks the server at this address.
    pub fn client(self, base_url: &str) -> Client {
        let key = "none".to_owned();
        match self {
            Self::Anthropic => Client::new(Anthropic::new(MODEL).key(key).base_url(base_url)),
            Self::OpenAiChat => Client::new(OpenAiChat::new(MODEL).key(key).base_url(base_url)),
            Self::OpenAiResponses => Client::new(OpenAiResponses::new(MODEL).key(key).base_url(base_url)),
            Self::Gemini => Client::new(Gemini::new(MODEL).key(key).base_url(base_url)),
            Self::Cohere => Client::new(Cohere::new(MODEL).key(key).base_url(base_url)),
            Self::Ollama => Client::new(Ollama::new(MODEL).key(key).base_url(base_url)),
            Self::Bedrock => Client::new(Bedrock::new(MODEL, REGION).key(key).base_url(base_url)),
        }
    }

    pub(crate) fn writer(self) -> Box<dyn WriteTurn> {
        match self {
            Self::Anthropic => Box::new(anthropic::Writer::start()),
            Self::OpenAiChat => Box::new(openai_chat::Writer::start()),
            Self::OpenAiResponses => Box::new(openai_responses::Writer::start()),
            Self::Gemini => Box::new(gemini::Writer::start()),
            Self::Cohere => Box::new(cohere::Writer::start()),
            Self::Ollama => Box::new(ollama::Writer::start()),
            Self::Bedrock => Box::new(bedrock::Writer::start()),
        }
    }

    pub(crate) fn framing(self) -> Framing {
        match self {
            Self::Anthropic | Self::OpenAiChat | Self::OpenAiResponses | Self::Gemini | Self::Cohere => {
                Framing::ServerSentEvents
            }
            Self::Ollama => Framing::JsonLines,
            Self::Bedrock => Framing::AwsMessages,
        }
    }
}

impl FromStr for BenchWire {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|wire| wire.name() == name);
        found.ok_or_else(|| format!("there is no wire `{name}`"))
    }
}

/// How a body is made of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    ServerSentEvents,
    JsonLines,
    AwsMessages,
}

impl Framing {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::ServerSentEvents => "text/event-stream",
            Self::JsonLines => "application/x-ndjson",
            Self::AwsMessages => "application/vnd.amazon.eventstream",
        }
    }
}

/// Writes one turn. Parts are opened and closed as the words need it.
pub(crate) trait WriteTurn {
    /// One piece of the answer's text.
    fn text(&mut self, text: &str);

    /// The announcement of a call.
    fn call(&mut self, id: &str, name: &str);

    /// A piece of the arguments of the call that was announced last.
    fn fragment(&mut self, fragment: &str);

    /// A comment. Nothing, where the framing has none.
    fn comment(&mut self) {}

    /// The end of the turn.
    fn finish(self: Box<Self>) -> Body;
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string serialises")
}

const MODEL: &str = "model";
const REGION: &str = "us-east-1";

#[cfg(test)]
mod tests {
    use turnstream_core::{End, Event, Events, TurnFinished};

    use super::*;
    use crate::shapes;

    #[test]
    fn no_frame_of_a_body_is_unknown_to_its_wire_and_every_turn_ends_well() {
        for wire in BenchWire::ALL {
            for body in [shapes::text(wire, 20), shapes::tools(wire, 3), shapes::turn(wire)] {
                let (mut decoder, mut events) = (wire.decoder(Limits::new()), Events::new());
                decoder.feed(body.bytes(), &mut events);
                decoder.end(End::Closed, &mut events);
                let events: Vec<Event> = events.map(Result::unwrap).collect();
                let is_news = |event: &&Event| {
                    // Bedrock says with the usage how long the turn took.
                    matches!(event, Event::Provider(said) if said.name.as_str() != "metrics")
                };
                assert_eq!(events.iter().find(is_news), None, "{}", wire.name());
                let Some(Event::TurnFinished(TurnFinished { usage, raw_reason, .. })) = events.last() else {
                    panic!("{}: {:?}", wire.name(), events.last());
                };
                assert!(usage.is_some() || wire == BenchWire::OpenAiChat, "{}: no usage", wire.name());
                assert!(raw_reason.is_some(), "{}: no reason", wire.name());
            }
        }
    }
}
