//! The blocks of a message while they come, and what goes back of each.

use std::collections::BTreeMap;

use serde::Serialize;
use turnstream_core::{Key, Ledger, PartIndex, RawJson, SurrogateJoiner};

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
        if !self.input.trim().is_empty() {
            self.later.insert("input", RawJson::parse(&self.input).ok()?);
        }
        if self.later.is_empty() { Some(self.block) } else { self.block.with_fields(&self.later) }
    }
}
