//! [`Reply`]: one builder for the replies of every wire.

use std::marker::PhantomData;

use serde_json::Value;

use crate::{
    format::HttpWire,
    gate::Gate,
    plan::{Ending, Piece, Plan, PlannedCall, Prose, Step},
};

/// One reply of a model, said step by step. Each wire has its own:
/// [`anthropic::Reply`](crate::anthropic::Reply), [`cohere::Reply`](crate::cohere::Reply),
/// [`gemini::Reply`](crate::gemini::Reply),
/// [`ollama::Reply`](crate::ollama::Reply),
/// [`openai_chat::Reply`](crate::openai_chat::Reply),
/// [`bedrock::Reply`](crate::bedrock::Reply),
/// [`openai_responses::Reply`](crate::openai_responses::Reply); and
/// [`events::Reply`](crate::events::Reply) is one without HTTP. The words are the same for all.
///
/// A reply ends well unless [`cut`](Self::cut), [`length`](Self::length) or another ending says
/// otherwise. Nothing about it is random.
#[derive(Debug, Clone)]
pub struct Reply<F> {
    pub(crate) plan: Plan,
    pub(crate) form: F,
}

/// The form of replies that are bytes of the wire `W`.
#[derive(Debug, Clone)]
pub struct OverHttp<W> {
    status: u16,
    headers: Vec<(String, String)>,
    refusal: Option<String>,
    cut_at: Option<usize>,
    wire: PhantomData<W>,
}

impl<F> Reply<F> {
    /// Says a part of the answer's text, in these pieces.
    pub fn text<T: Into<String>>(self, pieces: impl IntoIterator<Item = T>) -> Self {
        self.prose(Prose::Text, pieces)
    }

    /// Shows a part of reasoning, in these pieces, with what the wire wants back of it: a signature, an
    /// encrypted item.
    pub fn reasoning<T: Into<String>>(self, pieces: impl IntoIterator<Item = T>) -> Self {
        self.prose(Prose::Reasoning, pieces)
    }

    /// Refuses, in these pieces. Anthropic Messages has no frame for it: there it is text, and the reason is
    /// `refusal`.
    pub fn refusal<T: Into<String>>(self, pieces: impl IntoIterator<Item = T>) -> Self {
        self.prose(Prose::Refusal, pieces)
    }

    /// Calls a tool. Its arguments come in fragments of 12 characters unless
    /// [`fragments_of`](Self::fragments_of) or [`fragments_at`](Self::fragments_at) says otherwise.
    pub fn call(self, id: &str, name: &str, arguments: Value) -> Self {
        self.call_raw(id, name, arguments.to_string())
    }

    /// Calls a tool with exactly this argument text, which need not be whole, or JSON.
    pub fn call_raw(self, id: &str, name: &str, arguments: impl Into<String>) -> Self {
        self.step(Step::Calls(vec![PlannedCall::new(id, name, arguments.into())]))
    }

    /// Makes several calls (id, name, arguments) whose fragments take turns: all are announced first, and
    /// end in order.
    pub fn interleaved_calls<'a>(self, calls: impl IntoIterator<Item = (&'a str, &'a str, Value)>) -> Self {
        let calls = calls.into_iter();
        let planned = calls.map(|(id, name, arguments)| PlannedCall::new(id, name, arguments.to_string()));
        let step = Step::Calls(planned.collect());
        self.step(step)
    }

    /// Cuts the arguments of the call before (or of the interleaved calls) into fragments of so many
    /// characters.
    pub fn fragments_of(self, characters: usize) -> Self {
        self.edit_last_calls(|call| call.cut_every(characters))
    }

    /// Cuts the arguments of the call before (or of the interleaved calls) at these offsets in bytes. One
    /// inside a character moves to its end.
    pub fn fragments_at(self, offsets: impl IntoIterator<Item = usize>) -> Self {
        let offsets: Vec<usize> = offsets.into_iter().collect();
        self.edit_last_calls(|call| call.cut_at(offsets.clone()))
    }

    /// Waits here until the gate is open. Only the replay server and the scripted model can wait: a whole
    /// body knows no gates.
    pub fn gate(self, gate: &Gate) -> Self {
        self.step(Step::Gate(gate.clone()))
    }

    /// Fails here, in the stream, as the wire says it. The body ends after it unless a later word says
    /// otherwise.
    pub fn error(mut self, code: &str, message: &str) -> Self {
        self.plan.ending = Ending::Cut;
        self.step(Step::Error { code: code.to_owned(), message: message.to_owned() })
    }

    /// The tokens that the reply reports. 10 in and 20 out when nothing is said.
    pub fn usage(mut self, input_tokens: u64, output_tokens: u64) -> Self {
        self.plan.usage = Some((input_tokens, output_tokens));
        self
    }

    /// Reports no tokens.
    pub fn without_usage(mut self) -> Self {
        self.plan.usage = None;
        self
    }

    /// The provider's id of the reply.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.plan.id = Some(id.into());
        self
    }

    /// The model that says it answered. `test-model` when nothing is said.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.plan.model = model.into();
        self
    }

    /// Ends well: with the wire's word for waiting calls if there are any, else with its word for a plain
    /// end. This is what happens when nothing is said.
    pub fn end(self) -> Self {
        self.ending(Ending::Inferred)
    }

    /// Ends with the wire's own word, for example `pause_turn`. On Responses `completed` and `failed` are
    /// statuses, and any other word is the reason of an `incomplete` reply.
    pub fn stop(self, word: impl Into<String>) -> Self {
        self.ending(Ending::Word(word.into()))
    }

    /// Ends because the token limit was reached, in the middle of the last part.
    pub fn length(self) -> Self {
        self.ending(Ending::Length)
    }

    /// Ends because the provider's filter stopped it. Anthropic Messages says `refusal`.
    pub fn content_filter(self) -> Self {
        self.ending(Ending::ContentFilter)
    }

    /// Does not end: the body is over in the middle of the last part.
    pub fn cut(self) -> Self {
        self.ending(Ending::Cut)
    }

    fn prose<T: Into<String>>(self, prose: Prose, pieces: impl IntoIterator<Item = T>) -> Self {
        self.step(Step::Prose(prose, pieces.into_iter().map(Into::into).collect()))
    }

    fn step(mut self, step: Step) -> Self {
        self.plan.steps.push(step);
        self
    }

    fn ending(mut self, ending: Ending) -> Self {
        self.plan.ending = ending;
        self
    }

    fn edit_last_calls(mut self, edit: impl FnMut(&mut PlannedCall)) -> Self {
        if let Some(Step::Calls(calls)) =
            self.plan.steps.iter_mut().rev().find(|step| matches!(step, Step::Calls(_)))
        {
            calls.iter_mut().for_each(edit);
        }
        self
    }
}

impl<W: HttpWire> Reply<OverHttp<W>> {
    /// A reply that says nothing yet and ends well.
    pub fn new() -> Self {
        let headers = vec![(W::REQUEST_ID_HEADER.to_owned(), "req_test".to_owned())];
        let form = OverHttp { status: 200, headers, refusal: None, cut_at: None, wire: PhantomData };
        Self { plan: Plan::new(), form }
    }

    /// The reply is an error with this status, in the wire's shape, and no stream.
    pub fn refused(mut self, status: u16, code: &str, message: &str) -> Self {
        self.form.status = status;
        self.form.refusal = Some(W::refusal(code, message));
        self
    }

    /// Adds a header, for example `retry-after`. Every reply has the wire's request id, `req_test`.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into().to_ascii_lowercase();
        self.form.headers.retain(|(known, _)| *known != name);
        self.form.headers.push((name, value.into()));
        self
    }

    /// Says here that it is still alive: a ping, or a comment where the wire has none; nothing where it has neither.
    pub fn ping(self) -> Self {
        self.step(Step::Ping)
    }

    /// Sends a frame of your own here, as the wire writes its frames: one that is new, or one that has more in
    /// it than this builder can say. `event` is its name; server-sent events have none where it is empty, and
    /// JSON lines never have one. `data` is one line of JSON.
    ///
    /// ```
    /// use serde_json::json;
    /// use turnstream_testing::anthropic::Reply;
    ///
    /// let reply = Reply::new().frame("news", json!({ "type": "news" })).text(["Hi."]);
    /// assert_eq!(reply.chunks()[1], b"event: news\ndata: {\"type\":\"news\"}\n\n");
    /// ```
    pub fn frame(self, event: &str, data: impl ToString) -> Self {
        self.step(Step::Frame { event: event.to_owned(), data: data.to_string() })
    }

    /// Sends these bytes here as they are: damage, above all. For frames there is [`frame`](Self::frame).
    pub fn raw(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::Raw(bytes.as_ref().to_vec()))
    }

    /// Ends the body after so many bytes, wherever that is.
    pub fn cut_at(mut self, bytes: usize) -> Self {
        self.form.cut_at = Some(bytes);
        self
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.form.status
    }

    /// The headers but for the content type, names in lower case.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.form.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The type of the body.
    pub fn content_type(&self) -> &'static str {
        match self.form.refusal {
            Some(_) => "application/json",
            None => W::CONTENT_TYPE,
        }
    }

    /// The whole body.
    pub fn body(&self) -> Vec<u8> {
        self.chunks().concat()
    }

    /// The body, frame by frame.
    pub fn chunks(&self) -> Vec<Vec<u8>> {
        let pieces = self.pieces().into_iter();
        pieces
            .filter_map(|piece| match piece {
                Piece::Bytes(bytes) => Some(bytes),
                Piece::Gate(_) => None,
            })
            .collect()
    }

    pub(crate) fn pieces(&self) -> Vec<Piece> {
        if let Some(refusal) = &self.form.refusal {
            return vec![Piece::Bytes(refusal.clone().into_bytes())];
        }
        let mut pieces = W::render(&self.plan);
        let mut left = self.form.cut_at.unwrap_or(usize::MAX);
        pieces.retain_mut(|piece| match piece {
            Piece::Bytes(bytes) => {
                bytes.truncate(left);
                left -= bytes.len();
                !bytes.is_empty()
            }
            Piece::Gate(_) => left > 0,
        });
        pieces
    }

    /// The ids and names of the calls that an application has to answer: those of a reply that ends well.
    pub(crate) fn calls_to_answer(&self) -> Vec<(String, String)> {
        let ends_well = matches!(self.plan.ending, Ending::Inferred) && !self.plan.has_refusal();
        if !ends_well || self.form.refusal.is_some() || self.form.cut_at.is_some() {
            return Vec::new();
        }
        self.plan.calls().map(|call| (call.id.clone(), call.name.clone())).collect()
    }
}

impl<W: HttpWire> Default for Reply<OverHttp<W>> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use crate::{anthropic, bedrock, cohere, gemini, ollama, openai_chat, openai_responses};

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_body_is_the_same_every_time_and_its_keys_come_as_the_provider_sends_them() {
        let reply = || openai_chat::Reply::new().text(["Hi \"you\"."]).without_usage();
        assert_eq!(reply().body(), reply().body());
        let chunk = |delta: &str, reason: &str| {
            format!(
                "data: {{\"id\":\"chatcmpl-test\",\"object\":\"chat.completion.chunk\",\"created\":0,\
                 \"model\":\"test-model\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
                 \"finish_reason\":{reason}}}],\"usage\":null}}\n\n"
            )
        };
        let want = [
            chunk(r#"{"role":"assistant","content":""}"#, "null"),
            chunk(r#"{"content":"Hi \"you\"."}"#, "null"),
            chunk("{}", "\"stop\""),
            "data: [DONE]\n\n".to_owned(),
        ];
        assert_eq!(reply().chunks().into_iter().map(text).collect::<Vec<_>>(), want);
    }

    #[test]
    fn a_frame_of_ones_own_is_written_as_the_wire_writes_its_frames() {
        let data = || serde_json::json!({ "n": 1 });
        let event = |name: &str| {
            [
                anthropic::Reply::new().frame(name, data()).cut().chunks().pop(),
                cohere::Reply::new().frame(name, data()).cut().chunks().pop(),
                gemini::Reply::new().frame(name, data()).cut().chunks().pop(),
                openai_chat::Reply::new().frame(name, data()).cut().chunks().pop(),
                openai_responses::Reply::new().frame(name, data()).cut().chunks().pop(),
            ]
        };
        let named = "event: news\ndata: {\"n\":1}\n\n";
        assert_eq!(event("news").map(|frame| text(frame.unwrap())), [named; 5]);
        assert_eq!(event("").map(|frame| text(frame.unwrap())), ["data: {\"n\":1}\n\n"; 5]);
        let line = ollama::Reply::new().frame("news", data()).cut().chunks().pop();
        assert_eq!(line.map(text).as_deref(), Some("{\"n\":1}\n"));
        let message = bedrock::Reply::new().frame("news", data()).cut().chunks().pop();
        assert_eq!(message, Some(bedrock::frame("news", "{\"n\":1}")));
    }

    #[test]
    fn a_body_is_cut_at_a_byte_and_damaged_where_it_is_said() {
        let reply = anthropic::Reply::new().raw(b"data: \xff\n\n").text(["Hi."]);
        let whole = reply.body();
        assert!(whole.windows(9).any(|bytes| bytes == b"data: \xff\n\n"));
        for length in [0, 1, 100, whole.len(), usize::MAX] {
            let cut = reply.clone().cut_at(length).body();
            assert_eq!(cut, whole[..length.min(whole.len())]);
        }
    }

    #[test]
    fn a_refused_request_has_the_wires_shape_and_headers() {
        let reply =
            anthropic::Reply::new().refused(529, "overloaded_error", "Busy.").header("Retry-After", "2");
        assert_eq!((reply.status(), reply.content_type()), (529, "application/json"));
        let headers: Vec<_> = reply.headers().collect();
        assert_eq!(headers, [("request-id", "req_test"), ("retry-after", "2")]);
        let want = r#"{"type":"error","error":{"type":"overloaded_error","message":"Busy."},"request_id":"req_test"}"#;
        assert_eq!(text(reply.body()), want);
        let reply = openai_responses::Reply::new().refused(400, "invalid_prompt", "No.");
        let want =
            r#"{"error":{"type":"invalid_prompt","code":"invalid_prompt","message":"No.","param":null}}"#;
        assert_eq!(text(reply.body()), want);
    }
}
