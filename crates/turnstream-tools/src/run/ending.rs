//! How a run ends, and what it leaves open.

use super::Run;
use crate::{
    event::{Failure, RunEnded},
    handlers::News,
    outcome::{End, StatusKind},
    output::repair_words,
    tool_loop::Progress,
    trace,
    turns::Verdict,
};

impl Run {
    /// The model has said what it wanted to say. If that is not what it was to say, it may try once more.
    pub(super) fn finished(&mut self) {
        let misfit = self.settings.output.as_ref().and_then(|output| output.check(&self.text).err());
        let Some(error) = misfit else { return self.end_with(End::Verdict(Verdict::Finished)) };
        let words = repair_words(&error);
        let Self { settings, turns, request, .. } = self;
        if !turns.repair(&settings.bounds, &mut request.conversation, words) {
            self.end_with(End::Failed(error));
        }
    }

    /// Whether the caller's condition says stop. It is not asked before there is something to look at.
    pub(super) fn should_stop(&mut self) -> bool {
        let Some(condition) = &self.settings.stop_when else { return false };
        // Once between two turns, however often the run is polled there.
        if std::mem::replace(&mut self.asked_condition, self.turns.asked) == self.turns.asked {
            return false;
        }
        let progress = Progress {
            conversation: &self.request.conversation,
            turns: self.turns.asked,
            calls: self.turns.calls_made,
            usage: self.turns.usage,
        };
        condition(&progress)
    }

    pub(super) fn end_with(&mut self, end: End) {
        let (status, why) = (end.kind(), end.why());
        let mut ended = RunEnded::new(status, self.turns.asked, self.turns.usage);
        if let End::Failed(error) = &end {
            ended.error = Some(Failure::of(error));
            trace::failed(&self.span, error);
            if let Some(reply) = &self.reply {
                trace::failed(&reply.span, error);
            }
        }
        // From here on nothing that a handler says can end the run another way.
        self.end = Some(end);
        for call in self.handlers.unqueue() {
            self.turns.not_started(call);
        }
        for finished in self.handlers.stop() {
            self.hear(News::Finished(finished));
        }
        self.replied(None);
        if status == StatusKind::Waiting {
            ended.waiting = self.turns.waiting();
        } else {
            self.turns.close(&mut self.request.conversation, why);
        }
        if let StatusKind::Failed | StatusKind::Cancelled | StatusKind::MaxTime = status {
            self.tail = None;
        }
        self.clock.pause();
        self.is_unsaved = true;
        trace::usage(&self.span, self.turns.usage);
        ended.usage = self.turns.usage;
        self.ended = Some(ended);
    }
}
