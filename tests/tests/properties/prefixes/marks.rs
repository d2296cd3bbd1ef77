//! What a prefix of a body may say, by the table of the design.

use turnstream_tests::TestedWire;

use crate::{bodies::Frame, json::Json};

/// Where a body says that something is over, read from its frames by the table of the design. All offsets are
/// those at which the data that says it is complete.
pub(super) struct Marks {
    /// A call may be finished from here on, one a mark.
    calls: Vec<usize>,
    /// The reason, or the last marker: from here on every call may be finished, and the turn.
    turn: usize,
    /// The same for a body that is reset.
    turn_if_reset: usize,
}

/// What a prefix may say.
#[derive(PartialEq)]
pub(super) struct May {
    pub(super) finish_calls: usize,
    pub(super) finish_turn: bool,
}

impl Marks {
    pub(super) fn of(wire: TestedWire, frames: &[Frame]) -> Self {
        let mut marks = Self { calls: Vec::new(), turn: usize::MAX, turn_if_reset: usize::MAX };
        match wire {
            TestedWire::Anthropic => marks.read_messages(frames),
            TestedWire::Cohere => marks.read_cohere(frames),
            TestedWire::Gemini => marks.read_parts(frames),
            TestedWire::Ollama => marks.read_lines(frames),
            TestedWire::Bedrock => marks.read_converse(frames),
            TestedWire::OpenAiChat => marks.read_chat(frames),
            TestedWire::OpenAiResponses => marks.read_responses(frames),
        }
        marks
    }

    /// A block's stop finishes a call once the turn goes on: with another block, which may begin without a
    /// start, or with the reason. The turn is finished once the reason is there, however the body ends.
    fn read_messages(&mut self, frames: &[Frame]) {
        // Blocks by index; calls that are open; calls that stopped and wait for the turn to go on.
        let (mut started, mut open, mut stopped) = (Vec::new(), Vec::new(), 0);
        let is_call = |block: &Json<'_>| block.get("type").is_some_and(|kind| kind.text == "\"tool_use\"");
        for frame in frames {
            let Some(json) = frame.json() else { continue };
            let index = json.get("index").and_then(Json::number);
            let goes_on = match frame.kind().as_str() {
                "content_block_start" => {
                    open.extend(json.get("content_block").is_some_and(is_call).then_some(index));
                    true
                }
                "content_block_delta" => !started.contains(&index),
                "content_block_stop" => {
                    if let Some(call) = open.iter().position(|known| *known == index) {
                        open.swap_remove(call);
                        stopped += 1;
                    }
                    false
                }
                "message_start" => {
                    let blocks = json.at(&["message", "content"]).map(Json::elements).unwrap_or_default();
                    // Each is stopped by the next one.
                    stopped += blocks.iter().filter(|block| is_call(block)).count();
                    started.extend((0..blocks.len() as u64).map(Some));
                    blocks.len() > 1
                }
                "message_stop" => {
                    self.end(frame, true);
                    false
                }
                _ => false,
            };
            if goes_on {
                started.push(index);
                self.calls.extend(vec![frame.data_end; std::mem::take(&mut stopped)]);
            }
            let reasons = [["delta", "stop_reason"], ["message", "stop_reason"]];
            if reasons.iter().any(|path| json.at(path).is_some_and(says_something)) {
                self.end(frame, true);
            }
        }
    }

    /// A call has an end of its own, and so has the message.
    fn read_cohere(&mut self, frames: &[Frame]) {
        for frame in frames.iter().filter(|frame| frame.json().is_some()) {
            match frame.kind().as_str() {
                "tool-call-end" => self.calls.push(frame.data_end),
                "message-end" => self.end(frame, true),
                _ => {}
            }
        }
    }

    /// A call ends with its line, everything with the one that is done.
    fn read_lines(&mut self, frames: &[Frame]) {
        for frame in frames {
            let Some(json) = frame.json() else { continue };
            let calls = json.at(&["message", "tool_calls"]).map(Json::elements).unwrap_or_default();
            self.calls.extend(vec![frame.data_end; calls.len()]);
            if json.get("done").is_some_and(|done| done.text == "true") {
                self.end(frame, true);
            }
        }
    }

    /// A call ends with its part, or with the part of it that says nothing of another; everything with a reason,
    /// if the body closes cleanly.
    fn read_parts(&mut self, frames: &[Frame]) {
        for frame in frames {
            let Some(json) = frame.json() else { continue };
            for candidate in json.get("candidates").map(Json::elements).unwrap_or_default() {
                let parts = candidate.at(&["content", "parts"]).map(Json::elements).unwrap_or_default();
                let calls = parts.iter().filter_map(|part| part.get("functionCall"));
                let ended =
                    calls.filter(|call| call.get("willContinue").is_none_or(|flag| flag.text != "true"));
                self.calls.extend(ended.map(|_| frame.data_end));
                if candidate.get("finishReason").is_some_and(says_something) {
                    self.end(frame, false);
                }
            }
            if json.at(&["promptFeedback", "blockReason"]).is_some_and(says_something) {
                self.end(frame, false);
            }
        }
    }

    /// As for Messages; blocks of text have no start, and only `messageStop` gives a reason.
    fn read_converse(&mut self, frames: &[Frame]) {
        let (mut started, mut open, mut stopped) = (Vec::new(), Vec::new(), 0);
        for frame in frames {
            let Some(json) = frame.json() else { continue };
            let index = json.get("contentBlockIndex").and_then(Json::number);
            let goes_on = match frame.event.as_str() {
                "contentBlockStart" => {
                    let call = json.at(&["start", "toolUse"]);
                    let is_client = |call: &Json<'_>| {
                        call.get("type").is_none_or(|kind| kind.text != "\"server_tool_use\"")
                    };
                    open.extend(call.is_some_and(is_client).then_some(index));
                    true
                }
                "contentBlockDelta" => !started.contains(&index),
                "contentBlockStop" => {
                    if let Some(call) = open.iter().position(|known| *known == index) {
                        open.swap_remove(call);
                        stopped += 1;
                    }
                    false
                }
                "messageStop" => {
                    self.end(frame, true);
                    false
                }
                _ => false,
            };
            if goes_on {
                started.push(index);
                self.calls.extend(vec![frame.data_end; std::mem::take(&mut stopped)]);
            }
        }
    }

    /// Everything ends with the reason, if the body closes cleanly, or with the last marker.
    fn read_chat(&mut self, frames: &[Frame]) {
        for frame in frames {
            if frame.data.trim() == "[DONE]" {
                self.end(frame, true);
            }
            let Some(json) = frame.json() else { continue };
            let choices = json.get("choices").map(|choices| choices.elements()).unwrap_or_default();
            if choices.iter().any(|choice| choice.get("finish_reason").is_some_and(says_something)) {
                self.end(frame, false);
            }
        }
    }

    /// A call ends with its item, everything with the terminal event.
    fn read_responses(&mut self, frames: &[Frame]) {
        for frame in frames {
            let Some(json) = frame.json() else { continue };
            match frame.kind().as_str() {
                "response.output_item.done" => {
                    let kind = json.at(&["item", "type"]).and_then(|kind| kind.string());
                    if matches!(kind.as_deref(), Some("function_call" | "custom_tool_call")) {
                        self.calls.push(frame.data_end);
                    }
                }
                "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                    self.end(frame, true);
                }
                _ => {}
            }
        }
    }

    fn end(&mut self, frame: &Frame, also_if_reset: bool) {
        self.turn = self.turn.min(frame.data_end);
        if also_if_reset {
            self.turn_if_reset = self.turn_if_reset.min(frame.data_end);
        }
    }

    pub(super) fn allow(&self, length: usize, is_clean: bool) -> May {
        let finish_turn = length >= if is_clean { self.turn } else { self.turn_if_reset };
        let calls = self.calls.iter().filter(|mark| **mark <= length).count();
        May { finish_calls: if finish_turn { usize::MAX } else { calls }, finish_turn }
    }
}

fn says_something(value: &Json<'_>) -> bool {
    !matches!(value.text, "null" | "\"\"")
}
