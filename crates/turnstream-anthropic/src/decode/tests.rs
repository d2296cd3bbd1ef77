use serde_json::{Value, json};
use turnstream_core::{Decode as _, End, Events, SseDecoder, TurnBuilder};

use super::*;

fn frame(data: Value) -> String {
    format!("data: {data}\n\n")
}

fn start(index: u64, block: Value) -> String {
    frame(json!({ "type": "content_block_start", "index": index, "content_block": block }))
}

fn delta(index: u64, delta: Value) -> String {
    frame(json!({ "type": "content_block_delta", "index": index, "delta": delta }))
}

fn text(index: u64, text: &str) -> String {
    delta(index, json!({ "type": "text_delta", "text": text }))
}

fn input(index: u64, json: &str) -> String {
    delta(index, json!({ "type": "input_json_delta", "partial_json": json }))
}

fn stop(index: u64) -> String {
    frame(json!({ "type": "content_block_stop", "index": index }))
}

fn tool(index: u64, id: &str) -> String {
    start(index, json!({ "type": "tool_use", "id": id, "name": "f", "input": {} }))
}

fn ended(reason: &str) -> String {
    frame(json!({ "type": "message_delta", "delta": { "stop_reason": reason } }))
        + &frame(json!({ "type": "message_stop" }))
}

/// The lines of a body, the same whole and byte by byte.
fn lines_within(limits: Limits, body: &str) -> Vec<String> {
    let decode = |size: usize| {
        let mut decoder = SseDecoder::new(RULES, limits, Messages::new(limits));
        let mut events = Events::new();
        for chunk in body.as_bytes().chunks(size) {
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

/// The lines of a body without the first, `turn_started`, and the last, the end.
fn middle(body: &str) -> Vec<String> {
    let mut lines = lines_within(Limits::default(), body);
    assert!(lines.first().is_some_and(|line| line.contains("turn_started")), "{lines:?}");
    assert!(lines.pop().is_some_and(|line| line.contains("turn_finished")), "{lines:?}");
    lines.split_off(1)
}

fn last(body: &str) -> String {
    lines_within(Limits::default(), body).pop().unwrap()
}

fn turn(body: &str) -> turnstream_core::Turn {
    let mut decoder = SseDecoder::new(RULES, Limits::default(), Messages::new(Limits::default()));
    let mut events = Events::new();
    decoder.feed(body.as_bytes(), &mut events);
    decoder.end(End::Closed, &mut events);
    let mut turn = TurnBuilder::new();
    events.for_each(|event| turn.push(&event.unwrap()));
    turn.build()
}

#[test]
fn each_stop_reason_has_our_word() {
    let table = [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "pause"),
        ("compaction", "pause"),
        ("refusal", "refusal"),
        ("brand_new", "other"),
    ];
    for (theirs, ours) in table {
        let want = json!({ "type": "turn_finished", "reason": ours, "raw_reason": theirs });
        assert_eq!(serde_json::from_str::<Value>(&last(&ended(theirs))).unwrap(), want, "{theirs}");
    }
    assert_eq!(last(&ended("error")), "provider [error] the provider ended the turn with the reason `error`");
}

#[test]
fn deltas_without_a_start_open_a_part_and_finish_what_stopped() {
    let body = tool(0, "a")
        + &stop(0)
        + &delta(1, json!({ "type": "thinking_delta", "thinking": "hm" }))
        + &text(2, "so")
        + &ended("max_tokens");
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
fn argument_text_without_a_call_names_its_index() {
    let never = "malformed [] argument text for the call with key 3, which was never announced";
    assert_eq!(last(&input(3, "{")), never);
    assert_eq!(last(&(start(3, json!({ "type": "text", "text": "" })) + &input(3, "{"))), never);
    assert_eq!(middle(&(input(3, "") + &ended("end_turn"))), [""; 0]);
    // What a server-side block still gets after its stop is no client's.
    let late = start(3, json!({ "type": "mcp_tool_use" })) + &stop(3) + &input(3, "{") + &ended("end_turn");
    assert!(middle(&late).iter().any(|line| line.contains(r#""name":"input_json_delta""#)));
}

#[test]
fn an_index_that_comes_again_is_another_block() {
    let body = tool(0, "a")
        + &input(0, "1")
        + &stop(0)
        + &stop(0)
        + &tool(0, "b")
        + &tool(0, "b")
        + &input(0, "2")
        + &stop(0)
        + &start(0, json!({ "type": "text", "text": "t" }))
        + &stop(0)
        + &ended("tool_use");
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
fn blocks_that_never_stop_are_ended_by_a_normal_reason_only() {
    let thinking = start(0, json!({ "type": "thinking", "thinking": "hm", "signature": "" }))
        + &delta(0, json!({ "type": "signature_delta", "signature": "s1" }))
        + &delta(0, json!({ "type": "signature_delta", "signature": "s2" }))
        + &start(1, json!({ "type": "server_tool_use", "input": {} }))
        + &input(1, "{\"q\": 1}");
    let replays = |reason| {
        let lines = middle(&(thinking.clone() + &ended(reason)));
        lines.into_iter().filter(|line| line.contains("replay")).collect::<Vec<_>>()
    };
    assert_eq!(
        replays("pause_turn"),
        [
            r#"{"type":"part_finished","part":0,"replay":{"wire":"anthropic-messages","data":{"type":"thinking","signature":"s2"}}}"#,
            r#"{"type":"part_finished","part":1,"replay":{"wire":"anthropic-messages","data":{"input":{"q": 1},"type":"server_tool_use"}}}"#,
        ]
    );
    assert_eq!(replays("max_tokens"), [""; 0]);
}

#[test]
fn a_server_side_block_whose_input_is_cut_is_left_out() {
    let block = json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} });
    let body = |json| start(0, block.clone()) + &input(0, json) + &stop(0) + &ended("max_tokens");
    assert_eq!(turn(&body("{\"query\": \"op")).parts, []);
    assert_eq!(turn(&body("{},\"x\":1")).parts, []);
    assert_eq!(turn(&body("{\"query\":1}")).parts.len(), 1);
}

#[test]
fn server_side_input_is_bounded() {
    let body = start(0, json!({ "type": "server_tool_use" })) + &input(0, "12345") + &input(0, "678");
    let lines = lines_within(Limits::default().argument_bytes(7), &body);
    assert_eq!(
        lines.last().unwrap(),
        "limit_exceeded [argument_bytes] the reply went over the limit `argument_bytes`: 8 of at most 7"
    );
}

#[test]
fn a_summary_takes_the_place_of_what_its_block_began_with() {
    let body = start(0, json!({ "type": "compaction", "content": null }))
        + &delta(0, json!({ "type": "compaction_delta", "content": "So far.", "encrypted_content": "ZQ==" }))
        + &stop(0)
        + &ended("compaction");
    assert_eq!(
        middle(&body).last().unwrap(),
        r#"{"type":"part_finished","part":0,"replay":{"wire":"anthropic-messages","data":{"content":"So far.","type":"compaction","encrypted_content":"ZQ=="}}}"#
    );
}

#[test]
fn citations_stay_with_their_text() {
    let citation = json!({ "type": "char_location", "document_title": "Terms", "cited_text": "x" });
    let body = start(0, json!({ "type": "text", "text": "So.", "citations": [citation] }))
        + &delta(0, json!({ "type": "citations_delta", "citation": { "url": "u", "title": "T" } }))
        + &stop(0)
        + &ended("end_turn");
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"text_delta","part":0,"text":"So."}"#,
            r#"{"type":"citation","part":0,"title":"Terms","raw":{"cited_text":"x","document_title":"Terms","type":"char_location"}}"#,
            r#"{"type":"citation","part":0,"url":"u","title":"T","raw":{"title":"T","url":"u"}}"#,
            r#"{"type":"part_finished","part":0,"replay":{"wire":"anthropic-messages","data":{"citations":[{"cited_text":"x","document_title":"Terms","type":"char_location"},{"title":"T","url":"u"}]}}}"#,
        ]
    );
}

#[test]
fn a_second_message_is_ignored_if_it_is_the_same_and_an_error_if_not() {
    let message = |id: &str| frame(json!({ "type": "message_start", "message": { "id": id } }));
    let same = message("m1") + &text(0, "a") + &message("m1") + &message("") + &ended("end_turn");
    assert_eq!(lines_within(Limits::default(), &same).len(), 4);
    let other = message("m1") + &text(0, "a") + &message("m2") + &ended("end_turn");
    assert_eq!(last(&other), "malformed [] the message `m2` began inside of the message `m1`");
}

#[test]
fn usage_is_replaced_field_by_field_and_read_leniently() {
    let usage = |usage: Value| frame(json!({ "type": "message_delta", "usage": usage }));
    let body =
        usage(json!({ "input_tokens": 10, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 3 }))
            + &usage(json!({ "input_tokens": "12", "output_tokens": 7.0, "cache_read_input_tokens": null }))
            + &usage(json!({ "output_tokens": {}, "output_tokens_details": { "thinking_tokens": 4 } }))
            + &usage(json!("none"))
            + &ended("end_turn");
    assert_eq!(
        last(&body),
        r#"{"type":"turn_finished","reason":"stop","raw_reason":"end_turn","usage":{"input_tokens":20,"output_tokens":7,"cache_read_tokens":3,"cache_write_tokens":5,"reasoning_tokens":4}}"#
    );
}

#[test]
fn known_frames_that_do_not_fit_are_errors_that_name_them() {
    let table = [
        ("content_block_delta", json!({ "index": 0 })),
        ("content_block_delta", json!({ "delta": { "type": "text_delta", "text": "a" } })),
        ("content_block_delta", json!({ "index": 0, "delta": { "type": "text_delta" } })),
        ("content_block_delta", json!({ "index": 0, "delta": { "type": "text_delta", "text": 5 } })),
        ("content_block_delta", json!({ "index": 0, "delta": { "type": "input_json_delta" } })),
        ("content_block_start", json!({ "index": 0 })),
        ("content_block_start", json!({ "index": "x", "content_block": { "type": "text" } })),
        ("content_block_start", json!({ "index": 0, "content_block": { "type": "tool_use", "id": "a" } })),
        ("content_block_start", json!({ "index": 0, "content_block": { "type": "tool_use", "name": "" } })),
        ("content_block_stop", json!({})),
        ("message_start", json!({})),
        ("message_start", json!({ "message": { "content": 5 } })),
        ("message_delta", json!({ "delta": { "stop_reason": 5 } })),
    ];
    for (name, mut data) in table {
        data["type"] = json!(name);
        let want = format!("malformed [] the frame `{name}` does not have the form that it should have");
        assert_eq!(last(&frame(data.clone())), want, "{data}");
    }
    let broken = "event: content_block_delta\ndata: {\"type\":\"content_bl\n\n";
    assert!(last(broken).starts_with("malformed [] the frame `content_block_delta`"));
    assert!(last("data: {\"type\n\n").starts_with("malformed [] the frame `unnamed`"));
}

#[test]
fn news_in_any_form_is_handed_on() {
    let body = [
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"new_delta\",\"text\":5}}\n\n",
        "data: {\"type\":\"new_frame\",\"index\":\"x\",\"delta\":1}\n\n",
        "event: new_event\ndata: not json\n\n",
        "data: [1]\n\n",
        "data: [DONE]\n\n",
        "event: ping\ndata: now\n\n",
    ];
    assert_eq!(
        middle(&(body.concat() + &ended("end_turn"))),
        [
            r#"{"type":"provider","name":"new_delta","raw":{"type":"content_block_delta","index":0,"delta":{"type":"new_delta","text":5}}}"#,
            r#"{"type":"provider","name":"new_frame","raw":{"type":"new_frame","index":"x","delta":1}}"#,
            r#"{"type":"provider","name":"new_event","raw":"not json"}"#,
            r#"{"type":"provider","name":"unnamed","raw":[1]}"#,
        ]
    );
}

#[test]
fn nulls_say_nothing() {
    let body = delta(0, json!({ "type": "text_delta", "text": null }))
        + &delta(0, json!({ "type": "input_json_delta", "partial_json": null }))
        + &delta(0, json!({ "type": "citations_delta", "citation": null }))
        + &frame(
            json!({ "type": "message_delta", "delta": null, "usage": null, "context_management": null }),
        )
        + &frame(json!({ "type": "message_delta", "delta": { "stop_reason": null, "stop_details": null } }))
        + &start(0, json!({ "type": "text", "text": null, "citations": null }))
        + &start(1, json!({ "type": "tool_use", "id": "a", "name": "f", "input": null, "caller": null }))
        + &ended("tool_use");
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"call_started","part":1,"call":0,"id":"a","name":"f"}"#,
            r#"{"type":"part_finished","part":0}"#,
            r#"{"type":"call_finished","call":0,"id":"a","name":"f","arguments":""}"#,
        ]
    );
}

#[test]
fn errors_come_in_any_shape() {
    let table = [
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"No.\"}}\n\n",
        "data: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"No.\"}}\n\n",
        "event: error\ndata: {\"error\":{\"code\":500,\"type\":\"api_error\",\"message\":\"No.\"}}\n\n",
        "event: error\ndata: {\"code\":500,\"type\":\"api_error\",\"message\":\"No.\"}\n\n",
        "data: {\"error\":{\"type\":\"api_error\",\"message\":\"No.\"}}\n\n",
        "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"No.\"}}",
    ];
    for body in table {
        assert_eq!(lines_within(Limits::default(), body), ["provider [api_error] No."], "{body}");
    }
}

#[test]
fn what_is_no_field_of_a_kind_changes_nothing() {
    let odd = |kind: &str, name: &str, value: Value| {
        let mut delta = json!({ "type": kind, "stop_reason": 7, "text": 1, "thinking": [], "signature": {} });
        delta[name] = value;
        frame(json!({ "type": "content_block_delta", "index": 0.0, "delta": delta, "usage": 3 }))
    };
    let body = odd("text_delta", "text", json!("a"))
        + &frame(json!({ "type": "content_block_stop", "index": "0", "delta": "x" }))
        + &odd("thinking_delta", "thinking", json!("hm"))
        + &frame(
            json!({ "type": "message_delta", "index": {}, "delta": { "text": 4, "stop_reason": "end_turn" } }),
        )
        + &frame(json!({ "type": "message_stop", "delta": 5 }));
    assert_eq!(
        lines_within(Limits::default(), &body),
        [
            r#"{"type":"turn_started"}"#,
            r#"{"type":"text_delta","part":0,"text":"a"}"#,
            r#"{"type":"part_finished","part":0}"#,
            r#"{"type":"reasoning_delta","part":1,"text":"hm"}"#,
            r#"{"type":"part_finished","part":1,"replay":{"wire":"anthropic-messages","data":{"type":"thinking","signature":""}}}"#,
            r#"{"type":"turn_finished","reason":"stop","raw_reason":"end_turn"}"#,
        ]
    );
    assert!(last(&odd("text_delta", "text", json!(2))).starts_with("malformed"));
}

#[test]
fn a_reason_that_is_repeated_looks_only_at_blocks_that_are_open() {
    let reason = || frame(json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }));
    let body = text(0, "a") + &reason() + &text(1, "b") + &reason();
    let mut messages = Messages::new(Limits::default());
    let mut ledger = Ledger::new(RULES, Limits::default());
    for data in body.split_terminator("\n\n").filter_map(|frame| frame.strip_prefix("data: ")) {
        let frame = Frame::new("", data);
        messages.frame(frame, &mut ledger).unwrap();
    }
    assert_eq!((messages.blocks.len(), messages.open.len()), (2, 0));
}
