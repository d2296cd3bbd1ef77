//! [`Origin`]: a server on the loopback that does to each turn what its plan says, byte by byte.

use std::{io, net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::ensure;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::{
    fixtures::{Fixture, Fixtures},
    plan::{Fault, Plan, RESULT},
    process::Figures,
};

/// How many connections the system keeps for the server until it takes them.
const BACKLOG: u32 = 4096;
/// How much the system takes of a reply before its client has: little, so that a client that does not read is felt.
const SEND_BUFFER_BYTES: u32 = 64 << 10;
/// How long is waited for counts. Who waits longer waits for ever.
const PATIENCE: Duration = Duration::from_secs(300);
/// The pieces of a slow reply.
const SLOW_BYTES: usize = 97;

/// A server for plans. It stops when it is dropped; connections end with their clients.
#[derive(Debug)]
pub struct Origin {
    port: u16,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// What the server has seen, and where it stands.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Connections that were made.
    pub connections: usize,
    /// Connections that are open.
    pub open: usize,
    /// Requests that were read.
    pub requests: usize,
    /// Replies of which half has been sent, and which wait for a word.
    pub held: usize,
    /// Replies whose next bytes the system does not take, because the client does not read.
    pub blocked: usize,
    /// Bytes of replies that the system has not taken yet.
    pub unsent_bytes: usize,
    /// The server's process.
    pub process: Figures,
}

#[derive(Debug)]
struct Shared {
    fixtures: Arc<Fixtures>,
    counts: watch::Sender<Counts>,
    /// Whether held replies go on.
    goes_on: watch::Sender<bool>,
}

enum After {
    Kept,
    Closed,
}

impl Origin {
    /// Starts it on a free port.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub async fn start(fixtures: Arc<Fixtures>) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let listener = socket.listen(BACKLOG)?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            fixtures,
            counts: watch::Sender::default(),
            goes_on: watch::Sender::default(),
        });
        let task = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self { port, shared, task })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it has seen.
    pub fn counts(&self) -> Counts {
        self.shared.counts.borrow().clone()
    }

    /// Waits until the counts are as they should be.
    ///
    /// # Errors
    ///
    /// When they never will, by all that can be told.
    pub async fn until(&self, is_reached: impl FnMut(&Counts) -> bool) -> anyhow::Result<()> {
        let mut counts = self.shared.counts.subscribe();
        let reached = tokio::time::timeout(PATIENCE, counts.wait_for(is_reached)).await;
        ensure!(reached.is_ok(), "the server stays at {:?}", self.counts());
        Ok(())
    }

    /// Lets held replies go on, or holds those to come.
    pub fn go_on(&self, goes_on: bool) {
        self.shared.goes_on.send_replace(goes_on);
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The server as a process of its own: it says its port, answers each line of its input with a line, and stops when
/// its input ends, which it does with the process that started it.
///
/// # Errors
///
/// When there is no port, or nobody reads what it says.
pub async fn serve_until_stdin_ends() -> anyhow::Result<()> {
    let origin = Origin::start(Arc::new(Fixtures::load()?)).await?;
    let mut output = tokio::io::stdout();
    output.write_all(format!("{}\n", origin.port()).as_bytes()).await?;
    output.flush().await?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let (command, number) = line.split_once(' ').unwrap_or((&line, "0"));
        let number: usize = number.parse()?;
        match command {
            "held" => origin.until(|counts| counts.held >= number).await?,
            "blocked" => origin.until(|counts| counts.blocked >= number).await?,
            "open" => origin.until(|counts| counts.open <= number).await?,
            "go" => origin.go_on(number != 0),
            _ => {}
        }
        let counts = Counts { process: Figures::now()?, ..origin.counts() };
        output.write_all(format!("{}\n", serde_json::to_string(&counts)?).as_bytes()).await?;
        output.flush().await?;
    }
    Ok(())
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        shared.count(|counts| {
            counts.connections += 1;
            counts.open += 1;
        });
        let shared = shared.clone();
        tokio::spawn(async move {
            // A chunk is sent when it is due. Where that is refused, nothing is lost.
            let _ = stream.set_nodelay(true);
            let mut connection = Connection { stream, buffer: Vec::new(), shared: shared.clone() };
            // A client that goes away is no error here.
            while let Ok(After::Kept) = connection.answer().await {}
            drop(connection);
            shared.count(|counts| counts.open -= 1);
        });
    }
}

impl Shared {
    fn count(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(change);
    }
}

struct Connection {
    stream: TcpStream,
    /// What has been read and not used.
    buffer: Vec<u8>,
    shared: Arc<Shared>,
}

impl Connection {
    async fn answer(&mut self) -> io::Result<After> {
        let (attempt, body) = self.read_request().await?;
        self.shared.count(|counts| counts.requests += 1);
        let fixtures = self.shared.fixtures.clone();
        let plan = Plan::of_request(&body).ok_or(io::ErrorKind::InvalidData)?;
        let has_result = || body.windows(RESULT.len()).any(|bytes| bytes == RESULT.as_bytes());
        let number = plan.answer.filter(|_| has_result()).unwrap_or(plan.fixture);
        let fixture = fixtures.get(number).ok_or(io::ErrorKind::InvalidData)?;
        match attempt <= plan.failing {
            true => self.misbehave(fixture, &plan).await,
            false => self.reply(200, fixture.content_type(), &[], &fixture.body).await,
        }
    }

    async fn misbehave(&mut self, fixture: &Fixture, plan: &Plan) -> io::Result<After> {
        let kind = fixture.content_type();
        let before = fixture.body.get(..plan.at).unwrap_or(&fixture.body);
        if let Some(status) = plan.fault.status() {
            let headers: Vec<_> = plan.fault.retry_after().into_iter().collect();
            let body = br#"{"error":{"type":"some_error","message":"Not now."}}"#;
            return self.reply(status, "application/json", &headers, body).await;
        }
        match plan.fault {
            Fault::SlowChunks => return self.reply_slowly(kind, &fixture.body).await,
            Fault::Held => return self.reply_when_all_are_there(kind, &fixture.body).await,
            Fault::ResetInHead => {
                let head = head(200, kind, &[]);
                self.write(head.get(..plan.at % head.len()).unwrap_or_default()).await?;
                self.stream.set_zero_linger()?;
            }
            Fault::ResetInBody => {
                self.write(&[head(200, kind, &[]), chunk(before)].concat()).await?;
                self.stream.set_zero_linger()?;
            }
            Fault::EarlyClose => self.write(&[head(200, kind, &[]), chunk(before)].concat()).await?,
            Fault::CloseDelimited => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
                self.write(&[head.as_bytes(), before].concat()).await?;
            }
            Fault::Stall => {
                // In one piece: a client that hears the head has heard the rest, too.
                self.write(&[head(200, kind, &[]), chunk(before)].concat()).await?;
                return self.wait_for_client_to_leave().await;
            }
            Fault::SilentHead => return self.wait_for_client_to_leave().await,
            Fault::Html => {
                let page = b"<!doctype html>\n<title>Sign in</title>\n";
                return self.reply(200, "text/html", &[], page).await;
            }
            Fault::Gzip => {
                let headers = [("content-encoding", "gzip")];
                return self.reply(200, kind, &headers, &gzip(&fixture.body)?).await;
            }
            Fault::GzipUndeclared => return self.reply(200, kind, &[], &gzip(&fixture.body)?).await,
            Fault::MalformedFrame => {
                let after = fixture.body.get(plan.at..).unwrap_or_default();
                return self.reply(200, kind, &[], &[before, fixture.damage(), after].concat()).await;
            }
            _ => return self.reply(200, kind, &[], &fixture.body).await,
        }
        Ok(After::Closed)
    }

    async fn reply(
        &mut self,
        status: u16,
        kind: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<After> {
        self.write(&[head(status, kind, headers), chunk(body), LAST_CHUNK.to_vec()].concat()).await?;
        Ok(After::Kept)
    }

    async fn reply_slowly(&mut self, kind: &str, body: &[u8]) -> io::Result<After> {
        self.write(&head(200, kind, &[])).await?;
        for (number, piece) in body.chunks(SLOW_BYTES).enumerate() {
            self.write(&chunk(piece)).await?;
            match number % 8 {
                0 => tokio::time::sleep(Duration::from_millis(1)).await,
                _ => tokio::task::yield_now().await,
            }
        }
        self.write(LAST_CHUNK).await?;
        Ok(After::Kept)
    }

    async fn reply_when_all_are_there(&mut self, kind: &str, body: &[u8]) -> io::Result<After> {
        let (first, second) = body.split_at(body.len() / 2);
        self.write(&[head(200, kind, &[]), chunk(first)].concat()).await?;
        self.shared.count(|counts| counts.held += 1);
        let mut goes_on = self.shared.goes_on.subscribe();
        let left = tokio::select! {
            // The sender lives as long as this connection.
            _ = goes_on.wait_for(|goes_on| *goes_on) => None,
            left = self.wait_for_client_to_leave() => Some(left),
        };
        self.shared.count(|counts| counts.held -= 1);
        if let Some(left) = left {
            return left;
        }
        self.write(&[&chunk(second), LAST_CHUNK].concat()).await?;
        Ok(After::Kept)
    }

    async fn wait_for_client_to_leave(&mut self) -> io::Result<After> {
        while self.stream.read_buf(&mut self.buffer).await? > 0 {}
        Ok(After::Closed)
    }

    /// Writes, and says while it cannot.
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.shared.count(|counts| counts.unsent_bytes += bytes.len());
        let mut rest = bytes;
        let written = loop {
            match self.stream.try_write(rest) {
                _ if rest.is_empty() => break Ok(()),
                Ok(taken) => {
                    rest = rest.get(taken..).unwrap_or_default();
                    self.shared.count(|counts| counts.unsent_bytes -= taken);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.shared.count(|counts| counts.blocked += 1);
                    let writable = self.stream.writable().await;
                    self.shared.count(|counts| counts.blocked -= 1);
                    if let Err(error) = writable {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        self.shared.count(|counts| counts.unsent_bytes -= rest.len());
        written
    }

    /// The number of the attempt, and the body.
    async fn read_request(&mut self) -> io::Result<(u32, Vec<u8>)> {
        let end = loop {
            match self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None => self.read_more().await?,
            }
        };
        let body = self.buffer.split_off(end);
        let head = String::from_utf8_lossy(&std::mem::replace(&mut self.buffer, body)).to_ascii_lowercase();
        let number = |name: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|value| value.trim().parse::<u32>().ok())
        };
        let length = number("content-length").unwrap_or_default() as usize;
        while self.buffer.len() < length {
            self.read_more().await?;
        }
        let rest = self.buffer.split_off(length);
        Ok((number("x-attempt").unwrap_or(1), std::mem::replace(&mut self.buffer, rest)))
    }

    async fn read_more(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// The head of a reply whose body comes in chunks.
pub(crate) fn head(status: u16, kind: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("transfer-encoding: chunked\r\n\r\n");
    head.into_bytes()
}

/// A chunk with these bytes; nothing for none, for that would be the last one.
fn chunk(bytes: &[u8]) -> Vec<u8> {
    match bytes.is_empty() {
        true => Vec::new(),
        false => [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat(),
    }
}

fn gzip(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    io::Write::write_all(&mut encoder, body)?;
    encoder.finish()
}

const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
