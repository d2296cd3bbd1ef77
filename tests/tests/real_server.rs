//! The loop against a real model behind a real server. `tests/real/llama.sh DIR` starts one and sets
//! `TURNSTREAM_LLAMA` to its address; without it these tests say that they were skipped.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use turnstream::{
    Client, Event, Model, Request, RunEvent, Schema, Tool, ToolChoice, ToolLoop, anthropic::Anthropic,
    openai_chat::OpenAiChat, openai_responses::OpenAiResponses,
};

/// How often the server is asked whether a slot is free before that counts as never.
const ASKS: usize = 2_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_real_model_calls_a_tool_and_answers_on_every_wire() {
    let Some(address) = address() else { return };
    for (wire, model) in models(&address) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let weather = {
            let seen = seen.clone();
            Tool::new("get_weather")
                .description("The weather in a city.")
                .parameters(RawSchema::city())
                .handler(move |args: Value| {
                    seen.lock().unwrap().push(args.clone());
                    async move { Ok(json!({ "city": args["city"], "weather": "sunny", "celsius": 21 })) }
                })
        };
        let request = Request::new()
            .user("What is the weather in Paris? Use the tool.")
            .tool_choice(ToolChoice::Required)
            .temperature(0.0)
            .max_tokens(160);
        let mut run = ToolLoop::new(model).tool(weather).max_turns(2).run(request);
        let (mut finished, mut fragments, mut results, mut ends) = (Vec::new(), 0, Vec::new(), 0);
        println!("== {wire}");
        while let Some(event) = run.next().await {
            println!("{}", serde_json::to_string(&event).unwrap());
            match event {
                RunEvent::Turn(turn) => match turn.event {
                    Event::CallArgumentFragment(_) => fragments += 1,
                    Event::CallFinished(call) if turn.turn == 0 => finished.push(call),
                    _ => {}
                },
                RunEvent::HandlerFinished(handler) if handler.turn == 0 => results.push(handler.result),
                RunEvent::TurnEnded(_) => ends += 1,
                _ => {}
            }
        }
        let outcome = run.outcome();
        assert!(outcome.error().is_none(), "{wire}: {:?}", outcome.status);
        assert!(
            !finished.is_empty() && fragments > 2 * finished.len(),
            "{wire}: calls come in real fragments"
        );
        let ids = |ids: &mut dyn Iterator<Item = String>| ids.collect::<std::collections::BTreeSet<_>>();
        assert_eq!(
            ids(&mut results.iter().map(|result| result.call_id.to_string())),
            ids(&mut finished.iter().map(|call| call.id.to_string())),
            "{wire}: every result stands under its call's id"
        );
        let arguments: Vec<Value> = finished.iter().map(|call| call.arguments.parse().unwrap()).collect();
        let seen = seen.lock().unwrap();
        assert!(arguments.iter().all(|arguments| seen.contains(arguments)), "{wire}: {seen:?}");
        assert_eq!(ends, 2, "{wire}: the server took the results and answered");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_stream_frees_the_servers_slot() {
    let Some(address) = address() else { return };
    for (wire, model) in models(&address) {
        let request = Request::new().user("Count to one thousand, slowly, in words.").max_tokens(1500);
        let mut turn = model.stream(&request);
        loop {
            match turn.next().await.unwrap_or_else(|| panic!("{wire}: the turn ended")) {
                Ok(Event::TextDelta(_)) => break,
                Ok(_) => {}
                Err(error) => panic!("{wire}: {error:?}"),
            }
        }
        assert!(busy_slots(&address).await.unwrap() > 0, "{wire}: the server is at work");
        drop(turn);
        let mut asks = 0;
        while busy_slots(&address).await.unwrap() > 0 {
            asks += 1;
            assert!(asks < ASKS, "{wire}: the slot is still taken");
        }
        println!("{wire}: the slot was free after asking {asks} times");
    }
}

fn address() -> Option<String> {
    let address = std::env::var("TURNSTREAM_LLAMA").ok();
    if address.is_none() {
        println!("skipped: real_server (tests/real/llama.sh starts one)");
    }
    address
}

fn models(address: &str) -> [(&'static str, Arc<dyn Model>); 3] {
    let base_url = format!("{address}/v1");
    [
        ("anthropic-messages", Arc::new(Client::new(Anthropic::new("smol").base_url(&base_url)))),
        ("openai-chat", Arc::new(Client::new(OpenAiChat::new("smol").base_url(&base_url)))),
        ("openai-responses", Arc::new(Client::new(OpenAiResponses::new("smol").base_url(&base_url)))),
    ]
}

/// How many of the server's slots are at work.
async fn busy_slots(address: &str) -> std::io::Result<usize> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let host = address.trim_start_matches("http://");
    let mut socket = tokio::net::TcpStream::connect(host).await?;
    let request = format!("GET /slots HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut reply = String::new();
    socket.read_to_string(&mut reply).await?;
    Ok(reply.matches("\"is_processing\":true").count())
}

/// A schema that keeps a small model short.
struct RawSchema;

impl RawSchema {
    fn city() -> Schema {
        Schema::object().property("city", json!({ "type": "string", "maxLength": 20 })).one_of(
            "unit",
            "The unit.",
            ["celsius", "fahrenheit"],
        )
    }
}
