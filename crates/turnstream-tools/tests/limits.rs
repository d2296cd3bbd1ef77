//! What a run may use: turns, calls, tokens, time, a condition of the caller's, and how much an answer may say.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use support::{Reply, answer, last_message, pairs, results, scripted, stalling, steps};
use turnstream_core::{CallIndex, ErrorKind, Part, Reason, Request, ToolChoice};
use turnstream_testing::events;
use turnstream_tools::{RunStatus, StatusKind, Tool, ToolError, ToolLoop};

fn request() -> Request {
    Request::new().user("go")
}

fn call(id: &str) -> Reply {
    Reply::new().call(id, "f", "{}").end(Reason::ToolCalls)
}

fn quick() -> Tool {
    Tool::new("f").handler(|_: Value| async { Ok("done") })
}

fn hanging() -> Tool {
    Tool::new("f").handler(|_: Value| async { pending::<Result<(), _>>().await })
}

#[tokio::test]
async fn a_run_ends_when_its_tokens_are_used_up_with_its_last_calls_answered() {
    // 13 tokens a turn.
    let script = scripted([call("a"), call("b"), answer("never")]);
    let outcome =
        ToolLoop::new(script.clone()).tool(quick()).max_total_tokens(26).run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::MaxTokens), "{outcome:?}");
    assert_eq!(
        (outcome.turns, outcome.usage.input_tokens, outcome.usage.output_tokens),
        (2, Some(20), Some(6))
    );
    assert_eq!(results(outcome.conversation.messages().last().unwrap()), pairs([("b", "done")]));

    // An answer that came is an answer, whatever it cost.
    let outcome = ToolLoop::new(scripted([answer("done")])).max_total_tokens(1).run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished));
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_when_its_time_is_up_while_a_handler_runs() {
    let outcome = ToolLoop::new(scripted([call("a")]))
        .tool(hanging())
        .max_time(Duration::from_secs(60))
        .run(request())
        .finish()
        .await;
    assert!(matches!(outcome.status, RunStatus::MaxTime), "{outcome:?}");
    let unknown = "The call was cancelled while it ran. Whether it had an effect is unknown.".to_owned();
    assert_eq!(results(outcome.conversation.messages().last().unwrap()), [("a".to_owned(), unknown, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_when_its_time_is_up_while_a_turn_streams() {
    let reply = events::Reply::new().text(["It is"]).call_raw("a", "f", "{}");
    let outcome = ToolLoop::new(stalling(reply))
        .tool(quick())
        .max_time(Duration::from_secs(60))
        .run(request())
        .finish()
        .await;
    assert!(matches!(outcome.status, RunStatus::MaxTime), "{outcome:?}");
    let told = results(outcome.conversation.messages().last().unwrap());
    assert_eq!(told, [("a".to_owned(), "The call was not run: the run's time was up.".to_owned(), true)]);
    assert_eq!(outcome.text(), "It is");
    assert!(outcome.conversation.open_calls().is_empty());
}

#[tokio::test]
async fn a_run_without_any_time_asks_nothing() {
    let script = scripted([answer("never")]);
    let outcome = ToolLoop::new(script.clone()).max_time(Duration::ZERO).run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::MaxTime), "{outcome:?}");
    assert_eq!((outcome.turns, script.requests().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_a_run_waits_for_a_person_does_not_count() {
    let script = scripted([call("a"), call("b"), answer("done")]);
    let slow = Tool::new("f").needs_approval().handler(|_: Value| async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        Ok("done")
    });
    let mut run = ToolLoop::new(script).tool(slow).max_time(Duration::from_secs(30)).run(request());
    assert_eq!(steps(&mut run).await.last().unwrap(), "Waiting");
    tokio::time::advance(Duration::from_secs(3600)).await;
    run.approve(0, CallIndex(0)).unwrap();
    assert_eq!(steps(&mut run).await.last().unwrap(), "Waiting", "20 of 30 seconds are used");
    run.approve(1, CallIndex(0)).unwrap();
    assert_eq!(steps(&mut run).await.last().unwrap(), "MaxTime");
    assert!(matches!(run.outcome().status, RunStatus::MaxTime));
}

#[test]
fn a_time_limit_outside_of_a_runtime_is_an_error_and_no_panic() {
    let mut run = ToolLoop::new(scripted([answer("done")])).max_time(Duration::from_secs(1)).run(request());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut next = || futures_core::Stream::poll_next(std::pin::Pin::new(&mut run), &mut context);
    while let std::task::Poll::Ready(Some(_)) = next() {}
    assert_eq!(run.outcome().error().unwrap().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn a_run_stops_when_the_caller_says_so_with_the_results_in_its_conversation() {
    let asked = Arc::new(AtomicU32::new(0));
    let counter = asked.clone();
    let script = scripted([call("a"), call("b"), call("c")]);
    let outcome = ToolLoop::new(script)
        .tool(quick())
        .stop_when(move |progress| {
            counter.fetch_add(1, Ordering::Relaxed);
            assert!(progress.conversation.open_calls().is_empty());
            assert_eq!(progress.usage.input_tokens, Some(10 * u64::from(progress.turns)));
            progress.calls >= 2
        })
        .run(request())
        .finish()
        .await;
    assert!(matches!(outcome.status, RunStatus::StopCondition), "{outcome:?}");
    assert_eq!((outcome.turns, outcome.calls, asked.load(Ordering::Relaxed)), (2, 2, 2));
    assert_eq!(results(outcome.conversation.messages().last().unwrap()), pairs([("b", "done")]));
}

#[tokio::test]
async fn a_condition_that_panics_reaches_whoever_polls_the_run() {
    let tool_loop =
        ToolLoop::new(scripted([call("a"), answer("never")])).stop_when(|_| panic!("the condition"));
    let run = std::panic::AssertUnwindSafe(tool_loop.tool(quick()).run(request()).finish());
    let panic = futures_util::FutureExt::catch_unwind(run).await.unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the condition"));
}

#[tokio::test]
async fn the_last_turn_may_be_one_without_tools() {
    let script = scripted([call("a"), answer("That is all.")]);
    let tool_loop = ToolLoop::new(script.clone()).tool(quick()).max_turns(2).last_turn_without_tools();
    let outcome = tool_loop.run(request().tool_choice(ToolChoice::Required)).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished));
    let asked: Vec<_> =
        script.requests().into_iter().map(|asked| (asked.tool_choice.unwrap(), asked.tools.len())).collect();
    assert_eq!(asked, [(ToolChoice::Required, 1), (ToolChoice::None, 1)]);

    // A model that calls all the same is answered, and stopped by the limit.
    let script = scripted([call("a"), call("b")]);
    let tool_loop = ToolLoop::new(script).tool(quick()).max_turns(2).last_turn_without_tools();
    let outcome = tool_loop.run(request()).finish().await;
    assert_eq!(outcome.status.kind(), StatusKind::MaxTurns);
    assert!(outcome.conversation.open_calls().is_empty());

    // Without a tool there is nothing to forbid, and providers refuse the word.
    let script = scripted([answer("Hi.")]);
    ToolLoop::new(script.clone()).max_turns(1).last_turn_without_tools().run(request()).finish().await;
    assert_eq!(script.requests()[0].tool_choice, None);
}

#[tokio::test]
async fn what_a_resumed_run_may_use_is_what_its_loop_says() {
    let script = scripted([call("a"), call("b"), answer("done")]);
    let tool_loop = ToolLoop::new(script).tool(quick());
    let mut run = tool_loop.clone().max_total_tokens(20).run(request());
    assert_eq!(steps(&mut run).await.last().unwrap(), "MaxTokens");
    let mut run = tool_loop.resume(run.checkpoint());
    assert_eq!(steps(&mut run).await.last().unwrap(), "Finished");
    assert_eq!(run.outcome().usage.input_tokens, Some(30), "usage adds up over both");
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_cut_with_a_note() {
    let huge = Tool::new("huge").handler(|_: Value| async { Ok("x".repeat(300)) });
    let fails =
        Tool::new("fails").handler(|_: Value| async { Err::<(), _>(ToolError::new("é".repeat(300))) });
    let reply = Reply::new().call("a", "huge", "{}").call("b", "fails", "{}").end(Reason::ToolCalls);
    let script = scripted([reply, answer("done")]);
    ToolLoop::new(script.clone()).tools([huge, fails]).max_answer_bytes(101).run(request()).finish().await;
    let [Part::Result(huge), Part::Result(fails)] = &last_message(&script, 1).parts[..] else { panic!() };
    let note = |bytes, shown| {
        format!("[Cut here: the answer has {bytes} bytes of text, and these are the first {shown}.]")
    };
    let texts = |parts: [String; 2]| parts.map(turnstream_core::ResultContent::Text);
    assert_eq!(huge.content, texts(["x".repeat(101), note(300, 101)]));
    assert_eq!(fails.content, texts(["é".repeat(50), note(600, 100)]));
    assert!(fails.is_error);
}
