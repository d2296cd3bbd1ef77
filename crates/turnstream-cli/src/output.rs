//! How the command speaks: lines of JSON on standard output, words for people on standard error.

use std::{
    fmt::{self, Write as _},
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
};

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};
use serde::Serialize;
use turnstream::{Error, ErrorKind, Event, Request};

/// For errors.
pub(crate) const ALARM: Style = AnsiColor::Red.on_default().bold();
/// For what stands beside the answer.
pub(crate) const QUIET: Style = Style::new().dimmed();

/// The exit code for a turn that did not finish.
pub(crate) const UNFINISHED: u8 = 3;
/// The exit code for a wrong call, as clap has it.
pub(crate) const MISUSED: u8 = 2;

/// A wrong call that is found only after the words have been read. Anything else that stops a command is a matter
/// of its files, its addresses or its settings.
#[derive(Debug, Clone)]
pub(crate) struct Misuse(pub(crate) String);

/// The exit code for a turn that ended in an error: a setting or an address that cannot be used kept it from being
/// sent at all.
pub(crate) fn code_of(error: &Error) -> ExitCode {
    match error.kind() {
        ErrorKind::Config => ExitCode::FAILURE,
        _ => ExitCode::from(UNFINISHED),
    }
}

/// Writes a value as one line of JSON, without characters that would steer a terminal.
pub(crate) fn write_line<T: Serialize + ?Sized>(out: &mut impl Write, value: &T) -> Result<()> {
    let line = printable_json(&serde_json::to_string(value)?);
    out.write_all(line.as_bytes())?;
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
    say(&format!("{ALARM}error:{ALARM:#} {}", printable(problem)));
}

/// Says on standard error how a turn failed, in the words of the command: what is a setting of the library is a
/// flag here.
pub(crate) fn complain_of(error: &Error) {
    complain(&error.to_string().replace("`allow_insecure_http`", "`--allow-insecure-http`"));
}

/// Says something beside the answer on standard error.
pub(crate) fn note(words: &str) {
    say(&format!("{QUIET}{}{QUIET:#}", printable(words)));
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

/// The same JSON, on one line and without control characters: those that JSON lets stand in a string are escaped,
/// and between its words they are spaces.
pub(crate) fn printable_json(json: &str) -> String {
    let mut printable = String::with_capacity(json.len());
    for symbol in json.chars() {
        match symbol {
            '\n' | '\r' | '\t' => printable.push(' '),
            symbol if symbol.is_control() => {
                write!(printable, "\\u{:04x}", u32::from(symbol)).expect("a string takes everything");
            }
            symbol => printable.push(symbol),
        }
    }
    printable
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
pub(crate) fn read(file: &Path) -> Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut content = Vec::new();
        io::stdin().lock().read_to_end(&mut content).context("cannot read standard input")?;
        return Ok(content);
    }
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The request in a file, or on standard input where its name is `-`.
pub(crate) fn read_request(file: &Path) -> Result<Request> {
    serde_json::from_slice(&read(file)?).with_context(|| match file == Path::new("-") {
        true => "what came on standard input is not a request".to_owned(),
        false => format!("{} is not a request", file.display()),
    })
}

impl fmt::Display for Misuse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use turnstream::RawJson;

    use super::*;

    #[test]
    fn a_line_of_json_is_one_line_that_steers_no_terminal_and_means_the_same() {
        let words = "a\u{9b}31m\u{7f}\u{1b}[2J\n\u{80}\u{9f}\u{a0}\u{e9}";
        let raw = RawJson::parse("{\r\n\t\"k\": \"\u{9b}\"}").unwrap();
        let mut line = Vec::new();
        write_line(&mut line, &json!(words)).unwrap();
        write_line(&mut line, &raw).unwrap();
        let text = String::from_utf8(line).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "\"a\\u009b31m\\u007f\\u001b[2J\\n\\u0080\\u009f\u{a0}\u{e9}\"");
        assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:?}");
        let read: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, [json!(words), json!({ "k": "\u{9b}" })]);
    }
}
