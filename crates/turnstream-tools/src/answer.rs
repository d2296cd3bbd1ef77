//! [`Answer`]: what a handler gives back.

use std::any::Any;

use serde::{Deserialize, Serialize};
use turnstream_core::{Document, Image, InputKind, RawJson, ResultContent, ResultPart, Text};

use crate::error::ToolError;

/// What a handler gives back to the model: text, JSON, images, documents, or several of them in order.
///
/// A handler need not make one: it can give back anything that serialises. What serialises as a string
/// becomes plain text, `()` becomes an empty answer, and everything else becomes JSON text. An `Answer` is
/// for images and documents, and for several parts:
///
/// ```
/// use turnstream_core::Image;
/// use turnstream_tools::Answer;
///
/// let answer = Answer::new().text("The chart:").image(Image::base64("image/png", "iVBORw0KGgo="));
/// assert_eq!(answer.content().len(), 2);
/// ```
///
/// An empty answer is allowed: each wire writes what its provider accepts for that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    content: Vec<ResultContent>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

impl Answer {
    /// An empty answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with(ResultContent::Text(text.into()))
    }

    /// Adds a JSON value.
    pub fn json(self, value: impl Into<RawJson>) -> Self {
        self.text(value.into().as_str())
    }

    /// Adds an image.
    pub fn image(self, image: Image) -> Self {
        self.with(ResultContent::Image(image))
    }

    /// Adds a document.
    pub fn document(self, document: Document) -> Self {
        self.with(ResultContent::Document(document))
    }

    /// The same answer, marked as a failure of the call. For words alone, give back a [`ToolError`].
    pub fn with_error(self) -> Self {
        Self { is_error: true, ..self }
    }

    /// The same answer with each of its texts changed: shortened, or with something taken out of it.
    pub fn map_text(mut self, mut change: impl FnMut(String) -> String) -> Self {
        for content in &mut self.content {
            if let ResultContent::Text(text) = content {
                *text = change(std::mem::take(text));
            }
        }
        self
    }

    /// Its parts, in order.
    pub fn content(&self) -> &[ResultContent] {
        &self.content
    }

    /// Whether the call failed.
    pub fn is_error(&self) -> bool {
        self.is_error
    }

    /// The answer that a handler's value means.
    pub(crate) fn of<T: Serialize + 'static>(value: T) -> Result<Self, ToolError> {
        let mut value = Some(value);
        if let Some(answer) = (&mut value as &mut dyn Any).downcast_mut::<Option<Self>>() {
            return Ok(answer.take().unwrap_or_default());
        }
        if (&value as &dyn Any).is::<Option<()>>() {
            return Ok(Self::new());
        }
        if let Some(text) = (&mut value as &mut dyn Any).downcast_mut::<Option<String>>() {
            return Ok(Self::new().text(text.take().unwrap_or_default()));
        }
        let unwritable =
            |error| ToolError::new("The tool's answer cannot be written as JSON.").with_source(error);
        let json = serde_json::to_string(&value).map_err(unwritable)?;
        if json.starts_with('"') {
            return Ok(Self::new().text(serde_json::from_str::<String>(&json).map_err(unwritable)?));
        }
        Ok(Self::new().text(json))
    }

    /// The same answer with so many bytes of text at most, and a note where the rest was.
    pub(crate) fn limited(self, max_bytes: usize) -> Self {
        let bytes: usize = self.texts().map(str::len).sum();
        if bytes <= max_bytes {
            return self;
        }
        let (mut left, mut shown) = (max_bytes, 0);
        let mut limited = self.map_text(|mut text| {
            let fits = text.len() <= left;
            text.truncate(text.floor_char_boundary(left));
            shown += text.len();
            // Behind the cut nothing is shown, be it as short as it may.
            left = if fits { left - text.len() } else { 0 };
            text
        });
        limited.content.retain(|content| !matches!(content, ResultContent::Text(text) if text.is_empty()));
        limited.text(format!(
            "[Cut here: the answer has {bytes} bytes of text, and these are the first {shown}.]"
        ))
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|content| match content {
            ResultContent::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// A failure in words for the model.
    pub(crate) fn failure(words: impl Into<String>) -> Self {
        Self::new().text(words).with_error()
    }

    pub(crate) fn into_result(self, id: Text, name: Text, input: InputKind) -> ResultPart {
        let mut result = ResultPart::new(id, name, self.content);
        result.is_error = self.is_error;
        result.input = input;
        result
    }

    fn with(mut self, content: ResultContent) -> Self {
        self.content.push(content);
        self
    }
}

impl From<&str> for Answer {
    fn from(text: &str) -> Self {
        Self::new().text(text)
    }
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        Self::new().text(text)
    }
}

impl From<serde_json::Value> for Answer {
    fn from(value: serde_json::Value) -> Self {
        Self::new().json(value)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::json;

    use super::*;

    fn check<T: Serialize + 'static>(value: T, text: &str) {
        assert_eq!(Answer::of(value).unwrap(), Answer::new().text(text));
    }

    #[test]
    fn strings_are_text_and_everything_else_is_json() {
        check("in \"transit\"\n", "in \"transit\"\n");
        check(String::from("in transit"), "in transit");
        check(Cow::Borrowed("a"), "a");
        check(json!("a"), "a");
        check(json!({ "status": "in transit" }), r#"{"status":"in transit"}"#);
        check(vec![1, 2], "[1,2]");
        check(None::<u32>, "null");
        check(true, "true");
    }

    #[test]
    fn an_answer_stays_what_it_is_and_nothing_is_empty() {
        let answer = Answer::new().text("a").json(json!([1])).with_error();
        assert_eq!(Answer::of(answer.clone()).unwrap(), answer);
        assert_eq!(Answer::of(()).unwrap(), Answer::new());
    }

    #[test]
    fn an_answer_that_is_too_large_is_cut_between_characters_with_a_note() {
        let image = || Image::base64("image/png", "iVBORw0KGgo=");
        let answer = || Answer::new().text("abc").image(image()).text("déf").text("ghi").with_error();
        assert_eq!(answer().limited(10), answer(), "it fits");
        let note =
            |shown| format!("[Cut here: the answer has 10 bytes of text, and these are the first {shown}.]");
        // The second byte of the `é` does not fit.
        let want = Answer::new().text("abc").image(image()).text("d").text(note(4)).with_error();
        assert_eq!(answer().limited(5), want);
        assert_eq!(answer().limited(0), Answer::new().image(image()).text(note(0)).with_error());
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        let error = Answer::of(std::collections::HashMap::from([(vec![1], 2)])).unwrap_err();
        assert_eq!(error.message(), "The tool's answer cannot be written as JSON.");
    }
}
