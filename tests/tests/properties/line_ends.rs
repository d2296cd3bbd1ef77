//! The events do not depend on how lines end, on comments, or on a byte-order mark.

use turnstream::wire::End;
use turnstream_tests::{Framing, TestedWire};

use crate::{
    bodies::{BYTE_ORDER_MARK, with_inserted},
    events::{assert_same, decode_pieces},
    inputs::{Input, inputs},
    trial::{Trial, try_all},
};

/// What a server sends to say that it is still there, or for no reason.
const NOTHINGS: [&str; 7] = [
    ": keep-alive\n\n",
    ":\r\n\r\n",
    ": data: {\"type\":\"error\"}\r\r",
    "\n",
    "event: message\n\n",
    "id: 7\nretry: 3000\n\n",
    "data:\ndata: \n\n",
];
/// The same among JSON lines, which know no comments.
const BLANKS: [&str; 3] = ["\n", "\r\n", " \t\n"];
const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
/// At how many places of a body each of them is put in alone.
const PLACES: usize = if cfg!(debug_assertions) { 32 } else { 256 };
/// How often the line ends of a body are mixed.
const MIXES: u64 = 8;

#[test]
fn line_ends_and_comments_do_not_matter() {
    try_all("line ends", inputs(), |input| &input.name, check);
}

fn check(input: &Input, trial: &mut Trial) {
    let Input { body, frames, .. } = input;
    // A body that is no stream is shown in its error as it stands, and messages have no lines.
    if frames.list.is_empty() || frames.lines.is_empty() {
        return;
    }
    check_places(input, trial);
    let mut same = |what: &str, changed: &[u8]| {
        for size in [usize::MAX, 1, 5] {
            trial.holds(
                || format!("{what}, in pieces of {size}"),
                || {
                    assert_same(
                        &decode_pieces(input.decoder(), changed.chunks(size), End::Closed),
                        &input.whole,
                    )
                },
            );
        }
    };

    let framing = input.wire.framing();
    let ends: &[&str] = match framing {
        Framing::Sse => &["\n", "\r\n", "\r"],
        Framing::Lines | Framing::Messages => &["\n", "\r\n"],
    };
    for end in ends {
        same(&format!("{end:?} at the end of each line"), &with_line_ends(input, |_, _| end));
    }
    for seed in 0..MIXES {
        let mut random = fastrand::Rng::with_seed(seed);
        let mixed = with_line_ends(input, |before, line| {
            // An LF alone behind a CR would be the end of the same line.
            let is_one_end = before == "\r" && line.is_empty();
            ends[random.usize(usize::from(is_one_end)..ends.len())]
        });
        same(&format!("mixed line ends {seed}"), &mixed);
    }
    let without_mark = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    same("a byte-order mark", &[BYTE_ORDER_MARK, without_mark].concat());
    same("no byte-order mark", without_mark);

    // A torn last frame may be damaged, and the next byte would be the end of it.
    if !frames.is_torn(body) {
        let is_whole =
            frames.list.last().is_some_and(|frame| frame.data == "[DONE]" || frame.json().is_some());
        let end = body.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
        if is_whole {
            same("no final line end", &body[..end]);
            same("no final blank line", &[&body[..end], b"\n"].concat());
        }
        same("more final blank lines", &[body, &b"\n\r\n"[..], ends[ends.len() - 1].as_bytes()].concat());
    }

    for nothing in nothings(input.wire) {
        let mut everywhere = body.clone();
        for place in frames.boundaries.iter().rev() {
            everywhere.splice(place..place, nothing.bytes());
        }
        same(&format!("{nothing:?} everywhere"), &everywhere);
    }
    if framing != Framing::Sse {
        return;
    }
    let mut commented = body.clone();
    for (line, _) in frames.lines.iter().rev() {
        commented.splice(line.start..line.start, b": between the lines of one frame\n".iter().copied());
    }
    same("a comment before every line", &commented);
}

fn check_places(input: &Input, trial: &mut Trial) {
    for place in input.frames.places(PLACES) {
        for nothing in nothings(input.wire) {
            trial.holds(
                || format!("{nothing:?} at {place}"),
                || {
                    assert_same(
                        &input.decode(&with_inserted(&input.body, place, nothing.as_bytes())),
                        &input.whole,
                    )
                },
            );
        }
    }
    if input.frames.boundaries.len() > PLACES {
        trial.is_sampled();
    }
}

fn nothings(wire: TestedWire) -> impl Iterator<Item = &'static str> {
    let nothings = match wire.framing() {
        Framing::Sse => NOTHINGS.as_slice(),
        Framing::Lines => BLANKS.as_slice(),
        Framing::Messages => &[],
    };
    nothings.iter().copied().chain((wire == TestedWire::Anthropic).then_some(PING))
}

/// The body with other line ends: `end` is asked for each, with the one before and the line. A last line
/// without an end stays without.
fn with_line_ends(input: &Input, mut end: impl FnMut(&str, &[u8]) -> &'static str) -> Vec<u8> {
    let Input { body, frames, .. } = input;
    let (mut changed, mut before) = (Vec::with_capacity(body.len() * 2), "");
    for (content, line_end) in &frames.lines {
        let line = &body[content.clone()];
        changed.extend_from_slice(line);
        if *line_end > content.end {
            before = end(before, line);
            changed.extend_from_slice(before.as_bytes());
        }
    }
    changed
}
