//! A reply that stops anywhere never looks whole.

use turnstream::{
    AbortReason, Error, ErrorKind, Event,
    wire::{End, Events},
};
use turnstream_testing::conformance::check_laws;
use turnstream_tests::TestedWire;

use crate::{
    bodies::{Frame, frame},
    events::{are_same, assert_same, decode_pieces, finished, in_common},
    inputs::{Input, inputs},
    trial::{Trial, try_all},
};

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
                let is_known = checked.as_ref().is_some_and(|(known, known_may)| *known_may == may && are_same(known, &got));
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
    let mut lengths: Vec<usize> =
        around.flat_map(|frame| [frame.data_end - 1, frame.data_end, frame.range.end - 1, frame.range.end]).collect();
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
    let (finished, has_ended) = (finished(got).count(), matches!(got.last(), Some(Ok(Event::TurnFinished(_)))));
    assert!(finished <= may.finish_calls, "{finished} calls finished, {} had their marker", may.finish_calls);
    assert!(may.finish_turn || !has_ended, "the turn finished before the wire's end of turn was seen");
    let rest = &got[in_common(got, whole)..];
    let is_end = |event: &Result<Event, Error>| match event {
        Ok(Event::CallAborted(call)) => has_ended || call.reason != AbortReason::Malformed,
        Ok(Event::TurnFinished(_)) | Err(_) => true,
        // A body that stops behind its reason is as good as a whole one, if the wire has no last marker or
        // if it closed cleanly. Then its calls, among them those held to the end, and its parts end here;
        // in the whole body something may have come first.
        Ok(Event::CallStarted(_) | Event::CallArgumentFragment(_) | Event::CallFinished(_) | Event::PartFinished(_)) => has_ended,
        Ok(_) => false,
    };
    if let Some(other) = rest.iter().find(|event| !is_end(event)) {
        panic!("{other:?} is not in the whole reply at this place");
    }
}

fn check_errors(input: &Input, trial: &mut Trial) {
    let (code, error) = match input.wire {
        TestedWire::Anthropic => (
            "overloaded_error",
            frame("error", r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
        ),
        TestedWire::OpenAiChat => (
            "server_error",
            frame("", r#"{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}"#),
        ),
        TestedWire::OpenAiResponses => (
            "server_error",
            frame("error", r#"{"type":"error","code":"server_error","message":"The server had an error","param":null,"sequence_number":9}"#),
        ),
    };
    for place in input.frames.places(ERROR_SAMPLE) {
        trial.holds(
            || format!("an error frame at {place}"),
            || {
                let (mut decoder, mut events) = (input.decoder(), Events::new());
                decoder.feed(&input.body[..place], &mut events);
                let before: Vec<_> = events.by_ref().collect();
                let had_ended = matches!(before.last(), Some(Ok(Event::TurnFinished(_)) | Err(_)));
                decoder.feed(error.as_bytes(), &mut events);
                decoder.feed(&input.body[place..], &mut events);
                decoder.end(End::Closed, &mut events);
                let mut after: Vec<_> = events.collect();
                if had_ended {
                    return assert_same(&after, &[]);
                }
                match after.pop() {
                    Some(Err(error)) => {
                        assert_eq!((error.kind(), error.code()), (ErrorKind::Provider, Some(code)), "{error}");
                    }
                    other => panic!("after the error comes {other:?}"),
                }
                let is_abort = |event: &Result<Event, Error>| {
                    matches!(event, Ok(Event::CallAborted(call)) if call.reason == AbortReason::Error)
                };
                let other = after.iter().find(|event| !is_abort(event));
                assert!(other.is_none(), "with the error comes {other:?}");
            },
        );
    }
}

/// Where a body says that something is over, read from its frames by the table of the design. All offsets are
/// those at which the data that says it is complete.
struct Marks {
    /// A call may be finished from here on, one a mark.
    calls: Vec<usize>,
    /// The reason, or the last marker: from here on every call may be finished, and the turn.
    turn: usize,
    /// The same for a body that is reset.
    turn_if_reset: usize,
}

/// What a prefix may say.
#[derive(PartialEq)]
struct May {
    finish_calls: usize,
    finish_turn: bool,
}

impl Marks {
    fn of(wire: TestedWire, frames: &[Frame]) -> Self {
        let mut marks = Self { calls: Vec::new(), turn: usize::MAX, turn_if_reset: usize::MAX };
        match wire {
            TestedWire::Anthropic => marks.read_messages(frames),
            TestedWire::OpenAiChat => marks.read_chat(frames),
            TestedWire::OpenAiResponses => marks.read_responses(frames),
        }
        marks
    }

    /// A block's stop finishes a call once the turn goes on: with another block, which may begin without a
    /// start, or with the reason. The turn is finished once the reason is there, however the body ends.
    fn read_messages(&mut self, frames: &[Frame]) {
        let (mut stopped, mut started) = (0, Vec::new());
        for frame in frames {
            let Some(json) = frame.json() else { continue };
            let index = json.get("index").and_then(|index| index.number());
            let goes_on = match frame.kind().as_str() {
                "content_block_start" => true,
                "content_block_delta" => !started.contains(&index),
                "content_block_stop" => {
                    stopped += 1;
                    false
                }
                "message_start" => {
                    let blocks = json.at(&["message", "content"]).map_or(0, |content| content.elements().len());
                    stopped += blocks;
                    started.extend((0..blocks as u64).map(Some));
                    blocks > 0
                }
                "message_stop" => {
                    self.end(frame, true);
                    false
                }
                _ => false,
            };
            if goes_on {
                started.push(index);
                self.calls.extend(vec![frame.data_end; std::mem::take(&mut stopped)]);
            }
            let reasons = [["delta", "stop_reason"], ["message", "stop_reason"]];
            if reasons.iter().any(|path| json.at(path).is_some_and(says_something)) {
                self.end(frame, true);
            }
        }
    }

    /// Everything ends with the reason, if the body closes cleanly, or with the last marker.
    fn read_chat(&mut self, frames: &[Frame]) {
        for frame in frames {
            if frame.data.trim() == "[DONE]" {
                self.end(frame, true);
            }
            let Some(json) = frame.json() else { continue };
            let choices = json.get("choices").map(|choices| choices.elements()).unwrap_or_default();
            if choices.iter().any(|choice| choice.get("finish_reason").is_some_and(says_something)) {
                self.end(frame, false);
            }
        }
    }

    /// A call ends with its item, everything with the terminal event.
    fn read_responses(&mut self, frames: &[Frame]) {
        for frame in frames {
            let Some(json) = frame.json() else { continue };
            match frame.kind().as_str() {
                "response.output_item.done" => {
                    let kind = json.at(&["item", "type"]).and_then(|kind| kind.string());
                    if matches!(kind.as_deref(), Some("function_call" | "custom_tool_call")) {
                        self.calls.push(frame.data_end);
                    }
                }
                "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                    self.end(frame, true);
                }
                _ => {}
            }
        }
    }

    fn end(&mut self, frame: &Frame, also_if_reset: bool) {
        self.turn = self.turn.min(frame.data_end);
        if also_if_reset {
            self.turn_if_reset = self.turn_if_reset.min(frame.data_end);
        }
    }

    fn allow(&self, length: usize, is_clean: bool) -> May {
        let finish_turn = length >= if is_clean { self.turn } else { self.turn_if_reset };
        let calls = self.calls.iter().filter(|mark| **mark <= length).count();
        May { finish_calls: if finish_turn { usize::MAX } else { calls }, finish_turn }
    }
}

fn says_something(value: &crate::json::Json<'_>) -> bool {
    !matches!(value.text, "null" | "\"\"")
}
