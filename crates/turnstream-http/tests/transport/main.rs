//! The transport against real sockets. Replies come whole from wiremock, or in pieces from a server that
//! follows a script; nothing waits for the clock to tell a result.

// The helpers of tests are tests too, which clippy sees only inside of functions marked so.
#![allow(clippy::panic, clippy::unwrap_used)]

mod authorize;
mod connections;
mod replies;
mod requests;
mod retries;
mod secure;
#[cfg(feature = "sigv4")]
mod sigv4;
mod support;
mod timeouts;
