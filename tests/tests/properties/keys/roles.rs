//! What each frame of a body does to a call, read from its bytes.

use turnstream_tests::TestedWire;

use crate::{bodies::Frame, inputs::Input, json::Json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Announcement,
    /// A piece of arguments, maybe an empty one.
    Fragment,
    End,
}

/// Each frame's role, and the key of its call. `None` for a body in which some call has no key of its own, or
/// some frame speaks of two calls.
pub(super) fn roles(input: &Input) -> Option<Vec<Option<(u64, Role)>>> {
    let mut announced = Vec::new();
    let mut roles = Vec::new();
    for frame in &input.frames.list {
        let role = match input.wire {
            TestedWire::Anthropic => of_block(frame, &announced),
            TestedWire::Cohere => of_call(frame, &announced),
            // Calls come whole and have no key.
            TestedWire::Gemini | TestedWire::Ollama => return None,
            TestedWire::Bedrock => of_content_block(frame, &announced),
            TestedWire::OpenAiChat => of_chunk(frame, &announced),
            TestedWire::OpenAiResponses => of_item(frame, &announced),
        };
        match role {
            Said::Nothing => roles.push(None),
            Said::Unclear => return None,
            Said::Of(key, role) => {
                if role == Role::Announcement {
                    announced.push(key);
                }
                roles.push(Some((key, role)));
            }
        }
    }
    (!announced.is_empty()).then_some(roles)
}

/// Whether no call gets a piece after another one has begun.
pub(super) fn is_one_after_the_other(roles: &[Option<(u64, Role)>]) -> bool {
    let mut keys: Vec<u64> = roles.iter().flatten().map(|(key, _)| *key).collect();
    keys.dedup();
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    keys.len() == count
}

/// The pieces of calls in a chunk.
pub(super) fn call_pieces<'a, 't>(chunk: &'a Json<'t>) -> impl Iterator<Item = &'a Json<'t>> {
    let choices = chunk.get("choices").map(Json::elements).unwrap_or_default().iter();
    choices.flat_map(|choice| choice.at(&["delta", "tool_calls"]).map(Json::elements).unwrap_or_default())
}

enum Said {
    Nothing,
    Of(u64, Role),
    Unclear,
}

fn of_block(frame: &Frame, announced: &[u64]) -> Said {
    let Some(json) = frame.json() else { return Said::Nothing };
    let Some(index) = json.get("index").and_then(Json::number) else { return Said::Nothing };
    let is_call = json.at(&["content_block", "type"]).is_some_and(|kind| kind.text == "\"tool_use\"");
    match (frame.kind().as_str(), announced.contains(&index)) {
        ("content_block_start", false) if is_call => Said::Of(index, Role::Announcement),
        ("content_block_start", true) => Said::Unclear,
        ("content_block_delta", true) => Said::Of(index, Role::Fragment),
        ("content_block_stop", true) => Said::Of(index, Role::End),
        _ => Said::Nothing,
    }
}

fn of_call(frame: &Frame, announced: &[u64]) -> Said {
    let Some(json) = frame.json() else { return Said::Nothing };
    let Some(index) = json.get("index").and_then(Json::number) else { return Said::Nothing };
    match (frame.kind().as_str(), announced.contains(&index)) {
        ("tool-call-start", false) => Said::Of(index, Role::Announcement),
        ("tool-call-start", true) => Said::Unclear,
        ("tool-call-delta", true) => Said::Of(index, Role::Fragment),
        ("tool-call-end", true) => Said::Of(index, Role::End),
        _ => Said::Nothing,
    }
}

fn of_content_block(frame: &Frame, announced: &[u64]) -> Said {
    let Some(json) = frame.json() else { return Said::Nothing };
    let Some(index) = json.get("contentBlockIndex").and_then(Json::number) else { return Said::Nothing };
    let is_server = |call: &Json<'_>| call.get("type").is_some_and(|kind| kind.text == "\"server_tool_use\"");
    let is_call = json.at(&["start", "toolUse"]).is_some_and(|call| !is_server(call));
    match (frame.event.as_str(), announced.contains(&index)) {
        ("contentBlockStart", false) if is_call => Said::Of(index, Role::Announcement),
        ("contentBlockStart", true) => Said::Unclear,
        ("contentBlockDelta", true) => Said::Of(index, Role::Fragment),
        ("contentBlockStop", true) => Said::Of(index, Role::End),
        _ => Said::Nothing,
    }
}

fn of_chunk(frame: &Frame, announced: &[u64]) -> Said {
    let Some(json) = frame.json() else { return Said::Nothing };
    let mut pieces = call_pieces(&json);
    let Some(piece) = pieces.next() else { return Said::Nothing };
    let Some(index) = piece.get("index").and_then(Json::number) else { return Said::Unclear };
    let name = piece.at(&["function", "name"]).and_then(Json::string).unwrap_or_default();
    match (announced.contains(&index), name.is_empty()) {
        _ if pieces.next().is_some() => Said::Unclear,
        (false, false) => Said::Of(index, Role::Announcement),
        (true, true) => Said::Of(index, Role::Fragment),
        _ => Said::Unclear,
    }
}

fn of_item(frame: &Frame, announced: &[u64]) -> Said {
    let Some(json) = frame.json() else { return Said::Nothing };
    let kind = json.at(&["item", "type"]).and_then(Json::string).unwrap_or_default();
    let is_call = matches!(kind.as_str(), "function_call" | "custom_tool_call");
    let role = match frame.kind().as_str() {
        "response.output_item.added" if is_call => Role::Announcement,
        "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => Role::Fragment,
        "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => Role::End,
        "response.output_item.done" if is_call => Role::End,
        _ => return Said::Nothing,
    };
    match json.get("output_index").and_then(Json::number) {
        Some(index) if announced.contains(&index) != (role == Role::Announcement) => Said::Of(index, role),
        _ => Said::Unclear,
    }
}
