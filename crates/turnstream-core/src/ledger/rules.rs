//! What a wire says of itself and of its calls: its rules, its keys, its announcements.

use std::fmt;

use crate::{event::InputKind, text::Text};

use super::calls::shortened;

/// How a wire ends calls and turns: its row of the design's table.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Rules {
    /// The wire's name, written into what goes back to it.
    pub wire: &'static str,
    /// What ends a call.
    pub closing: Closing,
    /// What the end of the body means once a reason has been given.
    pub body_end: BodyEnd,
}

impl Rules {
    /// A wire's rules.
    pub const fn new(wire: &'static str, closing: Closing, body_end: BodyEnd) -> Self {
        Self { wire, closing, body_end }
    }
}

/// What ends a call on a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closing {
    /// The call's own marker, once the turn has gone on: a reply that is cut closes its last block too.
    /// A call that was never closed is closed by a normal end of the turn.
    MarkerAndMore,
    /// The call's own marker. A complete call without one is finished by a normal end of the turn.
    Marker,
    /// The turn's end: the wire has no marker a call, and may name a call after its first fragments.
    TurnEnd,
}

/// What the end of the body means after a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyEnd {
    /// The turn is finished, however the body ended.
    Finishes,
    /// The turn is finished if the body ended cleanly.
    FinishesIfClean,
    /// The turn is cut: only the wire's own last marker finishes it.
    Cuts,
}

/// How a wire says which call a fragment belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Key {
    /// A number: a block's index, an item's position.
    Index(u64),
    /// A name: an item's id.
    Item(Text),
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => index.fmt(formatter),
            Self::Item(id) => write!(formatter, "`{}`", shortened(id)),
        }
    }
}

/// What a wire says of a call when it names it. Empty ids and names are as good as none.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Announcement<'a> {
    /// The provider's id of the call.
    pub id: Option<&'a str>,
    /// The tool's name.
    pub name: Option<&'a str>,
    /// How the arguments are meant.
    pub input: InputKind,
    /// Arguments given whole with the announcement. They count if no fragment comes.
    pub given: Option<&'a str>,
}

impl<'a> Announcement<'a> {
    /// A call with JSON input.
    pub fn new(id: Option<&'a str>, name: Option<&'a str>) -> Self {
        Self { id, name, ..Self::default() }
    }

    /// The same call, free-form if `input` says so.
    pub fn with_input(self, input: InputKind) -> Self {
        Self { input, ..self }
    }

    /// The same call with its arguments given whole.
    pub fn with_given(self, given: &'a str) -> Self {
        Self { given: Some(given), ..self }
    }
}
