//! `turnstream record`: one turn, kept byte by byte.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use turnstream::{Client, Event, Request, RetryPolicy};
use turnstream_testing::{RecordedTurn, Recorder};

use crate::{
    output::{UNFINISHED, block_on, complain, note, printable, read, write_event},
    wires::Provider,
};

/// Ask for one turn, and record it: the bytes of the reply, when each chunk came, the request and the head.
#[derive(Debug, Args)]
#[command(
    after_help = "A turn that fails or is stopped with Ctrl-C is recorded as far as it came; the exit code is 3 \
    then. No secret is in a recording.\n\n\
    Example:\n  turnstream record --wire openai-chat --base-url http://127.0.0.1:8080/v1 --model smol \
    request.json --out order-1"
)]
pub(crate) struct Record {
    #[command(flatten)]
    provider: Provider,
    /// What the names of the two files have in common: `NAME.body` and `NAME.json`.
    #[arg(long, short, value_name = "NAME")]
    out: PathBuf,
    /// Overwrite a recording of this name.
    #[arg(long)]
    force: bool,
    /// Print every event as a JSON line instead of the text.
    #[arg(long)]
    json: bool,
    /// A request as JSON, or `-` for standard input.
    request: PathBuf,
}

impl Record {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let there = |ending: &str| Path::new(&format!("{}.{ending}", self.out.display())).exists();
        if !self.force && (there("json") || there("body")) {
            bail!("{} is recorded already; --force overwrites it", self.out.display());
        }
        let request: Request =
            serde_json::from_slice(&read(&self.request)?).context("the file is not a request")?;
        block_on(self.ask(request))
    }

    async fn ask(self, request: Request) -> Result<ExitCode> {
        let recorder = Recorder::new(self.provider.build()?);
        let client = self.provider.signed(Client::new(recorder.clone())).retries(RetryPolicy::never());
        let mut turn = client.stream(&request);
        let mut code = ExitCode::from(UNFINISHED);
        loop {
            let event = tokio::select! {
                event = turn.next() => event,
                stopped = tokio::signal::ctrl_c() => {
                    stopped?;
                    break note("[stopped]");
                }
            };
            let Some(event) = event else { break };
            match &event {
                Ok(Event::TurnFinished(_)) => code = ExitCode::SUCCESS,
                Err(error) if !self.json => complain(&error.to_string()),
                _ => {}
            }
            self.show(&event)?;
        }
        match recorder.turn(turn.head()) {
            Some(recorded) => self.save(&recorded)?,
            None => note("no reply came, and nothing is recorded"),
        }
        Ok(code)
    }

    fn show(&self, event: &Result<Event, turnstream::Error>) -> Result<()> {
        let mut out = io::stdout().lock();
        if self.json {
            write_event(&mut out, event)?;
            return Ok(out.flush()?);
        }
        let text = |text: &str| if io::stdout().is_terminal() { printable(text) } else { text.to_owned() };
        match event {
            Ok(Event::TextDelta(delta)) => write!(out, "{}", text(&delta.text))?,
            Ok(Event::CallFinished(call)) => {
                writeln!(out, "[{} {}]", text(&call.name), text(call.arguments.json()))?;
            }
            Ok(Event::TurnFinished(_)) => writeln!(out)?,
            _ => {}
        }
        Ok(out.flush()?)
    }

    fn save(&self, recorded: &RecordedTurn) -> Result<()> {
        recorded.save(&self.out)?;
        let (name, chunks, bytes) = (self.out.display(), recorded.chunks.len(), recorded.body().len());
        note(&format!("{name}.json, {name}.body: {bytes} bytes in {chunks} chunks"));
        Ok(())
    }
}
