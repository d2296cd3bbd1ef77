//! [`Output`]: the type that the last answer of a run must have.

use turnstream_core::{Arguments, Error, ErrorKind, InputKind, OutputSchema, Request};

use crate::{
    outcome::Outcome,
    parameters::{Parameters, is_blank},
};

/// The type that the last answer of a run must have.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    schema: Option<OutputSchema>,
    check: fn(&str) -> Result<(), Error>,
}

impl Output {
    pub(crate) fn of<T: Parameters>() -> Self {
        // A schema that follows from a type says less than the strict modes of some providers demand.
        let schema = T::schema().map(|schema| OutputSchema::new("output", schema).with_strict(false));
        Self { schema, check: |text| read::<T>(text).map(drop) }
    }

    /// Gives the request the schema, if it has none of its own.
    pub(crate) fn ask(&self, request: &mut Request) {
        if request.output_schema.is_none() {
            request.output_schema.clone_from(&self.schema);
        }
    }

    /// Whether the text fits.
    pub(crate) fn check(&self, text: &str) -> Result<(), Error> {
        (self.check)(text)
    }
}

/// What the model is told when its answer does not fit.
pub(crate) fn repair_words(error: &Error) -> String {
    let problem = error.message();
    format!("{problem}. Answer again, with one JSON value that fits the schema and nothing else.")
}

impl Outcome {
    /// The answer, read as `T`. See [`ToolLoop::output`](crate::ToolLoop::output), which makes sure of it; without
    /// that it is whatever the model said.
    ///
    /// # Errors
    ///
    /// The run's own error if it failed, as far as its kind and words go; else
    /// [`ErrorKind::Output`] if the text is not one JSON value, or does not fit: it says where.
    pub fn output<T: Parameters>(&self) -> Result<T, Error> {
        match self.error() {
            Some(error) => Err(Error::new(error.kind(), error.message())),
            None => read(self.text()),
        }
    }
}

fn read<T: Parameters>(text: &str) -> Result<T, Error> {
    // Blank arguments are an empty object; a blank answer is none.
    if is_blank(text) {
        return Err(Error::new(ErrorKind::Output, "the answer is empty"));
    }
    T::read(&Arguments::from(text), InputKind::Json).map_err(|error| {
        Error::new(ErrorKind::Output, format!("the answer does not fit: {error}")).with_source(error)
    })
}
