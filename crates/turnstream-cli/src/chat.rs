//! `turnstream chat`: a conversation in the terminal.

mod screen;
mod tools;

use std::{
    env, future,
    io::{self, IsTerminal, Stderr, Stdout, Write},
    path::PathBuf,
    pin::Pin,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, Result, bail};
use clap::Args;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Split, Stdin, stdin},
    time::{MissedTickBehavior, interval},
};
use turnstream::{
    Client, Conversation, Failure, Outcome, Request, RetryPolicy, Run, RunEnded, RunEvent, RunStatus,
    ToolLoop, wire::Wire,
};
use turnstream_testing::ReplayServer;

use crate::{
    output::{Misuse, UNFINISHED, block_on, code_of, complain, complain_of, note, write_line},
    recordings::{Pace, Recordings},
    wires::Provider,
};
use screen::{Look, Screen};

/// How often the spinner moves.
const TICK: Duration = Duration::from_millis(100);

/// Chat with a model. Ctrl-C stops the answer, not the program; the end of the input (Ctrl-D) ends it.
#[derive(Debug, Args)]
#[command(
    after_help = "The answer goes to standard output; calls, results and what is waited for to standard error.\n\
    The exit code is that of the last answer.\n\n\
    Examples:\n  turnstream chat --wire anthropic-messages --model claude-sonnet-4-5 --tools\n  \
    turnstream chat --replay fixtures/recorded/openai-chat/text"
)]
pub(crate) struct Chat {
    #[command(flatten)]
    provider: Provider,
    /// Answer from recordings instead of asking anybody; their wire is taken where none is named. As for
    /// `turnstream replay`.
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["base_url", "key_from"])]
    replay: Vec<PathBuf>,
    /// How fast recordings are: `recorded`, `fast` (no pauses), `x2` (twice as fast), `x0.5`.
    #[arg(long, default_value = "recorded", requires = "replay")]
    pace: Pace,
    /// A system text.
    #[arg(long)]
    system: Option<String>,
    /// The most tokens of one turn.
    #[arg(long)]
    max_tokens: Option<u64>,
    /// Offer the built-in tools: `current_time`, `calculate` and `count`.
    #[arg(long)]
    tools: bool,
    /// Print every event as a JSON line instead of the text.
    #[arg(long)]
    json: bool,
    /// Say this, print the answer, and end.
    message: Option<String>,
}

/// Whom the chat is with.
struct Partner {
    client: Client,
    /// The server of recordings, if they answer.
    _server: Option<ReplayServer>,
}

/// Where the user's lines come from, and the wish to stop.
struct User {
    lines: Split<BufReader<Stdin>>,
    /// Held between the turns, so that none is missed.
    interrupt: Pin<Box<dyn Future<Output = io::Result<()>>>>,
}

impl Chat {
    pub(crate) fn run(self) -> Result<ExitCode> {
        block_on(self.talk())
    }

    async fn talk(self) -> Result<ExitCode> {
        if self.message.as_ref().is_some_and(|message| message.trim().is_empty()) {
            bail!(Misuse("the message is empty".to_owned()));
        }
        let partner = self.partner().await?;
        let mut user = User { lines: BufReader::new(stdin()).split(b'\n'), interrupt: interrupt() };
        let mut conversation = Conversation::new();
        let mut code = ExitCode::SUCCESS;
        let mut message = self.message.clone();
        let is_single = message.is_some();
        loop {
            let line = match message.take() {
                Some(message) => message,
                None if is_single => return Ok(code),
                None => match user.line().await?.map(String::from_utf8) {
                    Some(Ok(line)) => line.strip_suffix('\r').unwrap_or(&line).to_owned(),
                    Some(Err(_)) => {
                        complain("the line is not UTF-8, and was not sent");
                        code = ExitCode::FAILURE;
                        continue;
                    }
                    None => return Ok(code),
                },
            };
            if line.trim().is_empty() {
                continue;
            }
            let mut request = Request::new();
            request.system.extend(self.system.clone());
            request.max_tokens = self.max_tokens;
            request.conversation = conversation;
            let mut tool_loop = ToolLoop::new(partner.client.clone());
            if self.tools {
                tool_loop = tool_loop.tools(tools::all());
            }
            let outcome = self.answer(tool_loop.run(request.user(line)), &mut user).await?;
            code = self.judge(&outcome.status);
            conversation = outcome.conversation;
        }
    }

    async fn partner(&self) -> Result<Partner> {
        if self.replay.is_empty() {
            return Ok(Partner { client: self.provider.client(self.provider.build()?), _server: None });
        }
        let mut recordings = Recordings::load(&self.replay, self.pace, false)?;
        let wire = recordings.wire().to_owned();
        let server = ReplayServer::start_with(move |request| recordings.answer(request).1).await?;
        let wire: Arc<dyn Wire> = self.provider.build_at(&wire, &server.base_url())?;
        Ok(Partner { client: Client::new(wire).retries(RetryPolicy::never()), _server: Some(server) })
    }

    /// Shows one answer as it comes, until it ends or Ctrl-C stops it.
    async fn answer(&self, mut run: Run, user: &mut User) -> Result<Outcome> {
        let mut screen = terminal_screen();
        let mut is_ended = false;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let event = tokio::select! {
                event = run.next() => event,
                () = user.interrupted() => {
                    screen.end()?;
                    note("[stopped]");
                    let outcome = run.cancel();
                    // Who reads the events is told of the end, whoever brought it about.
                    if self.json && !is_ended {
                        print(&RunEvent::Ended(end_of(&outcome)))?;
                    }
                    return Ok(outcome);
                }
                _ = ticks.tick() => {
                    screen.tick()?;
                    continue;
                }
            };
            let Some(event) = event else {
                screen.end()?;
                return Ok(run.outcome());
            };
            is_ended |= matches!(event, RunEvent::Ended(_));
            if self.json {
                print(&event)?;
            } else {
                screen.show(&event)?;
            }
        }
    }

    /// The exit code for an answer that has ended; says why if it has not ended well.
    fn judge(&self, status: &RunStatus) -> ExitCode {
        match status {
            RunStatus::Finished => return ExitCode::SUCCESS,
            RunStatus::Failed(error) => {
                // It stands in the last line already.
                if !self.json {
                    complain_of(error);
                }
                return code_of(error);
            }
            _ if self.json => {}
            RunStatus::Stopped(reason) => note(&format!("[stopped: {reason}]")),
            RunStatus::Cancelled => {}
            status => note(&format!("[{}]", status.kind())),
        }
        ExitCode::from(UNFINISHED)
    }
}

impl User {
    /// The next line, whatever its bytes are; `None` at the end of the input. Ctrl-C begins the line anew.
    async fn line(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if io::stdin().is_terminal() {
                eprint!("> ");
            }
            tokio::select! {
                line = self.lines.next_segment() => return line.context("cannot read standard input"),
                () = Self::fired(&mut self.interrupt) => note("\n(Ctrl-D ends the chat)"),
            }
        }
    }

    /// Waits until the user wants to stop.
    async fn interrupted(&mut self) {
        Self::fired(&mut self.interrupt).await;
    }

    async fn fired(interrupt: &mut Pin<Box<dyn Future<Output = io::Result<()>>>>) {
        let heard = interrupt.as_mut().await;
        *interrupt = self::interrupt();
        if heard.is_err() {
            // Where the system tells nothing, nothing is heard.
            future::pending().await
        }
    }
}

/// Prints an event at once.
fn print(event: &RunEvent) -> Result<()> {
    let mut out = io::stdout().lock();
    write_line(&mut out, event)?;
    Ok(out.flush()?)
}

/// What the last event of a run says that left this.
fn end_of(outcome: &Outcome) -> RunEnded {
    let mut ended = RunEnded::new(outcome.status.kind(), outcome.turns, outcome.usage);
    if let RunStatus::Failed(error) = &outcome.status {
        ended.error = Some(Failure::of(error));
    }
    ended
}

fn interrupt() -> Pin<Box<dyn Future<Output = io::Result<()>>>> {
    Box::pin(tokio::signal::ctrl_c())
}

fn terminal_screen() -> Screen<Stdout, Stderr> {
    let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    let is_aside_terminal = io::stderr().is_terminal();
    let look = Look {
        is_answer_terminal: io::stdout().is_terminal(),
        is_live: is_aside_terminal && !is_dumb,
        has_colours: AutoStream::choice(&io::stderr()) != ColorChoice::Never,
    };
    Screen::new(io::stdout(), io::stderr(), look)
}
