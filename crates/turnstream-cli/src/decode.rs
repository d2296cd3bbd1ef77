//! `turnstream decode`: the events of a recorded body, a line each.

use std::{
    fs::File,
    io::{self, BufWriter, Read, StdoutLock, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Args;
use turnstream::wire::{Decode as Decoder, End, Events};

use crate::wires::WireChoice;

/// How much is read at a time where nothing else is asked.
const CHUNK_BYTES: usize = 64 << 10;

/// Print the events of a recorded response body, one JSON line each.
#[derive(Debug, Args)]
pub(crate) struct Decode {
    #[command(flatten)]
    wire: WireChoice,
    /// Feed the decoder this many bytes at a time.
    #[arg(long, value_name = "N", conflicts_with = "cuts", value_parser = clap::value_parser!(u32).range(1..))]
    chunk_size: Option<u32>,
    /// Cut the body at these byte offsets.
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    cuts: Vec<usize>,
    /// The body, or `-` for standard input, which is decoded as it comes.
    file: PathBuf,
}

impl Decode {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut printer = Printer {
            decoder: self.wire.build("", None)?.decoder(),
            events: Events::new(),
            out: BufWriter::new(io::stdout().lock()),
            failed: false,
        };
        let mut input = open(&self.file)?;
        if self.cuts.is_empty() {
            let size = self.chunk_size.map_or(CHUNK_BYTES, |size| size as usize);
            let mut chunk = Vec::with_capacity(size);
            // Filling each chunk keeps the cuts where they were asked for, whatever a read gives. A
            // terminal's or a pipe's input is not held back: there a short read ends a chunk.
            let is_stream = self.chunk_size.is_none();
            loop {
                chunk.clear();
                if is_stream {
                    chunk.resize(size, 0);
                    let length = input.read(&mut chunk)?;
                    chunk.truncate(length);
                } else {
                    input.by_ref().take(size as u64).read_to_end(&mut chunk)?;
                }
                if chunk.is_empty() {
                    break;
                }
                printer.feed(&chunk)?;
            }
        } else {
            let mut body = Vec::new();
            input.read_to_end(&mut body)?;
            let mut rest = body.as_slice();
            let mut at = 0;
            for cut in self.cuts {
                let length = cut.saturating_sub(at).min(rest.len());
                let (chunk, after) = rest.split_at(length);
                printer.feed(chunk)?;
                (rest, at) = (after, at + length);
            }
            printer.feed(rest)?;
        }
        printer.end()
    }
}

/// A decoder and where its events are printed.
struct Printer {
    decoder: Box<dyn Decoder>,
    events: Events,
    out: BufWriter<StdoutLock<'static>>,
    failed: bool,
}

impl Printer {
    fn feed(&mut self, chunk: &[u8]) -> Result<()> {
        self.decoder.feed(chunk, &mut self.events);
        self.print()
    }

    fn end(mut self) -> Result<ExitCode> {
        self.decoder.end(End::Closed, &mut self.events);
        self.print()?;
        Ok(if self.failed { ExitCode::from(3) } else { ExitCode::SUCCESS })
    }

    fn print(&mut self) -> Result<()> {
        for event in &mut self.events {
            match event {
                Ok(event) => serde_json::to_writer(&mut self.out, &event)?,
                Err(error) => {
                    self.failed = true;
                    serde_json::to_writer(&mut self.out, &error)?;
                }
            }
            self.out.write_all(b"\n")?;
        }
        Ok(self.out.flush()?)
    }
}

fn open(file: &Path) -> Result<Box<dyn Read>> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Box::new(file))
}
