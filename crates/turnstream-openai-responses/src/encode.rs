//! [`Request`] to HTTP request.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use turnstream_core::{
    CallPart, Document, Error, IdForm, Image, InputKind, Message, Part, RawJson, ReasoningEffort, Request,
    ResultContent, ResultPart, Role, Source, TextPart, ToolChoice, ToolSpec, Warning, WireRequest,
};

use crate::{Grammar, OpenAiResponses, Options, Summary, SystemRole, Truncation, Verbosity, WIRE};

pub(crate) fn encode(wire: &OpenAiResponses, request: &Request) -> Result<WireRequest, Error> {
    let options = request.options_of::<Options>()?;
    if !request.stop.is_empty() {
        return Err(Error::config("the Responses wire has no word for stop texts (`stop`)"));
    }
    let mut warnings = Vec::new();
    let store = options.store.or(wire.profile.row().keeps_state.then_some(false));
    let system_role = match options.system_role {
        Some(SystemRole::System) => Some("system"),
        Some(SystemRole::Developer) => Some("developer"),
        Some(SystemRole::Instructions) | None => None,
    };
    let system: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
    let has_tools =
        !(request.tools.is_empty() && options.server_tools.is_empty()) || options.extra.contains_key("tools");
    let body = Body {
        model: &wire.model,
        instructions: (system_role.is_none() && !system.is_empty()).then(|| system.join("\n\n")),
        input: Input::of(request, system_role.map(|role| (role, system)), wire.profile.row().is_strict)?,
        tools: tools(request, &options, &mut warnings)?,
        tool_choice: tool_choice(request, has_tools)?,
        // Without tools there is nothing to allow or forbid.
        parallel_tool_calls: request.parallel_calls.filter(|_| has_tools),
        max_output_tokens: request.max_tokens,
        temperature: request.temperature,
        top_p: request.top_p,
        reasoning: Reasoning::of(request.reasoning, options.summary),
        text: TextSettings::of(request, &options)?,
        metadata: &request.metadata,
        include: include(wire, &options, store),
        store,
        previous_response_id: options.previous_response_id.as_deref(),
        truncation: options.truncation,
        service_tier: options.service_tier.as_deref(),
        prompt_cache_key: options.prompt_cache_key.as_deref(),
        safety_identifier: options.safety_identifier.as_deref(),
        stream: true,
    };
    Ok(wire.endpoint.post_with("responses", &[], &body, &options.extra)?.with_warnings(warnings))
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
}

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
        name: Cow<'a, str>,
        arguments: &'a str,
        #[serde(flatten)]
        kept: KeptOfCall<'a>,
    },
    CustomToolCall {
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
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
        file_data: Option<Cow<'a, str>>,
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
        parameters: Cow<'a, RawJson>,
        /// The wire wants the field, and takes null for "your default".
        strict: Option<bool>,
    },
    Custom {
        name: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        description: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        format: Option<GrammarFormat<'a>>,
    },
    #[serde(untagged)]
    Hosted(&'a RawJson),
}

#[derive(Serialize)]
struct GrammarFormat<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    grammar: &'a Grammar,
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
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'a> {
    JsonSchema {
        name: &'a str,
        schema: &'a RawJson,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        strict: bool,
    },
    JsonObject,
}

impl<'a> TextSettings<'a> {
    fn of(request: &'a Request, options: &Options) -> Result<Option<Self>, Error> {
        let verbosity = options.verbosity;
        let format = match &request.output_schema {
            Some(_) if options.json_object => {
                return Err(Error::config(
                    "the options ask for any JSON object, and the request for one of a schema",
                ));
            }
            Some(output) => Some(Format::JsonSchema {
                name: &output.name,
                schema: &output.schema,
                description: output.description.as_deref(),
                strict: output.strict,
            }),
            None => options.json_object.then_some(Format::JsonObject),
        };
        Ok((format.is_some() || verbosity.is_some()).then_some(Self { format, verbosity }))
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
                return Err(Error::config(
                    "an assistant's message cannot hold an image or a document on this wire",
                ));
            }
            (Part::Image(image), _) => {
                self.content("user", KeptOfMessage::default(), image_content(image)?, start);
            }
            (Part::Document(document), _) => {
                self.content("user", KeptOfMessage::default(), document_content(document)?, start);
            }
            (Part::Audio(_), _) => return Err(Error::config("the Responses wire takes no sound")),
            (Part::Reasoning(reasoning), _) => {
                self.items.extend(
                    reasoning.replay.as_ref().and_then(|replay| replay.data_for(WIRE)).map(Item::Reasoning),
                );
            }
            (Part::Opaque(opaque), _) => self.items.extend(opaque.replay.data_for(WIRE).map(opaque_item)),
            (Part::Call(call), _) => self.call(call),
            (Part::Result(result), _) => self.result(result)?,
            _ => return Err(Error::config("the Responses wire does not know this kind of part")),
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
        let replay = call.replay.as_ref().and_then(|replay| replay.data_for(WIRE));
        let kept = replay.and_then(|raw| serde_json::from_str(raw.as_str()).ok()).unwrap_or_default();
        let call_id = if replay.is_some() { Cow::Borrowed(&*call.id) } else { CALL_ID.fit(&call.id) };
        self.calls.insert(&call.id, (call_id.clone(), call.input, kept));
        let name = IdForm::TOOL_NAME.fit(&call.name);
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

fn kept(text: &TextPart) -> KeptOfMessage<'_> {
    let replay = text.replay.as_ref().and_then(|replay| replay.data_for(WIRE));
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

fn image_content(image: &Image) -> Result<Content<'_>, Error> {
    let file_id = if let Source::File(id) = &image.source { Some(id.as_str()) } else { None };
    let image_url = image.source.address();
    if file_id.is_none() && image_url.is_none() {
        return Err(Error::config("the Responses wire does not know the source of an image"));
    }
    Ok(Content::InputImage { image_url, file_id, detail: "auto" })
}

fn document_content(document: &Document) -> Result<Content<'_>, Error> {
    let name = document.name.as_deref();
    let (filename, file_data, file_url, file_id) = match &document.source {
        Source::Url(url) => (None, None, Some(url.as_str()), None),
        Source::Base64 { media_type, .. } => {
            let default = if media_type == "application/pdf" { "document.pdf" } else { "document" };
            (Some(name.unwrap_or(default)), document.source.address(), None, None)
        }
        Source::File(id) => (None, None, None, Some(id.as_str())),
        _ => return Err(Error::config("the Responses wire does not know the source of a document")),
    };
    Ok(Content::InputFile { filename, file_data, file_url, file_id })
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
            _ => return Err(Error::config("the Responses wire does not know a piece of a result")),
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
        (true, true) => format!("Error: {}", result.placeholder()),
        (true, false) => result.placeholder().to_owned(),
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
    if let Some(name) = options.grammars.keys().find(|name| !is_free_form(name)) {
        return Err(Error::config(format!(
            "there is a grammar for `{name}`, and no free-form tool of that name"
        )));
    }
    let mut tools = Vec::with_capacity(request.tools.len() + options.server_tools.len());
    for tool in &request.tools {
        tool.check_name()?;
        tools.push(match tool.input {
            InputKind::Text => custom_tool(tool, options, warnings)?,
            _ => Tool::Function {
                name: &tool.name,
                description: &tool.description,
                parameters: tool.schema(),
                strict: tool.strict,
            },
        });
    }
    tools.extend(options.server_tools.iter().map(Tool::Hosted));
    Ok(tools)
}

fn custom_tool<'a>(
    tool: &'a ToolSpec,
    options: &'a Options,
    warnings: &mut Vec<Warning>,
) -> Result<Tool<'a>, Error> {
    let name = &tool.name;
    if tool.parameters.is_some() {
        return Err(Error::config(format!(
            "the free-form tool `{name}` cannot have a schema; see `Options::grammar`"
        )));
    }
    if tool.strict.is_some() {
        warnings
            .push(Warning::new("strict", format!("the free-form tool `{name}` has no schema to hold to")));
    }
    let format = options.grammars.get(&**name).map(|grammar| GrammarFormat { r#type: "grammar", grammar });
    Ok(Tool::Custom { name, description: &tool.description, format })
}

fn tool_choice(request: &Request, has_tools: bool) -> Result<Option<Choice<'_>>, Error> {
    let Some(choice) = &request.tool_choice else { return Ok(None) };
    if !has_tools {
        return match choice.is_forced() {
            true => Err(Error::config("the tool choice forces a call, and no tool is offered")),
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
            None => {
                return Err(Error::config(format!("the tool choice names `{name}`, which is not offered")));
            }
        },
        _ => return Err(Error::config("the Responses wire does not know the tool choice")),
    }))
}

/// What the reply must include. Encrypted reasoning can go back where nothing is stored.
fn include<'a>(wire: &OpenAiResponses, options: &'a Options, store: Option<bool>) -> Vec<&'a str> {
    const ENCRYPTED: &str = "reasoning.encrypted_content";
    let is_stateless = wire.profile.row().keeps_state && store == Some(false);
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

/// What OpenAI takes as a call's id.
const CALL_ID: IdForm = IdForm::new(0, 64, |_| true);

#[cfg(test)]
mod tests;
