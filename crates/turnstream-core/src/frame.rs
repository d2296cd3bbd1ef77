//! What a framer is, and what it gives: the units of transport, whatever the framing.

use std::{fmt, str::Utf8Error};

/// Cuts a body into frames. One framer serves one body.
///
/// How the bytes are cut into chunks changes nothing. After every [`push`](Self::push), call
/// [`next_frame`](Self::next_frame) until it gives `None`: what it has not given out stays in memory.
pub trait Framer: Send {
    /// What a frame of this framing is called, for errors: `server-sent event`, `JSON line`.
    const FRAME: &'static str;

    /// A framer at the start of a body. `limit` is how many bytes a frame may have.
    fn new(limit: usize) -> Self
    where
        Self: Sized;

    /// Takes the next bytes of the body.
    fn push(&mut self, chunk: &[u8]);

    /// The next frame, if all of it has come.
    ///
    /// # Errors
    ///
    /// [`FrameError::NotUtf8`] stands for one frame, and the next ones follow. After any other error there is
    /// nothing more.
    fn next_frame(&mut self) -> Option<Result<Frame<'_>, FrameError>>;

    /// What comes next of the body, as far as it is there, if a frame begins right there and no byte of it was
    /// looked at; else nothing. Framers that cannot show it always say nothing.
    fn ahead(&self) -> &[u8] {
        &[]
    }

    /// Passes over so many bytes of [`ahead`](Self::ahead): they are a whole frame, and have been read.
    fn skip(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// At the end of the body: the frame that nothing ended, where the framing has such. The caller decides
    /// whether it counts. Frames that [`next_frame`](Self::next_frame) has not given out yet come first, one a
    /// call.
    ///
    /// # Errors
    ///
    /// As [`next_frame`](Self::next_frame).
    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>>;

    /// After [`finish`](Self::finish): the start of a body that is not of this framing, at most 64 KiB, so that
    /// it can be shown, or read as an error. `None` for a body that is, and for an empty one.
    fn foreign(&self) -> Option<&[u8]>;

    /// Whether the framing itself says that more had to come: an array that nothing closed. A body that ends
    /// so was cut, whatever its frames say. Most framings cannot tell, and say no.
    fn is_torn(&self) -> bool {
        false
    }
}

/// One frame, lent by the framer. Frames are equal whose events and data are.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The event's name; empty if the frame has none. In an AWS event stream the frames that are errors have
    /// `exception:` before their name.
    pub event: &'a str,
    /// The frame's data. Several data lines of a server-sent event are joined by LF. Never empty there.
    pub data: &'a str,
    /// The frame as it stands in the body, from its first byte to the end of what ends it. Nothing, where the framer
    /// does not have it so.
    pub(crate) in_body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// A frame.
    pub fn new(event: &'a str, data: &'a str) -> Self {
        Self { event, data, in_body: &[] }
    }
}

impl PartialEq for Frame<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.event, self.data) == (other.event, other.data)
    }
}

impl Eq for Frame<'_> {}

/// What is wrong with a frame.
///
/// Exhaustive on purpose: a caller has to decide about each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameError {
    /// The frame is larger than the limit. The framer gives nothing more.
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
        /// The size at which the frame was given up, in bytes: the first one beyond the limit, however the
        /// bytes were cut. The whole frame may be larger.
        seen: usize,
    },
    /// The frame is not UTF-8. The frames after it are not touched by that.
    NotUtf8 {
        /// How many bytes of the frame's data, or of its event name if that is what is broken, are good.
        valid_up_to: usize,
        /// The start of the same, to be shown: at most 256 bytes, with U+FFFD for what is not UTF-8.
        start: String,
    },
    /// The frame is damaged: a checksum or a length does not hold. The framer gives nothing more.
    Damaged {
        /// What does not hold, in words.
        problem: String,
    },
}

impl FrameError {
    /// The error for a frame of more than `limit` bytes.
    pub fn too_large(limit: usize) -> Self {
        Self::TooLarge { limit, seen: limit.saturating_add(1) }
    }

    /// The text of a frame with these bytes.
    ///
    /// # Errors
    ///
    /// [`NotUtf8`](Self::NotUtf8).
    pub fn text(bytes: &[u8]) -> Result<&str, Self> {
        // The error of the quicker check does not say where.
        let text = simdutf8::basic::from_utf8(bytes).or_else(|_| str::from_utf8(bytes));
        text.map_err(|error| Self::not_utf8(bytes, error))
    }

    fn not_utf8(bytes: &[u8], error: Utf8Error) -> Self {
        // A few bytes more than are shown, so that no character is torn where the text is cut.
        let shown = bytes.get(..SHOWN_BYTES + 4).unwrap_or(bytes);
        let mut start = String::from_utf8_lossy(shown).into_owned();
        start.truncate(start.floor_char_boundary(SHOWN_BYTES));
        Self::NotUtf8 { valid_up_to: error.valid_up_to(), start }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit, .. } => write!(f, "a frame is larger than the limit of {limit} bytes"),
            Self::NotUtf8 { valid_up_to, start } => {
                write!(f, "a frame is not UTF-8 behind its byte {valid_up_to}; it starts with {start:?}")
            }
            Self::Damaged { problem } => write!(f, "a frame is damaged: {problem}"),
        }
    }
}

impl std::error::Error for FrameError {}

const SHOWN_BYTES: usize = 256;
