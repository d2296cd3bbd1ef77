//! TLS, HTTP/2, certificate authorities and tunnels, against a server as real ones are.

use std::time::Duration;

use reqwest::redirect::Policy;
use turnstream_core::{ErrorKind, Request};
use turnstream_http::{Client, RetryPolicy};

use crate::support::{
    Answer, Authority, Gate, Lines, Log, SecureServer, assert_kind, client, everything_of, failure, next,
    tunnel, word, words,
};

const WORDS: [&str; 4] = ["start -", "text hi", "part", "end"];
const BOTH: [&str; 2] = ["h2", "http/1.1"];

fn at(server: &SecureServer) -> Client {
    client(&format!("https://localhost:{}/v1", server.port()))
}

#[tokio::test]
async fn the_best_protocol_that_both_know_is_spoken_and_its_connection_reused() {
    for (protocols, version) in [(&BOTH[..], "HTTP/2.0"), (&BOTH[1..], "HTTP/1.1"), (&[], "HTTP/1.1")] {
        let authority = Authority::new();
        let answers = [Answer::whole(), Answer::whole(), Answer::whole()];
        let server = SecureServer::start(&authority, &["localhost"], protocols, answers).await;
        let client = at(&server).ca_certificate(authority.pem());
        for _ in 0..3 {
            assert_eq!(words(&mut client.stream(&Request::new())).await, WORDS);
        }
        let counts = server.counts();
        let versions: Vec<String> = counts.versions.iter().map(|version| format!("{version:?}")).collect();
        assert_eq!((counts.connections, versions), (1, vec![version.to_owned(); 3]));
        assert_eq!(counts.dropped, 0);
    }
}

#[tokio::test]
async fn turns_at_once_share_one_connection_of_http_2() {
    let authority = Authority::new();
    let answers = vec![Answer::whole(); 9];
    let server = SecureServer::start(&authority, &["localhost"], &BOTH, answers).await;
    let client = at(&server).ca_certificate(authority.pem());
    // The first turn makes the connection that the others find.
    assert_eq!(words(&mut client.stream(&Request::new())).await, WORDS);
    let mut turns: Vec<_> = (0..8).map(|_| client.stream(&Request::new())).collect();
    for turn in &mut turns {
        assert_eq!(word(&next(turn).await.unwrap()), "start -");
    }
    for turn in &mut turns {
        assert_eq!(words(turn).await, WORDS[1..]);
    }
    assert_eq!((server.counts().connections, server.counts().versions.len()), (1, 9));
}

#[tokio::test]
async fn a_dropped_turn_of_http_2_resets_its_stream_and_keeps_the_connection() {
    let authority = Authority::new();
    let answers = [Answer::silent(), Answer::whole()];
    let server = SecureServer::start(&authority, &["localhost"], &BOTH, answers).await;
    let client = at(&server).ca_certificate(authority.pem());
    let mut turn = client.stream(&Request::new());
    assert_eq!(word(&next(&mut turn).await.unwrap()), "start -");
    assert_eq!(server.counts().dropped, 0);
    drop(turn);
    server.until(|counts| counts.dropped == 1).await;
    assert_eq!(words(&mut client.stream(&Request::new())).await, WORDS);
    assert_eq!(server.counts().connections, 1);
}

#[tokio::test]
async fn a_reply_that_breaks_over_tls_is_a_cut_and_over_http_2_costs_the_others_nothing() {
    for (protocols, connections) in [(&BOTH[..], 1), (&BOTH[1..], 2)] {
        let authority = Authority::new();
        let gate = Gate::new();
        let answers = [Answer::broken_at(&gate), Answer::whole()];
        let server = SecureServer::start(&authority, &["localhost"], protocols, answers).await;
        let client = at(&server).ca_certificate(authority.pem());
        let mut broken = client.stream(&Request::new());
        assert_eq!(word(&next(&mut broken).await.unwrap()), "start -");
        gate.open();
        assert_eq!(words(&mut broken).await, ["text hi", "error truncated partial"]);
        assert_eq!(words(&mut client.stream(&Request::new())).await, WORDS);
        assert_eq!(server.counts().connections, connections);
    }
}

#[tokio::test]
async fn http_2_without_tls_is_spoken_through_a_client_of_the_callers_own() {
    let server = SecureServer::plain([Answer::whole(), Answer::whole()]).await;
    let http = reqwest::Client::builder().http2_prior_knowledge().redirect(Policy::none()).no_proxy();
    let client = client(&format!("http://localhost:{}", server.port())).http_client(http.build().unwrap());
    for _ in 0..2 {
        assert_eq!(words(&mut client.stream(&Request::new())).await, WORDS);
    }
    let counts = server.counts();
    assert_eq!((counts.connections, counts.versions), (1, vec![hyper::Version::HTTP_2; 2]));
}

#[tokio::test]
async fn an_authority_that_nobody_trusts_is_said_so_and_not_tried_again() {
    let authority = Authority::new();
    let server = SecureServer::start(&authority, &["localhost"], &BOTH, []).await;
    for client in [at(&server), at(&server).ca_certificate(Authority::new().pem())] {
        let error = failure(&mut client.stream(&Request::new())).await;
        assert_kind(&error, ErrorKind::Connect);
        assert_eq!(error.message(), "the certificate of the server, or of the proxy, is not accepted");
        assert!(!error.is_retryable() && everything_of(&error).contains("InvalidCertificate"), "{error:?}");
    }
    server.until(|counts| counts.refused == 2).await;
    assert_eq!(server.counts().connections, 2);
}

#[tokio::test]
async fn a_certificate_of_another_name_is_not_accepted() {
    let authority = Authority::new();
    let server = SecureServer::start(&authority, &["example.test"], &BOTH, []).await;
    let client = at(&server).ca_certificate(authority.pem());
    let error = failure(&mut client.stream(&Request::new())).await;
    assert_kind(&error, ErrorKind::Connect);
    assert!(everything_of(&error).contains("certificate not valid for name \"localhost\""), "{error:?}");
}

#[tokio::test]
async fn a_server_that_never_shakes_hands_meets_the_connect_timeout() {
    // The system makes the connection; nobody answers on it.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let client = client(&url).connect_timeout(Duration::from_secs(7)).retries(RetryPolicy::never());
    let mut turn = client.stream(&Request::new());
    let _connection = tokio::select! {
        accepted = listener.accept() => accepted.unwrap().0,
        item = next(&mut turn) => panic!("{item:?}"),
    };
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let error = failure(&mut turn).await;
    assert_kind(&error, ErrorKind::Connect);
    assert_eq!(error.message(), "no connection could be made in time");
    assert!(began.elapsed() <= Duration::from_secs(8), "{:?}", began.elapsed());
}

/// Every library on the way, down to its frames: the subscriber is that of this thread, and so are the
/// connection's tasks.
#[tokio::test]
async fn no_log_line_of_http_2_over_tls_shows_a_key() {
    let log = Log::start();
    let authority = Authority::new();
    let server = SecureServer::start(&authority, &["localhost"], &BOTH, [Answer::whole()]).await;
    let wire = Lines::new(&format!("https://localhost:{}/v1?key=sk-SECRET-4", server.port()));
    let client = Client::new(wire.header("x-gateway", "gw-SECRET-2")).ca_certificate(authority.pem());
    assert_eq!(words(&mut client.stream(&Request::new())).await, WORDS);
    let lines = log.lines();
    for word in ["a request is sent", "the head of the reply has come", "Headers"] {
        assert!(lines.iter().any(|line| line.contains(word)), "{word} is not in {lines:#?}");
    }
    // The server's side of the same thread logs what it received: its lines are not ours.
    let shown: Vec<&String> = lines.iter().filter(|line| line.contains("SECRET")).collect();
    assert!(shown.is_empty(), "{shown:#?}");
}

#[tokio::test]
async fn a_pem_text_without_a_certificate_is_the_error_of_every_turn() {
    for pem in ["", "not a PEM text", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let client = Client::new(Lines::new("https://localhost:1")).ca_certificate(pem);
        for _ in 0..2 {
            let error = failure(&mut client.stream(&Request::new())).await;
            assert_kind(&error, ErrorKind::Config);
        }
    }
}

#[tokio::test]
async fn a_proxy_that_was_set_tunnels_to_https_and_sees_no_key() {
    let authority = Authority::new();
    let server = SecureServer::start(&authority, &["example.test"], &BOTH, [Answer::whole()]).await;
    let (proxy, asked) = tunnel(server.port()).await;
    let client = client("https://example.test/v1")
        .proxy(format!("http://user:sk-SECRET-7@{proxy}"))
        .ca_certificate(authority.pem());
    assert!(!format!("{client:?} {client:#?}").contains("SECRET"));
    assert_eq!(words(&mut client.stream(&Request::new())).await, WORDS);
    let asked = asked.lock().unwrap().concat();
    assert!(asked.starts_with("CONNECT example.test:443 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("proxy-authorization: Basic dXNlcjpzay1TRUNSRVQtNw==\r\n"), "{asked}");
    assert!(!asked.contains("sk-SECRET-1"), "{asked}");
}

#[tokio::test]
async fn a_proxy_that_is_not_there_or_cannot_be_is_an_error_without_its_password() {
    let table = [
        ("http://user:sk-SECRET-7@127.0.0.1:1", ErrorKind::Connect),
        ("http://user:sk-SECRET-7@", ErrorKind::Config),
        ("http://user:sk-SECRET-7@:x", ErrorKind::Config),
        ("http://user:sk-SECRET-7@127.0.0.1:99999", ErrorKind::Config),
    ];
    for (proxy, kind) in table {
        let client = client("https://example.test/v1").proxy(proxy.to_owned()).retries(RetryPolicy::never());
        let error = failure(&mut client.stream(&Request::new())).await;
        assert_kind(&error, kind);
        assert!(!everything_of(&error).contains("SECRET"), "{}", everything_of(&error));
    }
}
