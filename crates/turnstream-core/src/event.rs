//! The events of a turn: the same for every wire, and stable as JSON.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    raw_json::{RawJson, tagged},
    redact::Secrets,
    text::{ArgumentFragment, Arguments, Text},
};

/// What a turn says, in the order in which it is said.
///
/// The first event is [`TurnStarted`], the last one [`TurnFinished`], unless the turn ends in an error,
/// which is an `Err` and not an event. A call is announced ([`CallStarted`]) before its fragments, and
/// ends at most once: finished or aborted.
///
/// As JSON every event is one object with a `type`: `text_delta`, `call_started`, and so on. An object
/// of an unknown `type` reads as [`Event::Provider`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The provider has taken the turn on.
    TurnStarted(TurnStarted),
    /// More of the answer's text.
    TextDelta(TextDelta),
    /// More of the model's visible reasoning.
    ReasoningDelta(ReasoningDelta),
    /// More of a refusal. It is not the answer's text.
    RefusalDelta(RefusalDelta),
    /// The model began to call a tool. Nothing may run yet.
    CallStarted(CallStarted),
    /// A piece of a call's argument text.
    CallArgumentFragment(CallArgumentFragment),
    /// The call is complete: the wire ended it, the model meant it.
    CallFinished(CallFinished),
    /// The call will never be complete. It must not run.
    CallAborted(CallAborted),
    /// A part is over; it may carry what the same wire needs back of it.
    PartFinished(PartFinished),
    /// A source that the answer's text rests on.
    Citation(Citation),
    /// Something of the provider's that has no typed event.
    Provider(ProviderEvent),
    /// The turn is over, in the way its reason says.
    TurnFinished(TurnFinished),
}

/// The number of a call in its turn, from 0, by order of announcement. A call's identity in events:
/// ids come from the provider and may repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallIndex(pub u32);

/// The number of a part in its turn, from 0 and without gaps, by order of beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartIndex(pub u32);

/// See [`Event::TurnStarted`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TurnStarted {
    /// The provider's id of the reply, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Text>,
    /// The model, as the provider names it, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Text>,
}

impl TurnStarted {
    /// A turn's start.
    pub fn new(id: Option<Text>, model: Option<Text>) -> Self {
        Self { id, model }
    }
}

/// See [`Event::TextDelta`]. Never empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TextDelta {
    /// The part it belongs to.
    pub part: PartIndex,
    /// The text, to be appended as it is.
    pub text: Text,
}

impl TextDelta {
    /// A piece of text.
    pub fn new(part: PartIndex, text: impl Into<Text>) -> Self {
        Self { part, text: text.into() }
    }
}

/// See [`Event::ReasoningDelta`]. Never empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReasoningDelta {
    /// The part it belongs to.
    pub part: PartIndex,
    /// The text, to be appended as it is.
    pub text: Text,
}

impl ReasoningDelta {
    /// A piece of reasoning.
    pub fn new(part: PartIndex, text: impl Into<Text>) -> Self {
        Self { part, text: text.into() }
    }
}

/// See [`Event::RefusalDelta`]. Never empty; it makes the turn's reason [`Reason::Refusal`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RefusalDelta {
    /// The part it belongs to.
    pub part: PartIndex,
    /// The text, to be appended as it is.
    pub text: Text,
}

impl RefusalDelta {
    /// A piece of a refusal.
    pub fn new(part: PartIndex, text: impl Into<Text>) -> Self {
        Self { part, text: text.into() }
    }
}

/// How a call's arguments are meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputKind {
    /// One JSON value. The default.
    #[default]
    Json,
    /// Free-form text of a custom tool, never parsed.
    Text,
}

impl InputKind {
    fn is_json(&self) -> bool {
        *self == Self::Json
    }
}

/// See [`Event::CallStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallStarted {
    /// The part that the call is.
    pub part: PartIndex,
    /// The call's number in the turn.
    pub call: CallIndex,
    /// The provider's id of the call, or a made-up one. Results go back under it.
    pub id: Text,
    /// The tool's name.
    pub name: Text,
    /// How the arguments are meant. Written only when `text`.
    #[serde(default, skip_serializing_if = "InputKind::is_json")]
    pub input: InputKind,
    /// Whether the provider gave no id and this one was made up. Written only when true.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub made_up_id: bool,
}

impl CallStarted {
    /// A call with JSON input and an id of the provider's.
    pub fn new(part: PartIndex, call: CallIndex, id: impl Into<Text>, name: impl Into<Text>) -> Self {
        let (id, name) = (id.into(), name.into());
        Self { part, call, id, name, input: InputKind::Json, made_up_id: false }
    }

    /// The same call with another kind of input.
    pub fn with_input(self, input: InputKind) -> Self {
        Self { input, ..self }
    }

    /// The same call, its id marked as made up.
    pub fn with_made_up_id(self) -> Self {
        Self { made_up_id: true, ..self }
    }
}

/// See [`Event::CallArgumentFragment`]. Never empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallArgumentFragment {
    /// The call it belongs to.
    pub call: CallIndex,
    /// The piece, cut anywhere.
    pub fragment: ArgumentFragment,
}

impl CallArgumentFragment {
    /// A piece of a call's arguments.
    pub fn new(call: CallIndex, fragment: ArgumentFragment) -> Self {
        Self { call, fragment }
    }
}

/// See [`Event::CallFinished`].
///
/// A promise: the wire ended this call, the model meant it, and `arguments` is blank or exactly one JSON
/// value (or free text, if its [`InputKind`] says so).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallFinished {
    /// The call's number in the turn.
    pub call: CallIndex,
    /// The call's id, as announced.
    pub id: Text,
    /// The tool's name, as announced.
    pub name: Text,
    /// The arguments, verbatim: exactly the fragments, one after the other.
    pub arguments: Arguments,
}

impl CallFinished {
    /// A complete call.
    pub fn new(
        call: CallIndex,
        id: impl Into<Text>,
        name: impl Into<Text>,
        arguments: impl Into<Arguments>,
    ) -> Self {
        Self { call, id: id.into(), name: name.into(), arguments: arguments.into() }
    }
}

/// Why a call was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AbortReason {
    /// The body ended, or the connection broke, before the call was complete.
    Truncated,
    /// The model reached its output limit.
    Length,
    /// The provider's filter cut the turn.
    ContentFilter,
    /// The model refused.
    Refusal,
    /// The wire ended the call, but its arguments are not one JSON value.
    Malformed,
    /// The turn ended in an error.
    Error,
}

/// See [`Event::CallAborted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallAborted {
    /// The call's number in the turn.
    pub call: CallIndex,
    /// The call's id, as announced.
    pub id: Text,
    /// The tool's name, as announced.
    pub name: Text,
    /// What had arrived of its arguments.
    pub partial: ArgumentFragment,
    /// Why.
    pub reason: AbortReason,
}

impl CallAborted {
    /// A call that will never be complete.
    pub fn new(
        call: CallIndex,
        id: impl Into<Text>,
        name: impl Into<Text>,
        partial: ArgumentFragment,
        reason: AbortReason,
    ) -> Self {
        Self { call, id: id.into(), name: name.into(), partial, reason }
    }
}

/// What one wire needs back of a part: a signature, an item, a block. Opaque to every other wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Replay {
    /// The wire it belongs to, for example `anthropic-messages`.
    pub wire: Text,
    /// The wire's own JSON.
    pub data: RawJson,
}

impl Replay {
    /// Something for `wire` to get back.
    pub fn new(wire: impl Into<Text>, data: RawJson) -> Self {
        Self { wire: wire.into(), data }
    }

    /// The data, if it is `wire`'s own: what belongs to another wire does not go out.
    pub fn data_for(&self, wire: &str) -> Option<&RawJson> {
        (self.wire == *wire).then_some(&self.data)
    }
}

/// See [`Event::PartFinished`]. A part that had no other event is an opaque block: all of it is `replay`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PartFinished {
    /// The part.
    pub part: PartIndex,
    /// What the same wire needs back of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
}

impl PartFinished {
    /// A part's end.
    pub fn new(part: PartIndex, replay: Option<Replay>) -> Self {
        Self { part, replay }
    }
}

/// See [`Event::Citation`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Citation {
    /// The text part that it supports.
    pub part: PartIndex,
    /// The source's address, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Text>,
    /// The source's title, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Text>,
    /// The provider's own object.
    pub raw: RawJson,
}

impl Citation {
    /// A source of a text part.
    pub fn new(part: PartIndex, url: Option<Text>, title: Option<Text>, raw: RawJson) -> Self {
        Self { part, url, title, raw }
    }
}

/// See [`Event::Provider`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProviderEvent {
    /// What the provider calls it: the frame's, block's or field's name.
    pub name: Text,
    /// The provider's JSON.
    pub raw: RawJson,
}

impl ProviderEvent {
    /// Something of the provider's.
    pub fn new(name: impl Into<Text>, raw: RawJson) -> Self {
        Self { name: name.into(), raw }
    }

    /// The same with `***` for each of these secrets in its JSON, as [`Error::redacted`](crate::Error::redacted)
    /// does it. JSON that says none is left as it came.
    pub fn redacted(self, secrets: &[&str]) -> Self {
        let secrets = Secrets::new(secrets);
        if !secrets.are_in(self.raw.as_str()) {
            return self;
        }
        let mut text = self.raw.as_str().to_owned();
        secrets.mask(&mut text);
        // A secret that was no text, for example a number, has left a hole in the JSON.
        let raw = RawJson::parse(&text).unwrap_or_else(|_| serde_json::Value::from("***").into());
        Self { raw, ..self }
    }
}

/// How a turn ended, in our words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The model had said what it wanted to say.
    Stop,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// The output limit, or the context's, was reached. The answer is cut.
    Length,
    /// The provider's filter cut the answer.
    ContentFilter,
    /// The model refused.
    Refusal,
    /// The provider paused the turn; send it back unchanged to go on.
    Pause,
    /// A normal end with a word that we do not know.
    #[serde(other)]
    Other,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Refusal => "refusal",
            Self::Pause => "pause",
            Self::Other => "other",
        })
    }
}

impl Reason {
    /// Whether the turn was cut, so that a call that is still open can never be complete.
    pub fn is_cut(self) -> bool {
        matches!(self, Self::Length | Self::ContentFilter | Self::Refusal)
    }

    /// The more alarming of two reasons.
    pub fn or_worse(self, other: Self) -> Self {
        if other.alarm() > self.alarm() { other } else { self }
    }

    fn alarm(self) -> u8 {
        match self {
            Self::Stop => 0,
            Self::Other => 1,
            Self::ToolCalls => 2,
            Self::Pause => 3,
            Self::Length => 4,
            Self::ContentFilter => 5,
            Self::Refusal => 6,
        }
    }
}

/// Tokens, as the provider counted them. `None` is "not said", which is not 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// All tokens of the request, cached ones among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// All tokens of the reply, reasoning among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Of the input, how many were read from the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Of the input, how many were written to the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Of the output, how many were reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Nothing said.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what `later` says and keeps the rest: usage is a report, not an increment.
    pub fn update(&mut self, later: Usage) {
        for (mine, theirs) in self.fields().into_iter().zip(later.values()) {
            *mine = theirs.or(*mine);
        }
    }

    /// Adds another turn's usage, for the sum over a run.
    pub fn add(&mut self, turn: Usage) {
        for (mine, theirs) in self.fields().into_iter().zip(turn.values()) {
            *mine = match (*mine, theirs) {
                (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
                (one, other) => one.or(other),
            };
        }
    }

    fn values(self) -> [Option<u64>; 5] {
        [
            self.input_tokens,
            self.output_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            self.reasoning_tokens,
        ]
    }

    fn fields(&mut self) -> [&mut Option<u64>; 5] {
        [
            &mut self.input_tokens,
            &mut self.output_tokens,
            &mut self.cache_read_tokens,
            &mut self.cache_write_tokens,
            &mut self.reasoning_tokens,
        ]
    }
}

/// See [`Event::TurnFinished`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TurnFinished {
    /// How the turn ended.
    pub reason: Reason,
    /// The provider's own word for it, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_reason: Option<Text>,
    /// Whether the provider gave no reason and ours was inferred. Written only when true.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    /// Tokens, if the provider counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
}

impl TurnFinished {
    /// A turn's end.
    pub fn new(reason: Reason) -> Self {
        Self { reason, raw_reason: None, inferred: false, usage: None }
    }

    /// The same end with the provider's own word.
    pub fn with_raw_reason(self, raw_reason: impl Into<Text>) -> Self {
        Self { raw_reason: Some(raw_reason.into()), ..self }
    }

    /// The same end with tokens counted.
    pub fn with_usage(self, usage: Usage) -> Self {
        Self { usage: Some(Box::new(usage)), ..self }
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (tag, raw) = tagged(deserializer)?;
        let event = match tag.as_str() {
            "turn_started" => raw.read().map(Self::TurnStarted),
            "text_delta" => raw.read().map(Self::TextDelta),
            "reasoning_delta" => raw.read().map(Self::ReasoningDelta),
            "refusal_delta" => raw.read().map(Self::RefusalDelta),
            "call_started" => raw.read().map(Self::CallStarted),
            "call_argument_fragment" => raw.read().map(Self::CallArgumentFragment),
            "call_finished" => raw.read().map(Self::CallFinished),
            "call_aborted" => raw.read().map(Self::CallAborted),
            "part_finished" => raw.read().map(Self::PartFinished),
            "citation" => raw.read().map(Self::Citation),
            "provider" => raw.read().map(Self::Provider),
            "turn_finished" => raw.read().map(Self::TurnFinished),
            _ => Ok(Self::Provider(ProviderEvent::new(tag, raw))),
        };
        event.map_err(serde::de::Error::custom)
    }
}

// A queue holds many events, and every poll moves one.
const _: () = assert!(size_of::<Event>() <= 80);

#[cfg(test)]
mod tests {
    use super::*;

    fn check(event: Event, json: &str) {
        assert_eq!(serde_json::to_string(&event).unwrap(), json);
        assert_eq!(serde_json::from_str::<Event>(json).unwrap(), event);
    }

    #[test]
    fn the_json_of_each_event_is_stable() {
        let (part, call) = (PartIndex(1), CallIndex(0));
        check(
            Event::TurnStarted(TurnStarted::new(Some("msg_1".into()), Some("m".into()))),
            r#"{"type":"turn_started","id":"msg_1","model":"m"}"#,
        );
        check(Event::TurnStarted(TurnStarted::default()), r#"{"type":"turn_started"}"#);
        check(
            Event::TextDelta(TextDelta::new(PartIndex(0), "Let me pull")),
            r#"{"type":"text_delta","part":0,"text":"Let me pull"}"#,
        );
        check(
            Event::CallStarted(CallStarted::new(part, call, "toolu_01QxR", "lookup_order")),
            r#"{"type":"call_started","part":1,"call":0,"id":"toolu_01QxR","name":"lookup_order"}"#,
        );
        check(
            Event::CallStarted(
                CallStarted::new(part, call, "x", "sh").with_input(InputKind::Text).with_made_up_id(),
            ),
            r#"{"type":"call_started","part":1,"call":0,"id":"x","name":"sh","input":"text","made_up_id":true}"#,
        );
        check(
            Event::CallArgumentFragment(CallArgumentFragment::new(
                call,
                ArgumentFragment::new("{\"order_id\": \"A-44"),
            )),
            r#"{"type":"call_argument_fragment","call":0,"fragment":"{\"order_id\": \"A-44"}"#,
        );
        check(
            Event::CallFinished(CallFinished::new(call, "toolu_01QxR", "lookup_order", "{}")),
            r#"{"type":"call_finished","call":0,"id":"toolu_01QxR","name":"lookup_order","arguments":"{}"}"#,
        );
        check(
            Event::CallAborted(CallAborted::new(
                call,
                "toolu_02",
                "lookup_order",
                ArgumentFragment::new("{\"order"),
                AbortReason::Length,
            )),
            r#"{"type":"call_aborted","call":0,"id":"toolu_02","name":"lookup_order","partial":"{\"order","reason":"length"}"#,
        );
        let usage = Usage { input_tokens: Some(9), output_tokens: Some(7), ..Usage::default() };
        check(
            Event::TurnFinished(
                TurnFinished::new(Reason::ToolCalls).with_raw_reason("tool_use").with_usage(usage),
            ),
            r#"{"type":"turn_finished","reason":"tool_calls","raw_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":7}}"#,
        );
        let raw = RawJson::parse("{\"b\":1.0, \"a\":2}").unwrap();
        check(
            Event::PartFinished(PartFinished::new(part, Some(Replay::new("w", raw)))),
            r#"{"type":"part_finished","part":1,"replay":{"wire":"w","data":{"b":1.0, "a":2}}}"#,
        );
    }

    #[test]
    fn an_unknown_type_reads_as_a_provider_event() {
        let json = r#"{"type":"brand_new","x":1.0}"#;
        let raw = RawJson::parse(json).unwrap();
        let want = Event::Provider(ProviderEvent::new("brand_new", raw));
        assert_eq!(serde_json::from_str::<Event>(json).unwrap(), want);
    }

    #[test]
    fn a_later_report_replaces_only_what_it_says() {
        let mut usage = Usage { input_tokens: Some(43), output_tokens: Some(1), ..Usage::default() };
        usage.update(Usage { input_tokens: Some(61), ..Usage::default() });
        assert_eq!(usage, Usage { input_tokens: Some(61), output_tokens: Some(1), ..Usage::default() });
    }

    #[test]
    fn secrets_are_masked_in_a_providers_raw_json_and_nothing_else_of_it_changes() {
        let event = |raw: &str| ProviderEvent::new("news", RawJson::parse(raw).unwrap());
        let secrets = ["sk-SECRET-1", "12345678"];
        let masked = event(r#"{"a": 1.0,"echo":"x sk-SECRET-1"}"#).redacted(&secrets);
        assert_eq!(masked.raw.as_str(), r#"{"a": 1.0,"echo":"x ***"}"#);
        let innocent = event(r#"{"a": 1.0}"#);
        assert_eq!(innocent.clone().redacted(&secrets), innocent);
        // Without its digits the number is no JSON any more.
        assert_eq!(event(r#"{"id":12345678}"#).redacted(&secrets).raw.as_str(), r#""***""#);
    }
}
