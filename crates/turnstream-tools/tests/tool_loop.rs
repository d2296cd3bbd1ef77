//! The loop: which handlers run, what the next request says, and how the run ends.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use futures_util::FutureExt;
use serde_json::{Value, json};
use support::{Reply, answer, last_message, pairs, results, scripted, stalling, step, steps};
use tokio::sync::{Barrier, Notify, oneshot};
use turnstream_core::{
    AbortReason, CallPart, ErrorKind, Message, Model, Part, Reason, Request, ResultPart, Role, ToolChoice,
    ToolSpec,
};
use turnstream_testing::{Gate, ScriptedModel, events};
use turnstream_tools::{Outcome, Run, RunEvent, RunStatus, StatusKind, Tool, ToolError, ToolLoop};

fn request() -> Request {
    Request::new().user("go")
}

/// A tool that answers with its name, and counts.
fn counted(name: &str) -> (Tool, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let (counter, answer) = (count.clone(), name.to_owned());
    let tool = Tool::new(name).handler(move |_: Value| {
        counter.fetch_add(1, Ordering::Relaxed);
        let answer = answer.clone();
        async move { Ok(answer) }
    });
    (tool, count)
}

fn calls_of(message: &Message) -> Vec<(String, String)> {
    message.calls().map(|call| (call.id.to_string(), call.arguments.to_string())).collect()
}

#[tokio::test]
async fn two_calls_of_one_tool_overlap() {
    let both = Arc::new(Barrier::new(2));
    let tool = Tool::new("lookup").handler(move |args: Value| {
        let both = both.clone();
        async move {
            both.wait().await;
            Ok(args["id"].clone())
        }
    });
    let reply = Reply::new().text("Let me look.").call("a", "lookup", r#"{"id": "A"}"#);
    let script =
        scripted([reply.call("b", "lookup", r#"{"id": "B"}"#).end(Reason::ToolCalls), answer("Here.")]);
    let outcome = ToolLoop::new(script.clone()).tool(tool).run(request()).finish().await;

    assert!(matches!(outcome.status, RunStatus::Finished));
    assert_eq!((outcome.text(), outcome.turns, outcome.calls), ("Here.", 2, 2));
    assert_eq!((outcome.usage.input_tokens, outcome.usage.output_tokens), (Some(20), Some(6)));
    assert_eq!(outcome.reason, Some(Reason::Stop));
    let asked = Message::new(
        Role::Assistant,
        vec![
            Part::text("Let me look."),
            Part::Call(CallPart::new("a", "lookup", r#"{"id": "A"}"#)),
            Part::Call(CallPart::new("b", "lookup", r#"{"id": "B"}"#)),
        ],
    );
    let told = Message::results([ResultPart::text("a", "lookup", "A"), ResultPart::text("b", "lookup", "B")]);
    let want = [Message::user("go"), asked, told, Message::assistant("Here.")];
    assert_eq!(outcome.conversation.messages(), want);
}

#[tokio::test]
async fn case_100_results_in_call_order() {
    let second_has_ended = Arc::new(Notify::new());
    let (wait, tell) = (second_has_ended.clone(), second_has_ended);
    let slow = Tool::new("slow").handler(move |_: Value| {
        let wait = wait.clone();
        async move {
            wait.notified().await;
            Ok("A")
        }
    });
    let fast = Tool::new("fast").handler(|_: Value| async { Ok("B") });
    let script = scripted([
        Reply::new().call("a", "slow", "{}").call("b", "fast", "{}").end(Reason::ToolCalls),
        answer(""),
    ]);
    let mut run = ToolLoop::new(script.clone()).tools([slow, fast]).run(request());
    let mut seen = Vec::new();
    while let Some(event) = run.next().await {
        seen.extend(step(&event).filter(|step| step.starts_with("finish")));
        if let RunEvent::HandlerFinished(_) = event {
            tell.notify_one();
        }
    }
    assert_eq!(seen, ["finish fast/1", "finish slow/0"]);
    assert_eq!(results(&last_message(&script, 1)), pairs([("a", "A"), ("b", "B")]));
}

#[tokio::test]
async fn case_101_one_handler_fails() {
    let a = Tool::new("a").handler(|_: Value| async { Ok("A") });
    let b = Tool::new("b").handler(|_: Value| async { Err::<(), _>("boom".into()) });
    let c = Tool::new("c").handler(|_: Value| async { if true { panic!("x") } else { Ok(()) } });
    let d = Tool::new("d").handler(|_: Value| async {
        tokio::task::yield_now().await;
        Ok("D")
    });
    // The panic comes before there is a future.
    let e = Tool::new("e").handler(|_: Value| {
        if true {
            panic!("at once")
        }
        async { Ok(()) }
    });
    let reply =
        ["a", "b", "c", "d", "e"].iter().fold(Reply::new(), |reply, name| reply.call(name, name, "{}"));
    let script = scripted([reply.end(Reason::ToolCalls), answer("done")]);
    let outcome = ToolLoop::new(script.clone()).tools([a, b, c, d, e]).run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished));
    let want = [
        ("a", "A", false),
        ("b", "boom", true),
        ("c", "The tool panicked.", true),
        ("d", "D", false),
        ("e", "The tool panicked.", true),
    ];
    assert_eq!(
        results(&last_message(&script, 1)),
        want.map(|(id, text, error)| (id.into(), text.into(), error))
    );
}

#[tokio::test]
async fn case_102_cancel_while_tools_run() {
    let (dropped, was_dropped) = oneshot::channel::<()>();
    let dropped = Arc::new(Mutex::new(Some(dropped)));
    let a = Tool::new("a").handler(|_: Value| async { Ok("A") });
    let b = Tool::new("b").handler(move |_: Value| {
        let guard = dropped.lock().unwrap().take();
        async move {
            let _guard = guard;
            pending::<()>().await;
            Ok(())
        }
    });
    let script = scripted([Reply::new().call("a", "a", "{}").call("b", "b", "{}").end(Reason::ToolCalls)]);
    let mut run = ToolLoop::new(script).tools([a, b]).run(request());
    while !matches!(run.next().await, Some(RunEvent::HandlerFinished(_))) {}
    let outcome = run.cancel();

    assert!(matches!(outcome.status, RunStatus::Cancelled));
    let [_, asked, told] = outcome.conversation.messages() else { panic!("{outcome:?}") };
    assert_eq!(calls_of(asked).len(), 2);
    let unknown = "The call was cancelled while it ran. Whether it had an effect is unknown.";
    let want = [ResultPart::text("a", "a", "A"), ResultPart::text("b", "b", unknown).with_error()];
    assert_eq!(*told, Message::results(want));
    assert!(was_dropped.await.is_err(), "the handler was dropped");

    // The history that was handed back can be gone on with.
    let mut again = Request::new().messages(outcome.conversation.messages().to_vec()).user("and now?");
    again.conversation.close_open_calls();
    assert_eq!(again.conversation.messages()[..3], *outcome.conversation.messages());
}

#[tokio::test]
async fn case_104_duplicate_call_ids() {
    let tool = Tool::new("f").handler(|args: Value| async move { Ok(args["a"].clone()) });
    let script = scripted([
        Reply::new().call("x:0", "f", r#"{"a":1}"#).call("x:0", "f", r#"{"a":2}"#).end(Reason::ToolCalls),
        Reply::new().call("x:0", "f", r#"{"a":3}"#).end(Reason::ToolCalls),
        answer("done"),
    ]);
    let outcome = ToolLoop::new(script).tool(tool).run(request()).finish().await;
    let messages = outcome.conversation.messages();
    let asked = |ids: [(&str, u32); 2]| ids.map(|(id, a)| (id.to_owned(), format!("{{\"a\":{a}}}"))).to_vec();
    assert_eq!(calls_of(&messages[1]), asked([("x:0", 1), ("x:0_2", 2)]));
    assert_eq!(results(&messages[2]), pairs([("x:0", "1"), ("x:0_2", "2")]));
    assert_eq!(calls_of(&messages[3]), [("x:0_3".to_owned(), r#"{"a":3}"#.to_owned())]);
    assert_eq!(results(&messages[4]), pairs([("x:0_3", "3")]));
}

#[tokio::test]
async fn case_105_forced_tool_choice_loop() {
    let choices = |script: &ScriptedModel| {
        script.requests().into_iter().map(|asked| asked.tool_choice).collect::<Vec<_>>()
    };
    let replies = || [Reply::new().call("a", "f", "{}").end(Reason::ToolCalls), answer("done")];
    let forced = || request().tool_choice(ToolChoice::Required);

    let script = scripted(replies());
    let outcome = ToolLoop::new(script.clone()).tool(counted("f").0).run(forced()).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished));
    assert_eq!(choices(&script), [Some(ToolChoice::Required), Some(ToolChoice::Auto)]);

    let script = scripted(replies());
    ToolLoop::new(script.clone()).tool(counted("f").0).keep_tool_choice().run(forced()).finish().await;
    assert_eq!(choices(&script), [Some(ToolChoice::Required), Some(ToolChoice::Required)]);

    // A model that always calls is stopped by the limit, with every call answered.
    let endless = (0..9).map(|_| Reply::new().call("a", "f", "{}").end(Reason::ToolCalls));
    let outcome =
        ToolLoop::new(scripted(endless)).tool(counted("f").0).max_turns(3).run(forced()).finish().await;
    assert!(matches!(outcome.status, RunStatus::MaxTurns));
    assert_eq!((outcome.turns, outcome.calls), (3, 3));
    assert_eq!(results(outcome.conversation.messages().last().unwrap()), pairs([("a_3", "f")]));
}

#[tokio::test]
async fn case_145_the_error_of_a_refused_request_comes_out_whole() {
    struct Refusing;
    impl Model for Refusing {
        fn stream(&self, _: &Request) -> turnstream_core::TurnStream {
            let error =
                turnstream_core::Error::new(ErrorKind::InvalidRequest, "Invalid schema for function 'f'");
            turnstream_core::TurnStream::failed(error.with_status(400).with_request_id("req_1"))
        }
        fn name(&self) -> &str {
            "refusing"
        }
    }
    let outcome = ToolLoop::new(Refusing).tool(counted("f").0).run(request()).finish().await;
    let error = outcome.error().unwrap();
    assert_eq!((error.kind(), error.status()), (ErrorKind::InvalidRequest, Some(400)));
    assert_eq!((error.request_id(), error.message()), (Some("req_1"), "Invalid schema for function 'f'"));
    assert_eq!(outcome.conversation.messages(), [Message::user("go")]);
}

#[tokio::test]
async fn case_147_shared_state_in_parallel_handlers() {
    let most_at_once = Arc::new(AtomicU32::new(0));
    let log = Arc::new(Mutex::new(Vec::new()));
    let tool = |name: &str| {
        let (log, most, now) = (log.clone(), most_at_once.clone(), Arc::new(AtomicU32::new(0)));
        Tool::new(name).handler_with_context(move |_: Value, context| {
            let (log, most, now) = (log.clone(), most.clone(), now.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                log.lock().unwrap().push(format!("start {}", context.id()));
                tokio::task::yield_now().await;
                log.lock().unwrap().push(format!("end {}", context.id()));
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        })
    };
    let four = |name: &str| {
        let ids = ["a", "b", "c", "d"];
        scripted([ids
            .iter()
            .fold(Reply::new(), |reply, id| reply.call(id, name, "{}"))
            .end(Reason::ToolCalls)])
    };
    ToolLoop::new(four("write")).tool(tool("write").sequential()).run(request()).finish().await;
    let in_order = ["start a", "end a", "start b", "end b", "start c", "end c", "start d", "end d"];
    assert_eq!(*log.lock().unwrap(), in_order);
    assert_eq!(most_at_once.load(Ordering::SeqCst), 1);

    ToolLoop::new(four("read")).tool(tool("read")).concurrency(3).run(request()).finish().await;
    assert!((2..=3).contains(&most_at_once.load(Ordering::SeqCst)));
}

/// Runs a turn that must not run anything.
async fn stopped(reply: Reply) -> (Outcome, u32) {
    let (tool, count) = counted("f");
    let outcome = ToolLoop::new(scripted([reply])).tool(tool).run(request()).finish().await;
    (outcome, count.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_truncated_turn_runs_nothing() {
    let reply =
        Reply::new().text("Let me").call("a", "f", "{}").aborted("b", "f", "{\"p", AbortReason::Truncated);
    let (outcome, ran) = stopped(reply.fail(ErrorKind::Truncated, "cut")).await;
    assert_eq!(ran, 0);
    assert_eq!(outcome.error().unwrap().kind(), ErrorKind::Truncated);
    assert_eq!((outcome.text(), outcome.reason), ("Let me", None));
    // What came whole is kept, and can be sent.
    let call = Part::Call(CallPart::new("a", "f", "{}"));
    let why = "The call was not run: the run ended in an error.";
    let want = [
        Message::user("go"),
        Message::new(Role::Assistant, vec![Part::text("Let me"), call]),
        Message::results([ResultPart::text("a", "f", why).with_error()]),
    ];
    assert_eq!(outcome.conversation.messages(), want);
}

#[tokio::test]
async fn case_072_length_with_a_complete_sibling() {
    for reason in [Reason::Length, Reason::ContentFilter, Reason::Refusal] {
        let reply =
            Reply::new().call("c1", "f", r#"{"p":"a"}"#).aborted("c2", "f", r#"{"p":"#, AbortReason::Length);
        let (outcome, ran) = stopped(reply.end(reason)).await;
        assert_eq!(ran, 0);
        assert!(matches!(outcome.status, RunStatus::Stopped(stopped) if stopped == reason), "{outcome:?}");
        let last = outcome.conversation.messages().last().unwrap();
        let why = "The call was not run: the turn did not end well.";
        assert_eq!(results(last), [("c1".to_owned(), why.to_owned(), true)]);
        assert!(outcome.conversation.open_calls().is_empty());
    }
}

#[tokio::test]
async fn a_stream_without_an_end_is_truncated() {
    let (outcome, ran) = stopped(Reply::new().call("a", "f", "{}")).await;
    assert_eq!((outcome.error().unwrap().kind(), ran), (ErrorKind::Truncated, 0));
}

#[tokio::test]
async fn tool_calls_without_a_call_and_unknown_words_stop() {
    let (outcome, _) = stopped(Reply::new().text("hm").end(Reason::ToolCalls)).await;
    assert!(matches!(outcome.status, RunStatus::Stopped(Reason::ToolCalls)));
    let (outcome, _) = stopped(Reply::new().text("hm").end(Reason::Other)).await;
    assert!(matches!(outcome.status, RunStatus::Finished));
    let (outcome, ran) = stopped(Reply::new().call("a", "f", "{}").end(Reason::Other)).await;
    assert!(matches!(outcome.status, RunStatus::Stopped(Reason::Other)));
    assert_eq!(ran, 0);
}

#[tokio::test]
async fn a_pause_runs_finished_calls_and_asks_again() {
    let (tool, count) = counted("f");
    let script = scripted([
        Reply::new().text("Searching.").end(Reason::Pause),
        Reply::new().call("a", "f", "{}").end(Reason::Pause),
        answer("done"),
    ]);
    let outcome = ToolLoop::new(script.clone()).tool(tool).run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished));
    assert_eq!(count.load(Ordering::Relaxed), 1);
    assert_eq!(last_message(&script, 1), Message::assistant("Searching."));
    assert_eq!(results(&last_message(&script, 2)), pairs([("a", "f")]));

    let pauses = (0..9).map(|_| Reply::new().text("Searching.").end(Reason::Pause));
    let outcome = ToolLoop::new(scripted(pauses)).max_turns(2).run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::MaxTurns));
}

#[tokio::test]
async fn a_malformed_call_gets_an_error_result_and_goes_back_with_it() {
    let (tool, count) = counted("f");
    let bad = format!("{{\"path\": \"/tm{}", "é".repeat(1000));
    let script = scripted([
        Reply::new()
            .malformed("a", "f", &bad)
            .replay(r#"{"arguments":"bad"}"#)
            .call("b", "f", "{}")
            .replay(r#"{"item":"b"}"#)
            .end(Reason::ToolCalls),
        answer("done"),
    ]);
    let mut run = ToolLoop::new(script.clone()).tool(tool).run(request());
    let seen = steps(&mut run).await;
    assert_eq!(seen[2..5], ["finish f/0", "start f/1", "finish f/1"]);
    assert_eq!(count.load(Ordering::Relaxed), 1);
    let messages = run.outcome().conversation;
    let asked: Vec<_> = messages.messages()[1].calls().collect();
    assert_eq!(*asked[0], CallPart::new("a", "f", "{}"));
    assert!(asked[1].replay.is_some());
    let told = results(&messages.messages()[2]);
    let (id, words, is_error) = &told[0];
    assert_eq!((id.as_str(), *is_error), ("a", true));
    let start = "The arguments are not one valid JSON value (EOF while parsing a string at line 1 column 2013), \
                 so the tool was not run. They were: {\"path\": \"/tmé";
    assert!(words.starts_with(start) && words.ends_with("é [...]") && words.len() < 1200, "{words}");
    assert_eq!(told[1..], pairs([("b", "f")]));
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_result_that_names_the_tools() {
    let script = scripted([Reply::new().call("a", "g", "{}").end(Reason::ToolCalls), answer("done")]);
    let tools = [counted("f").0, counted("h").0];
    let outcome = ToolLoop::new(script.clone()).tools(tools).run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished));
    let words = "There is no tool `g`. The tools are: f, h.".to_owned();
    assert_eq!(results(&last_message(&script, 1)), [("a".to_owned(), words, true)]);
}

#[tokio::test]
async fn a_fatal_error_ends_the_run_with_the_conversation_closed() {
    let a = Tool::new("a")
        .handler(|_: Value| async { Err::<(), _>(ToolError::fatal("no disk").with_source("sda1")) });
    let b = Tool::new("b").handler(|_: Value| async {
        pending::<()>().await;
        Ok(())
    });
    let reply = Reply::new().call("a", "a", "{}").call("b", "b", "{}").call("c", "b", "{}");
    let script = scripted([reply.end(Reason::ToolCalls)]);
    let outcome = ToolLoop::new(script).tools([a, b]).concurrency(2).run(request()).finish().await;
    let error = outcome.error().unwrap();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Tool, "no disk"));
    assert_eq!(std::error::Error::source(error).unwrap().to_string(), "sda1");
    let unknown = "The call was cancelled while it ran. Whether it had an effect is unknown.";
    let not_run = "The call was not run: the run ended in an error.";
    let want = [("a", "no disk"), ("b", unknown), ("c", not_run)];
    let told = results(outcome.conversation.messages().last().unwrap());
    assert_eq!(told, want.map(|(id, text)| (id.to_owned(), text.to_owned(), true)));
}

#[tokio::test]
async fn a_tool_that_cannot_be_offered_fails_the_run_before_anything_is_sent() {
    let script = scripted([answer("done")]);
    let check = async |tools: &[&str], request: Request| {
        let tools = tools.iter().map(|name| counted(name).0);
        let mut run = ToolLoop::new(script.clone()).tools(tools).run(request);
        assert_eq!(steps(&mut run).await, ["Failed"]);
        assert_eq!(run.outcome().error().unwrap().kind(), ErrorKind::Config);
    };
    check(&["srv.get file"], request()).await;
    check(&["f", "f"], request()).await;
    check(&["f"], request().tool(ToolSpec::new("f"))).await;
    #[cfg(feature = "schemars")]
    {
        let text = Tool::new("f").handler(|_: String| async { Ok(()) });
        let outcome = ToolLoop::new(script.clone()).tool(text).run(request()).finish().await;
        assert_eq!(outcome.error().unwrap().kind(), ErrorKind::Config);
    }
    assert_eq!(script.requests().len(), 0);
}

#[tokio::test]
async fn too_many_calls_end_the_run_and_none_of_the_last_runs() {
    let (tool, count) = counted("f");
    let script = scripted([
        Reply::new().call("a", "f", "{}").end(Reason::ToolCalls),
        Reply::new().call("b", "f", "{}").call("c", "f", "{}").end(Reason::ToolCalls),
    ]);
    let outcome = ToolLoop::new(script).tool(tool).max_calls(2).run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::MaxCalls));
    assert_eq!((count.load(Ordering::Relaxed), outcome.calls), (1, 3));
    let why = "The call was not run: there were too many calls.";
    let told = results(outcome.conversation.messages().last().unwrap());
    assert_eq!(told, ["b", "c"].map(|id| (id.to_owned(), why.to_owned(), true)));
}

#[tokio::test]
async fn an_eager_tool_runs_while_the_turn_streams_and_its_result_outlives_the_turn() {
    let (tool, count) = counted("f");
    let (late, late_count) = counted("g");
    let reply = events::Reply::new().call_raw("a", "f", "{}").call_raw("b", "g", "{}");
    let mut run = ToolLoop::new(stalling(reply)).tools([tool.eager(), late]).run(request());
    while !matches!(run.next().await, Some(RunEvent::HandlerFinished(_))) {}
    let outcome = run.cancel();
    assert_eq!((count.load(Ordering::Relaxed), late_count.load(Ordering::Relaxed)), (1, 0));
    let why = "The call was not run: the run was cancelled.".to_owned();
    let want = [("a".to_owned(), "f".to_owned(), false), ("b".to_owned(), why, true)];
    assert_eq!(results(outcome.conversation.messages().last().unwrap()), want);

    // A turn that goes on well runs it once.
    let (tool, count) = counted("f");
    let script = scripted([
        Reply::new().call("x", "f", "{}").call("x", "f", "{}").text("...").end(Reason::ToolCalls),
        answer("done"),
    ]);
    let outcome = ToolLoop::new(script.clone()).tool(tool).eager().run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished));
    assert_eq!(count.load(Ordering::Relaxed), 2);
    assert_eq!(results(&last_message(&script, 1)), pairs([("x", "f"), ("x_2", "f")]));
}

#[tokio::test]
async fn the_result_of_an_eager_call_is_kept_when_its_turn_fails() {
    let has_run = Gate::new();
    let opens = has_run.clone();
    let tool = Tool::new("f").eager().handler(move |_: Value| {
        opens.open();
        async { Ok("F") }
    });
    // The turn is cut once the handler has run. Another text has begun: only then is the call done.
    let reply =
        events::Reply::new().text(["Let me"]).call_raw("a", "f", "{}").text([""]).gate(&has_run).cut();
    let model = ScriptedModel::new().turn(reply);
    let outcome = ToolLoop::new(model).tool(tool).run(request()).finish().await;
    assert_eq!(outcome.error().unwrap().kind(), ErrorKind::Truncated);
    assert_eq!(results(outcome.conversation.messages().last().unwrap()), pairs([("a", "F")]));
}

#[tokio::test]
async fn a_run_can_be_read_for_a_browser() {
    let script = scripted([answer("Hi.")]);
    let mut run = ToolLoop::new(script).run(request());
    let mut lines = Vec::new();
    while let Some(event) = run.next().await {
        lines.push(serde_json::to_string(&event).unwrap());
    }
    let want = [
        r#"{"type":"turn_began","turn":0}"#,
        r#"{"type":"turn","turn":0,"event":{"type":"turn_started"}}"#,
        r#"{"type":"turn","turn":0,"event":{"type":"text_delta","part":0,"text":"Hi."}}"#,
        r#"{"type":"turn","turn":0,"event":{"type":"turn_finished","reason":"stop","usage":{"input_tokens":10,"output_tokens":3}}}"#,
        r#"{"type":"turn_ended","turn":0,"reason":"stop"}"#,
        r#"{"type":"ended","status":"finished","turns":1,"usage":{"input_tokens":10,"output_tokens":3}}"#,
    ];
    assert_eq!(lines, want);
}

#[test]
fn a_run_outside_of_a_runtime_is_an_error_and_no_panic() {
    let script = scripted([Reply::new().call("a", "f", "{}").end(Reason::ToolCalls)]);
    let mut run = ToolLoop::new(script).tool(counted("f").0).run(request());
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    let mut last = None;
    while let std::task::Poll::Ready(Some(event)) =
        futures_core::Stream::poll_next(std::pin::Pin::new(&mut run), &mut context)
    {
        last = step(&event);
    }
    assert_eq!(last.as_deref(), Some("Failed"));
    assert_eq!(run.outcome().error().unwrap().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn case_141_a_run_is_send_static_and_unpin() {
    fn assert_send_static_unpin<T: Send + Unpin + 'static>(_: &T) {}
    fn assert_send_sync<T: Send + Sync + 'static>() {}
    assert_send_sync::<ToolLoop>();
    assert_send_sync::<Tool>();
    assert_send_sync::<RunEvent>();
    let model: Arc<dyn Model> = Arc::new(scripted([answer("done")]));
    let run: Run = ToolLoop::new(model).run(request());
    assert_send_static_unpin(&run);
    let outcome = tokio::spawn(run.finish()).await.unwrap();
    assert_eq!(outcome.status.kind(), StatusKind::Finished);
}

#[tokio::test]
async fn dropping_a_run_aborts_its_handlers() {
    let (dropped, was_dropped) = oneshot::channel::<()>();
    let dropped = Arc::new(Mutex::new(Some(dropped)));
    let cancelled = Arc::new(Mutex::new(None));
    let kept = cancelled.clone();
    let tool = Tool::new("f").handler_with_context(move |_: Value, context| {
        let guard = dropped.lock().unwrap().take();
        kept.lock().unwrap().replace(context);
        async move {
            let _guard = guard;
            pending::<()>().await;
            Ok(())
        }
    });
    let script = scripted([Reply::new().call("a", "f", "{}").end(Reason::ToolCalls)]);
    let mut run = ToolLoop::new(script).tool(tool).run(request());
    while !matches!(run.next().await, Some(RunEvent::HandlerStarted(_))) {}
    // The next poll starts it.
    assert!(run.next().now_or_never().is_none());
    tokio::task::yield_now().await;
    drop(run);
    assert!(was_dropped.await.is_err());
    tokio::task::yield_now().await;
    assert!(cancelled.lock().unwrap().as_ref().unwrap().is_cancelled(), "blocking work can tell");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_runs_at_once_leave_no_task_behind() {
    let hanging = Tool::new("hang").handler(|_: Value| async {
        pending::<()>().await;
        Ok(())
    });
    let tool_loop = |script| ToolLoop::new(script).tools([counted("f").0, hanging.clone()]);
    let mut runs = Vec::new();
    for number in 0..1000 {
        let name = if number % 2 == 0 { "f" } else { "hang" };
        let calls = Reply::new().call("a", name, "{}").call("b", "f", "{}").end(Reason::ToolCalls);
        runs.push(tool_loop(scripted([calls, answer("done")])).run(request()));
    }
    let finished = futures_util::future::join_all(runs.into_iter().map(async |mut run: Run| {
        let mut hangs = false;
        while let Some(event) = run.next().await {
            hangs |= matches!(&event, RunEvent::HandlerStarted(started) if started.name == "hang");
            // The other call has ended, so this run is dropped with a handler in it.
            if hangs && matches!(event, RunEvent::HandlerFinished(_)) {
                return false;
            }
        }
        matches!(run.outcome().status, RunStatus::Finished)
    }))
    .await;
    assert_eq!(finished.into_iter().filter(|finished| *finished).count(), 500);
    let metrics = tokio::runtime::Handle::current().metrics();
    for _ in 0..1_000_000 {
        if metrics.num_alive_tasks() == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{} tasks are left", metrics.num_alive_tasks());
}

#[tokio::test]
async fn a_handlers_answer_is_not_the_models_text() {
    let tool = Tool::new("f").handler(|_: Value| async { Ok(json!({ "secret": 1 })) });
    let script =
        scripted([Reply::new().call("a", "f", r#"{"p":1}"#).end(Reason::ToolCalls), answer("Done.")]);
    let mut run = ToolLoop::new(script).tool(tool).run(request());
    let mut text = String::new();
    while let Some(event) = run.next().await {
        text.push_str(event.text().unwrap_or_default());
    }
    assert_eq!(text, "Done.");
}
