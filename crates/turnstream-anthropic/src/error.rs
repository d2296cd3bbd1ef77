//! Refusals and in-stream errors of the Messages wire as [`Error`]s.

use http::HeaderMap;
use serde::Deserialize;
use turnstream_core::{Error, ErrorEnvelope, ErrorKind};

/// Codes under which a rate limit is a spending limit: waiting does not help.
const SPEND_LIMITS: [&str; 2] = ["enforced_spend_limit_reached", "contract_spend_limit_reached"];

/// The error of a reply whose status is not 200. The header `x-should-retry` decides on retrying, else the
/// provider's words, else the status.
pub(crate) fn refused(status: u16, headers: &HeaderMap, body: &[u8]) -> Error {
    let error = turnstream_core::refused(status, headers, body);
    if headers.get("x-should-retry").is_some_and(|word| word == "true" || word == "false") {
        return error;
    }
    match ErrorEnvelope::parse(body).and_then(|envelope| is_retryable(&envelope, body)) {
        Some(is_retryable) => error.with_retryable(is_retryable),
        None => error,
    }
}

/// The error of an `error` event, in whatever shape: it has no status.
pub(crate) fn in_stream(data: &str) -> Error {
    let body = data.as_bytes();
    let Some(envelope) = ErrorEnvelope::parse(body) else {
        let words = "the provider reported an error in words that are no error body";
        return Error::new(ErrorKind::Provider, words).with_body(body);
    };
    let is_retryable = is_retryable(&envelope, body).unwrap_or_default();
    envelope.into_error(ErrorKind::Provider).with_retryable(is_retryable).with_body(body)
}

/// The error of a body that is an error object instead of a stream.
pub(crate) fn of_body(envelope: ErrorEnvelope) -> Error {
    let is_retryable = is_retryable(&envelope, b"").unwrap_or_default();
    envelope.into_error(ErrorKind::Provider).with_retryable(is_retryable)
}

fn is_retryable(envelope: &ErrorEnvelope, body: &[u8]) -> Option<bool> {
    if has_spend_limit(body) {
        return Some(false);
    }
    // Behind a proxy, these may come with a status that asks for another attempt.
    let is_final = matches!(
        envelope.kind.as_deref(),
        Some(
            "invalid_request_error"
                | "authentication_error"
                | "billing_error"
                | "permission_error"
                | "not_found_error"
                | "request_too_large",
        )
    );
    if is_final { Some(false) } else { envelope.is_retryable() }
}

fn has_spend_limit(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Body {
        error: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        details: Details,
    }
    #[derive(Deserialize)]
    struct Details {
        error_code: String,
    }
    serde_json::from_slice(body)
        .is_ok_and(|body: Body| SPEND_LIMITS.contains(&body.error.details.error_code.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(kind: &str) -> String {
        format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"No."}},"request_id":"req_1"}}"#)
    }

    #[test]
    fn each_status_has_its_kind_and_the_providers_word() {
        let table = [
            (400, "invalid_request_error", ErrorKind::InvalidRequest, false),
            (401, "authentication_error", ErrorKind::Authentication, false),
            (402, "billing_error", ErrorKind::PermissionDenied, false),
            (403, "permission_error", ErrorKind::PermissionDenied, false),
            (404, "not_found_error", ErrorKind::NotFound, false),
            (409, "conflict_error", ErrorKind::Server, true),
            (413, "request_too_large", ErrorKind::InvalidRequest, false),
            (429, "rate_limit_error", ErrorKind::RateLimited, true),
            (500, "api_error", ErrorKind::Server, true),
            (504, "timeout_error", ErrorKind::Server, true),
            (529, "overloaded_error", ErrorKind::Overloaded, true),
            (500, "invalid_request_error", ErrorKind::Server, false),
            (529, "something_new", ErrorKind::Overloaded, true),
        ];
        for (status, code, kind, is_retryable) in table {
            let error = refused(status, &HeaderMap::new(), body(code).as_bytes());
            assert_eq!((error.kind(), error.is_retryable()), (kind, is_retryable), "{status} {code}");
            assert_eq!((error.status(), error.code()), (Some(status), Some(code)));
            assert_eq!((error.message(), error.request_id()), ("No.", Some("req_1")));
        }
    }

    #[test]
    fn a_spending_limit_is_not_retried() {
        let limit = |code: &str| {
            format!(
                r#"{{"error":{{"type":"rate_limit_error","message":"No.","details":{{"error_code":"{code}"}}}}}}"#
            )
        };
        for code in SPEND_LIMITS {
            assert!(!refused(429, &HeaderMap::new(), limit(code).as_bytes()).is_retryable(), "{code}");
            assert!(!in_stream(&limit(code)).is_retryable(), "{code}");
        }
        assert!(refused(429, &HeaderMap::new(), limit("requests_per_minute").as_bytes()).is_retryable());
    }

    #[test]
    fn the_header_decides_on_retrying_first() {
        for (word, is_retryable) in [("true", true), ("false", false)] {
            let headers = HeaderMap::from_iter([(
                http::HeaderName::from_static("x-should-retry"),
                http::HeaderValue::from_static(word),
            )]);
            for kind in ["invalid_request_error", "overloaded_error"] {
                assert_eq!(refused(500, &headers, body(kind).as_bytes()).is_retryable(), is_retryable);
            }
        }
    }

    #[test]
    fn in_stream_errors_have_no_status_and_any_shape() {
        let table = [
            (body("overloaded_error"), "No.", Some("overloaded_error"), true),
            (body("invalid_request_error"), "No.", Some("invalid_request_error"), false),
            (format!(r#"{{"error":{}}}"#, body("overloaded_error")), "No.", Some("overloaded_error"), true),
            (
                r#"{"code":500,"message":"out of memory","type":"server_error"}"#.to_owned(),
                "out of memory",
                Some("server_error"),
                true,
            ),
            (
                r#"{"error":{"code":500,"message":"out of memory","type":"server_error"}}"#.to_owned(),
                "out of memory",
                Some("server_error"),
                true,
            ),
            (r#"{"type":"error","message":"flat"}"#.to_owned(), "flat", None, false),
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"x \ud83d"},"n":"\ude00"}"#
                    .to_owned(),
                "x \u{fffd}",
                Some("overloaded_error"),
                true,
            ),
            (r#"{"type":"error","error":"a text"}"#.to_owned(), "a text", None, false),
        ];
        for (data, message, code, is_retryable) in table {
            let error = in_stream(&data);
            assert_eq!((error.kind(), error.status()), (ErrorKind::Provider, None), "{data}");
            assert_eq!((error.message(), error.code()), (message, code), "{data}");
            assert_eq!(error.is_retryable(), is_retryable, "{data}");
        }
        assert_eq!(in_stream(&body("api_error")).request_id(), Some("req_1"));
        for data in ["upstream gone", r#"{"type":"error"}"#, "[]", "null"] {
            assert_eq!((in_stream(data).kind(), in_stream(data).body()), (ErrorKind::Provider, Some(data)));
        }
    }
}
