#![no_main]

use libfuzzer_sys::fuzz_target;
use turnstream_core::{FrameError, Framer, JsonValuesFramer, NdjsonFramer, SseFramer, SseOrJsonFramer};

/// Small, so that the limit is met.
const LIMIT: usize = 256;

/// A frame that outlives its framer: event and data.
type Owned = Result<(String, String), FrameError>;

fuzz_target!(|input: &[u8]| {
    let (size, body) = match input {
        [size, body @ ..] => (usize::from(*size) + 1, body),
        [] => return,
    };
    assert_eq!(events(body, body.len().max(1)), events(body, size));
    same::<NdjsonFramer>(body, size);
    same::<JsonValuesFramer>(body, size);
    same::<SseOrJsonFramer>(body, size);
});

fn events(body: &[u8], size: usize) -> (Vec<Owned>, bool, bool, Vec<u8>) {
    let mut framer = SseFramer::new(LIMIT);
    let mut frames = Vec::new();
    for piece in body.chunks(size) {
        framer.push(piece);
        while let Some(frame) = framer.next_frame() {
            frames.push(frame.map(|frame| (frame.event.to_owned(), frame.data.to_owned())));
        }
    }
    while let Some(frame) = framer.finish() {
        frames.push(frame.map(|frame| (frame.event.to_owned(), frame.data.to_owned())));
    }
    // Over the limit the framer is dead, and what it kept of the body has no meaning.
    let is_dead = frames.iter().any(|frame| matches!(frame, Err(FrameError::TooLarge { .. })));
    let preamble = if is_dead { Vec::new() } else { framer.preamble().to_vec() };
    (frames, framer.saw_field(), framer.saw_anything(), preamble)
}

fn same<F: Framer>(body: &[u8], size: usize) {
    assert_eq!(frames::<F>(body, body.len().max(1)), frames::<F>(body, size), "{}", F::FRAME);
}

fn frames<F: Framer>(body: &[u8], size: usize) -> (Vec<Owned>, Option<(bool, Option<Vec<u8>>)>) {
    let mut framer = F::new(LIMIT);
    let mut frames = Vec::new();
    for piece in body.chunks(size) {
        framer.push(piece);
        while let Some(frame) = framer.next_frame() {
            frames.push(frame.map(|frame| (frame.event.to_owned(), frame.data.to_owned())));
        }
    }
    while let Some(frame) = framer.finish() {
        frames.push(frame.map(|frame| (frame.event.to_owned(), frame.data.to_owned())));
    }
    // Behind such an error the framer is dead, and what it kept of the body has no meaning.
    let is_dead = |frame: &Owned| matches!(frame, Err(FrameError::TooLarge { .. } | FrameError::Damaged { .. }));
    let rest = (framer.is_torn(), framer.foreign().map(<[u8]>::to_vec));
    let rest = (!frames.iter().any(is_dead)).then_some(rest);
    (frames, rest)
}
