//! What a chunk looks like, read leniently: a missing or null field says nothing, and unknown ones are passed
//! over. So is a hint of another type than it should have; but what may have carried a text or a call
//! (`content`, `refusal`, `tool_calls`) has to have its form.

use std::{borrow::Cow, fmt, iter::Chain, marker::PhantomData, option, vec};

use serde::{
    Deserialize, Deserializer,
    de::{
        self, IgnoredAny, MapAccess, SeqAccess, Visitor,
        value::{BorrowedBytesDeserializer, BytesDeserializer},
    },
};
use serde_json::value::RawValue;
use turnstream_core::{Count, JsonText, Lesson, List, Usage};

/// How arguments are read, and whether hints of another type are passed over: all of that only if the quick
/// way, with [`JsonText`], has failed.
pub(super) trait Reading {
    const IS_LENIENT: bool;
}

impl Reading for JsonText<'_> {
    const IS_LENIENT: bool = false;
}

impl Reading for Verbatim<'_> {
    const IS_LENIENT: bool = true;
}

/// A chunk. `A` is how arguments are read: as [`JsonText`] at first, and as [`Verbatim`] if that fails.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "A: Deserialize<'de> + Reading"))]
pub(super) struct Chunk<'a, A> {
    #[serde(borrow, default)]
    pub(super) id: Word<'a>,
    #[serde(borrow, default)]
    pub(super) model: Word<'a>,
    #[serde(borrow, default)]
    pub(super) object: Word<'a>,
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Word<'a>,
    /// Null is an empty list; only an absent one makes the object no chunk.
    #[serde(default = "none", deserialize_with = "list")]
    pub(super) choices: Option<Few<Choice<'a, A>>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "hint::<_, A, _>")]
    pub(super) x_groq: Option<Groq<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) detail: Option<&'a RawValue>,
}

/// One answer of the `n` that were asked for.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "A: Deserialize<'de> + Reading"))]
pub(super) struct Choice<'a, A> {
    #[serde(default)]
    pub(super) index: Count,
    pub(super) delta: Option<Delta<'a, A>>,
    /// In place of a delta, or beside it and then the sum of all so far.
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Word<'a>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// What a chunk adds to a choice.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "A: Deserialize<'de> + Reading"))]
pub(super) struct Delta<'a, A> {
    #[serde(borrow)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow, default, deserialize_with = "hint::<_, A, _>")]
    pub(super) reasoning_content: Option<JsonText<'a>>,
    #[serde(borrow, default, deserialize_with = "hint::<_, A, _>")]
    pub(super) reasoning: Option<JsonText<'a>>,
    #[serde(borrow, default, deserialize_with = "hint::<_, A, _>")]
    pub(super) reasoning_text: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) refusal: Option<JsonText<'a>>,
    pub(super) tool_calls: Option<Few<ToolCall<'a, A>>>,
    pub(super) function_call: Option<Function<'a, A>>,
    #[serde(borrow, default, deserialize_with = "hint::<_, A, _>")]
    pub(super) annotations: Option<Few<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) audio: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) images: Option<&'a RawValue>,
}

/// A piece of a call.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "A: Deserialize<'de> + Reading"))]
pub(super) struct ToolCall<'a, A> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) id: Word<'a>,
    pub(super) function: Option<Function<'a, A>>,
    #[serde(borrow)]
    pub(super) custom: Option<Custom<'a>>,
    #[serde(borrow)]
    pub(super) extra_content: Option<&'a RawValue>,
}

/// A piece of a call with JSON input.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "A: Deserialize<'de> + Reading"))]
pub(super) struct Function<'a, A> {
    #[serde(borrow, default)]
    pub(super) name: Word<'a>,
    #[serde(default = "none")]
    pub(super) arguments: Option<A>,
}

/// A piece of a call with free-form input.
#[derive(Debug, Deserialize)]
pub(super) struct Custom<'a> {
    #[serde(borrow, default)]
    pub(super) name: Word<'a>,
    #[serde(borrow)]
    pub(super) input: Option<JsonText<'a>>,
}

/// Content as text or in parts.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Text(JsonText<'a>),
    Parts(Few<&'a RawValue>),
}

/// One part of content in parts.
#[derive(Debug, Deserialize)]
pub(super) struct ContentPart<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Word<'a>,
    #[serde(borrow)]
    pub(super) text: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) refusal: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Content<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<&'a RawValue>,
}

/// A source.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Annotation<'a> {
    #[serde(borrow)]
    pub(super) url_citation: Option<UrlCitation<'a>>,
}

/// A source on the web.
#[derive(Debug, Deserialize)]
pub(super) struct UrlCitation<'a> {
    #[serde(borrow, default)]
    pub(super) url: Word<'a>,
    #[serde(borrow, default)]
    pub(super) title: Word<'a>,
}

/// What Groq says beside the chunk.
#[derive(Debug, Deserialize)]
pub(super) struct Groq<'a> {
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

/// A chunk once more, its choices as they stand.
#[derive(Debug, Deserialize)]
pub(super) struct OtherChoices<'a> {
    #[serde(borrow)]
    pub(super) choices: Vec<&'a RawValue>,
}

/// Arguments in whatever form, as text: a string is its text, anything else stands for itself.
#[derive(Debug)]
pub(super) struct Verbatim<'a>(JsonText<'a>);

/// A short text that may be missing, null or of another type. Numbers are taken as their text.
#[derive(Debug, Default)]
pub(super) struct Word<'a>(Option<Cow<'a, str>>);

/// A list that mostly has one element, which then lies inline.
#[derive(Debug)]
pub(super) struct Few<T> {
    first: Option<T>,
    rest: List<T>,
}

/// What a chunk means that has but one piece: the chunks that come in thousands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Piece {
    Text,
    Reasoning,
    /// More of a call.
    Arguments {
        index: Count,
    },
}

impl<'a> Chunk<'a, JsonText<'a>> {
    /// What chunks like this one mean, if it has one piece and nothing else that is read.
    pub(super) fn lesson(&self) -> Option<Lesson<'a, Piece>> {
        let choice = self.choices.as_ref()?.only()?;
        let delta = choice.delta.as_ref()?;
        let has_more = self.usage.is_some()
            || self.x_groq.is_some()
            || self.error.is_some()
            || choice.index.get().is_some_and(|index| index > 0)
            || choice.message.is_some()
            || choice.finish_reason.get().is_some()
            || choice.usage.is_some()
            || choice.error.is_some()
            || delta.reasoning_details.is_some()
            || delta.refusal.is_some()
            || delta.function_call.is_some()
            || delta.annotations.is_some()
            || delta.audio.is_some()
            || delta.images.is_some();
        if has_more {
            return None;
        }
        let content = match &delta.content {
            None => None,
            Some(Content::Text(text)) => Some(text).filter(|text| !text.is_empty()),
            Some(Content::Parts(_)) => return None,
        };
        let mut reasoning =
            [&delta.reasoning_content, &delta.reasoning, &delta.reasoning_text].into_iter().flatten();
        let reasoning = (reasoning.next(), reasoning.next());
        let call = delta.tool_calls.as_ref().filter(|calls| calls.first.is_some());
        let (piece, text) = match (content, reasoning, call) {
            (Some(text), (None, _), None) => (Piece::Text, text),
            (None, (Some(text), None), None) => (Piece::Reasoning, text),
            (None, (None, _), Some(call)) => {
                let call = call.only().filter(|call| call.is_only_more())?;
                let text = call.function.as_ref()?.arguments.as_ref()?;
                (Piece::Arguments { index: call.index }, text)
            }
            _ => return None,
        };
        Some(Lesson::new(piece, text.as_borrowed()?))
    }
}

impl<'a> ToolCall<'a, JsonText<'a>> {
    /// A piece of arguments and nothing else.
    pub(super) fn more(index: Count, text: JsonText<'a>) -> Self {
        let function = Some(Function { name: Word::default(), arguments: Some(text) });
        Self { index, id: Word::default(), function, custom: None, extra_content: None }
    }

    fn is_only_more(&self) -> bool {
        let is_named = self.function.as_ref().is_some_and(|function| function.name.get().is_some());
        self.id.get().is_none() && !is_named && self.custom.is_none() && self.extra_content.is_none()
    }
}

/// A report of tokens, if there is anything in it.
pub(super) fn usage(report: &str) -> Option<Usage> {
    let report: Report = serde_json::from_str(report).ok()?;
    let prompt = report.prompt_tokens_details.unwrap_or_default();
    let completion = report.completion_tokens_details.unwrap_or_default();
    let reasoning = completion.reasoning_tokens.or(report.reasoning_tokens);
    let mut usage = Usage::new();
    usage.input_tokens = report.prompt_tokens.get();
    usage.output_tokens = match (
        report.prompt_tokens.get(),
        report.completion_tokens.get(),
        reasoning.get(),
        report.total_tokens.get(),
    ) {
        // Some servers count reasoning beside the completion; their sum tells.
        (Some(input), Some(output), Some(reasoning), Some(total))
            if reasoning > 0 && input.checked_add(output)?.checked_add(reasoning)? == total =>
        {
            Some(output + reasoning)
        }
        (_, output, ..) => output,
    };
    usage.cache_read_tokens = prompt
        .cached_tokens
        .or(report.prompt_cache_hit_tokens)
        .or(report.num_cached_tokens)
        .or(report.cached_tokens)
        .or(report.cache_read_input_tokens)
        .get();
    usage.cache_write_tokens = prompt.cache_write_tokens.or(report.cache_creation_input_tokens).get();
    usage.reasoning_tokens = reasoning.get();
    (usage != Usage::new()).then_some(usage)
}

/// Tokens under all the names that servers have for them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Report {
    prompt_tokens: Count,
    completion_tokens: Count,
    total_tokens: Count,
    #[serde(deserialize_with = "hint::<_, Verbatim<'_>, _>")]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(deserialize_with = "hint::<_, Verbatim<'_>, _>")]
    completion_tokens_details: Option<CompletionDetails>,
    prompt_cache_hit_tokens: Count,
    num_cached_tokens: Count,
    cached_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
    reasoning_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Count,
}

impl Word<'_> {
    /// The text, if there is any.
    pub(super) fn get(&self) -> Option<&str> {
        self.0.as_deref().filter(|word| !word.is_empty())
    }
}

impl<T> Few<T> {
    /// The one element, if there is one and no other.
    fn only(&self) -> Option<&T> {
        self.first.as_ref().filter(|_| self.rest.is_empty())
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { first: None, rest: List::default() }
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = Chain<option::IntoIter<T>, vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

impl<'a> From<Verbatim<'a>> for JsonText<'a> {
    fn from(verbatim: Verbatim<'a>) -> Self {
        verbatim.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Verbatim<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'a RawValue>::deserialize(deserializer)?;
        match raw.get().starts_with('"') {
            true => serde_json::from_str(raw.get()).map(Self).map_err(de::Error::custom),
            false => Ok(Self(raw.get().into())),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Asked for bytes, serde_json hands over strings, with lone surrogates, and lists.
        deserializer.deserialize_bytes(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text or a list of parts")
    }

    fn visit_borrowed_bytes<E: de::Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        JsonText::deserialize(BorrowedBytesDeserializer::new(bytes)).map(Content::Text)
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        JsonText::deserialize(BytesDeserializer::new(bytes)).map(Content::Text)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, sequence: S) -> Result<Self::Value, S::Error> {
        FewVisitor(PhantomData).visit_seq(sequence).map(Content::Parts)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FewVisitor(PhantomData))
    }
}

struct FewVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FewVisitor<T> {
    type Value = Few<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut sequence: S) -> Result<Self::Value, S::Error> {
        Ok(Few { first: sequence.next_element()?, rest: List::read(sequence)? })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Word<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordVisitor)
    }
}

struct WordVisitor;

impl<'de> Visitor<'de> for WordVisitor {
    type Value = Word<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a short text")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Word(Some(Cow::Borrowed(text))))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Word(Some(Cow::Owned(text.to_owned()))))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Word(Some(Cow::Owned(number.to_string()))))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Word(Some(Cow::Owned(number.to_string()))))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Word(Some(Cow::Owned(number.to_string()))))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Word(None))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Word(None))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, sequence: S) -> Result<Self::Value, S::Error> {
        IgnoredAny.visit_seq(sequence).map(|_| Word(None))
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
        IgnoredAny.visit_map(map).map(|_| Word(None))
    }
}

/// Reads a list, null as an empty one.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Few<T>>, D::Error> {
    Ok(Some(Option::deserialize(deserializer)?.unwrap_or_default()))
}

/// Reads a field that says nothing if it has another type than it should have.
fn hint<'de, D, A, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    A: Reading,
    T: Deserialize<'de>,
{
    if !A::IS_LENIENT {
        return Option::deserialize(deserializer);
    }
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).unwrap_or_default())
}

/// Serde asks for `Default` of a generic field otherwise.
fn none<T>() -> Option<T> {
    None
}
