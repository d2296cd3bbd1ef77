//! No secret leaves. One test lets every kind of turn end well and badly, with secrets in every place that can
//! hold one and servers that echo them, and looks for them in everything that can be seen: every `Debug`,
//! `Display` and JSON of what the turns gave, every log line of whatever library down to `TRACE`, and every
//! recording.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::{
    error::Error as StdError,
    fmt::{Debug, Write},
    fs,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde_json::json;
use tracing::{
    Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use turnstream::{
    Bearer, BearerToken, Client, Error, ErrorKind, Event, Limits, Request, RetryPolicy, anthropic::Anthropic,
    openai_chat::OpenAiChat, openai_responses::OpenAiResponses, wire::Wire,
};
use turnstream_testing::{
    HttpWire, OverHttp, RecordedTurn, Recorder, Recording, ReplayServer, Reply, anthropic, openai_chat,
    openai_responses,
};

/// What everything secret holds, and nothing else does.
const MARK: &str = "SECRET";
/// The key.
const KEY: &str = "sk-SECRET-1/a+b";
/// Another key that goes in a header of the caller's.
const GATEWAY: &str = "gw-SECRET-2";
/// What a server knows of a request, spelled as servers do.
const ECHO: &str = "sk-SECRET-1/a+b Bearer sk-SECRET-1/a+b gw-SECRET-2 user-SECRET-3 \
                    pass-SECRET-4 query-SECRET-5 query-SECRET%2D5";

/// Everything that was logged.
static LOG: Mutex<String> = Mutex::new(String::new());

fn log_line(line: &str) {
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    log.push_str(line);
    log.push('\n');
}

/// Takes the records of libraries that use `log`.
struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        log_line(&format!("{} {}: {}", record.level(), record.target(), record.args()));
    }

    fn flush(&self) {}
}

/// Takes the events and spans of libraries that use `tracing`.
struct Collector;

impl Subscriber for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut line = Line(format!("span {}", attributes.metadata().target()));
        attributes.record(&mut line);
        log_line(&line.0);
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        let mut line = Line("record".to_owned());
        values.record(&mut line);
        log_line(&line.0);
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(format!("{} {}", event.metadata().level(), event.metadata().target()));
        event.record(&mut line);
        log_line(&line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

/// Everything of the turns that can be seen.
#[derive(Default)]
struct Seen(String);

impl Seen {
    fn debug(&mut self, thing: &dyn Debug) {
        write!(self.0, "{thing:?} {thing:#?} ").unwrap();
    }

    fn error(&mut self, error: &(dyn StdError + 'static)) {
        write!(self.0, "{error} {error:#} ").unwrap();
        self.debug(&error);
        if let Some(source) = error.source() {
            self.error(source);
        }
    }

    /// The files of a recording.
    fn files_of(&mut self, recorded: &RecordedTurn) {
        let folder = std::env::temp_dir().join(format!("turnstream-secrets-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        recorded.save(folder.join("turn")).unwrap();
        for entry in fs::read_dir(&folder).unwrap() {
            self.0.push_str(&String::from_utf8_lossy(&fs::read(entry.unwrap().path()).unwrap()));
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    fn item(&mut self, item: &Result<Event, Error>) {
        self.debug(item);
        match item {
            Ok(event) => self.0.push_str(&serde_json::to_string(event).unwrap()),
            Err(error) => {
                self.0.push_str(&serde_json::to_string(error).unwrap());
                self.error(error);
            }
        }
    }
}

/// What a server answers, and in which kind of error, if any, the turn ends. `news` are frames of a type that
/// the wire does not know.
fn cases<W: HttpWire>(
    reply: fn() -> Reply<OverHttp<W>>,
    news: &[String],
) -> Vec<(Recording, Option<ErrorKind>)> {
    let envelope = json!({ "error": { "message": ECHO, "type": "t", "code": KEY } }).to_string();
    let whole = || reply().text(["Hello."]).end();
    let news = news.iter().fold(reply(), |reply, news| reply.frame("unheard_of", news)).text(["Hello."]);
    let cut = || Recording::from(reply().text(["Hello."]).cut());
    let long = format!("{}{KEY}", "x".repeat(2040));
    let table = [
        (Recording::from(whole()), None),
        (Recording::from(news), None),
        (Recording::new(envelope.clone()).status(401), Some(ErrorKind::Authentication)),
        (Recording::new(envelope.clone()).status(400), Some(ErrorKind::InvalidRequest)),
        (Recording::new(ECHO).status(404), Some(ErrorKind::NotFound)),
        (Recording::new(ECHO).status(429), Some(ErrorKind::RateLimited)),
        (Recording::new(long).status(500), Some(ErrorKind::Server)),
        (Recording::new(envelope), Some(ErrorKind::Provider)),
        (Recording::new(format!("<html>{ECHO}</html>")), Some(ErrorKind::NotAStream)),
        (Recording::new(format!("data: {{\"x\": {ECHO}\n\n")), Some(ErrorKind::Malformed)),
        (Recording::new(format!("data: {}\n\n", ECHO.repeat(100))), Some(ErrorKind::LimitExceeded)),
        (Recording::new(ECHO).header("content-encoding", "gzip"), Some(ErrorKind::NotAStream)),
        (Recording::new("").status(307).header("location", format!("/{KEY}")), Some(ErrorKind::NotFound)),
        (Recording::new("").status(204), Some(ErrorKind::NotAStream)),
        (cut(), Some(ErrorKind::Truncated)),
        (cut().cut(), Some(ErrorKind::Truncated)),
        (cut().reset(), Some(ErrorKind::Truncated)),
        (Recording::hang_up(), Some(ErrorKind::Connect)),
    ];
    let echoing = |(reply, kind): (Recording, _)| {
        let reply = reply.header("x-request-id", format!("req-{KEY}")).header("x-echo", ECHO);
        (reply.header("set-cookie", "session=SECRET-of-the-servers"), kind)
    };
    table.into_iter().map(echoing).collect()
}

/// Lets one turn end in every way, through a recorder, and looks at all of it.
async fn observe<W: Wire + Debug + Clone>(
    seen: &mut Seen,
    wire: impl Fn(String) -> W,
    set: impl Fn(Client) -> Client,
    cases: Vec<(Recording, Option<ErrorKind>)>,
) {
    for (reply, kind) in cases {
        // Each attempt meets the same: the turn once event by event, and once as a whole.
        let server = ReplayServer::start(vec![reply; 4]).await.unwrap();
        let address = server.base_url().replace("http://", "http://user-SECRET-3:pass-SECRET-4@");
        let wire = wire(format!("{address}/v1?api-version=1&key=query-SECRET%2D5"));
        let recorder = Recorder::new(wire.clone());
        let retries = RetryPolicy::new().max_attempts(2).base_delay(Duration::ZERO);
        let client = set(Client::new(recorder.clone()).retries(retries));
        let mut turn = client.stream(&Request::new().user("?"));
        let mut ended = None;
        while let Some(item) = turn.next().await {
            seen.item(&item);
            ended = item.err().map(|error| error.kind());
        }
        assert_eq!(ended, kind);
        seen.debug(&(&wire, &client, &turn, &recorder));
        if let Some(recorded) = recorder.turn(turn.head()) {
            seen.debug(&recorded);
            seen.files_of(&recorded);
        }
        match client.stream(&Request::new().user("?")).into_turn().await {
            Ok(turn) => seen.debug(&(&turn, turn.clone().into_message())),
            Err(error) => seen.error(&error),
        }
        // They were sent, in every request.
        for request in server.requests() {
            assert!(
                format!("{} {:?}", request.path, request.headers).matches(MARK).count() >= 3,
                "{request:?}"
            );
        }
    }
}

#[tokio::test]
async fn no_secret_is_in_anything_that_can_be_seen() {
    tracing::subscriber::set_global_default(Collector).unwrap();
    log::set_boxed_logger(Box::new(Logger)).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let mut seen = Seen::default();
    let limits = Limits::new().frame_bytes(4096);
    let news = json!({ "type": "unheard_of", "echo": ECHO, "object": "unheard.of" });
    // Some writers of JSON escape the slash.
    let escaped = news.to_string().replace('/', "\\/");
    let news = [news.to_string(), escaped];

    // The key is the wire's, or found out for each attempt: then the wire's own is not sent.
    type Set = fn(Client) -> Client;
    let plain: Set = |client| client;
    let found_out: Set = |client| client.authorize(Bearer::new(|| async { Ok(BearerToken::new(KEY)) }));
    for (set, key) in [(plain, KEY), (found_out, "never sent")] {
        let anthropic =
            |url| Anthropic::new("m").key(key).header("x-gw", GATEWAY).base_url(url).limits(limits);
        observe(&mut seen, anthropic, set, cases(anthropic::Reply::new, &news)).await;
        let chat = |url| OpenAiChat::new("m").key(key).header("x-gw", GATEWAY).base_url(url).limits(limits);
        observe(&mut seen, chat, set, cases(openai_chat::Reply::new, &news)).await;
        let responses =
            |url| OpenAiResponses::new("m").key(key).header("x-gw", GATEWAY).base_url(url).limits(limits);
        observe(&mut seen, responses, set, cases(openai_responses::Reply::new, &news)).await;
    }

    // Where nothing answers: a proxy with a password, and settings that cannot be used.
    let far = || Client::new(OpenAiChat::new("m").key(KEY).base_url("https://h/v1?key=query-SECRET-5"));
    let bad = || Client::new(OpenAiChat::new("m").key("sk-SECRET-\n").base_url("https://h"));
    let clients = [
        far().proxy("http://proxy-SECRET-6:pass-SECRET-7@127.0.0.1:1"),
        far().proxy("http://proxy-SECRET-6:pass-SECRET-7@:x"),
        far().ca_certificate(KEY),
        bad(),
        Client::new(OpenAiChat::new("m").key(KEY).base_url("SECRET://pass-SECRET-4")),
        Client::new(OpenAiChat::new("m").key(KEY).base_url("http://u:pass-SECRET-4@h/?key=query-SECRET-5")),
    ];
    for client in clients {
        let client = client.retries(RetryPolicy::never());
        seen.debug(&client);
        let mut turn = client.stream(&Request::new().user("?"));
        seen.item(&turn.next().await.unwrap());
    }

    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (what, text) in [("a log line", &log), ("something seen", &seen.0)] {
        if let Some(at) = text.find(MARK) {
            let around = text.get(at.saturating_sub(600)..(at + 100).min(text.len())).unwrap_or_default();
            panic!("{what} shows a secret: ...{around}...");
        }
    }
    // The nets were out: other words of the same turns are in them.
    for word in ["turnstream_http", "the turn failed before any output", "reqwest"] {
        assert!(log.contains(word), "{word} is not in the log");
    }
    for word in [
        "***",
        "unheard_of",
        "Sensitive",
        "turnstream_recording",
        "location",
        "the proxy's address cannot be used",
    ] {
        assert!(seen.0.contains(word), "{word} was not seen");
    }
}
