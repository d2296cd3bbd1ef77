//! [`Authorize`]: credentials that are found out for each attempt, and [`Bearer`], the commonest of them.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};
use turnstream_core::{
    Error, ErrorKind, WireRequest,
    reexports::{
        bytes::Bytes,
        http::{HeaderMap, Method, header},
        secrecy::{ExposeSecret, SecretString},
        url::Url,
    },
};

/// How long before its end a token is not used any more: it has to last until the provider has read it.
const MARGIN: Duration = Duration::from_secs(30);

/// Finds out the credentials of each attempt: a key that changes at run time, a bearer token that expires, a
/// signature over the request.
///
/// It is asked before every attempt of every turn, the first and each retry, and sees exactly what will be
/// sent. It adds headers; the address and the body stay as they are, so that attempts are the same but for
/// their credentials. For tokens there is [`Bearer`]. Set it with
/// [`Client::authorize`](crate::Client::authorize).
///
/// ```
/// use turnstream_core::Error;
/// use turnstream_http::{Attempt, Authorize};
///
/// struct KeyFile(std::path::PathBuf);
///
/// impl Authorize for KeyFile {
///     async fn authorize(&self, attempt: &mut Attempt) -> Result<(), Error> {
///         let key = tokio::fs::read_to_string(&self.0)
///             .await
///             .map_err(|error| Error::config("the key file cannot be read").with_source(error))?;
///         attempt.set_secret("x-api-key", key.trim())
///     }
/// }
/// ```
pub trait Authorize: Send + Sync + 'static {
    /// Adds to an attempt what authorises it. The time that it takes counts for the
    /// [first-byte timeout](crate::Client::first_byte_timeout).
    ///
    /// # Errors
    ///
    /// The attempt fails with the error, and is retried if that
    /// [may get better](turnstream_core::Error::is_retryable): an
    /// [`ErrorKind::Connect`] is, an [`ErrorKind::Authentication`] is not.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped with its turn. What an implementation keeps has to be right then, too.
    fn authorize(&self, attempt: &mut Attempt) -> impl Future<Output = Result<(), Error>> + Send;

    /// Whether the turn is asked once more, at once, after the provider refused these credentials (status 401
    /// or 403). `attempt` is what had been sent. Asked at most once a turn, and only while the
    /// [policy](crate::RetryPolicy) has attempts left. No by default.
    ///
    /// This is where to forget a token that was kept: the next
    /// [`authorize`](Self::authorize) then finds another one.
    fn renew(&self, attempt: &Attempt, refusal: &Error) -> bool {
        let _ = (attempt, refusal);
        false
    }
}

impl<A: Authorize> Authorize for Arc<A> {
    async fn authorize(&self, attempt: &mut Attempt) -> Result<(), Error> {
        A::authorize(self, attempt).await
    }

    fn renew(&self, attempt: &Attempt, refusal: &Error) -> bool {
        A::renew(self, attempt, refusal)
    }
}

/// One attempt of a turn, as it will be sent. Its `Debug` shows no secret and no body.
#[derive(Debug, Clone)]
pub struct Attempt {
    request: WireRequest,
    number: u32,
}

impl Attempt {
    /// An attempt, counted from 1: for tests of an [`Authorize`].
    pub fn new(request: WireRequest, number: u32) -> Self {
        Self { request, number }
    }

    /// Which attempt of its turn it is, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The method: `POST`.
    pub fn method(&self) -> Method {
        Method::POST
    }

    /// Where to. The header `host` is made of it when the attempt is sent.
    pub fn url(&self) -> &Url {
        &self.request.url
    }

    /// The headers so far. `host`, `content-length`, `user-agent` and the headers of the connection are added
    /// when it is sent.
    pub fn headers(&self) -> &HeaderMap {
        &self.request.headers
    }

    /// The body, whole.
    pub fn body(&self) -> &Bytes {
        &self.request.body
    }

    /// Sets a header that everyone may read, for example a date. It replaces one of the same name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when the name or the value cannot be sent.
    pub fn set_header(&mut self, name: &str, value: &str) -> Result<(), Error> {
        self.request.set_header(name, value)
    }

    /// Sets a header that carries a secret: it is masked wherever it might be shown, also where a reply echoes
    /// it in an error. It replaces one of the same name, and if it is one that usually carries a key
    /// (`authorization`, `x-api-key`, `api-key`, `x-goog-api-key`), also the wire's own key.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when the name or the value cannot be sent.
    pub fn set_secret(&mut self, name: &str, value: &str) -> Result<(), Error> {
        self.request.set_secret_header(name, value)
    }

    pub(crate) fn request(&self) -> &WireRequest {
        &self.request
    }

    pub(crate) fn set_headers(&mut self, headers: HeaderMap) {
        self.request.headers = headers;
    }
}

/// Bearer tokens that expire. A token is fetched when the first attempt needs it and kept until shortly (30
/// seconds, or half its life if that is less) before its end; one that the provider refuses with 401 is
/// forgotten, and the turn is asked once more with another.
///
/// ```
/// use std::time::Duration;
/// use turnstream_http::{Bearer, BearerToken};
///
/// let bearer = Bearer::new(|| async {
///     let token = String::from("from the token server");
///     Ok(BearerToken::new(token).expires_in(Duration::from_secs(3600)))
/// });
/// ```
///
/// While one attempt fetches, others wait for what it finds.
pub struct Bearer<F> {
    fetch: F,
    kept: Mutex<Option<Kept>>,
}

/// A token, and how long it can be used. Its `Debug` does not show it; it is zeroed when dropped.
#[derive(Debug, Clone)]
pub struct BearerToken {
    token: SecretString,
    expires_in: Option<Duration>,
}

struct Kept {
    token: SecretString,
    until: Option<Instant>,
}

impl<F, T> Bearer<F>
where
    F: Fn() -> T + Send + Sync + 'static,
    T: Future<Output = Result<BearerToken, Error>> + Send,
{
    /// Tokens that `fetch` finds.
    pub fn new(fetch: F) -> Self {
        Self { fetch, kept: Mutex::new(None) }
    }
}

impl<F, T> Authorize for Bearer<F>
where
    F: Fn() -> T + Send + Sync + 'static,
    T: Future<Output = Result<BearerToken, Error>> + Send,
{
    async fn authorize(&self, attempt: &mut Attempt) -> Result<(), Error> {
        let mut kept = self.kept.lock().await;
        if let Some(Kept { until: Some(until), .. }) = &*kept
            && Instant::now() >= *until
        {
            *kept = None;
        }
        let kept = match &mut *kept {
            Some(kept) => kept,
            none => {
                let BearerToken { token, expires_in } = (self.fetch)().await?;
                let life = expires_in.map(|life| life - MARGIN.min(life / 2));
                let until = life.and_then(|life| Instant::now().checked_add(life));
                none.insert(Kept { token, until })
            }
        };
        attempt.set_secret(header::AUTHORIZATION.as_str(), &bearer(&kept.token))
    }

    fn renew(&self, attempt: &Attempt, refusal: &Error) -> bool {
        if refusal.kind() != ErrorKind::Authentication {
            return false;
        }
        let sent = attempt.headers().get(header::AUTHORIZATION);
        // A token that another turn has renewed since, or is about to renew, is not the refused one.
        if let Ok(mut kept) = self.kept.try_lock()
            && kept.as_ref().is_some_and(|kept| sent.is_some_and(|sent| sent == &bearer(&kept.token)))
        {
            *kept = None;
        }
        true
    }
}

impl<F> fmt::Debug for Bearer<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Bearer").finish_non_exhaustive()
    }
}

impl BearerToken {
    /// A token that does not expire, as far as is known.
    pub fn new(token: impl Into<SecretString>) -> Self {
        Self { token: token.into(), expires_in: None }
    }

    /// How long it can be used from now on.
    pub fn expires_in(self, life: Duration) -> Self {
        Self { expires_in: Some(life), ..self }
    }
}

/// [`Authorize`] behind a pointer.
pub(crate) trait AnyAuthorize: Send + Sync {
    fn authorize<'a>(&'a self, attempt: &'a mut Attempt) -> Authorizing<'a>;
    fn renew(&self, attempt: &Attempt, refusal: &Error) -> bool;
}

type Authorizing<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>;

impl<A: Authorize> AnyAuthorize for A {
    fn authorize<'a>(&'a self, attempt: &'a mut Attempt) -> Authorizing<'a> {
        Box::pin(Authorize::authorize(self, attempt))
    }

    fn renew(&self, attempt: &Attempt, refusal: &Error) -> bool {
        Authorize::renew(self, attempt, refusal)
    }
}

fn bearer(token: &SecretString) -> String {
    format!("Bearer {}", token.expose_secret())
}
