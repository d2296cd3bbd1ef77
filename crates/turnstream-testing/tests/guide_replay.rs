//! What goes wrong on a network, and what a server really sent.

use turnstream::{Client, ErrorKind, Request, RetryPolicy, TurnError, openai_chat::OpenAiChat};
use turnstream_testing::{RecordedTurn, Recording, ReplayServer, openai_chat::Reply};

/// The application: asks a model at an address.
async fn ask(base_url: &str) -> Result<String, TurnError> {
    let wire = OpenAiChat::new("gpt-5").key("test").base_url(base_url);
    let model = Client::new(wire).retries(RetryPolicy::never());
    Ok(model.stream(&Request::new().user("Say hello.")).into_turn().await?.text())
}

#[tokio::test]
async fn a_connection_that_breaks_in_a_call_runs_nothing() {
    let torn =
        Reply::new().text(["Let me look."]).call_raw("call_1", "lookup_order", "{\"order_id\": \"A-44").cut();
    let server = ReplayServer::start([Recording::from(torn).reset()]).await.unwrap();

    let error = ask(&server.base_url()).await.unwrap_err();

    assert_eq!(error.error().kind(), ErrorKind::Truncated);
    assert_eq!(error.turn().text(), "Let me look.", "what had arrived is kept");
    assert_eq!((error.turn().calls.len(), error.turn().aborted.len()), (0, 1));
}

#[tokio::test]
async fn what_a_server_once_sent_is_read_in_the_same_chunks() {
    // Made with `turnstream record`. `scaled(1.0)` would be its own pace.
    let turn = RecordedTurn::load("../../fixtures/recorded/openai-chat/text").unwrap();
    let server = ReplayServer::start([Recording::from(&turn).scaled(0.0)]).await.unwrap();

    let text = ask(&server.base_url()).await.unwrap();

    assert_eq!(text, "Hello, I'm here to help with your creative writing endeavors.");
    assert_eq!(server.connections(), 1);
}
