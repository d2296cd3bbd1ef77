//! Replies without HTTP: the events themselves.

use turnstream_core::{
    Announcement, BodyEnd, Closing, End, Error, ErrorKind, Event, Events, JsonText, Key, Ledger, Limits,
    PartIndex, RawJson, Reason, Rules, Usage,
};

use crate::{
    gate::Gate,
    plan::{Ending, Plan, PlannedCall, Prose, Render, by_turns},
};

/// A reply for a [`ScriptedModel`](crate::ScriptedModel). See [`Reply`](crate::Reply) for its words.
///
/// Its events come from the same ledger as those of a real wire, so they keep the same laws: a reply that
/// is [`cut`](crate::Reply::cut) aborts its open call and ends in `Truncated`, one that is cut by
/// [`length`](crate::Reply::length) aborts its last call. Words for [`stop`](crate::Reply::stop) are those
/// of [`Reason`] (`pause`, `other`, ...); any other is `other`.
///
/// ```
/// use turnstream_core::Event;
/// use turnstream_testing::events::Reply;
///
/// let events = Reply::new().call_raw("call_1", "lookup_order", "{\"order").length().events();
/// assert!(matches!(events.last(), Some(Ok(Event::TurnFinished(_)))));
/// assert!(events.iter().flatten().any(|event| matches!(event, Event::CallAborted(_))));
/// ```
pub type Reply = crate::Reply<AsEvents>;

/// The form of replies that are events.
#[derive(Debug, Clone, Copy, Default)]
pub struct AsEvents {
    _private: (),
}

impl Reply {
    /// A reply that says nothing yet and ends well.
    pub fn new() -> Self {
        Self { plan: Plan::new(), form: AsEvents::default() }
    }

    /// The events, as a turn gives them out.
    pub fn events(&self) -> Vec<Result<Event, Error>> {
        let items = self.items().into_iter();
        items
            .filter_map(|item| match item {
                Item::Event(event) => Some(event),
                Item::Gate(_) => None,
            })
            .collect()
    }

    pub(crate) fn items(&self) -> Vec<Item> {
        let rules = Rules::new("scripted", Closing::MarkerAndMore, BodyEnd::Cuts);
        let mut renderer = Renderer {
            ledger: Ledger::new(rules, Limits::new()),
            items: Vec::new(),
            open_parts: Vec::new(),
            open_calls: Vec::new(),
            next_call: 0,
        };
        self.plan.render(&mut renderer);
        renderer.ledger.body_ended(End::Closed);
        renderer.drain();
        renderer.items
    }
}

impl Default for Reply {
    fn default() -> Self {
        Self::new()
    }
}

/// What a scripted reply consists of.
#[derive(Debug)]
pub(crate) enum Item {
    Event(Result<Event, Error>),
    Gate(Gate),
}

#[derive(Debug)]
struct Renderer {
    ledger: Ledger,
    items: Vec<Item>,
    open_parts: Vec<(PartIndex, Option<RawJson>)>,
    open_calls: Vec<Key>,
    next_call: u64,
}

impl Renderer {
    fn drain(&mut self) {
        let mut events = Events::new();
        self.ledger.swap_events(&mut events);
        self.items.extend(events.map(Item::Event));
    }
}

impl Render for Renderer {
    fn start(&mut self, plan: &Plan) {
        self.ledger.turn_started(Some(plan.id.as_deref().unwrap_or("turn_test")), Some(&plan.model));
    }

    fn prose(&mut self, prose: Prose, pieces: &[String]) {
        let part = self.ledger.part_began();
        for piece in pieces {
            let piece = JsonText::from(piece.as_str());
            match prose {
                Prose::Text => self.ledger.text(part, &piece),
                Prose::Reasoning => self.ledger.reasoning(part, &piece),
                Prose::Refusal => self.ledger.refusal(part, &piece),
            }
        }
        let replay = (prose == Prose::Reasoning)
            .then(|| serde_json::json!({ "signature": format!("c2lnbmF0dXJl{}", part.0) }).into());
        self.open_parts.push((part, replay));
    }

    fn calls(&mut self, calls: &[PlannedCall]) {
        let keys: Vec<Key> = calls
            .iter()
            .map(|call| {
                let key = Key::Index(self.next_call);
                self.next_call += 1;
                self.ledger.announce(key.clone(), Announcement::new(Some(&call.id), Some(&call.name)));
                key
            })
            .collect();
        for (call, fragment) in by_turns(calls) {
            if let Some(key) = keys.get(call) {
                self.ledger.append(key, &JsonText::from(fragment));
            }
        }
        self.open_calls.extend(keys);
    }

    fn close(&mut self, _is_cut: bool) {
        for (part, replay) in std::mem::take(&mut self.open_parts) {
            self.ledger.part_finished(part, replay);
        }
        for key in std::mem::take(&mut self.open_calls) {
            self.ledger.close(&key);
        }
    }

    fn ping(&mut self) {}

    fn own_frame(&mut self, _event: &str, _data: &str) {}

    fn raw(&mut self, _bytes: &[u8]) {}

    fn gate(&mut self, gate: &Gate) {
        self.drain();
        self.items.push(Item::Gate(gate.clone()));
    }

    fn error(&mut self, code: &str, message: &str) {
        self.ledger.fail(Error::new(ErrorKind::Provider, message).with_code(code));
    }

    fn end(&mut self, plan: &Plan) {
        if let Some((input, output)) = plan.usage {
            let mut usage = Usage::default();
            usage.input_tokens = Some(input);
            usage.output_tokens = Some(output);
            self.ledger.usage(usage);
        }
        let (reason, word) = match &plan.ending {
            Ending::Length => (Reason::Length, ""),
            Ending::ContentFilter => (Reason::ContentFilter, ""),
            Ending::Word(word) => {
                let reason = serde_json::from_value(word.as_str().into()).unwrap_or(Reason::Other);
                (reason, word.as_str())
            }
            Ending::Inferred | Ending::Cut => (Reason::Stop, ""),
        };
        self.ledger.reason(reason, word);
        self.ledger.turn_ended();
    }
}
