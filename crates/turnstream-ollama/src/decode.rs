//! Lines -> events.
//!
//! A line is read in one pass, and its message before its `done`: the last line may carry text and calls. A
//! call comes whole, so that its line is its marker.

use serde::{Deserialize, de::Error as _};
use serde_json::value::RawValue;
use turnstream_core::{
    Announcement, BadFrame, BodyEnd, Closing, Count, Error, ErrorEnvelope, ErrorKind, Frame, HotFrame,
    Interpret, JsonText, Key, Ledger, Lesson, PartIndex, Reason, Rules, Usage, is_json,
};

use crate::{WIRE, error};

/// This wire's row: a call is finished by the part itself, and the turn by `done: true` alone.
pub(crate) const RULES: Rules = Rules::new(WIRE, Closing::Marker, BodyEnd::Cuts);

/// Interprets the lines of one reply.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The text or the thinking that grows. Another voice, or a call, ends it.
    prose: Option<(Voice, PartIndex)>,
    /// How many calls came.
    calls: u64,
}

/// What the pieces of the reply are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    Text,
    Thinking,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    model: Option<JsonText<'a>>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    done: Option<bool>,
    #[serde(borrow)]
    done_reason: Option<JsonText<'a>>,
    #[serde(default)]
    prompt_eval_count: Count,
    #[serde(default)]
    eval_count: Count,
    #[serde(borrow)]
    logprobs: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<JsonText<'a>>,
    #[serde(borrow)]
    thinking: Option<JsonText<'a>>,
    #[serde(borrow)]
    images: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCall<'a>>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow)]
    id: Option<JsonText<'a>>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: JsonText<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl Interpret for Lines {
    type Hot = Voice;

    const PASSED_OVER: &'static [&'static str] = &["created_at"];

    fn frame<'f>(
        &mut self,
        frame: Frame<'f>,
        ledger: &mut Ledger,
    ) -> Result<Option<Lesson<'f, Voice>>, BadFrame> {
        // Serde would read a list as a struct, field by field.
        let is_object = frame.data.trim_start().starts_with('{');
        let problem = match serde_json::from_str::<Line<'_>>(frame.data) {
            Ok(line) if is_object => return self.line(&line, frame, ledger).map(|()| line.lesson()),
            Ok(_) => serde_json::Error::custom("it is no object"),
            Err(problem) => problem,
        };
        if is_object || !is_json(frame.data) {
            return Err(BadFrame::new(LINE, problem));
        }
        ledger.news("", frame.data);
        Ok(None)
    }

    fn hot(&mut self, hot: HotFrame<'_, Voice>, ledger: &mut Ledger) -> bool {
        self.say(*hot.meaning, &hot.text.into(), ledger);
        true
    }

    fn error_body(&self, envelope: ErrorEnvelope) -> Error {
        error::in_stream(envelope)
    }
}

impl<'a> Line<'a> {
    /// What lines like this one mean, if it has one piece and nothing else that is read.
    fn lesson<'l>(&'l self) -> Option<Lesson<'a, Voice>> {
        let Message { content, thinking, images, tool_calls } = self.message.as_ref()?;
        let has_more = images.is_some()
            || tool_calls.is_some()
            || self.done == Some(true)
            || self.prompt_eval_count.get().is_some()
            || self.eval_count.get().is_some()
            || self.logprobs.is_some()
            || self.error.is_some();
        if has_more {
            return None;
        }
        let said = |text: &'l Option<JsonText<'a>>| text.as_ref().filter(|text| !text.is_empty());
        let (voice, text) = match (said(content), said(thinking)) {
            (Some(text), None) => (Voice::Text, text),
            (None, Some(text)) => (Voice::Thinking, text),
            _ => return None,
        };
        Some(Lesson::new(voice, text.as_borrowed()?))
    }
}

impl Lines {
    fn line(&mut self, line: &Line<'_>, frame: Frame<'_>, ledger: &mut Ledger) -> Result<(), BadFrame> {
        let error = line.error.filter(|error| is_said(error));
        if line.message.is_none() && line.done.is_none() && error.is_none() {
            ledger.news("", frame.data);
            return Ok(());
        }
        let model = line.model.as_ref().map(JsonText::to_lossy);
        ledger.turn_started(None, model.as_deref());
        if let Some(message) = &line.message {
            self.message(message, ledger).map_err(|problem| BadFrame::new(LINE, problem))?;
        }
        if let Some(raw) = line.logprobs {
            ledger.provider("logprobs", raw.into());
        }
        count(line, ledger);
        if let Some(error) = error {
            // What came beside an error has been given out; its `done` does not count.
            let error = match ErrorEnvelope::parse(frame.data.as_bytes()) {
                Some(envelope) => error::in_stream(envelope),
                None => Error::new(ErrorKind::Provider, error.get()),
            };
            ledger.fail(error.with_body(frame.data.as_bytes()));
            return Ok(());
        }
        if line.done == Some(true) {
            let word = line.done_reason.as_ref().map(JsonText::to_lossy).unwrap_or_default();
            match reason(&word) {
                // Servers from before there were reasons, which say none.
                _ if word.is_empty() => ledger.turn_ended(),
                Some(reason) => {
                    ledger.reason(reason, &word);
                    ledger.turn_ended();
                }
                None => ledger.fail(error::failed(&word)),
            }
        }
        Ok(())
    }

    fn message(&mut self, message: &Message<'_>, ledger: &mut Ledger) -> Result<(), serde_json::Error> {
        if let Some(text) = &message.thinking {
            self.say(Voice::Thinking, text, ledger);
        }
        if let Some(text) = &message.content {
            self.say(Voice::Text, text, ledger);
        }
        if let Some(raw) = message.images {
            ledger.provider("images", raw.into());
        }
        for call in message.tool_calls.iter().flatten() {
            self.call(call, ledger)?;
        }
        Ok(())
    }

    fn say(&mut self, voice: Voice, text: &JsonText<'_>, ledger: &mut Ledger) {
        if text.is_empty() {
            return;
        }
        let part = match self.prose {
            Some((known, part)) if known == voice => part,
            _ => {
                self.end_prose(ledger);
                let part = ledger.part_began();
                self.prose = Some((voice, part));
                part
            }
        };
        match voice {
            Voice::Text => ledger.text(part, text),
            Voice::Thinking => ledger.reasoning(part, text),
        }
    }

    fn end_prose(&mut self, ledger: &mut Ledger) {
        if let Some((_, part)) = self.prose.take() {
            ledger.part_finished(part, None);
        }
    }

    fn call(&mut self, call: &ToolCall<'_>, ledger: &mut Ledger) -> Result<(), serde_json::Error> {
        let Function { name, arguments } = &call.function;
        let (id, name) = (call.id.as_ref().map(JsonText::to_lossy), name.to_lossy());
        if name.is_empty() {
            return Err(serde_json::Error::custom("the name of the tool is empty"));
        }
        self.end_prose(ledger);
        let key = Key::Index(self.calls);
        self.calls += 1;
        let announcement = Announcement::new(id.as_deref(), Some(&name));
        match arguments.map(RawValue::get) {
            None => ledger.announce(key.clone(), announcement),
            // Some servers that speak this wire write the text of the object.
            Some(text) if text.starts_with('"') => {
                let text: JsonText<'_> = serde_json::from_str(text)?;
                ledger.announce(key.clone(), announcement.with_given(&text.to_lossy()));
            }
            Some(object) => ledger.announce(key.clone(), announcement.with_given(object)),
        }
        ledger.close(&key);
        Ok(())
    }
}

/// The counts of the last line. The prompt's is missing where all of it was cached.
fn count(line: &Line<'_>, ledger: &mut Ledger) {
    let (input, output) = (line.prompt_eval_count.get(), line.eval_count.get());
    if input.is_some() || output.is_some() {
        let mut usage = Usage::new();
        (usage.input_tokens, usage.output_tokens) = (input, output);
        ledger.usage(usage);
    }
}

/// What a `done_reason` means; `None` if it means failure.
fn reason(word: &str) -> Option<Reason> {
    Some(match word {
        "stop" => Reason::Stop,
        "length" => Reason::Length,
        // Other servers that speak this wire hand on what they were told.
        "tool_calls" => Reason::ToolCalls,
        "content_filter" => Reason::ContentFilter,
        "error" | "network_error" | "abort" => return None,
        // Among them `load` and `unload`, which answer requests without messages.
        _ => Reason::Other,
    })
}

/// Whether an `error` field says anything.
fn is_said(error: &RawValue) -> bool {
    !matches!(error.get(), "null" | "false" | "\"\"" | "{}" | "[]")
}

/// What a line is called in errors: it has no name of its own.
const LINE: &str = "chat response";

#[cfg(test)]
mod tests;
