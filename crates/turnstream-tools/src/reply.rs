//! [`Reply`]: the turn that streams now, and its calls.

use std::collections::HashMap;

use tracing::Span;
use turnstream_core::{
    AbortReason, CallAborted, CallFinished, CallIndex, Event, InputKind, Part, PartIndex, Turn, TurnBuilder,
    TurnStream,
};

use crate::turns::{Call, CallState};

/// How much of malformed arguments is shown to the model, in bytes.
const SHOWN: usize = 1000;

/// A turn as far as it came.
pub(crate) struct Reply {
    pub(crate) stream: TurnStream,
    pub(crate) span: Span,
    turn: TurnBuilder,
    /// The calls that have not ended.
    open: HashMap<CallIndex, (PartIndex, InputKind)>,
    malformed: Vec<PartIndex>,
    /// The parts of the calls in the message.
    calls: Vec<PartIndex>,
}

impl Reply {
    pub(crate) fn new(stream: TurnStream, span: Span) -> Self {
        Self {
            stream,
            span,
            turn: TurnBuilder::new(),
            open: HashMap::new(),
            malformed: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// Takes the next event. Hands out a call that has ended and must be answered.
    ///
    /// A malformed call must be, too: the model meant it. It stands in the message with empty arguments,
    /// because no wire could carry what came, and its result says what is wrong.
    pub(crate) fn take(&mut self, event: &Event) -> Option<Call> {
        match event {
            Event::CallStarted(started) => {
                self.open.insert(started.call, (started.part, started.input));
                self.turn.push(event);
                None
            }
            Event::CallFinished(finished) => self.end(finished, None),
            Event::CallAborted(aborted) if aborted.reason == AbortReason::Malformed => {
                let stand_in =
                    CallFinished::new(aborted.call, aborted.id.clone(), aborted.name.clone(), "{}");
                self.end(&stand_in, Some(complaint(aborted)))
            }
            _ => {
                self.turn.push(event);
                None
            }
        }
    }

    /// The turn as far as it came, with the malformed calls in its message.
    pub(crate) fn turn(&self) -> Turn {
        self.mended(self.turn.clone())
    }

    /// The same, and what may still be on its way.
    pub(crate) fn into_turn(mut self) -> (Turn, TurnStream) {
        let turn = std::mem::take(&mut self.turn);
        (self.mended(turn), self.stream)
    }

    fn mended(&self, turn: TurnBuilder) -> Turn {
        let mut turn = turn.build();
        let mut ended = self.calls.clone();
        ended.sort_unstable();
        let calls = turn.parts.iter_mut().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        });
        for (call, part) in calls.zip(ended) {
            if self.malformed.contains(&part) {
                // The wire's own item has the arguments that cannot be sent.
                call.replay = None;
            }
        }
        turn
    }

    fn end(&mut self, finished: &CallFinished, malformed: Option<String>) -> Option<Call> {
        // A call ends once, and only after its announcement; a model that says otherwise is not heard.
        let (part, input) = self.open.remove(&finished.call)?;
        self.calls.push(part);
        self.malformed.extend(malformed.as_ref().map(|_| part));
        self.turn.push(&Event::CallFinished(finished.clone()));
        Some(Call {
            call: finished.call,
            part,
            id: finished.id.clone(),
            name: finished.name.clone(),
            arguments: finished.arguments.clone(),
            input,
            malformed,
            is_sequential: false,
            is_eager: false,
            is_approved: false,
            state: CallState::Pending,
        })
    }
}

fn complaint(aborted: &CallAborted) -> String {
    let raw = aborted.partial.as_raw_str();
    let problem = match serde_json::from_str::<serde_json::Value>(raw) {
        Ok(_) => String::new(),
        Err(error) => format!(" ({error})"),
    };
    let shown = raw.get(..raw.floor_char_boundary(SHOWN)).unwrap_or(raw);
    let rest = if shown.len() < raw.len() { " [...]" } else { "" };
    format!(
        "The arguments are not one valid JSON value{problem}, so the tool was not run. They were: {shown}{rest}"
    )
}
