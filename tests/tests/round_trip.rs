//! The main job, over real HTTP on every wire: a turn with two parallel calls of one tool, and the turn that
//! answers from their results.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use turnstream::{Event, Request, RunEvent, RunStatus, Tool, ToolLoop};
use turnstream_testing::{
    HttpWire, OverHttp, Reply, Script, anthropic, bedrock, cohere, gemini, ollama, openai_chat,
    openai_responses,
};
use turnstream_tests::TestedWire;
use wiremock::MockServer;

#[derive(Deserialize, JsonSchema)]
struct LookupOrder {
    order_id: String,
}

#[tokio::test]
async fn results_go_back_over_anthropic_messages_in_one_user_message() {
    let body = two_turns(TestedWire::Anthropic, Script::anthropic(), anthropic::Reply::new).await;
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3);
    assert_eq!(
        messages[1]["content"],
        json!([
            { "type": "text", "text": "Let me look." },
            { "type": "tool_use", "id": "call_a", "name": "lookup_order", "input": { "order_id": "A-4471" } },
            { "type": "tool_use", "id": "call_b", "name": "lookup_order", "input": { "order_id": "B-9" } },
        ])
    );
    assert_eq!(messages[2]["role"], "user");
    let results = messages[2]["content"].as_array().unwrap();
    let ids: Vec<&Value> = results.iter().map(|result| &result["tool_use_id"]).collect();
    assert_eq!(ids, ["call_a", "call_b"]);
    assert!(results.iter().all(|result| result["type"] == "tool_result"));
}

#[tokio::test]
async fn results_go_back_over_cohere_in_one_message_a_call_behind_the_plan() {
    let body = two_turns(TestedWire::Cohere, Script::cohere(), cohere::Reply::new).await;
    let messages = body["messages"].as_array().unwrap();
    let [_, assistant, first, second] = messages.as_slice() else { panic!("{messages:#?}") };
    // Text and calls do not go together: what was said before the calls is the plan.
    assert_eq!((&assistant["tool_plan"], assistant.get("content")), (&json!("Let me look."), None));
    let arguments: Vec<&Value> = assistant["tool_calls"].as_array().unwrap().iter().map(arguments).collect();
    assert_eq!(arguments, [r#"{"order_id":"A-4471"}"#, r#"{"order_id":"B-9"}"#]);
    let result = |id: &str, content: &str| json!({ "role": "tool", "tool_call_id": id, "content": content });
    assert_eq!(*first, result("call_a", "A-4471 is in transit"));
    assert_eq!(*second, result("call_b", "B-9 is in transit"));
}

#[tokio::test]
async fn results_go_back_over_gemini_in_one_content_in_the_order_of_the_calls() {
    let body = two_turns(TestedWire::Gemini, Script::gemini(), gemini::Reply::new).await;
    let contents = body["contents"].as_array().unwrap();
    let [_, model, results] = contents.as_slice() else { panic!("{contents:#?}") };
    let call = |id: &str, order: &str| json!({ "functionCall": { "id": id, "name": "lookup_order", "args": { "order_id": order } } });
    assert_eq!(
        *model,
        json!({
            "role": "model",
            "parts": [{ "text": "Let me look." }, call("call_a", "A-4471"), call("call_b", "B-9")],
        })
    );
    let result = |id: &str, output: &str| {
        json!({ "functionResponse": {
            "id": id, "name": "lookup_order", "response": { "output": output },
        } })
    };
    assert_eq!(
        *results,
        json!({
            "role": "user",
            "parts": [result("call_a", "A-4471 is in transit"), result("call_b", "B-9 is in transit")],
        })
    );
}

#[tokio::test]
async fn results_go_back_over_ollama_in_one_message_a_call_that_names_its_tool() {
    let body = two_turns(TestedWire::Ollama, Script::ollama(), ollama::Reply::new).await;
    let messages = body["messages"].as_array().unwrap();
    let [_, assistant, first, second] = messages.as_slice() else { panic!("{messages:#?}") };
    let call = |id: &str, order: &str| json!({ "id": id, "function": { "name": "lookup_order", "arguments": { "order_id": order } } });
    assert_eq!(
        *assistant,
        json!({
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [call("call_a", "A-4471"), call("call_b", "B-9")],
        })
    );
    let result = |id: &str, content: &str| json!({ "role": "tool", "content": content, "tool_name": "lookup_order", "tool_call_id": id });
    assert_eq!(*first, result("call_a", "A-4471 is in transit"));
    assert_eq!(*second, result("call_b", "B-9 is in transit"));
}

#[tokio::test]
async fn results_go_back_over_bedrock_in_one_user_message() {
    let body = two_turns(TestedWire::Bedrock, Script::bedrock(), bedrock::Reply::new).await;
    let call = |id: &str, order: &str| json!({ "toolUse": { "toolUseId": id, "name": "lookup_order", "input": { "order_id": order } } });
    let result =
        |id: &str, text: &str| json!({ "toolResult": { "toolUseId": id, "content": [{ "text": text }] } });
    let calls = json!([{ "text": "Let me look." }, call("call_a", "A-4471"), call("call_b", "B-9")]);
    let results = json!([result("call_a", "A-4471 is in transit"), result("call_b", "B-9 is in transit")]);
    assert_eq!(
        body["messages"].as_array().unwrap()[1..],
        [json!({ "role": "assistant", "content": calls }), json!({ "role": "user", "content": results })]
    );
}

#[tokio::test]
async fn results_go_back_over_chat_completions_in_one_message_a_call() {
    let body = two_turns(TestedWire::OpenAiChat, Script::openai_chat(), openai_chat::Reply::new).await;
    let messages = body["messages"].as_array().unwrap();
    let [_, assistant, first, second] = messages.as_slice() else { panic!("{messages:#?}") };
    assert_eq!(assistant["content"], "Let me look.");
    let arguments: Vec<&Value> = assistant["tool_calls"].as_array().unwrap().iter().map(arguments).collect();
    assert_eq!(arguments, [r#"{"order_id":"A-4471"}"#, r#"{"order_id":"B-9"}"#]);
    assert_eq!(
        *first,
        json!({ "role": "tool", "tool_call_id": "call_a", "content": "A-4471 is in transit" })
    );
    assert_eq!(*second, json!({ "role": "tool", "tool_call_id": "call_b", "content": "B-9 is in transit" }));
}

#[tokio::test]
async fn results_go_back_over_responses_in_one_item_a_call() {
    let body =
        two_turns(TestedWire::OpenAiResponses, Script::openai_responses(), openai_responses::Reply::new)
            .await;
    let items = body["input"].as_array().unwrap();
    let [.., first, second] = items.as_slice() else { panic!("{items:#?}") };
    let output =
        |id: &str, output: &str| json!({ "type": "function_call_output", "call_id": id, "output": output });
    assert_eq!(*first, output("call_a", "A-4471 is in transit"));
    assert_eq!(*second, output("call_b", "B-9 is in transit"));
}

/// Runs the loop over a scripted server, checks all that does not depend on the wire, and gives back the body
/// of the second request.
async fn two_turns<W: HttpWire>(
    wire: TestedWire,
    script: Script<W>,
    reply: fn() -> Reply<OverHttp<W>>,
) -> Value {
    let server = MockServer::start().await;
    let calls = [
        ("call_a", "lookup_order", json!({ "order_id": "A-4471" })),
        ("call_b", "lookup_order", json!({ "order_id": "B-9" })),
    ];
    let script = script
        .turn(reply().text(["Let me ", "look."]).interleaved_calls(calls).fragments_of(3).usage(40, 30))
        .turn(reply().text(["Both are ", "on their way."]).usage(80, 6))
        .mount(&server)
        .await;

    // The first call ends after the second one: results go back in call order all the same.
    let second_has_ended = Arc::new(Notify::new());
    let lookup = Tool::new("lookup_order").description("Looks an order up by its id.").handler(
        move |LookupOrder { order_id }: LookupOrder| {
            let second_has_ended = second_has_ended.clone();
            async move {
                match order_id.as_str() {
                    "A-4471" => second_has_ended.notified().await,
                    _ => second_has_ended.notify_one(),
                }
                Ok(format!("{order_id} is in transit"))
            }
        },
    );
    let mut run = ToolLoop::new(wire.client(&server.uri()))
        .tool(lookup)
        .run(Request::new().user("Where are A-4471 and B-9?"));

    let (mut text, mut fragments, mut ended) = (String::new(), 0, Vec::new());
    while let Some(event) = run.next().await {
        text.push_str(event.text().unwrap_or_default());
        fragments += usize::from(matches!(event.event(), Some(Event::CallArgumentFragment(_))));
        if let RunEvent::HandlerFinished(finished) = event {
            ended.push(finished.id.to_string());
        }
    }
    let outcome = run.outcome();
    assert!(matches!(outcome.status, RunStatus::Finished), "{:?}", outcome.status);
    // The text is the text, and has no byte of the arguments.
    assert_eq!(text, "Let me look.Both are on their way.");
    assert_eq!(outcome.text(), "Both are on their way.");
    // 21 and 18 characters in pieces of 3, or two calls that come whole.
    assert_eq!(fragments, if wire.sends_fragments() { 7 + 6 } else { 2 });
    assert_eq!(ended, ["call_b", "call_a"]);
    assert_eq!((outcome.turns, outcome.calls), (2, 2));
    assert_eq!((outcome.usage.input_tokens, outcome.usage.output_tokens), (Some(120), Some(36)));

    let requests = script.requests();
    assert!(requests.iter().all(|request| request.offers_tool("lookup_order")));
    assert!(requests.iter().all(|request| request.last_user_text() == Some("Where are A-4471 and B-9?")));
    let results: Vec<(&str, &str)> =
        requests[1].results().map(|result| (result.call_id.as_str(), result.content.as_str())).collect();
    assert_eq!(results, [("call_a", "A-4471 is in transit"), ("call_b", "B-9 is in transit")]);
    let body = requests[1].body.clone();
    script.verify();
    body
}

fn arguments(call: &Value) -> &Value {
    call.pointer("/function/arguments").unwrap()
}
