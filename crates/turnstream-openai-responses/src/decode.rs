//! Frames to events: the serde types that are read, and what they mean.
//!
//! Items are told apart by their `output_index`. Servers without one (llama.cpp, Ollama) are read by item id,
//! for which a call's `call_id` may stand, with or without `fc_` before it.

mod items;

use std::cell::LazyCell;

use serde::{Deserialize, de::Error as _};
use serde_json::value::RawValue;
use turnstream_core::{
    BadFrame, BodyEnd, Closing, Count, Error, ErrorEnvelope, ErrorKind, Frame, HotFrame, Interpret, JsonText,
    Key, Ledger, Lesson, List, Reason, Rules, Text, Usage, is_json,
};

use crate::{WIRE, error::in_stream};
use items::{AnyItem, Items, Place, Seen};

/// The wire's row of the design's table: a call ends with its item, the turn with its terminal event only.
pub(crate) const RULES: Rules = Rules::new(WIRE, Closing::Marker, BodyEnd::Cuts);

/// Reads the frames of one turn.
#[derive(Debug, Default)]
pub(crate) struct Interpreter {
    items: Items,
}

/// A piece of text or of arguments: the frames that come in thousands.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Of text in this channel, or else of arguments.
    channel: Option<Channel>,
    output_index: Option<u64>,
    item_id: Text,
    index_in: u64,
}

impl Interpret for Interpreter {
    type Hot = Piece;

    const PASSED_OVER: &'static [&'static str] = &["sequence_number", "obfuscation"];

    fn frame<'f>(
        &mut self,
        frame: Frame<'f>,
        ledger: &mut Ledger,
    ) -> Result<Option<Lesson<'f, Piece>>, BadFrame> {
        // Gateways put it after the terminal event. By itself it ends nothing.
        if frame.data == "[DONE]" {
            return Ok(None);
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
                    kind => match (Piece::of(kind, &read), &read.delta) {
                        (Some(piece), Some(delta)) => {
                            self.piece(&piece, delta, ledger);
                            return Ok(delta.as_borrowed().map(|text| Lesson::new(piece, text)));
                        }
                        _ => {
                            let taken = self.take(kind, &read, frame.data, ledger);
                            taken.map_err(|problem| BadFrame::new(name, problem))?;
                        }
                    },
                }
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
            }
        }
        Ok(None)
    }

    fn hot(&mut self, hot: HotFrame<'_, Piece>, ledger: &mut Ledger) -> bool {
        self.piece(hot.meaning, &hot.text.into(), ledger);
        true
    }

    fn error_body(&self, envelope: ErrorEnvelope) -> Error {
        in_stream(envelope)
    }
}

impl Interpreter {
    /// A piece of text or of arguments came.
    fn piece(&mut self, piece: &Piece, text: &JsonText<'_>, ledger: &mut Ledger) {
        let place = Place { output_index: piece.output_index, id: &piece.item_id };
        match piece.channel {
            None => ledger.append(&self.items.call_key(place), text),
            Some(_) if text.is_empty() => {}
            Some(channel) => {
                self.items.prose_item(channel, place, ledger).say(channel, piece.index_in, text, ledger);
            }
        }
    }

    /// Takes a frame that is neither news nor an error nor a piece.
    fn take(
        &mut self,
        kind: Kind,
        frame: &Payload<'_>,
        data: &str,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        match kind {
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
                let item = frame.item.as_ref().ok_or_else(|| serde_json::Error::missing_field("item"))?;
                let seen = if kind == Kind::ItemAdded { Seen::Added } else { Seen::Done };
                self.items.take(seen, frame.output_index.get(), item.body()?, || raw_item(data), ledger);
            }
            Kind::Progress => {
                if let Some(response) = &frame.response {
                    response.name_turn(ledger);
                }
            }
            Kind::Ended(ending) => {
                let nothing = Response::default();
                self.end(ending, frame.response.as_ref().unwrap_or(&nothing), data, ledger)?;
            }
            // Of a delta nothing is left that says anything.
            Kind::Delta(_) | Kind::ArgumentsDelta | Kind::Bounds | Kind::Error | Kind::News => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        ending: Ending,
        response: &Response<'_>,
        data: &str,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        response.name_turn(ledger);
        // Some servers say `response.completed` and put the truth into the status.
        let ending = match as_str(&text_of(response.status)) {
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
        self.snapshot(ending, response.output.as_deref().unwrap_or_default(), data, ledger)?;
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
        output: &[AnyItem<'_>],
        data: &str,
        ledger: &mut Ledger,
    ) -> Result<(), serde_json::Error> {
        // Read again at most once, however many items ask for it.
        let raws = LazyCell::new(|| raw_output(data));
        for (place, item) in output.iter().enumerate() {
            if ledger.is_over() {
                break;
            }
            let position = u64::try_from(place).unwrap_or(u64::MAX);
            let seen = Seen::Snapshot { position, is_complete: ending == Ending::Completed };
            self.items.take(seen, None, item.body()?, || raws.get(place).copied(), ledger);
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
pub(crate) enum Channel {
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
    item: Option<AnyItem<'a>>,
    #[serde(borrow, default)]
    response: Option<Response<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow, default, rename = "type")]
    name: Option<JsonText<'a>>,
}

/// The response as a whole. Its items are read with it: what they say was mostly said, and is long.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Response<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    incomplete_details: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<List<AnyItem<'a>>>,
    #[serde(borrow)]
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

impl Response<'_> {
    fn name_turn(&self, ledger: &mut Ledger) {
        ledger.turn_started(as_str(&text_of(self.id)), as_str(&text_of(self.model)));
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

/// The item of an item event, as it stands.
fn raw_item(data: &str) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow)]
        item: &'a RawValue,
    }
    serde_json::from_str(data).ok().map(|Event { item }| item)
}

/// The items of the whole response, as they stand.
fn raw_output(data: &str) -> Vec<&RawValue> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow)]
        response: Output<'a>,
    }
    #[derive(Deserialize)]
    struct Output<'a> {
        #[serde(borrow)]
        output: Vec<&'a RawValue>,
    }
    serde_json::from_str(data).map(|Event { response }| response.output).unwrap_or_default()
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

#[cfg(test)]
mod tests;
