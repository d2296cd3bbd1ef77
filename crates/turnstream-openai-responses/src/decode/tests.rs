use turnstream_core::{Decode, End, Events, Limits, Part, SseDecoder, TurnBuilder};

use super::*;

fn events(body: &[u8]) -> Events {
    let mut events = Events::new();
    let mut decoder = SseDecoder::new(RULES, Limits::default(), Interpreter::default());
    decoder.feed(body, &mut events);
    decoder.end(End::Closed, &mut events);
    events
}

fn body(frames: &[&str]) -> String {
    frames.iter().map(|frame| format!("data: {frame}\n\n")).collect()
}

/// Decodes frames and compares every event's JSON.
fn check(frames: &[&str], want: &[&str]) {
    let got: Vec<String> = events(body(frames).as_bytes())
        .map(|event| match event {
            Ok(event) => serde_json::to_string(&event).unwrap(),
            Err(error) => serde_json::to_string(&error).unwrap(),
        })
        .collect();
    assert_eq!(got, want, "{frames:#?}");
}

const STARTED: &str = r#"{"type":"turn_started"}"#;
const COMPLETED: &str = r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#;
const STOPPED: &str = r#"{"type":"turn_finished","reason":"stop","raw_reason":"completed"}"#;
const CALLED: &str = r#"{"type":"turn_finished","reason":"tool_calls","raw_reason":"completed"}"#;
const ADDED: &str = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"call_1","name":"f","arguments":""}}"#;
const CALL_STARTED: &str = r#"{"type":"call_started","part":0,"call":0,"id":"call_1","name":"f"}"#;

fn delta(text: &str) -> String {
    format!(
        r#"{{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":{}}}"#,
        serde_json::to_string(text).unwrap()
    )
}

#[test]
fn fragments_go_by_output_index_whatever_the_item_ids_are() {
    check(
        &[
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"x1","call_id":"a","name":"f","arguments":""}}"#,
            r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"x2","call_id":"b","name":"f","arguments":""}}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"x3","output_index":1,"delta":"{\"b\":"}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"x4","output_index":0,"delta":"{}"}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"x5","output_index":1,"delta":"1}"}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"x6","call_id":"b","name":"f","arguments":"{\"b\":1}","status":"completed"}}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"x7","call_id":"a","name":"f","arguments":"{}"}}"#,
            r#"{"type":"response.completed","response":{"output":[{"type":"function_call","id":"y1","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call","id":"y2","call_id":"b","name":"f","arguments":"{\"b\":1}"}]}}"#,
        ],
        &[
            STARTED,
            r#"{"type":"call_started","part":0,"call":0,"id":"a","name":"f"}"#,
            r#"{"type":"call_started","part":1,"call":1,"id":"b","name":"f"}"#,
            r#"{"type":"call_argument_fragment","call":1,"fragment":"{\"b\":"}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"{}"}"#,
            r#"{"type":"call_argument_fragment","call":1,"fragment":"1}"}"#,
            r#"{"type":"call_finished","call":1,"id":"b","name":"f","arguments":"{\"b\":1}"}"#,
            r#"{"type":"part_finished","part":1,"replay":{"wire":"openai-responses","data":{"id":"x6","status":"completed"}}}"#,
            r#"{"type":"call_finished","call":0,"id":"a","name":"f","arguments":"{}"}"#,
            r#"{"type":"part_finished","part":0,"replay":{"wire":"openai-responses","data":{"id":"x7"}}}"#,
            CALLED,
        ],
    );
}

#[test]
fn without_output_index_the_ids_tell_the_items_apart() {
    // As llama.cpp and Ollama send it: no index, calls without an id, all ends at the end.
    check(
        &[
            r#"{"type":"response.output_item.added","item":{"type":"message","id":"msg_1","content":[]}}"#,
            r#"{"type":"response.output_text.delta","item_id":"msg_1","delta":"Let me "}"#,
            r#"{"type":"response.output_text.delta","item_id":"msg_1","delta":"look."}"#,
            r#"{"type":"response.output_item.added","item":{"type":"function_call","call_id":"fc_a","name":"f","arguments":""}}"#,
            r#"{"type":"response.output_item.added","item":{"type":"function_call","call_id":"b","name":"f","arguments":""}}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"fc_b","delta":"{\"n\""}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"fc_a","delta":"{}"}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"fc_b","delta":":2}"}"#,
            r#"{"type":"response.output_text.done","item_id":"msg_1","text":"Let me look."}"#,
            r#"{"type":"response.output_item.done","item":{"type":"message","id":"msg_1","status":"completed","content":[{"type":"output_text","text":"Let me look."}]}}"#,
            r#"{"type":"response.output_item.done","item":{"type":"function_call","status":"completed","call_id":"fc_a","name":"f","arguments":"{}"}}"#,
            r#"{"type":"response.output_item.done","item":{"type":"function_call","status":"completed","call_id":"b","name":"f","arguments":"{\"n\":2}"}}"#,
            r#"{"type":"response.completed","response":{"id":"r","status":"completed","output":[{"type":"message","id":"other","content":[{"type":"output_text","text":"Let me look."}]},{"type":"function_call","call_id":"fc_a","name":"f","arguments":"{}"},{"type":"function_call","call_id":"b","name":"f","arguments":"{\"n\":2}"}]}}"#,
        ],
        &[
            STARTED,
            r#"{"type":"text_delta","part":0,"text":"Let me "}"#,
            r#"{"type":"text_delta","part":0,"text":"look."}"#,
            r#"{"type":"call_started","part":1,"call":0,"id":"fc_a","name":"f"}"#,
            r#"{"type":"call_started","part":2,"call":1,"id":"b","name":"f"}"#,
            r#"{"type":"call_argument_fragment","call":1,"fragment":"{\"n\""}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"{}"}"#,
            r#"{"type":"call_argument_fragment","call":1,"fragment":":2}"}"#,
            r#"{"type":"part_finished","part":0,"replay":{"wire":"openai-responses","data":{"id":"msg_1","status":"completed"}}}"#,
            r#"{"type":"call_finished","call":0,"id":"fc_a","name":"f","arguments":"{}"}"#,
            r#"{"type":"call_finished","call":1,"id":"b","name":"f","arguments":"{\"n\":2}"}"#,
            CALLED,
        ],
    );
}

#[test]
fn one_index_for_all_items_does_not_mix_them_up() {
    let item = |event: &str, id: &str, arguments: &str| {
        format!(
            r#"{{"type":"response.output_item.{event}","output_index":0,"item":{{"type":"function_call","id":"fc_{id}","call_id":"{id}","name":"f","arguments":"{arguments}"}}}}"#
        )
    };
    let piece = |id: &str, text: &str| {
        format!(
            r#"{{"type":"response.function_call_arguments.delta","item_id":"fc_{id}","output_index":0,"delta":"{text}"}}"#
        )
    };
    let frames = [
        item("added", "a", ""),
        item("added", "b", ""),
        piece("a", "[1"),
        piece("b", "[2"),
        piece("a", "]"),
        piece("b", "]"),
        item("done", "a", "[1]"),
        item("done", "b", "[2]"),
        COMPLETED.to_owned(),
    ];
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    let finished: Vec<String> = events(body(&frames).as_bytes())
        .filter_map(|event| match event.unwrap() {
            turnstream_core::Event::CallFinished(call) => Some(format!("{} {}", call.id, call.arguments)),
            _ => None,
        })
        .collect();
    assert_eq!(finished, ["a [1]", "b [2]"]);
}

#[test]
fn a_call_that_comes_only_in_the_snapshot_comes_out() {
    check(
        &[
            r#"{"type":"response.completed","response":{"id":"r","model":"m","status":"completed","output":[{"type":"function_call","id":"fc_8","call_id":"call_8","name":"sum","arguments":"{}","status":"completed"}]}}"#,
        ],
        &[
            r#"{"type":"turn_started","id":"r","model":"m"}"#,
            r#"{"type":"call_started","part":0,"call":0,"id":"call_8","name":"sum"}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"{}"}"#,
            r#"{"type":"call_finished","call":0,"id":"call_8","name":"sum","arguments":"{}"}"#,
            r#"{"type":"part_finished","part":0,"replay":{"wire":"openai-responses","data":{"id":"fc_8","status":"completed"}}}"#,
            CALLED,
        ],
    );
}

#[test]
fn a_done_text_adds_what_is_missing_and_a_contradiction_aborts() {
    let done = |text: &str| {
        format!(
            r#"{{"type":"response.function_call_arguments.done","output_index":0,"arguments":{}}}"#,
            serde_json::to_string(text).unwrap()
        )
    };
    // The item never ends by itself: the terminal event ends it.
    check(
        &[ADDED, &delta("{\"a\":"), &done("{\"a\":1}"), COMPLETED],
        &[
            STARTED,
            CALL_STARTED,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"{\"a\":"}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"1}"}"#,
            r#"{"type":"call_finished","call":0,"id":"call_1","name":"f","arguments":"{\"a\":1}"}"#,
            CALLED,
        ],
    );
    let item = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{}"}}"#;
    check(
        &[ADDED, &delta("{\"a\":"), &done("{}"), item, COMPLETED],
        &[
            STARTED,
            CALL_STARTED,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"{\"a\":"}"#,
            r#"{"type":"call_aborted","call":0,"id":"call_1","name":"f","partial":"{\"a\":","reason":"malformed"}"#,
            CALLED,
        ],
    );
}

#[test]
fn whole_arguments_in_the_announcement_count_once() {
    let added = |arguments: &str| {
        format!(
            r#"{{"type":"response.output_item.added","output_index":0,"item":{{"type":"function_call","call_id":"call_1","name":"f","arguments":{}}}}}"#,
            serde_json::to_string(arguments).unwrap()
        )
    };
    let finished = r#"{"type":"call_finished","call":0,"id":"call_1","name":"f","arguments":"{\"a\":1}"}"#;
    let whole = r#"{"type":"call_argument_fragment","call":0,"fragment":"{\"a\":1}"}"#;
    check(&[&added("{\"a\":1}"), COMPLETED], &[STARTED, CALL_STARTED, whole, finished, CALLED]);
    check(
        &[&added("{\"a\":1}"), &delta("{\"a\":1}"), COMPLETED],
        &[STARTED, CALL_STARTED, whole, finished, CALLED],
    );
    check(
        &[&added("{\"a\""), &delta(":1}"), COMPLETED],
        &[
            STARTED,
            CALL_STARTED,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"{\"a\""}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":":1}"}"#,
            finished,
            CALLED,
        ],
    );
}

#[test]
fn an_item_that_is_done_but_incomplete_is_not_finished() {
    let item = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{}","status":"incomplete"}}"#;
    let ends = [
        ("max_output_tokens", "length", "length"),
        ("content_filter", "content_filter", "content_filter"),
        ("steered", "other", "truncated"),
    ];
    for (word, reason, abort) in ends {
        check(
            &[
                ADDED,
                &delta("{}"),
                item,
                &format!(
                    r#"{{"type":"response.incomplete","response":{{"status":"incomplete","incomplete_details":{{"reason":"{word}"}}}}}}"#
                ),
            ],
            &[
                STARTED,
                CALL_STARTED,
                r#"{"type":"call_argument_fragment","call":0,"fragment":"{}"}"#,
                &format!(
                    r#"{{"type":"call_aborted","call":0,"id":"call_1","name":"f","partial":"{{}}","reason":"{abort}"}}"#
                ),
                &format!(r#"{{"type":"turn_finished","reason":"{reason}","raw_reason":"{word}"}}"#),
            ],
        );
    }
}

#[test]
fn a_status_of_incomplete_counts_under_whatever_event() {
    check(
        &[
            r#"{"type":"response.output_text.delta","output_index":0,"delta":"Onc"}"#,
            r#"{"type":"response.completed","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}"#,
        ],
        &[
            STARTED,
            r#"{"type":"text_delta","part":0,"text":"Onc"}"#,
            r#"{"type":"part_finished","part":0}"#,
            r#"{"type":"turn_finished","reason":"length","raw_reason":"max_output_tokens"}"#,
        ],
    );
}

#[test]
fn a_fragment_of_no_known_call_is_an_error_that_names_the_key() {
    for (place, name) in [(r#""output_index":7"#, "key 7"), (r#""item_id":"fc_9""#, "key `fc_9`")] {
        let frame = format!(r#"{{"type":"response.function_call_arguments.delta",{place},"delta":"x"}}"#);
        let error = events(body(&[&frame]).as_bytes()).last().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.message().contains(name), "{error}");
    }
}

#[test]
fn a_free_form_call_is_text() {
    check(
        &[
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"custom_tool_call","id":"ctc_1","call_id":"call_1","name":"sql","input":""}}"#,
            r#"{"type":"response.custom_tool_call_input.delta","output_index":0,"item_id":"ctc_1","delta":"SELECT "}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"custom_tool_call","id":"ctc_1","call_id":"call_1","name":"sql","input":"SELECT 1","status":"completed"}}"#,
            COMPLETED,
        ],
        &[
            STARTED,
            r#"{"type":"call_started","part":0,"call":0,"id":"call_1","name":"sql","input":"text"}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"SELECT "}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"1"}"#,
            r#"{"type":"call_finished","call":0,"id":"call_1","name":"sql","arguments":"SELECT 1"}"#,
            r#"{"type":"part_finished","part":0,"replay":{"wire":"openai-responses","data":{"id":"ctc_1","status":"completed"}}}"#,
            CALLED,
        ],
    );
}

#[test]
fn text_that_comes_only_whole_comes_out_once() {
    let text = r#"{"type":"text_delta","part":0,"text":"Hi."}"#;
    let done = r#"{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"Hi."}"#;
    let item = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi."}]}}"#;
    let end = r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","id":"m","content":[{"type":"output_text","text":"Hi."}]}]}}"#;
    let bare = r#"{"type":"part_finished","part":0}"#;
    let kept = r#"{"type":"part_finished","part":0,"replay":{"wire":"openai-responses","data":{"id":"m"}}}"#;
    check(&[done, done, item, end], &[STARTED, text, bare, STOPPED]);
    check(&[item, end], &[STARTED, text, bare, STOPPED]);
    check(&[done, end], &[STARTED, text, kept, STOPPED]);
    check(&[end], &[STARTED, text, kept, STOPPED]);
}

#[test]
fn reasoning_is_a_part_per_summary_and_the_last_keeps_the_item() {
    check(
        &[
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"first"}}"#,
            r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"One."}"#,
            r#"{"type":"response.reasoning_summary_text.done","output_index":0,"summary_index":0,"text":"One."}"#,
            r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"Two."}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1", "type":"reasoning","summary":[{"type":"summary_text","text":"One."},{"type":"summary_text","text":"Two."}],"encrypted_content":"last"}}"#,
            COMPLETED,
        ],
        &[
            STARTED,
            r#"{"type":"reasoning_delta","part":0,"text":"One."}"#,
            r#"{"type":"reasoning_delta","part":1,"text":"Two."}"#,
            r#"{"type":"part_finished","part":0}"#,
            r#"{"type":"part_finished","part":1,"replay":{"wire":"openai-responses","data":{"id":"rs_1", "type":"reasoning","summary":[{"type":"summary_text","text":"One."},{"type":"summary_text","text":"Two."}],"encrypted_content":"last"}}}"#,
            STOPPED,
        ],
    );
}

#[test]
fn a_hosted_tool_is_no_call_and_stays_in_the_message() {
    let done = r#"{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"x"}}"#;
    let frames = [
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"web_search_call","id":"ws_1","status":"in_progress"}}"#.to_owned(),
        r#"{"type":"response.web_search_call.searching","output_index":0,"item_id":"ws_1"}"#.to_owned(),
        format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{done}}}"#),
        r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"See"}"#.to_owned(),
        r#"{"type":"response.output_text.annotation.added","output_index":1,"content_index":0,"annotation":{"type":"url_citation","url":"https://x.example","title":"X"}}"#.to_owned(),
        COMPLETED.to_owned(),
    ];
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    check(
        &frames,
        &[
            STARTED,
            r#"{"type":"provider","name":"web_search_call","raw":{"type":"web_search_call","id":"ws_1","status":"in_progress"}}"#,
            r#"{"type":"provider","name":"response.web_search_call.searching","raw":{"type":"response.web_search_call.searching","output_index":0,"item_id":"ws_1"}}"#,
            &format!(
                r#"{{"type":"part_finished","part":0,"replay":{{"wire":"openai-responses","data":{done}}}}}"#
            ),
            r#"{"type":"text_delta","part":1,"text":"See"}"#,
            r#"{"type":"citation","part":1,"url":"https://x.example","title":"X","raw":{"type":"url_citation","url":"https://x.example","title":"X"}}"#,
            r#"{"type":"part_finished","part":1}"#,
            STOPPED,
        ],
    );
    let mut turn = TurnBuilder::new();
    events(body(&frames).as_bytes()).for_each(|event| turn.push(&event.unwrap()));
    let parts = turn.build().parts;
    assert!(matches!(parts.as_slice(), [Part::Opaque(_), Part::Text(_)]), "{parts:?}");
}

#[test]
fn a_refusal_is_not_text() {
    check(
        &[
            r#"{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"I can't"}"#,
            r#"{"type":"response.refusal.done","output_index":0,"content_index":0,"refusal":"I can't"}"#,
            COMPLETED,
        ],
        &[
            STARTED,
            r#"{"type":"refusal_delta","part":0,"text":"I can't"}"#,
            r#"{"type":"part_finished","part":0}"#,
            r#"{"type":"turn_finished","reason":"refusal","raw_reason":"completed"}"#,
        ],
    );
}

#[test]
fn every_shape_of_error_is_one_provider_error() {
    let table = [
        r#"{"type":"error","code":"server_error","message":"Boom","param":null,"sequence_number":3}"#,
        r#"{"type":"error","error":{"type":"server_error","code":"server_error","message":"Boom"}}"#,
        r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"Boom"}}}"#,
        r#"{"error":{"code":500,"message":"Boom","type":"server_error"}}"#,
    ];
    let on_the_response = r#"{"code":"server_error","message":"Boom"}"#;
    for frame in table {
        let shown = if frame == table[2] { on_the_response } else { frame };
        let shown = serde_json::to_string(shown).unwrap();
        check(
            &[r#"{"type":"response.output_text.delta","output_index":0,"delta":"par"}"#, frame, table[2]],
            &[
                STARTED,
                r#"{"type":"text_delta","part":0,"text":"par"}"#,
                &format!(
                    r#"{{"type":"error","kind":"provider","message":"Boom","partial":true,"code":"server_error","body":{shown}}}"#
                ),
            ],
        );
    }
    let plain = events(b"event: error\ndata: upstream went away\n\n").last().unwrap().unwrap_err();
    assert_eq!((plain.kind(), plain.body()), (ErrorKind::Provider, Some("upstream went away")));
    let cancelled = r#"{"type":"response.cancelled","response":{"status":"cancelled"}}"#;
    let cancelled = events(body(&[cancelled]).as_bytes()).last().unwrap().unwrap_err();
    assert_eq!((cancelled.kind(), cancelled.code()), (ErrorKind::Provider, Some("cancelled")));
    assert!(!cancelled.is_retryable());
}

#[test]
fn only_the_terminal_event_ends_a_turn() {
    for end in ["data: [DONE]\n\n", ""] {
        let frames = body(&[ADDED, &delta("{}")]) + end;
        let error = events(frames.as_bytes()).last().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Truncated, "{end:?}");
    }
    // After it nothing counts; and it counts without the blank line, too.
    check(&[COMPLETED, "[DONE]", ADDED], &[STARTED, STOPPED]);
    assert_eq!(events(format!("event: x\ndata: {COMPLETED}").as_bytes()).count(), 2);
}

#[test]
fn news_is_handed_on_and_broken_known_frames_are_named() {
    check(
        &[
            r#"{"type":"response.shell.delta","delta":{"stdout":"x"}}"#,
            r#"{"hello":1}"#,
            r#"[1]"#,
            r#"{"type":"response.completed","response":{"usage":{"input_tokens":"9","output_tokens":7.0,"output_tokens_details":null,"input_tokens_details":{"cached_tokens":null}}}}"#,
        ],
        &[
            STARTED,
            r#"{"type":"provider","name":"response.shell.delta","raw":{"type":"response.shell.delta","delta":{"stdout":"x"}}}"#,
            r#"{"type":"provider","name":"unnamed","raw":{"hello":1}}"#,
            r#"{"type":"provider","name":"unnamed","raw":[1]}"#,
            r#"{"type":"turn_finished","reason":"stop","raw_reason":"completed","usage":{"input_tokens":9,"output_tokens":7}}"#,
        ],
    );
    let table = [
        (r#"{"type":"response.output_item.added"}"#, "`response.output_item.added`"),
        (r#"{"type":"response.output_text.delta","delta":{}}"#, "`response.output_text.delta`"),
        (r#"{"type":"respo"#, "`unnamed`"),
    ];
    for (frame, name) in table {
        let error = events(body(&[frame]).as_bytes()).last().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{frame}");
        assert!(error.message().contains(name), "{error}");
    }
    let named = events(b"event: response.completed\ndata: {\"response\":{}}\n\n").last().unwrap();
    assert!(named.is_ok(), "the event's name stands in for the type");
}

#[test]
fn a_call_of_an_incomplete_turn_is_aborted_wherever_it_was_said() {
    let streamed = [ADDED.to_owned(), delta(r#"{"a":1}"#)];
    let item = r#"{"type":"function_call","call_id":"call_1","name":"f","arguments":"{\"a\":1}"}"#;
    let reasons = [
        ("max_output_tokens", "length", "length"),
        ("content_filter", "content_filter", "content_filter"),
        ("steered", "truncated", "other"),
    ];
    for (word, abort, reason) in reasons {
        for (is_streamed, output) in [(true, ""), (false, item), (true, item)] {
            let last = format!(
                r#"{{"type":"response.incomplete","response":{{"status":"incomplete","incomplete_details":{{"reason":"{word}"}},"output":[{output}]}}}}"#
            );
            let mut frames: Vec<&str> = Vec::new();
            if is_streamed {
                frames.extend(streamed.iter().map(String::as_str));
            }
            frames.push(&last);
            check(
                &frames,
                &[
                    STARTED,
                    CALL_STARTED,
                    r#"{"type":"call_argument_fragment","call":0,"fragment":"{\"a\":1}"}"#,
                    &format!(
                        r#"{{"type":"call_aborted","call":0,"id":"call_1","name":"f","partial":"{{\"a\":1}}","reason":"{abort}"}}"#
                    ),
                    &format!(r#"{{"type":"turn_finished","reason":"{reason}","raw_reason":"{word}"}}"#),
                ],
            );
        }
    }
}

#[test]
fn items_that_are_none_break_only_the_frames_that_look_at_them() {
    let error = |frame: &str| events(body(&[frame]).as_bytes()).last().unwrap().unwrap_err();
    for item in ["null", "\"x\"", "[]", "7", "-1", "1.5", "true"] {
        let failed = error(&format!(
            r#"{{"type":"response.failed","response":{{"error":{{"code":"server_error","message":"m"}},"output":[{item}]}}}}"#
        ));
        assert_eq!((failed.kind(), failed.code()), (ErrorKind::Provider, Some("server_error")), "{item}");
        let created = format!(r#"{{"type":"response.created","response":{{"id":"r","output":[{item}]}}}}"#);
        check(&[&created, COMPLETED], &[r#"{"type":"turn_started","id":"r"}"#, STOPPED]);
        for frame in [
            format!(r#"{{"type":"response.completed","response":{{"output":[{item}]}}}}"#),
            format!(r#"{{"type":"response.output_item.done","item":{item}}}"#),
        ] {
            assert_eq!(error(&frame).kind(), ErrorKind::Malformed, "{frame}");
        }
    }
}

/// Each of the items goes back as it came. If each were looked for in the frame anew, this would take minutes.
#[test]
fn a_snapshot_of_very_many_items_is_read_in_one_pass() {
    let item = |number: usize| format!(r#"{{"type":"news","number":{number}}}"#);
    let items: Vec<String> = (0..16_000).map(item).collect();
    let last = format!(r#"{{"type":"response.completed","response":{{"output":[{}]}}}}"#, items.join(","));
    let mut turn = TurnBuilder::new();
    events(body(&[&last]).as_bytes()).for_each(|event| turn.push(&event.unwrap()));
    let parts = turn.build().parts;
    assert_eq!(parts.len(), items.len());
    for (part, item) in parts.iter().zip(&items) {
        let Part::Opaque(part) = part else { panic!("{part:?}") };
        assert_eq!(part.replay.data.as_str(), item);
    }
}
