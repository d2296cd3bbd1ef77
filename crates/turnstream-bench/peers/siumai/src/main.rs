//! siumai on all three wires.

use std::{process::ExitCode, rc::Rc};

use futures_util::StreamExt;
use siumai::{
    LanguageModel, LanguageStreamEvent, ReplayDomain, ReplayDomainId, Siumai, language,
    transport::EndpointConfig,
};
use turnstream_bench::{
    BenchWire,
    harness::{self, Ask, Seen},
};

fn main() -> ExitCode {
    harness::main("siumai", |_, wire, base_url| {
        let endpoint = EndpointConfig::local_explicit(format!("{base_url}/v1"))?;
        let domain = ReplayDomain::custom(ReplayDomainId::new("bench")?);
        if wire == BenchWire::Anthropic {
            let stage = Siumai::builder().anthropic().api_key("none");
            let stage = stage.configure_provider(|provider| {
                provider.with_endpoint(endpoint).with_replay_domain(domain)
            });
            return Ok(asking(stage.build()?.language("claude-sonnet-4-5")?));
        }
        let stage = Siumai::builder().openai().api_key("none");
        let stage =
            stage.configure_provider(|provider| provider.with_endpoint(endpoint).with_replay_domain(domain));
        let hub = stage.build()?;
        Ok(match wire {
            BenchWire::OpenAiChat => asking(hub.chat_completions("gpt-5.2")?),
            BenchWire::OpenAiResponses => asking(hub.language("gpt-5.2")?),
            BenchWire::Anthropic | BenchWire::Gemini => return Err("not measured on this wire".into()),
        })
    })
}

fn asking(model: impl LanguageModel + 'static) -> Ask {
    let model = Rc::new(model);
    Rc::new(move |seen: Rc<Seen>| {
        let model = model.clone();
        Box::pin(async move {
            let mut events = language::stream(&*model, "Where is it?").await?;
            while let Some(event) = events.next().await {
                match event? {
                    LanguageStreamEvent::TextDelta { delta, .. }
                    | LanguageStreamEvent::ToolInputDelta { delta, .. } => seen.event(delta.len()),
                    _ => {}
                }
            }
            Ok(())
        })
    })
}
