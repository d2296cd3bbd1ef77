//! What a recording leaves out.

use turnstream_core::{
    WireRequest,
    reexports::{http::HeaderMap, secrecy::ExposeSecret, url::Url},
};

use super::MASKED;

/// Headers whose values are kept. Of all others only the name is: a list of those that may hold a secret
/// would never be whole.
const HARMLESS_HEADERS: [&str; 22] = [
    "accept",
    "accept-encoding",
    "anthropic-beta",
    "anthropic-version",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "keep-alive",
    "openai-beta",
    "openai-processing-ms",
    "openai-version",
    "retry-after",
    "retry-after-ms",
    "server",
    "transfer-encoding",
    "user-agent",
    "vary",
    "via",
    "x-accel-buffering",
];
/// Parameters of an address whose values are kept.
const HARMLESS_PARAMETERS: [&str; 2] = ["alt", "api-version"];

/// The secrets of a request, in every spelling in which a reply may echo them, longest first.
#[derive(Default)]
pub(crate) struct Secrets(Vec<Vec<u8>>);

impl Secrets {
    pub(crate) fn of(request: &WireRequest) -> Self {
        let mut secrets = Self::default();
        request.secrets().iter().for_each(|secret| secrets.add(secret.expose_secret()));
        secrets
    }

    /// One more.
    pub(crate) fn add(&mut self, secret: &str) {
        // Some writers of JSON escape the slash.
        for secret in [secret.to_owned(), secret.replace('/', r"\/")] {
            // Nothing is not looked for: it is everywhere.
            if !secret.is_empty() {
                self.0.push(secret.into_bytes());
            }
        }
        // One may be a part of another.
        self.0.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// Puts asterisks in the place of every secret; the length stays.
    pub(crate) fn mask(&self, text: &mut [u8]) {
        for secret in &self.0 {
            let mut from = 0;
            while let Some(found) = text
                .get(from..)
                .and_then(|rest| rest.windows(secret.len()).position(|window| window == secret))
            {
                let start = from + found;
                from = start + secret.len();
                text.get_mut(start..from).into_iter().for_each(|place| place.fill(b'*'));
            }
        }
    }
}

/// The headers of a request, as they may be kept.
pub(crate) fn mask_request_headers(request: &WireRequest) -> Vec<(String, String)> {
    let keys: Vec<_> = request.key_headers().cloned().collect();
    let mut headers = request.headers.clone();
    for key in keys {
        headers.remove(&key);
        headers.insert(key, MASKED.parse().expect("asterisks are a header's value"));
    }
    mask_headers(&headers)
}

/// The headers of a reply, as they may be kept.
pub(crate) fn mask_response_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    mask_headers(headers)
}

/// The address of a request, as it may be kept.
pub(crate) fn mask_url(url: &Url) -> String {
    let mut masked = url.clone();
    if !url.username().is_empty() || url.password().is_some() {
        // Only addresses without a host refuse, and those have neither.
        let _ = masked.set_username("");
        let _ = masked.set_password(None);
    }
    if url.query().is_some() {
        let pairs = url.query_pairs().map(|(name, value)| {
            let value = if HARMLESS_PARAMETERS.contains(&&*name) { value } else { MASKED.into() };
            (name, value)
        });
        masked.query_pairs_mut().clear().extend_pairs(pairs);
    }
    masked.into()
}

fn mask_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let shown = headers.iter().map(|(name, value)| {
        let name = name.as_str();
        let is_harmless = !value.is_sensitive()
            && (HARMLESS_HEADERS.contains(&name)
                || name.contains("ratelimit")
                || name.starts_with("access-control-")
                || name.ends_with("request-id"));
        let value = value.to_str().ok().filter(|_| is_harmless).unwrap_or(MASKED);
        (name.to_owned(), value.to_owned())
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use turnstream_core::{Endpoint, KeyHeader};

    use super::*;

    fn request() -> WireRequest {
        let endpoint =
            Endpoint::new("https://us:pass-word@host/v1?api-version=2&sig=a%2Fb%2Fcdef", KeyHeader::Bearer)
                .key("sk-secret/1")
                .header("x-tenant", "tenant-7");
        endpoint.post("chat", &[], &serde_json::json!({})).unwrap()
    }

    #[test]
    fn no_header_and_no_address_shows_a_secret() {
        let request = request();
        let headers = mask_request_headers(&request);
        let value =
            |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(value("authorization"), Some(MASKED));
        assert_eq!(value("x-tenant"), Some(MASKED));
        assert_eq!(value("content-type"), Some("application/json"));
        assert_eq!(mask_url(&request.url), "https://host/v1/chat?api-version=2&sig=***");
        let mut reply = HeaderMap::new();
        for (name, value) in [("set-cookie", "id=1"), ("x-ratelimit-limit", "9"), ("request-id", "r1")] {
            reply.insert(name, value.parse().unwrap());
        }
        let mut masked = mask_response_headers(&reply);
        masked.sort();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            masked,
            [pair("request-id", "r1"), pair("set-cookie", MASKED), pair("x-ratelimit-limit", "9")]
        );
    }

    #[test]
    fn a_secret_that_is_echoed_is_overwritten_at_its_length_in_every_spelling() {
        let secrets = Secrets::of(&request());
        let mut text =
            br#"no sk-secret/1, no sk-secret\/1, no Bearer sk-secret/1; a/b/cdef a%2Fb%2Fcdef pass-word"#
                .to_vec();
        let length = text.len();
        secrets.mask(&mut text);
        assert_eq!(text.len(), length);
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.replace('*', ""), "no , no , no ;   ");
    }
}
