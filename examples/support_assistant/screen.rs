//! The terminal: text as it comes, and a line of its own for each call while it forms.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, IsTerminal, Write},
    path::Path,
};

use anyhow::{Context, Result};
use turnstream::{CallIndex, CallPreview, Event, ResultContent, RunEvent};

/// Shows a run's events.
#[derive(Debug)]
pub(crate) struct Screen {
    /// The calls that are forming.
    forming: BTreeMap<CallIndex, Forming>,
    /// Whether the last thing printed was text, without a line end.
    in_text: bool,
    is_terminal: bool,
    events: Option<File>,
}

#[derive(Debug)]
struct Forming {
    name: String,
    preview: CallPreview,
}

impl Screen {
    /// A screen, and a file for the events if one is wanted.
    pub(crate) fn new(events: Option<&Path>) -> Result<Self> {
        let events = match events {
            Some(path) => {
                Some(File::create(path).with_context(|| format!("cannot write {}", path.display()))?)
            }
            None => None,
        };
        let is_terminal = io::stdout().is_terminal();
        Ok(Self { forming: BTreeMap::new(), in_text: false, is_terminal, events })
    }

    /// Shows one event.
    pub(crate) fn show(&mut self, event: &RunEvent) -> Result<()> {
        if let Some(file) = &mut self.events {
            serde_json::to_writer(&mut *file, event)?;
            writeln!(file)?;
        }
        match event {
            RunEvent::Turn(turn) => self.show_turn(&turn.event)?,
            RunEvent::HandlerStarted(handler) => {
                self.line(&format!("  {} runs ({})", handler.name, handler.id))?
            }
            RunEvent::HandlerFinished(handler) => {
                let text: String = handler
                    .result
                    .content
                    .iter()
                    .filter_map(|content| match content {
                        ResultContent::Text(text) => Some(text.as_str()),
                        _ => None,
                    })
                    .collect();
                let verdict = if handler.result.is_error { "failed" } else { "gave" };
                self.line(&format!("  {} {verdict}: {text}", handler.name))?;
            }
            RunEvent::TurnEnded(_) => self.end_text(),
            _ => {}
        }
        Ok(io::stdout().flush()?)
    }

    fn show_turn(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::TextDelta(delta) => {
                print!("{}", delta.text);
                self.in_text = true;
            }
            Event::CallStarted(call) => {
                let forming = Forming { name: call.name.to_string(), preview: CallPreview::new() };
                self.forming.insert(call.call, forming);
                if !self.is_terminal {
                    self.line(&format!("  {} ...", call.name))?;
                }
            }
            Event::CallArgumentFragment(piece) => {
                if let Some(forming) = self.forming.get_mut(&piece.call) {
                    forming.preview.push(&piece.fragment);
                }
            }
            Event::CallFinished(call) => {
                self.forming.remove(&call.call);
                self.end_forming();
                self.line(&format!("  {} {}", call.name, call.arguments.json()))?;
            }
            Event::CallAborted(call) => {
                self.forming.remove(&call.call);
                self.end_forming();
                self.line(&format!("  {} was cut ({:?}) and will not run", call.name, call.reason))?;
            }
            _ => {}
        }
        self.show_forming();
        Ok(())
    }

    /// On a terminal, one line that is written over as the calls form. It never mixes with the text.
    fn show_forming(&mut self) {
        if !self.is_terminal || self.forming.is_empty() {
            return;
        }
        self.end_text();
        let calls: Vec<String> =
            self.forming.values().map(|call| format!("{} {}", call.name, call.preview.value())).collect();
        let line: String = format!("  {}", calls.join("  |  ")).chars().take(100).collect();
        print!("\r\x1b[2K{line}");
    }

    fn end_forming(&self) {
        if self.is_terminal {
            print!("\r\x1b[2K");
        }
    }

    fn line(&mut self, line: &str) -> Result<()> {
        self.end_text();
        Ok(writeln!(io::stdout(), "{line}")?)
    }

    fn end_text(&mut self) {
        if std::mem::take(&mut self.in_text) {
            println!();
        }
    }
}
