//! Bytes in, handlers out: what runs after each kind of reply, what the next request says of it, and how the
//! run ends. Over HTTP, on Anthropic Messages and Chat Completions.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

#[path = "loop/kit.rs"]
mod kit;

use std::sync::Arc;

use kit::{ANTHROPIC, CHAT, Kit, Log, ended, tail};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use turnstream::{Request, Tool};
use turnstream_testing::{HttpWire, OverHttp, Reply};

/// What must become of a reply.
struct Want<'a> {
    /// The handlers that ran, with their arguments, in the order of their starts.
    ran: &'a [&'a str],
    /// What the next request says behind the user's words; `None` if there must be no next request.
    next: Option<&'a [&'a str]>,
    /// How the run ended.
    end: &'a str,
}

/// The end of the second turn, where there is one.
const ANSWER: &str = "That is all.";

async fn check<W: HttpWire>(kit: Kit<W>, row: &str, reply: Reply<OverHttp<W>>, want: Want<'_>) {
    let log = Log::default();
    let both = Arc::new(Barrier::new(2));
    let meeting = log.clone();
    let tools = [
        log.tool("f", "done"),
        log.tool_that("fail", || Err("boom".into())),
        // Each of two calls waits until the other is there: one after the other would never end.
        Tool::new("meet").handler(move |arguments: Value| {
            meeting.add(format!("meet {arguments}"));
            let both = both.clone();
            async move {
                both.wait().await;
                Ok(arguments)
            }
        }),
    ];
    let mut replies = vec![reply];
    replies.extend(want.next.map(|_| kit.answer(ANSWER)));
    let played = kit.play(replies, tools, Request::new().user("go")).await;
    let row = format!("{row}, on {}", kit.wire.name());
    assert_eq!(log.take(), want.ran, "which handlers ran: {row}");
    assert_eq!(ended(&played.outcome), want.end, "how the run ended: {row}");
    let next = played.requests.get(1).map(tail);
    let wanted = want.next.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
    assert_eq!(next, wanted, "what the next request says: {row}");
    // However it ended, the conversation can be sent again.
    assert!(played.outcome.conversation.open_calls().is_empty(), "{row}");
    let again = Request::new().messages(played.outcome.conversation).user("and now?");
    let played = kit.play([kit.answer(ANSWER)], [], again).await;
    assert_eq!(ended(&played.outcome), "finished", "sent again: {row}");
}

/// The same reply must have the same effect on both wires.
async fn check_both(row: &str, reply: fn(Build) -> Build, want: fn() -> Want<'static>) {
    check(ANTHROPIC, row, reply(Build::Anthropic((ANTHROPIC.reply)())).anthropic(), want()).await;
    check(CHAT, row, reply(Build::Chat((CHAT.reply)())).chat(), want()).await;
}

/// A reply of either wire, in words that both have.
enum Build {
    Anthropic(Reply<OverHttp<turnstream_testing::anthropic::Messages>>),
    Chat(Reply<OverHttp<turnstream_testing::openai_chat::Completions>>),
}

impl Build {
    fn text(self, text: &str) -> Self {
        match self {
            Self::Anthropic(reply) => Self::Anthropic(reply.text([text])),
            Self::Chat(reply) => Self::Chat(reply.text([text])),
        }
    }

    fn call(self, id: &str, name: &str, arguments: &str) -> Self {
        match self {
            Self::Anthropic(reply) => Self::Anthropic(reply.call_raw(id, name, arguments)),
            Self::Chat(reply) => Self::Chat(reply.call_raw(id, name, arguments)),
        }
    }

    fn interleaved(self, calls: [(&str, &str, Value); 2]) -> Self {
        match self {
            Self::Anthropic(reply) => Self::Anthropic(reply.interleaved_calls(calls).fragments_of(2)),
            Self::Chat(reply) => Self::Chat(reply.interleaved_calls(calls).fragments_of(2)),
        }
    }

    /// The wire's word for calls, said outright: the script then leaves the ids of the results to the test.
    fn stop_for_calls(self) -> Self {
        match self {
            Self::Anthropic(reply) => Self::Anthropic(reply.stop(ANTHROPIC.calls_word)),
            Self::Chat(reply) => Self::Chat(reply.stop(CHAT.calls_word)),
        }
    }

    fn length(self) -> Self {
        match self {
            Self::Anthropic(reply) => Self::Anthropic(reply.length()),
            Self::Chat(reply) => Self::Chat(reply.length()),
        }
    }

    fn cut(self) -> Self {
        match self {
            Self::Anthropic(reply) => Self::Anthropic(reply.cut()),
            Self::Chat(reply) => Self::Chat(reply.cut()),
        }
    }

    fn anthropic(self) -> Reply<OverHttp<turnstream_testing::anthropic::Messages>> {
        match self {
            Self::Anthropic(reply) => reply,
            Self::Chat(_) => panic!("it is the other wire's"),
        }
    }

    fn chat(self) -> Reply<OverHttp<turnstream_testing::openai_chat::Completions>> {
        match self {
            Self::Chat(reply) => reply,
            Self::Anthropic(_) => panic!("it is the other wire's"),
        }
    }
}

/// Nothing ran, and nothing more was asked.
fn nothing(end: &'static str) -> Want<'static> {
    Want { ran: &[], next: None, end }
}

#[tokio::test]
async fn the_body_ends_behind_complete_arguments() {
    let reply = |reply: Build| reply.text("Let me look.").call("a", "f", r#"{"x":1}"#).cut();
    check_both("the end behind complete arguments", reply, || nothing("failed: truncated")).await;
}

#[tokio::test]
async fn the_body_ends_in_mid_arguments() {
    let reply = |reply: Build| reply.call("a", "f", r#"{"path": "/tm"#).cut();
    check_both("the end in mid-arguments", reply, || nothing("failed: truncated")).await;
    let reply = |reply: Build| reply.call("a", "f", r#"{"x":1}"#).call("b", "f", r#"{"x""#).cut();
    check_both("the end in the second call's arguments", reply, || nothing("failed: truncated")).await;
}

#[tokio::test]
async fn the_token_limit_is_met_in_a_call() {
    let cut = |reply: Build| reply.call("a", "f", r#"{"path": "/tm"#).length();
    check_both("the token limit in mid-arguments", cut, || nothing("stopped by length")).await;
    let complete = |reply: Build| reply.call("a", "f", r#"{"x":1}"#).length();
    check_both("the token limit behind complete arguments", complete, || nothing("stopped by length")).await;
    let none = |reply: Build| reply.call("a", "f", "").length();
    check_both("the token limit before any argument", none, || nothing("stopped by length")).await;
    let sibling = |reply: Build| reply.call("a", "f", r#"{"x":1}"#).call("b", "f", r#"{"x""#).length();
    check_both("the token limit behind a whole call", sibling, || nothing("stopped by length")).await;
}

#[tokio::test]
async fn the_model_refuses() {
    let reply = (ANTHROPIC.reply)().call_raw("a", "f", r#"{"x":1}"#).refusal(["I won't."]).stop("refusal");
    check(ANTHROPIC, "a refusal", reply, nothing("stopped by refusal")).await;
    let reply = (CHAT.reply)().call_raw("a", "f", r#"{"x":1}"#).refusal(["I won't."]).stop("stop");
    check(CHAT, "a refusal", reply, nothing("stopped by refusal")).await;
}

#[tokio::test]
async fn the_filter_stops_the_reply() {
    let reply = (ANTHROPIC.reply)().text(["It"]).call_raw("a", "f", r#"{"x":1}"#).content_filter();
    check(ANTHROPIC, "the filter", reply, nothing("stopped by refusal")).await;
    let reply = (CHAT.reply)().text(["It"]).call_raw("a", "f", r#"{"x":1}"#).content_filter();
    check(CHAT, "the filter", reply, nothing("stopped by content_filter")).await;
}

#[tokio::test]
async fn the_arguments_are_no_json() {
    let reply =
        |reply: Build| reply.call("a", "f", r#"{"x":}"#).call("b", "f", r#"{"x":2}"#).stop_for_calls();
    let words = "The arguments are not one valid JSON value (expected value at line 1 column 6), so the tool \
                 was not run. They were: {\"x\":}";
    let calls = ["call a f {}", r#"call b f {"x":2}"#];
    let (on_chat, on_anthropic) = (format!("result a: Error: {words}"), format!("result a: {words}"));
    let want = |result| Want { ran: &[r#"f {"x":2}"#], next: Some(result), end: "finished" };
    let lines = [calls[0], calls[1], &on_anthropic, "result b: done"];
    check(ANTHROPIC, "invalid JSON", reply(Build::Anthropic((ANTHROPIC.reply)())).anthropic(), want(&lines))
        .await;
    let lines = [calls[0], calls[1], &on_chat, "result b: done"];
    check(CHAT, "invalid JSON", reply(Build::Chat((CHAT.reply)())).chat(), want(&lines)).await;
}

#[tokio::test]
async fn an_id_stands_twice() {
    let reply =
        |reply: Build| reply.call("x:0", "f", r#"{"x":1}"#).call("x:0", "f", r#"{"x":2}"#).stop_for_calls();
    let ran: &[&str] = &[r#"f {"x":1}"#, r#"f {"x":2}"#];
    // Chat Completions takes the id as it is.
    let next: &[&str] =
        &[r#"call x:0 f {"x":1}"#, r#"call x:0_2 f {"x":2}"#, "result x:0: done", "result x:0_2: done"];
    check(
        CHAT,
        "duplicate ids",
        reply(Build::Chat((CHAT.reply)())).chat(),
        Want { ran, next: Some(next), end: "finished" },
    )
    .await;
    let reply =
        |reply: Build| reply.call("x", "f", r#"{"x":1}"#).call("x", "f", r#"{"x":2}"#).stop_for_calls();
    check_both("duplicate ids", reply, || Want {
        ran: &[r#"f {"x":1}"#, r#"f {"x":2}"#],
        next: Some(&[r#"call x f {"x":1}"#, r#"call x_2 f {"x":2}"#, "result x: done", "result x_2: done"]),
        end: "finished",
    })
    .await;
}

#[tokio::test]
async fn nobody_knows_the_tool() {
    let reply = |reply: Build| reply.call("a", "g", "{}").call("b", "f", "{}");
    let words = "There is no tool `g`. The tools are: f, fail, meet.";
    let (on_anthropic, on_chat) = (format!("result a: {words}"), format!("result a: Error: {words}"));
    let want = |next| Want { ran: &["f {}"], next: Some(next), end: "finished" };
    let lines = ["call a g {}", "call b f {}", &on_anthropic, "result b: done"];
    check(ANTHROPIC, "unknown tool", reply(Build::Anthropic((ANTHROPIC.reply)())).anthropic(), want(&lines))
        .await;
    let lines = ["call a g {}", "call b f {}", &on_chat, "result b: done"];
    check(CHAT, "unknown tool", reply(Build::Chat((CHAT.reply)())).chat(), want(&lines)).await;
}

#[tokio::test]
async fn something_new_stands_between_the_fragments() {
    let want = || Want {
        ran: &[r#"f {"x":1}"#],
        next: Some(&[r#"call a f {"x":1}"#, "result a: done"]),
        end: "finished",
    };
    let start = json!({ "type": "tool_use", "id": "a", "name": "f", "input": {} });
    let fragment = |text: &str| json!({ "type": "input_json_delta", "partial_json": text });
    let delta = |delta: Value| json!({ "type": "content_block_delta", "index": 0, "delta": delta });
    let block = json!({ "type": "content_block_start", "index": 0, "content_block": start });
    let reply = (ANTHROPIC.reply)()
        .frame("content_block_start", block)
        .frame("content_block_delta", delta(fragment("{\"x\"")))
        .frame("content_block_delta", delta(json!({ "type": "brand_new_delta", "note": "{}" })))
        .frame("brand_new_frame", json!({ "type": "brand_new_frame", "index": 0 }))
        .frame("content_block_delta", delta(fragment(":1}")))
        .frame("content_block_stop", json!({ "type": "content_block_stop", "index": 0 }))
        .stop("tool_use");
    check(ANTHROPIC, "an unknown delta type", reply, want()).await;

    let delta = |delta: Value| json!({ "id": "c", "choices": [{ "index": 0, "delta": delta }] });
    let call = |arguments: &str| json!({ "index": 0, "function": { "arguments": arguments } });
    let opening = json!({ "index": 0, "id": "a", "type": "function", "function": { "name": "f" } });
    let reply = (CHAT.reply)()
        .frame("", delta(json!({ "tool_calls": [opening] })))
        .frame("", delta(json!({ "tool_calls": [call("{\"x\"")] })))
        .frame("", delta(json!({ "brand_new": { "note": "{}" } })))
        .frame("", json!({ "type": "brand_new_frame" }))
        .frame("", delta(json!({ "tool_calls": [call(":1}")] })))
        .stop("tool_calls");
    check(CHAT, "an unknown delta", reply, want()).await;
}

#[tokio::test]
async fn the_fragments_of_two_calls_take_turns() {
    let reply = |reply: Build| {
        reply.interleaved([("a", "f", json!({ "x": "AAAA" })), ("b", "f", json!({ "x": "BBBB" }))])
    };
    check_both("interleaved calls", reply, || Want {
        ran: &[r#"f {"x":"AAAA"}"#, r#"f {"x":"BBBB"}"#],
        next: Some(&[
            r#"call a f {"x":"AAAA"}"#,
            r#"call b f {"x":"BBBB"}"#,
            "result a: done",
            "result b: done",
        ]),
        end: "finished",
    })
    .await;
}

#[tokio::test]
async fn a_call_has_no_id() {
    let call = json!({ "index": 0, "function": { "name": "f", "arguments": "{\"x\":1}" } });
    let chunk = json!({ "id": "c", "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] });
    let reply = (CHAT.reply)().frame("", chunk).stop("tool_calls");
    let next = Some(&[r#"call turnstream_call_0 f {"x":1}"#, "result turnstream_call_0: done"][..]);
    check(CHAT, "a missing id", reply, Want { ran: &[r#"f {"x":1}"#], next, end: "finished" }).await;

    let start = json!({ "type": "tool_use", "name": "f", "input": { "x": 1 } });
    let block = json!({ "type": "content_block_start", "index": 0, "content_block": start });
    let reply = (ANTHROPIC.reply)()
        .frame("content_block_start", block)
        .frame("content_block_stop", json!({ "type": "content_block_stop", "index": 0 }))
        .stop("tool_use");
    check(ANTHROPIC, "a missing id", reply, Want { ran: &[r#"f {"x":1}"#], next, end: "finished" }).await;
}

#[tokio::test]
async fn a_handler_fails() {
    let reply = |reply: Build| reply.call("a", "fail", "{}").call("b", "f", "{}");
    let want = |next| Want { ran: &["fail {}", "f {}"], next: Some(next), end: "finished" };
    let lines = ["call a fail {}", "call b f {}", "result a: boom", "result b: done"];
    check(ANTHROPIC, "handler error", reply(Build::Anthropic((ANTHROPIC.reply)())).anthropic(), want(&lines))
        .await;
    let lines = ["call a fail {}", "call b f {}", "result a: Error: boom", "result b: done"];
    check(CHAT, "handler error", reply(Build::Chat((CHAT.reply)())).chat(), want(&lines)).await;
}

#[tokio::test]
async fn two_calls_run_side_by_side() {
    let reply = |reply: Build| reply.call("a", "meet", r#"{"n":1}"#).call("b", "meet", r#"{"n":2}"#);
    check_both("two calls", reply, || Want {
        ran: &[r#"meet {"n":1}"#, r#"meet {"n":2}"#],
        next: Some(&[
            r#"call a meet {"n":1}"#,
            r#"call b meet {"n":2}"#,
            r#"result a: {"n":1}"#,
            r#"result b: {"n":2}"#,
        ]),
        end: "finished",
    })
    .await;
}

#[tokio::test]
async fn the_provider_pauses() {
    let reply = (ANTHROPIC.reply)().text(["Searching."]).stop("pause_turn");
    let want = Want { ran: &[], next: Some(&["model: Searching."]), end: "finished" };
    check(ANTHROPIC, "a pause", reply, want).await;
    let reply = (ANTHROPIC.reply)().text(["Searching."]).call_raw("a", "f", "{}").stop("pause_turn");
    let next = Some(&["model: Searching.", "call a f {}", "result a: done"][..]);
    check(ANTHROPIC, "a pause with a call", reply, Want { ran: &["f {}"], next, end: "finished" }).await;
    // Chat Completions has no pause: the word is one of those that nobody knows, and ends the run.
    let reply = (CHAT.reply)().text(["Searching."]).stop("pause_turn");
    check(CHAT, "an unknown word", reply, nothing("finished")).await;
}
