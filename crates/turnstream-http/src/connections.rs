//! How connections are made, and the pool in which they are kept.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use turnstream_core::{
    Endpoint, Error, KeyHeader,
    reexports::{
        secrecy::{ExposeSecret, SecretString},
        url::{Host, Url},
    },
};

use crate::failure::Unusable;

/// The connections of a client and its clones, opened on first use.
pub(crate) struct Connections {
    settings: ConnectionSettings,
    /// To this machine in plain `http`, past every proxy of the environment.
    local: OnceLock<Result<reqwest::Client, Unusable>>,
    /// The same with TLS.
    loopback: OnceLock<Result<reqwest::Client, Unusable>>,
    /// To everywhere else.
    elsewhere: OnceLock<Result<reqwest::Client, Unusable>>,
}

#[derive(Clone)]
pub(crate) struct ConnectionSettings {
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) proxy: ProxyChoice,
    /// PEM texts of certificates that are trusted beside those of the system.
    pub(crate) ca_certificates: Vec<Arc<[u8]>>,
    /// The caller's own client, to which nothing of the others applies.
    pub(crate) own: Option<reqwest::Client>,
}

/// Through which proxy connections go.
#[derive(Clone)]
pub(crate) enum ProxyChoice {
    /// What the environment and the system say, and none to this machine.
    Environment,
    Never,
    /// This one, to every host. Its address may hold a user and password.
    Always(SecretString),
}

/// How far a client's connections go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Local,
    Loopback,
    Elsewhere,
}

impl Connections {
    pub(crate) fn new(settings: ConnectionSettings) -> Self {
        Self { settings, local: OnceLock::new(), loopback: OnceLock::new(), elsewhere: OnceLock::new() }
    }

    pub(crate) fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }

    /// The HTTP client that reaches an address.
    pub(crate) fn to(&self, url: &Url) -> Result<&reqwest::Client, Error> {
        if let Some(own) = &self.settings.own {
            return Ok(own);
        }
        let (client, reach) = match (is_loopback(url), url.scheme() == "http") {
            (true, true) => (&self.local, Reach::Local),
            (true, false) => (&self.loopback, Reach::Loopback),
            (false, _) => (&self.elsewhere, Reach::Elsewhere),
        };
        client.get_or_init(|| self.settings.build(reach)).as_ref().map_err(Unusable::error)
    }

    /// What a reply may echo of the way to it: a proxy's user and password.
    pub(crate) fn secrets(&self) -> Vec<SecretString> {
        let ProxyChoice::Always(proxy) = &self.settings.proxy else { return Vec::new() };
        // What a wire's address may hold, a proxy's may.
        let address = Endpoint::new(proxy.expose_secret().to_owned(), KeyHeader::Bearer);
        address.post("", &[], &()).map(|request| request.secrets()).unwrap_or_default()
    }
}

impl ConnectionSettings {
    fn build(&self, reach: Reach) -> Result<reqwest::Client, Unusable> {
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
        builder = match &self.proxy {
            ProxyChoice::Environment if reach == Reach::Elsewhere => builder,
            ProxyChoice::Environment | ProxyChoice::Never => builder.no_proxy(),
            ProxyChoice::Always(proxy) => {
                // The cause would show the address, and with it the password.
                let proxy = reqwest::Proxy::all(proxy.expose_secret());
                builder.proxy(proxy.map_err(|_| Unusable::because("the proxy's address cannot be used"))?)
            }
        };
        builder = trust(builder, &self.ca_certificates)?;
        if reach == Reach::Local && !matches!(self.proxy, ProxyChoice::Always(_)) {
            builder = trust_nobody(builder);
        }
        builder.build().map_err(Unusable::from)
    }
}

impl fmt::Debug for ConnectionSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proxy = match self.proxy {
            ProxyChoice::Environment => "environment",
            ProxyChoice::Never => "never",
            ProxyChoice::Always(_) => "***",
        };
        formatter
            .debug_struct("ConnectionSettings")
            .field("connect_timeout", &self.connect_timeout)
            .field("proxy", &proxy)
            .field("ca_certificates", &self.ca_certificates.len())
            .field("own", &self.own.is_some())
            .finish()
    }
}

/// Whether an address is this machine's own.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(domain)) => domain == "localhost" || domain.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

/// Trusts certificates beside those of the system.
#[cfg(any(feature = "rustls", feature = "native-tls"))]
fn trust(
    mut builder: reqwest::ClientBuilder,
    pems: &[Arc<[u8]>],
) -> Result<reqwest::ClientBuilder, Unusable> {
    for pem in pems {
        let refuse = || Unusable::because("the CA certificate is not a PEM text with a certificate in it");
        let certificates = reqwest::Certificate::from_pem_bundle(pem).map_err(|_| refuse())?;
        if certificates.is_empty() {
            return Err(refuse());
        }
        builder = builder.tls_certs_merge(certificates);
    }
    Ok(builder)
}

/// Reads no certificates of the system: without TLS they are of no use, and they take tens of milliseconds.
#[cfg(any(feature = "rustls", feature = "native-tls"))]
fn trust_nobody(builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    builder.tls_certs_only([])
}

#[cfg(not(any(feature = "rustls", feature = "native-tls")))]
fn trust_nobody(builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    builder
}

#[cfg(not(any(feature = "rustls", feature = "native-tls")))]
fn trust(builder: reqwest::ClientBuilder, pems: &[Arc<[u8]>]) -> Result<reqwest::ClientBuilder, Unusable> {
    match pems {
        [] => Ok(builder),
        _ => Err(Unusable::because("a CA certificate needs the feature `rustls` or `native-tls`")),
    }
}
