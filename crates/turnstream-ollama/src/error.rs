//! Errors inside a stream -> [`Error`]. What a refusal means, core knows: the body is `{"error":"text"}`
//! there, too, and some refusals of cloud models carry a `signin_url`.

use turnstream_core::{Error, ErrorEnvelope, ErrorKind};

/// An error line, after a status of 200. It has words and no code.
pub(crate) fn in_stream(envelope: ErrorEnvelope) -> Error {
    let is_retryable = envelope.is_retryable().unwrap_or_default();
    envelope.into_error(ErrorKind::Provider).with_retryable(is_retryable)
}

/// A reason that is a failure.
pub(crate) fn failed(word: &str) -> Error {
    let words = format!("the server ended the turn with the reason `{word}`");
    Error::new(ErrorKind::Provider, words).with_code(word)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use turnstream_core::refused;

    use super::*;

    #[test]
    fn each_status_has_its_kind_and_the_servers_words() {
        let table = [
            (400, "\"m\" does not support tools", ErrorKind::InvalidRequest, false),
            (401, "unauthorized", ErrorKind::Authentication, false),
            (404, "model 'm' not found", ErrorKind::NotFound, false),
            (429, "you have reached your hourly usage limit", ErrorKind::RateLimited, true),
            (500, "llama runner process has terminated", ErrorKind::Server, true),
            (503, "server busy, please try again", ErrorKind::Overloaded, true),
        ];
        for (status, words, kind, is_retryable) in table {
            let body = serde_json::json!({ "error": words, "signin_url": "https://h/connect" }).to_string();
            let error = refused(status, &HeaderMap::new(), body.as_bytes());
            assert_eq!((error.kind(), error.is_retryable()), (kind, is_retryable), "{status}");
            assert_eq!((error.status(), error.message(), error.code()), (Some(status), words, None));
        }
    }

    #[test]
    fn an_error_in_the_stream_has_words_only() {
        let envelope = ErrorEnvelope::parse(br#"{"error":"unexpected EOF"}"#).unwrap();
        let error = in_stream(envelope);
        assert_eq!((error.kind(), error.status(), error.code()), (ErrorKind::Provider, None, None));
        assert_eq!((error.message(), error.is_retryable()), ("unexpected EOF", false));
    }
}
