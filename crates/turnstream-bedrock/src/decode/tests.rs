use serde_json::{Value, json};
use turnstream_core::{Decode as _, Decoder, End, Events, TurnBuilder};

use super::*;
use crate::EventStreamFramer;

/// A message with good checksums.
fn message(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
    let mut written = Vec::new();
    for (name, value) in headers {
        written.push(u8::try_from(name.len()).unwrap());
        written.extend_from_slice(name.as_bytes());
        written.push(7);
        written.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        written.extend_from_slice(value.as_bytes());
    }
    let length = u32::try_from(16 + written.len() + payload.len()).unwrap();
    let headers_length = u32::try_from(written.len()).unwrap();
    let mut bytes = [length.to_be_bytes(), headers_length.to_be_bytes()].concat();
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend_from_slice(&written);
    bytes.extend_from_slice(payload.as_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

fn text_frame(name: &str, payload: &str) -> Vec<u8> {
    message(&[(":event-type", name), (":message-type", "event")], payload)
}

fn frame(name: &str, payload: Value) -> Vec<u8> {
    text_frame(name, &payload.to_string())
}

fn exception(name: &str, payload: Value) -> Vec<u8> {
    message(&[(":exception-type", name), (":message-type", "exception")], &payload.to_string())
}

fn start(index: u64, start: Value) -> Vec<u8> {
    frame("contentBlockStart", json!({ "contentBlockIndex": index, "start": start }))
}

fn delta(index: u64, delta: Value) -> Vec<u8> {
    frame("contentBlockDelta", json!({ "contentBlockIndex": index, "delta": delta, "p": "abc" }))
}

fn text(index: u64, text: &str) -> Vec<u8> {
    delta(index, json!({ "text": text }))
}

fn reasoning(index: u64, reasoning: Value) -> Vec<u8> {
    delta(index, json!({ "reasoningContent": reasoning }))
}

fn input(index: u64, json: &str) -> Vec<u8> {
    delta(index, json!({ "toolUse": { "input": json } }))
}

fn stop(index: u64) -> Vec<u8> {
    frame("contentBlockStop", json!({ "contentBlockIndex": index }))
}

fn tool(index: u64, id: &str) -> Vec<u8> {
    start(index, json!({ "toolUse": { "toolUseId": id, "name": "f" } }))
}

fn stopped(reason: &str) -> Vec<u8> {
    frame("messageStop", json!({ "stopReason": reason }))
}

fn metadata() -> Vec<u8> {
    frame("metadata", json!({ "usage": { "inputTokens": 3, "outputTokens": 4, "totalTokens": 7 } }))
}

fn ended(reason: &str) -> Vec<u8> {
    [stopped(reason), metadata()].concat()
}

/// The lines of a body, the same whole and byte by byte.
fn lines_within(limits: Limits, pieces: &[Vec<u8>]) -> Vec<String> {
    let body = pieces.concat();
    let decode = |size: usize| {
        let mut decoder = Decoder::<EventStreamFramer, _>::new(RULES, limits, Converse::new(limits));
        let mut events = Events::new();
        for chunk in body.chunks(size) {
            decoder.feed(chunk, &mut events);
        }
        decoder.end(End::Closed, &mut events);
        events
            .map(|event| match event {
                Ok(event) => serde_json::to_string(&event).unwrap(),
                Err(error) => {
                    format!("{} [{}] {}", error.kind(), error.code().unwrap_or(""), error.message())
                }
            })
            .collect::<Vec<_>>()
    };
    let whole = decode(body.len().max(1));
    assert_eq!(decode(1), whole, "other events when cut in every byte");
    whole
}

fn lines(pieces: &[Vec<u8>]) -> Vec<String> {
    lines_within(Limits::default(), pieces)
}

/// The lines of a body without the first, `turn_started`, and the last, the end.
fn middle(pieces: &[Vec<u8>]) -> Vec<String> {
    let mut lines = lines(pieces);
    assert!(lines.first().is_some_and(|line| line.contains("turn_started")), "{lines:?}");
    assert!(lines.pop().is_some_and(|line| line.contains("turn_finished")), "{lines:?}");
    lines.split_off(1)
}

fn last(pieces: &[Vec<u8>]) -> String {
    lines(pieces).pop().unwrap()
}

fn parts(pieces: &[Vec<u8>]) -> Vec<turnstream_core::Part> {
    let mut decoder =
        Decoder::<EventStreamFramer, _>::new(RULES, Limits::default(), Converse::new(Limits::default()));
    let mut events = Events::new();
    decoder.feed(&pieces.concat(), &mut events);
    decoder.end(End::Closed, &mut events);
    let mut turn = TurnBuilder::new();
    events.for_each(|event| turn.push(&event.unwrap()));
    turn.build().parts
}

#[test]
fn each_stop_reason_has_our_word() {
    let table = [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "content_filter"),
        ("content_filtered", "content_filter"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("brand_new", "other"),
    ];
    for (theirs, ours) in table {
        let want = json!({ "type": "turn_finished", "reason": ours, "raw_reason": theirs });
        assert_eq!(serde_json::from_str::<Value>(&last(&[stopped(theirs)])).unwrap(), want, "{theirs}");
    }
    for failure in ["malformed_model_output", "malformed_tool_use"] {
        let want = format!("provider [{failure}] the provider ended the turn with the reason `{failure}`");
        assert_eq!(last(&[ended(failure)]), want);
    }
    assert_eq!(
        last(&[text(0, "a"), frame("messageStop", json!({}))]),
        r#"{"type":"turn_finished","reason":"stop","inferred":true}"#
    );
}

#[test]
fn usage_comes_behind_the_stop_and_ends_the_turn() {
    let finished =
        |usage: &str| format!(r#"{{"type":"turn_finished","reason":"stop","raw_reason":"end_turn"{usage}}}"#);
    let with_usage = finished(r#","usage":{"input_tokens":3,"output_tokens":4}"#);
    assert_eq!(last(&[text(0, "a"), stopped("end_turn"), metadata()]), with_usage);
    // What came first counts, and what comes behind the end does not.
    assert_eq!(last(&[text(0, "a"), metadata(), stopped("end_turn")]), with_usage);
    assert_eq!(last(&[text(0, "a"), ended("end_turn"), text(1, "late"), b"junk".to_vec()]), with_usage);
    assert_eq!(last(&[text(0, "a"), stopped("end_turn")]), finished(""));
    // A torn frame of usage does not take the turn back.
    assert_eq!(last(&[text(0, "a"), stopped("end_turn"), metadata()[..40].to_vec()]), finished(""));
    assert_eq!(last(&[text(0, "a"), metadata()]), "truncated [] the body ended before the turn did");
}

#[test]
fn a_turn_is_settled_between_its_stop_and_its_usage_and_over_with_it() {
    let limits = Limits::default();
    let mut decoder = Decoder::<EventStreamFramer, _>::new(RULES, limits, Converse::new(limits));
    let mut events = Events::new();
    decoder.feed(&text(0, "a"), &mut events);
    assert!(!decoder.is_settled());
    decoder.feed(&stopped("end_turn"), &mut events);
    assert!(decoder.is_settled() && events.len() == 3);
    decoder.feed(&metadata(), &mut events);
    assert!(!decoder.is_settled());
    assert!(matches!(events.last(), Some(Ok(turnstream_core::Event::TurnFinished(_)))));
}

#[test]
fn usage_counts_what_is_cached_and_is_read_leniently() {
    let usage = |usage: Value| frame("metadata", json!({ "usage": usage }));
    let body = [
        usage(json!({ "inputTokens": 10, "cacheReadInputTokens": 3, "cacheWriteInputTokens": 5 })),
        usage(json!({ "inputTokens": "12", "outputTokens": 7.0, "cacheReadInputTokens": null })),
        usage(json!({ "outputTokens": {} })),
        usage(json!("none")),
        stopped("end_turn"),
    ];
    assert_eq!(
        last(&body),
        r#"{"type":"turn_finished","reason":"stop","raw_reason":"end_turn","usage":{"input_tokens":20,"output_tokens":7,"cache_read_tokens":3,"cache_write_tokens":5}}"#
    );
}

#[test]
fn blocks_without_a_start_begin_with_their_first_delta_and_finish_what_stopped() {
    let body = [
        frame("messageStart", json!({ "role": "assistant", "p": "abc" })),
        tool(0, "a"),
        stop(0),
        reasoning(1, json!({ "text": "hm" })),
        text(2, "so"),
        ended("max_tokens"),
    ];
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"call_started","part":0,"call":0,"id":"a","name":"f"}"#,
            r#"{"type":"call_finished","call":0,"id":"a","name":"f","arguments":""}"#,
            r#"{"type":"reasoning_delta","part":1,"text":"hm"}"#,
            r#"{"type":"text_delta","part":2,"text":"so"}"#,
            r#"{"type":"part_finished","part":1}"#,
            r#"{"type":"part_finished","part":2}"#,
        ]
    );
}

#[test]
fn a_block_that_says_nothing_shows_that_the_turn_went_on() {
    let call = [tool(0, "a"), input(0, "{}"), stop(0)].concat();
    let finished = |then: Vec<u8>| {
        let lines = lines(&[call.clone(), then, ended("max_tokens")]);
        lines.iter().any(|line| line.contains("call_finished"))
    };
    assert!(!finished(Vec::new()));
    assert!(finished(text(1, "")));
    assert!(finished(start(1, json!({}))));
    assert!(finished(start(1, Value::Null)));
    assert!(finished(reasoning(1, json!({ "text": "" }))));
    // It is one part, whatever it turns out to be.
    let body = [
        start(0, json!({})),
        text(0, ""),
        text(0, "a"),
        text(0, ""),
        stop(0),
        text(0, ""),
        ended("end_turn"),
    ];
    assert_eq!(
        middle(&body),
        [r#"{"type":"text_delta","part":0,"text":"a"}"#, r#"{"type":"part_finished","part":0}"#]
    );
}

#[test]
fn argument_text_without_a_call_names_its_index() {
    let never = "malformed [] argument text for the call with key 3, which was never announced";
    assert_eq!(last(&[input(3, "{")]), never);
    assert_eq!(last(&[start(3, json!({})), input(3, "{")]), never);
    assert_eq!(last(&[text(3, "a"), input(3, "{")]), never);
    assert_eq!(middle(&[input(3, ""), ended("end_turn")]), [""; 0]);
}

#[test]
fn an_index_that_comes_again_is_another_block() {
    let body = [
        tool(0, "a"),
        input(0, "1"),
        stop(0),
        stop(0),
        tool(0, "b"),
        tool(0, "b"),
        input(0, "2"),
        stop(0),
        text(0, "t"),
        stop(0),
        ended("tool_use"),
    ];
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"call_started","part":0,"call":0,"id":"a","name":"f"}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"1"}"#,
            r#"{"type":"call_finished","call":0,"id":"a","name":"f","arguments":"1"}"#,
            r#"{"type":"call_started","part":1,"call":1,"id":"b","name":"f"}"#,
            r#"{"type":"call_argument_fragment","call":1,"fragment":"2"}"#,
            r#"{"type":"call_finished","call":1,"id":"b","name":"f","arguments":"2"}"#,
            r#"{"type":"text_delta","part":2,"text":"t"}"#,
            r#"{"type":"part_finished","part":2}"#,
        ]
    );
}

#[test]
fn interleaved_calls_finish_in_the_order_of_their_stops() {
    let body = [
        tool(1, "a"),
        tool(2, "b"),
        input(2, "{\"n\":"),
        input(1, "{}"),
        input(2, "2}"),
        stop(2),
        stop(1),
        ended("end_turn"),
    ];
    let lines = lines(&body);
    let finished: Vec<&String> = lines.iter().filter(|line| line.contains("call_finished")).collect();
    assert_eq!(
        finished,
        [
            r#"{"type":"call_finished","call":1,"id":"b","name":"f","arguments":"{\"n\":2}"}"#,
            r#"{"type":"call_finished","call":0,"id":"a","name":"f","arguments":"{}"}"#,
        ]
    );
    assert!(lines.last().unwrap().contains(r#""reason":"tool_calls","raw_reason":"end_turn""#));
}

#[test]
fn reasoning_goes_back_with_its_signature() {
    let replays = |pieces: &[Vec<u8>]| {
        let lines = middle(&[&pieces.concat()[..], &ended("end_turn")].map(<[u8]>::to_vec));
        lines
            .into_iter()
            .filter_map(|line| Some(line.split_once("\"data\":")?.1.to_owned()))
            .collect::<Vec<_>>()
    };
    let signature = |signature: &str| reasoning(0, json!({ "signature": signature }));
    let hm = || reasoning(0, json!({ "text": "hm" }));
    assert_eq!(replays(&[hm(), signature("s1"), signature("s2"), stop(0)]), [r#"{"signature":"s2"}}}"#]);
    assert_eq!(replays(&[hm(), signature("")]), ["{}}}"]);
    assert_eq!(
        replays(&[signature("s"), stop(0)]),
        [r#"{"reasoningContent":{"reasoningText":{"signature":"s","text":""}}}}}"#]
    );
    assert_eq!(replays(&[reasoning(0, json!({ "text": "" })), stop(0)]), [""; 0]);
}

#[test]
fn hidden_reasoning_is_an_opaque_part_however_it_is_split() {
    let redacted = |content: &str| reasoning(0, json!({ "redactedContent": content }));
    let replay = |content: &str| {
        format!(
            r#"{{"type":"part_finished","part":0,"replay":{{"wire":"bedrock-converse","data":{{"reasoningContent":{{"redactedContent":"{content}"}}}}}}}}"#
        )
    };
    assert_eq!(middle(&[redacted("YWI="), stop(0), ended("end_turn")]), [replay("YWI=")]);
    assert_eq!(middle(&[redacted("YWI="), redacted("YwE="), ended("end_turn")]), [replay("YWJjAQ==")]);
    assert_eq!(middle(&[redacted("??"), redacted("YWI="), ended("end_turn")]), [replay("??YWI=")]);
    // Text before it is a part of its own.
    let body = [reasoning(0, json!({ "text": "hm" })), redacted("YWI="), stop(0), ended("end_turn")];
    assert_eq!(parts(&body).len(), 2);
    let over = lines_within(Limits::default().text_bytes(6), &[redacted("YWI="), redacted("YWI=")]);
    assert_eq!(
        over.last().unwrap(),
        "limit_exceeded [text_bytes] the reply went over the limit `text_bytes`: 8 of at most 6"
    );
}

#[test]
fn server_side_calls_and_their_results_are_shown_and_go_back_whole() {
    let body = [
        start(
            0,
            json!({ "toolUse": { "toolUseId": "s", "name": "nova_grounding", "type": "server_tool_use" } }),
        ),
        input(0, "{\"query\":"),
        input(0, " \"x\"}"),
        stop(0),
        start(
            1,
            json!({ "toolResult": { "toolUseId": "s", "type": "nova_grounding_result", "status": "success" } }),
        ),
        delta(1, json!({ "toolResult": [{ "text": "a" }] })),
        delta(1, json!({ "toolResult": [{ "json": { "n": 1 } }, { "text": "b" }] })),
        stop(1),
        start(2, json!({ "toolUse": { "toolUseId": "c", "name": "f", "type": "tool_use" } })),
        stop(2),
        ended("tool_use"),
    ];
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"provider","name":"server_tool_use","raw":{"name":"nova_grounding","toolUseId":"s","type":"server_tool_use"}}"#,
            r#"{"type":"part_finished","part":0,"replay":{"wire":"bedrock-converse","data":{"toolUse":{"name":"nova_grounding","toolUseId":"s","type":"server_tool_use","input":{"query": "x"}}}}}"#,
            r#"{"type":"provider","name":"nova_grounding_result","raw":{"status":"success","toolUseId":"s","type":"nova_grounding_result"}}"#,
            r#"{"type":"provider","name":"toolResult","raw":[{"text":"a"}]}"#,
            r#"{"type":"provider","name":"toolResult","raw":[{"json":{"n":1}},{"text":"b"}]}"#,
            r#"{"type":"part_finished","part":1,"replay":{"wire":"bedrock-converse","data":{"toolResult":{"status":"success","toolUseId":"s","type":"nova_grounding_result","content":[{"text":"a"},{"json":{"n":1}},{"text":"b"}]}}}}"#,
            r#"{"type":"call_started","part":2,"call":0,"id":"c","name":"f"}"#,
            r#"{"type":"call_finished","call":0,"id":"c","name":"f","arguments":""}"#,
        ]
    );
}

#[test]
fn a_server_side_block_that_is_not_complete_is_left_out() {
    let server =
        || start(0, json!({ "toolUse": { "toolUseId": "s", "name": "n", "type": "server_tool_use" } }));
    assert_eq!(parts(&[server(), input(0, "{\"q"), stop(0), ended("max_tokens")]), []);
    assert_eq!(parts(&[server(), input(0, "{}"), ended("max_tokens")]), []);
    assert_eq!(parts(&[server(), input(0, "{}"), ended("end_turn")]).len(), 1);
    assert_eq!(parts(&[server(), stop(0), ended("end_turn")]).len(), 1);
    let over =
        lines_within(Limits::default().argument_bytes(7), &[server(), input(0, "12345"), input(0, "678")]);
    assert_eq!(
        over.last().unwrap(),
        "limit_exceeded [argument_bytes] the reply went over the limit `argument_bytes`: 8 of at most 7"
    );
    // What a server-side block still gets after its stop is no client's.
    let late = [server(), stop(0), input(0, "{"), ended("end_turn")];
    assert!(middle(&late).iter().any(|line| line.contains(r#""name":"contentBlockDelta""#)));
}

#[test]
fn an_image_of_the_models_goes_back_where_it_is_whole() {
    let begun = || start(0, json!({ "image": { "format": "png" } }));
    let bytes = || delta(0, json!({ "image": { "source": { "bytes": "iVBORw0KGgo=" } } }));
    let lines = middle(&[begun(), bytes(), stop(0), ended("end_turn")]);
    assert_eq!(
        lines.last().unwrap(),
        r#"{"type":"part_finished","part":0,"replay":{"wire":"bedrock-converse","data":{"image":{"format":"png","source":{"bytes":"iVBORw0KGgo="}}}}}"#
    );
    assert_eq!(parts(&[begun(), stop(0), ended("end_turn")]), []);
}

#[test]
fn citations_stay_with_their_text_or_stand_alone() {
    let cited = |index| {
        delta(
            index,
            json!({ "citation": { "title": "T", "location": { "web": { "url": "u", "domain": "d" } } } }),
        )
    };
    let raw = r#"{"location":{"web":{"domain":"d","url":"u"}},"title":"T"}"#;
    let body = [text(0, "So."), cited(0), stop(0), cited(1), stop(1), ended("end_turn")];
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"text_delta","part":0,"text":"So."}"#.to_owned(),
            format!(r#"{{"type":"citation","part":0,"url":"u","title":"T","raw":{raw}}}"#),
            format!(
                r#"{{"type":"part_finished","part":0,"replay":{{"wire":"bedrock-converse","data":{{"citations":[{raw}]}}}}}}"#
            ),
            format!(r#"{{"type":"citation","part":1,"url":"u","title":"T","raw":{raw}}}"#),
            format!(
                r#"{{"type":"part_finished","part":1,"replay":{{"wire":"bedrock-converse","data":{{"citationsContent":{{"citations":[{raw}]}}}}}}}}"#
            ),
        ]
    );
}

#[test]
fn exceptions_end_the_turn_and_abort_what_is_open() {
    let body =
        [tool(0, "a"), input(0, "{}"), exception("throttlingException", json!({ "message": "Slow down." }))];
    let lines = lines(&body);
    assert_eq!(
        lines[lines.len() - 2..],
        [
            r#"{"type":"call_aborted","call":0,"id":"a","name":"f","partial":"{}","reason":"error"}"#,
            "provider [throttlingException] Slow down.",
        ]
    );
    let error = message(
        &[(":message-type", "error"), (":error-code", "InternalFailure"), (":error-message", "Oops.")],
        "",
    );
    assert_eq!(last(&[error]), "provider [InternalFailure] Oops.");
    assert_eq!(
        last(&[br#"{"__type":"x#ThrottlingException","message":"No."}"#.to_vec()]),
        "provider [ThrottlingException] No."
    );
    assert_eq!(
        last(&[b"<html></html>".to_vec()]),
        "not_a_stream [] the body has no AWS event-stream message"
    );
    assert_eq!(last(&[]), "truncated [] the body ended and had said nothing");
}

#[test]
fn a_damaged_message_ends_the_turn_behind_what_was_good() {
    let mut damaged = text(0, "b");
    *damaged.last_mut().unwrap() ^= 1;
    let lines = lines(&[text(0, "a"), damaged, ended("end_turn")]);
    assert_eq!(lines[1], r#"{"type":"text_delta","part":0,"text":"a"}"#);
    assert!(lines[2].starts_with("malformed [] a frame is damaged: message checksum"), "{lines:?}");
}

#[test]
fn known_frames_that_do_not_fit_are_errors_that_name_them() {
    let table = [
        ("contentBlockDelta", json!({ "contentBlockIndex": 0 })),
        ("contentBlockDelta", json!({ "delta": { "text": "a" } })),
        ("contentBlockDelta", json!({ "contentBlockIndex": 0, "delta": { "text": 5 } })),
        ("contentBlockDelta", json!({ "contentBlockIndex": 0, "delta": { "toolUse": "x" } })),
        ("contentBlockStart", json!({ "start": {} })),
        (
            "contentBlockStart",
            json!({ "contentBlockIndex": 0, "start": { "toolUse": { "toolUseId": "a" } } }),
        ),
        ("contentBlockStart", json!({ "contentBlockIndex": 0, "start": { "toolUse": { "name": "" } } })),
        ("contentBlockStop", json!({})),
        ("messageStart", json!([])),
        ("messageStop", json!({ "stopReason": 5 })),
        ("metadata", json!(5)),
    ];
    for (name, data) in table {
        let want = format!("malformed [] the frame `{name}` does not have the form that it should have");
        assert_eq!(last(&[frame(name, data.clone())]), want, "{data}");
        assert_eq!(last(&[text_frame(name, "{\"contentB")]), want);
        assert_eq!(last(&[text_frame(name, "")]), want);
    }
}

#[test]
fn news_in_any_form_is_handed_on() {
    let body = [
        text_frame("initial-response", "{}"),
        text(0, "a"),
        frame("brandNew", json!({ "contentBlockIndex": "x" })),
        text_frame("notJson", "a, b"),
        text_frame("", "[1]"),
        delta(0, json!({ "hologram": 5 })),
        start(1, json!({ "hologram": {} })),
        frame(
            "messageStop",
            json!({ "stopReason": "end_turn", "additionalModelResponseFields": { "a": 1 } }),
        ),
        frame("metadata", json!({ "usage": {}, "metrics": { "latencyMs": 1 }, "trace": null, "p": "ab" })),
    ];
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"provider","name":"initial-response","raw":{}}"#,
            r#"{"type":"text_delta","part":0,"text":"a"}"#,
            r#"{"type":"provider","name":"brandNew","raw":{"contentBlockIndex":"x"}}"#,
            r#"{"type":"provider","name":"notJson","raw":"a, b"}"#,
            r#"{"type":"provider","name":"unnamed","raw":[1]}"#,
            r#"{"type":"provider","name":"hologram","raw":{"contentBlockIndex":0,"delta":{"hologram":5},"p":"abc"}}"#,
            r#"{"type":"provider","name":"hologram","raw":{"contentBlockIndex":1,"start":{"hologram":{}}}}"#,
            r#"{"type":"provider","name":"additionalModelResponseFields","raw":{"a":1}}"#,
            r#"{"type":"part_finished","part":0}"#,
            r#"{"type":"part_finished","part":1}"#,
            r#"{"type":"provider","name":"metrics","raw":{"latencyMs":1}}"#,
        ]
    );
}

#[test]
fn nulls_say_nothing() {
    let body = [
        delta(0, json!({ "text": null })),
        delta(0, json!({ "toolUse": { "input": null } })),
        delta(0, json!({ "reasoningContent": { "text": null, "signature": null } })),
        delta(0, json!({ "citation": null, "hologram": null })),
        start(1, json!({ "toolUse": { "toolUseId": "a", "name": "f", "type": null }, "image": null })),
        frame("messageStop", json!({ "stopReason": "tool_use", "additionalModelResponseFields": null })),
        frame("metadata", json!({ "usage": null, "trace": null })),
    ];
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"call_started","part":0,"call":0,"id":"a","name":"f"}"#,
            r#"{"type":"call_finished","call":0,"id":"a","name":"f","arguments":""}"#,
        ]
    );
}

#[test]
fn whatever_stands_in_good_messages_gives_one_end_and_the_same_however_it_is_cut() {
    let plain = [
        ("messageStart", r#"{"role":"assistant"}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"a\ud83d\ude00"}}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"YQ=="}}}"#),
        ("contentBlockStart", r#"{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"t","name":"f"}}}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\"x\":1}"}}}"#),
        ("contentBlockStop", r#"{"contentBlockIndex":1}"#),
        ("exception:throttlingException", r#"{"message":"Slow down."}"#),
        ("messageStop", r#"{"stopReason":"tool_use"}"#),
        ("metadata", r#"{"usage":{"inputTokens":1,"outputTokens":2},"trace":{}}"#),
    ];
    let letters: Vec<char> = "{}[]\":,0129\\ndutrue eé".chars().collect();
    // A multiplicative generator: the same bodies in every run.
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for _ in 0..2000 {
        let mut pieces = Vec::new();
        for _ in 0..=random(10) {
            let (mut name, payload) = plain[random(plain.len())];
            if random(20) == 0 {
                name = plain[random(plain.len())].0;
            }
            let mut payload: Vec<char> = payload.chars().collect();
            if random(4) == 0 {
                let at = random(payload.len());
                match random(3) {
                    0 => payload[at] = letters[random(letters.len())],
                    1 => payload.insert(at, letters[random(letters.len())]),
                    _ => payload.truncate(at),
                }
            }
            let payload: String = payload.into_iter().collect();
            pieces.push(match name.strip_prefix("exception:") {
                Some(name) => message(&[(":exception-type", name), (":message-type", "exception")], &payload),
                None => text_frame(name, &payload),
            });
        }
        let lines = lines(&pieces);
        let is_end = |line: &&String| line.contains("\"turn_finished\"") || !line.starts_with('{');
        assert_eq!(lines.iter().filter(is_end).count(), 1, "{lines:?}");
        assert!(lines.last().as_ref().is_some_and(is_end), "{lines:?}");
    }
}
