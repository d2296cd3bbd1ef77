//! What a reply says, step by step, before any wire's spelling; and the walk over it that every wire's
//! renderer shares.

use crate::gate::Gate;

/// The size of a call's fragments when nothing is said, in characters.
const FRAGMENT_CHARACTERS: usize = 12;

/// A reply, apart from its wire.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) id: Option<String>,
    pub(crate) model: String,
    pub(crate) steps: Vec<Step>,
    pub(crate) usage: Option<(u64, u64)>,
    pub(crate) ending: Ending,
}

/// One thing that a reply does.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// One part of prose, in pieces.
    Prose(Prose, Vec<String>),
    /// One call, or several whose fragments take turns.
    Calls(Vec<PlannedCall>),
    Ping,
    /// A frame of the test's own: its name, if it has one, and its data.
    Frame {
        event: String,
        data: String,
    },
    Raw(Vec<u8>),
    Gate(Gate),
    Error {
        code: String,
        message: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prose {
    Text,
    Reasoning,
    Refusal,
}

/// How a reply ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Well, with the reason that its parts give.
    Inferred,
    /// Cut by the token limit.
    Length,
    /// Cut by the provider's filter.
    ContentFilter,
    /// With a word of the wire's.
    Word(String),
    /// Not at all: the body ends.
    Cut,
}

/// A call of a reply.
#[derive(Debug, Clone)]
pub(crate) struct PlannedCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    cuts: Cuts,
}

#[derive(Debug, Clone)]
enum Cuts {
    Every(usize),
    At(Vec<usize>),
}

/// What a rendered reply consists of.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    /// One frame, or something raw.
    Bytes(Vec<u8>),
    /// A pause until the gate is open.
    Gate(Gate),
}

/// A wire's way of saying each step. `close` and `end` are not called for a reply that is cut.
pub(crate) trait Render {
    fn start(&mut self, plan: &Plan);
    fn prose(&mut self, prose: Prose, pieces: &[String]);
    fn calls(&mut self, calls: &[PlannedCall]);
    /// Ends the parts that are still open. `is_cut`: the model did not come to their end.
    fn close(&mut self, is_cut: bool);
    fn ping(&mut self);
    /// A frame of the test's own. The name is left out where it is empty, and where the wire has none.
    fn own_frame(&mut self, event: &str, data: &str);
    fn raw(&mut self, bytes: &[u8]);
    fn gate(&mut self, gate: &Gate);
    fn error(&mut self, code: &str, message: &str);
    fn end(&mut self, plan: &Plan);
}

impl Plan {
    pub(crate) fn new() -> Self {
        Self {
            id: None,
            model: "test-model".to_owned(),
            steps: Vec::new(),
            usage: Some((10, 20)),
            ending: Ending::Inferred,
        }
    }

    /// All calls, in order.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &PlannedCall> {
        self.steps.iter().flat_map(|step| match step {
            Step::Calls(calls) => calls.as_slice(),
            _ => &[],
        })
    }

    pub(crate) fn has_refusal(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Prose(Prose::Refusal, _)))
    }

    pub(crate) fn render(&self, renderer: &mut dyn Render) {
        renderer.start(self);
        for step in &self.steps {
            match step {
                Step::Prose(prose, pieces) => {
                    renderer.close(false);
                    renderer.prose(*prose, pieces);
                }
                Step::Calls(calls) => {
                    renderer.close(false);
                    renderer.calls(calls);
                }
                Step::Ping => renderer.ping(),
                Step::Frame { event, data } => renderer.own_frame(event, data),
                Step::Raw(bytes) => renderer.raw(bytes),
                Step::Gate(gate) => renderer.gate(gate),
                Step::Error { code, message } => renderer.error(code, message),
            }
        }
        if self.ending != Ending::Cut {
            renderer.close(matches!(self.ending, Ending::Length | Ending::ContentFilter));
            renderer.end(self);
        }
    }
}

impl PlannedCall {
    pub(crate) fn new(id: &str, name: &str, arguments: String) -> Self {
        let cuts = Cuts::Every(FRAGMENT_CHARACTERS);
        Self { id: id.to_owned(), name: name.to_owned(), arguments, cuts }
    }

    pub(crate) fn cut_every(&mut self, characters: usize) {
        self.cuts = Cuts::Every(characters.max(1));
    }

    pub(crate) fn cut_at(&mut self, offsets: Vec<usize>) {
        self.cuts = Cuts::At(offsets);
    }

    /// The fragments, none of them empty. An offset inside a character moves to its end.
    pub(crate) fn fragments(&self) -> Vec<&str> {
        let mut offsets = match &self.cuts {
            Cuts::Every(characters) => {
                self.arguments.char_indices().map(|(offset, _)| offset).step_by(*characters).collect()
            }
            Cuts::At(offsets) => offsets.clone(),
        };
        offsets.sort_unstable();
        let mut fragments = Vec::new();
        let mut rest = self.arguments.as_str();
        for offset in offsets {
            let start = self.arguments.len() - rest.len();
            let offset =
                (offset..).find(|offset| self.arguments.is_char_boundary(*offset.min(&self.arguments.len())));
            let split = offset.unwrap_or_default().saturating_sub(start);
            let Some((fragment, more)) = rest.split_at_checked(split) else { continue };
            if !fragment.is_empty() {
                fragments.push(fragment);
            }
            rest = more;
        }
        if !rest.is_empty() {
            fragments.push(rest);
        }
        fragments
    }
}

/// The fragments of several calls, by turns: the first of each, the second of each, and so on, with the
/// number of the call.
pub(crate) fn by_turns(calls: &[PlannedCall]) -> Vec<(usize, &str)> {
    let fragments: Vec<Vec<&str>> = calls.iter().map(PlannedCall::fragments).collect();
    let rounds = fragments.iter().map(Vec::len).max().unwrap_or_default();
    let round = |round: usize| {
        let calls = fragments.iter().enumerate();
        calls.filter_map(move |(call, fragments)| Some((call, *fragments.get(round)?)))
    };
    (0..rounds).flat_map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_cut_by_characters_or_at_offsets() {
        let mut call = PlannedCall::new("1", "t", "aéb→c".to_owned());
        assert_eq!(call.fragments(), ["aéb→c"]);
        call.cut_every(2);
        assert_eq!(call.fragments(), ["aé", "b→", "c"]);
        // 2 is inside `é`, 5 inside `→`; 100 is past the end.
        call.cut_at(vec![5, 2, 0, 100]);
        assert_eq!(call.fragments(), ["aé", "b→", "c"]);
    }

    #[test]
    fn calls_take_turns() {
        let mut calls =
            [PlannedCall::new("1", "t", "abc".to_owned()), PlannedCall::new("2", "t", "x".to_owned())];
        calls.iter_mut().for_each(|call| call.cut_every(1));
        assert_eq!(by_turns(&calls), [(0, "a"), (1, "x"), (0, "b"), (0, "c")]);
    }
}
