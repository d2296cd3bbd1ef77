//! [`Request`] to HTTP request.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use turnstream_core::{
    CallPart, Document, Error, ErrorKind, Image, InputKind, Message, OutputSchema, Part, RawJson,
    ReasoningEffort, Replay, Request, ResultContent, ResultPart, Role, Source, TextPart, ToolChoice,
    ToolSpec, Warning, WireRequest,
};

use crate::{OpenAiResponses, Options, Summary, SystemRole, Truncation, Verbosity, WIRE};

/// The most characters of a `call_id` that OpenAI takes.
const CALL_ID_LENGTH: usize = 64;

pub(crate) fn encode(wire: &OpenAiResponses, request: &Request) -> Result<WireRequest, Error> {
    let options = request.options_of::<Options>()?;
    if !request.stop.is_empty() {
        return Err(config("the Responses wire has no word for stop texts (`stop`)"));
    }
    if let Some(field) = options.extra.keys().find(|field| FIELDS.contains(&field.as_str())) {
        return Err(config(format!("the extra field `{field}` is one that the request writes itself")));
    }
    let mut warnings = Vec::new();
    let store = options.store.or(wire.profile.keeps_state().then_some(false));
    let system_role = match options.system_role {
        Some(SystemRole::System) => Some("system"),
        Some(SystemRole::Developer) => Some("developer"),
        Some(SystemRole::Instructions) | None => None,
    };
    let system: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
    let has_tools =
        !(request.tools.is_empty() && options.tools.is_empty()) || options.extra.contains_key("tools");
    let body = Body {
        model: &wire.model,
        instructions: (system_role.is_none() && !system.is_empty()).then(|| system.join("\n\n")),
        input: Input::of(request, system_role.map(|role| (role, system)), wire.profile.is_strict())?,
        tools: tools(request, &options, &mut warnings)?,
        tool_choice: tool_choice(request, has_tools)?,
        // Without tools there is nothing to allow or forbid.
        parallel_tool_calls: request.parallel_calls.filter(|_| has_tools),
        max_output_tokens: request.max_tokens,
        temperature: request.temperature,
        top_p: request.top_p,
        reasoning: Reasoning::of(request.reasoning, options.summary),
        text: TextSettings::of(request.output_schema.as_ref(), options.verbosity),
        metadata: &request.metadata,
        include: include(wire, &options, store),
        store,
        previous_response_id: options.previous_response_id.as_deref(),
        truncation: options.truncation,
        service_tier: options.service_tier.as_deref(),
        prompt_cache_key: options.prompt_cache_key.as_deref(),
        safety_identifier: options.safety_identifier.as_deref(),
        stream: true,
        extra: &options.extra,
    };
    Ok(wire.endpoint.post("responses", &[], &body)?.with_warnings(warnings))
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextSettings<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_response_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncation: Option<Truncation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safety_identifier: Option<&'a str>,
    stream: bool,
    #[serde(flatten)]
    extra: &'a BTreeMap<String, RawJson>,
}

/// The fields of [`Body`]. JSON does not say which of two of one name counts.
const FIELDS: [&str; 20] = [
    "model",
    "instructions",
    "input",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_output_tokens",
    "temperature",
    "top_p",
    "reasoning",
    "text",
    "metadata",
    "include",
    "store",
    "previous_response_id",
    "truncation",
    "service_tier",
    "prompt_cache_key",
    "safety_identifier",
    "stream",
];

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        content: Vec<Content<'a>>,
        #[serde(flatten)]
        kept: KeptOfMessage<'a>,
    },
    FunctionCall {
        call_id: Cow<'a, str>,
        name: &'a str,
        arguments: &'a str,
        #[serde(flatten)]
        kept: KeptOfCall<'a>,
    },
    CustomToolCall {
        call_id: Cow<'a, str>,
        name: &'a str,
        input: &'a str,
        #[serde(flatten)]
        kept: KeptOfCall<'a>,
    },
    FunctionCallOutput(CallOutput<'a>),
    CustomToolCallOutput(CallOutput<'a>),
    #[serde(untagged)]
    Reasoning(&'a RawJson),
    #[serde(untagged)]
    Other(&'a RawJson),
}

#[derive(Serialize)]
struct CallOutput<'a> {
    call_id: Cow<'a, str>,
    output: Output<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(String),
    Contents(Vec<Content<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    InputText {
        text: &'a str,
    },
    InputImage {
        #[serde(skip_serializing_if = "Option::is_none")]
        image_url: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_id: Option<&'a str>,
        detail: &'static str,
    },
    InputFile {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_id: Option<&'a str>,
    },
    OutputText {
        text: &'a str,
        annotations: [(); 0],
    },
    Refusal {
        refusal: &'a str,
    },
}

/// What the decoder kept of a message.
#[derive(Serialize, Deserialize, Default, Clone, Copy)]
#[serde(default)]
struct KeptOfMessage<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    status: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    phase: Option<&'a RawValue>,
}

/// What the decoder kept of a call.
#[derive(Serialize, Deserialize, Default, Clone, Copy)]
#[serde(default)]
struct KeptOfCall<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    status: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    caller: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Tool<'a> {
    Function {
        name: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        description: &'a str,
        parameters: Parameters<'a>,
        /// The wire wants the field, and takes null for "your default".
        strict: Option<bool>,
    },
    Custom {
        name: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        description: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        format: Option<&'a RawJson>,
    },
    #[serde(untagged)]
    Hosted(&'a RawJson),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Parameters<'a> {
    Given(&'a RawJson),
    /// A tool without arguments. This form passes as strict, too.
    None {
        r#type: &'static str,
        properties: BTreeMap<(), ()>,
        #[serde(rename = "additionalProperties")]
        additional_properties: bool,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Word(&'static str),
    Tool { r#type: &'static str, name: &'a str },
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
}

impl Reasoning {
    fn of(effort: Option<ReasoningEffort>, summary: Option<Summary>) -> Option<Self> {
        let effort = effort.map(ReasoningEffort::as_str);
        (effort.is_some() || summary.is_some()).then_some(Self { effort, summary })
    }
}

#[derive(Serialize)]
struct TextSettings<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verbosity: Option<Verbosity>,
}

#[derive(Serialize)]
struct Format<'a> {
    r#type: &'static str,
    name: &'a str,
    schema: &'a RawJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    strict: bool,
}

impl<'a> TextSettings<'a> {
    fn of(schema: Option<&'a OutputSchema>, verbosity: Option<Verbosity>) -> Option<Self> {
        let format = schema.map(|output| Format {
            r#type: "json_schema",
            name: &output.name,
            schema: &output.schema,
            description: output.description.as_deref(),
            strict: output.strict,
        });
        (format.is_some() || verbosity.is_some()).then_some(Self { format, verbosity })
    }
}

/// The conversation as items.
#[derive(Default)]
struct Input<'a> {
    items: Vec<Item<'a>>,
    /// What results must say again of their calls, or take their shape from, by call id.
    calls: HashMap<&'a str, (Cow<'a, str>, InputKind, KeptOfCall<'a>)>,
}

impl<'a> Input<'a> {
    fn of(
        request: &'a Request,
        system: Option<(&'static str, Vec<&'a str>)>,
        is_strict: bool,
    ) -> Result<Vec<Item<'a>>, Error> {
        let mut input = Self::default();
        if let Some((role, texts)) = system {
            for text in texts {
                let content = vec![Content::InputText { text }];
                input.items.push(Item::Message { role, content, kept: KeptOfMessage::default() });
            }
        }
        for message in request.conversation.messages() {
            input.message(message, is_strict)?;
        }
        Ok(input.items)
    }

    fn message(&mut self, message: &'a Message, is_strict: bool) -> Result<(), Error> {
        let start = self.items.len();
        let (results, others): (Vec<_>, Vec<_>) =
            message.parts.iter().partition(|part| matches!(part, Part::Result(_)));
        // Some servers refuse anything between a call and its result.
        for part in results.into_iter().chain(others) {
            self.part(part, message.role, start)?;
        }
        // OpenAI refuses reasoning that nothing of its reply follows: what followed was cut.
        while is_strict && self.items.len() > start && matches!(self.items.last(), Some(Item::Reasoning(_))) {
            self.items.pop();
        }
        Ok(())
    }

    fn part(&mut self, part: &'a Part, role: Role, start: usize) -> Result<(), Error> {
        match (part, role) {
            (Part::Text(text) | Part::Refusal(text), _) if text.text.trim().is_empty() => {}
            (Part::Text(text), Role::Assistant) => {
                let content = Content::OutputText { text: &text.text, annotations: [] };
                self.content("assistant", kept(text), content, start);
            }
            (Part::Refusal(text), Role::Assistant) => {
                let content = Content::Refusal { refusal: &text.text };
                self.content("assistant", kept(text), content, start);
            }
            (Part::Text(text) | Part::Refusal(text), _) => {
                let content = Content::InputText { text: &text.text };
                self.content("user", KeptOfMessage::default(), content, start);
            }
            (Part::Image(_) | Part::Document(_), Role::Assistant) => {
                return Err(config("an assistant's message cannot hold an image or a document on this wire"));
            }
            (Part::Image(image), _) => {
                self.content("user", KeptOfMessage::default(), image_content(image)?, start);
            }
            (Part::Document(document), _) => {
                self.content("user", KeptOfMessage::default(), document_content(document)?, start);
            }
            (Part::Audio(_), _) => return Err(config("the Responses wire takes no sound")),
            (Part::Reasoning(reasoning), _) => {
                self.items.extend(reasoning.replay.as_ref().and_then(ours).map(Item::Reasoning));
            }
            (Part::Opaque(opaque), _) => self.items.extend(ours(&opaque.replay).map(opaque_item)),
            (Part::Call(call), _) => self.call(call),
            (Part::Result(result), _) => self.result(result)?,
            _ => return Err(config("the Responses wire does not know this kind of part")),
        }
        Ok(())
    }

    /// Adds content to the message item that it belongs to, or begins one.
    fn content(&mut self, role: &'static str, kept: KeptOfMessage<'a>, content: Content<'a>, start: usize) {
        let last = self.items.get_mut(start..).and_then(<[_]>::last_mut);
        match last {
            Some(Item::Message { content: contents, kept: open, .. }) if open.is_of(&kept) => {
                contents.push(content);
            }
            _ => self.items.push(Item::Message { role, content: vec![content], kept }),
        }
    }

    fn call(&mut self, call: &'a CallPart) {
        let replay = call.replay.as_ref().and_then(ours);
        let kept = replay.and_then(|raw| serde_json::from_str(raw.as_str()).ok()).unwrap_or_default();
        let call_id = if replay.is_some() { Cow::Borrowed(&*call.id) } else { fitting(&call.id) };
        self.calls.insert(&call.id, (call_id.clone(), call.input, kept));
        let name = &call.name;
        self.items.push(match call.input {
            InputKind::Text => Item::CustomToolCall { call_id, name, input: call.arguments.as_str(), kept },
            _ => Item::FunctionCall { call_id, name, arguments: call.arguments.json(), kept },
        });
    }

    fn result(&mut self, result: &'a ResultPart) -> Result<(), Error> {
        let (call_id, input, kept) = match self.calls.get(&*result.call_id) {
            Some((call_id, input, kept)) => (call_id.clone(), *input, *kept),
            // A result by itself answers a call of a stored response, whose id is the provider's own.
            None => (Cow::Borrowed(&*result.call_id), result.input, KeptOfCall::default()),
        };
        let KeptOfCall { namespace, caller, .. } = kept;
        let output = CallOutput { call_id, output: output(result)?, namespace, caller };
        self.items.push(match input {
            InputKind::Text => Item::CustomToolCallOutput(output),
            _ => Item::FunctionCallOutput(output),
        });
        Ok(())
    }
}

impl KeptOfMessage<'_> {
    fn is_of(&self, other: &Self) -> bool {
        let text = |raw: Option<&RawValue>| raw.map(|raw| raw.get().to_owned());
        text(self.id) == text(other.id) && text(self.phase) == text(other.phase)
    }
}

/// The wire's own data in a replay; other wires' is left out.
fn ours(replay: &Replay) -> Option<&RawJson> {
    (replay.wire == *WIRE).then_some(&replay.data)
}

fn kept(text: &TextPart) -> KeptOfMessage<'_> {
    let replay = text.replay.as_ref().and_then(ours);
    replay.and_then(|raw| serde_json::from_str(raw.as_str()).ok()).unwrap_or_default()
}

/// An opaque part may be reasoning that showed nothing.
fn opaque_item(raw: &RawJson) -> Item<'_> {
    #[derive(Deserialize)]
    struct Tag {
        r#type: Option<String>,
    }
    let tag = raw.read::<Tag>().ok().and_then(|tag| tag.r#type);
    if tag.as_deref() == Some("reasoning") { Item::Reasoning(raw) } else { Item::Other(raw) }
}

/// The id of a call that another wire made, as OpenAI takes it: no longer than it allows, and still its own.
fn fitting(id: &str) -> Cow<'_, str> {
    if id.chars().count() <= CALL_ID_LENGTH {
        return id.into();
    }
    // FNV-1a: the same id must become the same one in every request.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let start: String = id.chars().take(CALL_ID_LENGTH - 17).collect();
    format!("{start}_{hash:016x}").into()
}

fn image_content(image: &Image) -> Result<Content<'_>, Error> {
    let (image_url, file_id) = match &image.source {
        Source::Url(url) => (Some(url.as_str().into()), None),
        Source::Base64 { media_type, data } => (Some(data_url(media_type, data).into()), None),
        Source::File(id) => (None, Some(id.as_str())),
        _ => return Err(config("the Responses wire does not know the source of an image")),
    };
    Ok(Content::InputImage { image_url, file_id, detail: "auto" })
}

fn document_content(document: &Document) -> Result<Content<'_>, Error> {
    let name = document.name.as_deref();
    let (filename, file_data, file_url, file_id) = match &document.source {
        Source::Url(url) => (None, None, Some(url.as_str()), None),
        Source::Base64 { media_type, data } => {
            let default = if media_type == "application/pdf" { "document.pdf" } else { "document" };
            (Some(name.unwrap_or(default)), Some(data_url(media_type, data)), None, None)
        }
        Source::File(id) => (None, None, None, Some(id.as_str())),
        _ => return Err(config("the Responses wire does not know the source of a document")),
    };
    Ok(Content::InputFile { filename, file_data, file_url, file_id })
}

fn data_url(media_type: &str, data: &str) -> String {
    format!("data:{media_type};base64,{data}")
}

/// A result's content. The wire has no flag for an error, so that its text says so; and wants some text.
fn output(result: &ResultPart) -> Result<Output<'_>, Error> {
    let (mut texts, mut contents) = (Vec::new(), Vec::new());
    for content in &result.content {
        contents.push(match content {
            ResultContent::Text(text) => {
                texts.push(text.as_str());
                if text.trim().is_empty() {
                    continue;
                }
                Content::InputText { text }
            }
            ResultContent::Image(image) => image_content(image)?,
            ResultContent::Document(document) => document_content(document)?,
            _ => return Err(config("the Responses wire does not know a piece of a result")),
        });
    }
    if texts.len() < result.content.len() {
        if result.is_error {
            contents.insert(0, Content::InputText { text: "Error:" });
        }
        return Ok(Output::Contents(contents));
    }
    let text = texts.join("\n");
    Ok(Output::Text(match (text.trim().is_empty(), result.is_error) {
        (true, true) => "Error: the call failed and said nothing".to_owned(),
        (true, false) => "(no output)".to_owned(),
        (false, true) => format!("Error: {text}"),
        (false, false) => text,
    }))
}

fn tools<'a>(
    request: &'a Request,
    options: &'a Options,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Tool<'a>>, Error> {
    let is_free_form =
        |name: &str| request.tools.iter().any(|tool| tool.name == *name && tool.input == InputKind::Text);
    if let Some(name) = options.formats.keys().find(|name| !is_free_form(name)) {
        return Err(config(format!("a format is set for `{name}`, which is no free-form tool on offer")));
    }
    let mut tools = Vec::with_capacity(request.tools.len() + options.tools.len());
    for tool in &request.tools {
        tool.check_name()?;
        tools.push(match tool.input {
            InputKind::Text => custom_tool(tool, options, warnings),
            _ => Tool::Function {
                name: &tool.name,
                description: &tool.description,
                parameters: tool.parameters.as_ref().map_or(
                    Parameters::None {
                        r#type: "object",
                        properties: BTreeMap::new(),
                        additional_properties: false,
                    },
                    Parameters::Given,
                ),
                strict: tool.strict,
            },
        });
    }
    tools.extend(options.tools.iter().map(Tool::Hosted));
    Ok(tools)
}

fn custom_tool<'a>(tool: &'a ToolSpec, options: &'a Options, warnings: &mut Vec<Warning>) -> Tool<'a> {
    let name = &tool.name;
    let settings = [("parameters", tool.parameters.is_some()), ("strict", tool.strict.is_some())];
    for (setting, _) in settings.into_iter().filter(|(_, is_set)| *is_set) {
        let message = format!("the free-form tool `{name}` takes text, for which it means nothing");
        warnings.push(Warning::new(setting, message));
    }
    Tool::Custom { name, description: &tool.description, format: options.formats.get(&**name) }
}

fn tool_choice(request: &Request, has_tools: bool) -> Result<Option<Choice<'_>>, Error> {
    let Some(choice) = &request.tool_choice else { return Ok(None) };
    if !has_tools {
        return match choice.is_forced() {
            true => Err(config("the tool choice forces a call, and no tool is offered")),
            // Without tools no call can be made, which is what the rest comes to.
            false => Ok(None),
        };
    }
    Ok(Some(match choice {
        ToolChoice::Auto => Choice::Word("auto"),
        ToolChoice::None => Choice::Word("none"),
        ToolChoice::Required => Choice::Word("required"),
        ToolChoice::Tool(name) => match request.tools.iter().find(|tool| tool.name == *name) {
            Some(tool) if tool.input == InputKind::Text => Choice::Tool { r#type: "custom", name },
            Some(_) => Choice::Tool { r#type: "function", name },
            None => return Err(config(format!("the tool choice names `{name}`, which is not offered"))),
        },
        _ => return Err(config("the Responses wire does not know the tool choice")),
    }))
}

/// What the reply must include. Encrypted reasoning can go back where nothing is stored.
fn include<'a>(wire: &OpenAiResponses, options: &'a Options, store: Option<bool>) -> Vec<&'a str> {
    const ENCRYPTED: &str = "reasoning.encrypted_content";
    let is_stateless = wire.profile.keeps_state() && store == Some(false);
    let encrypted = options.encrypted_reasoning.unwrap_or(is_stateless && may_reason(&wire.model));
    let mut include: Vec<&str> = options.include.iter().map(String::as_str).collect();
    if encrypted && !include.contains(&ENCRYPTED) {
        include.push(ENCRYPTED);
    }
    include
}

/// Whether a model may be one that reasons. The others answer 400 when they are asked for encrypted
/// reasoning.
fn may_reason(model: &str) -> bool {
    !["gpt-3", "gpt-4", "chatgpt", "-chat"].iter().any(|family| model.contains(family))
}

fn config(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

#[cfg(test)]
mod tests;
