use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{
    Request, Response, Version,
    body::{Body, Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
};

use super::Gate;

/// A certificate authority of the test's own.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A server on loopback that speaks HTTP/1.1 and HTTP/2 as a library does, with TLS or without.
pub(crate) struct SecureServer {
    port: u16,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// An answer: chunks, and whether the body ends after them.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) chunks: Vec<&'static str>,
    pub(crate) ends: bool,
    /// Where it breaks after them.
    pub(crate) breaks_at: Option<Gate>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SecureCounts {
    pub(crate) connections: usize,
    /// Connections on which no TLS came about.
    pub(crate) refused: usize,
    pub(crate) versions: Vec<Version>,
    /// Bodies that the client let go before their end.
    pub(crate) dropped: usize,
}

struct Shared {
    answers: Mutex<VecDeque<Answer>>,
    counts: watch::Sender<SecureCounts>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// The authority's certificate.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A server's TLS for these names, which offers these protocols.
    fn acceptor(&self, names: &[&str], protocols: &[&str]) -> TlsAcceptor {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        let mut config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

impl SecureServer {
    /// With TLS for these names. `protocols` are what it offers, the best first.
    pub(crate) async fn start(
        authority: &Authority,
        names: &[&str],
        protocols: &[&str],
        answers: impl IntoIterator<Item = Answer>,
    ) -> Self {
        Self::run(Some(authority.acceptor(names, protocols)), answers).await
    }

    /// Without TLS.
    pub(crate) async fn plain(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::run(None, answers).await
    }

    async fn run(tls: Option<TlsAcceptor>, answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers = Mutex::new(answers.into_iter().collect());
        let shared = Arc::new(Shared { answers, counts: watch::Sender::default() });
        let task = tokio::spawn(accept(listener, tls, shared.clone()));
        Self { port, shared, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn counts(&self) -> SecureCounts {
        self.shared.counts.borrow().clone()
    }

    /// Waits until the counts are as they should be.
    pub(crate) async fn until(&self, is_reached: impl Fn(&SecureCounts) -> bool) {
        let mut counts = self.shared.counts.subscribe();
        let reached = timeout(Duration::from_secs(60), counts.wait_for(is_reached)).await;
        reached.unwrap_or_else(|_| panic!("it stays at {:?}", self.counts())).unwrap();
    }
}

impl Drop for SecureServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Answer {
    /// A turn of one word.
    pub(crate) fn whole() -> Self {
        Self {
            chunks: vec!["data: text hi\n\n", "data: reason stop\n\ndata: end\n\n"],
            ends: true,
            breaks_at: None,
        }
    }

    /// A turn that goes silent.
    pub(crate) fn silent() -> Self {
        Self { chunks: vec!["data: text hi\n\n"], ends: false, breaks_at: None }
    }

    /// A turn that breaks in the middle when the gate is opened.
    pub(crate) fn broken_at(gate: &Gate) -> Self {
        Self { breaks_at: Some(gate.clone()), ..Self::silent() }
    }
}

/// A proxy that tunnels every `CONNECT` to one port of this machine. It tells the hosts that were asked for, and
/// with which credentials.
pub(crate) async fn tunnel(port: u16) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let asking = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let asking = asking.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    if tokio::io::AsyncReadExt::read_buf(&mut client, &mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                asking.lock().unwrap().push(String::from_utf8(head).unwrap());
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let answer = b"HTTP/1.1 200 Connected\r\n\r\n";
                tokio::io::AsyncWriteExt::write_all(&mut client, answer).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, asked)
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    // Aborting this task aborts those of its connections.
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        shared.counts.send_modify(|counts| counts.connections += 1);
        let (tls, shared) = (tls.clone(), shared.clone());
        connections.spawn(async move {
            let Some(tls) = tls else { return serve(socket, shared).await };
            match tls.accept(socket).await {
                Ok(socket) => serve(socket, shared).await,
                Err(_) => shared.counts.send_modify(|counts| counts.refused += 1),
            }
        });
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(socket: S, shared: Arc<Shared>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let shared = shared.clone();
        async move {
            let version = request.version();
            let _ = request.into_body().collect().await;
            let answer = shared.answers.lock().unwrap().pop_front();
            let answer = answer.expect("there is an answer for every request");
            shared.counts.send_modify(|counts| counts.versions.push(version));
            let breaks = answer.breaks_at.map(|gate| Box::pin(async move { gate.pass().await }) as _);
            let body =
                Chunks { chunks: answer.chunks.into(), ends: answer.ends, breaks, is_over: false, shared };
            let head = Response::builder().header("content-type", "text/event-stream");
            Ok::<_, Infallible>(head.body(body).unwrap())
        }
    });
    // A client that goes away is no error here.
    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
}

struct Chunks {
    chunks: VecDeque<&'static str>,
    ends: bool,
    breaks: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    is_over: bool,
    shared: Arc<Shared>,
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let chunk = self.chunks.pop_front();
        if chunk.is_none()
            && let Some(breaks) = &mut self.breaks
        {
            ready!(breaks.as_mut().poll(context));
            self.is_over = true;
            return Poll::Ready(Some(Err(io::Error::other("broken"))));
        }
        match chunk {
            Some(chunk) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(chunk.as_bytes()))))),
            None if self.ends => {
                self.is_over = true;
                Poll::Ready(None)
            }
            // The connection wakes its task itself when the client lets go.
            None => Poll::Pending,
        }
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.counts.send_modify(|counts| counts.dropped += 1);
        }
    }
}
