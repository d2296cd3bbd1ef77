//! The body of a request, as serde writes it.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Serialize;
use serde_json::value::RawValue;
use turnstream_core::{RawJson, Role};

use crate::CacheLifetime;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    pub(super) messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system: Vec<SystemBlock<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inference_config: Option<InferenceConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) guardrail_config: Option<GuardrailConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) performance_config: Option<Latency<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service_tier: Option<Kind<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) additional_model_request_fields: BTreeMap<String, RawJson>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) additional_model_response_field_paths: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) prompt_variables: BTreeMap<&'a str, SystemBlock<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) request_metadata: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
pub(super) struct Message<'a> {
    pub(super) role: Role,
    pub(super) content: Vec<Block<'a>>,
}

/// A content block: one that we write, or one that goes back as it came.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Block<'a> {
    Ours(Written<'a>),
    Theirs(&'a RawJson),
}

/// A union: an object of one field.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Written<'a> {
    Text(&'a str),
    Image(Media<'a>),
    Document(Media<'a>),
    Audio(Media<'a>),
    ToolUse(ToolUse<'a>),
    ToolResult(ToolResult<'a>),
    ReasoningContent(Reasoning<'a>),
    CitationsContent { content: [SystemBlock<'a>; 1], citations: RawJson },
    CachePoint(CacheMark),
}

/// What stands where only a text or a mark for the cache may.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum SystemBlock<'a> {
    Text(&'a str),
    CachePoint(CacheMark),
}

#[derive(Serialize)]
pub(super) struct Media<'a> {
    pub(super) format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) source: Source<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Source<'a> {
    Bytes(&'a str),
    S3Location { uri: &'a str },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolUse<'a> {
    pub(super) tool_use_id: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) input: Input<'a>,
}

/// Arguments as the object that the wire wants.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Input<'a> {
    Object(&'a RawValue),
    Value { input: &'a RawValue },
    Text { input: &'a str },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolResult<'a> {
    pub(super) tool_use_id: Cow<'a, str>,
    pub(super) content: Vec<Written<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reasoning<'a> {
    pub(super) reasoning_text: ReasoningText<'a>,
}

#[derive(Serialize)]
pub(super) struct ReasoningText<'a> {
    pub(super) text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signature: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InferenceConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) stop_sequences: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolConfig<'a> {
    pub(super) tools: Vec<Offered<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<Choice<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Offered<'a> {
    ToolSpec(ToolSpecification<'a>),
    SystemTool(Named<'a>),
    CachePoint(CacheMark),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolSpecification<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) description: &'a str,
    pub(super) input_schema: InputSchema<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
}

#[derive(Serialize)]
pub(super) struct InputSchema<'a> {
    pub(super) json: Cow<'a, RawJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Choice<'a> {
    Auto(Empty),
    Any(Empty),
    Tool(Named<'a>),
}

#[derive(Serialize)]
pub(super) struct Empty {}

#[derive(Serialize)]
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text_format: Option<TextFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) effort: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct TextFormat<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) structure: Structure<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Structure<'a> {
    pub(super) json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
pub(super) struct JsonSchema<'a> {
    /// JSON, as a text.
    pub(super) schema: &'a str,
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GuardrailConfig<'a> {
    pub(super) guardrail_identifier: &'a str,
    pub(super) guardrail_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_processing_mode: Option<&'a str>,
}

#[derive(Serialize)]
pub(super) struct Latency<'a> {
    pub(super) latency: &'a str,
}

#[derive(Serialize)]
pub(super) struct Kind<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
}

#[derive(Serialize)]
pub(super) struct CacheMark {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ttl: Option<CacheLifetime>,
}

impl Block<'_> {
    pub(super) fn is_result(&self) -> bool {
        matches!(self, Self::Ours(Written::ToolResult(_)))
    }
}

impl InferenceConfig<'_> {
    pub(super) fn is_empty(&self) -> bool {
        let Self { max_tokens, temperature, top_p, stop_sequences } = self;
        max_tokens.is_none() && temperature.is_none() && top_p.is_none() && stop_sequences.is_empty()
    }
}
