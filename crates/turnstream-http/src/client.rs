//! [`Client`]: a wire, its connections, and the settings of turns.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use turnstream_core::{
    Error, Model, Request, TurnStream, Wire, WireRequest,
    reexports::{http::HeaderName, secrecy::SecretString, url::Url},
};

use crate::{
    authorize::{AnyAuthorize, Attempt, Authorize},
    connections::{ConnectionSettings, Connections, ProxyChoice, is_loopback},
    failure,
    retry::RetryPolicy,
    turn::HttpTurn,
};

/// Asks a provider for turns over HTTP.
///
/// Cheap to clone. Clones share their connections, which are opened on first use. Setters take and give back
/// the client and never fail: a setting that cannot be used is the error of the first turn.
///
/// Timeouts take a [`Duration`] or `None` for no end.
///
/// # Common issues
///
/// - A slow model that thinks before its first byte needs a longer
///   [`first_byte_timeout`](Self::first_byte_timeout); one that pauses in mid-answer and sends no pings
///   needs a longer [`idle_timeout`](Self::idle_timeout).
/// - Connections are reused only if a turn was read to its end: poll until `None`.
/// - Proxies are taken from the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`) and from the
///   system, but never for loopback: a server on `localhost` is asked directly, whatever they say.
/// - A company's own certificate authority is trusted if the system trusts it, or if it is
///   [given](Self::ca_certificate).
#[derive(Clone)]
pub struct Client {
    pub(crate) wire: Arc<dyn Wire>,
    pub(crate) settings: Settings,
    pub(crate) authorize: Option<Arc<dyn AnyAuthorize>>,
    pub(crate) connections: Arc<Connections>,
    allow_insecure_http: bool,
}

/// What a turn needs to know of its client.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) first_byte_timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) total_timeout: Option<Duration>,
    pub(crate) end_grace: Duration,
    pub(crate) pings_count: bool,
    pub(crate) retries: RetryPolicy,
    pub(crate) idempotency_header: Option<String>,
}

impl Client {
    /// A client for a wire.
    pub fn new(wire: impl Wire) -> Self {
        Self {
            wire: Arc::new(wire),
            settings: Settings {
                first_byte_timeout: Some(Duration::from_secs(300)),
                idle_timeout: Some(Duration::from_secs(120)),
                total_timeout: None,
                end_grace: Duration::from_secs(2),
                pings_count: true,
                retries: RetryPolicy::new(),
                idempotency_header: None,
            },
            authorize: None,
            connections: Arc::new(Connections::new(ConnectionSettings {
                connect_timeout: Some(Duration::from_secs(10)),
                proxy: ProxyChoice::Environment,
                ca_certificates: Vec::new(),
                own: None,
            })),
            allow_insecure_http: false,
        }
    }

    /// Limits the time that making a connection may take: name, socket, proxy and TLS. 10 seconds by default.
    ///
    /// This and the other settings of connections give the client connections of its own, apart from its
    /// clones'.
    pub fn connect_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        let timeout = timeout.into();
        self.connecting(|settings| settings.connect_timeout = timeout)
    }

    /// Limits the time until the head of the reply, authorising, connecting and sending among it. 5 minutes by
    /// default: some servers send no head before a long prompt has been read. With zero nothing is sent: the time is
    /// up at once.
    pub fn first_byte_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.settings.first_byte_timeout = timeout.into();
        self
    }

    /// Limits the silence between the bytes of a reply. Pings and comments are bytes too, unless
    /// [`pings_count`](Self::pings_count) says otherwise, and time in which the caller does not poll does not
    /// count. 2 minutes by default.
    pub fn idle_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.settings.idle_timeout = timeout.into();
        self
    }

    /// Whether pings and comments count as life for the [idle timeout](Self::idle_timeout). Yes by default: a
    /// model may think for long, and its server says so with pings. If not, only bytes that make an event do,
    /// which finds servers whose proxy keeps a dead turn alive.
    pub fn pings_count(mut self, pings_count: bool) -> Self {
        self.settings.pings_count = pings_count;
        self
    }

    /// Limits the time that a turn may take from its first poll to its end, retries among it. No limit by
    /// default: long answers are not errors. With zero nothing is sent: the time is up at once.
    pub fn total_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.settings.total_timeout = timeout.into();
        self
    }

    /// Sets how long a reply may be silent once its reason has come and only the wire's last marker is
    /// missing. After that the turn is finished: some servers never close. Every byte, a ping among them,
    /// begins the silence anew, but after ten times as long in all the turn is finished in any case. 2 seconds
    /// by default.
    pub fn end_grace(mut self, grace: Duration) -> Self {
        self.settings.end_grace = grace;
        self
    }

    /// Sets when and after how long a turn that failed is asked again.
    pub fn retries(mut self, policy: RetryPolicy) -> Self {
        self.settings.retries = policy;
        self
    }

    /// Sends an idempotency key in this header: a random word, the same for all attempts of a turn and for no
    /// other turn, by which a server or a gateway can tell a retry from a second order. Without this the wire
    /// decides; a header of this name that the caller has set is left as it is.
    pub fn idempotency_header(mut self, name: impl Into<String>) -> Self {
        self.settings.idempotency_header = Some(name.into());
        self
    }

    /// Sets what finds out the credentials of each attempt: see [`Authorize`]. Without one every attempt
    /// carries what the wire's config says.
    pub fn authorize(self, authorize: impl Authorize) -> Self {
        Self { authorize: Some(Arc::new(authorize)), ..self }
    }

    /// Allows plain `http` to hosts that are not loopback, keys among it. Everyone on the way can read, and
    /// change, what is said. No by default.
    pub fn allow_insecure_http(self, allow: bool) -> Self {
        Self { allow_insecure_http: allow, ..self }
    }

    /// Trusts a certificate authority beside those of the system: one certificate or several as a PEM text. It
    /// can be called more than once.
    pub fn ca_certificate(self, pem: impl AsRef<[u8]>) -> Self {
        let pem = pem.as_ref().into();
        self.connecting(|settings| settings.ca_certificates.push(pem))
    }

    /// Goes through this proxy to every host, loopback among them, whatever the environment says:
    /// `http://user:password@proxy:3128` or `https://..`. Requests to `https` addresses go through a tunnel, so
    /// that the proxy sees only the host's name.
    pub fn proxy(self, url: impl Into<SecretString>) -> Self {
        let url = url.into();
        self.connecting(|settings| settings.proxy = ProxyChoice::Always(url))
    }

    /// Goes through no proxy, whatever the environment says.
    pub fn no_proxy(self) -> Self {
        self.connecting(|settings| settings.proxy = ProxyChoice::Never)
    }

    /// Sends through an HTTP client of the caller's own, for what has no setting here: client certificates,
    /// resolvers, HTTP/2 without TLS. Its connections are shared with whatever else it is used for, and
    /// [`connect_timeout`](Self::connect_timeout), [`proxy`](Self::proxy), [`no_proxy`](Self::no_proxy) and
    /// [`ca_certificate`](Self::ca_certificate) do not apply to it.
    ///
    /// Build it with `redirect(Policy::none())`: one that follows redirects takes a key in a header such as
    /// `x-api-key` to wherever they lead. Timeouts of its own (`timeout`, `read_timeout`) come on top of those
    /// here, and a total one kills long answers.
    pub fn http_client(self, http: reqwest::Client) -> Self {
        self.connecting(|settings| settings.own = Some(http))
    }

    /// Asks for a turn. Not async: the request is encoded now, and the first poll sends it. A request that
    /// cannot be encoded gives a stream of one error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future of the next event loses nothing. Dropping the stream ends its request, in whatever
    /// state it is, and nothing of it goes on: over HTTP/1.1 its connection is closed, over HTTP/2 its stream is
    /// reset.
    pub fn stream(&self, request: &Request) -> TurnStream {
        match self.encode(request) {
            Ok(request) => TurnStream::new(HttpTurn::new(self.clone(), request)),
            Err(error) => TurnStream::failed(error),
        }
    }

    /// The model's name, as the provider knows it.
    pub fn name(&self) -> &str {
        self.wire.model()
    }

    fn connecting(self, change: impl FnOnce(&mut ConnectionSettings)) -> Self {
        let mut settings = self.connections.settings().clone();
        change(&mut settings);
        Self { connections: Arc::new(Connections::new(settings)), ..self }
    }

    /// Authorises and sends one attempt. Attempts differ in nothing but their credentials.
    pub(crate) fn send(&self, request: &WireRequest, number: u32) -> Sending {
        let mut attempt = Attempt::new(request.clone(), number);
        let client = self.clone();
        Box::pin(async move {
            if let Some(authorize) = &client.authorize
                && let Err(error) = authorize.authorize(&mut attempt).await
            {
                return Sent { attempt, response: Err(error) };
            }
            let response = client.send_authorized(&mut attempt).await;
            Sent { attempt, response }
        })
    }

    async fn send_authorized(&self, attempt: &mut Attempt) -> Result<reqwest::Response, Error> {
        let WireRequest { url, headers, body, .. } = attempt.request();
        let http = self.connections.to(url)?;
        // `headers` replaces what a user and password in the URL made: the caller's headers win.
        let request = http.post(url.clone()).headers(headers.clone()).body(body.clone());
        let request = request.build().map_err(failure::of_request)?;
        // What they made is a secret of this attempt, too.
        attempt.set_headers(request.headers().clone());
        http.execute(request).await.map_err(failure::of_request)
    }

    fn encode(&self, request: &Request) -> Result<WireRequest, Error> {
        let mut request = self.wire.encode(request)?;
        if let Some(name) = &self.settings.idempotency_header {
            let refuse = |_| Error::config(format!("`{name}` is not a header's name"));
            request.idempotency_header = Some(HeaderName::from_bytes(name.as_bytes()).map_err(refuse)?);
        }
        if let Some(name) = &request.idempotency_header
            && !request.headers.contains_key(name)
        {
            let name = name.clone();
            request.set_header(name.as_str(), &idempotency_key())?;
        }
        self.check_address(&request.url)?;
        Ok(request)
    }

    fn check_address(&self, url: &Url) -> Result<(), Error> {
        let has_tls = cfg!(any(feature = "rustls", feature = "native-tls"));
        if url.scheme() == "https" {
            return match has_tls || self.connections.settings().own.is_some() {
                true => Ok(()),
                false => Err(Error::config("an https address needs the feature `rustls` or `native-tls`")),
            };
        }
        if self.allow_insecure_http || is_loopback(url) {
            return Ok(());
        }
        Err(Error::config(
            "plain http to a host that is not loopback: everyone on the way could read the key and the \
             conversation; use https, or `allow_insecure_http`",
        ))
    }
}

/// One attempt on its way to the head of its reply.
pub(crate) type Sending = Pin<Box<dyn Future<Output = Sent> + Send>>;

/// One attempt, as it was sent, and what came of it.
pub(crate) struct Sent {
    pub(crate) attempt: Attempt,
    pub(crate) response: Result<reqwest::Response, Error>,
}

impl Model for Client {
    fn stream(&self, request: &Request) -> TurnStream {
        Client::stream(self, request)
    }

    fn name(&self) -> &str {
        Client::name(self)
    }

    /// The one whose wire it is: servers that speak another's wire count as that one, as OpenTelemetry has it.
    fn provider(&self) -> Option<&str> {
        match self.wire.name() {
            "anthropic-messages" => Some("anthropic"),
            "openai-chat" | "openai-responses" => Some("openai"),
            "gemini" => Some("gcp.gemini"),
            "bedrock-converse" => Some("aws.bedrock"),
            "cohere-v2" => Some("cohere"),
            _ => None,
        }
    }
}

impl fmt::Debug for Client {
    /// Shows no address and no key: those are the wire's.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Client")
            .field("wire", &self.wire.name())
            .field("model", &self.wire.model())
            .field("settings", &self.settings)
            .field("connections", self.connections.settings())
            .field("authorize", &self.authorize.as_ref().map(|_| "set"))
            .field("allow_insecure_http", &self.allow_insecure_http)
            .finish()
    }
}

/// A word that no other turn has: 128 random bits.
fn idempotency_key() -> String {
    format!("turnstream-{:032x}", fastrand::u128(..))
}
