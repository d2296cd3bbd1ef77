//! What the decoder targets share: the laws as the oracle.
//!
//! An input is a body, and the fuzzer's own bytes choose where it is cut: the last bytes say how.

use turnstream_core::{CallIndex, Decode, End, Error, ErrorKind, Event, Events};
use turnstream_testing::conformance::{check_laws, decode, line};

/// Decodes `input` whole, in pieces, and as a prefix, and checks the laws on each.
pub fn check(new_decoder: impl Fn() -> Box<dyn Decode>, input: &[u8]) {
    let (seed, body) = match input {
        [body @ .., seed] => (usize::from(*seed), body),
        [] => (0, input),
    };
    let whole = decode(new_decoder(), body);
    check_laws(&whole);

    let cut = in_pieces(new_decoder(), body, seed + 1);
    let (want, got): (Vec<_>, Vec<_>) = (whole.iter().map(line).collect(), cut.iter().map(line).collect());
    assert_eq!(want, got, "cut every {} bytes the body gives other events", seed + 1);

    let length = body.len() * seed / 256;
    let Some(prefix) = body.get(..length) else { return };
    let mut events = Events::new();
    let mut decoder = new_decoder();
    decoder.feed(prefix, &mut events);
    decoder.end(End::Broken(Error::new(ErrorKind::Truncated, "reset")), &mut events);
    let torn: Vec<_> = events.collect();
    check_laws(&torn);
    // A torn body may finish a call that the whole one goes on to abort or to fail, but none with other
    // arguments.
    for (ordinal, arguments) in finished(&torn) {
        if let Some((_, known)) = finished(&whole).into_iter().find(|(known, _)| *known == ordinal) {
            assert_eq!(arguments, known, "a torn body finishes call {} with other arguments", ordinal.0);
        }
    }
}

fn finished(events: &[Result<Event, Error>]) -> Vec<(CallIndex, &str)> {
    let calls = events.iter().filter_map(|event| match event {
        Ok(Event::CallFinished(call)) => Some((call.call, call.arguments.as_str())),
        _ => None,
    });
    calls.collect()
}

fn in_pieces(mut decoder: Box<dyn Decode>, body: &[u8], size: usize) -> Vec<Result<Event, Error>> {
    let mut events = Events::new();
    for piece in body.chunks(size) {
        decoder.feed(piece, &mut events);
    }
    decoder.end(End::Closed, &mut events);
    events.collect()
}
