//! [`Client`]: a wire, a pool of connections, and the settings of turns.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use turnstream_core::{
    Error, ErrorKind, Model, Request, TurnStream, Wire, WireRequest,
    reexports::url::{Host, Url},
};

use crate::{
    authorize::{AnyAuthorize, Attempt, Authorize},
    failure,
    retry::RetryPolicy,
    turn::HttpTurn,
};

/// Asks a provider for turns over HTTP.
///
/// Cheap to clone. Clones share one pool of connections, which is opened on first use. Setters take and
/// give back the client and never fail: a setting that cannot be used is the error of the first turn.
///
/// Timeouts take a [`Duration`] or `None` for no end.
///
/// # Common issues
///
/// - A slow model that thinks before its first byte needs a longer
///   [`first_byte_timeout`](Self::first_byte_timeout); one that pauses in mid-answer and sends no pings
///   needs a longer [`idle_timeout`](Self::idle_timeout).
/// - Connections are reused only if a turn was read to its end: poll until `None`.
/// - Proxies are taken from the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`) and from the system, but
///   never for loopback: a server on `localhost` is asked directly, whatever they say.
#[derive(Clone)]
pub struct Client {
    pub(crate) wire: Arc<dyn Wire>,
    pub(crate) settings: Settings,
    pub(crate) authorize: Option<Arc<dyn AnyAuthorize>>,
    pool: Arc<Pool>,
    allow_insecure_http: bool,
}

/// What a turn needs to know of its client.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) first_byte_timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) total_timeout: Option<Duration>,
    pub(crate) end_grace: Duration,
    pub(crate) retries: RetryPolicy,
}

/// The connections of a client and its clones.
struct Pool {
    connect_timeout: Option<Duration>,
    /// To this machine, past every proxy.
    loopback: OnceLock<Result<reqwest::Client, Arc<reqwest::Error>>>,
    /// To everywhere else.
    elsewhere: OnceLock<Result<reqwest::Client, Arc<reqwest::Error>>>,
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
                retries: RetryPolicy::new(),
            },
            authorize: None,
            pool: Arc::new(Pool::new(Some(Duration::from_secs(10)))),
            allow_insecure_http: false,
        }
    }

    /// Limits the time that making a connection may take. 10 seconds by default.
    ///
    /// The client gets a pool of its own, apart from its clones'.
    pub fn connect_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        Self { pool: Arc::new(Pool::new(timeout.into())), ..self }
    }

    /// Limits the time until the head of the reply, connecting and sending among it. 5 minutes by default:
    /// some servers send no head before a long prompt has been read.
    pub fn first_byte_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.settings.first_byte_timeout = timeout.into();
        self
    }

    /// Limits the silence between the bytes of a reply. Pings and comments are bytes too, and time in which
    /// the caller does not poll does not count. 2 minutes by default.
    pub fn idle_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.settings.idle_timeout = timeout.into();
        self
    }

    /// Limits the time that a turn may take from its first poll to its end, retries among it. No limit by
    /// default.
    pub fn total_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.settings.total_timeout = timeout.into();
        self
    }

    /// Sets how long a reply may be silent once its reason has come and only the wire's last marker is
    /// missing. After that the turn is finished: some servers never close. 2 seconds by default.
    pub fn end_grace(mut self, grace: Duration) -> Self {
        self.settings.end_grace = grace;
        self
    }

    /// Sets when and after how long a turn that failed is asked again.
    pub fn retries(mut self, policy: RetryPolicy) -> Self {
        self.settings.retries = policy;
        self
    }

    /// Sets what finds out the credentials of each attempt: see [`Authorize`]. Without one every attempt
    /// carries what the wire's config says.
    pub fn authorize(self, authorize: impl Authorize) -> Self {
        Self { authorize: Some(Arc::new(authorize)), ..self }
    }

    /// Allows keys to be sent over plain `http` to hosts that are not loopback. Everyone on the way can
    /// read them. Of a caller's headers those count that usually carry one, for example `authorization`,
    /// `x-api-key` and `cookie`.
    pub fn allow_insecure_http(self, allow: bool) -> Self {
        Self { allow_insecure_http: allow, ..self }
    }

    /// Asks for a turn. Not async: the request is encoded now, and the first poll sends it. A request that
    /// cannot be encoded gives a stream of one error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future of the next event loses nothing. Dropping the stream closes its connection, in
    /// whatever state it is, and nothing of it goes on.
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
        let http = self.pool.http(url)?;
        // `headers` replaces what a user and password in the URL made: the caller's headers win.
        let request = http.post(url.clone()).headers(headers.clone()).body(body.clone());
        let request = request.build().map_err(failure::of_request)?;
        // What they made is a secret of this attempt, too.
        attempt.set_headers(request.headers().clone());
        http.execute(request).await.map_err(failure::of_request)
    }

    fn encode(&self, request: &Request) -> Result<WireRequest, Error> {
        let request = self.wire.encode(request)?;
        if request.url.scheme() == "https" {
            return match cfg!(any(feature = "rustls", feature = "native-tls")) {
                true => Ok(request),
                false => Err(Error::new(
                    ErrorKind::Config,
                    "an https address needs the feature `rustls` or `native-tls`",
                )),
            };
        }
        if !self.allow_insecure_http
            && !is_loopback(&request.url)
            && let Some(place) = place_of_key(&request)
        {
            let message = format!(
                "{place} would send a key over plain http to a host that is not loopback; \
                 use https, or `allow_insecure_http`"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(request)
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
}

impl fmt::Debug for Client {
    /// Shows no address and no key: those are the wire's.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Client")
            .field("wire", &self.wire.name())
            .field("model", &self.wire.model())
            .field("connect_timeout", &self.pool.connect_timeout)
            .field("settings", &self.settings)
            .field("authorize", &self.authorize.as_ref().map(|_| "set"))
            .field("allow_insecure_http", &self.allow_insecure_http)
            .finish()
    }
}

impl Pool {
    fn new(connect_timeout: Option<Duration>) -> Self {
        Self { connect_timeout, loopback: OnceLock::new(), elsewhere: OnceLock::new() }
    }

    fn http(&self, url: &Url) -> Result<&reqwest::Client, Error> {
        let is_loopback = is_loopback(url);
        let http = if is_loopback { &self.loopback } else { &self.elsewhere };
        http.get_or_init(|| {
            let mut builder = reqwest::Client::builder()
                .user_agent(concat!("turnstream/", env!("CARGO_PKG_VERSION")))
                // A redirect would take the key to another host.
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                // Retries are ours to make and to show.
                .retry(reqwest::retry::never())
                .tcp_nodelay(true);
            if let Some(timeout) = self.connect_timeout {
                builder = builder.connect_timeout(timeout);
            }
            if is_loopback {
                builder = builder.no_proxy();
            }
            builder.build().map_err(Arc::new)
        })
        .as_ref()
        .map_err(|error| failure::of_client(error.clone()))
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(domain)) => domain == "localhost" || domain.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

/// Where a request carries a key: a header, a password or a parameter of its address.
fn place_of_key(request: &WireRequest) -> Option<String> {
    let names_key = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.contains("key") || name.contains("token")
    };
    if let Some(header) = request.key_headers().next() {
        return Some(format!("the header `{header}`"));
    }
    if request.url.password().is_some() {
        return Some("the password in the address".to_owned());
    }
    let (name, _) = request.url.query_pairs().find(|(name, _)| names_key(name))?;
    Some(format!("the parameter `{name}` of the address"))
}
