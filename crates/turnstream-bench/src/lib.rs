//! Bodies that are made up, always in the same way, to measure what decoding them costs.
//!
//! ```
//! use turnstream_bench::{BenchWire, Chunking, shapes};
//! use turnstream_core::{End, Events, Limits};
//!
//! let body = shapes::text(BenchWire::OpenAiChat, 100);
//! let mut decoder = BenchWire::OpenAiChat.decoder(Limits::new());
//! let mut events = Events::new();
//! for chunk in body.chunks(Chunking::Frames) {
//!     decoder.feed(chunk, &mut events);
//! }
//! decoder.end(End::Closed, &mut events);
//! assert_eq!(events.len(), 1 + 100 + 2, "the start, the text, the end of the part, the end of the turn");
//! ```
//!
//! The program `decode_work` decodes one body and says what came out; `work.sh` runs it under valgrind and
//! writes tables of instruction counts. Nothing here measures time.

mod body;
pub mod shapes;
mod wires;

pub use body::{Body, Chunking};
pub use wires::BenchWire;
