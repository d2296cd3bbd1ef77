//! Asks the replay server for turns, with our client or with one of those that it is compared with, and says
//! what that cost. Run it alone for time and memory, or under an instruction counter.

use std::{process::ExitCode, rc::Rc};

use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use turnstream_bench::{
    BenchWire,
    floor::{Floor, FloorTurn},
    harness::{self, Ask, Seen},
    server::AnyError,
};
use turnstream_core::{Event, Request, ToolSpec};
use turnstream_tools::{RunEvent, RunStatus, Tool, ToolLoop};

fn main() -> ExitCode {
    harness::main("transport, floor, ours, floor-run, ours-run", |name, wire, base_url| {
        Ok(match name {
            "transport" => transport(base_url),
            "floor" => floor(wire, base_url),
            "ours" => ours(wire, base_url),
            "floor-run" => floor_run(base_url),
            "ours-run" => ours_run(base_url),
            name => return Err(format!("there is no client `{name}`").into()),
        })
    })
}

/// The bytes are thrown away.
fn transport(base_url: &str) -> Ask {
    let (http, url) = (reqwest(), base_url.to_owned());
    Rc::new(move |seen: Rc<Seen>| {
        let request = http.post(&url).body(asked(json!([user()])).to_string());
        Box::pin(async move {
            let mut body = request.send().await?.bytes_stream();
            while let Some(chunk) = body.next().await {
                seen.event(chunk?.len());
            }
            Ok(())
        })
    })
}

fn floor(wire: BenchWire, base_url: &str) -> Ask {
    let (http, url) = (reqwest(), base_url.to_owned());
    Rc::new(move |seen: Rc<Seen>| {
        let (http, url) = (http.clone(), url.clone());
        Box::pin(async move {
            floor_turn(wire, &http, &url, &asked(json!([user()])), &seen).await?;
            Ok(())
        })
    })
}

async fn floor_turn(
    wire: BenchWire,
    http: &reqwest::Client,
    url: &str,
    asked: &Value,
    seen: &Seen,
) -> Result<FloorTurn, AnyError> {
    let request = http.post(url).header("x-api-key", "none").header("content-type", "application/json");
    let response = request.body(asked.to_string()).send().await?.error_for_status()?;
    let (mut body, mut floor, mut events) = (response.bytes_stream(), Floor::new(wire), 0);
    while let Some(chunk) = body.next().await {
        floor.feed(&chunk?)?;
        for _ in events..floor.turn().deltas {
            seen.event(0);
        }
        events = floor.turn().deltas;
    }
    Ok(floor.finish())
}

fn ours(wire: BenchWire, base_url: &str) -> Ask {
    let client = wire.client(base_url);
    Rc::new(move |seen: Rc<Seen>| {
        let request = Request::new()
            .system(SYSTEM)
            .user(QUESTION)
            .max_tokens(1024)
            .tool(ToolSpec::new("lookup_order").description(DESCRIPTION).parameters(schema()));
        let mut turn = client.stream(&request);
        Box::pin(async move {
            while let Some(event) = turn.next().await {
                seen.event(match event? {
                    Event::TextDelta(delta) => delta.text.len(),
                    Event::CallArgumentFragment(delta) => delta.fragment.as_raw_str().len(),
                    _ => 0,
                });
            }
            Ok(())
        })
    })
}

/// What the example's tool takes.
#[derive(Debug, Deserialize)]
struct LookupOrder {
    order_id: String,
    #[serde(default)]
    include_line_items: bool,
}

/// What the example's tool does.
fn look_up(order: &LookupOrder) -> Value {
    let items: &[&str] = if order.include_line_items { &["café grinder"] } else { &[] };
    json!({ "order": order.order_id, "status": "in transit", "line_items": items })
}

/// Two requests by hand, with the calls of the first reply answered in between.
fn floor_run(base_url: &str) -> Ask {
    let (http, url) = (reqwest(), base_url.to_owned());
    Rc::new(move |seen: Rc<Seen>| {
        let (http, url) = (http.clone(), url.clone());
        Box::pin(async move {
            let first = floor_turn(BenchWire::Anthropic, &http, &url, &asked(json!([user()])), &seen).await?;
            let (mut said, mut results) = (vec![json!({ "type": "text", "text": first.text })], Vec::new());
            for call in &first.calls {
                let order: LookupOrder = serde_json::from_str(&call.arguments)?;
                let input: Value = serde_json::from_str(&call.arguments)?;
                said.push(json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input }));
                results.push(json!({
                    "type": "tool_result", "tool_use_id": call.id, "content": look_up(&order).to_string()
                }));
            }
            let messages = json!([
                user(), { "role": "assistant", "content": said }, { "role": "user", "content": results }
            ]);
            floor_turn(BenchWire::Anthropic, &http, &url, &asked(messages), &seen).await?;
            Ok(())
        })
    })
}

/// The same by our loop.
fn ours_run(base_url: &str) -> Ask {
    let client = BenchWire::Anthropic.client(base_url);
    Rc::new(move |seen: Rc<Seen>| {
        let lookup = Tool::new("lookup_order").description(DESCRIPTION).parameters(schema()).handler(
            |order: Value| async move {
                Ok(look_up(&serde_json::from_value(order).map_err(turnstream_tools::ToolError::from)?))
            },
        );
        let request = Request::new().system(SYSTEM).user(QUESTION).max_tokens(1024);
        let mut run = ToolLoop::new(client.clone()).tool(lookup).run(request);
        Box::pin(async move {
            while let Some(event) = run.next().await {
                if let RunEvent::Turn(_) = event {
                    seen.event(0);
                }
            }
            match run.outcome().status {
                RunStatus::Finished => Ok(()),
                status => Err(format!("the run ended: {status:?}").into()),
            }
        })
    })
}

fn reqwest() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().tcp_nodelay(true).build().expect("it has no settings that can fail")
}

fn user() -> Value {
    json!({ "role": "user", "content": QUESTION })
}

/// A request's body, the same in length as ours.
fn asked(messages: Value) -> Value {
    json!({
        "model": "model", "stream": true, "max_tokens": 1024, "system": SYSTEM, "messages": messages,
        "tools": [{ "name": "lookup_order", "description": DESCRIPTION, "input_schema": schema() }]
    })
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "order_id": { "type": "string", "description": "For example A-4471." },
            "include_line_items": { "type": "boolean" }
        },
        "required": ["order_id"],
        "additionalProperties": false
    })
}

const SYSTEM: &str = "You are the support assistant of a shop. Look orders up before you answer. Be brief.";
const QUESTION: &str = "Where are my orders A-4471 and A-4502? If one is stuck, please open a ticket.";
const DESCRIPTION: &str = "Looks an order up by its id.";
