//! Silence and its ends. The clock is stopped once the server is silent, so that only the timer under test
//! is left to go off; the next wait of the runtime then takes no time.

use std::time::Duration;

use tokio::time::{Instant, advance, pause};
use turnstream_core::{ErrorKind, Request, TurnStream};
use turnstream_http::{Client, RetryPolicy};

use crate::support::{
    Gate, Server, Step, assert_kind, chunk, chunked, client, failure, hold, last_chunk, next, poll_once,
    poll_until, sized, word, words,
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_silent_socket_in_mid_call_aborts_the_call_and_says_idle() {
    let server = Server::start([vec![chunked(&["call f", "fragment {\"a\":"]), hold()]]).await;
    let mut turn = client(server.url()).idle_timeout(SECOND * 30).stream(&Request::new());
    for want in ["start -", "call f", "fragment {\"a\":"] {
        assert_eq!(word(&next(&mut turn).await.unwrap()), want);
    }
    pause();
    let began = Instant::now();
    assert_eq!(words(&mut turn).await, ["aborted Truncated", "error idle_timeout partial"]);
    assert_eq!(began.elapsed().as_secs(), 30);
    tokio::time::resume();
    server.until(|counts| counts.closed == 1).await;
}

#[tokio::test]
async fn case_134_the_idle_timeout_is_the_one_that_was_set() {
    let gate = Gate::new();
    let steps = vec![chunked(&["text a"]), Step::Wait(gate.clone()), chunk(&["text b"]), hold()];
    let server = Server::start([steps]).await;
    let mut turn = client(server.url()).idle_timeout(SECOND).stream(&Request::new());
    assert_eq!(word(&next(&mut turn).await.unwrap()), "start -");
    assert_eq!(word(&next(&mut turn).await.unwrap()), "text a");
    pause();
    assert!(poll_once(&mut turn).await.is_pending());
    advance(Duration::from_millis(990)).await;
    assert!(poll_once(&mut turn).await.is_pending());
    tokio::time::resume();
    gate.open();
    assert_eq!(word(&next(&mut turn).await.unwrap()), "text b");
}

#[tokio::test]
async fn pings_are_life() {
    let gate = Gate::new();
    let mut steps = vec![chunked(&["text a"])];
    for _ in 0..3 {
        steps.extend([Step::Wait(gate.clone()), chunk(&[": ping"])]);
    }
    steps.extend([Step::Wait(gate.clone()), chunk(&["reason stop", "end"]), last_chunk()]);
    let server = Server::start([steps]).await;
    let mut turn = client(server.url()).idle_timeout(SECOND * 10).stream(&Request::new());
    assert_eq!(word(&next(&mut turn).await.unwrap()), "start -");
    assert_eq!(word(&next(&mut turn).await.unwrap()), "text a");
    for _ in 0..3 {
        let bytes = server.counts().bytes;
        gate.open();
        poll_until(&mut turn, |_| server.counts().bytes > bytes).await;
        // Some more polls, so that the ping goes all the way.
        for _ in 0..1000 {
            assert!(poll_once(&mut turn).await.is_pending());
            tokio::task::yield_now().await;
        }
        pause();
        advance(SECOND * 6).await;
        assert!(poll_once(&mut turn).await.is_pending());
        tokio::time::resume();
    }
    gate.open();
    assert_eq!(words(&mut turn).await, ["part", "end"]);
}

#[tokio::test]
async fn a_slow_caller_is_not_a_silent_server() {
    let gate = Gate::new();
    let steps = vec![chunked(&["text a"]), Step::Wait(gate.clone()), chunk(&["reason stop", "end"])];
    let server = Server::start([steps]).await;
    let mut turn = client(server.url()).idle_timeout(SECOND).stream(&Request::new());
    assert_eq!(word(&next(&mut turn).await.unwrap()), "start -");
    pause();
    advance(SECOND * 3600).await;
    tokio::time::resume();
    assert_eq!(word(&next(&mut turn).await.unwrap()), "text a");
    gate.open();
    assert_eq!(words(&mut turn).await, ["part", "end"]);
}

#[tokio::test]
async fn silence_before_output_is_asked_again() {
    let good = vec![chunked(&["text hi", "reason stop", "end"]), last_chunk()];
    let server = Server::start([vec![chunked(&["start t1"]), hold()], good]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    poll_until(&mut turn, |turn| turn.head().is_some()).await;
    assert!(poll_once(&mut turn).await.is_pending());
    pause();
    advance(SECOND * 121).await;
    tokio::time::resume();
    assert_eq!(words(&mut turn).await, ["start -", "text hi", "part", "end"]);
    assert_eq!(turn.head().unwrap().attempts, 2);
}

#[tokio::test]
async fn a_head_that_does_not_come_is_the_first_byte_timeout() {
    let server = Server::start([vec![hold()]]).await;
    let client = client(server.url()).retries(RetryPolicy::never()).first_byte_timeout(SECOND * 20);
    let mut turn = client.stream(&Request::new());
    poll_until(&mut turn, |_| server.counts().requests == 1).await;
    pause();
    let began = Instant::now();
    assert_kind(&failure(&mut turn).await, ErrorKind::FirstByteTimeout);
    assert!(began.elapsed() <= SECOND * 21, "{:?}", began.elapsed());
    tokio::time::resume();
    server.until(|counts| counts.closed == 1).await;
}

#[tokio::test]
async fn a_time_of_zero_is_up_before_anything_is_sent() {
    let server = Server::start([]).await;
    let zero = std::time::Duration::ZERO;
    for (client, kind) in [
        (client(server.url()).first_byte_timeout(zero), ErrorKind::FirstByteTimeout),
        (client(server.url()).total_timeout(zero), ErrorKind::TotalTimeout),
    ] {
        let mut turn = client.stream(&Request::new());
        assert_kind(&failure(&mut turn).await, kind);
        assert_eq!((turn.attempts(), server.counts().requests), (0, 0));
    }
}

#[tokio::test]
async fn a_head_that_does_not_come_is_asked_for_again() {
    let server = Server::start([vec![hold()], vec![sized("400 Bad", "", "")]]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    poll_until(&mut turn, |_| server.counts().requests == 1).await;
    pause();
    advance(SECOND * 301).await;
    tokio::time::resume();
    assert_kind(&failure(&mut turn).await, ErrorKind::InvalidRequest);
}

#[tokio::test]
async fn without_timeouts_silence_is_waited_for() {
    let gate = Gate::new();
    let steps = vec![
        Step::Wait(gate.clone()),
        chunked(&["text hi"]),
        Step::Wait(gate.clone()),
        chunk(&["reason stop", "end"]),
        last_chunk(),
    ];
    let server = Server::start([steps]).await;
    let client = client(server.url()).first_byte_timeout(None).idle_timeout(None).connect_timeout(None);
    let mut turn = client.stream(&Request::new());
    poll_until(&mut turn, |_| server.counts().requests == 1).await;
    pause();
    advance(SECOND * 1_000_000).await;
    assert!(poll_once(&mut turn).await.is_pending());
    tokio::time::resume();
    gate.open();
    assert_eq!(word(&next(&mut turn).await.unwrap()), "start -");
    assert_eq!(word(&next(&mut turn).await.unwrap()), "text hi");
    assert!(poll_once(&mut turn).await.is_pending());
    pause();
    advance(SECOND * 1_000_000).await;
    assert!(poll_once(&mut turn).await.is_pending());
    tokio::time::resume();
    gate.open();
    assert_eq!(words(&mut turn).await, ["part", "end"]);
}

#[tokio::test]
async fn a_settled_turn_on_a_silent_socket_is_finished_after_the_grace() {
    let server = Server::start([vec![chunked(&["text hi", "reason stop"]), hold()]]).await;
    let mut turn = client(server.url()).end_grace(SECOND * 3).stream(&Request::new());
    assert_eq!(word(&next(&mut turn).await.unwrap()), "start -");
    assert_eq!(word(&next(&mut turn).await.unwrap()), "text hi");
    pause();
    let began = Instant::now();
    assert_eq!(words(&mut turn).await, ["part", "end"]);
    assert_eq!(began.elapsed().as_secs(), 3);
    tokio::time::resume();
    server.until(|counts| counts.closed == 1).await;
}

/// A turn whose reason has come, and the gate before each of its pings.
async fn settled_and_pinging(pings: usize, set: impl Fn(Client) -> Client) -> (Server, TurnStream, Gate) {
    let gate = Gate::new();
    let mut steps = vec![chunked(&["text hi", "reason stop"])];
    for _ in 0..pings {
        steps.extend([Step::Wait(gate.clone()), chunk(&[": ping"])]);
    }
    steps.push(hold());
    let server = Server::start([steps]).await;
    let mut turn = set(client(server.url())).stream(&Request::new());
    assert_eq!(word(&next(&mut turn).await.unwrap()), "start -");
    assert_eq!(word(&next(&mut turn).await.unwrap()), "text hi");
    assert!(poll_once(&mut turn).await.is_pending());
    (server, turn, gate)
}

/// Lets so much time pass, and a ping come all the way.
async fn ping_after(server: &Server, turn: &mut TurnStream, gate: &Gate, wait: Duration) {
    pause();
    advance(wait).await;
    assert!(poll_once(turn).await.is_pending());
    tokio::time::resume();
    let bytes = server.counts().bytes;
    gate.open();
    server.until(|counts| counts.bytes > bytes).await;
    for _ in 0..1000 {
        assert!(poll_once(turn).await.is_pending());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_ping_begins_the_grace_anew_and_silence_ends_it() {
    let (server, mut turn, gate) = settled_and_pinging(3, |client| client).await;
    for _ in 0..3 {
        ping_after(&server, &mut turn, &gate, Duration::from_millis(1500)).await;
    }
    pause();
    let silent = Instant::now();
    assert_eq!(words(&mut turn).await, ["part", "end"]);
    assert!((1..=2).contains(&silent.elapsed().as_secs()), "{:?}", silent.elapsed());
}

#[tokio::test]
async fn pings_without_end_do_not_put_off_the_end_that_is_known() {
    let (server, mut turn, gate) = settled_and_pinging(13, |client| client).await;
    for _ in 0..13 {
        ping_after(&server, &mut turn, &gate, Duration::from_millis(1500)).await;
    }
    // Ten times the grace have nearly passed.
    pause();
    let silent = Instant::now();
    assert_eq!(words(&mut turn).await, ["part", "end"]);
    assert!(silent.elapsed() < Duration::from_millis(700), "{:?}", silent.elapsed());
}

#[tokio::test]
async fn pings_that_do_not_count_do_not_put_off_the_end_either() {
    let (server, mut turn, gate) = settled_and_pinging(1, |client| client.pings_count(false)).await;
    ping_after(&server, &mut turn, &gate, Duration::from_millis(1500)).await;
    pause();
    let silent = Instant::now();
    assert_eq!(words(&mut turn).await, ["part", "end"]);
    assert!(silent.elapsed() < SECOND, "{:?}", silent.elapsed());
}

#[tokio::test]
async fn only_events_are_life_where_pings_do_not_count() {
    let gate = Gate::new();
    let mut steps = vec![chunked(&["text a"])];
    for frame in [": ping", "text b", ": ping", ": ping"] {
        steps.extend([Step::Wait(gate.clone()), chunk(&[frame])]);
    }
    steps.push(hold());
    let server = Server::start([steps]).await;
    let client = client(server.url()).idle_timeout(SECOND * 10).pings_count(false);
    let mut turn = client.stream(&Request::new());
    assert_eq!(word(&next(&mut turn).await.unwrap()), "start -");
    assert_eq!(word(&next(&mut turn).await.unwrap()), "text a");
    assert!(poll_once(&mut turn).await.is_pending());
    ping_after(&server, &mut turn, &gate, SECOND * 6).await;
    gate.open();
    assert_eq!(word(&next(&mut turn).await.unwrap()), "text b");
    assert!(poll_once(&mut turn).await.is_pending());
    ping_after(&server, &mut turn, &gate, SECOND * 4).await;
    ping_after(&server, &mut turn, &gate, SECOND * 4).await;
    pause();
    let error = next(&mut turn).await.unwrap().unwrap_err();
    assert_kind(&error, ErrorKind::IdleTimeout);
    assert_eq!(error.message(), "nothing but pings came within 10s");
}

#[tokio::test]
async fn the_total_ends_a_turn_that_goes_on() {
    let server = Server::start([vec![chunked(&["call f", "fragment {"]), hold()]]).await;
    let client = client(server.url()).total_timeout(SECOND * 60);
    let mut turn = client.stream(&Request::new());
    for want in ["start -", "call f", "fragment {"] {
        assert_eq!(word(&next(&mut turn).await.unwrap()), want);
    }
    pause();
    assert_eq!(words(&mut turn).await, ["aborted Truncated", "error total_timeout partial"]);
}

#[tokio::test]
async fn the_total_ends_a_turn_that_never_pauses() {
    let gate = Gate::new();
    let steps = vec![chunked(&["text a"]), Step::Wait(gate.clone()), chunk(&["text b"]), hold()];
    let server = Server::start([steps]).await;
    let mut turn = client(server.url()).total_timeout(SECOND * 60).stream(&Request::new());
    assert_eq!(word(&next(&mut turn).await.unwrap()), "start -");
    assert_eq!(word(&next(&mut turn).await.unwrap()), "text a");
    let first_bytes = server.counts().bytes;
    gate.open();
    server.until(|counts| counts.bytes > first_bytes).await;
    pause();
    advance(SECOND * 61).await;
    assert_eq!(word(&next(&mut turn).await.unwrap()), "error total_timeout partial");
}

#[tokio::test]
async fn the_total_is_over_before_the_head() {
    let server = Server::start([vec![hold()], vec![hold()]]).await;
    let mut turn = client(server.url()).total_timeout(SECOND * 60).stream(&Request::new());
    poll_until(&mut turn, |_| server.counts().requests == 1).await;
    pause();
    assert_kind(&failure(&mut turn).await, ErrorKind::TotalTimeout);
    assert_eq!(server.counts().requests, 1);
}

#[tokio::test]
async fn a_refusal_whose_body_stalls_is_told_with_what_came() {
    let start = Step::Send(b"HTTP/1.1 400 Bad\r\ncontent-length: 999\r\n\r\nhalf a".to_vec());
    let server = Server::start([vec![start, hold()]]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    poll_until(&mut turn, |turn| turn.head().is_some()).await;
    pause();
    let error = failure(&mut turn).await;
    assert_eq!((error.status(), error.body()), (Some(400), Some("half a")));
}
