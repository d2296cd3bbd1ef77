//! Every way to write a tool, and what the model gets from it.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test may fail")]
#![cfg(feature = "schemars")]

mod support;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use anyhow::Context as _;
use futures_util::FutureExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use support::{Reply, answer, last_message, pairs, results, scripted};
use turnstream_core::{Image, Reason, Request, ResultContent, ResultPart};
use turnstream_tools::{Answer, Given, RunEvent, RunStatus, Schema, Tool, ToolError, ToolLoop};

#[derive(Deserialize, JsonSchema)]
struct LookupOrder {
    order_id: String,
    #[serde(default)]
    include_line_items: bool,
}

#[derive(Serialize)]
struct Order {
    status: &'static str,
}

/// Runs one call of the tool, and hands back the result that went to the model.
async fn result_of(tool: Tool, arguments: &str) -> ResultPart {
    let script = scripted([
        Reply::new().call("a", &tool.name().clone(), arguments).end(Reason::ToolCalls),
        answer("done"),
    ]);
    let outcome = ToolLoop::new(script.clone()).tool(tool).run(Request::new().user("go")).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished), "{outcome:?}");
    let message = last_message(&script, 1);
    match message.parts.into_iter().next() {
        Some(turnstream_core::Part::Result(result)) => result,
        other => panic!("{other:?} is no result"),
    }
}

async fn check(tool: Tool, arguments: &str, text: &str) {
    assert_eq!(result_of(tool, arguments).await, ResultPart::text("a", "f", text));
}

async fn check_error(tool: Tool, arguments: &str, text: &str) {
    assert_eq!(result_of(tool, arguments).await, ResultPart::text("a", "f", text).with_error());
}

#[tokio::test]
async fn a_handler_gives_back_text_json_any_value_or_an_answer() {
    let f = || Tool::new("f");
    check(f().handler(|_: ()| async { Ok("in transit") }), "{}", "in transit").await;
    check(f().handler(|_: ()| async { Ok(String::from("in transit")) }), "", "in transit").await;
    check(f().handler(|_: ()| async { Ok(json!({"a": 1})) }), "{}", r#"{"a":1}"#).await;
    check(f().handler(|_: ()| async { Ok(Order { status: "new" }) }), "{}", r#"{"status":"new"}"#).await;
    assert_eq!(result_of(f().handler(|_: ()| async { Ok(()) }), "{}").await.content, []);

    let image = Image::base64("image/png", "iVBORw0KGgo=");
    let chart = image.clone();
    let tool = f().handler(move |_: ()| {
        let chart = chart.clone();
        async move { Ok(Answer::new().text("chart").image(chart)) }
    });
    let content = vec![ResultContent::Text("chart".to_owned()), ResultContent::Image(image)];
    assert_eq!(result_of(tool, "{}").await, ResultPart::new("a", "f", content));
}

#[tokio::test]
async fn arguments_are_typed_given_or_raw() {
    let typed =
        |args: LookupOrder| async move { Ok(format!("{} {}", args.order_id, args.include_line_items)) };
    check(Tool::new("f").handler(typed), r#"{"order_id": "A-4471"}"#, "A-4471 false").await;

    let schema = Schema::object().string("order_id", "").optional_boolean("include_line_items", "");
    let value = |args: Value| async move { Ok(args["order_id"].clone()) };
    let tool = Tool::new("f").parameters(schema.clone()).handler(value);
    assert_eq!(tool.spec().parameters, Some(schema.into()));
    check(tool, r#"{"order_id": "A-4471"}"#, "A-4471").await;

    let given = |Given(args): Given<(u32, u32)>| async move { Ok(args.0 + args.1) };
    check(Tool::new("f").parameters(json!({ "type": "object" })).handler(given), "[1, 2]", "3").await;

    let raw = |text: String| async move { Ok(text) };
    check(Tool::new("f").free_form().handler(raw), "ls \"-l\"", "ls \"-l\"").await;
}

#[tokio::test]
async fn a_handler_keeps_its_own_state() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let tool = Tool::new("f").handler(move |args: LookupOrder| {
        let log = log.clone();
        async move {
            log.lock().unwrap().push(args.order_id);
            Ok(())
        }
    });
    result_of(tool, r#"{"order_id": "A-4471"}"#).await;
    assert_eq!(*seen.lock().unwrap(), ["A-4471"]);
}

#[tokio::test]
async fn any_error_can_be_returned_with_a_question_mark() {
    fn from_anyhow() -> anyhow::Result<u32> {
        "x".parse::<u32>().context("the number of the order is bad")
    }
    let tool = |handler: fn() -> Result<u32, ToolError>| {
        Tool::new("f").handler(move |_: ()| async move { handler() })
    };
    let words = "the number of the order is bad";
    check_error(tool(|| Ok(from_anyhow()?)), "{}", words).await;
    check_error(tool(|| Ok("x".parse::<u32>()?)), "{}", "invalid digit found in string").await;
    check_error(tool(|| Err("no".into())), "{}", "no").await;
    check_error(tool(|| Err(format!("no {}", 1))?), "{}", "no 1").await;
    let hidden = || Err(ToolError::new("Try again later.").with_source("password is hunter2"));
    check_error(tool(hidden), "{}", "Try again later.").await;

    // The closure's own block infers its error, without an annotation.
    let inferred = Tool::new("f").handler(|_: ()| async move {
        let number = from_anyhow()?;
        tokio::task::yield_now().await;
        Ok(number + "x".parse::<u32>()?)
    });
    check_error(inferred, "{}", words).await;
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_an_error_that_says_where_and_the_handler_does_not_run() {
    let tool = || Tool::new("f").handler(|_: LookupOrder| async { Ok("ran") });
    let missing = "The arguments do not fit the tool: missing field `order_id` at line 1 column 2";
    check_error(tool(), "{}", missing).await;
    let wrong = "The arguments do not fit the tool: `order_id`: invalid type: integer `1`, expected a string at line 1 \
         column 14";
    check_error(tool(), r#"{"order_id": 1}"#, wrong).await;
}

#[tokio::test]
async fn a_handler_knows_its_call_and_reports_progress_before_its_end() {
    let script = scripted([
        Reply::new().call("x", "f", "{}").call("x", "f", "{}").end(Reason::ToolCalls),
        answer("done"),
    ]);
    let tool = Tool::new("f").handler_with_context(|_: (), context| async move {
        context.progress(json!({ "done": 1 }));
        context.progress("almost");
        let cancelled = context.is_cancelled();
        Ok(format!("{} {} {} {} {cancelled}", context.turn(), context.call().0, context.id(), context.name()))
    });
    let mut run = ToolLoop::new(script.clone()).tool(tool).concurrency(1).run(Request::new().user("go"));
    let mut want = vec!["turn 0", "end of turn 0"];
    want.extend(["start f/0", "progress 0: {\"done\":1}", "progress 0: \"almost\"", "finish f/0"]);
    want.extend(["start f/1", "progress 1: {\"done\":1}", "progress 1: \"almost\"", "finish f/1"]);
    want.extend(["turn 1", "end of turn 1", "Finished"]);
    assert_eq!(support::steps(&mut run).await, want);
    let told = pairs([("x", "0 0 x f false"), ("x_2", "0 1 x_2 f false")]);
    assert_eq!(results(&last_message(&script, 1)), told);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_too_long_is_dropped() {
    let limit = std::time::Duration::from_secs(30);
    let tool = || {
        Tool::new("f").handler(|_: ()| async {
            std::future::pending::<()>().await;
            Ok(())
        })
    };
    let words = "The tool gave no answer within 30s. Whether it had an effect is unknown.";
    check_error(tool().timeout(limit), "{}", words).await;
    let script = scripted([Reply::new().call("a", "f", "{}").end(Reason::ToolCalls), answer("done")]);
    let tool_loop = ToolLoop::new(script.clone()).tool(tool()).handler_timeout(limit);
    tool_loop.run(Request::new().user("go")).finish().await;
    assert_eq!(results(&last_message(&script, 1)), [("a".to_owned(), words.to_owned(), true)]);
}

#[tokio::test]
async fn a_handler_without_any_time_does_not_run() {
    let ran = Arc::new(AtomicBool::new(false));
    let seen = ran.clone();
    let tool = Tool::new("f").handler(move |_: ()| {
        seen.store(true, Ordering::Relaxed);
        async { Ok(()) }
    });
    let words = "The call was not run: there is no time for it.";
    check_error(tool.timeout(std::time::Duration::ZERO), "{}", words).await;
    assert!(!ran.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_while_it_is_dropped_is_an_error_result() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("while dropped");
        }
    }
    let tool = Tool::new("f").timeout(std::time::Duration::from_secs(30)).handler(|_: ()| async {
        let _guard = PanicsOnDrop;
        std::future::pending::<()>().await;
        Ok(())
    });
    check_error(tool, "{}", "The tool panicked.").await;
}

#[test]
fn a_runtime_that_shuts_down_under_a_handler_gives_an_error_result() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tool = Tool::new("f").handler(|_: ()| async {
        std::future::pending::<()>().await;
        Ok(())
    });
    let script = scripted([Reply::new().call("a", "f", "{}").end(Reason::ToolCalls), answer("done")]);
    let mut run = ToolLoop::new(script.clone()).tool(tool).run(Request::new().user("go"));
    let first = runtime();
    first.block_on(async {
        while !matches!(run.next().await, Some(RunEvent::HandlerStarted(_))) {}
        // The next poll starts it.
        assert!(run.next().now_or_never().is_none());
    });
    drop(first);
    let outcome = runtime().block_on(run.finish());
    assert!(matches!(outcome.status, RunStatus::Finished), "{outcome:?}");
    let words = "The tool was stopped. Whether it had an effect is unknown.".to_owned();
    assert_eq!(results(&last_message(&script, 1)), [("a".to_owned(), words, true)]);
}

#[tokio::test]
async fn a_handler_that_blocks_off_its_thread_stalls_no_other_run() {
    // One thread runs everything but what is blocking: without `spawn_blocking` this would never end.
    let (release, released) = std::sync::mpsc::channel::<&'static str>();
    let released = Arc::new(Mutex::new(released));
    let blocking = Tool::new("f").handler(move |_: ()| {
        let released = released.clone();
        async move { Ok(tokio::task::spawn_blocking(move || released.lock().unwrap().recv()).await??) }
    });
    let script = || scripted([Reply::new().call("a", "f", "{}").end(Reason::ToolCalls), answer("done")]);
    let blocked = script();
    let mut run = ToolLoop::new(blocked.clone()).tool(blocking).run(Request::new().user("go"));
    while !matches!(run.next().await, Some(RunEvent::HandlerStarted(_))) {}
    assert!(run.next().now_or_never().is_none(), "it starts, and blocks");

    let quick = Tool::new("f").handler(|_: ()| async { Ok("quick") });
    let outcome = ToolLoop::new(script()).tool(quick).run(Request::new().user("go")).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished), "another run comes to its end meanwhile");
    release.send("slow").unwrap();
    assert!(matches!(run.finish().await.status, RunStatus::Finished));
    assert_eq!(results(&last_message(&blocked, 1)), pairs([("a", "slow")]));
}

#[tokio::test]
async fn what_a_handler_has_started_can_wait_for_its_cancellation() {
    let (stopped, was_stopped) = tokio::sync::oneshot::channel();
    let stopped = Arc::new(Mutex::new(Some(stopped)));
    let tool = Tool::new("f").handler_with_context(move |_: (), context| {
        let stopped = stopped.lock().unwrap().take();
        // A task of its own is not the run's: it goes on when the handler is aborted.
        let watcher = context.clone();
        tokio::spawn(async move {
            watcher.cancelled().await;
            stopped.map(|stopped| stopped.send(watcher.is_cancelled()))
        });
        async move {
            assert!(!context.is_cancelled());
            std::future::pending::<Result<(), _>>().await
        }
    });
    let script = scripted([Reply::new().call("a", "f", "{}").end(Reason::ToolCalls)]);
    let mut run = ToolLoop::new(script).tool(tool).run(Request::new().user("go"));
    while !matches!(run.next().await, Some(RunEvent::HandlerStarted(_))) {}
    assert!(run.next().now_or_never().is_none());
    tokio::task::yield_now().await;
    run.cancel();
    assert!(was_stopped.await.unwrap());
}
