//! The replay server: a process of its own, which writes made-up replies as providers write theirs.

use std::{
    convert::Infallible,
    error::Error,
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::{
    Request, Response,
    body::Frame,
    header::{CONTENT_TYPE, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};

use crate::{body::Body, reply::ReplySpec, shapes};

/// Whatever went wrong.
pub type AnyError = Box<dyn Error + Send + Sync>;

/// A server that runs, as a child of this process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The server ends with it.
    life: ChildStdin,
    said: BufReader<std::process::ChildStdout>,
    base_url: String,
}

/// What a server saw in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Connections that were made to it.
    pub connections: usize,
    /// Requests that came over them.
    pub requests: usize,
}

impl Server {
    /// Starts this program again, as a server of these replies.
    ///
    /// # Errors
    ///
    /// Where the child does not start, or does not say its address.
    pub fn start(reply: &ReplySpec) -> Result<Self, AnyError> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program)
            .arg(SERVE)
            .args(reply.words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let life = child.stdin.take().ok_or("the server has no standard input")?;
        let mut said = BufReader::new(child.stdout.take().ok_or("the server has no standard output")?);
        let mut base_url = String::new();
        said.read_line(&mut base_url)?;
        base_url.truncate(base_url.trim_end().len());
        Ok(Self { child, life, said, base_url })
    }

    /// Where it listens.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// Where it does not say what it saw.
    pub fn stop(mut self) -> Result<Served, AnyError> {
        drop(self.life);
        let mut counts = String::new();
        self.said.read_to_string(&mut counts)?;
        self.child.wait()?;
        let mut counts = counts.split_whitespace().map(str::parse);
        let mut next = || counts.next().ok_or("the server said no counts");
        Ok(Served { connections: next()??, requests: next()?? })
    }
}

/// Serves replies until the standard input ends, and says what was seen.
///
/// # Errors
///
/// Where it cannot listen.
pub fn serve(reply: &ReplySpec) -> Result<(), AnyError> {
    let replies = Arc::new(Replies::of(reply)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}", listener.local_addr()?);
        let (closed, mut life) = tokio::sync::oneshot::channel();
        // A thread of its own: tokio's standard input would hold the runtime open.
        std::thread::spawn(move || {
            let _ended = io::copy(&mut io::stdin(), &mut io::sink());
            let _listened = closed.send(());
        });
        loop {
            tokio::select! {
                connection = listener.accept() => {
                    let (socket, _) = connection?;
                    replies.connections.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(answer(socket, replies.clone()));
                }
                _ = &mut life => break,
            }
        }
        let (connections, requests) = (&replies.connections, &replies.requests);
        // Whoever asked may be gone.
        let _heard = writeln!(
            io::stdout(),
            "{} {}",
            connections.load(Ordering::Relaxed),
            requests.load(Ordering::Relaxed)
        );
        Ok(())
    })
}

/// The word that makes a program the server.
pub(crate) const SERVE: &str = "serve";

/// What is answered.
#[derive(Debug)]
struct Replies {
    /// To a request without a tool's result.
    first: Arc<[Bytes]>,
    /// To one that brings a result.
    then: Arc<[Bytes]>,
    pace: Pace,
    content_type: &'static str,
    connections: AtomicUsize,
    requests: AtomicUsize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// As fast as it is read, and an end.
    Whole,
    /// As fast as it is read, over and over, without an end.
    Endless,
    /// The same, one chunk at a time with a pause after each.
    Trickle,
}

impl Replies {
    fn of(spec: &ReplySpec) -> Result<Self, String> {
        let (first, then, pace) = match spec.shape.as_str() {
            "run" => (shapes::recorded_turn(1), shapes::recorded_turn(3), Pace::Whole),
            "endless" => (shapes::text(spec.wire, spec.size), Body::default(), Pace::Endless),
            "trickle" => (shapes::short_text(spec.wire, spec.size), Body::default(), Pace::Trickle),
            shape => (shapes::named(spec.wire, shape, spec.size)?, Body::default(), Pace::Whole),
        };
        let owned = |body: &Body| {
            let chunks = match pace {
                Pace::Whole => body.chunks(spec.chunking),
                // It never comes to its end.
                Pace::Endless | Pace::Trickle => body.opening().into_iter().chain(body.deltas()).collect(),
            };
            chunks.into_iter().map(Bytes::copy_from_slice).collect()
        };
        Ok(Self {
            first: owned(&first),
            then: owned(&then),
            pace,
            content_type: spec.wire.framing().content_type(),
            connections: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
        })
    }

    fn body(&self, brings_result: bool) -> BoxBody<Bytes, Infallible> {
        let chunks = if brings_result && !self.then.is_empty() { &self.then } else { &self.first }.clone();
        let (pace, mut next) = (self.pace, 0);
        let once = stream::iter(std::iter::from_fn(move || {
            let chunk = chunks.get(next).cloned();
            next += 1;
            if pace != Pace::Whole && next == chunks.len() {
                // Behind the opening, so that the turn does not start again.
                next = chunks.len() / 2;
            }
            chunk.map(|chunk| Ok(Frame::data(chunk)))
        }));
        match pace {
            Pace::Whole | Pace::Endless => BodyExt::boxed(StreamBody::new(once)),
            Pace::Trickle => BodyExt::boxed(StreamBody::new(Box::pin(once.enumerate().then(
                |(number, frame)| async move {
                    // What comes at once is enough to have every stream begun.
                    if number >= TRICKLE_AT_ONCE {
                        sleep(TRICKLE_PAUSE).await;
                    }
                    frame
                },
            )))),
        }
    }
}

async fn answer(socket: TcpStream, replies: Arc<Replies>) {
    // Without it a frame waits for the one behind it.
    let _hint = socket.set_nodelay(true);
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let replies = replies.clone();
        async move {
            replies.requests.fetch_add(1, Ordering::Relaxed);
            let asked = request.into_body().collect().await?.to_bytes();
            let brings_result = memchr::memmem::find(&asked, b"\"tool_result\"").is_some();
            let mut response = Response::new(replies.body(brings_result));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(replies.content_type));
            Ok::<_, hyper::Error>(response)
        }
    });
    // A client that goes away is no error of the server's.
    let _closed =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
}

const TRICKLE_AT_ONCE: usize = 4;
const TRICKLE_PAUSE: Duration = Duration::from_secs(2);
