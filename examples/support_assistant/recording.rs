//! The recorded conversation, served over real HTTP inside this process.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use turnstream_testing::{Recording, ReplayServer};

/// One turn's body, and when each chunk of it came.
struct RecordedTurn {
    body: &'static [u8],
    chunks: &'static str,
}

/// A line of a `.chunks.jsonl` file.
#[derive(Deserialize)]
struct Chunk {
    /// How long after the chunk before, in milliseconds.
    after_ms: u64,
    /// How many bytes of the body.
    bytes: usize,
}

const TURNS: [RecordedTurn; 3] = [
    RecordedTurn {
        body: include_bytes!("recording/turn-1.sse"),
        chunks: include_str!("recording/turn-1.chunks.jsonl"),
    },
    RecordedTurn {
        body: include_bytes!("recording/turn-2.sse"),
        chunks: include_str!("recording/turn-2.chunks.jsonl"),
    },
    RecordedTurn {
        body: include_bytes!("recording/turn-3.sse"),
        chunks: include_str!("recording/turn-3.chunks.jsonl"),
    },
];

/// Serves the conversation, a turn a request, at its own pace or without pauses.
pub(crate) async fn serve(fast: bool) -> Result<ReplayServer> {
    let scale = if fast { 0.0 } else { 1.0 };
    let turns: Vec<Recording> = TURNS.iter().map(|turn| turn.recording(scale)).collect::<Result<_>>()?;
    Ok(ReplayServer::start(turns).await?)
}

impl RecordedTurn {
    fn recording(&self, scale: f64) -> Result<Recording> {
        let mut recording = Recording::chunks(Vec::<Vec<u8>>::new());
        let mut rest = self.body;
        for line in self.chunks.lines() {
            let chunk: Chunk = serde_json::from_str(line)?;
            let (bytes, after) =
                rest.split_at_checked(chunk.bytes).context("the chunks go beyond the body")?;
            recording = recording.then_after(Duration::from_millis(chunk.after_ms), bytes);
            rest = after;
        }
        Ok(recording.scaled(scale))
    }
}
