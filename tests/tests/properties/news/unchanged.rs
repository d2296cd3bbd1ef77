//! Events without the news in them.

use std::collections::{BTreeMap, BTreeSet};

use turnstream::{Error, Event, PartIndex, RawJson, TurnStarted};

use super::NEWS;

/// The events without those that are about news only; the parts that are left are numbered anew.
pub(super) fn without_news(events: &[Result<Event, Error>]) -> Vec<Result<Event, Error>> {
    let is_news = |event: &&Event| match event {
        // Frames without a name, or with a known one, are known by what they say.
        Event::Provider(provider) => provider.name.contains(NEWS) || provider.raw.as_str().contains(NEWS),
        Event::PartFinished(finished) => finished
            .replay
            .as_ref()
            .is_some_and(|replay| replay.data.as_str().contains("\"type\":\"x_news\"")),
        _ => false,
    };
    let mut kept = renumbered(events, |event| (!is_news(&event)).then(|| event.clone()));
    let is_unnamed = |start: &TurnStarted| *start == TurnStarted::default();
    if matches!(&kept[..], [Ok(Event::TurnStarted(start)), Err(_)] if is_unnamed(start)) {
        // Without the news there was nothing to start for.
        kept.drain(..1);
    }
    kept
}

/// The events without what may show an unknown field: the provider's own objects, and the errors' bodies.
pub(super) fn roughly(events: &[Result<Event, Error>]) -> Vec<Result<Event, Error>> {
    let mut opaque: BTreeSet<PartIndex> = BTreeSet::new();
    let mut calls: BTreeSet<PartIndex> = BTreeSet::new();
    for event in events.iter().flatten() {
        match event {
            Event::CallStarted(call) => drop(calls.insert(call.part)),
            Event::PartFinished(finished) => drop(opaque.insert(finished.part)),
            _ => {}
        }
    }
    for part in
        events.iter().flatten().filter(|event| !matches!(event, Event::PartFinished(_))).filter_map(part)
    {
        opaque.remove(&part);
    }
    renumbered(events, |event| {
        let mut event = event.clone();
        match &mut event {
            Event::Provider(_) => return None,
            // What a call carries besides its arguments goes back with it, the unknown too.
            Event::PartFinished(finished) if calls.contains(&finished.part) => return None,
            Event::PartFinished(finished) if opaque.contains(&finished.part) => return None,
            Event::PartFinished(finished) => {
                if let Some(replay) = &mut finished.replay {
                    replay.data = RawJson::parse("null").unwrap();
                }
            }
            Event::Citation(citation) => citation.raw = RawJson::parse("null").unwrap(),
            _ => {}
        }
        Some(event)
    })
}

fn renumbered(
    events: &[Result<Event, Error>],
    keep: impl Fn(&Event) -> Option<Event>,
) -> Vec<Result<Event, Error>> {
    let mut kept: Vec<Result<Event, Error>> = Vec::with_capacity(events.len());
    for event in events {
        match event {
            Ok(event) => kept.extend(keep(event).map(Ok)),
            Err(error) => {
                // A part that is news is output, and makes the error partial.
                let is_output = |event: &Event| !matches!(event, Event::TurnStarted(_) | Event::Provider(_));
                let is_partial = kept.iter().flatten().any(is_output);
                kept.push(Err(without_body(error).with_partial(is_partial)));
            }
        }
    }
    let parts: BTreeSet<PartIndex> = kept.iter().flatten().filter_map(part).collect();
    let numbers: BTreeMap<PartIndex, PartIndex> = parts.into_iter().zip((0..).map(PartIndex)).collect();
    for event in kept.iter_mut().flatten() {
        if let Some(part) = part_mut(event) {
            *part = numbers[part];
        }
    }
    kept
}

/// An error's body is the frame that it is about, or the start of the reply.
fn without_body(error: &Error) -> Error {
    let copy = Error::new(error.kind(), error.message());
    match error.code() {
        Some(code) => copy.with_code(code),
        None => copy,
    }
}

fn part(event: &Event) -> Option<PartIndex> {
    match event {
        Event::TextDelta(delta) => Some(delta.part),
        Event::ReasoningDelta(delta) => Some(delta.part),
        Event::RefusalDelta(delta) => Some(delta.part),
        Event::CallStarted(call) => Some(call.part),
        Event::PartFinished(finished) => Some(finished.part),
        Event::Citation(citation) => Some(citation.part),
        _ => None,
    }
}

fn part_mut(event: &mut Event) -> Option<&mut PartIndex> {
    match event {
        Event::TextDelta(delta) => Some(&mut delta.part),
        Event::ReasoningDelta(delta) => Some(&mut delta.part),
        Event::RefusalDelta(delta) => Some(&mut delta.part),
        Event::CallStarted(call) => Some(&mut call.part),
        Event::PartFinished(finished) => Some(&mut finished.part),
        Event::Citation(citation) => Some(&mut citation.part),
        _ => None,
    }
}
