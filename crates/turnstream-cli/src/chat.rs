//! `turnstream chat`: a conversation in the terminal.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use turnstream::{
    Client, Conversation, Event, Outcome, Request, Run, RunEvent, RunStatus, Schema, Tool, ToolLoop,
};

use crate::wires::WireChoice;

/// Chat with a model. Ctrl-C stops the answer, not the program; the end of the input ends it.
#[derive(Debug, Args)]
pub(crate) struct Chat {
    #[command(flatten)]
    wire: WireChoice,
    /// The model to ask.
    #[arg(long)]
    model: String,
    /// The address to ask, instead of the provider's own.
    #[arg(long)]
    base_url: Option<String>,
    /// A system text.
    #[arg(long)]
    system: Option<String>,
    /// The most tokens of one turn.
    #[arg(long)]
    max_tokens: Option<u64>,
    /// Offer the built-in tools: `current_time` and `calculate`.
    #[arg(long)]
    tools: bool,
    /// Print every event as a JSON line instead of the text.
    #[arg(long)]
    json: bool,
}

impl Chat {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let code = runtime.block_on(self.talk());
        // A read of the terminal cannot be cancelled, and nothing waits for it.
        runtime.shutdown_background();
        code
    }

    async fn talk(self) -> Result<ExitCode> {
        let model = Client::new(self.wire.build_with_key(&self.model, self.base_url.as_deref())?);
        let tools = || if self.tools { vec![current_time(), calculate()] } else { Vec::new() };
        let is_terminal = io::stdin().is_terminal();
        let mut lines = BufReader::new(stdin()).lines();
        let mut conversation = Conversation::new();
        let mut code = ExitCode::SUCCESS;
        loop {
            if is_terminal {
                eprint!("> ");
            }
            let Some(line) = lines.next_line().await? else { return Ok(code) };
            if line.trim().is_empty() {
                continue;
            }
            let mut request = Request::new();
            request.system.extend(self.system.clone());
            request.max_tokens = self.max_tokens;
            request.conversation = conversation;
            let run = ToolLoop::new(model.clone()).tools(tools()).run(request.user(line));
            let outcome = self.answer(run).await?;
            code = match &outcome.status {
                RunStatus::Finished => ExitCode::SUCCESS,
                RunStatus::Failed(error) => {
                    eprintln!("error: {error}");
                    ExitCode::from(3)
                }
                RunStatus::Stopped(reason) => {
                    eprintln!("[stopped: {reason}]");
                    ExitCode::from(3)
                }
                status => {
                    eprintln!("[{}]", status.kind());
                    ExitCode::from(3)
                }
            };
            conversation = outcome.conversation;
        }
    }

    /// Shows one answer as it comes, until it ends or Ctrl-C stops it.
    async fn answer(&self, mut run: Run) -> Result<Outcome> {
        let mut out = io::stdout();
        loop {
            let event = tokio::select! {
                event = run.next() => event,
                _ = tokio::signal::ctrl_c() => {
                    writeln!(out)?;
                    return Ok(run.cancel());
                }
            };
            let Some(event) = event else {
                if !self.json {
                    writeln!(out)?;
                }
                return Ok(run.outcome());
            };
            if self.json {
                serde_json::to_writer(&mut out, &event)?;
                writeln!(out)?;
            } else {
                show(&mut out, &event)?;
            }
            out.flush()?;
        }
    }
}

fn show(out: &mut impl Write, event: &RunEvent) -> io::Result<()> {
    match event {
        RunEvent::Turn(turn) => match &turn.event {
            Event::TextDelta(delta) => write!(out, "{}", delta.text),
            Event::RefusalDelta(delta) => write!(out, "{}", delta.text),
            Event::CallStarted(call) => writeln!(out, "\n[{} ...]", call.name),
            Event::CallFinished(call) => writeln!(out, "[{} {}]", call.name, call.arguments.json()),
            Event::CallAborted(call) => writeln!(out, "[{} was cut: {:?}]", call.name, call.reason),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn current_time() -> Tool {
    Tool::new("current_time")
        .description("The current time, in seconds since 1970 (UTC).")
        .parameters(Schema::object())
        .handler(|_: Value| async {
            let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
            Ok(json!({ "unix_seconds": since.as_secs() }))
        })
}

fn calculate() -> Tool {
    Tool::new("calculate")
        .description("One step of arithmetic.")
        .parameters(
            Schema::object()
                .number("left", "The left number.")
                .one_of("operator", "What to do with them.", ["+", "-", "*", "/"])
                .number("right", "The right number."),
        )
        .handler(|args: Value| async move {
            let number =
                |name: &str| args.get(name).and_then(Value::as_f64).ok_or(format!("`{name}` is no number"));
            let (left, right) = (number("left")?, number("right")?);
            let value = match args.get("operator").and_then(Value::as_str) {
                Some("+") => left + right,
                Some("-") => left - right,
                Some("*") => left * right,
                Some("/") => left / right,
                _ => return Err("`operator` is none of + - * /".into()),
            };
            Ok(json!({ "value": value }))
        })
}
