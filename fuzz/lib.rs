//! What the decoder targets share: the laws as the oracle.
//!
//! An input is a body, and the fuzzer's own bytes choose where it is cut: the last bytes say how.

use turnstream_bedrock::EventStreamFramer;
use turnstream_core::{
    CallIndex, Decode, End, Error, ErrorKind, Event, Events, Framer, NdjsonFramer, SseOrJsonFramer,
};
use turnstream_testing::{
    bedrock,
    conformance::{check_laws, decode, line},
};

/// How the frames of a wire are written.
#[derive(Clone, Copy)]
pub enum Framing {
    /// As server-sent events. What is JSON is read, too.
    Events,
    Lines,
    /// As messages of an AWS event stream.
    Messages,
}

/// Decodes `input` whole, in pieces, and as a prefix, and checks the laws on each.
pub fn check(framing: Framing, new_decoder: impl Fn() -> Box<dyn Decode>, input: &[u8]) {
    let (seed, body) = match input {
        [body @ .., seed] => (usize::from(*seed), body),
        [] => (0, input),
    };
    let whole = decode(new_decoder(), body);
    check_laws(&whole);

    let cut = in_pieces(new_decoder(), body, seed + 1);
    let (want, got): (Vec<_>, Vec<_>) = (whole.iter().map(line).collect(), cut.iter().map(line).collect());
    assert_eq!(want, got, "cut every {} bytes the body gives other events", seed + 1);

    let (alike, unlike) = framing.written_twice(body);
    let (want, got) = (decode(new_decoder(), &alike), decode(new_decoder(), &unlike));
    assert_eq!(said(&want), said(&got), "read the long way the body gives other events");

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

impl Framing {
    /// The body's frames as they are, and with a name of its own in each. Decoders remember the envelopes of hot
    /// frames, and of those none is like another: each is read the long way.
    fn written_twice(self, body: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let frames = match self {
            Self::Events => frames::<SseOrJsonFramer>(body),
            Self::Lines => frames::<NdjsonFramer>(body),
            Self::Messages => frames::<EventStreamFramer>(body),
        };
        let (mut alike, mut unlike) = (Vec::new(), Vec::new());
        for (number, (event, data)) in frames.iter().enumerate() {
            let named = data.strip_prefix("{\"").map(|rest| format!("{{\"x_{number}\":0,\"{rest}"));
            alike.extend(self.write(event, data));
            unlike.extend(self.write(event, named.as_ref().unwrap_or(data)));
        }
        (alike, unlike)
    }

    fn write(self, event: &str, data: &str) -> Vec<u8> {
        match self {
            Self::Events => {
                format!("event: {event}\ndata: {}\n\n", data.replace('\n', "\ndata: ")).into_bytes()
            }
            Self::Lines => format!("{data}\n").into_bytes(),
            Self::Messages => bedrock::frame(event, data),
        }
    }
}

/// Event and data of each frame, up to the first that is broken.
fn frames<F: Framer>(body: &[u8]) -> Vec<(String, String)> {
    let mut framer = F::new(body.len());
    framer.push(body);
    let mut frames = Vec::new();
    while let Some(Ok(frame)) = framer.next_frame() {
        frames.push((frame.event.to_owned(), frame.data.to_owned()));
    }
    frames
}

/// What events say, but for what is handed on raw and for the words of errors, which show the frame.
fn said(events: &[Result<Event, Error>]) -> Vec<String> {
    let known = events.iter().filter(|event| !matches!(event, Ok(Event::Provider(_))));
    known
        .map(|event| match event {
            Ok(_) => line(event),
            Err(error) => format!("{:?} {}", error.kind(), error.partial()),
        })
        .collect()
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
