//! What a request carries that nobody else may read.

use turnstream_core::reexports::{
    http::HeaderMap,
    url::{Url, form_urlencoded},
};

/// The parameter of an address that is no secret, and that errors are about.
const API_VERSION: &str = "api-version";

/// The secrets of a request, in every spelling in which a reply may echo them: the values of sensitive headers,
/// the user and password of the address, and what its query says.
pub(crate) fn of(headers: &HeaderMap, url: &Url) -> Vec<String> {
    let mut secrets = Vec::new();
    let values = headers.values().filter(|value| value.is_sensitive());
    for value in values.filter_map(|value| value.to_str().ok()).map(str::trim) {
        secrets.push(value.to_owned());
        // Behind a scheme such as `Bearer`.
        secrets.extend(value.split_once(' ').map(|(_, key)| key.trim_start().to_owned()));
    }
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
    // Some writers of JSON escape the slash.
    let escaped: Vec<_> = secrets.iter().map(|secret| secret.replace('/', r"\/")).collect();
    secrets.extend(escaped);
    secrets
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
            assert!(secrets.iter().any(|secret| secret == want), "{want} is not in {secrets:?}");
        }
        for public in ["1", "text/event-stream", "flag"] {
            assert!(!secrets.iter().any(|secret| secret == public), "{public} is in {secrets:?}");
        }
    }
}
