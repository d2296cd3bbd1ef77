//! One [`Error`] for everything that can go wrong, told apart by its [`ErrorKind`].

use std::{error::Error as StdError, fmt, time::Duration};

use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};

use crate::redact::Secrets;

/// How much of a body an error keeps, in bytes.
const BODY_LIMIT: usize = 2048;

/// What went wrong. One word wide.
///
/// `Display` says this level only and is no promise; [`source`](StdError::source) says the next. Tell
/// errors apart by [`kind`](Error::kind).
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    status: Option<u16>,
    code: Option<String>,
    request_id: Option<String>,
    retry_after: Option<Duration>,
    retryable: Option<bool>,
    partial: bool,
    body: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kinds of [`Error`], and what a caller can do about each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The key is missing, wrong or expired (401). Give another key. Not retried.
    Authentication,
    /// The key may not do this (403), or the account may not pay for it (402). Not retried.
    PermissionDenied,
    /// No such model or address (404), or a redirect, which is never followed. Check the model's name and the
    /// base URL. Not retried.
    NotFound,
    /// The provider refuses the request as it stands (400, 413, 422). Change it. Not retried.
    InvalidRequest,
    /// Too many requests or tokens (429). Retried after the time that the provider asks for.
    RateLimited,
    /// The provider has too much to do (503, 529). Retried.
    Overloaded,
    /// The provider failed (other 5xx, 408, 409, 424). Retried.
    Server,
    /// No connection could be made, or it failed before the head of the reply. Retried, but not where a
    /// certificate was not accepted; [`source`](StdError::source) says what failed.
    Connect,
    /// The head of the reply did not come in time. Retried; or give it more time.
    FirstByteTimeout,
    /// Nothing came for too long in the middle of the body. Open calls were aborted. Not retried once
    /// output has been given out.
    IdleTimeout,
    /// The turn took longer than the total that was set for it, retries among it. Open calls were aborted.
    /// Give it more time. Not retried.
    TotalTimeout,
    /// The body ended before the turn did. Open calls were aborted. Ask again, or go on from the part.
    Truncated,
    /// The provider reported an error inside the stream; [`code`](Error::code) is its own word.
    Provider,
    /// A frame that the wire knows does not have the form that it should have.
    Malformed,
    /// The body is not a stream of this wire: a page, a JSON document, compressed bytes. Check the base
    /// URL and what stands between; [`body`](Error::body) shows its start.
    NotAStream,
    /// The reply went over one of the [`Limits`](crate::Limits), which [`code`](Error::code) names. Raise it
    /// if the reply is honest.
    LimitExceeded,
    /// A setting cannot be used: a bad URL, key or tool name, or something the wire cannot express.
    Config,
    /// A tool ended the run, or a source of tools could not list them.
    Tool,
    /// A run could not be written down, and did not go on. What had been written is still there.
    Checkpoint,
    /// The answer does not fit the type that it was to have, also after it was asked for again.
    Output,
    /// The caller cancelled.
    Cancelled,
}

impl ErrorKind {
    /// The kind in its serialised form, for example `rate_limited`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::PermissionDenied => "permission_denied",
            Self::NotFound => "not_found",
            Self::InvalidRequest => "invalid_request",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Connect => "connect",
            Self::FirstByteTimeout => "first_byte_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::TotalTimeout => "total_timeout",
            Self::Truncated => "truncated",
            Self::Provider => "provider",
            Self::Malformed => "malformed",
            Self::NotAStream => "not_a_stream",
            Self::LimitExceeded => "limit_exceeded",
            Self::Config => "config",
            Self::Tool => "tool",
            Self::Checkpoint => "checkpoint",
            Self::Output => "output",
            Self::Cancelled => "cancelled",
        }
    }

    /// The kind that an HTTP status means.
    pub fn of_status(status: u16) -> Self {
        match status {
            401 => Self::Authentication,
            402 | 403 => Self::PermissionDenied,
            404 => Self::NotFound,
            408 | 409 | 424 => Self::Server,
            429 => Self::RateLimited,
            503 | 529 => Self::Overloaded,
            500.. => Self::Server,
            _ => Self::InvalidRequest,
        }
    }

    fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::RateLimited
                | Self::Overloaded
                | Self::Server
                | Self::Connect
                | Self::FirstByteTimeout
                | Self::IdleTimeout
                | Self::Truncated
        )
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Error {
    /// An [`ErrorKind::Config`] error that says `message`.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            status: None,
            code: None,
            request_id: None,
            retry_after: None,
            retryable: None,
            partial: false,
            body: None,
            source: None,
        }))
    }

    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What it says, without its kind and status. A provider's message stands here as it came.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The HTTP status, where the error is one. An error inside a 200 stream has none.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The provider's own word for the error, for example `overloaded_error`. Of
    /// [`ErrorKind::LimitExceeded`] it is the name of the limit, for example `argument_bytes`.
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// The provider's id of the request, to name when you ask for help.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// How long the provider asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Whether the same request may succeed later. The provider's own word decides first, the kind
    /// second. It says nothing about output already given out: see [`partial`](Self::partial).
    pub fn is_retryable(&self) -> bool {
        self.0.retryable.unwrap_or_else(|| self.kind().is_retryable())
    }

    /// Whether output had been given out before the error. A start and provider events are not output.
    pub fn partial(&self) -> bool {
        self.0.partial
    }

    /// The start of the body that caused the error, at most 2 KiB.
    pub fn body(&self) -> Option<&str> {
        self.0.body.as_deref()
    }

    /// The same error with an HTTP status.
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// The same error with the provider's own word.
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.0.code = Some(code.into());
        self
    }

    /// The same error with the provider's id of the request.
    pub fn with_request_id(mut self, request_id: impl Into<String>) -> Self {
        self.0.request_id = Some(request_id.into());
        self
    }

    /// The same error with the time that the provider asks to wait.
    pub fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.0.retry_after = Some(retry_after);
        self
    }

    /// The same error, with the provider's word on whether to retry.
    pub fn with_retryable(mut self, retryable: bool) -> Self {
        self.0.retryable = Some(retryable);
        self
    }

    /// The same error, with whether output had been given out.
    pub fn with_partial(mut self, partial: bool) -> Self {
        self.0.partial = partial;
        self
    }

    /// The same error with the start of the body that caused it; the rest is left out.
    pub fn with_body(mut self, body: &[u8]) -> Self {
        let (start, is_whole) = body.get(..BODY_LIMIT).map_or((body, true), |start| (start, false));
        let mut text = String::from_utf8_lossy(start).into_owned();
        // The cut may have gone through a character.
        if !is_whole {
            text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
        }
        self.0.body = Some(text);
        self
    }

    /// The same error with its cause.
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error with `***` for each of these secrets, wherever it says one: providers and gateways echo
    /// what they were sent. Secrets of less than six characters are left.
    pub fn redacted(mut self, secrets: &[&str]) -> Self {
        let secrets = Secrets::new(secrets);
        let Inner { message, code, request_id, body, source, .. } = &mut *self.0;
        for text in [Some(message), code.as_mut(), request_id.as_mut(), body.as_mut()].into_iter().flatten() {
            secrets.mask_cut(text);
        }
        if let Some(cause) = source {
            let mut words = causes(&**cause);
            secrets.mask_cut(&mut words);
            if words != causes(&**cause) || secrets.are_in(&format!("{cause:?}")) {
                *source = Some(words.into());
            }
        }
        self
    }

    /// The same error, saying more.
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        self.0.message.push_str(note);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.kind().as_str())?;
        if let Some(status) = self.status() {
            write!(formatter, " (status {status})")?;
        }
        if let Some(code) = self.code() {
            write!(formatter, " [{code}]")?;
        }
        write!(formatter, ": {}", self.message())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            kind: _,
            message,
            status,
            code,
            request_id,
            retry_after,
            retryable,
            partial,
            body,
            source,
        } = &*self.0;
        formatter
            .debug_struct("Error")
            .field("kind", &self.kind())
            .field("message", message)
            .field("status", status)
            .field("code", code)
            .field("request_id", request_id)
            .field("retry_after", retry_after)
            .field("retryable", retryable)
            .field("partial", partial)
            .field("body", body)
            .field("source", source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

impl Serialize for Error {
    /// The `error` line of the command line and of a server's event stream.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_struct("Error", 9)?;
        line.serialize_field("type", "error")?;
        line.serialize_field("kind", &self.kind())?;
        line.serialize_field("message", self.message())?;
        line.serialize_field("partial", &self.partial())?;
        match self.status() {
            Some(status) => line.serialize_field("status", &status)?,
            None => line.skip_field("status")?,
        }
        match self.code() {
            Some(code) => line.serialize_field("code", code)?,
            None => line.skip_field("code")?,
        }
        match self.request_id() {
            Some(request_id) => line.serialize_field("request_id", request_id)?,
            None => line.skip_field("request_id")?,
        }
        match self.retry_after() {
            Some(retry_after) => line.serialize_field("retry_after_seconds", &retry_after.as_secs_f64())?,
            None => line.skip_field("retry_after_seconds")?,
        }
        match self.body() {
            Some(body) => line.serialize_field("body", body)?,
            None => line.skip_field("body")?,
        }
        line.end()
    }
}

/// What an error and those below it say.
fn causes(error: &(dyn StdError + 'static)) -> String {
    let below = error.source().map(|source| format!(": {}", causes(source))).unwrap_or_default();
    format!("{error}{below}")
}

const _: () = assert!(size_of::<Error>() == size_of::<usize>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_an_error_is_stable() {
        let error =
            Error::new(ErrorKind::Provider, "Overloaded").with_code("overloaded_error").with_partial(true);
        assert_eq!(
            serde_json::to_string(&error).unwrap(),
            r#"{"type":"error","kind":"provider","message":"Overloaded","partial":true,"code":"overloaded_error"}"#
        );
    }

    #[test]
    fn the_providers_word_on_retrying_comes_first() {
        let error = Error::new(ErrorKind::RateLimited, "out of credit");
        assert!(error.is_retryable());
        assert!(!error.with_retryable(false).is_retryable());
    }

    #[test]
    fn secrets_are_masked_wherever_an_error_says_them() {
        let error = Error::new(ErrorKind::Authentication, "invalid key sk-SECRET-1, or key sk-SECRET-12?")
            .with_code("sk-SECRET-1")
            .with_request_id("r-sk-SECRET-1")
            .with_body(b"{\"key\":\"sk-SECRET-1\",\"short\":\"abcde\"}")
            .with_source(Error::new(ErrorKind::Connect, "to").with_source("at sk-SECRET-12"))
            .redacted(&["sk-SECRET-1", "sk-SECRET-12", "abcde", ""]);
        assert_eq!(error.message(), "invalid key ***, or key ***?");
        assert_eq!((error.code(), error.request_id()), (Some("***"), Some("r-***")));
        assert_eq!(error.body(), Some(r#"{"key":"***","short":"abcde"}"#));
        assert_eq!(error.source().unwrap().to_string(), "connect: to: at ***");
        assert!(!format!("{error:?}").contains("SECRET"), "{error:?}");
    }

    #[test]
    fn a_secret_that_was_cut_is_masked_too_and_other_causes_are_kept() {
        for (end, want) in [("sk-SECRET", "***"), ("sk-SEC", "***"), ("sk-SE", "sk-SE")] {
            let body = format!("the key is {end}");
            let error = Error::new(ErrorKind::Server, "m").with_body(body.as_bytes()).with_source("why");
            let error = error.redacted(&["sk-SECRET-1"]);
            assert_eq!(error.body().unwrap(), format!("the key is {want}"));
            assert_eq!(error.source().unwrap().to_string(), "why");
        }
    }
}
