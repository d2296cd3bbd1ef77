//! Anthropic's models in their own words: `InvokeModelWithResponseStream`, whose frames hold the events of the
//! Messages wire.

use std::{borrow::Cow, collections::BTreeMap};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use secrecy::SecretString;
use serde::{Deserialize, de::Error as _};
use turnstream_anthropic::{Anthropic, RULES};
use turnstream_core::{
    BadFrame, Decode, Decoder, Endpoint, Error, ErrorEnvelope, Frame, HotFrames, Interpret, Ledger, Lesson,
    Limits, RawJson, Request, Wire, WireRequest,
};

use crate::{Bedrock, EventStreamFramer, error, frame::KEPT_BYTES};

/// An Anthropic model at Bedrock, asked in the words of the Messages wire. Converse ([`Bedrock`]) has less of what
/// these models can do; take this where it is missed. Options are the Messages wire's.
///
/// The body is that of the Messages wire without `model` and `stream`, and with `anthropic_version` (and
/// `anthropic_beta`, where there are any) in it. Each `chunk` of the reply is one event of that wire in base64.
/// Sources: Amazon's API reference of `InvokeModelWithResponseStream`, and its page on Claude's Messages API.
///
/// ```
/// # use turnstream_bedrock::InvokeAnthropic;
/// # use turnstream_core::{Request, Wire};
/// let wire = InvokeAnthropic::new("anthropic.claude-sonnet-4-5-20250929-v1:0", "us-east-1").key("the key");
/// let request = wire.encode(&Request::new().user("Say hi."))?;
/// assert!(request.url.path().ends_with("-v1%3A0/invoke-with-response-stream"));
/// # Ok::<(), turnstream_core::Error>(())
/// ```
///
/// Its `Debug` shows no key and no header value.
#[derive(Debug, Clone)]
pub struct InvokeAnthropic {
    /// Where it is asked, and under which key.
    bedrock: Bedrock,
    /// What it is asked, and what a reply means.
    messages: Anthropic,
    version: String,
}

impl InvokeAnthropic {
    /// A model of a region, without a key. The model is an id, an inference profile's id or an ARN.
    pub fn new(model: impl Into<String>, region: impl Into<String>) -> Self {
        let model = model.into();
        let messages = Anthropic::new(model.clone());
        Self { bedrock: Bedrock::new(model, region), messages, version: VERSION.to_owned() }
    }

    /// Sets a Bedrock API key, sent as a bearer token. A signature of the transport's replaces it.
    pub fn key(self, key: impl Into<SecretString>) -> Self {
        Self { bedrock: self.bedrock.key(key), ..self }
    }

    /// Sets the key from `AWS_BEARER_TOKEN_BEDROCK`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) when the variable is not set or empty.
    pub fn key_from_env(self) -> Result<Self, Error> {
        Ok(Self { bedrock: self.bedrock.key_from_env()?, ..self })
    }

    /// Sets the base URL: `model/{id}/invoke-with-response-stream` is appended to its path, and its query is kept.
    pub fn base_url(self, base_url: impl Into<String>) -> Self {
        Self { bedrock: self.bedrock.base_url(base_url), ..self }
    }

    /// Adds a header. It replaces one of the wire's own of the same name; a header that carries a key
    /// replaces the key.
    pub fn header(self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        Self { bedrock: self.bedrock.header(name, value), ..self }
    }

    /// Sets how much of a reply is taken.
    pub fn limits(self, limits: Limits) -> Self {
        Self { bedrock: self.bedrock.limits(limits), messages: self.messages.limits(limits), ..self }
    }

    /// Sets `anthropic_version` in the body; `bedrock-2023-05-31` by default.
    pub fn version(self, version: impl Into<String>) -> Self {
        Self { version: version.into(), ..self }
    }
}

impl Wire for InvokeAnthropic {
    /// The Messages wire's name: what goes back to it goes back here.
    fn name(&self) -> &'static str {
        self.messages.name()
    }

    fn model(&self) -> &str {
        self.messages.model()
    }

    fn encode(&self, request: &Request) -> Result<WireRequest, Error> {
        let written = self.messages.encode(request)?;
        let body = self.body_of(&written).ok_or_else(|| Error::config("the request is no object"))?;
        let path = format!("model/{}/invoke-with-response-stream", Endpoint::segment(self.model())?);
        let accept = ("accept", "application/vnd.amazon.eventstream");
        let request = self.bedrock.address()?.post(&path, &[accept], &body)?;
        Ok(request.with_warnings(written.warnings))
    }

    fn decoder(&self) -> Box<dyn Decode> {
        let interpreter = Unwrapping::new(self.messages.interpreter());
        Box::new(Decoder::<EventStreamFramer, _>::new(RULES, self.bedrock.limits, interpreter))
    }

    fn refused(&self, status: u16, headers: &http::HeaderMap, body: &[u8]) -> Error {
        error::refused(status, headers, body)
    }
}

impl InvokeAnthropic {
    /// The body as Bedrock wants it.
    fn body_of(&self, written: &WireRequest) -> Option<RawJson> {
        let body = RawJson::parse(str::from_utf8(&written.body).ok()?).ok()?;
        let mut fields = BTreeMap::from([("anthropic_version", RawJson::of(&self.version).ok()?)]);
        if let Some(betas) = written.headers.get("anthropic-beta") {
            let betas: Vec<&str> = betas.to_str().ok()?.split(',').collect();
            fields.insert("anthropic_beta", RawJson::of(&betas).ok()?);
        }
        body.without_field("model")?.without_field("stream")?.with_fields(&fields)
    }
}

/// Interprets the frames: what a `chunk` holds is the Messages wire's.
#[derive(Debug)]
struct Unwrapping<I: Interpret> {
    messages: I,
    hot: HotFrames<I::Hot>,
    /// The event that a `chunk` held. Kept for the next one.
    event: Vec<u8>,
}

impl<I: Interpret> Unwrapping<I> {
    fn new(messages: I) -> Self {
        Self { messages, hot: HotFrames::new(I::PASSED_OVER), event: Vec::new() }
    }
}

impl<I: Interpret> Interpret for Unwrapping<I> {
    /// What is hot is not the frame, but the event that it holds.
    type Hot = I::Hot;

    fn frame<'f>(
        &mut self,
        frame: Frame<'f>,
        ledger: &mut Ledger,
    ) -> Result<Option<Lesson<'f, I::Hot>>, BadFrame> {
        if let Some(exception) = frame.event.strip_prefix("exception:") {
            ledger.fail(error::in_stream(exception, frame.data));
            return Ok(None);
        }
        if frame.event != "chunk" {
            self.messages.frame(frame, ledger)?;
            return Ok(None);
        }
        let data = unwrap(frame.data, &mut self.event).map_err(|problem| BadFrame::new("chunk", problem))?;
        self.hot.interpret(Frame::new("", data), &mut self.messages, ledger)?;
        Ok(None)
    }

    fn body_ended(&mut self, ledger: &mut Ledger) {
        self.messages.body_ended(ledger);
    }

    fn error_body(&self, envelope: ErrorEnvelope) -> Error {
        error::of_body(envelope)
    }
}

/// The event that a `chunk` holds.
fn unwrap<'e>(chunk: &str, event: &'e mut Vec<u8>) -> Result<&'e str, serde_json::Error> {
    #[derive(Deserialize)]
    struct Chunk<'a> {
        #[serde(borrow)]
        bytes: Cow<'a, str>,
    }
    let Chunk { bytes } = serde_json::from_str(chunk)?;
    event.clear();
    // The memory of a huge event is not kept.
    event.shrink_to(KEPT_BYTES);
    BASE64_STANDARD.decode_vec(bytes.as_bytes(), event).map_err(serde_json::Error::custom)?;
    str::from_utf8(event).map_err(serde_json::Error::custom)
}

const VERSION: &str = "bedrock-2023-05-31";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use turnstream_anthropic::Options;
    use turnstream_core::{End, ErrorKind, Event, Events};

    use super::*;
    use crate::frame::message;

    fn wire() -> InvokeAnthropic {
        InvokeAnthropic::new("anthropic.claude-v1:0", "eu-west-1").key("k")
    }

    fn chunk(event: &Value) -> Vec<u8> {
        let payload = json!({ "bytes": BASE64_STANDARD.encode(event.to_string()), "p": "abc" }).to_string();
        message(&[(":event-type", "chunk"), (":message-type", "event")], payload.as_bytes())
    }

    fn call() -> Vec<u8> {
        let frames = [
            json!({"type": "message_start", "message": {"id": "msg_1", "model": "claude"}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t1", "name": "f", "input": {}}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"a\": "}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "1}"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}}),
            json!({"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 1}}),
        ];
        frames.iter().flat_map(chunk).collect()
    }

    fn events(chunks: &[&[u8]], end: End) -> Vec<Result<Event, Error>> {
        let (mut decoder, mut events) = (wire().decoder(), Events::new());
        for chunk in chunks {
            decoder.feed(chunk, &mut events);
        }
        decoder.end(end, &mut events);
        events.collect()
    }

    fn shown(events: &[Result<Event, Error>]) -> Vec<String> {
        events
            .iter()
            .map(|event| match event {
                Ok(event) => serde_json::to_string(event).unwrap(),
                Err(error) => serde_json::to_string(error).unwrap(),
            })
            .collect()
    }

    #[test]
    fn the_request_is_that_of_the_messages_wire_in_bedrocks_form() {
        let request = Request::new().user("hi").options(Options::new().beta("a").beta("b"));
        let written = wire().encode(&request).unwrap();
        assert_eq!(
            written.url.as_str(),
            "https://bedrock-runtime.eu-west-1.amazonaws.com/model/anthropic.claude-v1%3A0/invoke-with-response-stream"
        );
        let body: Value = serde_json::from_slice(&written.body).unwrap();
        assert_eq!(
            body,
            json!({
                "max_tokens": 4096,
                "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
                "anthropic_version": "bedrock-2023-05-31",
                "anthropic_beta": ["a", "b"],
            })
        );
        let header = |name: &str| written.headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(header("authorization"), Some("Bearer k"));
        assert_eq!(
            (header("anthropic-version"), header("anthropic-beta"), header("x-api-key")),
            (None, None, None)
        );
    }

    #[test]
    fn a_call_comes_out_however_the_bytes_are_cut() {
        let body = call();
        let whole = shown(&events(&[&body], End::Closed));
        assert_eq!(
            whole,
            [
                r#"{"type":"turn_started","id":"msg_1","model":"claude"}"#,
                r#"{"type":"call_started","part":0,"call":0,"id":"t1","name":"f"}"#,
                r#"{"type":"call_argument_fragment","call":0,"fragment":"{\"a\": "}"#,
                r#"{"type":"call_argument_fragment","call":0,"fragment":"1}"}"#,
                r#"{"type":"call_finished","call":0,"id":"t1","name":"f","arguments":"{\"a\": 1}"}"#,
                r#"{"type":"turn_finished","reason":"tool_calls","raw_reason":"tool_use","usage":{"output_tokens":7}}"#,
            ]
        );
        for size in 1..body.len() {
            let chunks: Vec<&[u8]> = body.chunks(size).collect();
            assert_eq!(shown(&events(&chunks, End::Closed)), whole, "in pieces of {size}");
        }
    }

    #[test]
    fn a_body_that_stops_anywhere_finishes_no_call_and_no_turn() {
        let body = call();
        let reason = call().len()
            - chunk(
                &json!({"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 1}}),
            )
            .len();
        for length in 0..reason {
            let events = events(&[&body[..length]], End::Closed);
            assert_eq!(
                events.last().unwrap().as_ref().unwrap_err().kind(),
                ErrorKind::Truncated,
                "at {length}"
            );
            assert!(!events.iter().any(|event| matches!(event, Ok(Event::CallFinished(_)))), "at {length}");
        }
    }

    #[test]
    fn an_exception_ends_the_turn_under_its_name() {
        let start = chunk(&json!({"type": "message_start", "message": {"id": "m"}}));
        let exception = message(
            &[(":exception-type", "throttlingException"), (":message-type", "exception")],
            br#"{"message":"slow down"}"#,
        );
        let events = events(&[&start, &exception, &call()], End::Closed);
        let error = events.last().unwrap().as_ref().unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Provider, Some("throttlingException")));
        assert!(error.is_retryable());
        assert_eq!(events.len(), 2);
    }

    #[test]
    fn an_exception_behind_the_reason_is_not_lost() {
        let start = chunk(&json!({"type": "message_start", "message": {"id": "m"}}));
        let reason = chunk(&json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}));
        let exception = message(
            &[(":exception-type", "internalServerException"), (":message-type", "exception")],
            br#"{"message":"no"}"#,
        );
        let events = events(&[&start, &reason, &exception], End::Closed);
        let error = events.last().unwrap().as_ref().unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Provider, Some("internalServerException")));
    }

    #[test]
    fn what_is_no_chunk_is_an_error_and_what_is_unknown_is_handed_on() {
        let kind = |body: &[u8]| events(&[body], End::Closed).pop().unwrap().unwrap_err().kind();
        for payload in ["{}", r#"{"bytes":"%"}"#, r#"{"bytes":7}"#, "no"] {
            assert_eq!(
                kind(&message(&[(":event-type", "chunk")], payload.as_bytes())),
                ErrorKind::Malformed,
                "{payload}"
            );
        }
        let mut damaged = call();
        damaged[20] ^= 1;
        assert_eq!(kind(&damaged), ErrorKind::Malformed);
        assert_eq!(kind(b"<html>"), ErrorKind::NotAStream);
        assert_eq!(kind(br#"{"message":"no such model"}"#), ErrorKind::Provider);

        let news = message(&[(":event-type", "metrics")], br#"{"a":1}"#);
        let events = events(&[&news, &call()], End::Closed);
        assert!(
            events.iter().any(|event| matches!(event, Ok(Event::Provider(news)) if &*news.name == "metrics"))
        );
        assert!(matches!(events.last(), Some(Ok(Event::TurnFinished(_)))));
    }

    /// A field of its own in each event makes each unlike all others, so that each is read the long way.
    #[test]
    fn hot_events_say_what_they_say_when_they_are_read_the_long_way() {
        let texts = [r"a", r"b\n", r"\ud83d", r"\ude00 c", "é\t", r"\u00e9", "", r"d\\", r"e"];
        let delta = |index: u8, text: &str| {
            format!(
                r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":"{text}"}}}}"#
            )
        };
        let deltas = [0, 1, 0].iter().flat_map(|index| texts.iter().map(|text| delta(*index, text)));
        let frames: Vec<String> = deltas.chain([r#"{"type":"message_stop"}"#.to_owned()]).collect();
        let body = |edit: &dyn Fn(usize, &str) -> String| -> Vec<u8> {
            let chunk = |(number, event): (usize, &String)| {
                let payload = json!({ "bytes": BASE64_STANDARD.encode(edit(number, event)) }).to_string();
                message(&[(":event-type", "chunk"), (":message-type", "event")], payload.as_bytes())
            };
            frames.iter().enumerate().flat_map(chunk).collect()
        };
        let alike = shown(&events(&[&body(&|_, event| event.to_owned())], End::Closed));
        let unlike = body(&|number, event| event.replacen('{', &format!(r#"{{"x_{number}":0,"#), 1));
        assert_eq!(alike, shown(&events(&[&unlike], End::Closed)));
        assert!(alike.iter().any(|event| event.contains("😀 c")), "{alike:#?}");
    }

    #[test]
    fn the_memory_of_a_huge_event_is_given_back() {
        let mut event = Vec::new();
        for length in [4 << 20, 1] {
            let chunk = json!({ "bytes": BASE64_STANDARD.encode("x".repeat(length)) }).to_string();
            assert_eq!(unwrap(&chunk, &mut event).unwrap().len(), length);
        }
        assert!(event.capacity() <= KEPT_BYTES, "{}", event.capacity());
    }
}
