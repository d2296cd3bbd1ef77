//! A wire as the kit needs it: how replies are spelled, how requests are read.

use std::fmt::Debug;

use serde_json::Value;

use crate::{
    anthropic::Messages,
    bedrock::Converse,
    cohere,
    gate::Gate,
    gemini::Responses as GeminiResponses,
    ollama::Chat,
    openai_chat::Completions,
    openai_responses::Responses,
    plan::{Piece, Plan},
    sent::SentRequest,
};

/// A wire whose replies the kit can build. Its values do not exist: it stands for the wire in types, as in
/// [`OverHttp`](crate::OverHttp) and [`Script`](crate::Script).
///
/// Sealed: all wires are in this crate.
#[allow(private_bounds, reason = "this is how it is sealed")]
pub trait HttpWire: Spelling + Debug + Clone + Send + Sync + 'static {}

impl<W: Spelling + Debug + Clone + Send + Sync + 'static> HttpWire for W {}

/// One wire's spelling. To add a wire: a module with a type that implements this, an alias `Reply`, a
/// constructor of `Script`, and a line in [`READERS`].
pub(crate) trait Spelling {
    /// How the path of its requests ends, whatever is before it.
    const PATH_END: &'static str;

    /// The type of the body of a reply.
    const CONTENT_TYPE: &'static str = "text/event-stream";

    /// The header that carries the provider's id of the request.
    const REQUEST_ID_HEADER: &'static str = "x-request-id";

    /// The frames of a reply.
    fn render(plan: &Plan) -> Vec<Piece>;

    /// The body of a reply whose status is an error.
    fn refusal(code: &str, message: &str) -> String;

    /// What a request to this path says; the path is empty where it is not known. Whatever is not understood
    /// is left out.
    fn read(path: &str, body: &Value) -> SentRequest;
}

/// What finds a wire by the path of a request.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    pub(crate) path_end: &'static str,
    pub(crate) read: fn(&str, &Value) -> SentRequest,
}

/// Every wire.
pub(crate) static READERS: [Reader; 7] = [
    Reader::of::<Messages>(),
    Reader::of::<cohere::Chat>(),
    Reader::of::<Chat>(),
    Reader::of::<Converse>(),
    Reader::of::<Completions>(),
    Reader::of::<Responses>(),
    Reader::of::<GeminiResponses>(),
];

impl Reader {
    const fn of<W: Spelling>() -> Self {
        Self { path_end: W::PATH_END, read: W::read }
    }
}

/// The frames of a body, as they are written.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pieces: Vec<Piece>,
}

impl Frames {
    /// A server-sent event with a name.
    pub(crate) fn named(&mut self, event: &str, data: &str) {
        self.raw(format!("event: {event}\ndata: {data}\n\n").as_bytes());
    }

    /// A server-sent event without one.
    pub(crate) fn unnamed(&mut self, data: &str) {
        self.raw(format!("data: {data}\n\n").as_bytes());
    }

    /// A server-sent event, with a name if there is one.
    pub(crate) fn event(&mut self, event: &str, data: &str) {
        match event {
            "" => self.unnamed(data),
            event => self.named(event, data),
        }
    }

    /// A JSON line.
    pub(crate) fn line(&mut self, data: &str) {
        self.raw(format!("{data}\n").as_bytes());
    }

    /// A comment among server-sent events.
    pub(crate) fn comment(&mut self) {
        self.raw(b": keep-alive\n\n");
    }

    /// One chunk of these bytes.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.pieces.push(Piece::Bytes(bytes.to_vec()));
    }

    pub(crate) fn gate(&mut self, gate: &Gate) {
        self.pieces.push(Piece::Gate(gate.clone()));
    }

    pub(crate) fn into_pieces(self) -> Vec<Piece> {
        self.pieces
    }
}
