//! The handlers' side of a run: starting calls, and hearing what became of them.

use std::error::Error as StdError;

use tokio::runtime::Handle;
use turnstream_core::{CallIndex, Error, ErrorKind};

use super::Run;
use crate::{
    answer::Answer,
    checkpoint::WaitingFor,
    error::ToolError,
    event::{HandlerFinished, HandlerStarted, RunEvent},
    handlers::{News, Start},
    outcome::End,
    trace,
};

impl Run {
    /// Starts a call's handler, or says why it cannot run.
    pub(super) fn start(&mut self, call: CallIndex) {
        self.is_busy = false;
        // Its arguments are shared, and not copied.
        let Some(call) = self.turns.call(call).cloned() else { return };
        if self.end.is_some() {
            return;
        }
        if let Some(problem) = call.malformed {
            return self.answered(call.call, Answer::failure(problem));
        }
        let Some(tool) = self.offer.tool(&call.name) else {
            if self.request.tools.iter().any(|spec| spec.name == call.name) {
                return self.turns.wait(call.call, WaitingFor::Answer);
            }
            let names: Vec<_> = self.request.tools.iter().map(|spec| spec.name.as_str()).collect();
            let words = format!("There is no tool `{}`. The tools are: {}.", call.name, names.join(", "));
            return self.answered(call.call, Answer::failure(words));
        };
        let handler = match tool.prepare(&call.arguments, call.input) {
            None => return self.turns.wait(call.call, WaitingFor::Answer),
            Some(Err(error)) => return self.failed(call.call, error),
            Some(Ok(handler)) => handler,
        };
        if !call.is_approved && tool.asks_for_approval(&call.arguments, call.input) {
            return self.turns.wait(call.call, WaitingFor::Approval);
        }
        let Ok(runtime) = Handle::try_current() else {
            let message = "handlers need a tokio runtime: poll the run inside one";
            return self.end_with(End::Failed(Error::new(ErrorKind::Config, message)));
        };
        let time_limit = tool.time_limit().or(self.settings.handler_timeout);
        let turn = self.turns.turn();
        self.turns.started(call.call);
        self.is_unsaved = true;
        let started = HandlerStarted::new(turn, call.call, call.id.clone(), call.name.clone());
        self.events.push_back(RunEvent::HandlerStarted(started));
        let traces_content = self.settings.traces_content;
        let span = trace::call(&self.span, &call, traces_content);
        self.handlers.queue(call, Start { runtime, turn, handler, time_limit, span, traces_content });
    }

    pub(super) fn hear(&mut self, news: News) {
        let finished = match news {
            News::Progress(progress) => return self.events.push_back(RunEvent::HandlerProgress(progress)),
            News::Finished(finished) => finished,
        };
        match finished.answer {
            Ok(answer) => self.answered(finished.call, answer.limited(self.settings.max_answer_bytes)),
            Err(error) => self.failed(finished.call, error),
        }
    }

    fn answered(&mut self, call: CallIndex, answer: Answer) {
        self.is_busy = false;
        self.is_unsaved = true;
        let result = self.turns.answered(call, answer);
        let turn = self.turns.turn();
        let finished = result.map(|result| HandlerFinished::new(turn, call, result));
        self.events.extend(finished.map(RunEvent::HandlerFinished));
    }

    fn failed(&mut self, call: CallIndex, error: ToolError) {
        let tool = self.turns.call(call).map(|call| call.name.as_str());
        // They may quote the arguments.
        let said = self.settings.traces_content.then_some(&error);
        let source = said.and_then(ToolError::source).map(|source| source as &dyn StdError);
        tracing::debug!(tool, call = call.0, error = said.map(ToolError::message), source, "a call failed");
        self.answered(call, Answer::failure(error.message()).limited(self.settings.max_answer_bytes));
        if error.is_fatal() && self.end.is_none() {
            let mut end = Error::new(ErrorKind::Tool, error.message());
            if let Some(source) = error.into_source() {
                end = end.with_source(source);
            }
            self.end_with(End::Failed(end));
        }
    }
}
