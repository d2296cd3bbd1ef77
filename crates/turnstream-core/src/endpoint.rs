//! Where a wire's requests go, and under which key: the part of every wire's config that is the same.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use url::Url;

use crate::{
    error::{Error, ErrorKind},
    raw_json::{RawFields, RawJson},
    redact::secrets_of,
    request::Warning,
};

/// Headers that carry a key. A caller who sets one of them replaces the wire's own key.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];
/// Headers that carry other secrets.
const SECRET_HEADERS: [&str; 2] = ["cookie", "proxy-authorization"];

/// Where a wire's requests go: base URL, key and headers. Every wire's config holds one.
///
/// Its `Debug` shows no key, no header value and no query.
#[derive(Clone)]
pub struct Endpoint {
    /// What holds where the caller has not said otherwise.
    preset: Preset,
    base_url: Option<String>,
    key: Option<SecretString>,
    key_header: Option<KeyHeader>,
    headers: Vec<(String, SecretString)>,
    idempotency_header: Option<&'static str>,
}

/// Where a provider's requests go, and how they carry the key.
#[derive(Debug, Clone)]
struct Preset {
    name: &'static str,
    /// Empty where the caller has to give one.
    base_url: Cow<'static, str>,
    key_header: KeyHeader,
}

/// In which header a key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyHeader {
    /// `Authorization: Bearer <key>`.
    Bearer,
    /// `<name>: <key>`.
    Named(&'static str),
}

impl Endpoint {
    /// An address without a key.
    pub fn new(base_url: impl Into<Cow<'static, str>>, key_header: KeyHeader) -> Self {
        let preset = Preset { name: "", base_url: base_url.into(), key_header };
        Self {
            preset,
            base_url: None,
            key: None,
            key_header: None,
            headers: Vec::new(),
            idempotency_header: None,
        }
    }

    /// Sets the address and the key's header of the profile `name`, where the caller has given none. A profile
    /// without an address of its own wants one: until then every request is refused.
    pub fn profile(self, name: &'static str, base_url: Option<&'static str>, key_header: KeyHeader) -> Self {
        let base_url = Cow::Borrowed(base_url.unwrap_or_default());
        Self { preset: Preset { name, base_url, key_header }, ..self }
    }

    /// Sets the base URL. Path segments are appended to it, its query is kept, and no version segment is
    /// added or taken away.
    pub fn base_url(self, base_url: impl Into<String>) -> Self {
        Self { base_url: Some(base_url.into()), ..self }
    }

    /// Sets the key.
    pub fn key(self, key: impl Into<SecretString>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Sets the header in which the key is sent.
    pub fn key_header(self, key_header: KeyHeader) -> Self {
        Self { key_header: Some(key_header), ..self }
    }

    /// Adds a header to every request. It replaces one of the wire's own of the same name; a header that
    /// carries a key replaces the wire's key.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Names the header in which the provider takes an idempotency key: a word of the client's that is the same
    /// for all attempts of one turn. None by default.
    pub fn idempotency_header(self, name: Option<&'static str>) -> Self {
        Self { idempotency_header: name, ..self }
    }

    /// Sets the key from the environment.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when the variable is not set or empty; the error names it.
    pub fn key_from_env(self, variable: &str) -> Result<Self, Error> {
        match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => Ok(self.key(key.trim().to_owned())),
            _ => {
                Err(Error::new(ErrorKind::Config, format!("the environment variable {variable} is not set")))
            }
        }
    }

    /// A name as one segment of a path, for wires whose address holds the model: what is no letter, digit, `-`, `.`,
    /// `_` or `~` is escaped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for an empty name, `.` and `..`: they would lead elsewhere, and the key with them.
    pub fn segment(name: &str) -> Result<String, Error> {
        if matches!(name, "" | "." | "..") {
            return Err(Error::config(format!("`{name}` is no name of a model: it stands in the address")));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        let spell =
            |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
        Ok(name.bytes().map(spell).collect())
    }

    /// Builds the request that posts `body` to the base URL with `path` appended.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when the base URL, the key or a header cannot be used.
    pub fn post<B: Serialize + ?Sized>(
        &self,
        path: &str,
        headers: &[(&'static str, &str)],
        body: &B,
    ) -> Result<WireRequest, Error> {
        self.post_with(path, headers, body, &BTreeMap::new())
    }

    /// The same with further fields in the body, an object.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] as for [`post`](Self::post), and when the body has a field of that name already:
    /// JSON does not say which of two counts.
    pub fn post_with<B: Serialize + ?Sized>(
        &self,
        path: &str,
        headers: &[(&'static str, &str)],
        body: &B,
        extra: &BTreeMap<String, RawJson>,
    ) -> Result<WireRequest, Error> {
        let mut all = HeaderMap::new();
        all.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        all.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        // Compressing proxies hold a stream back to its end.
        all.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in headers {
            all.insert(header_name(name)?, plain_value(name, value)?);
        }
        let mut key_header = None;
        let brings_key = |(name, _): &(String, SecretString)| {
            KEY_HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header))
        };
        if let Some(key) = &self.key
            && !self.headers.iter().any(brings_key)
        {
            let (name, value) = match self.key_header.unwrap_or(self.preset.key_header) {
                KeyHeader::Bearer => ("authorization", format!("Bearer {}", key.expose_secret())),
                KeyHeader::Named(name) => (name, key.expose_secret().to_owned()),
            };
            let name = key_header.insert(header_name(name)?);
            all.insert(name.clone(), secret_value(name.as_str(), &value)?);
        }
        for (name, value) in &self.headers {
            all.insert(header_name(name)?, secret_value(name, value.expose_secret())?);
        }
        let body = body_with(body, extra)?;
        let url = join(self.address()?, path)?;
        let idempotency_header = self.idempotency_header.map(header_name).transpose()?;
        Ok(WireRequest {
            url,
            headers: all,
            body: body.into(),
            warnings: Vec::new(),
            idempotency_header,
            key_header,
        })
    }

    fn address(&self) -> Result<&str, Error> {
        match self.base_url.as_deref().unwrap_or(&self.preset.base_url) {
            "" if self.base_url.is_none() => {
                let name = self.preset.name;
                Err(Error::config(format!("the profile `{name}` has no base URL of its own: give one")))
            }
            base_url => Ok(base_url),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base_url = self.base_url.as_deref().unwrap_or(&self.preset.base_url);
        let base_url = Url::parse(base_url).map_or("(not a URL)".to_owned(), |url| masked(&url));
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("Endpoint")
            .field("base_url", &base_url)
            .field("key", &self.key.as_ref().map(|_| "***"))
            .field("headers", &headers)
            .finish()
    }
}

/// The HTTP request for one turn: always a POST. Its `Debug` shows no header value that may be secret, no
/// query and no body.
#[derive(Clone)]
#[non_exhaustive]
pub struct WireRequest {
    /// Where to.
    pub url: Url,
    /// With which headers. Those that carry keys are marked sensitive.
    pub headers: HeaderMap,
    /// The body. Every attempt sends these same bytes.
    pub body: Bytes,
    /// Settings that the wire had no word for.
    pub warnings: Vec<Warning>,
    /// In which header the provider takes an idempotency key, if it does. Whoever sends the request makes one
    /// up, unless the header is there.
    pub idempotency_header: Option<HeaderName>,
    key_header: Option<HeaderName>,
}

impl WireRequest {
    /// The same request with warnings.
    pub fn with_warnings(self, warnings: Vec<Warning>) -> Self {
        Self { warnings, ..self }
    }

    /// Sets a header that may be read by everyone. It replaces one of the same name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when the name or the value cannot be sent.
    pub fn set_header(&mut self, name: &str, value: &str) -> Result<(), Error> {
        self.headers.insert(header_name(name)?, plain_value(name, value)?);
        Ok(())
    }

    /// Sets a header that carries a secret. It replaces one of the same name; one of the headers that usually
    /// carry a key replaces the wire's own key, in whatever header that stands.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when the name or the value cannot be sent. The error names the header only.
    pub fn set_secret_header(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let (name, value) = (header_name(name)?, secret_value(name, value)?);
        if KEY_HEADERS.contains(&name.as_str())
            && let Some(own) = self.key_header.take()
        {
            self.headers.remove(own);
        }
        self.headers.insert(name, value);
        Ok(())
    }

    /// The headers that carry a key: that of the wire's own, and those that usually do.
    pub fn key_headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.headers.keys().filter(|name| {
            self.key_header.as_ref() == Some(name)
                || KEY_HEADERS.contains(&name.as_str())
                || SECRET_HEADERS.contains(&name.as_str())
        })
    }

    /// What the request carries that nobody else may read: the values of headers that carry keys or are marked
    /// sensitive, the user and password of the address, and what its query says, in every spelling in which a
    /// reply may echo it. What has less than six characters is a word that stands everywhere, and left out.
    pub fn secrets(&self) -> Vec<SecretString> {
        let keys: Vec<&HeaderName> = self.key_headers().collect();
        let is_secret =
            |(name, value): &(&HeaderName, &HeaderValue)| value.is_sensitive() || keys.contains(name);
        secrets_of(self.headers.iter().filter(is_secret).map(|(_, value)| value), &self.url)
    }

    /// The URL without user, password and query, which may hold keys.
    pub fn masked_url(&self) -> String {
        masked(&self.url)
    }
}

impl fmt::Debug for WireRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WireRequest")
            .field("url", &self.masked_url())
            .field("headers", &self.headers)
            .field("body_bytes", &self.body.len())
            .field("warnings", &self.warnings)
            .finish()
    }
}

/// The body's JSON, and further fields behind its own.
fn body_with<B: Serialize + ?Sized>(body: &B, extra: &BTreeMap<String, RawJson>) -> Result<Vec<u8>, Error> {
    let refuse =
        |error: serde_json::Error| Error::config("the request cannot be written as JSON").with_source(error);
    if extra.is_empty() {
        return serde_json::to_vec(body).map_err(refuse);
    }
    let body = RawJson::of(body).map_err(refuse)?;
    let fields: RawFields<'_> = serde_json::from_str(body.as_str()).map_err(refuse)?;
    if let Some((name, _)) = fields.0.iter().find(|(name, _)| extra.contains_key(&**name)) {
        return Err(Error::config(format!("the extra field `{name}` is one that the request itself sets")));
    }
    let body = body.with_fields(extra).expect("its fields were read, so that it is an object");
    Ok(body.as_str().into())
}

/// Appends `path` to the base URL's own path and keeps its query.
fn join(base_url: &str, path: &str) -> Result<Url, Error> {
    // The text itself stays out of the error: a URL may hold a password or a key.
    let refuse = |why: &str| Error::new(ErrorKind::Config, format!("the base URL cannot be used: {why}"));
    let mut url = Url::parse(base_url).map_err(|error| refuse(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("it is not http or https"));
    }
    let joined = format!("{}/{}", url.path().trim_end_matches('/'), path.trim_start_matches('/'));
    url.set_path(&joined);
    Ok(url)
}

fn masked(url: &Url) -> String {
    let mut url = url.clone();
    // These fail only for URLs that cannot have a host, and such a URL holds no user either.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    if url.query().is_some() {
        url.set_query(Some("***"));
    }
    url.into()
}

fn header_name(name: &str) -> Result<HeaderName, Error> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| Error::new(ErrorKind::Config, format!("`{name}` is not a header's name")))
}

fn plain_value(name: &str, value: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(value).map_err(|_| {
        Error::new(ErrorKind::Config, format!("the value of the header `{name}` cannot be sent"))
    })
}

fn secret_value(name: &str, value: &str) -> Result<HeaderValue, Error> {
    let mut value = plain_value(name, value)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_of_a_path_or_none() {
        for (name, segment) in
            [("a-b.c_d~1", "a-b.c_d~1"), ("a/b:c%", "a%2Fb%3Ac%25"), ("...", "..."), ("%2e%2e", "%252e%252e")]
        {
            assert_eq!(Endpoint::segment(name).unwrap(), segment);
            let base = join("https://h/v1", &format!("models/{segment}")).unwrap();
            assert_eq!(base.as_str(), format!("https://h/v1/models/{segment}"));
        }
        for name in ["", ".", ".."] {
            assert_eq!(Endpoint::segment(name).unwrap_err().kind(), ErrorKind::Config, "{name}");
        }
    }

    #[test]
    fn a_profile_says_only_what_the_caller_does_not() {
        let endpoint = || Endpoint::new("https://h/v1", KeyHeader::Bearer).key("k".to_owned());
        let at = |endpoint: &Endpoint| {
            let sent = endpoint.post("x", &[], &()).unwrap();
            (sent.url.to_string(), sent.headers.get("api-key").is_some())
        };
        let profile = endpoint().profile("p", Some("https://p/v1"), KeyHeader::Named("api-key"));
        assert_eq!(at(&profile), ("https://p/v1/x".to_owned(), true));
        let mine = endpoint().base_url("https://m").key_header(KeyHeader::Bearer);
        let mine = mine.profile("p", Some("https://p/v1"), KeyHeader::Named("api-key"));
        assert_eq!(at(&mine), ("https://m/x".to_owned(), false));
        let nowhere = endpoint().profile("p", None, KeyHeader::Bearer).post("x", &[], &()).unwrap_err();
        assert_eq!(nowhere.message(), "the profile `p` has no base URL of its own: give one");
    }

    #[test]
    fn a_further_field_stands_behind_the_bodys_own_and_is_none_of_them() {
        let endpoint = Endpoint::new("https://h", KeyHeader::Bearer);
        let extra = |name: &str| BTreeMap::from([(name.to_owned(), RawJson::parse("[ 1.0]").unwrap())]);
        let body = BTreeMap::from([("b", 1), ("a", 2)]);
        let sent = endpoint.post_with("x", &[], &body, &extra("0")).unwrap();
        assert_eq!(sent.body, r#"{"a":2,"b":1,"0":[ 1.0]}"#);
        let refused = endpoint.post_with("x", &[], &body, &extra("a")).unwrap_err();
        assert_eq!(refused.message(), "the extra field `a` is one that the request itself sets");
    }

    #[test]
    fn paths_are_appended_and_queries_kept() {
        let table = [
            ("https://h/v1", "https://h/v1/chat/completions"),
            ("https://h/v1/", "https://h/v1/chat/completions"),
            ("https://h/api/v3", "https://h/api/v3/chat/completions"),
            (
                "https://h/deploy/x?api-version=2024-10-21",
                "https://h/deploy/x/chat/completions?api-version=2024-10-21",
            ),
            ("https://h/v1//", "https://h/v1/chat/completions"),
            ("https://h", "https://h/chat/completions"),
        ];
        for (base, want) in table {
            assert_eq!(join(base, "chat/completions").unwrap().as_str(), want);
        }
    }

    #[test]
    fn a_callers_key_header_replaces_the_wires_key() {
        let endpoint = Endpoint::new("https://h", KeyHeader::Named("x-api-key"))
            .key("k".to_owned())
            .header("Authorization", "Api-Key z".to_owned())
            .header("x-trace", "1".to_owned());
        let request = endpoint.post("messages", &[], &()).unwrap();
        assert_eq!(request.headers.get_all("authorization").iter().collect::<Vec<_>>(), ["Api-Key z"]);
        assert_eq!(request.headers.get("x-trace").unwrap(), "1");
        assert!(!request.headers.contains_key("x-api-key"));
        // A gateway may want its own key and the provider's.
        let request = endpoint.header("X-Api-Key", "k2".to_owned()).post("messages", &[], &()).unwrap();
        assert_eq!(request.headers.get("authorization").unwrap(), "Api-Key z");
        assert_eq!(request.headers.get("x-api-key").unwrap(), "k2");
    }

    #[test]
    fn a_key_set_later_replaces_the_wires_own_and_no_other_secret_does() {
        let endpoint = Endpoint::new("https://h", KeyHeader::Named("x-api-key")).key("k".to_owned());
        let mut request = endpoint.post("messages", &[], &()).unwrap();
        request.set_header("x-date", "1").unwrap();
        request.set_secret_header("x-gateway", "g").unwrap();
        assert_eq!(request.headers.get("x-api-key").unwrap(), "k");
        request.set_secret_header("Authorization", "Bearer t").unwrap();
        request.set_secret_header("authorization", "Bearer u").unwrap();
        assert_eq!(request.headers.get_all("authorization").iter().collect::<Vec<_>>(), ["Bearer u"]);
        assert!(!request.headers.contains_key("x-api-key"));
        let is_sensitive = |name: &str| request.headers.get(name).map(HeaderValue::is_sensitive);
        let sensitive = ["authorization", "x-gateway", "x-date"].map(is_sensitive);
        assert_eq!(sensitive, [Some(true), Some(true), Some(false)]);
        let error = request.set_secret_header("x-gateway", "sk-SECRET\n").unwrap_err();
        assert_eq!(error.message(), "the value of the header `x-gateway` cannot be sent");
    }

    #[test]
    fn a_header_name_of_the_callers_never_panics() {
        let endpoint = |name| Endpoint::new("https://h", KeyHeader::Named(name)).key("k".to_owned());
        let request = endpoint("X-Api-Key").post("messages", &[], &()).unwrap();
        assert_eq!(request.headers.get("x-api-key").unwrap(), "k");
        assert_eq!(endpoint("no name").post("messages", &[], &()).unwrap_err().kind(), ErrorKind::Config);
    }

    #[test]
    fn no_secret_is_shown() {
        let endpoint = Endpoint::new("https://u:sk-SECRET-3@h/v1?key=sk-SECRET-4", KeyHeader::Bearer)
            .key("sk-SECRET-1".to_owned())
            .header("authorization", "Bearer sk-SECRET-2".to_owned());
        let request = endpoint.post("messages", &[], &()).unwrap();
        let bad = endpoint.clone().base_url("sk-SECRET-5").post("x", &[], &()).unwrap_err();
        let shown = format!("{endpoint:?} {endpoint:#?} {request:?} {bad:?} {bad}");
        assert!(!shown.contains("SECRET"), "{shown}");
    }

    #[test]
    fn a_request_knows_which_of_its_headers_carry_a_key() {
        let names = |endpoint: Endpoint| {
            let request = endpoint.header("x-trace", "1".to_owned()).post("x", &[], &()).unwrap();
            request.key_headers().map(ToString::to_string).collect::<Vec<_>>()
        };
        let endpoint = || Endpoint::new("https://h", KeyHeader::Named("X-Portal"));
        assert_eq!(names(endpoint()), [""; 0]);
        assert_eq!(names(endpoint().key("k".to_owned())), ["x-portal"]);
        assert_eq!(names(endpoint().header("Cookie", "a=b".to_owned())), ["cookie"]);
        assert_eq!(names(endpoint().header("API-Key", "k".to_owned())), ["api-key"]);
    }
}
