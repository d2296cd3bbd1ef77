//! [`ToolLoop`]: a model, its tools, and what a run of them may use.

use std::{fmt, sync::Arc, time::Duration};

use turnstream_core::{Model, Request};

use crate::{
    checkpoint::Checkpoint,
    run::Run,
    tool::Tool,
    toolset::Toolset,
    turns::{Bounds, Turns},
};

/// A model, its tools, and what a run of them may use. Cheap to clone; one loop can have many runs at once.
///
/// | setting | default |
/// |---|---|
/// | [`max_turns`](Self::max_turns) | 16 |
/// | [`max_calls`](Self::max_calls) | 256 |
/// | [`concurrency`](Self::concurrency) | 8 |
/// | [`handler_timeout`](Self::handler_timeout) | none |
/// | [`eager`](Self::eager) | no: handlers start when the turn has ended well |
/// | [`keep_tool_choice`](Self::keep_tool_choice) | no: a forced choice holds until the model has made a call |
#[derive(Clone)]
pub struct ToolLoop {
    model: Arc<dyn Model>,
    tools: Toolset,
    settings: Settings,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) bounds: Bounds,
    pub(crate) handler_timeout: Option<Duration>,
    pub(crate) is_eager: bool,
    pub(crate) keeps_tool_choice: bool,
}

impl ToolLoop {
    /// A loop around a model, without tools.
    pub fn new(model: impl Model + 'static) -> Self {
        let bounds = Bounds { turns: 16, calls: 256, concurrency: 8 };
        let settings = Settings { bounds, handler_timeout: None, is_eager: false, keeps_tool_choice: false };
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

    /// Limits how many handlers of a run are running at once; 0 counts as 1.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.bounds.concurrency = handlers;
        self
    }

    /// Gives each call this much time, unless its tool [says otherwise](Tool::timeout).
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

    /// Starts a run. Not async: nothing is sent before the run is polled.
    ///
    /// Tools that the request offers itself have no handler here: the run waits for their results. A tool
    /// whose name a provider would refuse, or stands twice, fails the run with
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config).
    pub fn run(&self, request: Request) -> Run {
        Run::new(self.model.clone(), self.tools.clone(), self.settings, request, Turns::default(), Ok(()))
    }

    /// Goes on with a run that was written down. What is still to be decided makes it wait.
    ///
    /// A call with a recorded result never runs again. Arguments are read anew, for the tools may have changed
    /// since.
    pub fn resume(&self, checkpoint: Checkpoint) -> Run {
        let (request, turns, check) = checkpoint.into_parts();
        Run::new(self.model.clone(), self.tools.clone(), self.settings, request, turns, check)
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
