use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::{JoinHandle, JoinSet},
    time::timeout,
};

/// A server on loopback that answers each request with the next list of steps, byte by byte as written.
pub(crate) struct Server {
    url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// One step of an answer. After the last one the connection takes its next request.
#[derive(Clone)]
pub(crate) enum Step {
    Send(Vec<u8>),
    /// Waits for the gate, or for the client to hang up.
    Wait(Gate),
    /// Says that nothing more comes, and goes on reading.
    HalfClose,
    /// Hangs up.
    Close,
    /// Hangs up so that the client's next read fails.
    Reset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    /// Connections that have ended.
    pub(crate) closed: usize,
    /// Bytes that were given to the sockets.
    pub(crate) bytes: usize,
}

/// Something that a step waits for and a test opens, once for each step that waits.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

struct Shared {
    answers: Mutex<VecDeque<Vec<Step>>>,
    requests: Mutex<Vec<String>>,
    counts: watch::Sender<Counts>,
}

impl Server {
    pub(crate) async fn start(answers: impl IntoIterator<Item = Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            answers: Mutex::new(answers.into_iter().collect()),
            requests: Mutex::default(),
            counts: watch::Sender::default(),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { url, shared, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.shared.counts.borrow()
    }

    /// The requests so far: head and body as they came.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Waits until the counts are as they should be.
    pub(crate) async fn until(&self, is_reached: impl Fn(&Counts) -> bool) {
        let mut counts = self.shared.counts.subscribe();
        let reached = timeout(Duration::from_secs(60), counts.wait_for(is_reached)).await;
        reached.unwrap_or_else(|_| panic!("it stays at {:?}", self.counts())).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Waits until it is opened.
    pub(crate) async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }

    pub(crate) fn open(&self) {
        self.0.add_permits(1);
    }
}

/// The head of an answer in chunks, with its first frames.
pub(crate) fn chunked(frames: &[&str]) -> Step {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_1\r\n\
                transfer-encoding: chunked\r\n\r\n";
    Step::Send(format!("{head}{}", framed(frames)).into_bytes())
}

/// A chunk with frames.
pub(crate) fn chunk(frames: &[&str]) -> Step {
    Step::Send(framed(frames).into_bytes())
}

/// The last chunk.
pub(crate) fn last_chunk() -> Step {
    Step::Send(b"0\r\n\r\n".to_vec())
}

/// A whole answer with a length.
pub(crate) fn sized(status: &str, headers: &str, body: &str) -> Step {
    let length = body.len();
    Step::Send(format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes())
}

/// Waits for the client to hang up.
pub(crate) fn hold() -> Step {
    Step::Wait(Gate::new())
}

fn framed(frames: &[&str]) -> String {
    let body: String = frames
        .iter()
        .map(
            |frame| {
                if frame.starts_with(':') { format!("{frame}\n\n") } else { format!("data: {frame}\n\n") }
            },
        )
        .collect();
    match body.len() {
        0 => body,
        length => format!("{length:x}\r\n{body}\r\n"),
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Aborting this task aborts those of its connections.
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        connections.spawn(serve(socket, Arc::clone(&shared)));
    }
}

async fn serve(mut socket: TcpStream, shared: Arc<Shared>) {
    shared.counts.send_modify(|counts| counts.connections += 1);
    while let Some(request) = read_request(&mut socket).await {
        shared.requests.lock().unwrap().push(request);
        let steps = shared.answers.lock().unwrap().pop_front().unwrap_or_else(|| vec![Step::Close]);
        shared.counts.send_modify(|counts| counts.requests += 1);
        if !answer(&mut socket, steps, &shared).await {
            break;
        }
    }
    drop(socket);
    shared.counts.send_modify(|counts| counts.closed += 1);
}

/// Whether the connection goes on.
async fn answer(socket: &mut TcpStream, steps: Vec<Step>, shared: &Shared) -> bool {
    for step in steps {
        match step {
            Step::Send(bytes) => {
                for piece in bytes.chunks(64 << 10) {
                    if socket.write_all(piece).await.is_err() {
                        return false;
                    }
                    shared.counts.send_modify(|counts| counts.bytes += piece.len());
                }
            }
            Step::Wait(gate) => {
                let mut nothing = [0];
                tokio::select! {
                    permit = gate.0.acquire() => permit.unwrap().forget(),
                    _ = socket.read(&mut nothing) => return false,
                }
            }
            Step::HalfClose => {
                let mut nothing = Vec::new();
                socket.shutdown().await.unwrap();
                let _ = socket.read_to_end(&mut nothing).await;
                return false;
            }
            Step::Close => return false,
            Step::Reset => {
                socket.set_zero_linger().unwrap();
                return false;
            }
        }
    }
    true
}

async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
        if body.len() >= length.parse().ok()? {
            return Some(text.into_owned());
        }
    }
}
