//! What a run looks like in a terminal: the answer on standard output; beside it, on standard error, one
//! line that lives while something is waited for or a call forms, and one line for each call and result.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use anstyle::Style;
use turnstream::{CallIndex, Event, ResultContent, RunEvent};

use crate::output::{ALARM, QUIET, printable};

/// How many characters of arguments or of a result are shown.
const SHOWN: usize = 60;
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Goes to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// Where a run is shown.
#[derive(Debug)]
pub(super) struct Screen<O, E> {
    answer: O,
    aside: E,
    look: Look,
    /// Whether the answer's last line is not ended.
    is_in_line: bool,
    /// What the living line says; `None` while the answer streams.
    status: Option<String>,
    is_drawn: bool,
    ticks: usize,
    /// The calls that form, with the start of their arguments.
    forming: BTreeMap<CallIndex, Forming>,
}

/// What the terminals can do.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Look {
    /// The answer goes to a terminal: what would steer it is taken out.
    pub(super) is_answer_terminal: bool,
    /// What is aside goes to a terminal that can clear a line.
    pub(super) is_live: bool,
    pub(super) has_colours: bool,
}

#[derive(Debug)]
struct Forming {
    name: String,
    /// Not more than what is shown.
    start: String,
    characters: usize,
}

impl<O: Write, E: Write> Screen<O, E> {
    pub(super) fn new(answer: O, aside: E, look: Look) -> Self {
        Self {
            answer,
            aside,
            look,
            is_in_line: false,
            status: None,
            is_drawn: false,
            ticks: 0,
            forming: BTreeMap::new(),
        }
    }

    /// Shows an event of a run.
    pub(super) fn show(&mut self, event: &RunEvent) -> io::Result<()> {
        match event {
            RunEvent::TurnBegan(_) => self.wait("waiting"),
            RunEvent::Turn(turn) => self.show_turn(&turn.event),
            RunEvent::HandlerStarted(handler) => self.wait(&format!("running {}", handler.name)),
            RunEvent::HandlerFinished(handler) => {
                let text = |content: &ResultContent| match content {
                    ResultContent::Text(text) => text.clone(),
                    _ => "(no text)".to_owned(),
                };
                let content: Vec<String> = handler.result.content.iter().map(text).collect();
                let (style, mark) = if handler.result.is_error { (ALARM, "!") } else { (QUIET, "=") };
                self.line(style, &format!("  {mark} {}", shortened(&content.join(" "))))
            }
            RunEvent::Ended(_) => self.end(),
            _ => Ok(()),
        }
    }

    /// The living line moves on.
    pub(super) fn tick(&mut self) -> io::Result<()> {
        self.ticks += 1;
        self.draw()
    }

    /// Ends what is shown of a run, also of one that was cancelled.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.status = None;
        self.forming.clear();
        self.clear()?;
        self.end_line()
    }

    fn show_turn(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::TextDelta(delta) => self.text(&delta.text),
            Event::RefusalDelta(delta) => self.text(&delta.text),
            Event::ReasoningDelta(_) => self.wait("thinking"),
            Event::CallStarted(call) => {
                let forming = Forming { name: call.name.to_string(), start: String::new(), characters: 0 };
                self.wait(&forming.line())?;
                self.forming.insert(call.call, forming);
                Ok(())
            }
            Event::CallArgumentFragment(fragment) => {
                let Some(forming) = self.forming.get_mut(&fragment.call) else { return Ok(()) };
                forming.push(fragment.fragment.as_raw_str());
                let line = forming.line();
                self.wait(&line)
            }
            Event::CallFinished(call) => {
                self.forming.remove(&call.call);
                self.line(
                    Style::new().bold(),
                    &format!("[{} {}]", call.name, shortened(call.arguments.json())),
                )
            }
            Event::CallAborted(call) => {
                self.forming.remove(&call.call);
                let reason = serde_json::to_string(&call.reason).unwrap_or_default();
                self.line(ALARM, &format!("[{} was cut: {}]", call.name, reason.trim_matches('"')))
            }
            _ => Ok(()),
        }
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        self.status = None;
        self.clear()?;
        match self.look.is_answer_terminal {
            true => self.answer.write_all(printable(text).as_bytes())?,
            false => self.answer.write_all(text.as_bytes())?,
        }
        if !text.is_empty() {
            self.is_in_line = !text.ends_with('\n');
        }
        self.answer.flush()
    }

    /// Shows what is waited for.
    fn wait(&mut self, what: &str) -> io::Result<()> {
        self.end_line()?;
        self.status = Some(what.to_owned());
        self.draw()
    }

    /// Writes a line that stays. What was waited for before is still waited for.
    fn line(&mut self, style: Style, line: &str) -> io::Result<()> {
        self.clear()?;
        self.end_line()?;
        let style = if self.look.has_colours { style } else { Style::new() };
        writeln!(self.aside, "{style}{}{style:#}", printable(line).replace('\n', " "))?;
        self.status = Some("waiting".to_owned());
        self.draw()
    }

    fn draw(&mut self) -> io::Result<()> {
        let Some(status) = self.status.as_ref().filter(|_| self.look.is_live) else { return Ok(()) };
        let spinner = SPINNER.get(self.ticks % SPINNER.len()).unwrap_or(&' ');
        let style = if self.look.has_colours { QUIET } else { Style::new() };
        let status = printable(status).replace('\n', " ");
        write!(self.aside, "{CLEAR}{style}{spinner} {status}{style:#}")?;
        self.is_drawn = true;
        self.aside.flush()
    }

    fn clear(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_drawn) {
            write!(self.aside, "{CLEAR}")?;
            self.aside.flush()?;
        }
        Ok(())
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_in_line) {
            self.answer.write_all(b"\n")?;
            self.answer.flush()?;
        }
        Ok(())
    }
}

impl Forming {
    fn push(&mut self, fragment: &str) {
        let room = SHOWN.saturating_sub(self.characters);
        self.start.extend(fragment.chars().take(room));
        self.characters += fragment.chars().count();
    }

    fn line(&self) -> String {
        let more = if self.characters > SHOWN {
            format!("… {} characters", self.characters)
        } else {
            String::new()
        };
        format!("{} {}{more}", self.name, self.start)
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use turnstream::{Request, ToolLoop};
    use turnstream_testing::{ScriptedModel, events::Reply};

    use super::*;

    /// What a run with a call shows: the answer, and what stands aside. A tick follows each event.
    async fn shown(look: Look) -> (String, String) {
        let model = ScriptedModel::new()
            .turn(
                Reply::new()
                    .text(["Let me\x1b[31m count."])
                    .call("c1", "count", json!({ "text": "a\u{7}b c" }))
                    .fragments_of(10),
            )
            .turn(Reply::new().text(["Two ", "words."]));
        let mut run =
            ToolLoop::new(model).tools(super::super::tools::all()).run(Request::new().user("Count."));
        let mut screen = Screen::new(Vec::new(), Vec::new(), look);
        while let Some(event) = run.next().await {
            screen.show(&event).unwrap();
            screen.tick().unwrap();
        }
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(screen.answer), text(screen.aside))
    }

    #[tokio::test]
    async fn into_files_the_answer_goes_verbatim_and_calls_stand_beside_it() {
        let (answer, aside) = shown(Look::default()).await;
        assert_eq!(answer, "Let me\x1b[31m count.\nTwo words.\n");
        assert_eq!(aside, "[count {\"text\":\"a\\u0007b c\"}]\n  = {\"characters\":5,\"words\":2}\n");
    }

    #[tokio::test]
    async fn in_a_terminal_a_line_lives_while_a_call_forms_and_nothing_steers_the_cursor() {
        let (answer, aside) =
            shown(Look { is_answer_terminal: true, is_live: true, has_colours: false }).await;
        assert_eq!(answer, "Let me\u{fffd}[31m count.\nTwo words.\n");
        let frames: Vec<&str> = aside.split(CLEAR).map(|frame| frame.trim_start_matches(SPINNER)).collect();
        for want in [
            " waiting",
            " count ",
            " count {\"text\":\"a",
            " count {\"text\":\"a\\u0007b c\"}",
            "[count {\"text\":\"a\\u0007b c\"}]\n",
            " running count",
            "  = {\"characters\":5,\"words\":2}\n",
        ] {
            assert!(frames.contains(&want), "{want:?} is not in {frames:?}");
        }
        assert_eq!(frames.last(), Some(&""), "the line is cleared at the end");
    }

    #[tokio::test]
    async fn colours_are_there_only_where_they_are_wanted() {
        let (_, aside) = shown(Look { has_colours: true, ..Look::default() }).await;
        assert!(aside.starts_with("\x1b[1m[count "), "{aside:?}");
    }
}
