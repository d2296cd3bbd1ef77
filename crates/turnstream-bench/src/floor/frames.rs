//! The frames of each wire, with the fields that a program of one's own would read.

use std::borrow::Cow;

use serde::Deserialize;

use super::FloorTurn;
use crate::wires::BenchWire;

pub(super) fn read(wire: BenchWire, data: &str, turn: &mut FloorTurn) -> Result<(), serde_json::Error> {
    match wire {
        BenchWire::Anthropic => serde_json::from_str::<anthropic::Frame<'_>>(data)?.say(turn),
        BenchWire::OpenAiChat if data.trim_end() == "[DONE]" => {}
        BenchWire::OpenAiChat => serde_json::from_str::<openai_chat::Chunk<'_>>(data)?.say(turn),
        BenchWire::OpenAiResponses => serde_json::from_str::<openai_responses::Frame<'_>>(data)?.say(turn),
        BenchWire::Gemini => serde_json::from_str::<gemini::Frame<'_>>(data)?.say(turn),
    }
    Ok(())
}

/// A string that is borrowed unless it has escapes. Inside an `Option` serde borrows no bare [`Cow`].
#[derive(Debug, Deserialize)]
struct Text<'f>(#[serde(borrow)] Cow<'f, str>);

mod anthropic {
    use serde::Deserialize;

    use super::{FloorTurn, Text};

    #[derive(Deserialize)]
    pub(super) struct Frame<'f> {
        #[serde(rename = "type")]
        kind: &'f str,
        #[serde(default)]
        index: usize,
        #[serde(borrow)]
        delta: Option<Delta<'f>>,
        content_block: Option<Block<'f>>,
    }

    #[derive(Deserialize)]
    struct Delta<'f> {
        #[serde(borrow)]
        text: Option<Text<'f>>,
        partial_json: Option<Text<'f>>,
        stop_reason: Option<&'f str>,
    }

    #[derive(Deserialize)]
    struct Block<'f> {
        #[serde(rename = "type")]
        kind: &'f str,
        id: Option<&'f str>,
        name: Option<&'f str>,
    }

    impl Frame<'_> {
        pub(super) fn say(self, turn: &mut FloorTurn) {
            match (self.kind, self.delta, self.content_block) {
                ("content_block_delta", Some(delta), _) => {
                    if let Some(Text(text)) = delta.text {
                        turn.text(&text);
                    } else if let Some(Text(fragment)) = delta.partial_json {
                        turn.fragment(self.index, &fragment);
                    }
                }
                ("content_block_start", _, Some(block)) if block.kind == "tool_use" => {
                    turn.call(self.index, block.id.unwrap_or_default(), block.name.unwrap_or_default());
                }
                ("message_delta", Some(delta), _) => turn.reason = delta.stop_reason.map(str::to_owned),
                _ => {}
            }
        }
    }
}

mod openai_chat {
    use serde::Deserialize;

    use super::{FloorTurn, Text};

    #[derive(Deserialize)]
    pub(super) struct Chunk<'f> {
        #[serde(borrow)]
        choices: Vec<Choice<'f>>,
    }

    #[derive(Deserialize)]
    struct Choice<'f> {
        #[serde(borrow)]
        delta: Delta<'f>,
        finish_reason: Option<&'f str>,
    }

    #[derive(Deserialize)]
    struct Delta<'f> {
        #[serde(borrow)]
        content: Option<Text<'f>>,
        #[serde(default)]
        tool_calls: Vec<CallDelta<'f>>,
    }

    #[derive(Deserialize)]
    struct CallDelta<'f> {
        index: usize,
        id: Option<&'f str>,
        #[serde(borrow)]
        function: Function<'f>,
    }

    #[derive(Deserialize)]
    struct Function<'f> {
        name: Option<&'f str>,
        #[serde(borrow)]
        arguments: Option<Text<'f>>,
    }

    impl Chunk<'_> {
        pub(super) fn say(self, turn: &mut FloorTurn) {
            for choice in self.choices {
                if let Some(Text(text)) = choice.delta.content {
                    turn.text(&text);
                }
                for call in choice.delta.tool_calls {
                    if let Some(name) = call.function.name {
                        turn.call(call.index, call.id.unwrap_or_default(), name);
                    }
                    if let Some(Text(fragment)) = call.function.arguments {
                        turn.fragment(call.index, &fragment);
                    }
                }
                if let Some(reason) = choice.finish_reason {
                    turn.reason = Some(reason.to_owned());
                }
            }
        }
    }
}

mod openai_responses {
    use serde::Deserialize;

    use super::{FloorTurn, Text};

    #[derive(Deserialize)]
    pub(super) struct Frame<'f> {
        #[serde(rename = "type")]
        kind: &'f str,
        #[serde(default)]
        output_index: usize,
        #[serde(borrow)]
        delta: Option<Text<'f>>,
        item: Option<Item<'f>>,
        response: Option<Response<'f>>,
    }

    #[derive(Deserialize)]
    struct Item<'f> {
        #[serde(rename = "type")]
        kind: &'f str,
        call_id: Option<&'f str>,
        name: Option<&'f str>,
    }

    #[derive(Deserialize)]
    struct Response<'f> {
        status: &'f str,
    }

    impl Frame<'_> {
        pub(super) fn say(self, turn: &mut FloorTurn) {
            match (self.kind, self.delta, self.item, self.response) {
                ("response.output_text.delta", Some(Text(text)), ..) => turn.text(&text),
                ("response.function_call_arguments.delta", Some(Text(fragment)), ..) => {
                    turn.fragment(self.output_index, &fragment);
                }
                ("response.output_item.added", _, Some(item), _) if item.kind == "function_call" => {
                    turn.call(
                        self.output_index,
                        item.call_id.unwrap_or_default(),
                        item.name.unwrap_or_default(),
                    );
                }
                ("response.completed" | "response.incomplete", .., Some(response)) => {
                    turn.reason = Some(response.status.to_owned());
                }
                _ => {}
            }
        }
    }
}

mod gemini {
    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::{FloorTurn, Text};

    #[derive(Deserialize)]
    pub(super) struct Frame<'f> {
        #[serde(borrow)]
        candidates: Vec<Candidate<'f>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Candidate<'f> {
        #[serde(borrow)]
        content: Content<'f>,
        finish_reason: Option<&'f str>,
    }

    #[derive(Deserialize)]
    struct Content<'f> {
        #[serde(borrow)]
        parts: Vec<Part<'f>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Part<'f> {
        #[serde(borrow)]
        text: Option<Text<'f>>,
        function_call: Option<Call<'f>>,
    }

    #[derive(Deserialize)]
    struct Call<'f> {
        name: &'f str,
        id: Option<&'f str>,
        #[serde(borrow)]
        args: &'f RawValue,
    }

    impl Frame<'_> {
        pub(super) fn say(self, turn: &mut FloorTurn) {
            for candidate in self.candidates {
                for part in candidate.content.parts {
                    if let Some(Text(text)) = part.text {
                        turn.text(&text);
                    }
                    if let Some(call) = part.function_call {
                        let place = turn.calls.len();
                        turn.call(place, call.id.unwrap_or_default(), call.name);
                        turn.fragment(place, call.args.get());
                    }
                }
                if let Some(reason) = candidate.finish_reason {
                    turn.reason = Some(reason.to_owned());
                }
            }
        }
    }
}
