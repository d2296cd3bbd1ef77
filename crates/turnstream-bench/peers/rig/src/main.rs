//! rig on all four wires.

use std::{process::ExitCode, rc::Rc};

use futures_util::StreamExt;
use rig_core::{
    completion::CompletionRequest,
    providers::{anthropic::AnthropicConfig, gemini::GeminiConfig, openai::OpenAIConfig},
    streaming::{CompletionStream, Item, StreamEvent},
};
use turnstream_bench::{
    BenchWire,
    harness::{self, Ask, Seen},
    server::AnyError,
};

fn main() -> ExitCode {
    harness::main("rig", |_, wire, base_url| {
        Ok(match wire {
            BenchWire::Anthropic => {
                let client = AnthropicConfig::new("none").with_base_url(base_url).client();
                let model = client.completion("model");
                asking(move || Ok(model.stream(CompletionRequest::new("Where is it?").max_tokens(1024))?))
            }
            BenchWire::OpenAiChat => {
                let model = OpenAIConfig::new("none").with_base_url(base_url).client().chat("model");
                asking(move || Ok(model.stream(CompletionRequest::new("Where is it?"))?))
            }
            BenchWire::OpenAiResponses => {
                let model = OpenAIConfig::new("none").with_base_url(base_url).client().responses("model");
                asking(move || Ok(model.stream(CompletionRequest::new("Where is it?"))?))
            }
            BenchWire::Gemini => {
                let model = GeminiConfig::new("none").with_base_url(base_url).client().completion("model");
                asking(move || Ok(model.stream(CompletionRequest::new("Where is it?"))?))
            }
            _ => return Err("not measured on this wire".into()),
        })
    })
}

fn asking(begin: impl Fn() -> Result<CompletionStream, AnyError> + 'static) -> Ask {
    Rc::new(move |seen: Rc<Seen>| {
        let stream = begin();
        Box::pin(async move {
            let mut stream = stream?;
            while let Some(item) = stream.next().await {
                match item? {
                    Item::Event(StreamEvent::Text { text, .. }) => seen.event(text.len()),
                    Item::Event(StreamEvent::Arguments { json, .. }) => seen.event(json.len()),
                    _ => {}
                }
            }
            Ok(())
        })
    })
}
