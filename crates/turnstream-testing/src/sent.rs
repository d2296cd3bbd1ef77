//! [`SentRequest`]: what a request to a provider says, the same for every wire.

use serde_json::Value;
use turnstream_core::ToolChoice;

use crate::format::READERS;

/// What a request to a provider says, read from its body with [`SentRequest::read`] or with
/// `anthropic::read_request` and its like. What a reader does not understand is left out.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct SentRequest {
    /// The model that is asked.
    pub model: Option<String>,
    /// The system text.
    pub system: String,
    /// The names of the tools on offer, in order.
    pub tools: Vec<String>,
    /// The tool choice; `None` where the request has none, or one that is not understood.
    pub tool_choice: Option<ToolChoice>,
    /// What was said, called and answered, in the order of the body.
    pub parts: Vec<SentPart>,
    /// The body itself.
    pub body: Value,
    /// What the wire's own rules say against it.
    broken_rules: Vec<String>,
}

/// One part of the conversation in a [`SentRequest`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SentPart {
    /// Text.
    Text(SentText),
    /// A call that the model made.
    Call(SentCall),
    /// A result of a call.
    Result(SentResult),
}

/// A text in a [`SentRequest`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SentText {
    /// Whether the user said it, and not the model.
    pub is_user: bool,
    /// The text.
    pub text: String,
}

/// A call in a [`SentRequest`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SentCall {
    /// The id; empty where the wire sends none.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as text.
    pub arguments: String,
}

/// A result in a [`SentRequest`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SentResult {
    /// The id of the call that it answers; empty where the wire sends none.
    pub call_id: String,
    /// The name of the tool, where the wire says it with the result; else empty. Where there is no id, the
    /// name says which call is answered.
    pub name: String,
    /// Its text; images and documents are left out.
    pub content: String,
    /// Whether it is marked as an error. Only Anthropic Messages, Bedrock and Gemini have a mark for it.
    pub is_error: bool,
}

impl SentRequest {
    /// Reads a request to this path, whose end says which wire it is: `/messages`, `/v2/chat`, `/api/chat`,
    /// `/chat/completions`, `/responses`, `:streamGenerateContent`, `/converse-stream`. `None` if it is no known
    /// wire's, or the body is not JSON.
    pub fn read(path: &str, body: &[u8]) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        let reader = READERS.iter().find(|reader| path.ends_with(reader.path_end))?;
        Some((reader.read)(path, &serde_json::from_slice(body).ok()?))
    }

    /// A request of which only what all wires share has been read.
    pub(crate) fn of(body: &Value) -> Self {
        Self {
            model: body["model"].as_str().map(str::to_owned),
            tool_choice: read_tool_choice(&body["tool_choice"]),
            body: body.clone(),
            ..Self::default()
        }
    }

    /// Whether a tool is on offer.
    pub fn offers_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool == name)
    }

    /// The last text that the user said.
    pub fn last_user_text(&self) -> Option<&str> {
        self.parts.iter().rev().find_map(|part| match part {
            SentPart::Text(text) if text.is_user => Some(text.text.as_str()),
            _ => None,
        })
    }

    /// The calls of the model, in order.
    pub fn calls(&self) -> impl Iterator<Item = &SentCall> {
        self.parts.iter().filter_map(|part| match part {
            SentPart::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The results, in order.
    pub fn results(&self) -> impl Iterator<Item = &SentResult> {
        self.parts.iter().filter_map(|part| match part {
            SentPart::Result(result) => Some(result),
            _ => None,
        })
    }

    /// The result of one call, by the call's id; where the wire sends none, by the tool's name.
    pub fn result(&self, call: &str) -> Option<&SentResult> {
        self.results().find(|result| result.key() == call)
    }

    /// What is wrong with the request: a result that answers no open call, an id that two calls have, a call
    /// without a result when the conversation goes on or the request ends; and what breaks the wire's own
    /// rules, for example that roles alternate.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.broken_rules.clone();
        let mut seen: Vec<&str> = Vec::new();
        let mut open: Vec<&str> = Vec::new();
        // Whether results have begun to come: then the model's message with the calls is over.
        let mut is_answering = false;
        for part in &self.parts {
            let goes_on = match part {
                SentPart::Text(text) => text.is_user || is_answering,
                SentPart::Call(_) => is_answering,
                SentPart::Result(_) => false,
            };
            if goes_on && !open.is_empty() {
                problems.push(format!("the conversation goes on, but {open:?} have no result"));
                open.clear();
            }
            match part {
                SentPart::Text(_) => is_answering = false,
                SentPart::Call(call) => {
                    is_answering = false;
                    if !call.id.is_empty() && seen.contains(&call.id.as_str()) {
                        problems.push(format!("two calls have the id {:?}", call.id));
                    }
                    seen.push(&call.id);
                    open.push(call.key());
                }
                SentPart::Result(result) => {
                    is_answering = true;
                    match open.iter().position(|call| *call == result.key()) {
                        Some(index) => {
                            open.remove(index);
                        }
                        None => {
                            problems.push(format!("the result for {:?} answers no open call", result.key()))
                        }
                    }
                }
            }
        }
        if !open.is_empty() {
            problems.push(format!("the request ends, but {open:?} have no result"));
        }
        problems
    }

    /// Checks that nothing is wrong with the request: [`problems`](Self::problems) is empty.
    ///
    /// # Panics
    ///
    /// When something is. The message lists everything.
    #[track_caller]
    pub fn assert_sound(&self) {
        let problems = self.problems();
        assert!(problems.is_empty(), "the request is not sound:\n- {}", problems.join("\n- "));
    }

    /// Keeps that the request breaks a rule of its wire.
    pub(crate) fn broken_rule(&mut self, rule: String) {
        self.broken_rules.push(rule);
    }

    /// Checks that the roles of messages begin with the user's and alternate.
    pub(crate) fn check_roles<'a>(&mut self, roles: impl IntoIterator<Item = &'a str>) {
        let mut before = None;
        for (number, role) in (1..).zip(roles) {
            match before.replace(role) {
                None if role != "user" => {
                    self.broken_rule(format!("the first message is from {role:?}, not from the user"));
                }
                Some(before) if before == role => {
                    self.broken_rule(format!("messages {} and {number} are both from {role:?}", number - 1));
                }
                _ => {}
            }
        }
    }

    pub(crate) fn push_text(&mut self, is_user: bool, text: &str) {
        if !text.is_empty() {
            self.parts.push(SentPart::Text(SentText { is_user, text: text.to_owned() }));
        }
    }

    pub(crate) fn push_system(&mut self, text: &str) {
        if !self.system.is_empty() {
            self.system.push('\n');
        }
        self.system.push_str(text);
    }
}

impl SentCall {
    pub(crate) fn new(id: &str, name: &str, arguments: String) -> Self {
        Self { id: id.to_owned(), name: name.to_owned(), arguments }
    }

    /// What its result names: the id, or without one the tool.
    fn key(&self) -> &str {
        if self.id.is_empty() { &self.name } else { &self.id }
    }
}

impl SentResult {
    pub(crate) fn new(call_id: &str, content: String, is_error: bool) -> Self {
        Self { call_id: call_id.to_owned(), name: String::new(), content, is_error }
    }

    /// The same with the tool's name.
    pub(crate) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Which call it answers: the id, or without one the tool.
    pub(crate) fn key(&self) -> &str {
        if self.call_id.is_empty() { &self.name } else { &self.call_id }
    }
}

/// The text of a content field: a string, or the `text`s of a list of parts, one after the other.
pub(crate) fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| part["text"].as_str().unwrap_or_default());
            texts.collect()
        }
        _ => String::new(),
    }
}

/// Arguments as text, also where the wire has them as an object.
pub(crate) fn read_arguments(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        arguments => arguments.to_string(),
    }
}

/// A tool choice: a word, or an object whose type or only key is the word, and that names the tool.
pub(crate) fn read_tool_choice(choice: &Value) -> Option<ToolChoice> {
    let only_key = || choice.as_object()?.keys().next().map(String::as_str);
    let word = choice.as_str().or_else(|| choice["type"].as_str()).or_else(only_key)?;
    match word.to_ascii_lowercase().as_str() {
        "auto" => Some(ToolChoice::Auto),
        "none" => Some(ToolChoice::None),
        "any" | "required" => Some(ToolChoice::Required),
        word => {
            let name = choice["name"].as_str().or_else(|| choice.get(word)?["name"].as_str())?;
            Some(ToolChoice::Tool(name.into()))
        }
    }
}

/// What `read` finds in the elements of a list.
pub(crate) fn strings<'a>(list: &'a Value, read: impl Fn(&'a Value) -> Option<&'a str>) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(read).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{anthropic, cohere, gemini, ollama, openai_chat, openai_responses};

    fn requests() -> [SentRequest; 6] {
        [
            anthropic::read_request(&json!({
            "model": "m", "system": [{"type": "text", "text": "Be brief."}],
            "tools": [{"name": "lookup_order", "input_schema": {}}],
            "messages": [
                {"role": "user", "content": "Where is it?"},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "id": "c1", "name": "lookup_order", "input": {"id": "A"}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "sent"}]}]},
            ]})),
            cohere::read_request(&json!({
            "model": "m",
            "tools": [{"type": "function", "function": {"name": "lookup_order"}}],
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Where is it?"}]},
                {"role": "assistant", "tool_plan": "Let me look.", "tool_calls": [
                    {"id": "c1", "type": "function",
                     "function": {"name": "lookup_order", "arguments": "{\"id\":\"A\"}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "sent"},
            ]})),
            ollama::read_request(&json!({
            "model": "m",
            "tools": [{"type": "function", "function": {"name": "lookup_order"}}],
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Where is it?"},
                {"role": "assistant", "content": "Let me look.", "tool_calls": [
                    {"id": "c1", "function": {"name": "lookup_order", "arguments": {"id": "A"}}}]},
                {"role": "tool", "tool_name": "lookup_order", "tool_call_id": "c1", "content": "sent"},
            ]})),
            gemini::read_request(
                "",
                &json!({
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "tools": [{"functionDeclarations": [{"name": "lookup_order"}]}],
                "contents": [
                    {"role": "user", "parts": [{"text": "Where is it?"}]},
                    {"role": "model", "parts": [{"text": "Let me look."},
                        {"functionCall": {"id": "c1", "name": "lookup_order", "args": {"id": "A"}}}]},
                    {"role": "user", "parts": [{"functionResponse":
                        {"id": "c1", "name": "lookup_order", "response": {"output": "sent"}}}]},
                ]}),
            ),
            openai_chat::read_request(&json!({
            "model": "m",
            "tools": [{"type": "function", "function": {"name": "lookup_order"}}],
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Where is it?"}]},
                {"role": "assistant", "content": "Let me look.", "tool_calls": [
                    {"id": "c1", "type": "function",
                     "function": {"name": "lookup_order", "arguments": "{\"id\":\"A\"}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "sent"},
            ]})),
            openai_responses::read_request(&json!({
            "model": "m", "instructions": "Be brief.",
            "tools": [{"type": "function", "name": "lookup_order"}],
            "input": [
                {"role": "user", "content": "Where is it?"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
                {"type": "function_call", "call_id": "c1", "name": "lookup_order", "arguments": "{\"id\":\"A\"}"},
                {"type": "function_call_output", "call_id": "c1", "output": "sent"},
            ]})),
        ]
    }

    #[test]
    fn the_same_conversation_reads_the_same_on_every_wire() {
        let text = |is_user, text: &str| SentPart::Text(SentText { is_user, text: text.to_owned() });
        let want = [
            text(true, "Where is it?"),
            text(false, "Let me look."),
            SentPart::Call(SentCall::new("c1", "lookup_order", "{\"id\":\"A\"}".to_owned())),
            SentPart::Result(SentResult::new("c1", "sent".to_owned(), false)),
        ];
        for mut request in requests() {
            // Some wires name the tool of a result, too.
            if let Some(SentPart::Result(result)) = request.parts.last_mut() {
                let name = std::mem::take(&mut result.name);
                assert!(matches!(name.as_str(), "" | "lookup_order"), "{name}");
            }
            assert_eq!(request.parts, want);
            assert_eq!(request.system, "Be brief.");
            assert_eq!(request.last_user_text(), Some("Where is it?"));
            assert!(request.offers_tool("lookup_order") && !request.offers_tool("other"));
            assert_eq!(request.problems(), Vec::<String>::new());
        }
    }

    #[test]
    fn what_no_provider_accepts_is_a_problem() {
        for mut request in requests() {
            let result = request.parts.pop().unwrap();
            assert_eq!(request.problems(), [r#"the request ends, but ["c1"] have no result"#]);
            request.parts.push(SentPart::Text(SentText { is_user: true, text: "Well?".to_owned() }));
            request.parts.push(result);
            assert_eq!(
                request.problems(),
                [
                    r#"the conversation goes on, but ["c1"] have no result"#,
                    r#"the result for "c1" answers no open call"#
                ]
            );
        }
    }

    #[test]
    fn tool_choices_read_the_same_on_every_wire() {
        let tool = || Some(ToolChoice::Tool("look".into()));
        for (choice, want) in [
            (json!("auto"), Some(ToolChoice::Auto)),
            (json!("NONE"), Some(ToolChoice::None)),
            (json!({ "type": "any" }), Some(ToolChoice::Required)),
            (json!({ "any": {} }), Some(ToolChoice::Required)),
            (json!({ "type": "tool", "name": "look" }), tool()),
            (json!({ "type": "function", "name": "look" }), tool()),
            (json!({ "type": "function", "function": { "name": "look" } }), tool()),
            (json!({ "tool": { "name": "look" } }), tool()),
            (json!({ "type": "allowed_tools", "tools": [] }), None),
            (Value::Null, None),
        ] {
            assert_eq!(read_tool_choice(&choice), want, "{choice}");
        }
    }

    #[test]
    #[should_panic(expected = "the request is not sound:\n- the request ends, but [\"c1\"] have no result")]
    fn a_request_that_is_not_sound_fails_the_test() {
        let [mut request, ..] = requests();
        request.parts.pop();
        request.assert_sound();
    }

    #[test]
    fn a_result_without_an_id_answers_the_call_of_its_tool() {
        let call = |name| SentPart::Call(SentCall::new("", name, String::new()));
        let result = |name| SentPart::Result(SentResult::new("", "sent".to_owned(), false).named(name));
        let mut request =
            SentRequest { parts: vec![call("a"), call("b"), call("a")], ..SentRequest::default() };
        request.parts.extend([result("a"), result("b"), result("a")]);
        assert_eq!(request.problems(), Vec::<String>::new());
        assert_eq!(request.result("b").unwrap().content, "sent");
        request.parts.push(result("b"));
        assert_eq!(request.problems(), [r#"the result for "b" answers no open call"#]);
    }

    #[test]
    fn roles_that_do_not_alternate_are_a_problem_where_the_wire_wants_it() {
        let message = |role: &str| json!({ "role": role, "content": "Hello." });
        let problems = |roles: &[&str]| {
            let messages: Vec<Value> = roles.iter().map(|role| message(role)).collect();
            anthropic::read_request(&json!({ "messages": messages })).problems()
        };
        assert_eq!(problems(&["user", "assistant", "user"]), Vec::<String>::new());
        assert_eq!(
            problems(&["assistant", "user", "user"]),
            [
                r#"the first message is from "assistant", not from the user"#,
                r#"messages 2 and 3 are both from "user""#
            ]
        );
    }
}
