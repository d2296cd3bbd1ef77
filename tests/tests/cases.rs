//! The conformance corpora, where they are: each case, however it is cut, and those that need a server; and
//! every recorded error body.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;
use turnstream::{
    Error, ErrorKind, Event, Request,
    bedrock::InvokeAnthropic,
    wire::Wire as _,
    wire::reexports::http::{HeaderMap, HeaderName, HeaderValue},
};
use turnstream_testing::{
    Recording, ReplayServer,
    conformance::{broken_law, check_laws, cuts_do_not_matter, decode, decode_pieces, line},
};
use turnstream_tests::{TestedWire, corpora, entries, skip};

/// The events that a case speaks of.
const SHOWN: [&str; 7] = [
    "call_aborted",
    "call_argument_fragment",
    "call_finished",
    "call_started",
    "error",
    "text_delta",
    "turn_finished",
];

/// A case: a small body, and the events that it means.
struct Case {
    name: String,
    folder: PathBuf,
    wire: TestedWire,
    body: Vec<u8>,
    http: Option<HttpHead>,
    chunks: Chunks,
}

#[derive(Deserialize)]
struct HttpHead {
    status: u16,
    headers: std::collections::BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct Chunks {
    #[serde(default)]
    cuts: Vec<usize>,
    #[serde(default)]
    end: String,
}

#[test]
fn every_case_gives_its_events_however_it_is_cut() {
    let mut failures = Vec::new();
    for case in cases(skip).iter().filter(|case| case.http.is_none()) {
        let Some(want) = case.want() else { continue };
        let events = cuts_do_not_matter(|| case.wire.decoder(), &case.body);
        check_laws(&events);
        let cut = decode_pieces(case.wire.decoder(), pieces(&case.body, &case.chunks.cuts));
        assert_eq!(lines(&events), lines(&cut), "{}", case.name);
        failures.extend(difference(&case.name, &want, &events));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn every_case_with_a_head_gives_its_events_over_http() {
    let mut failures = Vec::new();
    for case in cases(|_| ()) {
        let (Some(head), Some(want)) = (&case.http, case.want()) else { continue };
        let mut recording = Recording::new(case.body.clone()).status(head.status).in_chunks_of(61);
        for (name, value) in &head.headers {
            recording = recording.header(name, value);
        }
        let server = ReplayServer::start([recording]).await.unwrap();
        let mut stream = case.wire.client(&server.base_url()).stream(&Request::new().user("?"));
        let mut events = Vec::new();
        while let Some(event) = stream.next().await {
            events.push(event);
        }
        check_laws(&events);
        failures.extend(difference(&case.name, &want, &events));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn a_case_that_stalls_is_let_go_when_its_stream_is_dropped() {
    for case in cases(|_| ()).iter().filter(|case| case.chunks.end == "stall") {
        let server = ReplayServer::start([Recording::new(case.body.clone()).stall()]).await.unwrap();
        let mut stream = case.wire.client(&server.base_url()).stream(&Request::new().user("?"));
        while !matches!(stream.next().await, Some(Ok(Event::TextDelta(_)))) {}
        drop(stream);
        let gone = tokio::time::timeout(Duration::from_secs(10), server.client_gone()).await;
        assert!(gone.is_ok(), "{}: the connection stayed open", case.name);
    }
}

#[test]
fn every_recorded_stream_keeps_the_laws() {
    for wire in TestedWire::ALL {
        let name = format!("streams/{}", wire.name());
        let Some(folder) = corpora(&name) else {
            skip(&format!("{name}, which is not here"));
            continue;
        };
        let paths = entries(&folder).unwrap();
        let is_body = |path: &&PathBuf| path.extension().is_some_and(|end| end == wire.extension());
        for path in paths.iter().filter(is_body) {
            let events = decode(wire.decoder(), &fs::read(path).unwrap());
            let broken = broken_law(&events);
            assert_eq!(broken, None, "{}", path.display());
        }
    }
}

/// Recordings of Anthropic's models at Bedrock, in the words of the Messages wire.
#[test]
fn every_recording_of_an_invoked_model_of_anthropics_ends_as_it_was_recorded() {
    let Some(streams) = corpora("streams") else {
        return skip("streams/bedrock-invoke, which is not here");
    };
    let decoder = || InvokeAnthropic::new("m", "us-east-1").decoder();
    let mut count = 0;
    for line in fs::read_to_string(streams.join("MANIFEST.tsv")).unwrap().lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let Some(name) = columns[0].strip_prefix("bedrock-invoke/") else { continue };
        // Claude 2 answered in a format from before the Messages wire.
        if !columns[4].contains("via-anthropic") || columns[3].starts_with("claude-2") {
            continue;
        }
        let body = fs::read(streams.join(columns[0])).unwrap();
        let events = decode(decoder(), &body);
        assert_eq!(broken_law(&events), None, "{name}");
        for size in [1, 7, 61] {
            assert_eq!(lines(&decode_pieces(decoder(), body.chunks(size))), lines(&events), "{name}");
        }
        let Some(Ok(Event::TurnFinished(end))) = events.last() else { panic!("{name} does not end well") };
        assert_eq!(end.raw_reason.as_deref(), Some(columns[19]), "{name}");
        let calls = events.iter().filter(|event| matches!(event, Ok(Event::CallFinished(_)))).count();
        assert_eq!(calls.to_string(), columns[13], "{name}");
        count += 1;
    }
    assert!(count > 0, "no recording was found");
}

#[test]
fn every_recorded_error_body_is_understood() {
    #[derive(Deserialize)]
    struct Recorded {
        status: u16,
        headers: std::collections::BTreeMap<String, String>,
        #[serde(default)]
        body: Value,
        body_raw: Option<String>,
    }
    let Some(folder) = corpora("streams/errors") else {
        return skip("streams/errors, which is not here");
    };
    let mut count = 0;
    for path in entries(&folder).unwrap() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let wire = TestedWire::ALL.into_iter().find(|wire| name.contains(&format!("-{}-", wire.name())));
        let Some(wire) = wire.filter(|_| name.ends_with(".error.json")) else { continue };
        let recorded: Recorded = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in &recorded.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        let body = recorded.body_raw.unwrap_or_else(|| recorded.body.to_string());
        let error = wire.refused(recorded.status, &headers, body.as_bytes());
        assert_eq!(
            (error.kind(), error.status()),
            (ErrorKind::of_status(recorded.status), Some(recorded.status))
        );
        // Something of what the provider said stands in the message, whatever the shape was.
        let said = serde_json::from_str(&body).map(|body: Value| texts(&body)).unwrap_or_default();
        let is_said = said.contains(error.message());
        assert!(said.is_empty() || is_said, "{name}: {:?} is not what the provider said", error.message());
        count += 1;
    }
    assert!(count > 0, "there are error bodies, but none of these wires");
}

impl Case {
    /// The expected events. `None` is a scenario that no body tells: other tests have those.
    fn want(&self) -> Option<Vec<Value>> {
        let lines = fs::read_to_string(self.folder.join("expect.jsonl")).ok()?;
        let lines = lines.lines().filter(|line| !line.trim().is_empty());
        Some(lines.map(|line| serde_json::from_str(line).unwrap()).collect())
    }
}

/// All cases of these wires that have a body. The others are skipped by name.
fn cases(skip: impl Fn(&str)) -> Vec<Case> {
    let Some(folder) = corpora("cases") else {
        skip("cases, which are not here");
        return Vec::new();
    };
    let mut cases = Vec::new();
    for folder in entries(&folder).unwrap().into_iter().filter(|path| path.is_dir()) {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let format = fs::read_to_string(folder.join("format")).unwrap_or_default();
        let Some(wire) = TestedWire::from_name(format.trim()) else {
            match format.trim() {
                "" => skip(&format!("{name} (a scenario, not a body)")),
                format => skip(&format!("{name} ({format}, no wire of this project)")),
            }
            continue;
        };
        let body = fs::read(folder.join("input").with_extension(wire.extension())).unwrap();
        let http = read_json(&folder.join("http.json"));
        let chunks = read_json(&folder.join("chunks.json")).unwrap_or_default();
        cases.push(Case { name, folder, wire, body, http, chunks });
    }
    cases
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    let text = fs::read_to_string(path).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

fn pieces<'b>(body: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let ends = cuts.iter().copied().chain([body.len()]);
    ends.scan(0, |start, end| Some(&body[std::mem::replace(start, end)..end])).collect()
}

fn lines(events: &[Result<Event, Error>]) -> Vec<String> {
    events.iter().map(line).collect()
}

/// What is wrong with the events of a case, if something is. Aborted calls may stand anywhere.
fn difference(name: &str, want: &[Value], events: &[Result<Event, Error>]) -> Option<String> {
    let got: Vec<Value> = lines(events).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let got: Vec<Value> =
        got.into_iter().filter(|event| SHOWN.contains(&event["type"].as_str().unwrap())).collect();
    let split = |events: &[Value]| -> (Vec<Value>, Vec<Value>) {
        let (mut aborted, others): (Vec<Value>, Vec<Value>) =
            events.iter().cloned().partition(|event| event["type"] == "call_aborted");
        aborted.sort_by_key(|event| event["call"].as_u64());
        (aborted, others)
    };
    let ((want_aborted, want_others), (got_aborted, got_others)) = (split(want), split(&got));
    let are_same = |want: &[Value], got: &[Value]| {
        want.len() == got.len() && want.iter().zip(got).all(|(want, got)| is_as_wanted(want, got))
    };
    let started = |event: &&Value| event["type"] == "call_started";
    let ids: Vec<&Value> = got.iter().filter(started).map(|event| &event["id"]).collect();
    let are_unique = ids.iter().map(|id| id.to_string()).collect::<BTreeSet<_>>().len() == ids.len();
    let has_made_up_ids = want.iter().any(|event| event["id"] == "*");
    if are_same(&want_aborted, &got_aborted)
        && are_same(&want_others, &got_others)
        && (are_unique || !has_made_up_ids)
    {
        return None;
    }
    let list = |events: &[Value]| events.iter().map(|event| format!("\n    {event}")).collect::<String>();
    Some(format!("{name}\n  expected:{}\n  got:{}", list(want), list(&got)))
}

/// `"id":"*"` is any made-up id; a message is part of the message.
fn is_as_wanted(want: &Value, got: &Value) -> bool {
    let want_members = want.as_object().unwrap().iter();
    let mut members = want_members.map(|(name, value)| match name.as_str() {
        "id" if value == "*" => got["id"].as_str().is_some_and(|id| !id.is_empty()),
        "message" => {
            let message = got["message"].as_str().unwrap_or_default();
            message.contains(value.as_str().unwrap())
        }
        _ => got[name] == *value,
    });
    members.all(|is_so| is_so) && got.get("inferred").is_some() == want.get("inferred").is_some()
}

/// All strings in a value, one after the other.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(values) => values.iter().map(texts).collect(),
        Value::Object(members) => members.values().map(texts).collect(),
        _ => String::new(),
    }
}
