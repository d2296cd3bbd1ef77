//! [`ToolSource`]: tools that are listed and called while a run goes on.

use std::{panic::AssertUnwindSafe, pin::Pin, sync::Arc};

use futures_util::FutureExt;
use turnstream_core::{Arguments, Error, ErrorKind, IdForm, Text};

use crate::{answer::Answer, context::CallContext, error::ToolError, tool::Tool};

/// Tools that are not known when the program is written: those of a tool server, of a plugin, of the user who is
/// logged in. See [`ToolLoop::source`](crate::ToolLoop::source).
///
/// It is asked for its tools before each turn, so they may change while the run goes on.
///
/// ```
/// use serde_json::json;
/// use turnstream_core::{Arguments, RawJson};
/// use turnstream_tools::{Answer, CallContext, Tool, ToolError, ToolSource};
///
/// struct Server; // holds a connection
///
/// impl ToolSource for Server {
///     async fn list(&self) -> Result<Vec<Tool>, ToolError> {
///         let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
///         Ok(vec![Tool::new("read_file").description("Reads a file.").parameters(schema)])
///     }
///
///     async fn call(&self, name: Text, arguments: Arguments, _: CallContext) -> Result<Answer, ToolError> {
///         // What the server says to `name` with `arguments`.
///         Ok(Answer::new().text(format!("{name} was given {arguments}")))
///     }
/// }
/// # use turnstream_core::Text;
/// # let _ = Server;
/// ```
pub trait ToolSource: Send + Sync + 'static {
    /// The tools that there are now. A tool without a handler is answered by [`call`](Self::call); its other
    /// settings count as everywhere, approval and time limits among them.
    ///
    /// A name that providers refuse, an empty one among them, is made to fit, the same way every time, for the names are not the
    /// program's own; the source is called by the name that it gave. Two tools of one name fail the run.
    ///
    /// # Errors
    ///
    /// When they cannot be listed. The run then fails with
    /// [`ErrorKind::Tool`](turnstream_core::ErrorKind::Tool) before the model is asked.
    fn list(&self) -> impl Future<Output = Result<Vec<Tool>, ToolError>> + Send;

    /// Answers a call. `arguments` are one JSON value or blank, and have not been held against the tool's schema.
    ///
    /// # Errors
    ///
    /// As a [handler](crate::Tool::handler)'s.
    fn call(
        &self,
        name: Text,
        arguments: Arguments,
        context: CallContext,
    ) -> impl Future<Output = Result<Answer, ToolError>> + Send;
}

/// A source whose type has been forgotten.
pub(crate) trait AnySource: Send + Sync {
    /// The tools that there are now, each with its handler.
    fn list(self: Arc<Self>) -> Listing;
}

/// The tools of a source on their way.
pub(crate) type Listing = Pin<Box<dyn Future<Output = Result<Vec<Tool>, Error>> + Send>>;

impl<S: ToolSource> AnySource for S {
    fn list(self: Arc<Self>) -> Listing {
        Box::pin(async move {
            let listed = AssertUnwindSafe(ToolSource::list(&*self)).catch_unwind().await;
            let listed = listed.unwrap_or_else(|_| Err(ToolError::new("the source panicked")));
            let tools = listed.map_err(|error| {
                let message = format!("the tools of a source cannot be listed: {}", error.message());
                let source = error.into_source().unwrap_or_else(|| message.clone().into());
                Error::new(ErrorKind::Tool, message).with_source(source)
            })?;
            Ok(tools.into_iter().map(|tool| answered_by(&self, tool)).collect())
        })
    }
}

fn answered_by<S: ToolSource>(source: &Arc<S>, tool: Tool) -> Tool {
    let name = tool.name().clone();
    let fitting = Text::from(&*IdForm::TOOL_NAME.fit(&name));
    let source = source.clone();
    tool.named(fitting).or_answered_by(move |arguments, context| {
        let (source, name) = (source.clone(), name.clone());
        Box::pin(async move { source.call(name, arguments, context).await })
    })
}
