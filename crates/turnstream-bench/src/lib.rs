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
//! | what is measured | program | script |
//! |---|---|---|
//! | instructions of decoding, in memory | `decode_work` | `work.sh`, `check.sh` |
//! | allocations of decoding, in memory | `allocations` | `measure.sh` |
//! | everything over HTTP | `http_work`, and one of each peer in `peers` | `measure.sh` |
//!
//! Each is compared with a [`floor`] in the same run. The figures stand in `docs/performance.md`.

mod body;
pub mod floor;
pub mod harness;
pub mod process;
mod reply;
pub mod server;
pub mod shapes;
mod wires;

pub use body::{Body, Chunking};
pub use reply::ReplySpec;
pub use wires::BenchWire;
