//! One turn over HTTP: a state machine that is only moved by being polled.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_core::Stream;
use turnstream_core::{Decode, End, Error, ErrorKind, Event, Events, Head, TurnSource, Warning, WireRequest};

use crate::{
    authorize::Attempt,
    client::{Client, Sending, Sent},
    failure,
    retry::retry_after,
    secrets,
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
/// How many events are held back before output. With more of them the turn is on its way, and is not
/// retried any more.
const HELD_EVENTS: usize = 64;

type Body = Pin<Box<dyn Stream<Item = Result<Bytes, reqwest::Error>> + Send>>;

/// The source of a [`TurnStream`](turnstream_core::TurnStream) over HTTP.
///
/// Dropping it in any state drops the request or the body, and with it the connection.
pub(crate) struct HttpTurn {
    client: Client,
    request: WireRequest,
    state: State,
    timer: Timer,
    attempts: u32,
    /// What was sent last, as far as it is known.
    sent: Option<Attempt>,
    /// Whether the credentials were renewed after a refusal: once a turn is enough.
    is_renewed: bool,
    head: Option<Head>,
    /// Decoded and not yet looked at. The socket is read only when it is empty.
    events: Events,
    /// Looked at, and held back until output follows.
    held: Events,
    /// Whether something has been handed out: the turn cannot be asked again.
    is_released: bool,
    /// The first byte of the body that is not blank.
    first_byte: Option<u8>,
}

enum State {
    Unsent,
    Sending(Sending),
    Refused(Refused),
    Reading(Reading),
    /// For the next attempt.
    Waiting,
    Draining(Draining),
    Done,
}

/// A reply whose status says no.
struct Refused {
    body: Body,
    start: Vec<u8>,
}

/// A reply that is decoded.
struct Reading {
    /// `None` once it has ended, in whatever way.
    body: Option<Body>,
    decoder: Box<dyn Decode>,
    /// What the timer stands for, if it is armed.
    wait: Option<Wait>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// For the next bytes of the turn.
    Idle,
    /// For the last marker, with the reason known.
    Grace,
}

/// The rest of a body after the end of the turn.
struct Draining {
    body: Body,
    bytes_left: usize,
    is_armed: bool,
}

impl HttpTurn {
    pub(crate) fn new(client: Client, request: WireRequest) -> Self {
        Self {
            client,
            request,
            state: State::Unsent,
            timer: Timer::default(),
            attempts: 0,
            sent: None,
            is_renewed: false,
            head: None,
            events: Events::new(),
            held: Events::new(),
            is_released: false,
            first_byte: None,
        }
    }

    /// Takes the next item for the caller from what has been decoded.
    fn next_item(&mut self) -> Option<Result<Event, Error>> {
        let item = match self.is_released {
            true => self.held.pop().or_else(|| self.next_decoded()),
            false => self.release(),
        }?;
        match &item {
            Ok(Event::TurnFinished(_)) => {
                self.events = Events::new();
                self.state = match mem::replace(&mut self.state, State::Done) {
                    State::Reading(Reading { body: Some(body), .. }) => {
                        State::Draining(Draining { body, bytes_left: DRAIN_BYTES, is_armed: false })
                    }
                    _ => State::Done,
                };
            }
            Ok(_) => {}
            Err(_) => {
                self.events = Events::new();
                self.state = State::Done;
            }
        }
        Some(item)
    }

    /// Holds events back until output follows, and asks again if an error follows instead.
    fn release(&mut self) -> Option<Result<Event, Error>> {
        loop {
            let item = self.next_decoded()?;
            let is_held = matches!(item, Ok(Event::TurnStarted(_) | Event::Provider(_)));
            if is_held && self.held.len() < HELD_EVENTS {
                self.held.push(item);
                continue;
            }
            if let Err(error) = &item
                && let Some(wait) = self.wait_after(error)
                && self.timer.has_room_for(wait)
            {
                self.wait(wait, error);
                return None;
            }
            self.is_released = true;
            self.held.push(item);
            return self.held.pop();
        }
    }

    /// How long to wait before the turn is asked again, if it is.
    fn wait_after(&mut self, error: &Error) -> Option<Duration> {
        let retries = &self.client.settings.retries;
        if let Some(wait) = retries.decide(self.attempts, error) {
            return Some(wait);
        }
        let is_refused = matches!(error.kind(), ErrorKind::Authentication | ErrorKind::PermissionDenied);
        if !is_refused || self.is_renewed || self.head.is_none() || !retries.allows(self.attempts) {
            return None;
        }
        let (authorize, sent) = (self.client.authorize.as_ref()?, self.sent.as_ref()?);
        self.is_renewed = authorize.renew(sent, error);
        self.is_renewed.then_some(Duration::ZERO)
    }

    fn next_decoded(&mut self) -> Option<Result<Event, Error>> {
        Some(self.events.pop()?.map_err(|error| self.annotate(error)))
    }

    /// Adds what only the head of the reply says to an error, and takes out what only the request may say.
    fn annotate(&self, error: Error) -> Error {
        let headers = self.sent.as_ref().map_or(&self.request.headers, Attempt::headers);
        let secrets = secrets::of(headers, &self.request.url);
        let mut error = error.redacted(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
        let Some(head) = &self.head else { return error };
        if error.request_id().is_none()
            && let Some(request_id) = head.request_id()
        {
            error = error.with_request_id(request_id);
        }
        if error.retry_after().is_none()
            && let Some(wait) = retry_after(head, SystemTime::now())
        {
            error = error.with_retry_after(wait);
        }
        // An error inside a stream has no status. One that stands there instead of a stream has.
        let stands_alone = match error.kind() {
            ErrorKind::NotAStream => true,
            ErrorKind::Provider => matches!(self.first_byte, Some(b'{' | b'[')),
            _ => false,
        };
        if error.status().is_none() && stands_alone {
            error = error.with_status(head.status);
        }
        error
    }

    /// Moves on by one step. Called only when nothing decoded is left.
    fn advance(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            State::Unsent => self.start(),
            State::Sending(sending) => match sending.as_mut().poll(context) {
                Poll::Ready(Sent { attempt, response }) => {
                    self.sent = Some(attempt);
                    match response {
                        Ok(response) => self.take_head(response),
                        Err(error) => self.fail(error),
                    }
                }
                Poll::Pending => {
                    let expired = ready!(self.timer.poll(context));
                    let settings = &self.client.settings;
                    self.fail(match expired {
                        Expired::Armed => failure::first_byte_timeout(settings.first_byte_timeout),
                        Expired::Total => failure::total_timeout(settings.total_timeout),
                    });
                }
            },
            State::Refused(refused) => {
                match refused.body.as_mut().poll_next(context) {
                    Poll::Ready(Some(Ok(chunk))) => {
                        let room = REFUSAL_BYTES - refused.start.len();
                        refused.start.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
                        if refused.start.len() < REFUSAL_BYTES {
                            return Poll::Ready(());
                        }
                    }
                    // What has come is enough for an error.
                    Poll::Ready(None | Some(Err(_))) => {}
                    Poll::Pending => drop(ready!(self.timer.poll(context))),
                }
                self.refuse();
            }
            State::Reading(_) => return self.read(context),
            State::Waiting => match ready!(self.timer.poll(context)) {
                Expired::Armed => self.send(),
                Expired::Total => self.fail(failure::total_timeout(self.client.settings.total_timeout)),
            },
            State::Draining(draining) => {
                if !mem::replace(&mut draining.is_armed, true) {
                    self.timer.arm(Some(DRAIN_WAIT));
                }
                match draining.body.as_mut().poll_next(context) {
                    Poll::Ready(Some(Ok(chunk))) if chunk.len() < draining.bytes_left => {
                        draining.bytes_left -= chunk.len();
                        return Poll::Ready(());
                    }
                    Poll::Ready(_) => {}
                    Poll::Pending => drop(ready!(self.timer.poll(context))),
                }
                self.state = State::Done;
            }
            State::Done => {}
        }
        Poll::Ready(())
    }

    fn start(&mut self) {
        if tokio::runtime::Handle::try_current().is_err() {
            return self
                .fail(Error::new(ErrorKind::Config, "a turn over HTTP is polled inside a tokio runtime"));
        }
        self.timer.start(self.client.settings.total_timeout);
        self.send();
    }

    /// Begins the next attempt.
    fn send(&mut self) {
        self.attempts += 1;
        self.head = None;
        self.first_byte = None;
        self.sent = None;
        self.timer.arm(self.client.settings.first_byte_timeout);
        self.state = State::Sending(self.client.send(&self.request, self.attempts));
    }

    fn take_head(&mut self, response: reqwest::Response) {
        let status = response.status().as_u16();
        let head = self.head.insert(Head::new(status, response.headers().clone(), self.attempts));
        let encoding = failure::encoding(&head.headers);
        match (status, encoding) {
            (300..400, _) if status != 304 => {
                let error = failure::redirected(status, &self.request.url, &head.headers);
                self.fail(error);
            }
            (204 | 205, _) => self.fail(failure::no_content(status)),
            (200..300, Some(encoding)) => {
                let error = failure::compressed(encoding);
                self.fail(error);
            }
            (200..300, None) => {
                let body: Body = Box::pin(response.bytes_stream());
                let decoder = self.client.wire.decoder();
                self.state = State::Reading(Reading { body: Some(body), decoder, wait: None });
            }
            // Compressed words are no words.
            (_, Some(_)) => self.refuse(),
            (_, None) => {
                let idle_timeout = self.client.settings.idle_timeout;
                self.timer.arm(Some(idle_timeout.map_or(REFUSAL_WAIT, |idle| idle.min(REFUSAL_WAIT))));
                let body: Body = Box::pin(response.bytes_stream());
                self.state = State::Refused(Refused { body, start: Vec::new() });
            }
        }
    }

    /// Says what a reply with another status means.
    fn refuse(&mut self) {
        let start = match mem::replace(&mut self.state, State::Done) {
            State::Refused(refused) => refused.start,
            _ => Vec::new(),
        };
        let Some(head) = &self.head else { return };
        let error = self.client.wire.refused(head.status, &head.headers, &start);
        let status = error.status().unwrap_or(head.status);
        self.fail(error.with_status(status));
    }

    /// Reads and decodes the next piece of the body.
    fn read(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Self { client, state, timer, events, first_byte, .. } = self;
        let State::Reading(reading) = state else { return Poll::Ready(()) };
        let Some(body) = &mut reading.body else {
            // A decoder that keeps its promise has said so itself.
            self.fail(Error::new(ErrorKind::Truncated, "the body ended, and its decoder said no end"));
            return Poll::Ready(());
        };
        let settings = &client.settings;
        if timer.is_total_over() {
            reading.end(End::Broken(failure::total_timeout(settings.total_timeout)), events);
            return Poll::Ready(());
        }
        match body.as_mut().poll_next(context) {
            Poll::Ready(Some(Ok(chunk))) => {
                if first_byte.is_none() {
                    *first_byte = chunk.iter().copied().find(|byte| !byte.is_ascii_whitespace());
                }
                reading.decoder.feed(&chunk, events);
                // A ping is life as long as the turn goes on. It does not put off the end that is known.
                if reading.wait != Some(Wait::Grace) || !events.is_empty() {
                    reading.wait = None;
                }
            }
            Poll::Ready(Some(Err(error))) => reading.end(End::Broken(failure::of_body(error)), events),
            Poll::Ready(None) => reading.end(End::Closed, events),
            Poll::Pending => {
                let (wait, time) = match reading.decoder.is_settled() {
                    true => (Wait::Grace, Some(settings.end_grace)),
                    false => (Wait::Idle, settings.idle_timeout),
                };
                // The time begins with the waiting, not with the last bytes: the caller may have been slow.
                if reading.wait != Some(wait) {
                    timer.arm(time);
                    reading.wait = Some(wait);
                }
                let end = match (ready!(timer.poll(context)), wait) {
                    (_, Wait::Grace) => End::Closed,
                    (Expired::Armed, Wait::Idle) => End::Broken(failure::idle_timeout(settings.idle_timeout)),
                    (Expired::Total, Wait::Idle) => {
                        End::Broken(failure::total_timeout(settings.total_timeout))
                    }
                };
                reading.end(end, events);
            }
        }
        Poll::Ready(())
    }

    /// Waits for the next attempt and forgets the last one.
    fn wait(&mut self, wait: Duration, error: &Error) {
        tracing::warn!(
            wire = self.client.wire.name(),
            model = self.client.wire.model(),
            attempt = self.attempts,
            kind = error.kind().as_str(),
            status = error.status(),
            code = error.code(),
            request_id = error.request_id(),
            delay_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            "the turn failed before any output and is asked again"
        );
        self.events = Events::new();
        self.held = Events::new();
        self.timer.arm(Some(wait));
        self.state = State::Waiting;
    }

    fn fail(&mut self, error: Error) {
        self.state = State::Done;
        self.events.push(Err(error));
    }
}

impl Stream for HttpTurn {
    type Item = Result<Event, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let turn = self.get_mut();
        loop {
            if let Some(item) = turn.next_item() {
                return Poll::Ready(Some(item));
            }
            if matches!(turn.state, State::Done) {
                return Poll::Ready(None);
            }
            ready!(turn.advance(context));
        }
    }
}

impl TurnSource for HttpTurn {
    fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    fn warnings(&self) -> &[Warning] {
        &self.request.warnings
    }
}

impl Reading {
    /// Ends the body. One that has not ended by itself closes its connection.
    fn end(&mut self, end: End, events: &mut Events) {
        self.body = None;
        self.decoder.end(end, events);
    }
}
