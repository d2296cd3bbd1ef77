//! Frames of an AWS event stream.

use std::{fmt, ops::Range};

use aws_smithy_eventstream::frame::read_message_from;
use turnstream_core::{Frame, FrameError, Framer};

/// Cuts a body of the type `application/vnd.amazon.eventstream` into its messages.
///
/// A frame's name is the message's `:event-type`. Messages that are errors, which are those with an
/// `:exception-type` or an `:error-code`, have it behind `exception:`. The data is the payload; an error that
/// stands in the headers alone gives `{"message": ..}`. Other headers are left out.
///
/// Both checksums of every message are checked. The limit counts a whole message, and is held against the
/// length that its first bytes give, before the others are kept. A body that does not begin with a message, and
/// not with a byte that only a message begins with, is something else, and gives no frame.
///
/// ```
/// # use turnstream_bedrock::EventStreamFramer;
/// # use turnstream_core::{Frame, Framer};
/// let message = b"\0\0\0\x3f\0\0\0\x1b\xcc\x36\x39\xd2\
///     \x0b:event-type\x07\0\x0cmessageStart\
///     {\"role\":\"assistant\"}\x13\xbc\xdd\xda";
/// let mut framer = EventStreamFramer::new(1024);
/// framer.push(&message[..20]);
/// assert_eq!(framer.next_frame(), None);
/// framer.push(&message[20..]);
/// let frame = Frame::new("messageStart", r#"{"role":"assistant"}"#);
/// assert_eq!(framer.next_frame(), Some(Ok(frame)));
/// ```
pub struct EventStreamFramer {
    limit: usize,
    bytes: Vec<u8>,
    /// Where the next message begins; what lies before it has been given out.
    start: usize,
    /// Its lengths, once they are known.
    prelude: Option<Prelude>,
    body: Body,
    /// What is wrong with the next message.
    problem: Option<FrameError>,
    ended: bool,
    /// The headers that were read last, as they stood: most messages have those of the one before.
    headers: Vec<u8>,
    /// The name that they give.
    event: String,
    /// The data that they give, if they are an error's: it counts where there is no payload.
    data: String,
}

/// The lengths that a message begins with.
#[derive(Clone, Copy)]
struct Prelude {
    length: usize,
    headers_length: usize,
}

/// What the first bytes of a body say that it is.
enum Body {
    /// Less than a prelude has come.
    Unknown,
    Messages,
    /// Something else; its start.
    Foreign(Vec<u8>),
}

impl Framer for EventStreamFramer {
    const FRAME: &'static str = "AWS event-stream message";

    fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: Vec::new(),
            start: 0,
            prelude: None,
            body: Body::Unknown,
            problem: None,
            ended: false,
            headers: Vec::new(),
            event: String::new(),
            data: String::new(),
        }
    }

    fn push(&mut self, chunk: &[u8]) {
        if self.problem.is_some() || self.ended {
            return;
        }
        if let Body::Foreign(start) = &mut self.body {
            return keep_start(start, chunk);
        }
        self.forget_given_out();
        // The prelude first: it says whether the rest is worth keeping.
        let missing = PRELUDE_BYTES.saturating_sub(self.pending().len()).min(chunk.len());
        let (prelude, rest) = chunk.split_at(missing);
        self.bytes.extend_from_slice(prelude);
        self.read_prelude();
        match &mut self.body {
            Body::Foreign(start) => keep_start(start, rest),
            Body::Unknown | Body::Messages if self.problem.is_none() => self.keep(rest),
            Body::Unknown | Body::Messages => {}
        }
    }

    fn next_frame(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        match self.advance()? {
            Ok(payload) => Some(self.lend(payload)),
            Err(error) => Some(Err(error)),
        }
    }

    /// A message says how long it is, so one that is torn is never complete, and nothing of it is given out.
    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        match self.advance() {
            Some(Ok(payload)) => return Some(self.lend(payload)),
            Some(Err(error)) => return Some(Err(error)),
            None => {}
        }
        self.ended = true;
        if matches!(self.body, Body::Unknown) && self.pending().first().is_some_and(|byte| *byte != 0) {
            self.body = Body::Foreign(std::mem::take(&mut self.bytes));
        }
        None
    }

    fn foreign(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Foreign(start) if start.trim_ascii().is_empty() => None,
            Body::Foreign(start) => Some(start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start)),
            Body::Unknown | Body::Messages => None,
        }
    }
}

impl EventStreamFramer {
    fn pending(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Moves at most as many bytes as have been given out since the last move, so that the whole is linear.
    fn forget_given_out(&mut self) {
        if self.start > 0 && self.start >= self.bytes.len() - self.start {
            self.bytes.drain(..self.start);
            self.start = 0;
            // The memory of a huge message is not kept.
            if self.bytes.len() <= KEPT_BYTES {
                self.bytes.shrink_to(KEPT_BYTES);
            }
        }
    }

    /// A long message grows by a quarter of itself: twice its memory is too much, and this is linear, too.
    fn keep(&mut self, bytes: &[u8]) {
        let length = self.bytes.len();
        if length + bytes.len() > KEPT_BYTES.max(self.bytes.capacity()) {
            self.bytes.reserve_exact(bytes.len().max(length / 4));
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The lengths of the next message, once its prelude has come and is good.
    fn read_prelude(&mut self) -> Option<Prelude> {
        if self.prelude.is_some() {
            return self.prelude;
        }
        let prelude: &[u8; PRELUDE_BYTES] = self.pending().first_chunk()?;
        let [a, b, c, d, e, f, g, h, checksum @ ..] = *prelude;
        if crc32fast::hash(&[a, b, c, d, e, f, g, h]) != u32::from_be_bytes(checksum) {
            // Text never begins with a NUL, and a message does unless it is longer than 16 MiB.
            if matches!(self.body, Body::Unknown) && a != 0 {
                self.body = Body::Foreign(std::mem::take(&mut self.bytes));
            } else {
                self.problem = Some(damaged("the checksum over its length does not hold"));
            }
            return None;
        }
        self.body = Body::Messages;
        // What is longer than memory is longer than the limit.
        let [length, headers_length] = [[a, b, c, d], [e, f, g, h]]
            .map(|length| usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX));
        if length > self.limit {
            self.problem = Some(FrameError::too_large(self.limit));
        } else if length < headers_length.saturating_add(BESIDE_HEADERS_AND_PAYLOAD) {
            self.problem = Some(damaged("it has no room for its headers"));
        }
        self.prelude = self.problem.is_none().then_some(Prelude { length, headers_length });
        self.prelude
    }

    /// Takes the next message, if all of it has come: where its payload stands.
    fn advance(&mut self) -> Option<Result<Range<usize>, FrameError>> {
        if self.ended {
            return None;
        }
        let prelude = self.problem.is_none().then(|| self.read_prelude()).flatten();
        if let Some(problem) = self.problem.take() {
            return Some(Err(self.give_up(problem)));
        }
        match self.read_message(prelude?)? {
            Ok(payload) => Some(Ok(payload)),
            Err(problem) => Some(Err(self.give_up(problem))),
        }
    }

    /// Takes the next message, if all of it has come: where its payload stands, or what is wrong with it.
    fn read_message(&mut self, prelude: Prelude) -> Option<Result<Range<usize>, FrameError>> {
        let Prelude { length, headers_length } = prelude;
        let message = self.pending().get(..length)?;
        let headers = message.get(PRELUDE_BYTES..PRELUDE_BYTES + headers_length)?;
        // Most messages have the headers of the one before, and what was read once need not be read again.
        let is_alike = headers == self.headers && has_good_checksum(message);
        if !is_alike && let Err(problem) = self.read_headers(prelude) {
            return Some(Err(problem));
        }
        let payload_start = self.start + PRELUDE_BYTES + headers_length;
        self.start += length;
        self.prelude = None;
        Some(Ok(payload_start..self.start - CHECKSUM_BYTES))
    }

    /// Reads the next message whole, and keeps what its headers say.
    fn read_headers(&mut self, prelude: Prelude) -> Result<(), FrameError> {
        let bytes = self.pending().get(..prelude.length).unwrap_or_default();
        let message = read_message_from(bytes).map_err(|error| damaged(&error.to_string()))?;
        let headers =
            bytes.get(PRELUDE_BYTES..PRELUDE_BYTES + prelude.headers_length).unwrap_or_default().to_vec();
        self.headers = headers;
        let header = |name: &str| {
            let header = message.headers().iter().find(|header| header.name().as_str() == name)?;
            header.value().as_string().ok().map(|value| value.as_str())
        };
        self.event.clear();
        self.data.clear();
        match header(":message-type") {
            Some(kind @ ("exception" | "error")) => {
                let name = if kind == "error" { header(":error-code") } else { header(":exception-type") };
                self.event.push_str("exception:");
                self.event.push_str(name.unwrap_or("unknown"));
                let words = header(":error-message").unwrap_or("the provider gave no reason");
                self.data = serde_json::json!({ "message": words }).to_string();
            }
            _ => self.event.push_str(header(":event-type").unwrap_or_default()),
        }
        Ok(())
    }

    fn give_up(&mut self, error: FrameError) -> FrameError {
        self.ended = true;
        (self.bytes, self.start) = (Vec::new(), 0);
        error
    }

    fn lend(&self, payload: Range<usize>) -> Result<Frame<'_>, FrameError> {
        if payload.is_empty() {
            return Ok(Frame::new(&self.event, &self.data));
        }
        let payload = self.bytes.get(payload).unwrap_or_default();
        Ok(Frame::new(&self.event, FrameError::text(payload)?))
    }
}

/// A body can be megabytes, and nobody reads those in a debug print.
impl fmt::Debug for EventStreamFramer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EventStreamFramer")
            .field("limit", &self.limit)
            .field("pending", &self.pending().len())
            .field("problem", &self.problem)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

fn has_good_checksum(message: &[u8]) -> bool {
    message
        .split_last_chunk::<CHECKSUM_BYTES>()
        .is_some_and(|(checked, checksum)| crc32fast::hash(checked) == u32::from_be_bytes(*checksum))
}

fn damaged(problem: &str) -> FrameError {
    FrameError::Damaged { problem: problem.to_owned() }
}

fn keep_start(start: &mut Vec<u8>, chunk: &[u8]) {
    let room = FOREIGN_BYTES.saturating_sub(start.len());
    start.extend(chunk.iter().take(room));
}

/// Two lengths and a checksum over them.
const PRELUDE_BYTES: usize = 12;

const CHECKSUM_BYTES: usize = 4;

/// The prelude, and the checksum behind the payload.
const BESIDE_HEADERS_AND_PAYLOAD: usize = 16;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// How much is kept of a body that is something else.
const FOREIGN_BYTES: usize = 64 << 10;

/// How much memory is kept between messages.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::message;
