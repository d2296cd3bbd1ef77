//! [`Offer`]: the tools of a run, its own and those that its sources have now.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::future::try_join_all;
use turnstream_core::{Error, Request, ToolSpec};

use crate::{source::AnySource, tool::Tool, toolset::Toolset, wrap::Wrapper};

/// The tools of a run, its own and those that its sources have now.
pub(crate) struct Offer {
    /// What the request offers in every turn: tools of its own, which have no handler here, and the run's.
    fixed: Vec<ToolSpec>,
    own: Toolset,
    listed: Toolset,
    sources: Vec<Arc<dyn AnySource>>,
    wrappers: Vec<Wrapper>,
    /// The sources' answers on their way.
    #[expect(clippy::type_complexity, reason = "a name for it would be used once")]
    listing: Option<Pin<Box<dyn Future<Output = Result<Vec<Vec<Tool>>, Error>> + Send>>>,
    /// Whether the model has been asked since.
    is_stale: bool,
    has_listed: bool,
}

impl Offer {
    pub(crate) fn new(
        others: &[ToolSpec],
        tools: Toolset,
        sources: Vec<Arc<dyn AnySource>>,
        wrappers: Vec<Wrapper>,
    ) -> Self {
        let own: Toolset = tools.into_iter().map(|tool| tool.wrapped_in(&wrappers)).collect();
        Self {
            fixed: others.iter().cloned().chain(own.specs()).collect(),
            own,
            listed: Toolset::new(),
            is_stale: !sources.is_empty(),
            has_listed: sources.is_empty(),
            sources,
            wrappers,
            listing: None,
        }
    }

    /// The tool of this name.
    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.own.tool(name).or_else(|| self.listed.tool(name))
    }

    /// What the request offers in every turn.
    pub(crate) fn fixed(&self) -> &[ToolSpec] {
        &self.fixed
    }

    /// The sources are asked again before the next turn.
    pub(crate) fn turn_began(&mut self) {
        self.is_stale = !self.sources.is_empty();
    }

    /// Ready when calls can be answered: by the tools that were there when the model was asked, or, in a run that
    /// goes on after that, by those that are there now.
    pub(crate) fn poll_known(
        &mut self,
        request: &mut Request,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        if self.has_listed { Poll::Ready(Ok(())) } else { self.poll_fresh(request, context) }
    }

    /// Ready when the request offers what there is now.
    pub(crate) fn poll_fresh(
        &mut self,
        request: &mut Request,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        if !self.is_stale {
            return Poll::Ready(Ok(()));
        }
        let sources = &self.sources;
        let ask = || Box::pin(try_join_all(sources.iter().map(|source| source.clone().list()))) as _;
        let listed = ready!(self.listing.get_or_insert_with(ask).as_mut().poll(context));
        self.listing = None;
        let tools = match listed {
            Ok(tools) => tools.into_iter().flatten(),
            Err(error) => return Poll::Ready(Err(error)),
        };
        self.listed = tools.map(|tool| tool.wrapped_in(&self.wrappers)).collect();
        self.is_stale = false;
        self.has_listed = true;
        request.tools.truncate(self.fixed.len());
        request.tools.extend(self.listed.specs());
        Poll::Ready(self.listed.check(&self.fixed))
    }
}
