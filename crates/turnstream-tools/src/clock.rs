//! [`Clock`]: how long a run may take.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{Instant, Sleep},
};
use turnstream_core::{Error, ErrorKind};

/// How long a run may take. It runs from the first poll on, and stands while the run waits for decisions.
#[derive(Debug)]
pub(crate) struct Clock {
    left: Option<Duration>,
    running: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Clock {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { left: limit, running: None }
    }

    /// Ready when the time is up.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Some(left) = self.left else { return Poll::Pending };
        // A timer does not go off at once.
        if left.is_zero() {
            return Poll::Ready(Ok(()));
        }
        if self.running.is_none() && Handle::try_current().is_err() {
            let message = "a run with a time limit needs a tokio runtime: poll the run inside one";
            return Poll::Ready(Err(Error::new(ErrorKind::Config, message)));
        }
        let (_, end) =
            self.running.get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(left))));
        ready!(end.as_mut().poll(context));
        Poll::Ready(Ok(()))
    }

    /// Stands until it is polled again.
    pub(crate) fn pause(&mut self) {
        if let Some((since, _)) = self.running.take() {
            self.left = self.left.map(|left| left.saturating_sub(since.elapsed()));
        }
    }
}
