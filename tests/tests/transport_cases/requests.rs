//! Addresses, headers and fields.

use std::error::Error as _;

use serde_json::{Value, json};
use turnstream::{
    Client, Request, RetryPolicy,
    anthropic::Anthropic,
    openai_chat::{OpenAiChat, Options, Profile},
    openai_responses::OpenAiResponses,
    wire::Wire,
};
use turnstream_testing::{Recording, ReplayServer, openai_chat::Reply};

use crate::{body, encoded, failure, values};

#[test]
fn case_120_base_url_joining() {
    let table = [
        ("https://h/v1", "https://h/v1/PATH"),
        ("https://h/v1/", "https://h/v1/PATH"),
        ("https://h/v1//", "https://h/v1/PATH"),
        ("https://h", "https://h/PATH"),
        ("https://h/", "https://h/PATH"),
        ("https://h/api/v3", "https://h/api/v3/PATH"),
        ("https://h:8443/a/b/", "https://h:8443/a/b/PATH"),
        ("https://h/deploy/x?api-version=2024-10-21", "https://h/deploy/x/PATH?api-version=2024-10-21"),
        ("https://h/deploy/x/?a=1&b=%20", "https://h/deploy/x/PATH?a=1&b=%20"),
        ("https://h?a=1", "https://h/PATH?a=1"),
        ("https://gw/acc%2Fid/my%20gw", "https://gw/acc%2Fid/my%20gw/PATH"),
        ("HTTPS://H/v1", "https://h/v1/PATH"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1/PATH"),
        ("https://u:p@h/v1", "https://u:p@h/v1/PATH"),
    ];
    for (base, want) in table {
        let sent = [
            ("messages", encoded(&Anthropic::new("m").base_url(base))),
            ("chat/completions", encoded(&OpenAiChat::new("m").base_url(base))),
            ("responses", encoded(&OpenAiResponses::new("m").base_url(base))),
        ];
        for (path, request) in sent {
            assert_eq!(request.url.as_str(), want.replace("PATH", path));
        }
    }
    for base in ["", "h/v1", "/v1", "ftp://h/v1", "https://", "data:,x"] {
        let error = OpenAiChat::new("m").base_url(base).encode(&Request::new().user("?")).unwrap_err();
        assert!(error.message().starts_with("the base URL cannot be used"), "{base}: {error}");
    }
}

/// A 404 names the address that was tried: most often it is the base URL that is wrong.
#[tokio::test]
async fn case_120_base_url_joining_a_404_names_the_address_without_its_secrets() {
    let reply = Recording::new("404 page not found").status(404).header("content-type", "text/plain");
    let server = ReplayServer::start([reply]).await.unwrap();
    let base = format!("{}/v2?api-version=1&key=sk-SECRET-1", server.base_url());
    let client = Client::new(OpenAiChat::new("m").key("sk-SECRET-2").base_url(base));
    let (_, error) = failure(&mut client.stream(&Request::new().user("?"))).await;
    let source = error.source().unwrap().to_string();
    assert_eq!(source, format!("nothing is known at {}/v2/chat/completions?***", server.base_url()));
    assert_eq!((error.status(), error.body()), (Some(404), Some("404 page not found")));
}

#[test]
fn case_120_base_url_joining_azure_by_deployment_and_by_version() {
    let chat = OpenAiChat::azure("https://name.openai.azure.com/", "gpt-x", "2024-10-21").key("k");
    let request = encoded(&chat);
    let path = "/openai/deployments/gpt-x/chat/completions?api-version=2024-10-21";
    assert_eq!(request.url.as_str(), format!("https://name.openai.azure.com{path}"));
    assert_eq!((values(&request, "api-key"), values(&request, "authorization")), (vec!["k".into()], vec![]));

    let responses = OpenAiResponses::azure("https://name.openai.azure.com", "gpt-x").key("k");
    let request = encoded(&responses);
    assert_eq!(request.url.as_str(), "https://name.openai.azure.com/openai/v1/responses");
    assert_eq!(values(&request, "api-key"), ["k"]);

    let entra = encoded(&chat.header("authorization", "Bearer entra"));
    assert_eq!(
        (values(&entra, "api-key"), values(&entra, "authorization")),
        (vec![], vec!["Bearer entra".to_owned()])
    );
}

#[test]
fn case_124_stream_options_refused_is_asked_for_only_where_it_is_known() {
    let usage = |wire: OpenAiChat| body(&wire, &Request::new().user("?"))["stream_options"].clone();
    let asked = json!({ "include_usage": true });
    assert_eq!(usage(OpenAiChat::new("m")), asked);
    let compatible = || OpenAiChat::new("m").profile(Profile::Compatible).base_url("https://h");
    assert_eq!(usage(compatible()), Value::Null);
    assert_eq!(usage(compatible().include_usage(true)), asked);
    assert_eq!(usage(OpenAiChat::new("m").include_usage(false)), Value::Null);
}

#[tokio::test]
async fn case_124_stream_options_refused_is_left_out_once_and_then_remembered() {
    let refusal = |status, message: &str| {
        let body = json!({ "message": message }).to_string();
        Recording::new(body).status(status).header("content-type", "application/json")
    };
    let unknown = "Extra inputs are not permitted: body.stream_options.include_usage";
    let good = || Recording::from(Reply::new().text(["Hello."]).end());
    let replies =
        [refusal(422, unknown), good(), good(), good(), refusal(400, unknown), refusal(400, unknown)];
    let server = ReplayServer::start(replies).await.unwrap();
    let wire = || {
        let wire = OpenAiChat::new("m").profile(Profile::Compatible).base_url(server.base_url());
        wire.include_usage_if_known()
    };
    let known = wire();
    let asks = |wire: OpenAiChat| async move {
        let mut turn = Client::new(wire).stream(&Request::new().user("?"));
        while turn.next().await.is_some_and(|event| event.is_ok()) {}
        turn.attempts()
    };
    // The same value and its clones remember; another one, and another base URL, do not.
    assert_eq!(asks(known.clone()).await, 2);
    assert_eq!(asks(known.clone()).await, 1);
    assert_eq!(body(&known.base_url("https://h"), &Request::new())["stream_options"]["include_usage"], true);
    assert_eq!(asks(wire()).await, 1);
    // A server that goes on refusing is asked no third time.
    assert_eq!(asks(wire()).await, 2);
    let bodies: Vec<Value> = server.requests().iter().map(|request| request.json()).collect();
    let asked: Vec<bool> = bodies.iter().map(|body| body.get("stream_options").is_some()).collect();
    assert_eq!(asked, [true, false, false, true, true, false]);
    // Nothing else differs.
    let mut first = bodies[0].clone();
    first.as_object_mut().unwrap().remove("stream_options");
    assert_eq!(first, bodies[1]);
}

#[tokio::test]
async fn case_124_stream_options_refused_is_an_error_where_nothing_else_was_asked_for() {
    let refusal = |message: &str| {
        let body = json!({ "error": { "message": message } }).to_string();
        Recording::new(body).status(400).header("content-type", "application/json")
    };
    let usage = "stream_options is not supported";
    type Set = fn(OpenAiChat) -> OpenAiChat;
    type Limit = fn(Client) -> Client;
    let table: [(&str, Set, Limit); 3] = [
        (usage, |wire| wire, |client| client),
        ("unknown model", OpenAiChat::include_usage_if_known, |client| client),
        (usage, OpenAiChat::include_usage_if_known, |client| client.retries(RetryPolicy::never())),
    ];
    for (message, set, limit) in table {
        let server = ReplayServer::start([refusal(message)]).await.unwrap();
        let client = limit(Client::new(set(OpenAiChat::new("m").base_url(server.base_url()))));
        let (_, error) = failure(&mut client.stream(&Request::new().user("?"))).await;
        assert_eq!((error.status(), server.requests().len()), (Some(400), 1));
    }
}

#[test]
fn case_125_developer_role() {
    let request = || Request::new().system("be brief").system("answer in Danish").user("?");
    let chat = |wire: OpenAiChat, request: Request| body(&wire, &request)["messages"].clone();
    let messages = |role: &str| {
        json!([
            { "role": role, "content": "be brief" },
            { "role": role, "content": "answer in Danish" },
            { "role": "user", "content": "?" },
        ])
    };
    assert_eq!(chat(OpenAiChat::new("m"), request()), messages("system"));
    let developer = request().options(Options::new().developer_role());
    assert_eq!(chat(OpenAiChat::new("m"), developer), messages("developer"));
    let joined = json!([
        { "role": "system", "content": "be brief\n\nanswer in Danish" },
        { "role": "user", "content": "?" },
    ]);
    assert_eq!(chat(OpenAiChat::new("m").join_system(true), request()), joined);
    let local = || OpenAiChat::new("m").profile(Profile::LlamaCpp);
    assert_eq!(chat(local(), request()), joined);
    assert_eq!(chat(local().join_system(false), request()), messages("system"));

    let anthropic = body(&Anthropic::new("m"), &request());
    let system: Vec<&str> =
        anthropic["system"].as_array().unwrap().iter().filter_map(|text| text["text"].as_str()).collect();
    assert_eq!(system, ["be brief", "answer in Danish"]);
    assert_eq!(anthropic["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn case_127_caller_headers_win() {
    let anthropic = || Anthropic::new("m").key("k").header("x-trace", "1");
    let sent = [
        encoded(&anthropic().header("authorization", "Api-Key z")),
        encoded(&OpenAiChat::new("m").key("k").header("x-trace", "1").header("Authorization", "Api-Key z")),
        encoded(
            &OpenAiResponses::new("m").key("k").header("AUTHORIZATION", "Api-Key z").header("x-trace", "1"),
        ),
    ];
    for request in sent {
        assert_eq!(values(&request, "authorization"), ["Api-Key z"]);
        assert_eq!(values(&request, "x-trace"), ["1"]);
        assert_eq!(values(&request, "x-api-key"), [""; 0]);
    }
    // Headers that carry no key remove nothing, and replace their own name only.
    let request = encoded(&anthropic().header("Anthropic-Version", "2099-01-01").header("accept", "x/y"));
    assert_eq!(values(&request, "x-api-key"), ["k"]);
    assert_eq!(values(&request, "anthropic-version"), ["2099-01-01"]);
    assert_eq!(values(&request, "accept"), ["x/y"]);
    let request = encoded(&OpenAiChat::new("m").organization("org-1").project("proj-1"));
    assert_eq!(
        (values(&request, "openai-organization"), values(&request, "openai-project")),
        (vec!["org-1".to_owned()], vec!["proj-1".to_owned()])
    );
    let request = encoded(&OpenAiResponses::new("m").organization("org-1").project("proj-1"));
    assert_eq!(values(&request, "openai-organization"), ["org-1"]);
}
