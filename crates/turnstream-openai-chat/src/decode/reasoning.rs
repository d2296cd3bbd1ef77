//! The reasoning part of a turn: its text, and what goes back with it.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use turnstream_core::{Error, ErrorKind, JsonText, Ledger, PartIndex, RawJson};

/// What goes back with a reasoning part, as it stands in the part's replay.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReasoningReplay {
    /// OpenRouter's and MiniMax's reasoning blocks, pieces of one block put together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) reasoning_details: Vec<RawJson>,
    /// Mistral's: the text came in parts of the content and goes back so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking: Option<Thinking>,
}

/// What a `thinking` part carried beside its text.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Thinking {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<RawJson>,
}

/// The reasoning part while it comes.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    part: Option<PartIndex>,
    details: Vec<Detail>,
    thinking: Option<Thinking>,
    /// Bytes of `details` so far, and the most there may be.
    bytes: usize,
    limit: usize,
}

/// One block of `reasoning_details`: its fields, each as JSON text.
#[derive(Debug)]
struct Detail {
    fields: Vec<(String, String)>,
}

impl Reasoning {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// More of the text.
    pub(super) fn text(&mut self, text: &JsonText<'_>, ledger: &mut Ledger) {
        if !text.is_empty() {
            let part = *self.part.get_or_insert_with(|| ledger.part_began());
            ledger.reasoning(part, text);
        }
    }

    /// A `thinking` part came; its text is said apart.
    pub(super) fn thinking(&mut self, signature: Option<&RawValue>, ledger: &mut Ledger) {
        self.part.get_or_insert_with(|| ledger.part_began());
        let thinking = self.thinking.get_or_insert_default();
        if let Some(signature) = signature {
            thinking.signature = Some(signature.into());
        }
    }

    /// Pieces of `reasoning_details`. `says_text` if it came in no plainer form.
    pub(super) fn details(&mut self, raw: &RawValue, says_text: bool, ledger: &mut Ledger) {
        // What is no list of objects is no reasoning that could go back.
        let Ok(pieces) = serde_json::from_str::<Vec<Fields<'_>>>(raw.get()) else { return };
        if pieces.is_empty() {
            return;
        }
        self.bytes = self.bytes.saturating_add(raw.get().len());
        if self.bytes > self.limit {
            let message = format!(
                "the reply went over the limit `text_bytes`: {} of at most {}",
                self.bytes, self.limit
            );
            return ledger.fail(Error::new(ErrorKind::LimitExceeded, message));
        }
        for Fields(fields) in pieces {
            let text = fields.iter().find(|(name, _)| is_growing(name)).map(|(_, value)| value.get());
            if says_text
                && let Some(text) = text
                && let Ok(text) = serde_json::from_str::<JsonText<'_>>(text)
            {
                self.text(&text, ledger);
            }
            self.part.get_or_insert_with(|| ledger.part_began());
            match self.details.last_mut().filter(|last| last.is_continued_by(&fields)) {
                Some(last) => fields.iter().for_each(|(name, value)| last.take(name, value)),
                None => {
                    let fields =
                        fields.iter().map(|(name, value)| (name.to_string(), value.get().to_owned()));
                    self.details.push(Detail { fields: fields.collect() });
                }
            }
        }
    }

    /// The turn ends: what goes back is handed out, if there is anything but text.
    pub(super) fn finish(&mut self, ledger: &mut Ledger) {
        let Some(part) = self.part.filter(|_| !self.details.is_empty() || self.thinking.is_some()) else {
            return;
        };
        let details = std::mem::take(&mut self.details);
        let reasoning_details = details.iter().filter_map(Detail::to_json).collect();
        let replay = ReasoningReplay { reasoning_details, thinking: self.thinking.take() };
        ledger.part_finished(part, RawJson::of(&replay).ok());
    }
}

impl Detail {
    /// Whether a piece is more of this block: text of the same type at the same place.
    fn is_continued_by(&self, piece: &[(Cow<'_, str>, &RawValue)]) -> bool {
        let mine =
            |name: &str| self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let theirs = |name: &str| piece.iter().find(|(known, _)| known == name).map(|(_, value)| value.get());
        let is_text = matches!(mine("type"), Some("\"reasoning.text\"" | "\"reasoning.summary\""));
        let is_same = |name: &str| mine(name) == theirs(name);
        let has_other_id =
            theirs("id").is_some_and(|id| id != "null" && mine("id").is_some_and(|mine| mine != id));
        is_text && is_same("type") && is_same("index") && !has_other_id
    }

    /// Appends text, takes everything else as it came last.
    fn take(&mut self, name: &str, value: &RawValue) {
        let value = value.get();
        let Some((_, known)) = self.fields.iter_mut().find(|(known, _)| known == name) else {
            return self.fields.push((name.to_owned(), value.to_owned()));
        };
        // The insides of two JSON strings, one after the other, are the inside of one: nothing is decoded.
        let more = value.strip_prefix('"').filter(|_| is_growing(name) && known.ends_with('"'));
        match more {
            Some(more) => {
                known.pop();
                known.push_str(more);
            }
            None if value != "null" => value.clone_into(known),
            None => {}
        }
    }

    fn to_json(&self) -> Option<RawJson> {
        let mut json = String::from("{");
        for (number, (name, value)) in self.fields.iter().enumerate() {
            if number > 0 {
                json.push(',');
            }
            json.push_str(&serde_json::to_string(name).ok()?);
            json.push(':');
            json.push_str(value);
        }
        json.push('}');
        RawJson::parse(&json).ok()
    }
}

fn is_growing(name: &str) -> bool {
    matches!(name, "text" | "summary")
}

/// An object's fields in their order, each value as it stands.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}
