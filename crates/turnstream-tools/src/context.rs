//! [`CallContext`]: what a handler may know of the call that it answers.

use serde::Serialize;
use tokio::sync::{mpsc, watch};
use turnstream_core::{CallIndex, RawJson, Text};

use crate::event::HandlerProgress;

/// What a handler may know of the call that it answers. See
/// [`handler_with_context`](crate::Tool::handler_with_context).
#[derive(Debug, Clone)]
pub struct CallContext {
    pub(crate) turn: u32,
    pub(crate) call: CallIndex,
    pub(crate) id: Text,
    pub(crate) name: Text,
    /// Closed when nobody waits any more.
    pub(crate) waiting: watch::Receiver<()>,
    pub(crate) progress: mpsc::Sender<HandlerProgress>,
}

impl CallContext {
    /// The number of the turn in its run, from 0.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// The number of the call in its turn. Turn and call together name it within the run.
    pub fn call(&self) -> CallIndex {
        self.call
    }

    /// The id under which the result goes back: the key for a side that must do nothing twice, for a call that is
    /// run again after a kill has it still. It is unique in the conversation, save where the handler runs
    /// [eagerly](crate::Tool::eager): then it is the provider's, which may repeat, and one that does is another
    /// after a kill.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The tool's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether nobody waits for the answer any more: the run was cancelled or dropped, or the handler's time
    /// is up. An async handler is dropped then and need not ask. Blocking work in `spawn_blocking` goes on,
    /// and should ask now and then.
    pub fn is_cancelled(&self) -> bool {
        self.waiting.has_changed().is_err()
    }

    /// Waits until [`is_cancelled`](Self::is_cancelled): for tasks that the handler has started, which would go
    /// on without it.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn cancelled(&self) {
        let mut waiting = self.waiting.clone();
        while waiting.changed().await.is_ok() {}
    }

    /// Says how far the handler has come, as a [`HandlerProgress`] event of the run.
    ///
    /// Never waits. While nobody reads the run, more than a few hundred reports are dropped, and so is what
    /// cannot be written as JSON.
    pub fn progress(&self, progress: impl Serialize) {
        let Ok(progress) = RawJson::of(&progress) else { return };
        let report = HandlerProgress { turn: self.turn, call: self.call, progress };
        // A report that finds no room is worth less than a handler that waits.
        let _ = self.progress.try_send(report);
    }
}
