//! Connections: reused, closed, broken.

use tokio::time::pause;
use turnstream_core::{Request, TurnStream};

use crate::support::{
    Gate, Server, Step, chunk, chunked, client, hold, last_chunk, next, poll_until, sized, word, words,
};

const END: [&str; 3] = ["text hi", "reason stop", "end"];
const WORDS: [&str; 4] = ["start -", "text hi", "part", "end"];

/// Takes the start and the first text of a turn.
async fn take_text(turn: &mut TurnStream) {
    assert_eq!(word(&next(turn).await.unwrap()), "start -");
    assert_eq!(word(&next(turn).await.unwrap()), "text hi");
}

#[tokio::test]
async fn turns_in_a_row_share_one_connection() {
    let chunks = || vec![chunked(&END), last_chunk()];
    let whole = || vec![sized("200 OK", "", "data: text hi\n\ndata: reason stop\n\ndata: end\n\n")];
    let refusal = vec![sized("400 Bad", "", "no")];
    let server = Server::start([chunks(), chunks(), whole(), refusal, chunks()]).await;
    let client = client(server.url());
    for _ in 0..3 {
        assert_eq!(words(&mut client.clone().stream(&Request::new())).await, WORDS);
    }
    let refused = words(&mut client.stream(&Request::new())).await;
    assert_eq!(refused, ["error invalid_request"]);
    assert_eq!(words(&mut client.idle_timeout(None).stream(&Request::new())).await, WORDS);
    assert_eq!((server.counts().connections, server.counts().requests), (1, 5));
}

#[tokio::test]
async fn a_retry_takes_the_connection_of_the_refusal() {
    let refusal = vec![sized("500 Oops", "", "oops")];
    let server = Server::start([refusal, vec![chunked(&END), last_chunk()]]).await;
    assert_eq!(words(&mut client(server.url()).stream(&Request::new())).await, WORDS);
    assert_eq!((server.counts().connections, server.counts().requests), (1, 2));
}

#[tokio::test]
async fn what_stands_after_the_end_is_drained_so_that_the_connection_can_be_reused() {
    let gate = Gate::new();
    let rest = Step::Send(b"7\r\n: bye\n\n\r\n0\r\n\r\n".to_vec());
    let slow = vec![chunked(&END), Step::Wait(gate.clone()), rest];
    let server = Server::start([slow, vec![chunked(&END), last_chunk()]]).await;
    let client = client(server.url());
    let mut turn = client.stream(&Request::new());
    for want in WORDS {
        assert_eq!(word(&next(&mut turn).await.unwrap()), want);
    }
    let bytes = server.counts().bytes;
    gate.open();
    server.until(|counts| counts.bytes > bytes).await;
    assert!(next(&mut turn).await.is_none());
    assert_eq!(words(&mut client.stream(&Request::new())).await, WORDS);
    assert_eq!((server.counts().connections, server.counts().requests), (1, 2));
}

#[tokio::test]
async fn a_server_that_never_closes_is_let_go() {
    let server = Server::start([vec![chunked(&END), hold()]]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    for want in WORDS {
        assert_eq!(word(&next(&mut turn).await.unwrap()), want);
    }
    pause();
    assert!(next(&mut turn).await.is_none());
    tokio::time::resume();
    server.until(|counts| counts.closed == 1).await;
}

#[tokio::test]
async fn a_server_that_talks_on_after_the_end_is_let_go() {
    let talk = Step::Send(format!("100000\r\n{}", ":".repeat(1 << 20)).into_bytes());
    let server = Server::start([vec![chunked(&END), talk, hold()]]).await;
    assert_eq!(words(&mut client(server.url()).stream(&Request::new())).await, WORDS);
    server.until(|counts| counts.closed == 1).await;
}

#[tokio::test]
async fn case_140_dropping_a_turn_closes_its_connection() {
    let server = Server::start([vec![chunked(&["text hi"]), hold()]]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    take_text(&mut turn).await;
    assert_eq!(server.counts().closed, 0);
    drop(turn);
    server.until(|counts| counts.closed == 1).await;
}

#[tokio::test]
async fn dropping_a_turn_without_a_head_closes_its_connection() {
    let server = Server::start([vec![hold()]]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    poll_until(&mut turn, |_| server.counts().requests == 1).await;
    drop(turn);
    server.until(|counts| counts.closed == 1).await;
}

#[tokio::test]
async fn dropping_the_future_of_the_next_event_loses_nothing() {
    let gate = Gate::new();
    let steps = vec![chunked(&["text hi"]), Step::Wait(gate.clone()), chunk(&["reason stop", "end"])];
    let server = Server::start([steps]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    take_text(&mut turn).await;
    for _ in 0..3 {
        tokio::select! {
            biased;
            event = turn.next() => panic!("{event:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    gate.open();
    assert_eq!(words(&mut turn).await, ["part", "end"]);
}

#[tokio::test]
async fn a_reset_after_the_reason_is_a_cut_and_a_clean_end_is_not() {
    let server = Server::start([vec![chunked(&["text hi", "reason stop"]), Step::Reset]]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    assert_eq!(words(&mut turn).await, ["start -", "text hi", "error truncated partial"]);

    let server = Server::start([vec![chunked(&["text hi", "reason stop"]), last_chunk()]]).await;
    assert_eq!(words(&mut client(server.url()).stream(&Request::new())).await, WORDS);

    // Without a length and without chunks the end of the connection is the end of the body.
    let body = "HTTP/1.1 200 OK\r\n\r\ndata: text hi\n\ndata: reason stop\n\n";
    let server = Server::start([vec![Step::Send(body.into()), Step::Close]]).await;
    assert_eq!(words(&mut client(server.url()).stream(&Request::new())).await, WORDS);
}

#[tokio::test]
async fn a_server_that_closes_early_after_the_end_has_said_all_of_the_turn() {
    for accident in [Step::Close, Step::HalfClose, Step::Reset] {
        // The gate holds the accident back until the turn's end has been read.
        let gate = Gate::new();
        let first = vec![chunked(&END), Step::Wait(gate.clone()), accident];
        let server = Server::start([first, vec![chunked(&END), last_chunk()]]).await;
        let client = client(server.url());
        let mut turn = client.stream(&Request::new());
        for want in WORDS {
            assert_eq!(word(&next(&mut turn).await.unwrap()), want);
        }
        gate.open();
        assert!(next(&mut turn).await.is_none());
        // The connection is not used again.
        assert_eq!(words(&mut client.stream(&Request::new())).await, WORDS);
        assert_eq!((server.counts().connections, server.counts().requests), (2, 2));
    }
}

#[tokio::test]
async fn a_half_closed_connection_in_mid_body_is_a_cut_and_is_let_go() {
    let server = Server::start([vec![chunked(&["text hi"]), Step::HalfClose]]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    assert_eq!(words(&mut turn).await, ["start -", "text hi", "error truncated partial"]);
    server.until(|counts| counts.closed == 1).await;
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_it_was_idle_costs_no_turn() {
    let good = || vec![chunked(&END), last_chunk()];
    let closing = vec![chunked(&END), last_chunk(), Step::Close];
    let server = Server::start([closing, good()]).await;
    let client = client(server.url());
    assert_eq!(words(&mut client.stream(&Request::new())).await, WORDS);
    server.until(|counts| counts.closed == 1).await;
    let mut turn = client.stream(&Request::new());
    assert_eq!(words(&mut turn).await, WORDS);
    assert_eq!(server.counts().connections, 2);
}

#[tokio::test]
async fn a_body_shorter_than_its_length_is_a_cut() {
    let body = "HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\ndata: text hi\n\n";
    let server = Server::start([vec![Step::Send(body.into()), Step::Close]]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    assert_eq!(words(&mut turn).await, ["start -", "text hi", "error truncated partial"]);
}

#[tokio::test]
async fn a_body_may_be_cut_anywhere() {
    let body = "data: start t1\n\ndata: text é\n\ndata: reason stop\n\ndata: end\n\n";
    let pieces = body.as_bytes().iter().map(|byte| Step::Send([b"1\r\n", &[*byte][..], b"\r\n"].concat()));
    let steps = std::iter::once(chunked(&[])).chain(pieces).chain([last_chunk()]).collect();
    let server = Server::start([steps]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    assert_eq!(words(&mut turn).await, ["start t1", "text é", "part", "end"]);
}

#[tokio::test]
async fn a_caller_who_does_not_poll_keeps_the_server_waiting() {
    const WHOLE: usize = 64 << 20;
    let frame = format!("text {}", "x".repeat(64 << 10));
    let Step::Send(frame) = chunk(&[&frame]) else { unreachable!() };
    let flood = Step::Send(frame.repeat(WHOLE / frame.len()));
    let server = Server::start([vec![chunked(&["text hi"]), flood, hold()]]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    take_text(&mut turn).await;
    // Everyone but the turn is given every chance to go on.
    let (mut bytes, mut still) = (0, 0);
    while still < 5000 {
        tokio::task::yield_now().await;
        let now = server.counts().bytes;
        still = if now == bytes { still + 1 } else { 0 };
        bytes = now;
    }
    assert!(bytes < WHOLE / 2, "{bytes}");
}
