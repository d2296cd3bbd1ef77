//! A [`Request`] as the body of `POST /model/{id}/converse-stream`.

mod body;
mod media;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use turnstream_core::{
    CallPart, Endpoint, Error, IdForm, InputKind, Part, RawJson, ReasoningEffort, ReasoningPart, Request,
    ResultContent, ResultPart, Role, TextPart, ToolChoice, Warning, WireRequest,
};

use crate::{Bedrock, CachePoint, Options, Profile, WIRE};
use body::{
    Block, Body, CacheMark, Choice, Empty, GuardrailConfig, InferenceConfig, Input, InputSchema, JsonSchema,
    Kind, Latency, Message, Named, Offered, OutputConfig, Reasoning, ReasoningText, Structure, SystemBlock,
    TextFormat, ToolConfig, ToolResult, ToolSpecification, ToolUse, Written,
};
use media::DocumentNames;

/// Writes the HTTP request for one turn.
pub(crate) fn encode(wire: &Bedrock, request: &Request) -> Result<WireRequest, Error> {
    let options: Options = request.options_of()?;
    let mut warnings = Vec::new();
    let effort = effort(request, &options, &mut warnings)?;
    let output_config = OutputConfig { text_format: text_format(request, &mut warnings), effort };
    let model_fields = model_fields(wire.model_profile(), request, &options, effort, &mut warnings)?;
    let mut history =
        History { wire, call_id: wire.model_profile().call_id(), names: DocumentNames::default() };
    let mut messages = history.messages(request)?;
    if options.cache_points.contains(&CachePoint::Messages)
        && let Some(last) = messages.iter_mut().rfind(|message| message.role == Role::User)
    {
        last.content.push(Block::Ours(Written::CachePoint(cache_mark(&options))));
    }
    let inference_config = InferenceConfig {
        max_tokens: request.max_tokens,
        temperature: request.temperature,
        top_p: request.top_p,
        stop_sequences: &request.stop,
    };
    let body = Body {
        messages,
        system: system(request, &options),
        inference_config: Some(inference_config).filter(|config| !config.is_empty()),
        tool_config: tool_config(request, &options)?,
        output_config: Some(output_config)
            .filter(|config| config.effort.is_some() || config.text_format.is_some()),
        guardrail_config: options.guardrail.as_ref().map(|guardrail| GuardrailConfig {
            guardrail_identifier: &guardrail.id,
            guardrail_version: &guardrail.version,
            trace: guardrail.trace.as_deref(),
            stream_processing_mode: guardrail.mode.as_deref(),
        }),
        performance_config: options.latency.as_deref().map(|latency| Latency { latency }),
        service_tier: options.service_tier.as_deref().map(|kind| Kind { kind }),
        additional_model_request_fields: model_fields,
        additional_model_response_field_paths: &options.response_fields,
        prompt_variables: options
            .prompt_variables
            .iter()
            .map(|(name, text)| (name.as_str(), SystemBlock::Text(text)))
            .collect(),
        request_metadata: &request.metadata,
    };
    let path = format!("model/{}/converse-stream", Endpoint::segment(&wire.model)?);
    let accept = [("accept", "application/vnd.amazon.eventstream")];
    Ok(wire.address()?.post_with(&path, &accept, &body, &options.extra)?.with_warnings(warnings))
}

/// The conversation on its way out.
struct History<'a> {
    wire: &'a Bedrock,
    call_id: IdForm,
    names: DocumentNames,
}

impl<'a> History<'a> {
    /// The messages, roles alternating. Results come first in a user's message.
    fn messages(&mut self, request: &'a Request) -> Result<Vec<Message<'a>>, Error> {
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
            && let Some(Block::Ours(Written::Text(text))) = last.content.last_mut()
        {
            *text = text.trim_end();
        }
        Ok(messages)
    }

    fn block(&mut self, role: Role, part: &'a Part) -> Result<Option<Block<'a>>, Error> {
        let misplaced = |what| Err(Error::config(format!("{what} cannot stand in a message of this role")));
        let written = match (part, role) {
            (Part::Text(text) | Part::Refusal(text), _) if text.text.trim().is_empty() => return Ok(None),
            (Part::Text(text) | Part::Refusal(text), _) => written_text(text),
            (Part::Image(image), Role::User) => media::image(image)?,
            (Part::Image(_), _) => return misplaced("an image"),
            (Part::Document(document), Role::User) => media::document(document, &mut self.names)?,
            (Part::Document(_), _) => return misplaced("a document"),
            (Part::Audio(audio), Role::User) => media::audio(audio)?,
            (Part::Audio(_), _) => return misplaced("sound"),
            (Part::Reasoning(reasoning), Role::Assistant) => match self.reasoning(reasoning) {
                Some(written) => written,
                None => return Ok(None),
            },
            (Part::Reasoning(_), _) => return Ok(None),
            (Part::Call(call), Role::Assistant) => self.tool_use(call),
            (Part::Call(_), _) => return misplaced("a call"),
            (Part::Result(result), Role::User) => self.tool_result(result)?,
            (Part::Result(_), _) => return misplaced("a result"),
            (Part::Opaque(opaque), _) => return Ok(opaque.replay.data_for(WIRE).map(Block::Theirs)),
            _ => return Err(Error::config("this wire does not know a part of the conversation")),
        };
        Ok(Some(Block::Ours(written)))
    }

    fn reasoning(&self, reasoning: &'a ReasoningPart) -> Option<Written<'a>> {
        #[derive(Deserialize)]
        struct Signed {
            signature: Option<String>,
        }
        let Signed { signature } =
            reasoning.replay.as_ref().and_then(|replay| replay.data_for(WIRE))?.read().ok()?;
        let may_go = self.wire.unsigned_reasoning || signature.is_some();
        may_go.then_some(Written::ReasoningContent(Reasoning {
            reasoning_text: ReasoningText { text: &reasoning.text, signature },
        }))
    }

    fn tool_use(&self, call: &'a CallPart) -> Written<'a> {
        let text = call.arguments.json();
        let input = match serde_json::from_str::<&RawValue>(text) {
            _ if call.input != InputKind::Json => Input::Text { input: call.arguments.as_str() },
            Ok(value) if value.get().starts_with('{') => Input::Object(value),
            Ok(input) => Input::Value { input },
            Err(_) => Input::Text { input: text },
        };
        let (tool_use_id, name) = (self.call_id.fit(&call.id), IdForm::TOOL_NAME.fit(&call.name));
        Written::ToolUse(ToolUse { tool_use_id, name, input })
    }

    fn tool_result(&mut self, result: &'a ResultPart) -> Result<Written<'a>, Error> {
        let mut content = Vec::new();
        for piece in &result.content {
            content.push(match piece {
                ResultContent::Text(text) if text.trim().is_empty() => continue,
                ResultContent::Text(text) => Written::Text(text),
                ResultContent::Image(image) => media::image(image)?,
                ResultContent::Document(document) => media::document(document, &mut self.names)?,
                _ => return Err(Error::config("this wire does not know a piece of a result")),
            });
        }
        if content.is_empty() {
            content.push(Written::Text(result.placeholder()));
        }
        // Some models refuse the word for a success.
        let status = result.is_error.then_some("error");
        Ok(Written::ToolResult(ToolResult {
            tool_use_id: self.call_id.fit(&result.call_id),
            content,
            status,
        }))
    }
}

/// A text, together with its sources where it has them.
fn written_text(text: &TextPart) -> Written<'_> {
    #[derive(Deserialize)]
    struct Cited {
        citations: RawJson,
    }
    let cited =
        text.replay.as_ref().and_then(|replay| replay.data_for(WIRE)).and_then(|data| data.read().ok());
    match cited {
        Some(Cited { citations }) => {
            Written::CitationsContent { content: [SystemBlock::Text(&text.text)], citations }
        }
        None => Written::Text(&text.text),
    }
}

fn system<'a>(request: &'a Request, options: &Options) -> Vec<SystemBlock<'a>> {
    let texts = request.system.iter().filter(|text| !text.trim().is_empty());
    let mut system: Vec<SystemBlock<'_>> = texts.map(|text| SystemBlock::Text(text)).collect();
    if options.cache_points.contains(&CachePoint::System) && !system.is_empty() {
        system.push(SystemBlock::CachePoint(cache_mark(options)));
    }
    system
}

fn tool_config<'a>(request: &'a Request, options: &'a Options) -> Result<Option<ToolConfig<'a>>, Error> {
    let parts = || request.conversation.messages().iter().flat_map(|message| &message.parts);
    let has_calls = parts().any(|part| matches!(part, Part::Call(_) | Part::Result(_)));
    let brings_tools = options.extra.contains_key("toolConfig");
    let is_forbidden = request.tool_choice == Some(ToolChoice::None);
    if is_forbidden && has_calls && !brings_tools {
        return Err(Error::config(
            "this wire cannot forbid calls in a conversation that has some: leave the tool choice out",
        ));
    }
    let mut tools = Vec::new();
    if !is_forbidden {
        for tool in &request.tools {
            tool.check_name()?;
            if tool.input != InputKind::Json {
                let name = &tool.name;
                return Err(Error::config(format!(
                    "tool `{name}` is free-form, which this wire does not have"
                )));
            }
            let schema = InputSchema { json: tool.schema() };
            tools.push(Offered::ToolSpec(ToolSpecification {
                name: &tool.name,
                description: &tool.description,
                input_schema: schema,
                strict: tool.strict,
            }));
        }
        tools.extend(options.system_tools.iter().map(|name| Offered::SystemTool(Named { name })));
    }
    if tools.is_empty() {
        return match &request.tool_choice {
            _ if brings_tools => Ok(None),
            Some(choice) if choice.is_forced() => {
                Err(Error::config("the tool choice forces a call, and no tool is offered"))
            }
            _ if has_calls => Err(Error::config(
                "the conversation has calls, and this wire then wants tools: offer those that were called",
            )),
            _ => Ok(None),
        };
    }
    if request.parallel_calls == Some(false) {
        return Err(Error::config(
            "this wire cannot forbid parallel calls; a model's own switch can be set with `Options::model_field`",
        ));
    }
    if options.cache_points.contains(&CachePoint::Tools) {
        tools.push(Offered::CachePoint(cache_mark(options)));
    }
    let tool_choice = match &request.tool_choice {
        None | Some(ToolChoice::None) => None,
        Some(ToolChoice::Auto) => Some(Choice::Auto(Empty {})),
        Some(ToolChoice::Required) => Some(Choice::Any(Empty {})),
        Some(ToolChoice::Tool(name))
            if !request.tools.iter().any(|tool| tool.name == *name)
                && !options.system_tools.iter().any(|tool| tool.as_str() == name.as_str()) =>
        {
            return Err(Error::config(format!("the tool choice names `{name}`, which is not offered")));
        }
        Some(ToolChoice::Tool(name)) => Some(Choice::Tool(Named { name })),
        Some(_) => return Err(Error::config("this wire does not know the tool choice")),
    };
    Ok(Some(ToolConfig { tools, tool_choice }))
}

fn effort(
    request: &Request,
    options: &Options,
    warnings: &mut Vec<Warning>,
) -> Result<Option<&'static str>, Error> {
    if let (Some(most), Some(budget)) = (request.max_tokens, options.thinking_budget)
        && budget >= most
    {
        return Err(Error::config(format!(
            "the thinking budget ({budget}) has to be less than the reply's most tokens ({most})"
        )));
    }
    Ok(match request.reasoning {
        None => None,
        Some(ReasoningEffort::None) if options.thinking_budget.is_some() => {
            return Err(Error::config("the options ask for thinking, and the request turns it off"));
        }
        Some(ReasoningEffort::None) => None,
        Some(ReasoningEffort::Minimal) => {
            warnings.push(Warning::new("reasoning", "the least effort that this wire knows is `low`"));
            Some("low")
        }
        Some(effort) => Some(effort.as_str()),
    })
}

/// What goes to the model itself: its own fields, and what switches Claude's thinking.
fn model_fields(
    profile: Profile,
    request: &Request,
    options: &Options,
    effort: Option<&str>,
    warnings: &mut Vec<Warning>,
) -> Result<BTreeMap<String, RawJson>, Error> {
    let disabled = || serde_json::json!({ "type": "disabled" });
    let is_forced = request.tool_choice.as_ref().is_some_and(ToolChoice::is_forced);
    let thinking = match (profile, options.thinking_budget) {
        (Profile::Anthropic, None) if request.reasoning == Some(ReasoningEffort::None) => Some(disabled()),
        (_, None) if request.reasoning == Some(ReasoningEffort::None) => {
            warnings
                .push(Warning::new("reasoning", "this wire has no word to turn this model's reasoning off"));
            None
        }
        (Profile::Anthropic, budget) if is_forced && (budget.is_some() || effort.is_some()) => {
            warnings
                .push(Warning::new("reasoning", "thinking is off, because the tool choice forces a call"));
            Some(disabled())
        }
        (_, Some(budget)) => Some(serde_json::json!({ "type": "enabled", "budget_tokens": budget })),
        (Profile::Anthropic, None) if effort.is_some() => Some(serde_json::json!({ "type": "adaptive" })),
        (_, None) => None,
    };
    let mut fields = options.model_fields.clone();
    if let Some(thinking) = thinking
        && fields.insert("thinking".to_owned(), thinking.into()).is_some()
    {
        return Err(Error::config("the model field `thinking` is one that the request itself sets"));
    }
    Ok(fields)
}

fn text_format<'a>(request: &'a Request, warnings: &mut Vec<Warning>) -> Option<TextFormat<'a>> {
    let output = request.output_schema.as_ref()?;
    if !output.strict {
        warnings.push(Warning::new("output_schema.strict", "this wire always holds the model to the schema"));
    }
    let (name, description) = (&*output.name, output.description.as_deref());
    let json_schema = JsonSchema { schema: output.schema.as_str(), name, description };
    Some(TextFormat { kind: "json_schema", structure: Structure { json_schema } })
}

fn cache_mark(options: &Options) -> CacheMark {
    CacheMark { kind: "default", ttl: options.cache_lifetime }
}

#[cfg(test)]
mod tests;
