//! One turn over HTTP: a state machine that is only moved by being polled.

mod body;

use std::{
    error::Error as _,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, SystemTime},
};

use futures_core::Stream;
use turnstream_core::{
    Error, ErrorKind, Event, Events, Head, TurnSource, Warning, WireRequest,
    reexports::secrecy::{ExposeSecret, SecretString},
};

use crate::{
    authorize::Attempt,
    client::{Client, Sending, Sent},
    failure,
    retry::retry_after,
    secrets,
    timer::{Expired, Timer},
};
use body::{Draining, Reading, Refused};

/// How many events are held back before output. With more of them the turn is on its way, and is not
/// retried any more.
const HELD_EVENTS: usize = 64;

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
    /// What it carried that nobody else may read.
    secrets: Vec<SecretString>,
    /// Whether the credentials were renewed after a refusal: once a turn is enough.
    is_renewed: bool,
    /// Whether the request was given another form after a refusal: once a turn is enough.
    is_reformed: bool,
    head: Option<Head>,
    /// Decoded and not yet looked at. The socket is read only when it is empty.
    events: Events,
    /// Looked at, and held back until output follows.
    held: Events,
    /// Whether something has been handed out: the turn cannot be asked again.
    is_released: bool,
    /// Whether the body began as a JSON document does, and not as a stream.
    is_document: bool,
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

impl HttpTurn {
    pub(crate) fn new(client: Client, request: WireRequest) -> Self {
        Self {
            client,
            request,
            state: State::Unsent,
            timer: Timer::default(),
            attempts: 0,
            sent: None,
            secrets: Vec::new(),
            is_renewed: false,
            is_reformed: false,
            head: None,
            events: Events::new(),
            held: Events::new(),
            is_released: false,
            is_document: false,
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
                let rest = match mem::replace(&mut self.state, State::Done) {
                    State::Reading(reading) => reading.into_rest(),
                    _ => None,
                };
                self.state = rest.map_or(State::Done, State::Draining);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(
                    wire = self.client.wire.name(),
                    model = self.client.wire.model(),
                    attempts = self.attempts,
                    kind = error.kind().as_str(),
                    status = error.status(),
                    code = error.code(),
                    request_id = error.request_id(),
                    partial = error.partial(),
                    "the turn failed"
                );
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
        // Only a refusal by the provider itself is a reason to ask in another way.
        let is_refused = self.head.as_ref().is_some_and(|head| (400..500).contains(&head.status));
        if !is_refused || !retries.allows(self.attempts) {
            return None;
        }
        self.renew(error).or_else(|| self.reform(error))
    }

    /// Asks for other credentials.
    fn renew(&mut self, error: &Error) -> Option<Duration> {
        let may_help = matches!(error.kind(), ErrorKind::Authentication | ErrorKind::PermissionDenied);
        if !may_help || self.is_renewed {
            return None;
        }
        self.is_renewed = self.client.authorize.as_ref()?.renew(self.sent.as_ref()?, error);
        self.is_renewed.then_some(Duration::ZERO)
    }

    /// Asks the wire for another form of the request.
    fn reform(&mut self, error: &Error) -> Option<Duration> {
        if self.is_reformed {
            return None;
        }
        self.request = self.client.wire.other_form(&self.request, error)?;
        self.is_reformed = true;
        Some(Duration::ZERO)
    }

    fn next_decoded(&mut self) -> Option<Result<Event, Error>> {
        Some(match self.events.pop()? {
            // Raw words of the provider's, which may echo what it was sent.
            Ok(Event::Provider(event)) => Ok(Event::Provider(event.redacted(&self.secrets()))),
            Ok(event) => Ok(event),
            Err(error) => Err(self.annotate(error)),
        })
    }

    fn secrets(&self) -> Vec<&str> {
        self.secrets.iter().map(ExposeSecret::expose_secret).collect()
    }

    /// Adds what only the head of the reply says to an error, and takes out what only the request may say.
    fn annotate(&self, error: Error) -> Error {
        let mut error = error.redacted(&self.secrets());
        let Some(head) = &self.head else { return error };
        if error.request_id().is_none()
            && let Some(request_id) = head.request_id()
        {
            error = error.with_request_id(request_id).redacted(&self.secrets());
        }
        if error.retry_after().is_none()
            && let Some(wait) = retry_after(head, SystemTime::now())
        {
            error = error.with_retry_after(wait);
        }
        // An error inside a stream has no status. One that stands there instead of a stream has.
        let stands_alone = match error.kind() {
            ErrorKind::NotAStream => true,
            // A stream of JSON begins as a document does. Then something came before the error.
            ErrorKind::Provider => self.is_document && !self.is_released && self.held.is_empty(),
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
                    self.secrets = attempt.request().secrets();
                    self.secrets.extend(self.client.connections.secrets());
                    self.client.wire.sent(attempt.request());
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
                let start = ready!(refused.poll(context, &mut self.timer));
                self.refuse(&start);
            }
            State::Reading(reading) => {
                let Self { client, timer, events, .. } = self;
                if ready!(reading.poll(context, &client.settings, timer, events)).is_none() {
                    // A decoder that keeps its promise has said so itself.
                    let error =
                        Error::new(ErrorKind::Truncated, "the body ended, and its decoder said no end");
                    self.fail(error);
                } else {
                    self.is_document = reading.is_document();
                }
            }
            State::Waiting => match ready!(self.timer.poll(context)) {
                Expired::Armed => self.send(),
                Expired::Total => self.fail(failure::total_timeout(self.client.settings.total_timeout)),
            },
            State::Draining(draining) => {
                ready!(draining.poll(context, &mut self.timer));
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
        let settings = &self.client.settings;
        let none = Some(Duration::ZERO);
        // Timers do not go off where the reply is there already, and a time that is up is up.
        let is_late = match (settings.total_timeout, settings.first_byte_timeout) {
            (total, _) if total == none => Some(failure::total_timeout(total)),
            (_, first_byte) if first_byte == none => Some(failure::first_byte_timeout(first_byte)),
            _ => None,
        };
        if let Some(error) = is_late {
            // Another attempt would have no time either.
            self.is_released = true;
            return self.fail(error);
        }
        self.timer.start(settings.total_timeout);
        self.send();
    }

    /// Begins the next attempt.
    fn send(&mut self) {
        self.attempts += 1;
        tracing::debug!(
            wire = self.client.wire.name(),
            model = self.client.wire.model(),
            attempt = self.attempts,
            body_bytes = self.request.body.len(),
            "a request is sent"
        );
        self.head = None;
        self.is_document = false;
        self.sent = None;
        self.timer.arm(self.client.settings.first_byte_timeout);
        self.state = State::Sending(self.client.send(&self.request, self.attempts));
    }

    fn take_head(&mut self, mut response: reqwest::Response) {
        let status = response.status().as_u16();
        let mut headers = mem::take(response.headers_mut());
        secrets::hide(&mut headers, &self.secrets);
        let head = self.head.insert(Head::new(status, headers, self.attempts));
        tracing::debug!(
            wire = self.client.wire.name(),
            model = self.client.wire.model(),
            attempt = self.attempts,
            status,
            "the head of the reply has come"
        );
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
                self.state = State::Reading(Reading::new(response, self.client.wire.decoder()));
            }
            // Compressed words are no words.
            (_, Some(_)) => self.refuse(b""),
            (_, None) => {
                let refused = Refused::new(response, &self.client.settings, &mut self.timer);
                self.state = State::Refused(refused);
            }
        }
    }

    /// Says what a reply with another status means.
    fn refuse(&mut self, start: &[u8]) {
        let Some(head) = &self.head else { return };
        let mut error = self.client.wire.refused(head.status, &head.headers, start);
        let status = error.status().unwrap_or(head.status);
        if error.kind() == ErrorKind::NotFound && error.source().is_none() {
            // Most often the base URL is wrong, and the provider's words do not show how.
            error = error.with_source(format!("nothing is known at {}", self.request.masked_url()));
        }
        self.fail(error.with_status(status));
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

fn is_piece(item: &Result<Event, Error>) -> bool {
    matches!(item, Ok(Event::TextDelta(_) | Event::ReasoningDelta(_) | Event::CallArgumentFragment(_)))
}

impl Stream for HttpTurn {
    type Item = Result<Event, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let turn = self.get_mut();
        loop {
            // Nearly all events are pieces, and pieces go straight through.
            if turn.is_released && turn.held.is_empty() && turn.events.peek().is_some_and(is_piece) {
                return Poll::Ready(turn.events.pop());
            }
            let has_items = !(turn.events.is_empty() && turn.held.is_empty());
            if has_items && let Some(item) = turn.next_item() {
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

    fn attempts(&self) -> u32 {
        self.attempts
    }
}
