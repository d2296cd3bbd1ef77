//! Decoding in memory, in time: `cargo bench -p turnstream-bench --bench decode`. Times depend on the machine and its load;
//! `work.sh` counts instructions, which do not.

use std::fmt;

use divan::{Bencher, black_box, counter::ItemsCount};
use turnstream_bench::{BenchWire, Body, Chunking, floor::Floor, shapes};
use turnstream_core::{End, Events, Limits};

fn main() {
    divan::main();
}

/// Typed events, with all laws kept.
#[divan::bench(args = Case::all())]
fn ours(bencher: Bencher<'_, '_>, case: &Case) {
    let body = case.body();
    let chunks = body.chunks(case.chunking);
    bencher.counter(ItemsCount::new(case.deltas)).bench(|| {
        let (mut decoder, mut events) = (case.wire.decoder(Limits::new()), Events::new());
        for chunk in &chunks {
            decoder.feed(chunk, &mut events);
            events.by_ref().for_each(|event| drop(black_box(event)));
        }
        decoder.end(End::Closed, &mut events);
        events.for_each(|event| drop(black_box(event)));
    });
}

/// The least that can be done by hand.
#[divan::bench(args = Case::all())]
fn floor(bencher: Bencher<'_, '_>, case: &Case) {
    let body = case.body();
    let chunks = body.chunks(case.chunking);
    bencher.counter(ItemsCount::new(case.deltas)).bench(|| {
        let mut floor = Floor::new(case.wire);
        for chunk in &chunks {
            floor.feed(chunk).expect("the body is what the wire writes");
        }
        floor.finish()
    });
}

/// A body, and how it is cut.
#[derive(Clone, Copy)]
struct Case {
    wire: BenchWire,
    has_calls: bool,
    deltas: usize,
    chunking: Chunking,
}

impl Case {
    fn all() -> impl Iterator<Item = Self> {
        BenchWire::ALL.into_iter().flat_map(|wire| {
            [false, true].into_iter().flat_map(move |has_calls| {
                [Chunking::Frames, Chunking::Bytes(16 << 10)].map(|chunking| {
                    let mut case = Self { wire, has_calls, deltas: 0, chunking };
                    case.deltas = case.count();
                    case
                })
            })
        })
    }

    fn body(&self) -> Body {
        if self.has_calls { shapes::tools(self.wire, 300) } else { shapes::text(self.wire, 5000) }
    }

    /// The deltas of text and of arguments.
    fn count(&self) -> usize {
        let mut floor = Floor::new(self.wire);
        floor.feed(self.body().bytes()).expect("the body is what the wire writes");
        floor.finish().deltas
    }
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = if self.has_calls { "tools" } else { "text" };
        let chunks = match self.chunking {
            Chunking::Frames => "frame".to_owned(),
            Chunking::Bytes(bytes) => bytes.to_string(),
        };
        write!(formatter, "{} {shape} {chunks}", self.wire.name())
    }
}
