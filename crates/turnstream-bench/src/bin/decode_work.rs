//! Decodes one made-up body and says what came out. Run it under an instruction counter.

use std::{env, error::Error, hint::black_box, process::ExitCode};

use turnstream_bench::{BenchWire, ReplySpec, floor::Floor, shapes};
use turnstream_core::{CallPreview, End, Event, Events, Limits, TurnBuilder};

const USAGE: &str = "\
usage: decode_work WIRE SHAPE SIZE CHUNK [none | floor]

  WIRE   anthropic-messages, openai-chat, openai-responses, gemini, cohere-v2, ollama, bedrock-converse
  SHAPE  SIZE
  text          deltas of one text
  tools         fragments of each of sixteen calls
  turn          small turns, one after the other
  huge-call     MiB of one call's arguments
  huge-frame    MiB of one frame
  comments      comments
  preview       MiB of one call's arguments, shown as they come
  collect-text  MiB of text, put together to a turn
  collect-call  MiB of one call's arguments, put together to a turn
  CHUNK  bytes a chunk, or `frame` for one frame a chunk
  none   make the body, and do not decode it
  floor  read it with the hand-written floor";

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
    let (wire, shape, size, chunk, reader) = match *arguments {
        [wire, shape, size, chunk] => (wire, shape, size, chunk, Who::Decoder),
        [wire, shape, size, chunk, "none"] => (wire, shape, size, chunk, Who::Nobody),
        [wire, shape, size, chunk, "floor"] => (wire, shape, size, chunk, Who::Floor),
        _ => return Err("four or five words are needed".into()),
    };
    let spec = ReplySpec::parse(wire, shape, size, chunk)?;
    let (shape, audience) = match spec.shape.as_str() {
        "preview" => ("huge-call", Audience::Preview),
        "collect-text" => ("long-text", Audience::Turn),
        "collect-call" => ("huge-call", Audience::Turn),
        shape => (shape, Audience::None),
    };
    let body = shapes::named(spec.wire, shape, spec.size)?;
    let times = if spec.shape == "turn" { spec.size } else { 1 };
    let chunks = body.chunks(spec.chunking);
    let mut seen = Seen::default();
    for _ in 0..times {
        match reader {
            Who::Nobody => {}
            Who::Decoder => {
                let mut reader = Reader::new(audience);
                reader.read(spec.wire, &chunks)?;
                seen.events += reader.seen.events;
                seen.bytes += reader.seen.bytes;
                black_box(reader.turn.build());
            }
            Who::Floor => {
                let mut floor = Floor::new(spec.wire);
                for chunk in &chunks {
                    floor.feed(chunk)?;
                }
                let turn = black_box(floor.finish());
                seen.events += turn.deltas;
                seen.bytes += turn.bytes();
            }
        }
    }
    println!("events {} bytes {} body {}", seen.events, seen.bytes, body.bytes().len());
    Ok(())
}

/// Who reads the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Nobody,
    Decoder,
    Floor,
}

/// Who gets the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    None,
    Preview,
    Turn,
}

/// What came out: events, and bytes of text and of arguments.
#[derive(Debug, Default)]
struct Seen {
    events: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Reader {
    audience: Audience,
    preview: CallPreview,
    turn: TurnBuilder,
    seen: Seen,
}

impl Reader {
    fn new(audience: Audience) -> Self {
        Self { audience, preview: CallPreview::new(), turn: TurnBuilder::new(), seen: Seen::default() }
    }

    fn read(&mut self, wire: BenchWire, chunks: &[&[u8]]) -> Result<(), turnstream_core::Error> {
        let mut decoder = wire.decoder(Limits::new());
        let mut events = Events::new();
        for chunk in chunks {
            decoder.feed(chunk, &mut events);
            self.take(&mut events)?;
        }
        decoder.end(End::Closed, &mut events);
        self.take(&mut events)
    }

    fn take(&mut self, events: &mut Events) -> Result<(), turnstream_core::Error> {
        for event in events {
            let event = event?;
            self.seen.events += 1;
            match &event {
                Event::TextDelta(delta) => self.seen.bytes += delta.text.len(),
                Event::CallArgumentFragment(delta) => self.seen.bytes += delta.fragment.as_raw_str().len(),
                _ => {}
            }
            match (self.audience, &event) {
                (Audience::Preview, Event::CallArgumentFragment(delta)) => {
                    self.preview.push(&delta.fragment);
                    black_box(self.preview.value().get("content"));
                }
                (Audience::Turn, event) => self.turn.push(event),
                _ => {}
            }
            black_box(event);
        }
        Ok(())
    }
}
