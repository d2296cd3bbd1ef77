//! The quick way by hand: eventsource-stream for the frames, and a `serde_json::Value` for each of them.

use std::{process::ExitCode, rc::Rc};

use eventsource_stream::Eventsource;
use futures_util::StreamExt;
use serde_json::{Value, json};
use turnstream_bench::{
    BenchWire,
    harness::{self, Ask, Seen},
};

fn main() -> ExitCode {
    harness::main("value", |_, wire, base_url| {
        if matches!(wire, BenchWire::Cohere | BenchWire::Ollama | BenchWire::Bedrock) {
            return Err("not measured on this wire".into());
        }
        let (http, url) = (reqwest::Client::builder().no_proxy().build()?, base_url.to_owned());
        let ask: Ask = Rc::new(move |seen: Rc<Seen>| {
            let request =
                http.post(&url).body(json!({ "stream": true, "messages": "Where is it?" }).to_string());
            Box::pin(async move {
                let mut frames = request.send().await?.bytes_stream().eventsource();
                let mut said = String::new();
                while let Some(frame) = frames.next().await {
                    let data = frame?.data;
                    if data == "[DONE]" {
                        break;
                    }
                    if let Some(piece) = piece(wire, &serde_json::from_str(&data)?) {
                        said.push_str(piece);
                        seen.event(piece.len());
                    }
                }
                Ok(())
            })
        });
        Ok(ask)
    })
}

fn piece(wire: BenchWire, frame: &Value) -> Option<&str> {
    match wire {
        BenchWire::Anthropic => {
            frame["delta"]["text"].as_str().or_else(|| frame["delta"]["partial_json"].as_str())
        }
        BenchWire::OpenAiChat => {
            let delta = &frame["choices"][0]["delta"];
            delta["content"].as_str().or_else(|| delta["tool_calls"][0]["function"]["arguments"].as_str())
        }
        BenchWire::OpenAiResponses => frame["delta"].as_str(),
        BenchWire::Gemini => frame["candidates"][0]["content"]["parts"][0]["text"].as_str(),
        BenchWire::Cohere | BenchWire::Ollama | BenchWire::Bedrock => None,
    }
}
