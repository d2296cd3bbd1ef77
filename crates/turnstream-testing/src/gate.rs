//! [`Gate`]: a place in a reply that is passed when the test says so.

use std::{fmt, sync::Arc};

use tokio::sync::watch;

/// A place in a reply at which it waits until the test lets it go on. It replaces sleeping: the test knows
/// exactly what has been sent and what has not.
///
/// Clones are the same gate. Once open it stays open.
#[derive(Clone)]
pub struct Gate {
    state: Arc<watch::Sender<State>>,
}

#[derive(Clone, Copy, Default)]
struct State {
    is_open: bool,
    is_reached: bool,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self { state: Arc::new(watch::Sender::new(State::default())) }
    }

    /// Lets the reply go on.
    pub fn open(&self) {
        self.state.send_modify(|state| state.is_open = true);
    }

    /// Whether the gate has been opened.
    pub fn is_open(&self) -> bool {
        self.state.borrow().is_open
    }

    /// Waits until a reply has come to the gate: everything before it has been given out.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn reached(&self) {
        self.wait_until(|state| state.is_reached).await;
    }

    /// A reply has come here; waits until the gate is open.
    pub(crate) async fn pass(&self) {
        self.state.send_modify(|state| state.is_reached = true);
        self.wait_until(|state| state.is_open).await;
    }

    async fn wait_until(&self, is_so: impl FnMut(&State) -> bool) {
        let mut state = self.state.subscribe();
        state.wait_for(is_so).await.expect("the sender lives as long as the gate");
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Gate").field("is_open", &self.is_open()).finish_non_exhaustive()
    }
}
