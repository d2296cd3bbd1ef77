//! What a conversation is made of: [`Message`]s and their [`Part`]s.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    event::{InputKind, Replay},
    raw_json::tagged,
    text::{Arguments, Text},
};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// The application and its user; results of calls, too.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What it says, in order.
    pub parts: Vec<Part>,
}

impl Message {
    /// A message of any parts.
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts }
    }

    /// A user's text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, vec![Part::text(text)])
    }

    /// A model's text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, vec![Part::text(text)])
    }

    /// The results of calls, in call order.
    pub fn results(results: impl IntoIterator<Item = ResultPart>) -> Self {
        Self::new(Role::User, results.into_iter().map(Part::Result).collect())
    }

    /// The same message with one more part.
    pub fn with_part(mut self, part: impl Into<Part>) -> Self {
        self.parts.push(part.into());
        self
    }

    /// The text parts, joined.
    pub fn text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(text.text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &CallPart> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        })
    }
}

/// One part of a [`Message`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Part {
    /// Text.
    Text(TextPart),
    /// A model's refusal.
    Refusal(TextPart),
    /// An image.
    Image(Image),
    /// A document.
    Document(Document),
    /// Recorded sound.
    Audio(Audio),
    /// A model's reasoning.
    Reasoning(ReasoningPart),
    /// A call that the model made.
    Call(CallPart),
    /// The result of a call.
    Result(ResultPart),
    /// A block that only its own wire understands.
    Opaque(OpaquePart),
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextPart::new(text))
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let (tag, raw) = tagged(deserializer)?;
        let part = match tag.as_str() {
            "text" => raw.read().map(Self::Text),
            "refusal" => raw.read().map(Self::Refusal),
            "image" => raw.read().map(Self::Image),
            "document" => raw.read().map(Self::Document),
            "audio" => raw.read().map(Self::Audio),
            "reasoning" => raw.read().map(Self::Reasoning),
            "call" => raw.read().map(Self::Call),
            "result" => raw.read().map(Self::Result),
            "opaque" => raw.read().map(Self::Opaque),
            _ => return Err(D::Error::custom(format_args!("unknown part `{tag}`"))),
        };
        part.map_err(D::Error::custom)
    }
}

impl From<ResultPart> for Part {
    fn from(result: ResultPart) -> Self {
        Self::Result(result)
    }
}

impl From<CallPart> for Part {
    fn from(call: CallPart) -> Self {
        Self::Call(call)
    }
}

impl From<Image> for Part {
    fn from(image: Image) -> Self {
        Self::Image(image)
    }
}

impl From<Document> for Part {
    fn from(document: Document) -> Self {
        Self::Document(document)
    }
}

impl From<Audio> for Part {
    fn from(audio: Audio) -> Self {
        Self::Audio(audio)
    }
}

impl From<TextPart> for Part {
    fn from(text: TextPart) -> Self {
        Self::Text(text)
    }
}

impl From<ReasoningPart> for Part {
    fn from(reasoning: ReasoningPart) -> Self {
        Self::Reasoning(reasoning)
    }
}

impl From<OpaquePart> for Part {
    fn from(block: OpaquePart) -> Self {
        Self::Opaque(block)
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// Text, or a refusal's text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// What the wire that it came from needs back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
}

impl TextPart {
    /// A text that came from no wire.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), replay: None }
    }

    /// The same text, with what its wire needs back.
    pub fn with_replay(self, replay: Replay) -> Self {
        Self { replay: Some(replay), ..self }
    }
}

/// Where an image's, a document's or a sound's bytes are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// At an address that the provider fetches.
    Url(String),
    /// Here, in base64.
    Base64 {
        /// For example `image/png`.
        media_type: String,
        /// The bytes, in standard base64.
        data: String,
    },
    /// A file uploaded to the provider before, by its id.
    File(String),
}

impl Source {
    /// The address, or the bytes as a `data:` address. `None` for an uploaded file.
    pub fn address(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Url(url) => Some(Cow::Borrowed(url)),
            Self::Base64 { media_type, data } => Some(Cow::Owned(format!("data:{media_type};base64,{data}"))),
            Self::File(_) => None,
        }
    }
}

/// An image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Image {
    /// Its bytes.
    pub source: Source,
}

impl Image {
    /// An image at an address that the provider fetches.
    pub fn url(url: impl Into<String>) -> Self {
        Self { source: Source::Url(url.into()) }
    }

    /// An image in base64; `media_type` is for example `image/png`.
    pub fn base64(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        Self { source: Source::Base64 { media_type: media_type.into(), data: data.into() } }
    }

    /// An image from any source.
    pub fn new(source: Source) -> Self {
        Self { source }
    }
}

/// A document, for example a PDF.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Document {
    /// Its bytes.
    pub source: Source,
    /// A name for it, for example `invoice.pdf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Document {
    /// A document from any source.
    pub fn new(source: Source) -> Self {
        Self { source, name: None }
    }

    /// A document at an address that the provider fetches.
    pub fn url(url: impl Into<String>) -> Self {
        Self::new(Source::Url(url.into()))
    }

    /// A document in base64; `media_type` is for example `application/pdf`.
    pub fn base64(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        Self::new(Source::Base64 { media_type: media_type.into(), data: data.into() })
    }

    /// The same document with a name.
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }
}

/// Recorded sound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Audio {
    /// Its bytes.
    pub source: Source,
}

impl Audio {
    /// Sound in base64; `media_type` is for example `audio/wav`.
    pub fn base64(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        Self::new(Source::Base64 { media_type: media_type.into(), data: data.into() })
    }

    /// Sound from any source; in base64 its media type is for example `audio/wav`.
    pub fn new(source: Source) -> Self {
        Self { source }
    }
}

/// A model's reasoning.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReasoningPart {
    /// What could be seen of it. May be empty.
    pub text: String,
    /// What the wire that it came from needs back: a signature, an encrypted item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
}

impl ReasoningPart {
    /// Reasoning as it came.
    pub fn new(text: impl Into<String>, replay: Option<Replay>) -> Self {
        Self { text: text.into(), replay }
    }
}

/// A call that the model made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallPart {
    /// The id under which the result goes back.
    pub id: Text,
    /// The tool's name.
    pub name: Text,
    /// The arguments, verbatim.
    pub arguments: Arguments,
    /// The provider's id, where it stood in the conversation already and this call got a fresh one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_id: Option<Text>,
    /// How the arguments are meant.
    #[serde(default, skip_serializing_if = "is_default")]
    pub input: InputKind,
    /// Whether the id was made up because the provider gave none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub made_up_id: bool,
    /// What the wire that it came from needs back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
}

impl CallPart {
    /// A call with JSON input.
    pub fn new(id: impl Into<Text>, name: impl Into<Text>, arguments: impl Into<Arguments>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            original_id: None,
            input: InputKind::Json,
            made_up_id: false,
            replay: None,
        }
    }

    /// The same call with another kind of input.
    pub fn with_input(self, input: InputKind) -> Self {
        Self { input, ..self }
    }

    /// The same call, its id marked as made up.
    pub fn with_made_up_id(self) -> Self {
        Self { made_up_id: true, ..self }
    }

    /// The same call, with what its wire needs back.
    pub fn with_replay(self, replay: Replay) -> Self {
        Self { replay: Some(replay), ..self }
    }
}

/// What a handler gave back for a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResultPart {
    /// The call's id.
    pub call_id: Text,
    /// The tool's name.
    pub name: Text,
    /// What goes back to the model, in order. May be empty: each wire writes what it accepts for that.
    pub content: Vec<ResultContent>,
    /// Whether the call failed. Wires without a flag for it say so in the text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// How the call's arguments were meant: some wires answer free-form calls in another shape.
    #[serde(default, skip_serializing_if = "is_default")]
    pub input: InputKind,
}

impl ResultPart {
    /// A text result of the call `call_id` of the tool `name`.
    pub fn text(call_id: impl Into<Text>, name: impl Into<Text>, text: impl Into<String>) -> Self {
        Self::new(call_id, name, vec![ResultContent::Text(text.into())])
    }

    /// A result of any content.
    pub fn new(call_id: impl Into<Text>, name: impl Into<Text>, content: Vec<ResultContent>) -> Self {
        let (call_id, name) = (call_id.into(), name.into());
        Self { call_id, name, content, is_error: false, input: InputKind::Json }
    }

    /// What a result says that says nothing: providers refuse an empty one, or read it as a missing one.
    pub fn placeholder(&self) -> &'static str {
        if self.is_error { "The tool failed and said nothing." } else { "(no output)" }
    }

    /// The same result, as a failure.
    pub fn with_error(self) -> Self {
        Self { is_error: true, ..self }
    }

    /// The same result, for a call with another kind of input.
    pub fn with_input(self, input: InputKind) -> Self {
        Self { input, ..self }
    }
}

/// One piece of a [`ResultPart`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResultContent {
    /// Text, or JSON as text.
    Text(String),
    /// An image.
    Image(Image),
    /// A document.
    Document(Document),
}

/// A block that only its own wire understands: server-side tool activity, redacted reasoning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpaquePart {
    /// The block.
    pub replay: Replay,
}

impl OpaquePart {
    /// A block of one wire's.
    pub fn new(replay: Replay) -> Self {
        Self { replay }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_json::RawJson;

    #[test]
    fn a_message_is_the_same_after_json() {
        let data = RawJson::parse(r#"{"signature": "c2ln", "n": 1.0}"#).unwrap();
        let replay = Some(Replay::new("anthropic-messages", data));
        let message = Message::new(
            Role::Assistant,
            vec![
                Part::Reasoning(ReasoningPart::new("hm", replay.clone())),
                Part::text("Let me look."),
                Part::Call(CallPart { replay, ..CallPart::new("toolu_1", "lookup", "{\"a\": 1.0}") }),
            ],
        );
        let json = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<Message>(&json).unwrap(), message);
    }
}
