//! `turnstream record`: one turn, kept byte by byte.

use std::{
    env,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf, is_separator},
    pin::pin,
    process::ExitCode,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use turnstream::{Event, Request, RetryPolicy, wire::Wire};
use turnstream_testing::{RecordedTurn, Recorder};

use crate::{
    is_closed_pipe,
    output::{
        Misuse, UNFINISHED, block_on, code_of, complain_of, note, printable, read_request, write_event,
    },
    recordings::name,
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
    /// What the names of the two files have in common: `NAME.body` and `NAME.json`; or either of them.
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
        let wire = self.provider.build()?;
        let out = Out::new(&self.out)?;
        if !self.force && out.files().iter().any(|file| file.exists()) {
            bail!("{} is recorded already; --force overwrites it", out.name.display());
        }
        let request = read_request(&self.request)?;
        out.check()?;
        block_on(self.ask(wire, &request, &out))
    }

    async fn ask(&self, wire: Arc<dyn Wire>, request: &Request, out: &Out) -> Result<ExitCode> {
        let recorder = Recorder::new(wire);
        let client = self.provider.client(recorder.clone()).retries(RetryPolicy::never());
        let mut stopped = pin!(tokio::signal::ctrl_c());
        let mut turn = client.stream(request);
        let mut code = ExitCode::from(UNFINISHED);
        let mut shown = Ok(());
        loop {
            let event = tokio::select! {
                event = turn.next() => event,
                stopped = &mut stopped => {
                    stopped?;
                    break note("[stopped]");
                }
            };
            let Some(event) = event else { break };
            match &event {
                Ok(Event::TurnFinished(_)) => code = ExitCode::SUCCESS,
                Err(error) => {
                    code = code_of(error);
                    if !self.json {
                        complain_of(error);
                    }
                }
                _ => {}
            }
            // A reply that cannot be shown is still recorded.
            if shown.is_ok() {
                shown = self.show(&event);
            }
        }
        match recorder.turn(turn.head()) {
            Some(recorded) => out.save(&recorded)?,
            None => note("no reply came, and nothing is recorded"),
        }
        match shown {
            Err(error) if !is_closed_pipe(&error) => Err(error),
            _ => Ok(code),
        }
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
}

/// Where a recording goes.
struct Out {
    /// What the names of its files have in common.
    name: PathBuf,
}

impl Out {
    /// The name of a recording, or of either of its files.
    fn new(path: &Path) -> Result<Self> {
        let is_folder = path.as_os_str().to_string_lossy().ends_with(is_separator);
        if path.file_name().is_none() || is_folder {
            let problem = format!("--out names a recording, and {} is a folder", path.display());
            bail!(Misuse(problem));
        }
        Ok(Self { name: name(path) })
    }

    fn files(&self) -> [PathBuf; 2] {
        ["json", "body"].map(|ending| {
            let mut file = self.name.clone().into_os_string();
            file.push(".");
            file.push(ending);
            file.into()
        })
    }

    /// Finds out whether the files can be written, and leaves all as it was.
    fn check(&self) -> Result<()> {
        for file in self.files() {
            let is_new = !file.exists();
            // An older recording stays whole until there is a newer one.
            let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&file);
            opened.with_context(|| format!("cannot write {}", file.display()))?;
            if is_new {
                fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
            }
        }
        Ok(())
    }

    fn save(&self, recorded: &RecordedTurn) -> Result<()> {
        if let Err(error) = recorded.save(&self.name) {
            let kept = keep_elsewhere(recorded).context("the reply could be written nowhere")?;
            return Err(error).with_context(|| format!("the reply is kept as {}", kept.display()));
        }
        let (name, chunks, bytes) = (self.name.display(), recorded.chunks.len(), recorded.body().len());
        note(&format!("{name}.json, {name}.body: {bytes} bytes in {chunks} chunks"));
        Ok(())
    }
}

/// Saves a recording among the temporary files: what was asked and paid for is not lost because a disk filled up
/// or a folder went away meanwhile.
fn keep_elsewhere(recorded: &RecordedTurn) -> io::Result<PathBuf> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let folder = env::temp_dir().join(format!("turnstream-{}-{}", std::process::id(), now.as_nanos()));
    // A folder of our own, which nobody else can have put there.
    private_folder().create(&folder)?;
    let name = folder.join("reply");
    recorded.save(&name)?;
    Ok(name)
}

/// Makes folders that, where the system knows of users, are for this one alone.
fn private_folder() -> DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only unix has a mode to set"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}
