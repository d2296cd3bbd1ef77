//! [`Tool`]: a name, a schema, a handler, and how its calls run.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use serde::Serialize;
use serde_json::Value;
use turnstream_core::{Arguments, Error, ErrorKind, InputKind, RawJson, Text, ToolSpec};

use crate::{
    answer::Answer,
    context::CallContext,
    error::ToolError,
    parameters::Parameters,
    wrap::{Next, ToolCall, Wrapped, Wrapper},
};

/// Something that a model can call.
///
/// Setters take and give back the value. Nothing is checked before a run starts: a name that providers refuse
/// then fails it with [`ErrorKind::Config`].
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use turnstream_tools::{Schema, Tool};
///
/// # #[cfg(feature = "schemars")] {
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct CreateTicket {
///     /// One line.
///     subject: String,
/// }
///
/// let tickets = Arc::new(Mutex::new(Vec::new()));
/// let create = Tool::new("create_ticket")
///     .description("Opens a ticket.")
///     .sequential()
///     .handler(move |args: CreateTicket| {
///         let tickets = tickets.clone();
///         async move {
///             let mut tickets = tickets.lock().map_err(|_| "the tickets are lost")?;
///             tickets.push(args.subject);
///             Ok(format!("T-{}", tickets.len()))
///         }
///     });
/// assert_eq!(create.spec().name, "create_ticket");
/// # }
/// ```
///
/// # Common issues
///
/// - A handler that blocks a thread (a file, a synchronous database, long arithmetic) stalls everything on that
///   thread, other runs among it. Put the blocking work into `tokio::task::spawn_blocking` and await that. It
///   goes on when its call is cancelled, and can [ask](CallContext::is_cancelled):
///
/// ```
/// # use serde_json::{Value, json};
/// # use turnstream_tools::Tool;
/// let count = Tool::new("count_words").handler_with_context(|args: Value, context| async move {
///     let count = move || -> std::io::Result<usize> {
///         let text = std::fs::read_to_string(args["path"].as_str().unwrap_or_default())?;
///         Ok(text.lines().take_while(|_| !context.is_cancelled()).map(|line| line.split(' ').count()).sum())
///     };
///     Ok(json!({ "words": tokio::task::spawn_blocking(count).await?? }))
/// });
/// # let _ = count;
/// ```
///
/// - A tool without a handler is allowed: the run then [waits](crate::RunStatus::Waiting) for its results.
#[derive(Clone)]
pub struct Tool {
    name: Text,
    description: String,
    given_parameters: Option<RawJson>,
    derived_parameters: Option<RawJson>,
    strict: Option<bool>,
    input: InputKind,
    handler: Option<Arc<dyn Handler>>,
    #[expect(clippy::type_complexity, reason = "a name for it would be used once")]
    approval: Option<Arc<dyn Fn(&Value) -> bool + Send + Sync>>,
    /// The innermost first.
    wrappers: Vec<Wrapper>,
    timeout: Option<Duration>,
    is_sequential: bool,
    is_eager: bool,
    is_idempotent: bool,
}

impl Tool {
    /// A tool of this name: 1 to 64 letters, digits, `_` or `-`.
    pub fn new(name: impl Into<Text>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            given_parameters: None,
            derived_parameters: None,
            strict: None,
            input: InputKind::Json,
            handler: None,
            approval: None,
            wrappers: Vec::new(),
            timeout: None,
            is_sequential: false,
            is_eager: false,
            is_idempotent: false,
        }
    }

    /// Says what it does, for the model.
    pub fn description(self, description: impl Into<String>) -> Self {
        Self { description: description.into(), ..self }
    }

    /// Gives the JSON schema of its arguments: a [`Schema`](crate::Schema), or any JSON, which is sent as it
    /// stands. It goes before the one that follows from the handler's type.
    pub fn parameters(self, schema: impl Into<RawJson>) -> Self {
        Self { given_parameters: Some(schema.into()), ..self }
    }

    /// Asks the provider to hold the model to the schema, or not to. The provider decides by default.
    pub fn strict(self, strict: bool) -> Self {
        Self { strict: Some(strict), ..self }
    }

    /// Makes it a free-form tool: its argument is text and not JSON, and the handler takes a `String`.
    pub fn free_form(self) -> Self {
        Self { input: InputKind::Text, ..self }
    }

    /// Sets the handler: an async function of the arguments.
    ///
    /// It gives back anything that serialises (a string goes to the model as plain text, everything else as
    /// JSON), or an [`Answer`]. Any error can be returned with `?`; see [`ToolError`] for what the model reads
    /// of it. A panic is an error result, too.
    ///
    /// Each call runs in a task of its own, side by side with its siblings. The task is the run's: it ends
    /// with it.
    pub fn handler<A, R, F, Fut>(self, function: F) -> Self
    where
        A: Parameters,
        R: Serialize + 'static,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        self.handler_with_context(move |args, _| function(args))
    }

    /// Sets a handler that knows of its call: id, number, cancellation, and a way to report progress.
    pub fn handler_with_context<A, R, F, Fut>(self, function: F) -> Self
    where
        A: Parameters,
        R: Serialize + 'static,
        F: Fn(A, CallContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let function = Arc::new(function);
        let handler = move |arguments: &Arguments, input: InputKind| {
            let args = A::read(arguments, input)?;
            let function = function.clone();
            let run = move |context| async move { Answer::of(function(args, context).await?) };
            Ok(Prepared::new(move |context| Box::pin(run(context))))
        };
        Self { derived_parameters: A::schema(), handler: Some(Arc::new(handler)), ..self }
    }

    /// Puts a function around each call: a log, a cache, something that takes secrets out. It sees the call, and
    /// hands it on with [`Next::run`] or answers itself. One that is added later stands around those before.
    /// What it does takes part in the call's time, and a panic of it is an error result.
    ///
    /// ```
    /// use serde_json::Value;
    /// use turnstream_tools::Tool;
    ///
    /// let lookup = Tool::new("lookup_order").handler(|args: Value| async move { Ok(args) }).wrap(
    ///     |call, next| async move {
    ///         eprintln!("{} {}", call.name, call.arguments);
    ///         let answer = next.run(call).await?;
    ///         Ok(answer.map_text(|text| text.replace("hunter2", "***")))
    ///     },
    /// );
    /// # let _ = lookup;
    /// ```
    pub fn wrap<F, Fut>(mut self, wrapper: F) -> Self
    where
        F: Fn(ToolCall, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Answer, ToolError>> + Send + 'static,
    {
        self.wrappers.push(Arc::new(move |call, next| Box::pin(wrapper(call, next))));
        self
    }

    /// Runs its calls alone: one starts when all calls in front of it have ended, and the calls behind it wait
    /// for its end. For tools that write.
    pub fn sequential(self) -> Self {
        Self { is_sequential: true, ..self }
    }

    /// Gives each call this much time; then it is dropped and gets an error result. Goes before the loop's own
    /// [`handler_timeout`](crate::ToolLoop::handler_timeout). No limit by default; with zero the handler does not run.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Starts its calls at once when they are complete, while the turn still streams; by default they start
    /// when the turn has ended well. For tools that only read: the turn may yet fail. Calls of sequential
    /// tools, and of tools that need approval, are never eager.
    pub fn eager(self) -> Self {
        Self { is_eager: true, ..self }
    }

    /// Makes the run wait until each call is approved or denied.
    pub fn needs_approval(self) -> Self {
        self.needs_approval_when(|_| true)
    }

    /// Makes the run wait for approval of the calls for whose arguments the function says so. Free-form text
    /// is a JSON string to it. Arguments that it cannot be shown as they are (a number out of range, nesting
    /// too deep, half a surrogate pair) or that are no object need approval, whatever it would say.
    pub fn needs_approval_when(self, function: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        Self { approval: Some(Arc::new(function)), ..self }
    }

    /// Says that a call may run twice without harm: one that was interrupted is run again when its run is
    /// [resumed](crate::Run::checkpoint), under the same call id. Any other waits for a
    /// [decision](crate::WaitingFor::Decision) then.
    pub fn idempotent(self) -> Self {
        Self { is_idempotent: true, ..self }
    }

    /// Its name.
    pub fn name(&self) -> &Text {
        &self.name
    }

    /// What the model is told of it.
    pub fn spec(&self) -> ToolSpec {
        let mut spec = ToolSpec::new(self.name.clone()).description(self.description.clone());
        spec.strict = self.strict;
        spec.input = self.input;
        if self.input == InputKind::Json {
            spec.parameters = self.given_parameters.clone().or_else(|| self.derived_parameters.clone());
        }
        spec
    }

    /// Checks what every provider would refuse.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let spec = self.spec();
        spec.check_name()?;
        let Some(parameters) = &spec.parameters else { return Ok(()) };
        let schema = parameters.read::<Value>().unwrap_or_default();
        match schema.get("type").and_then(Value::as_str) {
            None | Some("object") => Ok(()),
            Some(kind) => {
                let name = &self.name;
                let rule =
                    format!("its arguments are of type {kind}, and only a free-form tool's are no object");
                Err(Error::new(ErrorKind::Config, format!("tool `{name}` cannot be offered: {rule}")))
            }
        }
    }

    /// Reads a call's arguments for its handler; `None` if it has none.
    pub(crate) fn prepare(
        &self,
        arguments: &Arguments,
        input: InputKind,
    ) -> Option<Result<Prepared, ToolError>> {
        let mut handler = self.handler.clone()?;
        for wrapper in &self.wrappers {
            let (name, wrapper) = (self.name.clone(), wrapper.clone());
            handler = Arc::new(Wrapped { name, inner: handler, wrapper });
        }
        let input = if self.input == InputKind::Text { InputKind::Text } else { input };
        // A `Deserialize` of the caller's runs here, and its panic is no reason to end the run.
        let prepared = catch_unwind(AssertUnwindSafe(|| handler.prepare(arguments, input)));
        Some(match prepared {
            Ok(prepared) => prepared.map_err(misfit),
            Err(_) => Err(ToolError::new("The arguments do not fit the tool.")),
        })
    }

    /// Whether a call with these arguments needs approval.
    pub(crate) fn asks_for_approval(&self, arguments: &Arguments, input: InputKind) -> bool {
        let Some(approval) = &self.approval else { return false };
        let value = match (input, arguments.parse()) {
            (InputKind::Text, _) => Value::String(arguments.as_str().to_owned()),
            (_, Ok(object @ Value::Object(_))) => object,
            // A handler may still read what the function cannot be shown. A person decides.
            (_, _) => return true,
        };
        // When the caller's function fails, a person decides.
        catch_unwind(AssertUnwindSafe(|| approval(&value))).unwrap_or(true)
    }

    /// The same tool under another name.
    pub(crate) fn named(self, name: Text) -> Self {
        Self { name, ..self }
    }

    /// The same tool, answered by this function if it has no handler of its own.
    pub(crate) fn or_answered_by<F>(self, answer: F) -> Self
    where
        F: Fn(Arguments, CallContext) -> Answering + Send + Sync + 'static,
    {
        let answer = Arc::new(answer);
        let handler = move |arguments: &Arguments, _: InputKind| {
            let (answer, arguments) = (answer.clone(), arguments.clone());
            Ok(Prepared::new(move |context| answer(arguments, context)))
        };
        Self { handler: Some(self.handler.unwrap_or_else(|| Arc::new(handler))), ..self }
    }

    /// The same tool with these wrappers around its own.
    pub(crate) fn wrapped_in(mut self, wrappers: &[Wrapper]) -> Self {
        self.wrappers.extend_from_slice(wrappers);
        self
    }

    pub(crate) fn has_handler(&self) -> bool {
        self.handler.is_some()
    }

    pub(crate) fn time_limit(&self) -> Option<Duration> {
        self.timeout
    }

    pub(crate) fn is_sequential(&self) -> bool {
        self.is_sequential
    }

    pub(crate) fn is_eager(&self) -> bool {
        self.is_eager
    }

    pub(crate) fn can_be_eager(&self) -> bool {
        self.has_handler() && !self.is_sequential && self.approval.is_none()
    }

    pub(crate) fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tool")
            .field("spec", &self.spec())
            .field("has_handler", &self.has_handler())
            .field("needs_approval", &self.approval.is_some())
            .field("timeout", &self.timeout)
            .field("is_sequential", &self.is_sequential)
            .field("is_eager", &self.is_eager)
            .field("is_idempotent", &self.is_idempotent)
            .finish()
    }
}

/// A handler whose arguments have been read. The caller's function runs when it is given its context.
pub(crate) struct Prepared(Box<dyn FnOnce(CallContext) -> Answering + Send>);

/// An answer on its way.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Answer, ToolError>> + Send>>;

impl Prepared {
    pub(crate) fn new(run: impl FnOnce(CallContext) -> Answering + Send + 'static) -> Self {
        Self(Box::new(run))
    }

    pub(crate) async fn run(self, context: CallContext) -> Result<Answer, ToolError> {
        (self.0)(context).await
    }
}

/// What the model reads when arguments do not fit.
pub(crate) fn misfit(error: serde_json::Error) -> ToolError {
    ToolError::new(format!("The arguments do not fit the tool: {error}")).with_source(error)
}

/// A handler whose argument type has been forgotten.
pub(crate) trait Handler: Send + Sync {
    fn prepare(&self, arguments: &Arguments, input: InputKind) -> Result<Prepared, serde_json::Error>;
}

impl<F> Handler for F
where
    F: Fn(&Arguments, InputKind) -> Result<Prepared, serde_json::Error> + Send + Sync,
{
    fn prepare(&self, arguments: &Arguments, input: InputKind) -> Result<Prepared, serde_json::Error> {
        self(arguments, input)
    }
}
