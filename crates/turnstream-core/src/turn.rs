//! A [`Turn`]: one reply put together from its events.

use std::{collections::BTreeMap, error::Error as StdError, fmt};

use crate::{
    error::Error,
    event::{CallIndex, Event, InputKind, PartIndex, Reason, Replay, Usage},
    message::{CallPart, Message, OpaquePart, Part, ReasoningPart, Role, TextPart},
    text::{Arguments, Text},
};

/// One reply, put together from its events. Core knows no wire, so events alone are enough.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Turn {
    /// The provider's id of the reply.
    pub id: Option<Text>,
    /// The model, as the provider names it.
    pub model: Option<Text>,
    /// What the reply says, in the wire's order. Aborted calls are not in it: no result can answer them.
    pub parts: Vec<Part>,
    /// The finished calls, in ordinal order.
    pub calls: Vec<FinishedCall>,
    /// The calls that were cut, in the order of their ends.
    pub aborted: Vec<AbortedCall>,
    /// How the turn ended; `None` if it ended in an error.
    pub reason: Option<Reason>,
    /// The provider's own word for it.
    pub raw_reason: Option<Text>,
    /// Tokens, as far as the provider counted them.
    pub usage: Usage,
}

impl Turn {
    /// The answer's text.
    pub fn text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(text.text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The model's message, to be appended to the conversation.
    pub fn into_message(self) -> Message {
        Message::new(Role::Assistant, self.parts)
    }
}

/// A finished call of a [`Turn`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FinishedCall {
    /// The call's number in the turn.
    pub call: CallIndex,
    /// The call's id.
    pub id: Text,
    /// The tool's name.
    pub name: Text,
    /// The arguments, verbatim.
    pub arguments: Arguments,
    /// How they are meant.
    pub input: InputKind,
}

/// An aborted call of a [`Turn`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AbortedCall {
    /// The call's number in the turn.
    pub call: CallIndex,
    /// The call's id.
    pub id: Text,
    /// The tool's name.
    pub name: Text,
    /// What had arrived of its arguments.
    pub partial: crate::text::ArgumentFragment,
    /// Why it was aborted.
    pub reason: crate::event::AbortReason,
}

/// The error in which a turn ended, with the turn as far as it came.
#[derive(Debug)]
pub struct TurnError {
    error: Error,
    turn: Box<Turn>,
}

impl TurnError {
    pub(crate) fn new(error: Error, turn: Turn) -> Self {
        Self { error, turn: Box::new(turn) }
    }

    /// The error.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The turn as far as it came.
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Both.
    pub fn into_parts(self) -> (Error, Turn) {
        (self.error, *self.turn)
    }
}

impl fmt::Display for TurnError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl StdError for TurnError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

impl From<TurnError> for Error {
    fn from(error: TurnError) -> Self {
        error.error
    }
}

/// Puts a [`Turn`] together, event by event.
#[derive(Debug, Clone, Default)]
pub struct TurnBuilder {
    turn: Turn,
    /// The parts by number; a part that has said nothing yet, and an aborted call, is `None`.
    parts: BTreeMap<PartIndex, Draft>,
    /// The part of each call, by ordinal.
    calls: Vec<PartIndex>,
}

#[derive(Debug, Clone, Default)]
enum Draft {
    #[default]
    Nothing,
    Announced {
        input: InputKind,
        made_up_id: bool,
        replay: Option<Replay>,
    },
    Part(Part),
    Aborted,
}

impl TurnBuilder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        match event {
            Event::TurnStarted(started) => {
                self.turn.id.clone_from(&started.id);
                self.turn.model.clone_from(&started.model);
            }
            Event::TextDelta(delta) => {
                let part = self.part(delta.part, || Part::Text(TextPart::default()));
                append(part, &delta.text);
            }
            Event::RefusalDelta(delta) => {
                let part = self.part(delta.part, || Part::Refusal(TextPart::default()));
                append(part, &delta.text);
            }
            Event::ReasoningDelta(delta) => {
                let part = self.part(delta.part, || Part::Reasoning(ReasoningPart::default()));
                append(part, &delta.text);
            }
            Event::CallStarted(call) => {
                self.calls.push(call.part);
                *self.draft(call.part) =
                    Draft::Announced { input: call.input, made_up_id: call.made_up_id, replay: None };
            }
            Event::CallFinished(call) => {
                let Some(part) = self.part_of(call.call) else { return };
                let draft = std::mem::take(self.draft(part));
                let (input, made_up_id, replay) = match draft {
                    Draft::Announced { input, made_up_id, replay } => (input, made_up_id, replay),
                    _ => (InputKind::Json, false, None),
                };
                let (id, name, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
                let finished = CallPart { input, made_up_id, replay, ..CallPart::new(id, name, arguments) };
                *self.draft(part) = Draft::Part(Part::Call(finished));
                let (id, name, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
                self.turn.calls.push(FinishedCall { call: call.call, id, name, arguments, input });
            }
            Event::CallAborted(call) => {
                if let Some(part) = self.part_of(call.call) {
                    *self.draft(part) = Draft::Aborted;
                }
                self.turn.aborted.push(AbortedCall {
                    call: call.call,
                    id: call.id.clone(),
                    name: call.name.clone(),
                    partial: call.partial.clone(),
                    reason: call.reason,
                });
            }
            Event::PartFinished(finished) => {
                if let Some(replay) = &finished.replay {
                    self.attach(finished.part, replay);
                }
            }
            Event::TurnFinished(finished) => {
                self.turn.reason = Some(finished.reason);
                self.turn.raw_reason.clone_from(&finished.raw_reason);
                self.turn.usage = finished.usage.as_deref().copied().unwrap_or_default();
            }
            _ => {}
        }
    }

    /// The turn as far as it came.
    pub fn build(self) -> Turn {
        let mut turn = self.turn;
        turn.calls.sort_by_key(|call| call.call);
        turn.parts = self
            .parts
            .into_values()
            .filter_map(|draft| match draft {
                Draft::Part(part) => Some(part),
                _ => None,
            })
            .collect();
        turn
    }

    fn attach(&mut self, index: PartIndex, new: &Replay) {
        let new = new.clone();
        match self.draft(index) {
            Draft::Announced { replay, .. } => *replay = Some(new),
            Draft::Part(Part::Text(part) | Part::Refusal(part)) => part.replay = Some(new),
            Draft::Part(Part::Reasoning(part)) => part.replay = Some(new),
            Draft::Part(Part::Call(part)) => part.replay = Some(new),
            draft @ Draft::Nothing => *draft = Draft::Part(Part::Opaque(OpaquePart::new(new))),
            Draft::Part(_) | Draft::Aborted => {}
        }
    }

    fn part_of(&self, call: CallIndex) -> Option<PartIndex> {
        self.calls.get(usize::try_from(call.0).ok()?).copied()
    }

    fn part(&mut self, index: PartIndex, new: impl FnOnce() -> Part) -> &mut Draft {
        let draft = self.draft(index);
        if let Draft::Nothing = draft {
            *draft = Draft::Part(new());
        }
        draft
    }

    fn draft(&mut self, index: PartIndex) -> &mut Draft {
        self.parts.entry(index).or_default()
    }
}

fn append(draft: &mut Draft, text: &str) {
    match draft {
        Draft::Part(Part::Text(part) | Part::Refusal(part)) => part.text.push_str(text),
        Draft::Part(Part::Reasoning(part)) => part.text.push_str(text),
        _ => {}
    }
}
