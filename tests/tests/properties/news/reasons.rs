//! A reason that is unknown is a normal end. One that says that the reply was cut is none: the call that the
//! model was in is not finished.

use turnstream::{AbortReason, Error, Event, Reason, TurnFinished};
use turnstream_testing::conformance::check_laws;
use turnstream_tests::TestedWire;

use super::NEWS;
use crate::{
    bodies::edited,
    events::{assert_same, finished_calls},
    inputs::{Input, inputs},
    json::{Edits, Json},
    trial::{Trial, try_all},
};

#[test]
fn an_unknown_reason_is_a_normal_end_and_a_cut_is_none() {
    try_all("reasons", inputs(), |input| &input.name, check_reasons);
}

fn check_reasons(input: &Input, trial: &mut Trial) {
    let Some(Ok(Event::TurnFinished(end))) = input.whole.last() else { return };
    if !matches!(end.reason, Reason::Stop | Reason::ToolCalls) || end.inferred {
        return;
    }
    trial.holds(
        || "an unknown reason".to_owned(),
        || {
            let mut want = input
                .whole
                .iter()
                .filter_map(|event| event.as_ref().ok().cloned().map(Ok))
                .collect::<Vec<_>>();
            let has_calls = end.reason == Reason::ToolCalls && want.iter().any(is_answered);
            let reason = if has_calls { Reason::ToolCalls } else { Reason::Other };
            let mut unknown: TurnFinished = end.clone();
            (unknown.reason, unknown.raw_reason) = (reason, Some(NEWS.into()));
            *want.last_mut().unwrap() = Ok(Event::TurnFinished(unknown));
            assert_same(&input.decode(&with_reason(input, NEWS)), &want);
        },
    );
    trial.holds(
        || "a cut for a reason".to_owned(),
        || {
            let word = match input.wire {
                TestedWire::Anthropic | TestedWire::Bedrock => "max_tokens",
                TestedWire::Cohere | TestedWire::Gemini => "MAX_TOKENS",
                TestedWire::Ollama | TestedWire::OpenAiChat => "length",
                TestedWire::OpenAiResponses => "max_output_tokens",
            };
            let got = input.decode(&with_reason(input, word));
            check_laws(&got);
            assert!(
                matches!(got.last(), Some(Ok(Event::TurnFinished(end))) if end.reason == Reason::Length),
                "{:?}",
                got.last()
            );
            let (cut, whole) = (finished_calls(&got), finished_calls(&input.whole));
            assert!(
                cut.iter().all(|call| whole.contains(call)),
                "{cut:?} finished, and without the cut {whole:?}"
            );
            let is_cut = got
                .iter()
                .flatten()
                .any(|event| matches!(event, Event::CallAborted(call) if call.reason == AbortReason::Length));
            assert!(
                is_cut || !is_last_word_a_call(input),
                "the model was cut in its last call, and none was aborted"
            );
        },
    );
}

fn is_answered(event: &Result<Event, Error>) -> bool {
    match event {
        Ok(Event::CallFinished(_)) => true,
        Ok(Event::CallAborted(call)) => call.reason == AbortReason::Malformed,
        _ => false,
    }
}

/// Whether the last thing that the model began is a call, on a wire on which a cut leaves that one open.
fn is_last_word_a_call(input: &Input) -> bool {
    match input.wire {
        TestedWire::Anthropic => {
            let mut blocks =
                input.frames.list.iter().rev().filter(|frame| frame.kind() == "content_block_start");
            let last = blocks.next().and_then(|frame| frame.json()?.at(&["content_block", "type"])?.string());
            last.is_some_and(|kind| kind == "tool_use")
        }
        TestedWire::Bedrock => {
            let (mut begun, mut is_call) = (Vec::new(), false);
            for frame in &input.frames.list {
                let Some(json) = frame.json() else { continue };
                let Some(index) = json.get("contentBlockIndex").and_then(Json::number) else { continue };
                if frame.event == "contentBlockStart" || !begun.contains(&index) {
                    begun.push(index);
                    is_call = json.at(&["start", "toolUse"]).is_some_and(|call| {
                        call.get("type").is_none_or(|kind| kind.text != "\"server_tool_use\"")
                    });
                }
            }
            is_call
        }
        TestedWire::OpenAiChat => input.whole.iter().any(|event| matches!(event, Ok(Event::CallStarted(_)))),
        TestedWire::Cohere | TestedWire::Gemini | TestedWire::Ollama | TestedWire::OpenAiResponses => false,
    }
}

/// The body with another word wherever it gives its reason.
fn with_reason(input: &Input, word: &str) -> Vec<u8> {
    let word = format!("\"{word}\"");
    edited(&input.body, &input.frames, |_, frame| {
        let (json, mut edits) = (frame.json()?, Edits::default());
        match input.wire {
            TestedWire::Anthropic => {
                for path in [["delta", "stop_reason"], ["message", "stop_reason"]] {
                    replace_word(json.at(&path), &word, &mut edits);
                }
            }
            TestedWire::Cohere => replace_word(json.at(&["delta", "finish_reason"]), &word, &mut edits),
            TestedWire::Gemini => {
                let candidates = json.get("candidates").map(Json::elements).unwrap_or_default().iter();
                for candidate in candidates {
                    replace_word(candidate.get("finishReason"), &word, &mut edits);
                }
            }
            TestedWire::Ollama => replace_word(json.get("done_reason"), &word, &mut edits),
            TestedWire::Bedrock => replace_word(json.get("stopReason"), &word, &mut edits),
            TestedWire::OpenAiChat => {
                // The others are the provider's business.
                let choices = json.get("choices").map(Json::elements).unwrap_or_default().iter();
                for choice in
                    choices.filter(|choice| choice.get("index").is_none_or(|index| index.text == "0"))
                {
                    replace_word(choice.get("finish_reason"), &word, &mut edits);
                }
            }
            TestedWire::OpenAiResponses => {
                if frame.kind() != "response.completed" {
                    return None;
                }
                let response = json.get("response")?;
                let details = format!(r#"{{"reason":{word}}}"#);
                edits.replace(json.get("type")?, "\"response.incomplete\"");
                replace_word(response.get("status"), "\"incomplete\"", &mut edits);
                match response.get("incomplete_details") {
                    Some(old) => edits.replace(old, details),
                    None => edits.add_member(response, &format!("\"incomplete_details\":{details}"), true),
                }
            }
        }
        edits.apply(&frame.data)
    })
}

fn replace_word(value: Option<&Json<'_>>, word: &str, edits: &mut Edits) {
    if let Some(value) = value.filter(|value| !matches!(value.text, "null" | "\"\"")) {
        edits.replace(value, word);
    }
}
