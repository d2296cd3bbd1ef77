//! Chunks -> events.
//!
//! A chunk is read in one pass, and nothing is allocated for a text or a fragment but the event itself. What
//! is rare (arguments sent as objects, content in parts, other choices, errors) is looked at a second time.

mod chunk;
mod reasoning;
mod slots;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use turnstream_core::{
    Announcement, BadFrame, BodyEnd, Citation, Closing, Error, ErrorEnvelope, ErrorKind, Frame, HotFrame,
    InputKind, Interpret, JsonText, Ledger, Lesson, PartIndex, RawJson, Reason, Rules, is_json,
};

use crate::{WIRE, error};
use chunk::{
    Annotation, Choice, Chunk, Content, ContentPart, Delta, Few, Function, OtherChoices, Piece, ToolCall,
    Verbatim, usage,
};
use reasoning::Reasoning;
pub(crate) use reasoning::ReasoningReplay;
use slots::{Said, Slots};

/// This wire's row: a call has no marker of its own, and a reason counts at `[DONE]` or at a clean end.
pub(crate) const RULES: Rules = Rules::new(WIRE, Closing::TurnEnd, BodyEnd::FinishesIfClean);

/// What goes back with a call, as it stands in the call's replay.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CallReplay {
    /// Thought signatures of Gemini's compatible address, among others.
    pub(crate) extra_content: Option<RawJson>,
}

/// Interprets the chunks of one reply. It has one text, one reasoning and one refusal part at most.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    slots: Slots,
    text: Option<PartIndex>,
    refusal: Option<PartIndex>,
    reasoning: Reasoning,
}

impl Reply {
    /// An interpreter that keeps at most so many bytes of what goes back with the reasoning.
    pub(crate) fn new(replay_bytes: usize) -> Self {
        Self { reasoning: Reasoning::new(replay_bytes), ..Self::default() }
    }
}

impl Interpret for Reply {
    type Hot = Piece;

    const PASSED_OVER: &'static [&'static str] = &["created", "obfuscation"];

    fn frame<'f>(
        &mut self,
        frame: Frame<'f>,
        ledger: &mut Ledger,
    ) -> Result<Option<Lesson<'f, Piece>>, BadFrame> {
        if frame.data.trim() == "[DONE]" {
            self.reasoning.finish(ledger);
            ledger.turn_ended();
            return Ok(None);
        }
        match serde_json::from_str::<Chunk<'_, JsonText<'_>>>(frame.data) {
            Ok(chunk) => {
                let lesson = chunk.lesson();
                self.chunk(chunk, frame, ledger)?;
                Ok(lesson)
            }
            Err(_) => self.unusual(frame, ledger).map(|()| None),
        }
    }

    fn hot(&mut self, hot: HotFrame<'_, Piece>, ledger: &mut Ledger) -> bool {
        self.piece(*hot.meaning, hot.text.into(), ledger);
        true
    }

    fn body_ended(&mut self, ledger: &mut Ledger) {
        if ledger.is_settled() {
            self.reasoning.finish(ledger);
        }
    }

    fn error_body(&self, envelope: ErrorEnvelope) -> Error {
        error::in_stream(envelope)
    }
}

impl Reply {
    /// A chunk came that has but one piece.
    fn piece(&mut self, piece: Piece, text: JsonText<'_>, ledger: &mut Ledger) {
        match piece {
            Piece::Text => self.text(&text, ledger),
            Piece::Reasoning if text.is_empty() => {}
            Piece::Reasoning => self.reasoning.text(&text, ledger),
            Piece::Arguments { index } => self.call(ToolCall::more(index, text), ledger),
        }
    }

    /// A frame that is no chunk, or one with arguments that are not a string.
    fn unusual(&mut self, frame: Frame<'_>, ledger: &mut Ledger) -> Result<(), BadFrame> {
        let problem = match serde_json::from_str::<Chunk<'_, Verbatim<'_>>>(frame.data) {
            Ok(chunk) => return self.chunk(chunk, frame, ledger),
            Err(problem) => problem,
        };
        let is_error = frame.event == "error";
        if is_error || !frame.data.starts_with('{') {
            if let Some(envelope) = ErrorEnvelope::parse(frame.data.as_bytes()) {
                ledger.fail(error::in_stream(envelope).with_body(frame.data.as_bytes()));
                return Ok(());
            }
            if is_error {
                ledger.fail(Error::new(ErrorKind::Provider, frame.data).with_body(frame.data.as_bytes()));
                return Ok(());
            }
            // A frame with a name of its own need not be JSON.
            if !matches!(frame.event, "" | "message") || is_json(frame.data) {
                ledger.news(frame.event, frame.data);
                return Ok(());
            }
        }
        Err(BadFrame::new("chat.completion.chunk", problem))
    }

    fn chunk<'a, A: Into<JsonText<'a>>>(
        &mut self,
        chunk: Chunk<'a, A>,
        frame: Frame<'_>,
        ledger: &mut Ledger,
    ) -> Result<(), BadFrame> {
        let error = chunk.error.filter(|error| is_said(error));
        let is_chunk = chunk.choices.is_some()
            || chunk.usage.is_some()
            || chunk.x_groq.is_some()
            || chunk.object.get().is_some_and(|object| object.starts_with("chat.completion"));
        if !is_chunk && error.is_none() {
            other_object(&chunk, frame, ledger);
            return Ok(());
        }
        ledger.turn_started(chunk.id.get(), chunk.model.get());
        let mut has_others = false;
        for choice in chunk.choices.into_iter().flatten() {
            match choice.index.get() {
                Some(1..) => has_others = true,
                _ => self.choice(choice, error.is_some(), ledger)?,
            }
        }
        if has_others {
            other_choices(frame.data, ledger);
        }
        let groq = chunk.x_groq.and_then(|groq| groq.usage);
        for report in [chunk.usage, groq].into_iter().flatten() {
            report_usage(report, ledger);
        }
        // What came beside an error has been given out; its reason does not count.
        if let Some(error) = error {
            let envelope = ErrorEnvelope::parse(frame.data.as_bytes());
            let error = match envelope {
                Some(envelope) => error::in_stream(envelope),
                None => Error::new(ErrorKind::Provider, error.get()),
            };
            ledger.fail(error.with_body(frame.data.as_bytes()));
        }
        Ok(())
    }

    fn choice<'a, A: Into<JsonText<'a>>>(
        &mut self,
        choice: Choice<'a, A>,
        is_failing: bool,
        ledger: &mut Ledger,
    ) -> Result<(), BadFrame> {
        match (choice.delta, choice.message) {
            (Some(delta), _) => self.delta(delta, ledger)?,
            (None, Some(message)) => {
                let message: Delta<'a, Verbatim<'a>> = serde_json::from_str(message.get())
                    .map_err(|problem| BadFrame::new("chat.completion.chunk: message", problem))?;
                self.delta(message, ledger)?;
            }
            (None, None) => {}
        }
        if let Some(report) = choice.usage {
            report_usage(report, ledger);
        }
        if is_failing {
            return Ok(());
        }
        if let Some(error) = choice.error.filter(|error| is_said(error)) {
            let wrapped = format!(r#"{{"error":{}}}"#, error.get());
            let error = match ErrorEnvelope::parse(wrapped.as_bytes()) {
                Some(envelope) => error::in_stream(envelope),
                None => Error::new(ErrorKind::Provider, error.get()),
            };
            ledger.fail(error.with_body(wrapped.as_bytes()));
            return Ok(());
        }
        if let Some(raw) = choice.finish_reason.get() {
            match reason(raw) {
                Some(reason) => ledger.reason(reason, raw),
                None => ledger.fail(error::failed(raw)),
            }
        }
        Ok(())
    }

    fn delta<'a, A: Into<JsonText<'a>>>(
        &mut self,
        delta: Delta<'a, A>,
        ledger: &mut Ledger,
    ) -> Result<(), BadFrame> {
        // Servers that send the text under two names send it twice.
        let plain = [&delta.reasoning_content, &delta.reasoning, &delta.reasoning_text];
        let plain = plain.into_iter().flatten().find(|text| !text.is_empty());
        if let Some(text) = plain {
            self.reasoning.text(text, ledger);
        }
        if let Some(details) = delta.reasoning_details {
            self.reasoning.details(details, plain.is_none(), ledger);
        }
        match delta.content {
            Some(Content::Text(text)) => self.text(&text, ledger),
            Some(Content::Parts(parts)) => self.parts(parts, ledger)?,
            None => {}
        }
        if let Some(text) = delta.refusal {
            self.refusal(&text, ledger);
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.call(call, ledger);
        }
        if let Some(function) = delta.function_call {
            self.legacy_call(function, ledger);
        }
        for annotation in delta.annotations.into_iter().flatten() {
            self.annotation(annotation, ledger);
        }
        for (name, raw) in [("audio", delta.audio), ("images", delta.images)] {
            if let Some(raw) = raw {
                ledger.provider(name, raw.into());
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &JsonText<'_>, ledger: &mut Ledger) {
        if !text.is_empty() {
            let part = *self.text.get_or_insert_with(|| ledger.part_began());
            ledger.text(part, text);
        }
    }

    fn refusal(&mut self, text: &JsonText<'_>, ledger: &mut Ledger) {
        if !text.is_empty() {
            let part = *self.refusal.get_or_insert_with(|| ledger.part_began());
            ledger.refusal(part, text);
        }
    }

    /// Content in parts, as Mistral sends it.
    fn parts(&mut self, parts: Few<&RawValue>, ledger: &mut Ledger) -> Result<(), BadFrame> {
        let bad = |problem| BadFrame::new("chat.completion.chunk: content", problem);
        for raw in parts {
            let part: ContentPart<'_> = serde_json::from_str(raw.get()).map_err(bad)?;
            match part.kind.get() {
                Some("text") | None => {
                    if let Some(text) = part.text {
                        self.text(&text, ledger);
                    }
                }
                Some("refusal") => {
                    if let Some(text) = part.refusal.or(part.text) {
                        self.refusal(&text, ledger);
                    }
                }
                Some("thinking") => {
                    self.reasoning.thinking(part.signature, ledger);
                    match part.thinking {
                        Some(Content::Text(text)) => self.reasoning.text(&text, ledger),
                        Some(Content::Parts(texts)) => {
                            for raw in texts {
                                let inner: ContentPart<'_> = serde_json::from_str(raw.get()).map_err(bad)?;
                                if let Some(text) = inner.text {
                                    self.reasoning.text(&text, ledger);
                                }
                            }
                        }
                        None => {}
                    }
                }
                Some(name) => ledger.provider(name, raw.into()),
            }
        }
        Ok(())
    }

    fn call<'a, A: Into<JsonText<'a>>>(&mut self, call: ToolCall<'a, A>, ledger: &mut Ledger) {
        let (name, text, input) = match (call.custom, call.function) {
            (Some(custom), _) => (custom.name, custom.input, InputKind::Text),
            (None, Some(function)) => (function.name, function.arguments.map(A::into), InputKind::Json),
            (None, None) => Default::default(),
        };
        // One SDK writes the word `null` where there is no id.
        let (id, name) = (call.id.get().filter(|id| *id != "null"), name.get());
        let text = text.filter(|text| !text.is_empty());
        // A piece that says nothing is no sign of a call.
        if id.is_none() && name.is_none() && text.is_none() && call.extra_content.is_none() {
            return;
        }
        let has_text = name.is_some() && text.as_ref().is_some_and(|text| !text.to_lossy().trim().is_empty());
        let key = self.slots.resolve(Said { index: call.index.get(), id, name, has_text }, ledger);
        if id.is_some() || name.is_some() || !ledger.knows(&key) {
            ledger.announce(key.clone(), Announcement::new(id, name).with_input(input));
        }
        if let Some(text) = text {
            ledger.append(&key, &text);
        }
        if let Some(extra) = call.extra_content
            && let Ok(replay) = RawJson::of(&CallReplay { extra_content: Some(extra.into()) })
        {
            ledger.call_replay(&key, replay);
        }
    }

    fn legacy_call<'a, A: Into<JsonText<'a>>>(&mut self, function: Function<'a, A>, ledger: &mut Ledger) {
        let text = function.arguments.map(A::into).filter(|text| !text.is_empty());
        if function.name.get().is_none() && text.is_none() {
            return;
        }
        let key = self.slots.legacy();
        ledger.announce(key.clone(), Announcement::new(None, function.name.get()));
        if let Some(text) = text {
            ledger.append(&key, &text);
        }
    }

    fn annotation(&mut self, raw: &RawValue, ledger: &mut Ledger) {
        let annotation: Annotation<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let Some(source) = annotation.url_citation else {
            return ledger.provider("annotation", raw.into());
        };
        // Sources may come before the text that rests on them.
        let part = *self.text.get_or_insert_with(|| ledger.part_began());
        let (url, title) = (source.url.get().map(Into::into), source.title.get().map(Into::into));
        ledger.citation(Citation::new(part, url, title, raw.into()));
    }
}

/// An object that is no chunk: an error in one of the forms without `error`, or news.
fn other_object<A>(chunk: &Chunk<'_, A>, frame: Frame<'_>, ledger: &mut Ledger) {
    let (object, kind) = (chunk.object.get(), chunk.kind.get());
    if let Some(envelope) = ErrorEnvelope::parse(frame.data.as_bytes()) {
        let says_error = frame.event == "error"
            || object == Some("error")
            || kind.is_some_and(|kind| kind.contains("error"))
            || envelope.code.is_some()
            || chunk.detail.is_some();
        if says_error {
            return ledger.fail(error::in_stream(envelope).with_body(frame.data.as_bytes()));
        }
    }
    let event = Some(frame.event).filter(|event| !event.is_empty());
    ledger.news(event.or(kind).or(object).unwrap_or_default(), frame.data);
}

/// Choices other than the first have no events of their own.
fn other_choices(data: &str, ledger: &mut Ledger) {
    let Ok(frame) = serde_json::from_str::<OtherChoices<'_>>(data) else { return };
    for raw in frame.choices {
        let choice: Choice<'_, Verbatim<'_>> = match serde_json::from_str(raw.get()) {
            Ok(choice) => choice,
            Err(_) => continue,
        };
        if choice.index.get().is_some_and(|index| index > 0) {
            ledger.provider("choice", raw.into());
        }
    }
}

fn report_usage(report: &RawValue, ledger: &mut Ledger) {
    if let Some(usage) = usage(report.get()) {
        ledger.usage(usage);
    }
}

/// What a finish reason means; `None` if it means failure.
fn reason(raw: &str) -> Option<Reason> {
    Some(match raw.to_ascii_lowercase().as_str() {
        "stop" | "eos" | "eos_token" => Reason::Stop,
        "tool_calls" | "function_call" => Reason::ToolCalls,
        "length" | "max_tokens" | "model_length" => Reason::Length,
        "content_filter" | "sensitive" | "safety" | "recitation" => Reason::ContentFilter,
        "refusal" => Reason::Refusal,
        "error" | "network_error" | "abort" | "insufficient_system_resource" => return None,
        "malformed_function_call" => return None,
        _ => Reason::Other,
    })
}

/// Whether an `error` field says anything: some servers write an empty one into every chunk.
fn is_said(error: &RawValue) -> bool {
    !matches!(error.get(), "null" | "false" | "\"\"" | "{}" | "[]")
}

#[cfg(test)]
mod tests;
