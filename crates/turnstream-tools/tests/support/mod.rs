//! Replies for the testing kit's scripted model, event by event: also those that the kit's own replies, which
//! keep the laws, do not make. Such are a reason that does not fit the calls, and an error of any kind anywhere.
#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

use turnstream_core::{
    AbortReason, ArgumentFragment, CallAborted, CallArgumentFragment, CallFinished, CallIndex, CallStarted,
    Error, ErrorKind, Event, Message, Part, PartFinished, PartIndex, RawJson, Reason, Replay, ResultContent,
    ResultPart, TextDelta, TurnFinished, TurnStarted, Usage,
};
use turnstream_testing::{Gate, ScriptedModel};
use turnstream_tools::{Run, RunEvent};

/// What the model says in one turn.
#[derive(Clone, Default)]
pub struct Reply {
    events: Vec<Result<Event, (ErrorKind, &'static str)>>,
    parts: u32,
    calls: u32,
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
        self.events.push(Err((kind, message)));
        self
    }

    pub fn event(mut self, event: Event) -> Self {
        self.events.push(Ok(event));
        self
    }

    fn into_events(self) -> impl Iterator<Item = Result<Event, Error>> {
        self.events.into_iter().map(|event| event.map_err(|(kind, message)| Error::new(kind, message)))
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

/// A model that gives these replies, one a request.
pub fn scripted(replies: impl IntoIterator<Item = Reply>) -> ScriptedModel {
    let turns = replies.into_iter().map(Reply::into_events);
    turns.fold(ScriptedModel::new(), ScriptedModel::turn_events)
}

/// A model that gives this reply and then says nothing more, for ever. A call is done only once the model has
/// gone on, so it begins another text, of which nothing comes.
pub fn stalling(reply: turnstream_testing::events::Reply) -> ScriptedModel {
    ScriptedModel::new().turn(reply.text([""]).gate(&Gate::new()))
}

/// The message that the given request ends with.
pub fn last_message(model: &ScriptedModel, request: usize) -> Message {
    model.requests()[request].conversation.messages().last().unwrap().clone()
}

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
