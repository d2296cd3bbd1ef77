//! Frames of the Converse stream, as words to the ledger.
//!
//! A frame is known by its name, and blocks by `contentBlockIndex`. Blocks of text and reasoning have no start;
//! they may interleave, miss their stop, and an index may come again.

mod block;
mod payload;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use turnstream_core::{
    Announcement, BadFrame, BodyEnd, Closing, Error, ErrorEnvelope, ErrorKind, Frame, HotFrame, Interpret,
    JsonText, Key, Ledger, Lesson, Limits, PartIndex, RawFields, RawJson, Reason, Rules,
};

use crate::{WIRE, error};
use block::{Block, Prose, Server, Voice};
use payload::{BlockDelta, BlockStart, BlockStop, Delta, MessageStop, Piece, PieceKind, required};
use usage::Counts;

/// A call is finished when its block stopped and the turn went on; a turn, at the `metadata` behind `messageStop`,
/// or at the end of the body after `messageStop`.
pub(crate) const RULES: Rules = Rules::new(WIRE, Closing::MarkerAndMore, BodyEnd::Finishes);

/// What is known of one turn between its frames.
#[derive(Debug)]
pub(crate) struct Converse {
    limits: Limits,
    blocks: BTreeMap<u64, Block>,
    /// Where a block stands that has not ended and is no call.
    open: BTreeSet<u64>,
    /// How many calls were announced.
    calls: u64,
    counts: Counts,
    has_stopped: bool,
    has_metadata: bool,
}

impl Converse {
    /// The interpreter of one turn.
    pub(crate) fn new(limits: Limits) -> Self {
        let (blocks, open, counts) = (BTreeMap::new(), BTreeSet::new(), Counts::default());
        Self { limits, blocks, open, calls: 0, counts, has_stopped: false, has_metadata: false }
    }
}

impl Interpret for Converse {
    type Hot = Piece;

    const PASSED_OVER: &'static [&'static str] = &[PADDING];

    fn frame<'f>(
        &mut self,
        frame: Frame<'f>,
        ledger: &mut Ledger,
    ) -> Result<Option<Lesson<'f, Piece>>, BadFrame> {
        let result = match frame.event {
            "contentBlockDelta" => {
                let lesson = serde_json::from_str(frame.data).and_then(|parsed: BlockDelta<'_>| {
                    self.delta(&parsed, frame, ledger).map(|()| parsed.lesson())
                });
                return lesson.map_err(|problem| BadFrame::new(frame.event, problem));
            }
            "contentBlockStart" => {
                serde_json::from_str(frame.data).and_then(|parsed| self.block_start(parsed, frame, ledger))
            }
            "contentBlockStop" => serde_json::from_str(frame.data).and_then(|BlockStop { index }| {
                required(index.get(), "contentBlockIndex").map(|index| self.stop(index, ledger))
            }),
            // It says whose turn it is, which is known.
            "messageStart" => serde_json::from_str::<RawFields<'_>>(frame.data).map(|_| ()),
            "messageStop" => {
                serde_json::from_str(frame.data).map(|parsed| self.message_stop(&parsed, ledger))
            }
            "metadata" => serde_json::from_str(frame.data).map(|fields| self.metadata(&fields, ledger)),
            name => {
                match name.strip_prefix("exception:") {
                    Some(exception) => ledger.fail(error::in_stream(exception, frame.data)),
                    None => ledger.news(name, frame.data),
                }
                Ok(())
            }
        };
        result.map(|()| None).map_err(|problem| BadFrame::new(frame.event, problem))
    }

    fn hot(&mut self, hot: HotFrame<'_, Piece>, ledger: &mut Ledger) -> bool {
        let Piece { index, kind } = *hot.meaning;
        match kind {
            PieceKind::Text => self.say(index, Voice::Text, &hot.text.into(), ledger),
            PieceKind::Reasoning => self.say(index, Voice::Reasoning, &hot.text.into(), ledger),
            PieceKind::Arguments => self.append(index, &hot.text.into(), ledger),
        }
    }

    fn error_body(&self, envelope: ErrorEnvelope) -> Error {
        error::of_body(envelope)
    }
}

impl Converse {
    fn message_stop(&mut self, frame: &MessageStop<'_>, ledger: &mut Ledger) {
        if let Some(fields) = frame.additional {
            ledger.provider("additionalModelResponseFields", fields.into());
        }
        let word = frame.stop_reason.as_ref().map(JsonText::to_lossy).unwrap_or_default();
        if word.is_empty() {
            self.end_open_blocks(ledger);
            return ledger.turn_ended();
        }
        let Some(reason) = reason_of(&word) else {
            let words = format!("the provider ended the turn with the reason `{word}`");
            return ledger.fail(Error::new(ErrorKind::Provider, words).with_code(word));
        };
        ledger.reason(reason, &word);
        self.has_stopped = true;
        // Those of a turn that was cut are not complete.
        if !reason.is_cut() {
            self.end_open_blocks(ledger);
        }
        if self.has_metadata {
            ledger.turn_ended();
        }
    }

    /// The last that is said of a turn; some servers say it before `messageStop`.
    fn metadata(&mut self, fields: &RawFields<'_>, ledger: &mut Ledger) {
        for (name, value) in &fields.0 {
            match &**name {
                "usage" => {
                    if self.counts.update(value) {
                        ledger.usage(self.counts.total());
                    }
                }
                PADDING => {}
                _ if value.get() == "null" => {}
                name => ledger.provider(name, (*value).into()),
            }
        }
        self.has_metadata = true;
        if self.has_stopped {
            ledger.turn_ended();
        }
    }

    /// Ends the blocks that never stopped.
    fn end_open_blocks(&mut self, ledger: &mut Ledger) {
        for index in std::mem::take(&mut self.open) {
            if let Some(block) = self.blocks.get_mut(&index) {
                std::mem::replace(block, Block::Ended).end(ledger);
            }
        }
    }

    fn block_start(
        &mut self,
        parsed: BlockStart<'_>,
        frame: Frame<'_>,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        let index = required(parsed.index.get(), "contentBlockIndex")?;
        let fields = parsed.start.unwrap_or(RawFields(Vec::new()));
        // It is a union: the one field that it has is the block's kind.
        let is_known = |kind: &str| matches!(kind, "toolUse" | "toolResult" | "image");
        let mut said: Vec<_> = fields.0.iter().filter(|(_, start)| start.get() != "null").collect();
        said.sort_by_key(|(kind, _)| !is_known(kind));
        let Some((kind, start)) = said.first() else {
            self.begin_blank(index, ledger);
            return Ok(());
        };
        match &**kind {
            "toolUse" => self.start_tool_use(index, start, ledger),
            "toolResult" | "image" => {
                self.start_server(index, kind, start, ledger);
                Ok(())
            }
            kind => {
                self.begin_blank(index, ledger);
                ledger.news(kind, frame.data);
                Ok(())
            }
        }
    }

    fn start_tool_use(
        &mut self,
        index: u64,
        start: &RawValue,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        #[derive(Deserialize)]
        struct ToolUse<'a> {
            #[serde(borrow, rename = "toolUseId")]
            id: Option<JsonText<'a>>,
            #[serde(borrow)]
            name: JsonText<'a>,
            #[serde(borrow, rename = "type")]
            kind: Option<JsonText<'a>>,
        }
        let call: ToolUse<'_> = serde_json::from_str(start.get())?;
        // Clients' calls have no type, or `tool_use`.
        if call.kind.as_ref().and_then(JsonText::as_str).is_some_and(|kind| kind.starts_with("server")) {
            self.start_server(index, "toolUse", start, ledger);
            return Ok(());
        }
        let (id, name) = (call.id.as_ref().map(JsonText::to_lossy).unwrap_or_default(), call.name.to_lossy());
        if name.is_empty() {
            return Err(serde::de::Error::custom("the name of the tool is empty"));
        }
        let key = match self.blocks.get(&index) {
            // The same block said again.
            Some(Block::Call { key, id: known, is_stopped: false }) if *known == id => key.clone(),
            _ => {
                self.end_block_at(index, ledger);
                self.fresh_key(index, ledger)
            }
        };
        ledger.announce(key.clone(), Announcement::new(Some(&id), Some(&name)));
        self.blocks.insert(index, Block::Call { key, id: id.into_owned(), is_stopped: false });
        Ok(())
    }

    /// A block that is the provider's own: shown by the name that it has, or that of its kind.
    fn start_server(&mut self, index: u64, kind: &str, start: &RawValue, ledger: &mut Ledger) {
        #[derive(Default, Deserialize)]
        struct Named<'a> {
            #[serde(borrow, rename = "type")]
            kind: Option<JsonText<'a>>,
        }
        self.end_block_at(index, ledger);
        let part = ledger.part_began();
        let named: Named<'_> = serde_json::from_str(start.get()).unwrap_or_default();
        let name = named.kind.as_ref().map(JsonText::to_lossy).filter(|name| !name.is_empty());
        ledger.provider(name.as_deref().unwrap_or(kind), start.into());
        self.blocks.insert(index, Block::Server(Server::new(part, kind, start.into())));
        self.open.insert(index);
    }

    fn delta(
        &mut self,
        parsed: &BlockDelta<'_>,
        frame: Frame<'_>,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        let index = required(parsed.index.get(), "contentBlockIndex")?;
        let delta = required(parsed.delta.as_ref(), "delta")?;
        let mut is_taken = true;
        if let Some(text) = &delta.text {
            is_taken &= self.say(index, Voice::Text, text, ledger);
        }
        if let Some(input) = delta.tool_use.as_ref().and_then(|tool_use| tool_use.input.as_ref()) {
            is_taken &= self.append(index, input, ledger);
        }
        if let Some(reasoning) = &delta.reasoning_content {
            if let Some(text) = &reasoning.text {
                is_taken &= self.say(index, Voice::Reasoning, text, ledger);
            }
            if let Some(signature) = &reasoning.signature {
                is_taken &= self.sign(index, signature, ledger);
            }
            if let Some(content) = &reasoning.redacted_content {
                is_taken &= self.redact(index, content, ledger);
            }
        }
        if let Some(citation) = delta.citation {
            is_taken &= self.cite(index, citation, ledger);
        }
        if let Some(content) = delta.tool_result {
            is_taken &= self.add_result(index, content, ledger);
        }
        if let Some(image) = delta.image {
            is_taken &= self.add_image(index, image, ledger);
        }
        if !is_taken {
            ledger.news("contentBlockDelta", frame.data);
        } else if let Some(kind) = unknown_kind(delta, frame.data) {
            ledger.news(&kind, frame.data);
        }
        Ok(())
    }

    /// Text or reasoning came for a block; false if the block is neither. An empty one begins a block, too.
    fn say(&mut self, index: u64, voice: Voice, text: &JsonText<'_>, ledger: &mut Ledger) -> bool {
        if text.is_empty()
            && matches!(self.blocks.get(&index), Some(block) if !matches!(block, Block::Blank(_)))
        {
            return true;
        }
        let Some(prose) = self.prose(index, voice, ledger) else { return false };
        prose.has_text |= !text.is_empty();
        match voice {
            Voice::Text => ledger.text(prose.part, text),
            Voice::Reasoning => ledger.reasoning(prose.part, text),
        }
        true
    }

    /// A signature came for a block: the last one counts. False if the block is not one of reasoning.
    fn sign(&mut self, index: u64, signature: &JsonText<'_>, ledger: &mut Ledger) -> bool {
        if signature.is_empty() {
            return true;
        }
        let Some(prose) = self.prose(index, Voice::Reasoning, ledger) else { return false };
        prose.signature = signature.to_lossy().into_owned();
        true
    }

    /// A source came for a block; false if the block is not one of text.
    fn cite(&mut self, index: u64, raw: &RawValue, ledger: &mut Ledger) -> bool {
        let limit = self.limits.text_bytes;
        let Some(prose) = self.prose(index, Voice::Text, ledger) else { return false };
        prose.citation_bytes += raw.get().len();
        if prose.citation_bytes > limit {
            ledger.limit_exceeded("text_bytes", limit, prose.citation_bytes);
            return true;
        }
        let raw = RawJson::from(raw);
        prose.citations.push(raw.clone());
        ledger.citation(payload::citation(prose.part, raw));
        true
    }

    /// Argument text came for a block; false if the block was a server-side one and has stopped.
    fn append(&mut self, index: u64, text: &JsonText<'_>, ledger: &mut Ledger) -> bool {
        let limit = self.limits.argument_bytes;
        match self.blocks.get_mut(&index) {
            Some(Block::Call { key, .. }) => ledger.append(key, text),
            Some(Block::Server(server)) => {
                server.input.push_str(&server.joiner.join(text));
                let bytes = server.input.len();
                if bytes > limit {
                    ledger.limit_exceeded("argument_bytes", limit, bytes);
                }
            }
            Some(Block::Ended) => return text.is_empty(),
            Some(Block::Prose(_) | Block::Blank(_) | Block::Redacted { .. }) | None => {
                let key = self.fresh_key(index, ledger);
                ledger.append(&key, text);
            }
        }
        true
    }

    /// Reasoning that is not shown: a block of its own, which nobody but the provider reads.
    fn redact(&mut self, index: u64, content: &JsonText<'_>, ledger: &mut Ledger) -> bool {
        if content.is_empty() {
            return true;
        }
        match self.blocks.get(&index) {
            Some(Block::Redacted { .. }) => {}
            Some(Block::Call { is_stopped: false, .. } | Block::Server(_)) => return false,
            _ => {
                let part = self.begin_at(index, ledger);
                self.blocks.insert(index, Block::Redacted { part, content: Vec::new(), bytes: 0 });
            }
        }
        let limit = self.limits.text_bytes;
        if let Some(Block::Redacted { content: pieces, bytes, .. }) = self.blocks.get_mut(&index) {
            *bytes += content.as_wtf8().len();
            pieces.push(content.to_lossy().into_owned());
            if *bytes > limit {
                ledger.limit_exceeded("text_bytes", limit, *bytes);
            }
        }
        true
    }

    /// What a server-side tool gave back; false if there is no block for it.
    fn add_result(&mut self, index: u64, content: &RawValue, ledger: &mut Ledger) -> bool {
        let limit = self.limits.argument_bytes;
        let Some(Block::Server(server)) = self.blocks.get_mut(&index) else { return false };
        let Ok(pieces) = serde_json::from_str::<Vec<&RawValue>>(content.get()) else { return false };
        server.content.extend(pieces.into_iter().map(RawJson::from));
        server.bytes += content.get().len();
        if server.bytes > limit {
            ledger.limit_exceeded("argument_bytes", limit, server.bytes);
        }
        ledger.provider("toolResult", content.into());
        true
    }

    /// An image of the model's; false if there is no block for it.
    fn add_image(&mut self, index: u64, image: &RawValue, ledger: &mut Ledger) -> bool {
        let Some(Block::Server(server)) = self.blocks.get_mut(&index) else { return false };
        let Ok(fields) = serde_json::from_str::<RawFields<'_>>(image.get()) else { return false };
        server.source = fields.get("source").map(RawJson::from).or(server.source.take());
        ledger.provider("image", image.into());
        true
    }

    fn stop(&mut self, index: u64, ledger: &mut Ledger) {
        match self.blocks.get_mut(&index) {
            Some(Block::Call { key, is_stopped, .. }) => {
                *is_stopped = true;
                ledger.close(key);
            }
            Some(block) => {
                self.open.remove(&index);
                std::mem::replace(block, Block::Ended).end(ledger);
            }
            None => {}
        }
    }

    /// Ends whatever stands at an index, to make room. A call is the ledger's to end.
    fn end_block_at(&mut self, index: u64, ledger: &mut Ledger) {
        if let Some(block) = self.blocks.remove(&index) {
            self.open.remove(&index);
            block.end(ledger);
        }
    }

    /// A block begins of which nothing is known yet.
    fn begin_blank(&mut self, index: u64, ledger: &mut Ledger) {
        // A start that comes after all belongs to what is open there.
        if matches!(self.blocks.get(&index), Some(Block::Blank(_) | Block::Prose(_) | Block::Redacted { .. }))
        {
            return;
        }
        let part = self.begin_at(index, ledger);
        self.blocks.insert(index, Block::Blank(part));
    }

    /// A part for the block at an index: that of its start, or a new one. What stood there is ended.
    fn begin_at(&mut self, index: u64, ledger: &mut Ledger) -> PartIndex {
        let part = match self.blocks.get(&index) {
            Some(Block::Blank(part)) => *part,
            _ => {
                self.end_block_at(index, ledger);
                ledger.part_began()
            }
        };
        self.open.insert(index);
        part
    }

    /// The block of text or of reasoning at an index. What never started begins now; `None` if a call or a
    /// server-side block is open there.
    fn prose(&mut self, index: u64, voice: Voice, ledger: &mut Ledger) -> Option<&mut Prose> {
        match self.blocks.get(&index) {
            Some(Block::Prose(prose)) if prose.voice == voice => {}
            Some(Block::Call { is_stopped: false, .. } | Block::Server(_)) => return None,
            _ => {
                let part = self.begin_at(index, ledger);
                self.blocks.insert(index, Block::Prose(Prose::new(part, voice)));
            }
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
}

/// Our word for a stop reason; `None` if it means that the model failed.
fn reason_of(word: &str) -> Option<Reason> {
    Some(match word {
        "end_turn" | "stop_sequence" => Reason::Stop,
        "tool_use" => Reason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Reason::Length,
        "guardrail_intervened" | "content_filtered" => Reason::ContentFilter,
        "refusal" => Reason::Refusal,
        "pause_turn" => Reason::Pause,
        "malformed_model_output" | "malformed_tool_use" | "error" => return None,
        _ => Reason::Other,
    })
}

/// The kind of a delta that is news: the one field that it has, if that is not known.
fn unknown_kind(delta: &Delta<'_>, data: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Outline<'a> {
        #[serde(borrow)]
        delta: RawFields<'a>,
    }
    if !delta.is_empty() {
        return None;
    }
    let Outline { delta } = serde_json::from_str(data).ok()?;
    let mut fields = delta.0.into_iter().filter(|(_, value)| value.get() != "null");
    fields.find(|(name, _)| !KNOWN_DELTAS.contains(&&**name)).map(|(name, _)| name.into_owned())
}

const KNOWN_DELTAS: [&str; 6] = ["text", "toolUse", "reasoningContent", "citation", "toolResult", "image"];

/// A field of every payload that only hides how long it is.
const PADDING: &str = "p";

#[cfg(test)]
mod tests;
