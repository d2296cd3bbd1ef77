//! [`Model`], what can be asked for a turn, and [`TurnStream`], the turn as it comes.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_core::Stream;
use http::HeaderMap;

use crate::{
    envelope,
    error::Error,
    event::Event,
    request::{Request, Warning},
    text::Text,
    turn::{Turn, TurnBuilder, TurnError},
};

/// Something that can be asked for a turn: a client, a fallback over several, a script in a test.
///
/// It is object safe, so `Arc<dyn Model>` and fakes are one kind of thing.
pub trait Model: Send + Sync {
    /// Asks for a turn. Not async: the request is encoded now, and the first poll sends it. A request that
    /// cannot be encoded gives a stream of one error.
    fn stream(&self, request: &Request) -> TurnStream;

    /// The model's name, as the provider knows it.
    fn name(&self) -> &str;

    /// The provider, in OpenTelemetry's word for it, for example `anthropic`. `None` where nobody knows, which is
    /// the default.
    fn provider(&self) -> Option<&str> {
        None
    }
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn stream(&self, request: &Request) -> TurnStream {
        (**self).stream(request)
    }

    fn name(&self) -> &str {
        (**self).name()
    }

    fn provider(&self) -> Option<&str> {
        (**self).provider()
    }
}

impl<M: Model + ?Sized> Model for Box<M> {
    fn stream(&self, request: &Request) -> TurnStream {
        (**self).stream(request)
    }

    fn name(&self) -> &str {
        (**self).name()
    }

    fn provider(&self) -> Option<&str> {
        (**self).provider()
    }
}

/// Where a [`TurnStream`]'s events come from.
pub trait TurnSource: Stream<Item = Result<Event, Error>> + Send {
    /// The head of the reply, once it has come.
    fn head(&self) -> Option<&Head> {
        None
    }

    /// Settings of the request that the wire had no word for.
    fn warnings(&self) -> &[Warning] {
        &[]
    }

    /// How many requests have been sent for this turn. None by default.
    fn attempts(&self) -> u32 {
        0
    }
}

/// The head of a reply: status and headers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Head {
    /// The HTTP status.
    pub status: u16,
    /// The headers, as they came. Those that echo a secret of the request are marked sensitive: `Debug` does not
    /// show them.
    pub headers: HeaderMap,
    /// How many requests were sent for this turn: 1, and one more for each retry.
    pub attempts: u32,
}

impl Head {
    /// A head that came with the given attempt, counted from 1.
    pub fn new(status: u16, headers: HeaderMap, attempts: u32) -> Self {
        Self { status, headers, attempts }
    }

    /// The provider's id of the request.
    pub fn request_id(&self) -> Option<&str> {
        envelope::request_id(&self.headers)
    }

    /// How long the provider asks to wait, as far as it says so in a number: `retry-after-ms`, else
    /// `retry-after` in seconds. An HTTP date needs a clock.
    pub fn retry_after(&self) -> Option<Duration> {
        envelope::retry_after(&self.headers)
    }

    /// What the provider says of its rate limits: the headers whose name holds `ratelimit`, as they came.
    pub fn rate_limits(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers
            .iter()
            .filter(|(name, _)| name.as_str().contains("ratelimit"))
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
    }
}

/// One turn as it comes: a stream of events that ends after exactly one
/// [`TurnFinished`](crate::TurnFinished) or one error.
///
/// No task stands behind it: what is not polled is not read. Dropping it closes the connection.
pub struct TurnStream {
    source: Pin<Box<dyn TurnSource>>,
    is_over: bool,
    is_done: bool,
}

impl TurnStream {
    /// A turn whose events come from `source`.
    pub fn new(source: impl TurnSource + 'static) -> Self {
        Self { source: Box::pin(source), is_over: false, is_done: false }
    }

    /// A turn that fails at once.
    pub fn failed(error: Error) -> Self {
        Self::from_events([Err(error)])
    }

    /// A turn whose events are known.
    pub fn from_events<I>(events: I) -> Self
    where
        I: IntoIterator<Item = Result<Event, Error>>,
        I::IntoIter: Send + 'static,
    {
        Self::new(Known(events.into_iter()))
    }

    /// The next event, or `None` after the end.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Only the answer's text, piece by piece. Reasoning, refusals and arguments are not text.
    pub fn text(self) -> TextStream {
        TextStream { turn: self }
    }

    /// The head of the reply, once it has come.
    pub fn head(&self) -> Option<&Head> {
        self.source.head()
    }

    /// Settings of the request that the wire had no word for.
    pub fn warnings(&self) -> &[Warning] {
        self.source.warnings()
    }

    /// How many requests have been sent for this turn so far: 1, and one more for each retry. 0 before the
    /// first poll, and for turns that do not come over HTTP.
    pub fn attempts(&self) -> u32 {
        self.source.attempts()
    }

    /// Reads the turn to its end and puts it together.
    ///
    /// # Errors
    ///
    /// The error in which the turn ended, with the turn as far as it came.
    pub async fn into_turn(mut self) -> Result<Turn, TurnError> {
        let mut turn = TurnBuilder::new();
        while let Some(event) = self.next().await {
            match event {
                Ok(event) => turn.push(&event),
                Err(error) => return Err(TurnError::new(error, turn.build())),
            }
        }
        Ok(turn.build())
    }
}

impl Stream for TurnStream {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_done {
            return Poll::Ready(None);
        }
        loop {
            match self.source.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(_)) if self.is_over => {}
                Poll::Ready(Some(event)) => {
                    self.is_over = matches!(event, Ok(Event::TurnFinished(_)) | Err(_));
                    return Poll::Ready(Some(event));
                }
                Poll::Ready(None) => {
                    self.is_done = true;
                    return Poll::Ready(None);
                }
            }
        }
    }
}

impl fmt::Debug for TurnStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TurnStream")
            .field("head", &self.head())
            .field("is_over", &self.is_over)
            .finish()
    }
}

/// See [`TurnStream::text`].
#[derive(Debug)]
pub struct TextStream {
    turn: TurnStream,
}

impl TextStream {
    /// The next piece of text, or `None` after the end.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Text, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for TextStream {
    type Item = Result<Text, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match std::task::ready!(Pin::new(&mut self.turn).poll_next(context)) {
                Some(Ok(Event::TextDelta(delta))) => return Poll::Ready(Some(Ok(delta.text))),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// Events that are known already, as a source.
struct Known<I>(I);

// Nothing is pinned inside: the iterator is only ever asked for its next item.
impl<I> Unpin for Known<I> {}

impl<I: Iterator<Item = Result<Event, Error>> + Send> Stream for Known<I> {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next())
    }
}

impl<I: Iterator<Item = Result<Event, Error>> + Send> TurnSource for Known<I> {}
