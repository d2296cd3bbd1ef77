//! A wire of one word a frame, a server that follows a script, and small helpers.

mod log;
mod secure;
mod server;
mod wire;

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use tokio::time::timeout;
use turnstream_core::{Error, ErrorKind, Event, TurnStream};
use turnstream_http::{Client, RetryPolicy};

pub(crate) use self::{
    log::Log,
    secure::{Answer, Authority, SecureServer, tunnel},
    server::{Gate, Server, Step, chunk, chunked, hold, last_chunk, sized},
    wire::Lines,
};

/// A client whose retries wait for nothing.
pub(crate) fn client(url: &str) -> Client {
    Client::new(Lines::new(url)).retries(RetryPolicy::new().base_delay(Duration::ZERO))
}

/// What a turn says, one word an event and one an error.
pub(crate) async fn words(turn: &mut TurnStream) -> Vec<String> {
    let mut words = Vec::new();
    while let Some(item) = next(turn).await {
        words.push(word(&item));
    }
    words
}

/// The error of a turn that says nothing else.
pub(crate) async fn failure(turn: &mut TurnStream) -> Error {
    let error = next(turn).await.expect("an error comes").expect_err("the turn fails");
    assert!(next(turn).await.is_none());
    error
}

/// The next item. A test that would hang fails instead.
pub(crate) async fn next(turn: &mut TurnStream) -> Option<Result<Event, Error>> {
    timeout(Duration::from_secs(3600), turn.next()).await.expect("the turn goes on")
}

/// Polls a turn once.
pub(crate) async fn poll_once(turn: &mut TurnStream) -> Poll<Option<Result<Event, Error>>> {
    poll_fn(|context| Poll::Ready(futures_core::Stream::poll_next(Pin::new(&mut *turn), context))).await
}

/// Polls a turn that has nothing to say until something else is true.
pub(crate) async fn poll_until(turn: &mut TurnStream, is_true: impl Fn(&TurnStream) -> bool) {
    while !is_true(turn) {
        let polled = poll_once(turn).await;
        assert!(polled.is_pending(), "{polled:?}");
        tokio::task::yield_now().await;
    }
}

pub(crate) fn word(item: &Result<Event, Error>) -> String {
    match item {
        Ok(Event::TurnStarted(started)) => format!("start {}", started.id.as_deref().unwrap_or("-")),
        Ok(Event::TextDelta(delta)) => format!("text {}", delta.text),
        Ok(Event::CallStarted(call)) => format!("call {}", call.name),
        Ok(Event::CallArgumentFragment(fragment)) => format!("fragment {}", fragment.fragment.as_raw_str()),
        Ok(Event::CallFinished(call)) => format!("called {}", call.arguments),
        Ok(Event::CallAborted(call)) => format!("aborted {:?}", call.reason),
        Ok(Event::PartFinished(_)) => "part".to_owned(),
        Ok(Event::Provider(event)) => format!("provider {}", event.name),
        Ok(Event::TurnFinished(_)) => "end".to_owned(),
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("error {}{}", error.kind(), if error.partial() { " partial" } else { "" }),
    }
}

/// An error, and everything that stands below it, in every form.
pub(crate) fn everything_of(error: &(dyn std::error::Error + 'static)) -> String {
    let below = error.source().map(everything_of).unwrap_or_default();
    format!("{error} {error:?} {error:#?}\n{below}")
}

#[track_caller]
pub(crate) fn assert_kind(error: &Error, kind: ErrorKind) {
    assert_eq!(error.kind(), kind, "{error:?}");
}
