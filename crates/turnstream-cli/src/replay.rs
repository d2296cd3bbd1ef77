//! `turnstream replay`: a server for recordings.

use std::{io, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use turnstream_testing::ReplayServer;

use crate::{
    output::{block_on, note, write_line},
    recordings::{Pace, Recordings},
};

/// Serve recordings on the loopback, chunk by chunk, until Ctrl-C.
#[derive(Debug, Args)]
#[command(
    after_help = "A request is answered by the next recording of its wire, whatever it says and whatever \
    comes before the end of its path; after the last by the first again.\n\n\
    Example:\n  turnstream replay --pace x2 fixtures/recorded"
)]
pub(crate) struct Replay {
    /// How fast: `recorded`, `fast` (no pauses), `x2` (twice as fast), `x0.5`.
    #[arg(long, default_value = "recorded")]
    pace: Pace,
    /// The port; a free one is found where none is given.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Serve each recording once, and refuse what comes after.
    #[arg(long)]
    once: bool,
    /// Print JSON lines: one with the address, and one a request.
    #[arg(long)]
    json: bool,
    /// Recordings (the name of either file, or what they have in common), or folders of them.
    #[arg(required = true)]
    recordings: Vec<PathBuf>,
}

impl Replay {
    pub(crate) fn run(self) -> Result<ExitCode> {
        block_on(self.serve())
    }

    async fn serve(self) -> Result<ExitCode> {
        let mut recordings = Recordings::load(&self.recordings, self.pace, self.once)?;
        let as_json = self.json;
        let server = ReplayServer::start_on(self.port, move |request| {
            let (name, recording) = recordings.answer(request);
            let number = request.number + 1;
            if as_json {
                let line = json!({ "request": number, "path": request.path, "recording": name });
                // The server goes on when nobody reads along.
                let _ = write_line(&mut io::stdout().lock(), &line);
            } else {
                note(&format!("{number}  {}  {}", request.path, name.unwrap_or("(refused)")));
            }
            recording
        })
        .await
        .with_context(|| match self.port {
            0 => "cannot listen".to_owned(),
            port => format!("cannot listen on port {port}"),
        })?;
        if as_json {
            write_line(&mut io::stdout().lock(), &json!({ "listening": server.base_url() }))?;
        } else {
            println!("LISTENING {}", server.base_url());
        }
        tokio::signal::ctrl_c().await?;
        Ok(ExitCode::SUCCESS)
    }
}
