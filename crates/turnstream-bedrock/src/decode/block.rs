//! The blocks of a message while they come, and what goes back of each.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;
use turnstream_core::{Key, Ledger, PartIndex, RawJson, SurrogateJoiner};

/// A block that began.
#[derive(Debug)]
pub(super) enum Block {
    /// A start that does not say what begins.
    Blank(PartIndex),
    Call {
        key: Key,
        id: String,
        is_stopped: bool,
    },
    Prose(Prose),
    /// Reasoning that is not shown, in pieces of base64.
    Redacted {
        part: PartIndex,
        content: Vec<String>,
        bytes: usize,
    },
    Server(Server),
    /// What stopped. What still comes for it is another block's, or nobody's.
    Ended,
}

/// A block of text or reasoning.
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
    Reasoning,
}

/// A block that is the provider's own business.
#[derive(Debug)]
pub(super) struct Server {
    part: PartIndex,
    /// Its field in the union of blocks: `toolUse`, `toolResult`, `image`.
    kind: String,
    start: RawJson,
    /// The input text of a call.
    pub(super) input: String,
    pub(super) joiner: SurrogateJoiner,
    /// The pieces of a result.
    pub(super) content: Vec<RawJson>,
    /// How long those are.
    pub(super) bytes: usize,
    /// Where an image is.
    pub(super) source: Option<RawJson>,
}

impl Block {
    /// Says to the ledger what goes back of the block.
    pub(super) fn end(self, ledger: &mut Ledger) {
        match self {
            Self::Blank(part) => ledger.part_finished(part, None),
            Self::Prose(prose) => ledger.part_finished(prose.part, prose.replay()),
            Self::Redacted { part, content, .. } => ledger.part_finished(part, Some(redacted(&content))),
            Self::Server(server) => ledger.part_finished(server.part, server.replay()),
            Self::Call { .. } | Self::Ended => {}
        }
    }
}

impl Prose {
    pub(super) fn new(part: PartIndex, voice: Voice) -> Self {
        let (signature, citations) = (String::new(), Vec::new());
        Self { part, voice, has_text: false, signature, citations, citation_bytes: 0 }
    }

    /// What the message does not hold anyway: the signature, the citations. A block without text of its own goes
    /// back whole.
    fn replay(self) -> Option<RawJson> {
        let Self { voice, has_text, signature, citations, .. } = self;
        let json = match (voice, has_text) {
            (Voice::Reasoning, true) if signature.is_empty() => json!({}),
            (Voice::Reasoning, true) => json!({ "signature": signature }),
            (Voice::Reasoning, false) if signature.is_empty() => return None,
            (Voice::Reasoning, false) => {
                json!({ "reasoningContent": { "reasoningText": { "text": "", "signature": signature } } })
            }
            (Voice::Text, _) if citations.is_empty() => return None,
            (Voice::Text, true) => return wrapped(&["citations"], &citations),
            (Voice::Text, false) => return wrapped(&["citationsContent", "citations"], &citations),
        };
        Some(json.into())
    }
}

impl Server {
    pub(super) fn new(part: PartIndex, kind: &str, start: RawJson) -> Self {
        Self {
            part,
            kind: kind.to_owned(),
            start,
            input: String::new(),
            joiner: SurrogateJoiner::default(),
            content: Vec::new(),
            bytes: 0,
            source: None,
        }
    }

    /// The whole block. `None` if it is not complete: the provider would refuse it.
    fn replay(mut self) -> Option<RawJson> {
        self.input.extend(self.joiner.flush());
        let (name, value) = match self.kind.as_str() {
            "toolUse" if self.input.trim().is_empty() => ("input", json!({}).into()),
            "toolUse" => ("input", RawJson::parse(&self.input).ok()?),
            "toolResult" => ("content", RawJson::of(&self.content).ok()?),
            _ => ("source", self.source?),
        };
        let block = self.start.with_fields(&BTreeMap::from([(name, value)]))?;
        wrapped(&[&self.kind], &block)
    }
}

/// The value in objects of one field each.
fn wrapped<T: serde::Serialize + ?Sized>(names: &[&str], value: &T) -> Option<RawJson> {
    let value = RawJson::of(value).ok()?;
    let wrapped =
        names.iter().rev().try_fold(value, |inner, name| RawJson::of(&BTreeMap::from([(*name, inner)])));
    wrapped.ok()
}

/// The block, its pieces put together: each is base64 by itself.
fn redacted(pieces: &[String]) -> RawJson {
    let content = match pieces {
        [whole] => whole.clone(),
        pieces => {
            let bytes: Option<Vec<Vec<u8>>> =
                pieces.iter().map(|piece| BASE64_STANDARD.decode(piece).ok()).collect();
            // What is no base64 can only go back as it came.
            bytes.map_or_else(|| pieces.concat(), |bytes| BASE64_STANDARD.encode(bytes.concat()))
        }
    };
    json!({ "reasoningContent": { "redactedContent": content } }).into()
}
