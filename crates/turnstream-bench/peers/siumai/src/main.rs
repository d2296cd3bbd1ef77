//! siumai on all four wires.

use std::{process::ExitCode, rc::Rc};

use futures_util::StreamExt;
use siumai::{
    GenerationConfig, LanguageModel, LanguageRequest, LanguageStreamEvent, Message, ReplayDomain,
    ReplayDomainId, Siumai, StreamTerminal, language, transport::EndpointConfig,
};
use turnstream_bench::{
    BenchWire,
    harness::{self, Ask, Seen},
};

fn main() -> ExitCode {
    harness::main("siumai", |_, wire, base_url| {
        let endpoint = EndpointConfig::local_explicit(format!("{base_url}/v1"))?;
        let domain = ReplayDomain::custom(ReplayDomainId::new("bench")?);
        Ok(match wire {
            BenchWire::Anthropic => {
                let stage = Siumai::builder().anthropic().api_key("none").configure_provider(|provider| {
                    provider.with_endpoint(endpoint).with_replay_domain(domain)
                });
                asking(stage.build()?.language("claude-sonnet-4-5")?)
            }
            BenchWire::OpenAiChat | BenchWire::OpenAiResponses => {
                let stage = Siumai::builder().openai().api_key("none").configure_provider(|provider| {
                    provider.with_endpoint(endpoint).with_replay_domain(domain)
                });
                let hub = stage.build()?;
                if wire == BenchWire::OpenAiChat {
                    asking(hub.chat_completions("gpt-5.2")?)
                } else {
                    asking(hub.language("gpt-5.2")?)
                }
            }
            BenchWire::Gemini => {
                let stage = Siumai::builder().gemini().api_key("none").configure_provider(|provider| {
                    provider.with_endpoint(endpoint).with_replay_domain(domain)
                });
                asking(stage.build()?.generate_content("gemini-2.5-pro")?)
            }
            _ => return Err("not measured on this wire".into()),
        })
    })
}

fn asking(model: impl LanguageModel + 'static) -> Ask {
    let model = Rc::new(model);
    // Messages has no request without a limit.
    let generation = GenerationConfig { max_output_tokens: Some(1024), ..Default::default() };
    let request = LanguageRequest::new(vec![Message::user("Where is it?")]).with_generation(generation);
    Rc::new(move |seen: Rc<Seen>| {
        let (model, request) = (model.clone(), request.clone());
        Box::pin(async move {
            let mut events = language::stream(&*model, request).await?;
            while let Some(event) = events.next().await {
                match event {
                    LanguageStreamEvent::TextDelta { delta, .. }
                    | LanguageStreamEvent::ToolInputDelta { delta, .. } => seen.event(delta.len()),
                    // The whole call, on Gemini without anything in front of it.
                    LanguageStreamEvent::ToolCall(_) => seen.event(0),
                    LanguageStreamEvent::Terminal(StreamTerminal::Completed { .. }) => return Ok(()),
                    LanguageStreamEvent::Terminal(StreamTerminal::Failed { error, .. }) => {
                        return Err(error.into());
                    }
                    LanguageStreamEvent::Terminal(end) => return Err(format!("it ended: {end:?}").into()),
                    _ => {}
                }
            }
            Err("it ended without a word".into())
        })
    })
}
