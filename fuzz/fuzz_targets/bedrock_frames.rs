//! Messages whose lengths fit and whose checksums hold, whatever the fuzzer wrote: it would never get past them
//! by itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use turnstream_bedrock::{Bedrock, EventStreamFramer};
use turnstream_core::{FrameError, Framer, Wire};
use turnstream_fuzz::Framing;

/// Small, so that the limit is met.
const LIMIT: usize = 512;
/// Two lengths and a checksum over them; behind the payload there is another one.
const PRELUDE: usize = 12;

fuzz_target!(|input: &[u8]| {
    let [body @ .., seed] = input else { return };
    let repaired = repaired(body);
    assert_eq!(frames(&repaired, repaired.len().max(1)), frames(&repaired, usize::from(*seed) + 1));
    turnstream_fuzz::check(
        Framing::Messages,
        || Bedrock::new("m", "us-east-1").decoder(),
        &[&repaired[..], &[*seed]].concat(),
    );
});

/// The body as messages one after the other, up to bytes that are too few for one.
fn repaired(body: &[u8]) -> Vec<u8> {
    let (mut repaired, mut rest) = (Vec::new(), body);
    while let Some((prelude, after)) = rest.split_first_chunk::<PRELUDE>() {
        let number =
            |at: usize| prelude[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes) as usize);
        let Some(room) = after.len().checked_sub(4) else { break };
        // Lengths that fit stay as they are, so that seeds do.
        let inner = number(0).checked_sub(PRELUDE + 4).filter(|inner| *inner <= room);
        let inner = inner.unwrap_or(number(0) % (room + 1));
        let headers = if number(4) <= inner { number(4) } else { number(4) % (inner + 1) };
        let mut message = [inner + PRELUDE + 4, headers].map(|length| (length as u32).to_be_bytes()).concat();
        message.extend(crc32fast::hash(&message).to_be_bytes());
        message.extend_from_slice(&after[..inner]);
        message.extend(crc32fast::hash(&message).to_be_bytes());
        repaired.extend(message);
        rest = &after[inner + 4..];
    }
    repaired.extend_from_slice(rest);
    repaired
}

type Owned = Result<(String, String), FrameError>;

fn frames(body: &[u8], size: usize) -> (Vec<Owned>, Option<Vec<u8>>) {
    let mut framer = EventStreamFramer::new(LIMIT);
    let mut frames = Vec::new();
    let owned = |frame: turnstream_core::Frame<'_>| (frame.event.to_owned(), frame.data.to_owned());
    for piece in body.chunks(size) {
        framer.push(piece);
        while let Some(frame) = framer.next_frame() {
            frames.push(frame.map(owned));
        }
    }
    while let Some(frame) = framer.finish() {
        frames.push(frame.map(owned));
    }
    (frames, framer.foreign().map(<[u8]>::to_vec))
}
