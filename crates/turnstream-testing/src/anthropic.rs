//! Anthropic Messages: replies, and what its requests say.

use serde_json::Value;

use crate::{
    format::{Frames, Spelling},
    gate::Gate,
    json::{array, null, object, string},
    plan::{Ending, Piece, Plan, PlannedCall, Prose, Render, by_turns},
    reply::OverHttp,
    script::Script,
    sent::{SentCall, SentPart, SentRequest, SentResult, content_text, read_arguments, strings},
};

/// A reply of Anthropic Messages. See [`Reply`](crate::Reply) for its words.
pub type Reply = crate::Reply<OverHttp<Messages>>;

/// Stands for the wire in types.
#[derive(Debug, Clone, Copy)]
pub enum Messages {}

impl Script<Messages> {
    /// A conversation over Anthropic Messages.
    pub fn anthropic() -> Self {
        Self::new()
    }
}

/// What the body of a request says.
pub fn read_request(body: &Value) -> SentRequest {
    Messages::read("", body)
}

impl Spelling for Messages {
    const PATH_END: &'static str = "/messages";
    const REQUEST_ID_HEADER: &'static str = "request-id";

    fn render(plan: &Plan) -> Vec<Piece> {
        let mut renderer = Renderer::default();
        plan.render(&mut renderer);
        renderer.frames.into_pieces()
    }

    fn refusal(code: &str, message: &str) -> String {
        object([
            ("type", string("error")),
            ("error", object([("type", string(code)), ("message", string(message))])),
            ("request_id", string("req_test")),
        ])
    }

    fn read(_path: &str, body: &Value) -> SentRequest {
        let mut sent = SentRequest::of(body);
        sent.system = content_text(&body["system"]);
        sent.tools = strings(&body["tools"], |tool| tool["name"].as_str());
        let messages = || body["messages"].as_array().into_iter().flatten();
        sent.check_roles(messages().filter_map(|message| message["role"].as_str()));
        for message in messages() {
            let is_user = message["role"] == "user";
            match &message["content"] {
                Value::Array(blocks) => blocks.iter().for_each(|block| read_block(is_user, block, &mut sent)),
                content => sent.push_text(is_user, &content_text(content)),
            }
        }
        sent
    }
}

fn read_block(is_user: bool, block: &Value, sent: &mut SentRequest) {
    let text = |name: &str| block[name].as_str().unwrap_or_default();
    match text("type") {
        "text" => sent.push_text(is_user, text("text")),
        "tool_use" => {
            let arguments = read_arguments(&block["input"]);
            sent.parts.push(SentPart::Call(SentCall::new(text("id"), text("name"), arguments)));
        }
        "tool_result" => {
            let is_error = block["is_error"] == true;
            let content = content_text(&block["content"]);
            sent.parts.push(SentPart::Result(SentResult::new(text("tool_use_id"), content, is_error)));
        }
        _ => {}
    }
}

#[derive(Debug, Default)]
struct Renderer {
    frames: Frames,
    /// Blocks that have begun and not stopped.
    open: Vec<usize>,
    next_block: usize,
}

impl Renderer {
    fn frame(&mut self, event: &str, data: &str) {
        self.frames.named(event, data);
    }

    fn block_start(&mut self, block: String) -> usize {
        let index = self.next_block;
        self.next_block += 1;
        self.open.push(index);
        let data = object([
            ("type", string("content_block_start")),
            ("index", index.to_string()),
            ("content_block", block),
        ]);
        self.frame("content_block_start", &data);
        index
    }

    fn block_delta(&mut self, index: usize, kind: &str, field: &str, text: &str) {
        let data = object([
            ("type", string("content_block_delta")),
            ("index", index.to_string()),
            ("delta", object([("type", string(kind)), (field, string(text))])),
        ]);
        self.frame("content_block_delta", &data);
    }
}

impl Render for Renderer {
    fn start(&mut self, plan: &Plan) {
        let message = object([
            ("id", string(plan.id.as_deref().unwrap_or("msg_test"))),
            ("type", string("message")),
            ("role", string("assistant")),
            ("model", string(&plan.model)),
            ("content", array([])),
            ("stop_reason", null()),
            ("stop_sequence", null()),
            ("usage", usage(plan.usage.map(|(input, _)| (input, 1)))),
        ]);
        let data = object([("type", string("message_start")), ("message", message)]);
        self.frame("message_start", &data);
    }

    fn prose(&mut self, prose: Prose, pieces: &[String]) {
        let (kind, delta, field) = match prose {
            Prose::Reasoning => ("thinking", "thinking_delta", "thinking"),
            Prose::Text | Prose::Refusal => ("text", "text_delta", "text"),
        };
        let index = match prose {
            Prose::Reasoning => self.block_start(object([
                ("type", string(kind)),
                (field, string("")),
                ("signature", string("")),
            ])),
            _ => self.block_start(object([("type", string(kind)), (field, string(""))])),
        };
        for piece in pieces {
            self.block_delta(index, delta, field, piece);
        }
        if prose == Prose::Reasoning {
            self.block_delta(index, "signature_delta", "signature", &format!("c2lnbmF0dXJl{index}"));
        }
    }

    fn calls(&mut self, calls: &[PlannedCall]) {
        let first = self.next_block;
        for call in calls {
            let block = object([
                ("type", string("tool_use")),
                ("id", string(&call.id)),
                ("name", string(&call.name)),
                ("input", object([])),
            ]);
            let index = self.block_start(block);
            // The real one begins every call with an empty fragment.
            self.block_delta(index, "input_json_delta", "partial_json", "");
        }
        for (call, fragment) in by_turns(calls) {
            self.block_delta(first + call, "input_json_delta", "partial_json", fragment);
        }
    }

    fn close(&mut self, _is_cut: bool) {
        for index in std::mem::take(&mut self.open) {
            let data = object([("type", string("content_block_stop")), ("index", index.to_string())]);
            self.frame("content_block_stop", &data);
        }
    }

    fn ping(&mut self) {
        self.frame("ping", &object([("type", string("ping"))]));
    }

    fn own_frame(&mut self, event: &str, data: &str) {
        self.frames.event(event, data);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.frames.raw(bytes);
    }

    fn gate(&mut self, gate: &Gate) {
        self.frames.gate(gate);
    }

    fn error(&mut self, code: &str, message: &str) {
        let error = object([("type", string(code)), ("message", string(message))]);
        self.frame("error", &object([("type", string("error")), ("error", error)]));
    }

    fn end(&mut self, plan: &Plan) {
        let reason = match &plan.ending {
            Ending::Word(word) => word,
            Ending::Length => "max_tokens",
            Ending::ContentFilter => "refusal",
            Ending::Inferred | Ending::Cut if plan.has_refusal() => "refusal",
            Ending::Inferred | Ending::Cut if plan.calls().next().is_some() => "tool_use",
            Ending::Inferred | Ending::Cut => "end_turn",
        };
        let data = object([
            ("type", string("message_delta")),
            ("delta", object([("stop_reason", string(reason)), ("stop_sequence", null())])),
            ("usage", usage(plan.usage)),
        ]);
        self.frame("message_delta", &data);
        self.frame("message_stop", &object([("type", string("message_stop"))]));
    }
}

fn usage(usage: Option<(u64, u64)>) -> String {
    match usage {
        Some((input, output)) => {
            object([("input_tokens", input.to_string()), ("output_tokens", output.to_string())])
        }
        None => object([]),
    }
}
