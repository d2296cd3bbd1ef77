//! The recordings of a real server: each means what its events file says, however it is cut, and a client to
//! which it is served again sees the same.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::{fs, sync::Mutex};

use serde_json::Value;
use turnstream::{Error, Event, Limits, Request, RunStatus, Tool, ToolChoice, ToolLoop};
use turnstream_testing::{
    RecordedTurn, Recording, ReplayServer,
    conformance::{check_laws, check_lines, cuts_do_not_matter, decode_pieces},
};
use turnstream_tests::{TestedWire, root};

const WIRES: [TestedWire; 3] = [TestedWire::Anthropic, TestedWire::OpenAiChat, TestedWire::OpenAiResponses];
/// What was recorded on every wire.
const NAMES: [&str; 5] = ["length-in-a-call", "one-call", "text", "two-calls-1", "two-calls-2"];

#[test]
fn every_recording_means_what_its_events_file_says_in_its_own_chunks_and_in_all_others() {
    each(|wire, name, turn| {
        let want = events_file(wire, name);
        let decoded = decode_pieces(wire.decoder(), turn.chunks.iter().map(|chunk| &chunk.bytes[..]));
        check_lines(&decoded, &want);
        check_laws(&decoded);
        check_lines(&cuts_do_not_matter(|| wire.decoder(), &turn.body()), &want);
    });
}

#[test]
fn a_recording_is_of_what_its_name_says() {
    each(|wire, name, turn| {
        assert_eq!((turn.wire.as_str(), turn.status), (wire.name(), 200));
        assert!(turn.chunks.len() > 9, "{name}: it came in pieces");
        let sent = turn.sent().unwrap();
        sent.assert_sound();
        let choice = match name {
            "text" => None,
            "two-calls-2" => Some(ToolChoice::None),
            _ => Some(ToolChoice::Required),
        };
        assert_eq!(sent.tool_choice, choice, "{name}");
        let events = decode_pieces(wire.decoder(), [&turn.body()[..]]);
        let count = |is_so: fn(&Event) -> bool| events.iter().flatten().filter(|event| is_so(event)).count();
        let calls = (
            count(|event| matches!(event, Event::CallFinished(_))),
            count(|event| matches!(event, Event::CallAborted(_))),
        );
        let want = match name {
            "one-call" => (1, 0),
            "two-calls-1" => (2, 0),
            "length-in-a-call" => (0, 1),
            _ => (0, 0),
        };
        assert_eq!(calls, want, "{name} on {}", wire.name());
    });
}

#[test]
fn no_recording_names_a_machine_or_a_secret() {
    each(|_, name, turn| {
        let text = turn.to_json() + &String::from_utf8(turn.body()).unwrap();
        for word in ["/home", "/root", "/tmp", "/work", "Bearer", "sk-"] {
            assert!(!text.contains(word), "{name} has {word}");
        }
    });
}

#[tokio::test]
async fn a_client_sees_the_same_when_a_recording_is_served_again_in_its_chunks() {
    for wire in WIRES {
        for name in NAMES {
            let turn = load(wire, name);
            let server = ReplayServer::start([Recording::from(&turn).scaled(0.0)]).await.unwrap();
            let client = wire.client_with(&server.base_url(), Limits::new());
            let mut stream = client.stream(&Request::new().user("Whatever."));
            let mut events: Vec<Result<Event, Error>> = Vec::new();
            while let Some(event) = stream.next().await {
                events.push(event);
            }
            check_lines(&events, &events_file(wire, name));
            assert_eq!(stream.head().unwrap().headers["server"], "llama.cpp");
        }
    }
}

#[tokio::test]
async fn the_loop_goes_through_a_recorded_conversation_and_sends_what_was_sent_then() {
    for wire in WIRES {
        let turns = ["two-calls-1", "two-calls-2"].map(|name| load(wire, name));
        let server =
            ReplayServer::start(turns.iter().map(|turn| Recording::from(turn).scaled(0.0))).await.unwrap();
        let answers = Mutex::new(["sunny, 21 degrees", "sunny, 70 degrees"].into_iter());
        let weather = Tool::new("get_weather").handler(move |_: Value| {
            let answer = answers.lock().unwrap().next().unwrap();
            async move { Ok(answer) }
        });
        let request = Request::new().user("What is the weather in Paris? Use the tool.");
        let outcome = ToolLoop::new(wire.client(&server.base_url()))
            .tool(weather.sequential())
            .run(request)
            .finish()
            .await;
        assert!(matches!(outcome.status, RunStatus::Finished), "{}: {:?}", wire.name(), outcome.status);
        assert_eq!(outcome.text(), text_of(&events_file(wire, "two-calls-2")));
        // The recorded request is the one that a user would have to write by hand.
        let (sent, then) = (server.sent_requests().pop().unwrap(), turns[1].sent().unwrap());
        sent.assert_sound();
        assert_eq!(sent.parts, then.parts, "{}", wire.name());
    }
}

fn each(check: impl Fn(TestedWire, &str, RecordedTurn)) {
    for wire in WIRES {
        let folder = root().join("fixtures/recorded").join(wire.name());
        assert_eq!(RecordedTurn::load_all(&folder).unwrap().len(), NAMES.len(), "every recording is tested");
        for name in NAMES {
            check(wire, name, load(wire, name));
        }
    }
}

fn load(wire: TestedWire, name: &str) -> RecordedTurn {
    RecordedTurn::load(root().join("fixtures/recorded").join(wire.name()).join(name)).unwrap()
}

fn events_file(wire: TestedWire, name: &str) -> String {
    let folder = root().join("fixtures/recorded").join(wire.name());
    fs::read_to_string(folder.join(format!("{name}.events.jsonl"))).unwrap()
}

/// The text of the events.
fn text_of(lines: &str) -> String {
    let texts = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let deltas = texts.filter(|event| event["type"] == "text_delta");
    deltas.map(|event| event["text"].as_str().unwrap().to_owned()).collect()
}
