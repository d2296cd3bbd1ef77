//! Three tests, by *Test your app without a provider*.

use newcomer::{Answer, Concierge};
use serde_json::json;
use turnstream::{Client, RetryPolicy, anthropic::Anthropic, openai_responses::OpenAiResponses};
use turnstream_testing::{
    Recording, ReplayServer, Script, ScriptedModel, anthropic, events, openai_responses,
};
use wiremock::MockServer;

#[tokio::test]
async fn a_guest_hears_what_is_on() {
    let server = MockServer::start().await;
    let calls = [
        ("call_1", "programme", json!({ "house": "Opera" })),
        ("call_2", "programme", json!({ "house": "Zoo" })),
    ];
    let script = Script::openai_responses()
        .turn(openai_responses::Reply::new().text(["One ", "moment."]).interleaved_calls(calls))
        .turn(openai_responses::Reply::new().text(["Tosca, at half past seven."]))
        .mount(&server)
        .await;
    let wire = OpenAiResponses::new("gpt-5").key("test").base_url(format!("{}/v1", server.uri()));

    let answer = Concierge::new(Client::new(wire)).answer("What is on?").await;

    assert_eq!(answer.text, "One moment. Tosca, at half past seven.");
    assert_eq!(answer.looked_up, ["programme", "programme"]);
    let second = &script.requests()[1];
    assert_eq!(second.system, "You are a concierge.");
    assert_eq!(second.result("call_1").unwrap().content, "Tosca, 19:30");
    assert!(second.result("call_2").unwrap().content.contains("there is no such house"));
    script.verify();
}

#[tokio::test]
async fn a_refusal_is_not_an_answer() {
    let model = ScriptedModel::new().turn(events::Reply::new().text(["I would "]).content_filter());
    let answer = Concierge::new(model.clone()).answer("How do I get in for free?").await;
    assert_eq!(answer, Answer { text: "I would ".into(), looked_up: vec![], is_whole: false });
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn nothing_is_looked_up_when_the_line_breaks_in_the_question() {
    let torn = anthropic::Reply::new()
        .text(["One moment."])
        .call_raw("toolu_1", "programme", "{\"house\": \"Op")
        .cut();
    let server = ReplayServer::start([Recording::from(torn)]).await.unwrap();
    let wire = Anthropic::new("claude-sonnet-4-5").key("test").base_url(server.base_url());
    let model = Client::new(wire).retries(RetryPolicy::never());

    let answer = Concierge::new(model).answer("What is on?").await;

    assert_eq!(answer, Answer { text: "One moment.".into(), looked_up: vec![], is_whole: false });
    assert_eq!(server.requests().len(), 1);
}
