//! The rules of a run, without IO: a reply goes in, the next step comes out. All of it can be written down.

use serde::{Deserialize, Serialize};
use turnstream_core::{
    Arguments, CallIndex, Conversation, Error, ErrorKind, InputKind, Message, PartIndex, Reason, ResultPart,
    Text, Usage,
};

use crate::{
    answer::Answer,
    checkpoint::{WaitingCall, WaitingFor},
};

/// Where a run stands. The conversation is not in it: it belongs to the request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turns {
    /// How many turns were asked for.
    pub(crate) asked: u32,
    /// How many calls the model made.
    pub(crate) calls_made: u32,
    /// The tokens of all turns.
    pub(crate) usage: Usage,
    /// How the last turn ended, if it ended well.
    pub(crate) reason: Option<Reason>,
    /// Whether an answer that did not fit was asked for again.
    #[serde(default)]
    has_repaired: bool,
    /// The calls of the last turn. While it streams in the order of their ends, then in the message's.
    calls: Vec<Call>,
    phase: Phase,
}

/// A call of the last turn, and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) call: CallIndex,
    pub(crate) part: PartIndex,
    pub(crate) id: Text,
    pub(crate) name: Text,
    pub(crate) arguments: Arguments,
    pub(crate) input: InputKind,
    /// What is wrong with arguments that are no JSON value. The model is told instead of the tool.
    pub(crate) malformed: Option<String>,
    pub(crate) is_sequential: bool,
    pub(crate) is_eager: bool,
    pub(crate) is_approved: bool,
    pub(crate) state: CallState,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallState {
    Pending,
    Waiting(WaitingFor),
    Started,
    Answered(Answer),
}

/// What a run may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) turns: u32,
    pub(crate) calls: u32,
    /// Input and output of all turns together.
    pub(crate) tokens: Option<u64>,
    pub(crate) concurrency: usize,
}

/// What is to be done next.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// Send the conversation as it is now.
    Ask,
    /// Start these calls.
    Run(Vec<CallIndex>),
    /// Nothing, until the model or a handler has said more.
    Busy,
    /// Nothing, until the caller has decided.
    Wait,
    /// The run is over.
    Done(Verdict),
}

/// How the rules end a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Finished,
    Stopped(Reason),
    MaxTurns,
    MaxCalls,
    MaxTokens,
    MaxTime,
    StopCondition,
}

/// What the caller decided about a call that waits.
#[derive(Debug)]
pub(crate) enum Decision {
    Run,
    Answer(Answer),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    #[default]
    Asking,
    Streaming,
    Calling,
    Over(Verdict),
}

/// What follows from a reply.
#[derive(Debug, PartialEq)]
enum Next {
    RunCalls,
    AskAgain,
    End(Verdict),
}

/// The rule of the loop: every reason is classified, and one that is not known stops.
fn next(reason: Reason, has_calls: bool) -> Next {
    match (reason, has_calls) {
        (Reason::ToolCalls | Reason::Stop | Reason::Pause, true) => Next::RunCalls,
        (Reason::Pause, false) => Next::AskAgain,
        (Reason::Stop | Reason::Other, false) => Next::End(Verdict::Finished),
        // A half of what the model planned as a whole must not run.
        _ => Next::End(Verdict::Stopped(reason)),
    }
}

impl Turns {
    /// The number of the turn that goes on, or of the last one.
    pub(crate) fn turn(&self) -> u32 {
        self.asked.saturating_sub(1)
    }

    /// The model was asked.
    pub(crate) fn asked(&mut self) {
        self.asked = self.asked.saturating_add(1);
        self.reason = None;
        self.calls.clear();
        self.phase = Phase::Streaming;
    }

    /// The model has ended a call; the turn goes on.
    pub(crate) fn call_came(&mut self, call: Call) {
        self.calls.push(call);
    }

    /// The turn has ended, and its message is in the conversation, where its calls have these ids, in order.
    /// Without a reason it ended in an error.
    pub(crate) fn replied(&mut self, reason: Option<Reason>, usage: Usage, ids: Vec<Text>, bounds: &Bounds) {
        self.usage.add(usage);
        self.reason = reason;
        self.calls_made = self.calls_made.saturating_add(u32::try_from(self.calls.len()).unwrap_or(u32::MAX));
        self.calls.sort_by_key(|call| call.part);
        for (call, id) in self.calls.iter_mut().zip(ids) {
            call.id = id;
        }
        let Some(reason) = reason else { return };
        self.phase = match next(reason, !self.calls.is_empty()) {
            Next::RunCalls if self.calls_made > bounds.calls => Phase::Over(Verdict::MaxCalls),
            Next::RunCalls => Phase::Calling,
            Next::AskAgain => Phase::Asking,
            Next::End(verdict) => Phase::Over(verdict),
        };
    }

    /// What is to be done next. When all calls are answered their results go into the conversation, as one
    /// message, in the order of the calls.
    pub(crate) fn step(&mut self, bounds: &Bounds, conversation: &mut Conversation) -> Step {
        let startable = match self.phase {
            Phase::Calling => self.startable(bounds, false),
            Phase::Streaming if self.calls_to_come(bounds) => self.startable(bounds, true),
            _ => Vec::new(),
        };
        let is_running = self.calls.iter().any(|call| call.state == CallState::Started);
        match self.phase {
            Phase::Streaming | Phase::Calling if !startable.is_empty() => return Step::Run(startable),
            Phase::Streaming => return Step::Busy,
            Phase::Calling if is_running => return Step::Busy,
            Phase::Calling if !self.calls.iter().all(Call::is_answered) => return Step::Wait,
            Phase::Calling => self.send_results(conversation),
            Phase::Over(verdict) => return Step::Done(verdict),
            Phase::Asking => {}
        }
        if self.asked >= bounds.turns {
            Step::Done(Verdict::MaxTurns)
        } else if bounds.tokens.is_some_and(|tokens| self.asked > 0 && self.tokens() >= tokens) {
            Step::Done(Verdict::MaxTokens)
        } else {
            Step::Ask
        }
    }

    /// The answer does not fit. Asks for it again, with these words to the model, if it may: once in a run, and
    /// while there are turns left.
    pub(crate) fn repair(&mut self, bounds: &Bounds, conversation: &mut Conversation, words: String) -> bool {
        let may = !self.has_repaired && self.asked < bounds.turns;
        if may {
            self.has_repaired = true;
            conversation.push(Message::user(words));
            self.phase = Phase::Asking;
        }
        may
    }

    /// A call's handler was started.
    pub(crate) fn started(&mut self, call: CallIndex) {
        self.set(call, CallState::Started);
    }

    /// A call was to be started, and nothing of it has been done.
    pub(crate) fn not_started(&mut self, call: CallIndex) {
        self.set(call, CallState::Pending);
    }

    /// A call waits for the caller.
    pub(crate) fn wait(&mut self, call: CallIndex, waiting: WaitingFor) {
        self.set(call, CallState::Waiting(waiting));
    }

    /// A call has its answer. Hands back the result that the model will get; `None` if there is no such call.
    pub(crate) fn answered(&mut self, call: CallIndex, answer: Answer) -> Option<ResultPart> {
        self.set(call, CallState::Answered(answer.clone()));
        let call = self.call(call)?;
        Some(answer.into_result(call.id.clone(), call.name.clone(), call.input))
    }

    /// The caller has decided about a call that waits. Hands back the result, if it needs no handler any more.
    pub(crate) fn decide(
        &mut self,
        turn: u32,
        call: CallIndex,
        decision: Decision,
    ) -> Result<Option<ResultPart>, Error> {
        let number = call.0;
        let refused =
            |why: &str| Err(Error::new(ErrorKind::Config, format!("call {number} of turn {turn} {why}")));
        let is_this_turn = turn == self.turn();
        let waiting = self.calls.iter_mut().filter(|_| is_this_turn).find(|waiting| waiting.call == call);
        let Some(waiting) = waiting else { return refused("is not known") };
        let CallState::Waiting(waiting_for) = waiting.state else { return refused("waits for nothing") };
        match decision {
            Decision::Run if waiting_for == WaitingFor::Answer => refused("has no handler: answer it"),
            Decision::Run => {
                waiting.state = CallState::Pending;
                waiting.is_approved = true;
                Ok(None)
            }
            Decision::Answer(answer) => Ok(self.answered(call, answer)),
        }
    }

    /// Whether calls of the turn have started, or have been answered. While it streams those are the eager ones.
    pub(crate) fn has_started_calls(&self) -> bool {
        !self.calls.iter().all(|call| call.state == CallState::Pending)
    }

    /// The run is written down while it goes on. A call that has started and has no result may have its effect
    /// after that: it runs again only if its tool says that this does no harm.
    ///
    /// A turn that streams is asked for again; but if it has started calls, what came of it must be in the
    /// conversation, and none of the others runs: they are half of what the model planned as a whole.
    pub(crate) fn interrupted(&mut self, is_idempotent: impl Fn(&str) -> bool) {
        if self.phase == Phase::Streaming && self.has_started_calls() {
            for call in self.calls.iter_mut().filter(|call| call.state == CallState::Pending) {
                let words = "The call was not run: its turn was interrupted.";
                call.state = CallState::Answered(Answer::failure(words));
            }
            self.phase = Phase::Calling;
        } else if self.phase == Phase::Streaming {
            self.calls.clear();
            self.phase = Phase::Asking;
        }
        for call in self.calls.iter_mut().filter(|call| call.state == CallState::Started) {
            call.state = match is_idempotent(&call.name) {
                true => CallState::Pending,
                false => CallState::Waiting(WaitingFor::Decision),
            };
            call.is_approved = true;
        }
    }

    /// Answers what is still open, so that the conversation can be sent: calls that did not run are told `why`.
    pub(crate) fn close(&mut self, conversation: &mut Conversation, why: &str) {
        for call in &mut self.calls {
            call.state = match std::mem::replace(&mut call.state, CallState::Started) {
                CallState::Answered(answer) => CallState::Answered(answer),
                CallState::Started => {
                    let words = "The call was cancelled while it ran. Whether it had an effect is unknown.";
                    CallState::Answered(Answer::failure(words))
                }
                _ => CallState::Answered(Answer::failure(format!("The call was not run: {why}."))),
            };
        }
        let phase = self.phase;
        self.send_results(conversation);
        if let Phase::Over(_) = phase {
            self.phase = phase;
        }
    }

    /// A call of the last turn.
    pub(crate) fn call(&self, call: CallIndex) -> Option<&Call> {
        self.calls.iter().find(|known| known.call == call)
    }

    /// The calls that wait for the caller.
    pub(crate) fn waiting(&self) -> Vec<WaitingCall> {
        let turn = self.turn();
        let waiting = |call: &Call| match call.state {
            CallState::Waiting(waiting_for) => Some(WaitingCall {
                turn,
                call: call.call,
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                waiting_for,
            }),
            _ => None,
        };
        self.calls.iter().filter_map(waiting).collect()
    }

    /// The calls that may start now, in call order: at most so many side by side, and those of a sequential tool
    /// alone.
    fn startable(&self, bounds: &Bounds, is_eager: bool) -> Vec<CallIndex> {
        let mut room = bounds.concurrency.max(1);
        let running = self.calls.iter().filter(|call| call.state == CallState::Started).count();
        room = room.saturating_sub(running);
        let mut startable = Vec::new();
        let mut is_first_open = true;
        for call in self.calls.iter().filter(|call| !call.is_answered()) {
            let may_start = call.state == CallState::Pending
                && room > 0
                && (call.is_eager || !is_eager)
                && (is_first_open || !call.is_sequential);
            if may_start {
                startable.push(call.call);
                room -= 1;
            }
            if call.is_sequential {
                break;
            }
            is_first_open = false;
        }
        startable
    }

    /// The tokens of all turns, as far as the provider counted them.
    fn tokens(&self) -> u64 {
        let Usage { input_tokens, output_tokens, .. } = self.usage;
        input_tokens.unwrap_or_default().saturating_add(output_tokens.unwrap_or_default())
    }

    /// Whether the calls of the turn that streams are within the limit so far.
    fn calls_to_come(&self, bounds: &Bounds) -> bool {
        let calls = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        self.calls_made.saturating_add(calls) <= bounds.calls
    }

    fn set(&mut self, call: CallIndex, state: CallState) {
        if let Some(call) = self.calls.iter_mut().find(|known| known.call == call) {
            call.state = state;
        }
    }

    fn send_results(&mut self, conversation: &mut Conversation) {
        let results: Vec<_> = self
            .calls
            .drain(..)
            .filter_map(|call| match call.state {
                CallState::Answered(answer) => Some(answer.into_result(call.id, call.name, call.input)),
                _ => None,
            })
            .collect();
        if !results.is_empty() {
            conversation.push(Message::results(results));
        }
        self.phase = Phase::Asking;
    }
}

impl Call {
    fn is_answered(&self) -> bool {
        matches!(self.state, CallState::Answered(_))
    }
}

#[cfg(test)]
mod tests;
