//! [`Run`]: a tool loop as it happens. It polls the model and starts handlers, as the rules in `turns.rs` say.

mod calls;
mod decisions;
mod ending;
mod turn;

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use tracing::Span;
use turnstream_core::{Error, ErrorKind, Message, Model, Request, Role, TurnStream};

use crate::{
    clock::Clock,
    event::{RunEnded, RunEvent},
    handlers::Handlers,
    offer::Offer,
    outcome::{End, Outcome, RunStatus},
    reply::Reply,
    sink::Saving,
    tool_loop::Settings,
    toolset::Toolset,
    trace,
    turns::{Step, Turns, Verdict},
};

/// A tool loop as it happens: a stream of [`RunEvent`]s, and an [`Outcome`] at its end.
///
/// Nothing is read from the model while the run is not polled, and no handler starts; those that run go on in
/// their tasks. Dropping the run aborts them and closes the connection.
///
/// It must be polled inside a tokio runtime. `next` and `outcome` are all that most need; [`finish`](Self::finish)
/// is both.
pub struct Run {
    model: Arc<dyn Model>,
    offer: Offer,
    settings: Settings,
    request: Request,
    turns: Turns,
    span: Span,
    /// The turn that streams now.
    reply: Option<Reply>,
    /// The stream of a turn that has ended, until it has let go of its connection.
    tail: Option<TurnStream>,
    handlers: Handlers,
    clock: Clock,
    events: VecDeque<RunEvent>,
    /// Whether the rules have nothing to do before a handler, the model or the caller says something.
    is_busy: bool,
    /// After how many turns the caller's condition was asked last.
    asked_condition: u32,
    /// Whether something has happened that the sink does not know.
    is_unsaved: bool,
    /// The checkpoint that is being saved.
    saving: Option<Saving>,
    /// The text of the last turn.
    text: String,
    /// Whether the conversation ends in a reply that was cut, and that no result follows.
    is_cut: bool,
    end: Option<End>,
    /// The last event, until the last checkpoint is saved.
    ended: Option<RunEnded>,
    unsaved: Option<Error>,
}

impl Run {
    /// The next event, or `None` after the end. If the run waits for decisions, events come again once one is
    /// made.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<RunEvent> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Reads the run to its end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the run.
    pub async fn finish(mut self) -> Outcome {
        while self.next().await.is_some() {}
        self.outcome()
    }

    /// What the run leaves. A run that has not ended is cancelled.
    pub fn outcome(mut self) -> Outcome {
        if self.end.is_none() {
            self.end_with(End::Cancelled);
        }
        let status = match self.end.take() {
            Some(end) => end.into_status(|| self.checkpoint()),
            None => RunStatus::Cancelled,
        };
        Outcome {
            status,
            conversation: std::mem::take(&mut self.request.conversation),
            usage: self.turns.usage,
            turns: self.turns.asked,
            calls: self.turns.calls_made,
            reason: self.turns.reason,
            unsaved: self.unsaved.take(),
            text: std::mem::take(&mut self.text),
        }
    }

    /// Stops the run, and hands out what there is: handlers that run are aborted, the connection is closed,
    /// and every call that has no result gets one that says so. A run that has ended keeps its outcome, unless
    /// it waits. Nothing is written to its [sink](crate::CheckpointSink).
    pub fn cancel(mut self) -> Outcome {
        if let None | Some(End::Waiting) = self.end {
            self.end_with(End::Cancelled);
        }
        self.outcome()
    }

    pub(crate) fn new(
        model: Arc<dyn Model>,
        tools: Toolset,
        settings: Settings,
        mut request: Request,
        turns: Turns,
        check: Result<(), Error>,
    ) -> Self {
        let check = check.and_then(|()| tools.check(&request.tools));
        let offer = Offer::new(&request.tools, tools, settings.sources.clone(), settings.wrappers.clone());
        request.tools = offer.fixed().to_vec();
        if let Some(output) = &settings.output {
            output.ask(&mut request);
        }
        // What a run that was written down had said last.
        let last = request.conversation.messages().last();
        let answer = last.filter(|message| turns.asked > 0 && message.role == Role::Assistant);
        let text = answer.map(Message::text).unwrap_or_default();
        let mut run = Self {
            span: trace::run(&*model),
            model,
            offer,
            clock: Clock::new(settings.max_time),
            settings,
            request,
            turns,
            reply: None,
            tail: None,
            handlers: Handlers::new(),
            events: VecDeque::new(),
            is_busy: false,
            asked_condition: 0,
            is_unsaved: false,
            saving: None,
            text,
            is_cut: false,
            end: None,
            ended: None,
            unsaved: None,
        };
        if let Err(error) = check {
            run.end_with(End::Failed(error));
            // Nothing has happened, and what the sink has may be of use.
            run.is_unsaved = false;
        }
        run
    }

    /// One step on. Pending only when the model and all handlers are.
    fn poll_advance(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Err(error) = ready!(self.poll_saved(context)) {
            self.end_with(End::Failed(error));
            self.is_unsaved = false;
            return Poll::Ready(());
        }
        // Their `HandlerStarted` events have been read, and the sink knows of them.
        self.handlers.start_queued();
        if let Poll::Ready(result) = self.clock.poll_end(context) {
            self.end_with(match result {
                Ok(()) => End::Verdict(Verdict::MaxTime),
                Err(error) => End::Failed(error),
            });
            return Poll::Ready(());
        }
        if let Poll::Ready(news) = self.handlers.poll_news(context) {
            self.hear(news);
            return Poll::Ready(());
        }
        let tail = self.poll_tail(context);
        if self.is_busy {
            return self.poll_reply(context);
        }
        match self.turns.step(&self.settings.bounds, &mut self.request.conversation) {
            Step::Ask if self.should_stop() => self.end_with(End::Verdict(Verdict::StopCondition)),
            Step::Ask => {
                // So that the next request can go over the same connection.
                ready!(tail);
                match ready!(self.offer.poll_fresh(&mut self.request, context)) {
                    Ok(()) => self.ask(),
                    Err(error) => self.end_with(End::Failed(error)),
                }
            }
            Step::Run(calls) => match ready!(self.offer.poll_known(&mut self.request, context)) {
                Ok(()) => calls.into_iter().for_each(|call| self.start(call)),
                Err(error) => self.end_with(End::Failed(error)),
            },
            Step::Busy => {
                self.is_busy = true;
                ready!(self.poll_reply(context));
            }
            Step::Wait => self.end_with(End::Waiting),
            Step::Done(Verdict::Finished) => self.finished(),
            Step::Done(verdict) => self.end_with(End::Verdict(verdict)),
        }
        Poll::Ready(())
    }

    /// Ready when the sink knows all that has happened.
    fn poll_saved(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Some(sink) = self.settings.sink.clone() else { return Poll::Ready(Ok(())) };
        if self.saving.is_none() && self.is_unsaved {
            self.is_unsaved = false;
            self.saving = Some(sink.save(self.checkpoint()));
        }
        let Some(saving) = &mut self.saving else { return Poll::Ready(Ok(())) };
        let saved = ready!(saving.as_mut().poll(context));
        self.saving = None;
        Poll::Ready(saved.map_err(|source| {
            Error::new(ErrorKind::Checkpoint, format!("a checkpoint could not be saved: {source}"))
                .with_source(source)
        }))
    }
}

impl Stream for Run {
    type Item = RunEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<RunEvent>> {
        let span = self.span.clone();
        let _entered = span.enter();
        loop {
            if let Some(event) = self.events.pop_front() {
                return Poll::Ready(Some(event));
            }
            if self.end.is_none() {
                ready!(self.poll_advance(context));
                continue;
            }
            if let Err(error) = ready!(self.poll_saved(context)) {
                self.unsaved = Some(error);
            }
            if let Some(ended) = self.ended.take() {
                return Poll::Ready(Some(RunEvent::Ended(ended)));
            }
            ready!(self.poll_tail(context));
            return Poll::Ready(None);
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Run")
            .field("model", &self.model.name())
            .field("settings", &self.settings)
            .field("turns", &self.turns)
            .field("has_ended", &self.end.is_some())
            .finish_non_exhaustive()
    }
}
