//! Runs that are written down while they go on.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::{
    error::Error as StdError,
    sync::{Arc, Mutex},
};

use futures_util::FutureExt;
use serde_json::Value;
use support::{Reply, answer, last_message, pairs, results, scripted, steps};
use tokio::sync::Semaphore;
use turnstream_core::{CallIndex, ErrorKind, Reason, Request};
use turnstream_tools::{Checkpoint, CheckpointSink, Given, RunStatus, Tool, ToolLoop, WaitingFor};

/// What has happened, in order: checkpoints and effects.
type Log = Arc<Mutex<Vec<String>>>;

/// A sink that remembers, lets through as many checkpoints as it has permits, and then fails or waits.
#[derive(Clone)]
struct Memory {
    log: Log,
    permits: Arc<Semaphore>,
    fails: bool,
    saved: Arc<Mutex<Vec<Checkpoint>>>,
}

impl Memory {
    fn new(log: &Log) -> Self {
        let permits = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        Self { log: log.clone(), permits, fails: false, saved: Arc::default() }
    }

    fn with_permits(log: &Log, permits: usize, fails: bool) -> Self {
        Self { permits: Arc::new(Semaphore::new(permits)), fails, ..Self::new(log) }
    }

    fn last(&self) -> Checkpoint {
        self.saved.lock().unwrap().last().unwrap().clone()
    }
}

impl CheckpointSink for Memory {
    async fn save(&self, checkpoint: Checkpoint) -> Result<(), Box<dyn StdError + Send + Sync>> {
        match self.permits.try_acquire() {
            Ok(permit) => permit.forget(),
            Err(_) if self.fails => return Err("the disk is full".into()),
            Err(_) => self.permits.acquire().await?.forget(),
        }
        let json = serde_json::to_value(&checkpoint)?;
        let calls = json["turns"]["calls"].as_array().unwrap();
        let states: Vec<String> = calls.iter().map(|call| short(&call["state"])).collect();
        let messages = checkpoint.conversation().messages().len();
        self.log.lock().unwrap().push(format!("saved {messages} messages, calls {states:?}"));
        self.saved.lock().unwrap().push(serde_json::from_value(json)?);
        Ok(())
    }
}

fn short(state: &Value) -> String {
    match state {
        Value::String(word) => word.clone(),
        Value::Object(state) => state.keys().next().unwrap().clone(),
        other => other.to_string(),
    }
}

fn request() -> Request {
    Request::new().user("go")
}

fn logged(log: &Log, name: &str) -> Tool {
    let (log, words) = (log.clone(), format!("ran {name}"));
    Tool::new(name).handler(move |_: Value| {
        log.lock().unwrap().push(words.clone());
        async { Ok("done") }
    })
}

fn two_calls() -> Reply {
    Reply::new().call("a", "f", "{}").call("b", "g", "{}").end(Reason::ToolCalls)
}

#[tokio::test]
async fn a_run_is_saved_before_handlers_start_and_after_each_has_ended() {
    let log = Log::default();
    let sink = Memory::new(&log);
    let script = scripted([two_calls(), answer("done")]);
    let tool_loop = ToolLoop::new(script).tool(logged(&log, "f")).tool(logged(&log, "g").sequential());
    let outcome = tool_loop.checkpoints(sink.clone()).run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished));
    assert!(outcome.unsaved.is_none());
    let want = [
        r#"saved 2 messages, calls ["pending", "pending"]"#,
        r#"saved 2 messages, calls ["waiting", "pending"]"#,
        "ran f",
        r#"saved 2 messages, calls ["answered", "pending"]"#,
        r#"saved 2 messages, calls ["answered", "waiting"]"#,
        "ran g",
        r#"saved 2 messages, calls ["answered", "answered"]"#,
        // The end of the turn, and that of the run.
        "saved 4 messages, calls []",
        "saved 4 messages, calls []",
    ];
    assert_eq!(*log.lock().unwrap(), want);
    assert_eq!(*sink.last().conversation(), outcome.conversation);
}

#[tokio::test]
async fn nothing_goes_on_before_it_has_been_saved() {
    let log = Log::default();
    let sink = Memory::with_permits(&log, 0, false);
    let script = scripted([two_calls(), answer("done")]);
    let tool_loop = ToolLoop::new(script.clone()).tools([logged(&log, "f"), logged(&log, "g")]);
    let mut run = tool_loop.checkpoints(sink.clone()).run(request());
    // The end of the turn, the start of both handlers, the end of the first and of the second.
    for (permits, ran) in [(0, 0), (1, 0), (1, 2)] {
        sink.permits.add_permits(permits);
        while run.next().now_or_never().is_some() {}
        tokio::task::yield_now().await;
        while run.next().now_or_never().is_some() {}
        let log = log.lock().unwrap();
        assert_eq!(log.iter().filter(|line| line.starts_with("ran")).count(), ran, "{log:?}");
        assert_eq!(script.requests().len(), 1);
    }
    sink.permits.add_permits(8);
    assert!(matches!(run.finish().await.status, RunStatus::Finished));
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_saved_ends_the_run_before_anything_is_done() {
    for permits in [0, 1] {
        let log = Log::default();
        let sink = Memory::with_permits(&log, permits, true);
        let script = scripted([two_calls()]);
        let tool_loop = ToolLoop::new(script).tools([logged(&log, "f"), logged(&log, "g")]);
        let outcome = tool_loop.checkpoints(sink).run(request()).finish().await;
        let error = outcome.error().unwrap();
        assert_eq!(error.kind(), ErrorKind::Checkpoint);
        assert_eq!(error.message(), "a checkpoint could not be saved: the disk is full");
        assert!(log.lock().unwrap().iter().all(|line| !line.starts_with("ran")), "{log:?}");
        let why = "The call was not run: the run ended in an error.";
        let told = results(outcome.conversation.messages().last().unwrap());
        assert_eq!(told, ["a", "b"].map(|id| (id.to_owned(), why.to_owned(), true)));
    }
}

#[tokio::test]
async fn a_sink_that_panics_is_one_that_could_not_save() {
    struct Panics;
    impl CheckpointSink for Panics {
        async fn save(&self, _: Checkpoint) -> Result<(), Box<dyn StdError + Send + Sync>> {
            panic!("the disk is gone")
        }
    }
    let log = Log::default();
    let tool_loop = ToolLoop::new(scripted([two_calls()])).tool(logged(&log, "f")).checkpoints(Panics);
    let outcome = tool_loop.run(request()).finish().await;
    assert_eq!(outcome.error().unwrap().kind(), ErrorKind::Checkpoint);
    assert!(log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_outcome_that_could_not_be_saved_says_so() {
    let log = Log::default();
    // The end of the only turn is saved, and the run's end is not.
    let sink = Memory::with_permits(&log, 1, true);
    let outcome = ToolLoop::new(scripted([answer("done")])).checkpoints(sink).run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished), "the answer is there");
    assert_eq!(outcome.unsaved.unwrap().kind(), ErrorKind::Checkpoint);
}

#[tokio::test]
async fn a_decision_is_saved_like_everything_else() {
    let log = Log::default();
    let sink = Memory::new(&log);
    let script = scripted([two_calls(), answer("done")]);
    let tools = || [logged(&log, "f").needs_approval(), logged(&log, "g")];
    let tool_loop = ToolLoop::new(script.clone()).tools(tools()).checkpoints(sink.clone());
    let mut run = tool_loop.run(request());
    assert_eq!(steps(&mut run).await.last().unwrap(), "Waiting");
    let waiting: Vec<_> = sink.last().waiting().iter().map(|call| call.waiting_for).collect();
    assert_eq!(waiting, [WaitingFor::Approval]);
    run.deny(0, CallIndex(0), "No.").unwrap();
    // One poll saves it; the process may be killed after that.
    let _ = run.next().now_or_never();
    let _ = run.next().now_or_never();
    let saved = sink.last();
    drop(run);
    assert!(saved.waiting().is_empty());
    let script = scripted([answer("done")]);
    ToolLoop::new(script.clone()).tools(tools()).resume(saved).finish().await;
    let mut told = pairs([("a", "No."), ("b", "done")]);
    told[0].2 = true;
    assert_eq!(results(&last_message(&script, 0)), told);
}

#[derive(serde::Deserialize)]
struct Order {
    order: u32,
}

#[tokio::test]
async fn arguments_are_read_anew_when_a_run_is_resumed() {
    let log = Log::default();
    let sink = Memory::new(&log);
    let reply = Reply::new().call("a", "f", r#"{"order": "A-1"}"#).end(Reason::ToolCalls);
    let tool_loop = ToolLoop::new(scripted([reply])).tool(logged(&log, "f").needs_approval());
    let mut run = tool_loop.checkpoints(sink.clone()).run(request());
    assert_eq!(steps(&mut run).await.last().unwrap(), "Waiting");

    // The tool has changed since, and takes numbers now.
    let mut checkpoint = sink.last();
    checkpoint.approve(0, CallIndex(0)).unwrap();
    let numbers = Tool::new("f").handler(|Given(args): Given<Order>| async move { Ok(args.order) });
    let script = scripted([answer("done")]);
    ToolLoop::new(script.clone()).tool(numbers).resume(checkpoint).finish().await;
    let words = "The arguments do not fit the tool: `order`: invalid type: string \"A-1\", expected u32 at line 1 \
                 column 15";
    assert_eq!(results(&last_message(&script, 0)), [("a".to_owned(), words.to_owned(), true)]);
}

/// A model whose answer follows from the conversation alone, so that it is the same in every process.
struct Stateless;

impl turnstream_core::Model for Stateless {
    fn stream(&self, request: &Request) -> turnstream_core::TurnStream {
        let messages = request.conversation.messages();
        let reply = match messages.iter().filter(|message| message.calls().next().is_some()).count() {
            0 => two_calls_and_text(),
            1 => Reply::new().call("a", "f", "{}").text("...").end(Reason::Pause),
            _ => answer("done"),
        };
        scripted([reply]).stream(request)
    }

    fn name(&self) -> &str {
        "stateless"
    }
}

fn two_calls_and_text() -> Reply {
    Reply::new().call("a", "f", "{}").call("a", "g", "{}").text("And").text(" so on.").end(Reason::ToolCalls)
}

#[tokio::test]
async fn a_run_can_be_written_down_at_every_step_and_goes_on_to_the_same_end() {
    for is_eager in [false, true] {
        let tool_loop = || {
            let log = Log::default();
            let tools = [logged(&log, "f").idempotent(), logged(&log, "g").idempotent()];
            let tool_loop = ToolLoop::new(Stateless).tools(tools);
            if is_eager { tool_loop.eager() } else { tool_loop }
        };
        let undisturbed = tool_loop().run(request()).finish().await.conversation;
        let mut steps = 0;
        loop {
            let mut run = tool_loop().run(request());
            for _ in 0..steps {
                run.next().await;
            }
            let written = serde_json::to_string(&run.checkpoint()).unwrap();
            let was_over = run.next().await.is_none();
            drop(run);
            let outcome = tool_loop().resume(serde_json::from_str(&written).unwrap()).finish().await;
            assert!(matches!(outcome.status, RunStatus::Finished), "step {steps}: {outcome:?}");
            assert_eq!(outcome.text(), "done", "step {steps}");
            assert!(outcome.conversation.open_calls().is_empty(), "step {steps}");
            // What an eager call has done of a turn that was interrupted stays, and changes what comes after.
            if !is_eager {
                assert_eq!(outcome.conversation, undisturbed, "step {steps}");
            }
            if was_over {
                break;
            }
            steps += 1;
        }
        assert!(steps > 25, "only {steps} steps");
    }
}
