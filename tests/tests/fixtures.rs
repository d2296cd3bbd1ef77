//! Every fixture, whole, byte by byte, and at every single cut. `kit_recorded.rs` reads the recorded ones.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::{fs, path::Path};

use turnstream::ErrorKind;
use turnstream_testing::{
    bedrock,
    conformance::{check_laws, check_lines, cuts_do_not_matter, decode},
};
use turnstream_tests::{Framing, TestedWire, entries, root};

/// The fixtures that every wire has.
const REQUIRED: [&str; 6] =
    ["cut-in-arguments", "escapes", "interleaved-calls", "long-call", "order-1-call", "order-2-answer"];

#[test]
fn the_fixtures_of_anthropic_messages_hold_however_they_are_cut() {
    check(TestedWire::Anthropic);
}

#[test]
fn the_fixtures_of_cohere_hold_however_they_are_cut() {
    check(TestedWire::Cohere);
}

#[test]
fn the_fixtures_of_gemini_hold_however_they_are_cut() {
    check(TestedWire::Gemini);
}

#[test]
fn the_fixtures_of_ollama_hold_however_they_are_cut() {
    check(TestedWire::Ollama);
}

#[test]
fn the_fixtures_of_bedrock_hold_however_they_are_cut() {
    check(TestedWire::Bedrock);
}

#[test]
fn a_stream_of_another_wire_is_not_taken_for_a_cut_one_of_this() {
    let wires = || TestedWire::ALL.into_iter().filter(|wire| wire.framing() == Framing::Sse);
    for of in wires() {
        let folder = root().join("fixtures").join(of.name());
        let body = fs::read(folder.join("order-2-answer.sse")).unwrap();
        // Another wire's last marker ends nothing here, but for the one that is Chat Completions' own.
        let body = String::from_utf8(body).unwrap().replace("[DONE]", "{}");
        for wire in wires().filter(|wire| *wire != of) {
            let events = decode(wire.decoder(), body.as_bytes());
            let error = events.last().unwrap().as_ref().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Truncated, "{} as {}", of.name(), wire.name());
            // The kind is that of a cut stream: asking again may help there, and does no harm here.
            let words = format!("nothing in it is of the wire `{}`", wire.name());
            assert!(error.message().contains(&words), "{}: {error}", of.name());
        }
    }
}

#[test]
fn bodies_of_messages_are_what_their_frames_say() {
    let folder = root().join("fixtures").join(TestedWire::Bedrock.name());
    for path in entries(&folder).unwrap() {
        if path.extension().is_none_or(|extension| extension != "frames") {
            continue;
        }
        let (mut body, frames) = (Vec::new(), fs::read_to_string(&path).unwrap());
        for line in frames.lines() {
            let (name, payload) = line.split_once(' ').unwrap_or((line, ""));
            match name {
                "!damage" => *body.last_mut().unwrap() ^= 1,
                "!tear" => body.truncate(body.len() - payload.parse::<usize>().unwrap()),
                name => body.extend(bedrock::frame(name, payload)),
            }
        }
        assert!(body == fs::read(path.with_extension("bin")).unwrap(), "{}: see frames.py", path.display());
    }
}

#[test]
fn the_fixtures_of_chat_completions_hold_however_they_are_cut() {
    check(TestedWire::OpenAiChat);
}

#[test]
fn the_fixtures_of_responses_hold_however_they_are_cut() {
    check(TestedWire::OpenAiResponses);
}

#[test]
fn every_folder_of_fixtures_is_a_known_wire() {
    for folder in entries(&root().join("fixtures")).unwrap() {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let is_known = TestedWire::from_name(name).is_some() || name == "recorded";
        assert!(!folder.is_dir() || is_known, "fixtures/{name} is read by no test");
    }
}

fn check(wire: TestedWire) {
    let folder = root().join("fixtures").join(wire.name());
    for name in REQUIRED {
        let path = folder.join(name).with_extension(wire.extension());
        assert!(path.exists(), "{} is missing", path.display());
    }
    for path in entries(&folder).unwrap() {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(extension) if extension == wire.extension() => check_fixture(wire, &path),
            // A body that is one JSON value.
            Some("json") => check_fixture(wire, &path),
            Some("jsonl") => {
                let stem = path.with_extension("");
                let is_body = |extension: &str| stem.with_extension(extension).exists();
                assert!(
                    is_body(wire.extension()) || is_body("json"),
                    "{} belongs to no body",
                    path.display()
                );
            }
            _ => {}
        }
    }
}

fn check_fixture(wire: TestedWire, path: &Path) {
    // Shown only when the test fails: the last one is the culprit.
    println!("fixture {}", path.display());
    let body = fs::read(path).unwrap();
    let events = cuts_do_not_matter(|| wire.decoder(), &body);
    check_laws(&events);
    let want =
        fs::read_to_string(path.with_extension("events.jsonl")).expect("every body has an events file");
    check_lines(&events, &want);
}
