//! What a decoder holds and allocates, counted by the allocator of this binary.
//!
//! The counts are of the whole process, so all of it is one test: nothing else runs while it counts.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use dhat::{HeapStats, Profiler};
use turnstream::{
    Limits,
    wire::{Decode, Events},
};
use turnstream_bench::{BenchWire, Body, Chunking, shapes};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

#[test]
fn memory_is_bounded_by_what_is_open() {
    for wire in BenchWire::FRAGMENTS {
        one_call_takes_at_most_three_times_its_arguments(wire, Chunking::Frames);
        one_call_takes_at_most_three_times_its_arguments(wire, Chunking::Bytes(16 << 10));
        a_long_text_takes_no_more_than_a_short_one(wire);
        let (text, call) = (shapes::short_text(wire, 2000), shapes::huge_call(wire, 1 << 15));
        a_short_delta_allocates_nothing_unless_it_has_an_escape(wire, &text, 0);
        a_short_delta_allocates_nothing_unless_it_has_an_escape(wire, &call, 1);
    }
}

fn one_call_takes_at_most_three_times_its_arguments(wire: BenchWire, chunking: Chunking) {
    let name = wire.name();
    let [half, whole] = [4 << 20, 8 << 20].map(|bytes| {
        let body = shapes::huge_call(wire, bytes);
        let chunks = body.chunks(chunking);
        let profiler = Profiler::builder().testing().build();
        feed(&mut *wire.decoder(Limits::new()), &chunks);
        let used = HeapStats::get();
        drop(profiler);
        let (peak, allocated) = (used.max_bytes, used.total_bytes);
        println!("{name}, {chunking:?}: a call of {bytes} bytes: peak {peak}, allocated {allocated}");
        assert!(peak <= 3 * bytes, "{name}, {chunking:?}: {peak} bytes for a call of {bytes}");
        allocated
    });
    // 2.1 times.
    assert!(10 * whole <= 21 * half, "{name}, {chunking:?}: {half} bytes are allocated for half of {whole}");
}

/// Up to the last delta: Responses says all of the text again behind it, in one frame, and a frame is held.
fn a_long_text_takes_no_more_than_a_short_one(wire: BenchWire) {
    let name = wire.name();
    for deltas in [1000, 200_000] {
        let body = shapes::text(wire, deltas);
        let chunks: Vec<&[u8]> = body.opening().into_iter().chain(body.deltas()).collect();
        let profiler = Profiler::builder().testing().build();
        feed(&mut *wire.decoder(Limits::new()), &chunks);
        let peak = HeapStats::get().max_bytes;
        drop(profiler);
        println!("{name}: a text of {deltas} deltas: peak {peak}");
        assert!(peak <= 64 << 10, "{name}: {peak} bytes for a text of {deltas} deltas");
    }
}

/// The second half of the deltas is counted. One with an escape costs what serde_json takes for its scratch,
/// which it grows once for a longer text.
fn a_short_delta_allocates_nothing_unless_it_has_an_escape(wire: BenchWire, body: &Body, growths: usize) {
    let (opening, deltas) = (body.opening(), body.deltas());
    let (warm, steady) = deltas.split_at(deltas.len() / 2);
    let _profiler = Profiler::builder().testing().build();
    let (mut decoder, mut events) = (wire.decoder(Limits::new()), Events::new());
    let mut blocks_of = |frame: &[u8]| {
        let before = HeapStats::get().total_blocks;
        decoder.feed(frame, &mut events);
        for event in events.by_ref() {
            drop(event.unwrap());
        }
        HeapStats::get().total_blocks - before
    };
    for frame in opening.iter().chain(warm) {
        blocks_of(frame);
    }
    let (mut plain, mut grown) = (0, 0);
    for frame in steady {
        match (blocks_of(frame), frame.contains(&b'\\')) {
            (0, false) => plain += 1,
            (0..=2, true) => {}
            // The text of the call has to grow now and then.
            _ => grown += 1,
        }
    }
    println!("{}: of {} deltas {plain} plain ones took nothing, {grown} grew", wire.name(), steady.len());
    assert!(plain > steady.len() / 4, "{}: only {plain} deltas are plain", wire.name());
    assert!(grown <= growths, "{}: {grown} deltas took memory", wire.name());
}

fn feed(decoder: &mut dyn Decode, chunks: &[&[u8]]) {
    let mut events = Events::new();
    for chunk in chunks {
        decoder.feed(chunk, &mut events);
        for event in events.by_ref() {
            drop(event.unwrap());
        }
    }
}
