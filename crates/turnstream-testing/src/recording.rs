//! [`Recording`]: one reply for the replay server, with its pace and its accidents.

use std::time::Duration;

use crate::{
    format::HttpWire,
    gate::Gate,
    plan::Piece,
    recorded::{MASKED, RecordedEnd, RecordedTurn},
    reply::{OverHttp, Reply},
};

/// One HTTP reply: a head, the chunks of a body, when each comes, and how it ends.
///
/// A wire's `Reply` becomes one with a chunk a frame:
///
/// ```
/// use std::time::Duration;
/// use turnstream_testing::{Recording, openai_chat::Reply};
///
/// let slow = Recording::from(Reply::new().text(["Hello", " there"])).pace(Duration::from_millis(30));
/// let torn = Recording::new("data: {\"choices\"").cut();
/// ```
#[derive(Debug, Clone)]
pub struct Recording {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) steps: Vec<Step>,
    pub(crate) ending: Ending,
}

/// One thing that the server does.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Head,
    Wait(Duration),
    Gate(Gate),
    Chunk(Vec<u8>),
}

/// How the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With its last chunk; the connection stays open for the next request.
    Whole,
    /// The connection is closed without the last chunk.
    Cut,
    /// The connection is reset.
    Reset,
    /// Nothing more comes, and the connection stays open.
    Stall,
}

impl Recording {
    /// A reply with this body in one chunk, status 200, `text/event-stream`.
    pub fn new(body: impl Into<Vec<u8>>) -> Self {
        Self::chunks([body.into()])
    }

    /// A reply with this body in these chunks, status 200, `text/event-stream`.
    pub fn chunks<B: Into<Vec<u8>>>(chunks: impl IntoIterator<Item = B>) -> Self {
        let chunks = chunks.into_iter().map(|chunk| Step::Chunk(chunk.into()));
        Self {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            steps: std::iter::once(Step::Head).chain(chunks).collect(),
            ending: Ending::Whole,
        }
    }

    /// No reply at all: the connection is closed when the request has been read.
    pub fn hang_up() -> Self {
        Self { steps: Vec::new(), ..Self::new("").cut() }
    }

    /// Another status.
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// A header. It takes the place of one with the same name.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into().to_ascii_lowercase();
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.into()));
        self
    }

    /// Cuts the body anew, into chunks of so many bytes. Pauses and gates are forgotten.
    pub fn in_chunks_of(mut self, bytes: usize) -> Self {
        let body: Vec<u8> = self.steps.drain(..).flat_map(Step::into_bytes).collect();
        let chunks = body.chunks(bytes.max(1)).map(|chunk| Step::Chunk(chunk.to_vec()));
        self.steps = std::iter::once(Step::Head).chain(chunks).collect();
        self
    }

    /// Waits so long before each chunk.
    pub fn pace(mut self, pause: Duration) -> Self {
        self.steps = self
            .steps
            .into_iter()
            .flat_map(|step| {
                let wait = matches!(step, Step::Chunk(_)).then_some(Step::Wait(pause));
                wait.into_iter().chain([step])
            })
            .collect();
        self
    }

    /// One more chunk, so long after the one before.
    pub fn then_after(mut self, pause: Duration, chunk: impl Into<Vec<u8>>) -> Self {
        self.steps.push(Step::Wait(pause));
        self.steps.push(Step::Chunk(chunk.into()));
        self
    }

    /// One more chunk, once the gate is open.
    pub fn then_at(mut self, gate: &Gate, chunk: impl Into<Vec<u8>>) -> Self {
        self.steps.push(Step::Gate(gate.clone()));
        self.steps.push(Step::Chunk(chunk.into()));
        self
    }

    /// The head comes only after so long.
    pub fn head_after(mut self, pause: Duration) -> Self {
        self.steps.insert(0, Step::Wait(pause));
        self
    }

    /// The head comes only once the gate is open.
    pub fn head_at(mut self, gate: &Gate) -> Self {
        self.steps.insert(0, Step::Gate(gate.clone()));
        self
    }

    /// All pauses are so many times as long; 0 takes them out. Gates stay.
    pub fn scaled(mut self, factor: f64) -> Self {
        for step in &mut self.steps {
            if let Step::Wait(pause) = step {
                *pause = Duration::try_from_secs_f64(pause.as_secs_f64() * factor).unwrap_or_default();
            }
        }
        self
    }

    /// The connection is closed in the middle of the body.
    pub fn cut(self) -> Self {
        self.ending(Ending::Cut)
    }

    /// The connection is reset in the middle of the body. What the client has not read by then may be lost.
    pub fn reset(self) -> Self {
        self.ending(Ending::Reset)
    }

    /// The body goes silent and never ends.
    pub fn stall(self) -> Self {
        self.ending(Ending::Stall)
    }

    fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }
}

impl<W: HttpWire> From<Reply<OverHttp<W>>> for Recording {
    fn from(reply: Reply<OverHttp<W>>) -> Self {
        let steps = reply.pieces().into_iter().map(|piece| match piece {
            Piece::Bytes(bytes) => Step::Chunk(bytes),
            Piece::Gate(gate) => Step::Gate(gate),
        });
        let mut recording = Self::chunks(Vec::<Vec<u8>>::new())
            .status(reply.status())
            .header("content-type", reply.content_type());
        for (name, value) in reply.headers() {
            recording = recording.header(name, value);
        }
        recording.steps.extend(steps);
        recording
    }
}

/// A turn with the chunks and at the pace of its recording. [`scaled`](Recording::scaled) makes it faster.
impl From<&RecordedTurn> for Recording {
    fn from(turn: &RecordedTurn) -> Self {
        let mut recording = Self { headers: Vec::new(), ..Self::new("") }.status(turn.status);
        for (name, value) in turn.headers.iter().filter(|(name, value)| is_served(name, value)) {
            recording.headers.push((name.clone(), value.clone()));
        }
        recording.steps = vec![Step::Wait(turn.head_after), Step::Head];
        let mut before = Duration::ZERO;
        let mut wait_until = |after: Duration| {
            let wait = Step::Wait(after.saturating_sub(before));
            before = after;
            wait
        };
        for chunk in &turn.chunks {
            recording.steps.extend([wait_until(chunk.after), Step::Chunk(chunk.bytes.clone())]);
        }
        recording.steps.push(wait_until(turn.end_after));
        recording.ending(match turn.end {
            RecordedEnd::Whole => Ending::Whole,
            RecordedEnd::Cut => Ending::Cut,
        })
    }
}

impl From<RecordedTurn> for Recording {
    fn from(turn: RecordedTurn) -> Self {
        Self::from(&turn)
    }
}

/// Whether a header of a recording is served again: not those that say how the bytes were carried, and
/// none whose value was not kept.
fn is_served(name: &str, value: &str) -> bool {
    const CARRIAGE: [&str; 4] = ["connection", "content-length", "keep-alive", "transfer-encoding"];
    !CARRIAGE.contains(&name) && value != MASKED
}

impl Step {
    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Chunk(bytes) => bytes,
            _ => Vec::new(),
        }
    }
}
