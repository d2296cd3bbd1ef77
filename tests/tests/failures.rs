//! What goes wrong, on every wire over real HTTP: turns that are cut, replies that are no stream, statuses,
//! damage. No handler runs, nothing panics, and the error says what it was.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use turnstream::{
    AbortReason, Error, ErrorKind, Event, Limits, Outcome, Reason, Request, RunEvent, RunStatus, Schema,
    Tool, ToolLoop,
};
use turnstream_testing::{
    HttpWire, OverHttp, Recording, ReplayServer, Reply, anthropic, bedrock, conformance::check_laws, ollama,
    openai_chat, openai_responses,
};
use turnstream_tests::TestedWire;

const HALF: &str = "{\"order_id\": \"A-44";

/// Replies of one wire, as recordings.
struct Provider {
    wire: TestedWire,
    reply: fn(Case) -> Recording,
}

/// What a reply is to do.
#[derive(Clone, Copy)]
enum Case {
    CutInArguments,
    LengthInArguments,
    LengthBeforeArguments,
    RefusedWords,
    RefusedInArguments,
    OverloadedInArguments,
    StatusIs(u16, &'static str),
    Damage(&'static [u8]),
    Silent,
}

const PROVIDERS: [Provider; 4] = [
    Provider {
        wire: TestedWire::Anthropic,
        reply: |case| recording(case, anthropic::Reply::new(), |reply| reply.stop("refusal")),
    },
    Provider {
        wire: TestedWire::Bedrock,
        reply: |case| recording(case, bedrock::Reply::new(), |reply| reply.stop("refusal")),
    },
    Provider {
        wire: TestedWire::OpenAiChat,
        reply: |case| recording(case, openai_chat::Reply::new(), |reply| reply.refusal(["I cannot."])),
    },
    Provider {
        wire: TestedWire::OpenAiResponses,
        reply: |case| recording(case, openai_responses::Reply::new(), |reply| reply.refusal(["I cannot."])),
    },
];

fn recording<W: HttpWire>(
    case: Case,
    reply: Reply<OverHttp<W>>,
    refuse: fn(Reply<OverHttp<W>>) -> Reply<OverHttp<W>>,
) -> Recording {
    let call = |reply: Reply<OverHttp<W>>, text: &str| {
        reply.text(["Let me look."]).call_raw("call_a", "lookup_order", text).fragments_of(5)
    };
    match case {
        Case::CutInArguments => call(reply, HALF).cut().into(),
        Case::LengthInArguments => call(reply, HALF).length().into(),
        Case::LengthBeforeArguments => call(reply, "").length().into(),
        Case::RefusedWords => reply.refusal(["I ", "cannot."]).into(),
        Case::RefusedInArguments => refuse(call(reply, HALF)).into(),
        Case::OverloadedInArguments => call(reply, HALF).error("server_error", "Too busy.").into(),
        Case::StatusIs(status, code) => reply.refused(status, code, "It says why.").into(),
        Case::Damage(bytes) => Recording::from(reply.text(["Let me look."]).raw(bytes).cut()),
        Case::Silent => Recording::from(reply.text(["Let me look."]).cut()).stall(),
    }
}

#[tokio::test]
async fn a_turn_that_is_cut_in_its_arguments_fails_and_says_what_had_come() {
    for provider in PROVIDERS {
        let run = run(&provider, Case::CutInArguments).await;
        let error = run.error();
        assert_eq!(error.kind(), ErrorKind::Truncated, "{}", provider.wire.name());
        assert!(error.partial());
        assert_eq!(run.aborted, [aborted(HALF, AbortReason::Truncated)]);
        assert_eq!((run.text.as_str(), run.handlers), ("Let me look.", 0));
    }
}

#[tokio::test]
async fn a_turn_that_is_cut_by_the_token_limit_stops_and_says_what_had_come() {
    for provider in PROVIDERS {
        for (case, partial) in [(Case::LengthInArguments, HALF), (Case::LengthBeforeArguments, "")] {
            let run = run(&provider, case).await;
            let name = provider.wire.name();
            assert!(matches!(run.outcome.status, RunStatus::Stopped(Reason::Length)), "{name}: {run:?}");
            assert_eq!(run.aborted, [aborted(partial, AbortReason::Length)], "{name}");
            assert_eq!((run.text.as_str(), run.handlers), ("Let me look.", 0));
        }
    }
}

#[tokio::test]
async fn a_refusal_stops_and_runs_nothing() {
    for provider in PROVIDERS {
        let name = provider.wire.name();
        let words = run(&provider, Case::RefusedWords).await;
        assert!(matches!(words.outcome.status, RunStatus::Stopped(Reason::Refusal)), "{name}: {words:?}");
        let cut = run(&provider, Case::RefusedInArguments).await;
        assert!(matches!(cut.outcome.status, RunStatus::Stopped(Reason::Refusal)), "{name}: {cut:?}");
        let partials: Vec<&str> = cut.aborted.iter().map(|(_, _, partial, _)| partial.as_str()).collect();
        assert_eq!((partials, cut.handlers), (vec![HALF], 0), "{name}");
    }
}

#[tokio::test]
async fn an_error_in_the_stream_has_the_providers_word_and_no_status() {
    for provider in PROVIDERS {
        let run = run(&provider, Case::OverloadedInArguments).await;
        let error = run.error();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Provider, Some("server_error")));
        assert_eq!((error.message(), error.status()), ("Too busy.", None));
        assert_eq!(error.request_id(), Some("req_test"));
        assert!(error.partial() && error.is_retryable());
        assert_eq!(run.aborted, [aborted(HALF, AbortReason::Error)]);
        assert_eq!(run.handlers, 0);
    }
}

/// Such a stream begins as a JSON document does, which would have the status of its head.
#[tokio::test]
async fn an_error_in_a_stream_of_json_lines_has_no_status_either() {
    for (pieces, status, partial) in
        [(vec!["", "Let"], None, true), (vec![""], None, false), (vec![], Some(200), false)]
    {
        let reply = ollama::Reply::new().text(pieces.clone()).error("", "The model is gone.").into();
        let (_, error) = failed_turn(TestedWire::Ollama, Limits::new(), reply).await;
        assert_eq!((error.kind(), error.message()), (ErrorKind::Provider, "The model is gone."));
        assert_eq!((error.status(), error.partial()), (status, partial), "{pieces:?}");
    }
}

#[tokio::test]
async fn a_status_is_a_typed_error_in_the_wires_own_shape() {
    let table = [
        (400, "invalid_request_error", ErrorKind::InvalidRequest, false),
        (401, "authentication_error", ErrorKind::Authentication, false),
        (403, "permission_error", ErrorKind::PermissionDenied, false),
        (404, "not_found_error", ErrorKind::NotFound, false),
        (413, "request_too_large", ErrorKind::InvalidRequest, false),
        (429, "rate_limit_error", ErrorKind::RateLimited, true),
        (500, "server_error", ErrorKind::Server, true),
        (503, "server_error", ErrorKind::Overloaded, true),
        (529, "overloaded_error", ErrorKind::Overloaded, true),
    ];
    for provider in PROVIDERS {
        for (status, code, kind, is_retryable) in table {
            let recording = (provider.reply)(Case::StatusIs(status, code)).header("retry-after", "7");
            let (events, error) = failed_turn(provider.wire, Limits::new(), recording).await;
            assert_eq!(events, []);
            assert_eq!((error.kind(), error.status(), error.code()), (kind, Some(status), Some(code)));
            assert_eq!((error.message(), error.request_id()), ("It says why.", Some("req_test")));
            assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
            assert_eq!((error.is_retryable(), error.partial()), (is_retryable, false), "{error}");
            assert!(error.body().is_some_and(|body| body.contains("It says why.")));
        }
    }
}

#[tokio::test]
async fn what_is_no_stream_is_a_typed_error_that_shows_its_start() {
    const PAGE: &str = "<!doctype html>\n<title>Sign in</title>\n";
    for wire in TestedWire::ALL {
        let page =
            Recording::new(PAGE).header("content-type", "text/html").header("x-request-id", "req_page");
        let (events, error) = failed_turn(wire, Limits::new(), page).await;
        assert_eq!((events, error.kind()), (vec![], ErrorKind::NotAStream));
        assert_eq!((error.status(), error.request_id()), (Some(200), Some("req_page")));
        assert_eq!(error.body(), Some(PAGE));

        let body = json!({ "error": { "message": "The model is not loaded.", "type": "server_error" } });
        let body = Recording::new(body.to_string()).header("content-type", "application/json");
        let (events, error) = failed_turn(wire, Limits::new(), body).await;
        assert_eq!((events, error.kind(), error.status()), (vec![], ErrorKind::Provider, Some(200)));
        assert_eq!((error.message(), error.code()), ("The model is not loaded.", Some("server_error")));
        assert!(error.body().is_some_and(|body| body.contains("not loaded")));

        // An AWS message may begin so, and then it is cut.
        if wire != TestedWire::Bedrock {
            let noise = Recording::new([0, 255, 254, 10, 0, 10]);
            let (events, error) = failed_turn(wire, Limits::new(), noise).await;
            assert_eq!((events, error.kind()), (vec![], ErrorKind::NotAStream));
        }

        let (events, error) = failed_turn(wire, Limits::new(), Recording::new("")).await;
        assert_eq!((events, error.kind()), (vec![], ErrorKind::Truncated));
    }
}

#[tokio::test]
async fn damage_in_the_middle_is_a_typed_error_after_the_events_before_it() {
    let table: [(&'static [u8], ErrorKind); 3] = [
        (b"data: \xff\xfe\xfd\n\n", ErrorKind::Malformed),
        (b"data: {\"type\": \n\n", ErrorKind::Malformed),
        (b"data: 01234567890123456789", ErrorKind::LimitExceeded),
    ];
    for provider in PROVIDERS {
        for (damage, kind) in table {
            let damage = match provider.wire {
                TestedWire::Bedrock => damaged_message(kind, damage),
                _ => damage,
            };
            // More than any frame of the reply, less than the damage that comes over and over.
            let limits = Limits::new().frame_bytes(1000);
            let mut recording = (provider.reply)(Case::Damage(damage));
            if kind == ErrorKind::LimitExceeded {
                let more = "0123456789".repeat(200);
                recording = recording.then_after(Duration::ZERO, more);
            }
            let (events, error) = failed_turn(provider.wire, limits, recording).await;
            assert_eq!(error.kind(), kind, "{}: {error}", provider.wire.name());
            assert!(error.partial());
            let text: String = events.iter().filter_map(text_of).collect();
            assert_eq!(text, "Let me look.");
        }
    }
}

/// The same damage in an AWS message: a checksum that does not hold, a length beyond the limit.
fn damaged_message(kind: ErrorKind, payload: &[u8]) -> &'static [u8] {
    let is_large = kind == ErrorKind::LimitExceeded;
    let payload = String::from_utf8_lossy(payload).repeat(if is_large { 50 } else { 1 });
    let mut message = bedrock::frame("contentBlockDelta", &payload);
    match is_large {
        true => message.truncate(20),
        false => *message.last_mut().unwrap() ^= 1,
    }
    message.leak()
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_cut_turn() {
    for provider in PROVIDERS {
        let recording = (provider.reply)(Case::CutInArguments).cut();
        let (_, error) = failed_turn(provider.wire, Limits::new(), recording).await;
        assert_eq!((error.kind(), error.partial()), (ErrorKind::Truncated, true));
    }
}

#[test]
fn a_dropped_stream_closes_its_connection_and_leaves_no_task() {
    let server_side = tokio::runtime::Runtime::new().unwrap();
    for provider in PROVIDERS {
        let replies = [(provider.reply)(Case::Silent)];
        let server = server_side.block_on(ReplayServer::start(replies)).unwrap();
        let client_side = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        client_side.block_on(async {
            let client = provider.wire.client(&server.base_url());
            let mut stream = client.stream(&Request::new().user("?"));
            while !matches!(stream.next().await, Some(Ok(Event::TextDelta(_)))) {}
            assert_eq!((server.connections(), server.clients_gone()), (1, 0));
            drop(stream);
            let settled = async {
                server.client_gone().await;
                // The HTTP library's own task sees the closed connection a little later.
                while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
                    tokio::task::yield_now().await;
                }
            };
            let settled = tokio::time::timeout(Duration::from_secs(10), settled).await;
            assert!(settled.is_ok(), "{}: something is left", provider.wire.name());
        });
    }
}

#[derive(Debug)]
struct Ran {
    outcome: Outcome,
    /// Id, name, what had come, and why, of each aborted call.
    aborted: Vec<(String, String, String, AbortReason)>,
    text: String,
    handlers: usize,
}

impl Ran {
    fn error(&self) -> &Error {
        self.outcome.error().unwrap_or_else(|| panic!("the run should have failed: {self:?}"))
    }
}

fn aborted(partial: &str, reason: AbortReason) -> (String, String, String, AbortReason) {
    ("call_a".to_owned(), "lookup_order".to_owned(), partial.to_owned(), reason)
}

/// Runs a loop with an eager tool against one reply.
async fn run(provider: &Provider, case: Case) -> Ran {
    let server = ReplayServer::start([(provider.reply)(case)]).await.unwrap();
    let handlers = Arc::new(AtomicUsize::new(0));
    let started = handlers.clone();
    let lookup = Tool::new("lookup_order")
        .parameters(Schema::object().string("order_id", "For example A-4471."))
        .handler(move |_: Value| {
            started.fetch_add(1, Ordering::SeqCst);
            async { Ok("in transit") }
        })
        .eager();
    let mut run = ToolLoop::new(provider.wire.client(&server.base_url()))
        .tool(lookup)
        .run(Request::new().user("Where is A-4471?"));
    let (mut aborted, mut text) = (Vec::new(), String::new());
    while let Some(event) = run.next().await {
        text.push_str(event.text().unwrap_or_default());
        if let RunEvent::Turn(turn) = &event
            && let Event::CallAborted(call) = &turn.event
        {
            let partial = call.partial.as_raw_str().to_owned();
            aborted.push((call.id.to_string(), call.name.to_string(), partial, call.reason));
        }
    }
    let handlers = handlers.load(Ordering::SeqCst);
    assert_eq!(server.requests().len(), 1, "a turn that did not end well is not answered");
    Ran { outcome: run.outcome(), aborted, text, handlers }
}

/// The events of one turn that has to fail, and its error.
async fn failed_turn(wire: TestedWire, limits: Limits, reply: Recording) -> (Vec<Event>, Error) {
    let server = ReplayServer::start([reply]).await.unwrap();
    let mut stream = wire.client_with(&server.base_url(), limits).stream(&Request::new().user("?"));
    let mut items = Vec::new();
    while let Some(item) = stream.next().await {
        items.push(item);
    }
    check_laws(&items);
    let error = items.pop().unwrap().unwrap_err();
    (items.into_iter().map(Result::unwrap).collect(), error)
}

fn text_of(event: &Event) -> Option<&str> {
    match event {
        Event::TextDelta(delta) => Some(&delta.text),
        _ => None,
    }
}
