//! A [`Request`] as the body of `models/...:streamGenerateContent`.

mod history;

use std::collections::BTreeMap;

use serde::Serialize;
use turnstream_core::{
    Endpoint, Error, InputKind, RawJson, ReasoningEffort, Request, ToolChoice, ToolSpec, Warning, WireRequest,
};

use crate::{Gemini, Options};
use history::{Content, History};

/// Writes the HTTP request for one turn.
pub(crate) fn encode(wire: &Gemini, request: &Request) -> Result<WireRequest, Error> {
    let options: Options = request.options_of()?;
    let mut warnings = Vec::new();
    let system: Vec<SystemPart<'_>> = request
        .system
        .iter()
        .filter(|text| !text.trim().is_empty())
        .map(|text| SystemPart { text })
        .collect();
    let body = Body {
        contents: History::new(wire, request).contents(request, &mut warnings)?,
        system_instruction: (!system.is_empty()).then_some(SystemInstruction { parts: system }),
        tools: tools(request, &options)?,
        tool_config: tool_config(wire, request, &options)?,
        generation_config: generation_config(wire, request, &options, &mut warnings)?,
        safety_settings: options
            .safety
            .iter()
            .map(|(category, threshold)| SafetySetting { category, threshold })
            .collect(),
        cached_content: options.cached_content.as_deref(),
        labels: labels(wire, request, &mut warnings),
    };
    let path = format!("{}:streamGenerateContent", model_path(&wire.model)?);
    let mut sent = wire.endpoint.post_with(&path, &[], &body, &options.extra)?;
    if !sent.url.query_pairs().any(|(name, _)| name == "alt") {
        sent.url.query_pairs_mut().append_pair("alt", "sse");
    }
    Ok(sent.with_warnings(warnings))
}

/// A model's name as a path below the base URL: `models/m`, or its own collection, as in `tunedModels/m`.
fn model_path(model: &str) -> Result<String, Error> {
    let segments: Vec<String> = model.split('/').map(Endpoint::segment).collect::<Result<_, _>>()?;
    let path = segments.join("/");
    Ok(if segments.len() == 1 { format!("models/{path}") } else { path })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<SystemInstruction<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<RawJson>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    safety_settings: Vec<SafetySetting<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<&'a BTreeMap<String, String>>,
}

#[derive(Serialize)]
struct SystemInstruction<'a> {
    parts: Vec<SystemPart<'a>>,
}

#[derive(Serialize)]
struct SystemPart<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    #[serde(rename_all = "camelCase")]
    Client {
        function_declarations: Vec<Function<'a>>,
    },
    Server(&'a RawJson),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<&'a RawJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    function_calling_config: Calling<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Calling<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed_function_names: Vec<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream_function_call_arguments: bool,
}

#[derive(Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    response_modalities: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

#[derive(Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    include_thoughts: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<i64>,
}

#[derive(Serialize)]
struct SafetySetting<'a> {
    category: &'a str,
    threshold: &'a str,
}

fn tools<'a>(request: &'a Request, options: &'a Options) -> Result<Vec<Tool<'a>>, Error> {
    let mut functions = Vec::new();
    for tool in &request.tools {
        tool.check_name()?;
        if tool.input != InputKind::Json {
            let words = format!("tool `{}` is free-form, which this wire does not have", tool.name);
            return Err(Error::config(words));
        }
        let ToolSpec { name, description, parameters, .. } = tool;
        functions.push(Function { name, description, parameters_json_schema: parameters.as_ref() });
    }
    let client = (!functions.is_empty()).then_some(Tool::Client { function_declarations: functions });
    Ok(client.into_iter().chain(options.server_tools.iter().map(Tool::Server)).collect())
}

fn tool_config<'a>(
    wire: &Gemini,
    request: &'a Request,
    options: &Options,
) -> Result<Option<ToolConfig<'a>>, Error> {
    if options.stream_arguments && !wire.profile.row().is_vertex {
        let words =
            "arguments can be streamed at Vertex AI only: leave `stream_arguments` out, or take its profile";
        return Err(Error::config(words));
    }
    if request.tools.is_empty() {
        return match &request.tool_choice {
            Some(choice) if choice.is_forced() => {
                Err(Error::config("the tool choice forces a call, and no tool is offered"))
            }
            _ => Ok(None),
        };
    }
    if request.parallel_calls == Some(false) && request.tool_choice != Some(ToolChoice::None) {
        return Err(Error::config("this wire cannot forbid several calls in one turn"));
    }
    let is_strict = request.tools.iter().any(|tool| tool.strict == Some(true));
    let (mode, allowed_function_names) = match &request.tool_choice {
        Some(ToolChoice::Auto) | None if is_strict => (Some("VALIDATED"), Vec::new()),
        Some(ToolChoice::Auto) => (Some("AUTO"), Vec::new()),
        Some(ToolChoice::None) => (Some("NONE"), Vec::new()),
        Some(ToolChoice::Required) => (Some("ANY"), Vec::new()),
        Some(ToolChoice::Tool(name)) if !request.tools.iter().any(|tool| tool.name == *name) => {
            return Err(Error::config(format!("the tool choice names `{name}`, which is not offered")));
        }
        Some(ToolChoice::Tool(name)) => (Some("ANY"), vec![name.as_str()]),
        Some(_) => return Err(Error::config("this wire does not know the tool choice")),
        None => (None, Vec::new()),
    };
    let calling =
        Calling { mode, allowed_function_names, stream_function_call_arguments: options.stream_arguments };
    let says_something = calling.mode.is_some() || calling.stream_function_call_arguments;
    Ok(says_something.then_some(ToolConfig { function_calling_config: calling }))
}

fn generation_config(
    wire: &Gemini,
    request: &Request,
    options: &Options,
    warnings: &mut Vec<Warning>,
) -> Result<Option<RawJson>, Error> {
    if let Some(output) = &request.output_schema {
        if output.description.is_some() {
            warnings.push(Warning::new("output_schema.description", "this wire has no place for it"));
        }
        if !output.strict {
            let words = "this wire always holds the model to the schema";
            warnings.push(Warning::new("output_schema.strict", words));
        }
    }
    let schema = request.output_schema.as_ref().map(|output| &output.schema);
    let config = GenerationConfig {
        temperature: request.temperature,
        top_p: request.top_p,
        top_k: options.top_k,
        max_output_tokens: request.max_tokens,
        stop_sequences: &request.stop,
        seed: options.seed,
        presence_penalty: options.presence_penalty,
        frequency_penalty: options.frequency_penalty,
        response_mime_type: schema.map(|_| "application/json"),
        response_json_schema: schema,
        response_modalities: &options.modalities,
        thinking_config: thinking(wire, request, options, warnings)?,
    };
    let refuse = |error| Error::config("the request cannot be written as JSON").with_source(error);
    let config = RawJson::of(&config).map_err(refuse)?;
    let own: BTreeMap<String, RawJson> = config.read().map_err(refuse)?;
    if let Some(name) = options.generation.keys().find(|name| own.contains_key(*name)) {
        let words = format!("the generation field `{name}` is one that the request itself sets");
        return Err(Error::config(words));
    }
    let is_empty = own.is_empty() && options.generation.is_empty();
    let config = config.with_fields(&options.generation).expect("a struct is written as an object");
    Ok((!is_empty).then_some(config))
}

fn thinking(
    wire: &Gemini,
    request: &Request,
    options: &Options,
    warnings: &mut Vec<Warning>,
) -> Result<Option<ThinkingConfig>, Error> {
    let has_levels = wire.series().is_some_and(|series| series >= 3);
    let mut warn = |words| warnings.push(Warning::new("reasoning", words));
    let (thinking_level, thinking_budget) = match (request.reasoning, options.thinking_budget) {
        (Some(_), Some(_)) => {
            return Err(Error::config("a thinking budget and a reasoning effort exclude each other"));
        }
        (None, budget) => (None, budget),
        (Some(effort), None) if has_levels => {
            let level = match effort {
                ReasoningEffort::None => {
                    warn("this model always thinks; the least that it knows is `MINIMAL`");
                    "MINIMAL"
                }
                ReasoningEffort::Minimal => "MINIMAL",
                ReasoningEffort::Low => "LOW",
                ReasoningEffort::Medium => "MEDIUM",
                ReasoningEffort::High => "HIGH",
                ReasoningEffort::XHigh => "XHIGH",
                _ => {
                    warn("the most that this wire knows is `XHIGH`");
                    "XHIGH"
                }
            };
            (Some(level), None)
        }
        (Some(effort), None) => {
            let budget = match effort {
                ReasoningEffort::None => 0,
                ReasoningEffort::Minimal | ReasoningEffort::Low => 1024,
                ReasoningEffort::Medium => 8192,
                ReasoningEffort::High => 24_576,
                _ => {
                    warn("the most that this model knows is a budget of 24,576 tokens");
                    24_576
                }
            };
            (None, Some(budget))
        }
    };
    // Nobody asks for reasoning without wanting to see it, and it does not come unasked.
    let is_wanted = thinking_level.is_some() || thinking_budget.is_some_and(|budget| budget != 0);
    let include_thoughts = options.include_thoughts.or(is_wanted.then_some(true));
    let config = ThinkingConfig { include_thoughts, thinking_level, thinking_budget };
    let says_something = config.include_thoughts.is_some() || config.thinking_budget.is_some();
    Ok(says_something.then_some(config))
}

fn labels<'a>(
    wire: &Gemini,
    request: &'a Request,
    warnings: &mut Vec<Warning>,
) -> Option<&'a BTreeMap<String, String>> {
    if wire.profile.row().is_vertex {
        return Some(&request.metadata).filter(|labels| !labels.is_empty());
    }
    for name in request.metadata.keys() {
        warnings.push(Warning::new(format!("metadata.{name}"), "only Vertex AI takes labels"));
    }
    None
}

#[cfg(test)]
mod tests;
