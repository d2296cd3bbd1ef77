//! Secrets: which there are in a request, and how they are masked in text that others wrote. Providers and
//! gateways echo what they were sent.

use http::HeaderValue;
use secrecy::SecretString;
use url::{Url, form_urlencoded};

/// The parameter of an address that is no secret, and that errors are about.
const API_VERSION: &str = "api-version";

/// The fewest characters of a secret. Shorter ones are words that stand everywhere.
const SECRET_LENGTH: usize = 6;

/// Secrets that are masked, the longest first: one may be a part of another.
pub(crate) struct Secrets<'a>(Vec<&'a str>);

impl<'a> Secrets<'a> {
    /// Those that are long enough to be told from words.
    pub(crate) fn new(secrets: &[&'a str]) -> Self {
        let is_long = |secret: &&str| secret.chars().nth(SECRET_LENGTH - 1).is_some();
        let mut secrets: Vec<&str> = secrets.iter().copied().filter(is_long).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// Whether a text says one of them, whole.
    pub(crate) fn are_in(&self, text: &str) -> bool {
        self.0.iter().any(|secret| text.contains(secret))
    }

    /// Puts `***` for every secret in a text.
    pub(crate) fn mask(&self, text: &mut String) {
        for secret in &self.0 {
            if text.contains(secret) {
                *text = text.replace(secret, "***");
            }
        }
    }

    /// The same, and for the beginning of one at the end of a text that may have been cut.
    pub(crate) fn mask_cut(&self, text: &mut String) {
        self.mask(text);
        let cut = |secret: &&str| {
            let starts = secret.char_indices().skip(SECRET_LENGTH).filter_map(|(end, _)| secret.get(..end));
            starts.filter(|start| text.ends_with(start)).map(str::len).max()
        };
        if let Some(length) = self.0.iter().filter_map(cut).max() {
            text.truncate(text.len() - length);
            text.push_str("***");
        }
    }
}

/// What headers and an address carry that nobody else may read, in every spelling in which a reply may echo it:
/// the values of the headers, the user and password of the address, and what its query says.
pub(crate) fn secrets_of<'a>(values: impl Iterator<Item = &'a HeaderValue>, url: &Url) -> Vec<SecretString> {
    let mut secrets = Vec::new();
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
    let escape = |secret: &String| secret.contains('/').then(|| secret.replace('/', r"\/"));
    let escaped: Vec<_> = secrets.iter().filter_map(escape).collect();
    let is_long = |secret: &String| secret.chars().nth(SECRET_LENGTH - 1).is_some();
    secrets.into_iter().chain(escaped).filter(is_long).map(SecretString::from).collect()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn every_spelling_of_a_secret_is_known() {
        let values = ["Bearer sk/1234", "key with blanks", "short"].map(HeaderValue::from_static);
        let address = "https://us%2Bername:pass+w%26rd@h/v1?api-version=2024-10-21&key=a%2Bbcdefg&flagged";
        let secrets = secrets_of(values.iter(), &Url::parse(address).unwrap());
        let mut secrets: Vec<&str> = secrets.iter().map(ExposeSecret::expose_secret).collect();
        secrets.sort_unstable();
        secrets.dedup();
        let want = [
            "Bearer sk/1234",
            r"Bearer sk\/1234",
            "a%2Bbcdefg",
            "a+bcdefg",
            "key with blanks",
            "pass+w%26rd",
            "pass+w&rd",
            "sk/1234",
            r"sk\/1234",
            "us%2Bername",
            "us+ername",
            "with blanks",
        ];
        assert_eq!(secrets, want);
    }
}
