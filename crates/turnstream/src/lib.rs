#![doc = include_str!("../../../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "anthropic")]
pub use turnstream_anthropic as anthropic;
#[cfg(feature = "bedrock")]
pub use turnstream_bedrock as bedrock;
#[cfg(feature = "cohere")]
pub use turnstream_cohere as cohere;
#[cfg(feature = "gemini")]
pub use turnstream_gemini as gemini;
#[cfg(feature = "ollama")]
pub use turnstream_ollama as ollama;
#[cfg(feature = "openai-chat")]
pub use turnstream_openai_chat as openai_chat;
#[cfg(feature = "openai-responses")]
pub use turnstream_openai_responses as openai_responses;

pub use turnstream_core::{
    AbortReason, AbortedCall, ArgumentFragment, Arguments, Audio, CallAborted, CallArgumentFragment,
    CallFinished, CallIndex, CallPart, CallPreview, CallStarted, Citation, Conversation, Document, Error,
    ErrorKind, Event, Fallback, FinishedCall, Head, Image, InputKind, KeyHeader, Limits, Message, Model,
    OpaquePart, OutputSchema, Part, PartFinished, PartIndex, PreviewKind, PreviewValue, ProviderEvent,
    RawJson, Reason, ReasoningDelta, ReasoningEffort, ReasoningPart, RefusalDelta, Replay, Request,
    ResultContent, ResultPart, Role, Source, Text, TextDelta, TextPart, TextStream, ToolChoice, ToolSpec,
    Turn, TurnBuilder, TurnError, TurnFinished, TurnSource, TurnStarted, TurnStream, Usage, Warning,
    WireOptions,
};
#[cfg(feature = "aws-sdk")]
pub use turnstream_http::AwsSdk;
#[cfg(feature = "client")]
pub use turnstream_http::{Attempt, Authorize, Bearer, BearerToken, Client, RetryPolicy, reqwest};
#[cfg(feature = "sigv4")]
pub use turnstream_http::{AwsCredentials, AwsEnvironment, ProvideAwsCredentials, SigV4};
#[cfg(all(feature = "tools", feature = "schemars"))]
pub use turnstream_tools::schemars;
#[cfg(feature = "tools")]
pub use turnstream_tools::{
    Answer, CallContext, Checkpoint, CheckpointSink, Failure, Given, HandlerFinished, HandlerProgress,
    HandlerStarted, Next, Outcome, Parameters, Progress, Run, RunEnded, RunEvent, RunStatus, Schema,
    StatusKind, Tool, ToolCall, ToolError, ToolLoop, ToolSource, Toolset, TurnEvent, TurnStep, WaitingCall,
    WaitingFor,
};

/// For those who write a wire, or have a transport of their own.
pub mod wire {
    pub use turnstream_core::{
        Announcement, BadFrame, BodyEnd, Closing, Count, Decode, Decoder, End, Endpoint, ErrorEnvelope,
        Events, Frame, FrameError, Framer, IdForm, Interpret, JsonScanner, JsonText, JsonValuesFramer, Key,
        Ledger, NdjsonDecoder, NdjsonFramer, RawFields, Rules, SseDecoder, SseFramer, SseOrJsonDecoder,
        SseOrJsonFramer, SurrogateJoiner, Wire, WireRequest, is_json, reexports, refused,
    };
}

/// The code of the page on the loop's rules, compiled.
#[cfg(all(doctest, feature = "tools", feature = "schemars"))]
#[doc = include_str!("../../../docs/tool-loop.md")]
mod tool_loop_page {}

/// The code of the page on errors, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/errors.md")]
mod errors_page {}

/// The code of the page on the transport, compiled.
#[cfg(all(doctest, feature = "client", feature = "anthropic", feature = "openai-chat"))]
#[doc = include_str!("../../../docs/transport.md")]
mod transport_page {}
