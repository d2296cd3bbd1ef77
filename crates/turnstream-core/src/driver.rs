//! The driver that every SSE wire shares: it frames the body, hands known frames to the wire, and owns the
//! policy for everything else. *Known: interpret. Unknown: hand on raw. Corrupt: an error that names it.*

use std::fmt;

use crate::{
    envelope::ErrorEnvelope,
    error::{Error, ErrorKind},
    ledger::{Ledger, Rules},
    scan::is_json,
    sse::{FrameError, SseFrame, SseFramer},
    wire::{Decode, End, Events, Limits},
};

/// What a wire adds to the driver: the meaning of one frame.
pub trait Interpret: Send {
    /// Says to the ledger what a frame means. Unknown frames go to
    /// [`Ledger::provider`]; the ledger takes nothing after the turn's end.
    ///
    /// # Errors
    ///
    /// [`BadFrame`] for a frame that the wire knows and that does not have the form it should have.
    fn frame(&mut self, frame: SseFrame<'_>, ledger: &mut Ledger) -> Result<(), BadFrame>;

    /// The body ended without the turn's last marker, and its reason finishes it now. The last moment to say
    /// what was held back, for wires whose turn may end so. Nothing by default.
    fn body_ended(&mut self, _ledger: &mut Ledger) {}

    /// The error that a body means which is no stream but one error object.
    fn error_body(&self, envelope: ErrorEnvelope) -> Error {
        envelope.into_error(ErrorKind::Provider)
    }
}

/// A frame that the wire knows and that does not have the form it should have.
#[derive(Debug)]
pub struct BadFrame {
    name: String,
    problem: serde_json::Error,
}

impl BadFrame {
    /// The frame's name in the wire's words, and what is wrong with it.
    pub fn new(name: impl Into<String>, problem: serde_json::Error) -> Self {
        Self { name: name.into(), problem }
    }
}

/// Decodes a body of server-sent events: framer, interpreter and ledger in a row.
#[derive(Debug)]
pub struct SseDecoder<I> {
    framer: SseFramer,
    interpreter: I,
    ledger: Ledger,
}

impl<I: Interpret> SseDecoder<I> {
    /// A decoder for one body.
    pub fn new(rules: Rules, limits: Limits, interpreter: I) -> Self {
        Self { framer: SseFramer::new(limits.frame_bytes), interpreter, ledger: Ledger::new(rules, limits) }
    }

    fn run(&mut self, bytes: &[u8]) {
        let Self { framer, interpreter, ledger } = self;
        framer.push(bytes);
        while !ledger.is_over() {
            match framer.next_frame() {
                Some(frame) => take(frame, interpreter, ledger),
                None => return,
            }
        }
    }

    fn finish(&mut self, end: End) {
        let Self { framer, interpreter, ledger } = self;
        // A torn last frame counts only if nothing of it can be missing.
        if let Some(frame) = framer.finish()
            && frame.as_ref().is_ok_and(|frame| frame.data == "[DONE]" || is_json(frame.data))
        {
            take(frame, interpreter, ledger);
        }
        if ledger.is_over() {
            return;
        }
        if framer.saw_field() || !framer.saw_anything() || starts_a_field(framer.preamble()) {
            if ledger.finishes_at(&end) {
                interpreter.body_ended(ledger);
            }
            return ledger.body_ended(end);
        }
        let body = framer.preamble();
        let error = match (ErrorEnvelope::parse(body), end) {
            (Some(envelope), _) => interpreter.error_body(envelope),
            (None, End::Broken(error)) => error,
            (None, End::Closed) if body.starts_with(&[0x1f, 0x8b]) => {
                Error::new(ErrorKind::NotAStream, "the body is compressed (gzip), which nobody asked for")
            }
            (None, End::Closed) => Error::new(ErrorKind::NotAStream, "the body has no server-sent event"),
        };
        ledger.fail(error.with_body(body));
    }
}

impl<I: Interpret> Decode for SseDecoder<I> {
    fn feed(&mut self, bytes: &[u8], events: &mut Events) {
        if self.ledger.is_over() {
            return;
        }
        self.ledger.swap_events(events);
        self.run(bytes);
        self.ledger.swap_events(events);
    }

    fn end(&mut self, end: End, events: &mut Events) {
        if self.ledger.is_over() {
            return;
        }
        self.ledger.swap_events(events);
        self.finish(end);
        self.ledger.swap_events(events);
    }

    fn is_settled(&self) -> bool {
        self.ledger.is_settled()
    }
}

impl fmt::Display for BadFrame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the frame `{}` does not have the form that it should have", self.name)
    }
}

fn take<I: Interpret>(frame: Result<SseFrame<'_>, FrameError>, interpreter: &mut I, ledger: &mut Ledger) {
    match frame {
        Ok(frame) => {
            let data = frame.data;
            if let Err(bad) = interpreter.frame(frame, ledger) {
                let error = Error::new(ErrorKind::Malformed, bad.to_string()).with_body(data.as_bytes());
                ledger.fail(error.with_source(bad.problem));
            }
        }
        Err(FrameError::TooLarge { limit, seen }) => ledger.limit_exceeded("frame_bytes", limit, seen),
        Err(FrameError::NotUtf8 { valid_up_to, start }) => {
            let message = format!("a frame is not UTF-8 after its first {valid_up_to} bytes");
            ledger.fail(Error::new(ErrorKind::Malformed, message).with_body(start.as_bytes()));
        }
    }
}

/// Whether a body of nothing but comments was cut where it may have been going to say a field's name.
fn starts_a_field(body: &[u8]) -> bool {
    let mut lines = body.rsplit(|byte| matches!(byte, b'\n' | b'\r'));
    let torn = lines.next().unwrap_or_default();
    ["data:", "event:", "id:", "retry:"].iter().any(|field| field.as_bytes().starts_with(torn))
        && lines.all(|line| matches!(line, [] | [b':', ..]))
}
