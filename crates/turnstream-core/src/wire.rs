//! What a wire is: three pure functions. And the decoder's side of the contract.

use std::{collections::VecDeque, fmt, sync::Arc};

use crate::{endpoint::WireRequest, error::Error, event::Event, request::Request};

/// One provider's request and stream format. It does no IO: anyone with a transport of their own can use
/// it alone.
pub trait Wire: Send + Sync + 'static {
    /// The wire's name, for example `anthropic-messages`.
    fn name(&self) -> &'static str;

    /// The model that it asks.
    fn model(&self) -> &str;

    /// Writes the HTTP request for one turn.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) when the wire cannot express a setting that changes
    /// the meaning, or the address or the key cannot be used.
    fn encode(&self, request: &Request) -> Result<WireRequest, Error>;

    /// A decoder for the body of one reply with status 200.
    fn decoder(&self) -> Box<dyn Decode>;

    /// What a reply with another status means.
    fn refused(&self, status: u16, headers: &http::HeaderMap, body: &[u8]) -> Error;

    /// Another form of a request that was refused, for servers that do not know a field of it. Asked at most
    /// once a turn, with the status and the words of the refusal in `error`. None by default: what was refused
    /// stays refused.
    fn other_form(&self, request: &WireRequest, error: &Error) -> Option<WireRequest> {
        let _ = (request, error);
        None
    }

    /// Told of each attempt as it was sent, with credentials that were found out for it, before its reply is
    /// read. Nothing by default; for wires that wrap another and keep what passes.
    fn sent(&self, request: &WireRequest) {
        let _ = request;
    }
}

impl<W: Wire + ?Sized> Wire for Arc<W> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn model(&self) -> &str {
        (**self).model()
    }

    fn encode(&self, request: &Request) -> Result<WireRequest, Error> {
        (**self).encode(request)
    }

    fn decoder(&self) -> Box<dyn Decode> {
        (**self).decoder()
    }

    fn refused(&self, status: u16, headers: &http::HeaderMap, body: &[u8]) -> Error {
        (**self).refused(status, headers, body)
    }

    fn other_form(&self, request: &WireRequest, error: &Error) -> Option<WireRequest> {
        (**self).other_form(request, error)
    }

    fn sent(&self, request: &WireRequest) {
        (**self).sent(request);
    }
}

/// Turns the body of one reply into events, however the bytes are cut.
///
/// After a [`TurnFinished`](crate::TurnFinished) or an error nothing more comes out, whatever is fed.
pub trait Decode: Send {
    /// Takes the next bytes of the body.
    fn feed(&mut self, bytes: &[u8], events: &mut Events);

    /// Takes the end of the body. Exactly one `TurnFinished` or one error has come out afterwards.
    fn end(&mut self, end: End, events: &mut Events);

    /// Whether the wire has given its reason and only its last marker is missing. A transport that hears
    /// nothing more may then call [`end`](Self::end) after a short grace.
    fn is_settled(&self) -> bool;
}

/// How a body ended.
#[derive(Debug)]
pub enum End {
    /// As the transport promised: its length, or its last chunk.
    Closed,
    /// In the middle: a reset, a timeout. The error says which.
    Broken(Error),
}

/// A queue of decoded events, oldest first.
#[derive(Default)]
pub struct Events {
    queue: VecDeque<Result<Event, Error>>,
}

impl Events {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the oldest.
    pub fn pop(&mut self) -> Option<Result<Event, Error>> {
        self.queue.pop_front()
    }

    /// Looks at the oldest.
    pub fn peek(&self) -> Option<&Result<Event, Error>> {
        self.queue.front()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Puts one at the end. Only the ledger, and decoders that need none, have reason to.
    pub fn push(&mut self, event: Result<Event, Error>) {
        self.queue.push_back(event);
    }
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pop()
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(&self.queue).finish()
    }
}

/// How much of a reply is taken before it is an error. Every limit can be set; each error names the limit
/// and how far the reply went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one frame. 32 MiB by default.
    pub frame_bytes: usize,
    /// Bytes of one call's arguments. 16 MiB by default.
    pub argument_bytes: usize,
    /// Bytes of text, reasoning and refusals of a turn together. 64 MiB by default.
    pub text_bytes: usize,
    /// Calls of one turn. 1,024 by default.
    pub calls: usize,
    /// Parts of one turn, calls among them. 16,384 by default.
    pub parts: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 32 << 20,
            argument_bytes: 16 << 20,
            text_bytes: 64 << 20,
            calls: 1024,
            parts: 16_384,
        }
    }
}

impl Limits {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the most bytes of one frame.
    pub fn frame_bytes(self, frame_bytes: usize) -> Self {
        Self { frame_bytes, ..self }
    }

    /// Sets the most bytes of one call's arguments.
    pub fn argument_bytes(self, argument_bytes: usize) -> Self {
        Self { argument_bytes, ..self }
    }

    /// Sets the most bytes of text of a turn.
    pub fn text_bytes(self, text_bytes: usize) -> Self {
        Self { text_bytes, ..self }
    }

    /// Sets the most calls of a turn.
    pub fn calls(self, calls: usize) -> Self {
        Self { calls, ..self }
    }

    /// Sets the most parts of a turn.
    pub fn parts(self, parts: usize) -> Self {
        Self { parts, ..self }
    }
}
