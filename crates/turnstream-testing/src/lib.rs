//! Everything that an application needs to test itself without a provider: replies in each wire's own
//! bytes, scripts of whole conversations, a model without HTTP, a replay server for what goes wrong on a
//! network, and the checks that every decoder has to pass.
//!
//! ```
//! use serde_json::json;
//! use turnstream_testing::anthropic::Reply;
//!
//! let reply = Reply::new()
//!     .text(["Let me ", "look."])
//!     .call("toolu_1", "lookup_order", json!({ "order_id": "A-4471" }))
//!     .fragments_of(5)
//!     .end();
//! let body = String::from_utf8(reply.body()).unwrap();
//! assert!(body.starts_with("event: message_start\n"));
//! assert!(body.contains(r#""partial_json":"{\"ord""#));
//! assert!(body.contains(r#""stop_reason":"tool_use""#));
//! ```
//!
//! | to test | use |
//! |---|---|
//! | an application over real HTTP, request by request | [`Script`] or a wire's `Reply`, with wiremock (feature `wiremock`, on by default) |
//! | code over `dyn Model`, and the tool loop | [`ScriptedModel`] with [`events::Reply`] |
//! | cuts, pauses, resets, stalls, slow heads | [`ReplayServer`] with [`Recording`] |
//! | what a provider really sent | [`Recorder`], [`RecordedTurn`], and the replay server |
//! | what was sent | [`SentRequest`] |
//! | a decoder | [`conformance`] |
//!
//! Every reply is deterministic: the same builder calls give the same bytes and the same ids.
//!
//! Not supported: replies that are not streams (a whole message as one JSON document), HTTP/2 in the
//! replay server, TLS.

pub mod anthropic;
pub mod bedrock;
pub mod cohere;
pub mod conformance;
pub mod events;
mod format;
mod gate;
pub mod gemini;
mod json;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
mod plan;
mod recorded;
mod recorder;
mod recording;
mod replay;
mod reply;
mod script;
mod scripted_model;
mod sent;
#[cfg(feature = "wiremock")]
pub mod wiremock;

pub use format::HttpWire;
pub use gate::Gate;
pub use recorded::{RecordedChunk, RecordedEnd, RecordedRequest, RecordedTurn};
pub use recorder::Recorder;
pub use recording::Recording;
pub use replay::{ReceivedRequest, ReplayServer};
pub use reply::{OverHttp, Reply};
pub use script::{Script, ScriptGuard};
pub use scripted_model::ScriptedModel;
pub use sent::{SentCall, SentPart, SentRequest, SentResult, SentText};
