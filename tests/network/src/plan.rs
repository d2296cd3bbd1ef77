//! [`Plan`]: what is to happen to one turn. Client and server read the same words.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fixtures::Fixtures;

/// What the handlers of a conversation answer.
pub const RESULT: &str = "The parcel is on its way.";

/// What happens to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Nothing.
    Whole,
    /// It comes in pieces of a few bytes, with pauses.
    SlowChunks,
    /// Half of it comes, and the rest when all are there.
    Held,
    /// The wire's own error stands in the stream.
    ErrorInStream,
    /// Nobody listens.
    Refused,
    /// Status 429, without a word about when.
    RateLimited,
    /// Status 429, and soon again.
    RateLimitedSoon,
    /// Status 429, and again in an hour.
    RateLimitedLong,
    /// Status 500.
    ServerError,
    /// Status 500, and soon again.
    ServerErrorSoon,
    /// Status 529.
    Overloaded,
    /// Status 529, and soon again.
    OverloadedSoon,
    /// The connection is reset before its head is whole.
    ResetInHead,
    /// The connection is reset in the middle of the body.
    ResetInBody,
    /// The connection is closed in the middle of a body whose last chunk has not come.
    EarlyClose,
    /// The connection is closed in the middle of a body that lasts until it is.
    CloseDelimited,
    /// The body goes silent.
    Stall,
    /// The head never comes.
    SilentHead,
    /// A page stands in place of the stream.
    Html,
    /// The body is compressed, and says so.
    Gzip,
    /// The body is compressed, and does not say so.
    GzipUndeclared,
    /// A frame in the middle cannot be read.
    MalformedFrame,
    /// The consumer goes away.
    Dropped,
}

/// What is to happen to one turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The number of the turn.
    pub turn: u64,
    /// The number of the fixture that is served.
    pub fixture: usize,
    /// The number of the one that is served instead once the [result](RESULT) of a call has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<usize>,
    /// What happens.
    pub fault: Fault,
    /// Where it happens: after so many bytes of the head or the body, or so many items for the consumer.
    pub at: usize,
    /// How many attempts it happens to. Those after them are whole.
    pub failing: u32,
}

impl Fault {
    /// Those that a soak goes through.
    pub const SOAK: [Self; 22] = [
        Self::Whole,
        Self::SlowChunks,
        Self::ErrorInStream,
        Self::Refused,
        Self::RateLimited,
        Self::RateLimitedSoon,
        Self::RateLimitedLong,
        Self::ServerError,
        Self::ServerErrorSoon,
        Self::Overloaded,
        Self::OverloadedSoon,
        Self::ResetInHead,
        Self::ResetInBody,
        Self::EarlyClose,
        Self::CloseDelimited,
        Self::Stall,
        Self::SilentHead,
        Self::Html,
        Self::Gzip,
        Self::GzipUndeclared,
        Self::MalformedFrame,
        Self::Dropped,
    ];

    /// The status of the refusal, if it is one.
    pub fn status(self) -> Option<u16> {
        match self {
            Self::RateLimited | Self::RateLimitedSoon | Self::RateLimitedLong => Some(429),
            Self::ServerError | Self::ServerErrorSoon => Some(500),
            Self::Overloaded | Self::OverloadedSoon => Some(529),
            _ => None,
        }
    }

    /// The header of the refusal that says when to come again.
    pub fn retry_after(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::RateLimitedSoon | Self::OverloadedSoon => Some(("retry-after-ms", "2")),
            Self::ServerErrorSoon => Some(("retry-after", "0.003")),
            Self::RateLimitedLong => Some(("retry-after", "3600")),
            _ => None,
        }
    }

    /// The name, as it is written in reports.
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).ok();
        name.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

impl Plan {
    /// A turn to which nothing happens.
    pub fn whole(turn: u64, fixture: usize) -> Self {
        Self { turn, fixture, answer: None, fault: Fault::Whole, at: 0, failing: 0 }
    }

    /// A turn to which something random happens, the same for the same seed and number.
    pub fn random(seed: u64, turn: u64, fixtures: &Fixtures) -> Self {
        let mut random = fastrand::Rng::with_seed(seed ^ turn.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let fault = random.choice(Fault::SOAK).unwrap_or(Fault::Whole);
        let numbers = match fault {
            Fault::ErrorInStream => {
                fixtures.numbers(|fixture| fixture.fails() && !fixture.frame_ends().is_empty())
            }
            // What it does is certain only where something had come before.
            Fault::MalformedFrame => fixtures.numbers(|fixture| !fixture.frame_ends().is_empty()),
            _ => fixtures.numbers(|_| true),
        };
        let number = random.choice(&numbers).copied().unwrap_or_default();
        let Some(fixture) = fixtures.get(number) else { return Self::whole(turn, number) };
        let at = match fault {
            Fault::MalformedFrame => random.choice(fixture.frame_ends()).unwrap_or_default(),
            Fault::Dropped => random.usize(0..=fixture.items.len()),
            _ => random.usize(0..=fixture.body.len()),
        };
        // Those that wait for a time do so always: the second attempt would have as little of it.
        let failing = match fault {
            Fault::Stall | Fault::SilentHead | Fault::Refused => u32::MAX,
            _ if random.bool() => 1,
            _ => u32::MAX,
        };
        Self { fault, at, failing, ..Self::whole(turn, number) }
    }

    /// The words that stand in the turn's message.
    pub fn message(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The plan in the body of a request, wherever its wire puts a message.
    pub fn of_request(body: &[u8]) -> Option<Self> {
        find(&serde_json::from_slice(body).ok()?)
    }
}

fn find(value: &Value) -> Option<Plan> {
    match value {
        Value::String(text) => serde_json::from_str(text).ok(),
        Value::Array(values) => values.iter().find_map(find),
        Value::Object(fields) => fields.values().find_map(find),
        _ => None,
    }
}
