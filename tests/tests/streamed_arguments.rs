//! Arguments that Gemini streams as paths and values, over the recordings that have them: what the decoder writes
//! is what the pieces assign, put together here in a way that shares nothing with it.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::fs;

use serde_json::{Map, Value};
use turnstream::{Event, gemini::Gemini, wire::Wire};
use turnstream_testing::conformance::{check_laws, decode};
use turnstream_tests::{corpora, entries, skip};

#[test]
fn the_text_that_is_written_is_what_the_pieces_assign() {
    let Some(folder) = corpora("streams/gemini") else {
        return skip("streams/gemini, which is not here");
    };
    let mut recordings = 0;
    for path in entries(&folder).unwrap() {
        let body = fs::read(&path).unwrap();
        let body = String::from_utf8_lossy(&body);
        if !body.contains("\"partialArgs\"") {
            continue;
        }
        recordings += 1;
        let events = decode(Gemini::new("m").decoder(), body.as_bytes());
        check_laws(&events);
        let finished: Vec<Value> = events
            .iter()
            .flatten()
            .filter_map(|event| match event {
                Event::CallFinished(call) => Some(call.arguments.parse().unwrap()),
                _ => None,
            })
            .collect();
        assert_eq!(finished, assigned(&body), "{}", path.display());
        // Most pieces are a fragment of their own.
        let is_fragment = |event: &&Event| matches!(event, Event::CallArgumentFragment(_));
        let fragments = events.iter().flatten().filter(is_fragment).count();
        assert!(fragments >= body.matches("\"jsonPath\"").count(), "{}", path.display());
    }
    assert!(recordings > 0, "no recording has pieces of arguments");
}

/// What the pieces of each call assign, in order of the calls.
fn assigned(body: &str) -> Vec<Value> {
    let mut calls = Vec::new();
    let frames = body.lines().filter_map(|line| line.strip_prefix("data:"));
    for frame in frames.map(|frame| serde_json::from_str::<Value>(frame).unwrap()) {
        for part in frame["candidates"][0]["content"]["parts"].as_array().unwrap() {
            let call = &part["functionCall"];
            if call["name"].is_string() {
                calls.push(Value::Object(Map::new()));
            }
            for piece in call["partialArgs"].as_array().into_iter().flatten() {
                assign(calls.last_mut().unwrap(), piece);
            }
        }
    }
    calls
}

fn assign(root: &mut Value, piece: &Value) {
    let path = piece["jsonPath"].as_str().unwrap().replace('[', ".").replace(']', "");
    let mut place = root;
    for step in path.trim_start_matches("$.").split('.') {
        place = match step.parse::<usize>() {
            Ok(index) => {
                if place.is_null() {
                    *place = Value::Array(Vec::new());
                }
                let elements = place.as_array_mut().unwrap();
                elements.resize(elements.len().max(index + 1), Value::Null);
                &mut elements[index]
            }
            Err(_) => &mut place[step],
        };
    }
    let value =
        ["stringValue", "numberValue", "boolValue", "nullValue"].iter().find_map(|kind| piece.get(kind));
    match (place, value.unwrap()) {
        (Value::String(text), Value::String(more)) => text.push_str(more),
        (place, value) => *place = value.clone(),
    }
}
