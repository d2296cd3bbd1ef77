//! The ledger: the one place where calls begin, grow and end. The laws about calls live here, once, and
//! not in each wire. Among decoders it alone can make a [`CallFinished`].
//!
//! A wire's decoder reads frames and *says* what they mean: a part began, a call was announced, text came
//! for a key, a key was closed, a reason was given, the turn ended. The ledger decides what that makes of
//! each call, by the wire's [`Rules`], and writes the events.

mod calls;
mod rules;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use serde_json::value::RawValue;

use crate::{
    error::{Error, ErrorKind},
    event::{
        AbortReason, CallAborted, CallArgumentFragment, CallFinished, CallIndex, Citation, Event,
        PartFinished, PartIndex, ProviderEvent, Reason, ReasoningDelta, RefusalDelta, Replay, TextDelta,
        TurnFinished, TurnStarted, Usage,
    },
    json_text::{JsonText, SurrogateJoiner, spells},
    raw_json::RawJson,
    text::{ArgumentFragment, Text},
    wire::{End, Events, Limits},
};
use calls::Call;

pub use rules::{Announcement, BodyEnd, Closing, Key, Rules};

/// One ledger serves one turn; after the turn's end it takes nothing more.
#[derive(Debug)]
pub struct Ledger {
    rules: Rules,
    limits: Limits,
    events: Events,
    started: bool,
    /// Whether the wire named the turn. It begins without a name where something else came first.
    is_named: bool,
    output_given: bool,
    over: bool,
    next_part: u32,
    next_call: u32,
    /// Parts that have not been finished, in order, and what kind of text they have, if any came. One or
    /// two, but for a body that means harm.
    open_parts: BTreeMap<PartIndex, Option<Prose>>,
    /// Halves of surrogate pairs that wait for the other half. Almost always empty.
    halves: BTreeMap<Owner, SurrogateJoiner>,
    text_bytes: usize,
    calls: Vec<Call>,
    slots: HashMap<Key, usize>,
    /// The key that was looked up last: fragments of one call come in runs.
    last_slot: Option<(Key, usize)>,
    last_fragment: Option<usize>,
    /// Calls whose marker came and that wait for the turn to go on, in order of the markers.
    closed: Vec<usize>,
    has_client_call: bool,
    has_refusal: bool,
    reason: Option<(Reason, Option<Text>)>,
    /// Whether output came after a reason.
    reason_was_early: bool,
    /// Whether output came after the last time that a reason was given.
    went_on: bool,
    usage: Option<Usage>,
    /// News from before the turn was named. It waits a little: behind the start, which then has its name.
    early: Vec<ProviderEvent>,
}

/// Whose text a half of a surrogate pair belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Part(PartIndex),
    /// A call, by its place in the ledger: it may have no part yet.
    Call(usize),
}

/// The kinds of text that come in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prose {
    Text,
    Reasoning,
    Refusal,
}

impl Ledger {
    /// An empty ledger.
    pub fn new(rules: Rules, limits: Limits) -> Self {
        Self {
            rules,
            limits,
            events: Events::new(),
            started: false,
            is_named: false,
            output_given: false,
            over: false,
            next_part: 0,
            next_call: 0,
            open_parts: BTreeMap::new(),
            halves: BTreeMap::new(),
            text_bytes: 0,
            calls: Vec::new(),
            slots: HashMap::new(),
            last_slot: None,
            last_fragment: None,
            closed: Vec::new(),
            has_client_call: false,
            has_refusal: false,
            reason: None,
            reason_was_early: false,
            went_on: false,
            usage: None,
            early: Vec::new(),
        }
    }

    /// Swaps the queue that events are written to. The driver lends the caller's queue while it feeds.
    pub fn swap_events(&mut self, events: &mut Events) {
        std::mem::swap(&mut self.events, events);
    }

    /// Whether the turn has ended, in whatever way. Nothing counts any more.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether a reason has been given and only the wire's last marker is missing. Some proxies give one
    /// with every frame: a reason behind which more came has shown that it means nothing.
    pub fn is_settled(&self) -> bool {
        self.reason.is_some() && !self.reason_was_early && !self.over
    }

    /// The provider named the turn. The first id and model that are not empty count.
    pub fn turn_started(&mut self, id: Option<&str>, model: Option<&str>) {
        let (id, model) = (not_empty(id), not_empty(model));
        self.is_named |= id.is_some() || model.is_some();
        if self.over || self.started || (id.is_none() && model.is_none()) {
            return;
        }
        self.start(TurnStarted::new(id.map(Text::from), model.map(Text::from)));
    }

    /// A part began that is not a client's call: text, reasoning, a block of the provider's. The turn goes
    /// on, so calls that were closed before are finished.
    pub fn part_began(&mut self) -> PartIndex {
        self.finish_closed();
        let part = self.new_part();
        self.open_parts.insert(part, None);
        part
    }

    /// Text came for a part. An empty one says nothing.
    pub fn text(&mut self, part: PartIndex, text: &JsonText<'_>) {
        self.prose(Prose::Text, part, text);
    }

    /// Reasoning came for a part. An empty one says nothing.
    pub fn reasoning(&mut self, part: PartIndex, text: &JsonText<'_>) {
        self.prose(Prose::Reasoning, part, text);
    }

    /// A refusal's text came for a part. One that is not empty makes the turn's reason `refusal`.
    pub fn refusal(&mut self, part: PartIndex, text: &JsonText<'_>) {
        self.prose(Prose::Refusal, part, text);
    }

    /// A source came for a text part.
    pub fn citation(&mut self, citation: Citation) {
        if !self.over {
            self.emit(Event::Citation(citation));
        }
    }

    /// A part that is not a client's call is over. `replay` is what the wire needs back of it; with no
    /// other event of the part it is an opaque block.
    pub fn part_finished(&mut self, part: PartIndex, replay: Option<RawJson>) {
        if self.over {
            return;
        }
        self.flush_half(part);
        self.open_parts.remove(&part);
        self.emit_part_finished(part, replay);
    }

    /// The wire named a call, or said more of one that it had named: then only what was not known is
    /// taken. Where the wire announces calls, the call begins now; on [`Closing::TurnEnd`] wires it begins
    /// when both its id and its name are known, and at the end at the latest.
    pub fn announce(&mut self, key: Key, call: Announcement<'_>) {
        if self.over {
            return;
        }
        let index = match self.slot(&key) {
            Some(index) => index,
            None => {
                self.finish_closed();
                if self.calls.len() >= self.limits.calls {
                    return self.limit_exceeded("calls", self.limits.calls, self.calls.len() + 1);
                }
                self.slots.insert(key.clone(), self.calls.len());
                self.calls.push(Call::new(key));
                self.calls.len() - 1
            }
        };
        let Some(slot) = self.calls.get_mut(index) else { return };
        slot.learn(call);
        if slot.has_given() {
            self.last_fragment = Some(index);
        }
        self.give_part(index);
        let Some(slot) = self.calls.get(index) else { return };
        let may_begin = slot.has_id() || self.rules.closing != Closing::TurnEnd;
        if may_begin {
            self.begin(index);
        }
    }

    /// Argument text came for a key. An empty one says nothing.
    pub fn append(&mut self, key: &Key, text: &JsonText<'_>) {
        if self.over || text.is_empty() {
            return;
        }
        let Some(index) = self.slot(key) else { return self.fail_unknown(key) };
        match self.join(Owner::Call(index), text) {
            Cow::Borrowed(text) => self.append_str(index, text),
            Cow::Owned(text) => self.append_str(index, &text),
        }
    }

    /// The wire said a call's whole text again. What extends the text that came is appended; what
    /// contradicts it aborts the call. An empty text says nothing.
    pub fn settle(&mut self, key: &Key, whole: &JsonText<'_>) {
        if self.over || whole.is_empty() {
            return;
        }
        let Some(index) = self.slot(key) else { return self.fail_unknown(key) };
        let Some(call) = self.calls.get(index) else { return };
        let whole = whole.to_lossy();
        match call.rest_of(&whole) {
            Some("") => {}
            Some(rest) => {
                self.halves.remove(&Owner::Call(index));
                let rest = rest.to_owned();
                self.append_str(index, &rest);
            }
            None => self.abort(index, AbortReason::Malformed),
        }
    }

    /// The wire's marker for the end of a call. One for no known call is ignored.
    pub fn close(&mut self, key: &Key) {
        if self.over {
            return;
        }
        let Some(index) = self.slot(key) else { return };
        match self.rules.closing {
            Closing::Marker => self.finish(index),
            Closing::MarkerAndMore => {
                if self.calls.get_mut(index).is_some_and(Call::close) {
                    self.closed.push(index);
                }
            }
            Closing::TurnEnd => {}
        }
    }

    /// The wire said that a call was cut: it is aborted when the turn ends, whatever its text is.
    pub fn cut_off(&mut self, key: &Key) {
        if let Some(call) = self.slot(key).and_then(|index| self.calls.get_mut(index)) {
            call.cut_off();
        }
    }

    /// Keeps what the wire needs back of a call. Written when the call ends.
    pub fn call_replay(&mut self, key: &Key, replay: RawJson) {
        let Some(call) = self.slot(key).and_then(|index| self.calls.get_mut(index)) else { return };
        if let Some((part, replay)) = call.keep_replay(replay)
            && !self.over
        {
            self.emit_part_finished(part, Some(replay));
        }
    }

    /// Whether a key's text is one complete JSON value as it stands. Looks only at what came since the
    /// last time.
    pub fn holds_one_value(&mut self, key: &Key) -> bool {
        self.slot(key).and_then(|index| self.calls.get_mut(index)).is_some_and(Call::is_complete)
    }

    /// Whether a JSON string spells a key's text, or the call has ended: then there is nothing to
    /// [`settle`](Self::settle). Takes no memory, however long the text is.
    pub fn holds_text(&mut self, key: &Key, json: &RawValue) -> bool {
        let call = self.slot(key).and_then(|index| self.calls.get(index));
        call.is_some_and(|call| call.is_over() || spells(json.get(), call.text()))
    }

    /// Whether a key has been announced.
    pub fn knows(&mut self, key: &Key) -> bool {
        self.slot(key).is_some()
    }

    /// A frame that has no typed event, as it came. One that is no JSON is handed on as a string.
    pub fn news(&mut self, name: &str, data: &str) {
        let name = if name.is_empty() { "unnamed" } else { name };
        let raw = RawJson::parse(data).or_else(|_| RawJson::of(data));
        self.provider(name, raw.expect("a text serialises"));
    }

    /// Something of the provider's that has no typed event.
    pub fn provider(&mut self, name: &str, raw: RawJson) {
        if self.over {
            return;
        }
        let may_wait =
            !self.started && self.early.len() < EARLY_NEWS && raw.as_str().len() < EARLY_NEWS_BYTES;
        let news = ProviderEvent::new(name, raw);
        if may_wait {
            return self.early.push(news);
        }
        self.ensure_started();
        self.events.push(Ok(Event::Provider(news)));
    }

    /// A report of tokens. Later ones replace what they say.
    pub fn usage(&mut self, usage: Usage) {
        self.usage.get_or_insert_default().update(usage);
    }

    /// The wire gave a reason. It takes effect when the turn ends; of several the most alarming counts. One
    /// that is no cut says that the turn went on behind the calls that were closed.
    pub fn reason(&mut self, reason: Reason, raw: &str) {
        self.went_on = false;
        let worst = self.reason.as_ref().map_or(reason, |(known, _)| known.or_worse(reason));
        if !worst.is_cut() && !self.has_refusal {
            self.finish_closed();
        }
        if self.reason.as_ref().is_none_or(|(known, _)| *known != worst) {
            self.reason = Some((worst, not_empty(Some(raw)).map(Text::from)));
        }
    }

    /// The wire's own last marker came, or what stands for it.
    pub fn turn_ended(&mut self) {
        if self.over {
            return;
        }
        for index in self.open_calls() {
            self.take_given(index);
        }
        let refusal = self.has_refusal.then_some(Reason::Refusal);
        match self.reason.take() {
            Some((reason, raw)) => {
                let reason = refusal.map_or(reason, |refusal| reason.or_worse(refusal));
                self.end_turn(TurnFinished { raw_reason: raw, ..TurnFinished::new(reason) });
            }
            None => match self.calls.iter_mut().position(Call::is_incomplete) {
                Some(index) => {
                    let name = self.calls.get(index).map(Call::describe).unwrap_or_default();
                    let message = format!("the stream ended without a reason, and {name} is not complete");
                    self.fail(Error::new(ErrorKind::Truncated, message));
                }
                None => {
                    let reason = refusal.unwrap_or(Reason::Stop);
                    self.end_turn(TurnFinished { inferred: true, ..TurnFinished::new(reason) });
                }
            },
        }
    }

    /// The body ended without the wire's last marker.
    pub fn body_ended(&mut self, end: End) {
        if self.finishes_at(&end) {
            return self.turn_ended();
        }
        self.fail(match end {
            End::Broken(error) => error,
            End::Closed if self.is_known() => {
                Error::new(ErrorKind::Truncated, "the body ended before the turn did")
            }
            End::Closed if self.started || !self.early.is_empty() => {
                let wire = self.rules.wire;
                let words =
                    format!("the body ended, and nothing in it is of the wire `{wire}`: is it another's?");
                Error::new(ErrorKind::Truncated, words)
            }
            End::Closed => Error::new(ErrorKind::Truncated, "the body ended and had said nothing"),
        });
    }

    /// Whether anything came that only this wire says, and no other. Tokens are reported alike on several.
    fn is_known(&self) -> bool {
        self.is_named || self.next_part > 0 || !self.calls.is_empty() || self.reason.is_some()
    }

    /// Whether the end of the body finishes the turn: a reason has been given, nothing more was said since,
    /// and the wire says so.
    pub(crate) fn finishes_at(&self, end: &End) -> bool {
        match (self.rules.body_end, end) {
            (BodyEnd::Finishes, _) | (BodyEnd::FinishesIfClean, End::Closed) => {
                self.reason.is_some() && !self.went_on
            }
            _ => false,
        }
    }

    /// The turn ends in an error. Open calls are aborted; calls that were never announced are named in the
    /// error.
    pub fn fail(&mut self, error: Error) {
        if self.over {
            return;
        }
        if !self.early.is_empty() {
            self.ensure_started();
        }
        let reason = match error.kind() {
            ErrorKind::Truncated
            | ErrorKind::IdleTimeout
            | ErrorKind::TotalTimeout
            | ErrorKind::Connect
            | ErrorKind::FirstByteTimeout => AbortReason::Truncated,
            _ => AbortReason::Error,
        };
        for index in self.open_calls() {
            self.abort(index, reason);
        }
        let held: Vec<String> = self.calls.iter().filter(|call| call.is_held()).map(Call::describe).collect();
        let error = match held.is_empty() {
            true => error,
            false => error.with_note(&format!("; never announced: {}", held.join(", "))),
        };
        self.over = true;
        let error = error.with_partial(self.output_given);
        self.events.push(Err(error));
    }

    /// The turn ends because it went over one of the [`Limits`].
    pub fn limit_exceeded(&mut self, limit: &str, most: usize, seen: usize) {
        let message = format!("the reply went over the limit `{limit}`: {seen} of at most {most}");
        self.fail(Error::new(ErrorKind::LimitExceeded, message).with_code(limit));
    }

    fn fail_unknown(&mut self, key: &Key) {
        let message = format!("argument text for the call with key {key}, which was never announced");
        self.fail(Error::new(ErrorKind::Malformed, message));
    }

    fn end_turn(&mut self, mut finished: TurnFinished) {
        let is_cut = finished.reason.is_cut();
        // A call that was cut before it had a name cannot be told to anyone. At a normal end that is an
        // error: the model called something, and nobody knows what.
        if !is_cut && let Some(key) = self.calls.iter().find_map(Call::nameless_key) {
            let key = key.clone();
            return self.fail_unknown(&key);
        }
        for index in 0..self.calls.len() {
            self.begin(index);
        }
        if is_cut {
            self.halves.clear();
            self.end_calls_of_a_cut(finished.reason);
        } else {
            self.finish_closed();
            for index in self.open_calls() {
                self.finish(index);
            }
            if self.has_client_call {
                finished.reason = finished.reason.or_worse(Reason::ToolCalls);
            }
        }
        if self.over {
            return;
        }
        while let Some((part, _)) = self.open_parts.first_key_value() {
            self.part_finished(*part, None);
            // Half a pair that is shown at the end may be what goes over a limit.
            if self.over {
                return;
            }
        }
        finished.usage = self.usage.take().map(Box::new);
        self.ensure_started();
        self.over = true;
        self.events.push(Ok(Event::TurnFinished(finished)));
    }

    /// On a cut only those calls are complete from which the model had moved on: not the one begun last,
    /// and not the one that got the last fragment, even if their text parses.
    fn end_calls_of_a_cut(&mut self, cut: Reason) {
        let reason = match cut {
            Reason::ContentFilter => AbortReason::ContentFilter,
            Reason::Refusal => AbortReason::Refusal,
            _ => AbortReason::Length,
        };
        for index in self.open_calls() {
            let moved_on = index + 1 != self.calls.len() && self.last_fragment != Some(index);
            let is_whole = self.calls.get_mut(index).is_some_and(Call::is_whole_on_a_cut);
            if moved_on && is_whole {
                self.finish(index);
            } else {
                self.abort(index, reason);
            }
        }
    }

    fn finish_closed(&mut self) {
        for index in std::mem::take(&mut self.closed) {
            self.finish(index);
        }
    }

    /// Announces a call whose name is known, with the text that was held.
    fn begin(&mut self, index: usize) {
        let taken = |id: &str, calls: &[Call]| calls.iter().any(|call| call.id() == id);
        let Some(call) = self.calls.get(index) else { return };
        if !call.is_held() || call.name().is_empty() {
            return;
        }
        let ordinal = CallIndex(self.next_call);
        let made_up = call.id().is_empty().then(|| {
            let mut id = format!("turnstream_call_{}", ordinal.0);
            while taken(&id, &self.calls) {
                id.push('_');
            }
            Text::from(id)
        });
        self.next_call += 1;
        let Some(call) = self.calls.get_mut(index) else { return };
        let Some(started) = call.begin(ordinal, made_up) else { return };
        self.open_parts.remove(&started.part);
        let held = call.text().to_owned();
        self.emit(Event::CallStarted(started));
        if !held.is_empty() {
            self.emit_fragment(ordinal, &held);
        }
    }

    /// A call is a part from its first word on, also while it is held: messages keep the wire's order, and
    /// ordinals the order of announcement. A slot that says nothing is neither.
    fn give_part(&mut self, index: usize) {
        if self.calls.get(index).is_some_and(|call| call.is_held() && !call.has_part()) {
            let part = self.new_part();
            self.open_parts.insert(part, None);
            if let Some(call) = self.calls.get_mut(index) {
                call.give_part(part);
            }
        }
    }

    fn append_str(&mut self, index: usize, text: &str) {
        let Some(call) = self.calls.get_mut(index) else { return };
        if text.is_empty() {
            return;
        }
        if call.is_over() {
            // Too late for the call, but not lost.
            let late = serde_json::json!({ "call": call.ordinal().map(|ordinal| ordinal.0), "text": text });
            return self.provider("late_fragment", late.into());
        }
        let length = call.text().len() + text.len();
        if length > self.limits.argument_bytes {
            return self.limit_exceeded("argument_bytes", self.limits.argument_bytes, length);
        }
        call.push(text);
        let ordinal = call.ordinal();
        self.last_fragment = Some(index);
        self.give_part(index);
        if let Some(ordinal) = ordinal {
            self.emit_fragment(ordinal, text);
        }
    }

    /// Ends a call as its marker says: finished, if its text is what it should be.
    fn finish(&mut self, index: usize) {
        self.begin(index);
        self.take_given(index);
        if let Some(half) = self.take_half(Owner::Call(index)) {
            self.append_str(index, half.encode_utf8(&mut [0; 4]));
        }
        let Some(call) = self.calls.get_mut(index) else { return };
        let Some(ordinal) = call.ordinal() else { return };
        if self.over || call.is_over() {
            return;
        }
        if call.is_cut_off() {
            return self.abort(index, AbortReason::Truncated);
        }
        if !call.is_whole() {
            self.has_client_call = true;
            return self.abort(index, AbortReason::Malformed);
        }
        self.has_client_call = true;
        let (id, name, text) = call.end();
        let replay = call.take_replay();
        self.emit(Event::CallFinished(CallFinished::new(ordinal, id, name, text)));
        if let Some((part, replay)) = replay {
            self.emit_part_finished(part, Some(replay));
        }
    }

    fn abort(&mut self, index: usize, reason: AbortReason) {
        self.take_given(index);
        let Some(call) = self.calls.get_mut(index) else { return };
        let Some(ordinal) = call.ordinal() else { return };
        if call.is_over() {
            return;
        }
        let (id, name, text) = call.abort();
        self.halves.remove(&Owner::Call(index));
        let partial = ArgumentFragment::new(&text);
        self.emit(Event::CallAborted(CallAborted::new(ordinal, id, name, partial, reason)));
        if reason == AbortReason::Malformed {
            self.has_client_call = true;
        }
    }

    /// Arguments given whole in the announcement are one fragment, if no other came.
    fn take_given(&mut self, index: usize) {
        let Some(call) = self.calls.get_mut(index) else { return };
        if let Some(given) = call.take_given() {
            // What came last is already known, and this came with the announcement.
            let last_fragment = self.last_fragment;
            self.append_str(index, &given);
            self.last_fragment = last_fragment;
        }
    }

    fn prose(&mut self, kind: Prose, part: PartIndex, text: &JsonText<'_>) {
        if self.over || text.is_empty() {
            return;
        }
        match self.open_parts.get_mut(&part) {
            Some(known) => *known = Some(kind),
            // Too late for the part, but not lost.
            None => {
                let late = serde_json::json!({ "text": text.to_lossy() });
                return self.provider("late_text", late.into());
            }
        }
        match self.join(Owner::Part(part), text) {
            Cow::Borrowed(text) => self.emit_prose(kind, part, text),
            Cow::Owned(text) => self.emit_prose(kind, part, &text),
        }
    }

    fn emit_prose(&mut self, kind: Prose, part: PartIndex, text: &str) {
        if text.is_empty() {
            return;
        }
        self.text_bytes += text.len();
        if self.text_bytes > self.limits.text_bytes {
            return self.limit_exceeded("text_bytes", self.limits.text_bytes, self.text_bytes);
        }
        self.has_refusal |= kind == Prose::Refusal;
        self.emit(match kind {
            Prose::Text => Event::TextDelta(TextDelta::new(part, text)),
            Prose::Reasoning => Event::ReasoningDelta(ReasoningDelta::new(part, text)),
            Prose::Refusal => Event::RefusalDelta(RefusalDelta::new(part, text)),
        });
    }

    /// The text with surrogate halves joined across the pieces of a part or a call.
    fn join<'t>(&mut self, owner: Owner, text: &'t JsonText<'_>) -> Cow<'t, str> {
        if self.halves.is_empty()
            && let Some(text) = text.as_str()
        {
            return Cow::Borrowed(text);
        }
        let mut joiner = self.halves.remove(&owner).unwrap_or_default();
        let joined = joiner.join(text);
        if joiner.is_holding() {
            self.halves.insert(owner, joiner);
        }
        joined
    }

    fn take_half(&mut self, owner: Owner) -> Option<char> {
        self.halves.remove(&owner)?.flush()
    }

    fn flush_half(&mut self, part: PartIndex) {
        let kind = self.open_parts.get(&part).copied().flatten();
        if let (Some(half), Some(kind)) = (self.take_half(Owner::Part(part)), kind) {
            self.emit_prose(kind, part, half.encode_utf8(&mut [0; 4]));
        }
    }

    fn new_part(&mut self) -> PartIndex {
        let part = PartIndex(self.next_part);
        self.next_part = self.next_part.saturating_add(1);
        let count = usize::try_from(self.next_part).unwrap_or(usize::MAX);
        if count > self.limits.parts {
            self.limit_exceeded("parts", self.limits.parts, count);
        }
        part
    }

    fn slot(&mut self, key: &Key) -> Option<usize> {
        if let Some((last, index)) = &self.last_slot
            && last == key
        {
            return Some(*index);
        }
        let index = *self.slots.get(key)?;
        self.last_slot = Some((key.clone(), index));
        Some(index)
    }

    /// The calls that have been announced and not ended, in ordinal order.
    fn open_calls(&self) -> Vec<usize> {
        let mut open: Vec<(CallIndex, usize)> = self
            .calls
            .iter()
            .enumerate()
            .filter(|(_, call)| !call.is_over())
            .filter_map(|(index, call)| Some((call.ordinal()?, index)))
            .collect();
        open.sort_unstable();
        open.into_iter().map(|(_, index)| index).collect()
    }

    fn emit_fragment(&mut self, call: CallIndex, text: &str) {
        let fragment = CallArgumentFragment::new(call, ArgumentFragment::new(text));
        self.emit(Event::CallArgumentFragment(fragment));
    }

    fn emit_part_finished(&mut self, part: PartIndex, replay: Option<RawJson>) {
        let replay = replay.map(|data| Replay::new(self.rules.wire, data));
        self.emit(Event::PartFinished(PartFinished::new(part, replay)));
    }

    fn emit(&mut self, event: Event) {
        if self.over {
            return;
        }
        self.ensure_started();
        self.output_given = true;
        if self.reason.is_some() && is_said_by_the_model(&event) {
            (self.reason_was_early, self.went_on) = (true, true);
        }
        self.events.push(Ok(event));
    }

    fn ensure_started(&mut self) {
        if !self.started {
            self.start(TurnStarted::default());
        }
    }

    fn start(&mut self, started: TurnStarted) {
        self.started = true;
        self.events.push(Ok(Event::TurnStarted(started)));
        for news in std::mem::take(&mut self.early) {
            self.events.push(Ok(Event::Provider(news)));
        }
    }
}

fn is_said_by_the_model(event: &Event) -> bool {
    matches!(
        event,
        Event::TextDelta(_)
            | Event::ReasoningDelta(_)
            | Event::RefusalDelta(_)
            | Event::CallStarted(_)
            | Event::CallArgumentFragment(_)
    )
}

fn not_empty(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// How many pieces of news wait for the turn's name, and how large each may be.
const EARLY_NEWS: usize = 16;
const EARLY_NEWS_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests;
