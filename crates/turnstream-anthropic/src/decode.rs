//! Frames of the Messages stream, as words to the ledger.
//!
//! A frame is known by the `type` in its data, and only without one by its event name. Blocks are known by
//! `index`; they may interleave, miss their start or their stop, and an index may come again.

mod block;
mod payload;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, de::Error as _};
use serde_json::value::RawValue;
use turnstream_core::{
    Announcement, BadFrame, BodyEnd, Citation, Closing, Error, ErrorEnvelope, ErrorKind, Frame, HotFrame,
    Interpret, JsonText, Key, Ledger, Lesson, Limits, RawJson, Reason, Rules, Text, is_json,
};

use crate::{WIRE, error};
use block::{Block, Prose, Server, Voice};
use payload::{Delta, DeltaKind, Message, Payload, required};
use usage::Counts;

/// A call is finished when its block stopped and the turn went on; a turn, at `message_stop`, or at the end
/// of the body after a stop reason.
pub const RULES: Rules = Rules::new(WIRE, Closing::MarkerAndMore, BodyEnd::Finishes);

/// Interprets the frames of one turn.
#[derive(Debug)]
pub(crate) struct Messages {
    limits: Limits,
    /// The id of the message, once it has begun; empty if it has none.
    message: Option<String>,
    blocks: BTreeMap<u64, Block>,
    /// Where a block stands that has not ended and is no call.
    open: BTreeSet<u64>,
    /// How many calls were announced.
    calls: u64,
    counts: Counts,
    is_cut: bool,
}

impl Messages {
    /// The interpreter of one turn.
    pub(crate) fn new(limits: Limits) -> Self {
        let (blocks, open, counts) = (BTreeMap::new(), BTreeSet::new(), Counts::default());
        Self { limits, message: None, blocks, open, calls: 0, counts, is_cut: false }
    }
}

impl Interpret for Messages {
    type Hot = Delta;

    fn frame<'f>(
        &mut self,
        frame: Frame<'f>,
        ledger: &mut Ledger,
    ) -> Result<Option<Lesson<'f, Delta>>, BadFrame> {
        let problem = match serde_json::from_str::<Payload<'_>>(frame.data) {
            Ok(parsed) => {
                let name = match parsed.kind.as_ref().and_then(JsonText::as_str) {
                    Some(kind) if !kind.is_empty() => kind,
                    _ => frame.event,
                };
                self.take(name, &parsed, frame, ledger)?;
                return Ok(if name == "content_block_delta" { parsed.lesson() } else { None });
            }
            Err(problem) => problem,
        };
        let (kind, delta) = outline(frame.data);
        let name = kind.as_deref().unwrap_or(frame.event);
        match name {
            "content_block_delta" if delta.as_deref().is_some_and(|delta| !KNOWN_DELTAS.contains(&delta)) => {
                ledger.news(&delta.unwrap_or_default(), frame.data);
            }
            "content_block_delta"
            | "content_block_start"
            | "content_block_stop"
            | "message_start"
            | "message_delta"
            | "message_stop" => match payload::again(name, frame.data) {
                Ok(parsed) => self.take(name, &parsed, frame, ledger)?,
                Err(_) => return Err(BadFrame::new(name, problem)),
            },
            _ => odd_frame(name, frame, problem, ledger)?,
        }
        Ok(None)
    }

    fn hot(&mut self, hot: HotFrame<'_, Delta>, ledger: &mut Ledger) -> bool {
        self.piece(*hot.meaning, &hot.text.into(), ledger)
    }

    fn error_body(&self, envelope: ErrorEnvelope) -> Error {
        error::of_body(envelope)
    }
}

impl Messages {
    /// Takes a frame by its name.
    fn take(
        &mut self,
        name: &str,
        parsed: &Payload<'_>,
        frame: Frame<'_>,
        ledger: &mut Ledger,
    ) -> Result<(), BadFrame> {
        let result = match name {
            "content_block_delta" => self.delta(parsed, frame, ledger),
            "content_block_start" => self.block_start(parsed, ledger),
            "content_block_stop" => {
                required(parsed.index.get(), "index").map(|index| self.stop(index, ledger))
            }
            "message_start" => self.message_start(parsed, ledger),
            "message_delta" => {
                self.message_delta(parsed, ledger);
                Ok(())
            }
            "message_stop" => {
                self.end_open_blocks(ledger);
                ledger.turn_ended();
                Ok(())
            }
            "ping" => Ok(()),
            _ if name == "error" || frame.event == "error" || (name.is_empty() && parsed.error.is_some()) => {
                ledger.fail(error::in_stream(frame.data));
                Ok(())
            }
            _ => {
                ledger.news(name, frame.data);
                Ok(())
            }
        };
        result.map_err(|problem| BadFrame::new(name, problem))
    }

    fn message_start(&mut self, frame: &Payload<'_>, ledger: &mut Ledger) -> Result<(), serde_json::Error> {
        let message: Message<'_> = serde_json::from_str(required(frame.message, "message")?.get())?;
        let id = message.id.as_ref().map(|id| id.to_lossy().into_owned()).unwrap_or_default();
        if let Some(known) = &self.message {
            // A proxy that repeats itself says the same id again; another id is another reply.
            if !known.is_empty() && !id.is_empty() && *known != id {
                let words = format!("the message `{id}` began inside of the message `{known}`");
                ledger.fail(Error::new(ErrorKind::Malformed, words));
            }
            return Ok(());
        }
        let model = message.model.as_ref().map(JsonText::to_lossy);
        ledger.turn_started(Some(&id), model.as_deref());
        self.message = Some(id);
        if let Some(usage) = message.usage {
            self.count(usage, ledger);
        }
        for (index, block) in (0..).zip(message.content.unwrap_or_default()) {
            self.start(index, block, ledger)?;
            self.stop(index, ledger);
        }
        let said = [
            ("stop_sequence", message.stop_sequence),
            ("stop_details", message.stop_details),
            ("container", message.container),
        ];
        self.ending(message.stop_reason.as_ref(), said, ledger);
        Ok(())
    }

    fn message_delta(&mut self, frame: &Payload<'_>, ledger: &mut Ledger) {
        if let Some(usage) = frame.usage {
            self.count(usage, ledger);
        }
        if let Some(edits) = frame.context_management {
            ledger.provider("context_management", edits.into());
        }
        let Some(delta) = &frame.delta else { return };
        let said = [
            ("stop_sequence", delta.stop_sequence),
            ("stop_details", delta.stop_details),
            ("container", delta.container),
        ];
        self.ending(delta.stop_reason.as_ref(), said, ledger);
    }

    /// What is said of a turn's end. A null says nothing.
    fn ending(
        &mut self,
        reason: Option<&JsonText<'_>>,
        said: [(&str, Option<&RawValue>); 3],
        ledger: &mut Ledger,
    ) {
        for (name, raw) in said {
            if let Some(raw) = raw {
                ledger.provider(name, raw.into());
            }
        }
        let Some(word) = reason.map(JsonText::to_lossy).filter(|word| !word.is_empty()) else { return };
        let Some(reason) = reason_of(&word) else {
            let words = format!("the provider ended the turn with the reason `{word}`");
            return ledger.fail(Error::new(ErrorKind::Provider, words).with_code(word));
        };
        ledger.reason(reason, &word);
        self.is_cut |= reason.is_cut();
        self.end_open_blocks(ledger);
    }

    /// Ends the blocks that never stopped, if the turn was not cut: then they are not complete.
    fn end_open_blocks(&mut self, ledger: &mut Ledger) {
        if self.is_cut {
            return;
        }
        // Only those that are open: this comes again and again where a proxy repeats the reason.
        for index in std::mem::take(&mut self.open) {
            if let Some(block) = self.blocks.get_mut(&index) {
                std::mem::replace(block, Block::Ended).end(ledger);
            }
        }
    }

    fn block_start(&mut self, frame: &Payload<'_>, ledger: &mut Ledger) -> Result<(), serde_json::Error> {
        let index = required(frame.index.get(), "index")?;
        self.start(index, required(frame.content_block, "content_block")?, ledger)
    }

    fn start(&mut self, index: u64, block: &RawValue, ledger: &mut Ledger) -> Result<(), serde_json::Error> {
        #[derive(Deserialize)]
        struct Kind<'a> {
            #[serde(borrow, rename = "type")]
            kind: Option<JsonText<'a>>,
        }
        let Kind { kind } = serde_json::from_str(block.get())?;
        match kind.as_ref().and_then(JsonText::as_str).unwrap_or_default() {
            "tool_use" => self.start_call(index, block, ledger),
            "text" => self.start_text(index, block, ledger),
            "thinking" => self.start_thinking(index, block, ledger),
            kind => {
                self.end_block_at(index, ledger);
                let (part, block) = (ledger.part_began(), RawJson::from(block));
                if kind != "redacted_thinking" {
                    let name = if kind.is_empty() { "content_block" } else { kind };
                    ledger.provider(name, block.clone());
                }
                self.blocks.insert(index, Block::Server(Server::new(part, block)));
                self.open.insert(index);
                Ok(())
            }
        }
    }

    fn start_call(
        &mut self,
        index: u64,
        block: &RawValue,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        #[derive(Deserialize)]
        struct ToolUse<'a> {
            #[serde(borrow)]
            id: Option<JsonText<'a>>,
            #[serde(borrow)]
            name: JsonText<'a>,
            #[serde(borrow)]
            input: Option<&'a RawValue>,
        }
        let call: ToolUse<'_> = serde_json::from_str(block.get())?;
        let (id, name) = (call.id.as_ref().map(JsonText::to_lossy).unwrap_or_default(), call.name.to_lossy());
        if name.is_empty() {
            return Err(serde_json::Error::custom("the name of the tool is empty"));
        }
        let key = match self.blocks.get(&index) {
            // The same block said again.
            Some(Block::Call { key, id: known, is_stopped: false }) if *known == id => key.clone(),
            _ => {
                self.end_block_at(index, ledger);
                self.fresh_key(index, ledger)
            }
        };
        let mut announcement = Announcement::new(Some(&id), Some(&name));
        if let Some(input) = call.input.map(RawValue::get).filter(|input| !is_blank_input(input)) {
            announcement = announcement.with_given(input);
        }
        ledger.announce(key.clone(), announcement);
        let mut extras: BTreeMap<String, &RawValue> = serde_json::from_str(block.get())?;
        extras.retain(|name, value| {
            !matches!(name.as_str(), "type" | "id" | "name" | "input") && value.get() != "null"
        });
        if !extras.is_empty() {
            ledger.call_replay(&key, RawJson::of(&extras)?);
        }
        self.blocks.insert(index, Block::Call { key, id: id.into_owned(), is_stopped: false });
        Ok(())
    }

    fn start_text(
        &mut self,
        index: u64,
        block: &RawValue,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        #[derive(Deserialize)]
        struct Start<'a> {
            #[serde(borrow)]
            text: Option<JsonText<'a>>,
            #[serde(borrow)]
            citations: Option<Vec<&'a RawValue>>,
        }
        let start: Start<'_> = serde_json::from_str(block.get())?;
        self.begin_prose(index, Voice::Text, ledger);
        if let Some(text) = start.text {
            self.say(index, Voice::Text, &text, ledger);
        }
        for citation in start.citations.unwrap_or_default() {
            self.cite(index, citation, ledger);
        }
        Ok(())
    }

    fn start_thinking(
        &mut self,
        index: u64,
        block: &RawValue,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        #[derive(Deserialize)]
        struct Start<'a> {
            #[serde(borrow)]
            thinking: Option<JsonText<'a>>,
            #[serde(borrow)]
            signature: Option<JsonText<'a>>,
        }
        let start: Start<'_> = serde_json::from_str(block.get())?;
        self.begin_prose(index, Voice::Thinking, ledger);
        if let Some(thinking) = start.thinking {
            self.say(index, Voice::Thinking, &thinking, ledger);
        }
        if let Some(signature) = start.signature {
            self.sign(index, &signature, ledger);
        }
        Ok(())
    }

    fn delta(
        &mut self,
        parsed: &Payload<'_>,
        frame: Frame<'_>,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        if let Some((delta, text)) = parsed.piece() {
            if !self.piece(delta, text, ledger) {
                ledger.news(delta.kind.name(), frame.data);
            }
            return Ok(());
        }
        let index = required(parsed.index.get(), "index")?;
        let delta = required(parsed.delta.as_ref(), "delta")?;
        let kind = delta.kind.as_ref().and_then(JsonText::as_str).unwrap_or_default();
        let is_taken = match kind {
            // Of these the text is null, or missing.
            "text_delta" => required(delta.text.as_ref(), "text").map(|_| true)?,
            "input_json_delta" => required(delta.partial_json.as_ref(), "partial_json").map(|_| true)?,
            "thinking_delta" => required(delta.thinking.as_ref(), "thinking").map(|_| true)?,
            "signature_delta" => match required(delta.signature.as_ref(), "signature")? {
                Some(signature) => self.sign(index, signature, ledger),
                None => true,
            },
            "citations_delta" => match delta.citation {
                Some(citation) => self.cite(index, citation, ledger),
                None => true,
            },
            "compaction_delta" => {
                self.compact(index, frame.data);
                false
            }
            _ => false,
        };
        if !is_taken {
            ledger.news(if kind.is_empty() { "content_block_delta" } else { kind }, frame.data);
        }
        Ok(())
    }

    /// A piece of text or of arguments came: the frames that come in thousands. False if no block takes it.
    fn piece(&mut self, delta: Delta, text: &JsonText<'_>, ledger: &mut Ledger) -> bool {
        let Delta { index, kind } = delta;
        match kind {
            DeltaKind::Text => self.say(index, Voice::Text, text, ledger),
            DeltaKind::Thinking => self.say(index, Voice::Thinking, text, ledger),
            DeltaKind::Arguments => self.append(index, text, ledger),
        }
    }

    /// Text or thinking came for a block; false if the block is neither.
    fn say(&mut self, index: u64, voice: Voice, text: &JsonText<'_>, ledger: &mut Ledger) -> bool {
        if text.is_empty() {
            return true;
        }
        let Some(prose) = self.prose(index, voice, ledger) else { return false };
        prose.has_text = true;
        match voice {
            Voice::Text => ledger.text(prose.part, text),
            Voice::Thinking => ledger.reasoning(prose.part, text),
        }
        true
    }

    /// A signature came for a block: the last one counts. False if the block is not one of thinking.
    fn sign(&mut self, index: u64, signature: &JsonText<'_>, ledger: &mut Ledger) -> bool {
        if signature.is_empty() {
            return true;
        }
        let Some(prose) = self.prose(index, Voice::Thinking, ledger) else { return false };
        prose.signature = signature.to_lossy().into_owned();
        true
    }

    /// A source came for a block; false if the block is not one of text.
    fn cite(&mut self, index: u64, raw: &RawValue, ledger: &mut Ledger) -> bool {
        #[derive(Default, Deserialize)]
        struct Source<'a> {
            #[serde(borrow)]
            url: Option<JsonText<'a>>,
            #[serde(borrow)]
            title: Option<JsonText<'a>>,
            #[serde(borrow)]
            document_title: Option<JsonText<'a>>,
        }
        let limit = self.limits.text_bytes;
        let Some(prose) = self.prose(index, Voice::Text, ledger) else { return false };
        prose.citation_bytes += raw.get().len();
        if prose.citation_bytes > limit {
            ledger.limit_exceeded("text_bytes", limit, prose.citation_bytes);
            return true;
        }
        let raw = RawJson::from(raw);
        prose.citations.push(raw.clone());
        let source: Source<'_> = serde_json::from_str(raw.as_str()).unwrap_or_default();
        let text = |text: JsonText<'_>| Text::from(text.to_lossy().as_ref());
        let title = source.title.or(source.document_title).map(text);
        ledger.citation(Citation::new(prose.part, source.url.map(text), title, raw.clone()));
        true
    }

    /// Argument text came for a block; false if the block was a server-side one and has stopped.
    fn append(&mut self, index: u64, text: &JsonText<'_>, ledger: &mut Ledger) -> bool {
        let limit = self.limits.argument_bytes;
        match self.blocks.get_mut(&index) {
            Some(Block::Call { key, .. }) => ledger.append(key, text),
            Some(Block::Server(server)) => {
                server.input.push_str(&server.joiner.join(text));
                if server.input.len() > limit {
                    ledger.limit_exceeded("argument_bytes", limit, server.input.len());
                }
            }
            Some(Block::Ended) => return text.is_empty(),
            Some(Block::Prose(_)) | None => {
                let key = self.fresh_key(index, ledger);
                ledger.append(&key, text);
            }
        }
        true
    }

    /// A summary of the conversation came for its block: it takes the place of what the block began with.
    fn compact(&mut self, index: u64, frame: &str) {
        #[derive(Deserialize)]
        struct Compaction<'a> {
            #[serde(borrow)]
            delta: Summary<'a>,
        }
        #[derive(Deserialize)]
        struct Summary<'a> {
            #[serde(borrow)]
            content: Option<&'a RawValue>,
            #[serde(borrow)]
            encrypted_content: Option<&'a RawValue>,
        }
        let Some(Block::Server(server)) = self.blocks.get_mut(&index) else { return };
        let Ok(Compaction { delta }) = serde_json::from_str(frame) else { return };
        let fields = [("content", delta.content), ("encrypted_content", delta.encrypted_content)];
        server.later.extend(fields.into_iter().filter_map(|(name, value)| Some((name, value?.into()))));
    }

    fn stop(&mut self, index: u64, ledger: &mut Ledger) {
        match self.blocks.get_mut(&index) {
            Some(Block::Call { key, is_stopped, .. }) => {
                *is_stopped = true;
                ledger.close(key);
            }
            Some(block @ Block::Server(_)) => {
                self.open.remove(&index);
                std::mem::replace(block, Block::Ended).end(ledger);
            }
            Some(Block::Prose(_)) => self.end_block_at(index, ledger),
            Some(Block::Ended) | None => {}
        }
    }

    /// Ends whatever stands at an index, to make room. A call is the ledger's to end.
    fn end_block_at(&mut self, index: u64, ledger: &mut Ledger) {
        if let Some(block) = self.blocks.remove(&index) {
            self.open.remove(&index);
            block.end(ledger);
        }
    }

    fn begin_prose(&mut self, index: u64, voice: Voice, ledger: &mut Ledger) {
        self.end_block_at(index, ledger);
        let (signature, citations) = (String::new(), Vec::new());
        let part = ledger.part_began();
        let prose = Prose { part, voice, has_text: false, signature, citations, citation_bytes: 0 };
        self.blocks.insert(index, Block::Prose(prose));
        self.open.insert(index);
    }

    /// The block of text or of thinking at an index. What never started begins now; `None` if a call or a
    /// server-side block is open there.
    fn prose(&mut self, index: u64, voice: Voice, ledger: &mut Ledger) -> Option<&mut Prose> {
        match self.blocks.get(&index) {
            Some(Block::Prose(prose)) if prose.voice == voice => {}
            Some(Block::Call { is_stopped: false, .. } | Block::Server(_)) => return None,
            _ => self.begin_prose(index, voice, ledger),
        }
        match self.blocks.get_mut(&index) {
            Some(Block::Prose(prose)) => Some(prose),
            _ => None,
        }
    }

    /// A key for a call at an index. An index that comes again is another call.
    fn fresh_key(&mut self, index: u64, ledger: &mut Ledger) -> Key {
        self.calls += 1;
        let key = Key::Index(index);
        if ledger.knows(&key) { Key::Item(format!("{index} (call {})", self.calls).into()) } else { key }
    }

    fn count(&mut self, usage: &RawValue, ledger: &mut Ledger) {
        if self.counts.update(usage) {
            ledger.usage(self.counts.total());
        }
    }
}

/// Our word for a stop reason; `None` if it means that the provider failed.
fn reason_of(word: &str) -> Option<Reason> {
    Some(match word {
        "end_turn" | "stop_sequence" | "stop" => Reason::Stop,
        "tool_use" => Reason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" | "length" => Reason::Length,
        // A compaction that was asked to pause goes on in the same way as a paused turn.
        "pause_turn" | "compaction" => Reason::Pause,
        "refusal" => Reason::Refusal,
        "content_filter" | "sensitive" => Reason::ContentFilter,
        "error" | "network_error" | "abort" => return None,
        _ => Reason::Other,
    })
}

/// The type of a frame that could not be read, and that of its delta, where they are texts.
fn outline(data: &str) -> (Option<String>, Option<String>) {
    #[derive(Default, Deserialize)]
    struct Outline<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<&'a RawValue>,
        #[serde(borrow)]
        delta: Option<&'a RawValue>,
    }
    let outline = |json| serde_json::from_str::<Outline<'_>>(json).unwrap_or_default();
    let kind = |raw: Option<&RawValue>| {
        let kind: String = serde_json::from_str(raw?.get()).ok()?;
        Some(kind).filter(|kind| !kind.is_empty())
    };
    let frame = outline(data);
    let delta = frame.delta.and_then(|delta| kind(outline(delta.get()).kind));
    (kind(frame.kind), delta)
}

/// A frame that has not even the form of a frame: news, noise, or something broken.
fn odd_frame(
    name: &str,
    frame: Frame<'_>,
    problem: serde_json::Error,
    ledger: &mut Ledger,
) -> Result<(), BadFrame> {
    match name {
        "ping" => {}
        _ if name == "error" || frame.event == "error" => ledger.fail(error::in_stream(frame.data)),
        // Another wire's last marker, which some proxies append to every stream.
        "" if frame.data.trim() == "[DONE]" => {}
        "" if !is_json(frame.data) => return Err(BadFrame::new("unnamed", problem)),
        _ => ledger.news(name, frame.data),
    }
    Ok(())
}

/// Whether the input that a block starts with says nothing: it is a placeholder, and the input streams.
fn is_blank_input(input: &str) -> bool {
    let inner = input.strip_prefix('{').and_then(|input| input.strip_suffix('}'));
    input == "\"\"" || inner.is_some_and(|inner| inner.trim().is_empty())
}

const KNOWN_DELTAS: [&str; 5] =
    ["text_delta", "input_json_delta", "thinking_delta", "signature_delta", "citations_delta"];

#[cfg(test)]
mod tests;
