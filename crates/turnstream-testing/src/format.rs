//! A wire as the kit needs it: how replies are spelled, how requests are read.

use crate::{
    anthropic,
    gate::Gate,
    openai_chat, openai_responses,
    plan::{Piece, Plan},
    sent::SentRequest,
};

/// One wire's spelling.
pub(crate) trait Format: std::fmt::Debug + Sync {
    /// How the path of its requests ends.
    fn path_end(&self) -> &'static str;

    /// The type of the body of a reply.
    fn content_type(&self) -> &'static str;

    /// The header that carries the provider's id of the request.
    fn request_id_header(&self) -> &'static str;

    /// The frames of a reply.
    fn render(&self, plan: &Plan) -> Vec<Piece>;

    /// The body of a reply whose status is an error.
    fn refusal(&self, code: &str, message: &str) -> String;

    /// What a request says. Whatever is not understood is left out.
    fn read(&self, body: &serde_json::Value) -> SentRequest;
}

/// Every wire.
pub(crate) static FORMATS: [&dyn Format; 3] =
    [&anthropic::FORMAT, &openai_chat::FORMAT, &openai_responses::FORMAT];

/// The frames of a body of server-sent events, as they are written.
#[derive(Debug, Default)]
pub(crate) struct SseFrames {
    pieces: Vec<Piece>,
}

impl SseFrames {
    pub(crate) fn named(&mut self, event: &str, data: &str) {
        self.raw(format!("event: {event}\ndata: {data}\n\n").as_bytes());
    }

    pub(crate) fn unnamed(&mut self, data: &str) {
        self.raw(format!("data: {data}\n\n").as_bytes());
    }

    pub(crate) fn comment(&mut self) {
        self.raw(b": keep-alive\n\n");
    }

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
