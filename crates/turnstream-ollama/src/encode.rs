//! A [`Request`] as the body of `POST /api/chat`.

mod body;

use std::{borrow::Cow, collections::HashSet};

use serde_json::value::RawValue;
use turnstream_core::{
    CallPart, Error, Image, InputKind, Message, Part, RawFields, RawJson, ReasoningEffort, Request,
    ResultContent, ResultPart, Role, Source, ToolChoice, Warning, WireRequest,
};

use crate::{Ollama, Options, WIRE};
use body::{
    Arguments, AssistantBody, Body, CallBody, Format, Function, FunctionTool, MessageBody, ModelOptions,
    Think, Tool,
};

/// Writes the HTTP request for one turn.
pub(crate) fn encode(wire: &Ollama, request: &Request) -> Result<WireRequest, Error> {
    let options: Options = request.options_of()?;
    let mut warnings = Vec::new();
    let body = Body {
        model: &wire.model,
        messages: History::new(request).messages(request)?,
        tools: tools(request, &options, &mut warnings)?,
        format: format(request, &options, &mut warnings)?,
        think: request.reasoning.map(|effort| think(effort, &mut warnings)),
        options: model_options(request, &options)?,
        keep_alive: options.keep_alive.as_deref(),
        stream: true,
    };
    for name in request.metadata.keys() {
        warnings.push(Warning::new(format!("metadata.{name}"), "this wire has no place for it"));
    }
    let headers = [("accept", "application/x-ndjson")];
    Ok(wire.endpoint.post_with("chat", &headers, &body, &options.extra)?.with_warnings(warnings))
}

/// The conversation on its way out, with what has to agree between calls and results.
struct History<'a> {
    /// Ids that no server gave: they are left out, in call and result alike.
    made_up_ids: HashSet<&'a str>,
}

impl<'a> History<'a> {
    fn new(request: &'a Request) -> Self {
        let calls = request.conversation.messages().iter().flat_map(Message::calls);
        Self { made_up_ids: calls.filter(|call| call.made_up_id).map(|call| call.id.as_str()).collect() }
    }

    fn messages(&self, request: &'a Request) -> Result<Vec<MessageBody<'a>>, Error> {
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
                    messages.extend(self.assistant(message)?.map(MessageBody::Assistant));
                }
                _ => self.user(message, &mut user, &mut messages)?,
            }
        }
        user.flush(&mut messages);
        Ok(messages)
    }

    /// The model's message; `None` if nothing is left of it.
    fn assistant(&self, message: &'a Message) -> Result<Option<AssistantBody<'a>>, Error> {
        let mut body = AssistantBody::default();
        for part in &message.parts {
            match part {
                Part::Text(part) | Part::Refusal(part) => body.content += part.text.as_str(),
                // What carries another wire's mark is that wire's.
                Part::Reasoning(part) if part.replay.as_ref().is_some_and(|replay| replay.wire != *WIRE) => {}
                Part::Reasoning(part) => body.thinking += part.text.as_str(),
                Part::Call(part) => body.tool_calls.push(self.call(part)),
                Part::Opaque(_) => {}
                _ => {
                    return Err(Error::config(
                        "a model's message holds text, thinking and calls on this wire",
                    ));
                }
            }
        }
        if body.content.trim().is_empty() {
            body.content = Cow::Borrowed("");
        }
        let says_nothing = body.content.is_empty() && body.thinking.is_empty() && body.tool_calls.is_empty();
        Ok((!says_nothing).then_some(body))
    }

    fn call(&self, call: &'a CallPart) -> CallBody<'a> {
        let text = call.arguments.json();
        let arguments = match serde_json::from_str::<&RawValue>(text) {
            _ if call.input != InputKind::Json => Arguments::Text { input: call.arguments.as_str() },
            Ok(value) if value.get().starts_with('{') => Arguments::Object(value),
            Ok(input) => Arguments::Value { input },
            Err(_) => Arguments::Text { input: text },
        };
        CallBody { id: self.id(&call.id), function: Function { name: &call.name, arguments } }
    }

    fn user(
        &self,
        message: &'a Message,
        user: &mut UserParts<'a>,
        messages: &mut Vec<MessageBody<'a>>,
    ) -> Result<(), Error> {
        if !message.parts.iter().any(|part| matches!(part, Part::Result(_))) {
            user.flush(messages);
        }
        // Between two results nothing else may stand.
        let mut own = UserParts::default();
        for part in &message.parts {
            match part {
                Part::Result(part) => messages.push(self.result(part, user)?),
                Part::Text(part) => own.text(Cow::Borrowed(&part.text)),
                Part::Image(part) => own.images.push(image(part)?),
                Part::Document(_) => return Err(Error::config("this wire takes no documents")),
                Part::Audio(_) => return Err(Error::config("this wire takes no sound")),
                Part::Opaque(part) if part.replay.data_for(WIRE).is_none() => {}
                _ => {
                    return Err(Error::config(
                        "a user's message holds text, images and results on this wire",
                    ));
                }
            }
        }
        user.texts.append(&mut own.texts);
        user.images.append(&mut own.images);
        Ok(())
    }

    /// One result. Its images wait behind the last of them.
    fn result(&self, result: &'a ResultPart, user: &mut UserParts<'a>) -> Result<MessageBody<'a>, Error> {
        let (mut texts, mut images) = (Vec::new(), Vec::new());
        for content in &result.content {
            match content {
                ResultContent::Text(text) if text.trim().is_empty() => {}
                ResultContent::Text(text) => texts.push(text.as_str()),
                ResultContent::Image(part) => images.push(image(part)?),
                ResultContent::Document(_) => return Err(Error::config("this wire takes no documents")),
                _ => return Err(Error::config("this wire does not know a piece of a result")),
            }
        }
        let said = match texts.as_slice() {
            [] if images.is_empty() => Cow::Borrowed(result.placeholder()),
            [] => Cow::Borrowed("(see the images below)"),
            [text] => Cow::Borrowed(*text),
            texts => Cow::Owned(texts.join("\n")),
        };
        // The wire has no mark for a failure.
        let content = if result.is_error { Cow::Owned(format!("Error: {said}")) } else { said };
        if !images.is_empty() {
            user.text(Cow::Owned(format!("Images from the result of `{}`:", result.name)));
            user.images.append(&mut images);
        }
        Ok(MessageBody::Tool { content, tool_name: &result.name, tool_call_id: self.id(&result.call_id) })
    }

    fn id(&self, id: &'a str) -> Option<&'a str> {
        (!id.is_empty() && !self.made_up_ids.contains(id)).then_some(id)
    }
}

/// What the user's messages in a row come to, but for results.
#[derive(Default)]
struct UserParts<'a> {
    texts: Vec<Cow<'a, str>>,
    images: Vec<&'a str>,
}

impl<'a> UserParts<'a> {
    fn text(&mut self, text: Cow<'a, str>) {
        if !text.trim().is_empty() {
            self.texts.push(text);
        }
    }

    fn flush(&mut self, messages: &mut Vec<MessageBody<'a>>) {
        let Self { mut texts, images } = std::mem::take(self);
        if texts.is_empty() && images.is_empty() {
            return;
        }
        let content = match texts.as_mut_slice() {
            [text] => std::mem::take(text),
            texts => Cow::Owned(texts.join("\n")),
        };
        messages.push(MessageBody::User { content, images });
    }
}

fn image(image: &Image) -> Result<&str, Error> {
    match &image.source {
        Source::Base64 { data, .. } => Ok(data),
        _ => Err(Error::config("an image is base64 on this wire")),
    }
}

fn tools<'a>(
    request: &'a Request,
    options: &Options,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Tool<'a>>, Error> {
    let has_tools = !request.tools.is_empty() || options.extra.contains_key("tools");
    match &request.tool_choice {
        Some(choice) if choice.is_forced() && !has_tools => {
            return Err(Error::config("the tool choice forces a call, and no tool is offered"));
        }
        Some(choice) if choice.is_forced() => {
            return Err(Error::config("this wire cannot force a call: leave the tool choice to the model"));
        }
        None | Some(ToolChoice::Auto | ToolChoice::None) => {}
        Some(_) => return Err(Error::config("this wire does not know the tool choice")),
    }
    // Without tools the server reads no call out of the model's words.
    if request.tool_choice == Some(ToolChoice::None) {
        return Ok(Vec::new());
    }
    if request.parallel_calls == Some(false) && has_tools {
        return Err(Error::config("this wire cannot forbid several calls in one turn"));
    }
    let mut tools = Vec::with_capacity(request.tools.len());
    for tool in &request.tools {
        tool.check_name()?;
        let name = tool.name.as_str();
        if tool.input != InputKind::Json {
            let words = format!("tool `{name}` is free-form, which this wire does not have");
            return Err(Error::config(words));
        }
        if tool.strict == Some(true) {
            let words = format!("this wire cannot hold the model to the schema of `{name}`");
            warnings.push(Warning::new("strict", words));
        }
        let function = FunctionTool { name, description: &tool.description, parameters: tool.schema() };
        tools.push(Tool { kind: "function", function });
    }
    Ok(tools)
}

fn format<'a>(
    request: &'a Request,
    options: &Options,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Format<'a>>, Error> {
    let Some(output) = &request.output_schema else {
        return Ok(options.json_object.then_some(Format::Word("json")));
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
    Ok(Some(Format::Schema(&output.schema)))
}

fn think(effort: ReasoningEffort, warnings: &mut Vec<Warning>) -> Think {
    let mut nearest = |word| {
        let words = format!("the nearest effort that this wire knows is `{word}`");
        warnings.push(Warning::new("reasoning", words));
        Think::Effort(word)
    };
    match effort {
        ReasoningEffort::None => Think::Switch(false),
        ReasoningEffort::Minimal => nearest("low"),
        ReasoningEffort::XHigh => nearest("max"),
        effort => Think::Effort(effort.as_str()),
    }
}

/// The body's `options`; `None` if there are none.
fn model_options(request: &Request, options: &Options) -> Result<Option<RawJson>, Error> {
    let own = ModelOptions {
        num_ctx: options.num_ctx,
        num_predict: request.max_tokens,
        temperature: request.temperature,
        top_p: request.top_p,
        top_k: options.top_k,
        min_p: options.min_p,
        seed: options.seed,
        repeat_penalty: options.repeat_penalty,
        stop: &request.stop,
    };
    let refuse = |error| Error::config("the model's options cannot be written as JSON").with_source(error);
    let own = RawJson::of(&own).map_err(refuse)?;
    let fields: RawFields<'_> = serde_json::from_str(own.as_str()).map_err(refuse)?;
    if let Some((name, _)) = fields.0.iter().find(|(name, _)| options.model_options.contains_key(&**name)) {
        return Err(Error::config(format!("the model option `{name}` is one that the request itself sets")));
    }
    let all = own.with_fields(&options.model_options).expect("its fields were read, so that it is an object");
    Ok(Some(all).filter(|all| all.as_str() != "{}"))
}

#[cfg(test)]
mod tests;
