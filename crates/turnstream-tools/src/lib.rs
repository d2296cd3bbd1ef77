//! Tools for models, and the loop that runs them.
//!
//! A [`Tool`] is a name, a schema and an async handler. A [`ToolLoop`] asks a model, runs the handlers of the
//! calls it makes, sends their results back under their call ids, and asks again, until the model has said
//! what it wanted to say. A [`Run`] is one such conversation as it happens: a stream of [`RunEvent`]s with an
//! [`Outcome`] at its end.
//!
//! ```
//! use serde_json::{Value, json};
//! use turnstream_core::{Model, Request};
//! use turnstream_tools::{RunEvent, RunStatus, Schema, Tool, ToolLoop};
//!
//! # async fn example(model: impl Model + 'static) {
//! let lookup = Tool::new("lookup_order")
//!     .description("Looks an order up by its id.")
//!     .parameters(Schema::object().string("order_id", "For example A-4471."))
//!     .handler(|args: Value| async move { Ok(json!({ "order": args["order_id"], "status": "in transit" })) });
//!
//! let mut run = ToolLoop::new(model).tool(lookup).run(Request::new().user("Where is order A-4471?"));
//! while let Some(event) = run.next().await {
//!     match event {
//!         RunEvent::HandlerStarted(started) => eprintln!("[{} ...]", started.name),
//!         event => print!("{}", event.text().unwrap_or_default()),
//!     }
//! }
//! let outcome = run.outcome();
//! assert!(matches!(outcome.status, RunStatus::Finished));
//! # }
//! ```
//!
//! With the feature `schemars`, which is on by default, a handler takes any type that derives
//! `serde::Deserialize` and `schemars::JsonSchema`, and the schema follows from it.
//!
//! # What the loop does after a reply
//!
//! | how the reply ended | with calls | without calls |
//! |---|---|---|
//! | `tool_calls` | runs them and asks again | [`RunStatus::Stopped`] |
//! | `stop` | runs them and asks again | [`RunStatus::Finished`] |
//! | `pause` | runs them and asks again | asks again |
//! | `other` | [`RunStatus::Stopped`], none runs | [`RunStatus::Finished`] |
//! | `length`, `content_filter`, `refusal`, a reason not known here | [`RunStatus::Stopped`], none runs | [`RunStatus::Stopped`] |
//! | an error | [`RunStatus::Failed`], none runs | [`RunStatus::Failed`] |
//!
//! Where none runs, calls of [eager](Tool::eager) tools may have run while the reply still streamed. What
//! became of them is in the conversation.
//!
//! Every call is answered, whatever happens, so that the conversation of every outcome can be sent again.
//! (The one exception is [`RunStatus::Waiting`], whose calls are still to be decided.) An unknown tool,
//! arguments that are no JSON or do not fit, a handler's error, a panic, a timeout: each is an error result
//! for that call alone, and the loop goes on.
//!
//! # Tracing
//!
//! A run is a [tracing](https://docs.rs/tracing) span `invoke_agent`; in it are its turns, `chat`, and its handlers,
//! `execute_tool`, at the level `info` and with OpenTelemetry's names for generative models: `gen_ai.operation.name`,
//! `gen_ai.provider.name`, `gen_ai.request.model`, `gen_ai.response.model`, `gen_ai.usage.input_tokens`,
//! `gen_ai.tool.name`, `gen_ai.tool.call.id`, `error.type` and their like. What is said is not in them, unless
//! [`trace_content`](ToolLoop::trace_content) asks for the arguments and results of calls.
//!
//! # More
//!
//! | to | use |
//! |---|---|
//! | bound a run | [`max_turns`](ToolLoop::max_turns), [`max_calls`](ToolLoop::max_calls), [`max_total_tokens`](ToolLoop::max_total_tokens), [`max_time`](ToolLoop::max_time), [`stop_when`](ToolLoop::stop_when) |
//! | ask a person first | [`Tool::needs_approval`], [`Tool::needs_approval_when`] |
//! | answer calls elsewhere | a tool without a handler, and [`Run::answer`] |
//! | survive a crash | [`CheckpointSink`], [`ToolLoop::resume`], [`Tool::idempotent`] |
//! | list tools while it runs | [`ToolSource`] |
//! | log, cache, redact | [`Tool::wrap`], [`ToolLoop::wrap`] |
//! | get a value and not text | [`ToolLoop::output`] |
//! | know what a call is, report progress | [`CallContext`] |

mod answer;
mod checkpoint;
mod clock;
mod context;
mod error;
mod event;
mod handlers;
mod offer;
mod outcome;
mod output;
mod parameters;
mod reply;
mod run;
mod schema;
mod sink;
mod source;
mod tool;
mod tool_loop;
mod toolset;
mod trace;
mod turns;
mod wrap;

#[cfg(feature = "schemars")]
pub use schemars;

pub use answer::Answer;
pub use checkpoint::{Checkpoint, WaitingCall, WaitingFor};
pub use context::CallContext;
pub use error::ToolError;
pub use event::{
    Failure, HandlerFinished, HandlerProgress, HandlerStarted, RunEnded, RunEvent, TurnEvent, TurnStep,
};
pub use outcome::{Outcome, RunStatus, StatusKind};
pub use parameters::{Given, Parameters};
pub use run::Run;
pub use schema::Schema;
pub use sink::CheckpointSink;
pub use source::ToolSource;
pub use tool::Tool;
pub use tool_loop::{Progress, ToolLoop};
pub use toolset::Toolset;
pub use wrap::{Next, ToolCall};
