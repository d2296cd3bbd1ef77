//! The blocks of a message while they come, and what goes back of each.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use turnstream_core::{Key, Ledger, PartIndex, RawJson, SurrogateJoiner, is_json};

/// A block that began.
#[derive(Debug)]
pub(super) enum Block {
    Call {
        key: Key,
        id: String,
        is_stopped: bool,
    },
    Prose(Prose),
    Server(Server),
    /// A server-side block that stopped: what still comes for it is no client's.
    Ended,
}

/// A block of text or thinking.
#[derive(Debug)]
pub(super) struct Prose {
    pub(super) part: PartIndex,
    pub(super) voice: Voice,
    pub(super) has_text: bool,
    pub(super) signature: String,
    pub(super) citations: Vec<RawJson>,
    pub(super) citation_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    Text,
    Thinking,
}

/// A block that is the provider's own business.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) part: PartIndex,
    pub(super) block: RawJson,
    /// The input text that streamed, if it does.
    pub(super) input: String,
    pub(super) joiner: SurrogateJoiner,
    /// Fields that came later than the block.
    pub(super) later: BTreeMap<&'static str, RawJson>,
}

impl Block {
    /// Says to the ledger what goes back of the block.
    pub(super) fn end(self, ledger: &mut Ledger) {
        match self {
            Self::Prose(prose) => ledger.part_finished(prose.part, prose.replay()),
            Self::Server(server) => ledger.part_finished(server.part, server.replay()),
            Self::Call { .. } | Self::Ended => {}
        }
    }
}

impl Prose {
    /// What the message does not hold anyway: the signature, the citations. Thinking that was not shown has
    /// no text, so all of it is here.
    fn replay(self) -> Option<RawJson> {
        #[derive(Serialize)]
        struct Thinking<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            thinking: Option<&'static str>,
            signature: &'a str,
        }
        #[derive(Serialize)]
        struct Cited {
            citations: Vec<RawJson>,
        }
        let Self { voice, has_text, signature, citations, .. } = self;
        let thinking =
            |thinking| RawJson::of(&Thinking { kind: "thinking", thinking, signature: &signature });
        match (voice, has_text) {
            (Voice::Thinking, true) => thinking(None).ok(),
            (Voice::Thinking, false) if !signature.is_empty() => thinking(Some("")).ok(),
            (Voice::Text, true) if !citations.is_empty() => RawJson::of(&Cited { citations }).ok(),
            _ => None,
        }
    }
}

impl Server {
    pub(super) fn new(part: PartIndex, block: RawJson) -> Self {
        let (input, joiner, later) = (String::new(), SurrogateJoiner::default(), BTreeMap::new());
        Self { part, block, input, joiner, later }
    }

    /// The whole block. `None` if its input is not complete: the provider would refuse it.
    fn replay(mut self) -> Option<RawJson> {
        self.input.extend(self.joiner.flush());
        let mut block = self.block;
        for (name, value) in self.later {
            block = with_field(&block, name, value.as_str())?;
        }
        match self.input.trim() {
            "" => Some(block),
            input => with_field(&block, "input", input),
        }
    }
}

/// The object with one field set, and all else as it stands. `None` if `value` is not one JSON value.
fn with_field(object: &RawJson, name: &str, value: &str) -> Option<RawJson> {
    if !is_json(value) {
        return None;
    }
    let text = object.as_str();
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let (start, end) = match fields.get(name) {
        Some(old) => {
            // The field's text is a piece of the object's text.
            let start = (old.get().as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
            (start, start + old.get().len())
        }
        None => (text.rfind('}')?, text.rfind('}')?),
    };
    let (before, after) = (text.get(..start)?, text.get(end..)?);
    let changed = match fields.contains_key(name) {
        true => format!("{before}{value}{after}"),
        false if fields.is_empty() => format!("{before}\"{name}\":{value}{after}"),
        false => format!("{before},\"{name}\":{value}{after}"),
    };
    RawJson::parse(&changed).ok()
}
