//! What a reply's headers echo of the secrets of its request.

use turnstream_core::reexports::{
    http::{HeaderMap, HeaderValue, header},
    secrecy::{ExposeSecret, SecretString},
};

/// Hides the headers of a reply that echo a secret, and those that are one: they can be read and are not shown.
pub(crate) fn hide(headers: &mut HeaderMap, secrets: &[SecretString]) {
    let says_one = |value: &HeaderValue| {
        let text = String::from_utf8_lossy(value.as_bytes());
        secrets.iter().any(|secret| text.contains(secret.expose_secret()))
    };
    for (name, value) in headers {
        if name == header::SET_COOKIE || says_one(value) {
            value.set_sensitive(true);
        }
    }
}
