//! A conversation from a script.

use serde_json::json;
use turnstream::{Client, Request, Schema, Tool, ToolLoop, openai_chat::OpenAiChat};
use turnstream_testing::{Script, openai_chat::Reply};
use wiremock::MockServer;

/// The application: answers a question about orders, with a tool.
async fn answer(base_url: &str, question: &str) -> String {
    let lookup = Tool::new("lookup_order")
        .description("Looks an order up by its id.")
        .parameters(Schema::object().string("order_id", "The order's id."))
        .handler(|_: serde_json::Value| async { Ok("in transit") });
    let model = Client::new(OpenAiChat::new("gpt-5").key("test").base_url(base_url));
    let run = ToolLoop::new(model).tool(lookup).run(Request::new().user(question));
    run.finish().await.text().to_owned()
}

#[tokio::test]
async fn an_order_is_looked_up_and_answered() {
    let server = MockServer::start().await;
    let script = Script::openai_chat()
        .turn(Reply::new().text(["Let me look."]).call(
            "call_1",
            "lookup_order",
            json!({ "order_id": "A-4471" }),
        ))
        .results([("call_1", "in transit")])
        .turn(Reply::new().text(["It is ", "on its way."]))
        .mount(&server)
        .await;

    let text = answer(&format!("{}/v1", server.uri()), "Where is order A-4471?").await;

    assert_eq!(text, "It is on its way.");
    assert!(script.requests()[0].offers_tool("lookup_order"));
    script.verify();
}
