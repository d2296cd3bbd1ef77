//! The reasoning part of a turn: its text, and what goes back with it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use turnstream_core::{JsonText, Ledger, PartIndex, RawFields, RawJson};

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

/// One block of `reasoning_details`, of which pieces may follow.
#[derive(Debug)]
struct Detail {
    /// The first piece.
    first: RawJson,
    kind: Option<String>,
    index: Option<String>,
    id: Option<String>,
    /// The texts as they grow, each a JSON string without its last quote.
    texts: BTreeMap<&'static str, String>,
    /// Other fields that came later, the last of each.
    later: BTreeMap<String, RawJson>,
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
        let Ok(pieces) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else { return };
        self.bytes = self.bytes.saturating_add(raw.get().len());
        if self.bytes > self.limit {
            return ledger.limit_exceeded("text_bytes", self.limit, self.bytes);
        }
        for raw in pieces {
            let Ok(piece) = serde_json::from_str::<RawFields<'_>>(raw.get()) else { continue };
            if says_text
                && let Some(text) = GROWING.iter().find_map(|name| piece.get(name))
                && let Ok(text) = serde_json::from_str::<JsonText<'_>>(text.get())
            {
                self.text(&text, ledger);
            }
            self.part.get_or_insert_with(|| ledger.part_began());
            match self.details.last_mut().filter(|last| last.is_continued_by(&piece)) {
                Some(last) => last.take(piece),
                None => self.details.push(Detail::new(raw, &piece)),
            }
        }
    }

    /// The turn ends: what goes back is handed out, if there is anything but text.
    pub(super) fn finish(&mut self, ledger: &mut Ledger) {
        let Some(part) = self.part.filter(|_| !self.details.is_empty() || self.thinking.is_some()) else {
            return;
        };
        let details = std::mem::take(&mut self.details);
        let reasoning_details = details.into_iter().filter_map(Detail::into_json).collect();
        let replay = ReasoningReplay { reasoning_details, thinking: self.thinking.take() };
        ledger.part_finished(part, RawJson::of(&replay).ok());
    }
}

impl Detail {
    fn new(raw: &RawValue, piece: &RawFields<'_>) -> Self {
        let said = |name| piece.get(name).map(|raw| raw.get().to_owned());
        let text = |name: &'static str| Some((name, open_string(piece.get(name)?)?.to_owned()));
        Self {
            first: raw.into(),
            kind: said("type"),
            index: said("index"),
            id: said("id"),
            texts: GROWING.into_iter().filter_map(text).collect(),
            later: BTreeMap::new(),
        }
    }

    /// Whether a piece is more of this block: text of the same type at the same place.
    fn is_continued_by(&self, piece: &RawFields<'_>) -> bool {
        let theirs = |name: &str| piece.get(name).map(RawValue::get);
        let is_text = matches!(self.kind.as_deref(), Some("\"reasoning.text\"" | "\"reasoning.summary\""));
        let has_other_id = theirs("id")
            .filter(|id| *id != "null")
            .is_some_and(|id| self.id.as_deref().is_some_and(|mine| mine != id));
        is_text
            && self.kind.as_deref() == theirs("type")
            && self.index.as_deref() == theirs("index")
            && !has_other_id
    }

    /// Appends text, takes everything else as it came last.
    fn take(&mut self, piece: RawFields<'_>) {
        for (name, value) in piece.0 {
            let growing = GROWING.into_iter().find(|growing| *growing == name);
            match (growing, open_string(value)) {
                // The insides of two JSON strings, one after the other, are the inside of one: nothing is
                // decoded.
                (Some(growing), Some(more)) => match self.texts.get_mut(growing) {
                    Some(text) => text.push_str(more.get(1..).unwrap_or_default()),
                    None => drop(self.texts.insert(growing, more.to_owned())),
                },
                _ if value.get() == "null" => {}
                _ => {
                    if name == "id" {
                        self.id = Some(value.get().to_owned());
                    }
                    self.later.insert(name.into_owned(), value.into());
                }
            }
        }
    }

    fn into_json(mut self) -> Option<RawJson> {
        for (name, mut text) in self.texts {
            text.push('"');
            self.later.insert(name.to_owned(), RawJson::parse(&text).ok()?);
        }
        self.first.with_fields(&self.later)
    }
}

/// A JSON string without its last quote; `None` of any other value.
fn open_string(value: &RawValue) -> Option<&str> {
    value.get().strip_suffix('"')
}

/// The fields whose texts come in pieces.
const GROWING: [&str; 2] = ["text", "summary"];
