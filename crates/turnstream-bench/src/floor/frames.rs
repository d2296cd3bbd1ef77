//! The frames of each wire, with the fields that a program of one's own would read.

use std::borrow::Cow;

use serde::Deserialize;

use super::FloorTurn;
use crate::wires::BenchWire;

/// Reads a frame. Bedrock's have their event's name beside their data.
pub(super) fn read(
    wire: BenchWire,
    event: &str,
    data: &str,
    turn: &mut FloorTurn,
) -> Result<(), serde_json::Error> {
    match wire {
        BenchWire::Anthropic => serde_json::from_str::<anthropic::Frame<'_>>(data)?.say(turn),
        BenchWire::OpenAiChat | BenchWire::Cohere if data.trim_end() == "[DONE]" => {}
        BenchWire::OpenAiChat => serde_json::from_str::<openai_chat::Chunk<'_>>(data)?.say(turn),
        BenchWire::OpenAiResponses => serde_json::from_str::<openai_responses::Frame<'_>>(data)?.say(turn),
        BenchWire::Gemini => serde_json::from_str::<gemini::Frame<'_>>(data)?.say(turn),
        BenchWire::Cohere => serde_json::from_str::<cohere::Frame<'_>>(data)?.say(turn),
        BenchWire::Ollama => serde_json::from_str::<ollama::Line<'_>>(data)?.say(turn),
        BenchWire::Bedrock => bedrock::read(event, data, turn)?,
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

mod cohere {
    use serde::Deserialize;

    use super::{FloorTurn, Text};

    #[derive(Deserialize)]
    pub(super) struct Frame<'f> {
        #[serde(rename = "type")]
        kind: &'f str,
        #[serde(default)]
        index: usize,
        #[serde(borrow, default)]
        delta: Delta<'f>,
    }

    #[derive(Default, Deserialize)]
    struct Delta<'f> {
        #[serde(borrow, default)]
        message: Message<'f>,
        finish_reason: Option<&'f str>,
    }

    #[derive(Default, Deserialize)]
    struct Message<'f> {
        #[serde(borrow, default)]
        content: Content<'f>,
        #[serde(borrow, default)]
        tool_calls: Call<'f>,
    }

    /// Where the message begins there is an empty list in its place, which serde reads as one without fields.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Content<'f> {
        #[serde(borrow)]
        text: Option<Text<'f>>,
    }

    /// The same.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Call<'f> {
        id: Option<&'f str>,
        #[serde(borrow)]
        function: Function<'f>,
    }

    #[derive(Default, Deserialize)]
    struct Function<'f> {
        name: Option<&'f str>,
        #[serde(borrow)]
        arguments: Option<Text<'f>>,
    }

    impl Frame<'_> {
        pub(super) fn say(self, turn: &mut FloorTurn) {
            let Delta { message: Message { content, tool_calls: call }, finish_reason } = self.delta;
            match self.kind {
                "content-delta" => {
                    if let Some(Text(text)) = content.text {
                        turn.text(&text);
                    }
                }
                "tool-call-delta" => {
                    if let Some(Text(fragment)) = call.function.arguments {
                        turn.fragment(self.index, &fragment);
                    }
                }
                "tool-call-start" => {
                    turn.call(
                        self.index,
                        call.id.unwrap_or_default(),
                        call.function.name.unwrap_or_default(),
                    );
                }
                "message-end" => turn.reason = finish_reason.map(str::to_owned),
                _ => {}
            }
        }
    }
}

mod ollama {
    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::{FloorTurn, Text};

    #[derive(Deserialize)]
    pub(super) struct Line<'f> {
        #[serde(borrow)]
        message: Message<'f>,
        done_reason: Option<&'f str>,
    }

    #[derive(Deserialize)]
    struct Message<'f> {
        #[serde(borrow)]
        content: Text<'f>,
        #[serde(borrow, default)]
        tool_calls: Vec<Call<'f>>,
    }

    #[derive(Deserialize)]
    struct Call<'f> {
        id: Option<&'f str>,
        #[serde(borrow)]
        function: Function<'f>,
    }

    #[derive(Deserialize)]
    struct Function<'f> {
        name: &'f str,
        #[serde(borrow)]
        arguments: &'f RawValue,
    }

    impl Line<'_> {
        pub(super) fn say(self, turn: &mut FloorTurn) {
            let Text(text) = self.message.content;
            if !text.is_empty() {
                turn.text(&text);
            }
            for call in self.message.tool_calls {
                let place = turn.calls.len();
                turn.call(place, call.id.unwrap_or_default(), call.function.name);
                turn.fragment(place, call.function.arguments.get());
            }
            if let Some(reason) = self.done_reason {
                turn.reason = Some(reason.to_owned());
            }
        }
    }
}

mod bedrock {
    use serde::Deserialize;

    use super::{FloorTurn, Text};

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct BlockDelta<'f> {
        content_block_index: usize,
        #[serde(borrow)]
        delta: Delta<'f>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Delta<'f> {
        #[serde(borrow)]
        text: Option<Text<'f>>,
        tool_use: Option<Input<'f>>,
    }

    #[derive(Deserialize)]
    struct Input<'f> {
        #[serde(borrow)]
        input: Text<'f>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct BlockStart<'f> {
        content_block_index: usize,
        #[serde(borrow)]
        start: Start<'f>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Start<'f> {
        #[serde(borrow)]
        tool_use: Option<Call<'f>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Call<'f> {
        tool_use_id: &'f str,
        name: &'f str,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct MessageStop<'f> {
        stop_reason: &'f str,
    }

    pub(super) fn read(event: &str, data: &str, turn: &mut FloorTurn) -> Result<(), serde_json::Error> {
        match event {
            "contentBlockDelta" => {
                let BlockDelta { content_block_index, delta } = serde_json::from_str(data)?;
                if let Some(Text(text)) = delta.text {
                    turn.text(&text);
                } else if let Some(Input { input: Text(fragment) }) = delta.tool_use {
                    turn.fragment(content_block_index, &fragment);
                }
            }
            "contentBlockStart" => {
                let BlockStart { content_block_index, start } = serde_json::from_str(data)?;
                if let Some(call) = start.tool_use {
                    turn.call(content_block_index, call.tool_use_id, call.name);
                }
            }
            "messageStop" => {
                let MessageStop { stop_reason } = serde_json::from_str(data)?;
                turn.reason = Some(stop_reason.to_owned());
            }
            _ => {}
        }
        Ok(())
    }
}
