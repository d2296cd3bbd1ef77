//! Refusals and in-stream errors of Cohere as [`Error`]s. An error body is `{"message","id","error_type"}`; an
//! error in the stream stands in `message-end`.

use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use turnstream_core::{Error, ErrorEnvelope, ErrorKind, JsonText};

/// The error of a reply whose status is not 200.
pub(crate) fn refused(status: u16, headers: &HeaderMap, body: &[u8]) -> Error {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Body {
        id: Option<String>,
        error_type: Option<String>,
    }
    let mut error = turnstream_core::refused(status, headers, body);
    let Body { id, error_type } = serde_json::from_slice(body).unwrap_or_default();
    if let (None, Some(id)) = (error.request_id(), id) {
        error = error.with_request_id(id);
    }
    match error_type.filter(|word| error.code().is_none() && !word.is_empty()) {
        Some(word) => error.with_code(word),
        None => error,
    }
}

/// The error of a frame that is an error, in whatever shape: it has no status.
pub(crate) fn in_stream(data: &str) -> Error {
    let error = match ErrorEnvelope::parse(data.as_bytes()) {
        Some(envelope) => of_body(envelope),
        None => {
            Error::new(ErrorKind::Provider, "the provider reported an error in words that are no error body")
        }
    };
    error.with_body(data.as_bytes())
}

/// The error of a body that is an error object instead of a stream.
pub(crate) fn of_body(envelope: ErrorEnvelope) -> Error {
    let is_retryable = envelope.is_retryable().unwrap_or_default();
    envelope.into_error(ErrorKind::Provider).with_retryable(is_retryable)
}

/// The error in which a turn ended: its word, and what is said of it. A time-out may pass.
pub(crate) fn of_ending(word: &str, said: Option<&RawValue>) -> Error {
    let text = said.and_then(|said| serde_json::from_str::<JsonText<'_>>(said.get()).ok());
    let message = match (text, said) {
        (Some(text), _) => text.to_lossy().into_owned(),
        (None, Some(said)) => said.get().to_owned(),
        (None, None) => format!("the provider ended the turn with the reason `{word}`"),
    };
    let error = Error::new(ErrorKind::Provider, message).with_retryable(word == "TIMEOUT");
    if word.is_empty() { error } else { error.with_code(word) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_its_kind_its_words_and_its_id() {
        let table = [
            (
                400,
                r#","error_type":"TOO_MANY_TOKENS""#,
                ErrorKind::InvalidRequest,
                Some("TOO_MANY_TOKENS"),
                false,
            ),
            (401, "", ErrorKind::Authentication, None, false),
            (403, "", ErrorKind::PermissionDenied, None, false),
            (404, "", ErrorKind::NotFound, None, false),
            (422, "", ErrorKind::InvalidRequest, None, false),
            (429, "", ErrorKind::RateLimited, None, true),
            (498, "", ErrorKind::InvalidRequest, None, false),
            (500, "", ErrorKind::Server, None, true),
            (503, "", ErrorKind::Overloaded, None, true),
        ];
        for (status, more, kind, code, is_retryable) in table {
            let body = format!(r#"{{"id":"r-1","message":"No."{more}}}"#);
            let error = refused(status, &HeaderMap::new(), body.as_bytes());
            assert_eq!((error.kind(), error.is_retryable()), (kind, is_retryable), "{status}");
            assert_eq!((error.message(), error.code(), error.request_id()), ("No.", code, Some("r-1")));
        }
        let html = refused(502, &HeaderMap::new(), b"<html>");
        assert_eq!((html.kind(), html.request_id()), (ErrorKind::Server, None));
    }

    #[test]
    fn an_ending_says_its_words_or_its_reason() {
        let said = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        let table = [
            ("ERROR", Some(said(r#""Out of capacity.""#)), "Out of capacity.", Some("ERROR"), false),
            ("ERROR", Some(said(r#"{"n":1.0}"#)), r#"{"n":1.0}"#, Some("ERROR"), false),
            ("TIMEOUT", None, "the provider ended the turn with the reason `TIMEOUT`", Some("TIMEOUT"), true),
            ("", Some(said(r#""x \ud83d""#)), "x \u{fffd}", None, false),
        ];
        for (word, words, message, code, is_retryable) in table {
            let error = of_ending(word, words.as_deref());
            assert_eq!((error.kind(), error.message(), error.code()), (ErrorKind::Provider, message, code));
            assert_eq!(error.is_retryable(), is_retryable);
        }
    }
}
