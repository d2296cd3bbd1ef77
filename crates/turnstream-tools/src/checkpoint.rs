//! [`Checkpoint`]: a run, written down.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use turnstream_core::{Arguments, CallIndex, Conversation, Error, ErrorKind, RawJson, Request, Text};

use crate::{
    answer::Answer,
    turns::{Decision, Turns},
};

/// The form in which checkpoints are written now.
const VERSION: u32 = 1;

/// A run as plain data: one that [waits](crate::RunStatus::Waiting), or any, [as it
/// stands](crate::Run::checkpoint). Write it down, decide the calls that wait today or tomorrow, and
/// [resume](crate::ToolLoop::resume) it in this process or another.
///
/// It has the whole request and the results that are there already: those calls never run again. The client's
/// key is not in it. The user's data is, and with the request whatever secrets its provider options carry, for
/// example a token for the provider to use with a tool server. Its JSON is versioned and otherwise private.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checkpoint {
    version: u32,
    request: Box<Request>,
    turns: Turns,
}

impl Checkpoint {
    /// The calls that wait.
    pub fn waiting(&self) -> Vec<WaitingCall> {
        self.turns.waiting()
    }

    /// The conversation so far. If the run was in the middle of its calls, those of the last reply are open.
    pub fn conversation(&self) -> &Conversation {
        &self.request.conversation
    }

    /// Lets a call run.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if no such call waits, or its tool has no handler.
    pub fn approve(&mut self, turn: u32, call: CallIndex) -> Result<(), Error> {
        self.turns.decide(turn, call, Decision::Run).map(drop)
    }

    /// Answers a call with an error result, in words for the model, instead of running it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if no such call waits.
    pub fn deny(&mut self, turn: u32, call: CallIndex, why: impl Into<String>) -> Result<(), Error> {
        self.turns.decide(turn, call, Decision::Answer(Answer::failure(why))).map(drop)
    }

    /// Answers a call with a result from outside.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if no such call waits.
    pub fn answer(&mut self, turn: u32, call: CallIndex, answer: impl Into<Answer>) -> Result<(), Error> {
        self.turns.decide(turn, call, Decision::Answer(answer.into())).map(drop)
    }

    pub(crate) fn new(request: Request, turns: Turns) -> Self {
        Self { version: VERSION, request: Box::new(request), turns }
    }

    pub(crate) fn into_parts(self) -> (Request, Turns, Result<(), Error>) {
        let check = match self.version {
            VERSION => Ok(()),
            version => Err(Error::new(ErrorKind::Config, unknown(version))),
        };
        (*self.request, self.turns, check)
    }
}

impl<'de> Deserialize<'de> for Checkpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Written {
            version: u32,
            request: RawJson,
            turns: RawJson,
        }
        let Written { version, request, turns } = Written::deserialize(deserializer)?;
        // The version explains what a field that nobody knows would not.
        let read = request.read().and_then(|request| Ok(Self { version, request, turns: turns.read()? }));
        read.map_err(|error| match version {
            VERSION => D::Error::custom(error),
            version => D::Error::custom(unknown(version)),
        })
    }
}

fn unknown(version: u32) -> String {
    format!("a checkpoint of version {version} cannot be resumed by version {VERSION}")
}

/// A call that waits for a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WaitingCall {
    /// The turn's number in the run, from 0.
    pub turn: u32,
    /// The call's number in the turn.
    pub call: CallIndex,
    /// The call's id.
    pub id: Text,
    /// The tool's name.
    pub name: Text,
    /// The arguments, as the model wrote them.
    pub arguments: Arguments,
    /// What it waits for.
    pub waiting_for: WaitingFor,
}

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitingFor {
    /// Its tool [needs approval](crate::Tool::needs_approval): approve it, deny it, or answer it.
    Approval,
    /// Its tool has no handler: answer it, or deny it.
    Answer,
    /// It had started when the run was interrupted, and may have had its effect: approve it to run it again,
    /// or answer it with what it did.
    Decision,
}
