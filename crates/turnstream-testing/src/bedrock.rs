//! Amazon Bedrock's ConverseStream: replies, and what its requests say.

use serde_json::Value;
use turnstream_core::ToolChoice;

use crate::{
    format::{Frames, Spelling},
    gate::Gate,
    json::{object, string},
    plan::{Ending, Piece, Plan, PlannedCall, Prose, Render, by_turns},
    reply::OverHttp,
    script::Script,
    sent::{SentCall, SentPart, SentRequest, SentResult, content_text, read_arguments, strings},
};

/// A reply of ConverseStream. See [`Reply`](crate::Reply) for its words. The wire has no pings, and says neither
/// an id nor a model.
pub type Reply = crate::Reply<OverHttp<Converse>>;

/// Stands for the wire in types.
#[derive(Debug, Clone, Copy)]
pub enum Converse {}

impl Script<Converse> {
    /// A conversation over ConverseStream.
    pub fn bedrock() -> Self {
        Self::new()
    }
}

/// What the body of a request says. Which model is asked stands in its path.
pub fn read_request(body: &Value) -> SentRequest {
    Converse::read("", body)
}

/// The bytes of one message of the stream, for [`Reply::raw`](crate::Reply::raw): an event, or an error if the
/// name begins with `exception:`.
///
/// ```
/// let frame = turnstream_testing::bedrock::frame("brandNew", r#"{"n":1}"#);
/// assert_eq!(frame.len(), 101);
/// ```
pub fn frame(event: &str, payload: &str) -> Vec<u8> {
    let (kind, name, message_type) = match event.strip_prefix("exception:") {
        Some(exception) => (":exception-type", exception, "exception"),
        None => (":event-type", event, "event"),
    };
    let headers = [(kind, name), (":content-type", "application/json"), (":message-type", message_type)];
    message(&headers, payload.as_bytes())
}

impl Spelling for Converse {
    const PATH_END: &'static str = "/converse-stream";
    const CONTENT_TYPE: &'static str = "application/vnd.amazon.eventstream";
    const REQUEST_ID_HEADER: &'static str = "x-amzn-requestid";

    fn render(plan: &Plan) -> Vec<Piece> {
        let mut renderer = Renderer::default();
        plan.render(&mut renderer);
        renderer.frames.into_pieces()
    }

    fn refusal(code: &str, message: &str) -> String {
        object([("__type", string(code)), ("message", string(message))])
    }

    fn read(path: &str, body: &Value) -> SentRequest {
        let mut sent = SentRequest::of(body);
        sent.model = model_of(path);
        sent.system = content_text(&body["system"]);
        let config = &body["toolConfig"];
        sent.tools = strings(&config["tools"], |tool| tool.pointer("/toolSpec/name")?.as_str());
        sent.tool_choice = read_tool_choice(&config["toolChoice"]);
        let messages = || body["messages"].as_array().into_iter().flatten();
        sent.check_roles(messages().filter_map(|message| message["role"].as_str()));
        let mut has_calls = false;
        for message in messages() {
            let is_user = message["role"] == "user";
            for block in message["content"].as_array().into_iter().flatten() {
                has_calls |= block.get("toolUse").or(block.get("toolResult")).is_some();
                read_block(is_user, block, &mut sent);
            }
        }
        if has_calls && body.get("toolConfig").is_none() {
            sent.broken_rule("the conversation has calls, and no tools are offered".to_owned());
        }
        sent
    }
}

fn read_block(is_user: bool, block: &Value, sent: &mut SentRequest) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(said) = block["text"].as_str() {
        if said.trim().is_empty() {
            sent.broken_rule("a text is blank".to_owned());
        }
        sent.push_text(is_user, said);
    } else if let Some(cited) = block.get("citationsContent") {
        sent.push_text(is_user, &content_text(&cited["content"]));
    } else if let Some(call) = block.get("toolUse").filter(|call| call.get("type").is_none()) {
        if !call["input"].is_object() {
            sent.broken_rule(format!("the input of the call {} is no object", call["toolUseId"]));
        }
        let arguments = read_arguments(&call["input"]);
        sent.parts.push(SentPart::Call(SentCall::new(
            &text(&call["toolUseId"]),
            &text(&call["name"]),
            arguments,
        )));
    } else if let Some(result) = block.get("toolResult").filter(|result| result.get("type").is_none()) {
        let is_error = result["status"] == "error";
        let content = content_text(&result["content"]);
        sent.parts.push(SentPart::Result(SentResult::new(&text(&result["toolUseId"]), content, is_error)));
    }
}

fn read_tool_choice(choice: &Value) -> Option<ToolChoice> {
    if choice.get("auto").is_some() {
        return Some(ToolChoice::Auto);
    }
    if choice.get("any").is_some() {
        return Some(ToolChoice::Required);
    }
    choice.pointer("/tool/name")?.as_str().map(|name| ToolChoice::Tool(name.into()))
}

/// The model in a path: `/model/{id}/converse-stream`, with its percent signs undone.
fn model_of(path: &str) -> Option<String> {
    let (_, rest) = path.rsplit_once("/model/")?;
    let segment = rest.strip_suffix(Converse::PATH_END)?.as_bytes();
    let (mut model, mut at) = (Vec::new(), 0);
    while let Some(byte) = segment.get(at) {
        let spelled = segment.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let spelled = spelled.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        model.push(spelled.unwrap_or(*byte));
        at += if spelled.is_some() { 3 } else { 1 };
    }
    String::from_utf8(model).ok()
}

/// A message with text headers: lengths, headers, payload, and a checksum over each of the two.
fn message(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut written = Vec::new();
    for (name, value) in headers {
        written.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        written.extend_from_slice(name.as_bytes());
        written.push(TEXT_HEADER);
        written.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        written.extend_from_slice(value.as_bytes());
    }
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes();
    let mut bytes = [length(16 + written.len() + payload.len()), length(written.len())].concat();
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend_from_slice(&written);
    bytes.extend_from_slice(payload);
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

/// The encoding's number for a header whose value is text.
const TEXT_HEADER: u8 = 7;

#[derive(Debug, Default)]
struct Renderer {
    frames: Frames,
    /// Blocks that have begun and not stopped.
    open: Vec<usize>,
    next_block: usize,
}

impl Renderer {
    fn frame(&mut self, event: &str, payload: &str) {
        self.frames.raw(&frame(event, payload));
    }

    /// Text and reasoning have no start.
    fn begin(&mut self) -> usize {
        let index = self.next_block;
        self.next_block += 1;
        self.open.push(index);
        index
    }

    fn delta(&mut self, index: usize, delta: String) {
        let payload = object([("contentBlockIndex", index.to_string()), ("delta", delta)]);
        self.frame("contentBlockDelta", &payload);
    }
}

impl Render for Renderer {
    fn start(&mut self, _plan: &Plan) {
        self.frame("messageStart", &object([("role", string("assistant"))]));
    }

    fn prose(&mut self, prose: Prose, pieces: &[String]) {
        let index = self.begin();
        let reasoning = |field, text: &str| object([("reasoningContent", object([(field, string(text))]))]);
        for piece in pieces {
            match prose {
                Prose::Reasoning => self.delta(index, reasoning("text", piece)),
                Prose::Text | Prose::Refusal => self.delta(index, object([("text", string(piece))])),
            }
        }
        if prose == Prose::Reasoning {
            self.delta(index, reasoning("signature", &format!("c2lnbmF0dXJl{index}")));
        }
    }

    fn calls(&mut self, calls: &[PlannedCall]) {
        let first = self.next_block;
        for call in calls {
            let index = self.begin();
            let tool_use = object([("toolUseId", string(&call.id)), ("name", string(&call.name))]);
            let payload = object([
                ("contentBlockIndex", index.to_string()),
                ("start", object([("toolUse", tool_use)])),
            ]);
            self.frame("contentBlockStart", &payload);
        }
        for (call, fragment) in by_turns(calls) {
            self.delta(first + call, object([("toolUse", object([("input", string(fragment))]))]));
        }
    }

    fn close(&mut self, _is_cut: bool) {
        for index in std::mem::take(&mut self.open) {
            self.frame("contentBlockStop", &object([("contentBlockIndex", index.to_string())]));
        }
    }

    fn ping(&mut self) {}

    fn own_frame(&mut self, event: &str, data: &str) {
        self.frames.raw(&frame(event, data));
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.frames.raw(bytes);
    }

    fn gate(&mut self, gate: &Gate) {
        self.frames.gate(gate);
    }

    fn error(&mut self, code: &str, message: &str) {
        self.frame(&format!("exception:{code}"), &object([("message", string(message))]));
    }

    fn end(&mut self, plan: &Plan) {
        let reason = match &plan.ending {
            Ending::Word(word) => word,
            Ending::Length => "max_tokens",
            Ending::ContentFilter => "guardrail_intervened",
            Ending::Inferred | Ending::Cut if plan.has_refusal() => "refusal",
            Ending::Inferred | Ending::Cut if plan.calls().next().is_some() => "tool_use",
            Ending::Inferred | Ending::Cut => "end_turn",
        };
        self.frame("messageStop", &object([("stopReason", string(reason))]));
        if let Some((input, output)) = plan.usage {
            let usage = object([
                ("inputTokens", input.to_string()),
                ("outputTokens", output.to_string()),
                ("totalTokens", input.saturating_add(output).to_string()),
            ]);
            self.frame("metadata", &object([("usage", usage)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_read_from_its_path_and_its_body() {
        let body = json!({
            "system": [{ "text": "Be brief." }],
            "toolConfig": {
                "tools": [{ "toolSpec": { "name": "lookup_order", "inputSchema": { "json": {} } } }],
                "toolChoice": { "tool": { "name": "lookup_order" } },
            },
            "messages": [
                { "role": "user", "content": [{ "text": "Where is it?" }] },
                { "role": "assistant", "content": [
                    { "text": "Let me look." },
                    { "toolUse": { "toolUseId": "s", "name": "n", "type": "server_tool_use", "input": {} } },
                    { "toolResult": { "toolUseId": "s", "type": "n_result", "content": [] } },
                    { "toolUse": { "toolUseId": "c1", "name": "lookup_order", "input": { "id": "A" } } }] },
                { "role": "user", "content": [
                    { "toolResult": { "toolUseId": "c1", "content": [{ "text": "sent" }], "status": "error" } }] },
            ],
        });
        let path = "/proxy/model/arn%3Aaws%2Fx.y%C3%A6/converse-stream";
        let sent = SentRequest::read(path, body.to_string().as_bytes()).unwrap();
        assert_eq!(sent.model.as_deref(), Some("arn:aws/x.yæ"));
        assert_eq!((sent.system.as_str(), sent.last_user_text()), ("Be brief.", Some("Where is it?")));
        assert!(sent.offers_tool("lookup_order"));
        assert_eq!(sent.tool_choice, Some(ToolChoice::Tool("lookup_order".into())));
        assert_eq!(sent.calls().map(|call| call.arguments.as_str()).collect::<Vec<_>>(), [r#"{"id":"A"}"#]);
        assert_eq!(sent.result("c1"), Some(&SentResult::new("c1", "sent".to_owned(), true)));
        assert_eq!(sent.problems(), Vec::<String>::new());
    }

    #[test]
    fn what_the_provider_refuses_is_a_problem() {
        let body = json!({ "messages": [
            { "role": "user", "content": [{ "text": " " }] },
            { "role": "assistant", "content": [{ "toolUse": { "toolUseId": "a", "name": "f", "input": [] } }] },
            { "role": "user", "content": [{ "toolResult": { "toolUseId": "a", "content": [] } }] },
        ] });
        assert_eq!(
            read_request(&body).problems(),
            [
                "a text is blank",
                "the input of the call \"a\" is no object",
                "the conversation has calls, and no tools are offered",
            ]
        );
    }
}
