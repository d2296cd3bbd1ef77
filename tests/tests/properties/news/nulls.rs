//! The members that each wire may leave out, or send as null, which is the same.

use turnstream_tests::TestedWire;

use crate::json::Json;

/// The optional members that an object at this place does not have.
pub(super) fn optional_members(wire: TestedWire, path: &str, object: &Json<'_>) -> Vec<&'static str> {
    let table = match wire {
        TestedWire::Anthropic => MESSAGES,
        TestedWire::Cohere => COHERE,
        TestedWire::Gemini => GEMINI,
        TestedWire::Ollama => OLLAMA,
        TestedWire::Bedrock => CONVERSE,
        TestedWire::OpenAiChat => CHAT,
        TestedWire::OpenAiResponses => RESPONSES,
    };
    let kind = object.get("type").and_then(Json::string).unwrap_or_default();
    let rows = table.iter().filter(|row| row.path == path && (row.kind.is_empty() || row.kind == kind));
    rows.flat_map(|row| row.members).copied().filter(|name| object.get(name).is_none()).collect()
}

struct Row {
    path: &'static str,
    /// The `type` of the object, where it decides.
    kind: &'static str,
    members: &'static [&'static str],
}

const fn row(path: &'static str, members: &'static [&'static str]) -> Row {
    Row { path, kind: "", members }
}

const fn row_of(path: &'static str, kind: &'static str, members: &'static [&'static str]) -> Row {
    Row { path, kind, members }
}

const MESSAGES: &[Row] = &[
    row("", &["usage", "error", "context_management", "message", "content_block"]),
    row(".message", &["stop_reason", "stop_sequence", "stop_details", "container", "content", "usage"]),
    row(".delta", &["stop_reason", "stop_sequence", "stop_details", "container"]),
    row_of(".delta", "text_delta", &["partial_json", "thinking", "signature", "citation"]),
    row_of(".delta", "input_json_delta", &["text", "thinking", "signature", "citation"]),
    row_of(".delta", "thinking_delta", &["text", "partial_json", "signature", "estimated_tokens"]),
    row_of(".content_block", "text", &["citations", "text"]),
    row_of(".content_block", "thinking", &["signature", "thinking"]),
    row_of(".content_block", "tool_use", &["caller", "input"]),
    row(".usage", USAGE),
    row(".message.usage", USAGE),
];

const USAGE: &[&str] = &[
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "cache_creation",
    "server_tool_use",
    "service_tier",
    "output_tokens_details",
];

const COHERE: &[Row] = &[
    row("", &["id", "index", "delta"]),
    row(".delta", &["message", "finish_reason", "usage", "error"]),
    row(".delta.message", &["role", "content", "tool_plan", "tool_calls", "citations"]),
    row(".delta.message.content", &["type", "text", "thinking"]),
    row(".delta.message.tool_calls", &["id", "type", "function"]),
    row(".delta.message.tool_calls.function", &["name", "arguments"]),
    row(".delta.message.citations", &["sources", "content_index"]),
    row(".delta.usage", &["tokens", "billed_units", "cached_tokens"]),
    row(".delta.usage.tokens", &["input_tokens", "output_tokens", "reasoning_tokens"]),
];

const GEMINI: &[Row] = &[
    row(
        "",
        &[
            "candidates",
            "usageMetadata",
            "modelVersion",
            "responseId",
            "promptFeedback",
            "createTime",
            "error",
        ],
    ),
    row(
        ".candidates[]",
        &[
            "content",
            "finishReason",
            "finishMessage",
            "index",
            "safetyRatings",
            "citationMetadata",
            "groundingMetadata",
            "urlContextMetadata",
            "logprobsResult",
            "continuationToken",
        ],
    ),
    row(".candidates[].content", &["role", "parts"]),
    row(".candidates[].content.parts[]", &["text", "thought", "thoughtSignature", "functionCall"]),
    row(".candidates[].content.parts[].functionCall", &["id", "name", "args", "partialArgs", "willContinue"]),
    row(
        ".candidates[].content.parts[].functionCall.partialArgs[]",
        &["stringValue", "numberValue", "boolValue", "willContinue"],
    ),
    row(
        ".usageMetadata",
        &[
            "promptTokenCount",
            "candidatesTokenCount",
            "thoughtsTokenCount",
            "cachedContentTokenCount",
            "toolUsePromptTokenCount",
            "totalTokenCount",
        ],
    ),
];

const OLLAMA: &[Row] = &[
    row(
        "",
        &[
            "model",
            "created_at",
            "message",
            "done",
            "done_reason",
            "prompt_eval_count",
            "eval_count",
            "total_duration",
            "logprobs",
            "error",
        ],
    ),
    row(".message", &["role", "content", "thinking", "images", "tool_calls"]),
    row(".message.tool_calls[]", &["id", "type"]),
    row(".message.tool_calls[].function", &["index", "arguments"]),
];

const CONVERSE: &[Row] = &[
    row(
        "",
        &[
            "p",
            "start",
            "delta",
            "additionalModelResponseFields",
            "trace",
            "performanceConfig",
            "serviceTier",
        ],
    ),
    row(".start", &["toolUse", "toolResult", "image"]),
    row(".start.toolUse", &["type"]),
    row(".delta", &["text", "toolUse", "reasoningContent", "citation", "toolResult", "image"]),
    row(".delta.reasoningContent", &["text", "signature", "redactedContent"]),
    row(".delta.citation", &["title", "source", "sourceContent", "location"]),
    row(
        ".usage",
        &["inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens", "cacheDetails"],
    ),
];

const CHAT: &[Row] = &[
    row("", &["usage", "error", "system_fingerprint", "service_tier", "x_groq", "object", "created"]),
    row(".choices[]", &["index", "finish_reason", "logprobs", "usage", "error", "message", "delta"]),
    row(
        ".choices[].delta",
        &[
            "role",
            "content",
            "refusal",
            "tool_calls",
            "function_call",
            "reasoning",
            "reasoning_content",
            "reasoning_text",
            "reasoning_details",
            "annotations",
            "audio",
            "images",
        ],
    ),
    row(".choices[].delta.tool_calls[]", &["index", "id", "type", "function", "custom", "extra_content"]),
    row(".choices[].delta.tool_calls[].function", &["name", "arguments"]),
    row(".choices[].delta.tool_calls[].custom", &["name", "input"]),
    row(
        ".usage",
        &["prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details"],
    ),
];

const RESPONSES: &[Row] = &[
    row(
        "",
        &[
            "output_index",
            "item_id",
            "content_index",
            "summary_index",
            "delta",
            "text",
            "refusal",
            "arguments",
            "input",
            "annotation",
            "item",
            "response",
            "error",
            "logprobs",
            "obfuscation",
        ],
    ),
    row(".response", &["error", "incomplete_details", "output", "usage", "status", "model"]),
    row(
        ".response.usage",
        &["input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details"],
    ),
    row_of(".item", "function_call", &["id", "arguments", "status", "namespace", "caller"]),
    row_of(".item", "custom_tool_call", &["id", "input", "status", "namespace", "caller"]),
    row_of(".item", "message", &["id", "status", "phase", "content"]),
    row_of(".item", "reasoning", &["id", "status", "summary", "content", "encrypted_content"]),
];
