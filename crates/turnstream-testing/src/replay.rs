//! [`ReplayServer`]: an HTTP server on the loopback for what wiremock cannot do.

mod http1;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use http::HeaderMap;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use crate::{
    recording::{Ending, Recording, Step},
    sent::SentRequest,
};
use http1::{ClientGone, Connection};

/// A server on the loopback that serves [`Recording`]s: in chunks, at a pace, past gates, with cuts, resets,
/// stalls and slow heads. It speaks HTTP/1.1 with kept connections.
///
/// It runs in a task that the handle owns: dropping the handle stops it and closes all connections.
///
/// ```
/// use turnstream_testing::{ReplayServer, anthropic::Reply};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// let server = ReplayServer::start([Reply::new().text(["Hello."])]).await?;
/// assert!(server.base_url().starts_with("http://127.0.0.1:"));
/// assert_eq!(server.requests(), []);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ReplayServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// A request as the replay server received it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReceivedRequest {
    /// The number of the request at this server, from 0.
    pub number: usize,
    /// The method.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

type Answer = dyn FnMut(&ReceivedRequest) -> Recording + Send;

struct Shared {
    answer: Mutex<Box<Answer>>,
    requests: Mutex<Vec<ReceivedRequest>>,
    counts: watch::Sender<Counts>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    connections: usize,
    requests: usize,
    /// Clients that went away before their reply was whole.
    gone: usize,
}

impl ReplayServer {
    /// Serves these replies, one a request, in order. Later requests get status 410, which no client
    /// retries.
    ///
    /// # Errors
    ///
    /// When no port can be bound.
    pub async fn start<R: Into<Recording>>(replies: impl IntoIterator<Item = R>) -> io::Result<Self> {
        let mut replies: Vec<Recording> = replies.into_iter().map(Into::into).collect();
        replies.reverse();
        Self::start_with(move |request| {
            replies.pop().unwrap_or_else(|| {
                let message = format!("the replay has no reply for request {}", request.number + 1);
                Recording::new(message).status(410).header("content-type", "text/plain")
            })
        })
        .await
    }

    /// Serves what `answer` says to each request.
    ///
    /// # Errors
    ///
    /// When no port can be bound.
    pub async fn start_with(
        answer: impl FnMut(&ReceivedRequest) -> Recording + Send + 'static,
    ) -> io::Result<Self> {
        Self::start_on(0, answer).await
    }

    /// The same on this port; 0 stands for any that is free.
    ///
    /// # Errors
    ///
    /// When the port cannot be bound.
    pub async fn start_on(
        port: u16,
        answer: impl FnMut(&ReceivedRequest) -> Recording + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            answer: Mutex::new(Box::new(answer)),
            requests: Mutex::default(),
            counts: watch::Sender::default(),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self { address, shared, accepting })
    }

    /// Where it is, without a path: `http://127.0.0.1:` and the port.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far, in the order in which they were received whole.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the requests so far say, as far as they went to a known wire's path.
    pub fn sent_requests(&self) -> Vec<SentRequest> {
        self.requests().iter().filter_map(ReceivedRequest::sent).collect()
    }

    /// How many connections have been made.
    pub fn connections(&self) -> usize {
        self.shared.counts.borrow().connections
    }

    /// How many clients went away before their reply was whole.
    pub fn clients_gone(&self) -> usize {
        self.shared.counts.borrow().gone
    }

    /// Waits until so many requests have been received.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn received(&self, requests: usize) {
        self.wait_until(|counts| counts.requests >= requests).await;
    }

    /// Waits until a client has gone away before its reply was whole; comes back at once if one has.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn client_gone(&self) {
        self.wait_until(|counts| counts.gone > 0).await;
    }

    async fn wait_until(&self, is_so: impl FnMut(&Counts) -> bool) {
        let mut counts = self.shared.counts.subscribe();
        counts.wait_for(is_so).await.expect("the sender lives as long as the server");
    }
}

impl Drop for ReplayServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl ReceivedRequest {
    /// What the request says, if it goes to a known wire's path.
    pub fn sent(&self) -> Option<SentRequest> {
        SentRequest::read(&self.path, &self.body)
    }

    /// The body as JSON; `null` if it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("counts", &*self.counts.borrow()).finish_non_exhaustive()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        shared.counts.send_modify(|counts| counts.connections += 1);
        connections.spawn(serve(stream, shared.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let mut connection = Connection::new(stream);
    while let Some(head) = connection.read_request().await {
        let recording = shared.answer(head);
        match reply(&mut connection, recording).await {
            Ok(After::Kept) => {}
            Ok(After::Closed) => return,
            Err(ClientGone) => {
                shared.counts.send_modify(|counts| counts.gone += 1);
                return;
            }
        }
    }
}

impl Shared {
    fn answer(&self, mut request: ReceivedRequest) -> Recording {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        request.number = requests.len();
        let recording = {
            let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
            answer(&request)
        };
        requests.push(request);
        drop(requests);
        self.counts.send_modify(|counts| counts.requests += 1);
        recording
    }
}

/// What has become of a connection after a reply.
enum After {
    Kept,
    Closed,
}

async fn reply(connection: &mut Connection, recording: Recording) -> Result<After, ClientGone> {
    for step in recording.steps {
        connection.check().await?;
        match step {
            Step::Head => connection.write_head(recording.status, &recording.headers).await?,
            Step::Wait(pause) => connection.during(tokio::time::sleep(pause)).await?,
            Step::Gate(gate) => connection.during(gate.pass()).await?,
            Step::Chunk(bytes) => connection.write_chunk(&bytes).await?,
        }
    }
    match recording.ending {
        Ending::Whole => {
            connection.write_end().await?;
            return Ok(After::Kept);
        }
        Ending::Cut => {}
        Ending::Reset => connection.reset_on_close(),
        Ending::Stall => connection.during(std::future::pending()).await?,
    }
    Ok(After::Closed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::Gate;

    const REQUEST: &[u8] =
        b"POST /v1/messages?beta=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n{\"a\":1}";
    const HEAD: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

    async fn connect(server: &ReplayServer) -> TcpStream {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        stream
    }

    async fn read(stream: &mut TcpStream, want: &str) {
        let mut got = vec![0; want.len()];
        stream.read_exact(&mut got).await.unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), want);
    }

    #[tokio::test]
    async fn replies_are_served_in_order_over_one_connection() {
        let server =
            ReplayServer::start([Recording::chunks(["ab", "c"]), Recording::new("d")]).await.unwrap();
        let mut stream = connect(&server).await;
        read(&mut stream, &format!("{HEAD}2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")).await;
        stream.write_all(REQUEST).await.unwrap();
        read(&mut stream, &format!("{HEAD}1\r\nd\r\n0\r\n\r\n")).await;
        stream.write_all(REQUEST).await.unwrap();
        read(&mut stream, "HTTP/1.1 410 Gone\r\n").await;
        let requests = server.requests();
        assert_eq!(requests.len(), 3);
        assert_eq!((requests[1].number, requests[1].method.as_str()), (1, "POST"));
        assert_eq!(requests[1].path, "/v1/messages?beta=1");
        assert_eq!(requests[1].json(), serde_json::json!({ "a": 1 }));
        assert!(requests[1].sent().is_some_and(|sent| sent.parts.is_empty()));
        assert_eq!((server.connections(), server.clients_gone()), (1, 0));
    }

    #[tokio::test]
    async fn a_cut_body_ends_without_its_last_chunk() {
        let server = ReplayServer::start([Recording::new("ab").cut()]).await.unwrap();
        let mut all = String::new();
        connect(&server).await.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, format!("{HEAD}2\r\nab\r\n"));
    }

    #[tokio::test]
    async fn a_reset_is_an_error_for_the_client() {
        let gate = Gate::new();
        let server = ReplayServer::start([Recording::new("ab").then_at(&gate, "c").reset()]).await.unwrap();
        let mut stream = connect(&server).await;
        read(&mut stream, &format!("{HEAD}2\r\nab\r\n")).await;
        gate.open();
        let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn a_client_that_leaves_a_stalled_body_is_seen() {
        let server = ReplayServer::start([Recording::new("ab").stall()]).await.unwrap();
        let mut stream = connect(&server).await;
        read(&mut stream, &format!("{HEAD}2\r\nab\r\n")).await;
        assert_eq!(server.clients_gone(), 0);
        drop(stream);
        server.client_gone().await;
        assert_eq!(server.clients_gone(), 1);
    }

    #[tokio::test]
    async fn a_head_waits_at_its_gate_and_a_chunk_for_its_time() {
        let gate = Gate::new();
        let recording = Recording::new("a").then_after(Duration::from_secs(3600), "b").scaled(0.0);
        let server = ReplayServer::start([recording.head_at(&gate)]).await.unwrap();
        let mut stream = connect(&server).await;
        gate.reached().await;
        server.received(1).await;
        gate.open();
        read(&mut stream, &format!("{HEAD}1\r\na\r\n1\r\nb\r\n0\r\n\r\n")).await;
    }

    #[tokio::test]
    async fn a_dropped_server_closes_its_connections() {
        let server = ReplayServer::start([Recording::new("ab").stall()]).await.unwrap();
        let mut stream = connect(&server).await;
        read(&mut stream, &format!("{HEAD}2\r\nab\r\n")).await;
        drop(server);
        assert_eq!(stream.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_connection_that_hangs_up_says_nothing() {
        let server = ReplayServer::start([Recording::hang_up()]).await.unwrap();
        assert_eq!(connect(&server).await.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }
}
