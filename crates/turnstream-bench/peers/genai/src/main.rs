//! genai on all four wires.

use std::{process::ExitCode, rc::Rc};

use futures_util::StreamExt;
use genai::{
    Client, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{ChatMessage, ChatRequest, ChatStreamEvent},
    resolver::{AuthData, Endpoint, ServiceTargetResolver},
};
use turnstream_bench::{
    BenchWire,
    harness::{self, Ask, Seen},
};

fn main() -> ExitCode {
    harness::main("genai", |_, wire, base_url| {
        let kind = match wire {
            BenchWire::Anthropic => AdapterKind::Anthropic,
            BenchWire::OpenAiChat => AdapterKind::OpenAI,
            BenchWire::OpenAiResponses => AdapterKind::OpenAIResp,
            BenchWire::Gemini => AdapterKind::Gemini,
            _ => return Err("not measured on this wire".into()),
        };
        let base_url = format!("{base_url}/v1/");
        let resolver = ServiceTargetResolver::from_resolver_fn(
            move |target: ServiceTarget| -> Result<ServiceTarget, genai::resolver::Error> {
                Ok(ServiceTarget {
                    endpoint: Endpoint::from_owned(base_url.clone()),
                    auth: AuthData::from_single("none"),
                    model: ModelIden::new(kind, target.model.model_name),
                })
            },
        );
        let client = Client::builder().with_service_target_resolver(resolver).build()?;
        let request = ChatRequest::new(vec![ChatMessage::user("Where is it?")]);
        let ask: Ask = Rc::new(move |seen: Rc<Seen>| {
            let (client, request) = (client.clone(), request.clone());
            Box::pin(async move {
                let mut events = client.exec_chat_stream("model", request, None).await?.stream;
                let mut before = 0;
                while let Some(event) = events.next().await {
                    match event? {
                        ChatStreamEvent::Chunk(chunk) => seen.event(chunk.content.len()),
                        // Each brings the whole call so far, on Chat Completions a fragment, on Gemini a value.
                        ChatStreamEvent::ToolCallChunk(chunk) => {
                            let bytes = chunk.tool_call.fn_arguments.as_str().map_or(0, str::len);
                            let is_fragment = wire == BenchWire::OpenAiChat || bytes < before;
                            seen.event(if is_fragment { bytes } else { bytes - before });
                            before = bytes;
                        }
                        _ => {}
                    }
                }
                Ok(())
            })
        });
        Ok(ask)
    })
}
