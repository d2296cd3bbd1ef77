//! What is asked again, when, and what never.

use std::{collections::BTreeMap, time::Duration};

use turnstream_core::{Error, ErrorKind, Request};
use turnstream_http::{Client, RetryPolicy};

use crate::support::{
    Lines, Log, Server, Step, assert_kind, chunked, client, failure, hold, last_chunk, next, poll_once,
    poll_until, sized, word, words,
};

fn good() -> Vec<Step> {
    vec![chunked(&["start t2", "text hi", "reason stop", "end"]), last_chunk()]
}

const GOOD: [&str; 4] = ["start t2", "text hi", "part", "end"];

#[tokio::test]
async fn what_may_get_better_is_asked_again_in_the_same_bytes() {
    let table = [
        vec![sized("429 Slow", "", "{}")],
        vec![sized("408 Late", "", "")],
        vec![sized("409 Busy", "", "")],
        vec![sized("500 Oops", "", "oops")],
        vec![sized("529 Full", "", "")],
        vec![sized("400 Odd", "x-should-retry: true\r\n", "")],
        vec![Step::Close],
        vec![Step::Send(b"HTTP/1.1 200 O".to_vec()), Step::Reset],
        // An empty body, one that breaks off, and errors: all before any output.
        vec![sized("200 OK", "", "")],
        vec![chunked(&[]), Step::Close],
        vec![chunked(&["start t1"]), last_chunk()],
        vec![chunked(&["start t1", "news"]), Step::Reset],
        vec![chunked(&["start t1", ": ping", "error overloaded"]), last_chunk()],
        vec![sized("200 OK", "", r#"{"error":{"message":"m","code":"overloaded"}}"#)],
    ];
    for steps in table {
        let server = Server::start([steps, good()]).await;
        let mut turn = client(server.url()).stream(&Request::new().user("hi"));
        assert_eq!(words(&mut turn).await, GOOD);
        assert_eq!(turn.head().unwrap().attempts, 2);
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0], requests[1]);
    }
}

#[tokio::test]
async fn what_cannot_get_better_is_not_asked_again() {
    let table = [
        (sized("400 Bad", "", "{}"), ErrorKind::InvalidRequest),
        (sized("401 Who", "", "{}"), ErrorKind::Authentication),
        (sized("429 Never", "x-should-retry: false\r\n", "{}"), ErrorKind::RateLimited),
        (sized("307 There", "location: /x\r\n", ""), ErrorKind::NotFound),
        (sized("200 OK", "", "<html>"), ErrorKind::NotAStream),
        (sized("200 OK", "", r#"{"error":{"message":"m","code":"quota"}}"#), ErrorKind::Provider),
        (sized("200 OK", "", "data: error quota\n\n"), ErrorKind::Provider),
    ];
    for (step, kind) in table {
        let server = Server::start([vec![step], good()]).await;
        assert_kind(&failure(&mut client(server.url()).stream(&Request::new())).await, kind);
        assert_eq!(server.counts().requests, 1);
    }
}

#[tokio::test]
async fn case_131_a_start_is_held_back_until_output_so_that_its_attempt_can_die() {
    let dying = vec![chunked(&["start t1", ": ping", "error overloaded"]), last_chunk()];
    let server = Server::start([dying.clone(), dying.clone(), dying]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    // Of three dead attempts only the last is told of, and it whole.
    assert_eq!(words(&mut turn).await, ["start t1", "error provider"]);
    assert_eq!((turn.head().unwrap().attempts, server.counts().requests), (3, 3));
}

#[tokio::test]
async fn case_131_after_output_nothing_is_asked_again() {
    let table = [
        (vec![chunked(&["start t1", "text Hel", "error overloaded"])], "error provider partial"),
        (vec![chunked(&["start t1", "text Hel"]), Step::Reset], "error truncated partial"),
        (vec![chunked(&["start t1", "text Hel"]), last_chunk()], "error truncated partial"),
    ];
    for (steps, error) in table {
        let server = Server::start([steps, good()]).await;
        let mut turn = client(server.url()).stream(&Request::new());
        assert_eq!(words(&mut turn).await, ["start t1", "text Hel", error]);
        assert_eq!(server.counts().requests, 1);
    }
    let call = vec![chunked(&["call f", "fragment {\"a\":"]), Step::Reset];
    let server = Server::start([call, good()]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    let want = ["start -", "call f", "fragment {\"a\":", "aborted Truncated", "error truncated partial"];
    assert_eq!(words(&mut turn).await, want);
    assert_eq!(server.counts().requests, 1);
}

#[tokio::test]
async fn news_is_held_back_with_the_start_and_comes_in_order() {
    let server = Server::start([vec![chunked(&["start t1", "news", "gossip"]), hold()]]).await;
    let client = client(server.url());
    let mut turn = client.stream(&Request::new());
    poll_until(&mut turn, |turn| turn.head().is_some()).await;
    assert!(poll_once(&mut turn).await.is_pending());

    let frames = ["start t1", "news", "gossip", "text hi", "reason stop", "end"];
    let server = Server::start([vec![chunked(&frames), last_chunk()]]).await;
    let mut turn = crate::support::client(server.url()).stream(&Request::new());
    let want = ["start t1", "provider news", "provider gossip", "text hi", "part", "end"];
    assert_eq!(words(&mut turn).await, want);
}

#[tokio::test]
async fn endless_news_is_not_held_back_without_end() {
    let server = Server::start([vec![chunked(&["news"; 65]), hold()], good()]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    assert_eq!(word(&next(&mut turn).await.unwrap()), "start -");
    for _ in 0..65 {
        assert_eq!(word(&next(&mut turn).await.unwrap()), "provider news");
    }
}

#[tokio::test]
async fn the_last_error_is_the_one_that_is_told() {
    let server =
        Server::start([vec![sized("500 Oops", "", "")], vec![Step::Close], vec![sized("503 Full", "", "")]])
            .await;
    let mut turn = client(server.url()).stream(&Request::new());
    assert_kind(&failure(&mut turn).await, ErrorKind::Overloaded);
    assert_eq!(turn.head().unwrap().attempts, 3);
}

#[tokio::test]
async fn the_other_form_of_a_refused_request_is_tried_once() {
    let refusal = || vec![sized("422 Odd", "", "{}")];
    let other = |url: &str| Client::new(Lines::new(url).other_body("{\"other\":1}"));
    let server = Server::start([refusal(), good()]).await;
    let mut turn = other(server.url()).stream(&Request::new());
    assert_eq!((words(&mut turn).await, turn.attempts()), (GOOD.map(String::from).to_vec(), 2));
    let bodies: Vec<String> = server
        .requests()
        .iter()
        .map(|request| request.split_once("\r\n\r\n").unwrap().1.to_owned())
        .collect();
    assert_eq!(bodies, [serde_json::to_string(&Request::new()).unwrap(), "{\"other\":1}".to_owned()]);

    let server = Server::start([refusal(), refusal(), good()]).await;
    let error = failure(&mut other(server.url()).stream(&Request::new())).await;
    assert_eq!((error.status(), server.counts().requests), (Some(422), 2));
    // No attempt is left for it, and what is no refusal has no other form.
    let server = Server::start([refusal(), vec![chunked(&["error quota"]), last_chunk()], good()]).await;
    let once = other(server.url()).retries(RetryPolicy::never());
    assert_kind(&failure(&mut once.stream(&Request::new())).await, ErrorKind::InvalidRequest);
    assert_kind(&failure(&mut other(server.url()).stream(&Request::new())).await, ErrorKind::Provider);
    assert_eq!(server.counts().requests, 2);
}

#[tokio::test]
async fn attempts_are_counted_also_where_no_head_ever_came() {
    let server = Server::start([vec![Step::Close], vec![Step::Close], vec![Step::Close]]).await;
    let mut turn = client(server.url()).stream(&Request::new());
    assert_eq!(turn.attempts(), 0);
    assert_kind(&failure(&mut turn).await, ErrorKind::Connect);
    assert_eq!((turn.attempts(), turn.head().is_none(), server.counts().requests), (3, true, 3));
    let mut good = client(Server::start([good()]).await.url()).stream(&Request::new());
    assert!(poll_once(&mut good).await.is_pending());
    assert_eq!(good.attempts(), 1);
}

#[tokio::test]
async fn jitter_can_be_a_sequence_of_the_tests_own() {
    let draws = std::sync::Mutex::new(vec![1.0, 0.5]);
    let policy = RetryPolicy::new().jitter(move || draws.lock().unwrap().pop().unwrap());
    let error = turnstream_core::Error::new(ErrorKind::Server, "failed");
    assert_eq!(policy.decide(1, &error), Some(Duration::from_millis(250)));
    assert_eq!(policy.clone().decide(2, &error), Some(Duration::from_millis(1000)));
}

#[tokio::test]
async fn a_policy_of_never_asks_once() {
    let server = Server::start([vec![sized("500 Oops", "", "")], good()]).await;
    let client = client(server.url()).retries(RetryPolicy::never());
    assert_kind(&failure(&mut client.stream(&Request::new())).await, ErrorKind::Server);
    assert_eq!(server.counts().requests, 1);
}

#[tokio::test]
async fn a_wait_longer_than_allowed_goes_to_the_caller_with_its_time() {
    let server = Server::start([vec![sized("429 Slow", "retry-after: 86400\r\n", "")], good()]).await;
    let error = failure(&mut client(server.url()).stream(&Request::new())).await;
    assert_kind(&error, ErrorKind::RateLimited);
    assert_eq!(error.retry_after(), Some(Duration::from_secs(86400)));
    assert_eq!(server.counts().requests, 1);
}

#[tokio::test]
async fn a_wait_that_the_total_has_no_room_for_goes_to_the_caller() {
    let server = Server::start([vec![sized("429 Slow", "retry-after: 50\r\n", "")], good()]).await;
    let client = client(server.url()).total_timeout(Duration::from_secs(40));
    assert_kind(&failure(&mut client.stream(&Request::new())).await, ErrorKind::RateLimited);
}

#[tokio::test]
async fn the_wait_is_what_the_provider_asks_for() {
    // The date is an hour away from this clock, and seven seconds from the provider's.
    let dates = "date: Wed, 01 Jan 2025 00:00:00 GMT\r\nretry-after: Wed, 01 Jan 2025 00:00:07 GMT\r\n";
    for headers in ["retry-after: 7\r\n", dates] {
        let server = Server::start([vec![sized("429 Slow", headers, "")], good()]).await;
        let mut turn = client(server.url()).stream(&Request::new());
        poll_until(&mut turn, |turn| turn.head().is_some()).await;
        // The refusal's body is empty and has come with its head: the next poll waits.
        assert!(poll_once(&mut turn).await.is_pending());
        tokio::time::pause();
        tokio::time::advance(Duration::from_millis(6900)).await;
        assert!(poll_once(&mut turn).await.is_pending());
        assert_eq!((server.counts().requests, turn.head().unwrap().status), (1, 429));
        tokio::time::advance(Duration::from_millis(200)).await;
        tokio::time::resume();
        assert_eq!(words(&mut turn).await, GOOD);
        assert_eq!(server.counts().requests, 2);
    }
}

#[tokio::test]
async fn a_retry_is_logged_without_secrets() {
    let headers = "x-request-id: req_4\r\n";
    let body = r#"{"error":{"message":"your key sk-SECRET-1 is tired","type":"rate_limit_error"}}"#;
    let server = Server::start([vec![sized("429 Slow", headers, body)], good()]).await;
    let log = Log::start();
    let mut turn = client(&format!("{}/v1?key=sk-SECRET-4", server.url())).stream(&Request::new());
    assert_eq!(words(&mut turn).await, GOOD);
    let lines: Vec<String> = log.lines().into_iter().filter(|line| line.contains("asked again")).collect();
    assert_eq!(
        lines,
        ["WARN message=the turn failed before any output and is asked again wire=\"lines\" model=\"m-1\" \
          attempt=1 kind=\"rate_limited\" status=429 code=\"rate_limit_error\" request_id=\"req_4\" \
          delay_ms=0"]
    );
    assert!(!log.lines().concat().contains("SECRET"));
}

#[test]
fn the_page_on_errors_has_each_kind_and_says_whether_it_is_retried() {
    let page = include_str!("../../../../docs/errors.md");
    let (_, table) = page.split_once("\n| kind | when |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let mut rows = BTreeMap::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let kind = cells[0].trim_matches(['|', ' ', '`']);
        let retried = cells.last().unwrap().split([' ', ',']).next().unwrap();
        assert_eq!(rows.insert(kind, retried), None, "{kind} stands twice");
    }
    let source = include_str!("../../../turnstream-core/src/error.rs");
    let names = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Self::")?.split_once(" => \"")?.1.strip_suffix("\","));
    for name in names {
        let kind: ErrorKind = serde_json::from_value(name.into()).unwrap();
        let retried = rows.remove(name).unwrap_or("(no row)");
        let want = match Error::new(kind, "").is_retryable() {
            true => "yes",
            // The provider's own word decides.
            false if kind == ErrorKind::Provider => "if",
            false => "no",
        };
        assert_eq!(retried, want, "{name}");
    }
    assert_eq!(rows, BTreeMap::new(), "rows of no kind");
}
