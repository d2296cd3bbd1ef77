//! Replies that are not a stream, on every wire: each is a typed error with the status, the request's id, the
//! wait that is asked for and the start of the body.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::time::Duration;

use turnstream::{Error, ErrorKind, Request};
use turnstream_testing::{Recording, ReplayServer};
use turnstream_tests::TestedWire;

const PAGE: &str = "<!doctype html>\n<html><head><title>Sign in</title></head></html>\n";
const SAYS_WHY: &str = r#"{"error":{"message":"It says why.","type":"invalid_request_error","code":"why"}}"#;
/// `data: {}` and a blank line, compressed by gzip.
const GZIP: [u8; 30] = [
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xff, 0x4b, 0x49, 0x2c, 0x49, 0xb4, 0x52, 0xa8,
    0xae, 0xe5, 0xe2, 0x02, 0x00, 0x65, 0x57, 0x48, 0xeb, 0x0a, 0x00, 0x00, 0x00,
];

/// The error of a turn on a wire that meets a reply, and the one that the same reply makes in pieces of a byte.
async fn error_of(wire: TestedWire, reply: &Recording) -> Error {
    let reply = reply.clone().header("x-request-id", "req_1").header("retry-after", "7");
    let server = ReplayServer::start([reply.clone(), reply.in_chunks_of(1)]).await.unwrap();
    let client = wire.client(&server.base_url());
    let mut errors = Vec::new();
    for _ in 0..2 {
        let mut turn = client.stream(&Request::new().user("?"));
        let error = turn.next().await.unwrap().unwrap_err();
        assert!(turn.next().await.is_none());
        assert!(!error.partial());
        errors.push(error);
    }
    let lines: Vec<String> = errors.iter().map(|error| serde_json::to_string(error).unwrap()).collect();
    assert_eq!(lines[0], lines[1]);
    errors.remove(0)
}

/// What is asserted of an error: kind, status, code, and the start of the body.
type Want<'a> = (ErrorKind, Option<u16>, Option<&'a str>, Option<&'a str>);

/// The wires that are server-sent events and nothing else.
const SSE: [TestedWire; 3] = [TestedWire::Anthropic, TestedWire::OpenAiChat, TestedWire::OpenAiResponses];

async fn check(wires: &[TestedWire], reply: Recording, want: Want<'_>) {
    for &wire in wires {
        let error = error_of(wire, &reply).await;
        let (kind, status, code, body) = want;
        let name = wire.name();
        assert_eq!((error.kind(), error.status(), error.code()), (kind, status, code), "{name}: {error:?}");
        assert_eq!(error.body(), body, "{name}");
        assert_eq!((error.request_id(), error.retry_after()), (Some("req_1"), Some(Duration::from_secs(7))));
    }
}

#[tokio::test]
async fn pages_and_texts_with_status_200_are_not_streams() {
    let want = |body| (ErrorKind::NotAStream, Some(200), None, Some(body));
    for content_type in ["text/html", "text/plain", "text/event-stream", "application/json"] {
        let reply = |body: &str| Recording::new(body).header("content-type", content_type);
        check(&TestedWire::ALL, reply(PAGE), want(PAGE)).await;
        check(&TestedWire::ALL, reply("OK"), want("OK")).await;
        check(
            &TestedWire::ALL,
            reply("upstream connect error\n\nreset"),
            want("upstream connect error\n\nreset"),
        )
        .await;
        check(&SSE, reply(r#"{"choices":[],"model":"m"}"#), want(r#"{"choices":[],"model":"m"}"#)).await;
    }
}

#[tokio::test]
async fn an_error_in_json_with_status_200_is_the_providers() {
    let wants = (ErrorKind::Provider, Some(200), Some("why"), Some(SAYS_WHY));
    for content_type in ["application/json", "text/event-stream"] {
        check(&TestedWire::ALL, Recording::new(SAYS_WHY).header("content-type", content_type), wants).await;
    }
}

#[tokio::test]
async fn compressed_replies_are_not_streams_with_and_without_the_header() {
    for wire in TestedWire::ALL {
        let bare = error_of(wire, &Recording::new(GZIP)).await;
        let labelled = error_of(wire, &Recording::new(GZIP).header("content-encoding", "gzip")).await;
        let unknown = error_of(wire, &Recording::new("x").header("content-encoding", "br, zstd")).await;
        for (error, encoding) in [(bare, "gzip"), (labelled, "gzip"), (unknown, "br, zstd")] {
            assert_eq!((error.kind(), error.status()), (ErrorKind::NotAStream, Some(200)));
            assert!(error.message().contains(encoding), "{error}");
        }
        // No encoding at all is what everyone has.
        let identity = Recording::new(SAYS_WHY).header("content-encoding", "identity");
        assert_eq!(error_of(wire, &identity).await.kind(), ErrorKind::Provider);
    }
}

#[tokio::test]
async fn bodies_that_are_empty_or_not_there_say_so() {
    check(&TestedWire::ALL, Recording::new("").status(204), (ErrorKind::NotAStream, Some(204), None, None))
        .await;
    check(&TestedWire::ALL, Recording::new("").status(205), (ErrorKind::NotAStream, Some(205), None, None))
        .await;
    check(&TestedWire::ALL, Recording::new(""), (ErrorKind::Truncated, None, None, None)).await;
    check(&TestedWire::ALL, Recording::new("\n\n"), (ErrorKind::Truncated, None, None, None)).await;
    check(&SSE, Recording::new(": ping\n\n: ping\n\n"), (ErrorKind::Truncated, None, None, None)).await;
}

#[tokio::test]
async fn a_body_that_dies_in_its_first_words_is_a_cut() {
    for start in ["", "da", "data: {\"ty", ": pi"] {
        check(&SSE, Recording::new(start).cut(), (ErrorKind::Truncated, None, None, None)).await;
    }
}

#[tokio::test]
async fn refusals_have_the_kind_of_their_status_and_the_words_of_their_body() {
    let table = [
        (400, ErrorKind::InvalidRequest),
        (401, ErrorKind::Authentication),
        (402, ErrorKind::PermissionDenied),
        (403, ErrorKind::PermissionDenied),
        (404, ErrorKind::NotFound),
        (405, ErrorKind::InvalidRequest),
        (408, ErrorKind::Server),
        (409, ErrorKind::Server),
        (413, ErrorKind::InvalidRequest),
        (418, ErrorKind::InvalidRequest),
        (422, ErrorKind::InvalidRequest),
        (429, ErrorKind::RateLimited),
        (500, ErrorKind::Server),
        (502, ErrorKind::Server),
        (503, ErrorKind::Overloaded),
        (504, ErrorKind::Server),
        (529, ErrorKind::Overloaded),
        (599, ErrorKind::Server),
    ];
    for (status, kind) in table {
        let reply = |body: &str| Recording::new(body).status(status);
        check(&TestedWire::ALL, reply(SAYS_WHY), (kind, Some(status), Some("why"), Some(SAYS_WHY))).await;
    }
    for (status, kind) in [(404, ErrorKind::NotFound), (502, ErrorKind::Server)] {
        let reply = |body: &str| Recording::new(body).status(status);
        check(&TestedWire::ALL, reply(PAGE), (kind, Some(status), None, Some(PAGE))).await;
        check(&TestedWire::ALL, reply(""), (kind, Some(status), None, Some(""))).await;
    }
}

#[tokio::test]
async fn a_refusal_is_read_up_to_a_limit() {
    let long = "é".repeat(200 << 10);
    let start = long.get(..2048).unwrap();
    for wire in TestedWire::ALL {
        let server = ReplayServer::start([Recording::new(long.clone()).status(500)]).await.unwrap();
        let mut turn = wire.client(&server.base_url()).stream(&Request::new().user("?"));
        let error = turn.next().await.unwrap().unwrap_err();
        assert_eq!((error.status(), error.body()), (Some(500), Some(start)));
    }
}

#[tokio::test]
async fn redirects_are_errors_that_name_their_target_and_nobody_is_asked_there() {
    for wire in TestedWire::ALL {
        let elsewhere = ReplayServer::start(Vec::<Recording>::new()).await.unwrap();
        for status in [301, 302, 303, 307, 308] {
            let target = format!("{}/v1?key=hidden", elsewhere.base_url());
            let reply = Recording::new("").status(status).header("location", target);
            let error = error_of(wire, &reply).await;
            assert_eq!((error.kind(), error.status()), (ErrorKind::NotFound, Some(status)));
            let shown = format!("{}/v1, which is not followed", elsewhere.base_url());
            assert!(error.message().ends_with(&shown), "{error}");
        }
        assert_eq!(elsewhere.connections(), 0);
    }
}
