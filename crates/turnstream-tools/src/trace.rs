//! Spans of a run, its turns and its calls, in OpenTelemetry's words for generative models.
//!
//! What is said is not in them: the arguments and results of calls are, if the caller asks for it.

use tracing::{Span, field::Empty, info_span};
use turnstream_core::{Error, Event, Model, Usage};

use crate::{answer::Answer, error::ToolError, turns::Call};

/// A whole run.
pub(crate) fn run(model: &dyn Model) -> Span {
    info_span!(
        "invoke_agent",
        "gen_ai.operation.name" = "invoke_agent",
        "gen_ai.provider.name" = model.provider(),
        "gen_ai.request.model" = model.name(),
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "error.type" = Empty,
    )
}

/// One turn of the model.
pub(crate) fn turn(run: &Span, model: &dyn Model) -> Span {
    info_span!(
        parent: run,
        "chat",
        "otel.name" = format_args!("chat {}", model.name()),
        "otel.kind" = "client",
        "gen_ai.operation.name" = "chat",
        "gen_ai.provider.name" = model.provider(),
        "gen_ai.request.model" = model.name(),
        "gen_ai.response.id" = Empty,
        "gen_ai.response.model" = Empty,
        "gen_ai.response.finish_reasons" = Empty,
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "error.type" = Empty,
    )
}

/// One call of a handler.
pub(crate) fn call(run: &Span, call: &Call, with_content: bool) -> Span {
    info_span!(
        parent: run,
        "execute_tool",
        "otel.name" = format_args!("execute_tool {}", call.name),
        "gen_ai.operation.name" = "execute_tool",
        "gen_ai.tool.name" = call.name.as_str(),
        "gen_ai.tool.call.id" = call.id.as_str(),
        "gen_ai.tool.type" = "function",
        "gen_ai.tool.call.arguments" = with_content.then(|| call.arguments.as_str()),
        "gen_ai.tool.call.result" = Empty,
        "error.type" = Empty,
    )
}

/// What a turn's event says of it.
pub(crate) fn event(turn: &Span, event: &Event) {
    match event {
        Event::TurnStarted(started) => {
            turn.record("gen_ai.response.id", started.id.as_deref());
            turn.record("gen_ai.response.model", started.model.as_deref());
        }
        Event::TurnFinished(finished) => {
            turn.record("gen_ai.response.finish_reasons", format_args!("[\"{}\"]", finished.reason));
            usage(turn, finished.usage.as_deref().copied().unwrap_or_default());
        }
        _ => {}
    }
}

/// The tokens of a turn or of a run.
pub(crate) fn usage(span: &Span, usage: Usage) {
    span.record("gen_ai.usage.input_tokens", usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", usage.output_tokens);
}

/// The error in which a turn or a run ended.
pub(crate) fn failed(span: &Span, error: &Error) {
    span.record("error.type", error.kind().as_str());
}

/// What a handler made of its call.
pub(crate) fn answered(call: &Span, answer: &Result<Answer, ToolError>, with_content: bool) {
    let is_error = answer.as_ref().map_or(true, Answer::is_error);
    if is_error {
        call.record("error.type", "tool_error");
    }
    if with_content && !call.is_disabled() {
        let text = match answer {
            Ok(answer) => answer.texts().collect::<Vec<_>>().join("\n"),
            Err(error) => error.message().to_owned(),
        };
        call.record("gen_ai.tool.call.result", text);
    }
}
