//! The items of a turn: which is which, and what becomes of each.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;
use turnstream_core::{
    Announcement, Citation, InputKind, JsonText, Key, Ledger, PartIndex, RawJson, Text, is_json,
};

use super::{Channel, as_str, settle, text_of};

/// The items of the turn so far.
#[derive(Debug, Default)]
pub(super) struct Items {
    items: Vec<Item>,
    by_index: BTreeMap<u64, usize>,
    by_id: HashMap<Text, usize>,
    /// The server gave several items one index: there the id decides.
    is_index_shared: bool,
    /// Kinds of prose that came without an index. If the snapshot knows it under other ids, too, nothing
    /// tells whether it was said already, and saying it twice is worse.
    unplaced: HashSet<ItemKind>,
}

/// What an event says of the item that it belongs to. The id may be empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) output_index: Option<u64>,
    pub(super) id: &'a str,
}

#[derive(Debug)]
pub(super) struct Item {
    kind: ItemKind,
    output_index: Option<u64>,
    call_id: Text,
    /// The ledger's key, if it is a call: in the wire's words, for errors.
    key: Key,
    /// Begun with the item, and taken by its first content part.
    first_part: Option<PartIndex>,
    contents: BTreeMap<(Channel, u64), ContentPart>,
    is_done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ItemKind {
    Call(InputKind),
    Message,
    Reasoning,
    /// One of the provider's own tools, or news.
    Other,
}

impl ItemKind {
    fn is_prose(self) -> bool {
        matches!(self, Self::Message | Self::Reasoning)
    }
}

#[derive(Debug)]
struct ContentPart {
    part: PartIndex,
    has_text: bool,
    has_citation: bool,
}

/// Where an item was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    Added,
    Done,
    /// In the snapshot of the terminal event, at this position, which need not be the item's index.
    Snapshot {
        position: u64,
        is_complete: bool,
    },
}

impl Items {
    /// The item that a delta belongs to.
    fn find(&self, Place { output_index, id }: Place<'_>) -> Option<usize> {
        let by_id = || self.by_id.get(id).copied().filter(|_| !id.is_empty());
        let latest = output_index.and_then(|index| self.by_index.get(&index)).copied();
        match latest {
            Some(_) if self.is_index_shared => {
                by_id().filter(|item| self.has_index(*item, output_index)).or(latest)
            }
            Some(_) => latest,
            None => by_id(),
        }
    }

    fn has_index(&self, item: usize, output_index: Option<u64>) -> bool {
        self.items.get(item).is_some_and(|item| item.output_index == output_index)
    }

    /// The ledger's key for a piece of arguments; for no known call one that the ledger does not know.
    pub(super) fn call_key(&self, place: Place<'_>) -> Cow<'_, Key> {
        match self.find(place).and_then(|item| self.items.get(item)) {
            Some(item) => Cow::Borrowed(&item.key),
            None => Cow::Owned(place.output_index.map_or_else(|| Key::Item(place.id.into()), Key::Index)),
        }
    }

    /// The item that a piece of prose belongs to. One that no event announced begins here; a piece that
    /// names none goes on with the last one.
    pub(super) fn prose_item(
        &mut self,
        channel: Channel,
        place: Place<'_>,
        ledger: &mut Ledger,
    ) -> &mut Item {
        let kind = match channel {
            Channel::Text | Channel::Refusal => ItemKind::Message,
            Channel::Summary | Channel::Reasoning => ItemKind::Reasoning,
        };
        let Place { output_index, id } = place;
        let known = self.find(place).or_else(|| {
            let last = self.items.len().checked_sub(1)?;
            let names_none = output_index.is_none() && id.is_empty();
            (names_none && self.is_open(last, kind)).then_some(last)
        });
        let item = known.unwrap_or_else(|| {
            if output_index.is_none() {
                self.unplaced.insert(kind);
            }
            self.begin(kind, output_index, id, "", ledger)
        });
        self.items.get_mut(item).expect("the item was found, or has just begun")
    }

    fn is_open(&self, item: usize, kind: ItemKind) -> bool {
        self.items.get(item).is_some_and(|item| item.kind == kind && !item.is_done)
    }

    /// The calls that have not ended are cut, whatever their text is.
    pub(super) fn cut_off(&self, ledger: &mut Ledger) {
        for item in self.items.iter().filter(|item| !item.is_done) {
            ledger.cut_off(&item.key);
        }
    }

    fn begin(
        &mut self,
        kind: ItemKind,
        output_index: Option<u64>,
        id: &str,
        call_id: &str,
        ledger: &mut Ledger,
    ) -> usize {
        let position = self.items.len();
        let is_shared = output_index.is_some_and(|index| self.by_index.contains_key(&index));
        self.is_index_shared |= is_shared;
        let name = if id.is_empty() { call_id } else { id };
        let key = match output_index {
            Some(index) if !is_shared => Key::Index(index),
            _ if name.is_empty() || self.by_id.contains_key(name) => {
                Key::Item(format!("{name}#{position}").into())
            }
            _ => Key::Item(name.into()),
        };
        if let Some(index) = output_index {
            self.by_index.insert(index, position);
        }
        let is_call = matches!(kind, ItemKind::Call(_));
        self.items.push(Item {
            kind,
            output_index,
            call_id: call_id.into(),
            key,
            first_part: (!is_call).then(|| ledger.part_began()),
            contents: BTreeMap::new(),
            is_done: false,
        });
        self.alias(position, id, call_id);
        position
    }

    /// Notes the names under which deltas may call an item. A name keeps its item until that is done.
    fn alias(&mut self, item: usize, id: &str, call_id: &str) {
        let prefixed = format!("fc_{call_id}");
        let call_ids = [call_id, prefixed.as_str()].into_iter().filter(|_| !call_id.is_empty());
        for name in [id].into_iter().filter(|id| !id.is_empty()).chain(call_ids) {
            let holder = self.by_id.get(name).and_then(|holder| self.items.get(*holder));
            if holder.is_none_or(|holder| holder.is_done) {
                self.by_id.insert(name.into(), item);
            }
        }
    }

    /// The known item that an item event or a snapshot speaks of.
    fn known(
        &self,
        seen: Seen,
        kind: ItemKind,
        output_index: Option<u64>,
        id: &str,
        call_id: &str,
    ) -> Option<usize> {
        let fits = |position: &usize| {
            self.items.get(*position).is_some_and(|item| {
                let same_call = call_id.is_empty() || item.call_id.is_empty() || item.call_id == *call_id;
                item.kind == kind && same_call
            })
        };
        let index = match seen {
            Seen::Snapshot { position, .. } => Some(position),
            Seen::Added | Seen::Done => output_index,
        };
        let by_index = index.and_then(|index| self.by_index.get(&index).copied()).filter(fits);
        let by_id = || {
            [id, call_id]
                .into_iter()
                .filter(|name| !name.is_empty())
                .filter_map(|name| self.by_id.get(name).copied())
                .filter(fits)
                // Ids may repeat; different indexes are different items.
                .find(|item| {
                    let is_other = output_index.is_some() && !self.has_index(*item, output_index);
                    !is_other || self.has_index(*item, None)
                })
        };
        match seen {
            // What is announced again after its end is another item, unless it is the very same call.
            Seen::Added if index.is_some() => by_index.filter(|item| {
                let is_done = self.items.get(*item).is_some_and(|item| item.is_done);
                !is_done || matches!(kind, ItemKind::Call(_))
            }),
            Seen::Added => by_id().filter(|item| self.is_open(*item, kind)),
            Seen::Done => by_index.or_else(by_id).or_else(|| {
                let last = self.items.len().checked_sub(1)?;
                (kind.is_prose() && index.is_none() && self.is_open(last, kind)).then_some(last)
            }),
            Seen::Snapshot { .. } => by_index.or_else(by_id),
        }
    }

    /// Takes an item out of an item event or a snapshot. `raw` finds it as it stands, which is rarely asked for.
    pub(super) fn take<'r>(
        &mut self,
        seen: Seen,
        output_index: Option<u64>,
        body: &ItemBody<'_>,
        raw: impl FnOnce() -> Option<&'r RawValue>,
        ledger: &mut Ledger,
    ) {
        let name = text_of(body.name);
        let name = name.as_ref().and_then(JsonText::as_str).unwrap_or_default();
        let kind = match name {
            "function_call" => ItemKind::Call(InputKind::Json),
            "custom_tool_call" => ItemKind::Call(InputKind::Text),
            "message" => ItemKind::Message,
            "reasoning" => ItemKind::Reasoning,
            _ => ItemKind::Other,
        };
        let (id, call_id) = (text_of(body.id), text_of(body.call_id));
        let id = as_str(&id).unwrap_or_default();
        let call_id = as_str(&call_id).unwrap_or_default();
        let known = self.known(seen, kind, output_index, id, call_id);
        let is_snapshot = matches!(seen, Seen::Snapshot { .. });
        if known.is_none() && is_snapshot && self.unplaced.contains(&kind) {
            return;
        }
        let position = known.unwrap_or_else(|| {
            if output_index.is_none() && !is_snapshot && kind.is_prose() {
                self.unplaced.insert(kind);
            }
            self.begin(kind, output_index, id, call_id, ledger)
        });
        self.alias(position, id, call_id);
        let Some(item) = self.items.get_mut(position).filter(|item| !item.is_done) else { return };
        if let ItemKind::Call(input) = kind {
            let is_first = known.is_none() && seen == Seen::Added;
            item.announce(input, if call_id.is_empty() { id } else { call_id }, body, is_first, ledger);
        }
        if seen == Seen::Added {
            if kind == ItemKind::Other
                && known.is_none()
                && let Some(raw) = raw()
            {
                ledger.news(name, raw.get());
            }
            return;
        }
        item.is_done = true;
        match kind {
            ItemKind::Call(_) => item.finish_call(seen, body, ledger),
            ItemKind::Message => item.finish_message(body, ledger),
            ItemKind::Reasoning => {
                item.say_rest(Channel::Summary, body.summary, ledger);
                item.say_rest(Channel::Reasoning, body.content, ledger);
                item.finish_parts(raw(), ledger);
            }
            ItemKind::Other => item.finish_parts(raw(), ledger),
        }
    }
}

impl Item {
    /// Names the call, or says what was not known of it. Whole arguments in the announcement count if no
    /// fragment comes; the beginning of some counts at once.
    fn announce(
        &mut self,
        input: InputKind,
        id: &str,
        body: &ItemBody<'_>,
        is_first: bool,
        ledger: &mut Ledger,
    ) {
        let name = text_of(body.tool);
        let call = Announcement::new(Some(id), as_str(&name)).with_input(input);
        let given = if is_first { text_of(body.arguments_of(input)) } else { None };
        let given = given.filter(|given| !given.is_empty());
        let whole = as_str(&given).filter(|given| input == InputKind::Text || is_json(given));
        match (&given, whole) {
            (_, Some(whole)) => ledger.announce(self.key.clone(), call.with_given(whole)),
            (None, None) => ledger.announce(self.key.clone(), call),
            (Some(beginning), None) => {
                ledger.announce(self.key.clone(), call);
                ledger.settle(&self.key, beginning);
            }
        }
    }

    fn finish_call(&mut self, seen: Seen, body: &ItemBody<'_>, ledger: &mut Ledger) {
        let ItemKind::Call(input) = self.kind else { return };
        if let Some(kept) = body.kept() {
            ledger.call_replay(&self.key, kept);
        }
        settle(&self.key, body.arguments_of(input), ledger);
        let status = text_of(body.status);
        match as_str(&status) {
            // A reply that was cut does not say by silence that a call is whole: it is still open.
            None if matches!(seen, Seen::Snapshot { is_complete: false, .. }) => self.is_done = false,
            None | Some("completed" | "") => ledger.close(&self.key),
            Some(_) => ledger.cut_off(&self.key),
        }
    }

    fn finish_message(&mut self, body: &ItemBody<'_>, ledger: &mut Ledger) {
        self.say_rest(Channel::Text, body.content, ledger);
        self.say_rest(Channel::Refusal, body.content, ledger);
        if !self.contents.values().any(|content| content.has_citation) {
            for (index, content) in (0..).zip(contents(body.content)) {
                for annotation in list(content.and_then(|content| content.annotations)) {
                    self.cite(index, annotation, ledger);
                }
            }
        }
        if let Some(empty) = self.first_part.take() {
            ledger.part_finished(empty, None);
        }
        let kept = body.kept();
        for part in self.parts() {
            ledger.part_finished(part, kept.clone());
        }
    }

    /// Ends the parts of an item that goes back as it came: the last one keeps it.
    fn finish_parts(&mut self, raw: Option<&RawValue>, ledger: &mut Ledger) {
        let mut parts = self.parts();
        parts.extend(self.first_part.take());
        let last = parts.pop();
        for part in parts {
            ledger.part_finished(part, None);
        }
        if let Some(last) = last {
            ledger.part_finished(last, raw.map(RawJson::from));
        }
    }

    fn parts(&self) -> Vec<PartIndex> {
        let mut parts: Vec<PartIndex> = self.contents.values().map(|content| content.part).collect();
        parts.sort_unstable();
        parts
    }

    fn content(&mut self, channel: Channel, index: u64, ledger: &mut Ledger) -> &mut ContentPart {
        let first_part = &mut self.first_part;
        self.contents.entry((channel, index)).or_insert_with(|| {
            let part = first_part.take().unwrap_or_else(|| ledger.part_began());
            ContentPart { part, has_text: false, has_citation: false }
        })
    }

    pub(super) fn has_text(&self, channel: Channel, index: u64) -> bool {
        self.contents.get(&(channel, index)).is_some_and(|content| content.has_text)
    }

    pub(super) fn say(&mut self, channel: Channel, index: u64, text: &JsonText<'_>, ledger: &mut Ledger) {
        let content = self.content(channel, index, ledger);
        content.has_text = true;
        match channel {
            Channel::Text => ledger.text(content.part, text),
            Channel::Refusal => ledger.refusal(content.part, text),
            Channel::Summary | Channel::Reasoning => ledger.reasoning(content.part, text),
        }
    }

    /// Says what the whole item has in a channel, if nothing of that channel came before.
    fn say_rest(&mut self, channel: Channel, whole: Option<&RawValue>, ledger: &mut Ledger) {
        if self.contents.iter().any(|((said, _), content)| *said == channel && content.has_text) {
            return;
        }
        for (index, content) in (0..).zip(contents(whole)) {
            let Some(content) = content else { continue };
            let name = text_of(content.name);
            let text = match (channel, as_str(&name)) {
                (Channel::Text, Some("output_text" | "text"))
                | (Channel::Summary, Some("summary_text"))
                | (Channel::Reasoning, Some("reasoning_text")) => text_of(content.text),
                (Channel::Refusal, Some("refusal")) => text_of(content.refusal),
                _ => None,
            };
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                self.say(channel, index, &text, ledger);
            }
        }
    }

    pub(super) fn cite(&mut self, index: u64, annotation: &RawValue, ledger: &mut Ledger) {
        let content = self.content(Channel::Text, index, ledger);
        content.has_citation = true;
        let (url, title) = match serde_json::from_str::<Annotation<'_>>(annotation.get()) {
            Ok(known) => (text_of(known.url), text_of(known.title.or(known.filename))),
            Err(_) => (None, None),
        };
        let text = |text: Option<JsonText<'_>>| text.map(|text| Text::from(&*text.to_lossy()));
        ledger.citation(Citation::new(content.part, text(url), text(title), annotation.into()));
    }
}

/// What stands in the place of an item, read with its frame. Whether it has to be one is for the frame to say: most
/// frames do not look at the items that they have.
pub(super) struct AnyItem<'a>(Option<ItemBody<'a>>);

/// An item. What other items than calls, messages and reasoning hold may have any form.
#[derive(Deserialize)]
pub(super) struct ItemBody<'a> {
    #[serde(borrow, default, rename = "type")]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    call_id: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "name")]
    tool: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    phase: Option<&'a RawValue>,
    #[serde(borrow, default)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow, default)]
    caller: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default, rename = "type")]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    annotations: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Annotation<'a> {
    #[serde(borrow, default)]
    url: Option<&'a RawValue>,
    #[serde(borrow, default)]
    title: Option<&'a RawValue>,
    #[serde(borrow, default)]
    filename: Option<&'a RawValue>,
}

/// What goes back of a call or a message besides what its part says.
#[derive(Serialize)]
struct Kept<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a RawValue>,
}

impl<'a> AnyItem<'a> {
    /// The item.
    ///
    /// # Errors
    ///
    /// It is no object.
    pub(super) fn body(&self) -> Result<&ItemBody<'a>, serde_json::Error> {
        self.0.as_ref().ok_or_else(|| serde_json::Error::custom("the item is no object"))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for AnyItem<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyItemVisitor)
    }
}

struct AnyItemVisitor;

impl<'de> Visitor<'de> for AnyItemVisitor {
    type Value = AnyItem<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an item")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
        ItemBody::deserialize(MapAccessDeserializer::new(map)).map(Some).map(AnyItem)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, list: S) -> Result<Self::Value, S::Error> {
        IgnoredAny.visit_seq(list).map(|_| AnyItem(None))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(AnyItem(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(AnyItem(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(AnyItem(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(AnyItem(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(AnyItem(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(AnyItem(None))
    }
}

impl<'a> ItemBody<'a> {
    fn arguments_of(&self, input: InputKind) -> Option<&'a RawValue> {
        if input == InputKind::Text { self.input } else { self.arguments }
    }

    /// What must go back of the item besides what its part says.
    fn kept(&self) -> Option<RawJson> {
        let Self { id, status, phase, namespace, caller, .. } = *self;
        [id, phase, namespace, caller].iter().any(Option::is_some).then(|| {
            RawJson::of(&Kept { id, status, phase, namespace, caller })
                .expect("fields that were JSON are JSON")
        })
    }
}

/// The contents of an item; `None` for one that is none.
fn contents(raw: Option<&RawValue>) -> Vec<Option<Content<'_>>> {
    match raw.map(|raw| serde_json::from_str(raw.get())) {
        Some(Ok(contents)) => contents,
        Some(Err(_)) => list(raw).into_iter().map(|raw| serde_json::from_str(raw.get()).ok()).collect(),
        None => Vec::new(),
    }
}

/// The elements of a list; of anything else none.
fn list(raw: Option<&RawValue>) -> Vec<&RawValue> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}
