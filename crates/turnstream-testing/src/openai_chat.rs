//! OpenAI Chat Completions: replies, and what its requests say.

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

/// A reply of Chat Completions. See [`Reply`](crate::Reply) for its words. Reasoning comes as
/// `reasoning_content`, as the compatible servers send it.
pub type Reply = crate::Reply<OverHttp<Completions>>;

/// Stands for the wire in types.
#[derive(Debug, Clone, Copy)]
pub enum Completions {}

impl Script<Completions> {
    /// A conversation over Chat Completions.
    pub fn openai_chat() -> Self {
        Self::new()
    }
}

/// What the body of a request says.
pub fn read_request(body: &Value) -> SentRequest {
    Completions::read("", body)
}

impl Spelling for Completions {
    const PATH_END: &'static str = "/chat/completions";

    fn render(plan: &Plan) -> Vec<Piece> {
        let mut renderer = Renderer::default();
        plan.render(&mut renderer);
        renderer.frames.into_pieces()
    }

    fn refusal(code: &str, message: &str) -> String {
        object([("error", error(code, message))])
    }

    fn read(_path: &str, body: &Value) -> SentRequest {
        let mut sent = SentRequest::of(body);
        sent.tools = strings(&body["tools"], |tool| called(tool)["name"].as_str());
        for message in body["messages"].as_array().into_iter().flatten() {
            read_message(message, &mut sent);
        }
        sent
    }
}

fn read_message(message: &Value, sent: &mut SentRequest) {
    let content = content_text(&message["content"]);
    match message["role"].as_str() {
        Some("system" | "developer") => sent.push_system(&content),
        Some("tool") => {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            sent.parts.push(SentPart::Result(SentResult::new(id, content, false)));
        }
        Some("assistant") => {
            sent.push_text(false, &content);
            if content.is_empty() && message["refusal"].is_null() && message["tool_calls"].is_null() {
                sent.broken_rule("an assistant's message has neither content nor calls".to_owned());
            }
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let id = call["id"].as_str().unwrap_or_default();
                let call = called(call);
                let arguments = call.get("arguments").unwrap_or(&call["input"]);
                let name = call["name"].as_str().unwrap_or_default();
                sent.parts.push(SentPart::Call(SentCall::new(id, name, read_arguments(arguments))));
            }
        }
        _ => sent.push_text(true, &content),
    }
}

/// The part of a tool or a call that has its name, for functions and custom tools.
fn called(tool: &Value) -> &Value {
    tool.get("custom").unwrap_or(&tool["function"])
}

#[derive(Debug, Default)]
struct Renderer {
    frames: Frames,
    id: String,
    model: String,
    next_call: usize,
}

impl Renderer {
    fn delta(&mut self, delta: String) {
        self.choice(delta, null());
    }

    fn choice(&mut self, delta: String, finish_reason: String) {
        let choice = object([
            ("index", "0".to_owned()),
            ("delta", delta),
            ("logprobs", null()),
            ("finish_reason", finish_reason),
        ]);
        self.chunk(array([choice]), null());
    }

    fn chunk(&mut self, choices: String, usage: String) {
        let chunk = object([
            ("id", string(&self.id)),
            ("object", string("chat.completion.chunk")),
            ("created", "0".to_owned()),
            ("model", string(&self.model)),
            ("choices", choices),
            ("usage", usage),
        ]);
        self.frames.unnamed(&chunk);
    }
}

impl Render for Renderer {
    fn start(&mut self, plan: &Plan) {
        self.id = plan.id.clone().unwrap_or_else(|| "chatcmpl-test".to_owned());
        self.model.clone_from(&plan.model);
        self.delta(object([("role", string("assistant")), ("content", string(""))]));
    }

    fn prose(&mut self, prose: Prose, pieces: &[String]) {
        let field = match prose {
            Prose::Text => "content",
            Prose::Reasoning => "reasoning_content",
            Prose::Refusal => "refusal",
        };
        for piece in pieces {
            self.delta(object([(field, string(piece))]));
        }
    }

    fn calls(&mut self, calls: &[PlannedCall]) {
        let first = self.next_call;
        for call in calls {
            let function = object([("name", string(&call.name)), ("arguments", string(""))]);
            let opening = object([
                ("index", self.next_call.to_string()),
                ("id", string(&call.id)),
                ("type", string("function")),
                ("function", function),
            ]);
            self.next_call += 1;
            self.delta(object([("tool_calls", array([opening]))]));
        }
        for (call, fragment) in by_turns(calls) {
            let more = object([
                ("index", (first + call).to_string()),
                ("function", object([("arguments", string(fragment))])),
            ]);
            self.delta(object([("tool_calls", array([more]))]));
        }
    }

    fn close(&mut self, _is_cut: bool) {}

    fn ping(&mut self) {
        self.frames.comment();
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
        self.frames.unnamed(&object([("error", error(code, message))]));
    }

    fn end(&mut self, plan: &Plan) {
        let reason = match &plan.ending {
            Ending::Word(word) => word,
            Ending::Length => "length",
            Ending::ContentFilter => "content_filter",
            Ending::Inferred | Ending::Cut if plan.calls().next().is_some() => "tool_calls",
            Ending::Inferred | Ending::Cut => "stop",
        };
        self.choice(object([]), string(reason));
        if let Some((input, output)) = plan.usage {
            let usage = object([
                ("prompt_tokens", input.to_string()),
                ("completion_tokens", output.to_string()),
                ("total_tokens", (input + output).to_string()),
            ]);
            self.chunk(array([]), usage);
        }
        self.frames.unnamed("[DONE]");
    }
}

fn error(code: &str, message: &str) -> String {
    object([("message", string(message)), ("type", string(code)), ("param", null()), ("code", string(code))])
}
