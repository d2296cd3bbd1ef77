//! Refusals and in-stream errors of the wire as [`Error`]s.

use std::time::Duration;

use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use turnstream_core::{Error, ErrorEnvelope, ErrorKind};

/// The error of a reply whose status is not 200. The headers say how long to wait, else the details do.
pub(crate) fn refused(status: u16, headers: &HeaderMap, body: &[u8]) -> Error {
    let mut error = turnstream_core::refused(status, headers, body);
    let details = Details::of(body);
    if let (None, Some(wait)) = (error.retry_after(), details.retry_delay) {
        error = error.with_retry_after(wait);
    }
    if details.is_spent { error.with_retryable(false) } else { error }
}

/// The error of an error object in the place of a response: it has no status.
pub(crate) fn in_stream(data: &str) -> Error {
    let body = data.as_bytes();
    let Some(envelope) = ErrorEnvelope::parse(body) else {
        let words = "the provider reported an error in words that are no error body";
        return Error::new(ErrorKind::Provider, words).with_body(body);
    };
    let (mut error, details) = (of_body(envelope), Details::of(body));
    if let Some(wait) = details.retry_delay {
        error = error.with_retry_after(wait);
    }
    if details.is_spent { error.with_retryable(false).with_body(body) } else { error.with_body(body) }
}

/// The error of a body that is an error object instead of a stream.
pub(crate) fn of_body(envelope: ErrorEnvelope) -> Error {
    let is_retryable = match envelope.kind.as_deref() {
        Some("UNAVAILABLE" | "RESOURCE_EXHAUSTED" | "INTERNAL" | "DEADLINE_EXCEEDED" | "ABORTED") => true,
        _ => envelope.is_retryable().unwrap_or_default(),
    };
    envelope.into_error(ErrorKind::Provider).with_retryable(is_retryable)
}

/// The error of a reason that means that the provider failed, with what it says of it.
pub(crate) fn of_reason(word: &str, message: Option<&str>) -> Error {
    let words = match message.filter(|message| !message.is_empty()) {
        Some(message) => format!("the provider ended the turn with the reason `{word}`: {message}"),
        None => format!("the provider ended the turn with the reason `{word}`"),
    };
    // A model that wrote nonsense may not do so again.
    let is_retryable = matches!(word, "MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE");
    Error::new(ErrorKind::Provider, words).with_code(word).with_retryable(is_retryable)
}

/// What the details of an error say about another attempt.
#[derive(Default)]
struct Details {
    retry_delay: Option<Duration>,
    /// A quota for a whole day is used up: that passes too late for another attempt.
    is_spent: bool,
}

impl Details {
    fn of(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Body<'a> {
            #[serde(borrow)]
            error: Inner<'a>,
        }
        #[derive(Deserialize)]
        struct Inner<'a> {
            #[serde(borrow)]
            details: Vec<&'a RawValue>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Detail {
            retry_delay: Option<String>,
            violations: Option<Vec<Violation>>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Violation {
            quota_id: Option<String>,
        }
        let body = serde_json::from_slice::<Vec<Body<'_>>>(body)
            .ok()
            .and_then(|bodies| bodies.into_iter().next())
            .or_else(|| serde_json::from_slice(body).ok());
        let Some(Body { error: Inner { details } }) = body else { return Self::default() };
        let mut said = Self::default();
        for detail in details {
            let Detail { retry_delay, violations } = serde_json::from_str(detail.get()).unwrap_or_default();
            let delay = retry_delay.as_deref().and_then(|delay| delay.strip_suffix('s')?.parse().ok());
            said.retry_delay =
                delay.and_then(|delay| Duration::try_from_secs_f64(delay).ok()).or(said.retry_delay);
            let is_daily = |violation: &Violation| {
                violation.quota_id.as_deref().is_some_and(|quota| quota.contains("PerDay"))
            };
            said.is_spent |= violations.iter().flatten().any(is_daily);
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(code: u16, status: &str, details: &str) -> String {
        format!(r#"{{"error":{{"code":{code},"message":"No.","status":"{status}","details":[{details}]}}}}"#)
    }

    #[test]
    fn each_status_has_its_kind_and_the_providers_word_also_in_an_array() {
        let table = [
            (400, "INVALID_ARGUMENT", ErrorKind::InvalidRequest, false),
            (400, "FAILED_PRECONDITION", ErrorKind::InvalidRequest, false),
            (401, "UNAUTHENTICATED", ErrorKind::Authentication, false),
            (403, "PERMISSION_DENIED", ErrorKind::PermissionDenied, false),
            (404, "NOT_FOUND", ErrorKind::NotFound, false),
            (429, "RESOURCE_EXHAUSTED", ErrorKind::RateLimited, true),
            (500, "INTERNAL", ErrorKind::Server, true),
            (503, "UNAVAILABLE", ErrorKind::Overloaded, true),
            (504, "DEADLINE_EXCEEDED", ErrorKind::Server, true),
        ];
        for (status, word, kind, is_retryable) in table {
            let body = body(status, word, "");
            for body in [format!("[{body}\n]"), body] {
                let error = refused(status, &HeaderMap::new(), body.as_bytes());
                assert_eq!((error.kind(), error.is_retryable()), (kind, is_retryable), "{status} {word}");
                assert_eq!((error.status(), error.code()), (Some(status), Some(word)));
                assert_eq!(error.message(), "No.");
            }
        }
    }

    #[test]
    fn the_details_say_how_long_to_wait_and_whether_it_helps() {
        let delay = r#"{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}"#;
        let daily = r#"{"violations":[{"quotaId":"X"},{"quotaId":"GenerateRequestsPerDayPerProject"}]}"#;
        let said = |details: &str| {
            let body = body(429, "RESOURCE_EXHAUSTED", details);
            let (refused, in_stream) =
                (refused(429, &HeaderMap::new(), body.as_bytes()), in_stream(&format!("[{body}]")));
            assert_eq!(refused.retry_after(), in_stream.retry_after());
            assert_eq!(refused.is_retryable(), in_stream.is_retryable());
            (refused.retry_after(), refused.is_retryable())
        };
        assert_eq!(said(delay), (Some(Duration::from_millis(34_500)), true));
        assert_eq!(said(&format!("{delay},{daily}")), (Some(Duration::from_millis(34_500)), false));
        for odd in ["", "7", r#"{"retryDelay":34}"#, r#"{"retryDelay":"soon"}"#, r#"{"retryDelay":"-1s"}"#] {
            assert_eq!(said(odd), (None, true), "{odd}");
        }
        let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, "7".parse().unwrap())]);
        let error = refused(429, &headers, body(429, "RESOURCE_EXHAUSTED", delay).as_bytes());
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    }

    #[test]
    fn in_stream_errors_have_no_status_and_any_shape() {
        let table = [
            (body(503, "UNAVAILABLE", ""), Some("UNAVAILABLE"), true),
            (body(400, "INVALID_ARGUMENT", ""), Some("INVALID_ARGUMENT"), false),
            (r#"[{"error":{"message":"No.","status":"INTERNAL"}}]"#.to_owned(), Some("INTERNAL"), true),
            (r#"{"error":{"code":500,"message":"No."}}"#.to_owned(), Some("500"), true),
            (r#"{"error":"No."}"#.to_owned(), None, false),
        ];
        for (data, code, is_retryable) in table {
            let error = in_stream(&data);
            assert_eq!((error.kind(), error.status()), (ErrorKind::Provider, None), "{data}");
            assert_eq!((error.message(), error.code()), ("No.", code), "{data}");
            assert_eq!((error.is_retryable(), error.body()), (is_retryable, Some(&*data)), "{data}");
        }
        assert_eq!(in_stream(r#"{"error":7}"#).kind(), ErrorKind::Provider);
    }

    #[test]
    fn a_reason_that_is_a_failure_says_why() {
        let error = of_reason("MALFORMED_FUNCTION_CALL", Some("print(f("));
        assert_eq!(
            error.message(),
            "the provider ended the turn with the reason `MALFORMED_FUNCTION_CALL`: print(f("
        );
        assert_eq!((error.code(), error.is_retryable()), (Some("MALFORMED_FUNCTION_CALL"), true));
        assert!(!of_reason("MISSING_THOUGHT_SIGNATURE", None).is_retryable());
    }
}
