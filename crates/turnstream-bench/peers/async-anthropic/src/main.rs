//! async-anthropic on Messages.

use std::{process::ExitCode, rc::Rc};

use async_anthropic::{
    Client,
    types::{
        ContentBlockDelta, CreateMessagesRequestBuilder, MessageBuilder, MessageRole, MessagesStreamEvent,
    },
};
use futures_util::StreamExt;
use turnstream_bench::{
    BenchWire,
    harness::{self, Ask, Seen},
};

fn main() -> ExitCode {
    harness::main("async-anthropic", |_, wire, base_url| {
        if wire != BenchWire::Anthropic {
            return Err("it speaks Messages only".into());
        }
        let client = Client::builder().base_url(base_url).api_key("none").version("2023-06-01").build()?;
        let message = MessageBuilder::default().role(MessageRole::User).content("Where is it?").build()?;
        let request =
            CreateMessagesRequestBuilder::default().model("model").messages(vec![message]).build()?;
        let ask: Ask = Rc::new(move |seen: Rc<Seen>| {
            let (client, request) = (client.clone(), request.clone());
            Box::pin(async move {
                let mut events = client.messages().create_stream(request).await;
                while let Some(event) = events.next().await {
                    match event? {
                        MessagesStreamEvent::ContentBlockDelta { delta, .. } => seen.event(match delta {
                            ContentBlockDelta::TextDelta { text } => text.len(),
                            ContentBlockDelta::InputJsonDelta { partial_json } => partial_json.len(),
                        }),
                        MessagesStreamEvent::MessageStop => break,
                        _ => {}
                    }
                }
                Ok(())
            })
        });
        Ok(ask)
    })
}
