//! Refusals and exceptions in the stream as [`Error`]s.

use http::HeaderMap;
use turnstream_core::{Error, ErrorEnvelope, ErrorKind};

/// The error of a reply whose status is not 200. Its code is the name of the exception, from a header or from the
/// body.
pub(crate) fn refused(status: u16, headers: &HeaderMap, body: &[u8]) -> Error {
    let error = turnstream_core::refused(status, headers, body);
    let named = headers.get("x-amzn-errortype").and_then(|name| name.to_str().ok()).map(short_name);
    let name =
        named.filter(|name| !name.is_empty()).or_else(|| error.code().map(short_name)).map(str::to_owned);
    let Some(name) = name else { return error };
    let error = match is_retryable(&name) {
        Some(is_retryable) => error.with_retryable(is_retryable),
        None => error,
    };
    error.with_code(name)
}

/// The error of an exception in the stream, which has no status of its own.
pub(crate) fn in_stream(exception: &str, data: &str) -> Error {
    let name = short_name(exception);
    let envelope = ErrorEnvelope::parse(data.as_bytes());
    let envelope = envelope.map(|mut envelope| {
        envelope.code = Some(name.to_owned());
        envelope
    });
    let is_retryable = is_retryable(name).or_else(|| envelope.as_ref()?.is_retryable());
    let error = match envelope {
        Some(envelope) => envelope.into_error(ErrorKind::Provider),
        None => Error::new(
            ErrorKind::Provider,
            "the provider ended the stream in an exception and gave no reason",
        ),
    };
    error.with_code(name).with_retryable(is_retryable.unwrap_or_default()).with_body(data.as_bytes())
}

/// The error of a body that is an error object instead of a stream.
pub(crate) fn of_body(envelope: ErrorEnvelope) -> Error {
    let error = envelope.into_error(ErrorKind::Provider);
    let Some(name) = error.code().map(|name| short_name(name).to_owned()) else { return error };
    error.with_retryable(is_retryable(&name).unwrap_or_default()).with_code(name)
}

/// The exception's name without what may stand around it: `com.amazon.coral#ThrottlingException:http://..`.
fn short_name(name: &str) -> &str {
    let name = name.split(':').next().unwrap_or_default();
    name.rsplit('#').next().unwrap_or_default().trim()
}

/// Whether a second attempt may help. `None` for an exception that is not known.
fn is_retryable(name: &str) -> Option<bool> {
    let is_any = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
    if is_any(&MAY_PASS) {
        return Some(true);
    }
    is_any(&STAYS).then_some(false)
}

const MAY_PASS: [&str; 9] = [
    "InternalFailure",
    "InternalServerException",
    "ModelErrorException",
    "ModelNotReadyException",
    "ModelStreamErrorException",
    "ModelTimeoutException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "ThrottlingException",
];

const STAYS: [&str; 9] = [
    "AccessDeniedException",
    "ConflictException",
    "ExpiredTokenException",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "ResourceNotFoundException",
    "ServiceQuotaExceededException",
    "UnrecognizedClientException",
    "ValidationException",
];

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(name: &str) -> HeaderMap {
        let value = format!("{name}:http://internal.example/coral/");
        HeaderMap::from_iter([
            (HeaderName::from_static("x-amzn-errortype"), HeaderValue::from_str(&value).unwrap()),
            (HeaderName::from_static("x-amzn-requestid"), HeaderValue::from_static("r-1")),
        ])
    }

    #[test]
    fn each_status_has_its_kind_and_the_exceptions_name() {
        let table = [
            (400, "ValidationException", ErrorKind::InvalidRequest, false),
            (400, "ServiceQuotaExceededException", ErrorKind::InvalidRequest, false),
            (400, "ThrottlingException", ErrorKind::InvalidRequest, true),
            (401, "UnauthorizedException", ErrorKind::Authentication, false),
            (403, "AccessDeniedException", ErrorKind::PermissionDenied, false),
            (403, "ExpiredTokenException", ErrorKind::PermissionDenied, false),
            (404, "ResourceNotFoundException", ErrorKind::NotFound, false),
            (408, "ModelTimeoutException", ErrorKind::Server, true),
            (424, "ModelErrorException", ErrorKind::Server, true),
            (429, "ThrottlingException", ErrorKind::RateLimited, true),
            (429, "ModelNotReadyException", ErrorKind::RateLimited, true),
            (500, "InternalServerException", ErrorKind::Server, true),
            (503, "ServiceUnavailableException", ErrorKind::Overloaded, true),
        ];
        for (status, name, kind, is_retryable) in table {
            let error = refused(status, &headers(name), br#"{"message":"No."}"#);
            assert_eq!((error.kind(), error.is_retryable()), (kind, is_retryable), "{status} {name}");
            assert_eq!((error.status(), error.code()), (Some(status), Some(name)));
            assert_eq!((error.message(), error.request_id()), ("No.", Some("r-1")));
        }
    }

    #[test]
    fn the_body_names_the_exception_where_no_header_does() {
        let body = br#"{"__type":"com.amazon.coral.service#ThrottlingException","Message":"Slow down."}"#;
        let error = refused(400, &HeaderMap::new(), body);
        assert_eq!((error.code(), error.message()), (Some("ThrottlingException"), "Slow down."));
        assert!(error.is_retryable());
        let error = of_body(ErrorEnvelope::parse(body).unwrap());
        assert_eq!((error.kind(), error.code()), (ErrorKind::Provider, Some("ThrottlingException")));
        assert!(error.is_retryable());
        assert_eq!(refused(502, &HeaderMap::new(), b"<html>").code(), None);
    }

    #[test]
    fn exceptions_in_the_stream_have_their_name_as_code_and_no_status() {
        let table = [
            ("internalServerException", true),
            ("modelStreamErrorException", true),
            ("serviceUnavailableException", true),
            ("throttlingException", true),
            ("validationException", false),
            ("somethingNewException", false),
            ("unknown", false),
            // Gateways put other providers' words there.
            ("server_error", true),
        ];
        for (name, is_retryable) in table {
            let error = in_stream(name, r#"{"message":"No.","p":"abc"}"#);
            assert_eq!((error.kind(), error.status()), (ErrorKind::Provider, None));
            assert_eq!((error.message(), error.code()), ("No.", Some(name)));
            assert_eq!(error.is_retryable(), is_retryable, "{name}");
        }
        let wordless = in_stream("throttlingException", "{}");
        assert_eq!((wordless.code(), wordless.body()), (Some("throttlingException"), Some("{}")));
        assert!(wordless.message().contains("gave no reason"));
    }
}
