//! [`CallContext`]: what a handler may know of the call that it answers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde::Serialize;
use tokio::sync::mpsc;
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
    pub(crate) cancelled: Arc<AtomicBool>,
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

    /// The id under which the result goes back. It is unique in the conversation, save where the handler
    /// runs [eagerly](crate::Tool::eager): then it is the provider's, which may repeat.
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
        self.cancelled.load(Ordering::Relaxed)
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

/// Says that a call is cancelled when it goes out of scope, however that happens.
pub(crate) struct CancelOnDrop(pub(crate) Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
