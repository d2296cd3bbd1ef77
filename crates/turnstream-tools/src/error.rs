//! [`ToolError`]: how a handler fails, and what the model is told of it.

use std::{error::Error as StdError, fmt};

/// What a handler gives back when it fails. The model reads its words; the source is for the log alone,
/// which shows both with [`trace_content`](crate::ToolLoop::trace_content) only.
///
/// `?` makes one of any error, an `anyhow::Error` too: the words are then what the error's `Display` says,
/// without its sources. To tell the model less, or something that helps it more, choose the words:
///
/// ```
/// use turnstream_tools::ToolError;
///
/// # fn query() -> Result<u32, std::io::Error> { Ok(1) }
/// fn count() -> Result<u32, ToolError> {
///     query().map_err(|error| ToolError::new("The database is down. Try again later.").with_source(error))
/// }
/// # count().unwrap();
/// ```
///
/// It is not a `std::error::Error` itself: that is what makes `?` possible.
#[derive(Debug)]
pub struct ToolError {
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    is_fatal: bool,
}

impl ToolError {
    /// A failure of this call. The model reads `message`, and the loop goes on.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None, is_fatal: false }
    }

    /// A failure that ends the run. The call gets `message` as its error result, so that the conversation
    /// stays whole.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self { is_fatal: true, ..Self::new(message) }
    }

    /// The same error with its cause, which the model does not see.
    pub fn with_source(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// What the model reads.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether it ends the run.
    pub fn is_fatal(&self) -> bool {
        self.is_fatal
    }

    /// The cause, for the log.
    pub fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }

    pub(crate) fn into_source(self) -> Option<Box<dyn StdError + Send + Sync>> {
        self.source
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for ToolError {
    fn from(error: E) -> Self {
        let source = error.into();
        Self { message: source.to_string(), source: Some(source), is_fatal: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_becomes_one_and_its_sources_are_not_in_the_words() {
        fn fails() -> Result<(), ToolError> {
            Err(std::fmt::Error)?
        }
        assert_eq!(fails().unwrap_err().message(), std::fmt::Error.to_string());
        let error = ToolError::from(anyhow::anyhow!("password is hunter2").context("no such order"));
        assert_eq!(error.message(), "no such order");
        let source = error.source().unwrap();
        assert_eq!(source.source().unwrap().to_string(), "password is hunter2");
        assert!(!error.is_fatal());
    }
}
