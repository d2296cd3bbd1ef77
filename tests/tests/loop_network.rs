//! The loop over connections that break, hang and are dropped, and over two providers.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

#[path = "loop/kit.rs"]
mod kit;

use kit::{ANTHROPIC, CHAT, Kit, Log, RESPONSES, ended, tail};
use serde_json::Value;
use turnstream::{Fallback, Request, RunEvent, Tool, ToolLoop};
use turnstream_testing::{Gate, HttpWire, ReplayServer};
use wiremock::MockServer;

fn request() -> Request {
    Request::new().user("go")
}

#[tokio::test]
async fn dropping_a_run_in_mid_turn_closes_the_connection() {
    async fn check<W: HttpWire>(kit: Kit<W>) {
        let gate = Gate::new();
        let server = ReplayServer::start([(kit.reply)().text(["Let me"]).gate(&gate).text(["look."])]).await;
        let server = server.unwrap();
        let mut run = ToolLoop::new(kit.wire.client(&server.base_url())).run(request());
        while run.next().await.unwrap().text().is_none() {}
        drop(run);
        server.client_gone().await;
        assert_eq!(server.connections(), 1, "{:?}", kit.wire);
    }
    check(ANTHROPIC).await;
    check(CHAT).await;
    check(RESPONSES).await;
}

#[tokio::test]
async fn cancelling_a_run_in_mid_turn_closes_the_connection_and_keeps_what_came() {
    let gate = Gate::new();
    let server = ReplayServer::start([(ANTHROPIC.reply)().text(["Let me"]).gate(&gate)]).await.unwrap();
    let mut run = ToolLoop::new(ANTHROPIC.wire.client(&server.base_url())).run(request());
    while run.next().await.unwrap().text().is_none() {}
    let outcome = run.cancel();
    server.client_gone().await;
    assert_eq!((ended(&outcome).as_str(), outcome.text()), ("cancelled", "Let me"));
}

#[tokio::test]
async fn an_eager_call_of_a_turn_that_is_cut_keeps_its_result_and_no_further_call_runs() {
    async fn check<W: HttpWire>(kit: Kit<W>) {
        let gate = Gate::new();
        // The text behind the first call ends it; the second one is open when the body ends.
        let reply = (kit.reply)()
            .call_raw("a", "read", r#"{"n":1}"#)
            .text(["And now"])
            .gate(&gate)
            .call_raw("b", "read", r#"{"n":2}"#)
            .cut();
        let server = ReplayServer::start([reply]).await.unwrap();
        let log = Log::default();
        let tools = [log.tool("read", "found").eager(), log.tool("write", "written")];
        let mut run = ToolLoop::new(kit.wire.client(&server.base_url())).tools(tools).run(request());
        loop {
            match run.next().await.unwrap() {
                RunEvent::HandlerFinished(_) => gate.open(),
                RunEvent::Ended(_) => break,
                _ => {}
            }
        }
        let outcome = run.outcome();
        assert_eq!(ended(&outcome), "failed: truncated", "{:?}", kit.wire);
        assert_eq!(log.take(), [r#"read {"n":1}"#]);
        assert!(outcome.conversation.open_calls().is_empty());

        // The result goes back to the provider in the next request, and the call does not run again.
        let again = Request::new().messages(outcome.conversation).user("go on");
        let played = kit.play([kit.answer("Done.")], [log.tool("read", "found").eager()], again).await;
        let said = tail(&played.requests[0]);
        assert!(said.contains(&"result a: found".to_owned()), "{said:?}");
        assert_eq!(said.iter().filter(|line| line.starts_with("call ")).count(), 1, "{said:?}");
        assert_eq!(log.take(), [""; 0]);
    }
    check(ANTHROPIC).await;
    check(RESPONSES).await;
}

#[tokio::test]
async fn another_provider_goes_on_with_the_same_calls_and_results() {
    let (first, second) = (MockServer::start().await, MockServer::start().await);
    // An id that Anthropic does not take, twice.
    let calls = (CHAT.reply)()
        .text(["Let me look."])
        .call_raw("f:0", "f", r#"{"x":1}"#)
        .call_raw("f:0", "f", r#"{"x":2}"#)
        .stop("tool_calls");
    let down = (CHAT.reply)().refused(503, "overloaded", "Busy.");
    let chat = (CHAT.script)().turn(calls).turn(down).mount(&first).await;
    let anthropic = (ANTHROPIC.script)().turn(ANTHROPIC.answer("Done.")).mount(&second).await;

    let model = Fallback::new(CHAT.wire.client(&first.uri())).or(ANTHROPIC.wire.client(&second.uri()));
    let tool = Tool::new("f").handler(|args: Value| async move { Ok(args["x"].clone()) });
    let outcome = ToolLoop::new(model).tool(tool).run(request()).finish().await;
    assert_eq!((ended(&outcome).as_str(), outcome.text()), ("finished", "Done."));

    let refused = tail(&chat.requests()[1]);
    let asked = &anthropic.requests()[0];
    assert!(asked.problems().is_empty(), "{:?}", asked.problems());
    let ids: Vec<&str> = asked.calls().map(|call| call.id.as_str()).collect();
    let answered: Vec<&str> = asked.results().map(|result| result.call_id.as_str()).collect();
    assert_eq!(ids, answered, "call and result have the same id");
    assert!(
        ids.iter().all(|id| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)))
    );
    // But for the ids it is what the first one was told.
    let without_ids = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(without_ids(&tail(asked)), without_ids(&refused));
    chat.verify();
    anthropic.verify();
}
