//! Frames to events: the serde types that are read, and what they mean.
//!
//! Items are told apart by their `output_index`. Servers without one (llama.cpp, Ollama) are read by item id,
//! for which a call's `call_id` may stand, with or without `fc_` before it.

mod items;

use serde::{Deserialize, de::Error as _};
use serde_json::value::RawValue;
use turnstream_core::{
    BadFrame, BodyEnd, Closing, Count, Error, ErrorEnvelope, ErrorKind, Frame, HotFrame, HotFrames,
    Interpret, JsonText, Key, Ledger, Reason, Rules, Text, Usage, is_json,
};

use crate::{WIRE, error::in_stream};
use items::{Items, Place, Seen};

/// The wire's row of the design's table: a call ends with its item, the turn with its terminal event only.
pub(crate) const RULES: Rules = Rules::new(WIRE, Closing::Marker, BodyEnd::Cuts);

/// Reads the frames of one turn.
#[derive(Debug)]
pub(crate) struct Interpreter {
    hot: HotFrames<Piece>,
    items: Items,
}

impl Default for Interpreter {
    fn default() -> Self {
        Self { hot: HotFrames::new(&PASSED_OVER), items: Items::default() }
    }
}

/// A piece of text or of arguments: the frames that come in thousands.
#[derive(Debug)]
struct Piece {
    /// Of text in this channel, or else of arguments.
    channel: Option<Channel>,
    output_index: Option<u64>,
    item_id: Text,
    index_in: u64,
}

impl Interpret for Interpreter {
    fn frame(&mut self, frame: Frame<'_>, ledger: &mut Ledger) -> Result<(), BadFrame> {
        if let Some(HotFrame { meaning: piece, text, .. }) = self.hot.recognise(frame) {
            take_piece(piece, &text, &mut self.items, ledger);
            return Ok(());
        }
        // Gateways put it after the terminal event. By itself it ends nothing.
        if frame.data == "[DONE]" {
            return Ok(());
        }
        match serde_json::from_str::<Payload<'_>>(frame.data) {
            Ok(read) => {
                let name = read.name.as_ref().and_then(JsonText::as_str).unwrap_or(frame.event);
                match Kind::of(name) {
                    Kind::Error => ledger.fail(provider_error(frame.data)),
                    // llama.cpp breaks a reply off like this.
                    Kind::News if name.is_empty() && read.error.is_some() => {
                        ledger.fail(provider_error(frame.data));
                    }
                    Kind::News => ledger.news(name, frame.data),
                    kind => {
                        if let Some(piece) = Piece::of(kind, &read)
                            && let Some(text) = as_str(&read.delta)
                        {
                            self.hot.learn(frame, text, None, piece);
                        }
                        let taken = self.take(kind, &read, ledger);
                        return taken.map_err(|problem| BadFrame::new(name, problem));
                    }
                }
                Ok(())
            }
            Err(problem) => {
                let tag = serde_json::from_str::<Tag<'_>>(frame.data).ok().and_then(|tag| tag.name);
                let name = tag.as_ref().and_then(JsonText::as_str).unwrap_or(frame.event);
                match Kind::of(name) {
                    Kind::Error => ledger.fail(provider_error(frame.data)),
                    Kind::News if !name.is_empty() || is_json(frame.data) => ledger.news(name, frame.data),
                    Kind::News => return Err(BadFrame::new("unnamed", problem)),
                    _ => return Err(BadFrame::new(name, problem)),
                }
                Ok(())
            }
        }
    }

    fn error_body(&self, envelope: ErrorEnvelope) -> Error {
        in_stream(envelope)
    }
}

impl Interpreter {
    /// Takes a frame that is neither news nor an error.
    fn take(
        &mut self,
        kind: Kind,
        frame: &Payload<'_>,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        match kind {
            Kind::Delta(_) | Kind::ArgumentsDelta => {
                if let (Some(piece), Some(delta)) = (Piece::of(kind, frame), &frame.delta) {
                    take_piece(&piece, delta, &mut self.items, ledger);
                }
            }
            Kind::Done(channel) => {
                let text = if channel == Channel::Refusal { frame.refusal } else { frame.text };
                if let Some(text) = text.filter(|text| !matches!(text.get(), "null" | r#""""#)) {
                    let item = self.items.prose_item(channel, frame.place(), ledger);
                    let said = item.has_text(channel, frame.index_in(channel));
                    // Mostly it was said, and then a long text need not be copied.
                    if !said {
                        let text = serde_json::from_str::<JsonText<'_>>(text.get())?;
                        item.say(channel, frame.index_in(channel), &text, ledger);
                    }
                }
            }
            Kind::ArgumentsDone => {
                let whole = frame.arguments.or(frame.input);
                settle(&self.items.call_key(frame.place()), whole, ledger);
            }
            Kind::Annotation => {
                if let Some(annotation) = frame.annotation {
                    let item = self.items.prose_item(Channel::Text, frame.place(), ledger);
                    item.cite(frame.index_in(Channel::Text), annotation, ledger);
                }
            }
            Kind::ItemAdded | Kind::ItemDone => {
                let raw = frame.item.ok_or_else(|| serde_json::Error::missing_field("item"))?;
                let seen = if kind == Kind::ItemAdded { Seen::Added } else { Seen::Done };
                self.items.take(seen, frame.output_index.get(), raw, ledger)?;
            }
            Kind::Progress => {
                if let Some(raw) = frame.response {
                    let response = serde_json::from_str::<Response<'_>>(raw.get())?;
                    ledger.turn_started(as_str(&response.id), as_str(&response.model));
                }
            }
            Kind::Ended(ending) => {
                let response = frame.response.map_or("{}", RawValue::get);
                self.end(ending, &serde_json::from_str(response)?, ledger)?;
            }
            Kind::Bounds | Kind::Error | Kind::News => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        ending: Ending,
        response: &Response<'_>,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        ledger.turn_started(as_str(&response.id), as_str(&response.model));
        // Some servers say `response.completed` and put the truth into the status.
        let ending = match as_str(&response.status) {
            Some("failed") => Ending::Failed,
            Some("cancelled") => Ending::Cancelled,
            Some("incomplete") => Ending::Incomplete,
            _ => ending,
        };
        let (reason, word) = match ending {
            Ending::Completed => (Reason::Stop, "completed".into()),
            Ending::Incomplete => why_incomplete(response.incomplete_details),
            Ending::Failed => {
                ledger.fail(match response.error.filter(|raw| raw.get() != "null") {
                    Some(raw) => provider_error(raw.get()),
                    None => Error::new(ErrorKind::Provider, "the response failed, and no error says why"),
                });
                return Ok(());
            }
            Ending::Cancelled => {
                let error = Error::new(ErrorKind::Provider, "the response was cancelled");
                ledger.fail(error.with_code("cancelled"));
                return Ok(());
            }
        };
        self.snapshot(ending, response.output.as_deref().unwrap_or_default(), ledger)?;
        if let Some(usage) = response.usage {
            ledger.usage(usage_of(usage));
        }
        if ending == Ending::Incomplete && reason == Reason::Other {
            self.items.cut_off(ledger);
        }
        ledger.reason(reason, &word);
        ledger.turn_ended();
        Ok(())
    }

    /// Takes what the terminal event says of items that the stream did not, or not to their end.
    fn snapshot(
        &mut self,
        ending: Ending,
        output: &[&RawValue],
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        for (position, raw) in (0..).zip(output) {
            let seen = Seen::Snapshot { position, is_complete: ending == Ending::Completed };
            self.items.take(seen, None, raw, ledger)?;
        }
        Ok(())
    }
}

/// What a frame is about, by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The response itself, before its end.
    Progress,
    ItemAdded,
    ItemDone,
    Delta(Channel),
    Done(Channel),
    ArgumentsDelta,
    ArgumentsDone,
    Annotation,
    /// A content part's bounds, which the deltas and the item say too.
    Bounds,
    Ended(Ending),
    Error,
    /// Nothing that has a typed event.
    News,
}

/// The kinds of text that an item can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Channel {
    Text,
    Refusal,
    Summary,
    Reasoning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Completed,
    Incomplete,
    Failed,
    Cancelled,
}

impl Kind {
    fn of(name: &str) -> Self {
        match name {
            "response.output_text.delta" => Self::Delta(Channel::Text),
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                Self::ArgumentsDelta
            }
            "response.reasoning_summary_text.delta" => Self::Delta(Channel::Summary),
            "response.reasoning_text.delta" => Self::Delta(Channel::Reasoning),
            "response.refusal.delta" => Self::Delta(Channel::Refusal),
            "response.output_item.added" => Self::ItemAdded,
            "response.output_item.done" => Self::ItemDone,
            "response.output_text.done" => Self::Done(Channel::Text),
            "response.reasoning_summary_text.done" => Self::Done(Channel::Summary),
            "response.reasoning_text.done" => Self::Done(Channel::Reasoning),
            "response.refusal.done" => Self::Done(Channel::Refusal),
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                Self::ArgumentsDone
            }
            "response.output_text.annotation.added" => Self::Annotation,
            "response.content_part.added"
            | "response.content_part.done"
            | "response.reasoning_summary_part.added"
            | "response.reasoning_summary_part.done"
            | "response.reasoning_part.added"
            | "response.reasoning_part.done" => Self::Bounds,
            "response.created" | "response.queued" | "response.in_progress" => Self::Progress,
            "response.completed" => Self::Ended(Ending::Completed),
            "response.incomplete" => Self::Ended(Ending::Incomplete),
            "response.failed" => Self::Ended(Ending::Failed),
            "response.cancelled" => Self::Ended(Ending::Cancelled),
            "error" => Self::Error,
            _ => Self::News,
        }
    }
}

/// Every field that a known frame may have.
#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow, default, rename = "type")]
    name: Option<JsonText<'a>>,
    #[serde(default)]
    output_index: Count,
    #[serde(borrow, default)]
    item_id: Option<JsonText<'a>>,
    #[serde(default)]
    content_index: Count,
    #[serde(default)]
    summary_index: Count,
    #[serde(borrow, default)]
    delta: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    annotation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow, default, rename = "type")]
    name: Option<JsonText<'a>>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    id: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    model: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    status: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    incomplete_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct IncompleteDetails<'a> {
    #[serde(borrow, default)]
    reason: Option<JsonText<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct UsageReport<'a> {
    input_tokens: Count,
    output_tokens: Count,
    #[serde(borrow)]
    input_tokens_details: Option<&'a RawValue>,
    #[serde(borrow)]
    output_tokens_details: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct UsageDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
    reasoning_tokens: Count,
}

impl Payload<'_> {
    fn place(&self) -> Place<'_> {
        Place { output_index: self.output_index.get(), id: as_str(&self.item_id).unwrap_or_default() }
    }

    fn index_in(&self, channel: Channel) -> u64 {
        let index = if channel == Channel::Summary { self.summary_index } else { self.content_index };
        index.get().unwrap_or_default()
    }
}

impl Piece {
    fn of(kind: Kind, frame: &Payload<'_>) -> Option<Self> {
        let channel = match kind {
            Kind::Delta(channel) => Some(channel),
            Kind::ArgumentsDelta => None,
            _ => return None,
        };
        let Place { output_index, id } = frame.place();
        let index_in = frame.index_in(channel.unwrap_or(Channel::Text));
        Some(Self { channel, output_index, item_id: id.into(), index_in })
    }
}

fn take_piece(piece: &Piece, text: &JsonText<'_>, items: &mut Items, ledger: &mut Ledger) {
    let place = Place { output_index: piece.output_index, id: &piece.item_id };
    match piece.channel {
        None => ledger.append(&items.call_key(place), text),
        Some(_) if text.is_empty() => {}
        Some(channel) => {
            items.prose_item(channel, place, ledger).say(channel, piece.index_in, text, ledger);
        }
    }
}

fn provider_error(data: &str) -> Error {
    let error = match ErrorEnvelope::parse(data.as_bytes()) {
        Some(envelope) => in_stream(envelope),
        None => Error::new(ErrorKind::Provider, "the provider reports an error in no known form"),
    };
    error.with_body(data.as_bytes())
}

fn why_incomplete(details: Option<&RawValue>) -> (Reason, Text) {
    let details = details.and_then(|raw| serde_json::from_str::<IncompleteDetails<'_>>(raw.get()).ok());
    let word = details.and_then(|details| details.reason);
    let word = as_str(&word).unwrap_or("incomplete");
    let reason = match word {
        "max_output_tokens" | "max_tokens" | "length" => Reason::Length,
        "content_filter" => Reason::ContentFilter,
        _ => Reason::Other,
    };
    (reason, word.into())
}

fn usage_of(raw: &RawValue) -> Usage {
    let report = serde_json::from_str::<UsageReport<'_>>(raw.get()).unwrap_or_default();
    let details = |raw: Option<&RawValue>| -> Usage {
        let details = raw.and_then(|raw| serde_json::from_str::<UsageDetails>(raw.get()).ok());
        let details = details.unwrap_or_default();
        let mut usage = Usage::new();
        usage.cache_read_tokens = details.cached_tokens.get();
        usage.cache_write_tokens = details.cache_write_tokens.get();
        usage.reasoning_tokens = details.reasoning_tokens.get();
        usage
    };
    let mut usage = details(report.input_tokens_details);
    usage.update(details(report.output_tokens_details));
    usage.input_tokens = report.input_tokens.get();
    usage.output_tokens = report.output_tokens.get();
    usage
}

/// A string's text; of any other value but null its own text, as some servers send objects for strings.
fn text_of(raw: Option<&RawValue>) -> Option<JsonText<'_>> {
    match raw?.get() {
        "null" => None,
        text if text.starts_with('"') => serde_json::from_str(text).ok(),
        text => Some(JsonText::from(text)),
    }
}

/// A call's whole arguments came. Mostly they are those that came in fragments, and then a long text need not
/// be copied.
fn settle(key: &Key, whole: Option<&RawValue>, ledger: &mut Ledger) {
    if whole.is_some_and(|whole| ledger.holds_text(key, whole)) {
        return;
    }
    if let Some(whole) = text_of(whole) {
        ledger.settle(key, &whole);
    }
}

fn as_str<'t>(text: &'t Option<JsonText<'_>>) -> Option<&'t str> {
    text.as_ref().and_then(JsonText::as_str)
}

/// Fields of a delta that say nothing of the turn and change from frame to frame.
const PASSED_OVER: [&str; 2] = ["sequence_number", "obfuscation"];

#[cfg(test)]
mod tests;
