//! [`ReplySpec`]: which reply is served, as words of a command line.

use crate::{body::Chunking, wires::BenchWire};

/// A reply, as a command line names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplySpec {
    /// The wire that it is written for.
    pub wire: BenchWire,
    /// A name that [`shapes::named`](crate::shapes::named) knows; or `run` for the example's first turn and its
    /// last one, `endless` for a text that does not end, `trickle` for one that also takes its time.
    pub shape: String,
    /// The size that the shape goes by.
    pub size: usize,
    /// How it is cut into chunks.
    pub chunking: Chunking,
}

impl ReplySpec {
    /// Reads four words.
    ///
    /// # Errors
    ///
    /// Where one of them is none of its kind.
    pub fn parse(wire: &str, shape: &str, size: &str, chunk: &str) -> Result<Self, String> {
        let number = |word: &str| word.parse().map_err(|_| format!("`{word}` is no number"));
        Ok(Self {
            wire: wire.parse()?,
            shape: shape.to_owned(),
            size: number(size)?,
            chunking: match chunk {
                "frame" => Chunking::Frames,
                bytes => Chunking::Bytes(number(bytes)?),
            },
        })
    }

    /// The four words.
    pub fn words(&self) -> [String; 4] {
        let chunk = match self.chunking {
            Chunking::Frames => "frame".to_owned(),
            Chunking::Bytes(bytes) => bytes.to_string(),
        };
        [self.wire.name().to_owned(), self.shape.clone(), self.size.to_string(), chunk]
    }
}
