//! The frames of the stream, as serde reads them.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;
use turnstream_core::{Count, JsonText, Lesson, List, Usage};

use super::Voice;

/// Any frame.
#[derive(Deserialize)]
pub(super) struct Payload<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<JsonText<'a>>,
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) message: Option<Message<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// What a delta says of the message. Content, calls and citations are lists where the message begins, and
/// single objects later.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) content: Objects<Content<'a>>,
    #[serde(borrow)]
    pub(super) tool_plan: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Objects<ToolCall<'a>>,
    #[serde(borrow, default)]
    pub(super) citations: Raws<'a>,
}

/// A text is `None` where it is missing, and `Some(None)` where it is null, which says nothing.
#[derive(Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<JsonText<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) text: Option<Option<JsonText<'a>>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) thinking: Option<Option<JsonText<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct ToolCall<'a> {
    #[serde(borrow)]
    pub(super) id: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) function: Option<Function<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub(super) name: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) arguments: Option<JsonText<'a>>,
}

/// A piece of text or of arguments: which, and of what.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Piece {
    Content { index: u64, voice: Voice },
    Arguments { index: u64 },
    Plan,
}

impl<'a> Payload<'a> {
    /// What frames like this one mean, which has this name, if it has one piece and nothing else that is read.
    pub(super) fn lesson(&self, name: &str) -> Option<Lesson<'a, Piece>> {
        let message = self.delta.as_ref()?.message.as_ref()?;
        let (piece, text) = match name {
            "content-delta" => {
                let (index, content) = (self.index.get()?, message.content.only()?);
                let said = |text: &Option<Option<JsonText<'a>>>| text.as_ref()?.as_ref()?.as_borrowed();
                match (&content.text, &content.thinking) {
                    (text, None) => (Piece::Content { index, voice: Voice::Text }, said(text)?),
                    (None, text) => (Piece::Content { index, voice: Voice::Thinking }, said(text)?),
                    _ => return None,
                }
            }
            "tool-call-delta" => {
                let function = message.tool_calls.only()?.function.as_ref()?;
                let text = function.arguments.as_ref()?.as_borrowed()?;
                (Piece::Arguments { index: self.index.get()? }, text)
            }
            "tool-plan-delta" => (Piece::Plan, message.tool_plan.as_ref()?.as_borrowed()?),
            _ => return None,
        };
        Some(Lesson::new(piece, text))
    }
}

/// A citation, as far as it names its source.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Source<'a> {
    pub(super) content_index: Count,
    #[serde(borrow)]
    sources: Vec<&'a RawValue>,
}

/// One object, or a list of them; null is none.
#[derive(Debug)]
pub(super) enum Objects<T> {
    One(T),
    Many(List<T>),
}

/// The same, left as it stands.
#[derive(Default)]
pub(super) struct Raws<'a>(Vec<&'a RawValue>);

impl<T> Objects<T> {
    pub(super) fn iter(&self) -> std::slice::Iter<'_, T> {
        match self {
            Self::One(one) => std::slice::from_ref(one).iter(),
            Self::Many(many) => many.iter(),
        }
    }

    /// The object, if there is but one.
    fn only(&self) -> Option<&T> {
        let mut objects = self.iter();
        objects.next().filter(|_| objects.next().is_none())
    }

    pub(super) fn first(&self) -> Option<&T> {
        self.iter().next()
    }
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self::Many(List::default())
    }
}

impl<'a> Raws<'a> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &'a RawValue> {
        self.0.iter().copied()
    }
}

impl<'a> Source<'a> {
    /// Address and title of the first source that has one of them.
    pub(super) fn named(&self) -> (Option<JsonText<'a>>, Option<JsonText<'a>>) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct One<'a> {
            #[serde(borrow)]
            document: Option<Document<'a>>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Document<'a> {
            #[serde(borrow)]
            url: Option<JsonText<'a>>,
            #[serde(borrow)]
            title: Option<JsonText<'a>>,
        }
        let documents = self.sources.iter().filter_map(|source| {
            let one: One<'a> = serde_json::from_str(source.get()).ok()?;
            one.document.filter(|document| document.url.is_some() || document.title.is_some())
        });
        documents.map(|document| (document.url, document.title)).next().unwrap_or_default()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Objects<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectsVisitor(PhantomData))
    }
}

struct ObjectsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectsVisitor<T> {
    type Value = Objects<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object or a list of objects")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Objects::One)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, list: S) -> Result<Self::Value, S::Error> {
        List::read(list).map(Objects::Many)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Objects::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Raws<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'a RawValue>::deserialize(deserializer)?;
        Ok(Self(match raw.get().as_bytes() {
            [b'[', ..] => serde_json::from_str(raw.get()).map_err(D::Error::custom)?,
            [b'{', ..] => vec![raw],
            _ => Vec::new(),
        }))
    }
}

/// The type of a frame that could not be read, where it is a text.
pub(super) fn kind_of(data: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Outline<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<&'a RawValue>,
    }
    let outline: Outline<'_> = serde_json::from_str(data).ok()?;
    let kind: String = serde_json::from_str(outline.kind?.get()).ok()?;
    Some(kind).filter(|kind| !kind.is_empty())
}

/// A report of tokens, read leniently: it is no reason to lose a turn. What was billed stands in only for
/// what was not counted.
pub(super) fn usage(raw: &RawValue) -> Option<Usage> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Report<'a> {
        #[serde(borrow)]
        tokens: Option<&'a RawValue>,
        #[serde(borrow)]
        billed_units: Option<&'a RawValue>,
        cached_tokens: Count,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Tokens {
        input_tokens: Count,
        output_tokens: Count,
        reasoning_tokens: Count,
    }
    let report: Report<'_> = serde_json::from_str(raw.get()).ok()?;
    let tokens = |raw: Option<&RawValue>| -> Tokens {
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    };
    let (counted, billed) = (tokens(report.tokens), tokens(report.billed_units));
    let mut usage = Usage::new();
    usage.input_tokens = counted.input_tokens.or(billed.input_tokens).get();
    usage.output_tokens = counted.output_tokens.or(billed.output_tokens).get();
    usage.cache_read_tokens = report.cached_tokens.get();
    usage.reasoning_tokens = counted.reasoning_tokens.get();
    (usage != Usage::new()).then_some(usage)
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
