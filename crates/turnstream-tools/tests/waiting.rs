//! Runs that wait: for approval, for results from outside, and in a checkpoint.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test may fail")]

mod support;

use serde_json::{Value, json};
use support::{Reply, Script, answer, pairs, results, steps};
use turnstream_core::{CallIndex, ErrorKind, Reason, Request, ToolSpec};
use turnstream_tools::{Checkpoint, RunStatus, Tool, ToolLoop, WaitingFor};

fn refund() -> Tool {
    Tool::new("refund").needs_approval().handler(|args: Value| async move { Ok(args["order"].clone()) })
}

fn lookup() -> Tool {
    Tool::new("lookup").handler(|_: Value| async { Ok("found") })
}

fn replies() -> [Reply; 2] {
    let calls = Reply::new()
        .call("a", "refund", r#"{"order":1}"#)
        .call("b", "lookup", "{}")
        .call("c", "refund", r#"{"order":2}"#)
        .call("d", "outside", "{}");
    [calls.end(Reason::ToolCalls), answer("done")]
}

fn request() -> Request {
    Request::new().user("go").tool(ToolSpec::new("outside"))
}

fn told() -> Vec<(String, String, bool)> {
    let mut told = pairs([("a", "1"), ("b", "found"), ("c", "Not today."), ("d", "from outside")]);
    told[2].2 = true;
    told
}

#[tokio::test]
async fn a_run_waits_for_decisions_and_goes_on_with_them() {
    let script = Script::new(replies());
    let mut run = ToolLoop::new(script.clone()).tools([refund(), lookup()]).run(request());
    let seen = steps(&mut run).await;
    assert_eq!(seen, ["turn 0", "end of turn 0", "start lookup/1", "finish lookup/1", "Waiting"]);
    let waiting: Vec<_> = run.waiting().into_iter().map(|call| (call.call.0, call.waiting_for)).collect();
    assert_eq!(waiting, [(0, WaitingFor::Approval), (2, WaitingFor::Approval), (3, WaitingFor::Answer)]);

    assert_eq!(run.approve(0, CallIndex(1)).unwrap_err().kind(), ErrorKind::Config);
    run.approve(0, CallIndex(0)).unwrap();
    assert_eq!(steps(&mut run).await, ["start refund/0", "finish refund/0", "Waiting"]);
    run.deny(0, CallIndex(2), "Not today.").unwrap();
    run.answer(0, CallIndex(3), "from outside").unwrap();
    let want = ["finish refund/2", "finish outside/3", "turn 1", "end of turn 1", "Finished"];
    assert_eq!(steps(&mut run).await, want);
    assert_eq!(results(&script.last_message(1)), told());
    assert!(matches!(run.outcome().status, RunStatus::Finished));
}

#[tokio::test]
async fn a_checkpoint_goes_on_in_another_process_and_runs_no_call_twice() {
    let [calls, rest] = replies();
    let outcome =
        ToolLoop::new(Script::new([calls])).tools([refund(), lookup()]).run(request()).finish().await;
    let RunStatus::Waiting(checkpoint) = outcome.status else { panic!("{outcome:?}") };
    assert_eq!(outcome.conversation.open_calls().len(), 4);
    let json = serde_json::to_string(&checkpoint).unwrap();

    let mut checkpoint: Checkpoint = serde_json::from_str(&json).unwrap();
    assert_eq!(*checkpoint.conversation(), outcome.conversation);
    checkpoint.approve(0, CallIndex(0)).unwrap();
    checkpoint.deny(0, CallIndex(2), "Not today.").unwrap();
    checkpoint.answer(0, CallIndex(3), "from outside").unwrap();
    let script = Script::new([rest]);
    let mut run = ToolLoop::new(script.clone()).tools([refund(), lookup()]).resume(checkpoint);
    let want = ["start refund/0", "finish refund/0", "turn 1", "end of turn 1", "Finished"];
    assert_eq!(steps(&mut run).await, want);
    assert_eq!(results(&script.last_message(0)), told());
    assert_eq!(run.outcome().turns, 2);
    let names: Vec<_> = script.requests()[0].tools.iter().map(|spec| spec.name.to_string()).collect();
    assert_eq!(names, ["outside", "refund", "lookup"]);
}

#[tokio::test]
async fn a_checkpoint_of_another_version_is_refused() {
    let [calls, _] = replies();
    let outcome =
        ToolLoop::new(Script::new([calls])).tools([refund(), lookup()]).run(request()).finish().await;
    let RunStatus::Waiting(checkpoint) = outcome.status else { panic!("{outcome:?}") };
    let mut json = serde_json::to_value(&checkpoint).unwrap();
    json["version"] = json!(99);
    let checkpoint: Checkpoint = serde_json::from_str(&json.to_string()).unwrap();
    let outcome = ToolLoop::new(Script::new([])).resume(checkpoint).finish().await;
    assert_eq!(outcome.error().unwrap().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn a_run_that_waits_can_be_cancelled_with_its_results() {
    let [calls, _] = replies();
    let mut run = ToolLoop::new(Script::new([calls])).tools([refund(), lookup()]).run(request());
    steps(&mut run).await;
    let outcome = run.cancel();
    assert!(matches!(outcome.status, RunStatus::Cancelled));
    let told = results(outcome.conversation.messages().last().unwrap());
    assert_eq!(told[1], ("b".to_owned(), "found".to_owned(), false));
    assert_eq!(told[0].1, "The call was not run: the run was cancelled.");
    assert!(outcome.conversation.open_calls().is_empty());
}

#[tokio::test]
async fn approval_can_depend_on_the_arguments_and_comes_after_their_check() {
    let tool = Tool::new("refund")
        .needs_approval_when(|args| args["order"] == 2)
        .handler(|args: turnstream_tools::Given<Order>| async move { Ok(args.0.order) });
    let reply = Reply::new()
        .call("a", "refund", r#"{"order":1}"#)
        .call("b", "refund", r#"{"order":2}"#)
        .call("c", "refund", "{}");
    let mut run = ToolLoop::new(Script::new([reply.end(Reason::ToolCalls)])).tool(tool).run(request());
    let seen = steps(&mut run).await;
    assert_eq!(seen[2..], ["start refund/0", "finish refund/2", "finish refund/0", "Waiting"]);
    assert_eq!(run.waiting().len(), 1);
}

#[derive(serde::Deserialize)]
struct Order {
    order: u32,
}
