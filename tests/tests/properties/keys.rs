//! A fragment belongs to a call by its key: not by its place in the stream, not by the tool's name, not by
//! the call's id.

mod roles;

use std::sync::LazyLock;

use serde_json::{Value, json};
use turnstream::{ErrorKind, Event, Reason};
use turnstream_testing::{Reply, anthropic, bedrock, cohere, openai_chat, openai_responses};
use turnstream_tests::TestedWire;

use crate::{
    bodies::{Frame, Frames, edited},
    events::finished_calls,
    inputs::{Input, inputs},
    json::Edits,
    trial::{Trial, try_all},
};
use roles::{Role, call_pieces, is_one_after_the_other, roles};

/// How often the fragments of two calls are shuffled, and how many pairs of a body's calls are.
const SHUFFLES: u64 = 32;
const PAIRS: usize = 6;

#[test]
fn fragments_of_two_calls_may_come_in_any_order() {
    try_all("interleaving", &turns(), |input| &input.name, check_shuffles);
}

#[test]
fn a_call_is_the_same_by_whatever_keys_its_pieces_have() {
    try_all("keys", &turns(), |input| &input.name, check_keys);
}

/// All inputs, and turns of each wire with two calls of one tool.
fn turns() -> Vec<&'static Input> {
    static BUILT: LazyLock<Vec<Input>> = LazyLock::new(|| {
        let calls = || {
            let first = json!({ "city": "São  Paulo", "days": [1, 2, 3], "note": "a \"quoted\" word\n" });
            let second = json!({ "city": "Oslo", "note": "x", "and": { "so": { "on": null } } });
            [("call_a", "forecast", first), ("call_b", "forecast", second)]
        };
        let bodies = [
            (TestedWire::Anthropic, turn(anthropic::Reply::new(), calls()).body()),
            (TestedWire::Bedrock, turn(bedrock::Reply::new(), calls()).body()),
            (TestedWire::Cohere, turn(cohere::Reply::new(), calls()).body()),
            (TestedWire::OpenAiChat, turn(openai_chat::Reply::new(), calls()).body()),
            (TestedWire::OpenAiResponses, turn(openai_responses::Reply::new(), calls()).body()),
        ];
        let named = bodies.into_iter();
        named.map(|(wire, body)| Input::new(format!("built/{}", wire.name()), wire, body)).collect()
    });
    inputs().iter().chain(&*BUILT).filter(|input| ends_well(input)).collect()
}

fn turn<F>(reply: Reply<F>, calls: [(&str, &str, Value); 2]) -> Reply<F> {
    let reply = reply.text(["Look: "]);
    calls
        .into_iter()
        .fold(reply, |reply, (id, name, arguments)| reply.call(id, name, arguments).fragments_of(3))
}

fn ends_well(input: &Input) -> bool {
    let is_aborted = |event: &Event| matches!(event, Event::CallAborted(_));
    let end = input.whole.last();
    matches!(end, Some(Ok(Event::TurnFinished(end))) if end.reason == Reason::ToolCalls)
        && !input.whole.iter().flatten().any(is_aborted)
}

/// Two calls: both announced, then their fragments in any order that keeps each call's own, then both ends.
fn check_shuffles(input: &&Input, trial: &mut Trial) {
    let Some(roles) = roles(input) else { return };
    let keys: Vec<u64> =
        roles.iter().flatten().filter(|(_, role)| *role == Role::Announcement).map(|(key, _)| *key).collect();
    let all_pairs = (0..keys.len()).flat_map(|two| (0..two).map(move |one| (one, two)));
    let pairs: Vec<(u64, u64)> = all_pairs.map(|(one, two)| (keys[one], keys[two])).collect();
    if pairs.len() > PAIRS {
        trial.is_sampled();
    }
    let want = finished_calls(&input.whole);
    for pair in pairs.into_iter().take(PAIRS) {
        for seed in 0..SHUFFLES {
            let body = shuffled(input, &roles, pair, seed);
            trial.holds(
                || format!("calls {pair:?}, shuffle {seed}"),
                || assert_eq!(finished_calls(&input.decode(&body)), want),
            );
            check_one_id(input, trial, &body);
        }
    }
}

/// All calls under the id of the first: calls are not their ids.
fn check_one_id(input: &Input, trial: &mut Trial, body: &[u8]) {
    let mut want = finished_calls(&input.whole);
    let ids: Vec<String> = want.iter().map(|(id, ..)| id.clone()).collect();
    // An id that is found elsewhere, too, cannot be replaced like this.
    let is_clear = ids
        .iter()
        .all(|id| id.len() > 4 && !want.iter().any(|(_, _, arguments)| arguments.contains(id.as_str())));
    if !is_clear {
        return;
    }
    let quoted = |id: &str| format!("\"{id}\"");
    let rename =
        |text: &str| ids.iter().fold(text.to_owned(), |text, id| text.replace(&quoted(id), &quoted(&ids[0])));
    let renamed = edited(body, &Frames::of(input.wire.framing(), body), |_, frame| Some(rename(&frame.data)));
    want.iter_mut().for_each(|(id, ..)| id.clone_from(&ids[0]));
    want.sort();
    trial.holds(
        || "all calls under one id, shuffled".to_owned(),
        || assert_eq!(finished_calls(&input.decode(&renamed)), want),
    );
}

fn shuffled(input: &Input, roles: &[Option<(u64, Role)>], pair: (u64, u64), seed: u64) -> Vec<u8> {
    let frames = &input.frames.list;
    let of = |index: &usize| roles[*index].filter(|(key, _)| *key == pair.0 || *key == pair.1);
    let ours: Vec<usize> = (0..frames.len()).filter(|index| of(index).is_some()).collect();
    let region = ours[0]..ours[ours.len() - 1] + 1;
    let with_role = |role: Role| {
        ours.iter().copied().filter(move |index| of(index).is_some_and(|(_, known)| known == role))
    };
    let mut order: Vec<usize> = region.clone().filter(|index| of(index).is_none()).collect();
    order.extend(with_role(Role::Announcement));
    order.extend(merged(
        with_role(Role::Fragment).partition(|index| of(index).is_some_and(|(key, _)| key == pair.0)),
        seed,
    ));
    order.extend(with_role(Role::End));
    let bytes = |frame: &Frame| &input.body[frame.range.clone()];
    let mut body = input.body[..frames[region.start].range.start].to_vec();
    order.iter().for_each(|index| body.extend_from_slice(bytes(&frames[*index])));
    body.extend_from_slice(&input.body[frames[region.end - 1].range.end..]);
    body
}

/// Two lists in a random order that keeps each list's own. The first two seeds are the plainest orders.
fn merged((one, two): (Vec<usize>, Vec<usize>), seed: u64) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut one, mut two) = (one.into_iter().peekable(), two.into_iter().peekable());
    let mut merged = Vec::new();
    while let (Some(_), Some(_)) = (one.peek(), two.peek()) {
        let takes_one = match seed {
            0 => false,
            1 => merged.len() % 2 == 0,
            _ => random.bool(),
        };
        merged.extend(if takes_one { one.next() } else { two.next() });
    }
    merged.extend(one.chain(two));
    merged
}

fn check_keys(input: &&Input, trial: &mut Trial) {
    let Some(roles) = roles(input) else { return };
    let want = finished_calls(&input.whole);
    let same = |trial: &mut Trial, what: &str, body: &[u8]| {
        trial.holds(|| what.to_owned(), || assert_eq!(finished_calls(&input.decode(body)), want));
    };
    match input.wire {
        TestedWire::Anthropic
        | TestedWire::Bedrock
        | TestedWire::Cohere
        | TestedWire::Gemini
        | TestedWire::Ollama => {}
        TestedWire::OpenAiChat => {
            same(trial, "ids at last, names everywhere", &with_late_ids(input, &roles));
            if is_one_after_the_other(&roles) {
                same(trial, "no indexes", &without_indexes(input, false));
                let said = |calls: Vec<(String, String, String)>| {
                    calls.into_iter().map(|(_, name, arguments)| (name, arguments)).collect::<Vec<_>>()
                };
                let mut nameless = said(finished_calls(&input.decode(&without_indexes(input, true))));
                let mut want = said(want.clone());
                nameless.sort();
                want.sort();
                trial.holds(|| "neither indexes nor ids".to_owned(), || assert_eq!(nameless, want));
            }
        }
        TestedWire::OpenAiResponses => {
            let without = |name: &str| {
                edited(&input.body, &input.frames, |_, frame| {
                    let (json, mut edits) = (frame.json()?, Edits::default());
                    edits.remove_member(&json, name);
                    edits.apply(&frame.data)
                })
            };
            same(trial, "no item ids", &without("item_id"));
            same(trial, "no output indexes", &without("output_index"));
        }
    }
    // Chat Completions knows no wrong key: without an index a piece goes on with the open call, and at a new
    // one a name may still come.
    if input.wire != TestedWire::OpenAiChat {
        check_wrong_keys(input, &roles, trial);
    }
}

/// A fragment without a key, or with one that no call has, is an error.
fn check_wrong_keys(input: &Input, roles: &[Option<(u64, Role)>], trial: &mut Trial) {
    let says_something = |frame: &Frame| {
        let text = frame.json().and_then(|json| {
            let cohere = &["delta", "message", "tool_calls", "function", "arguments"][..];
            let text = [&["delta", "partial_json"][..], &["delta", "toolUse", "input"], cohere, &["delta"]]
                .into_iter()
                .find_map(|path| json.at(path))?;
            text.string()
        });
        text.is_some_and(|text| !text.is_empty())
    };
    for (index, frame) in input.frames.list.iter().enumerate() {
        let is_fragment = roles[index].is_some_and(|(_, role)| role == Role::Fragment);
        if !is_fragment || !says_something(frame) {
            continue;
        }
        for (name, key) in [("no key", None), ("an unknown key", Some("4242"))] {
            trial.holds(
                || format!("{name} in frame {index}"),
                || {
                    let got = input.decode(&with_key(input, index, key));
                    let error = got.last().and_then(|last| last.as_ref().err()).map(|error| error.kind());
                    assert_eq!(error, Some(ErrorKind::Malformed), "the last event is {:?}", got.last());
                },
            );
        }
    }
}

/// The body without the indexes of its calls: a name begins a call, the rest goes on with the open one.
fn without_indexes(input: &Input, is_without_ids: bool) -> Vec<u8> {
    edited(&input.body, &input.frames, |_, frame| {
        let (json, mut edits) = (frame.json()?, Edits::default());
        for piece in call_pieces(&json) {
            edits.remove_member(piece, "index");
            if let Some(id) = piece.get("id").filter(|_| is_without_ids) {
                edits.replace(id, "null");
            }
        }
        edits.apply(&frame.data)
    })
}

/// The body with each call's name on each of its pieces, and its id on the last one only.
fn with_late_ids(input: &Input, roles: &[Option<(u64, Role)>]) -> Vec<u8> {
    let frames = &input.frames.list;
    let announced = |key: u64, path: &[&str]| {
        let index = roles.iter().position(|role| *role == Some((key, Role::Announcement)))?;
        Some(call_pieces(&frames[index].json()?).next()?.at(path)?.text.to_owned())
    };
    edited(&input.body, &input.frames, |index, frame| {
        let (key, role) = roles[index]?;
        let (json, mut edits) = (frame.json()?, Edits::default());
        let piece = call_pieces(&json).next()?;
        let is_last = !roles[index + 1..].iter().flatten().any(|(other, _)| *other == key);
        let id = if is_last { announced(key, &["id"])? } else { "null".to_owned() };
        match piece.get("id") {
            Some(old) => edits.replace(old, id),
            None => edits.add_member(piece, &format!("\"id\":{id}"), false),
        }
        let name = announced(key, &["function", "name"])?;
        match (role, piece.get("function"), piece.at(&["function", "name"])) {
            (Role::Fragment, Some(_), Some(old)) => edits.replace(old, name),
            (Role::Fragment, Some(function), None) => {
                edits.add_member(function, &format!("\"name\":{name}"), false)
            }
            _ => {}
        }
        edits.apply(&frame.data)
    })
}

/// The body with another key in one frame, or with none.
fn with_key(input: &Input, index: usize, key: Option<&str>) -> Vec<u8> {
    edited(&input.body, &input.frames, |position, frame| {
        let (json, mut edits) = (frame.json().filter(|_| position == index)?, Edits::default());
        for name in ["index", "contentBlockIndex", "output_index", "item_id"] {
            match (json.get(name), key) {
                (Some(value), Some(key)) if name == "item_id" => edits.replace(value, format!("\"{key}\"")),
                (Some(value), Some(key)) => edits.replace(value, key),
                _ => edits.remove_member(&json, name),
            }
        }
        edits.apply(&frame.data)
    })
}
