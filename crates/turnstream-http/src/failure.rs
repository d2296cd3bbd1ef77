//! What went wrong on the way, as an [`Error`]. No URL stands in one: it may hold a key.

use std::{error::Error as _, sync::Arc, time::Duration};

use turnstream_core::{
    Error, ErrorKind,
    reexports::{
        http::{HeaderMap, header},
        url::Url,
    },
};

/// Why no HTTP client could be made, for example because the system has no certificates. It is the error of
/// every turn.
pub(crate) struct Unusable {
    message: &'static str,
    cause: Option<Arc<reqwest::Error>>,
}

impl Unusable {
    /// A setting is to blame.
    pub(crate) fn because(message: &'static str) -> Self {
        Self { message, cause: None }
    }

    pub(crate) fn error(&self) -> Error {
        let error = Error::config(self.message);
        match &self.cause {
            Some(cause) => error.with_source(cause.clone()),
            None => error,
        }
    }
}

impl From<reqwest::Error> for Unusable {
    fn from(error: reqwest::Error) -> Self {
        Self { message: "the HTTP client cannot be set up", cause: Some(Arc::new(error)) }
    }
}

/// A request got no head.
pub(crate) fn of_request(error: reqwest::Error) -> Error {
    if names_certificate(&error) {
        // A second look at the same certificate helps nobody.
        let message = "the certificate of the server, or of the proxy, is not accepted";
        let error = Error::new(ErrorKind::Connect, message).with_source(error.without_url());
        return error.with_retryable(false);
    }
    let (kind, message) = if error.is_builder() {
        (ErrorKind::Config, "the request cannot be sent")
    } else if error.is_connect() && error.is_timeout() {
        (ErrorKind::Connect, "no connection could be made in time")
    } else if error.is_connect() {
        (ErrorKind::Connect, "no connection could be made")
    } else {
        (ErrorKind::Connect, "the connection failed before the head of the reply had come")
    };
    Error::new(kind, message).with_source(error.without_url())
}

/// A body broke in the middle.
pub(crate) fn of_body(error: reqwest::Error) -> Error {
    Error::new(ErrorKind::Truncated, "the connection failed in the middle of the body")
        .with_source(error.without_url())
}

pub(crate) fn first_byte_timeout(timeout: Option<Duration>) -> Error {
    let message = format!("the head of the reply did not come{}", within(timeout));
    Error::new(ErrorKind::FirstByteTimeout, message)
}

pub(crate) fn idle_timeout(timeout: Option<Duration>, pings_count: bool) -> Error {
    let what = if pings_count { "nothing more of the body" } else { "nothing but pings" };
    let message = format!("{what} came{}", within(timeout));
    Error::new(ErrorKind::IdleTimeout, message)
}

pub(crate) fn total_timeout(timeout: Option<Duration>) -> Error {
    Error::new(ErrorKind::TotalTimeout, format!("the turn did not end{}", within(timeout)))
}

/// A reply with a status that promises no body.
pub(crate) fn no_content(status: u16) -> Error {
    Error::new(ErrorKind::NotAStream, "the reply has a status that means that there is no body")
        .with_status(status)
}

/// A reply whose body is compressed although nobody asked for it.
pub(crate) fn compressed(encoding: &str) -> Error {
    let message = format!("the body is compressed ({encoding}), which nobody asked for");
    Error::new(ErrorKind::NotAStream, message)
}

/// A reply that points elsewhere. Where to is shown without user, password, query and fragment.
pub(crate) fn redirected(status: u16, from: &Url, headers: &HeaderMap) -> Error {
    let target = headers
        .get(header::LOCATION)
        .and_then(|location| location.to_str().ok())
        .and_then(|location| from.join(location).ok())
        .filter(|target| target.has_host())
        .map(|mut target| {
            // These fail only for URLs without a host.
            let _ = target.set_username("");
            let _ = target.set_password(None);
            target.set_query(None);
            target.set_fragment(None);
            target
        });
    let message = match target {
        Some(target) => format!("the address redirects to {:.200}, which is not followed", target.as_str()),
        None => "the address redirects, and does not say where to".to_owned(),
    };
    Error::new(ErrorKind::NotFound, message).with_status(status)
}

/// The content encoding of a body, if it has one.
pub(crate) fn encoding(headers: &HeaderMap) -> Option<&str> {
    let encoding = headers.get(header::CONTENT_ENCODING)?.to_str().unwrap_or("?").trim();
    (!encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity")).then_some(encoding)
}

/// Whether a certificate is what a connection failed at. The TLS libraries have no type in common that says so.
fn names_certificate(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(below) = cause {
        if error.is_connect() && below.to_string().contains("certificate") {
            return true;
        }
        cause = below.source();
    }
    false
}

fn within(timeout: Option<Duration>) -> String {
    timeout.map(|timeout| format!(" within {timeout:?}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_shown_without_what_may_be_secret() {
        let from = Url::parse("https://h/v1/messages?key=sk-SECRET-1").unwrap();
        let table = [
            (
                "https://u:sk-SECRET-2@other/x?key=sk-SECRET-3#f",
                "the address redirects to https://other/x, which is not followed",
            ),
            ("../v2?a=b", "the address redirects to https://h/v2, which is not followed"),
            ("data:,x", "the address redirects, and does not say where to"),
        ];
        for (location, want) in table {
            let mut headers = HeaderMap::new();
            headers.insert("location", location.parse().unwrap());
            assert_eq!(redirected(307, &from, &headers).message(), want);
        }
        assert_eq!(
            redirected(307, &from, &HeaderMap::new()).message(),
            "the address redirects, and does not say where to"
        );
    }
}
