//! Gemini: replies, and what its requests say.

use serde_json::{Value, value::RawValue};
use turnstream_core::ToolChoice;

use crate::{
    format::{Frames, Spelling},
    gate::Gate,
    json::{array, object, string},
    plan::{Ending, Piece, Plan, PlannedCall, Prose, Render, Step},
    reply::OverHttp,
    script::Script,
    sent::{SentCall, SentPart, SentRequest, SentResult, content_text, read_arguments, strings},
};

/// A reply of Gemini, as server-sent events. See [`Reply`](crate::Reply) for its words.
///
/// Calls come whole, a frame each, or all in one frame if they are interleaved. So a reply that is cut in the
/// middle of a call ends in a torn frame, and one that comes to the token limit there has no call. Arguments
/// that are no object are sent as a text, which the real server never does. A refusal is text.
pub type Reply = crate::Reply<OverHttp<Responses>>;

/// Stands for the wire in types.
#[derive(Debug, Clone, Copy)]
pub enum Responses {}

impl Script<Responses> {
    /// A conversation over Gemini's wire.
    pub fn gemini() -> Self {
        Self::new()
    }
}

/// What a request says: its path, which names the model and may be empty, and its body.
pub fn read_request(path: &str, body: &Value) -> SentRequest {
    Responses::read(path, body)
}

impl Spelling for Responses {
    const PATH_END: &'static str = ":streamGenerateContent";

    fn render(plan: &Plan) -> Vec<Piece> {
        let mut renderer = Renderer::default();
        plan.render(&mut renderer);
        renderer.frames.into_pieces()
    }

    fn refusal(code: &str, message: &str) -> String {
        object([("error", error(code, message))])
    }

    fn read(path: &str, body: &Value) -> SentRequest {
        let mut sent = SentRequest::of(body);
        let model = path.strip_suffix(Self::PATH_END).and_then(|path| path.rsplit('/').next());
        sent.model = model.map(str::to_owned);
        sent.system = body.pointer("/systemInstruction/parts").map(content_text).unwrap_or_default();
        for tool in body["tools"].as_array().into_iter().flatten() {
            sent.tools.extend(strings(&tool["functionDeclarations"], |tool| tool["name"].as_str()));
        }
        sent.tool_choice = body.pointer("/toolConfig/functionCallingConfig").and_then(tool_choice);
        // How many calls the message before made, if it was the model's.
        let mut calls = 0;
        for content in body["contents"].as_array().into_iter().flatten() {
            let parts = || content["parts"].as_array().into_iter().flatten();
            let count = |kind: &str| parts().filter(|part| part.get(kind).is_some()).count();
            let results = count("functionResponse");
            if results > 0 && results != calls {
                sent.broken_rule(format!("{results} results stand behind {calls} calls"));
            }
            calls = count("functionCall");
            parts().for_each(|part| read_part(content["role"] == "user", part, &mut sent));
        }
        sent
    }
}

fn read_part(is_user: bool, part: &Value, sent: &mut SentRequest) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(call) = part.get("functionCall") {
        if !call["args"].is_object() {
            sent.broken_rule(format!("the arguments of {} are no object", call["name"]));
        }
        let call = SentCall::new(&text(&call["id"]), &text(&call["name"]), read_arguments(&call["args"]));
        sent.parts.push(SentPart::Call(call));
    } else if let Some(result) = part.get("functionResponse") {
        let response = &result["response"];
        let (said, is_error) = match (response.get("error"), response.get("output")) {
            (Some(error), _) => (error, true),
            (None, Some(output)) => (output, false),
            (None, None) => (response, false),
        };
        let content = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
        let sent_result = SentResult::new(&text(&result["id"]), content, is_error);
        sent.parts.push(SentPart::Result(sent_result.named(&text(&result["name"]))));
    } else if part["thought"] != true {
        sent.push_text(is_user, &text(&part["text"]));
    }
}

fn tool_choice(config: &Value) -> Option<ToolChoice> {
    match config["mode"].as_str()? {
        "AUTO" | "VALIDATED" => Some(ToolChoice::Auto),
        "NONE" => Some(ToolChoice::None),
        "ANY" => match config["allowedFunctionNames"].as_array().map(Vec::as_slice) {
            None | Some([]) => Some(ToolChoice::Required),
            Some([name]) => Some(ToolChoice::Tool(name.as_str()?.into())),
            Some(_) => None,
        },
        _ => None,
    }
}

#[derive(Debug, Default)]
struct Renderer {
    frames: Frames,
    id: String,
    model: String,
    /// How many parts are still to come.
    parts_left: usize,
    /// The reply is cut in the middle of its last part: in its frame, or by the server before that.
    cut: Option<Cut>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Body,
    Reply,
}

impl Renderer {
    fn parts(&mut self, parts: String) {
        let frame = self.frame(parts, Vec::new(), Vec::new());
        self.frames.unnamed(&frame);
    }

    fn frame(&self, parts: String, candidate: Vec<(&str, String)>, more: Vec<(&str, String)>) -> String {
        let content = object([("role", string("model")), ("parts", parts)]);
        let candidate =
            object([("content", content)].into_iter().chain(candidate).chain([("index", "0".to_owned())]));
        let named = [("modelVersion", string(&self.model)), ("responseId", string(&self.id))];
        object([("candidates", array([candidate]))].into_iter().chain(more).chain(named))
    }
}

impl Render for Renderer {
    fn start(&mut self, plan: &Plan) {
        self.id = plan.id.clone().unwrap_or_else(|| "response-test".to_owned());
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
            let mut part = vec![("text", string(piece))];
            if prose == Prose::Reasoning {
                part.push(("thought", "true".to_owned()));
            }
            self.parts(array([object(part)]));
        }
    }

    fn calls(&mut self, calls: &[PlannedCall]) {
        self.parts_left -= 1;
        let cut = self.cut.filter(|_| self.parts_left == 0);
        let sent =
            if cut == Some(Cut::Reply) { calls.split_last().map_or(calls, |(_, sent)| sent) } else { calls };
        let mut parts = Vec::new();
        for call in sent {
            let mut function = vec![("id", string(&call.id)), ("name", string(&call.name))];
            function.extend(args(&call.arguments, cut.is_some()).map(|args| ("args", args)));
            parts.push(object([("functionCall", object(function))]));
        }
        if parts.is_empty() {
            return;
        }
        let frame = self.frame(array(parts), Vec::new(), Vec::new());
        if cut != Some(Cut::Body) {
            return self.frames.unnamed(&frame);
        }
        // Torn where the last call's arguments end; of an object that is whole its last brace is missing.
        let torn = frame.rsplit_once("}}]},\"index\":0}").map_or(frame.as_str(), |(torn, _)| torn);
        let torn = torn.strip_suffix('}').unwrap_or(torn);
        self.frames.raw(format!("data: {torn}").as_bytes());
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
            Ending::Length => "MAX_TOKENS",
            Ending::ContentFilter => "SAFETY",
            Ending::Inferred | Ending::Cut => "STOP",
        };
        let mut more = Vec::new();
        if let Some((input, output)) = plan.usage {
            let usage = object([
                ("promptTokenCount", input.to_string()),
                ("candidatesTokenCount", output.to_string()),
                ("totalTokenCount", (input + output).to_string()),
            ]);
            more.push(("usageMetadata", usage));
        }
        let nothing = array([object([("text", string(""))])]);
        let frame = self.frame(nothing, vec![("finishReason", string(reason))], more);
        self.frames.unnamed(&frame);
    }
}

fn error(code: &str, message: &str) -> String {
    object([("message", string(message)), ("status", string(code))])
}

/// The arguments as they stand in a frame; `None` if there are none. Those of a torn frame need not be whole.
fn args(text: &str, is_torn: bool) -> Option<String> {
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

    fn frame(parts: &str, reason: &str, usage: &str) -> String {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"role\":\"model\",\"parts\":[{parts}]}}{reason},\"index\":0}}]{usage},\
             \"modelVersion\":\"test-model\",\"responseId\":\"response-test\"}}\n\n"
        )
    }

    #[test]
    fn a_call_comes_whole_and_the_reason_for_it_is_stop() {
        let calls = [("a", "f", json!({ "id": 1 })), ("b", "g", json!({}))];
        let want = [
            frame(r#"{"text":"So."}"#, "", ""),
            frame(
                r#"{"functionCall":{"id":"a","name":"f","args":{"id":1}}},{"functionCall":{"id":"b","name":"g","args":{}}}"#,
                "",
                "",
            ),
            frame(
                r#"{"text":""}"#,
                r#","finishReason":"STOP""#,
                r#","usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":20,"totalTokenCount":30}"#,
            ),
        ];
        assert_eq!(body(Reply::new().text(["So."]).interleaved_calls(calls).fragments_of(1)), want.concat());
    }

    #[test]
    fn a_reply_that_is_cut_in_a_call_is_torn_there_and_one_that_is_too_long_has_no_call() {
        let called = |text: &str| Reply::new().call_raw("a", "f", text);
        let torn = |args: &str| {
            let start = r#"data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":"a","name":"f""#;
            start.to_owned() + args
        };
        assert_eq!(body(called("{\"id").cut()), torn(r#","args":{"id"#));
        assert_eq!(body(called("{\"id\":1}").cut()), torn(r#","args":{"id":1"#));
        assert_eq!(body(called("").cut()), torn(""));
        let length = frame(r#"{"text":""}"#, r#","finishReason":"MAX_TOKENS""#, "");
        assert_eq!(body(called("{\"id").length().without_usage()), length);
    }

    #[test]
    fn a_request_is_read_by_its_path_too_and_results_are_as_many_as_calls() {
        let call = |id: &str| json!({ "functionCall": { "id": id, "name": "f", "args": {} } });
        let result = |id: &str| json!({ "functionResponse": { "id": id, "name": "f", "response": { "output": "x" } } });
        let request = |results: &[Value]| {
            let body = json!({ "contents": [
                { "role": "user", "parts": [{ "text": "Go." }] },
                { "role": "model", "parts": [{ "text": "hm", "thought": true }, call("a"), call("b")] },
                { "role": "user", "parts": results },
            ] });
            read_request("/v1/models/m-1:streamGenerateContent", &body)
        };
        let sound = request(&[result("a"), result("b")]);
        assert_eq!((sound.model.as_deref(), sound.problems()), (Some("m-1"), Vec::new()));
        assert_eq!(
            request(&[result("a")]).problems(),
            ["1 results stand behind 2 calls", r#"the request ends, but ["b"] have no result"#]
        );
    }

    #[test]
    fn a_tool_choice_is_a_mode_and_maybe_a_name() {
        let table = [
            (json!({ "mode": "AUTO" }), Some(ToolChoice::Auto)),
            (json!({ "mode": "VALIDATED" }), Some(ToolChoice::Auto)),
            (json!({ "mode": "NONE" }), Some(ToolChoice::None)),
            (json!({ "mode": "ANY" }), Some(ToolChoice::Required)),
            (json!({ "mode": "ANY", "allowedFunctionNames": ["f"] }), Some(ToolChoice::Tool("f".into()))),
            (json!({ "mode": "ANY", "allowedFunctionNames": ["f", "g"] }), None),
            (json!({}), None),
        ];
        for (config, want) in table {
            assert_eq!(tool_choice(&config), want, "{config}");
        }
    }
}
