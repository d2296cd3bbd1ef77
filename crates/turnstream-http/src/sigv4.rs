//! [`SigV4`]: attempts signed with credentials of AWS.

#[cfg(feature = "aws-sdk")]
mod sdk;

use std::{
    env, fmt,
    future::Future,
    sync::Arc,
    time::{Duration, SystemTime},
};

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningInstructions, SigningSettings, sign},
    sign::v4,
};
use tokio::sync::Mutex;
use turnstream_core::{
    Error, ErrorKind,
    reexports::{
        http::header,
        secrecy::{ExposeSecret, SecretString},
    },
};

use crate::authorize::{Attempt, Authorize};

#[cfg(feature = "aws-sdk")]
pub use sdk::AwsSdk;

/// How long before their end credentials are not used any more: they have to last until the provider has read
/// them.
const MARGIN: Duration = Duration::from_secs(60);

/// Refusals that other credentials may change.
const STALE: [&str; 3] = ["ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException"];

/// Signs every attempt with AWS Signature Version 4, for example for Amazon Bedrock.
///
/// ```
/// use turnstream_http::{AwsEnvironment, SigV4};
///
/// let signer = SigV4::new(AwsEnvironment);
/// # let _ = signer;
/// ```
///
/// What is signed: the method, the address, the body, the headers `host`, `content-type` and those that begin with
/// `x-amz`. Proxies change others. The signature replaces the wire's own key.
///
/// The time is that of this machine when the attempt begins. AWS refuses a clock that is wrong by five minutes.
///
/// Credentials that say when they expire are kept until a minute before; others are asked for again for every
/// attempt. Kept ones that AWS refuses as expired are forgotten, and the turn is asked once more with others.
pub struct SigV4<P> {
    provider: P,
    region: Option<String>,
    service: String,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    kept: Mutex<Kept>,
}

/// What is known between attempts.
#[derive(Default)]
struct Kept {
    credentials: Option<AwsCredentials>,
    /// The access key that was forgotten last because AWS refused it.
    refused: Option<String>,
}

/// Finds credentials of AWS.
///
/// [`AwsCredentials`] are a provider of themselves, and [`AwsEnvironment`] reads the usual variables.
pub trait ProvideAwsCredentials: Send + Sync + 'static {
    /// The credentials to sign with now.
    ///
    /// # Errors
    ///
    /// The attempt fails with the error, and is retried if that
    /// [may get better](turnstream_core::Error::is_retryable).
    ///
    /// # Cancel safety
    ///
    /// The future is dropped with its turn. What an implementation keeps has to be right then, too.
    fn provide(&self) -> impl Future<Output = Result<AwsCredentials, Error>> + Send;
}

/// Credentials of AWS. Their `Debug` does not show them; the secret and the token are zeroed when dropped.
#[derive(Clone)]
pub struct AwsCredentials {
    access_key_id: String,
    secret_access_key: SecretString,
    session_token: Option<SecretString>,
    expires_at: Option<SystemTime>,
}

/// The credentials in `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, where it is set, `AWS_SESSION_TOKEN`, as
/// they are when an attempt begins.
#[derive(Debug, Clone, Copy)]
pub struct AwsEnvironment;

impl<P: ProvideAwsCredentials> SigV4<P> {
    /// Signs with these credentials, for the service `bedrock` and the region that the address names.
    pub fn new(provider: P) -> Self {
        Self {
            provider,
            region: None,
            service: "bedrock".to_owned(),
            clock: Arc::new(SystemTime::now),
            kept: Mutex::new(Kept::default()),
        }
    }

    /// Sets the region, for an address that does not name it.
    pub fn region(self, region: impl Into<String>) -> Self {
        Self { region: Some(region.into()), ..self }
    }

    /// Sets the service, for example `execute-api` for a gateway of one's own.
    pub fn service(self, service: impl Into<String>) -> Self {
        Self { service: service.into(), ..self }
    }

    /// Sets what tells the time.
    pub fn clock(self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    async fn credentials(&self, now: SystemTime) -> Result<AwsCredentials, Error> {
        // Others wait for what the first one finds.
        let mut kept = self.kept.lock().await;
        if let Some(credentials) = kept.credentials.as_ref().filter(|kept| kept.last_beyond(now)) {
            return Ok(credentials.clone());
        }
        kept.credentials = None;
        let found = self.provider.provide().await?;
        kept.credentials = Some(found.clone()).filter(|found| found.expires_at.is_some());
        Ok(found)
    }
}

impl<P: ProvideAwsCredentials> Authorize for SigV4<P> {
    async fn authorize(&self, attempt: &mut Attempt) -> Result<(), Error> {
        let now = (self.clock)();
        let credentials = self.credentials(now).await?;
        let host = attempt.url().host_str().unwrap_or_default();
        let region = self.region.as_deref().or_else(|| region_of(host)).ok_or_else(|| {
            Error::config("the address does not name an AWS region: set that of the signature")
        })?;
        let signed = signature(attempt, &credentials, region, &self.service, now)?;
        for header in signed.into_parts().0 {
            let is_secret = header.sensitive() || header.name() == header::AUTHORIZATION.as_str();
            if is_secret {
                attempt.set_secret(header.name(), header.value())?;
            } else {
                attempt.set_header(header.name(), header.value())?;
            }
        }
        Ok(())
    }

    fn renew(&self, attempt: &Attempt, refusal: &Error) -> bool {
        if !refusal.code().is_some_and(|code| STALE.contains(&code)) {
            return false;
        }
        // Whoever holds the lock finds others now.
        let Ok(mut kept) = self.kept.try_lock() else { return true };
        let signed = attempt.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let is_signed_with = |key: &str| {
            let scope = signed.and_then(|signed| signed.split_once("Credential="));
            scope.is_some_and(|(_, scope)| scope.strip_prefix(key).is_some_and(|rest| rest.starts_with('/')))
        };
        match &kept.credentials {
            Some(credentials) if is_signed_with(&credentials.access_key_id) => {
                kept.refused = kept.credentials.take().map(|credentials| credentials.access_key_id);
                true
            }
            // Another turn has renewed them since.
            Some(_) => true,
            // Another turn has forgotten them just now. Else the provider gave what was refused this very time.
            None => kept.refused.as_deref().is_some_and(is_signed_with),
        }
    }
}

impl<P> fmt::Debug for SigV4<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SigV4")
            .field("region", &self.region)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

impl AwsCredentials {
    /// Credentials that do not expire, as far as is known.
    pub fn new(access_key_id: impl Into<String>, secret_access_key: impl Into<SecretString>) -> Self {
        Self {
            access_key_id: access_key_id.into(),
            secret_access_key: secret_access_key.into(),
            session_token: None,
            expires_at: None,
        }
    }

    /// The token of temporary credentials.
    pub fn session_token(self, token: impl Into<SecretString>) -> Self {
        Self { session_token: Some(token.into()), ..self }
    }

    /// When they expire.
    pub fn expires_at(self, time: SystemTime) -> Self {
        Self { expires_at: Some(time), ..self }
    }

    fn last_beyond(&self, now: SystemTime) -> bool {
        // A clock of the caller's may say anything.
        self.expires_at.is_some_and(|end| now.checked_add(MARGIN).is_some_and(|until| until < end))
    }
}

impl ProvideAwsCredentials for AwsCredentials {
    async fn provide(&self) -> Result<AwsCredentials, Error> {
        Ok(self.clone())
    }
}

impl ProvideAwsCredentials for AwsEnvironment {
    async fn provide(&self) -> Result<AwsCredentials, Error> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let required = |name: &str| {
            variable(name).ok_or_else(|| Error::config(format!("the environment variable {name} is not set")))
        };
        let credentials =
            AwsCredentials::new(required("AWS_ACCESS_KEY_ID")?, required("AWS_SECRET_ACCESS_KEY")?);
        Ok(match variable("AWS_SESSION_TOKEN") {
            Some(token) => credentials.session_token(token),
            None => credentials,
        })
    }
}

impl<P: ProvideAwsCredentials> ProvideAwsCredentials for Arc<P> {
    async fn provide(&self) -> Result<AwsCredentials, Error> {
        P::provide(self).await
    }
}

impl fmt::Debug for AwsCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AwsCredentials").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// The headers that sign an attempt.
fn signature(
    attempt: &Attempt,
    credentials: &AwsCredentials,
    region: &str,
    service: &str,
    now: SystemTime,
) -> Result<SigningInstructions, Error> {
    let refuse = |why: Box<dyn std::error::Error + Send + Sync>| {
        Error::new(ErrorKind::Config, "the request cannot be signed").with_source(why)
    };
    let mut identity = Credentials::builder()
        .access_key_id(&credentials.access_key_id)
        .secret_access_key(credentials.secret_access_key.expose_secret())
        .provider_name("turnstream");
    if let Some(token) = &credentials.session_token {
        identity = identity.session_token(token.expose_secret());
    }
    let identity = identity.build().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| refuse(error.into()))?;
    let headers = attempt.headers().iter().filter(|(name, _)| {
        **name == header::CONTENT_TYPE || name.as_str().starts_with("x-amz") || **name == header::HOST
    });
    let headers = headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let mut url = attempt.url().clone();
    // They are no part of the host, and a signature takes their place.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let (method, body) = (attempt.method(), SignableBody::Bytes(attempt.body()));
    let request = SignableRequest::new(method.as_str(), url.as_str(), headers, body)
        .map_err(|error| refuse(error.into()))?;
    let signed = sign(request, &params.into()).map_err(|error| refuse(error.into()))?;
    Ok(signed.into_parts().0)
}

/// The region in a host's name: `eu-north-1` in `bedrock-runtime.eu-north-1.amazonaws.com`.
fn region_of(host: &str) -> Option<&str> {
    let is_region = |label: &&str| {
        let words: Vec<&str> = label.split('-').collect();
        match words.as_slice() {
            [area, between @ .., number] if area.len() == 2 && !between.is_empty() => {
                let is_word =
                    |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
                is_word(area) && between.iter().all(is_word) && number.parse::<u8>().is_ok()
            }
            _ => false,
        }
    };
    host.split('.').rev().find(is_region)
}

#[cfg(test)]
mod tests {
    use turnstream_core::{Endpoint, KeyHeader, RawJson, reexports::http::HeaderMap};

    use super::*;

    const KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    /// 2015-08-30T12:36:00Z
    const SUITE_TIME: u64 = 1_440_938_160;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn attempt(url: &str, path: &str, body: &str) -> Attempt {
        let endpoint = Endpoint::new(url.to_owned(), KeyHeader::Bearer).key("the bearer key".to_owned());
        let body = RawJson::parse(body).unwrap();
        Attempt::new(endpoint.post(path, &[], &body).unwrap(), 1)
    }

    /// The bare request of the suite: no header but the host's, no body.
    fn bare() -> Attempt {
        let endpoint = Endpoint::new("https://example.amazonaws.com/", KeyHeader::Bearer);
        let mut request = endpoint.post("", &[], &()).unwrap();
        (request.headers, request.body) = (HeaderMap::new(), Default::default());
        Attempt::new(request, 1)
    }

    fn credentials() -> AwsCredentials {
        AwsCredentials::new("AKIDEXAMPLE", KEY)
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn header<'a>(attempt: &'a Attempt, name: &str) -> &'a str {
        attempt.headers().get(name).unwrap().to_str().unwrap()
    }

    #[test]
    fn the_vectors_that_aws_publishes_hold() {
        let signer = |credentials| {
            SigV4::new(credentials).region("us-east-1").service("service").clock(|| at(SUITE_TIME))
        };
        // `post-vanilla` of the signing test suite.
        let mut plain = bare();
        run(signer(credentials()).authorize(&mut plain)).unwrap();
        assert_eq!(
            header(&plain, "authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        );
        assert_eq!(header(&plain, "x-amz-date"), "20150830T123600Z");
        // `post-sts-header-before`: temporary credentials.
        let token = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpS\
                     PfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT\
                     7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm\
                     8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
        let mut temporary = bare();
        run(signer(credentials().session_token(token)).authorize(&mut temporary)).unwrap();
        let signature = "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead";
        assert!(header(&temporary, "authorization").ends_with(signature));
        assert_eq!(header(&temporary, "x-amz-security-token"), token);
    }

    #[test]
    fn a_request_to_bedrock_is_signed_as_python_signs_it() {
        // Computed with Python's hmac and hashlib by the documented steps; the path is encoded once more.
        let body = r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#;
        let mut attempt = attempt(
            "https://bedrock-runtime.eu-north-1.amazonaws.com",
            "model/amazon.nova-lite-v1%3A0/converse-stream",
            body,
        );
        // 2025-01-02T03:04:05Z
        let signer = SigV4::new(credentials()).clock(|| at(1_735_787_045));
        run(signer.authorize(&mut attempt)).unwrap();
        assert_eq!(
            header(&attempt, "authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20250102/eu-north-1/bedrock/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, Signature=f91aa5945621709414a4619dc1e7f133346b432ce19b15def9dd1368ce55ee18"
        );
        assert_eq!(attempt.headers().get_all("authorization").iter().count(), 1);
    }

    #[test]
    fn the_address_names_the_region_or_the_caller_does() {
        let table = [
            ("bedrock-runtime.eu-north-1.amazonaws.com", Some("eu-north-1")),
            ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", Some("us-gov-west-1")),
            ("bedrock-runtime.cn-north-1.amazonaws.com.cn", Some("cn-north-1")),
            ("vpce-0a1-b2c.bedrock-runtime.us-east-1.vpce.amazonaws.com", Some("us-east-1")),
            ("gateway.example.com", None),
            ("us-east.example.com", None),
            ("127.0.0.1", None),
        ];
        for (host, region) in table {
            assert_eq!(region_of(host), region, "{host}");
        }
        let mut attempt = attempt("https://gateway.example.com", "x", "{}");
        let error = run(SigV4::new(credentials()).authorize(&mut attempt)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
    }

    #[test]
    fn credentials_that_expire_are_kept_until_shortly_before_and_forgotten_when_refused() {
        use std::sync::atomic::{AtomicU64, Ordering};
        struct Counted(AtomicU64, Option<u64>);
        impl ProvideAwsCredentials for Counted {
            async fn provide(&self) -> Result<AwsCredentials, Error> {
                let number = self.0.fetch_add(1, Ordering::SeqCst) + 1;
                let found = AwsCredentials::new(format!("AKID{number}"), "secret");
                Ok(match self.1 {
                    Some(end) => found.expires_at(at(end)),
                    None => found,
                })
            }
        }
        let clock = Arc::new(AtomicU64::new(1000));
        let signer = |end| {
            let clock = clock.clone();
            let provider = Arc::new(Counted(AtomicU64::new(0), end));
            let signer = SigV4::new(provider).region("us-east-1");
            signer.clock(move || at(clock.load(Ordering::SeqCst)))
        };
        let sign = |signer: &SigV4<Arc<Counted>>| {
            let mut attempt = attempt("https://h.example", "x", "{}");
            run(signer.authorize(&mut attempt)).unwrap();
            let (_, rest) = header(&attempt, "authorization").split_once("Credential=").unwrap();
            (rest.split_once('/').unwrap().0.to_owned(), attempt)
        };
        let temporary = signer(Some(2000));
        for (time, want) in [(1000, "AKID1"), (1939, "AKID1"), (1940, "AKID2")] {
            clock.store(time, Ordering::SeqCst);
            assert_eq!(sign(&temporary).0, want, "at {time}");
        }
        clock.store(1000, Ordering::SeqCst);
        let (key, attempt) = sign(&temporary);
        assert_eq!(key, "AKID2");
        let refusal = |code: &str| Error::new(ErrorKind::PermissionDenied, "no").with_code(code);
        assert!(!temporary.renew(&attempt, &refusal("AccessDeniedException")));
        assert!(temporary.renew(&attempt, &refusal("ExpiredTokenException")));
        assert_eq!(sign(&temporary).0, "AKID3");
        // A turn that was refused at the same time forgets nothing, and is asked again, too, with the new ones.
        assert!(temporary.renew(&attempt, &refusal("ExpiredTokenException")));
        let (key, newest) = sign(&temporary);
        assert_eq!(key, "AKID3");
        // The same before anybody has found new ones.
        assert!(temporary.renew(&newest, &refusal("ExpiredTokenException")));
        assert!(temporary.renew(&newest, &refusal("ExpiredTokenException")));
        assert!(!temporary.renew(&attempt, &refusal("ExpiredTokenException")));
        assert_eq!(sign(&temporary).0, "AKID4");
        let lasting = signer(None);
        assert_eq!((sign(&lasting).0, sign(&lasting).0), ("AKID1".to_owned(), "AKID2".to_owned()));
        assert!(!lasting.renew(&attempt, &refusal("ExpiredTokenException")));
    }

    #[test]
    fn no_secret_is_shown() {
        let credentials = AwsCredentials::new("AKID-SECRET-1", "SECRET-2").session_token("SECRET-3");
        let signer = SigV4::new(credentials.clone()).region("us-east-1");
        let mut attempt = attempt("https://h.example", "x", "{}");
        run(signer.authorize(&mut attempt)).unwrap();
        let shown = format!("{credentials:?} {credentials:#?} {signer:?} {attempt:?}");
        assert!(!shown.contains("SECRET") && !shown.contains("Signature="), "{shown}");
        assert!(attempt.headers().get("authorization").unwrap().is_sensitive());
        assert!(attempt.headers().get("x-amz-security-token").unwrap().is_sensitive());
    }
}
