//! A model that says what a test wrote, and remembers what it was asked. It says any events, also those that the
//! testing kit's replies, which keep the laws, do not make: a call that is done and then silence, a reason that
//! does not fit the calls, an error of any kind at any place.
#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use futures_core::Stream;
use turnstream_core::{
    AbortReason, ArgumentFragment, CallAborted, CallArgumentFragment, CallFinished, CallIndex, CallStarted,
    Error, ErrorKind, Event, Message, Model, Part, PartFinished, PartIndex, RawJson, Reason, Replay, Request,
    ResultContent, ResultPart, TextDelta, TurnFinished, TurnSource, TurnStarted, TurnStream, Usage,
};
use turnstream_tools::{Run, RunEvent};

/// A model whose replies are written beforehand.
#[derive(Clone, Default)]
pub struct Script(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    replies: VecDeque<Reply>,
    requests: Vec<Request>,
}

/// What the model says in one turn.
#[derive(Clone, Default)]
pub struct Reply {
    events: VecDeque<Result<Event, (ErrorKind, &'static str)>>,
    parts: u32,
    calls: u32,
    stalls: bool,
}

impl Script {
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let state = State { replies: replies.into_iter().collect(), requests: Vec::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    pub fn requests(&self) -> Vec<Request> {
        self.0.lock().unwrap().requests.clone()
    }

    /// The message that the given request ends with.
    pub fn last_message(&self, request: usize) -> Message {
        self.requests()[request].conversation.messages().last().unwrap().clone()
    }
}

impl Model for Script {
    fn stream(&self, request: &Request) -> TurnStream {
        let mut state = self.0.lock().unwrap();
        state.requests.push(request.clone());
        match state.replies.pop_front() {
            Some(reply) => TurnStream::new(reply),
            None => TurnStream::failed(Error::new(ErrorKind::Server, "the script is over")),
        }
    }

    fn name(&self) -> &str {
        "script"
    }
}

impl Reply {
    pub fn new() -> Self {
        Self::default().event(Event::TurnStarted(TurnStarted::default()))
    }

    pub fn text(mut self, text: &str) -> Self {
        let part = self.part();
        self.event(Event::TextDelta(TextDelta::new(part, text)))
    }

    pub fn call(self, id: &str, name: &str, arguments: &str) -> Self {
        let (reply, call) = self.open(id, name, arguments);
        reply.event(Event::CallFinished(CallFinished::new(call, id, name, arguments)))
    }

    pub fn malformed(self, id: &str, name: &str, arguments: &str) -> Self {
        self.aborted(id, name, arguments, AbortReason::Malformed)
    }

    pub fn aborted(self, id: &str, name: &str, partial: &str, reason: AbortReason) -> Self {
        let (reply, call) = self.open(id, name, partial);
        let partial = ArgumentFragment::new(partial);
        reply.event(Event::CallAborted(CallAborted::new(call, id, name, partial, reason)))
    }

    /// What the wire needs back of the last part.
    pub fn replay(self, data: &str) -> Self {
        let replay = Replay::new("script", RawJson::parse(data).unwrap());
        let part = PartIndex(self.parts - 1);
        self.event(Event::PartFinished(PartFinished::new(part, Some(replay))))
    }

    pub fn end(self, reason: Reason) -> Self {
        let mut usage = Usage::new();
        (usage.input_tokens, usage.output_tokens) = (Some(10), Some(3));
        self.event(Event::TurnFinished(TurnFinished::new(reason).with_usage(usage)))
    }

    pub fn fail(mut self, kind: ErrorKind, message: &'static str) -> Self {
        self.events.push_back(Err((kind, message)));
        self
    }

    /// After this the model says nothing more, for ever.
    pub fn stall(self) -> Self {
        Self { stalls: true, ..self }
    }

    pub fn event(mut self, event: Event) -> Self {
        self.events.push_back(Ok(event));
        self
    }

    fn open(mut self, id: &str, name: &str, arguments: &str) -> (Self, CallIndex) {
        let (part, call) = (self.part(), CallIndex(self.calls));
        self.calls += 1;
        let mut reply = self.event(Event::CallStarted(CallStarted::new(part, call, id, name)));
        if !arguments.is_empty() {
            let fragment = CallArgumentFragment::new(call, ArgumentFragment::new(arguments));
            reply = reply.event(Event::CallArgumentFragment(fragment));
        }
        (reply, call)
    }

    fn part(&mut self) -> PartIndex {
        self.parts += 1;
        PartIndex(self.parts - 1)
    }
}

impl Stream for Reply {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.events.pop_front() {
            Some(event) => Poll::Ready(Some(event.map_err(|(kind, message)| Error::new(kind, message)))),
            None if self.stalls => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}

impl TurnSource for Reply {}

/// A turn that is only text.
pub fn answer(text: &str) -> Reply {
    Reply::new().text(text).end(Reason::Stop)
}

/// The results of a message: id, text, and whether it is an error.
pub fn results(message: &Message) -> Vec<(String, String, bool)> {
    message
        .parts
        .iter()
        .map(|part| match part {
            Part::Result(result) => (result.call_id.to_string(), text_of(result), result.is_error),
            other => panic!("{other:?} is no result"),
        })
        .collect()
}

pub fn text_of(result: &ResultPart) -> String {
    result
        .content
        .iter()
        .map(|content| match content {
            ResultContent::Text(text) => text.as_str(),
            other => panic!("{other:?} is no text"),
        })
        .collect()
}

/// The run's own events, in short: `started f/0`, `finished f/0`, `turn 0`, and so on.
pub async fn steps(run: &mut Run) -> Vec<String> {
    let mut steps = Vec::new();
    while let Some(event) = run.next().await {
        steps.extend(step(&event));
    }
    steps
}

pub fn step(event: &RunEvent) -> Option<String> {
    Some(match event {
        RunEvent::TurnBegan(step) => format!("turn {}", step.turn),
        RunEvent::TurnEnded(step) => format!("end of turn {}", step.turn),
        RunEvent::HandlerStarted(started) => format!("start {}/{}", started.name, started.call.0),
        RunEvent::HandlerProgress(progress) => format!("progress {}: {}", progress.call.0, progress.progress),
        RunEvent::HandlerFinished(finished) => format!("finish {}/{}", finished.name, finished.call.0),
        RunEvent::Ended(ended) => format!("{:?}", ended.status),
        _ => return None,
    })
}

pub fn pairs<const N: usize>(want: [(&str, &str); N]) -> Vec<(String, String, bool)> {
    want.into_iter().map(|(id, text)| (id.to_owned(), text.to_owned(), false)).collect()
}
