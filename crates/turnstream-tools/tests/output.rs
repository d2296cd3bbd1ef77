//! Runs whose last answer is a value.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test may fail")]

mod support;

use serde::Deserialize;
use serde_json::{Value, json};
use support::{Reply, answer, last_message, scripted};
use turnstream_core::{ErrorKind, Message, OutputSchema, Reason, Request};
use turnstream_testing::ScriptedModel;
use turnstream_tools::{Given, Outcome, RunStatus, Tool, ToolLoop};

#[derive(Debug, PartialEq, Deserialize)]
struct Cart {
    items: Vec<Item>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Item {
    qty: u32,
}

const FITS: &str = r#"{"items": [{"qty": 2}]}"#;
const MISFIT: &str = r#"{"items": [{"qty": "two"}]}"#;
const WORDS: &str = "the answer does not fit: `items[0].qty`: invalid type: string \"two\", expected u32 at line 1 \
                     column 24";

async fn run(replies: impl IntoIterator<Item = Reply>, max_turns: u32) -> (Outcome, ScriptedModel) {
    let script = scripted(replies);
    let tool = Tool::new("f").handler(|_: Value| async { Ok("done") });
    let tool_loop = ToolLoop::new(script.clone()).tool(tool).max_turns(max_turns).output::<Given<Cart>>();
    (tool_loop.run(Request::new().user("go")).finish().await, script)
}

#[tokio::test]
async fn the_last_answer_is_the_value() {
    let calls = Reply::new().text("Let me look.").call("a", "f", "{}").end(Reason::ToolCalls);
    let (outcome, _) = run([calls, answer(FITS)], 8).await;
    assert!(matches!(outcome.status, RunStatus::Finished));
    assert_eq!(outcome.output::<Given<Cart>>().unwrap().0, Cart { items: vec![Item { qty: 2 }] });
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again_once() {
    let (outcome, script) = run([answer(MISFIT), answer(FITS)], 8).await;
    assert!(matches!(outcome.status, RunStatus::Finished));
    let words = format!("{WORDS}. Answer again, with one JSON value that fits the schema and nothing else.");
    assert_eq!(last_message(&script, 1), Message::user(words));
    assert!(outcome.output::<Given<Cart>>().is_ok());

    for (second, words) in [(MISFIT, WORDS), (" \n", "the answer is empty")] {
        let (outcome, script) = run([answer(MISFIT), answer(second), answer(FITS)], 8).await;
        let error = outcome.error().unwrap();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Output, words));
        assert_eq!(script.requests().len(), 2);
        assert_eq!(outcome.conversation.messages().len(), 4, "both answers are there");
        assert_eq!(outcome.output::<Given<Cart>>().unwrap_err().kind(), ErrorKind::Output);
    }
}

#[tokio::test]
async fn the_repair_is_a_turn_like_any_other() {
    let (outcome, script) = run([answer(MISFIT), answer(FITS)], 1).await;
    assert_eq!((outcome.error().unwrap().kind(), script.requests().len()), (ErrorKind::Output, 1));
    // A call in it is answered, and what was cut is not repaired.
    let calls = Reply::new().call("a", "f", "{}").end(Reason::ToolCalls);
    let (outcome, _) = run([answer(MISFIT), calls, answer(FITS)], 8).await;
    assert!(matches!(outcome.status, RunStatus::Finished));
    let (outcome, _) = run([Reply::new().text(r#"{"items"#).end(Reason::Length)], 8).await;
    assert!(matches!(outcome.status, RunStatus::Stopped(Reason::Length)));
    let error = outcome.output::<Given<Cart>>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Output);
}

#[tokio::test]
async fn a_failed_run_has_no_value_and_says_why() {
    let (outcome, _) = run([Reply::new().text(FITS).fail(ErrorKind::Truncated, "cut")], 8).await;
    let error = outcome.output::<Given<Cart>>().unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Truncated, "cut"));
}

#[cfg(feature = "schemars")]
#[tokio::test]
async fn the_schema_follows_from_the_type_unless_the_request_has_one() {
    #[derive(Deserialize, schemars::JsonSchema)]
    struct Verdict {
        is_late: bool,
    }
    let script = scripted([answer(r#"{"is_late": true}"#), answer(r#"{"is_late": false}"#)]);
    let tool_loop = ToolLoop::new(script.clone()).output::<Verdict>();
    let outcome = tool_loop.run(Request::new().user("go")).finish().await;
    assert!(outcome.output::<Verdict>().unwrap().is_late);
    let own = OutputSchema::new("own", json!({ "type": "object" }));
    tool_loop.run(Request::new().user("go").output_schema(own.clone())).finish().await;
    let [derived, given] = script.requests().try_into().unwrap();
    let derived = derived.output_schema.unwrap();
    assert_eq!((derived.name.as_str(), derived.strict), ("output", false));
    let properties = &derived.schema.read::<Value>().unwrap()["properties"];
    assert_eq!(*properties, json!({ "is_late": { "type": "boolean" } }));
    assert_eq!(given.output_schema, Some(own));
}

#[cfg(not(feature = "schemars"))]
#[tokio::test]
async fn the_schema_is_the_requests() {
    let own = OutputSchema::new("own", json!({ "type": "object" }));
    let script = scripted([answer(FITS)]);
    let tool_loop = ToolLoop::new(script.clone()).output::<Given<Cart>>();
    tool_loop.run(Request::new().user("go").output_schema(own.clone())).finish().await;
    assert_eq!(script.requests()[0].output_schema, Some(own));
}
