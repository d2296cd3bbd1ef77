//! `turnstream decode`: the events of a recorded body, a line each.

use std::{
    fs::File,
    io::{self, BufWriter, Read, StdoutLock, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use turnstream::{
    Error, ErrorKind,
    wire::{
        Decode as Decoder, End, Events, Wire,
        reexports::http::{HeaderMap, HeaderName, HeaderValue},
    },
};
use turnstream_testing::{RecordedEnd, RecordedTurn};

use crate::{
    output::{Misuse, UNFINISHED, read, write_event},
    wires::WireChoice,
};

/// How much is read at a time where nothing else is asked.
const CHUNK_BYTES: usize = 64 << 10;

/// Print the events of a recorded response body, one JSON line each.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --wire, FILE is a recording of `turnstream record`: it knows its wire, and is decoded as \
    it came, in its own chunks and with its own end."
)]
pub(crate) struct Decode {
    #[command(flatten)]
    wire: WireChoice,
    /// Feed the decoder this many bytes at a time.
    #[arg(long, value_name = "N", conflicts_with = "cuts", value_parser = clap::value_parser!(u32).range(1..))]
    chunk_size: Option<u32>,
    /// Cut the body at these byte offsets.
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    cuts: Vec<usize>,
    /// The body, or `-` for standard input, which is decoded as it comes; or a recording.
    file: PathBuf,
}

impl Decode {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if !self.wire.is_named() {
            return self.run_recorded();
        }
        let mut printer = Printer::new(self.wire.build()?.decoder());
        if self.cuts.is_empty() {
            printer.feed_chunks(&mut Input::open(&self.file)?, self.chunk_size)?;
        } else {
            printer.feed_cut(&read(&self.file)?, &self.cuts)?;
        }
        printer.end(End::Closed)
    }

    fn run_recorded(self) -> Result<ExitCode> {
        let is_cut_anew = self.chunk_size.is_some() || !self.cuts.is_empty();
        if is_cut_anew {
            let problem = "--wire is needed with --chunk-size and --cuts: a recording has its own";
            bail!(Misuse(problem.to_owned()));
        }
        let turn = RecordedTurn::load(&self.file).with_context(|| {
            format!("{} is not read as a recording, and anything else needs --wire", self.file.display())
        })?;
        let wire = self.wire.or_named(&turn.wire)?.build()?;
        let mut printer = Printer::new(wire.decoder());
        if !(200..300).contains(&turn.status) {
            return printer.refused(&refusal(&*wire, &turn));
        }
        for chunk in &turn.chunks {
            printer.feed(&chunk.bytes)?;
        }
        printer.end(match turn.end {
            RecordedEnd::Whole => End::Closed,
            _ => End::Broken(Error::new(ErrorKind::Truncated, "the recording was cut here")),
        })
    }
}

/// What a recorded refusal means.
fn refusal(wire: &dyn Wire, turn: &RecordedTurn) -> Error {
    let header = |(name, value): &(String, String)| {
        Some((name.parse::<HeaderName>().ok()?, value.parse::<HeaderValue>().ok()?))
    };
    let headers: HeaderMap = turn.headers.iter().filter_map(header).collect();
    wire.refused(turn.status, &headers, &turn.body())
}

/// A decoder and where its events are printed.
struct Printer {
    decoder: Box<dyn Decoder>,
    events: Events,
    out: BufWriter<StdoutLock<'static>>,
    failed: bool,
}

impl Printer {
    fn new(decoder: Box<dyn Decoder>) -> Self {
        Self { decoder, events: Events::new(), out: BufWriter::new(io::stdout().lock()), failed: false }
    }

    /// Feeds the whole input, in chunks of this size if there is one.
    fn feed_chunks(&mut self, input: &mut Input, chunk_size: Option<u32>) -> Result<()> {
        let size = chunk_size.map_or(CHUNK_BYTES, |size| size as usize);
        let mut chunk = Vec::with_capacity(size);
        loop {
            chunk.clear();
            // Filling each chunk keeps the cuts where they were asked for, whatever a read gives. A
            // terminal's or a pipe's input is not held back: there a short read ends a chunk.
            if chunk_size.is_some() {
                input.read_full(size as u64, &mut chunk)?;
            } else {
                chunk.resize(size, 0);
                let length = input.read(&mut chunk)?;
                chunk.truncate(length);
            }
            if chunk.is_empty() {
                return Ok(());
            }
            self.feed(&chunk)?;
        }
    }

    /// Feeds a body cut at these offsets.
    fn feed_cut(&mut self, body: &[u8], cuts: &[usize]) -> Result<()> {
        let (mut rest, mut at) = (body, 0);
        for cut in cuts {
            let length = cut.saturating_sub(at).min(rest.len());
            let (chunk, after) = rest.split_at(length);
            self.feed(chunk)?;
            (rest, at) = (after, at + length);
        }
        self.feed(rest)
    }

    fn feed(&mut self, chunk: &[u8]) -> Result<()> {
        self.decoder.feed(chunk, &mut self.events);
        self.print()
    }

    fn end(mut self, end: End) -> Result<ExitCode> {
        self.decoder.end(end, &mut self.events);
        self.print()?;
        Ok(if self.failed { ExitCode::from(UNFINISHED) } else { ExitCode::SUCCESS })
    }

    fn refused(mut self, error: &Error) -> Result<ExitCode> {
        crate::output::write_line(&mut self.out, error)?;
        self.out.flush()?;
        Ok(ExitCode::from(UNFINISHED))
    }

    fn print(&mut self) -> Result<()> {
        for event in &mut self.events {
            self.failed |= event.is_err();
            write_event(&mut self.out, &event)?;
        }
        Ok(self.out.flush()?)
    }
}

/// What is read, and its name for what may go wrong.
struct Input {
    reader: Box<dyn Read>,
    name: String,
}

impl Input {
    fn open(file: &Path) -> Result<Self> {
        if file == Path::new("-") {
            return Ok(Self { reader: Box::new(io::stdin().lock()), name: "standard input".to_owned() });
        }
        let name = file.display().to_string();
        let file = File::open(file).with_context(|| format!("cannot read {name}"))?;
        Ok(Self { reader: Box::new(file), name })
    }

    /// Reads what there is.
    fn read(&mut self, chunk: &mut [u8]) -> Result<usize> {
        self.reader.read(chunk).with_context(|| format!("cannot read {}", self.name))
    }

    /// Reads this many bytes, or as many as there are before the end.
    fn read_full(&mut self, bytes: u64, chunk: &mut Vec<u8>) -> Result<()> {
        let read = self.reader.by_ref().take(bytes).read_to_end(chunk);
        read.with_context(|| format!("cannot read {}", self.name))?;
        Ok(())
    }
}
