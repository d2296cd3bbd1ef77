//! What is asked again, and after how long.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use serde_json::json;
use turnstream::{
    Client, Error, ErrorKind, Event, Request, RetryPolicy, anthropic::Anthropic, openai_chat::OpenAiChat,
};
use turnstream_testing::{Recording, ReplayServer, anthropic::Reply, openai_chat};

use crate::failure;

/// Half of what may be waited.
fn policy() -> RetryPolicy {
    RetryPolicy::new().jitter(|| 0.5)
}

#[tokio::test]
async fn case_130_retry_after_forms() {
    const DATE: (&str, &str) = ("date", "Wed, 01 Jan 2025 00:00:00 GMT");
    let own = Some(Duration::from_millis(250));
    let millis = |millis| Some(Duration::from_millis(millis));
    let table: [(&[(&str, &str)], _, _); 13] = [
        (&[("retry-after", "2")], millis(2000), millis(2000)),
        (&[("retry-after", "1.5")], millis(1500), millis(1500)),
        (&[DATE, ("retry-after", "Wed, 01 Jan 2025 00:00:07 GMT")], millis(7000), millis(7000)),
        (&[DATE, ("retry-after", "Wednesday, 01-Jan-25 00:00:07 GMT")], millis(7000), millis(7000)),
        (&[DATE, ("retry-after", "Tue, 31 Dec 2024 23:00:00 GMT")], millis(0), own),
        (&[("retry-after", "0")], millis(0), own),
        (&[("retry-after-ms", "350"), ("retry-after", "9")], millis(350), millis(350)),
        (&[("retry-after-ms", "soon"), ("retry-after", "9")], millis(9000), millis(9000)),
        (&[("retry-after", "60")], millis(60_000), millis(60_000)),
        (&[("retry-after", "86400")], millis(86_400_000), None),
        (&[("retry-after", "soon")], None, own),
        (&[("retry-after", "-1")], None, own),
        (&[("x-should-retry", "false"), ("retry-after", "1")], millis(1000), None),
    ];
    for (headers, asked, waited) in table {
        let body = json!({ "error": { "message": "Slow down." } }).to_string();
        let mut reply = Recording::new(body).status(429).header("content-type", "application/json");
        for (name, value) in headers {
            reply = reply.header(*name, *value);
        }
        let server = ReplayServer::start([reply]).await.unwrap();
        let wire = OpenAiChat::new("m").base_url(server.base_url());
        let client = Client::new(wire).retries(RetryPolicy::never());
        let (_, error) = failure(&mut client.stream(&Request::new().user("?"))).await;
        assert_eq!((error.kind(), error.status()), (ErrorKind::RateLimited, Some(429)));
        assert_eq!((error.retry_after(), policy().decide(1, &error)), (asked, waited), "{headers:?}");
    }
}

/// The wait is really waited, and no longer.
#[tokio::test]
async fn case_130_retry_after_forms_are_what_is_waited() {
    let refusal = Recording::new("").status(429).header("retry-after", "7");
    let good = Recording::from(openai_chat::Reply::new().text(["Hello."]).end());
    let server = ReplayServer::start([refusal, good]).await.unwrap();
    let client = Client::new(OpenAiChat::new("m").base_url(server.base_url())).retries(policy());
    let mut turn = client.stream(&Request::new().user("?"));
    let mut context = Context::from_waker(Waker::noop());
    let mut poll = |turn: &mut _| -> Poll<_> {
        turnstream::wire::reexports::futures_core::Stream::poll_next(Pin::new(turn), &mut context)
    };
    while turn.head().is_none() {
        assert!(poll(&mut turn).is_pending());
        tokio::task::yield_now().await;
    }
    // The refusal's end has come with its head, or comes now.
    for _ in 0..1000 {
        assert!(poll(&mut turn).is_pending());
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(6900)).await;
    assert!(poll(&mut turn).is_pending());
    assert_eq!((server.requests().len(), turn.attempts()), (1, 1));
    tokio::time::advance(Duration::from_millis(200)).await;
    tokio::time::resume();
    let turn_head = turn.next().await.unwrap().unwrap();
    assert!(matches!(turn_head, Event::TurnStarted(_)));
    assert_eq!((server.requests().len(), turn.attempts()), (2, 2));
}

/// A reply that fails with an error in its stream, behind whatever else it says.
fn in_stream(before: fn(Reply) -> Reply, code: &str) -> Recording {
    before(Reply::new().ping()).error(code, "Overloaded").into()
}

/// Nothing is said before the error.
fn nothing(reply: Reply) -> Reply {
    reply
}

fn at_once(server: &ReplayServer) -> Client {
    let wire = Anthropic::new("m").base_url(server.base_url());
    Client::new(wire).retries(RetryPolicy::new().base_delay(Duration::ZERO))
}

#[tokio::test]
async fn case_131_retry_only_before_first_event() {
    // An attempt that dies before any output is nobody's business; the last one's error is.
    let dying = || in_stream(nothing, "overloaded_error");
    let server = ReplayServer::start([dying(), dying(), dying()]).await.unwrap();
    let mut turn = at_once(&server).stream(&Request::new().user("?"));
    let (events, error) = failure(&mut turn).await;
    let line = json!({
        "type": "error",
        "kind": "provider",
        "message": "Overloaded",
        "partial": false,
        "code": "overloaded_error",
        "request_id": "req_test",
    });
    let mut said = serde_json::to_value(&error).unwrap();
    // The start of the body is there to be looked at.
    said.as_object_mut().unwrap().remove("body");
    assert_eq!((events, said), (1, line));
    assert_eq!((server.requests().len(), turn.attempts()), (3, 3));

    let server = ReplayServer::start([dying(), Reply::new().text(["Hello."]).end().into()]).await.unwrap();
    let turn = at_once(&server).stream(&Request::new().user("?")).into_turn().await.unwrap();
    assert_eq!((turn.text(), server.requests().len()), ("Hello.".to_owned(), 2));
    let requests = server.requests();
    assert_eq!((&requests[0].body, &requests[0].headers), (&requests[1].body, &requests[1].headers));
}

#[tokio::test]
async fn case_131_retry_only_before_first_event_and_never_after_output() {
    let text = |reply: Reply| reply.text(["Hel"]);
    let call = |reply: Reply| reply.call_raw("toolu_1", "f", "{\"a\":");
    for before in [text, call] as [fn(Reply) -> Reply; 2] {
        let again = Recording::from(Reply::new().text(["Hello."]).end());
        let server = ReplayServer::start([in_stream(before, "overloaded_error"), again]).await.unwrap();
        let (_, error) = failure(&mut at_once(&server).stream(&Request::new().user("?"))).await;
        assert_eq!((error.kind(), error.partial()), (ErrorKind::Provider, true));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn case_132_529_and_in_stream_kinds() {
    async fn error_of(reply: Recording) -> Error {
        let server = ReplayServer::start([reply]).await.unwrap();
        let client = at_once(&server).retries(RetryPolicy::never());
        failure(&mut client.stream(&Request::new().user("?"))).await.1
    }
    let overloaded =
        json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
    let refusal =
        Recording::new(overloaded.to_string()).status(529).header("content-type", "application/json");
    let table = [
        (refusal, ErrorKind::Overloaded, Some(529), "overloaded_error", true),
        (in_stream(nothing, "overloaded_error"), ErrorKind::Provider, None, "overloaded_error", true),
        (
            in_stream(nothing, "invalid_request_error"),
            ErrorKind::Provider,
            None,
            "invalid_request_error",
            false,
        ),
    ];
    for (reply, kind, status, code, is_retryable) in table {
        let error = error_of(reply).await;
        assert_eq!((error.kind(), error.status(), error.code()), (kind, status, Some(code)));
        assert_eq!(error.is_retryable(), is_retryable, "{error}");
    }
}

/// Inside a stream with status 200, and before any output, a number counts as the status that it is.
#[tokio::test]
async fn case_132_529_and_in_stream_kinds_of_numbers() {
    let table = [
        (429, true),
        (500, true),
        (502, true),
        (503, true),
        (529, true),
        (400, false),
        (401, false),
        (404, false),
    ];
    for (code, is_retried) in table {
        let error = json!({ "error": { "message": "It says why.", "code": code } });
        // The error's frame alone: no output, and no start of a turn before it.
        let failing = || {
            let frame = openai_chat::Reply::new().frame("", &error).cut().chunks().pop();
            Recording::chunks(frame)
        };
        let good = Recording::from(openai_chat::Reply::new().text(["Hello."]).end());
        let server = ReplayServer::start([failing(), good]).await.unwrap();
        let retries = RetryPolicy::new().base_delay(Duration::ZERO);
        let client = Client::new(OpenAiChat::new("m").base_url(server.base_url())).retries(retries);
        let turn = client.stream(&Request::new().user("?")).into_turn().await;
        assert_eq!(turn.is_ok(), is_retried, "{code}");
        assert_eq!(server.requests().len(), if is_retried { 2 } else { 1 });
        if let Err(error) = turn {
            let error = error.error();
            let text = code.to_string();
            assert_eq!((error.kind(), error.status()), (ErrorKind::Provider, None));
            assert_eq!((error.code(), error.message()), (Some(text.as_str()), "It says why."));
        }
    }
}
