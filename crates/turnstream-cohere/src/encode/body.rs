//! What the body of a request looks like.

use std::borrow::Cow;

use serde::Serialize;
use turnstream_core::RawJson;

#[derive(Serialize)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) messages: Vec<MessageBody<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) strict_tools: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "<[RawJson]>::is_empty")]
    pub(super) documents: &'a [RawJson],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) citation_options: Option<CitationOptions<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) k: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) safety_mode: Option<&'a str>,
    pub(super) stream: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub(super) enum MessageBody<'a> {
    System { content: String },
    User { content: Content<'a> },
    Assistant(AssistantBody<'a>),
    Tool { tool_call_id: &'a str, content: Cow<'a, str> },
}

#[derive(Serialize)]
pub(super) struct AssistantBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) tool_plan: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<CallBody<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ContentPart<'a>>),
}

impl<'a> Content<'a> {
    /// One text alone is a string. `None` without parts.
    pub(super) fn of(mut parts: Vec<ContentPart<'a>>) -> Option<Self> {
        match parts.as_mut_slice() {
            [] => None,
            [ContentPart::Text { text }] => Some(Self::Text(std::mem::take(text))),
            _ => Some(Self::Parts(parts)),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentPart<'a> {
    Text { text: Cow<'a, str> },
    Thinking { thinking: &'a str },
    ImageUrl { image_url: Address<'a> },
}

#[derive(Serialize)]
pub(super) struct Address<'a> {
    pub(super) url: Cow<'a, str>,
}

#[derive(Serialize)]
pub(super) struct CallBody<'a> {
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: Function<'a>,
}

#[derive(Serialize)]
pub(super) struct Function<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) arguments: Cow<'a, str>,
}

#[derive(Serialize)]
pub(super) struct Tool<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: FunctionTool<'a>,
}

#[derive(Serialize)]
pub(super) struct FunctionTool<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) description: &'a str,
    pub(super) parameters: Cow<'a, RawJson>,
}

#[derive(Serialize)]
pub(super) struct CitationOptions<'a> {
    pub(super) mode: &'a str,
}

#[derive(Serialize)]
pub(super) struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) json_schema: Option<&'a RawJson>,
}

#[derive(Serialize)]
pub(super) struct Thinking {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token_budget: Option<u64>,
}
