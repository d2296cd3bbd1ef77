//! What the body of a request looks like.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use turnstream_core::RawJson;

#[derive(Serialize)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) messages: Vec<MessageBody<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) format: Option<Format<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) think: Option<Think>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) options: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) keep_alive: Option<&'a str>,
    pub(super) stream: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub(super) enum MessageBody<'a> {
    System {
        content: String,
    },
    User {
        content: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        images: Vec<&'a str>,
    },
    Assistant(AssistantBody<'a>),
    Tool {
        content: Cow<'a, str>,
        #[serde(skip_serializing_if = "str::is_empty")]
        tool_name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<&'a str>,
    },
}

#[derive(Default, Serialize)]
pub(super) struct AssistantBody<'a> {
    pub(super) content: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) thinking: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<CallBody<'a>>,
}

#[derive(Serialize)]
pub(super) struct CallBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    pub(super) function: Function<'a>,
}

#[derive(Serialize)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: Arguments<'a>,
}

/// Arguments as the object that the wire wants.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Arguments<'a> {
    Object(&'a RawValue),
    Value { input: &'a RawValue },
    Text { input: &'a str },
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
#[serde(untagged)]
pub(super) enum Format<'a> {
    Word(&'static str),
    Schema(&'a RawJson),
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Think {
    Switch(bool),
    Effort(&'static str),
}

#[derive(Serialize)]
pub(super) struct ModelOptions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) num_ctx: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) num_predict: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) min_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) repeat_penalty: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) stop: &'a [String],
}
