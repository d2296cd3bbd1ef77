//! Recordings: what a recorder keeps of a turn, that no secret is in it, and that it is served again as it
//! came.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::time::Duration;

use serde_json::json;
use turnstream::{
    Client, Error, ErrorKind, Event, Request, RetryPolicy,
    anthropic::Anthropic,
    wire::{Events, Wire},
};
use turnstream_testing::{
    RecordedEnd, RecordedTurn, Recorder, Recording, ReplayServer, anthropic::Reply, conformance,
};

const KEY: &str = "sk-test-4471-secret";

/// Asks for one turn through a recorder; gives back its events and what was recorded.
async fn record(server: &ReplayServer) -> (Vec<Result<Event, Error>>, Option<RecordedTurn>) {
    let wire = Anthropic::new("m").key(KEY).base_url(format!("{}/v1?sig=signature-7", server.base_url()));
    let recorder = Recorder::new(wire);
    let client = Client::new(recorder.clone()).retries(RetryPolicy::never());
    let mut turn = client.stream(&Request::new().user("Where is it?"));
    let mut events = Vec::new();
    while let Some(event) = turn.next().await {
        events.push(event);
    }
    (events, recorder.turn(turn.head()))
}

#[tokio::test]
async fn a_recording_holds_the_body_as_it_came_and_is_served_again_as_it_was() {
    let reply = Reply::new()
        .text(["Let me ", "look."])
        .call("toolu_1", "lookup_order", json!({ "order_id": "A-4471" }))
        .header("x-ratelimit-limit", "9");
    // Bytes behind the end of the turn belong to the body, too.
    let body = [reply.body(), b": goodbye\n\n".to_vec()].concat();
    let sent = Recording::from(reply).then_after(Duration::ZERO, ": goodbye\n\n");
    let server = ReplayServer::start([sent]).await.unwrap();

    let (events, recorded) = record(&server).await;
    let recorded = recorded.unwrap();
    assert_eq!(String::from_utf8(recorded.body()), String::from_utf8(body));
    assert_eq!((recorded.status, recorded.end), (200, RecordedEnd::Whole));
    assert_eq!(recorded.wire, "anthropic-messages");
    let sent = recorded.sent().unwrap();
    sent.assert_sound();
    assert_eq!((sent.model.as_deref(), sent.last_user_text()), (Some("m"), Some("Where is it?")));
    assert!(recorded.headers.contains(&("x-ratelimit-limit".to_owned(), "9".to_owned())));

    let again = ReplayServer::start([Recording::from(&recorded).scaled(0.0)]).await.unwrap();
    let (replayed, second) = record(&again).await;
    assert_eq!(lines(&replayed), lines(&events));
    let second = second.unwrap();
    assert_eq!(second.body(), recorded.body());
    // A chunk may be cut once more on its way, but two are never put together.
    let (first, second) = (cuts(&recorded), cuts(&second));
    assert!(first.iter().all(|cut| second.contains(cut)), "{first:?} {second:?}");
}

#[tokio::test]
async fn no_secret_is_in_a_recording_also_where_the_reply_echoes_it() {
    let echo = json!({ "type": "ping", "echo": format!("{KEY} signature-7") });
    let echo = Reply::new().frame("ping", echo).cut().chunks().pop().unwrap();
    // The first chunk ends inside the key.
    let key_at = echo.windows(KEY.len()).position(|bytes| bytes == KEY.as_bytes()).unwrap();
    let (before, after) = echo.split_at(key_at + 10);
    let sent = Recording::chunks([before, after]).header("set-cookie", "session=4471").cut();
    let server = ReplayServer::start([sent]).await.unwrap();

    let (events, recorded) = record(&server).await;
    assert_eq!(events.last().unwrap().as_ref().unwrap_err().kind(), ErrorKind::Truncated);
    let recorded = recorded.unwrap();
    assert_eq!(recorded.end, RecordedEnd::Cut);
    let body = String::from_utf8(recorded.body()).unwrap();
    assert_eq!(body.len(), echo.len());
    for secret in [KEY, "signature-7", "session=4471"] {
        assert!(!body.contains(secret) && !recorded.to_json().contains(secret), "{secret}");
    }
    assert!(!format!("{recorded:?}").contains(KEY));
    assert!(recorded.to_json().contains(r#"["x-api-key","***"]"#), "{}", recorded.to_json());
    assert!(recorded.to_json().contains("/v1/messages?sig=***"), "{}", recorded.to_json());
}

#[tokio::test]
async fn a_secret_that_the_wire_does_not_know_is_masked_once_it_is_named_and_none_is_in_debug() {
    let recorder = Recorder::new(Anthropic::new("m").key(KEY));
    recorder.encode(&Request::new().user("Where is it?")).unwrap();
    let mut events = Events::new();
    recorder.decoder().feed(format!("data: {KEY} token-77\n\n").as_bytes(), &mut events);
    assert!(String::from_utf8(recorder.turn(None).unwrap().body()).unwrap().contains("token-77"));
    recorder.mask("token-77");
    let body = String::from_utf8(recorder.turn(None).unwrap().body()).unwrap();
    assert_eq!(body, format!("data: {} ********\n\n", "*".repeat(KEY.len())));
    assert_eq!(format!("{recorder:?}"), r#"Recorder { wire: "anthropic-messages", .. }"#);
}

#[tokio::test]
async fn a_refusal_is_recorded_and_no_reply_is_not() {
    let refused = Reply::new().refused(529, "overloaded_error", "Busy.");
    let server = ReplayServer::start([Recording::from(refused.clone()), Recording::hang_up()]).await.unwrap();
    let (events, recorded) = record(&server).await;
    assert_eq!(events[0].as_ref().unwrap_err().kind(), ErrorKind::Overloaded);
    let recorded = recorded.unwrap();
    assert_eq!((recorded.status, recorded.body()), (529, refused.body()));
    assert_eq!(record(&server).await.1, None);
}

#[tokio::test]
async fn the_files_of_a_recording_are_written_and_read() {
    let server = ReplayServer::start([Reply::new().text(["Hello."])]).await.unwrap();
    let recorded = record(&server).await.1.unwrap();
    let folder = std::env::temp_dir().join(format!("turnstream-recordings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    recorded.save(folder.join("b.1")).unwrap();
    recorded.save(folder.join("a.json")).unwrap();
    let loaded = RecordedTurn::load(folder.join("b.1")).unwrap();
    assert_eq!(loaded.body(), recorded.body());
    assert_eq!(loaded.request, recorded.request);
    assert_eq!(RecordedTurn::load_all(&folder).unwrap(), [loaded.clone(), loaded]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_recorder_gives_the_same_events_as_the_wire_alone() {
    let wire = Anthropic::new("m");
    let recorder = Recorder::new(wire.clone());
    recorder.encode(&Request::new().user("Where is it?")).unwrap();
    let call = || Reply::new().text(["Let me look."]).call("c1", "t", json!({ "id": 1 }));
    for body in [call().body(), call().cut().body(), call().length().body(), b"<html>".to_vec()] {
        let events = conformance::cuts_do_not_matter(|| recorder.decoder(), &body);
        assert_eq!(lines(&events), lines(&conformance::decode(wire.decoder(), &body)));
        assert_eq!(recorder.turn(None).unwrap().body(), [&body[..], b"data: {}\n\n"].concat());
    }
}

/// Where a body was cut.
fn cuts(turn: &RecordedTurn) -> Vec<usize> {
    let lengths = turn.chunks.iter().map(|chunk| chunk.bytes.len());
    lengths
        .scan(0, |at, length| {
            Some({
                *at += length;
                *at
            })
        })
        .collect()
}

fn lines(events: &[Result<Event, Error>]) -> Vec<String> {
    events.iter().map(conformance::line).collect()
}
