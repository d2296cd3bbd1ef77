//! Cohere's chat wire (v2): replies, and what its requests say.

use serde_json::Value;

use crate::{
    format::{Frames, Spelling},
    gate::Gate,
    json::{array, object, string},
    plan::{Ending, Piece, Plan, PlannedCall, Prose, Render, by_turns},
    reply::OverHttp,
    script::Script,
    sent::{SentCall, SentPart, SentRequest, SentResult, content_text, read_arguments, strings},
};

/// A reply of Cohere. See [`Reply`](crate::Reply) for its words.
///
/// Reasoning is thinking; a tool plan can be sent with [`raw`](crate::Reply::raw). A refusal is text. An error
/// in the stream has the code `ERROR`, as the wire has it.
pub type Reply = crate::Reply<OverHttp<Chat>>;

/// Stands for the wire in types.
#[derive(Debug, Clone, Copy)]
pub enum Chat {}

impl Script<Chat> {
    /// A conversation over Cohere's chat wire.
    pub fn cohere() -> Self {
        Self::new()
    }
}

/// What the body of a request says. The tool plan is the model's text.
pub fn read_request(body: &Value) -> SentRequest {
    Chat::read("", body)
}

impl Spelling for Chat {
    const PATH_END: &'static str = "/v2/chat";

    fn render(plan: &Plan) -> Vec<Piece> {
        let mut renderer = Renderer::default();
        plan.render(&mut renderer);
        renderer.frames.into_pieces()
    }

    fn refusal(code: &str, message: &str) -> String {
        object([("id", string("req_test")), ("message", string(message)), ("error_type", string(code))])
    }

    fn read(_path: &str, body: &Value) -> SentRequest {
        let mut sent = SentRequest::of(body);
        sent.tools = strings(&body["tools"], |tool| tool.pointer("/function/name")?.as_str());
        for message in body["messages"].as_array().into_iter().flatten() {
            read_message(message, &mut sent);
        }
        sent
    }
}

fn read_message(message: &Value, sent: &mut SentRequest) {
    let content = content_text(&message["content"]);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    match message["role"].as_str() {
        Some("system") => sent.push_system(&content),
        Some("tool") => {
            let id = text(message.get("tool_call_id"));
            sent.parts.push(SentPart::Result(SentResult::new(&id, content, false)));
        }
        Some("assistant") => {
            let calls = message["tool_calls"].as_array();
            if !content.is_empty() && calls.is_some_and(|calls| !calls.is_empty()) {
                sent.broken_rule("a message has both text and calls".to_owned());
            }
            sent.push_text(false, &content);
            sent.push_text(false, &text(message.get("tool_plan")));
            for call in calls.into_iter().flatten() {
                let arguments = call.pointer("/function/arguments").map(read_arguments).unwrap_or_default();
                let name = text(call.pointer("/function/name"));
                sent.parts.push(SentPart::Call(SentCall::new(&text(call.get("id")), &name, arguments)));
            }
        }
        _ => sent.push_text(true, &content),
    }
}

#[derive(Debug, Default)]
struct Renderer {
    frames: Frames,
    next_content: usize,
    next_call: usize,
    /// The content that has begun and not ended.
    open_content: Option<usize>,
    /// The calls that have begun and not ended.
    open_calls: Vec<usize>,
}

impl Renderer {
    fn message(&mut self, kind: &str, index: usize, message: (&str, String)) {
        let data = object([
            ("type", string(kind)),
            ("index", index.to_string()),
            ("delta", object([("message", object([message]))])),
        ]);
        self.frames.named(kind, &data);
    }

    fn end(&mut self, kind: &str, index: usize) {
        self.frames.named(kind, &object([("type", string(kind)), ("index", index.to_string())]));
    }

    fn message_end(&mut self, delta: Vec<(&str, String)>) {
        self.frames
            .named("message-end", &object([("type", string("message-end")), ("delta", object(delta))]));
    }
}

impl Render for Renderer {
    fn start(&mut self, plan: &Plan) {
        let message = object([
            ("role", string("assistant")),
            ("content", array([])),
            ("tool_plan", string("")),
            ("tool_calls", array([])),
            ("citations", array([])),
        ]);
        let data = object([
            ("id", string(plan.id.as_deref().unwrap_or("reply-test"))),
            ("type", string("message-start")),
            ("delta", object([("message", message)])),
        ]);
        self.frames.named("message-start", &data);
    }

    fn prose(&mut self, prose: Prose, pieces: &[String]) {
        let kind = match prose {
            Prose::Reasoning => "thinking",
            Prose::Text | Prose::Refusal => "text",
        };
        let index = self.next_content;
        self.next_content += 1;
        self.open_content = Some(index);
        let start = object([("type", string(kind)), (kind, string(""))]);
        self.message("content-start", index, ("content", start));
        for piece in pieces {
            self.message("content-delta", index, ("content", object([(kind, string(piece))])));
        }
    }

    fn calls(&mut self, calls: &[PlannedCall]) {
        let first = self.next_call;
        for call in calls {
            let function = object([("name", string(&call.name)), ("arguments", string(""))]);
            let start =
                object([("id", string(&call.id)), ("type", string("function")), ("function", function)]);
            self.message("tool-call-start", self.next_call, ("tool_calls", start));
            self.open_calls.push(self.next_call);
            self.next_call += 1;
        }
        for (call, fragment) in by_turns(calls) {
            let more = object([("function", object([("arguments", string(fragment))]))]);
            self.message("tool-call-delta", first + call, ("tool_calls", more));
        }
    }

    fn close(&mut self, is_cut: bool) {
        if let Some(index) = self.open_content.take() {
            self.end("content-end", index);
        }
        for index in std::mem::take(&mut self.open_calls) {
            if !is_cut {
                self.end("tool-call-end", index);
            }
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

    fn error(&mut self, _code: &str, message: &str) {
        self.message_end(vec![("finish_reason", string("ERROR")), ("error", string(message))]);
    }

    fn end(&mut self, plan: &Plan) {
        let reason = match &plan.ending {
            Ending::Word(word) => word,
            Ending::Length => "MAX_TOKENS",
            Ending::ContentFilter => "ERROR_TOXIC",
            Ending::Inferred | Ending::Cut if plan.calls().next().is_some() => "TOOL_CALL",
            Ending::Inferred | Ending::Cut => "COMPLETE",
        };
        let mut delta = vec![("finish_reason", string(reason))];
        if let Some((input, output)) = plan.usage {
            let units =
                || object([("input_tokens", input.to_string()), ("output_tokens", output.to_string())]);
            delta.push(("usage", object([("billed_units", units()), ("tokens", units())])));
        }
        self.message_end(delta);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_and_calls_are_counted_apart() {
        let reply = Reply::new().text(["So."]).call("a", "f", json!({})).without_usage();
        let kinds: Vec<String> = reply
            .chunks()
            .iter()
            .map(|chunk| {
                let text = String::from_utf8(chunk.clone()).unwrap();
                let data: Value = serde_json::from_str(text.split_once("data: ").unwrap().1).unwrap();
                format!("{} {}", data["type"].as_str().unwrap(), data["index"])
            })
            .collect();
        let want = [
            "message-start null",
            "content-start 0",
            "content-delta 0",
            "content-end 0",
            "tool-call-start 0",
            "tool-call-delta 0",
            "tool-call-end 0",
            "message-end null",
        ];
        assert_eq!(kinds, want);
    }

    #[test]
    fn text_beside_calls_breaks_a_rule() {
        let call = json!({ "id": "a", "function": { "name": "f", "arguments": "{}" } });
        let request = json!({ "messages": [
            { "role": "assistant", "content": "So.", "tool_calls": [call] },
            { "role": "tool", "tool_call_id": "a", "content": "x" },
        ] });
        assert_eq!(read_request(&request).problems(), ["a message has both text and calls"]);
    }
}
