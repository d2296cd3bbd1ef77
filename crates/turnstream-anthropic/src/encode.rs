//! A [`Request`] as the body of `POST /v1/messages`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use turnstream_core::{
    CallPart, Document, Endpoint, Error, IdForm, InputKind, Part, RawJson, ReasoningEffort, ReasoningPart,
    Request, ResultContent, ResultPart, Role, Source, TextPart, ToolChoice, Warning, WireRequest,
};

use crate::{Anthropic, CacheLifetime, DEFAULT_MAX_TOKENS, Options, ThinkingDisplay, WIRE};

/// Writes the HTTP request for one turn.
pub(crate) fn encode(wire: &Anthropic, request: &Request) -> Result<WireRequest, Error> {
    let options: Options = request.options_of()?;
    let mut warnings = Vec::new();
    let (thinking, effort) = thinking(request, &options, &mut warnings)?;
    let output_config = OutputConfig { effort, format: output_format(request, &mut warnings) };
    let history = History::new(wire, request);
    let row = wire.profile.row();
    let version = wire.version.as_deref().unwrap_or(row.version);
    let body = Body {
        anthropic_version: row.model_in_path.then_some(version),
        model: (!row.model_in_path).then_some(&wire.model),
        max_tokens: max_tokens(request, &options)?,
        system: request
            .system
            .iter()
            .filter(|text| !text.trim().is_empty())
            .map(|text| Block::text(text))
            .collect(),
        messages: history.messages(request)?,
        tools: tools(request, &options)?,
        tool_choice: tool_choice(request, &options)?,
        thinking,
        output_config: Some(output_config)
            .filter(|config| config.effort.is_some() || config.format.is_some()),
        temperature: request.temperature,
        top_p: request.top_p,
        top_k: options.top_k,
        stop_sequences: &request.stop,
        metadata: metadata(request, &mut warnings),
        service_tier: options.service_tier.as_deref(),
        cache_control: options.cache.map(|ttl| CacheControl { kind: "ephemeral", ttl }),
        stream: true,
    };
    let betas = options.betas.join(",");
    let mut headers = Vec::new();
    if !row.model_in_path {
        headers.push(("anthropic-version", version));
    }
    if !betas.is_empty() {
        headers.push(("anthropic-beta", &betas));
    }
    let path = match row.model_in_path {
        // Google writes the `@` before a version as it is.
        true => {
            Cow::Owned(format!("{}:streamRawPredict", Endpoint::segment(&wire.model)?.replace("%40", "@")))
        }
        false => Cow::Borrowed("messages"),
    };
    Ok(wire.endpoint.post_with(&path, &headers, &body, &options.extra)?.with_warnings(warnings))
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    anthropic_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
    stream: bool,
}

#[derive(Serialize)]
struct Message<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

/// A content block: one that we write, or one that goes back as it came.
#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Ours(Written<'a>),
    Theirs(&'a RawJson),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Written<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<RawJson>,
    },
    Image {
        source: Bytes<'a>,
    },
    Document {
        source: Bytes<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    Thinking {
        thinking: &'a str,
        signature: String,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Input<'a>,
        #[serde(flatten)]
        extras: BTreeMap<String, RawJson>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        toolset_name: Option<RawJson>,
    },
}

/// The source of an image or a document.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Bytes<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Text { media_type: &'static str, data: String },
    Url { url: &'a str },
    File { file_id: &'a str },
}

/// Arguments as the object that the wire wants.
#[derive(Serialize)]
#[serde(untagged)]
enum Input<'a> {
    Object(&'a RawValue),
    Value { input: &'a RawValue },
    Text { input: &'a str },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Client(ClientTool<'a>),
    Server(&'a RawJson),
}

#[derive(Serialize)]
struct ClientTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Cow<'a, RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    eager_input_streaming: bool,
}

#[derive(Serialize)]
struct Choice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disable_parallel_tool_use: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Disabled,
    Enabled {
        budget_tokens: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        display: Option<ThinkingDisplay>,
    },
    Adaptive {
        #[serde(skip_serializing_if = "Option::is_none")]
        display: Option<ThinkingDisplay>,
    },
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutputFormat<'a>>,
}

#[derive(Serialize)]
struct OutputFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a RawJson,
}

#[derive(Serialize)]
struct Metadata<'a> {
    user_id: &'a str,
}

#[derive(Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
    ttl: CacheLifetime,
}

impl<'a> Block<'a> {
    fn text(text: &'a str) -> Self {
        Self::Ours(Written::Text { text, citations: None })
    }

    fn is_result(&self) -> bool {
        matches!(self, Self::Ours(Written::ToolResult { .. }))
    }
}

/// The conversation on its way out, with what has to agree between calls and results.
struct History<'a> {
    unsigned_thinking: bool,
    /// The toolset of each call that has one: its result names it, too.
    toolsets: HashMap<&'a str, RawJson>,
    /// The server-side calls that nothing will answer any more.
    abandoned: HashSet<String>,
}

/// A block of a server-side tool, as far as calls and results have to agree.
#[derive(Deserialize)]
struct ServerBlock {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
    tool_use_id: Option<String>,
}

impl ServerBlock {
    fn of(part: &Part) -> Option<Self> {
        let Part::Opaque(opaque) = part else { return None };
        opaque.replay.data_for(WIRE)?.read().ok()
    }

    /// The id of a call.
    fn call(self) -> Option<String> {
        let is_call = matches!(self.kind.as_deref(), Some("server_tool_use" | "mcp_tool_use"));
        self.id.filter(|_| is_call)
    }
}

/// The server-side calls of turns that were over before their results came: cut, or cancelled. A user's message
/// that says more than results ends such a turn, and the provider then refuses a call without its result. Before
/// that the result may still come.
fn abandoned(request: &Request) -> HashSet<String> {
    let (mut answered, mut abandoned, mut is_over) = (HashSet::new(), HashSet::new(), false);
    for message in request.conversation.messages().iter().rev() {
        is_over |= message.role == Role::User
            && message.parts.iter().any(|part| match part {
                Part::Result(_) => false,
                Part::Text(text) => !text.text.trim().is_empty(),
                _ => true,
            });
        answered.extend(message.parts.iter().filter_map(|part| ServerBlock::of(part)?.tool_use_id));
        if message.role == Role::Assistant && is_over {
            let calls = message.parts.iter().filter_map(|part| ServerBlock::of(part)?.call());
            abandoned.extend(calls.filter(|id| !answered.contains(id)));
        }
    }
    abandoned
}

impl<'a> History<'a> {
    fn new(wire: &Anthropic, request: &'a Request) -> Self {
        let parts = request.conversation.messages().iter().flat_map(|message| &message.parts);
        let toolsets = parts.filter_map(|part| match part {
            Part::Call(call) => Some((call.id.as_str(), extras_of(call).remove("toolset_name")?)),
            _ => None,
        });
        let (unsigned_thinking, toolsets) = (wire.unsigned_thinking, toolsets.collect());
        Self { unsigned_thinking, toolsets, abandoned: abandoned(request) }
    }

    /// The messages, roles alternating. Results come first in a user's message.
    fn messages(&self, request: &'a Request) -> Result<Vec<Message<'a>>, Error> {
        let mut messages: Vec<Message<'a>> = Vec::new();
        for message in request.conversation.messages() {
            let mut content = Vec::new();
            for part in &message.parts {
                content.extend(self.block(message.role, part)?);
            }
            if content.is_empty() {
                continue;
            }
            match messages.last_mut().filter(|last| last.role == message.role) {
                Some(last) => last.content.append(&mut content),
                None => messages.push(Message { role: message.role, content }),
            }
        }
        for message in &mut messages {
            message.content.sort_by_key(|block| !block.is_result());
        }
        // White space behind the words that the model is to go on from is refused.
        if let Some(last) = messages.last_mut().filter(|last| last.role == Role::Assistant)
            && let Some(Block::Ours(Written::Text { text, .. })) = last.content.last_mut()
        {
            *text = text.trim_end();
        }
        Ok(messages)
    }

    fn block(&self, role: Role, part: &'a Part) -> Result<Option<Block<'a>>, Error> {
        let misplaced = |what| Err(Error::config(format!("{what} cannot stand in a message of this role")));
        let written = match (part, role) {
            (Part::Text(text) | Part::Refusal(text), _) if text.text.trim().is_empty() => None,
            (Part::Text(text) | Part::Refusal(text), _) => {
                Some(Written::Text { text: &text.text, citations: citations_of(text) })
            }
            (Part::Image(image), Role::User) => Some(Written::Image { source: bytes(&image.source)? }),
            (Part::Image(_), _) => return misplaced("an image"),
            (Part::Document(document), Role::User) => Some(written_document(document)?),
            (Part::Document(_), _) => return misplaced("a document"),
            (Part::Reasoning(reasoning), Role::Assistant) => self.thinking(reasoning),
            (Part::Call(call), Role::Assistant) => Some(self.tool_use(call)),
            (Part::Call(_), _) => return misplaced("a call"),
            (Part::Result(result), Role::User) => Some(self.tool_result(result)?),
            (Part::Result(_), _) => return misplaced("a result"),
            (Part::Opaque(_), _) if self.is_abandoned(part) => None,
            (Part::Opaque(opaque), _) => return Ok(opaque.replay.data_for(WIRE).map(Block::Theirs)),
            (Part::Reasoning(_), _) => None,
            (Part::Audio(_), _) => return Err(Error::config("this wire takes no sound")),
            _ => return Err(Error::config("this wire does not know a part of the conversation")),
        };
        Ok(written.map(Block::Ours))
    }

    fn is_abandoned(&self, part: &Part) -> bool {
        !self.abandoned.is_empty()
            && ServerBlock::of(part)
                .and_then(ServerBlock::call)
                .is_some_and(|id| self.abandoned.contains(&id))
    }

    fn thinking(&self, reasoning: &'a ReasoningPart) -> Option<Written<'a>> {
        #[derive(Deserialize)]
        struct Signed {
            signature: String,
        }
        let Signed { signature } =
            reasoning.replay.as_ref().and_then(|replay| replay.data_for(WIRE))?.read().ok()?;
        let may_go = self.unsigned_thinking || !signature.is_empty();
        may_go.then_some(Written::Thinking { thinking: &reasoning.text, signature })
    }

    fn tool_use(&self, call: &'a CallPart) -> Written<'a> {
        let text = call.arguments.json();
        let input = match serde_json::from_str::<&RawValue>(text) {
            _ if call.input != InputKind::Json => Input::Text { input: call.arguments.as_str() },
            Ok(value) if value.get().starts_with('{') => Input::Object(value),
            Ok(input) => Input::Value { input },
            Err(_) => Input::Text { input: text },
        };
        let (id, name) = (CALL_ID.fit(&call.id), IdForm::TOOL_NAME.fit(&call.name));
        Written::ToolUse { id, name, input, extras: extras_of(call) }
    }

    fn tool_result(&self, result: &'a ResultPart) -> Result<Written<'a>, Error> {
        let mut content = Vec::new();
        for piece in &result.content {
            content.push(Block::Ours(match piece {
                ResultContent::Text(text) if text.trim().is_empty() => continue,
                ResultContent::Text(text) => Written::Text { text, citations: None },
                ResultContent::Image(image) => Written::Image { source: bytes(&image.source)? },
                ResultContent::Document(document) => written_document(document)?,
                _ => return Err(Error::config("this wire does not know a piece of a result")),
            }));
        }
        if content.is_empty() {
            content.push(Block::text(result.placeholder()));
        }
        Ok(Written::ToolResult {
            tool_use_id: CALL_ID.fit(&result.call_id),
            content,
            is_error: result.is_error,
            toolset_name: self.toolsets.get(result.call_id.as_str()).cloned(),
        })
    }
}

fn tools<'a>(request: &'a Request, options: &'a Options) -> Result<Vec<Tool<'a>>, Error> {
    let mut tools = Vec::new();
    for tool in &request.tools {
        tool.check_name()?;
        if tool.input != InputKind::Json {
            return Err(Error::config(format!(
                "tool `{}` is free-form, which this wire does not have",
                tool.name
            )));
        }
        tools.push(Tool::Client(ClientTool {
            name: &tool.name,
            description: &tool.description,
            input_schema: tool.schema(),
            strict: tool.strict,
            eager_input_streaming: options.eager_input,
        }));
    }
    tools.extend(options.server_tools.iter().map(Tool::Server));
    Ok(tools)
}

fn tool_choice<'a>(request: &'a Request, options: &Options) -> Result<Option<Choice<'a>>, Error> {
    let has_tools =
        !(request.tools.is_empty() && options.server_tools.is_empty()) || options.extra.contains_key("tools");
    let is_single = request.parallel_calls == Some(false);
    let choice = |kind, name| Choice { kind, name, disable_parallel_tool_use: is_single };
    Ok(match &request.tool_choice {
        Some(choice) if !has_tools && choice.is_forced() => {
            return Err(Error::config("the tool choice forces a call, and no tool is offered"));
        }
        // The provider refuses a choice where there is nothing to choose from.
        _ if !has_tools => None,
        Some(ToolChoice::Auto) => Some(choice("auto", None)),
        Some(ToolChoice::Required) => Some(choice("any", None)),
        Some(ToolChoice::Tool(name)) => Some(choice("tool", Some(name))),
        Some(ToolChoice::None) => Some(Choice { kind: "none", name: None, disable_parallel_tool_use: false }),
        Some(_) => return Err(Error::config("this wire does not know the tool choice")),
        None => is_single.then(|| choice("auto", None)),
    })
}

fn thinking(
    request: &Request,
    options: &Options,
    warnings: &mut Vec<Warning>,
) -> Result<(Option<Thinking>, Option<&'static str>), Error> {
    let display = options.thinking_display;
    let is_wanted = options.thinking_budget.is_some() || display.is_some();
    let effort = match request.reasoning {
        Some(ReasoningEffort::None) if is_wanted => {
            return Err(Error::config("the options ask for thinking, and the request turns it off"));
        }
        Some(ReasoningEffort::None) => return Ok((Some(Thinking::Disabled), None)),
        Some(ReasoningEffort::Minimal) => {
            warnings.push(Warning::new("reasoning", "the least effort that this wire knows is `low`"));
            Some("low")
        }
        Some(effort) => Some(effort.as_str()),
        None if !is_wanted => return Ok((None, None)),
        None => None,
    };
    let thinking = match options.thinking_budget {
        _ if request.tool_choice.as_ref().is_some_and(ToolChoice::is_forced) => {
            warnings
                .push(Warning::new("reasoning", "thinking is off, because the tool choice forces a call"));
            Thinking::Disabled
        }
        Some(budget_tokens) => Thinking::Enabled { budget_tokens, display },
        None => Thinking::Adaptive { display },
    };
    Ok((Some(thinking), effort))
}

fn max_tokens(request: &Request, options: &Options) -> Result<u64, Error> {
    match (request.max_tokens, options.thinking_budget) {
        (Some(most), Some(budget)) if budget >= most => Err(Error::config(format!(
            "the thinking budget ({budget}) has to be less than the reply's most tokens ({most})"
        ))),
        (Some(most), _) => Ok(most),
        (None, budget) => Ok(DEFAULT_MAX_TOKENS.saturating_add(budget.unwrap_or(0))),
    }
}

fn output_format<'a>(request: &'a Request, warnings: &mut Vec<Warning>) -> Option<OutputFormat<'a>> {
    let output = request.output_schema.as_ref()?;
    if output.description.is_some() {
        warnings.push(Warning::new("output_schema.description", "this wire has no place for it"));
    }
    if !output.strict {
        warnings.push(Warning::new("output_schema.strict", "this wire always holds the model to the schema"));
    }
    Some(OutputFormat { kind: "json_schema", schema: &output.schema })
}

fn metadata<'a>(request: &'a Request, warnings: &mut Vec<Warning>) -> Option<Metadata<'a>> {
    for name in request.metadata.keys().filter(|name| *name != "user_id") {
        warnings.push(Warning::new(format!("metadata.{name}"), "this wire takes only `user_id`"));
    }
    request.metadata.get("user_id").map(|user_id| Metadata { user_id })
}

fn written_document(document: &Document) -> Result<Written<'_>, Error> {
    let source = match &document.source {
        // Base64 is for PDF; text goes as text.
        Source::Base64 { media_type, data } if media_type.starts_with("text/") => {
            let text = BASE64_STANDARD.decode(data).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let problem = || Error::config("a text document is not base64 of UTF-8");
            Bytes::Text { media_type: "text/plain", data: text.ok_or_else(problem)? }
        }
        source => bytes(source)?,
    };
    Ok(Written::Document { source, title: document.name.as_deref() })
}

fn bytes(source: &Source) -> Result<Bytes<'_>, Error> {
    Ok(match source {
        Source::Base64 { media_type, data } => Bytes::Base64 { media_type, data },
        Source::Url(url) => Bytes::Url { url },
        Source::File(file_id) => Bytes::File { file_id },
        _ => return Err(Error::config("this wire does not know the source of an image or a document")),
    })
}

fn citations_of(text: &TextPart) -> Option<RawJson> {
    let fields: BTreeMap<String, RawJson> =
        text.replay.as_ref().and_then(|replay| replay.data_for(WIRE))?.read().ok()?;
    fields.get("citations").cloned()
}

/// The further fields of a `tool_use` block, such as `caller`.
fn extras_of(call: &CallPart) -> BTreeMap<String, RawJson> {
    call.replay
        .as_ref()
        .and_then(|replay| replay.data_for(WIRE))
        .and_then(|data| data.read().ok())
        .unwrap_or_default()
}

/// What ids of calls the provider takes.
const CALL_ID: IdForm =
    IdForm::new(1, usize::MAX, |letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-'));

#[cfg(test)]
mod tests;
