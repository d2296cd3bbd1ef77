//! The floor: what a careful programmer writes by hand for one wire and one program.
//!
//! Lines are found with memchr, messages by their lengths, frames are read into borrowed serde structs, and what
//! they say is appended to strings. It keeps none of the laws: a cut turn looks whole, a call is finished when it has
//! been added to, nothing has a limit, no checksum is checked, unknown frames are gone. It is what our own work is
//! compared with, not a way to read replies.

mod frames;
mod messages;

use memchr::memchr;

use crate::wires::{BenchWire, Framing};

/// Reads one reply.
#[derive(Debug)]
pub struct Floor {
    wire: BenchWire,
    /// The line or the message that has begun and not ended.
    begun: Vec<u8>,
    turn: FloorTurn,
}

/// What a reply said.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FloorTurn {
    /// All of the text.
    pub text: String,
    /// The calls, in the order in which they were announced.
    pub calls: Vec<FloorCall>,
    /// The provider's word for why it ended.
    pub reason: Option<String>,
    /// The deltas of text and of arguments.
    pub deltas: usize,
}

/// A call, and its arguments as far as they came.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FloorCall {
    /// Where the wire says it stands.
    pub place: usize,
    /// Its id.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The text of the arguments.
    pub arguments: String,
}

impl Floor {
    /// A reader for one reply.
    pub fn new(wire: BenchWire) -> Self {
        Self { wire, begun: Vec::new(), turn: FloorTurn::default() }
    }

    /// Reads the next bytes.
    ///
    /// # Errors
    ///
    /// Where a frame is not what the wire writes.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), serde_json::Error> {
        match self.wire.framing() {
            Framing::ServerSentEvents | Framing::JsonLines => self.feed_lines(chunk),
            Framing::AwsMessages => self.feed_messages(chunk),
        }
    }

    fn feed_lines(&mut self, mut chunk: &[u8]) -> Result<(), serde_json::Error> {
        while let Some((line, rest)) = memchr(b'\n', chunk).and_then(|end| chunk.split_at_checked(end + 1)) {
            if self.begun.is_empty() {
                read_line(self.wire, line, &mut self.turn)?;
            } else {
                self.begun.extend_from_slice(line);
                read_line(self.wire, &self.begun, &mut self.turn)?;
                self.begun.clear();
            }
            chunk = rest;
        }
        self.begun.extend_from_slice(chunk);
        Ok(())
    }

    fn feed_messages(&mut self, mut chunk: &[u8]) -> Result<(), serde_json::Error> {
        while !self.begun.is_empty() && !chunk.is_empty() {
            let (more, rest) = chunk.split_at(messages::missing(&self.begun).min(chunk.len()));
            self.begun.extend_from_slice(more);
            if read_messages(self.wire, &self.begun, &mut self.turn)?.is_empty() {
                self.begun.clear();
            }
            chunk = rest;
        }
        self.begun.extend_from_slice(read_messages(self.wire, chunk, &mut self.turn)?);
        Ok(())
    }

    /// What has been read so far.
    pub fn turn(&self) -> &FloorTurn {
        &self.turn
    }

    /// What was read.
    pub fn finish(self) -> FloorTurn {
        self.turn
    }
}

impl FloorTurn {
    /// The bytes of text and of arguments.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.calls.iter().map(|call| call.arguments.len()).sum::<usize>()
    }

    fn text(&mut self, text: &str) {
        self.text.push_str(text);
        self.deltas += 1;
    }

    fn call(&mut self, place: usize, id: &str, name: &str) {
        self.calls.push(FloorCall {
            place,
            id: id.to_owned(),
            name: name.to_owned(),
            ..FloorCall::default()
        });
    }

    fn fragment(&mut self, place: usize, fragment: &str) {
        if let Some(call) = self.calls.iter_mut().rev().find(|call| call.place == place) {
            call.arguments.push_str(fragment);
            self.deltas += 1;
        }
    }
}

fn read_line(wire: BenchWire, line: &[u8], turn: &mut FloorTurn) -> Result<(), serde_json::Error> {
    let data = match wire.framing() {
        Framing::ServerSentEvents => line.strip_prefix(b"data: "),
        Framing::JsonLines | Framing::AwsMessages => Some(line),
    };
    match data {
        Some(data) => frames::read(wire, "", text(data)?, turn),
        None => Ok(()),
    }
}

/// Reads the messages that are whole, and gives what is left.
fn read_messages<'b>(
    wire: BenchWire,
    mut bytes: &'b [u8],
    turn: &mut FloorTurn,
) -> Result<&'b [u8], serde_json::Error> {
    while let Some((message, rest)) = messages::first(bytes)? {
        frames::read(wire, message.event, text(message.payload)?, turn)?;
        bytes = rest;
    }
    Ok(bytes)
}

/// Borrowed strings out of a checked text cost less than out of bytes, which are checked string by string.
fn text(bytes: &[u8]) -> Result<&str, serde_json::Error> {
    str::from_utf8(bytes).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use turnstream_core::{End, Event, Events, Limits};

    use super::*;
    use crate::{Body, Chunking, shapes};

    #[test]
    fn the_floor_reads_what_the_decoder_reads() {
        for wire in BenchWire::ALL {
            for body in [
                shapes::text(wire, 200),
                shapes::tools(wire, 20),
                shapes::turn(wire),
                shapes::huge_call(wire, 1 << 11),
                shapes::huge_frame(wire, 1 << 11),
                shapes::comments(wire, 2),
            ] {
                for chunking in [Chunking::Frames, Chunking::Bytes(1), Chunking::Bytes(1000)] {
                    assert_eq!(by_floor(wire, &body, chunking), by_decoder(wire, &body), "{}", wire.name());
                }
            }
        }
    }

    /// The text, and the calls by id, name and arguments.
    type Said = (String, Vec<(String, String, String)>);

    fn by_floor(wire: BenchWire, body: &Body, chunking: Chunking) -> Said {
        let mut floor = Floor::new(wire);
        for chunk in body.chunks(chunking) {
            floor.feed(chunk).unwrap();
        }
        let turn = floor.finish();
        assert!(turn.reason.is_some());
        (turn.text, turn.calls.into_iter().map(|call| (call.id, call.name, call.arguments)).collect())
    }

    fn by_decoder(wire: BenchWire, body: &Body) -> Said {
        let (mut decoder, mut events) = (wire.decoder(Limits::new()), Events::new());
        decoder.feed(body.bytes(), &mut events);
        decoder.end(End::Closed, &mut events);
        let mut said = Said::default();
        for event in events {
            match event.unwrap() {
                Event::TextDelta(delta) => said.0.push_str(delta.text.as_str()),
                Event::CallFinished(call) => said.1.push((
                    call.id.to_string(),
                    call.name.to_string(),
                    call.arguments.as_str().to_owned(),
                )),
                _ => {}
            }
        }
        said
    }
}
