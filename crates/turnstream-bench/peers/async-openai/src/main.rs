//! async-openai on Chat Completions and on Responses.

use std::{process::ExitCode, rc::Rc};

use async_openai::{
    Client,
    config::OpenAIConfig,
    types::{
        chat::{
            ChatCompletionRequestUserMessage, CreateChatCompletionRequest, CreateChatCompletionRequestArgs,
        },
        responses::{CreateResponse, CreateResponseArgs, ResponseStreamEvent},
    },
};
use futures_util::StreamExt;
use turnstream_bench::{
    BenchWire,
    harness::{self, Ask, Seen},
};

fn main() -> ExitCode {
    harness::main("async-openai", |_, wire, base_url| {
        let client = Client::with_config(OpenAIConfig::new().with_api_key("none").with_api_base(base_url));
        match wire {
            BenchWire::OpenAiChat => {
                let request = CreateChatCompletionRequestArgs::default()
                    .model("model")
                    .messages([ChatCompletionRequestUserMessage::from("Where is it?").into()])
                    .build()?;
                Ok(chat(client, request))
            }
            BenchWire::OpenAiResponses => {
                let request = CreateResponseArgs::default().model("model").input("Where is it?").build()?;
                Ok(responses(client, request))
            }
            _ => Err("it speaks OpenAI's wires only".into()),
        }
    })
}

fn chat(client: Client<OpenAIConfig>, request: CreateChatCompletionRequest) -> Ask {
    Rc::new(move |seen: Rc<Seen>| {
        let (client, request) = (client.clone(), request.clone());
        Box::pin(async move {
            let mut chunks = client.chat().create_stream(request).await?;
            while let Some(chunk) = chunks.next().await {
                for choice in chunk?.choices {
                    if let Some(text) = choice.delta.content {
                        seen.event(text.len());
                    }
                    for call in choice.delta.tool_calls.into_iter().flatten() {
                        let arguments = call.function.and_then(|function| function.arguments);
                        seen.event(arguments.unwrap_or_default().len());
                    }
                }
            }
            Ok(())
        })
    })
}

fn responses(client: Client<OpenAIConfig>, request: CreateResponse) -> Ask {
    Rc::new(move |seen: Rc<Seen>| {
        let (client, request) = (client.clone(), request.clone());
        Box::pin(async move {
            let mut events = client.responses().create_stream(request).await?;
            while let Some(event) = events.next().await {
                match event? {
                    ResponseStreamEvent::ResponseOutputTextDelta(event) => seen.event(event.delta.len()),
                    ResponseStreamEvent::ResponseFunctionCallArgumentsDelta(event) => {
                        seen.event(event.delta.len());
                    }
                    _ => {}
                }
            }
            Ok(())
        })
    })
}
