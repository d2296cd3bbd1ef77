//! What the body of a request looks like.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Serialize;
use turnstream_core::RawJson;

use crate::{Grammar, Verbosity};

#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) messages: Vec<MessageBody<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) metadata: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) random_seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) logit_bias: &'a BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service_tier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verbosity: Option<Verbosity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) safety_identifier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<&'a str>,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub(super) enum MessageBody<'a> {
    System {
        content: Cow<'a, str>,
    },
    Developer {
        content: Cow<'a, str>,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Content<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        refusal: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        reasoning_details: Vec<RawJson>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<CallBody<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<Cow<'a, str>>,
        content: Cow<'a, str>,
    },
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ContentPart<'a>>),
    Null,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentPart<'a> {
    Text {
        text: Cow<'a, str>,
    },
    ImageUrl {
        image_url: Url<'a>,
    },
    InputAudio {
        input_audio: InputAudio<'a>,
    },
    File {
        file: FileBody<'a>,
    },
    /// Mistral's.
    DocumentUrl {
        document_url: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        document_name: Option<&'a str>,
    },
    /// Mistral's.
    Thinking {
        thinking: [ThinkingText<'a>; 1],
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<RawJson>,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct Url<'a> {
    pub(super) url: Cow<'a, str>,
}

#[derive(Debug, Serialize)]
pub(super) struct InputAudio<'a> {
    pub(super) data: &'a str,
    pub(super) format: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct FileBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file_data: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filename: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(super) struct ThinkingText<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) text: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum CallBody<'a> {
    Function {
        id: Cow<'a, str>,
        function: FunctionBody<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        extra_content: Option<RawJson>,
    },
    Custom {
        id: Cow<'a, str>,
        custom: CustomBody<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        extra_content: Option<RawJson>,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionBody<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) arguments: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct CustomBody<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) input: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Tool<'a> {
    Function {
        function: FunctionTool<'a>,
    },
    Custom {
        custom: CustomTool<'a>,
    },
    #[serde(untagged)]
    Server(&'a RawJson),
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionTool<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    pub(super) parameters: Cow<'a, RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
}

#[derive(Debug, Serialize)]
pub(super) struct CustomTool<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) format: Option<CustomFormat<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum CustomFormat<'a> {
    Grammar { grammar: &'a Grammar },
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Choice<'a> {
    Word(&'static str),
    Function {
        #[serde(rename = "type")]
        kind: &'static str,
        function: Named<'a>,
    },
    Custom {
        #[serde(rename = "type")]
        kind: &'static str,
        custom: Named<'a>,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResponseFormat<'a> {
    JsonSchema { json_schema: JsonSchema<'a> },
    JsonObject,
}

#[derive(Debug, Serialize)]
pub(super) struct JsonSchema<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    pub(super) schema: &'a RawJson,
    pub(super) strict: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}
