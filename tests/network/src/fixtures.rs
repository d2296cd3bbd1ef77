//! What is served: the project's fixtures of every wire, and a few bodies that only these programs need.

use std::fs;

use anyhow::{Context, ensure};
use turnstream::{
    Event,
    wire::{End, Events},
};
use turnstream_testing::{HttpWire, OverHttp, Reply, anthropic, conformance, openai_chat, openai_responses};
use turnstream_tests::{Framing, TestedWire, entries, root};

use crate::{
    oracle::{Item, decoded},
    origin,
};

/// How many pieces of text the long body has, and how many bytes each.
const LONG: (usize, usize) = (1024, 4096);

/// A body and what its wire makes of it.
#[derive(Debug)]
pub struct Fixture {
    /// The wire.
    pub wire: TestedWire,
    /// The name of its file, without its ending.
    pub name: String,
    /// The bytes.
    pub body: Vec<u8>,
    /// The events, and the error if it ends in one.
    pub items: Vec<Item>,
}

/// All of them, in an order that is the same in every process.
#[derive(Debug)]
pub struct Fixtures {
    all: Vec<Fixture>,
    /// The number of the long one.
    long: usize,
}

impl Fixtures {
    /// Reads the fixtures of every wire, and makes the others.
    ///
    /// # Errors
    ///
    /// When one cannot be read, or its decoder does not make of it what its events file says.
    pub fn load() -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for wire in TestedWire::ALL {
            for path in entries(&root().join("fixtures").join(wire.name()))? {
                if path.extension().is_some_and(|extension| extension == wire.extension()) {
                    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                    let body = fs::read(&path).with_context(|| path.display().to_string())?;
                    let fixture = Fixture::new(wire, &name, body);
                    let want = fs::read_to_string(path.with_extension("events.jsonl"))?;
                    let got: Vec<String> = fixture.items.iter().map(conformance::line).collect();
                    ensure!(got.iter().eq(want.lines()), "{}: not the events of its file", path.display());
                    all.push(fixture);
                }
            }
        }
        all.push(overloaded_at_once(TestedWire::Anthropic, anthropic::Reply::new()));
        all.push(overloaded_at_once(TestedWire::OpenAiChat, openai_chat::Reply::new()));
        all.push(overloaded_at_once(TestedWire::OpenAiResponses, openai_responses::Reply::new()));
        let long = all.len();
        let pieces = (0..LONG.0).map(|piece| format!("{piece:0>width$}", width = LONG.1));
        all.push(Fixture::new(
            TestedWire::OpenAiChat,
            "long-text",
            openai_chat::Reply::new().text(pieces).body(),
        ));
        Ok(Self { all, long })
    }

    /// The one with this number.
    pub fn get(&self, number: usize) -> Option<&Fixture> {
        self.all.get(number)
    }

    /// The number of a body of four megabytes.
    pub fn long(&self) -> usize {
        self.long
    }

    /// The numbers of those that are of this kind, the long one left out.
    pub fn numbers(&self, is_kind: impl Fn(&Fixture) -> bool) -> Vec<usize> {
        let all = self.all.iter().enumerate();
        all.filter(|(number, fixture)| *number != self.long && is_kind(fixture))
            .map(|(number, _)| number)
            .collect()
    }
}

impl Fixture {
    fn new(wire: TestedWire, name: &str, body: Vec<u8>) -> Self {
        let items = decoded(wire, &body, End::Closed);
        Self { wire, name: name.to_owned(), body, items }
    }

    /// What its head says it is.
    pub fn content_type(&self) -> &'static str {
        match self.wire.framing() == Framing::Lines {
            true => "application/x-ndjson",
            false => "text/event-stream",
        }
    }

    /// How many bytes the server sends before the first of its body.
    pub fn head_bytes(&self) -> usize {
        origin::head(200, self.content_type(), &[]).len() + format!("{:x}\r\n", self.body.len()).len()
    }

    /// Whether it ends in an error.
    pub fn fails(&self) -> bool {
        self.items.last().is_some_and(Result::is_err)
    }

    /// Whether its first half leaves the turn open, and says no reason after which a silent turn is finished.
    pub fn is_open_at_half(&self) -> bool {
        let (mut decoder, mut events) = (self.wire.decoder(), Events::new());
        decoder.feed(self.body.get(..self.body.len() / 2).unwrap_or_default(), &mut events);
        !decoder.is_settled() && !events.any(|item| matches!(item, Ok(Event::TurnFinished(_)) | Err(_)))
    }

    /// Where its frames end, the last one left out. Empty for wires whose frames are not text.
    pub fn frame_ends(&self) -> Vec<usize> {
        let end: &[u8] = match self.wire.extension() {
            "sse" => b"\n\n",
            "ndjson" => b"\n",
            _ => return Vec::new(),
        };
        let ends = self.body.windows(end.len()).enumerate().filter(|(_, bytes)| *bytes == end);
        ends.map(|(start, _)| start + end.len()).filter(|end| *end < self.body.len()).collect()
    }

    /// A frame that its wire must know and cannot read.
    pub fn damage(&self) -> &'static [u8] {
        match self.wire.framing() == Framing::Lines {
            true => b"{\"message\": \n",
            false => b"data: {\"type\": \n\n",
        }
    }
}

/// A turn that fails before it has said anything.
fn overloaded_at_once<W: HttpWire>(wire: TestedWire, reply: Reply<OverHttp<W>>) -> Fixture {
    Fixture::new(wire, "overloaded-at-once", reply.error("overloaded_error", "Overloaded").body())
}
