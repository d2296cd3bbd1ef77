//! What errors inside a stream mean. What a refusal means, core knows.

use turnstream_core::{Error, ErrorEnvelope, ErrorKind};

/// The error inside a stream, in whichever of its shapes: flat, nested, or on the response.
pub(crate) fn in_stream(envelope: ErrorEnvelope) -> Error {
    let is_retryable = envelope.is_retryable().unwrap_or_default();
    envelope.into_error(ErrorKind::Provider).with_retryable(is_retryable)
}

#[cfg(test)]
mod tests {
    use turnstream_core::refused;

    use super::*;

    #[test]
    fn a_refusal_keeps_status_code_request_id_and_body() {
        let mut headers = http::HeaderMap::new();
        headers.insert("x-request-id", "req_1".parse().unwrap());
        let body = br#"{"error":{"message":"No such model.","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#;
        let error = refused(400, &headers, body);
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert_eq!((error.status(), error.code()), (Some(400), Some("model_not_found")));
        assert_eq!((error.message(), error.request_id()), ("No such model.", Some("req_1")));
        assert_eq!(error.body().map(str::as_bytes), Some(body.as_slice()));
        assert!(!error.is_retryable());
    }

    #[test]
    fn an_empty_account_is_never_asked_again() {
        let headers = http::HeaderMap::new();
        let body = br#"{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}"#;
        assert!(!refused(429, &headers, body).is_retryable());
        assert!(
            refused(429, &headers, br#"{"error":{"message":"m","code":"rate_limit_exceeded"}}"#)
                .is_retryable()
        );
    }

    #[test]
    fn inside_a_stream_the_providers_word_tells_what_is_retried() {
        let table = [
            (
                r#"{"type":"error","code":"server_error","message":"m","param":null}"#,
                Some("server_error"),
                true,
            ),
            (r#"{"type":"error","code":null,"message":"m"}"#, None, false),
            (
                r#"{"type":"error","error":{"type":"tokens","code":"rate_limit_exceeded","message":"m"}}"#,
                Some("rate_limit_exceeded"),
                true,
            ),
            (r#"{"error":{"code":500,"message":"m","type":"server_error"}}"#, Some("server_error"), true),
            (r#"{"error":{"code":"invalid_prompt","message":"m"}}"#, Some("invalid_prompt"), false),
            (r#"{"error":{"code":"billing_not_active","message":"m"}}"#, Some("billing_not_active"), false),
            (r#"{"error":{"code":"insufficient_quota","message":"m"}}"#, Some("insufficient_quota"), false),
        ];
        for (json, code, is_retryable) in table {
            let error = in_stream(ErrorEnvelope::parse(json.as_bytes()).unwrap());
            assert_eq!((error.kind(), error.status()), (ErrorKind::Provider, None), "{json}");
            assert_eq!((error.message(), error.code()), ("m", code), "{json}");
            assert_eq!(error.is_retryable(), is_retryable, "{json}");
        }
    }
}
