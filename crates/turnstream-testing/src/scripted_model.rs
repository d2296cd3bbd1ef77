//! [`ScriptedModel`]: a model that says what a test tells it to.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use turnstream_core::{Error, ErrorKind, Event, Model, Request, TurnSource, TurnStream};

use crate::events::{Item, Reply};

/// A model without HTTP: it answers request after request with the turns that it was given, and keeps the
/// requests. Clones share both, so one can be given away and the other asked afterwards.
///
/// A request for which no turn is left fails with [`ErrorKind::Config`].
///
/// ```
/// use turnstream_core::{Model, Request};
/// use turnstream_testing::{ScriptedModel, events::Reply};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let model = ScriptedModel::new().turn(Reply::new().text(["It ", "ships today."]));
/// let turn = model.stream(&Request::new().user("Where is it?")).into_turn().await.unwrap();
/// assert_eq!(turn.text(), "It ships today.");
/// assert_eq!(model.requests(), [Request::new().user("Where is it?")]);
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct ScriptedModel {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    turns: VecDeque<Vec<Item>>,
    requests: Vec<Request>,
}

impl ScriptedModel {
    /// A model that has nothing to say yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers the next request with this reply.
    pub fn turn(self, reply: Reply) -> Self {
        self.lock().turns.push_back(reply.items());
        self
    }

    /// Answers the next request with exactly these events, lawful or not. Whatever comes after a
    /// `TurnFinished` or an error is not given out.
    pub fn turn_events(self, events: impl IntoIterator<Item = Result<Event, Error>>) -> Self {
        self.lock().turns.push_back(events.into_iter().map(Item::Event).collect());
        self
    }

    /// Answers the next request with an error at once.
    pub fn turn_error(self, error: Error) -> Self {
        self.turn_events([Err(error)])
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.clone()
    }

    /// How many turns have not been asked for.
    pub fn turns_left(&self) -> usize {
        self.lock().turns.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Model for ScriptedModel {
    fn stream(&self, request: &Request) -> TurnStream {
        let mut state = self.lock();
        state.requests.push(request.clone());
        match state.turns.pop_front() {
            Some(items) => TurnStream::new(ScriptedTurn { items: items.into(), waiting: None }),
            None => {
                let message = format!("the scripted model has no turn for request {}", state.requests.len());
                TurnStream::failed(Error::new(ErrorKind::Config, message))
            }
        }
    }

    fn name(&self) -> &str {
        "scripted"
    }
}

struct ScriptedTurn {
    items: VecDeque<Item>,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Stream for ScriptedTurn {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(context));
                self.waiting = None;
            }
            match self.items.pop_front() {
                Some(Item::Event(event)) => return Poll::Ready(Some(event)),
                Some(Item::Gate(gate)) => self.waiting = Some(Box::pin(async move { gate.pass().await })),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl TurnSource for ScriptedTurn {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gate, conformance};

    fn lines(events: &[Result<Event, Error>]) -> String {
        let lines: Vec<String> = events.iter().map(conformance::line).collect();
        lines.join("\n")
    }

    #[test]
    fn a_reply_keeps_the_laws() {
        let reply = Reply::new()
            .reasoning(["Hm."])
            .text(["Let me ", "look."])
            .interleaved_calls([
                ("c1", "lookup_order", serde_json::json!({ "id": 1 })),
                ("c2", "lookup_order", serde_json::json!({ "id": 2 })),
            ])
            .fragments_of(5);
        let events = reply.events();
        conformance::check_laws(&events);
        assert_eq!(
            lines(&events),
            r#"{"type":"turn_started","id":"turn_test","model":"test-model"}
{"type":"reasoning_delta","part":0,"text":"Hm."}
{"type":"part_finished","part":0,"replay":{"wire":"scripted","data":{"signature":"c2lnbmF0dXJl0"}}}
{"type":"text_delta","part":1,"text":"Let me "}
{"type":"text_delta","part":1,"text":"look."}
{"type":"part_finished","part":1}
{"type":"call_started","part":2,"call":0,"id":"c1","name":"lookup_order"}
{"type":"call_started","part":3,"call":1,"id":"c2","name":"lookup_order"}
{"type":"call_argument_fragment","call":0,"fragment":"{\"id\""}
{"type":"call_argument_fragment","call":1,"fragment":"{\"id\""}
{"type":"call_argument_fragment","call":0,"fragment":":1}"}
{"type":"call_argument_fragment","call":1,"fragment":":2}"}
{"type":"call_finished","call":0,"id":"c1","name":"lookup_order","arguments":"{\"id\":1}"}
{"type":"call_finished","call":1,"id":"c2","name":"lookup_order","arguments":"{\"id\":2}"}
{"type":"turn_finished","reason":"tool_calls","usage":{"input_tokens":10,"output_tokens":20}}"#
        );
    }

    #[test]
    fn a_cut_reply_aborts_its_open_call() {
        for (reply, end) in [
            (Reply::new().call_raw("c1", "t", "{\"a").cut(), r#""kind":"truncated""#),
            (Reply::new().call_raw("c1", "t", "{\"a").error("overloaded", "Busy."), r#""code":"overloaded""#),
            (Reply::new().call_raw("c1", "t", "").length(), r#""reason":"length""#),
            (Reply::new().call_raw("c1", "t", "{}").stop("refusal"), r#""reason":"refusal""#),
        ] {
            let events = reply.events();
            conformance::check_laws(&events);
            let lines = lines(&events);
            assert!(lines.contains("call_aborted") && !lines.contains("call_finished"), "{lines}");
            assert!(lines.lines().last().unwrap().contains(end), "{lines}");
        }
    }

    #[tokio::test]
    async fn a_turn_waits_at_its_gate() {
        let gate = Gate::new();
        let model = ScriptedModel::new().turn(Reply::new().text(["a"]).gate(&gate).text(["b"]));
        let turn = tokio::spawn(model.stream(&Request::new()).into_turn());
        gate.reached().await;
        assert!(!turn.is_finished());
        gate.open();
        assert_eq!(turn.await.unwrap().unwrap().text(), "ab");
    }

    #[tokio::test]
    async fn a_request_too_many_is_an_error_and_is_kept() {
        let model = ScriptedModel::new().turn(Reply::new()).turn_error(Error::new(ErrorKind::Server, "down"));
        let request = Request::new().user("hello");
        let kinds =
            async |request| model.stream(request).into_turn().await.map_err(|error| error.error().kind());
        assert!(kinds(&request).await.is_ok());
        assert_eq!(kinds(&request).await.unwrap_err(), ErrorKind::Server);
        assert_eq!(model.turns_left(), 0);
        assert_eq!(kinds(&request).await.unwrap_err(), ErrorKind::Config);
        assert_eq!(model.requests().len(), 3);
    }
}
