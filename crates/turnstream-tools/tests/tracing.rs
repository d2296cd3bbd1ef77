//! The spans of a run.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::Value;
use support::{Reply, answer, scripted};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use turnstream_core::{ErrorKind, Reason, Request};
use turnstream_tools::{Tool, ToolLoop};

/// Remembers all spans: their names, their parents' names, and their fields.
#[derive(Clone, Default)]
struct Spans {
    spans: Arc<Mutex<BTreeMap<u64, Seen>>>,
    events: Arc<Mutex<Vec<BTreeMap<String, String>>>>,
    next: Arc<AtomicU64>,
}

#[derive(Default, Clone)]
struct Seen {
    name: &'static str,
    parent: Option<u64>,
    fields: BTreeMap<String, String>,
}

impl Spans {
    /// A line a span: its name, its parent's, and its fields.
    fn lines(&self) -> Vec<String> {
        let spans = self.spans.lock().unwrap();
        let line = |seen: &Seen| {
            let parent = seen.parent.map_or("-", |parent| spans[&parent].name);
            let fields: Vec<String> = seen
                .fields
                .iter()
                .map(|(name, value)| format!("{}={value}", name.replace("gen_ai.", "")))
                .collect();
            format!("{} < {parent}: {}", seen.name, fields.join(" "))
        };
        spans.values().map(line).collect()
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("turnstream")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let parent = span.parent().map(Id::into_u64);
        let mut seen = Seen { name: span.metadata().name(), parent, fields: BTreeMap::new() };
        span.record(&mut seen);
        self.spans.lock().unwrap().insert(id, seen);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(self.spans.lock().unwrap().get_mut(&span.into_u64()).unwrap());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut seen = Seen::default();
        event.record(&mut seen);
        self.events.lock().unwrap().push(seen.fields);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.to_owned());
    }
}

fn tool() -> Tool {
    Tool::new("f").handler(|args: Value| async move {
        match args["ok"].as_bool() {
            Some(true) => Ok("the secret answer"),
            _ => Err("the secret problem".into()),
        }
    })
}

fn replies() -> [Reply; 2] {
    let calls = Reply::new().call("a", "f", r#"{"ok":true}"#).call("b", "f", r#"{"ok":false}"#);
    [calls.end(Reason::ToolCalls), answer("Done.")]
}

async fn spans_of(replies: impl IntoIterator<Item = Reply>, set_up: fn(ToolLoop) -> ToolLoop) -> Vec<String> {
    seen_of(replies, set_up).await.lines()
}

async fn seen_of(replies: impl IntoIterator<Item = Reply>, set_up: fn(ToolLoop) -> ToolLoop) -> Spans {
    let spans = Spans::default();
    let guard = tracing::subscriber::set_default(spans.clone());
    let tool_loop = set_up(ToolLoop::new(scripted(replies)).tool(tool()));
    tool_loop.run(Request::new().user("the secret question")).finish().await;
    drop(guard);
    spans
}

const CHAT: &str = "chat < invoke_agent: operation.name=chat request.model=scripted";
const CALL: &str = "execute_tool < invoke_agent:";

#[tokio::test]
async fn a_run_is_a_span_with_its_turns_and_calls_in_it_and_nothing_that_was_said() {
    let want = [
        "invoke_agent < -: operation.name=invoke_agent request.model=scripted usage.input_tokens=20 \
         usage.output_tokens=6"
            .to_owned(),
        format!(
            "{CHAT} response.finish_reasons=[\"tool_calls\"] usage.input_tokens=10 usage.output_tokens=3 \
             otel.kind=client otel.name=chat scripted"
        ),
        format!(
            "{CALL} operation.name=execute_tool tool.call.id=a tool.name=f tool.type=function \
             otel.name=execute_tool f"
        ),
        "execute_tool < invoke_agent: error.type=tool_error operation.name=execute_tool tool.call.id=b \
         tool.name=f tool.type=function otel.name=execute_tool f"
            .to_owned(),
        format!(
            "{CHAT} response.finish_reasons=[\"stop\"] usage.input_tokens=10 usage.output_tokens=3 \
             otel.kind=client otel.name=chat scripted"
        ),
    ];
    assert_eq!(spans_of(replies(), |tool_loop| tool_loop).await, want);
}

#[tokio::test]
async fn what_calls_say_is_in_their_spans_when_it_is_asked_for() {
    let spans = spans_of(replies(), ToolLoop::trace_content).await;
    let said = |line: &str| -> Vec<String> {
        let (_, fields) = line.split_once("tool.call.arguments=").unwrap();
        let (arguments, rest) = fields.split_once(" tool.call.id=").unwrap();
        let (_, rest) = rest.split_once("tool.call.result=").unwrap();
        let (result, _) = rest.split_once(" tool.name=").unwrap();
        vec![arguments.to_owned(), result.to_owned()]
    };
    assert_eq!(said(&spans[2]), [r#"{"ok":true}"#, "the secret answer"]);
    assert_eq!(said(&spans[3]), [r#"{"ok":false}"#, "the secret problem"]);
    assert!(spans.iter().all(|line| !line.contains("the secret question")));
}

#[tokio::test]
async fn the_words_of_a_failed_call_are_in_its_event_when_they_are_asked_for() {
    for (set_up, words) in [
        (std::convert::identity as fn(ToolLoop) -> ToolLoop, None),
        (ToolLoop::trace_content, Some("the secret problem")),
    ] {
        let seen = seen_of(replies(), set_up).await;
        let events = seen.events.lock().unwrap().clone();
        let failed: Vec<_> = events.iter().filter(|event| event["message"] == "a call failed").collect();
        assert_eq!(failed.len(), 1, "{events:?}");
        assert_eq!(failed[0].get("error").map(String::as_str), words);
        assert_eq!(failed[0].get("source").map(String::as_str), words);
        assert_eq!(failed[0]["tool"], "f");
    }
}

#[tokio::test]
async fn an_error_is_named_in_its_turn_and_its_run() {
    let spans =
        spans_of([Reply::new().text("It").fail(ErrorKind::Truncated, "cut")], |tool_loop| tool_loop).await;
    assert_eq!(spans.len(), 2);
    assert!(spans.iter().all(|line| line.contains(": error.type=truncated ")), "{spans:#?}");
}
