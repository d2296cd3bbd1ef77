//! What every decoder has to pass: the events do not depend on the cuts, and they keep the laws.
//!
//! The functions panic when something does not hold, like `assert_eq!`.

mod laws;

use turnstream_core::{Decode, End, Error, Event, Events};

pub use laws::{broken_law, check_laws};

/// Up to this size every single cut is tried.
const EVERY_CUT_BYTES: usize = 16 << 10;
/// How many single cuts are tried in a longer body.
const SAMPLED_CUTS: usize = 256;
/// The sizes of the pieces in which a body is fed.
const PIECES: [usize; 4] = [1, 7, 61, 4096];

/// The events of a whole body, fed at once and closed cleanly.
pub fn decode(decoder: Box<dyn Decode>, body: &[u8]) -> Vec<Result<Event, Error>> {
    decode_pieces(decoder, [body])
}

/// The events of a body that comes in these pieces and is closed cleanly.
///
/// # Panics
///
/// When the decoder gives something out after the end.
pub fn decode_pieces<'a>(
    mut decoder: Box<dyn Decode>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<Result<Event, Error>> {
    let mut events = Events::new();
    for piece in pieces {
        decoder.feed(piece, &mut events);
    }
    decoder.end(End::Closed, &mut events);
    let decoded: Vec<_> = events.by_ref().collect();
    decoder.feed(b"data: {}\n\n", &mut events);
    decoder.end(End::Closed, &mut events);
    assert!(events.is_empty(), "after the end the decoder gave out {events:?}");
    decoded
}

/// Checks law 5: the events are the same however the bytes are cut. Decodes the body whole, byte by byte,
/// in pieces of a few sizes, and at every single cut; in a body of more than 16 KiB at a fixed sample of the
/// cuts and at all those within two bytes of a line's end. Gives back the events of the whole body.
///
/// ```
/// use turnstream_core::{
///     BodyEnd, Closing, Decode, Interpret, Ledger, Lesson, Limits, BadFrame, Rules, SseDecoder, Frame,
/// };
/// use turnstream_testing::conformance::{check_laws, cuts_do_not_matter};
///
/// #[derive(Default)]
/// struct OnlyText;
///
/// impl Interpret for OnlyText {
///     type Hot = ();
///
///     fn frame<'f>(
///         &mut self,
///         frame: Frame<'f>,
///         ledger: &mut Ledger,
///     ) -> Result<Option<Lesson<'f, ()>>, BadFrame> {
///         match frame.data {
///             "[DONE]" => ledger.turn_ended(),
///             text => {
///                 let part = ledger.part_began();
///                 ledger.text(part, &text.into());
///             }
///         }
///         Ok(None)
///     }
/// }
///
/// fn decoder() -> Box<dyn Decode> {
///     let rules = Rules::new("only-text", Closing::Marker, BodyEnd::Cuts);
///     Box::new(SseDecoder::new(rules, Limits::new(), OnlyText))
/// }
///
/// let events = cuts_do_not_matter(decoder, "data: smørrebrød\r\n\r\ndata: [DONE]\n\n".as_bytes());
/// check_laws(&events);
/// ```
///
/// # Panics
///
/// When a cut changes the events. The message shows the cut and the first line that differs.
pub fn cuts_do_not_matter(
    new_decoder: impl Fn() -> Box<dyn Decode>,
    body: &[u8],
) -> Vec<Result<Event, Error>> {
    let whole = decode(new_decoder(), body);
    let check = |how: &dyn std::fmt::Display, cuts: &mut dyn Iterator<Item = usize>| {
        let cut = decode_pieces(new_decoder(), pieces(body, cuts));
        if !are_same(&whole, &cut) {
            let (want, got) = (lines(&whole), lines(&cut));
            let difference = Difference { want: &want, got: &got };
            assert!(want == got, "cut {how} the body gives other events than whole\n{difference}");
        }
    };
    for size in PIECES {
        check(&format_args!("every {size} bytes"), &mut (0..body.len()).step_by(size));
    }
    let line_ends = || body.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| index);
    for distance in 0..=4 {
        let mut cuts = line_ends().map(|index| (index + distance).saturating_sub(1));
        check(&format_args!("{distance} - 1 bytes after the start of each line's end"), &mut cuts);
    }
    let stride = if body.len() <= EVERY_CUT_BYTES { 1 } else { body.len() / SAMPLED_CUTS };
    for cut in (1..body.len()).step_by(stride) {
        check(&format_args!("at byte {cut}"), &mut std::iter::once(cut));
    }
    whole
}

/// An event or an error as one line of JSON, as `turnstream decode` prints it.
///
/// # Panics
///
/// Never: both always serialise.
pub fn line(event: &Result<Event, Error>) -> String {
    let line = match event {
        Ok(event) => serde_json::to_string(event),
        Err(error) => serde_json::to_string(error),
    };
    line.expect("events and errors serialise")
}

/// Checks that the events are exactly these lines of JSON: the content of a fixture's events file.
///
/// # Panics
///
/// When they differ. The message shows the first line that does.
pub fn check_lines(events: &[Result<Event, Error>], want: &str) {
    let got = lines(events);
    let want: Vec<String> = want.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    let difference = Difference { want: &want, got: &got };
    assert!(want == got, "the events are not the expected ones\n{difference}");
}

/// Whether two lists are the same; errors, as they are printed.
fn are_same(left: &[Result<Event, Error>], right: &[Result<Event, Error>]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|pair| match pair {
            (Ok(left), Ok(right)) => left == right,
            (left, right) => line(left) == line(right),
        })
}

fn lines(events: &[Result<Event, Error>]) -> Vec<String> {
    events.iter().map(line).collect()
}

/// The body in pieces that end at the cuts, which go up.
fn pieces<'b>(body: &'b [u8], cuts: &mut dyn Iterator<Item = usize>) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for cut in cuts.chain(std::iter::once(body.len())) {
        let Some(piece) = body.get(start..cut.min(body.len())) else { continue };
        if !piece.is_empty() {
            pieces.push(piece);
            start = cut;
        }
    }
    pieces
}

/// Two lists of lines, shown from a little before the first difference.
struct Difference<'a> {
    want: &'a [String],
    got: &'a [String],
}

impl std::fmt::Display for Difference<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let same = self.want.iter().zip(self.got).take_while(|(want, got)| want == got).count();
        let shown = |lines: &[String], mark: &str, formatter: &mut std::fmt::Formatter<'_>| {
            let rest = lines.get(same..).unwrap_or_default();
            rest.iter().take(4).try_for_each(|line| writeln!(formatter, "{mark} {line}"))
        };
        writeln!(formatter, "line {} differs (- expected, + got):", same + 1)?;
        for line in self.want.get(same.saturating_sub(2)..same).unwrap_or_default() {
            writeln!(formatter, "  {line}")?;
        }
        shown(self.want, "-", formatter)?;
        shown(self.got, "+", formatter)
    }
}

#[cfg(test)]
mod tests {
    use turnstream_core::{PartIndex, TextDelta};

    use super::*;

    /// A decoder that makes an event of every piece that it is fed: the cuts matter.
    struct ByPiece;

    impl Decode for ByPiece {
        fn feed(&mut self, bytes: &[u8], events: &mut Events) {
            let text = String::from_utf8_lossy(bytes).into_owned();
            events.push(Ok(Event::TextDelta(TextDelta::new(PartIndex(0), text))));
        }

        fn end(&mut self, _end: End, _events: &mut Events) {}

        fn is_settled(&self) -> bool {
            false
        }
    }

    #[test]
    #[should_panic(expected = "after the end the decoder gave out")]
    fn a_decoder_that_goes_on_after_its_end_is_found() {
        decode(Box::new(ByPiece), b"abc");
    }

    #[test]
    fn pieces_end_at_the_cuts() {
        let cuts = |cuts: &[usize]| {
            let pieces = pieces(b"abcdef", &mut cuts.iter().copied());
            pieces.iter().map(|piece| String::from_utf8_lossy(piece).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(cuts(&[]), ["abcdef"]);
        assert_eq!(cuts(&[0, 2, 2, 5, 9]), ["ab", "cde", "f"]);
    }

    #[test]
    fn a_difference_shows_where_it_begins() {
        let list = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let (want, got) = (list(&["a", "b", "c", "d"]), list(&["a", "b", "c"]));
        let difference = Difference { want: &want, got: &got };
        assert_eq!(difference.to_string(), "line 4 differs (- expected, + got):\n  b\n  c\n- d\n");
    }
}
