//! Replies that are not a stream: typed, with what helps to understand them.

use std::time::Duration;

use turnstream_core::{Error, ErrorKind, Request};
use turnstream_http::RetryPolicy;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};

use crate::support::{Server, Step, assert_kind, client, failure, hold, sized};

/// The error that a reply ends in, without retries.
async fn error_of(reply: ResponseTemplate) -> Error {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(reply).mount(&server).await;
    let client = client(&server.uri()).retries(RetryPolicy::never());
    let mut turn = client.stream(&Request::new());
    let error = failure(&mut turn).await;
    assert!(!error.partial());
    error
}

/// The error that bytes on a socket end in, without retries.
async fn error_of_bytes(steps: Vec<Step>) -> Error {
    let server = Server::start([steps]).await;
    failure(&mut client(server.url()).retries(RetryPolicy::never()).stream(&Request::new())).await
}

#[tokio::test]
async fn case_145_a_refusal_keeps_status_headers_and_body() {
    let body = r#"{"error":{"message":"Invalid schema for function 'f'","type":"invalid_request_error","param":"tools[0]"}}"#;
    let reply = ResponseTemplate::new(400)
        .insert_header("x-request-id", "req_1")
        .insert_header("retry-after", "3")
        .set_body_raw(body, "application/json");
    let error = error_of(reply).await;
    assert_kind(&error, ErrorKind::InvalidRequest);
    assert_eq!(error.status(), Some(400));
    assert_eq!(error.message(), "Invalid schema for function 'f'");
    assert_eq!(error.code(), Some("invalid_request_error"));
    assert_eq!(error.request_id(), Some("req_1"));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    assert_eq!(error.body(), Some(body));
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn statuses_have_their_kinds() {
    let table = [
        (401, ErrorKind::Authentication),
        (403, ErrorKind::PermissionDenied),
        (404, ErrorKind::NotFound),
        (409, ErrorKind::Server),
        (422, ErrorKind::InvalidRequest),
        (429, ErrorKind::RateLimited),
        (500, ErrorKind::Server),
        (503, ErrorKind::Overloaded),
        (529, ErrorKind::Overloaded),
    ];
    for (status, kind) in table {
        let error = error_of(ResponseTemplate::new(status).set_body_string("upstream is down")).await;
        assert_kind(&error, kind);
        assert_eq!((error.status(), error.body()), (Some(status), Some("upstream is down")));
    }
}

#[tokio::test]
async fn a_page_with_status_200_is_not_a_stream() {
    let page = "<!doctype html><html><body>Sign in</body></html>";
    let reply = ResponseTemplate::new(200).insert_header("cf-ray", "ray_1").set_body_raw(page, "text/html");
    let error = error_of(reply).await;
    assert_kind(&error, ErrorKind::NotAStream);
    assert_eq!((error.status(), error.request_id(), error.body()), (Some(200), Some("ray_1"), Some(page)));
}

#[tokio::test]
async fn an_error_body_with_status_200_has_the_providers_word() {
    let body = r#" {"error":{"message":"no more","code":"quota"}}"#;
    for content_type in ["application/json", "text/event-stream"] {
        let reply = ResponseTemplate::new(200)
            .insert_header("request-id", "req_2")
            .insert_header("retry-after-ms", "350")
            .set_body_raw(body, content_type);
        let error = error_of(reply).await;
        assert_kind(&error, ErrorKind::Provider);
        assert_eq!(
            (error.status(), error.code(), error.request_id()),
            (Some(200), Some("quota"), Some("req_2"))
        );
        assert_eq!((error.retry_after(), error.body()), (Some(Duration::from_millis(350)), Some(body)));
    }
}

#[tokio::test]
async fn an_error_inside_a_stream_has_a_request_id_and_no_status() {
    let reply = ResponseTemplate::new(200)
        .insert_header("request-id", "req_3")
        .set_body_raw("data: error quota\n\n", "text/event-stream");
    let error = error_of(reply).await;
    assert_kind(&error, ErrorKind::Provider);
    assert_eq!((error.status(), error.code(), error.request_id()), (None, Some("quota"), Some("req_3")));
}

#[tokio::test]
async fn events_under_a_wrong_content_type_are_events() {
    let server = MockServer::start().await;
    let body = "data: text hi\n\ndata: reason stop\n\ndata: end\n\n";
    let reply = ResponseTemplate::new(200).set_body_raw(body, "text/html");
    Mock::given(any()).respond_with(reply).mount(&server).await;
    let turn = client(&server.uri()).stream(&Request::new()).into_turn().await.unwrap();
    assert_eq!(turn.text(), "hi");
}

#[tokio::test]
async fn no_content_is_not_a_stream() {
    let error = error_of(ResponseTemplate::new(204)).await;
    assert_kind(&error, ErrorKind::NotAStream);
    assert_eq!(error.status(), Some(204));
}

#[tokio::test]
async fn an_empty_body_is_a_turn_that_was_cut() {
    let error = error_of(ResponseTemplate::new(200).set_body_raw("", "text/event-stream")).await;
    assert_kind(&error, ErrorKind::Truncated);
}

#[tokio::test]
async fn compressed_bytes_are_not_a_stream_with_and_without_the_header() {
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0];
    let bare = ResponseTemplate::new(200).set_body_raw(gzip, "text/event-stream");
    for reply in [bare.clone().insert_header("content-encoding", "gzip"), bare] {
        let error = error_of(reply).await;
        assert_kind(&error, ErrorKind::NotAStream);
        assert_eq!(error.status(), Some(200));
        assert!(error.message().contains("gzip"), "{error}");
    }
    let refusal = ResponseTemplate::new(400).insert_header("content-encoding", "gzip").set_body_bytes(gzip);
    let error = error_of(refusal).await;
    assert_eq!((error.kind(), error.status()), (ErrorKind::InvalidRequest, Some(400)));
}

#[tokio::test]
async fn a_redirect_is_an_error_and_the_key_stays_here() {
    let elsewhere = Server::start([]).await;
    for status in [301, 302, 303, 307, 308] {
        let target = format!("{}/other?key=sk-SECRET-9", elsewhere.url());
        let error = error_of(ResponseTemplate::new(status).insert_header("location", target.as_str())).await;
        assert_kind(&error, ErrorKind::NotFound);
        assert_eq!(error.status(), Some(status));
        assert!(error.message().contains(&format!("{}/other,", elsewhere.url())), "{error}");
        assert!(!format!("{error:?}").contains("SECRET"), "{error:?}");
    }
    assert_eq!(elsewhere.counts().connections, 0);
}

#[tokio::test]
async fn a_refusal_without_end_is_read_up_to_a_limit() {
    let start = Step::Send(b"HTTP/1.1 500 Oops\r\ncontent-length: 9999999\r\n\r\n".to_vec());
    let error = error_of_bytes(vec![start, Step::Send(vec![b'x'; 65 << 10]), hold()]).await;
    assert_kind(&error, ErrorKind::Server);
    assert_eq!(error.body().unwrap(), "x".repeat(2048));
}

#[tokio::test]
async fn a_refusal_that_breaks_off_is_still_a_refusal() {
    let start = Step::Send(b"HTTP/1.1 500 Oops\r\ncontent-length: 9999\r\n\r\nhalf a".to_vec());
    let error = error_of_bytes(vec![start, Step::Close]).await;
    assert_eq!((error.status(), error.body()), (Some(500), Some("half a")));
}

#[tokio::test]
async fn a_reply_that_dies_in_its_head_is_a_failed_connection() {
    for steps in [
        vec![Step::Close],
        vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-".to_vec()), Step::Close],
        vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-".to_vec()), Step::Reset],
        vec![Step::Send(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()), Step::Close],
    ] {
        let error = error_of_bytes(steps).await;
        assert_kind(&error, ErrorKind::Connect);
        assert!(error.is_retryable());
    }
}

#[tokio::test]
async fn a_not_modified_reply_is_a_refusal() {
    let error = error_of_bytes(vec![Step::Send(b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec())]).await;
    assert_eq!((error.kind(), error.status()), (ErrorKind::InvalidRequest, Some(304)));
}

#[tokio::test]
async fn a_sized_reply_with_another_good_status_is_read_as_a_stream() {
    let server = Server::start([vec![sized("206 Partial", "", "data: text hi\n\ndata: end\n\n")]]).await;
    let turn = client(server.url()).stream(&Request::new()).into_turn().await.unwrap();
    assert_eq!(turn.text(), "hi");
}
