//! [`Request`] -> the HTTP request.

mod body;

use std::{borrow::Cow, collections::BTreeMap, sync::atomic::Ordering};

use turnstream_core::{
    Audio, CallPart, Document, Error, IdForm, Image, InputKind, Message, Part, RawJson, Request,
    ResultContent, ResultPart, Role, Source, ToolChoice, ToolSpec, Warning, WireRequest,
};

use crate::{
    OpenAiChat, Options, Row, WIRE,
    decode::{CallReplay, ReasoningReplay},
};
use body::{
    Body, CallBody, Choice, Content, ContentPart, CustomBody, CustomFormat, CustomTool, FileBody,
    FunctionBody, FunctionTool, InputAudio, JsonSchema, MessageBody, Named, ResponseFormat, StreamOptions,
    ThinkingText, Tool, Url,
};

/// The field that asks for a report of tokens, and that some servers refuse.
pub(crate) const STREAM_OPTIONS: &str = "stream_options";

/// Writes the request for one turn.
pub(crate) fn encode(wire: &OpenAiChat, request: &Request) -> Result<WireRequest, Error> {
    let row = wire.profile.row();
    let options: Options = request.options_of()?;
    let mut warnings = Vec::new();
    let (mut max_completion_tokens, mut max_tokens) = (None, request.max_tokens);
    if row.completion_limit {
        std::mem::swap(&mut max_completion_tokens, &mut max_tokens);
    }
    let (mut seed, mut random_seed) = (options.seed, None);
    if row.random_seed {
        std::mem::swap(&mut seed, &mut random_seed);
    }
    let has_tools =
        !(request.tools.is_empty() && options.server_tools.is_empty()) || options.extra.contains_key("tools");
    let usage_is_refused = wire.usage_refused.as_ref().is_some_and(|refused| refused.load(Ordering::Relaxed));
    let includes_usage = wire.include_usage.unwrap_or(row.include_usage) && !usage_is_refused;
    let body = Body {
        model: &wire.model,
        messages: messages(wire, &row, request, &options)?,
        tools: tools(request, &options, &mut warnings)?,
        tool_choice: tool_choice(request, has_tools)?,
        // Without tools there is nothing to allow or forbid, and the field is refused.
        parallel_tool_calls: request.parallel_calls.filter(|_| has_tools),
        max_completion_tokens,
        max_tokens,
        temperature: request.temperature,
        top_p: request.top_p,
        stop: &request.stop,
        reasoning_effort: request.reasoning.map(|effort| effort.as_str()),
        response_format: response_format(request, &options)?,
        metadata: &request.metadata,
        seed,
        random_seed,
        frequency_penalty: options.frequency_penalty,
        presence_penalty: options.presence_penalty,
        logit_bias: &options.logit_bias,
        service_tier: options.service_tier.as_deref(),
        store: options.store,
        verbosity: options.verbosity,
        prompt_cache_key: options.prompt_cache_key.as_deref(),
        safety_identifier: options.safety_identifier.as_deref(),
        user: options.user.as_deref(),
        stream: true,
        stream_options: includes_usage.then_some(StreamOptions { include_usage: true }),
    };
    Ok(wire.endpoint.post_with("chat/completions", &[], &body, &options.extra)?.with_warnings(warnings))
}

fn messages<'a>(
    wire: &OpenAiChat,
    row: &Row,
    request: &'a Request,
    options: &Options,
) -> Result<Vec<MessageBody<'a>>, Error> {
    let mut messages = Vec::new();
    let mut system = |content| match options.developer_role {
        true => messages.push(MessageBody::Developer { content }),
        false => messages.push(MessageBody::System { content }),
    };
    let texts = || request.system.iter().filter(|text| !text.trim().is_empty());
    if wire.join_system.unwrap_or(row.joins_system) && texts().count() > 1 {
        let texts: Vec<&str> = texts().map(String::as_str).collect();
        system(Cow::Owned(texts.join("\n\n")));
    } else {
        texts().for_each(|text| system(Cow::Borrowed(text)));
    }
    let history = request.conversation.messages();
    // Calls made since then are still being answered.
    let last_question = history.iter().rposition(|message| {
        message.role == Role::User && message.parts.iter().any(|part| !matches!(part, Part::Result(_)))
    });
    let replays_reasoning = wire.replay_reasoning.unwrap_or(row.replays_reasoning);
    let mut user = UserParts::default();
    for (number, message) in history.iter().enumerate() {
        match message.role {
            Role::Assistant => {
                user.flush(&mut messages);
                let is_open = last_question.is_none_or(|question| number > question);
                messages.extend(assistant(row, replays_reasoning && is_open, message)?);
            }
            _ => user.message(row, message, &mut messages)?,
        }
    }
    user.flush(&mut messages);
    Ok(messages)
}

/// The model's message; `None` if nothing is left of it.
fn assistant<'a>(
    row: &Row,
    replays_reasoning: bool,
    message: &'a Message,
) -> Result<Option<MessageBody<'a>>, Error> {
    let (mut text, mut refusal) = (Cow::Borrowed(""), Cow::Borrowed(""));
    let mut thinking: Vec<ContentPart<'_>> = Vec::new();
    let mut reasoning = Cow::Borrowed("");
    let mut reasoning_details = Vec::new();
    let mut tool_calls = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text(part) if part.text.trim().is_empty() => {}
            Part::Text(part) => text += part.text.as_str(),
            Part::Refusal(part) if row.refusal_field => refusal += part.text.as_str(),
            Part::Refusal(part) => text += part.text.as_str(),
            Part::Reasoning(part) => {
                let data = part.replay.as_ref().map(|replay| replay.data_for(WIRE));
                if data == Some(None) {
                    continue;
                }
                reasoning += part.text.as_str();
                let replay = reasoning_replay(data.flatten())?;
                reasoning_details.extend(replay.reasoning_details);
                if let Some(own) = replay.thinking {
                    let thinking_text = [ThinkingText { kind: "text", text: &part.text }];
                    thinking
                        .push(ContentPart::Thinking { thinking: thinking_text, signature: own.signature });
                }
            }
            Part::Opaque(part) => {
                let replay = reasoning_replay(part.replay.data_for(WIRE))?;
                reasoning_details.extend(replay.reasoning_details);
            }
            Part::Call(part) => tool_calls.push(call(row, part)?),
            _ => return Err(Error::config("a model's message holds text, reasoning and calls on this wire")),
        }
    }
    if text.is_empty() && refusal.is_empty() && tool_calls.is_empty() {
        return Ok(None);
    }
    // DeepSeek asks for the field on every turn with calls, even if it says nothing.
    let reasoning_content =
        (replays_reasoning && !(reasoning.is_empty() && tool_calls.is_empty())).then_some(reasoning);
    let content = if row.thinking_parts && !thinking.is_empty() {
        if !text.is_empty() {
            thinking.push(ContentPart::Text { text });
        }
        Content::Parts(thinking)
    } else if text.is_empty() {
        Content::Null
    } else {
        Content::Text(text)
    };
    if !row.takes_extras {
        reasoning_details.clear();
    }
    let refusal = Some(refusal).filter(|refusal| !refusal.is_empty());
    Ok(Some(MessageBody::Assistant { content, refusal, reasoning_content, reasoning_details, tool_calls }))
}

fn call<'a>(row: &Row, call: &'a CallPart) -> Result<CallBody<'a>, Error> {
    let (id, name) = (id(row, &call.id), IdForm::TOOL_NAME.fit(&call.name));
    let data = call.replay.as_ref().and_then(|replay| replay.data_for(WIRE)).filter(|_| row.takes_extras);
    let extra_content = match data {
        Some(data) => read::<CallReplay>(data)?.extra_content,
        None => None,
    };
    Ok(match call.input {
        InputKind::Text => {
            let custom = CustomBody { name, input: call.arguments.as_str() };
            CallBody::Custom { id, custom, extra_content }
        }
        _ => {
            let function = FunctionBody { name, arguments: call.arguments.json() };
            CallBody::Function { id, function, extra_content }
        }
    })
}

/// What the user's messages in a row come to: results at once, everything else behind the last of them.
#[derive(Debug, Default)]
struct UserParts<'a> {
    waiting: Vec<ContentPart<'a>>,
}

impl<'a> UserParts<'a> {
    fn message(
        &mut self,
        row: &Row,
        message: &'a Message,
        messages: &mut Vec<MessageBody<'a>>,
    ) -> Result<(), Error> {
        if !message.parts.iter().any(|part| matches!(part, Part::Result(_))) {
            self.flush(messages);
        }
        let mut parts = Vec::new();
        for part in &message.parts {
            match part {
                Part::Result(part) => messages.push(self.result(row, part)?),
                Part::Text(part) if part.text.trim().is_empty() => {}
                Part::Text(part) => parts.push(ContentPart::Text { text: Cow::Borrowed(&part.text) }),
                Part::Image(part) => parts.push(image(part)?),
                Part::Document(part) => parts.push(document(row, part)?),
                Part::Audio(part) => parts.push(audio(part)?),
                Part::Opaque(part) if part.replay.data_for(WIRE).is_none() => {}
                _ => {
                    return Err(Error::config(
                        "a user's message holds text, images, files, sound and results on this wire",
                    ));
                }
            }
        }
        self.waiting.extend(parts);
        Ok(())
    }

    /// One result. Its images and files wait: between two results nothing else may stand.
    fn result(&mut self, row: &Row, result: &'a ResultPart) -> Result<MessageBody<'a>, Error> {
        let mut texts: Vec<&str> = Vec::new();
        let mut attached = Vec::new();
        for content in &result.content {
            match content {
                ResultContent::Text(text) if text.trim().is_empty() => {}
                ResultContent::Text(text) => texts.push(text),
                ResultContent::Image(part) => attached.push(image(part)?),
                ResultContent::Document(part) => attached.push(document(row, part)?),
                _ => return Err(Error::config("a result holds text, images and documents on this wire")),
            }
        }
        let said = match texts.as_slice() {
            [text] => Cow::Borrowed(*text),
            texts => Cow::Owned(texts.join("\n")),
        };
        let content = match (said.as_ref(), result.is_error) {
            ("", false) if !attached.is_empty() => Cow::Borrowed("(see the next message)"),
            ("", false) => Cow::Borrowed(result.placeholder()),
            ("", true) => Cow::Owned(format!("Error: {}", result.placeholder())),
            (said, true) => Cow::Owned(format!("Error: {said}")),
            (_, false) => said,
        };
        let tool_call_id = id(row, &result.call_id);
        if !attached.is_empty() {
            let label = format!("From the result of the call {tool_call_id}:");
            self.waiting.push(ContentPart::Text { text: Cow::Owned(label) });
            self.waiting.extend(attached);
        }
        let is_named = row.names_results && !result.name.is_empty();
        let name = is_named.then(|| IdForm::TOOL_NAME.fit(&result.name));
        Ok(MessageBody::Tool { tool_call_id, name, content })
    }

    fn flush(&mut self, messages: &mut Vec<MessageBody<'a>>) {
        let mut parts = std::mem::take(&mut self.waiting);
        let content = match parts.as_mut_slice() {
            [] => return,
            [ContentPart::Text { text }] => Content::Text(std::mem::take(text)),
            _ => Content::Parts(parts),
        };
        messages.push(MessageBody::User { content });
    }
}

fn image(image: &Image) -> Result<ContentPart<'_>, Error> {
    let url = image
        .source
        .address()
        .ok_or_else(|| Error::config("an image is an address or base64 on this wire"))?;
    Ok(ContentPart::ImageUrl { image_url: Url { url } })
}

fn document<'a>(row: &Row, document: &'a Document) -> Result<ContentPart<'a>, Error> {
    let name = document.name.as_deref();
    let file = match &document.source {
        Source::Base64 { .. } => FileBody {
            file_data: document.source.address(),
            file_id: None,
            // OpenAI refuses data without a name.
            filename: Some(name.unwrap_or("document.pdf")),
        },
        Source::File(id) => FileBody { file_data: None, file_id: Some(id), filename: None },
        Source::Url(url) if row.documents_by_url => {
            return Ok(ContentPart::DocumentUrl { document_url: url, document_name: name });
        }
        _ => return Err(Error::config("a document is base64 or an uploaded file on this wire")),
    };
    Ok(ContentPart::File { file })
}

fn audio(audio: &Audio) -> Result<ContentPart<'_>, Error> {
    let Source::Base64 { media_type, data } = &audio.source else {
        return Err(Error::config("sound is base64 on this wire"));
    };
    let format = match media_type.as_str() {
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        other => other.strip_prefix("audio/").unwrap_or(other),
    };
    Ok(ContentPart::InputAudio { input_audio: InputAudio { data, format } })
}

fn response_format<'a>(request: &'a Request, options: &Options) -> Result<Option<ResponseFormat<'a>>, Error> {
    Ok(match &request.output_schema {
        Some(_) if options.json_object => {
            return Err(Error::config(
                "the options ask for any JSON object, and the request for one of a schema",
            ));
        }
        Some(output) => Some(ResponseFormat::JsonSchema {
            json_schema: JsonSchema {
                name: &output.name,
                description: output.description.as_deref(),
                schema: &output.schema,
                strict: output.strict,
            },
        }),
        None => options.json_object.then_some(ResponseFormat::JsonObject),
    })
}

fn tools<'a>(
    request: &'a Request,
    options: &'a Options,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Tool<'a>>, Error> {
    if let Some(name) = options.grammars.keys().find(|name| {
        !request.tools.iter().any(|tool| tool.name == *name.as_str() && tool.input == InputKind::Text)
    }) {
        return Err(Error::config(format!(
            "there is a grammar for `{name}`, and no free-form tool of that name"
        )));
    }
    let mut tools = Vec::with_capacity(request.tools.len() + options.server_tools.len());
    for spec in &request.tools {
        tools.push(tool(spec, &options.grammars, warnings)?);
    }
    tools.extend(options.server_tools.iter().map(Tool::Server));
    Ok(tools)
}

fn tool<'a>(
    spec: &'a ToolSpec,
    grammars: &'a BTreeMap<String, crate::Grammar>,
    warnings: &mut Vec<Warning>,
) -> Result<Tool<'a>, Error> {
    spec.check_name()?;
    let name = spec.name.as_str();
    let description = Some(spec.description.as_str()).filter(|description| !description.is_empty());
    if spec.input != InputKind::Text {
        let function = FunctionTool { name, description, parameters: spec.schema(), strict: spec.strict };
        return Ok(Tool::Function { function });
    }
    if spec.parameters.is_some() {
        return Err(Error::config(format!(
            "the free-form tool `{name}` cannot have a schema; see `Options::grammar`"
        )));
    }
    if spec.strict.is_some() {
        warnings
            .push(Warning::new("strict", format!("the free-form tool `{name}` has no schema to hold to")));
    }
    let format = grammars.get(name).map(|grammar| CustomFormat::Grammar { grammar });
    Ok(Tool::Custom { custom: CustomTool { name, description, format } })
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
            Some(tool) if tool.input == InputKind::Text => {
                Choice::Custom { kind: "custom", custom: Named { name } }
            }
            Some(_) => Choice::Function { kind: "function", function: Named { name } },
            None => {
                return Err(Error::config(format!("the tool choice names `{name}`, which is not offered")));
            }
        },
        _ => return Err(Error::config("the tool choice has no word on this wire")),
    }))
}

/// A call's id as the server takes it: the same for the call and its result.
fn id<'a>(row: &Row, id: &'a str) -> Cow<'a, str> {
    if row.nine_character_ids { NINE_CHARACTERS.fit(id) } else { Cow::Borrowed(id) }
}

fn reasoning_replay(data: Option<&RawJson>) -> Result<ReasoningReplay, Error> {
    data.map_or_else(|| Ok(ReasoningReplay::default()), read)
}

fn read<T: serde::de::DeserializeOwned>(data: &RawJson) -> Result<T, Error> {
    data.read().map_err(|error| {
        Error::config("what this wire needs back of a part does not have the form that it gave it")
            .with_source(error)
    })
}

/// What Mistral takes as a call's id.
const NINE_CHARACTERS: IdForm = IdForm::new(9, 9, |letter| letter.is_ascii_alphanumeric());

#[cfg(test)]
mod tests;
