//! The transport of turnstream: the only crate that talks to a provider.
//!
//! A [`Client`] owns a wire and a pool of connections. It is a [`Model`](turnstream_core::Model): asked for
//! a turn, it gives a stream that sends the request when it is first polled.
//!
//! ```no_run
//! # async fn answer(wire: impl turnstream_core::Wire) -> Result<(), turnstream_core::Error> {
//! use std::time::Duration;
//! use turnstream_core::{Event, Request};
//! use turnstream_http::{Client, RetryPolicy};
//!
//! let client = Client::new(wire)
//!     .idle_timeout(Duration::from_secs(30))
//!     .retries(RetryPolicy::new().max_attempts(5));
//! let mut turn = client.stream(&Request::new().user("Where is order A-4471?"));
//! while let Some(event) = turn.next().await {
//!     if let Event::TextDelta(delta) = event? {
//!         print!("{}", delta.text);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What holds for every turn
//!
//! - **No task of ours, no channel.** What is not polled is not read: the caller's pace is the connection's
//!   pace. Dropping the stream closes the connection.
//! - **No retry after output.** The start of a turn and provider events are held back until output follows.
//!   A turn that fails before that is asked again, by the [`RetryPolicy`]; one that fails later ends in
//!   its error. Every attempt sends the same bytes.
//! - **Silence has an end.** Connecting, waiting for the head, and waiting between bytes each have their own
//!   timeout. A whole turn has none unless one is set: long answers are not errors.
//! - **Keys stay with their host.** Redirects are not followed. A key is not sent over plain `http` to a
//!   host that is not loopback, unless that is allowed. A key that a reply echoes is masked in the error.
//! - **Loopback is direct.** No proxy of the environment stands between this machine and itself.
//!
//! Turns are polled inside a tokio runtime whose IO and time drivers are enabled.
//!
//! # Not supported
//!
//! Compressed replies: providers that stream have no use for them, and proxies that compress hold a stream
//! back. Without the feature `rustls` or `native-tls`, `https` addresses are refused.

mod authorize;
mod client;
mod failure;
mod retry;
mod secrets;
mod timer;
mod turn;

pub use authorize::{Attempt, Authorize, Bearer, BearerToken};
pub use client::Client;
pub use retry::RetryPolicy;
