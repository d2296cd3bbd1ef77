//! Replies by request, with wiremock.

use serde_json::json;
use turnstream::{Client, Error, Request, anthropic::Anthropic};
use turnstream_testing::{
    anthropic::Reply,
    wiremock::{last_user_text, sent_requests},
};
use wiremock::{Mock, MockServer, matchers::path};

/// The application: asks a model at an address.
async fn ask(base_url: &str, question: &str) -> Result<String, Error> {
    let model = Client::new(Anthropic::new("claude-sonnet-4-5").key("test").base_url(base_url));
    let turn = model.stream(&Request::new().user(question)).into_turn().await?;
    Ok(turn.calls.first().map_or(turn.text(), |call| format!("wants {}", call.name)))
}

#[tokio::test]
async fn questions_are_told_apart() -> Result<(), Error> {
    let server = MockServer::start().await;
    let greeting = Reply::new().text(["Hello ", "yourself."]);
    Mock::given(last_user_text("Hello")).respond_with(greeting).mount(&server).await;
    let busy = Reply::new().refused(529, "overloaded_error", "Busy.").header("retry-after-ms", "1");
    Mock::given(path("/v1/messages")).respond_with(busy).up_to_n_times(1).mount(&server).await;
    let call = Reply::new().call("toolu_1", "lookup_order", json!({ "order_id": "A-4471" })).fragments_of(7);
    Mock::given(path("/v1/messages")).respond_with(call).mount(&server).await;

    let base_url = format!("{}/v1", server.uri());
    assert_eq!(ask(&base_url, "Hello").await?, "Hello yourself.");
    // Refused once, asked again, answered with a call.
    assert_eq!(ask(&base_url, "Where is order A-4471?").await?, "wants lookup_order");

    let requests = sent_requests(&server).await;
    assert_eq!(requests.len(), 3);
    requests.iter().for_each(|request| request.assert_sound());
    Ok(())
}
