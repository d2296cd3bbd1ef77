//! The frames of the stream, as serde reads them.

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;
use turnstream_core::{Count, JsonText, Lesson, RawFields};

/// Any frame. What is hot is read here; what is rare is left as it stands, for a second look.
#[derive(Deserialize)]
pub(super) struct Payload<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<JsonText<'a>>,
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) delta: Option<AnyDelta<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) context_management: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// A piece of text or of arguments: which, and of which block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delta {
    pub(super) index: u64,
    pub(super) kind: DeltaKind,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum DeltaKind {
    Text,
    Thinking,
    Arguments,
}

/// The `delta` of `content_block_delta` and of `message_delta`. A text that its kind has to have is `None`
/// where it is missing, and `Some(None)` where it is null, which says nothing.
#[derive(Default, Deserialize)]
pub(super) struct AnyDelta<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<JsonText<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) text: Option<Option<JsonText<'a>>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) partial_json: Option<Option<JsonText<'a>>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) thinking: Option<Option<JsonText<'a>>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) signature: Option<Option<JsonText<'a>>>,
    #[serde(borrow)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) stop_reason: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) stop_sequence: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) stop_details: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) container: Option<&'a RawValue>,
}

impl DeltaKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Text => "text_delta",
            Self::Thinking => "thinking_delta",
            Self::Arguments => "input_json_delta",
        }
    }
}

impl<'a> Payload<'a> {
    /// The piece of text or of arguments that a `content_block_delta` is.
    pub(super) fn piece(&self) -> Option<(Delta, &JsonText<'a>)> {
        let (index, delta) = (self.index.get()?, self.delta.as_ref()?);
        let (kind, text) = match delta.kind.as_ref()?.as_str()? {
            "text_delta" => (DeltaKind::Text, &delta.text),
            "thinking_delta" => (DeltaKind::Thinking, &delta.thinking),
            "input_json_delta" => (DeltaKind::Arguments, &delta.partial_json),
            _ => return None,
        };
        Some((Delta { index, kind }, text.as_ref()?.as_ref()?))
    }

    /// What frames like this one mean, if it is a piece that was borrowed from it.
    pub(super) fn lesson(&self) -> Option<Lesson<'a, Delta>> {
        let (delta, text) = self.piece()?;
        Some(Lesson::new(delta, text.as_borrowed()?))
    }
}

/// The `message` of `message_start`. It may be finished already.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) stop_reason: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) stop_sequence: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) stop_details: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) container: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

/// A known frame that could not be read, read again: of its delta only what its kind has.
pub(super) fn again<'a>(name: &str, data: &'a str) -> Result<Payload<'a>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Outline<'a> {
        #[serde(default)]
        index: Count,
        #[serde(borrow)]
        delta: Option<&'a RawValue>,
        #[serde(borrow)]
        content_block: Option<&'a RawValue>,
        #[serde(borrow)]
        message: Option<&'a RawValue>,
        #[serde(borrow)]
        usage: Option<&'a RawValue>,
        #[serde(borrow)]
        context_management: Option<&'a RawValue>,
    }
    let Outline { index, delta, content_block, message, usage, context_management } =
        serde_json::from_str(data)?;
    let delta = match (name, delta) {
        ("content_block_delta", Some(delta)) => Some(AnyDelta::of_block(delta)?),
        ("message_delta", Some(delta)) => Some(AnyDelta::of_message(delta)?),
        _ => None,
    };
    Ok(Payload { kind: None, index, delta, content_block, message, usage, context_management, error: None })
}

impl<'a> AnyDelta<'a> {
    fn of_block(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        let fields: RawFields<'a> = serde_json::from_str(raw.get())?;
        let text = |name| fields.get(name).map(|raw| serde_json::from_str(raw.get())).transpose();
        let kind: Option<JsonText<'a>> = text("type")?.flatten();
        let mut delta = Self::default();
        match kind.as_ref().and_then(JsonText::as_str) {
            Some("text_delta") => delta.text = text("text")?,
            Some("input_json_delta") => delta.partial_json = text("partial_json")?,
            Some("thinking_delta") => delta.thinking = text("thinking")?,
            Some("signature_delta") => delta.signature = text("signature")?,
            Some("citations_delta") => delta.citation = fields.get("citation"),
            _ => {}
        }
        Ok(Self { kind, ..delta })
    }

    fn of_message(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        let fields: RawFields<'a> = serde_json::from_str(raw.get())?;
        let said = |name| fields.get(name).filter(|raw| raw.get() != "null");
        let stop_reason = said("stop_reason").map(|raw| serde_json::from_str(raw.get())).transpose()?;
        Ok(Self {
            stop_reason,
            stop_sequence: said("stop_sequence"),
            stop_details: said("stop_details"),
            container: said("container"),
            ..Self::default()
        })
    }
}

/// What a known frame has to have.
pub(super) fn required<T>(value: Option<T>, name: &'static str) -> Result<T, serde_json::Error> {
    value.ok_or_else(|| serde_json::Error::missing_field(name))
}

fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}
