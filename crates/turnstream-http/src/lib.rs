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
//!   its error. Every attempt sends the same bytes, but for the credentials that an [`Authorize`] finds.
//! - **Retries are seen.** Each is logged (`tracing`, level `WARN`), and
//!   [`TurnStream::attempts`](turnstream_core::TurnStream::attempts) counts the requests of a turn.
//! - **Silence has an end.** Connecting, waiting for the head, and waiting between bytes each have their own
//!   timeout. A whole turn has none unless one is set: long answers are not errors.
//! - **Keys stay with their host.** Redirects are not followed. Plain `http` goes to loopback only, unless
//!   more is allowed. A key that a reply echoes is masked in errors and in
//!   [`Provider`](turnstream_core::Event::Provider) events, which are the provider's raw words, and the
//!   headers of the reply that echo it are hidden in `Debug`. What the *model* says is handed on byte for
//!   byte: a key that stands in its text or in a call's arguments is not taken out.
//! - **Keys are zeroed** when the wire's config is dropped. What is sent is a copy of them, in the headers of
//!   the attempt, which is not.
//! - **Loopback is direct.** No proxy of the environment stands between this machine and itself.
//!
//! Turns are polled inside a tokio runtime whose IO and time drivers are enabled.
//!
//! Every setting with its default, and every kind of error with what to do about it, stand in the project's
//! `docs/transport.md` and `docs/errors.md`.
//!
//! # Not supported
//!
//! Compressed replies: providers that stream have no use for them, and proxies that compress hold a stream
//! back. Without the feature `rustls` or `native-tls`, `https` addresses are refused.

mod authorize;
mod client;
mod connections;
mod failure;
mod retry;
mod secrets;
#[cfg(feature = "sigv4")]
mod sigv4;
mod timer;
mod turn;

pub use authorize::{Attempt, Authorize, Bearer, BearerToken};
pub use client::Client;
pub use reqwest;
pub use retry::RetryPolicy;
#[cfg(feature = "aws-sdk")]
pub use sigv4::AwsSdk;
#[cfg(feature = "sigv4")]
pub use sigv4::{AwsCredentials, AwsEnvironment, ProvideAwsCredentials, SigV4};
