//! How the command speaks: lines of JSON on standard output, words for people on standard error.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde::Serialize;
use turnstream::{Error, Event};

/// For errors.
pub(crate) const ALARM: Style = AnsiColor::Red.on_default().bold();
/// For what stands beside the answer.
pub(crate) const QUIET: Style = Style::new().dimmed();

/// The exit code for a turn that did not finish.
pub(crate) const UNFINISHED: u8 = 3;

/// Writes a value as one line of JSON.
pub(crate) fn write_line<T: Serialize + ?Sized>(out: &mut impl Write, value: &T) -> Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    Ok(out.write_all(b"\n")?)
}

/// Writes an event or an error as one line of JSON.
pub(crate) fn write_event(out: &mut impl Write, event: &Result<Event, Error>) -> Result<()> {
    match event {
        Ok(event) => write_line(out, event),
        Err(error) => write_line(out, error),
    }
}

/// Says on standard error what went wrong.
pub(crate) fn complain(problem: &str) {
    say(&format!("{ALARM}error:{ALARM:#} {problem}"));
}

/// Says something beside the answer on standard error.
pub(crate) fn note(words: &str) {
    say(&format!("{QUIET}{words}{QUIET:#}"));
}

fn say(words: &str) {
    // Where nobody can be told, nobody is.
    let _ = writeln!(anstream::stderr().lock(), "{words}");
}

/// The text without what would move the cursor or colour the terminal: a model's words are not to be trusted
/// with either.
pub(crate) fn printable(text: &str) -> String {
    let shown = |symbol: char| match symbol {
        '\n' | '\t' => symbol,
        symbol if symbol.is_control() => char::REPLACEMENT_CHARACTER,
        symbol => symbol,
    };
    text.chars().map(shown).collect()
}

/// Runs a command's asynchronous part on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    // A read of the terminal cannot be cancelled, and nothing waits for it.
    runtime.shutdown_background();
    done
}

/// The whole of a file, or of standard input where the name is `-`.
pub(crate) fn read(file: &std::path::Path) -> Result<Vec<u8>> {
    use anyhow::Context;
    if file == std::path::Path::new("-") {
        return Ok(io::read_to_string(io::stdin())?.into_bytes());
    }
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}
