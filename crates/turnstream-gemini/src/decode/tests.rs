use serde_json::{Value, json};
use turnstream_core::{Decode as _, End, ErrorKind, Event, Events, SseOrJsonDecoder, TurnBuilder};

use super::*;

fn frame(data: &Value) -> String {
    format!("data: {data}\r\n\r\n")
}

fn parts(parts: Value) -> String {
    frame(&json!({ "candidates": [{ "content": { "role": "model", "parts": parts } }] }))
}

fn text(text: &str) -> String {
    parts(json!([{ "text": text }]))
}

fn call(call: Value) -> String {
    parts(json!([{ "functionCall": call }]))
}

fn reason(word: &str) -> String {
    frame(&json!({ "candidates": [{ "finishReason": word }] }))
}

fn decoded(limits: Limits, body: &[u8], size: usize, end: fn() -> End) -> Vec<Result<Event, Error>> {
    let mut decoder = SseOrJsonDecoder::new(RULES, limits, Responses::new(limits));
    let mut events = Events::new();
    for chunk in body.chunks(size.max(1)) {
        decoder.feed(chunk, &mut events);
    }
    decoder.end(end(), &mut events);
    events.collect()
}

/// The lines of a body, the same whole and byte by byte.
fn lines_at(limits: Limits, body: &str, end: fn() -> End) -> Vec<String> {
    let lines = |size| -> Vec<String> {
        decoded(limits, body.as_bytes(), size, end)
            .into_iter()
            .map(|event| match event {
                Ok(event) => serde_json::to_string(&event).unwrap(),
                Err(error) => {
                    format!("{} [{}] {}", error.kind(), error.code().unwrap_or(""), error.message())
                }
            })
            .collect()
    };
    let whole = lines(body.len());
    assert_eq!(lines(1), whole, "other events when cut in every byte");
    whole
}

fn lines(body: &str) -> Vec<String> {
    lines_at(Limits::default(), body, || End::Closed)
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

fn turn(body: &str) -> turnstream_core::Turn {
    let mut turn = TurnBuilder::new();
    for event in decoded(Limits::default(), body.as_bytes(), usize::MAX, || End::Closed) {
        turn.push(&event.unwrap());
    }
    turn.build()
}

#[test]
fn each_reason_has_our_word() {
    let table = [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("OTHER", "other"),
        ("BRAND_NEW", "other"),
    ];
    for (theirs, ours) in table {
        let want = json!({ "type": "turn_finished", "reason": ours, "raw_reason": theirs });
        assert_eq!(serde_json::from_str::<Value>(&last(&reason(theirs))).unwrap(), want, "{theirs}");
    }
    for word in ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"] {
        let want = format!("provider [{word}] the provider ended the turn with the reason `{word}`");
        assert_eq!(last(&reason(word)), want);
    }
    for word in ["", "FINISH_REASON_UNSPECIFIED"] {
        assert_eq!(last(&(text("Hi.") + &reason(word))), "truncated [] the body ended before the turn did");
    }
}

#[test]
fn a_malformed_call_is_an_error_that_shows_it() {
    let body = text("So: ")
        + &frame(&json!({ "candidates": [{
            "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "Malformed function call: print(f(",
        }] }));
    let events = lines(&body);
    assert_eq!(
        events[2..],
        [
            r#"{"type":"provider","name":"finishMessage","raw":"Malformed function call: print(f("}"#,
            "provider [MALFORMED_FUNCTION_CALL] the provider ended the turn with the reason \
             `MALFORMED_FUNCTION_CALL`: Malformed function call: print(f(",
        ]
    );
}

#[test]
fn a_reason_with_every_piece_ends_nothing_and_the_most_alarming_counts() {
    let piece = |text: &str, word: &str| {
        frame(
            &json!({ "candidates": [{ "content": { "parts": [{ "text": text }] }, "finishReason": word }] }),
        )
    };
    let body = piece("One", "STOP") + &piece(", two", "STOP");
    assert!(last(&body).contains(r#""reason":"stop""#));
    let body = body + &reason("RECITATION");
    assert_eq!(
        lines(&body)[1..],
        [
            r#"{"type":"text_delta","part":0,"text":"One"}"#,
            r#"{"type":"text_delta","part":0,"text":", two"}"#,
            r#"{"type":"part_finished","part":0}"#,
            r#"{"type":"turn_finished","reason":"content_filter","raw_reason":"RECITATION"}"#,
        ]
    );
    // What comes behind the last reason was going to have one of its own.
    assert_eq!(
        last(&(piece("One", "STOP") + &text("two"))),
        "truncated [] the body ended before the turn did"
    );
}

#[test]
fn only_a_clean_end_after_a_reason_ends_a_turn() {
    let reset = || End::Broken(Error::new(ErrorKind::Truncated, "reset"));
    let body = text("Hi.") + &reason("STOP");
    assert_eq!(lines_at(Limits::default(), &body, reset).pop().unwrap(), "truncated [] reset");
    assert_eq!(last(&text("Hi.")), "truncated [] the body ended before the turn did");
    assert_eq!(last(""), "truncated [] the body ended and had said nothing");
    assert_eq!(last(": ping\n\n"), "truncated [] the body ended and had said nothing");
}

#[test]
fn an_array_and_an_object_say_the_same_as_events() {
    let frames = [
        json!({ "candidates": [{ "content": { "parts": [{ "text": "Hi" }] } }], "responseId": "r", "modelVersion": "m" }),
        json!({ "candidates": [{ "content": { "parts": [{ "text": "." }] }, "finishReason": "STOP" }] }),
    ];
    let events: String = frames.iter().map(frame).collect();
    let want = lines(&events);
    let array = |end: &str| format!("[{:#}\n,\r\n{}\n{end}", frames[0], frames[1]);
    assert_eq!(lines(&array("]")), want);
    assert_eq!(last(&array("")), "truncated [] the body ended in the middle of its JSON");
    assert_eq!(lines(&format!("data: {}\n\n", json!(frames))), want);
    let mut object = frames[0].clone();
    object["candidates"][0]["content"]["parts"] = json!([{ "text": "Hi" }, { "text": "." }]);
    object["candidates"][0]["finishReason"] = json!("STOP");
    assert_eq!(lines(&format!("{object:#}\n")), want);
    let object = object.to_string();
    assert_eq!(last(&object[..object.len() - 1]), "truncated [] the body ended in the middle of its JSON");
}

#[test]
fn a_call_is_its_part_and_its_object_stays_as_it_is_spelled() {
    let args = "{ \"b\": 1.0,\n\t\"a\":\"\\u00e9\\ud83d\" }";
    let body = format!(
        "[{{\"candidates\":[{{\"content\":{{\"parts\":[\
         {{\"functionCall\":{{\"name\":\"f\",\"args\":{args},\"id\":\"a\"}},\"thoughtSignature\":\"c2ln\"}},\
         {{\"functionCall\":{{\"name\":\"f\"}}}},\
         {{\"functionCall\":{{\"name\":\"f\",\"args\":null,\"id\":\"\"}}}},\
         {{\"functionCall\":{{\"name\":\"f\",\"args\":{{}}}}}}]}},\"finishReason\":\"STOP\"}}]}}]"
    );
    let text = serde_json::to_string(args).unwrap();
    let bare = |part: u32, arguments: &str| {
        let (id, mut lines) = (format!("turnstream_call_{part}"), Vec::new());
        lines.push(format!(
            r#"{{"type":"call_started","part":{part},"call":{part},"id":"{id}","name":"f","made_up_id":true}}"#
        ));
        if !arguments.is_empty() {
            lines.push(format!(
                r#"{{"type":"call_argument_fragment","call":{part},"fragment":"{arguments}"}}"#
            ));
        }
        lines.push(format!(
            r#"{{"type":"call_finished","call":{part},"id":"{id}","name":"f","arguments":"{arguments}"}}"#
        ));
        lines
    };
    let mut want = vec![
        r#"{"type":"call_started","part":0,"call":0,"id":"a","name":"f"}"#.to_owned(),
        format!(r#"{{"type":"call_argument_fragment","call":0,"fragment":{text}}}"#),
        format!(r#"{{"type":"call_finished","call":0,"id":"a","name":"f","arguments":{text}}}"#),
        r#"{"type":"part_finished","part":0,"replay":{"wire":"gemini","data":{"thoughtSignature":"c2ln"}}}"#
            .to_owned(),
    ];
    want.extend(bare(1, "").into_iter().chain(bare(2, "")).chain(bare(3, "{}")));
    assert_eq!(middle(&body), want);
    assert!(last(&body).contains(r#""reason":"tool_calls","raw_reason":"STOP""#));
}

#[test]
fn a_whole_call_is_finished_also_where_the_turn_is_cut() {
    let body = call(json!({ "name": "f", "args": { "a": 1 } })) + &reason("MAX_TOKENS");
    assert!(middle(&body).iter().any(|line| line.contains("call_finished")));
    assert!(last(&body).contains(r#""reason":"length""#));
}

#[test]
fn streamed_arguments_are_one_text() {
    let piece = |pieces: Value, goes_on: bool| {
        call(if goes_on {
            json!({ "partialArgs": pieces, "willContinue": true })
        } else {
            json!({ "partialArgs": pieces })
        })
    };
    let start = || {
        parts(json!([{
            "functionCall": { "name": "f", "willContinue": true }, "thoughtSignature": "c2ln",
        }]))
    };
    let half = |text: &str| json!([{ "jsonPath": "$.city", "stringValue": text, "willContinue": true }]);
    let end = || json!([{ "jsonPath": "$.city", "stringValue": "" }]);
    let body = start()
        + &piece(half("Bos"), true)
        + &call(json!({ "willContinue": true }))
        + &piece(half("ton"), true)
        + &piece(end(), true)
        + &call(json!({}))
        + &call(json!({}))
        + &start()
        + &piece(
            json!([{ "jsonPath": "$.n", "numberValue": 1.0 }, { "jsonPath": "$.ok", "boolValue": true }]),
            false,
        )
        + &call(json!({ "name": "now" }))
        + &reason("STOP");
    let fragments: Vec<String> =
        middle(&body).into_iter().filter(|line| line.contains("call_argument_fragment")).collect();
    assert_eq!(
        fragments,
        [
            r#"{"type":"call_argument_fragment","call":0,"fragment":"{\"city\":\"Bos"}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"ton"}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"\""}"#,
            r#"{"type":"call_argument_fragment","call":0,"fragment":"}"}"#,
            r#"{"type":"call_argument_fragment","call":1,"fragment":"{\"n\":1.0,\"ok\":true}"}"#,
        ]
    );
    let turn = turn(&body);
    let arguments: Vec<&str> = turn.calls.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!(arguments, [r#"{"city":"Boston"}"#, r#"{"n":1.0,"ok":true}"#, ""]);
}

#[test]
fn a_call_that_nothing_ended_is_finished_by_a_normal_end_if_its_values_are_whole() {
    let start = call(json!({ "name": "f", "willContinue": true }));
    let piece = |goes_on: bool| {
        call(json!({
            "partialArgs": [{ "jsonPath": "$.a[0]", "stringValue": "x", "willContinue": goes_on }],
            "willContinue": true,
        }))
    };
    let end = |body: &str| {
        middle(body).into_iter().find(|line| {
            line.contains(r#"call_finished","call":0"#) || line.contains(r#"call_aborted","call":0"#)
        })
    };
    let finished = r#"{"type":"call_finished","call":0,"id":"turnstream_call_0","name":"f","arguments":"{\"a\":[\"x\"]}"}"#;
    let aborted = |partial: &str, reason: &str| {
        format!(
            r#"{{"type":"call_aborted","call":0,"id":"turnstream_call_0","name":"f","partial":"{partial}","reason":"{reason}"}}"#
        )
    };
    let next = call(json!({ "name": "g" }));
    for more in ["", &*next, &*text("Done.")] {
        let body = start.clone() + &piece(false) + more;
        assert_eq!(end(&(body.clone() + &reason("STOP"))).as_deref(), Some(finished), "{more}");
        // The call that was cut is the last one, or the one that got the last fragment.
        let cut = end(&(body + &reason("MAX_TOKENS"))).unwrap();
        assert!(cut.contains(r#""reason":"length""#), "{cut}");
    }
    let torn = start.clone() + &piece(true) + &reason("STOP");
    assert_eq!(end(&torn), Some(aborted(r#"{\"a\":[\"x"#, "malformed")));
    assert!(last(&torn).contains("tool_calls"));
    let truncated = lines(&(start.clone() + &piece(false)));
    assert_eq!(truncated[truncated.len() - 2], aborted(r#"{\"a\":[\"x\""#, "truncated"));
    assert_eq!(end(&(start + &reason("STOP"))).unwrap(), finished.replace(r#"{\"a\":[\"x\"]}"#, ""));
}

#[test]
fn pieces_without_a_place_are_shown_and_their_call_is_malformed() {
    let piece = |path: &str| json!({ "jsonPath": path, "boolValue": true });
    let body = call(json!({ "name": "f", "partialArgs": [piece("$.a"), piece("$.a"), piece("$.b")] }))
        + &call(json!({ "name": "f", "args": { "a": 1 }, "partialArgs": [piece("$.b")] }))
        + &reason("STOP");
    let news = |raw: &Value| format!(r#"{{"type":"provider","name":"partialArgs","raw":{raw}}}"#);
    let lines = middle(&body);
    assert_eq!(
        lines.iter().filter(|line| line.contains("provider")).collect::<Vec<_>>(),
        [&news(&piece("$.a")), &news(&piece("$.b")), &news(&piece("$.b")),]
    );
    assert!(
        lines.iter().any(|line| line.contains(r#""call_aborted","call":0"#) && line.contains("malformed"))
    );
    assert!(lines.iter().any(|line| line.contains(r#""call_finished","call":1"#)));
}

#[test]
fn a_call_without_a_name_is_an_error_and_a_stray_terminator_is_not() {
    for call_without_name in [
        json!({ "args": { "a": 1 } }),
        json!({ "partialArgs": [{ "jsonPath": "$.a", "boolValue": true }], "willContinue": true }),
    ] {
        let events = lines(&(text("Hi.") + &call(call_without_name) + &reason("STOP")));
        let want = "malformed [] argument text for the call with key 0, which was never announced";
        assert_eq!(events.last().unwrap(), want);
    }
    for nothing in [json!({}), json!({ "args": {} }), json!({ "name": "", "willContinue": true })] {
        let body = call(nothing) + &text("Hi.") + &reason("STOP");
        assert_eq!(middle(&body).len(), 2);
    }
}

#[test]
fn texts_of_a_kind_are_one_part_and_a_signed_one_is_its_own() {
    let body = parts(json!([{ "text": "hm", "thought": true }, { "text": "" }]))
        + &parts(json!([{ "text": ".", "thought": true, "thoughtSignature": "" }]))
        + &parts(json!([{ "text": "So", "thoughtSignature": "c2ln" }, { "text": ", yes" }]))
        + &parts(json!([{ "text": ".", "thoughtSignature": null }, {}]))
        + &parts(json!([{ "text": "", "thoughtSignature": "ZW5k" }]))
        + &parts(json!([{ "text": "z", "thought": true, "thoughtSignature": "dA==" }]))
        + &reason("STOP");
    assert_eq!(
        middle(&body),
        [
            r#"{"type":"reasoning_delta","part":0,"text":"hm"}"#,
            r#"{"type":"reasoning_delta","part":0,"text":"."}"#,
            r#"{"type":"part_finished","part":0,"replay":{"wire":"gemini","data":{"thought":true}}}"#,
            r#"{"type":"text_delta","part":1,"text":"So"}"#,
            r#"{"type":"part_finished","part":1,"replay":{"wire":"gemini","data":{"thoughtSignature":"c2ln"}}}"#,
            r#"{"type":"text_delta","part":2,"text":", yes"}"#,
            r#"{"type":"text_delta","part":2,"text":"."}"#,
            r#"{"type":"part_finished","part":2}"#,
            r#"{"type":"part_finished","part":3,"replay":{"wire":"gemini","data":{"text":"","thoughtSignature":"ZW5k"}}}"#,
            r#"{"type":"reasoning_delta","part":4,"text":"z"}"#,
            r#"{"type":"part_finished","part":4,"replay":{"wire":"gemini","data":{"thought":true,"thoughtSignature":"dA=="}}}"#,
        ]
    );
}

#[test]
fn parts_of_the_providers_own_are_shown_and_kept_whole() {
    let code = json!({ "executableCode": { "language": "PYTHON", "code": "1" } });
    let news = json!({ "thought": true, "hologram": { "depth": 2.0 }, "thoughtSignature": "c2ln" });
    let body = parts(json!([code, { "text": "1" }, news, { "inlineData": null }])) + &reason("STOP");
    let replay = |part: u32, data: &Value| {
        format!(r#"{{"type":"part_finished","part":{part},"replay":{{"wire":"gemini","data":{data}}}}}"#)
    };
    assert_eq!(
        middle(&body),
        [
            format!(r#"{{"type":"provider","name":"executableCode","raw":{code}}}"#),
            replay(0, &code),
            r#"{"type":"text_delta","part":1,"text":"1"}"#.to_owned(),
            r#"{"type":"part_finished","part":1}"#.to_owned(),
            format!(r#"{{"type":"provider","name":"hologram","raw":{news}}}"#),
            replay(2, &news),
        ]
    );
}

#[test]
fn a_blocked_prompt_is_a_filtered_turn() {
    let feedback = json!({ "blockReason": "SAFETY", "blockReasonMessage": "No." });
    assert_eq!(
        lines(&frame(&json!({ "promptFeedback": feedback })))[1..],
        [
            format!(r#"{{"type":"provider","name":"promptFeedback","raw":{feedback}}}"#),
            r#"{"type":"turn_finished","reason":"content_filter","raw_reason":"SAFETY"}"#.to_owned(),
        ]
    );
    // Ratings alone block nothing.
    for feedback in [json!({}), json!({ "safetyRatings": [] }), json!({ "blockReason": "" })] {
        let body = frame(&json!({ "promptFeedback": feedback })) + &reason("STOP");
        assert!(last(&body).contains(r#""reason":"stop""#), "{feedback}");
    }
}

#[test]
fn sources_come_once_each_with_the_text_before_them() {
    let web = json!({ "web": { "uri": "https://a", "title": "A" } });
    let stored = json!({ "retrievedContext": { "title": "B", "text": "b" } });
    let cited = json!({ "startIndex": 3, "uri": "https://c" });
    let grounded = |chunks: Value| {
        frame(&json!({ "candidates": [{
            "content": { "parts": [{ "text": "x" }] },
            "groundingMetadata": { "groundingChunks": chunks },
            "citationMetadata": { "citationSources": [cited] },
            "urlContextMetadata": {},
        }] }))
    };
    let body = grounded(json!([web])) + &grounded(json!([web, stored])) + &reason("STOP");
    let lines = middle(&body);
    let citations: Vec<&String> = lines.iter().filter(|line| line.contains("\"citation\"")).collect();
    assert_eq!(
        citations,
        [
            &format!(r#"{{"type":"citation","part":0,"url":"https://a","title":"A","raw":{web}}}"#),
            &format!(r#"{{"type":"citation","part":0,"url":"https://c","raw":{cited}}}"#),
            &format!(r#"{{"type":"citation","part":0,"title":"B","raw":{stored}}}"#),
        ]
    );
    assert_eq!(lines.iter().filter(|line| line.contains(r#""name":"groundingMetadata""#)).count(), 2);
    assert!(!lines.iter().any(|line| line.contains("urlContextMetadata")));
}

#[test]
fn usage_is_merged_field_by_field() {
    let usage = |usage: Value| frame(&json!({ "usageMetadata": usage }));
    let body =
        usage(json!({ "promptTokenCount": 10, "cachedContentTokenCount": 4, "thoughtsTokenCount": 7 }))
            + &usage(
                json!({ "candidatesTokenCount": 2, "toolUsePromptTokenCount": 5, "promptTokenCount": null }),
            )
            + &usage(json!({ "trafficType": "ON_DEMAND", "candidatesTokenCount": 3.0 }))
            + &usage(json!({ "trafficType": "ON_DEMAND" }))
            + &reason("STOP");
    assert!(
        last(&body).ends_with(
            r#""usage":{"input_tokens":15,"output_tokens":10,"cache_read_tokens":4,"reasoning_tokens":7}}"#
        ),
        "{}",
        last(&body)
    );
}

#[test]
fn errors_come_in_any_dress() {
    let error = json!({ "error": { "code": 503, "message": "Busy.", "status": "UNAVAILABLE" } });
    let want = "provider [UNAVAILABLE] Busy.";
    for body in [format!("{error}"), format!("[{error:#}\n]"), frame(&error), format!("data: [{error}]\n\n")]
    {
        assert_eq!(lines(&body), [want], "{body}");
    }
    for tail in [frame(&error), format!("{error}\n\n"), format!("{error:#}"), format!("[{error:#}\n]\n")] {
        assert_eq!(lines(&(text("Hi") + &tail)).last().unwrap(), want, "{tail}");
    }
    let beside = frame(&json!({
        "candidates": [{ "content": { "parts": [{ "text": "Hi" }] }, "finishReason": "STOP" }],
        "error": { "message": "Busy.", "status": "UNAVAILABLE" },
    }));
    assert_eq!(lines(&beside).len(), 3);
    assert_eq!(last(&beside), want);
    for nothing in [Value::Null, json!(""), json!({}), json!(false)] {
        let body = frame(&json!({ "candidates": [{ "finishReason": "STOP" }], "error": nothing }));
        assert!(last(&body).contains("turn_finished"));
    }
}

#[test]
fn what_is_no_response_is_news_noise_or_damage() {
    let hi = text("Hi.") + &reason("STOP");
    let news = [r#"{"x":{"candidates":[7]}}"#, "7", r#""candidates""#, "null", "[[1]]", "[]"];
    for data in news {
        let body = format!("data: {data}\n\n{hi}");
        assert!(last(&body).contains("turn_finished"), "{data}");
    }
    assert_eq!(lines(&format!("{hi}data: [DONE]\n\n")), lines(&hi));
    for damage in [
        r#"{"candidates":7}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":7}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"functionCall":"f"}]}}]}"#,
        r#"{"candidates":[{"finishReason":{}}]}"#,
        r#"[{"candidates":7}]"#,
        r#"{"responseId":7}"#,
    ] {
        let want =
            "malformed [] the frame `GenerateContentResponse` does not have the form that it should have";
        assert_eq!(lines(&format!("{hi}data: {damage}\n\n")).last().unwrap(), want, "{damage}");
    }
    let torn = last(&(hi + "data: {\"candidates\":\n\n"));
    assert_eq!(torn, "malformed [] the frame `unnamed` does not have the form that it should have");
    assert_eq!(last("<html>"), "not_a_stream [] the body has no server-sent event and no JSON");
}

#[test]
fn other_candidates_are_the_providers_business() {
    let other = json!({ "index": 1, "content": { "parts": [{ "text": "no" }] }, "finishReason": "SAFETY" });
    let body = frame(&json!({ "candidates": [
        { "index": 0, "content": { "parts": [{ "text": "Hi." }] }, "finishReason": "STOP" }, other,
    ] }));
    assert!(middle(&body).contains(&format!(r#"{{"type":"provider","name":"candidate","raw":{other}}}"#)));
    assert!(last(&body).contains(r#""reason":"stop""#));
}

#[test]
fn half_a_character_waits_for_the_rest() {
    let piece = |text: &str| {
        format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}}}]}}\n\n")
    };
    let body = piece("a\\ud83d") + &piece("\\ude00b") + &reason("STOP");
    assert_eq!(turn(&body).text(), "a😀b");
}

#[test]
fn limits_are_typed_errors() {
    let limits = Limits::default();
    let last = |limits: Limits, body: &str| lines_at(limits, body, || End::Closed).pop().unwrap();
    let over = |limit: &str, seen: usize, most: usize| {
        format!("limit_exceeded [{limit}] the reply went over the limit `{limit}`: {seen} of at most {most}")
    };
    let object = json!([{ "candidates": [{ "content": { "parts": [{ "text": "x".repeat(200) }] } }] }]);
    assert_eq!(last(limits.frame_bytes(100), &object.to_string()), over("frame_bytes", 101, 100));
    let calls = call(json!({ "name": "f", "args": { "a": "xxxx" } }));
    assert_eq!(last(limits.argument_bytes(8), &calls), over("argument_bytes", 12, 8));
    let twice = calls.clone() + &calls;
    assert_eq!(last(limits.calls(1), &twice), over("calls", 2, 1));
    let held = "; never announced: a call of `f`";
    assert_eq!(last(limits.parts(1), &twice), over("parts", 2, 1) + held);
    assert_eq!(last(limits.text_bytes(4), &text("Hello")), over("text_bytes", 5, 4));
}

#[test]
fn a_deep_reply_needs_no_deep_stack() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let body = format!(
        "[{{\"candidates\":[{{\"content\":{{\"parts\":[{{\"functionCall\":{{\"name\":\"f\",\"args\":{{\"a\":{deep}}}}}}},\
         {{\"hologram\":{deep}}}]}},\"finishReason\":\"STOP\",\"x\":{deep}}}],\"usageMetadata\":{deep}}},{deep}]"
    );
    let events = decoded(Limits::default(), body.as_bytes(), 4096, || End::Closed);
    assert!(events.iter().all(Result::is_ok), "{:?}", events.last());
}

/// Each of them is handed on as it came. If each were looked for in the frame anew, this would take minutes.
#[test]
fn a_frame_of_very_many_parts_or_candidates_is_read_in_one_pass() {
    let news = |body: &str| -> Vec<String> {
        let events = decoded(Limits::default(), body.as_bytes(), body.len(), || End::Closed).into_iter();
        let raw = |event| match event {
            Ok(Event::Provider(news)) => Some(news.raw.as_str().to_owned()),
            _ => None,
        };
        events.filter_map(raw).collect()
    };
    let many: Vec<Value> = (0..16_000).map(|number| json!({ "index": 1, "number": number })).collect();
    let want: Vec<String> = many.iter().map(Value::to_string).collect();
    assert_eq!(news(&frame(&json!({ "candidates": many }))), want);
    assert_eq!(news(&parts(json!(many))), want);
}
