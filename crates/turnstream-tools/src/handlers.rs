//! The handlers of a run that are running: tasks that it owns.

use std::{
    collections::{HashMap, VecDeque},
    panic::AssertUnwindSafe,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
    task::{self, JoinError, JoinSet},
};
use tracing::{Instrument, Span};
use turnstream_core::CallIndex;

use crate::{
    answer::Answer, context::CallContext, error::ToolError, event::HandlerProgress, tool::Prepared, trace,
    turns::Call,
};

/// How many progress reports wait for a run that is not read.
const PROGRESS_REPORTS: usize = 256;

/// Dropping it aborts every handler.
pub(crate) struct Handlers {
    queued: Vec<Queued>,
    tasks: JoinSet<Result<Answer, ToolError>>,
    /// The call that each task answers. A task that dies cannot say it itself.
    calls: HashMap<task::Id, CallIndex>,
    finished: VecDeque<Finished>,
    progress: mpsc::Receiver<HandlerProgress>,
    progress_sender: mpsc::Sender<HandlerProgress>,
}

/// A handler that is about to start.
struct Queued {
    context: CallContext,
    /// Dropped when nobody waits for the answer any more, however that comes.
    waits: watch::Sender<()>,
    start: Start,
}

/// How a handler is started.
pub(crate) struct Start {
    pub(crate) runtime: Handle,
    pub(crate) turn: u32,
    pub(crate) handler: Prepared,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) span: Span,
    pub(crate) traces_content: bool,
}

/// What a handler made of its call.
pub(crate) struct Finished {
    pub(crate) call: CallIndex,
    pub(crate) answer: Result<Answer, ToolError>,
}

pub(crate) enum News {
    Progress(HandlerProgress),
    Finished(Finished),
}

impl Handlers {
    pub(crate) fn new() -> Self {
        let (progress_sender, progress) = mpsc::channel(PROGRESS_REPORTS);
        Self {
            queued: Vec::new(),
            tasks: JoinSet::new(),
            calls: HashMap::new(),
            finished: VecDeque::new(),
            progress,
            progress_sender,
        }
    }

    /// Makes a handler ready to start.
    pub(crate) fn queue(&mut self, call: Call, start: Start) {
        let (waits, waiting) = watch::channel(());
        let context = CallContext {
            turn: start.turn,
            call: call.call,
            id: call.id,
            name: call.name,
            waiting,
            progress: self.progress_sender.clone(),
        };
        self.queued.push(Queued { context, waits, start });
    }

    /// Starts what is queued, each in a task of its own.
    pub(crate) fn start_queued(&mut self) {
        for Queued { context, waits, start } in self.queued.drain(..) {
            let Start { runtime, handler, time_limit, span, traces_content, .. } = start;
            let (call, own_span) = (context.call, span.clone());
            let task = async move {
                let _waits = waits;
                let answer = AssertUnwindSafe(async move { handler.run(context).await }).catch_unwind();
                let answer = match time_limit {
                    Some(Duration::ZERO) => {
                        Ok(Err(ToolError::new("The call was not run: there is no time for it.")))
                    }
                    Some(limit) => {
                        tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Ok(Err(late(limit))))
                    }
                    None => answer.await,
                };
                let answer = answer.unwrap_or_else(|panic| Err(panicked(&*panic)));
                trace::answered(&own_span, &answer, traces_content);
                answer
            };
            let task = self.tasks.spawn_on(task.instrument(span), &runtime);
            self.calls.insert(task.id(), call);
        }
    }

    /// Takes back what is queued, and hands out whose calls those were.
    pub(crate) fn unqueue(&mut self) -> impl Iterator<Item = CallIndex> {
        self.queued.drain(..).map(|queued| queued.context.call)
    }

    /// What has happened since. Never ready while nothing runs.
    pub(crate) fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<News> {
        if self.is_idle() {
            return Poll::Pending;
        }
        self.join(|tasks| match tasks.poll_join_next_with_id(context) {
            Poll::Ready(joined) => joined,
            Poll::Pending => None,
        });
        // A handler's reports come before its end: what is finished was joined before they are looked at.
        if let Ok(progress) = self.progress.try_recv() {
            return Poll::Ready(News::Progress(progress));
        }
        if let Some(finished) = self.finished.pop_front() {
            return Poll::Ready(News::Finished(finished));
        }
        match self.progress.poll_recv(context) {
            Poll::Ready(Some(progress)) => Poll::Ready(News::Progress(progress)),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Whether nothing runs, and nobody is left who could report anything.
    fn is_idle(&self) -> bool {
        let is_alone = self.progress.sender_strong_count() == 1;
        is_alone && self.progress.is_empty() && self.calls.is_empty() && self.finished.is_empty()
    }

    /// Aborts what runs, and hands out what had finished.
    pub(crate) fn stop(&mut self) -> VecDeque<Finished> {
        self.join(JoinSet::try_join_next_with_id);
        self.tasks = JoinSet::new();
        self.queued.clear();
        self.calls.clear();
        std::mem::take(&mut self.finished)
    }

    fn join<F>(&mut self, mut next: F)
    where
        F: FnMut(
            &mut JoinSet<Result<Answer, ToolError>>,
        ) -> Option<Result<(task::Id, Result<Answer, ToolError>), JoinError>>,
    {
        while let Some(joined) = next(&mut self.tasks) {
            let (id, answer) = match joined {
                Ok((id, answer)) => (id, answer),
                Err(error) => (error.id(), Err(died(error))),
            };
            let call = self.calls.remove(&id);
            self.finished.extend(call.map(|call| Finished { call, answer }));
        }
    }
}

/// Panics of a handler are caught inside its task. One in the drop of its future is not, and the runtime may
/// shut down under it.
fn died(error: JoinError) -> ToolError {
    match error.try_into_panic() {
        Ok(panic) => panicked(&*panic),
        Err(error) => {
            ToolError::new("The tool was stopped. Whether it had an effect is unknown.").with_source(error)
        }
    }
}

fn late(limit: Duration) -> ToolError {
    ToolError::new(format!("The tool gave no answer within {limit:?}. Whether it had an effect is unknown."))
}

/// What a panic says is meant for us and not for the model.
fn panicked(panic: &(dyn std::any::Any + Send)) -> ToolError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    ToolError::new("The tool panicked.").with_source(text.unwrap_or("a panic without words").to_owned())
}
