//! OpenAI Responses: replies, and what its requests say.

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

/// A reply of Responses. See [`Reply`](crate::Reply) for its words.
pub type Reply = crate::Reply<OverHttp<Responses>>;

/// Stands for the wire in types.
#[derive(Debug, Clone, Copy)]
pub enum Responses {}

impl Script<Responses> {
    /// A conversation over Responses.
    pub fn openai_responses() -> Self {
        Self::new()
    }
}

/// What the body of a request says.
pub fn read_request(body: &Value) -> SentRequest {
    Responses::read("", body)
}

impl Spelling for Responses {
    const PATH_END: &'static str = "/responses";

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
        sent.system = content_text(&body["instructions"]);
        sent.tools = strings(&body["tools"], |tool| tool["name"].as_str());
        match &body["input"] {
            Value::Array(items) => items.iter().for_each(|item| read_item(item, &mut sent)),
            input => sent.push_text(true, &content_text(input)),
        }
        sent
    }
}

fn read_item(item: &Value, sent: &mut SentRequest) {
    let text = |name: &str| item[name].as_str().unwrap_or_default();
    match text("type") {
        "function_call" | "custom_tool_call" => {
            let arguments = read_arguments(item.get("arguments").unwrap_or(&item["input"]));
            sent.parts.push(SentPart::Call(SentCall::new(text("call_id"), text("name"), arguments)));
        }
        "function_call_output" | "custom_tool_call_output" => {
            let content = content_text(&item["output"]);
            sent.parts.push(SentPart::Result(SentResult::new(text("call_id"), content, false)));
        }
        "message" | "" => match text("role") {
            "system" | "developer" => sent.push_system(&content_text(&item["content"])),
            role => sent.push_text(role != "assistant", &content_text(&item["content"])),
        },
        _ => {}
    }
}

#[derive(Debug, Default)]
struct Renderer {
    frames: Frames,
    id: String,
    model: String,
    sequence_number: usize,
    next_item: usize,
    open: Vec<OpenItem>,
    /// The items that are done, for the last frame.
    done: Vec<String>,
    usage: Option<(u64, u64)>,
}

#[derive(Debug)]
struct OpenItem {
    index: usize,
    id: String,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Prose(Prose, String),
    Call(PlannedCall),
}

impl Renderer {
    /// One frame: its type and number, and its members after that.
    fn frame<'a>(&mut self, event: &str, members: impl IntoIterator<Item = (&'a str, String)>) {
        let head = [("type", string(event)), ("sequence_number", self.sequence_number.to_string())];
        self.sequence_number += 1;
        self.frames.named(event, &object(head.into_iter().chain(members)));
    }

    /// One frame about an item.
    fn item_frame<'a>(
        &mut self,
        event: &str,
        (index, id): (usize, &str),
        members: impl IntoIterator<Item = (&'a str, String)>,
    ) {
        let place = [("item_id", string(id)), ("output_index", index.to_string())];
        self.frame(event, place.into_iter().chain(members));
    }

    fn item_added(&mut self, prefix: &str, content: Content) -> (usize, String) {
        let index = self.next_item;
        self.next_item += 1;
        let item = OpenItem { index, id: format!("{prefix}_{}_{index}", self.id), content };
        let (id, added) = (item.id.clone(), item.json("in_progress", false));
        self.open.push(item);
        let members = [("output_index", index.to_string()), ("item", added)];
        self.frame("response.output_item.added", members);
        (index, id)
    }

    fn response(&self, status: &str, failure: String, details: String) -> String {
        let usage = match self.usage {
            Some((input, output)) if status != "in_progress" => object([
                ("input_tokens", input.to_string()),
                ("output_tokens", output.to_string()),
                ("total_tokens", (input + output).to_string()),
            ]),
            _ => null(),
        };
        object([
            ("id", string(&self.id)),
            ("object", string("response")),
            ("created_at", "0".to_owned()),
            ("status", string(status)),
            ("error", failure),
            ("incomplete_details", details),
            ("model", string(&self.model)),
            ("output", array(self.done.iter().cloned())),
            ("usage", usage),
        ])
    }
}

impl Render for Renderer {
    fn start(&mut self, plan: &Plan) {
        self.id = plan.id.clone().unwrap_or_else(|| "resp_test".to_owned());
        self.model.clone_from(&plan.model);
        self.usage = plan.usage;
        for event in ["response.created", "response.in_progress"] {
            let response = self.response("in_progress", null(), null());
            self.frame(event, [("response", response)]);
        }
    }

    fn prose(&mut self, prose: Prose, pieces: &[String]) {
        let content = Content::Prose(prose, pieces.concat());
        let (prefix, part_added, delta, place) = match prose {
            Prose::Text => {
                ("msg", "response.content_part.added", "response.output_text.delta", "content_index")
            }
            Prose::Refusal => {
                ("msg", "response.content_part.added", "response.refusal.delta", "content_index")
            }
            Prose::Reasoning => (
                "rs",
                "response.reasoning_summary_part.added",
                "response.reasoning_summary_text.delta",
                "summary_index",
            ),
        };
        let (index, id) = self.item_added(prefix, content);
        let zero = || (place, "0".to_owned());
        self.item_frame(part_added, (index, &id), [zero(), ("part", part(prose, ""))]);
        for piece in pieces {
            self.item_frame(delta, (index, &id), [zero(), ("delta", string(piece))]);
        }
    }

    fn calls(&mut self, calls: &[PlannedCall]) {
        let items: Vec<(usize, String)> =
            calls.iter().map(|call| self.item_added("fc", Content::Call(call.clone()))).collect();
        for (call, fragment) in by_turns(calls) {
            if let Some((index, id)) = items.get(call) {
                let delta = [("delta", string(fragment))];
                self.item_frame("response.function_call_arguments.delta", (*index, id), delta);
            }
        }
    }

    fn close(&mut self, is_cut: bool) {
        for item in std::mem::take(&mut self.open) {
            let (index, id) = (item.index, &item.id);
            match &item.content {
                _ if is_cut => {}
                Content::Call(call) => {
                    let arguments = [("arguments", string(&call.arguments))];
                    self.item_frame("response.function_call_arguments.done", (index, id), arguments);
                }
                Content::Prose(prose, text) => {
                    let (done, field, part_done, place) = match prose {
                        Prose::Text => (
                            "response.output_text.done",
                            "text",
                            "response.content_part.done",
                            "content_index",
                        ),
                        Prose::Refusal => (
                            "response.refusal.done",
                            "refusal",
                            "response.content_part.done",
                            "content_index",
                        ),
                        Prose::Reasoning => (
                            "response.reasoning_summary_text.done",
                            "text",
                            "response.reasoning_summary_part.done",
                            "summary_index",
                        ),
                    };
                    let zero = || (place, "0".to_owned());
                    self.item_frame(done, (index, id), [zero(), (field, string(text))]);
                    self.item_frame(part_done, (index, id), [zero(), ("part", part(*prose, text))]);
                }
            }
            let whole = item.json(if is_cut { "incomplete" } else { "completed" }, true);
            self.done.push(whole.clone());
            let members = [("output_index", index.to_string()), ("item", whole)];
            self.frame("response.output_item.done", members);
        }
    }

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
        self.frame("error", [("error", error(code, message))]);
        let failure = object([("code", string(code)), ("message", string(message))]);
        let response = self.response("failed", failure, null());
        self.frame("response.failed", [("response", response)]);
    }

    fn end(&mut self, plan: &Plan) {
        let reason = match &plan.ending {
            Ending::Length => Some("max_output_tokens"),
            Ending::ContentFilter => Some("content_filter"),
            Ending::Word(word) if word == "failed" => {
                let failure =
                    object([("code", string("server_error")), ("message", string("the reply failed"))]);
                let response = self.response("failed", failure, null());
                return self.frame("response.failed", [("response", response)]);
            }
            Ending::Word(word) if word != "completed" => Some(word.as_str()),
            _ => None,
        };
        let (status, details) = match reason {
            Some(reason) => ("incomplete", object([("reason", string(reason))])),
            None => ("completed", null()),
        };
        let response = self.response(status, null(), details);
        self.frame(&format!("response.{status}"), [("response", response)]);
    }
}

impl OpenItem {
    /// The item as it stands in a frame: with its content if it is `whole`.
    fn json(&self, status: &str, is_whole: bool) -> String {
        let id = ("id", string(&self.id));
        match &self.content {
            Content::Call(call) => object([
                id,
                ("type", string("function_call")),
                ("status", string(status)),
                ("arguments", string(if is_whole { &call.arguments } else { "" })),
                ("call_id", string(&call.id)),
                ("name", string(&call.name)),
            ]),
            Content::Prose(Prose::Reasoning, text) => object([
                id,
                ("type", string("reasoning")),
                ("summary", array(is_whole.then(|| part(Prose::Reasoning, text)))),
                ("encrypted_content", string(&format!("ZW5jcnlwdGVk{}", self.index))),
            ]),
            Content::Prose(prose, text) => object([
                id,
                ("type", string("message")),
                ("status", string(status)),
                ("role", string("assistant")),
                ("content", array(is_whole.then(|| part(*prose, text)))),
            ]),
        }
    }
}

fn part(prose: Prose, text: &str) -> String {
    match prose {
        Prose::Text => {
            object([("type", string("output_text")), ("text", string(text)), ("annotations", array([]))])
        }
        Prose::Refusal => object([("type", string("refusal")), ("refusal", string(text))]),
        Prose::Reasoning => object([("type", string("summary_text")), ("text", string(text))]),
    }
}

fn error(code: &str, message: &str) -> String {
    object([("type", string(code)), ("code", string(code)), ("message", string(message)), ("param", null())])
}
