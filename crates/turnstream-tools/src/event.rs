//! [`RunEvent`]: what a run says while it goes on.

use serde::Serialize;
use turnstream_core::{CallIndex, Error, ErrorKind, Event, RawJson, Reason, ResultPart, Text, Usage};

use crate::{checkpoint::WaitingCall, outcome::StatusKind};

/// What a [`Run`](crate::Run) says, in the order in which it happens.
///
/// The last one is [`Ended`](Self::Ended). As JSON every event is one object with a `type`, for forwarding to
/// a browser:
///
/// ```text
/// {"type":"turn_began","turn":0}
/// {"type":"turn","turn":0,"event":{"type":"text_delta","part":0,"text":"Let me look."}}
/// {"type":"turn_ended","turn":0,"reason":"tool_calls"}
/// {"type":"handler_started","turn":0,"call":0,"id":"toolu_01QxR","name":"lookup_order"}
/// {"type":"handler_finished","turn":0,"call":0,"id":"toolu_01QxR","name":"lookup_order","result":{...}}
/// {"type":"ended","status":"finished","turns":2,"usage":{"input_tokens":40,"output_tokens":19}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunEvent {
    /// The model is asked.
    TurnBegan(TurnStep),
    /// The turn says something.
    Turn(TurnEvent),
    /// The turn has ended well; if calls are to run, they start now. (A turn that ends in an error has no such
    /// event: the run ends.)
    TurnEnded(TurnStep),
    /// A call's handler starts with the next poll of the run. Who writes a [checkpoint](crate::Run::checkpoint)
    /// down now has it before the handler has done anything.
    HandlerStarted(HandlerStarted),
    /// A handler says how far it is.
    HandlerProgress(HandlerProgress),
    /// A call has its result. Comes in the order in which they end. A call that no handler could run for (an unknown
    /// tool, arguments that do not fit) has no `HandlerStarted` before it.
    HandlerFinished(HandlerFinished),
    /// The run has ended, or waits for decisions.
    Ended(RunEnded),
}

impl RunEvent {
    /// What the turn says, if this is a turn's event.
    pub fn event(&self) -> Option<&Event> {
        match self {
            Self::Turn(turn) => Some(&turn.event),
            _ => None,
        }
    }

    /// A piece of the answer's text, if this is one. Reasoning, refusals and arguments are not.
    pub fn text(&self) -> Option<&str> {
        match self.event()? {
            Event::TextDelta(delta) => Some(&delta.text),
            _ => None,
        }
    }
}

/// See [`RunEvent::TurnBegan`] and [`RunEvent::TurnEnded`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TurnStep {
    /// The turn's number in the run, from 0.
    pub turn: u32,
    /// How it ended, when it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

impl TurnStep {
    /// A step of a turn.
    pub fn new(turn: u32, reason: Option<Reason>) -> Self {
        Self { turn, reason }
    }
}

/// See [`RunEvent::Turn`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TurnEvent {
    /// The turn's number in the run, from 0.
    pub turn: u32,
    /// What it says.
    pub event: Event,
}

impl TurnEvent {
    /// Something that a turn says.
    pub fn new(turn: u32, event: Event) -> Self {
        Self { turn, event }
    }
}

/// See [`RunEvent::HandlerStarted`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HandlerStarted {
    /// The turn's number in the run, from 0.
    pub turn: u32,
    /// The call's number in the turn.
    pub call: CallIndex,
    /// The call's id.
    pub id: Text,
    /// The tool's name.
    pub name: Text,
}

impl HandlerStarted {
    /// A handler's start.
    pub fn new(turn: u32, call: CallIndex, id: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self { turn, call, id: id.into(), name: name.into() }
    }
}

/// See [`RunEvent::HandlerProgress`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HandlerProgress {
    /// The turn's number in the run, from 0.
    pub turn: u32,
    /// The call's number in the turn.
    pub call: CallIndex,
    /// What the handler reported.
    pub progress: RawJson,
}

impl HandlerProgress {
    /// A handler's report.
    pub fn new(turn: u32, call: CallIndex, progress: RawJson) -> Self {
        Self { turn, call, progress }
    }
}

/// See [`RunEvent::HandlerFinished`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HandlerFinished {
    /// The turn's number in the run, from 0.
    pub turn: u32,
    /// The call's number in the turn.
    pub call: CallIndex,
    /// The call's id.
    pub id: Text,
    /// The tool's name.
    pub name: Text,
    /// What the model will be told.
    pub result: ResultPart,
}

impl HandlerFinished {
    /// A call's result. Its id and name are the result's own.
    pub fn new(turn: u32, call: CallIndex, result: ResultPart) -> Self {
        Self { turn, call, id: result.call_id.clone(), name: result.name.clone(), result }
    }
}

/// See [`RunEvent::Ended`]. The whole of it is in the [`Outcome`](crate::Outcome).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunEnded {
    /// How the run ended.
    pub status: StatusKind,
    /// How many turns it took.
    pub turns: u32,
    /// The tokens of all turns, as far as the provider counted them.
    pub usage: Usage,
    /// What went wrong, if something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// The calls that the run waits for, if it does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingCall>,
}

impl RunEnded {
    /// A run's end.
    pub fn new(status: StatusKind, turns: u32, usage: Usage) -> Self {
        Self { status, turns, usage, error: None, waiting: Vec::new() }
    }
}

/// An [`Error`], as far as an event says it. The error itself is in the [`Outcome`](crate::Outcome).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Failure {
    /// The error's kind.
    pub kind: ErrorKind,
    /// What it says.
    pub message: String,
}

impl Failure {
    /// What an event says of an error.
    pub fn of(error: &Error) -> Self {
        Self { kind: error.kind(), message: error.message().to_owned() }
    }
}
