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
            body.push_bytes(&[frame]);
            body.ends.push(body.bytes.len());
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

    pub(crate) fn push(&mut self, event: &str, data: &str) {
        if !event.is_empty() {
            self.push_bytes(&["event: ", event, "\n"]);
        }
        self.push_bytes(&["data: ", data, "\n\n"]);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn push_delta(&mut self, event: &str, data: &str) {
        let frame = self.ends.len();
        self.push(event, data);
        self.deltas.get_or_insert(frame..frame).end = frame + 1;
    }

    pub(crate) fn push_comment(&mut self) {
        self.push_bytes(&[": keep-alive\n\n"]);
        self.ends.push(self.bytes.len());
    }

    fn push_bytes(&mut self, pieces: &[&str]) {
        for piece in pieces {
            self.bytes.extend_from_slice(piece.as_bytes());
        }
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
