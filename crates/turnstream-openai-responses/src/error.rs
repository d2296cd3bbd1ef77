//! What refusals and errors inside a stream mean.

use turnstream_core::{Error, ErrorEnvelope, ErrorKind};

/// The error of a reply whose status is not 200.
pub(crate) fn refused(status: u16, headers: &http::HeaderMap, body: &[u8]) -> Error {
    let error = turnstream_core::refused(status, headers, body);
    match error.code() {
        // It comes with 429, but no waiting helps.
        Some("insufficient_quota") => error.with_retryable(false),
        _ => error,
    }
}

/// The error inside a stream, in whichever of its shapes: flat, nested, or on the response.
pub(crate) fn in_stream(mut envelope: ErrorEnvelope) -> Error {
    // The flat shape's `type` is the event's own.
    envelope.kind = envelope.kind.filter(|kind| kind != "error");
    let error = envelope.into_error(ErrorKind::Provider);
    let is_retryable = matches!(error.code(), Some("server_error" | "rate_limit_exceeded"));
    error.with_retryable(is_retryable)
}

#[cfg(test)]
mod tests {
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
    fn inside_a_stream_only_two_codes_are_retried() {
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
