//! The frames of the stream, as serde reads them.

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;
use turnstream_core::JsonText;

/// Any frame. What is hot is read here; what is rare is left as it stands, for a second look.
#[derive(Deserialize)]
pub(super) struct Frame<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<JsonText<'a>>,
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
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

/// The `delta` of `content_block_delta` and of `message_delta`. A text that its kind has to have is `None`
/// where it is missing, and `Some(None)` where it is null, which says nothing.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
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
