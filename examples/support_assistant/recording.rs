//! The recorded conversation, served over real HTTP inside this process.

use anyhow::Result;
use turnstream_testing::{RecordedTurn, Recording, ReplayServer};

/// The two files of each turn, as `turnstream record` writes them.
const TURNS: [(&[u8], &[u8]); 3] = [
    (include_bytes!("recording/turn-1.json"), include_bytes!("recording/turn-1.body")),
    (include_bytes!("recording/turn-2.json"), include_bytes!("recording/turn-2.body")),
    (include_bytes!("recording/turn-3.json"), include_bytes!("recording/turn-3.body")),
];

/// Serves the conversation, a turn a request, at its own pace or without pauses.
pub(crate) async fn serve(fast: bool) -> Result<ReplayServer> {
    let scale = if fast { 0.0 } else { 1.0 };
    let mut turns = Vec::new();
    for (json, body) in TURNS {
        turns.push(Recording::from(RecordedTurn::parse(json, body)?).scaled(scale));
    }
    Ok(ReplayServer::start(turns).await?)
}
