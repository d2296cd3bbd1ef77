//! Counts what decoding one made-up body takes from the allocator of this process.

use std::{env, error::Error, process::ExitCode};

use dhat::{HeapStats, Profiler};
use turnstream_bench::{ReplySpec, floor::Floor, shapes};
use turnstream_core::{Decode, End, Events, Limits};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const USAGE: &str = "\
usage: allocations READER WIRE SHAPE SIZE CHUNK

  READER  ours, floor
  WIRE SHAPE SIZE CHUNK  as decode_work has them

Says the blocks that the whole body took, those that the second half of its deltas took one frame a chunk,
and the most bytes that were held at once.";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let [name, wire, shape, size, chunk] = *arguments else { return Err("five words are needed".into()) };
    let spec = ReplySpec::parse(wire, shape, size, chunk)?;
    let body = shapes::named(spec.wire, &spec.shape, spec.size)?;
    let chunks = body.chunks(spec.chunking);

    let profiler = Profiler::builder().testing().build();
    let mut reader = Reader::of(name, &spec)?;
    for chunk in chunks {
        reader.feed(chunk)?;
    }
    reader.end()?;
    let whole = HeapStats::get();
    drop(profiler);

    let (opening, deltas) = (body.opening(), body.deltas());
    let (warm, steady) = deltas.split_at(deltas.len() / 2);
    let _profiler = Profiler::builder().testing().build();
    let mut reader = Reader::of(name, &spec)?;
    for frame in opening.iter().chain(warm) {
        reader.feed(frame)?;
    }
    let before = HeapStats::get().total_blocks;
    for frame in steady {
        reader.feed(frame)?;
    }
    let blocks = HeapStats::get().total_blocks - before;
    println!(
        "blocks {} steady_blocks {blocks} steady_deltas {} peak_bytes {}",
        whole.total_blocks,
        steady.len(),
        whole.max_bytes
    );
    Ok(())
}

enum Reader {
    Ours(Box<dyn Decode>, Events),
    Floor(Floor),
}

impl Reader {
    fn of(name: &str, spec: &ReplySpec) -> Result<Self, String> {
        match name {
            "ours" => Ok(Self::Ours(spec.wire.decoder(Limits::new()), Events::new())),
            "floor" => Ok(Self::Floor(Floor::new(spec.wire))),
            name => Err(format!("there is no reader `{name}`")),
        }
    }

    fn feed(&mut self, chunk: &[u8]) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Ours(decoder, events) => {
                decoder.feed(chunk, events);
                for event in events.by_ref() {
                    drop(event?);
                }
            }
            Self::Floor(floor) => floor.feed(chunk)?,
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Box<dyn Error>> {
        if let Self::Ours(decoder, events) = self {
            decoder.end(End::Closed, events);
            for event in events.by_ref() {
                drop(event?);
            }
        }
        Ok(())
    }
}
