//! [`Run`]: a tool loop as it happens. It polls the model and starts handlers, as the rules in `turns.rs` say.

use std::{
    collections::VecDeque,
    error::Error as StdError,
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use tokio::runtime::Handle;
use turnstream_core::{CallIndex, Error, ErrorKind, Event, Model, Reason, Request, ToolChoice, TurnStream};

use crate::{
    answer::Answer,
    checkpoint::{Checkpoint, WaitingCall, WaitingFor},
    error::ToolError,
    event::{Failure, HandlerFinished, HandlerStarted, RunEnded, RunEvent, TurnEvent, TurnStep},
    handlers::{Handlers, News},
    outcome::{End, Outcome, RunStatus, StatusKind},
    reply::Reply,
    tool::Tool,
    tool_loop::Settings,
    toolset::Toolset,
    turns::{Call, Decision, Step, Turns, Verdict},
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
    tools: Toolset,
    settings: Settings,
    request: Request,
    turns: Turns,
    /// The turn that streams now.
    reply: Option<Reply>,
    /// The stream of a turn that has ended, until it has let go of its connection.
    tail: Option<TurnStream>,
    handlers: Handlers,
    events: VecDeque<RunEvent>,
    /// The text of the last turn.
    text: String,
    /// Whether the conversation ends in a reply that was cut, and that no result follows.
    is_cut: bool,
    end: Option<End>,
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
        let conversation = match self.end {
            Some(End::Waiting) => self.request.conversation.clone(),
            _ => std::mem::take(&mut self.request.conversation),
        };
        let (usage, turns, calls) = (self.turns.usage, self.turns.asked, self.turns.calls_made);
        let (reason, text) = (self.turns.reason, std::mem::take(&mut self.text));
        let status = match self.end.take() {
            Some(End::Verdict(Verdict::Finished)) => RunStatus::Finished,
            Some(End::Verdict(Verdict::Stopped(reason))) => RunStatus::Stopped(reason),
            Some(End::Verdict(Verdict::MaxTurns)) => RunStatus::MaxTurns,
            Some(End::Verdict(Verdict::MaxCalls)) => RunStatus::MaxCalls,
            Some(End::Waiting) => RunStatus::Waiting(self.checkpoint()),
            Some(End::Failed(error)) => RunStatus::Failed(error),
            Some(End::Cancelled) | None => RunStatus::Cancelled,
        };
        Outcome { status, conversation, usage, turns, calls, reason, text }
    }

    /// Stops the run, and hands out what there is: handlers that run are aborted, the connection is closed,
    /// and every call that has no result gets one that says so. A run that has ended keeps its outcome, unless
    /// it waits.
    pub fn cancel(mut self) -> Outcome {
        if let None | Some(End::Waiting) = self.end {
            self.end_with(End::Cancelled);
        }
        self.outcome()
    }

    /// The run as it stands, to be [resumed](crate::ToolLoop::resume) later, in this process or another. It can
    /// be taken at any time, costs a copy of the conversation, and changes nothing here.
    ///
    /// | at that time | once resumed |
    /// |---|---|
    /// | a call has its result | it never runs again |
    /// | its handler has started | it runs again if its tool is [`idempotent`](crate::Tool::idempotent), else the run waits for a [decision](crate::WaitingFor::Decision) |
    /// | it has not started | it runs |
    /// | a turn streams | it is asked for again |
    /// | a turn streams, with [eager](crate::Tool::eager) calls that have started | the part that came stands in the conversation, and none of its other calls runs |
    /// | the run waits | it waits for the same decisions |
    /// | the run has failed | the model is asked again |
    /// | the run has ended otherwise | it ends in the same way, or goes on if the loop has more turns |
    ///
    /// A handler starts when the run is polled after its `HandlerStarted` has been read. Who writes a
    /// checkpoint down at each such event, before going on, can be sure that no call runs twice unasked.
    pub fn checkpoint(&self) -> Checkpoint {
        let (mut request, mut turns) = (self.request.clone(), self.turns.clone());
        // The loop that resumes it brings its own tools.
        request.tools.retain(|spec| self.tools.tool(&spec.name).is_none());
        if let Some(reply) = &self.reply
            && turns.has_started_calls()
        {
            let turn = reply.turn();
            let usage = turn.usage;
            let ids = request.conversation.push_reply(turn.into_message());
            turns.replied(None, usage, ids, &self.settings.bounds);
        }
        if self.is_cut
            && let Some((_, kept)) = request.conversation.messages().split_last()
        {
            request.conversation = kept.to_vec().into();
        }
        turns.interrupted(|name| self.tools.tool(name).is_some_and(Tool::is_idempotent));
        Checkpoint::new(request, turns)
    }

    /// The calls that wait for a decision.
    pub fn waiting(&self) -> Vec<WaitingCall> {
        self.turns.waiting()
    }

    /// Lets a call that waits run; it starts at the next poll.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if no such call waits, or its tool has no handler.
    pub fn approve(&mut self, turn: u32, call: CallIndex) -> Result<(), Error> {
        self.decide(turn, call, Decision::Run)
    }

    /// Answers a call that waits with an error result, in words for the model, instead of running it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if no such call waits.
    pub fn deny(&mut self, turn: u32, call: CallIndex, why: impl Into<String>) -> Result<(), Error> {
        self.decide(turn, call, Decision::Answer(Answer::failure(why)))
    }

    /// Answers a call that waits with a result from outside.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if no such call waits.
    pub fn answer(&mut self, turn: u32, call: CallIndex, answer: impl Into<Answer>) -> Result<(), Error> {
        self.decide(turn, call, Decision::Answer(answer.into()))
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
        request.tools.extend(tools.specs());
        let mut run = Self {
            model,
            tools,
            settings,
            request,
            turns,
            reply: None,
            tail: None,
            handlers: Handlers::new(),
            events: VecDeque::new(),
            text: String::new(),
            is_cut: false,
            end: None,
        };
        if let Err(error) = check {
            run.end_with(End::Failed(error));
        }
        run
    }

    /// One step on. Pending only when the model and all handlers are.
    fn poll_advance(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Their `HandlerStarted` events have been read.
        self.handlers.start_queued();
        if let Poll::Ready(news) = self.handlers.poll_news(context) {
            self.hear(news);
            return Poll::Ready(());
        }
        let tail = self.poll_tail(context);
        match self.turns.step(&self.settings.bounds, &mut self.request.conversation) {
            Step::Ask => {
                // So that the next request can go over the same connection.
                ready!(tail);
                self.ask();
            }
            Step::Run(calls) => calls.into_iter().for_each(|call| self.start(call)),
            Step::Busy => ready!(self.poll_reply(context)),
            Step::Wait => self.end_with(End::Waiting),
            Step::Done(verdict) => self.end_with(End::Verdict(verdict)),
        }
        Poll::Ready(())
    }

    fn ask(&mut self) {
        // A choice that forces a call would force one for ever.
        if let Some(choice) = &mut self.request.tool_choice
            && choice.is_forced()
            && self.turns.calls_made > 0
            && !self.settings.keeps_tool_choice
        {
            *choice = ToolChoice::Auto;
        }
        self.turns.asked();
        self.events.push_back(RunEvent::TurnBegan(TurnStep::new(self.turns.turn(), None)));
        self.reply = Some(Reply::new(self.model.stream(&self.request)));
    }

    fn poll_reply(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(reply) = &mut self.reply else { return Poll::Pending };
        match ready!(Pin::new(&mut reply.stream).poll_next(context)) {
            Some(Ok(event)) => self.take(event),
            Some(Err(error)) => self.end_with(End::Failed(error)),
            None => {
                let message = "the turn's events stopped before its end";
                self.end_with(End::Failed(Error::new(ErrorKind::Truncated, message)));
            }
        }
        Poll::Ready(())
    }

    fn poll_tail(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(tail) = &mut self.tail {
            while ready!(Pin::new(&mut *tail).poll_next(context)).is_some() {}
            self.tail = None;
        }
        Poll::Ready(())
    }

    fn take(&mut self, event: Event) {
        let turn = self.turns.turn();
        let ended = self.reply.as_mut().and_then(|reply| reply.take(&event));
        if let Some(call) = ended {
            let tool = self.tools.tool(&call.name);
            let is_sequential = tool.is_some_and(|tool| tool.is_sequential());
            let is_eager =
                tool.is_some_and(|tool| tool.can_be_eager() && (tool.is_eager() || self.settings.is_eager));
            self.turns.call_came(Call { is_sequential, is_eager, ..call });
        }
        let reason = match &event {
            Event::TurnFinished(finished) => Some(finished.reason),
            _ => None,
        };
        self.events.push_back(RunEvent::Turn(TurnEvent::new(turn, event)));
        if reason.is_some() {
            self.tail = self.replied(reason);
            self.events.push_back(RunEvent::TurnEnded(TurnStep::new(turn, reason)));
        }
    }

    /// The turn is over, well or not: what came of it goes into the conversation.
    fn replied(&mut self, reason: Option<Reason>) -> Option<TurnStream> {
        let reply = self.reply.take()?;
        let turn = reply.turn();
        self.text = turn.text();
        let usage = turn.usage;
        // A message without a part could not be sent.
        let is_empty = turn.parts.is_empty();
        let ids = match is_empty {
            true => Vec::new(),
            false => self.request.conversation.push_reply(turn.into_message()),
        };
        self.is_cut = reason.is_none() && !is_empty && ids.is_empty();
        self.turns.replied(reason, usage, ids, &self.settings.bounds);
        Some(reply.stream)
    }

    /// Starts a call's handler, or says why it cannot run.
    fn start(&mut self, call: CallIndex) {
        let Some(call) = self.turns.call(call).cloned() else { return };
        if self.end.is_some() {
            return;
        }
        if let Some(problem) = call.malformed {
            return self.answered(call.call, Answer::failure(problem));
        }
        let Some(tool) = self.tools.tool(&call.name) else {
            if self.request.tools.iter().any(|spec| spec.name == call.name) {
                return self.turns.wait(call.call, WaitingFor::Answer);
            }
            let names: Vec<_> = self.request.tools.iter().map(|spec| spec.name.as_str()).collect();
            let words = format!("There is no tool `{}`. The tools are: {}.", call.name, names.join(", "));
            return self.answered(call.call, Answer::failure(words));
        };
        let handler = match tool.prepare(&call.arguments, call.input) {
            None => return self.turns.wait(call.call, WaitingFor::Answer),
            Some(Err(error)) => return self.failed(call.call, error),
            Some(Ok(handler)) => handler,
        };
        if !call.is_approved && tool.asks_for_approval(&call.arguments, call.input) {
            return self.turns.wait(call.call, WaitingFor::Approval);
        }
        let Ok(runtime) = Handle::try_current() else {
            let message = "handlers need a tokio runtime: poll the run inside one";
            return self.end_with(End::Failed(Error::new(ErrorKind::Config, message)));
        };
        let time_limit = tool.time_limit().or(self.settings.handler_timeout);
        let turn = self.turns.turn();
        self.turns.started(call.call);
        let started = HandlerStarted::new(turn, call.call, call.id.clone(), call.name.clone());
        self.events.push_back(RunEvent::HandlerStarted(started));
        self.handlers.queue(runtime, turn, call, handler, time_limit);
    }

    fn hear(&mut self, news: News) {
        let finished = match news {
            News::Progress(progress) => return self.events.push_back(RunEvent::HandlerProgress(progress)),
            News::Finished(finished) => finished,
        };
        match finished.answer {
            Ok(answer) => self.answered(finished.call, answer),
            Err(error) => self.failed(finished.call, error),
        }
    }

    fn answered(&mut self, call: CallIndex, answer: Answer) {
        let result = self.turns.answered(call, answer);
        let turn = self.turns.turn();
        let finished = result.map(|result| HandlerFinished::new(turn, call, result));
        self.events.extend(finished.map(RunEvent::HandlerFinished));
    }

    fn failed(&mut self, call: CallIndex, error: ToolError) {
        let tool = self.turns.call(call).map(|call| call.name.as_str());
        let source: Option<&dyn StdError> = error.source().map(|source| source as _);
        tracing::debug!(tool, call = call.0, error = error.message(), source, "a call failed");
        self.answered(call, Answer::failure(error.message()));
        if error.is_fatal() && self.end.is_none() {
            let mut end = Error::new(ErrorKind::Tool, error.message());
            if let Some(source) = error.into_source() {
                end = end.with_source(source);
            }
            self.end_with(End::Failed(end));
        }
    }

    fn decide(&mut self, turn: u32, call: CallIndex, decision: Decision) -> Result<(), Error> {
        if let Some(result) = self.turns.decide(turn, call, decision)? {
            self.events.push_back(RunEvent::HandlerFinished(HandlerFinished::new(turn, call, result)));
        }
        if let Some(End::Waiting) = self.end {
            self.end = None;
        }
        Ok(())
    }

    fn end_with(&mut self, end: End) {
        let (status, why) = (end.kind(), end.why());
        let mut ended = RunEnded::new(status, self.turns.asked, self.turns.usage);
        if let End::Failed(error) = &end {
            ended.error = Some(Failure::of(error));
        }
        // From here on nothing that a handler says can end the run another way.
        self.end = Some(end);
        for finished in self.handlers.stop() {
            self.hear(News::Finished(finished));
        }
        self.replied(None);
        if status == StatusKind::Waiting {
            ended.waiting = self.turns.waiting();
        } else {
            self.turns.close(&mut self.request.conversation, why);
        }
        if let StatusKind::Failed | StatusKind::Cancelled = status {
            self.tail = None;
        }
        self.events.push_back(RunEvent::Ended(ended));
    }
}

impl Stream for Run {
    type Item = RunEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<RunEvent>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Poll::Ready(Some(event));
            }
            if self.end.is_some() {
                ready!(self.poll_tail(context));
                return Poll::Ready(None);
            }
            ready!(self.poll_advance(context));
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Run")
            .field("model", &self.model.name())
            .field("tools", &self.tools)
            .field("turns", &self.turns)
            .field("has_ended", &self.end.is_some())
            .finish_non_exhaustive()
    }
}
