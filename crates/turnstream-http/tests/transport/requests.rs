//! What is sent, when, and to whom.

use std::error::Error as StdError;

use turnstream_core::{Error, ErrorKind, Model, Request, TextStream, TurnStream, Warning};
use turnstream_http::{Client, RetryPolicy};
use wiremock::{
    Mock, MockServer, ResponseTemplate,
    matchers::{header, header_regex, method, path},
};

use crate::support::{
    Lines, Server, assert_kind, chunked, client, everything_of, failure, last_chunk, next, sized, words,
};

const WHOLE: &str = "data: start t1\n\ndata: text hi\n\ndata: reason stop\n\ndata: end\n\n";

#[tokio::test]
async fn a_turn_is_one_post_and_its_events() {
    let server = MockServer::start().await;
    let body = Request::new().user("hi");
    Mock::given(method("POST"))
        .and(path("/v1/turn"))
        .and(header("authorization", "Bearer sk-SECRET-1"))
        .and(header("x-wire", "lines"))
        .and(header("accept-encoding", "identity"))
        .and(header_regex("user-agent", "^turnstream/[0-9]"))
        .and(wiremock::matchers::body_json(&body))
        .respond_with(
            ResponseTemplate::new(200)
                .insert_header("x-request-id", "req_7")
                .insert_header("x-ratelimit-remaining", "9")
                .set_body_raw(WHOLE, "text/event-stream"),
        )
        .expect(1)
        .mount(&server)
        .await;

    let client = client(&format!("{}/v1", server.uri()));
    assert_eq!(client.name(), "m-1");
    let mut turn = client.stream(&body);
    assert!(turn.head().is_none());
    assert_eq!(turn.warnings(), [Warning::new("top_p", "it has none")]);
    assert_eq!(words(&mut turn).await, ["start t1", "text hi", "part", "end"]);
    let head = turn.head().unwrap();
    assert_eq!((head.status, head.attempts, head.request_id()), (200, 1, Some("req_7")));
    assert_eq!(head.rate_limits().collect::<Vec<_>>(), [("x-ratelimit-remaining", "9")]);
}

#[tokio::test]
async fn nothing_is_sent_before_the_first_poll() {
    let server = Server::start([vec![chunked(&["reason stop", "end"]), last_chunk()]]).await;
    let client = client(server.url());
    let unpolled = client.stream(&Request::new());
    let mut turn = client.stream(&Request::new());
    assert_eq!(words(&mut turn).await, ["start -", "end"]);
    drop(unpolled);
    assert_eq!((server.counts().connections, server.counts().requests), (1, 1));
}

#[tokio::test]
async fn a_user_and_password_in_the_address_do_not_make_a_second_authorization() {
    let server = Server::start([vec![chunked(&["reason stop", "end"]), last_chunk()]]).await;
    let client = client(&server.url().replace("http://", "http://user:password@"));
    assert_eq!(words(&mut client.stream(&Request::new())).await, ["start -", "end"]);
    let requests = server.requests();
    let sent: Vec<&str> =
        requests[0].lines().filter(|line| line.to_lowercase().starts_with("authorization")).collect();
    assert_eq!(sent, ["authorization: Bearer sk-SECRET-1"]);
}

#[tokio::test]
async fn a_request_that_cannot_be_encoded_is_one_error() {
    let mut turn = Client::new(Lines::new("not a url")).stream(&Request::new());
    assert_kind(&failure(&mut turn).await, ErrorKind::Config);
}

#[tokio::test]
async fn plain_http_to_another_host_is_refused_with_and_without_a_key() {
    let urls = [
        "http://192.0.2.1",
        "http://example.test/v1",
        "http://[2001:db8::1]",
        "http://localhost.test",
        "http://127.0.0.1.example.test",
        "http://u:p@example.test",
        "http://example.test?api-key=x",
    ];
    for url in urls {
        for wire in [Lines::new(url), Lines::keyless(url)] {
            let error = failure(&mut Client::new(wire).stream(&Request::new())).await;
            assert_kind(&error, ErrorKind::Config);
            assert!(error.message().contains("`allow_insecure_http`"), "{error}");
        }
    }
}

#[test]
fn plain_http_is_fine_on_loopback_and_if_allowed() {
    // A request that was refused has no warnings. Nothing is polled, so nothing is sent.
    let is_fine = |client: Client| !client.stream(&Request::new()).warnings().is_empty();
    for host in ["127.0.0.1", "127.8.9.1", "[::1]", "[::ffff:127.0.0.1]", "localhost", "a.localhost"] {
        assert!(is_fine(client(&format!("http://{host}:1/v1"))), "{host}");
    }
    assert!(!is_fine(client("http://example.test")));
    assert!(is_fine(client("http://example.test").allow_insecure_http(true)));
    assert!(is_fine(client("https://example.test")));
}

/// The value of a header in each request.
fn sent(server: &Server, header: &str) -> Vec<Option<String>> {
    let value = |request: &String| {
        request.lines().find_map(|line| Some(line.strip_prefix(header)?.strip_prefix(": ")?.to_owned()))
    };
    server.requests().iter().map(value).collect()
}

#[tokio::test]
async fn attempts_of_a_turn_share_an_idempotency_key_and_turns_do_not() {
    let good = || vec![chunked(&["reason stop", "end"]), last_chunk()];
    let refusal = || vec![sized("503 Full", "", "")];
    let server = Server::start([refusal(), refusal(), good(), good(), good()]).await;
    let client = client(server.url()).idempotency_header("Idempotency-Key");
    for _ in 0..2 {
        assert_eq!(words(&mut client.stream(&Request::new())).await, ["start -", "end"]);
    }
    let keys: Vec<String> = sent(&server, "idempotency-key").into_iter().map(Option::unwrap).collect();
    assert_eq!((&keys[0], &keys[0]), (&keys[1], &keys[2]));
    assert_ne!(keys[2], keys[3]);
    let is_random = |key: &String| key.len() == 43 && key.starts_with("turnstream-");
    assert!(keys.iter().all(is_random), "{keys:?}");
    let requests = server.requests();
    assert_eq!((&requests[0], &requests[0]), (&requests[1], &requests[2]));

    let wire = Lines::new(server.url()).header("idempotency-key", "mine");
    let mine = Client::new(wire).idempotency_header("idempotency-key");
    assert_eq!(words(&mut mine.stream(&Request::new())).await, ["start -", "end"]);
    assert_eq!(sent(&server, "idempotency-key")[4].as_deref(), Some("mine"));
    let bad = mine.idempotency_header("no name");
    assert_kind(&failure(&mut bad.stream(&Request::new())).await, ErrorKind::Config);
}

#[tokio::test]
async fn a_proxy_that_was_set_is_used_for_every_host_and_none_where_that_was_set() {
    let good = || vec![chunked(&["reason stop", "end"]), last_chunk()];
    let (proxy, server) = (Server::start([good(), good()]).await, Server::start([good()]).await);
    let through = client(server.url()).proxy(proxy.url().to_owned());
    assert_eq!(words(&mut through.stream(&Request::new())).await, ["start -", "end"]);
    let far = client("http://example.test").allow_insecure_http(true).proxy(proxy.url().to_owned());
    assert_eq!(words(&mut far.stream(&Request::new())).await, ["start -", "end"]);
    let direct = through.no_proxy();
    assert_eq!(words(&mut direct.stream(&Request::new())).await, ["start -", "end"]);
    assert_eq!((proxy.counts().requests, server.counts().requests), (2, 1));
    let line = format!("POST {}/turn HTTP/1.1", server.url());
    let requests = proxy.requests();
    let lines: Vec<&str> = requests.iter().filter_map(|request| request.lines().next()).collect();
    assert_eq!(lines, [line.as_str(), "POST http://example.test/turn HTTP/1.1"]);
}

#[tokio::test]
async fn a_client_of_the_callers_own_is_the_one_that_sends() {
    let server = Server::start([vec![chunked(&["reason stop", "end"]), last_chunk()]]).await;
    let http = reqwest::Client::builder().user_agent("mine/1").no_proxy().build().unwrap();
    let client = client(server.url()).http_client(http);
    assert_eq!(words(&mut client.stream(&Request::new())).await, ["start -", "end"]);
    assert_eq!(sent(&server, "user-agent"), [Some("mine/1".to_owned())]);
    assert_eq!(sent(&server, "authorization"), [Some("Bearer sk-SECRET-1".to_owned())]);
}

#[test]
fn outside_of_a_runtime_a_turn_is_an_error() {
    let mut turn = client("http://127.0.0.1:1").stream(&Request::new());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let polled = futures_core::Stream::poll_next(std::pin::Pin::new(&mut turn), &mut context);
    let std::task::Poll::Ready(Some(Err(error))) = polled else { panic!("{polled:?}") };
    assert_kind(&error, ErrorKind::Config);
}

#[tokio::test]
async fn case_144_no_form_of_anything_shows_a_secret() {
    let secret = Client::new(Lines::new("https://u:sk-SECRET-3@h/v1?key=sk-SECRET-4"));
    let url = "http://u:sk-SECRET-3@127.0.0.1:1/v1?key=sk-SECRET-4";
    let mut unreachable = client(url).retries(RetryPolicy::never()).stream(&Request::new());
    let refused = failure(&mut unreachable).await;
    assert_kind(&refused, ErrorKind::Connect);

    let server = Server::start([vec![crate::support::Step::Close]]).await;
    let url = format!("{}/?key=sk-SECRET-4", server.url().replace("http://", "http://u:sk-SECRET-3@"));
    let mut hung_up = client(&url).retries(RetryPolicy::never()).stream(&Request::new());
    let hung_up_error = failure(&mut hung_up).await;

    let shown = format!(
        "{secret:?} {secret:#?} {unreachable:?} {hung_up:#?} {} {}",
        everything_of(&refused),
        everything_of(&hung_up_error),
    );
    assert!(!shown.contains("SECRET"), "{shown}");
    assert!(shown.contains("lines") && shown.contains("m-1"), "{shown}");
}

#[tokio::test]
async fn case_144_what_a_server_echoes_is_masked_in_its_error() {
    let echo =
        "you sent Bearer sk-SECRET-1 (sk-SECRET-1), x-gateway: gw-SECRET-2, u:sk-SECRET-3, key=sk-SECRET-4";
    let error_body = format!(r#"{{"error":{{"message":"{echo}","code":"sk-SECRET-1"}}}}"#);
    let long = format!("{}sk-SECRET-1", "x".repeat(2040));
    let table = [
        sized("401 Who", "", &error_body),
        sized("401 Who", "", echo),
        sized("500 Oops", "", &long),
        sized("200 OK", "", &error_body),
        sized("200 OK", "", &format!("<html>{echo}</html>")),
        sized("200 OK", "", &format!("data: error {echo}\n\n")),
        sized("200 OK", "", &format!("data: text hi\n\ndata: error {echo}\n\n")),
        sized("307 There", "location: /sk-SECRET-1/x\r\n", ""),
    ];
    for step in table {
        let server = Server::start([vec![step]]).await;
        let url = format!("{}/?key=sk-SECRET-4", server.url().replace("http://", "http://u:sk-SECRET-3@"));
        let wire = Lines::new(&url).header("x-gateway", "gw-SECRET-2");
        let client = Client::new(wire).retries(RetryPolicy::never());
        let error = client.stream(&Request::new()).into_turn().await.unwrap_err();
        let shown = format!("{} {}", everything_of(&error), serde_json::to_string(error.error()).unwrap());
        assert!(!shown.contains("SECRE") && shown.contains("***"), "{shown}");
        assert_eq!(server.counts().requests, 1);
    }

    // Without a header of its own the request takes user and password from its address, encoded.
    let server = Server::start([vec![sized("401 Who", "", "you sent Basic dXNlcjpwYXNzd29yZA==")]]).await;
    let url = server.url().replace("http://", "http://user:password@");
    let error = failure(&mut Client::new(Lines::keyless(&url)).stream(&Request::new())).await;
    assert!(server.requests()[0].contains("authorization: Basic dXNlcjpwYXNzd29yZA=="));
    assert_eq!(error.body(), Some("you sent ***"));
}

/// Proxies are read from the environment, so this test runs itself again with another one.
#[tokio::test]
async fn a_proxy_of_the_environment_is_used_but_not_for_loopback() {
    const CHILD: &str = "TURNSTREAM_TEST_BEHIND_PROXY";
    let good = || vec![chunked(&["reason stop", "end"]), last_chunk()];
    if std::env::var_os(CHILD).is_some() {
        let server = Server::start([good()]).await;
        for url in [server.url(), "http://example.test"] {
            let client = client(url).retries(RetryPolicy::never()).allow_insecure_http(true);
            assert_eq!(words(&mut client.stream(&Request::new())).await, ["start -", "end"], "{url}");
        }
        assert_eq!(server.counts().requests, 1);
        return;
    }
    let proxy = Server::start([good()]).await;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "requests::a_proxy_of_the_environment_is_used_but_not_for_loopback"]);
    for name in ["NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "http_proxy", "REQUEST_METHOD"] {
        child.env_remove(name);
    }
    child.env("HTTP_PROXY", proxy.url()).env(CHILD, "1");
    let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let requests = proxy.requests();
    let asked: Vec<&str> = requests.iter().filter_map(|request| request.lines().next()).collect();
    assert_eq!(asked, ["POST http://example.test/turn HTTP/1.1"]);
}

#[tokio::test]
async fn case_141_turns_and_clients_go_where_they_are_needed() {
    fn goes_anywhere<T: Send>(_: &T) {}
    fn is_shared<T: Clone + Send + Sync + 'static>(_: &T) {}
    fn is_a_source<T: Send + Unpin + 'static>() {}
    fn is_an_error<T: StdError + Send + Sync + 'static>() {}
    is_a_source::<TurnStream>();
    is_a_source::<TextStream>();
    is_an_error::<Error>();

    let server = Server::start([vec![chunked(&["text hi", "reason stop", "end"]), last_chunk()]]).await;
    let client = client(server.url());
    is_shared(&client);
    goes_anywhere(&client.stream(&Request::new()).into_turn());
    let model: std::sync::Arc<dyn Model> = std::sync::Arc::new(client);
    let request = Request::new();
    let mut turn = model.stream(&request);
    drop((request, model));
    goes_anywhere(&turn.next());
    let first = tokio::spawn(async move { next(&mut turn).await }).await.unwrap();
    assert!(matches!(first, Some(Ok(_))));
}
