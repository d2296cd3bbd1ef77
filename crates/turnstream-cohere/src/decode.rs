//! Frames -> events.
//!
//! A frame is known by the `type` in its data, and only without one by its event name. Content and calls are
//! counted apart: content 0 and call 0 stand side by side. The tool plan has no index, no start and no end.

mod payload;

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use turnstream_core::{
    Announcement, BadFrame, BodyEnd, Citation, Closing, Error, ErrorEnvelope, Frame, HotFrame, Interpret,
    JsonText, Key, Ledger, Lesson, PartIndex, RawJson, Reason, Rules, Text, is_json,
};

use crate::{WIRE, error};
use payload::{Content, Delta, Message, Payload, Piece, Source, ToolCall, kind_of, required, usage};

/// This wire's row: a call is finished by `tool-call-end`, and the turn by `message-end` alone.
pub(crate) const RULES: Rules = Rules::new(WIRE, Closing::Marker, BodyEnd::Cuts);

/// What goes back of a part of reasoning: whether it was the tool plan or thinking.
pub(crate) const TOOL_PLAN: &str = r#"{"type":"tool_plan"}"#;
const THINKING: &str = r#"{"type":"thinking"}"#;

/// Interprets the frames of one reply.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    contents: BTreeMap<u64, Prose>,
    calls: BTreeMap<u64, Call>,
    /// How many calls were announced.
    call_count: u64,
    /// The tool plan, while nothing else has begun.
    plan: Option<PartIndex>,
    /// The text that began last: what a citation supports, if it does not say.
    last_text: Option<PartIndex>,
}

/// A content that began and has not ended.
#[derive(Debug, Clone, Copy)]
struct Prose {
    part: PartIndex,
    voice: Voice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    Text,
    Thinking,
}

/// The call that an index stands for.
#[derive(Debug)]
struct Call {
    key: Key,
    id: String,
    has_ended: bool,
}

impl Interpret for Reply {
    type Hot = Piece;

    fn frame<'f>(
        &mut self,
        frame: Frame<'f>,
        ledger: &mut Ledger,
    ) -> Result<Option<Lesson<'f, Piece>>, BadFrame> {
        // Serde would read a list as a struct, field by field.
        let is_object = frame.data.trim_start().starts_with('{');
        let problem = match serde_json::from_str::<Payload<'_>>(frame.data) {
            Ok(payload) if is_object => {
                let kind = payload.kind.as_ref().and_then(JsonText::as_str).filter(|kind| !kind.is_empty());
                let name = kind.unwrap_or(frame.event);
                let taken = self.take(name, &payload, frame, ledger).map(|()| payload.lesson(name));
                return taken.map_err(|problem| BadFrame::new(name, problem));
            }
            Ok(_) => serde::de::Error::custom("it is no object"),
            Err(problem) => problem,
        };
        let kind = kind_of(frame.data).filter(|_| is_object);
        let name = kind.as_deref().unwrap_or(frame.event);
        match name {
            _ if KNOWN.contains(&name) => return Err(BadFrame::new(name, problem)),
            // Some proxies end every stream like this; here it ends nothing.
            "" if frame.data.trim() == "[DONE]" => {}
            "" if !is_json(frame.data) => return Err(BadFrame::new("unnamed", problem)),
            _ if name == "error" || frame.event == "error" => ledger.fail(error::in_stream(frame.data)),
            _ => ledger.news(name, frame.data),
        }
        Ok(None)
    }

    fn hot(&mut self, hot: HotFrame<'_, Piece>, ledger: &mut Ledger) -> bool {
        match *hot.meaning {
            Piece::Content { index, voice } => self.say(index, voice, &hot.text.into(), ledger),
            Piece::Arguments { index } => self.append(index, &hot.text.into(), ledger),
            Piece::Plan => self.plan(&hot.text.into(), ledger),
        }
        true
    }

    fn error_body(&self, envelope: ErrorEnvelope) -> Error {
        error::of_body(envelope)
    }
}

impl Reply {
    fn take(
        &mut self,
        name: &str,
        payload: &Payload<'_>,
        frame: Frame<'_>,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        let message = || payload.delta.as_ref().and_then(|delta| delta.message.as_ref());
        let index = || required(payload.index.get(), "index");
        match name {
            "content-delta" => {
                let contents = required(message().map(|message| &message.content), "content")?;
                required(contents.first(), "content")?;
                let first = index()?;
                for (distance, content) in (0..).zip(contents.iter()) {
                    self.content_delta(first.saturating_add(distance), content, frame, ledger);
                }
            }
            "tool-call-delta" => {
                let calls = required(message().map(|message| &message.tool_calls), "tool_calls")?;
                let first = index()?;
                for (distance, call) in (0..).zip(calls.iter()) {
                    self.call_delta(first.saturating_add(distance), call, ledger);
                }
            }
            "tool-plan-delta" => {
                if let Some(text) = message().and_then(|message| message.tool_plan.as_ref()) {
                    self.plan(text, ledger);
                }
            }
            "content-start" => {
                let contents = required(message().map(|message| &message.content), "content")?;
                required(contents.first(), "content")?;
                let first = index()?;
                for (distance, content) in (0..).zip(contents.iter()) {
                    self.content_start(first.saturating_add(distance), content, frame, ledger);
                }
            }
            "content-end" => self.end_content(index()?, ledger),
            "tool-call-start" => {
                let calls = required(message().map(|message| &message.tool_calls), "tool_calls")?;
                let first = index()?;
                for (distance, call) in (0..).zip(calls.iter()) {
                    self.call_start(first.saturating_add(distance), call, ledger)?;
                }
            }
            "tool-call-end" => {
                if let Some(call) = self.calls.get_mut(&index()?) {
                    call.has_ended = true;
                    ledger.close(&call.key);
                }
            }
            "citation-start" => {
                for citation in message().iter().flat_map(|message| message.citations.iter()) {
                    self.cite(citation, ledger);
                }
            }
            "citation-end" => {}
            "message-start" => {
                ledger.turn_started(payload.id.as_ref().map(JsonText::to_lossy).as_deref(), None);
                if let Some(message) = message() {
                    self.message_start(message, frame, ledger)?;
                }
            }
            "message-end" => self.message_end(payload.delta.as_ref(), frame, ledger),
            _ if name == "error" || frame.event == "error" => ledger.fail(error::in_stream(frame.data)),
            // An error body in the place of a frame has no type.
            "" if ErrorEnvelope::parse(frame.data.as_bytes()).is_some() => {
                ledger.fail(error::in_stream(frame.data));
            }
            _ => ledger.news(name, frame.data),
        }
        Ok(())
    }

    /// The message as it begins, which is empty unless a proxy knows all of it.
    fn message_start(
        &mut self,
        message: &Message<'_>,
        frame: Frame<'_>,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        if let Some(text) = &message.tool_plan {
            self.plan(text, ledger);
        }
        for (index, content) in (0..).zip(message.content.iter()) {
            self.content_start(index, content, frame, ledger);
        }
        for (index, call) in (0..).zip(message.tool_calls.iter()) {
            self.call_start(index, call, ledger)?;
        }
        Ok(())
    }

    fn message_end(&mut self, delta: Option<&Delta<'_>>, frame: Frame<'_>, ledger: &mut Ledger) {
        if let Some(usage) = delta.and_then(|delta| delta.usage).and_then(usage) {
            ledger.usage(usage);
        }
        let word = delta.and_then(|delta| delta.finish_reason.as_ref()).map(JsonText::to_lossy);
        let word = word.as_deref().unwrap_or_default();
        let error = delta.and_then(|delta| delta.error).filter(|error| is_said(error));
        match reason(word) {
            Some(reason) if error.is_none() => {
                self.end_plan(ledger);
                for index in self.contents.keys().copied().collect::<Vec<_>>() {
                    self.end_content(index, ledger);
                }
                if !word.is_empty() {
                    ledger.reason(reason, word);
                }
                ledger.turn_ended();
            }
            _ => ledger.fail(error::of_ending(word, error).with_body(frame.data.as_bytes())),
        }
    }

    fn plan(&mut self, text: &JsonText<'_>, ledger: &mut Ledger) {
        if !text.is_empty() {
            let part = *self.plan.get_or_insert_with(|| ledger.part_began());
            ledger.reasoning(part, text);
        }
    }

    fn end_plan(&mut self, ledger: &mut Ledger) {
        if let Some(part) = self.plan.take() {
            ledger.part_finished(part, RawJson::parse(TOOL_PLAN).ok());
        }
    }

    fn content_start(&mut self, index: u64, content: &Content<'_>, frame: Frame<'_>, ledger: &mut Ledger) {
        let voice = match content.kind.as_ref().and_then(JsonText::as_str) {
            Some("text") => Voice::Text,
            Some("thinking") => Voice::Thinking,
            Some(kind) if !kind.is_empty() => return ledger.news(kind, frame.data),
            _ => return ledger.news("content-start", frame.data),
        };
        self.begin(index, voice, ledger);
        self.content_delta(index, content, frame, ledger);
    }

    fn content_delta(&mut self, index: u64, content: &Content<'_>, frame: Frame<'_>, ledger: &mut Ledger) {
        let Content { text, thinking, .. } = content;
        if text.is_none() && thinking.is_none() {
            return ledger.news("content-delta", frame.data);
        }
        for (voice, said) in [(Voice::Thinking, thinking), (Voice::Text, text)] {
            if let Some(said) = said.as_ref().and_then(Option::as_ref) {
                self.say(index, voice, said, ledger);
            }
        }
    }

    fn say(&mut self, index: u64, voice: Voice, text: &JsonText<'_>, ledger: &mut Ledger) {
        if text.is_empty() {
            return;
        }
        let part = match self.contents.get(&index) {
            Some(prose) if prose.voice == voice => prose.part,
            // A start that never came, or a voice that is not the one that was announced.
            _ => self.begin(index, voice, ledger),
        };
        match voice {
            Voice::Text => ledger.text(part, text),
            Voice::Thinking => ledger.reasoning(part, text),
        }
    }

    fn begin(&mut self, index: u64, voice: Voice, ledger: &mut Ledger) -> PartIndex {
        self.end_plan(ledger);
        self.end_content(index, ledger);
        let part = ledger.part_began();
        if voice == Voice::Text {
            self.last_text = Some(part);
        }
        self.contents.insert(index, Prose { part, voice });
        part
    }

    fn end_content(&mut self, index: u64, ledger: &mut Ledger) {
        if let Some(Prose { part, voice }) = self.contents.remove(&index) {
            let is_thinking = voice == Voice::Thinking;
            ledger.part_finished(part, is_thinking.then(|| RawJson::parse(THINKING).ok()).flatten());
        }
    }

    fn call_start(
        &mut self,
        index: u64,
        call: &ToolCall<'_>,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        let function = required(call.function.as_ref(), "function")?;
        let name = required(function.name.as_ref().filter(|name| !name.is_empty()), "name")?.to_lossy();
        let id = call.id.as_ref().map(JsonText::to_lossy).unwrap_or_default();
        self.end_plan(ledger);
        let key = match self.calls.get(&index) {
            // The same call said again.
            Some(known) if !known.has_ended && known.id == id => known.key.clone(),
            None => Key::Index(index),
            // An index that comes again is another call.
            Some(_) => Key::Item(format!("{index} (call {})", self.call_count).into()),
        };
        self.call_count += 1;
        let announcement = Announcement::new(Some(&id), Some(&name));
        match &function.arguments {
            // In the place of arguments that stream, or of none.
            Some(text) if text.as_str() == Some("{}") => {
                ledger.announce(key.clone(), announcement.with_given("{}"));
            }
            arguments => {
                ledger.announce(key.clone(), announcement);
                if let Some(text) = arguments {
                    ledger.append(&key, text);
                }
            }
        }
        self.calls.insert(index, Call { key, id: id.into_owned(), has_ended: false });
        Ok(())
    }

    fn call_delta(&mut self, index: u64, call: &ToolCall<'_>, ledger: &mut Ledger) {
        if let Some(text) = call.function.as_ref().and_then(|function| function.arguments.as_ref()) {
            self.append(index, text, ledger);
        }
    }

    fn append(&mut self, index: u64, text: &JsonText<'_>, ledger: &mut Ledger) {
        match self.calls.get(&index) {
            Some(call) => ledger.append(&call.key, text),
            None => ledger.append(&Key::Index(index), text),
        }
    }

    /// A source came. It names the content that it supports, or means the last text.
    fn cite(&mut self, raw: &RawValue, ledger: &mut Ledger) {
        let source: Source<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let named = source.content_index.get().and_then(|index| self.contents.get(&index));
        let part = match (named.filter(|prose| prose.voice == Voice::Text), self.last_text, self.plan) {
            (Some(prose), ..) => prose.part,
            (None, Some(part), _) | (None, None, Some(part)) => part,
            // A source before any text has nothing to support.
            (None, None, None) => return ledger.provider("citation", raw.into()),
        };
        let text = |text: JsonText<'_>| Text::from(text.to_lossy().as_ref());
        let (url, title) = source.named();
        ledger.citation(Citation::new(part, url.map(text), title.map(text), raw.into()));
    }
}

/// What a finish reason means; `None` if it means failure.
fn reason(word: &str) -> Option<Reason> {
    Some(match word {
        "" | "COMPLETE" | "STOP_SEQUENCE" => Reason::Stop,
        "TOOL_CALL" => Reason::ToolCalls,
        "MAX_TOKENS" | "ERROR_LIMIT" => Reason::Length,
        "ERROR_TOXIC" => Reason::ContentFilter,
        "ERROR" | "TIMEOUT" | "NETWORK_ERROR" => return None,
        _ => Reason::Other,
    })
}

/// Whether an `error` field says anything.
fn is_said(error: &RawValue) -> bool {
    !matches!(error.get(), "null" | "false" | "\"\"" | "{}" | "[]")
}

const KNOWN: [&str; 10] = [
    "message-start",
    "content-start",
    "content-delta",
    "content-end",
    "tool-plan-delta",
    "tool-call-start",
    "tool-call-delta",
    "tool-call-end",
    "citation-start",
    "message-end",
];

#[cfg(test)]
mod tests;
