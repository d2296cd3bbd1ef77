//! The driver that every wire shares: it frames the body, hands known frames to the wire, and owns the
//! policy for everything else. *Known: interpret. Unknown: hand on raw. Corrupt: an error that names it.*

use std::fmt;

use crate::{
    envelope::ErrorEnvelope,
    error::{Error, ErrorKind},
    frame::{Frame, FrameError, Framer},
    hot::{HotFrame, HotFrames, Lesson},
    ledger::{Ledger, Rules},
    ndjson::NdjsonFramer,
    scan::is_json,
    sse::SseFramer,
    sse_or_json::SseOrJsonFramer,
    wire::{Decode, End, Events, Limits},
};

/// What a wire adds to the driver: the meaning of one frame.
pub trait Interpret: Send {
    /// What a hot frame means: which text, of which block. `()` for a wire that has none.
    type Hot: fmt::Debug + Send;

    /// The fields of a hot frame that the wire never reads, at any depth, and whose values change from frame to
    /// frame.
    const PASSED_OVER: &'static [&'static str] = &[];

    /// Says to the ledger what a frame means. Unknown frames go to
    /// [`Ledger::provider`]; the ledger takes nothing after the turn's end.
    ///
    /// Gives a lesson if that is nothing but a piece of a text, and numbers: then frames that are like it go to
    /// [`hot`](Self::hot).
    ///
    /// # Errors
    ///
    /// [`BadFrame`] for a frame that the wire knows and that does not have the form it should have.
    fn frame<'f>(
        &mut self,
        frame: Frame<'f>,
        ledger: &mut Ledger,
    ) -> Result<Option<Lesson<'f, Self::Hot>>, BadFrame>;

    /// Says to the ledger what a frame means that is like one that was read. False, and nothing said, if it has to
    /// be read after all; so it is by default.
    fn hot(&mut self, hot: HotFrame<'_, Self::Hot>, ledger: &mut Ledger) -> bool {
        let _ = (hot, ledger);
        false
    }

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

/// Decodes a body: framer, interpreter and ledger in a row.
#[derive(Debug)]
pub struct Decoder<F, I: Interpret> {
    framer: F,
    hot: HotFrames<I::Hot>,
    interpreter: I,
    ledger: Ledger,
}

/// Decodes a body of server-sent events.
pub type SseDecoder<I> = Decoder<SseFramer, I>;

/// Decodes a body of JSON lines.
pub type NdjsonDecoder<I> = Decoder<NdjsonFramer, I>;

/// Decodes a body of server-sent events or of JSON values.
pub type SseOrJsonDecoder<I> = Decoder<SseOrJsonFramer, I>;

impl<F: Framer, I: Interpret> Decoder<F, I> {
    /// A decoder for one body.
    pub fn new(rules: Rules, limits: Limits, interpreter: I) -> Self {
        let hot = HotFrames::new(I::PASSED_OVER);
        Self { framer: F::new(limits.frame_bytes), hot, interpreter, ledger: Ledger::new(rules, limits) }
    }

    fn run(&mut self, bytes: &[u8]) {
        let Self { framer, hot, interpreter, ledger } = self;
        framer.push(bytes);
        while !ledger.is_over() {
            if let Some((known, length)) = hot.recognise_ahead(framer.ahead())
                && interpreter.hot(known, ledger)
            {
                framer.skip(length);
                continue;
            }
            match framer.next_frame() {
                Some(frame) => take(frame, hot, interpreter, ledger),
                None => return,
            }
        }
    }

    fn finish(&mut self, end: End) {
        let Self { framer, hot, interpreter, ledger } = self;
        // A torn last frame counts only if nothing of it can be missing.
        if let Some(frame) = framer.finish()
            && frame.as_ref().is_ok_and(|frame| frame.data == "[DONE]" || is_json(frame.data))
        {
            take(frame, hot, interpreter, ledger);
        }
        if ledger.is_over() {
            return;
        }
        let end = match end {
            End::Closed if framer.is_torn() => {
                End::Broken(Error::new(ErrorKind::Truncated, "the body ended in the middle of its JSON"))
            }
            end => end,
        };
        let Some(body) = framer.foreign() else {
            if ledger.finishes_at(&end) {
                interpreter.body_ended(ledger);
                return ledger.turn_ended();
            }
            return ledger.body_ended(end);
        };
        let error = match (ErrorEnvelope::parse(body), end) {
            (Some(envelope), _) => interpreter.error_body(envelope),
            (None, End::Broken(error)) => error,
            (None, End::Closed) if body.starts_with(&[0x1f, 0x8b]) => {
                Error::new(ErrorKind::NotAStream, "the body is compressed (gzip), which nobody asked for")
            }
            (None, End::Closed) => Error::new(ErrorKind::NotAStream, format!("the body has no {}", F::FRAME)),
        };
        ledger.fail(error.with_body(body));
    }
}

impl<F: Framer, I: Interpret> Decode for Decoder<F, I> {
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
        self.ledger.is_settled() && !self.framer.is_torn()
    }
}

impl fmt::Display for BadFrame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the frame `{}` does not have the form that it should have", self.name)
    }
}

fn take<I: Interpret>(
    frame: Result<Frame<'_>, FrameError>,
    hot: &mut HotFrames<I::Hot>,
    interpreter: &mut I,
    ledger: &mut Ledger,
) {
    match frame {
        Ok(frame) => {
            if let Err(bad) = hot.interpret(frame, interpreter, ledger) {
                let error = Error::new(ErrorKind::Malformed, bad.to_string());
                ledger.fail(error.with_body(frame.data.as_bytes()).with_source(bad.problem));
            }
        }
        Err(FrameError::TooLarge { limit, seen }) => ledger.limit_exceeded("frame_bytes", limit, seen),
        Err(error @ FrameError::Damaged { .. }) => {
            ledger.fail(Error::new(ErrorKind::Malformed, error.to_string()));
        }
        Err(FrameError::NotUtf8 { valid_up_to, start }) => {
            let message = format!("a frame is not UTF-8 after its first {valid_up_to} bytes");
            ledger.fail(Error::new(ErrorKind::Malformed, message).with_body(start.as_bytes()));
        }
    }
}

#[cfg(test)]
mod tests;
