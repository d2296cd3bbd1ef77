//! Error bodies: the handful of shapes in which providers and gateways put them, read once for all wires.

use std::time::Duration;

use http::HeaderMap;
use serde_json::Value;

use crate::error::{Error, ErrorKind};

/// An error as a provider wrote it.
///
/// The shapes: `{"error":{"message","type","code","param"}}`, `{"error":"text"}`, `{"message"}`,
/// `{"detail"}`, `[{"error":{..}}]`, Amazon's `{"__type","Message"}`, and Anthropic's `{"type":"error","error":{..},"request_id"}`; also one
/// inside another, as gateways wrap them.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ErrorEnvelope {
    /// What the provider says.
    pub message: String,
    /// Its word for the kind of error (`type`).
    pub kind: Option<String>,
    /// Its code, a word or a number as text.
    pub code: Option<String>,
    /// The field of the request that it is about.
    pub param: Option<String>,
    /// Its id of the request, if the body has it.
    pub request_id: Option<String>,
}

impl ErrorEnvelope {
    /// Reads a body or a frame. `None` if it does not look like an error.
    pub fn parse(json: &[u8]) -> Option<Self> {
        let value =
            serde_json::from_slice(json).or_else(|_| serde_json::from_slice(&without_lone_halves(json)));
        Self::read(&value.ok()?)
    }

    /// Reads a body or a frame. `None` if it does not look like an error.
    pub fn read(value: &Value) -> Option<Self> {
        if let Some(first) = value.as_array().and_then(|values| values.first()) {
            return Self::read(first);
        }
        let body = value.as_object()?;
        let text = |value: Option<&Value>| match value? {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let request_id = text(body.get("request_id"));
        match body.get("error") {
            Some(Value::String(message)) if !message.is_empty() => {
                let (kind, code) = (None, text(body.get("code")));
                Some(Self { message: message.clone(), kind, code, param: None, request_id })
            }
            Some(inner @ Value::Object(error)) if error.get("error").is_some_and(Value::is_object) => {
                Self::read(inner).map(|inner| Self { request_id: request_id.or(inner.request_id), ..inner })
            }
            Some(Value::Object(error)) => Some(Self {
                message: text(error.get("message"))
                    .or_else(|| text(error.get("type")))
                    .or_else(|| text(error.get("code")))
                    .unwrap_or_else(|| Value::Object(error.clone()).to_string()),
                kind: text(error.get("type")).or_else(|| text(error.get("status"))),
                code: text(error.get("code")),
                param: text(error.get("param")),
                request_id,
            }),
            _ => {
                let message = text(body.get("message")).or_else(|| text(body.get("Message")));
                let message = message.or_else(|| match body.get("detail")? {
                    Value::String(detail) => Some(detail.clone()),
                    detail => Some(detail.to_string()),
                })?;
                // A frame's own type is no word for the kind of error.
                let kind = text(body.get("type")).filter(|kind| kind != "error");
                let kind = kind.or_else(|| text(body.get("__type")));
                Some(Self {
                    message,
                    kind,
                    code: text(body.get("code")),
                    param: text(body.get("param")),
                    request_id,
                })
            }
        }
    }

    /// Whether a second attempt may help, by the provider's own words, whatever the status says. `None` if
    /// they do not tell.
    pub fn is_retryable(&self) -> Option<bool> {
        let says = |words: &[&str]| {
            let is_word = |said: &Option<String>| said.as_deref().is_some_and(|said| words.contains(&said));
            is_word(&self.code) || is_word(&self.kind)
        };
        if says(&NEVER_RETRIED) {
            return Some(false);
        }
        says(&RETRIED).then_some(true)
    }

    /// The error of `kind` that the envelope describes. Its code is the provider's `code` if that is a
    /// word, else its `type`, else the number.
    pub fn into_error(self, kind: ErrorKind) -> Error {
        let is_word = |code: &String| code.parse::<f64>().is_err();
        let code = self.code.clone().filter(is_word).or(self.kind).or(self.code);
        let mut error = Error::new(kind, self.message);
        if let Some(code) = code {
            error = error.with_code(code);
        }
        if let Some(request_id) = self.request_id {
            error = error.with_request_id(request_id);
        }
        error
    }
}

/// The error of a reply whose status is not 200: kind by status, message and code from the body in
/// whatever shape, request id and waiting time from the headers, the start of the body as it came.
pub fn refused(status: u16, headers: &HeaderMap, body: &[u8]) -> Error {
    let kind = ErrorKind::of_status(status);
    let mut is_final = false;
    let mut error = match ErrorEnvelope::parse(body) {
        Some(envelope) => {
            is_final = envelope.is_retryable() == Some(false);
            envelope.into_error(kind)
        }
        None if body.is_empty() => Error::new(kind, "the provider refused the request and said nothing"),
        None => Error::new(kind, "the provider refused the request in words that are no error body"),
    };
    error = error.with_status(status).with_body(body);
    if let Some(request_id) = request_id(headers) {
        error = error.with_request_id(request_id);
    }
    if let Some(wait) = retry_after(headers) {
        error = error.with_retry_after(wait);
    }
    match header(headers, "x-should-retry") {
        Some("true") => error.with_retryable(true),
        Some("false") => error.with_retryable(false),
        _ if is_final => error.with_retryable(false),
        _ => error,
    }
}

/// The provider's id of the request, from whichever header carries it.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<&str> {
    REQUEST_ID_HEADERS.into_iter().find_map(|name| header(headers, name))
}

/// The waiting time that the headers ask for: `retry-after-ms`, else `retry-after` in seconds. An HTTP
/// date needs a clock and is the transport's to read.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name, unit: f64| {
        let number: f64 = header(headers, name)?.trim().parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    number("retry-after-ms", 0.001).or_else(|| number("retry-after", 1.0))
}

/// The JSON with U+FFFD for every escape that is half a surrogate pair: a `Value` refuses the whole text for
/// one, and an error may quote what a model said.
fn without_lone_halves(json: &[u8]) -> Vec<u8> {
    let half = |at: usize| -> Option<u16> {
        let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(str::from_utf8(digits).ok()?, 16)
            .ok()
            .filter(|unit| (0xD800..0xE000).contains(unit))
    };
    let (mut whole, mut at) = (Vec::with_capacity(json.len()), 0);
    while let Some(byte) = json.get(at) {
        let length = match (half(at), half(at + 6)) {
            (Some(..0xDC00), Some(0xDC00..)) => 12,
            (Some(_), _) => {
                whole.extend_from_slice(b"\\ufffd");
                at += 6;
                continue;
            }
            // The escape of a backslash is no beginning of another.
            _ if *byte == b'\\' => 2,
            _ => 1,
        };
        whole.extend(json.iter().skip(at).take(length));
        at += length;
    }
    whole
}

/// Where providers put their id of a request, and last of all where a proxy in front of them does.
const REQUEST_ID_HEADERS: [&str; 8] = [
    "request-id",
    "x-request-id",
    "x-amzn-requestid",
    "apim-request-id",
    "x-goog-request-id",
    "mistral-correlation-id",
    "x-generation-id",
    "cf-ray",
];

/// Providers' words for what no second attempt changes.
const NEVER_RETRIED: [&str; 6] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "access_terminated",
    "enforced_spend_limit_reached",
    "contract_spend_limit_reached",
];

/// Providers' words for what may pass. Some write the status that they would have sent.
const RETRIED: [&str; 21] = [
    "server_error",
    "internal_server_error",
    "internal_error",
    "api_error",
    "service_unavailable",
    "overloaded",
    "overloaded_error",
    "engine_overloaded_error",
    "rate_limit_exceeded",
    "rate_limit_error",
    "conflict_error",
    "timeout",
    "timeout_error",
    "408",
    "409",
    "429",
    "500",
    "502",
    "503",
    "504",
    "529",
];

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_shape_is_read() {
        let table = [
            (r#"{"error":{"message":"m","type":"t","code":"c"}}"#, "m", Some("c")),
            (r#"{"error":{"message":"m","type":"t","code":429}}"#, "m", Some("t")),
            (r#"{"error":{"message":"m","code":429}}"#, "m", Some("429")),
            (r#"{"error":"boom"}"#, "boom", None),
            (r#"{"object":"error","message":"m","type":"t"}"#, "m", Some("t")),
            (r#"{"detail":"gone"}"#, "gone", None),
            (r#"{"detail":[{"loc":["x"]}]}"#, r#"[{"loc":["x"]}]"#, None),
            (r#"[{"error":{"message":"m","status":"INVALID_ARGUMENT"}}]"#, "m", Some("INVALID_ARGUMENT")),
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#,
                "m",
                Some("overloaded_error"),
            ),
            (
                r#"{"error":{"type":"error","error":{"type":"overloaded_error","message":"m"}}}"#,
                "m",
                Some("overloaded_error"),
            ),
            (r#"{"type":"error","code":"server_error","message":"m"}"#, "m", Some("server_error")),
            (r#"{"type":"error","message":"m"}"#, "m", None),
            (r#"{"__type":"a.b#ThrottlingException","Message":"m"}"#, "m", Some("a.b#ThrottlingException")),
        ];
        for (body, message, code) in table {
            let error = ErrorEnvelope::parse(body.as_bytes()).expect(body).into_error(ErrorKind::Provider);
            assert_eq!((error.message(), error.code()), (message, code), "{body}");
        }
        for body in ["", "x", "{}", r#"{"error":null}"#, r#"{"error":""}"#, r#"{"choices":[]}"#] {
            assert_eq!(ErrorEnvelope::parse(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn the_providers_words_tell_whether_a_second_attempt_helps() {
        let table = [
            (r#"{"type":"insufficient_quota","code":429}"#, Some(false)),
            (r#"{"type":"server_error","code":"billing_not_active"}"#, Some(false)),
            (r#"{"type":"tokens","code":"rate_limit_exceeded"}"#, Some(true)),
            (r#"{"code":503}"#, Some(true)),
            (r#"{"type":"invalid_request_error","code":null}"#, None),
            (r#"{"code":400}"#, None),
        ];
        for (error, is_retryable) in table {
            let body = format!(r#"{{"error":{error}}}"#);
            let envelope = ErrorEnvelope::parse(body.as_bytes()).unwrap();
            assert_eq!(envelope.is_retryable(), is_retryable, "{error}");
            let refused = refused(429, &HeaderMap::new(), body.as_bytes());
            assert_eq!(refused.is_retryable(), is_retryable != Some(false), "{error}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_does_no_harm() {
        let body = r#"{"error":{"message":"\ud83d\ude00 \ud83d \\ud83d \ude00\ud83d","type":"t"}}"#;
        let envelope = ErrorEnvelope::parse(body.as_bytes()).unwrap();
        assert_eq!(envelope.message, "😀 \u{fffd} \\ud83d \u{fffd}\u{fffd}");
        assert_eq!(envelope.kind.as_deref(), Some("t"));
        for broken in [r#"{"error":"\ud83d"#, r#"{"error":"\ud8"}"#, "\\", "\\ud83d"] {
            assert_eq!(ErrorEnvelope::parse(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn the_headers_say_how_long_to_wait() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "1.5".parse().unwrap());
        assert_eq!(refused(429, &headers, b"").retry_after(), Some(Duration::from_millis(1500)));
        headers.insert("retry-after-ms", "350".parse().unwrap());
        assert_eq!(refused(429, &headers, b"").retry_after(), Some(Duration::from_millis(350)));
        headers.clear();
        headers.insert("retry-after", "soon".parse().unwrap());
        assert_eq!(refused(429, &headers, b"").retry_after(), None);
    }
}
