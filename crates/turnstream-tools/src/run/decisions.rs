//! The caller's side of a run: what waits, what is decided about it, and the run written down.

use turnstream_core::{CallIndex, Error};

use super::Run;
use crate::{
    answer::Answer,
    checkpoint::{Checkpoint, WaitingCall},
    event::{HandlerFinished, RunEvent},
    outcome::End,
    tool::Tool,
    turns::Decision,
};

impl Run {
    /// The calls that wait for a decision.
    pub fn waiting(&self) -> Vec<WaitingCall> {
        self.turns.waiting()
    }

    /// Lets a call that waits run; it starts at the next poll.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) if no such call waits, or its tool has no
    /// handler.
    pub fn approve(&mut self, turn: u32, call: CallIndex) -> Result<(), Error> {
        self.decide(turn, call, Decision::Run)
    }

    /// Answers a call that waits with an error result, in words for the model, instead of running it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) if no such call waits.
    pub fn deny(&mut self, turn: u32, call: CallIndex, why: impl Into<String>) -> Result<(), Error> {
        self.decide(turn, call, Decision::Answer(Answer::failure(why)))
    }

    /// Answers a call that waits with a result from outside.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) if no such call waits.
    pub fn answer(&mut self, turn: u32, call: CallIndex, answer: impl Into<Answer>) -> Result<(), Error> {
        self.decide(turn, call, Decision::Answer(answer.into()))
    }

    /// The run as it stands, to be [resumed](crate::ToolLoop::resume) later, in this process or another. It can
    /// be taken at any time, costs a copy of the conversation, and changes nothing here. A
    /// [sink](crate::CheckpointSink) gets them by itself.
    ///
    /// | at that time | once resumed |
    /// |---|---|
    /// | a call has its result | it never runs again |
    /// | its handler has started | it runs again if its tool is [`idempotent`](crate::Tool::idempotent), else the run waits for a [decision](crate::WaitingFor::Decision) |
    /// | it has not started | it runs |
    /// | a turn streams | it is asked for again |
    /// | a turn streams, with [eager](crate::Tool::eager) calls that have started | the part that came stands in the conversation, and none of its other calls runs |
    /// | the run waits | it waits for the same decisions |
    /// | the run has failed | the model is asked again |
    /// | the run has ended otherwise | it ends in the same way, or goes on if the loop has more turns |
    ///
    /// A handler starts when the run is polled after its `HandlerStarted` has been read. Who writes a
    /// checkpoint down at each such event, before going on, can be sure that no call runs twice unasked.
    pub fn checkpoint(&self) -> Checkpoint {
        let (mut request, mut turns) = (self.request.clone(), self.turns.clone());
        // The loop that resumes it brings its own tools.
        request.tools.retain(|spec| self.offer.tool(&spec.name).is_none());
        if let Some(reply) = &self.reply
            && turns.has_started_calls()
        {
            let turn = reply.turn();
            let usage = turn.usage;
            let ids = request.conversation.push_reply(turn.into_message());
            turns.replied(None, usage, ids, &self.settings.bounds);
        }
        if self.is_cut
            && let Some((_, kept)) = request.conversation.messages().split_last()
        {
            request.conversation = kept.to_vec().into();
        }
        turns.interrupted(|name| self.offer.tool(name).is_some_and(Tool::is_idempotent));
        Checkpoint::new(request, turns)
    }

    fn decide(&mut self, turn: u32, call: CallIndex, decision: Decision) -> Result<(), Error> {
        let result = self.turns.decide(turn, call, decision)?;
        // The run waited, and has said so before it says anything else.
        self.events.extend(self.ended.take().map(RunEvent::Ended));
        if let Some(result) = result {
            self.events.push_back(RunEvent::HandlerFinished(HandlerFinished::new(turn, call, result)));
        }
        if let Some(End::Waiting) = self.end {
            self.end = None;
        }
        self.is_busy = false;
        self.is_unsaved = true;
        Ok(())
    }
}
