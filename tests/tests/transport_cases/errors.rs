//! What an error keeps, and what it and everything else hides.

use std::{error::Error as StdError, time::Duration};

use serde_json::json;
use turnstream::{
    Client, Error, ErrorKind, Request, RetryPolicy,
    anthropic::Anthropic,
    openai_chat::OpenAiChat,
    openai_responses::OpenAiResponses,
    wire::{ErrorEnvelope, Wire},
};
use turnstream_testing::{Recording, ReplayServer};

use crate::failure;

/// All forms of something.
fn forms(thing: &dyn std::fmt::Debug) -> String {
    format!("{thing:?} {thing:#?}")
}

/// All forms of an error and of those below it.
fn forms_of(error: &(dyn StdError + 'static)) -> String {
    let below = error.source().map(forms_of).unwrap_or_default();
    format!("{error} {error:#} {} {below}", forms(&error))
}

/// Configs whose every place that can hold a secret holds one, and their clients.
fn secretive(base_url: &str) -> [(String, Client); 3] {
    let anthropic = Anthropic::new("m").key("sk-SECRET-1").base_url(base_url);
    let anthropic = anthropic.header("authorization", "Bearer sk-SECRET-2").header("x-mine", "sk-SECRET-5");
    let chat = OpenAiChat::new("m").key("sk-SECRET-1").base_url(base_url);
    let chat = chat.header("x-api-key", "sk-SECRET-2").header("cookie", "s=sk-SECRET-5");
    let responses = OpenAiResponses::new("m").key("sk-SECRET-1").base_url(base_url);
    let responses = responses.header("authorization", "Bearer sk-SECRET-2").organization("org-SECRET-6");
    [
        (shown(&anthropic), Client::new(anthropic)),
        (shown(&chat), Client::new(chat)),
        (shown(&responses), Client::new(responses)),
    ]
}

fn shown(wire: &(impl Wire + std::fmt::Debug)) -> String {
    let request = wire.encode(&Request::new().user("?")).unwrap();
    let values = request.headers.values().filter(|value| value.to_str().unwrap().contains("SECRET"));
    let sensitive: Vec<bool> = values.map(|value| value.is_sensitive()).collect();
    assert!(sensitive.len() > 1 && !sensitive.contains(&false));
    format!("{} {}", forms(wire), forms(&request))
}

#[tokio::test]
async fn case_144_debug_hides_secrets() {
    const ADDRESS: &str = "https://u:sk-SECRET-3@h/v1?key=sk-SECRET-4";
    for (shown, client) in secretive(ADDRESS) {
        let client = client.proxy("http://p:sk-SECRET-7@127.0.0.1:1").retries(RetryPolicy::never());
        let mut turn = client.stream(&Request::new().user("?"));
        let (_, error) = failure(&mut turn).await;
        assert_eq!(error.kind(), ErrorKind::Connect);
        let all = format!("{shown} {} {} {}", forms(&client), forms(&turn), forms_of(&error));
        assert!(!all.contains("SECRET"), "{all}");
    }
}

#[tokio::test]
async fn case_144_debug_hides_secrets_that_a_server_echoes() {
    let echo = "sk-SECRET-1 Bearer sk-SECRET-2 sk-SECRET-3 sk-SECRET-4 s=sk-SECRET-5 org-SECRET-6";
    let json = json!({ "error": { "message": echo, "type": "t", "code": "sk-SECRET-2" } }).to_string();
    let replies = [
        (Recording::new(json.clone()).status(401), ErrorKind::Authentication),
        (Recording::new(echo).status(500).header("x-request-id", "sk-SECRET-2"), ErrorKind::Server),
        (Recording::new(json), ErrorKind::Provider),
        (Recording::new(format!("<html>{echo}")), ErrorKind::NotAStream),
        (
            Recording::new("").status(302).header("location", "/sk-SECRET-2?x=sk-SECRET-4"),
            ErrorKind::NotFound,
        ),
    ];
    for (reply, kind) in replies {
        let server = ReplayServer::start(vec![reply.header("x-echo", echo); 3]).await.unwrap();
        let url = server.base_url().replace("http://", "http://u:sk-SECRET-3@");
        for (_, client) in secretive(&format!("{url}/v1?key=sk-SECRET-4")) {
            let mut turn = client.retries(RetryPolicy::never()).stream(&Request::new().user("?"));
            let (_, error) = failure(&mut turn).await;
            assert_eq!(error.kind(), kind);
            let all = format!("{} {}", forms_of(&error), forms(&turn));
            // A key that was not sent, because the caller gave another, is unknown to the turn.
            let all = all.replace("sk-SECRET-1", "").replace("org-SECRET-6", "").replace("sk-SECRET-5", "");
            assert!(!all.contains("SECRET"), "{all}");
        }
    }
}

#[tokio::test]
async fn case_145_error_keeps_status_and_body() {
    let body = json!({
        "error": {
            "message": "Invalid schema for function 'f'",
            "type": "invalid_request_error",
            "param": "tools[0]",
            "code": "bad",
        },
    });
    let reply = Recording::new(body.to_string())
        .status(400)
        .header("content-type", "application/json")
        .header("x-request-id", "req_1")
        .header("retry-after", "3");
    let server = ReplayServer::start([reply]).await.unwrap();
    let client = Client::new(OpenAiChat::new("m").base_url(server.base_url()));
    let (_, error) = failure(&mut client.stream(&Request::new().user("?"))).await;
    assert_eq!((error.kind(), error.status()), (ErrorKind::InvalidRequest, Some(400)));
    assert_eq!(error.message(), "Invalid schema for function 'f'");
    assert_eq!((error.request_id(), error.code()), (Some("req_1"), Some("bad")));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    assert_eq!(error.body(), Some(body.to_string().as_str()));
    let envelope = ErrorEnvelope::parse(error.body().unwrap().as_bytes()).unwrap();
    assert_eq!(envelope.kind.as_deref(), Some("invalid_request_error"));
    assert_eq!(envelope.param.as_deref(), Some("tools[0]"));
}

#[tokio::test]
async fn case_145_error_keeps_status_and_body_up_to_a_cap_and_the_payload_that_does_not_decode() {
    async fn error_of(reply: Recording) -> Error {
        let server = ReplayServer::start([reply]).await.unwrap();
        let client = Client::new(OpenAiChat::new("m").base_url(server.base_url()));
        failure(&mut client.retries(RetryPolicy::never()).stream(&Request::new().user("?"))).await.1
    }
    let error = error_of(Recording::new("x".repeat(1 << 20)).status(500)).await;
    assert_eq!((error.status(), error.body()), (Some(500), Some("x".repeat(2048).as_str())));
    let error = error_of(Recording::new("data: {\"choices\": 7}\n\n")).await;
    assert_eq!((error.kind(), error.body()), (ErrorKind::Malformed, Some("{\"choices\": 7}")));
}
