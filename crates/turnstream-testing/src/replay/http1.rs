//! Just enough of HTTP/1.1, on the server's side.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::ReceivedRequest;

/// The client closed the connection.
#[derive(Debug)]
pub(super) struct ClientGone;

pub(super) struct Connection {
    stream: TcpStream,
    /// What has been read and not used.
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        // A chunk is sent when it is due, not when a packet is full. Where that is refused, nothing is lost.
        let _ = stream.set_nodelay(true);
        Self { stream, buffer: Vec::new() }
    }

    /// The next request. `None` at the end of the connection, or when the client does not speak HTTP.
    pub(super) async fn read_request(&mut self) -> Option<ReceivedRequest> {
        let end = loop {
            match self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                Some(end) => break end,
                None => self.read_more().await.ok()?,
            }
        };
        let head = self.take(end + 4);
        let (method, path, headers) = parse_head(std::str::from_utf8(&head).ok()?)?;
        let length = match headers.get("content-length") {
            Some(length) => length.to_str().ok()?.parse().ok()?,
            None => 0,
        };
        while self.buffer.len() < length {
            self.read_more().await.ok()?;
        }
        Some(ReceivedRequest { number: 0, method, path, headers, body: self.take(length) })
    }

    pub(super) async fn write_head(
        &mut self,
        status: u16,
        headers: &[(String, String)],
    ) -> Result<(), ClientGone> {
        let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason.unwrap_or("Unknown"));
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("transfer-encoding: chunked\r\n\r\n");
        self.write(head.as_bytes()).await
    }

    pub(super) async fn write_chunk(&mut self, bytes: &[u8]) -> Result<(), ClientGone> {
        // A chunk of no bytes would be the last one.
        if bytes.is_empty() {
            return Ok(());
        }
        let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        self.write(&chunk).await
    }

    pub(super) async fn write_end(&mut self) -> Result<(), ClientGone> {
        self.write(b"0\r\n\r\n").await
    }

    /// Waits for something, unless the client goes away first.
    pub(super) async fn during(&mut self, something: impl Future<Output = ()>) -> Result<(), ClientGone> {
        tokio::select! {
            biased;
            ClientGone = self.closed() => Err(ClientGone),
            () = something => Ok(()),
        }
    }

    /// Whether the client is still there, as far as it can be known without waiting.
    pub(super) async fn check(&mut self) -> Result<(), ClientGone> {
        self.during(std::future::ready(())).await
    }

    /// When the connection is closed, it will be by a reset.
    pub(super) fn reset_on_close(&self) {
        // Where that is refused, the connection is closed as usual: still a cut.
        let _ = self.stream.set_zero_linger();
    }

    async fn closed(&mut self) -> ClientGone {
        loop {
            if let Err(gone) = self.read_more().await {
                return gone;
            }
        }
    }

    async fn read_more(&mut self) -> Result<(), ClientGone> {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => Err(ClientGone),
            Ok(_) => Ok(()),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ClientGone> {
        self.stream.write_all(bytes).await.map_err(|_| ClientGone)
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.buffer.split_off(length);
        std::mem::replace(&mut self.buffer, rest)
    }
}

fn parse_head(head: &str) -> Option<(String, String, HeaderMap)> {
    let mut lines = head.lines();
    let mut request = lines.next()?.split(' ');
    let (method, path) = (request.next()?.to_owned(), request.next()?.to_owned());
    let mut headers = HeaderMap::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_str(value.trim()).ok()?);
    }
    Some((method, path, headers))
}
