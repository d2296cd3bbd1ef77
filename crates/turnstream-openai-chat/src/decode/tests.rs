use serde_json::{Value, json};
use turnstream_core::{Decode, End, Events, Limits, SseDecoder};

use super::*;

/// The events of a body as JSON, the same however it is cut, without `turn_started`.
fn events(body: &str) -> Vec<Value> {
    let run = |chunks: &[&[u8]]| -> Vec<Value> {
        let (mut decoder, mut events) = (decoder(Limits::default()), Events::new());
        chunks.iter().for_each(|chunk| decoder.feed(chunk, &mut events));
        decoder.end(End::Closed, &mut events);
        let line = |event| match event {
            Ok(event) => serde_json::to_value::<turnstream_core::Event>(event).unwrap(),
            Err(error) => serde_json::to_value::<Error>(error).unwrap(),
        };
        events.map(line).filter(|line| line["type"] != "turn_started").collect()
    };
    let whole = run(&[body.as_bytes()]);
    for cut in 0..body.len() {
        let (left, right) = body.as_bytes().split_at(cut);
        assert_eq!(run(&[left, right]), whole, "cut at {cut}");
    }
    whole
}

fn decoder(limits: Limits) -> SseDecoder<Reply> {
    SseDecoder::new(RULES, limits, Reply::new(limits.text_bytes))
}

/// A body of these frames and `[DONE]`.
fn body(frames: &[&str]) -> String {
    frames.iter().chain(&["[DONE]"]).map(|frame| format!("data: {frame}\n\n")).collect()
}

/// A chunk with a delta and a reason, both as JSON.
fn chunk(delta: &str, reason: &str) -> String {
    format!(r#"{{"id":"c","model":"m","choices":[{{"index":0,"delta":{delta},"finish_reason":{reason}}}]}}"#)
}

fn text(part: u32, text: &str) -> Value {
    json!({"type": "text_delta", "part": part, "text": text})
}

fn reasoning(text: &str) -> Value {
    json!({"type": "reasoning_delta", "part": 0, "text": text})
}

fn part_finished(part: u32) -> Value {
    json!({"type": "part_finished", "part": part})
}

fn finished(reason: &str, raw: &str) -> Value {
    json!({"type": "turn_finished", "reason": reason, "raw_reason": raw})
}

/// What an error says: its kind, code and message.
fn error(event: &Value) -> (&str, Option<&str>, &str) {
    assert_eq!(event["type"], "error", "{event}");
    (event["kind"].as_str().unwrap(), event["code"].as_str(), event["message"].as_str().unwrap())
}

#[test]
fn what_came_beside_an_error_is_given_out_before_it() {
    let frame = r#"{"error":{"message":"upstream broke","code":502},"choices":[{"index":0,"delta":{"content":"par"},"finish_reason":"error"}]}"#;
    let events = events(&body(&[frame]));
    assert_eq!(events[0], text(0, "par"));
    assert_eq!(error(&events[1]), ("provider", Some("502"), "upstream broke"));
    assert_eq!(events[1]["partial"], true);
    assert_eq!(events.len(), 2);
}

#[test]
fn a_turn_that_gives_no_reason_before_its_marker_is_finished_and_says_so() {
    let inferred = |reason: &str| json!({"type": "turn_finished", "reason": reason, "inferred": true});
    assert_eq!(events(&body(&[])), [inferred("stop")]);
    assert_eq!(
        events(&body(&[&chunk(r#"{"content":"a"}"#, "null")])),
        [text(0, "a"), part_finished(0), inferred("stop")]
    );
    let call = r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}"#;
    assert_eq!(events(&body(&[&chunk(call, "null")])).last(), Some(&inferred("tool_calls")));
    let torn = call.replace("{}", "{");
    let last = events(&body(&[&chunk(&torn, "null")])).pop().unwrap();
    assert_eq!(error(&last).0, "truncated");
}

#[test]
fn an_error_is_one_in_every_form() {
    let table = [
        (r#"{"error":"boom"}"#, None, "boom"),
        (r#"{"error":{"message":"m","type":"server_error","code":null}}"#, Some("server_error"), "m"),
        (
            r#"{"object":"error","message":"m","type":"BadRequestError","code":400}"#,
            Some("BadRequestError"),
            "m",
        ),
        (r#"{"message":"m","code":"3051"}"#, Some("3051"), "m"),
        (r#"{"detail":"gone"}"#, None, "gone"),
        (r#"[{"error":{"message":"m","status":"UNAVAILABLE"}}]"#, Some("UNAVAILABLE"), "m"),
        (
            r#"{"choices":[{"index":0,"error":{"message":"m","code":"x"},"finish_reason":"error"}]}"#,
            Some("x"),
            "m",
        ),
        (r#"{"error":true}"#, None, "true"),
    ];
    for (frame, code, message) in table {
        let events = events(&body(&[frame]));
        assert_eq!(error(&events[0]), ("provider", code, message), "{frame}");
        assert_eq!(events.len(), 1, "{frame}");
    }
}

#[test]
fn an_error_frame_need_not_be_json() {
    let events = events("event: error\ndata: upstream closed\n\n");
    assert_eq!(error(&events[0]), ("provider", None, "upstream closed"));
}

#[test]
fn an_empty_error_is_none() {
    for empty in ["null", "\"\"", "{}", "false", "[]"] {
        let frame = format!(
            r#"{{"error":{empty},"choices":[{{"delta":{{"content":"a"}},"finish_reason":"stop"}}]}}"#
        );
        assert_eq!(
            events(&body(&[&frame])),
            [text(0, "a"), part_finished(0), finished("stop", "stop")],
            "{empty}"
        );
    }
}

#[test]
fn odd_and_missing_fields_change_nothing() {
    let frames = [
        r#"{"id":null,"model":7,"choices":null}"#,
        r#"{"id":"","choices":[],"usage":{}}"#,
        r#"{"id":"c","object":"chat.completion.chunk"}"#,
        r#"{"choices":[{"index":null,"delta":null,"finish_reason":null,"usage":null}],"usage":"none"}"#,
        r#"{"choices":[{"delta":{"role":null,"content":null,"tool_calls":null,"function_call":null,"refusal":null,"reasoning":null,"reasoning_details":null}}]}"#,
        r#"{"choices":[{"index":"0","delta":{"content":"a","refusal":"","tool_calls":[],"deep":[[1e999]]}}],"usage":{"prompt_tokens":"3","completion_tokens":2.0,"prompt_tokens_details":null}}"#,
        r#"{"choices":[{"index":-1,"delta":{"tool_calls":[{"index":5,"function":null},{"index":6,"id":"","function":{"name":"","arguments":""}}]},"finish_reason":"stop"}]}"#,
    ];
    let end = json!({"type": "turn_finished", "reason": "stop", "raw_reason": "stop", "usage": {"input_tokens": 3, "output_tokens": 2}});
    assert_eq!(events(&body(&frames)), [text(0, "a"), part_finished(0), end]);
}

#[test]
fn every_word_for_the_end_is_read() {
    let table = [
        ("stop", "stop"),
        ("eos", "stop"),
        ("length", "length"),
        ("model_length", "length"),
        ("MAX_TOKENS", "length"),
        ("content_filter", "content_filter"),
        ("sensitive", "content_filter"),
        ("tired", "other"),
    ];
    for (raw, reason) in table {
        assert_eq!(events(&body(&[&chunk("{}", &format!("{raw:?}"))])), [finished(reason, raw)]);
    }
    for raw in ["error", "network_error", "abort", "insufficient_system_resource"] {
        let events = events(&body(&[&chunk(r#"{"content":"a"}"#, &format!("{raw:?}"))]));
        assert_eq!(events[0], text(0, "a"));
        assert_eq!(error(&events[1]).1, Some(raw));
    }
}

#[test]
fn a_message_stands_in_for_a_delta_and_is_passed_over_beside_one() {
    let instead = r#"{"choices":[{"index":0,"message":{"content":"whole","tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x": 1}}}]},"finish_reason":"stop"}]}"#;
    let got = events(&body(&[instead]));
    assert_eq!(got[0], text(0, "whole"));
    assert_eq!(
        got[3],
        json!({"type": "call_finished", "call": 0, "id": "a", "name": "f", "arguments": "{\"x\": 1}"})
    );
    let beside = r#"{"choices":[{"index":0,"delta":{"content":"b"},"message":{"content":"ab"},"finish_reason":"stop"}]}"#;
    assert_eq!(events(&body(&[beside]))[0], text(0, "b"));
}

#[test]
fn reasoning_under_several_names_is_said_once() {
    let twice = chunk(r#"{"reasoning":"hm","reasoning_content":"hm","reasoning_text":null}"#, "null");
    let one = chunk(r#"{"reasoning_content":"","reasoning":" so"}"#, "\"stop\"");
    let got = events(&body(&[&twice, &one]));
    assert_eq!(got, [reasoning("hm"), reasoning(" so"), part_finished(0), finished("stop", "stop")]);
}

#[test]
fn reasoning_details_are_put_together_and_speak_where_nothing_plainer_does() {
    let frames = [
        chunk(
            r#"{"reasoning_details":[{"type":"reasoning.summary","summary":"a \ud83d","index":0}]}"#,
            "null",
        ),
        chunk(
            r#"{"reasoning_details":[{"type":"reasoning.summary","summary":"\ude00 \"b\"","index":0,"id":"r1"}]}"#,
            "null",
        ),
        chunk(
            r#"{"reasoning_details":[{"type":"reasoning.summary","summary":"c","index":1},{"type":"reasoning.encrypted","data":"x"}]}"#,
            "\"stop\"",
        ),
    ];
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    let raw = r#"[{"type":"reasoning.summary","summary":"a \ud83d\ude00 \"b\"","index":0,"id":"r1"},{"type":"reasoning.summary","summary":"c","index":1},{"type":"reasoning.encrypted","data":"x"}]"#;
    let details: Value = serde_json::from_str(raw).unwrap();
    let replay = json!({"wire": "openai-chat", "data": {"reasoning_details": details}});
    let want = [
        reasoning("a "),
        reasoning("😀 \"b\""),
        reasoning("c"),
        json!({"type": "part_finished", "part": 0, "replay": replay}),
        finished("stop", "stop"),
    ];
    assert_eq!(events(&body(&frames)), want);
    // A clean end without the marker gives the same back.
    let without_marker: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    assert_eq!(events(&without_marker), want);
}

#[test]
fn what_goes_back_is_bounded() {
    let limits = Limits::default().text_bytes(100);
    let (mut decoder, mut events) = (decoder(limits), Events::new());
    let piece =
        chunk(r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"0123456789"}]}"#, "null");
    (0..10).for_each(|_| decoder.feed(format!("data: {piece}\n\n").as_bytes(), &mut events));
    let kinds: Vec<_> = events.filter_map(Result::err).map(|error| error.kind()).collect();
    assert_eq!(kinds, [ErrorKind::LimitExceeded]);
}

#[test]
fn several_objects_for_one_call_are_not_one_value() {
    let call = r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}]}"#;
    let got = events(&body(&[&chunk(call, "null"), &chunk(call, "\"tool_calls\"")]));
    let aborted = json!({"type": "call_aborted", "call": 0, "id": "a", "name": "f", "partial": "{\"x\":1}{\"x\":1}", "reason": "malformed"});
    assert_eq!(got[3], aborted);
}

#[test]
fn text_for_a_call_that_is_never_named_is_an_error_at_the_end() {
    let got =
        events(&body(&[&chunk(r#"{"tool_calls":[{"index":4,"function":{"arguments":"{}"}}]}"#, "\"stop\"")]));
    let (kind, _, message) = error(&got[0]);
    assert_eq!(kind, "malformed");
    assert!(message.contains("never announced"), "{message}");
}

#[test]
fn news_comes_out_raw() {
    let table = [
        ("data: 5\n\n", "unnamed", json!(5)),
        ("data: {\"type\":\"queued\"}\n\n", "queued", json!({"type": "queued"})),
        ("event: ping\ndata: {\"message\":\"hi\"}\n\n", "ping", json!({"message": "hi"})),
        ("event: ping\ndata: still here\n\n", "ping", json!("still here")),
    ];
    let end = body(&[&chunk("{}", "\"stop\"")]);
    for (frame, name, raw) in table {
        let want = [json!({"type": "provider", "name": name, "raw": raw}), finished("stop", "stop")];
        assert_eq!(events(&format!("{frame}{end}")), want);
    }
}

#[test]
fn a_chunk_that_does_not_parse_is_an_error_that_shows_it() {
    for frame in [r#"{"choices":"x"}"#, r#"{"choices":[{"delta":{"content":1}}]}"#, "{", "oops"] {
        let got = events(&body(&[&chunk(r#"{"content":"a"}"#, "null"), frame]));
        let (kind, _, message) = error(&got[1]);
        assert_eq!((kind, got[1]["body"].as_str()), ("malformed", Some(frame)));
        assert!(message.contains("chat.completion.chunk"), "{message}");
    }
}

#[test]
fn reasoning_beside_the_completion_is_counted_with_the_output() {
    let usage = |report| usage(report).unwrap();
    let beside = usage(
        r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":18,"completion_tokens_details":{"reasoning_tokens":3}}"#,
    );
    assert_eq!((beside.output_tokens, beside.reasoning_tokens), (Some(8), Some(3)));
    let among = usage(
        r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":3}}"#,
    );
    assert_eq!((among.output_tokens, among.reasoning_tokens), (Some(5), Some(3)));
}

#[test]
fn a_hint_of_another_type_says_nothing() {
    let odd = r#""reasoning":{"x":1},"reasoning_content":[],"reasoning_text":7,"annotations":{}"#;
    let usage = r#""usage":{"prompt_tokens":"9","completion_tokens":{},"prompt_tokens_details":"x"}"#;
    let chunk = |content: &str| {
        format!(
            r#"{{"choices":[{{"delta":{{{content},{odd}}},"finish_reason":"stop"}}],"x_groq":3,{usage}}}"#
        )
    };
    let mut want = finished("stop", "stop");
    want["usage"] = json!({"input_tokens": 9});
    assert_eq!(events(&body(&[&chunk(r#""content":"Hi.""#)])), [text(0, "Hi."), part_finished(0), want]);
    // These may have carried something.
    for odd in [r#""content":{}"#, r#""refusal":{}"#, r#""tool_calls":{}"#] {
        assert_eq!(error(&events(&body(&[&chunk(odd)]))[0]).0, "malformed", "{odd}");
    }
}

#[test]
fn pieces_of_reasoning_are_put_together_however_many_fields_they_have() {
    let piece = |text: &str, more: &str| {
        let fields: String = (0..3000).map(|number| format!(r#","k{number}":{number}"#)).collect();
        chunk(
            &format!(
                r#"{{"reasoning_details":[{{"type":"reasoning.text","text":"{text}","index":0{more}{fields}}}]}}"#
            ),
            "null",
        )
    };
    let bodies: Vec<String> =
        [piece(r"a\u00e9", ""), piece("b", r#","signature":"s""#), piece("", r#","signature":null"#)].into();
    let (mut decoder, mut events) = (decoder(Limits::default()), Events::new());
    bodies.iter().for_each(|frame| decoder.feed(format!("data: {frame}\n\n").as_bytes(), &mut events));
    decoder.feed(b"data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", &mut events);
    let replay = events.find_map(|event| match event.unwrap() {
        turnstream_core::Event::PartFinished(part) => part.replay,
        _ => None,
    });
    let replay: ReasoningReplay = replay.unwrap().data.read().unwrap();
    let [detail] = replay.reasoning_details.as_slice() else { panic!("one block") };
    let start = r#"{"type":"reasoning.text","text":"a\u00e9b","index":0,"k0":0,"#;
    assert!(detail.as_str().starts_with(start), "{detail}");
    assert!(detail.as_str().ends_with(r#""k2999":2999,"signature":"s"}"#), "{detail}");
}
