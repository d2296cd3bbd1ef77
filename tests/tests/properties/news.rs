//! What is unknown changes nothing else: an event, a block, a delta, a field, a null, a reason.

mod nulls;
mod reasons;
mod unchanged;

use turnstream::Event;
use turnstream_tests::TestedWire;

use crate::{
    bodies::{Frame, edited, frame, line, with_inserted},
    events::assert_same,
    inputs::{Input, inputs},
    json::{Edits, Json},
    trial::{Trial, try_all},
};
use nulls::optional_members;
use unchanged::{roughly, without_news};

/// Everything unknown is called this.
const NEWS: &str = "x_news";
/// At how many places of a body each piece of news is put in, and in how many of its frames.
const PLACES: usize = if cfg!(debug_assertions) { 48 } else { 256 };

#[test]
fn unknown_frames_change_nothing_else() {
    try_all("unknown frames", inputs(), |input| &input.name, check_frames);
}

#[test]
fn unknown_fields_and_nulls_change_nothing_else() {
    try_all("unknown fields and nulls", inputs(), |input| &input.name, check_members);
}

/// Decoders remember the envelopes of hot frames. A name of its own in every frame makes each unlike all others,
/// so that each is read the long way; and that must say the same.
#[test]
fn frames_that_are_all_unlike_say_the_same_as_frames_that_are_alike() {
    try_all("frames unlike", inputs(), |input| &input.name, check_unlike);
}

fn check_unlike(input: &Input, trial: &mut Trial) {
    let body = edited(&input.body, &input.frames, |index, frame| {
        let (json, mut edits) = (frame.json()?, Edits::default());
        json.each_object("", &mut |path, object| {
            if path.is_empty() {
                edits.add_member(object, &format!("\"{NEWS}_{index}\":0"), true);
            }
        });
        edits.apply(&frame.data)
    });
    trial.holds(
        || "every frame unlike".to_owned(),
        || assert_same(&roughly(&input.decode(&body)), &roughly(&input.whole)),
    );
}

fn check_frames(input: &Input, trial: &mut Trial) {
    // A body without a frame is no stream, and with one it would be.
    if input.frames.list.is_empty() {
        return;
    }
    let want = without_news(&input.whole);
    for place in input.frames.places(PLACES) {
        for (name, news) in news_at(input, place) {
            trial.holds(
                || format!("{name} at {place}"),
                || {
                    assert_same(
                        &without_news(&input.decode(&with_inserted(&input.body, place, &news))),
                        &want,
                    )
                },
            );
        }
    }
    if input.frames.boundaries.len() > PLACES {
        trial.is_sampled();
    }
}

/// The pieces of news that can stand at a place of a body, named.
fn news_at(input: &Input, place: usize) -> Vec<(&'static str, Vec<u8>)> {
    let frame = |event: &str, data: &str| input.frames.frame(event, data);
    let before: Vec<&Frame> = input.frames.list.iter().filter(|frame| frame.range.end <= place).collect();
    let latest =
        |name: &str| before.iter().rev().find_map(|frame| Some(frame.json()?.get(name)?.text.to_owned()));
    // A block or an item is output, and begins a reply that has no name yet without one.
    let is_start = |frame: &&Frame| matches!(frame.kind().as_str(), "message_start" | "response.created");
    let is_named = matches!(input.whole.first(), Some(Ok(Event::TurnStarted(start))) if start.id.is_some());
    let has_begun = !is_named || before.iter().any(is_start);
    if input.wire == TestedWire::Ollama {
        let lines = unknown_lines(input, before.is_empty()).into_iter();
        return lines.map(|(name, line)| (name, line.into_bytes())).collect();
    }
    let mut news = vec![(
        "an unknown event",
        frame(
            NEWS,
            r#"{"type":"x_news","index":0,"delta":{"type":"text_delta","text":"no"},"n":[null,1e999]}"#,
        ),
    )];
    match input.wire {
        TestedWire::Ollama => {}
        TestedWire::Cohere => {
            let index = latest("index").unwrap_or_else(|| "0".to_owned());
            let known = r#"{"type":"x_news","index":"a","delta":{"message":[7]}}"#;
            news.push(("an unknown event with known names", frame(NEWS, known)));
            let delta = r#""delta":{"message":{"content":{"x_news":"no"}}}"#;
            let data = format!(r#"{{"type":"content-delta","index":{index},{delta}}}"#);
            news.push(("an unknown delta", frame("content-delta", &data)));
            let start = r#""delta":{"message":{"content":{"type":"x_news","text":"no"}}}"#;
            let data = format!(r#"{{"type":"content-start","index":4242,{start}}}"#);
            let end = frame("content-end", r#"{"type":"content-end","index":4242}"#);
            news.push(("an unknown content", [frame("content-start", &data), end].concat()));
        }
        TestedWire::Gemini => news.push((
            "a candidate that says nothing known",
            frame(
                "",
                r#"{"candidates":[{"content":{"role":"x_news","parts":[],"x_news":"no"},"x_news":"no"}]}"#,
            ),
        )),
        TestedWire::Anthropic => {
            let index = latest("index").unwrap_or_else(|| "0".to_owned());
            let delta = r#"{"type":"x_news","text":"no","partial_json":"no","thinking":"no"}"#;
            news.push((
                "an unknown event with known names",
                frame(NEWS, r#"{"type":"x_news","index":"a","delta":7}"#),
            ));
            news.push((
                "an unknown delta",
                frame(
                    "content_block_delta",
                    &format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#),
                ),
            ));
            if has_begun && !is_call_waiting(input, &before) {
                news.push(("an unknown block", unknown_block(delta).into_bytes()));
            }
        }
        TestedWire::Bedrock => {
            let index = latest("contentBlockIndex").unwrap_or_else(|| "0".to_owned());
            news.push((
                "an unknown event with known names",
                frame(NEWS, r#"{"contentBlockIndex":"a","delta":7,"stopReason":"end_turn"}"#),
            ));
            news.push((
                "an unknown delta",
                frame(
                    "contentBlockDelta",
                    &format!(r#"{{"contentBlockIndex":{index},"delta":{{"x_news":"no"}}}}"#),
                ),
            ));
        }
        TestedWire::OpenAiChat => {
            news.push((
                "an unknown object",
                frame("", r#"{"object":"x_news","x":{"choices":[{"delta":{"content":"no"}}]}}"#),
            ));
            for (name, delta) in [
                ("an unknown delta", r#"{"x_news":"no"}"#),
                ("an unknown part", r#"{"content":[{"type":"x_news","x_news":"no"}]}"#),
                (
                    "a call of an unknown type",
                    r#"{"tool_calls":[{"index":77,"type":"x_news","x_news":{"name":"no"}}]}"#,
                ),
            ] {
                news.push((name, chunk(input, delta).into_bytes()));
            }
        }
        TestedWire::OpenAiResponses => {
            let item = latest("item_id").unwrap_or_else(|| "null".to_owned());
            let index = latest("output_index").unwrap_or_else(|| "0".to_owned());
            news.push((
                "an unknown event with known names",
                frame(NEWS, r#"{"type":"x_news","output_index":{},"delta":7,"item":[]}"#),
            ));
            news.push((
                "an unknown delta",
                frame(
                    "response.x_news.delta",
                    &format!(
                        r#"{{"type":"response.x_news.delta","item_id":{item},"output_index":{index},"delta":"no"}}"#
                    ),
                ),
            ));
            if has_begun {
                news.push(("an unknown item", unknown_item().into_bytes()));
            }
        }
    }
    news
}

/// A block of an unknown type, whole.
fn unknown_block(delta: &str) -> String {
    let block = r#"{"type":"x_news","id":"x1","name":"no","text":"no","input":{}}"#;
    [
        (
            "content_block_start",
            format!(r#"{{"type":"content_block_start","index":4242,"content_block":{block}}}"#),
        ),
        ("content_block_delta", format!(r#"{{"type":"content_block_delta","index":4242,"delta":{delta}}}"#)),
        ("content_block_stop", r#"{"type":"content_block_stop","index":4242}"#.to_owned()),
    ]
    .map(|(event, data)| frame(event, &data))
    .concat()
}

/// Whether a call's block was the last to stop and no other has begun since. Then an unknown block is the
/// turn going on, and by design it finishes the call: earlier than it was, and on a cut at all.
fn is_call_waiting(input: &Input, before: &[&Frame]) -> bool {
    let (mut calls, mut is_waiting) = (Vec::new(), false);
    for frame in before {
        let Some(json) = frame.json() else { continue };
        let index = json.get("index").and_then(Json::number);
        match frame.kind().as_str() {
            "content_block_start" => {
                is_waiting = false;
                if json
                    .at(&["content_block", "type"])
                    .and_then(Json::string)
                    .is_some_and(|kind| kind == "tool_use")
                {
                    calls.push(index);
                }
            }
            "content_block_stop" => is_waiting |= calls.contains(&index),
            "message_start" => {
                is_waiting = json.at(&["message", "content"]).is_some_and(|list| !list.elements().is_empty())
            }
            // The reason finishes what waits, if it is not a cut.
            "message_delta" => {
                is_waiting &=
                    matches!(input.whole.last(), Some(Ok(Event::TurnFinished(end))) if end.reason.is_cut())
            }
            _ => {}
        }
    }
    is_waiting
}

fn unknown_item() -> String {
    let item = r#"{"id":"xn_1","type":"x_news","call_id":"x1","name":"no","arguments":"no","content":"no"}"#;
    [
        ("response.output_item.added", format!(r#""output_index":4242,"item":{item}"#)),
        ("response.x_news.delta", r#""output_index":4242,"item_id":"xn_1","delta":"no""#.to_owned()),
        ("response.output_item.done", format!(r#""output_index":4242,"item":{item}"#)),
    ]
    .map(|(event, members)| frame(event, &format!(r#"{{"type":"{event}",{members}}}"#)))
    .concat()
}

/// Lines that mean nothing to Ollama's wire: of no kind, of a message that says nothing known, or of no form;
/// but a body that begins with no object is no stream.
fn unknown_lines(input: &Input, is_first: bool) -> Vec<(&'static str, String)> {
    let named = named(input);
    let mut lines = vec![
        ("an unknown line", line(r#"{"x_news":{"message":{"content":"no"},"done":true},"n":[null,1e999]}"#)),
        (
            "an unknown message",
            line(&format!(
                r#"{{{named}"message":{{"role":"x_news","x_news":"no","content":""}},"done":false}}"#
            )),
        ),
    ];
    if !is_first {
        lines.push(("a line that is no object", line(r#"["x_news",{"content":"no"},true]"#)));
    }
    lines
}

/// What the frames of this reply say of it.
fn named(input: &Input) -> String {
    let mut named = String::new();
    if let Some(Ok(Event::TurnStarted(start))) = input.whole.first() {
        for (name, text) in [("id", &start.id), ("model", &start.model)] {
            if let Some(text) = text {
                named += &format!("\"{name}\":{},", serde_json::to_string(text).unwrap());
            }
        }
    }
    named
}

/// A chunk of the same reply.
fn chunk(input: &Input, delta: &str) -> String {
    let named = named(input);
    let choice = format!(r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#);
    frame("", &format!(r#"{{{named}"object":"chat.completion.chunk","choices":[{choice}]}}"#))
}

fn check_members(input: &Input, trial: &mut Trial) {
    let want = roughly(&input.whole);
    for member in [Member::UnknownFirst, Member::UnknownLast, Member::Nulls] {
        let new: Vec<Option<String>> =
            input.frames.list.iter().map(|frame| with_members(input.wire, frame, member)).collect();
        let mut holds = |place: &str, is_edited: &dyn Fn(usize) -> bool| {
            trial.holds(
                || format!("{member:?} {place}"),
                || {
                    let body = edited(&input.body, &input.frames, |index, _| {
                        new[index].clone().filter(|_| is_edited(index))
                    });
                    assert_same(&roughly(&input.decode(&body)), &want);
                },
            );
        };
        holds("in every frame", &|_| true);
        let stride = new.len().div_ceil(PLACES).max(1);
        for frame in (0..new.len()).step_by(stride).filter(|frame| new[*frame].is_some()) {
            holds(&format!("in frame {frame}"), &|index| index == frame);
        }
    }
    if input.frames.list.len() > PLACES {
        trial.is_sampled();
    }
}

/// What is added to the objects of a frame.
#[derive(Debug, Clone, Copy)]
enum Member {
    UnknownFirst,
    UnknownLast,
    /// Every optional member that the object does not have.
    Nulls,
}

/// The frame's data with a member in every object that is the wire's: what stands in a call's input is the
/// model's.
fn with_members(wire: TestedWire, frame: &Frame, member: Member) -> Option<String> {
    let (json, mut edits) = (frame.json()?, Edits::default());
    json.each_object("", &mut |path, object| {
        let is_models =
            |name: &str| matches!(name.trim_end_matches("[]"), "input" | "args" | "arguments" | "parameters");
        if path.split('.').any(is_models) {
            return;
        }
        let unknown = r#""x_news":{"delta":["\ud83d",null,-0.0e-7,{}]}"#;
        match member {
            Member::UnknownFirst => edits.add_member(object, unknown, true),
            Member::UnknownLast => edits.add_member(object, unknown, false),
            Member::Nulls => {
                let names = optional_members(wire, path, object);
                let nulls: Vec<String> = names.iter().map(|name| format!("\"{name}\":null")).collect();
                if !nulls.is_empty() {
                    edits.add_member(object, &nulls.join(","), false);
                }
            }
        }
    });
    edits.apply(&frame.data)
}
