//! The core of turnstream: events, messages and requests, framing, the call ledger, and the traits that a
//! wire and a model implement. It does no IO and knows no clock, task or random number.
//!
//! Applications name the `turnstream` crate, which re-exports what they need. This crate is for those who
//! write a wire, or who have a transport of their own.
//!
//! The way of a byte: a [`Framer`] makes frames of chunks; a wire's [`Interpret`] says to the [`Ledger`]
//! what a frame means; the ledger keeps the laws and writes [`Event`]s.

mod conversation;
mod count;
mod driver;
mod endpoint;
mod envelope;
mod error;
mod event;
mod fallback;
mod frame;
mod hot;
mod ids;
mod json_text;
mod json_values;
mod ledger;
mod lines;
mod list;
mod message;
mod model;
mod ndjson;
mod preview;
mod raw_json;
mod redact;
mod request;
mod scan;
mod sse;
mod sse_or_json;
mod text;
mod turn;
mod wire;

pub use conversation::Conversation;
pub use count::Count;
pub use driver::{BadFrame, Decoder, Interpret, NdjsonDecoder, SseDecoder, SseOrJsonDecoder};
pub use endpoint::{Endpoint, KeyHeader, WireRequest};
pub use envelope::{ErrorEnvelope, refused};
pub use error::{Error, ErrorKind};
pub use event::{
    AbortReason, CallAborted, CallArgumentFragment, CallFinished, CallIndex, CallStarted, Citation, Event,
    InputKind, PartFinished, PartIndex, ProviderEvent, Reason, ReasoningDelta, RefusalDelta, Replay,
    TextDelta, TurnFinished, TurnStarted, Usage,
};
pub use fallback::Fallback;
pub use frame::{Frame, FrameError, Framer};
pub use hot::{HotFrame, HotFrames, Lesson};
pub use ids::IdForm;
pub use json_text::{JsonText, SurrogateJoiner};
pub use json_values::JsonValuesFramer;
pub use ledger::{Announcement, BodyEnd, Closing, Key, Ledger, Rules};
pub use list::List;
pub use message::{
    Audio, CallPart, Document, Image, Message, OpaquePart, Part, ReasoningPart, ResultContent, ResultPart,
    Role, Source, TextPart,
};
pub use model::{Head, Model, TextStream, TurnSource, TurnStream};
pub use ndjson::NdjsonFramer;
pub use preview::{CallPreview, PreviewKind, PreviewValue};
pub use raw_json::{RawFields, RawJson};
pub use request::{OutputSchema, ReasoningEffort, Request, ToolChoice, ToolSpec, Warning, WireOptions};
pub use scan::{JsonScanner, is_json};
pub use sse::SseFramer;
pub use sse_or_json::SseOrJsonFramer;
pub use text::{ArgumentFragment, Arguments, Text};
pub use turn::{AbortedCall, FinishedCall, Turn, TurnBuilder, TurnError};
pub use wire::{Decode, End, Events, Limits, Wire};

/// The crates whose types and traits stand in the public interface: `secrecy::SecretString` for keys,
/// `futures_core::Stream` for turns and runs, `serde_json::Value` for arguments and schemas.
pub mod reexports {
    pub use {bytes, futures_core, http, secrecy, serde_json, url};
}
