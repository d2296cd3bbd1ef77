//! A reply that stops anywhere never looks whole.

mod marks;

use turnstream::{
    AbortReason, Error, ErrorKind, Event,
    wire::{End, Events},
};
use turnstream_testing::conformance::check_laws;
use turnstream_tests::TestedWire;

use crate::{
    events::{are_same, decode_pieces, finished, in_common, is_same},
    inputs::{Input, inputs},
    trial::{Trial, try_all},
};
use marks::{Marks, May};

/// How many prefixes of a long body are tried: half at random, half around the ends of frames.
const SAMPLE: usize = 256;
/// After how many of its frames a body is broken off by an error of the provider's.
const ERROR_SAMPLE: usize = 128;

#[test]
fn a_reply_that_stops_anywhere_never_looks_whole() {
    try_all("prefixes", inputs(), |input| &input.name, check_prefixes);
}

#[test]
fn an_error_of_the_providers_ends_the_turn_wherever_it_comes() {
    try_all("provider errors", inputs(), |input| &input.name, check_errors);
}

fn check_prefixes(input: &Input, trial: &mut Trial) {
    let marks = Marks::of(input.wire, &input.frames.list);
    let lengths = lengths(input);
    for is_clean in [true, false] {
        // Most bytes give no event: what was checked for the prefix before holds for this one, too.
        let mut checked: Option<(Vec<Result<Event, Error>>, May)> = None;
        for length in lengths.iter().copied() {
            let what = || format!("the first {length} bytes, {}", if is_clean { "closed" } else { "reset" });
            trial.holds(what, || {
                let end = match is_clean {
                    true => End::Closed,
                    false => End::Broken(Error::new(ErrorKind::Truncated, "the connection was reset")),
                };
                let got = decode_pieces(input.decoder(), [&input.body[..length]], end);
                let may = marks.allow(length, is_clean);
                let is_known = checked
                    .as_ref()
                    .is_some_and(|(known, known_may)| *known_may == may && are_same(known, &got));
                if !is_known {
                    check_prefix(&got, &input.whole, &may);
                    checked = Some((got, may));
                }
            });
        }
    }
    if input.is_long() {
        trial.is_sampled();
    }
}

fn lengths(input: &Input) -> Vec<usize> {
    let length = input.body.len();
    if !input.is_long() {
        return (0..length).collect();
    }
    let mut random = fastrand::Rng::with_seed(length as u64);
    let frames = &input.frames.list;
    let around = (0..SAMPLE / 2).map(|_| random.usize(0..frames.len().max(1))).collect::<Vec<_>>();
    let around = around.into_iter().filter_map(|index| frames.get(index));
    let mut lengths: Vec<usize> = around
        .flat_map(|frame| [frame.data_end - 1, frame.data_end, frame.range.end - 1, frame.range.end])
        .collect();
    lengths.extend((0..SAMPLE / 2).map(|_| random.usize(0..length)));
    lengths.sort_unstable();
    lengths
}

fn check_prefix(got: &[Result<Event, Error>], whole: &[Result<Event, Error>], may: &May) {
    check_laws(got);
    for call in finished(got) {
        let known = finished(whole).find(|known| known.call == call.call);
        assert!(known == Some(call), "finished as {call:?}; in the whole reply it is {known:?}");
    }
    let (finished, has_ended) =
        (finished(got).count(), matches!(got.last(), Some(Ok(Event::TurnFinished(_)))));
    assert!(finished <= may.finish_calls, "{finished} calls finished, {} had their marker", may.finish_calls);
    assert!(may.finish_turn || !has_ended, "the turn finished before the wire's end of turn was seen");
    let got = &named(got, whole);
    let rest = &got[in_common(got, whole)..];
    let is_end = |index: &usize| match &rest[*index] {
        Ok(Event::CallAborted(call)) => has_ended || call.reason != AbortReason::Malformed,
        Ok(Event::CallArgumentFragment(_)) if is_given(&rest[*index..], whole) => true,
        Ok(Event::TurnFinished(_)) | Err(_) => true,
        // A body that stops behind its reason is as good as a whole one, if the wire has no last marker or
        // if it closed cleanly. Then its calls, among them those held to the end, and its parts end here;
        // in the whole body something may have come first.
        Ok(
            Event::CallStarted(_)
            | Event::CallArgumentFragment(_)
            | Event::CallFinished(_)
            | Event::PartFinished(_),
        ) => has_ended,
        Ok(_) => false,
    };
    if let Some(other) = (0..rest.len()).find(|index| !is_end(index)) {
        panic!("{:?} is not in the whole reply at this place", rest[other]);
    }
}

/// The events with the whole reply's start, if news came and the name did not: the news waits for it, and then
/// the start has none.
fn named(got: &[Result<Event, Error>], whole: &[Result<Event, Error>]) -> Vec<Result<Event, Error>> {
    let copy = |event: &Result<Event, Error>| match event {
        Ok(event) => Ok(event.clone()),
        Err(error) => Err(Error::new(error.kind(), error.message())),
    };
    let mut named: Vec<_> = got.iter().map(copy).collect();
    let [Ok(Event::TurnStarted(start)), said @ .., Err(_)] = named.as_mut_slice() else { return named };
    let is_news = |event: &Result<Event, Error>| matches!(event, Ok(Event::Provider(_)));
    if let Some(Ok(Event::TurnStarted(known))) = whole.first()
        && start.id.is_none()
        && said.iter().all(is_news)
    {
        *start = known.clone();
    }
    named
}

/// Whether the first of these events is a call's input that came whole with its start. It is a fragment only
/// when the call ends and no other has come: in the whole reply later, here with its abort.
fn is_given(events: &[Result<Event, Error>], whole: &[Result<Event, Error>]) -> bool {
    match events {
        [Ok(Event::CallArgumentFragment(given)), Ok(Event::CallAborted(call)), ..] => {
            let is_all = given.call == call.call && given.fragment == call.partial;
            is_all && whole.iter().any(|event| is_same(event, &events[0]))
        }
        _ => false,
    }
}

fn check_errors(input: &Input, trial: &mut Trial) {
    let frame = |event: &str, data: &str| input.frames.frame(event, data);
    let (code, error) = match input.wire {
        TestedWire::Cohere => (
            Some("ERROR"),
            frame(
                "message-end",
                r#"{"type":"message-end","delta":{"finish_reason":"ERROR","error":"The server had an error"}}"#,
            ),
        ),
        TestedWire::Gemini => (
            Some("UNAVAILABLE"),
            frame(
                "",
                r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
            ),
        ),
        TestedWire::Ollama => (None, frame("", r#"{"error":"The server had an error"}"#)),
        TestedWire::Anthropic => (
            Some("overloaded_error"),
            frame("error", r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
        ),
        TestedWire::Bedrock => (
            Some("serviceUnavailableException"),
            frame("exception:serviceUnavailableException", r#"{"message":"Unavailable"}"#),
        ),
        TestedWire::OpenAiChat => (
            Some("server_error"),
            frame(
                "",
                r#"{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}"#,
            ),
        ),
        TestedWire::OpenAiResponses => (
            Some("server_error"),
            frame(
                "error",
                r#"{"type":"error","code":"server_error","message":"The server had an error","param":null,"sequence_number":9}"#,
            ),
        ),
    };
    for place in input.frames.places(ERROR_SAMPLE) {
        trial.holds(
            || format!("an error frame at {place}"),
            || {
                let (mut decoder, mut events) = (input.decoder(), Events::new());
                decoder.feed(&input.body[..place], &mut events);
                let mut got: Vec<_> = events.by_ref().collect();
                let before = got.len();
                let had_ended = matches!(got.last(), Some(Ok(Event::TurnFinished(_)) | Err(_)));
                decoder.feed(&error, &mut events);
                decoder.feed(&input.body[place..], &mut events);
                decoder.end(End::Closed, &mut events);
                got.extend(events);
                if had_ended {
                    return assert!(got.len() == before, "after the end comes {:?}", got[before]);
                }
                check_laws(&got);
                match got.last() {
                    Some(Err(error)) => {
                        assert_eq!((error.kind(), error.code()), (ErrorKind::Provider, code), "{error}");
                    }
                    other => panic!("after the error comes {other:?}"),
                }
                let got = named(&got, &input.whole);
                let rest = &got[before.max(in_common(&got, &input.whole))..got.len() - 1];
                let is_abort = |index: &usize| {
                    let event = &rest[*index];
                    matches!(event, Ok(Event::CallAborted(call)) if call.reason == AbortReason::Error)
                        || is_given(&rest[*index..], &input.whole)
                };
                let other = (0..rest.len()).find(|index| !is_abort(index)).map(|index| &rest[index]);
                assert!(other.is_none(), "with the error comes {other:?}");
            },
        );
    }
}
