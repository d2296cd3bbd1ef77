//! Ollama's chat wire: replies, and what its requests say.

use serde_json::{Value, value::RawValue};

use crate::{
    format::{Frames, Spelling},
    gate::Gate,
    json::{array, object, string},
    plan::{Ending, Piece, Plan, PlannedCall, Prose, Render, Step},
    reply::OverHttp,
    script::Script,
    sent::{SentCall, SentPart, SentRequest, SentResult, content_text, read_arguments, strings},
};

/// A reply of Ollama. See [`Reply`](crate::Reply) for its words.
///
/// Calls come whole, a line each, or all in one line if they are interleaved. So a reply that is cut in the
/// middle of a call ends in a torn line, and one that comes to the token limit there has no call. Arguments
/// that are no object are sent as a text, which the real server never does. A refusal is text; errors have no
/// code, and replies no id.
pub type Reply = crate::Reply<OverHttp<Chat>>;

/// Stands for the wire in types.
#[derive(Debug, Clone, Copy)]
pub enum Chat {}

impl Script<Chat> {
    /// A conversation over Ollama's chat wire.
    pub fn ollama() -> Self {
        Self::new()
    }
}

/// What the body of a request says.
pub fn read_request(body: &Value) -> SentRequest {
    Chat::read("", body)
}

impl Spelling for Chat {
    const PATH_END: &'static str = "/api/chat";
    const CONTENT_TYPE: &'static str = "application/x-ndjson";

    fn render(plan: &Plan) -> Vec<Piece> {
        let mut renderer = Renderer::default();
        plan.render(&mut renderer);
        renderer.frames.into_pieces()
    }

    fn refusal(_code: &str, message: &str) -> String {
        object([("error", string(message))])
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
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match message["role"].as_str() {
        Some("system") => sent.push_system(&content),
        Some("tool") => {
            let result = SentResult::new(&text(&message["tool_call_id"]), content, false);
            sent.parts.push(SentPart::Result(result.named(&text(&message["tool_name"]))));
        }
        Some("assistant") => {
            sent.push_text(false, &content);
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let function = &call["function"];
                if !function["arguments"].is_object() {
                    sent.broken_rule(format!("the arguments of {} are no object", function["name"]));
                }
                let arguments = read_arguments(&function["arguments"]);
                let call = SentCall::new(&text(&call["id"]), &text(&function["name"]), arguments);
                sent.parts.push(SentPart::Call(call));
            }
        }
        _ => sent.push_text(true, &content),
    }
}

#[derive(Debug, Default)]
struct Renderer {
    frames: Frames,
    model: String,
    next_call: usize,
    /// How many parts are still to come.
    parts_left: usize,
    /// The reply is cut in the middle of its last part: in its line, or by the server before that.
    cut: Option<Cut>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Body,
    Reply,
}

impl Renderer {
    fn message(&mut self, member: (&str, String)) {
        let line = self.line(message(member), "false", Vec::new());
        self.frames.line(&line);
    }

    fn line(&self, message: String, done: &str, more: Vec<(&str, String)>) -> String {
        let members = [
            ("model", string(&self.model)),
            ("created_at", string("2026-01-01T00:00:00Z")),
            ("message", message),
            ("done", done.to_owned()),
        ];
        object(members.into_iter().chain(more))
    }
}

impl Render for Renderer {
    fn start(&mut self, plan: &Plan) {
        self.model.clone_from(&plan.model);
        self.parts_left =
            plan.steps.iter().filter(|step| matches!(step, Step::Prose(..) | Step::Calls(_))).count();
        self.cut = match (&plan.ending, plan.steps.last()) {
            (Ending::Cut, Some(Step::Calls(_))) => Some(Cut::Body),
            (Ending::Cut | Ending::Length | Ending::ContentFilter, _) => Some(Cut::Reply),
            _ => None,
        };
    }

    fn prose(&mut self, prose: Prose, pieces: &[String]) {
        self.parts_left -= 1;
        for piece in pieces {
            match prose {
                Prose::Reasoning => self.frames.line(&self.line(
                    object([
                        ("role", string("assistant")),
                        ("content", string("")),
                        ("thinking", string(piece)),
                    ]),
                    "false",
                    Vec::new(),
                )),
                Prose::Text | Prose::Refusal => self.message(("content", string(piece))),
            }
        }
    }

    fn calls(&mut self, calls: &[PlannedCall]) {
        self.parts_left -= 1;
        let cut = self.cut.filter(|_| self.parts_left == 0);
        let sent =
            if cut == Some(Cut::Reply) { calls.split_last().map_or(calls, |(_, sent)| sent) } else { calls };
        let mut spelled = Vec::new();
        for call in sent {
            let mut function = vec![("index", self.next_call.to_string()), ("name", string(&call.name))];
            function
                .extend(arguments(&call.arguments, cut.is_some()).map(|arguments| ("arguments", arguments)));
            self.next_call += 1;
            spelled.push(object([("id", string(&call.id)), ("function", object(function))]));
        }
        if spelled.is_empty() {
            return;
        }
        let message =
            object([("role", string("assistant")), ("content", string("")), ("tool_calls", array(spelled))]);
        let line = self.line(message, "false", Vec::new());
        match cut {
            Some(Cut::Body) => {
                let torn = line.strip_suffix(r#"}}]},"done":false}"#).unwrap_or(&line);
                // Of an object that is whole its last brace is missing.
                self.frames.raw(torn.strip_suffix('}').unwrap_or(torn).as_bytes());
            }
            _ => self.frames.line(&line),
        }
    }

    fn close(&mut self, _is_cut: bool) {}

    fn ping(&mut self) {
        self.frames.line("");
    }

    fn own_frame(&mut self, _event: &str, data: &str) {
        self.frames.line(data);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.frames.raw(bytes);
    }

    fn gate(&mut self, gate: &Gate) {
        self.frames.gate(gate);
    }

    fn error(&mut self, _code: &str, message: &str) {
        self.frames.line(&object([("error", string(message))]));
    }

    fn end(&mut self, plan: &Plan) {
        let reason = match &plan.ending {
            Ending::Word(word) => word,
            Ending::Length => "length",
            Ending::ContentFilter => "content_filter",
            Ending::Inferred | Ending::Cut => "stop",
        };
        let mut more = vec![("done_reason", string(reason)), ("total_duration", "1".to_owned())];
        if let Some((input, output)) = plan.usage {
            more.push(("prompt_eval_count", input.to_string()));
            more.push(("eval_count", output.to_string()));
        }
        let line = self.line(message(("content", string(""))), "true", more);
        self.frames.line(&line);
    }
}

fn message(member: (&str, String)) -> String {
    object([("role", string("assistant")), member])
}

/// The arguments as they stand in a line; `None` if there are none. Those of a torn line need not be whole.
fn arguments(text: &str, is_torn: bool) -> Option<String> {
    let is_object =
        text.trim_start().starts_with('{') && (is_torn || serde_json::from_str::<&RawValue>(text).is_ok());
    match text {
        "" => None,
        text if is_object && !text.contains(['\n', '\r']) => Some(text.to_owned()),
        text => Some(string(text)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(reply: Reply) -> String {
        String::from_utf8(reply.body()).unwrap()
    }

    fn line(rest: &str) -> String {
        format!(
            "{{\"model\":\"test-model\",\"created_at\":\"2026-01-01T00:00:00Z\",\"message\":{{\"role\":\"assistant\",{rest}"
        )
    }

    #[test]
    fn a_call_comes_whole_and_the_reason_for_it_is_stop() {
        let calls = [("a", "f", json!({ "id": 1 })), ("b", "g", json!({}))];
        let call = r#""content":"","tool_calls":[{"id":"a","function":{"index":0,"name":"f","arguments":{"id":1}}},{"id":"b","function":{"index":1,"name":"g","arguments":{}}}]},"done":false}"#;
        let end = r#""content":""},"done":true,"done_reason":"stop","total_duration":1,"prompt_eval_count":10,"eval_count":20}"#;
        let want = [r#""content":"So."},"done":false}"#, call, end].map(|rest| line(rest) + "\n").concat();
        assert_eq!(body(Reply::new().text(["So."]).interleaved_calls(calls).fragments_of(1)), want);
        assert_eq!(Reply::new().content_type(), "application/x-ndjson");
    }

    #[test]
    fn a_reply_that_is_cut_in_a_call_is_torn_there_and_one_that_is_too_long_has_no_call() {
        let called = |text: &str| Reply::new().call_raw("a", "f", text);
        let torn = |arguments: &str| {
            line(r#""content":"","tool_calls":[{"id":"a","function":{"index":0,"name":"f""#) + arguments
        };
        assert_eq!(body(called("{\"id").cut()), torn(r#","arguments":{"id"#));
        assert_eq!(body(called("{\"id\":1}").cut()), torn(r#","arguments":{"id":1"#));
        assert_eq!(body(called("").cut()), torn(""));
        let length = r#""content":""},"done":true,"done_reason":"length","total_duration":1}"#;
        assert_eq!(body(called("{\"id").length().without_usage()), line(length) + "\n");
        assert_eq!(body(called("{\"id").error("x", "Gone.")), "{\"error\":\"Gone.\"}\n");
    }

    #[test]
    fn arguments_that_are_no_object_break_a_rule() {
        let call = json!({ "id": "a", "function": { "name": "f", "arguments": "{}" } });
        let request = json!({ "messages": [
            { "role": "assistant", "content": "", "tool_calls": [call] },
            { "role": "tool", "content": "x", "tool_name": "f", "tool_call_id": "a" },
        ] });
        assert_eq!(read_request(&request).problems(), [r#"the arguments of "f" are no object"#]);
    }
}
