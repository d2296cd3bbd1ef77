//! Credentials that are found out for each attempt.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use turnstream_core::{Endpoint, Error, ErrorKind, KeyHeader, Request, Wire};
use turnstream_http::{Attempt, Authorize, Bearer, BearerToken, Client, RetryPolicy};

use crate::support::{
    Gate, Lines, Server, Step, assert_kind, chunked, client, everything_of, failure, last_chunk, poll_once,
    sized, words,
};

const GOOD: [&str; 3] = ["text hi", "part", "end"];

fn good() -> Vec<Step> {
    vec![chunked(&["text hi", "reason stop", "end"]), last_chunk()]
}

fn refusal(status: &str) -> Vec<Step> {
    vec![sized(status, "", "{}")]
}

/// The values of a header in the requests of a server.
fn sent(server: &Server, header: &str) -> Vec<String> {
    let value = |request: String| {
        let value = request.lines().find_map(|line| line.strip_prefix(header)?.strip_prefix(": "));
        value.unwrap_or("none").to_owned()
    };
    server.requests().into_iter().map(value).collect()
}

type Fetched = std::future::Ready<Result<BearerToken, Error>>;
type Authorised = fn(Client) -> Client;

/// Tokens `sk-SECRET-t1`, `sk-SECRET-t2`, and so on, and how many were fetched.
fn tokens(life: Option<Duration>) -> (Bearer<impl Fn() -> Fetched + Send + Sync>, Arc<AtomicU32>) {
    let fetched = Arc::new(AtomicU32::new(0));
    let count = fetched.clone();
    let bearer = Bearer::new(move || {
        let token = BearerToken::new(format!("sk-SECRET-t{}", count.fetch_add(1, Ordering::SeqCst) + 1));
        std::future::ready(Ok(match life {
            Some(life) => token.expires_in(life),
            None => token,
        }))
    });
    (bearer, fetched)
}

/// Signs with what it sees.
#[derive(Default)]
struct Signer(Mutex<Vec<String>>);

impl Authorize for Signer {
    async fn authorize(&self, attempt: &mut Attempt) -> Result<(), Error> {
        tokio::task::yield_now().await;
        let body = String::from_utf8_lossy(attempt.body());
        let wire = attempt.headers().get("x-wire").unwrap().to_str().unwrap();
        let seen = format!("{} {} {wire} {body}", attempt.method(), attempt.url().path());
        self.0.lock().unwrap().push(seen);
        attempt.set_header("x-date", &format!("day {}", attempt.number()))?;
        attempt.set_secret("authorization", &format!("SIG sk-SECRET-{}", attempt.number()))
    }
}

#[tokio::test]
async fn every_attempt_is_asked_about_and_seen_as_it_will_be_sent() {
    let server = Server::start([refusal("503 Full"), refusal("500 Oops"), good()]).await;
    let signer = Arc::new(Signer::default());
    let client = client(&format!("{}/v1", server.url())).authorize(signer.clone());
    let mut turn = client.stream(&Request::new().user("hi"));
    assert_eq!(words(&mut turn).await[1..], GOOD);
    let body = serde_json::to_string(&Request::new().user("hi")).unwrap();
    assert_eq!(*signer.0.lock().unwrap(), vec![format!("POST /v1/turn lines {body}"); 3]);
    // The wire's own key has made room, and nothing but what was added differs.
    assert_eq!(sent(&server, "authorization"), ["SIG sk-SECRET-1", "SIG sk-SECRET-2", "SIG sk-SECRET-3"]);
    assert_eq!(sent(&server, "x-date"), ["day 1", "day 2", "day 3"]);
    let mut bodies: Vec<_> = server.requests();
    bodies.dedup_by_key(|request| request.split_once("\r\n\r\n").unwrap().1.to_owned());
    assert_eq!(bodies.len(), 1);
}

#[tokio::test]
async fn a_key_of_another_header_makes_room_and_a_callers_header_stays() {
    struct Portal;
    impl Authorize for Portal {
        async fn authorize(&self, attempt: &mut Attempt) -> Result<(), Error> {
            attempt.set_secret("Authorization", "Bearer t")
        }
    }
    let server = Server::start([good()]).await;
    let wire = Lines::new(server.url()).key_header(KeyHeader::Named("x-api-key")).header("x-gateway", "g");
    let client = Client::new(wire).authorize(Portal);
    assert_eq!(words(&mut client.stream(&Request::new())).await[1..], GOOD);
    let found = ["authorization", "x-api-key", "x-gateway"].map(|name| sent(&server, name).remove(0));
    assert_eq!(found, ["Bearer t", "none", "g"]);
}

#[tokio::test]
async fn what_was_added_is_masked_in_errors() {
    let echo = r#"{"error":{"message":"bad sk-SECRET-1","code":"sk-SECRET-1"}}"#;
    let server = Server::start([vec![sized("400 Bad", "", echo)]]).await;
    let client = client(server.url()).authorize(Arc::new(Signer::default()));
    let error = failure(&mut client.stream(&Request::new())).await;
    assert_eq!((error.message(), error.code()), ("bad ***", Some("***")));
    assert!(!format!("{} {client:?} {client:#?}", everything_of(&error)).contains("SECRET"));
    let attempt = Attempt::new(Lines::new("https://h").encode(&Request::new()).unwrap(), 1);
    assert!(!format!("{attempt:?} {attempt:#?}").contains("SECRET"));
    let token = BearerToken::new("sk-SECRET-9".to_owned());
    assert!(!format!("{token:?} {token:#?} {:?}", tokens(None).0).contains("SECRET"));
}

#[tokio::test]
async fn a_failure_to_authorise_is_the_attempts_and_only_what_may_pass_is_retried() {
    struct Flaky(AtomicU32, ErrorKind);
    impl Authorize for Flaky {
        async fn authorize(&self, _: &mut Attempt) -> Result<(), Error> {
            match self.0.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Error::new(self.1, "the token server is down")),
                _ => Ok(()),
            }
        }
    }
    let server = Server::start([good()]).await;
    let flaky = client(server.url()).authorize(Flaky(AtomicU32::new(0), ErrorKind::Connect));
    let mut turn = flaky.stream(&Request::new());
    assert_eq!(words(&mut turn).await[1..], GOOD);
    assert_eq!((turn.head().unwrap().attempts, server.counts().requests), (2, 1));
    for kind in [ErrorKind::Authentication, ErrorKind::PermissionDenied, ErrorKind::Config] {
        let broken = client(server.url()).authorize(Flaky(AtomicU32::new(0), kind));
        assert_kind(&failure(&mut broken.stream(&Request::new())).await, kind);
    }
    assert_eq!(server.counts().requests, 1);
}

#[tokio::test]
async fn an_authoriser_that_hangs_meets_the_first_byte_timeout() {
    struct Hangs;
    impl Authorize for Hangs {
        async fn authorize(&self, _: &mut Attempt) -> Result<(), Error> {
            std::future::pending().await
        }
    }
    let server = Server::start([]).await;
    let client = client(server.url()).authorize(Hangs).retries(RetryPolicy::never());
    let mut turn = client.stream(&Request::new());
    assert!(poll_once(&mut turn).await.is_pending());
    tokio::time::pause();
    assert_kind(&failure(&mut turn).await, ErrorKind::FirstByteTimeout);
    assert_eq!(server.counts().connections, 0);
}

#[tokio::test]
async fn a_bearer_token_is_kept_until_shortly_before_its_end() {
    let server = Server::start([good(), good(), good()]).await;
    let (bearer, fetched) = tokens(Some(Duration::from_secs(3600)));
    let client = client(server.url()).authorize(bearer);
    assert_eq!(words(&mut client.stream(&Request::new())).await[1..], GOOD);
    for (step, want) in [(3569, 1), (2, 2)] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(step)).await;
        tokio::time::resume();
        assert_eq!(words(&mut client.stream(&Request::new())).await[1..], GOOD);
        assert_eq!(fetched.load(Ordering::SeqCst), want);
    }
    let bearers = ["Bearer sk-SECRET-t1", "Bearer sk-SECRET-t1", "Bearer sk-SECRET-t2"];
    assert_eq!(sent(&server, "authorization"), bearers);
}

#[tokio::test]
async fn turns_at_once_fetch_one_token() {
    let server = Server::start([good(), good()]).await;
    let (gate, fetched) = (Gate::new(), Arc::new(AtomicU32::new(0)));
    let (count, at) = (fetched.clone(), gate.clone());
    let bearer = Bearer::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
        let at = at.clone();
        async move {
            at.pass().await;
            Ok(BearerToken::new("t".to_owned()))
        }
    });
    let client = client(server.url()).authorize(bearer);
    let (mut first, mut second) = (client.stream(&Request::new()), client.stream(&Request::new()));
    assert!(poll_once(&mut first).await.is_pending());
    assert!(poll_once(&mut second).await.is_pending());
    gate.open();
    let (first, second) = tokio::join!(words(&mut first), words(&mut second));
    assert_eq!((&first[1..], &second[1..]), (&GOOD.map(String::from)[..], &GOOD.map(String::from)[..]));
    assert_eq!(fetched.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_refused_bearer_token_is_renewed_once() {
    let server = Server::start([refusal("401 Expired"), good(), refusal("401 No"), refusal("401 No")]).await;
    let (bearer, fetched) = tokens(None);
    let client = client(server.url()).authorize(bearer);
    let mut turn = client.stream(&Request::new());
    assert_eq!(words(&mut turn).await[1..], GOOD);
    assert_eq!((turn.head().unwrap().attempts, fetched.load(Ordering::SeqCst)), (2, 2));
    assert_kind(&failure(&mut client.stream(&Request::new())).await, ErrorKind::Authentication);
    let bearers =
        ["Bearer sk-SECRET-t1", "Bearer sk-SECRET-t2", "Bearer sk-SECRET-t2", "Bearer sk-SECRET-t3"];
    assert_eq!(sent(&server, "authorization"), bearers);
}

#[tokio::test]
async fn a_refusal_is_final_where_nothing_is_renewed() {
    let never = |client: Client| client.retries(RetryPolicy::never());
    let table: [(&str, ErrorKind, Authorised); 3] = [
        // Another token does not change what the account may do.
        ("403 No", ErrorKind::PermissionDenied, |client| client.authorize(tokens(None).0)),
        ("401 No", ErrorKind::Authentication, |client| client.authorize(Arc::new(Signer::default()))),
        ("401 No", ErrorKind::Authentication, |client| client),
    ];
    for (status, kind, authorised) in table {
        let server = Server::start([refusal(status), good()]).await;
        assert_kind(&failure(&mut authorised(client(server.url())).stream(&Request::new())).await, kind);
        assert_eq!(server.counts().requests, 1, "{status}");
    }
    let server = Server::start([refusal("401 No"), good()]).await;
    let client = never(client(server.url()).authorize(tokens(None).0));
    assert_kind(&failure(&mut client.stream(&Request::new())).await, ErrorKind::Authentication);
    assert_eq!(server.counts().requests, 1);
}

#[test]
fn a_token_that_another_turn_has_renewed_is_not_forgotten() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (bearer, fetched) = tokens(None);
    let attempt = || {
        let endpoint = Endpoint::new("https://h", KeyHeader::Bearer);
        Attempt::new(endpoint.post("x", &[], &()).unwrap(), 1)
    };
    let refused = Error::new(ErrorKind::Authentication, "expired");
    runtime.block_on(async {
        let (mut first, mut second) = (attempt(), attempt());
        bearer.authorize(&mut first).await.unwrap();
        bearer.authorize(&mut second).await.unwrap();
        assert!(bearer.renew(&first, &refused));
        let mut third = attempt();
        bearer.authorize(&mut third).await.unwrap();
        // The second was sent with the first's token: the third's stays.
        assert!(bearer.renew(&second, &refused));
        bearer.authorize(&mut attempt()).await.unwrap();
        assert_eq!(fetched.load(Ordering::SeqCst), 2);
    });
}
