//! The payloads of the stream's frames, as serde reads them.

use serde::Deserialize;
use serde_json::value::RawValue;
use turnstream_core::{Citation, Count, JsonText, Lesson, PartIndex, RawFields, RawJson, Text};

#[derive(Deserialize)]
pub(super) struct BlockStart<'a> {
    #[serde(default, rename = "contentBlockIndex")]
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) start: Option<RawFields<'a>>,
}

#[derive(Deserialize)]
pub(super) struct BlockDelta<'a> {
    #[serde(default, rename = "contentBlockIndex")]
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
pub(super) struct BlockStop {
    #[serde(default, rename = "contentBlockIndex")]
    pub(super) index: Count,
}

/// A union: it has one of these fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) text: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) tool_use: Option<ToolUse<'a>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<Reasoning<'a>>,
    #[serde(borrow)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) image: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct ToolUse<'a> {
    #[serde(borrow)]
    pub(super) input: Option<JsonText<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reasoning<'a> {
    #[serde(borrow)]
    pub(super) text: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) redacted_content: Option<JsonText<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MessageStop<'a> {
    #[serde(borrow)]
    pub(super) stop_reason: Option<JsonText<'a>>,
    #[serde(borrow, rename = "additionalModelResponseFields")]
    pub(super) additional: Option<&'a RawValue>,
}

/// A piece of text or of arguments: which, and of which block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(super) index: u64,
    pub(super) kind: PieceKind,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum PieceKind {
    Text,
    Reasoning,
    Arguments,
}

impl<'a> BlockDelta<'a> {
    /// What frames like this one mean, if it has one piece and nothing else that is read.
    pub(super) fn lesson(&self) -> Option<Lesson<'a, Piece>> {
        let Delta { text, tool_use, reasoning_content, citation, tool_result, image } =
            self.delta.as_ref()?;
        if citation.is_some() || tool_result.is_some() || image.is_some() {
            return None;
        }
        let (kind, text) = match (text, tool_use, reasoning_content) {
            (Some(text), None, None) => (PieceKind::Text, text),
            (None, Some(tool_use), None) => (PieceKind::Arguments, tool_use.input.as_ref()?),
            (None, None, Some(Reasoning { text: Some(text), signature: None, redacted_content: None })) => {
                (PieceKind::Reasoning, text)
            }
            _ => return None,
        };
        Some(Lesson::new(Piece { index: self.index.get()?, kind }, text.as_borrowed()?))
    }
}

impl Delta<'_> {
    /// Whether it has none of the fields that are known.
    pub(super) fn is_empty(&self) -> bool {
        let Self { text, tool_use, reasoning_content, citation, tool_result, image } = self;
        let (citation, tool_result, image) = (citation.is_none(), tool_result.is_none(), image.is_none());
        text.is_none()
            && tool_use.is_none()
            && reasoning_content.is_none()
            && citation
            && tool_result
            && image
    }
}

/// A source of a text, with what can be read of it.
pub(super) fn citation(part: PartIndex, raw: RawJson) -> Citation {
    #[derive(Default, Deserialize)]
    struct Source<'a> {
        #[serde(borrow)]
        title: Option<JsonText<'a>>,
        #[serde(borrow)]
        location: Option<Location<'a>>,
    }
    #[derive(Deserialize)]
    struct Location<'a> {
        #[serde(borrow)]
        web: Option<Web<'a>>,
    }
    #[derive(Deserialize)]
    struct Web<'a> {
        #[serde(borrow)]
        url: Option<JsonText<'a>>,
    }
    let source: Source<'_> = serde_json::from_str(raw.as_str()).unwrap_or_default();
    let text = |text: JsonText<'_>| Text::from(text.to_lossy().as_ref());
    let url = source.location.and_then(|location| location.web).and_then(|web| web.url).map(text);
    let title = source.title.map(text);
    Citation::new(part, url, title, raw)
}

/// What a known frame has to have.
pub(super) fn required<T>(value: Option<T>, name: &'static str) -> Result<T, serde_json::Error> {
    value.ok_or_else(|| serde::de::Error::missing_field(name))
}
