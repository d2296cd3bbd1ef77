//! The three ways in which a body is read: decoded, looked at for an error, or drained.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_core::Stream;
use tokio::time::Instant;
use turnstream_core::{Decode, End, Events};

use crate::{
    client::Settings,
    failure,
    timer::{Expired, Timer},
};

/// How much of the body of a refusal is read.
const REFUSAL_BYTES: usize = 64 << 10;
/// How long the body of a refusal is waited for. What has come by then is enough for the error.
const REFUSAL_WAIT: Duration = Duration::from_secs(10);
/// How much is read after the end of a turn so that its connection can be reused.
const DRAIN_BYTES: usize = 64 << 10;
/// How long is waited after the end of a turn so that its connection can be reused.
const DRAIN_WAIT: Duration = Duration::from_millis(200);
/// How many times the grace a reply may take that is not silent and does not end.
const GRACES: u32 = 10;

type Body = Pin<Box<dyn Stream<Item = Result<Bytes, reqwest::Error>> + Send>>;

/// A reply that is decoded.
pub(super) struct Reading {
    /// `None` once it has ended, in whatever way.
    body: Option<Body>,
    decoder: Box<dyn Decode>,
    /// What the timer stands for, if it is armed.
    wait: Option<Wait>,
    /// When a turn whose reason is known is finished in any case.
    grace_ends: Option<Instant>,
    /// The first byte of the body that is not blank.
    first_byte: Option<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// For the next bytes of the turn.
    Idle,
    /// For the last marker, with the reason known.
    Grace,
}

/// A reply whose status says no.
pub(super) struct Refused {
    body: Body,
    start: Vec<u8>,
}

/// The rest of a body after the end of the turn.
pub(super) struct Draining {
    body: Body,
    bytes_left: usize,
    is_armed: bool,
}

impl Reading {
    pub(super) fn new(response: reqwest::Response, decoder: Box<dyn Decode>) -> Self {
        let body: Body = Box::pin(response.bytes_stream());
        Self { body: Some(body), decoder, wait: None, grace_ends: None, first_byte: None }
    }

    /// Reads and decodes the next piece. `None` if the body had ended before.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        settings: &Settings,
        timer: &mut Timer,
        events: &mut Events,
    ) -> Poll<Option<()>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        if timer.is_total_over() {
            self.end(End::Broken(failure::total_timeout(settings.total_timeout)), events);
            return Poll::Ready(Some(()));
        }
        match body.as_mut().poll_next(context) {
            Poll::Ready(Some(Ok(chunk))) => self.feed(&chunk, settings, events),
            Poll::Ready(Some(Err(error))) => self.end(End::Broken(failure::of_body(error)), events),
            Poll::Ready(None) => self.end(End::Closed, events),
            Poll::Pending => {
                let wait = self.arm(settings, timer);
                let end = match (std::task::ready!(timer.poll(context)), wait) {
                    (_, Wait::Grace) => End::Closed,
                    (Expired::Armed, Wait::Idle) => {
                        End::Broken(failure::idle_timeout(settings.idle_timeout, settings.pings_count))
                    }
                    (Expired::Total, Wait::Idle) => {
                        End::Broken(failure::total_timeout(settings.total_timeout))
                    }
                };
                self.end(end, events);
            }
        }
        Poll::Ready(Some(()))
    }

    /// Whether the body began as a JSON document does, and not as a stream.
    pub(super) fn is_document(&self) -> bool {
        matches!(self.first_byte, Some(b'{' | b'['))
    }

    /// What is left of the body, if it has not ended.
    pub(super) fn into_rest(self) -> Option<Draining> {
        Some(Draining { body: self.body?, bytes_left: DRAIN_BYTES, is_armed: false })
    }

    fn feed(&mut self, chunk: &[u8], settings: &Settings, events: &mut Events) {
        if self.first_byte.is_none() {
            self.first_byte = chunk.iter().copied().find(|byte| !byte.is_ascii_whitespace());
        }
        self.decoder.feed(chunk, events);
        if settings.pings_count || !events.is_empty() {
            self.wait = None;
        }
        if self.grace_ends.is_some_and(|ends| Instant::now() >= ends) && events.is_empty() {
            self.end(End::Closed, events);
        }
    }

    /// Arms the timer for what is waited for. The time begins with the waiting, not with the last bytes: the
    /// caller may have been slow.
    fn arm(&mut self, settings: &Settings, timer: &mut Timer) -> Wait {
        let (wait, time) = if self.decoder.is_settled() {
            let grace = settings.end_grace;
            let now = Instant::now();
            let ends = *self.grace_ends.get_or_insert_with(|| {
                now.checked_add(grace.saturating_mul(GRACES))
                    .unwrap_or_else(|| now + Duration::from_secs(3600))
            });
            (Wait::Grace, Some(grace.min(ends.saturating_duration_since(now))))
        } else {
            self.grace_ends = None;
            (Wait::Idle, settings.idle_timeout)
        };
        if self.wait != Some(wait) {
            timer.arm(time);
            self.wait = Some(wait);
        }
        wait
    }

    /// Ends the body. One that has not ended by itself closes its connection.
    fn end(&mut self, end: End, events: &mut Events) {
        self.body = None;
        self.decoder.end(end, events);
    }
}

impl Refused {
    pub(super) fn new(response: reqwest::Response, settings: &Settings, timer: &mut Timer) -> Self {
        let idle_timeout = settings.idle_timeout;
        timer.arm(Some(idle_timeout.map_or(REFUSAL_WAIT, |idle| idle.min(REFUSAL_WAIT))));
        Self { body: Box::pin(response.bytes_stream()), start: Vec::new() }
    }

    /// Reads the start of the body, up to a limit, a time, or the end, whichever comes first.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, timer: &mut Timer) -> Poll<Vec<u8>> {
        loop {
            match self.body.as_mut().poll_next(context) {
                Poll::Ready(Some(Ok(chunk))) => {
                    let room = REFUSAL_BYTES - self.start.len();
                    self.start.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
                    if self.start.len() < REFUSAL_BYTES {
                        continue;
                    }
                }
                // What has come is enough for an error.
                Poll::Ready(None | Some(Err(_))) => {}
                Poll::Pending => drop(std::task::ready!(timer.poll(context))),
            }
            return Poll::Ready(mem::take(&mut self.start));
        }
    }
}

impl Draining {
    /// Reads the rest, up to a limit, a time, or the end, whichever comes first.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, timer: &mut Timer) -> Poll<()> {
        loop {
            match self.body.as_mut().poll_next(context) {
                Poll::Ready(Some(Ok(chunk))) if chunk.len() < self.bytes_left => {
                    self.bytes_left -= chunk.len();
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => {
                    // Mostly the end came with the last chunk, and then there is nothing to wait for.
                    if !mem::replace(&mut self.is_armed, true) {
                        timer.arm(Some(DRAIN_WAIT));
                    }
                    return timer.poll(context).map(drop);
                }
            }
        }
    }
}
