//! What a request carries that nobody else may read.

use turnstream_core::reexports::{
    http::{HeaderMap, HeaderValue, header},
    secrecy::{ExposeSecret, SecretString},
    url::{Url, form_urlencoded},
};

/// The parameter of an address that is no secret, and that errors are about.
const API_VERSION: &str = "api-version";

/// The secrets of a request, in every spelling in which a reply may echo them: the values of sensitive headers,
/// the user and password of the address, and what its query says.
pub(crate) fn of(headers: &HeaderMap, url: &Url) -> Vec<SecretString> {
    let mut secrets = Vec::new();
    let values = headers.values().filter(|value| value.is_sensitive());
    for value in values.filter_map(|value| value.to_str().ok()).map(str::trim) {
        secrets.push(value.to_owned());
        // Behind a scheme such as `Bearer`.
        secrets.extend(value.split_once(' ').map(|(_, key)| key.trim_start().to_owned()));
    }
    secrets.extend(parts_of(url));
    spelled(secrets)
}

/// The secrets of an address alone.
pub(crate) fn of_url(url: &Url) -> Vec<SecretString> {
    spelled(parts_of(url))
}

/// Hides the headers of a reply that echo a secret, and those that are one: they can be read and are not shown.
pub(crate) fn hide(headers: &mut HeaderMap, secrets: &[SecretString]) {
    for (name, value) in headers {
        let says = |value: &HeaderValue| {
            let text = String::from_utf8_lossy(value.as_bytes());
            secrets
                .iter()
                .map(ExposeSecret::expose_secret)
                .any(|secret| is_long(secret) && text.contains(secret))
        };
        if name == header::SET_COOKIE || says(value) {
            value.set_sensitive(true);
        }
    }
}

fn parts_of(url: &Url) -> Vec<String> {
    let mut secrets = Vec::new();
    for text in [url.username(), url.password().unwrap_or_default()] {
        secrets.push(text.to_owned());
        // Only percent signs mean something there.
        let text = text.replace('+', "%2B").replace('&', "%26");
        secrets.extend(form_urlencoded::parse(text.as_bytes()).map(|(text, _)| text.into_owned()));
    }
    for pair in url.query().unwrap_or_default().split('&') {
        let Some((name, value)) = pair.split_once('=') else { continue };
        if name != API_VERSION {
            secrets.push(value.to_owned());
            secrets.extend(form_urlencoded::parse(pair.as_bytes()).map(|(_, value)| value.into_owned()));
        }
    }
    secrets
}

/// Secrets in every spelling: some writers of JSON escape the slash.
fn spelled(secrets: Vec<String>) -> Vec<SecretString> {
    let escape = |secret: &String| secret.contains('/').then(|| secret.replace('/', r"\/"));
    let escaped: Vec<_> = secrets.iter().filter_map(escape).collect();
    secrets.into_iter().chain(escaped).map(SecretString::from).collect()
}

/// Whether a secret can be told from a word: the same measure as for errors.
fn is_long(secret: &str) -> bool {
    secret.chars().nth(5).is_some()
}

#[cfg(test)]
mod tests {
    use turnstream_core::reexports::http::HeaderValue;

    use super::*;

    #[test]
    fn every_spelling_of_a_secret_is_known() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("authorization", "Bearer sk/1"), ("x-key", "k 2 3")] {
            let mut value: HeaderValue = value.parse().unwrap();
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.insert("accept", "text/event-stream".parse().unwrap());
        let url = Url::parse("https://us%2Ber:p+a%26s@h/v1?api-version=1&key=a%2Bb&flag").unwrap();
        let secrets = of(&headers, &url);
        let secrets: Vec<&str> = secrets.iter().map(ExposeSecret::expose_secret).collect();
        let wanted = [
            "Bearer sk/1",
            "sk/1",
            r"sk\/1",
            "k 2 3",
            "2 3",
            "us%2Ber",
            "us+er",
            "p+a%26s",
            "p+a&s",
            "a%2Bb",
            "a+b",
        ];
        for want in wanted {
            assert!(secrets.contains(&want), "{want} is not in {secrets:?}");
        }
        for public in ["1", "text/event-stream", "flag"] {
            assert!(!secrets.contains(&public), "{public} is in {secrets:?}");
        }
    }
}
