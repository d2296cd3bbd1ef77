//! One call's page in the ledger.

use crate::{
    event::{CallIndex, CallStarted, InputKind, PartIndex},
    raw_json::RawJson,
    scan::JsonScanner,
    text::Text,
};

use super::{Announcement, Key};

/// A call between its first word and its end.
#[derive(Debug)]
pub(super) struct Call {
    key: Key,
    id: Text,
    name: Text,
    input: InputKind,
    text: String,
    given: Option<String>,
    replay: Option<RawJson>,
    scanner: JsonScanner,
    /// How much of the text the scanner has seen.
    scanned: usize,
    /// Set when the call has said something.
    part: Option<PartIndex>,
    /// Set when the call has been announced.
    ordinal: Option<CallIndex>,
    is_closed: bool,
    is_cut_off: bool,
    is_over: bool,
    is_aborted: bool,
}

impl Call {
    pub(super) fn new(key: Key) -> Self {
        Self {
            key,
            id: Text::default(),
            name: Text::default(),
            input: InputKind::Json,
            text: String::new(),
            given: None,
            replay: None,
            scanner: JsonScanner::default(),
            scanned: 0,
            ordinal: None,
            part: None,
            is_closed: false,
            is_cut_off: false,
            is_over: false,
            is_aborted: false,
        }
    }

    /// Takes what was not known. What was said first stays: names are assigned, not appended.
    pub(super) fn learn(&mut self, call: Announcement<'_>) {
        if self.ordinal.is_some() {
            return;
        }
        if self.id.is_empty() {
            self.id = call.id.unwrap_or_default().into();
        }
        if self.name.is_empty() {
            self.name = call.name.unwrap_or_default().into();
        }
        if call.input != InputKind::Json {
            self.input = call.input;
        }
        if let Some(given) = call.given {
            self.given = Some(given.to_owned());
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn has_id(&self) -> bool {
        !self.id.is_empty()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn ordinal(&self) -> Option<CallIndex> {
        self.ordinal
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Known to the ledger, but not announced. A slot that never said anything is no call.
    pub(super) fn is_held(&self) -> bool {
        self.ordinal.is_none() && !(self.name.is_empty() && self.text.is_empty())
    }

    /// The key of a call that has text and no name.
    pub(super) fn nameless_key(&self) -> Option<&Key> {
        (self.is_held() && self.name.is_empty()).then_some(&self.key)
    }

    pub(super) fn has_part(&self) -> bool {
        self.part.is_some()
    }

    pub(super) fn give_part(&mut self, part: PartIndex) {
        self.part = Some(part);
    }

    pub(super) fn begin(&mut self, ordinal: CallIndex, made_up_id: Option<Text>) -> Option<CallStarted> {
        let part = self.part?;
        self.ordinal = Some(ordinal);
        let is_made_up = made_up_id.is_some();
        if let Some(id) = made_up_id {
            self.id = id;
        }
        let started = CallStarted::new(part, ordinal, self.id.clone(), self.name.clone());
        let started = started.with_input(self.input);
        Some(if is_made_up { started.with_made_up_id() } else { started })
    }

    pub(super) fn push(&mut self, text: &str) {
        self.given = None;
        // A long text grows by a quarter of itself: twice its memory is too much, and this is linear, too.
        if self.text.len() >= LONG_TEXT_BYTES && self.text.capacity() - self.text.len() < text.len() {
            self.text.reserve_exact(text.len().max(self.text.len() / 4));
        }
        self.text.push_str(text);
    }

    /// What `whole` has beyond the text that came, or `None` if it contradicts it.
    pub(super) fn rest_of<'t>(&self, whole: &'t str) -> Option<&'t str> {
        // An ended call has given its text away and cannot be settled again.
        if self.is_over { Some("") } else { whole.strip_prefix(self.text.as_str()) }
    }

    /// Notes the marker; true the first time.
    pub(super) fn close(&mut self) -> bool {
        !std::mem::replace(&mut self.is_closed, true) && !self.is_over
    }

    pub(super) fn cut_off(&mut self) {
        self.is_cut_off = true;
    }

    pub(super) fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    pub(super) fn has_given(&self) -> bool {
        self.given.is_some()
    }

    pub(super) fn take_given(&mut self) -> Option<String> {
        self.given.take().filter(|_| !self.is_over && self.ordinal.is_some())
    }

    /// Keeps what goes back; hands it out at once if the call has finished already. An aborted call does
    /// not go back.
    pub(super) fn keep_replay(&mut self, replay: RawJson) -> Option<(PartIndex, RawJson)> {
        if self.is_aborted {
            return None;
        }
        if self.is_over {
            return self.part.map(|part| (part, replay));
        }
        self.replay = Some(replay);
        None
    }

    pub(super) fn take_replay(&mut self) -> Option<(PartIndex, RawJson)> {
        Some((self.part?, self.replay.take()?))
    }

    /// Whether the text is one complete JSON value as it stands. Only new text is looked at.
    pub(super) fn is_complete(&mut self) -> bool {
        self.scan();
        match self.input {
            InputKind::Json => self.scanner.is_complete(),
            InputKind::Text => self.is_closed,
        }
    }

    /// Whether the call goes on: it is neither complete nor over. A slot that never said anything is no call.
    pub(super) fn is_incomplete(&mut self) -> bool {
        let is_call = self.ordinal.is_some() || self.is_held();
        is_call && !self.is_over && !self.is_complete()
    }

    /// Whether the text is what finished arguments may be.
    pub(super) fn is_whole(&mut self) -> bool {
        self.input == InputKind::Text || self.is_complete() || self.scanner.is_blank()
    }

    /// Whether a call from which the model had moved on was complete when the turn was cut. Blank or free
    /// text shows no end of its own: there the marker must have come.
    pub(super) fn is_whole_on_a_cut(&mut self) -> bool {
        !self.is_cut_off && (self.is_complete() || (self.is_closed && self.is_whole()))
    }

    /// Ends the call and gives its text away.
    pub(super) fn end(&mut self) -> (Text, Text, String) {
        self.is_over = true;
        (self.id.clone(), self.name.clone(), std::mem::take(&mut self.text))
    }

    /// As [`end`](Self::end), for a call that will never be complete.
    pub(super) fn abort(&mut self) -> (Text, Text, String) {
        self.is_aborted = true;
        self.end()
    }

    /// The call in words, for errors.
    pub(super) fn describe(&self) -> String {
        let Self { key, .. } = self;
        match (shortened(&self.name), shortened(&self.id)) {
            ("", "") => format!("the call with key {key}"),
            ("", id) => format!("the call {id}"),
            (name, "") => format!("a call of `{name}`"),
            (name, id) => format!("the call {id} of `{name}`"),
        }
    }

    fn scan(&mut self) {
        if let Some(new) = self.text.as_bytes().get(self.scanned..) {
            self.scanner.push(new);
            self.scanned = self.text.len();
        }
    }
}

/// The start of an id or a name: what a provider sends may be as long as a frame.
pub(super) fn shortened(text: &str) -> &str {
    let end = text.char_indices().nth(SHOWN_CHARACTERS).map_or(text.len(), |(end, _)| end);
    text.get(..end).unwrap_or(text)
}

const SHOWN_CHARACTERS: usize = 64;

const LONG_TEXT_BYTES: usize = 64 << 10;
