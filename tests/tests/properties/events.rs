//! Events, compared.

use turnstream::{
    CallFinished, Error, Event,
    wire::{Decode, End, Events},
};
use turnstream_testing::conformance::line;

pub(crate) fn decode(decoder: Box<dyn Decode>, body: &[u8]) -> Vec<Result<Event, Error>> {
    decode_pieces(decoder, [body], End::Closed)
}

/// The events of a body that comes in these pieces and ends like this.
pub(crate) fn decode_pieces<'b>(
    mut decoder: Box<dyn Decode>,
    pieces: impl IntoIterator<Item = &'b [u8]>,
    end: End,
) -> Vec<Result<Event, Error>> {
    let mut events = Events::new();
    for piece in pieces {
        decoder.feed(piece, &mut events);
    }
    decoder.end(end, &mut events);
    events.collect()
}

/// The body in pieces that end at the cuts, which go up.
pub(crate) fn pieces<'b>(body: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let (mut pieces, mut start) = (Vec::with_capacity(cuts.len() + 1), 0);
    for cut in cuts.iter().copied().chain([body.len()]) {
        let cut = cut.clamp(start, body.len());
        pieces.push(&body[start..cut]);
        start = cut;
    }
    pieces
}

/// Equal; errors as their lines are.
pub(crate) fn is_same(one: &Result<Event, Error>, other: &Result<Event, Error>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one == other,
        (Err(_), Err(_)) => line(one) == line(other),
        _ => false,
    }
}

/// How many events two lists have in common at their start.
pub(crate) fn in_common(one: &[Result<Event, Error>], other: &[Result<Event, Error>]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| is_same(one, other)).count()
}

pub(crate) fn are_same(one: &[Result<Event, Error>], other: &[Result<Event, Error>]) -> bool {
    one.len() == other.len() && in_common(one, other) == one.len()
}

/// # Panics
///
/// When the events are not the wanted ones. The message shows the first that differs.
pub(crate) fn assert_same(got: &[Result<Event, Error>], want: &[Result<Event, Error>]) {
    let same = in_common(got, want);
    let shown = |events: &[Result<Event, Error>]| -> String {
        let lines = events.iter().skip(same).take(3).map(line);
        lines.map(|line| format!("\n    {}", line.chars().take(400).collect::<String>())).collect()
    };
    assert!(
        same == got.len() && same == want.len(),
        "event {same} differs; expected:{}\n  got:{}",
        shown(want),
        shown(got)
    );
}

/// The calls that finished, in the order of their end.
pub(crate) fn finished(events: &[Result<Event, Error>]) -> impl Iterator<Item = &CallFinished> {
    events.iter().filter_map(|event| match event {
        Ok(Event::CallFinished(call)) => Some(call),
        _ => None,
    })
}

/// Id, name and arguments of the calls that finished, sorted.
pub(crate) fn finished_calls(events: &[Result<Event, Error>]) -> Vec<(String, String, String)> {
    let mut calls: Vec<_> = finished(events)
        .map(|call| (call.id.to_string(), call.name.to_string(), call.arguments.as_str().to_owned()))
        .collect();
    calls.sort();
    calls
}
