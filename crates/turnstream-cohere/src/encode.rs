//! A [`Request`] as the body of `POST /v2/chat`.

mod body;

use std::borrow::Cow;

use serde_json::value::RawValue;
use turnstream_core::{
    CallPart, Error, IdForm, Image, InputKind, Message, Part, ReasoningEffort, Request, ResultContent,
    ResultPart, Role, ToolChoice, ToolSpec, Warning, WireRequest,
};

use crate::{Cohere, Options, WIRE, decode::TOOL_PLAN};
use body::{
    Address, AssistantBody, Body, CallBody, CitationOptions, Content, ContentPart, Function, FunctionTool,
    MessageBody, ResponseFormat, Thinking, Tool,
};

/// Writes the HTTP request for one turn.
pub(crate) fn encode(wire: &Cohere, request: &Request) -> Result<WireRequest, Error> {
    let options: Options = request.options_of()?;
    let mut warnings = Vec::new();
    let (offered, tool_choice) = offered(request, &options)?;
    let strict_tools = strict_tools(&offered, &mut warnings);
    let body = Body {
        model: &wire.model,
        messages: messages(request)?,
        tools: offered.into_iter().map(tool).collect::<Result<_, _>>()?,
        strict_tools,
        tool_choice,
        documents: &options.documents,
        citation_options: options.citation_mode.as_deref().map(|mode| CitationOptions { mode }),
        response_format: response_format(request, &options, &mut warnings)?,
        thinking: thinking(request, &options, &mut warnings)?,
        max_tokens: request.max_tokens,
        temperature: request.temperature,
        p: request.top_p,
        k: options.top_k,
        stop_sequences: &request.stop,
        seed: options.seed,
        frequency_penalty: options.frequency_penalty,
        presence_penalty: options.presence_penalty,
        safety_mode: options.safety_mode.as_deref(),
        stream: true,
    };
    for name in request.metadata.keys() {
        warnings.push(Warning::new(format!("metadata.{name}"), "this wire has no place for it"));
    }
    Ok(wire.endpoint.post_with("chat", &[], &body, &options.extra)?.with_warnings(warnings))
}

fn messages(request: &Request) -> Result<Vec<MessageBody<'_>>, Error> {
    let mut messages = Vec::new();
    let system: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
    if !system.is_empty() {
        messages.push(MessageBody::System { content: system.join("\n\n") });
    }
    let mut user = UserParts::default();
    for message in request.conversation.messages() {
        match message.role {
            Role::Assistant => {
                user.flush(&mut messages);
                messages.extend(assistant(message)?.map(MessageBody::Assistant));
            }
            _ => user.message(message, &mut messages)?,
        }
    }
    user.flush(&mut messages);
    Ok(messages)
}

/// The model's message; `None` if nothing is left of it.
fn assistant(message: &Message) -> Result<Option<AssistantBody<'_>>, Error> {
    let (mut text, mut tool_plan) = (Cow::Borrowed(""), Cow::Borrowed(""));
    let (mut parts, mut tool_calls) = (Vec::new(), Vec::new());
    for part in &message.parts {
        match part {
            Part::Text(part) | Part::Refusal(part) => text += part.text.as_str(),
            // Reasoning without this wire's mark is another's.
            Part::Reasoning(part) => match part.replay.as_ref().and_then(|replay| replay.data_for(WIRE)) {
                Some(mark) if mark.as_str() == TOOL_PLAN => tool_plan += part.text.as_str(),
                Some(_) if !part.text.is_empty() => {
                    parts.push(ContentPart::Thinking { thinking: &part.text })
                }
                _ => {}
            },
            Part::Call(part) => tool_calls.push(call(part)),
            Part::Opaque(_) => {}
            _ => return Err(Error::config("a model's message holds text, reasoning and calls on this wire")),
        }
    }
    if !text.trim().is_empty() {
        // The provider has either text or calls in a message.
        if tool_calls.is_empty() {
            parts.push(ContentPart::Text { text });
        } else {
            if !tool_plan.is_empty() {
                tool_plan += "\n";
            }
            tool_plan += text;
        }
    }
    let content = Content::of(parts);
    let says_nothing = content.is_none() && tool_plan.is_empty() && tool_calls.is_empty();
    Ok((!says_nothing).then_some(AssistantBody { content, tool_plan, tool_calls }))
}

fn call(call: &CallPart) -> CallBody<'_> {
    let text = call.arguments.json();
    let is_object = call.input == InputKind::Json
        && serde_json::from_str::<&RawValue>(text).is_ok_and(|value| value.get().starts_with('{'));
    let arguments = match is_object {
        true => Cow::Borrowed(text),
        // The provider reads an object out of the text.
        false => Cow::Owned(serde_json::json!({ "input": call.arguments.as_str() }).to_string()),
    };
    let function = Function { name: IdForm::TOOL_NAME.fit(&call.name), arguments };
    CallBody { id: &call.id, kind: "function", function }
}

/// What the user's messages in a row come to: results at once, everything else behind the last of them.
#[derive(Default)]
struct UserParts<'a> {
    waiting: Vec<ContentPart<'a>>,
}

impl<'a> UserParts<'a> {
    fn message(&mut self, message: &'a Message, messages: &mut Vec<MessageBody<'a>>) -> Result<(), Error> {
        if !message.parts.iter().any(|part| matches!(part, Part::Result(_))) {
            self.flush(messages);
        }
        let mut own = Vec::new();
        for part in &message.parts {
            match part {
                Part::Result(part) => messages.push(self.result(part)?),
                Part::Text(part) if part.text.trim().is_empty() => {}
                Part::Text(part) => own.push(ContentPart::Text { text: Cow::Borrowed(&part.text) }),
                Part::Image(part) => own.push(image(part)?),
                Part::Document(_) => {
                    return Err(Error::config("this wire takes documents as options: `Options::document`"));
                }
                Part::Audio(_) => return Err(Error::config("this wire takes no sound")),
                Part::Opaque(part) if part.replay.data_for(WIRE).is_none() => {}
                _ => {
                    return Err(Error::config(
                        "a user's message holds text, images and results on this wire",
                    ));
                }
            }
        }
        self.waiting.extend(own);
        Ok(())
    }

    /// One result. Its images wait behind the last of them.
    fn result(&mut self, result: &'a ResultPart) -> Result<MessageBody<'a>, Error> {
        let (mut texts, mut images) = (Vec::new(), Vec::new());
        for content in &result.content {
            match content {
                ResultContent::Text(text) if text.trim().is_empty() => {}
                ResultContent::Text(text) => texts.push(text.as_str()),
                ResultContent::Image(part) => images.push(image(part)?),
                ResultContent::Document(_) => {
                    return Err(Error::config("a result holds text and images on this wire"));
                }
                _ => return Err(Error::config("this wire does not know a piece of a result")),
            }
        }
        let said = match texts.as_slice() {
            [] if images.is_empty() => Cow::Borrowed(result.placeholder()),
            [] => Cow::Borrowed("(see the images below)"),
            [text] => Cow::Borrowed(*text),
            texts => Cow::Owned(texts.join("\n")),
        };
        let content = if result.is_error { Cow::Owned(format!("Error: {said}")) } else { said };
        if !images.is_empty() {
            let label = format!("From the result of the call {}:", result.call_id);
            self.waiting.push(ContentPart::Text { text: Cow::Owned(label) });
            self.waiting.append(&mut images);
        }
        Ok(MessageBody::Tool { tool_call_id: &result.call_id, content })
    }

    fn flush(&mut self, messages: &mut Vec<MessageBody<'a>>) {
        if let Some(content) = Content::of(std::mem::take(&mut self.waiting)) {
            messages.push(MessageBody::User { content });
        }
    }
}

fn image(image: &Image) -> Result<ContentPart<'_>, Error> {
    let url = image.source.address();
    let url = url.ok_or_else(|| Error::config("an image is an address or base64 on this wire"))?;
    Ok(ContentPart::ImageUrl { image_url: Address { url } })
}

/// The tools on offer and the word for the choice. The wire cannot name a tool: then that one is offered alone.
fn offered<'a>(
    request: &'a Request,
    options: &Options,
) -> Result<(Vec<&'a ToolSpec>, Option<&'static str>), Error> {
    let all: Vec<&ToolSpec> = request.tools.iter().collect();
    let has_tools = !all.is_empty() || options.extra.contains_key("tools");
    let no_choice = request.tool_choice == Some(ToolChoice::None);
    if request.parallel_calls == Some(false) && has_tools && !no_choice {
        return Err(Error::config("this wire cannot forbid several calls in one turn"));
    }
    Ok(match &request.tool_choice {
        Some(choice) if choice.is_forced() && !has_tools => {
            return Err(Error::config("the tool choice forces a call, and no tool is offered"));
        }
        None | Some(ToolChoice::Auto) => (all, None),
        Some(ToolChoice::None) => (all, has_tools.then_some("NONE")),
        Some(ToolChoice::Required) => (all, Some("REQUIRED")),
        Some(ToolChoice::Tool(name)) => match all.into_iter().find(|tool| tool.name == *name) {
            Some(tool) => (vec![tool], Some("REQUIRED")),
            None => {
                return Err(Error::config(format!("the tool choice names `{name}`, which is not offered")));
            }
        },
        Some(_) => return Err(Error::config("this wire does not know the tool choice")),
    })
}

fn tool(tool: &ToolSpec) -> Result<Tool<'_>, Error> {
    tool.check_name()?;
    let name = tool.name.as_str();
    if tool.input != InputKind::Json {
        return Err(Error::config(format!("tool `{name}` is free-form, which this wire does not have")));
    }
    let function = FunctionTool { name, description: &tool.description, parameters: tool.schema() };
    Ok(Tool { kind: "function", function })
}

/// One switch for all tools.
fn strict_tools(tools: &[&ToolSpec], warnings: &mut Vec<Warning>) -> bool {
    let strict = tools.iter().filter(|tool| tool.strict == Some(true)).count();
    if strict > 0 && strict < tools.len() {
        warnings.push(Warning::new("strict", "this wire holds the model to all schemas or to none"));
    }
    strict > 0 && strict == tools.len()
}

fn response_format<'a>(
    request: &'a Request,
    options: &Options,
    warnings: &mut Vec<Warning>,
) -> Result<Option<ResponseFormat<'a>>, Error> {
    let format = |json_schema| Some(ResponseFormat { kind: "json_object", json_schema });
    let Some(output) = &request.output_schema else {
        return Ok(options.json_object.then(|| format(None)).flatten());
    };
    if options.json_object {
        return Err(Error::config(
            "the options ask for any JSON object, and the request for one of a schema",
        ));
    }
    if output.description.is_some() {
        warnings.push(Warning::new("output_schema.description", "this wire has no place for it"));
    }
    if !output.strict {
        warnings.push(Warning::new("output_schema.strict", "this wire always holds the model to the schema"));
    }
    Ok(format(Some(&output.schema)))
}

fn thinking(
    request: &Request,
    options: &Options,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Thinking>, Error> {
    let token_budget = options.thinking_budget;
    match request.reasoning {
        Some(ReasoningEffort::None) if token_budget.is_some() => {
            Err(Error::config("the options ask for thinking, and the request turns it off"))
        }
        Some(ReasoningEffort::None) => Ok(Some(Thinking { kind: "disabled", token_budget: None })),
        Some(_) => {
            let words = "this wire thinks or does not, with a budget in tokens: `Options::thinking_budget`";
            warnings.push(Warning::new("reasoning", words));
            Ok(Some(Thinking { kind: "enabled", token_budget }))
        }
        None => Ok(token_budget.map(|_| Thinking { kind: "enabled", token_budget })),
    }
}

#[cfg(test)]
mod tests;
