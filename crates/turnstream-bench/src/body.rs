//! [`Body`]: the bytes of a reply, and where its frames are.

use std::ops::Range;

/// The body of one reply.
#[derive(Debug, Clone, Default)]
pub struct Body {
    bytes: Vec<u8>,
    /// Where each frame ends.
    ends: Vec<usize>,
    /// The frames from the first delta to the last one.
    deltas: Option<Range<usize>>,
}

/// How a body is cut into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunking {
    /// One frame a chunk, as most providers send them.
    Frames,
    /// So many bytes a chunk, as a buffering proxy sends them.
    Bytes(usize),
}

impl Body {
    pub(crate) fn of_frames(text: &str) -> Self {
        let mut body = Self::default();
        for frame in text.split_inclusive("\n\n") {
            body.push_frame(frame.as_bytes());
        }
        body
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All of it, in chunks.
    pub fn chunks(&self, chunking: Chunking) -> Vec<&[u8]> {
        match chunking {
            Chunking::Frames => self.frames(0..self.ends.len()),
            Chunking::Bytes(size) => self.bytes.chunks(size.max(1)).collect(),
        }
    }

    /// The frames in front of the first delta.
    pub fn opening(&self) -> Vec<&[u8]> {
        self.frames(0..self.delta_range().start)
    }

    /// The frames from the first delta to the last one.
    pub fn deltas(&self) -> Vec<&[u8]> {
        self.frames(self.delta_range())
    }

    /// The frames behind the last delta.
    pub fn closing(&self) -> Vec<&[u8]> {
        self.frames(self.delta_range().end..self.ends.len())
    }

    /// A server-sent event.
    pub(crate) fn push(&mut self, event: &str, data: &str) {
        self.push_frame(server_sent_event(event, data).as_bytes());
    }

    pub(crate) fn push_delta(&mut self, event: &str, data: &str) {
        self.push_delta_frame(server_sent_event(event, data).as_bytes());
    }

    pub(crate) fn push_comment(&mut self) {
        self.push_frame(b": keep-alive\n\n");
    }

    /// A frame, as it stands in the body.
    pub(crate) fn push_frame(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn push_delta_frame(&mut self, frame: &[u8]) {
        let place = self.ends.len();
        self.push_frame(frame);
        self.deltas.get_or_insert(place..place).end = place + 1;
    }

    fn delta_range(&self) -> Range<usize> {
        self.deltas.clone().unwrap_or(self.ends.len()..self.ends.len())
    }

    fn frames(&self, frames: Range<usize>) -> Vec<&[u8]> {
        let end_of = |frame: usize| self.ends.get(frame).copied().unwrap_or_default();
        let start_of = |frame: usize| frame.checked_sub(1).map_or(0, end_of);
        frames.filter_map(|frame| self.bytes.get(start_of(frame)..end_of(frame))).collect()
    }
}

fn server_sent_event(event: &str, data: &str) -> String {
    let name = if event.is_empty() { String::new() } else { format!("event: {event}\n") };
    format!("{name}data: {data}\n\n")
}
