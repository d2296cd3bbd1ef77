//! Attempts signed with credentials of AWS, over real HTTP.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use turnstream_core::{ErrorKind, Request};
use turnstream_http::{AwsCredentials, SigV4};

use crate::support::{
    Server, Step, assert_kind, chunked, client, everything_of, failure, last_chunk, sized, words,
};

fn good() -> Vec<Step> {
    vec![chunked(&["text hi", "reason stop", "end"]), last_chunk()]
}

/// A clock that goes on by a second with each look at it.
fn clock() -> impl Fn() -> SystemTime + Send + Sync + 'static {
    let seconds = Arc::new(AtomicU64::new(1_735_787_045));
    move || SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.fetch_add(1, Ordering::SeqCst))
}

fn sent(request: &str, header: &str) -> String {
    let mut values = request.lines().filter_map(|line| line.strip_prefix(header)?.strip_prefix(": "));
    let value = values.next().unwrap_or("none").to_owned();
    assert_eq!(values.next(), None, "{header} is sent twice");
    value
}

#[tokio::test]
async fn every_attempt_is_signed_with_its_own_time_and_without_the_wires_key() {
    let server = Server::start([vec![sized("503 Full", "", "{}")], good()]).await;
    let credentials = AwsCredentials::new("AKID", "sk-SECRET-1").session_token("sk-SECRET-2");
    let signer = SigV4::new(credentials).region("eu-north-1").clock(clock());
    let client = client(server.url()).authorize(signer);
    assert_eq!(words(&mut client.stream(&Request::new().user("hi"))).await[1..], ["text hi", "part", "end"]);
    let requests = server.requests();
    let dates: Vec<String> = requests.iter().map(|request| sent(request, "x-amz-date")).collect();
    assert_eq!(dates, ["20250102T030405Z", "20250102T030406Z"]);
    let scope = "AWS4-HMAC-SHA256 Credential=AKID/20250102/eu-north-1/bedrock/aws4_request, \
                 SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=";
    let signatures: Vec<String> = requests
        .iter()
        .map(|request| sent(request, "authorization").strip_prefix(scope).unwrap().to_owned())
        .collect();
    assert!(signatures.iter().all(|signature| signature.len() == 64) && signatures[0] != signatures[1]);
    assert!(requests.iter().all(|request| sent(request, "x-amz-security-token") == "sk-SECRET-2"));
    // What is signed as the host is what is sent as the host.
    assert!(server.url().ends_with(&sent(&requests[0], "host")));
}

#[tokio::test]
async fn a_token_and_a_signature_that_a_reply_echoes_are_masked() {
    let echo = r#"{"error":{"message":"the canonical string has x-amz-security-token:sk-SECRET-2"}}"#;
    let server = Server::start([vec![sized("403 No", "", echo)]]).await;
    let credentials = AwsCredentials::new("AKID", "sk-SECRET-1").session_token("sk-SECRET-2");
    let client = client(server.url()).authorize(SigV4::new(credentials).region("eu-north-1"));
    let error = failure(&mut client.stream(&Request::new())).await;
    assert_kind(&error, ErrorKind::PermissionDenied);
    assert!(!format!("{} {client:?}", everything_of(&error)).contains("SECRET"), "{error}");
    assert_eq!(server.counts().requests, 1);
}

#[tokio::test]
async fn an_address_without_a_region_sends_nothing() {
    let server = Server::start([good()]).await;
    let client = client(server.url()).authorize(SigV4::new(AwsCredentials::new("AKID", "secret")));
    assert_kind(&failure(&mut client.stream(&Request::new())).await, ErrorKind::Config);
    assert_eq!(server.counts().requests, 0);
}
