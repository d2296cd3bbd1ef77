use serde_json::{Value, json};
use turnstream_core::{Decode as _, End, Events, Limits, SseDecoder};

use super::*;

fn frame(data: Value) -> String {
    format!("data: {data}\n\n")
}

fn message(kind: &str, index: u64, message: Value) -> String {
    frame(json!({ "type": kind, "index": index, "delta": { "message": message } }))
}

fn content(index: u64, kind: &str) -> String {
    message("content-start", index, json!({ "content": { "type": kind, kind: "" } }))
}

fn said(index: u64, kind: &str, text: &str) -> String {
    message("content-delta", index, json!({ "content": { kind: text } }))
}

fn plan(text: &str) -> String {
    frame(json!({ "type": "tool-plan-delta", "delta": { "message": { "tool_plan": text } } }))
}

fn tool(index: u64, id: &str, arguments: &str) -> String {
    let function = json!({ "name": "f", "arguments": arguments });
    let call = json!({ "id": id, "type": "function", "function": function });
    message("tool-call-start", index, json!({ "tool_calls": call }))
}

fn input(index: u64, text: &str) -> String {
    message("tool-call-delta", index, json!({ "tool_calls": { "function": { "arguments": text } } }))
}

fn stop(kind: &str, index: u64) -> String {
    frame(json!({ "type": kind, "index": index }))
}

fn ended(reason: &str) -> String {
    frame(json!({ "type": "message-end", "delta": { "finish_reason": reason } }))
}

/// The lines of a body, the same whole and byte by byte.
fn lines(body: &str) -> Vec<String> {
    let decode = |size: usize| {
        let mut decoder = SseDecoder::new(RULES, Limits::default(), Reply::default());
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
    let mut lines = lines(body);
    assert!(lines.first().is_some_and(|line| line.contains("turn_started")), "{lines:?}");
    assert!(lines.pop().is_some_and(|line| line.contains("turn_finished")), "{lines:?}");
    lines.split_off(1)
}

fn last(body: &str) -> String {
    lines(body).pop().unwrap()
}

#[test]
fn each_finish_reason_has_our_word() {
    let table = [
        ("COMPLETE", "stop"),
        ("STOP_SEQUENCE", "stop"),
        ("TOOL_CALL", "tool_calls"),
        ("MAX_TOKENS", "length"),
        ("ERROR_LIMIT", "length"),
        ("ERROR_TOXIC", "content_filter"),
        ("USER_CANCEL", "other"),
        ("BRAND_NEW", "other"),
    ];
    for (theirs, ours) in table {
        let want = format!(r#"{{"type":"turn_finished","reason":"{ours}","raw_reason":"{theirs}"}}"#);
        assert_eq!(last(&ended(theirs)), want);
    }
    for word in ["ERROR", "TIMEOUT"] {
        let want = format!("provider [{word}] the provider ended the turn with the reason `{word}`");
        assert_eq!(last(&ended(word)), want);
    }
    let plain = r#"{"type":"turn_finished","reason":"stop","inferred":true}"#;
    assert_eq!(last(&frame(json!({ "type": "message-end" }))), plain);
    assert_eq!(last(&ended("")), plain);
}

#[test]
fn content_and_calls_are_counted_apart_and_the_plan_is_reasoning() {
    let body = plan("Look ")
        + &plan("it up.")
        + &tool(0, "a", "")
        + &input(0, "{\"q\"")
        + &tool(1, "b", "")
        + &content(0, "thinking")
        + &said(0, "thinking", "hm")
        + &input(1, "{}")
        + &input(0, ":1}")
        + &stop("content-end", 0)
        + &stop("tool-call-end", 1)
        + &stop("tool-call-end", 0)
        + &stop("tool-call-end", 7)
        + &ended("TOOL_CALL");
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"reasoning_delta","part":0,"text":"Look "}"#,
            r#"{"type":"reasoning_delta","part":0,"text":"it up."}"#,
            r#"{"type":"part_finished","part":0,"replay":{"wire":"cohere-v2","data":{"type":"tool_plan"}}}"#,
            r#"{"type":"call_started","part":1,"call":0,"id":"a","name":"f"}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"{\"q\""}"#,
            r#"{"type":"call_started","part":2,"call":1,"id":"b","name":"f"}"#,
            r#"{"type":"reasoning_delta","part":3,"text":"hm"}"#,
            r#"{"type":"call_argument_fragment","call":1,"fragment":"{}"}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":":1}"}"#,
            r#"{"type":"part_finished","part":3,"replay":{"wire":"cohere-v2","data":{"type":"thinking"}}}"#,
            r#"{"type":"call_finished","call":1,"id":"b","name":"f","arguments":"{}"}"#,
            r#"{"type":"call_finished","call":0,"id":"a","name":"f","arguments":"{\"q\":1}"}"#,
        ]
    );
}

#[test]
fn arguments_may_begin_with_the_call() {
    let table = [
        (tool(0, "a", "{}"), "{}"),
        (tool(0, "a", "{}") + &input(0, "{\"a\":1}"), "{\"a\":1}"),
        (tool(0, "a", "{\"a\"") + &input(0, ":1}"), "{\"a\":1}"),
        (tool(0, "a", ""), ""),
        (tool(0, "a", "") + &tool(0, "a", "") + &input(0, "{}"), "{}"),
    ];
    for (start, arguments) in table {
        let lines = middle(&(start + &stop("tool-call-end", 0) + &ended("TOOL_CALL")));
        let want = format!(
            r#"{{"type":"call_finished","call":0,"id":"a","name":"f","arguments":{}}}"#,
            json!(arguments)
        );
        assert_eq!(*lines.last().unwrap(), want);
    }
    let never = "malformed [] argument text for the call with key 3, which was never announced";
    assert_eq!(last(&input(3, "{")), never);
}

#[test]
fn an_index_that_comes_again_is_another_call_or_content() {
    let body = tool(0, "a", "")
        + &input(0, "1")
        + &stop("tool-call-end", 0)
        + &tool(0, "a", "")
        + &input(0, "2")
        + &stop("tool-call-end", 0)
        + &content(0, "text")
        + &said(0, "text", "t")
        + &content(0, "text")
        + &said(0, "text", "u")
        + &ended("TOOL_CALL");
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"call_started","part":0,"call":0,"id":"a","name":"f"}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"1"}"#,
            r#"{"type":"call_finished","call":0,"id":"a","name":"f","arguments":"1"}"#,
            r#"{"type":"call_started","part":1,"call":1,"id":"a","name":"f"}"#,
            r#"{"type":"call_argument_fragment","call":1,"fragment":"2"}"#,
            r#"{"type":"call_finished","call":1,"id":"a","name":"f","arguments":"2"}"#,
            r#"{"type":"text_delta","part":2,"text":"t"}"#,
            r#"{"type":"part_finished","part":2}"#,
            r#"{"type":"text_delta","part":3,"text":"u"}"#,
            r#"{"type":"part_finished","part":3}"#,
        ]
    );
}

#[test]
fn a_cut_aborts_the_call_that_did_not_end() {
    let call = tool(0, "a", "") + &input(0, "{}");
    let aborted = |reason: &str| {
        format!(
            r#"{{"type":"call_aborted","call":0,"id":"a","name":"f","partial":"{{}}","reason":"{reason}"}}"#
        )
    };
    assert_eq!(*middle(&(call.clone() + &ended("MAX_TOKENS"))).last().unwrap(), aborted("length"));
    let cut = lines(&(call.clone() + "data: [DONE]\n\n"));
    assert_eq!(
        cut[3..],
        [aborted("truncated"), "truncated [] the body ended before the turn did".to_owned()]
    );
    // A call that ended was meant, whatever came after it.
    let finished = call + &stop("tool-call-end", 0) + &ended("MAX_TOKENS");
    assert!(middle(&finished).last().unwrap().contains("call_finished"));
}

#[test]
fn an_error_stands_in_the_end_or_in_a_frame_of_its_own() {
    let end = |delta: Value| frame(json!({ "type": "message-end", "delta": delta }));
    let table = [
        (end(json!({ "finish_reason": "ERROR", "error": "Gone." })), "provider [ERROR] Gone."),
        (end(json!({ "finish_reason": "COMPLETE", "error": "Gone." })), "provider [COMPLETE] Gone."),
        (end(json!({ "error": "Gone." })), "provider [] Gone."),
        (frame(json!({ "message": "Gone.", "id": "x" })), "provider [] Gone."),
        ("event: error\ndata: {\"message\":\"Gone.\"}\n\n".to_owned(), "provider [] Gone."),
        (
            "event: error\ndata: Gone.\n\n".to_owned(),
            "provider [] the provider reported an error in words that are no error body",
        ),
        ("{\"message\":\"Gone.\"}".to_owned(), "provider [] Gone."),
    ];
    for (body, want) in table {
        assert_eq!(last(&body), want, "{body}");
        // What was said stays said.
        let after = lines(&(said(0, "text", "a") + &body));
        assert_eq!(after[1], r#"{"type":"text_delta","part":0,"text":"a"}"#);
    }
    let fine = end(json!({ "finish_reason": "COMPLETE", "error": null }));
    assert_eq!(last(&fine), last(&ended("COMPLETE")));
}

#[test]
fn a_citation_belongs_to_the_content_that_it_names_or_to_the_last_text() {
    let cite = |citation: Value| message("citation-start", 0, json!({ "citations": citation }));
    let document = json!({ "type": "document", "document": { "title": "T", "url": "u" } });
    let tool = json!({ "type": "tool", "tool_output": {} });
    let body = cite(json!({ "start": 0 }))
        + &said(0, "text", "a")
        + &said(1, "text", "b")
        + &cite(json!({ "sources": [tool, document], "content_index": 0 }))
        + &cite(json!([{ "sources": [] }]))
        + &stop("citation-end", 0)
        + &ended("COMPLETE");
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"provider","name":"citation","raw":{"start":0}}"#,
            r#"{"type":"text_delta","part":0,"text":"a"}"#,
            r#"{"type":"text_delta","part":1,"text":"b"}"#,
            r#"{"type":"citation","part":0,"url":"u","title":"T","raw":{"content_index":0,"sources":[{"tool_output":{},"type":"tool"},{"document":{"title":"T","url":"u"},"type":"document"}]}}"#,
            r#"{"type":"citation","part":1,"raw":{"sources":[]}}"#,
            r#"{"type":"part_finished","part":0}"#,
            r#"{"type":"part_finished","part":1}"#,
        ]
    );
}

#[test]
fn usage_counts_tokens_and_what_was_billed_only_without_them() {
    let usage = |usage: Value| {
        let delta = json!({ "finish_reason": "COMPLETE", "usage": usage });
        let line = last(&frame(json!({ "type": "message-end", "delta": delta })));
        serde_json::from_str::<Value>(&line).unwrap()["usage"].clone()
    };
    let all = json!({
        "billed_units": { "input_tokens": 1, "output_tokens": 2 },
        "tokens": { "input_tokens": 9.0, "output_tokens": "7", "reasoning_tokens": 3 },
        "cached_tokens": 4,
    });
    assert_eq!(
        usage(all),
        json!({ "input_tokens": 9, "output_tokens": 7, "cache_read_tokens": 4, "reasoning_tokens": 3 })
    );
    let billed = json!({ "billed_units": { "input_tokens": 1, "output_tokens": 2 }, "tokens": null });
    assert_eq!(usage(billed), json!({ "input_tokens": 1, "output_tokens": 2 }));
    for nothing in [json!(null), json!("none"), json!({ "tokens": 5 })] {
        assert_eq!(usage(nothing), json!(null));
    }
}

#[test]
fn a_message_that_begins_whole_is_taken_whole() {
    let start = frame(json!({ "type": "message-start", "id": "m1", "delta": { "message": {
        "role": "assistant",
        "content": [{ "type": "text", "text": "a" }],
        "tool_plan": "p",
        "tool_calls": [{ "id": "c", "function": { "name": "f", "arguments": "{}" } }],
        "citations": [],
    } } }));
    let lines = lines(&(start + &ended("TOOL_CALL")));
    assert_eq!(lines[0], r#"{"type":"turn_started","id":"m1"}"#);
    assert!(lines.contains(&r#"{"type":"text_delta","part":1,"text":"a"}"#.to_owned()), "{lines:?}");
    assert!(
        lines.contains(
            &r#"{"type":"call_finished","call":0,"id":"c","name":"f","arguments":"{}"}"#.to_owned()
        )
    );
}

#[test]
fn known_frames_that_do_not_fit_are_errors_that_name_them() {
    let table = [
        ("content-start", json!({ "index": 0 })),
        ("content-start", json!({ "delta": { "message": { "content": { "type": "text" } } } })),
        ("content-delta", json!({ "index": 0, "delta": { "message": {} } })),
        ("content-delta", json!({ "index": 0, "delta": { "message": { "content": { "text": 5 } } } })),
        ("content-delta", json!({ "index": 0, "delta": { "message": { "content": "x" } } })),
        ("content-end", json!({})),
        ("tool-call-start", json!({ "index": 0, "delta": { "message": { "tool_calls": { "id": "a" } } } })),
        (
            "tool-call-start",
            json!({ "index": 0, "delta": { "message": { "tool_calls": { "function": { "name": "" } } } } }),
        ),
        ("tool-call-delta", json!({ "index": 0, "delta": { "message": { "tool_calls": 5 } } })),
        ("tool-plan-delta", json!({ "delta": { "message": { "tool_plan": [] } } })),
        ("message-end", json!({ "delta": { "finish_reason": 5 } })),
    ];
    for (name, mut data) in table {
        data["type"] = json!(name);
        let want = format!("malformed [] the frame `{name}` does not have the form that it should have");
        assert_eq!(last(&frame(data.clone())), want, "{data}");
    }
    assert!(last("event: content-delta\ndata: {\"type\":\"con\n\n").starts_with("malformed"));
    assert!(last("data: {\"type\n\n").starts_with("malformed [] the frame `unnamed`"));
}

#[test]
fn news_in_any_form_is_handed_on_and_nulls_say_nothing() {
    let null =
        json!({ "content": { "text": null, "thinking": null }, "tool_plan": null, "tool_calls": null });
    let body = [
        "data: {\"type\":\"new-frame\",\"index\":\"x\",\"delta\":1}\n\n",
        "event: new-event\ndata: not json\n\n",
        "data: [1]\n\n",
        "data: {\"type\":\"debug\",\"prompt\":\"p\"}\n\n",
        "data: [DONE]\n\n",
        &message("content-start", 0, json!({ "content": { "type": "video" } })),
        &message("content-delta", 0, json!({ "content": { "frames": 1 } })),
        &message("content-delta", 0, null),
        &frame(json!({ "type": "tool-plan-delta", "delta": null })),
        &frame(json!({ "type": "tool-call-end", "index": 0, "delta": null })),
    ];
    assert_eq!(
        middle(&(body.concat() + &ended("COMPLETE"))),
        [
            r#"{"type":"provider","name":"new-frame","raw":{"type":"new-frame","index":"x","delta":1}}"#,
            r#"{"type":"provider","name":"new-event","raw":"not json"}"#,
            r#"{"type":"provider","name":"unnamed","raw":[1]}"#,
            r#"{"type":"provider","name":"debug","raw":{"type":"debug","prompt":"p"}}"#,
            r#"{"type":"provider","name":"video","raw":{"delta":{"message":{"content":{"type":"video"}}},"index":0,"type":"content-start"}}"#,
            r#"{"type":"provider","name":"content-delta","raw":{"delta":{"message":{"content":{"frames":1}}},"index":0,"type":"content-delta"}}"#,
        ]
    );
}

#[test]
fn nothing_in_a_list_of_contents_is_lost() {
    let start =
        json!({ "content": [{ "type": "thinking", "thinking": "a" }, { "type": "text", "text": "b" }] });
    let more = json!({ "content": [{ "thinking": "c" }, { "text": "d" }] });
    let body = message("content-start", 0, start) + &message("content-delta", 0, more);
    let lines = middle(&(body + &ended("COMPLETE")));
    let said = |kind: &str| -> String {
        let values = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let texts = values.filter(|event| event["type"] == kind);
        texts.map(|event| event["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (said("reasoning_delta"), said("text_delta")),
        ("ac".to_owned(), "bd".to_owned()),
        "{lines:?}"
    );
}

#[test]
fn the_largest_index_is_one_like_any_other() {
    let index = u64::MAX;
    let body = content(index, "text")
        + &said(index, "text", "hi")
        + &stop("content-end", index)
        + &tool(index, "a", "")
        + &input(index, "{}")
        + &stop("tool-call-end", index)
        + &ended("TOOL_CALL");
    let finished = r#"{"type":"call_finished","call":0,"id":"a","name":"f","arguments":"{}"}"#;
    assert_eq!(middle(&body).last().map(String::as_str), Some(finished));
}
