//! How much of a reply is taken: every limit through every wire, and nesting without end.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use serde_json::{Value, json};
use turnstream::{
    CallFinished, Error, ErrorKind, Event, Limits,
    wire::{End, Events, reexports::http::HeaderMap},
};
use turnstream_bench::BenchWire;
use turnstream_testing::{
    anthropic,
    conformance::{check_laws, cuts_do_not_matter, decode},
    openai_chat, openai_responses,
};
use turnstream_tests::TestedWire;

/// Deep enough to overflow the stack of a test's thread, if anything recurses.
const DEPTH: usize = 100_000;

/// The wires whose frames are spelled here.
const WIRES: [BenchWire; 3] = [BenchWire::Anthropic, BenchWire::OpenAiChat, BenchWire::OpenAiResponses];

#[test]
fn a_frame_over_the_limit_is_refused_at_its_first_byte_too_many() {
    for wire in WIRES {
        // No frame of any wire: it is too long before its end has come.
        let frame = format!("data: {}", "x".repeat(1000));
        for body in [frame.clone(), format!("{frame}\n\n"), format!("{}{frame}\n\n", opening(wire))] {
            let events = events_of(wire, Limits::new().frame_bytes(512), body.as_bytes());
            assert_over(&events, "frame_bytes", 513, 512);
        }
    }
}

#[test]
fn arguments_over_the_limit_are_refused_with_the_fragment_that_goes_over() {
    // 22 bytes in fragments of 5.
    let arguments = json!({ "order_id": "A-4471" });
    for body in [
        (
            BenchWire::Anthropic,
            anthropic::Reply::new().call("1", "f", arguments.clone()).fragments_of(5).body(),
        ),
        (
            BenchWire::OpenAiChat,
            openai_chat::Reply::new().call("1", "f", arguments.clone()).fragments_of(5).body(),
        ),
        (
            BenchWire::OpenAiResponses,
            openai_responses::Reply::new().call("1", "f", arguments.clone()).fragments_of(5).body(),
        ),
    ] {
        let (wire, body) = body;
        let events = events_of(wire, Limits::new().argument_bytes(12), &body);
        assert_over(&events, "argument_bytes", 15, 12);
        let is_aborted = |event: &Result<Event, Error>| matches!(event, Ok(Event::CallAborted(_)));
        assert!(events.iter().any(is_aborted), "{events:?}");
        let exact = events_of(wire, Limits::new().argument_bytes(arguments.to_string().len()), &body);
        assert!(exact.iter().all(Result::is_ok), "{exact:?}");
    }
}

#[test]
fn arguments_that_come_whole_are_held_to_the_limit_too() {
    for wire in WIRES {
        let body = whole_call(wire, r#"{"order_id":"A-4471"}"#);
        let events = events_of(wire, Limits::new().argument_bytes(12), body.as_bytes());
        assert_over(&events, "argument_bytes", 21, 12);
    }
}

#[test]
fn text_and_reasoning_together_are_held_to_the_limit_of_text() {
    for (wire, body) in [
        (BenchWire::Anthropic, anthropic::Reply::new().reasoning(["12345"]).text(["6789", "012"]).body()),
        (BenchWire::OpenAiChat, openai_chat::Reply::new().reasoning(["12345"]).text(["6789", "012"]).body()),
        (
            BenchWire::OpenAiResponses,
            openai_responses::Reply::new().reasoning(["12345"]).text(["6789", "012"]).body(),
        ),
    ] {
        assert_over(&events_of(wire, Limits::new().text_bytes(10), &body), "text_bytes", 12, 10);
        let exact = events_of(wire, Limits::new().text_bytes(12), &body);
        assert!(exact.iter().all(Result::is_ok), "{exact:?}");
    }
}

#[test]
fn a_call_too_many_is_refused() {
    let calls = || ["1", "2", "3"].map(|id| (id, "f", json!({})));
    for (wire, body) in [
        (BenchWire::Anthropic, anthropic::Reply::new().interleaved_calls(calls()).body()),
        (BenchWire::OpenAiChat, openai_chat::Reply::new().interleaved_calls(calls()).body()),
        (BenchWire::OpenAiResponses, openai_responses::Reply::new().interleaved_calls(calls()).body()),
    ] {
        assert_over(&events_of(wire, Limits::new().calls(2), &body), "calls", 3, 2);
        let exact = events_of(wire, Limits::new().calls(3), &body);
        assert!(exact.iter().all(Result::is_ok), "{exact:?}");
    }
}

#[test]
fn a_part_too_many_is_refused() {
    for (wire, body) in [
        (
            BenchWire::Anthropic,
            anthropic::Reply::new().reasoning(["a"]).text(["b"]).call("1", "f", json!({})).body(),
        ),
        (
            BenchWire::OpenAiChat,
            openai_chat::Reply::new().reasoning(["a"]).text(["b"]).call("1", "f", json!({})).body(),
        ),
        (
            BenchWire::OpenAiResponses,
            openai_responses::Reply::new().reasoning(["a"]).text(["b"]).call("1", "f", json!({})).body(),
        ),
    ] {
        assert_over(&events_of(wire, Limits::new().parts(2), &body), "parts", 3, 2);
        let exact = events_of(wire, Limits::new().parts(3), &body);
        assert!(exact.iter().all(Result::is_ok), "{exact:?}");
    }
}

#[test]
fn an_unknown_field_may_be_nested_without_end() {
    for wire in WIRES {
        let plain = events_of(wire, Limits::new(), text(wire, "").as_bytes());
        let extra = format!(r#","news":{}"#, nested(DEPTH));
        let deep = once(wire, text(wire, &extra).as_bytes());
        assert!(deep.iter().all(Result::is_ok), "{}", wire.name());
        assert_eq!(lines(&deep), lines(&plain), "{}", wire.name());
    }
}

#[test]
fn arguments_that_come_as_an_object_may_be_nested_without_end() {
    for wire in WIRES {
        let arguments = format!(r#"{{"a":{}}}"#, nested(DEPTH));
        let events = once(wire, whole_call(wire, &arguments).as_bytes());
        assert!(events.iter().all(Result::is_ok), "{}", wire.name());
        let finished: Vec<&CallFinished> = events
            .iter()
            .filter_map(|event| match event {
                Ok(Event::CallFinished(call)) => Some(call),
                _ => None,
            })
            .collect();
        let [call] = finished.as_slice() else { panic!("{}: {} calls", wire.name(), finished.len()) };
        assert!(call.arguments == *arguments, "{}: other arguments", wire.name());
        assert!(call.arguments.parse::<Value>().is_err(), "serde_json has a limit of its own");
        read_back(&events);
    }
}

#[test]
fn an_event_of_the_providers_may_be_nested_without_end() {
    for wire in WIRES {
        let news = match wire {
            BenchWire::OpenAiChat => format!(r#"{{"object":"news","what":{}}}"#, nested(DEPTH)),
            _ => format!(r#"{{"type":"news","what":{}}}"#, nested(DEPTH)),
        };
        let body = format!("{}{}", frame(wire, &news), text(wire, ""));
        let events = once(wire, body.as_bytes());
        assert!(events.iter().all(Result::is_ok), "{}", wire.name());
        let provider = events.iter().find_map(|event| match event {
            Ok(Event::Provider(event)) => Some(event),
            _ => None,
        });
        assert_eq!(provider.unwrap().raw.as_str(), news, "{}", wire.name());
        read_back(&events);
    }
}

#[test]
fn an_error_may_be_nested_without_end() {
    for wire in WIRES {
        let error = format!(
            r#"{{"type":"error","error":{{"type":"api_error","message":"No.","why":{}}}}}"#,
            nested(DEPTH)
        );
        let events = once(wire, frame(wire, &error).as_bytes());
        assert_eq!(last_error(&events).kind(), ErrorKind::Provider, "{}", wire.name());

        // In place of a stream only its start is kept, and that is no error body.
        let events = once(wire, error.as_bytes());
        assert_eq!(last_error(&events).kind(), ErrorKind::NotAStream, "{}", wire.name());

        let tested = TestedWire::from_name(wire.name()).unwrap();
        let refused = tested.refused(400, &HeaderMap::new(), error.as_bytes());
        assert_eq!((refused.kind(), refused.status()), (ErrorKind::InvalidRequest, Some(400)));
    }
}

#[test]
fn nesting_that_never_closes_is_a_bad_frame() {
    for wire in WIRES {
        let open = "[".repeat(DEPTH);
        for body in [
            text(wire, &format!(r#","news":{open}"#)),
            whole_call(wire, &format!(r#"{{"a":{open}"#)),
            frame(wire, &open),
        ] {
            let events = once(wire, body.as_bytes());
            assert_eq!(last_error(&events).kind(), ErrorKind::Malformed, "{}", wire.name());
        }
    }
}

/// The events of a body, the same however it is cut.
#[test]
fn a_frame_of_very_many_elements_is_a_bad_frame() {
    for (wire, head, tail) in [
        (TestedWire::OpenAiChat, r#"{"object":"chat.completion.chunk","choices":["#, "]}"),
        (TestedWire::OpenAiChat, r#"{"choices":[{"delta":{"tool_calls":["#, "]}}]}"),
        (TestedWire::Gemini, r#"{"candidates":["#, "]}"),
        (TestedWire::Gemini, r#"{"candidates":[{"content":{"parts":["#, "]}}]}"),
        (TestedWire::OpenAiResponses, r#"{"type":"response.completed","response":{"output":["#, "]}}"),
        (TestedWire::Cohere, r#"{"type":"content-delta","index":0,"delta":{"message":{"content":["#, "]}}}"),
    ] {
        let elements = |count: usize| format!("data: {head}{}{{}}{tail}\n\n", "{},".repeat(count - 1));
        let few = decode(wire.decoder(), elements(1000).as_bytes());
        assert_ne!(last_error_kind(&few), Some(ErrorKind::Malformed), "{} {head}", wire.name());
        let many = decode(wire.decoder(), elements(70_000).as_bytes());
        assert_eq!(last_error_kind(&many), Some(ErrorKind::Malformed), "{} {head}", wire.name());
    }
}

fn last_error_kind(events: &[Result<Event, Error>]) -> Option<ErrorKind> {
    events.last()?.as_ref().err().map(Error::kind)
}

fn events_of(wire: BenchWire, limits: Limits, body: &[u8]) -> Vec<Result<Event, Error>> {
    let events = cuts_do_not_matter(|| wire.decoder(limits), body);
    check_laws(&events);
    events
}

/// The events of a body that is too long to be cut everywhere: the same whole and in pieces.
fn once(wire: BenchWire, body: &[u8]) -> Vec<Result<Event, Error>> {
    let events = decode(wire.decoder(Limits::new()), body);
    check_laws(&events);
    let (mut decoder, mut pieces) = (wire.decoder(Limits::new()), Events::new());
    for piece in body.chunks(1009) {
        decoder.feed(piece, &mut pieces);
    }
    decoder.end(End::Closed, &mut pieces);
    assert!(lines(&pieces.collect::<Vec<_>>()) == lines(&events), "{}: cuts matter", wire.name());
    events
}

fn lines(events: &[Result<Event, Error>]) -> Vec<String> {
    events.iter().map(turnstream_testing::conformance::line).collect()
}

fn read_back(events: &[Result<Event, Error>]) {
    for event in events.iter().flatten() {
        let line = serde_json::to_string(event).unwrap();
        assert!(serde_json::from_str::<Event>(&line).unwrap() == *event, "an event reads back as another");
    }
}

fn assert_over(events: &[Result<Event, Error>], limit: &str, seen: usize, most: usize) {
    let error = last_error(events);
    let want = format!("the reply went over the limit `{limit}`: {seen} of at most {most}");
    // Behind it the error names the calls that were never announced.
    let said = error.message().split(';').next();
    assert_eq!((error.kind(), said), (ErrorKind::LimitExceeded, Some(want.as_str())), "{events:?}");
    assert!(!error.is_retryable());
}

fn last_error(events: &[Result<Event, Error>]) -> &Error {
    events.last().unwrap().as_ref().unwrap_err()
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

/// The first frames of a turn.
fn opening(wire: BenchWire) -> String {
    let body = match wire {
        BenchWire::Anthropic => anthropic::Reply::new().cut().body(),
        BenchWire::OpenAiChat => openai_chat::Reply::new().cut().body(),
        BenchWire::OpenAiResponses => openai_responses::Reply::new().cut().body(),
        wire => unreachable!("{} is not among them", wire.name()),
    };
    String::from_utf8(body).unwrap()
}

/// A turn of one text, with fields of ours in each object of its delta.
fn text(wire: BenchWire, extra: &str) -> String {
    turn(
        wire,
        &match wire {
            BenchWire::Anthropic => format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"Hi."{extra}}}{extra}}}"#
            ),
            BenchWire::OpenAiChat => format!(
                r#"{{"object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{"content":"Hi."{extra}}}{extra}}}]{extra}}}"#
            ),
            BenchWire::OpenAiResponses => format!(
                r#"{{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hi."{extra}}}"#
            ),
            wire => unreachable!("{} is not among them", wire.name()),
        },
    )
}

/// A turn of one call, its arguments an object in the place of a string.
fn whole_call(wire: BenchWire, arguments: &str) -> String {
    turn(
        wire,
        &match wire {
            BenchWire::Anthropic => format!(
                r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","id":"1","name":"f","input":{arguments}}}}}"#
            ),
            BenchWire::OpenAiChat => format!(
                r#"{{"object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"1","function":{{"name":"f","arguments":{arguments}}}}}]}}}}]}}"#
            ),
            BenchWire::OpenAiResponses => format!(
                r#"{{"type":"response.output_item.done","output_index":0,"item":{{"type":"function_call","id":"1","call_id":"1","name":"f","arguments":{arguments}}}}}"#
            ),
            wire => unreachable!("{} is not among them", wire.name()),
        },
    )
}

/// A turn with this frame in it.
fn turn(wire: BenchWire, data: &str) -> String {
    let stop = json!({ "type": "content_block_stop", "index": 0 });
    let body = match wire {
        BenchWire::Anthropic => anthropic::Reply::new().frame("", data).frame("", stop).body(),
        BenchWire::OpenAiChat => openai_chat::Reply::new().frame("", data).body(),
        BenchWire::OpenAiResponses => openai_responses::Reply::new().frame("", data).body(),
        wire => unreachable!("{} is not among them", wire.name()),
    };
    String::from_utf8(body).unwrap()
}

/// This frame alone.
fn frame(wire: BenchWire, data: &str) -> String {
    let chunks = match wire {
        BenchWire::Anthropic => anthropic::Reply::new().frame("", data).cut().chunks(),
        BenchWire::OpenAiChat => openai_chat::Reply::new().frame("", data).cut().chunks(),
        BenchWire::OpenAiResponses => openai_responses::Reply::new().frame("", data).cut().chunks(),
        wire => unreachable!("{} is not among them", wire.name()),
    };
    String::from_utf8(chunks.into_iter().next_back().unwrap()).unwrap()
}
