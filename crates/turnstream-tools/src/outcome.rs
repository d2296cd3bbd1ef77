//! [`Outcome`]: what a run leaves.

use std::fmt;

use serde::{Deserialize, Serialize};
use turnstream_core::{Conversation, Error, Reason, Usage};

use crate::{checkpoint::Checkpoint, turns::Verdict};

/// What a run leaves, however it ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// How it ended.
    pub status: RunStatus,
    /// The whole conversation: the request's messages, the replies, the results. It can be sent again, with
    /// one more message of the user's: every call in it is answered, unless the run waits for calls.
    pub conversation: Conversation,
    /// The tokens of all turns, as far as the provider counted them.
    pub usage: Usage,
    /// How many turns were asked for.
    pub turns: u32,
    /// How many calls the model made.
    pub calls: u32,
    /// How the last turn ended; `None` if it ended in an error, or none did.
    pub reason: Option<Reason>,
    /// Why the last checkpoint is not in the [sink](crate::CheckpointSink), if it is not: the run had ended when
    /// it could not be written. What the sink has is older than what stands here.
    pub unsaved: Option<Error>,
    pub(crate) text: String,
}

impl Outcome {
    /// The text of the last turn: the answer, if the run finished. After an error it is what had come of it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The error in which the run ended, if it did.
    pub fn error(&self) -> Option<&Error> {
        match &self.status {
            RunStatus::Failed(error) => Some(error),
            _ => None,
        }
    }
}

/// How a run ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunStatus {
    /// The model had said what it wanted to say.
    Finished,
    /// The last turn ended in a way after which nothing can run: its answer was cut (`length`), filtered or
    /// refused, or its reason makes no sense. None of its calls ran but [eager](crate::Tool::eager) ones that had
    /// started before its end: what became of those is in the conversation.
    Stopped(Reason),
    /// The model wants to go on, but has had as many turns as it may. The results of its last calls are in the
    /// conversation.
    MaxTurns,
    /// The model made more calls than it may. None of the last turn's ran but those of
    /// [eager](crate::Tool::eager) tools that came before the limit was passed.
    MaxCalls,
    /// The run has used as many [tokens](crate::ToolLoop::max_total_tokens) as it may, and the model wants to go
    /// on. The results of its last calls are in the conversation.
    MaxTokens,
    /// The run has taken as much [time](crate::ToolLoop::max_time) as it may. Handlers that ran were aborted, and
    /// of a turn that streamed the conversation has what came whole.
    MaxTime,
    /// The caller's [condition](crate::ToolLoop::stop_when) said stop. The results of the last calls are in the
    /// conversation.
    StopCondition,
    /// Calls wait to be approved, or for a result from outside. Decide them in the checkpoint and
    /// [resume](crate::ToolLoop::resume), or at once with [`Run::approve`](crate::Run::approve) and its like.
    Waiting(Checkpoint),
    /// A turn ended in an error, a tool ended the run ([`ErrorKind::Tool`](turnstream_core::ErrorKind::Tool)),
    /// or the run could not start ([`ErrorKind::Config`](turnstream_core::ErrorKind::Config)). Of the turn that
    /// failed, the conversation has what came whole: its text so far, and no call that was cut.
    Failed(Error),
    /// The caller cancelled.
    Cancelled,
}

impl RunStatus {
    /// The status in one word.
    pub fn kind(&self) -> StatusKind {
        match self {
            Self::Finished => StatusKind::Finished,
            Self::Stopped(_) => StatusKind::Stopped,
            Self::MaxTurns => StatusKind::MaxTurns,
            Self::MaxCalls => StatusKind::MaxCalls,
            Self::MaxTokens => StatusKind::MaxTokens,
            Self::MaxTime => StatusKind::MaxTime,
            Self::StopCondition => StatusKind::StopCondition,
            Self::Waiting(_) => StatusKind::Waiting,
            Self::Failed(_) => StatusKind::Failed,
            Self::Cancelled => StatusKind::Cancelled,
        }
    }
}

impl fmt::Display for StatusKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::MaxTurns => "max_turns",
            Self::MaxCalls => "max_calls",
            Self::MaxTokens => "max_tokens",
            Self::MaxTime => "max_time",
            Self::StopCondition => "stop_condition",
            Self::Waiting => "waiting",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        })
    }
}

/// A [`RunStatus`] in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StatusKind {
    /// See [`RunStatus::Finished`].
    Finished,
    /// See [`RunStatus::Stopped`].
    Stopped,
    /// See [`RunStatus::MaxTurns`].
    MaxTurns,
    /// See [`RunStatus::MaxCalls`].
    MaxCalls,
    /// See [`RunStatus::MaxTokens`].
    MaxTokens,
    /// See [`RunStatus::MaxTime`].
    MaxTime,
    /// See [`RunStatus::StopCondition`].
    StopCondition,
    /// See [`RunStatus::Waiting`].
    Waiting,
    /// See [`RunStatus::Failed`].
    Failed,
    /// See [`RunStatus::Cancelled`].
    Cancelled,
}

/// How a run ended, before what it waits for has been written down.
pub(crate) enum End {
    Verdict(Verdict),
    Waiting,
    Failed(Error),
    Cancelled,
}

impl End {
    /// What the caller is told; `checkpoint` writes down a run that waits.
    pub(crate) fn into_status(self, checkpoint: impl FnOnce() -> Checkpoint) -> RunStatus {
        match self {
            Self::Verdict(Verdict::Finished) => RunStatus::Finished,
            Self::Verdict(Verdict::Stopped(reason)) => RunStatus::Stopped(reason),
            Self::Verdict(Verdict::MaxTurns) => RunStatus::MaxTurns,
            Self::Verdict(Verdict::MaxCalls) => RunStatus::MaxCalls,
            Self::Verdict(Verdict::MaxTokens) => RunStatus::MaxTokens,
            Self::Verdict(Verdict::MaxTime) => RunStatus::MaxTime,
            Self::Verdict(Verdict::StopCondition) => RunStatus::StopCondition,
            Self::Waiting => RunStatus::Waiting(checkpoint()),
            Self::Failed(error) => RunStatus::Failed(error),
            Self::Cancelled => RunStatus::Cancelled,
        }
    }

    pub(crate) fn kind(&self) -> StatusKind {
        match self {
            Self::Verdict(Verdict::Finished) => StatusKind::Finished,
            Self::Verdict(Verdict::Stopped(_)) => StatusKind::Stopped,
            Self::Verdict(Verdict::MaxTurns) => StatusKind::MaxTurns,
            Self::Verdict(Verdict::MaxCalls) => StatusKind::MaxCalls,
            Self::Verdict(Verdict::MaxTokens) => StatusKind::MaxTokens,
            Self::Verdict(Verdict::MaxTime) => StatusKind::MaxTime,
            Self::Verdict(Verdict::StopCondition) => StatusKind::StopCondition,
            Self::Waiting => StatusKind::Waiting,
            Self::Failed(_) => StatusKind::Failed,
            Self::Cancelled => StatusKind::Cancelled,
        }
    }

    /// What a call that did not run is told.
    pub(crate) fn why(&self) -> &'static str {
        match self {
            Self::Verdict(Verdict::Finished | Verdict::Stopped(_)) => "the turn did not end well",
            Self::Verdict(Verdict::MaxTurns) => "there were too many turns",
            Self::Verdict(Verdict::MaxCalls) => "there were too many calls",
            Self::Verdict(Verdict::MaxTokens) => "the run's tokens were used up",
            Self::Verdict(Verdict::MaxTime) => "the run's time was up",
            Self::Verdict(Verdict::StopCondition) => "the run was stopped",
            Self::Waiting => "it waits for a decision",
            Self::Failed(_) => "the run ended in an error",
            Self::Cancelled => "the run was cancelled",
        }
    }
}
