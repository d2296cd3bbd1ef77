//! [`ToolLoop`]: a model, its tools, and what a run of them may use.

use std::{fmt, sync::Arc, time::Duration};

use turnstream_core::{Conversation, Model, Request, Usage};

use crate::{
    answer::Answer,
    checkpoint::Checkpoint,
    error::ToolError,
    output::Output,
    parameters::Parameters,
    run::Run,
    sink::{AnySink, CheckpointSink},
    source::{AnySource, ToolSource},
    tool::Tool,
    toolset::Toolset,
    turns::{Bounds, Turns},
    wrap::{Next, ToolCall, Wrapper},
};

/// A model, its tools, and what a run of them may use. Cheap to clone; one loop can have many runs at once.
///
/// | setting | default |
/// |---|---|
/// | [`max_turns`](Self::max_turns) | 16 |
/// | [`max_calls`](Self::max_calls) | 256 |
/// | [`max_total_tokens`](Self::max_total_tokens) | no limit |
/// | [`max_time`](Self::max_time) | no limit |
/// | [`stop_when`](Self::stop_when) | never |
/// | [`last_turn_without_tools`](Self::last_turn_without_tools) | no |
/// | [`max_answer_bytes`](Self::max_answer_bytes) | 262,144 |
/// | [`concurrency`](Self::concurrency) | 8 |
/// | [`handler_timeout`](Self::handler_timeout) | none |
/// | [`eager`](Self::eager) | no: handlers start when the turn has ended well |
/// | [`keep_tool_choice`](Self::keep_tool_choice) | no: a forced choice holds until the model has made a call |
/// | [`output`](Self::output) | text, whatever it says |
/// | [`checkpoints`](Self::checkpoints) | none are written |
/// | [`trace_content`](Self::trace_content) | no |
#[derive(Clone)]
pub struct ToolLoop {
    model: Arc<dyn Model>,
    tools: Toolset,
    settings: Settings,
}

/// What a run is set up with. It is shared: many runs have the same one.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) bounds: Bounds,
    pub(crate) max_time: Option<Duration>,
    pub(crate) stop_when: Option<StopCondition>,
    pub(crate) last_turn_without_tools: bool,
    pub(crate) max_answer_bytes: usize,
    pub(crate) handler_timeout: Option<Duration>,
    pub(crate) is_eager: bool,
    pub(crate) keeps_tool_choice: bool,
    pub(crate) traces_content: bool,
    pub(crate) output: Option<Output>,
    pub(crate) sources: Vec<Arc<dyn AnySource>>,
    pub(crate) wrappers: Vec<Wrapper>,
    pub(crate) sink: Option<Arc<dyn AnySink>>,
}

/// A caller's condition on which a run stops.
pub(crate) type StopCondition = Arc<dyn Fn(&Progress<'_>) -> bool + Send + Sync>;

/// How far a run is, for a [condition](ToolLoop::stop_when) on which it stops.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The conversation so far; all its calls are answered.
    pub conversation: &'a Conversation,
    /// How many turns were asked for.
    pub turns: u32,
    /// How many calls the model made.
    pub calls: u32,
    /// The tokens of all turns, as far as the provider counted them.
    pub usage: Usage,
}

impl ToolLoop {
    /// A loop around a model, without tools.
    pub fn new(model: impl Model + 'static) -> Self {
        let settings = Settings {
            bounds: Bounds { turns: 16, calls: 256, tokens: None, concurrency: 8 },
            max_time: None,
            stop_when: None,
            last_turn_without_tools: false,
            max_answer_bytes: 256 << 10,
            handler_timeout: None,
            is_eager: false,
            keeps_tool_choice: false,
            traces_content: false,
            output: None,
            sources: Vec::new(),
            wrappers: Vec::new(),
            sink: None,
        };
        Self { model: Arc::new(model), tools: Toolset::new(), settings }
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.add(tool);
        self
    }

    /// Adds tools: a [`Toolset`], or any others.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Adds tools that are listed anew before each turn. Their names must differ from all others.
    pub fn source(mut self, source: impl ToolSource) -> Self {
        self.settings.sources.push(Arc::new(source));
        self
    }

    /// Puts a function around the calls of all tools, those of [sources](Self::source) too: see [`Tool::wrap`]. It
    /// stands around the tools' own, and one that is added later around those before.
    pub fn wrap<F, Fut>(mut self, wrapper: F) -> Self
    where
        F: Fn(ToolCall, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Answer, ToolError>> + Send + 'static,
    {
        self.settings.wrappers.push(Arc::new(move |call, next| Box::pin(wrapper(call, next))));
        self
    }

    /// Limits how often a run asks the model. After the last turn its calls still run, and their results are
    /// in the conversation.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.settings.bounds.turns = turns;
        self
    }

    /// Limits how many calls the model may make in a run. Of the turn that goes over the limit, none
    /// runs but [eager](crate::Tool::eager) ones that came before.
    pub fn max_calls(mut self, calls: u32) -> Self {
        self.settings.bounds.calls = calls;
        self
    }

    /// Limits the tokens of a run, input and output of all its turns together, as far as the provider counts
    /// them. It is looked at between turns: the turn that goes over it is read to its end, its calls run, and no
    /// other is asked for.
    pub fn max_total_tokens(mut self, tokens: u64) -> Self {
        self.settings.bounds.tokens = Some(tokens);
        self
    }

    /// Limits the time that a run may take from its first poll on. When it is up, the turn that streams is
    /// dropped, handlers that run are aborted, and the run ends. The time in which a run waits for decisions does
    /// not count; a run that is [resumed](Self::resume) has all of it again. With zero the time is up at once, and
    /// nothing is asked or run.
    pub fn max_time(mut self, time: Duration) -> Self {
        self.settings.max_time = Some(time);
        self
    }

    /// Stops the run when the function says so. It is asked whenever the model is to be asked again, with the
    /// results of the last calls in the conversation. A panic in it is not caught: it reaches whoever polls the run.
    ///
    /// ```
    /// # use turnstream_core::Model;
    /// # use turnstream_tools::ToolLoop;
    /// # fn example(model: impl Model + 'static) -> ToolLoop {
    /// // The model hands its answer in by a call.
    /// ToolLoop::new(model).stop_when(|progress| {
    ///     let calls = progress.conversation.messages().iter().flat_map(|message| message.calls());
    ///     calls.into_iter().any(|call| call.name == "hand_in")
    /// })
    /// # }
    /// ```
    pub fn stop_when(mut self, condition: impl Fn(&Progress<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.settings.stop_when = Some(Arc::new(condition));
        self
    }

    /// Forbids calls in the last of [`max_turns`](Self::max_turns), so that the model answers with what it has.
    /// The tools stay on offer: providers refuse a history with calls of tools that they do not know. (A wire that
    /// cannot forbid calls in a conversation that has some, Bedrock's for most models, fails that turn with
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config).)
    pub fn last_turn_without_tools(mut self) -> Self {
        self.settings.last_turn_without_tools = true;
        self
    }

    /// Limits the text of one answer that goes to the model, in bytes. The rest is cut off, and a note says so
    /// and how much there was. Images and documents are left alone, and so are answers from outside.
    pub fn max_answer_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_answer_bytes = bytes;
        self
    }

    /// Limits how many handlers of a run are running at once; 0 counts as 1.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.bounds.concurrency = handlers;
        self
    }

    /// Gives each call this much time, unless its tool [says otherwise](Tool::timeout). With zero no handler runs.
    pub fn handler_timeout(mut self, timeout: Duration) -> Self {
        self.settings.handler_timeout = Some(timeout);
        self
    }

    /// Makes all tools [eager](Tool::eager) that can be.
    pub fn eager(mut self) -> Self {
        self.settings.is_eager = true;
        self
    }

    /// Keeps a tool choice that forces a call for all turns. Without it the choice is
    /// [`Auto`](turnstream_core::ToolChoice::Auto) once the model has made a call: else it would call for ever.
    pub fn keep_tool_choice(mut self) -> Self {
        self.settings.keeps_tool_choice = true;
        self
    }

    /// Asks for an answer of this type: the run is finished when the last turn's text is one. Read it with
    /// [`Outcome::output`](crate::Outcome::output).
    ///
    /// The provider is given the type's schema and holds the model to it if it can, unless the request has an
    /// [`output_schema`](Request::output_schema) of its own. An answer that does not fit all the same is asked for
    /// again once, with words that say where; that turn is one of [`max_turns`](Self::max_turns). If the next one does
    /// not fit either the run fails with [`ErrorKind::Output`](turnstream_core::ErrorKind::Output).
    ///
    /// ```
    /// # use turnstream_core::{Error, Model, Request};
    /// # use turnstream_tools::{Given, ToolLoop};
    /// # async fn example(model: impl Model + 'static) -> Result<(), Error> {
    /// #[derive(serde::Deserialize)]
    /// struct Verdict {
    ///     is_late: bool,
    /// }
    ///
    /// // With the feature `schemars`: `output::<Verdict>()`, and the schema follows from the type.
    /// let tool_loop = ToolLoop::new(model).output::<Given<Verdict>>();
    /// let outcome = tool_loop.run(Request::new().user("Is A-4471 late?")).finish().await;
    /// let Given(verdict) = outcome.output::<Given<Verdict>>()?;
    /// println!("{}", verdict.is_late);
    /// # Ok(()) }
    /// ```
    pub fn output<T: Parameters>(mut self) -> Self {
        self.settings.output = Some(Output::of::<T>());
        self
    }

    /// Writes each run down while it goes on: see [`CheckpointSink`] for when. Each checkpoint is a copy of the
    /// whole conversation.
    pub fn checkpoints(mut self, sink: impl CheckpointSink) -> Self {
        self.settings.sink = Some(Arc::new(sink));
        self
    }

    /// Puts the arguments and results of calls into the [spans](crate#tracing) of their handlers, and the words and
    /// sources of failed ones into the event that says so. They are the user's data, and not in them without this.
    pub fn trace_content(mut self) -> Self {
        self.settings.traces_content = true;
        self
    }

    /// Starts a run. Not async: nothing is sent before the run is polled.
    ///
    /// Tools that the request offers itself have no handler here: the run waits for their results. A tool
    /// whose name a provider would refuse, or stands twice, fails the run with
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config).
    pub fn run(&self, request: Request) -> Run {
        Run::new(
            self.model.clone(),
            self.tools.clone(),
            self.settings.clone(),
            request,
            Turns::default(),
            Ok(()),
        )
    }

    /// Goes on with a run that was written down. What is still to be decided makes it wait.
    ///
    /// A call with a recorded result never runs again. Arguments are read anew, for the tools may have changed
    /// since.
    pub fn resume(&self, checkpoint: Checkpoint) -> Run {
        let (request, turns, check) = checkpoint.into_parts();
        Run::new(self.model.clone(), self.tools.clone(), self.settings.clone(), request, turns, check)
    }
}

impl fmt::Debug for ToolLoop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ToolLoop")
            .field("model", &self.model.name())
            .field("tools", &self.tools)
            .field("settings", &self.settings)
            .finish()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("bounds", &self.bounds)
            .field("max_time", &self.max_time)
            .field("has_stop_condition", &self.stop_when.is_some())
            .field("last_turn_without_tools", &self.last_turn_without_tools)
            .field("max_answer_bytes", &self.max_answer_bytes)
            .field("handler_timeout", &self.handler_timeout)
            .field("is_eager", &self.is_eager)
            .field("keeps_tool_choice", &self.keeps_tool_choice)
            .field("traces_content", &self.traces_content)
            .field("has_output", &self.output.is_some())
            .field("sources", &self.sources.len())
            .field("wrappers", &self.wrappers.len())
            .field("has_sink", &self.sink.is_some())
            .finish()
    }
}
