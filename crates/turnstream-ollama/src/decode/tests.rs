use serde_json::{Value, json};
use turnstream_core::{Decode as _, End, Events, Limits, NdjsonDecoder, TurnBuilder};

use super::*;

fn line(message: Value) -> String {
    format!("{}\n", json!({ "model": "m", "message": message, "done": false }))
}

fn text(text: &str) -> String {
    line(json!({ "role": "assistant", "content": text }))
}

fn thinking(text: &str) -> String {
    line(json!({ "role": "assistant", "content": "", "thinking": text }))
}

fn calls(calls: Value) -> String {
    line(json!({ "role": "assistant", "content": "", "tool_calls": calls }))
}

fn call(function: &str) -> String {
    format!(r#"{{"model":"m","message":{{"tool_calls":[{{"id":"a","function":{function}}}]}}}}"#) + "\n"
}

fn done(reason: &str) -> String {
    format!(
        "{}\n",
        json!({ "model": "m", "message": { "content": "" }, "done": true, "done_reason": reason })
    )
}

/// The lines of a body, the same whole and byte by byte.
fn lines_within(limits: Limits, body: &str) -> Vec<String> {
    let decode = |size: usize| {
        let mut decoder = NdjsonDecoder::new(RULES, limits, Lines::default());
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

fn lines(body: &str) -> Vec<String> {
    lines_within(Limits::default(), body)
}

/// The lines of a body without the first, `turn_started`, and the last, the end.
fn middle(body: &str) -> Vec<String> {
    let mut lines = lines(body);
    assert!(lines.first().is_some_and(|line| line.contains("turn_started")), "{lines:?}");
    assert!(lines.pop().is_some_and(|line| line.contains("turn_finished")), "{lines:?}");
    lines.split_off(1)
}

fn last(body: &str) -> String {
    lines(body).pop().unwrap()
}

#[test]
fn each_done_reason_has_our_word() {
    let table = [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("content_filter", "content_filter"),
        ("load", "other"),
        ("unload", "other"),
        ("brand_new", "other"),
    ];
    for (theirs, ours) in table {
        let want = format!(r#"{{"type":"turn_finished","reason":"{ours}","raw_reason":"{theirs}"}}"#);
        assert_eq!(last(&done(theirs)), want);
    }
    assert_eq!(last(&done("error")), "provider [error] the server ended the turn with the reason `error`");
}

#[test]
fn a_turn_that_is_done_without_a_reason_is_a_plain_end_or_one_with_calls() {
    let plain = r#"{"type":"turn_finished","reason":"stop","inferred":true}"#;
    assert_eq!(last(&(text("a") + &done(""))), plain);
    assert_eq!(last("{\"done\":true}\n"), plain);
    assert_eq!(last("{\"done\":true,\"done_reason\":null}"), plain);
    let calling = r#"{"type":"turn_finished","reason":"tool_calls","inferred":true}"#;
    assert_eq!(last(&(call(r#"{"name":"f"}"#) + &done(""))), calling);
}

#[test]
fn only_done_ends_a_turn() {
    let cut = "truncated [] the body ended before the turn did";
    let early = "{\"model\":\"m\",\"message\":{\"content\":\"a\"},\"done\":false,\"done_reason\":\"stop\"}\n";
    for body in
        [text("a"), text("a") + "{\"model\":\"m\",\"done\":tr", call(r#"{"name":"f"}"#), early.to_owned()]
    {
        assert_eq!(last(&body), cut, "{body}");
    }
    assert_eq!(last("\n"), "truncated [] the body ended and had said nothing");
    // A call that came whole was finished by that; the loop does not run it, because the turn is cut.
    let cut = lines(&call(r#"{"name":"f"}"#));
    assert_eq!(cut[2], r#"{"type":"call_finished","call":0,"id":"a","name":"f","arguments":""}"#);
}

#[test]
fn the_message_of_the_last_line_counts() {
    let body = concat!(
        r#"{"model":"m","message":{"thinking":"hm","content":"So.","tool_calls":[{"function":{"name":"f","#,
        r#""arguments":{"b": 1.0,"a":"\u00e9"}}}]},"done":true,"done_reason":"stop","eval_count":5}"#
    );
    assert_eq!(
        lines(body),
        [
            r#"{"type":"turn_started","model":"m"}"#,
            r#"{"type":"reasoning_delta","part":0,"text":"hm"}"#,
            r#"{"type":"part_finished","part":0}"#,
            r#"{"type":"text_delta","part":1,"text":"So."}"#,
            r#"{"type":"part_finished","part":1}"#,
            r#"{"type":"call_started","part":2,"call":0,"id":"turnstream_call_0","name":"f","made_up_id":true}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"{\"b\": 1.0,\"a\":\"\\u00e9\"}"}"#,
            r#"{"type":"call_finished","call":0,"id":"turnstream_call_0","name":"f","arguments":"{\"b\": 1.0,\"a\":\"\\u00e9\"}"}"#,
            r#"{"type":"turn_finished","reason":"tool_calls","raw_reason":"stop","usage":{"output_tokens":5}}"#,
        ]
    );
}

#[test]
fn another_voice_or_a_call_begins_another_part() {
    let one = json!([{ "id": "a", "function": { "index": 0, "name": "f", "arguments": {} } }]);
    let body = thinking("a")
        + &thinking("b")
        + &text("c")
        + &thinking("d")
        + &calls(one)
        + &thinking("e")
        + &done("stop");
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"reasoning_delta","part":0,"text":"a"}"#,
            r#"{"type":"reasoning_delta","part":0,"text":"b"}"#,
            r#"{"type":"part_finished","part":0}"#,
            r#"{"type":"text_delta","part":1,"text":"c"}"#,
            r#"{"type":"part_finished","part":1}"#,
            r#"{"type":"reasoning_delta","part":2,"text":"d"}"#,
            r#"{"type":"part_finished","part":2}"#,
            r#"{"type":"call_started","part":3,"call":0,"id":"a","name":"f"}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"{}"}"#,
            r#"{"type":"call_finished","call":0,"id":"a","name":"f","arguments":"{}"}"#,
            r#"{"type":"reasoning_delta","part":4,"text":"e"}"#,
            r#"{"type":"part_finished","part":4}"#,
        ]
    );
}

#[test]
fn calls_are_told_apart_by_their_place_whatever_their_ids_are() {
    let of = |city: &str| json!({ "id": "same", "function": { "index": 0, "name": "f", "arguments": { "c": city } } });
    let body = calls(json!([of("a"), of("b")])) + &calls(json!([of("c")])) + &done("stop");
    let finished: Vec<String> =
        middle(&body).into_iter().filter(|line| line.contains("call_finished")).collect();
    assert_eq!(
        finished,
        [
            r#"{"type":"call_finished","call":0,"id":"same","name":"f","arguments":"{\"c\":\"a\"}"}"#,
            r#"{"type":"call_finished","call":1,"id":"same","name":"f","arguments":"{\"c\":\"b\"}"}"#,
            r#"{"type":"call_finished","call":2,"id":"same","name":"f","arguments":"{\"c\":\"c\"}"}"#,
        ]
    );
}

#[test]
fn arguments_are_the_objects_own_text_or_blank() {
    let table = [
        (r#"{"name":"f"}"#, ""),
        (r#"{"name":"f","arguments":null}"#, ""),
        (r#"{"name":"f","arguments":""}"#, ""),
        (r#"{"name":"f","arguments":{ "n" : 1.50e+1, "n":"\ud83d" }}"#, r#"{ "n" : 1.50e+1, "n":"\ud83d" }"#),
        (r#"{"arguments":{"a":{"name":"g"}},"name":"f"}"#, r#"{"a":{"name":"g"}}"#),
        (r#"{"name":"f","arguments":[1, 2]}"#, "[1, 2]"),
        (r#"{"name":"f","arguments":"{\"a\":\"\\u00e9\"}"}"#, r#"{"a":"\u00e9"}"#),
    ];
    for (function, arguments) in table {
        let mut turn = TurnBuilder::new();
        let (mut decoder, mut events) =
            (NdjsonDecoder::new(RULES, Limits::default(), Lines::default()), Events::new());
        decoder.feed((call(function) + &done("stop")).as_bytes(), &mut events);
        events.for_each(|event| turn.push(&event.unwrap()));
        assert_eq!(turn.build().calls[0].arguments.as_str(), arguments, "{function}");
    }
    let broken = call(r#"{"name":"f","arguments":"{\"a\":"}"#) + &done("stop");
    assert_eq!(
        middle(&broken).last().unwrap(),
        r#"{"type":"call_aborted","call":0,"id":"a","name":"f","partial":"{\"a\":","reason":"malformed"}"#
    );
}

#[test]
fn a_call_that_came_before_the_cut_is_finished_and_the_turn_is_cut() {
    let body = call(r#"{"name":"f","arguments":{}}"#) + &text("and") + &done("length");
    assert_eq!(middle(&body)[2], r#"{"type":"call_finished","call":0,"id":"a","name":"f","arguments":"{}"}"#);
    assert_eq!(last(&body), r#"{"type":"turn_finished","reason":"length","raw_reason":"length"}"#);
}

#[test]
fn usage_is_read_leniently_and_may_say_half() {
    let usage = |fields: &str| last(&format!("{{\"done\":true,\"done_reason\":\"stop\",{fields}}}"));
    let want =
        |usage: &str| format!(r#"{{"type":"turn_finished","reason":"stop","raw_reason":"stop"{usage}}}"#);
    assert_eq!(
        usage(r#""prompt_eval_count":9,"eval_count":7.0,"total_duration":1"#),
        want(r#","usage":{"input_tokens":9,"output_tokens":7}"#)
    );
    assert_eq!(usage(r#""eval_count":7"#), want(r#","usage":{"output_tokens":7}"#));
    assert_eq!(usage(r#""prompt_eval_count":{},"eval_count":null"#), want(""));
}

#[test]
fn errors_come_after_what_was_said() {
    let table = [
        (r#"{"error":"out of memory"}"#, "out of memory"),
        (r#"{"error":{"message":"out of memory"}}"#, "out of memory"),
        (r#"{"error":5}"#, "5"),
        (r#"{"model":"m","message":{"content":""},"done":true,"error":"late"}"#, "late"),
    ];
    for (error, message) in table {
        let body = text("a") + error + "\n" + &done("stop");
        assert_eq!(
            lines(&body)[1..],
            [r#"{"type":"text_delta","part":0,"text":"a"}"#.to_owned(), format!("provider [] {message}")],
            "{error}"
        );
    }
    assert_eq!(lines("{\"error\":\"alone\"}"), ["provider [] alone"]);
    assert_eq!(
        last(&(text("a") + "{\"done\":true,\"done_reason\":\"stop\",\"error\":null}")),
        last(&done("stop"))
    );
    let beside = r#"{"message":{"content":"b"},"error":"gone"}"#;
    assert_eq!(lines(beside)[1..], [r#"{"type":"text_delta","part":0,"text":"b"}"#, "provider [] gone"]);
}

#[test]
fn a_body_that_is_no_stream_of_lines_says_so() {
    assert_eq!(lines("<html>"), ["not_a_stream [] the body has no JSON line"]);
    assert_eq!(lines("[{\"error\":{\"message\":\"No.\"}}]"), ["provider [] No."]);
}

#[test]
fn known_lines_that_do_not_fit_are_errors_that_name_them() {
    let table = [
        r#"{"message":5}"#,
        r#"{"message":{"content":5}}"#,
        r#"{"message":{"thinking":[]}}"#,
        r#"{"message":{"tool_calls":{}}}"#,
        r#"{"message":{"tool_calls":[{}]}}"#,
        r#"{"message":{"tool_calls":[{"function":{"arguments":{}}}]}}"#,
        r#"{"message":{"tool_calls":[{"function":{"name":"","arguments":{}}}]}}"#,
        r#"{"message":{},"done":"yes"}"#,
        r#"{"message":{"content":"torn"#,
        "not json",
    ];
    for data in table {
        let body = text("a") + data + "\n" + &done("stop");
        let want = "malformed [] the frame `chat response` does not have the form that it should have";
        assert_eq!(lines(&body)[1..], [r#"{"type":"text_delta","part":0,"text":"a"}"#, want], "{data}");
    }
}

#[test]
fn news_in_any_form_is_handed_on_and_nulls_say_nothing() {
    let body = [
        "{\"status\":\"loading\",\"n\": 1.0}\n",
        "[1]\n",
        "[\"m\",{\"content\":\"x\"}]\n",
        "null\n",
        "{\"message\":null,\"done\":null,\"error\":null}\n",
        "{\"message\":{\"content\":null,\"thinking\":null,\"tool_calls\":null,\"images\":null},\"done\":false}\n",
        "{\"model\":null,\"message\":{\"content\":\"a\"},\"logprobs\":[{\"token\":\"a\"}]}\n",
    ];
    assert_eq!(
        middle(&(body.concat() + &done("stop"))),
        [
            r#"{"type":"provider","name":"unnamed","raw":{"status":"loading","n": 1.0}}"#,
            r#"{"type":"provider","name":"unnamed","raw":[1]}"#,
            r#"{"type":"provider","name":"unnamed","raw":["m",{"content":"x"}]}"#,
            r#"{"type":"provider","name":"unnamed","raw":null}"#,
            r#"{"type":"provider","name":"unnamed","raw":{"message":null,"done":null,"error":null}}"#,
            r#"{"type":"text_delta","part":0,"text":"a"}"#,
            r#"{"type":"provider","name":"logprobs","raw":[{"token":"a"}]}"#,
            r#"{"type":"part_finished","part":0}"#,
        ]
    );
}

#[test]
fn half_a_character_waits_for_the_other_half() {
    let half = |half: &str| format!("{{\"message\":{{\"content\":\"{half}\"}}}}\n");
    let body = half("a\\ud83d") + &half("\\ude00b") + &half("\\ud83d") + &done("stop");
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"text_delta","part":0,"text":"a"}"#,
            r#"{"type":"text_delta","part":0,"text":"😀b"}"#,
            "{\"type\":\"text_delta\",\"part\":0,\"text\":\"\u{fffd}\"}",
            r#"{"type":"part_finished","part":0}"#,
        ]
    );
}

#[test]
fn a_call_beyond_a_limit_is_an_error() {
    let body = call(r#"{"name":"f","arguments":{"a":12345}}"#);
    assert_eq!(
        lines_within(Limits::default().argument_bytes(7), &body).pop().unwrap(),
        "limit_exceeded [argument_bytes] the reply went over the limit `argument_bytes`: 11 of at most 7"
    );
    assert_eq!(
        lines_within(Limits::default().calls(1), &(body.clone() + &body)).pop().unwrap(),
        "limit_exceeded [calls] the reply went over the limit `calls`: 2 of at most 1"
    );
}
