//! Runs that wait: for approval, for results from outside, and in a checkpoint.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use futures_util::FutureExt;
use serde_json::{Value, json};
use support::{Reply, answer, last_message, pairs, results, scripted, stalling, step, steps};
use turnstream_core::{
    CallFinished, CallIndex, CallStarted, ErrorKind, Event, InputKind, PartIndex, Reason, Request, ToolSpec,
    TurnFinished,
};
use turnstream_testing::events;
use turnstream_tools::{Checkpoint, Run, RunStatus, Tool, ToolLoop, WaitingFor};

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
    let script = scripted(replies());
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
    assert_eq!(results(&last_message(&script, 1)), told());
    assert!(matches!(run.outcome().status, RunStatus::Finished));
}

#[tokio::test]
async fn a_checkpoint_goes_on_in_another_process_and_runs_no_call_twice() {
    let [calls, rest] = replies();
    let outcome = ToolLoop::new(scripted([calls])).tools([refund(), lookup()]).run(request()).finish().await;
    let RunStatus::Waiting(checkpoint) = outcome.status else { panic!("{outcome:?}") };
    assert_eq!(outcome.conversation.open_calls().len(), 4);
    let json = serde_json::to_string(&checkpoint).unwrap();

    let mut checkpoint: Checkpoint = serde_json::from_str(&json).unwrap();
    assert_eq!(*checkpoint.conversation(), outcome.conversation);
    checkpoint.approve(0, CallIndex(0)).unwrap();
    checkpoint.deny(0, CallIndex(2), "Not today.").unwrap();
    checkpoint.answer(0, CallIndex(3), "from outside").unwrap();
    let script = scripted([rest]);
    let mut run = ToolLoop::new(script.clone()).tools([refund(), lookup()]).resume(checkpoint);
    let want = ["start refund/0", "finish refund/0", "turn 1", "end of turn 1", "Finished"];
    assert_eq!(steps(&mut run).await, want);
    assert_eq!(results(&last_message(&script, 0)), told());
    assert_eq!(run.outcome().turns, 2);
    let names: Vec<_> = script.requests()[0].tools.iter().map(|spec| spec.name.to_string()).collect();
    assert_eq!(names, ["outside", "refund", "lookup"]);
}

#[tokio::test]
async fn a_checkpoint_of_another_version_is_refused() {
    let [calls, _] = replies();
    let outcome = ToolLoop::new(scripted([calls])).tools([refund(), lookup()]).run(request()).finish().await;
    let RunStatus::Waiting(checkpoint) = outcome.status else { panic!("{outcome:?}") };
    let mut json = serde_json::to_value(&checkpoint).unwrap();
    json["version"] = json!(99);
    let checkpoint: Checkpoint = serde_json::from_str(&json.to_string()).unwrap();
    let outcome = ToolLoop::new(scripted([])).resume(checkpoint).finish().await;
    assert_eq!(outcome.error().unwrap().kind(), ErrorKind::Config);

    // One that is written in another form, too, and the version is what is wrong with it.
    json["turns"] = json!(["all of them"]);
    let words = "a checkpoint of version 99 cannot be resumed by version 1";
    let refused =
        |json: &Value| serde_json::from_str::<Checkpoint>(&json.to_string()).unwrap_err().to_string();
    assert_eq!(refused(&json), words);
    json["version"] = json!(1);
    assert_ne!(refused(&json), words);
}

#[tokio::test]
async fn a_run_that_waits_can_be_cancelled_with_its_results() {
    let [calls, _] = replies();
    let mut run = ToolLoop::new(scripted([calls])).tools([refund(), lookup()]).run(request());
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
    let mut run = ToolLoop::new(scripted([reply.end(Reason::ToolCalls)])).tool(tool).run(request());
    let seen = steps(&mut run).await;
    assert_eq!(seen[2..], ["start refund/0", "finish refund/2", "finish refund/0", "Waiting"]);
    assert_eq!(run.waiting().len(), 1);
}

#[tokio::test]
async fn arguments_that_the_approval_cannot_be_shown_wait_for_a_person() {
    for arguments in [r#"{"order":1,"x":1e999999}"#, r#"{"order":1,"x":"\ud800"}"#, "[1]"] {
        let tool = Tool::new("refund")
            .needs_approval_when(|_| false)
            .handler(|args: turnstream_tools::Given<Order>| async move { Ok(args.0.order) });
        let reply = Reply::new().call("a", "refund", arguments).end(Reason::ToolCalls);
        let mut run = ToolLoop::new(scripted([reply])).tool(tool).run(request());
        steps(&mut run).await;
        assert_eq!(run.waiting().len(), 1, "{arguments}");
    }
}

#[tokio::test]
async fn free_form_text_is_a_string_to_the_approval_whatever_it_looks_like() {
    for text in ["rm -rf /", r#"["rm -rf /"]"#, r#"{"x":"rm -rf /"}"#] {
        let tool = Tool::new("shell")
            .free_form()
            .needs_approval_when(|args| args.as_str().is_none_or(|text| text.contains("rm")))
            .handler(|text: String| async move { Ok(text) });
        let asks = tool_asks(tool, text).await;
        assert!(asks, "{text}");
    }
}

/// Whether a free-form call of the tool waits.
async fn tool_asks(tool: Tool, text: &str) -> bool {
    let (part, call) = (PartIndex(0), CallIndex(0));
    let name = tool.name().clone();
    let reply = Reply::new()
        .event(Event::CallStarted(
            CallStarted::new(part, call, "a", name.clone()).with_input(InputKind::Text),
        ))
        .event(Event::CallFinished(CallFinished::new(call, "a", name, text)))
        .event(Event::TurnFinished(TurnFinished::new(Reason::ToolCalls)));
    let mut run = ToolLoop::new(scripted([reply])).tool(tool).run(request());
    steps(&mut run).await;
    !run.waiting().is_empty()
}

/// A checkpoint as another process reads it.
fn written_and_read(run: &Run) -> Checkpoint {
    serde_json::from_str(&serde_json::to_string(&run.checkpoint()).unwrap()).unwrap()
}

/// Reads a run up to the given step, that included.
async fn read_to(run: &mut Run, last: &str) {
    loop {
        let event = run.next().await.expect("the step comes");
        if step(&event).as_deref() == Some(last) {
            return;
        }
    }
}

/// A tool whose calls never end, and how many have started.
fn hanging(name: &str) -> (Tool, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let counter = count.clone();
    let tool = Tool::new(name).handler(move |_: Value| {
        counter.fetch_add(1, Ordering::Relaxed);
        async { std::future::pending::<Result<(), _>>().await }
    });
    (tool, count)
}

#[tokio::test]
async fn a_run_that_was_interrupted_in_its_calls_runs_again_only_what_may_run_twice() {
    let calls = Reply::new()
        .call("a", "lookup", "{}")
        .call("b", "pay", "{}")
        .call("c", "read", "{}")
        .call("d", "outside", "{}");
    let (pay, paid) = hanging("pay");
    let (read, _) = hanging("read");
    let first = ToolLoop::new(scripted([calls.end(Reason::ToolCalls)]));
    let mut run = first.tools([lookup(), pay, read.idempotent()]).run(request());
    read_to(&mut run, "finish lookup/0").await;
    let mut checkpoint = written_and_read(&run);
    assert_eq!(paid.load(Ordering::Relaxed), 1);
    drop(run);

    let waiting: Vec<_> =
        checkpoint.waiting().into_iter().map(|call| (call.call.0, call.waiting_for)).collect();
    assert_eq!(waiting, [(1, WaitingFor::Decision), (3, WaitingFor::Answer)]);
    checkpoint.answer(0, CallIndex(3), "from outside").unwrap();

    let script = scripted([answer("done")]);
    let (pay, paid) = hanging("pay");
    let read = Tool::new("read").idempotent().handler(|_: Value| async { Ok("read") });
    let mut run = ToolLoop::new(script.clone()).tools([lookup(), pay, read]).resume(checkpoint);
    assert_eq!(steps(&mut run).await, ["start read/2", "finish read/2", "Waiting"]);
    run.answer(0, CallIndex(1), "it had paid").unwrap();
    assert_eq!(steps(&mut run).await, ["finish pay/1", "turn 1", "end of turn 1", "Finished"]);
    assert_eq!(paid.load(Ordering::Relaxed), 0);
    let told = pairs([("a", "found"), ("b", "it had paid"), ("c", "read"), ("d", "from outside")]);
    assert_eq!(results(&last_message(&script, 0)), told);
    let outcome = run.outcome();
    assert_eq!((outcome.turns, outcome.calls, outcome.usage.input_tokens), (2, 4, Some(20)));
}

#[tokio::test]
async fn a_checkpoint_at_the_start_of_a_handler_is_there_before_its_effect() {
    let calls = || Reply::new().call("a", "pay", "{}").end(Reason::ToolCalls);
    let (pay, paid) = hanging("pay");
    let mut run = ToolLoop::new(scripted([calls()])).tool(pay).run(request());
    read_to(&mut run, "end of turn 0").await;
    let before = written_and_read(&run);
    read_to(&mut run, "start pay/0").await;
    tokio::task::yield_now().await;
    assert_eq!(paid.load(Ordering::Relaxed), 0);
    let after = written_and_read(&run);
    assert!(run.next().now_or_never().is_none());
    tokio::task::yield_now().await;
    assert_eq!(paid.load(Ordering::Relaxed), 1);
    drop(run);

    // In front of the start the call was free to run; behind it somebody decides.
    let resumed = |checkpoint| {
        let pay = Tool::new("pay").handler(|_: Value| async { Ok("paid") });
        ToolLoop::new(scripted([answer("done")])).tool(pay).resume(checkpoint)
    };
    let mut run = resumed(before);
    assert_eq!(steps(&mut run).await[..2], ["start pay/0", "finish pay/0"]);
    let mut run = resumed(after);
    assert_eq!(steps(&mut run).await, ["Waiting"]);
    run.approve(0, CallIndex(0)).unwrap();
    assert_eq!(steps(&mut run).await[..2], ["start pay/0", "finish pay/0"]);
}

#[tokio::test]
async fn a_turn_that_was_interrupted_is_asked_for_again() {
    let script = stalling(events::Reply::new().text(["Let me"]).call_raw("a", "lookup", "{}"));
    let mut run = ToolLoop::new(script.clone()).tool(lookup()).run(request());
    while run.next().now_or_never().is_some() {}
    let checkpoint = written_and_read(&run);
    assert_eq!(checkpoint.conversation().messages(), request().conversation.messages());

    let script = scripted([answer("done")]);
    let mut run = ToolLoop::new(script.clone()).tool(lookup()).resume(checkpoint);
    assert_eq!(steps(&mut run).await, ["turn 1", "end of turn 1", "Finished"]);
    assert_eq!(script.requests()[0].conversation, request().conversation);
}

#[tokio::test]
async fn an_eager_call_of_an_interrupted_turn_keeps_its_result_and_the_others_do_not_run() {
    let reply =
        events::Reply::new().text(["Let me"]).call_raw("a", "lookup", "{}").call_raw("b", "pay", "{}");
    let (pay, paid) = hanging("pay");
    let mut run = ToolLoop::new(stalling(reply)).tools([lookup().eager(), pay]).run(request());
    read_to(&mut run, "finish lookup/0").await;
    while run.next().now_or_never().is_some() {}
    let checkpoint = written_and_read(&run);
    drop(run);

    let script = scripted([answer("done")]);
    let (pay_again, paid_again) = hanging("pay");
    let mut run = ToolLoop::new(script.clone()).tools([lookup().eager(), pay_again]).resume(checkpoint);
    assert_eq!(steps(&mut run).await, ["turn 1", "end of turn 1", "Finished"]);
    assert_eq!((paid.load(Ordering::Relaxed), paid_again.load(Ordering::Relaxed)), (0, 0));
    let mut told = pairs([("a", "found"), ("b", "The call was not run: its turn was interrupted.")]);
    told[1].2 = true;
    assert_eq!(results(&last_message(&script, 0)), told);
}

#[tokio::test]
async fn a_failed_run_can_be_gone_on_with_and_a_finished_one_stays_finished() {
    let calls = || Reply::new().call("a", "lookup", "{}").end(Reason::ToolCalls);
    let broken = Reply::new().text("It is").fail(ErrorKind::Truncated, "cut");
    let mut run = ToolLoop::new(scripted([calls(), broken])).tool(lookup()).run(request());
    assert_eq!(steps(&mut run).await.last().unwrap(), "Failed");
    let checkpoint = written_and_read(&run);
    assert_eq!(checkpoint.conversation().messages().len(), 3, "without the half of a reply");

    let mut run = ToolLoop::new(scripted([answer("done")])).tool(lookup()).resume(checkpoint);
    assert_eq!(steps(&mut run).await, ["turn 2", "end of turn 2", "Finished"]);
    let checkpoint = written_and_read(&run);
    let mut run = ToolLoop::new(scripted([])).resume(checkpoint);
    assert_eq!(steps(&mut run).await, ["Finished"]);
    let outcome = run.outcome();
    assert_eq!((outcome.conversation.messages().len(), outcome.text()), (4, "done"));

    let mut run = ToolLoop::new(scripted([calls()])).tool(lookup()).max_turns(1).run(request());
    assert_eq!(steps(&mut run).await.last().unwrap(), "MaxTurns");
    let checkpoint = written_and_read(&run);
    let mut run = ToolLoop::new(scripted([answer("done")])).tool(lookup()).resume(checkpoint);
    assert_eq!(steps(&mut run).await, ["turn 1", "end of turn 1", "Finished"]);
}

#[derive(serde::Deserialize)]
struct Order {
    order: u32,
}
