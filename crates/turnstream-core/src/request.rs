//! A [`Request`]: everything that one turn is asked with, the same for every wire.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    conversation::Conversation,
    error::{Error, ErrorKind},
    event::InputKind,
    message::Message,
    raw_json::RawJson,
    text::Text,
};

/// What a turn is asked with. Setters take and give back the value; nothing is checked before a wire
/// encodes it.
///
/// Every setting is optional and left to the provider's default when absent. A setting that a wire cannot
/// express is an error if it changes the meaning, and a [`Warning`] if it is a hint.
///
/// ```
/// use turnstream_core::{Message, Request};
///
/// let request = Request::new().system("Be brief.").user("Where is order A-4471?").max_tokens(300);
/// assert_eq!(request.conversation.messages(), [Message::user("Where is order A-4471?")]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Request {
    /// System texts, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system: Vec<String>,
    /// The conversation so far.
    #[serde(rename = "messages")]
    pub conversation: Conversation,
    /// The tools on offer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Whether and what the model must call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Whether the model may make several calls in one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_calls: Option<bool>,
    /// The most tokens that the reply may have, reasoning among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Sampling temperature, in the provider's range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Texts at which the reply stops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// How much the model should reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ReasoningEffort>,
    /// A JSON schema that the answer must follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<OutputSchema>,
    /// Labels for the provider's records.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Options of single wires, by the wire's name. See [`options`](Self::options).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, RawJson>,
}

impl Request {
    /// A request that asks nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a system text.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system.push(text.into());
        self
    }

    /// Adds a user's text.
    pub fn user(self, text: impl Into<String>) -> Self {
        self.message(Message::user(text))
    }

    /// Adds a model's text.
    pub fn assistant(self, text: impl Into<String>) -> Self {
        self.message(Message::assistant(text))
    }

    /// Adds a message.
    pub fn message(mut self, message: Message) -> Self {
        self.conversation.push(message);
        self
    }

    /// Adds messages.
    pub fn messages(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.conversation.extend(messages);
        self
    }

    /// Offers a tool.
    pub fn tool(mut self, tool: ToolSpec) -> Self {
        self.tools.push(tool);
        self
    }

    /// Says whether and what the model must call.
    pub fn tool_choice(self, choice: ToolChoice) -> Self {
        Self { tool_choice: Some(choice), ..self }
    }

    /// Allows or forbids several calls in one turn.
    pub fn parallel_calls(self, allowed: bool) -> Self {
        Self { parallel_calls: Some(allowed), ..self }
    }

    /// Limits the reply, in tokens, reasoning among them.
    pub fn max_tokens(self, tokens: u64) -> Self {
        Self { max_tokens: Some(tokens), ..self }
    }

    /// Sets the sampling temperature.
    pub fn temperature(self, temperature: f64) -> Self {
        Self { temperature: Some(temperature), ..self }
    }

    /// Sets nucleus sampling.
    pub fn top_p(self, top_p: f64) -> Self {
        Self { top_p: Some(top_p), ..self }
    }

    /// Adds a text at which the reply stops.
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stop.push(text.into());
        self
    }

    /// Says how much the model should reason.
    pub fn reasoning(self, effort: ReasoningEffort) -> Self {
        Self { reasoning: Some(effort), ..self }
    }

    /// Asks for an answer that follows a schema.
    pub fn output_schema(self, schema: OutputSchema) -> Self {
        Self { output_schema: Some(schema), ..self }
    }

    /// Adds a label for the provider's records.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets the options of one wire. Other wires leave them alone.
    pub fn options<O: WireOptions>(mut self, options: O) -> Self {
        let json = RawJson::of(&options).expect("a wire's options are plain data with string keys");
        self.options.insert(O::WIRE.to_owned(), json);
        self
    }

    /// The options of one wire, or its defaults.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when what stands there does not fit, which can only come from outside: a
    /// request read from JSON.
    pub fn options_of<O: WireOptions>(&self) -> Result<O, Error> {
        let Some(json) = self.options.get(O::WIRE) else { return Ok(O::default()) };
        json.read().map_err(|error| {
            Error::new(ErrorKind::Config, format!("the options for {} do not fit", O::WIRE))
                .with_source(error)
        })
    }
}

/// The options that only one wire has.
pub trait WireOptions: Serialize + DeserializeOwned + Default {
    /// The wire's name, for example `anthropic-messages`.
    const WIRE: &'static str;
}

/// A tool, as a model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolSpec {
    /// Its name: letters, digits, `_` and `-`, 1 to 64 of them.
    pub name: Text,
    /// What it does, for the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The JSON schema of its arguments, sent as it stands. `None` for free-form tools, and for tools
    /// without arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<RawJson>,
    /// Whether the provider must hold the model to the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// What its arguments are: JSON, or free text.
    #[serde(default)]
    pub input: InputKind,
}

impl ToolSpec {
    /// A tool without arguments.
    pub fn new(name: impl Into<Text>) -> Self {
        let name = name.into();
        Self { name, description: String::new(), parameters: None, strict: None, input: InputKind::Json }
    }

    /// Says what it does.
    pub fn description(self, description: impl Into<String>) -> Self {
        Self { description: description.into(), ..self }
    }

    /// Sets the JSON schema of its arguments.
    pub fn parameters(self, schema: impl Into<RawJson>) -> Self {
        Self { parameters: Some(schema.into()), ..self }
    }

    /// Asks the provider to hold the model to the schema.
    pub fn strict(self, strict: bool) -> Self {
        Self { strict: Some(strict), ..self }
    }

    /// Makes it a free-form tool: its arguments are text.
    pub fn free_form(self) -> Self {
        Self { input: InputKind::Text, ..self }
    }

    /// The schema of its arguments, also where it has none: some providers demand one. The one that stands
    /// for "no arguments" passes as strict, too.
    pub fn schema(&self) -> Cow<'_, RawJson> {
        let nothing = || RawJson::parse(NO_ARGUMENTS).expect("it is one JSON value");
        self.parameters.as_ref().map_or_else(|| Cow::Owned(nothing()), Cow::Borrowed)
    }

    /// Checks the name against what every provider accepts.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`], naming the tool.
    pub fn check_name(&self) -> Result<(), Error> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if (1..=64).contains(&self.name.len()) && self.name.bytes().all(fits) {
            return Ok(());
        }
        let name = &self.name;
        let rule = "a tool's name is 1 to 64 letters, digits, `_` or `-`";
        Err(Error::new(ErrorKind::Config, format!("tool `{name}` cannot be offered: {rule}")))
    }
}

/// Whether and what a model must call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides. Every provider's default.
    Auto,
    /// No call.
    None,
    /// At least one call.
    Required,
    /// A call of this tool.
    Tool(Text),
}

impl ToolChoice {
    /// Whether it forces a call.
    pub fn is_forced(&self) -> bool {
        matches!(self, Self::Required | Self::Tool(_))
    }
}

/// How much a model should reason. A model may know only some of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ReasoningEffort {
    /// Not at all.
    None,
    /// As little as possible.
    Minimal,
    /// Little.
    Low,
    /// The usual.
    Medium,
    /// Much.
    High,
    /// Very much.
    XHigh,
    /// As much as possible.
    Max,
}

impl ReasoningEffort {
    /// The word that providers use, for example `xhigh`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// A JSON schema that an answer must follow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OutputSchema {
    /// A name for it: letters, digits, `_` and `-`.
    pub name: Text,
    /// The schema, sent as it stands.
    pub schema: RawJson,
    /// What the answer is, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the provider must hold the model to it. Yes by default.
    #[serde(default = "yes")]
    pub strict: bool,
}

impl OutputSchema {
    /// A schema that the provider holds the model to.
    pub fn new(name: impl Into<Text>, schema: impl Into<RawJson>) -> Self {
        Self { name: name.into(), schema: schema.into(), description: None, strict: true }
    }

    /// The same schema, with words for the model.
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }

    /// The same schema, held to or only asked for.
    pub fn with_strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }
}

/// A setting of a request that was left out because the wire has no word for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Warning {
    /// The setting, for example `top_p`.
    pub setting: Text,
    /// Why it was left out.
    pub message: String,
}

impl Warning {
    /// A setting left out, and why.
    pub fn new(setting: impl Into<Text>, message: impl Into<String>) -> Self {
        Self { setting: setting.into(), message: message.into() }
    }
}

const NO_ARGUMENTS: &str = r#"{"type":"object","properties":{},"additionalProperties":false}"#;

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_provider_refuses_are_refused_first() {
        for name in ["lookup_order", "a-b", &"a".repeat(64)] {
            assert!(ToolSpec::new(name).check_name().is_ok(), "{name}");
        }
        for name in ["", "srv.get file", "名前", &"a".repeat(65)] {
            assert_eq!(ToolSpec::new(name).check_name().unwrap_err().kind(), ErrorKind::Config, "{name}");
        }
    }

    #[test]
    fn a_field_that_is_not_known_is_refused_and_strict_is_the_default() {
        assert!(serde_json::from_str::<Request>(r#"{"messages":[],"max_token":5}"#).is_err());
        let schema: OutputSchema = serde_json::from_str(r#"{"name":"a","schema":{}}"#).unwrap();
        assert!(schema.strict);
    }

    #[test]
    fn a_request_is_the_same_after_json() {
        let schema = RawJson::parse(r#"{"type": "object", "properties": {}}"#).unwrap();
        let request = Request::new()
            .system("Be brief.")
            .user("hi")
            .tool(ToolSpec::new("now").parameters(schema))
            .tool_choice(ToolChoice::Tool("now".into()))
            .reasoning(ReasoningEffort::XHigh);
        let json = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&json).unwrap(), request);
    }
}
