//! What the transport holds, one test a case of the conformance corpus's parts on requests, errors and Rust. The
//! tests are named after the cases, and need none of their files.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

mod errors;
mod features;
mod requests;
mod retries;
mod streams;

use serde_json::Value;
use turnstream::{
    Error, Request, TurnStream,
    wire::{Wire, WireRequest},
};

/// What a wire would send for a question.
fn encoded(wire: &impl Wire) -> WireRequest {
    wire.encode(&Request::new().user("?")).unwrap()
}

/// The body that a wire would send for a request.
fn body(wire: &impl Wire, request: &Request) -> Value {
    serde_json::from_slice(&wire.encode(request).unwrap().body).unwrap()
}

/// The values of a header, all of them.
fn values(request: &WireRequest, name: &str) -> Vec<String> {
    request.headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

/// The error of a turn that has to fail, and how many events came before it.
async fn failure(turn: &mut TurnStream) -> (usize, Error) {
    let mut events = 0;
    loop {
        match turn.next().await.expect("the turn fails") {
            Ok(_) => events += 1,
            Err(error) => return (events, error),
        }
    }
}
