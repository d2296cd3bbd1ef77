//! Errors inside a stream -> [`Error`]. What a refusal means, core knows.
//!
//! The shapes are OpenAI's `{"error":{"message","type","param","code"}}` and what compatible servers made of
//! it: `{"object":"error","message"}`, `{"detail"}`, `{"error":"text"}`, numbers as codes.

use turnstream_core::{Error, ErrorEnvelope, ErrorKind};

/// An error that came inside a stream, after a status of 200.
pub(crate) fn in_stream(envelope: ErrorEnvelope) -> Error {
    let is_retryable = envelope.is_retryable().unwrap_or_default();
    envelope.into_error(ErrorKind::Provider).with_retryable(is_retryable)
}

/// A finish reason that is a failure.
pub(crate) fn failed(reason: &str) -> Error {
    let error = Error::new(ErrorKind::Provider, format!("the provider ended the turn with `{reason}`"));
    error.with_code(reason)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderMap;
    use turnstream_core::refused;

    use super::*;

    #[test]
    fn a_refusal_keeps_status_id_waiting_time_and_words() {
        let mut headers = HeaderMap::new();
        headers.insert("x-request-id", "req_1".parse().unwrap());
        headers.insert("retry-after", "3".parse().unwrap());
        let body = br#"{"error":{"message":"Invalid schema for function 'f'","type":"invalid_request_error","param":"tools[0]","code":null}}"#;
        let error = refused(400, &headers, body);
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert_eq!(error.status(), Some(400));
        assert_eq!(error.request_id(), Some("req_1"));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
        assert_eq!(error.message(), "Invalid schema for function 'f'");
        assert_eq!(error.code(), Some("invalid_request_error"));
        assert!(error.body().unwrap().contains("tools[0]"));
        assert!(!error.is_retryable());
    }

    #[test]
    fn an_empty_purse_is_not_retried_and_a_rate_limit_is() {
        let table = [
            (r#"{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}"#, false),
            (r#"{"error":{"message":"m","type":"insufficient_quota","code":429}}"#, false),
            (r#"{"error":{"message":"m","type":"tokens","code":"rate_limit_exceeded"}}"#, true),
            (r#"{"error":{"message":"m","code":429}}"#, true),
            (r#"{"error":{"message":"m","type":"server_error","code":null}}"#, true),
        ];
        for (body, is_retryable) in table {
            let error = refused(429, &HeaderMap::new(), body.as_bytes());
            assert_eq!(
                (error.kind(), error.is_retryable()),
                (ErrorKind::RateLimited, is_retryable),
                "{body}"
            );
            let error = in_stream(ErrorEnvelope::parse(body.as_bytes()).unwrap());
            assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Provider, is_retryable), "{body}");
            assert_eq!(error.status(), None);
        }
    }

    #[test]
    fn the_id_of_a_request_is_found_under_the_vendors_names() {
        let mut headers = HeaderMap::new();
        headers.insert("mistral-correlation-id", "c-1".parse().unwrap());
        let error = refused(401, &headers, br#"{"detail":"Invalid API Key"}"#);
        assert_eq!(error.kind(), ErrorKind::Authentication);
        assert_eq!((error.message(), error.request_id()), ("Invalid API Key", Some("c-1")));
    }
}
