//! Properties of the decoders, tried on every fixture and, where they are present, on every case and every
//! recording of the conformance corpora.
//!
//! | property | says |
//! |---|---|
//! | [`cuts`] | the events do not depend on how the body is cut |
//! | [`prefixes`] | a reply that stops anywhere never looks whole |
//! | [`line_ends`] | nor on how lines end, on comments, or on a byte-order mark |
//! | [`news`] | what is unknown changes nothing else |
//! | [`keys`] | a fragment belongs to a call by its key, and by nothing else |
//! | [`fragments`] | arguments may be cut anywhere |
//!
//! A release build tries all inputs; a debug build the fixtures only, unless `TURNSTREAM_PROPERTIES=all`. Of
//! longer bodies a sample is tried: see [`inputs::EVERY_BYTES`] and the constants of each property. The sample
//! is the same in every run.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test's way to say that it failed; clippy excuses only the functions marked as tests"
)]

mod bodies;
mod cuts;
mod events;
mod fragments;
mod inputs;
mod json;
mod keys;
mod line_ends;
mod news;
mod prefixes;
mod trial;
