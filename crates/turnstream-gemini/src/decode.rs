//! Frames of `generateContent` and `streamGenerateContent`, as words to the ledger.
//!
//! Every frame is a piece of the same response, and every part in it is a new part; only texts of one kind
//! without a signature, one behind the other, are one part of ours. A call is a part and comes whole, or, if
//! asked for so, in pieces.

mod arguments;
mod chunk;
mod usage;

use std::{cell::LazyCell, collections::HashSet};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use turnstream_core::{
    Announcement, BadFrame, BodyEnd, Citation, Closing, Error, ErrorEnvelope, Frame, HotFrame, Interpret,
    JsonText, Key, Ledger, Lesson, Limits, PartIndex, RawFields, RawJson, Reason, Rules, Text, is_json,
};

use crate::{WIRE, error};
use arguments::ArgumentWriter;
use chunk::{Candidate, Chunk, FunctionCall, Part, is_true, raw_candidates, raw_parts};
use usage::{Counts, Report, ReportShape};

/// A call is finished with its part, or with the terminator of its pieces; a turn, at a clean end of the body
/// after a reason. A reason alone ends nothing: some models give one with every frame, and not always the same.
pub(crate) const RULES: Rules = Rules::new(WIRE, Closing::Marker, BodyEnd::FinishesIfClean);

/// Interprets the frames of one turn.
#[derive(Debug)]
pub(crate) struct Responses {
    limits: Limits,
    /// The texts that are coming: the next piece of the same kind belongs to the same part.
    run: Option<(PartIndex, Voice)>,
    /// The part that sources belong to.
    last_text: Option<PartIndex>,
    /// How many calls were announced.
    calls: u64,
    /// The call whose pieces are coming.
    open: Option<OpenCall>,
    counts: Counts,
    is_cut: bool,
    /// The sources that have been given out: they are said again with every frame.
    cited: HashSet<Box<str>>,
    cited_bytes: usize,
}

/// A piece of text or of a thought, and the token counts beside it: the frames that come in great numbers.
#[derive(Debug)]
pub(crate) struct Piece {
    voice: Voice,
    report: ReportShape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    Text,
    Thought,
}

#[derive(Debug)]
struct OpenCall {
    key: Key,
    id: String,
    writer: ArgumentWriter,
    /// The arguments came whole.
    is_whole: bool,
}

/// What goes back of a text, a thought or a call besides what the message holds anyway.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Marks<'a> {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

impl Responses {
    /// The interpreter of one turn.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            run: None,
            last_text: None,
            calls: 0,
            open: None,
            counts: Counts::default(),
            is_cut: false,
            cited: HashSet::new(),
            cited_bytes: 0,
        }
    }
}

impl Interpret for Responses {
    type Hot = Piece;

    // The sum of the counts, and those of each modality.
    const PASSED_OVER: &'static [&'static str] = &["totalTokenCount", "tokenCount"];

    fn frame<'f>(
        &mut self,
        frame: Frame<'f>,
        ledger: &mut Ledger,
    ) -> Result<Option<Lesson<'f, Piece>>, BadFrame> {
        match serde_json::from_str::<Chunk<'_>>(frame.data) {
            Ok(chunk) if chunk.is_known() || chunk.has_error() => {
                // Read leniently: it is no reason to lose a turn.
                let report = chunk.usage_metadata.and_then(|usage| serde_json::from_str(usage.get()).ok());
                let report = report.unwrap_or_default();
                self.chunk(&chunk, &report, frame.data, ledger);
                Ok(chunk.lesson(&report))
            }
            Ok(_) => {
                ledger.news(frame.event, frame.data);
                Ok(None)
            }
            Err(problem) => self.odd_frame(frame, problem, ledger).map(|()| None),
        }
    }

    fn hot(&mut self, hot: HotFrame<'_, Piece>, ledger: &mut Ledger) -> bool {
        let Piece { voice, report } = hot.meaning;
        self.usage(report.with(hot.numbers), ledger);
        self.text(*voice, &hot.text.into(), ledger);
        true
    }

    fn body_ended(&mut self, ledger: &mut Ledger) {
        self.end_run(ledger);
        if !self.is_cut {
            self.leave_call(ledger);
        }
    }

    fn error_body(&self, envelope: ErrorEnvelope) -> Error {
        error::of_body(envelope)
    }
}

impl Responses {
    fn chunk(&mut self, chunk: &Chunk<'_>, report: &Report<'_>, data: &str, ledger: &mut Ledger) {
        if chunk.is_known() {
            let text = |text: &Option<JsonText<'_>>| text.as_ref().map(|text| text.to_lossy().into_owned());
            if self.calls == 0 && self.run.is_none() {
                ledger
                    .turn_started(text(&chunk.response_id).as_deref(), text(&chunk.model_version).as_deref());
            }
        }
        self.usage(report.counts(), ledger);
        // Read again at most once, however many candidates ask for it.
        let raws = LazyCell::new(|| raw_candidates(data));
        for (number, candidate) in chunk.candidates.iter().flatten().enumerate() {
            let raw = || raws.get(number).copied();
            // What is asked for is one answer. Others are the provider's business.
            if candidate.index.get().unwrap_or(0) > 0 {
                if let Some(raw) = raw() {
                    ledger.provider("candidate", raw.into());
                }
                continue;
            }
            self.candidate(candidate, raw, ledger);
        }
        if let Some(feedback) = chunk.prompt_feedback {
            self.prompt_feedback(feedback, ledger);
        }
        if chunk.has_error() {
            ledger.fail(error::in_stream(data));
        }
    }

    fn usage(&mut self, report: Counts, ledger: &mut Ledger) {
        if self.counts.update(report) {
            ledger.usage(self.counts.total());
        }
    }

    fn candidate<'a>(
        &mut self,
        candidate: &Candidate<'_>,
        raw: impl FnOnce() -> Option<&'a RawValue>,
        ledger: &mut Ledger,
    ) {
        let parts = candidate.content.as_ref().and_then(|content| content.parts.as_ref());
        let raws = LazyCell::new(|| raw().map(raw_parts).unwrap_or_default());
        for (number, part) in parts.into_iter().flatten().enumerate() {
            self.part(part, || raws.get(number).copied(), ledger);
        }
        let said = [
            ("groundingMetadata", candidate.grounding_metadata),
            ("citationMetadata", candidate.citation_metadata),
            ("urlContextMetadata", candidate.url_context_metadata),
            ("safetyRatings", candidate.safety_ratings),
            ("logprobsResult", candidate.logprobs_result),
            ("continuationToken", candidate.continuation_token),
            ("finishMessage", candidate.finish_message),
        ];
        for (name, raw) in said {
            if let Some(raw) = raw.filter(|raw| !matches!(raw.get(), "{}" | "[]" | "\"\"")) {
                ledger.provider(name, raw.into());
            }
        }
        for sources in [candidate.grounding_metadata, candidate.citation_metadata].into_iter().flatten() {
            self.cite(sources, ledger);
        }
        if let Some(word) = candidate.finish_reason.as_ref().map(JsonText::to_lossy) {
            self.reason(&word, candidate.finish_message, ledger);
        }
    }

    fn part<'a>(&mut self, part: &Part<'_>, raw: impl FnOnce() -> Option<&'a RawValue>, ledger: &mut Ledger) {
        let signature = part.thought_signature.as_ref().filter(|signature| !signature.is_empty());
        if let Some(call) = &part.function_call {
            return self.call(call, signature, ledger);
        }
        let voice = if is_true(part.thought) { Voice::Thought } else { Voice::Text };
        match (&part.text, signature) {
            (Some(text), None) => self.text(voice, text, ledger),
            (Some(text), Some(signature)) if !text.is_empty() => {
                self.signed_text(voice, text, signature, ledger);
            }
            _ => {
                if let Some(raw) = raw() {
                    self.opaque(raw, ledger);
                }
            }
        }
    }

    fn text(&mut self, voice: Voice, text: &JsonText<'_>, ledger: &mut Ledger) {
        if text.is_empty() {
            return;
        }
        let part = match self.run {
            Some((part, known)) if known == voice => part,
            _ => {
                self.end_run(ledger);
                let part = ledger.part_began();
                self.run = Some((part, voice));
                part
            }
        };
        self.say(part, voice, text, ledger);
    }

    /// A text with a signature is a part of its own: the signature goes back on that very part.
    fn signed_text(
        &mut self,
        voice: Voice,
        text: &JsonText<'_>,
        signature: &JsonText<'_>,
        ledger: &mut Ledger,
    ) {
        self.end_run(ledger);
        let part = ledger.part_began();
        self.say(part, voice, text, ledger);
        ledger.part_finished(part, marks(voice == Voice::Thought, Some(signature)));
    }

    fn say(&mut self, part: PartIndex, voice: Voice, text: &JsonText<'_>, ledger: &mut Ledger) {
        match voice {
            Voice::Text => {
                self.last_text = Some(part);
                ledger.text(part, text);
            }
            Voice::Thought => ledger.reasoning(part, text),
        }
    }

    /// A part that is neither text nor a client's call goes back as it came. It is shown, too, but for a
    /// signature alone.
    fn opaque(&mut self, raw: &RawValue, ledger: &mut Ledger) {
        let Ok(RawFields(fields)) = serde_json::from_str::<RawFields<'_>>(raw.get()) else { return };
        let mut said = fields.iter().filter(|(name, value)| {
            !MODIFIERS.contains(&&**name) && !matches!((&**name, value.get()), (_, "null") | ("text", "\"\""))
        });
        let kind = said.next().map(|(name, _)| name);
        let is_signed =
            fields.iter().any(|(name, value)| name == "thoughtSignature" && value.get() != "null");
        if kind.is_none() && !is_signed {
            return;
        }
        self.end_run(ledger);
        let (part, raw) = (ledger.part_began(), RawJson::from(raw));
        if let Some(kind) = kind {
            ledger.provider(kind, raw.clone());
        }
        ledger.part_finished(part, Some(raw));
    }

    fn call(&mut self, call: &FunctionCall<'_>, signature: Option<&JsonText<'_>>, ledger: &mut Ledger) {
        let id = call.id.as_ref().map(JsonText::to_lossy).unwrap_or_default();
        let name = call.name.as_ref().map(JsonText::to_lossy).unwrap_or_default();
        let is_same =
            |open: &OpenCall| name.is_empty() || (!id.is_empty() && open.id == id && !open.writer.is_blank());
        let mut open = match self.open.take() {
            Some(open) if is_same(&open) => open,
            left => {
                self.open = left;
                self.leave_call(ledger);
                if name.is_empty() {
                    return self.nameless(call, ledger);
                }
                self.end_run(ledger);
                let key = Key::Index(self.calls);
                self.calls += 1;
                ledger.announce(key.clone(), Announcement::new(Some(&id), Some(&name)));
                OpenCall { key, id: id.into_owned(), writer: ArgumentWriter::default(), is_whole: false }
            }
        };
        if signature.is_some()
            && let Some(marks) = marks(false, signature)
        {
            ledger.call_replay(&open.key, marks);
        }
        if let Some(args) = call.args {
            open.take_whole(args, call.will_continue(), ledger);
        }
        let mut text = String::new();
        for piece in call.partial_args.iter().flatten() {
            if open.is_whole || open.writer.write(piece, &mut text).is_err() {
                ledger.provider("partialArgs", (*piece).into());
            }
        }
        if !call.will_continue() {
            open.writer.finish(true, &mut text);
        }
        ledger.append(&open.key, &JsonText::from(text.as_str()));
        if call.will_continue() {
            self.open = Some(open);
        } else {
            ledger.close(&open.key);
        }
    }

    /// A piece of a call, and none is open: the terminator of one that has ended, or an error.
    fn nameless(&mut self, call: &FunctionCall<'_>, ledger: &mut Ledger) {
        let pieces = call.partial_args.iter().flatten();
        let said = call.args.into_iter().chain(pieces.copied()).find(|raw| !is_blank(raw));
        if let Some(said) = said {
            // Nobody can run it, and nobody may think that it was not said.
            ledger.append(&Key::Index(self.calls), &JsonText::from(said.get()));
        }
    }

    /// The model went on from a call that nothing ended. If all of its values are whole, its text is, too, and
    /// a normal end of the turn ends it.
    fn leave_call(&mut self, ledger: &mut Ledger) {
        if let Some(mut open) = self.open.take() {
            let mut text = String::new();
            open.writer.finish(false, &mut text);
            ledger.append(&open.key, &JsonText::from(text.as_str()));
        }
    }

    fn end_run(&mut self, ledger: &mut Ledger) {
        if let Some((part, voice)) = self.run.take() {
            let replay = if voice == Voice::Thought { marks(true, None) } else { None };
            ledger.part_finished(part, replay);
        }
    }

    fn reason(&mut self, word: &str, message: Option<&RawValue>, ledger: &mut Ledger) {
        // The word for "no reason yet".
        if matches!(word, "" | "FINISH_REASON_UNSPECIFIED") {
            return;
        }
        match reason_of(word) {
            Some(reason) => {
                self.is_cut |= reason.is_cut();
                ledger.reason(reason, word);
            }
            None => {
                let message: Option<String> =
                    message.and_then(|message| serde_json::from_str(message.get()).ok());
                ledger.fail(error::of_reason(word, message.as_deref()));
            }
        }
    }

    fn prompt_feedback(&mut self, feedback: &RawValue, ledger: &mut Ledger) {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Feedback<'a> {
            #[serde(borrow)]
            block_reason: Option<JsonText<'a>>,
        }
        if feedback.get() != "{}" {
            ledger.provider("promptFeedback", feedback.into());
        }
        let Feedback { block_reason } = serde_json::from_str(feedback.get()).unwrap_or_default();
        let word = block_reason.as_ref().map(JsonText::to_lossy).unwrap_or_default();
        if !matches!(&*word, "" | "BLOCK_REASON_UNSPECIFIED" | "BLOCKED_REASON_UNSPECIFIED") {
            self.is_cut = true;
            ledger.reason(Reason::ContentFilter, &word);
        }
    }

    /// Gives each source out once: the same ones come with every frame.
    fn cite(&mut self, sources: &RawValue, ledger: &mut Ledger) {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Sources<'a> {
            #[serde(borrow)]
            grounding_chunks: Option<Vec<&'a RawValue>>,
            #[serde(borrow)]
            citations: Option<Vec<&'a RawValue>>,
            #[serde(borrow)]
            citation_sources: Option<Vec<&'a RawValue>>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Origin<'a> {
            #[serde(borrow)]
            uri: Option<JsonText<'a>>,
            #[serde(borrow)]
            title: Option<JsonText<'a>>,
            #[serde(borrow)]
            web: Option<&'a RawValue>,
            #[serde(borrow)]
            retrieved_context: Option<&'a RawValue>,
            #[serde(borrow)]
            maps: Option<&'a RawValue>,
        }
        let Some(part) = self.last_text else { return };
        let Sources { grounding_chunks, citations, citation_sources } =
            serde_json::from_str(sources.get()).unwrap_or_default();
        for raw in [grounding_chunks, citations, citation_sources].into_iter().flatten().flatten() {
            if self.cited.contains(raw.get()) {
                continue;
            }
            self.cited_bytes += raw.get().len();
            if self.cited_bytes > self.limits.text_bytes {
                return ledger.limit_exceeded("text_bytes", self.limits.text_bytes, self.cited_bytes);
            }
            self.cited.insert(raw.get().into());
            let mut origin: Origin<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
            if let Some(inner) = origin.web.or(origin.retrieved_context).or(origin.maps) {
                origin = serde_json::from_str(inner.get()).unwrap_or_default();
            }
            let text =
                |text: JsonText<'_>| Some(Text::from(&*text.to_lossy())).filter(|text| !text.is_empty());
            let (url, title) = (origin.uri.and_then(text), origin.title.and_then(text));
            ledger.citation(Citation::new(part, url, title, raw.into()));
        }
    }

    /// A frame that has not the form of a response: an array of them, an error, news, noise, or something
    /// broken.
    fn odd_frame(
        &mut self,
        frame: Frame<'_>,
        problem: serde_json::Error,
        ledger: &mut Ledger,
    ) -> Result<(), BadFrame> {
        let data = frame.data.trim();
        if let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(data) {
            for element in elements {
                if element.get().starts_with('[') {
                    ledger.news(frame.event, element.get());
                    continue;
                }
                self.frame(Frame::new(frame.event, element.get()), ledger)?;
            }
            return Ok(());
        }
        let fields: Result<RawFields<'_>, _> = serde_json::from_str(data);
        let has = |name: &str| fields.as_ref().is_ok_and(|fields| fields.get(name).is_some());
        match data {
            // Another wire's last marker, which some proxies append to every stream.
            "[DONE]" => Ok(()),
            _ if has("error") && !has("candidates") => {
                ledger.fail(error::in_stream(data));
                Ok(())
            }
            _ if KNOWN.iter().any(|name| has(name)) => Err(BadFrame::new("GenerateContentResponse", problem)),
            _ if !is_json(data) => Err(BadFrame::new("unnamed", problem)),
            _ => {
                ledger.news(frame.event, data);
                Ok(())
            }
        }
    }
}

impl OpenCall {
    /// The arguments came as an object: its own text is the one fragment. An empty one with a call that goes on
    /// is a placeholder.
    fn take_whole(&mut self, args: &RawValue, will_continue: bool, ledger: &mut Ledger) {
        if will_continue && is_blank(args) {
            return;
        }
        if self.is_whole || !self.writer.is_blank() {
            return ledger.provider("args", args.into());
        }
        self.is_whole = true;
        // Some gateways write the object as a text.
        match serde_json::from_str::<JsonText<'_>>(args.get()) {
            Ok(text) => ledger.append(&self.key, &text),
            Err(_) => ledger.append(&self.key, &JsonText::from(args.get())),
        }
    }
}

fn marks(thought: bool, signature: Option<&JsonText<'_>>) -> Option<RawJson> {
    let signature = signature.map(JsonText::to_lossy);
    RawJson::of(&Marks { thought, thought_signature: signature.as_deref() }).ok()
}

/// Our word for a reason; `None` if it means that the provider failed.
fn reason_of(word: &str) -> Option<Reason> {
    Some(match word {
        "STOP" => Reason::Stop,
        "MAX_TOKENS" => Reason::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "LANGUAGE"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Reason::ContentFilter,
        "MALFORMED_FUNCTION_CALL"
        | "MALFORMED_RESPONSE"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE" => return None,
        _ => Reason::Other,
    })
}

/// Whether arguments or a piece of them say nothing.
fn is_blank(raw: &RawValue) -> bool {
    let inner = raw.get().strip_prefix('{').and_then(|raw| raw.strip_suffix('}'));
    inner.is_some_and(|inner| inner.trim().is_empty())
}

/// The fields of a response that a frame is known by.
const KNOWN: [&str; 5] = ["candidates", "usageMetadata", "promptFeedback", "modelVersion", "responseId"];

/// The fields of a part that do not say what it is.
const MODIFIERS: [&str; 5] =
    ["thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"];

#[cfg(test)]
mod tests;
