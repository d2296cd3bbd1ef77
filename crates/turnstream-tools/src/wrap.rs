//! Wrappers around calls: [`ToolCall`] and [`Next`].

use std::sync::Arc;

use turnstream_core::{Arguments, InputKind, Text};

use crate::{
    answer::Answer,
    context::CallContext,
    error::ToolError,
    tool::{Answering, Handler, Prepared, misfit},
};

/// A call on its way to its handler, as a [wrapper](crate::Tool::wrap) sees it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolCall {
    /// The tool's name.
    pub name: Text,
    /// The arguments. A wrapper may hand on others: they are read anew then. An approval saw the first ones.
    pub arguments: Arguments,
    /// What the handler will know of its call.
    pub context: CallContext,
}

/// What a [wrapper](crate::Tool::wrap) stands around: the handler, or the next wrapper.
pub struct Next {
    inner: Arc<dyn Handler>,
    prepared: Prepared,
    arguments: Arguments,
    input: InputKind,
}

impl Next {
    /// Hands the call on. A wrapper that does not call it answers in the handler's place.
    ///
    /// # Errors
    ///
    /// The handler's; or that arguments which the wrapper changed do not fit.
    pub async fn run(self, call: ToolCall) -> Result<Answer, ToolError> {
        let prepared = match call.arguments == self.arguments {
            true => self.prepared,
            false => self.inner.prepare(&call.arguments, self.input).map_err(misfit)?,
        };
        prepared.run(call.context).await
    }
}

impl std::fmt::Debug for Next {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Next").finish_non_exhaustive()
    }
}

/// A wrapper whose type has been forgotten.
pub(crate) type Wrapper = Arc<dyn Fn(ToolCall, Next) -> Answering + Send + Sync>;

/// A handler with a wrapper around it.
pub(crate) struct Wrapped {
    pub(crate) name: Text,
    pub(crate) inner: Arc<dyn Handler>,
    pub(crate) wrapper: Wrapper,
}

impl Handler for Wrapped {
    fn prepare(&self, arguments: &Arguments, input: InputKind) -> Result<Prepared, serde_json::Error> {
        // Arguments that do not fit reach no wrapper.
        let prepared = self.inner.prepare(arguments, input)?;
        let (inner, wrapper) = (self.inner.clone(), self.wrapper.clone());
        let (name, arguments) = (self.name.clone(), arguments.clone());
        Ok(Prepared::new(move |context| {
            let next = Next { inner, prepared, arguments: arguments.clone(), input };
            wrapper(ToolCall { name, arguments, context }, next)
        }))
    }
}
