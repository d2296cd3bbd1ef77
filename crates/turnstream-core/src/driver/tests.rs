//! The quick way says what the long way says, for every body and every way of cutting it: bodies that are made at
//! random of hot frames, and damaged, go through an interpreter that gives lessons and through one that gives none.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use fastrand::Rng;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::*;
use crate::{
    count::Count,
    event::PartIndex,
    json_text::JsonText,
    ledger::{BodyEnd, Closing},
    raw_json::RawJson,
};

#[test]
fn server_sent_events_are_read_alike_both_ways() {
    assert_both_ways_are_alike::<SseFramer>(5_000, sse_frame);
}

#[test]
fn json_lines_are_read_alike_both_ways() {
    assert_both_ways_are_alike::<NdjsonFramer>(3_000, json_line);
}

#[test]
fn server_sent_events_among_bare_json_are_read_alike_both_ways() {
    assert_both_ways_are_alike::<SseOrJsonFramer>(3_000, |random| match random.u8(..4) {
        0 => json_line(random) + pick(random, &["", "\n", "\n\n"]),
        _ => sse_frame(random),
    });
}

fn assert_both_ways_are_alike<F: Framer>(bodies: u64, frame: fn(&mut Rng) -> String) {
    let (mut frames, mut hot) = (0, 0);
    for seed in 0..bodies {
        let mut random = Rng::with_seed(seed);
        let count = random.usize(2..30);
        let body = body(&mut random, count, frame);
        // So small that the limit is met, or of no account.
        let limits = Limits::default().frame_bytes(pick(&mut random, &[120, 1 << 20, 1 << 20, 1 << 20]));
        let chunks = cut(&mut random, &body);
        let quick = Blocks { gives_lessons: true, ..Blocks::default() };
        let recognised = Arc::clone(&quick.recognised);
        let got = decoded::<F>(limits, quick, &chunks);
        let want = decoded::<F>(limits, Blocks::default(), &[&body]);
        let shown = || chunks.iter().map(|chunk| chunk.escape_ascii().to_string()).collect::<Vec<_>>();
        assert_eq!(got, want, "body {seed}, cut so: {:#?}", shown());
        frames += count;
        hot += recognised.load(Ordering::Relaxed);
    }
    // Else the test would show nothing.
    assert!(hot > frames / 10, "of {frames} frames only {hot} were recognised");
}

/// What the events say, all of it.
fn decoded<F: Framer>(limits: Limits, blocks: Blocks, chunks: &[&[u8]]) -> Vec<String> {
    let rules = Rules::new("test", Closing::Marker, BodyEnd::Finishes);
    let mut decoder = Decoder::<F, _>::new(rules, limits, blocks);
    let mut events = Events::new();
    chunks.iter().for_each(|chunk| decoder.feed(chunk, &mut events));
    decoder.end(End::Closed, &mut events);
    let line = |event| match event {
        Ok(event) => serde_json::to_string(&event).unwrap(),
        Err(error) => format!("{error:?}"),
    };
    events.map(line).collect()
}

/// A wire of blocks with texts. It reads each field that a frame of it has in a way that shows, but for `n` and `pad`.
#[derive(Debug, Default)]
struct Blocks {
    gives_lessons: bool,
    /// How many frames went the quick way.
    recognised: Arc<AtomicUsize>,
    /// The blocks that have begun; those that have ended take nothing.
    parts: BTreeMap<u64, Option<PartIndex>>,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    id: Option<JsonText<'a>>,
    #[serde(default)]
    block: Count,
    #[serde(borrow)]
    text: Option<JsonText<'a>>,
    #[serde(borrow)]
    counts: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    ends: bool,
}

/// What is hot: an event of this name, of this block, with counts or without.
#[derive(Debug)]
struct Piece {
    event: String,
    block: u64,
    has_counts: bool,
}

impl Interpret for Blocks {
    type Hot = Piece;

    const PASSED_OVER: &'static [&'static str] = &["n", "pad"];

    fn frame<'f>(
        &mut self,
        frame: Frame<'f>,
        ledger: &mut Ledger,
    ) -> Result<Option<Lesson<'f, Piece>>, BadFrame> {
        if frame.data == "[DONE]" {
            ledger.turn_ended();
            return Ok(None);
        }
        let payload: Payload<'f> =
            serde_json::from_str(frame.data).map_err(|problem| BadFrame::new(frame.event, problem))?;
        ledger.turn_started(payload.id.as_ref().and_then(JsonText::as_str), None);
        let block = payload.block.get().unwrap_or_default();
        let counts = payload.counts.as_ref().map(|counts| counts.iter().map(|raw| Count::of(raw)).collect());
        if let Some(text) = &payload.text
            && !self.piece(frame.event, block, text, counts, ledger)
        {
            ledger.news("late", frame.data);
        }
        if payload.ends
            && let Some(part) = self.parts.insert(block, None).flatten()
        {
            ledger.part_finished(part, None);
        }
        let text = payload.text.as_ref().and_then(JsonText::as_borrowed);
        let Some(text) = text.filter(|_| self.gives_lessons && !payload.ends) else { return Ok(None) };
        let piece = Piece { event: frame.event.to_owned(), block, has_counts: payload.counts.is_some() };
        let numbers = payload.counts.iter().flatten().map(|raw| raw.get()).collect();
        Ok(Some(Lesson::new(piece, text).with_numbers(numbers)))
    }

    fn hot(&mut self, hot: HotFrame<'_, Piece>, ledger: &mut Ledger) -> bool {
        self.recognised.fetch_add(1, Ordering::Relaxed);
        let Piece { event, block, has_counts } = hot.meaning;
        let counts = has_counts.then(|| hot.numbers.iter().map(|number| Count::from(*number)).collect());
        self.piece(event, *block, &hot.text.into(), counts, ledger)
    }
}

impl Blocks {
    /// False, and nothing said, if the block has ended.
    fn piece(
        &mut self,
        event: &str,
        block: u64,
        text: &JsonText<'_>,
        counts: Option<Vec<Count>>,
        ledger: &mut Ledger,
    ) -> bool {
        let part = self.parts.entry(block).or_insert_with(|| Some(ledger.part_began()));
        let Some(part) = *part else { return false };
        if let Some(counts) = counts {
            let counts: Vec<_> = counts.into_iter().map(Count::get).collect();
            ledger.provider(event, RawJson::of(&counts).unwrap());
        }
        match event {
            "thought" => ledger.reasoning(part, text),
            _ => ledger.text(part, text),
        }
        true
    }
}

/// A body of so many frames. Half of the bodies are damaged, in one place or in several.
fn body(random: &mut Rng, frames: usize, frame: fn(&mut Rng) -> String) -> Vec<u8> {
    let mut body = pick(random, &["", "", "", "\u{feff}", "\n", "\r\n"]).as_bytes().to_vec();
    let mut latest = frame(random);
    for _ in 0..frames {
        // Hot frames come in runs, and a stream writes each in the same way.
        if random.u8(..6) == 0 {
            latest = frame(random);
        }
        // Another frame may differ from it in a line alone.
        let line_end = latest.find(['\n', '\r']).map_or(0, |end| end + 1);
        let start = if random.u8(..6) == 0 { line_end } else { 0 };
        fill(random, &latest[start..], &mut body);
    }
    for _ in 0..pick(random, &[0, 0, 1, 3]) {
        let at = random.usize(..=body.len());
        let end = (at + random.usize(..3)).min(body.len());
        body.splice(at..end, pick(random, DAMAGE).iter().copied());
    }
    body
}

/// Writes a frame with something in its holes.
fn fill(random: &mut Rng, frame: &str, body: &mut Vec<u8>) {
    for piece in frame.split(['<', '>']) {
        match piece {
            "text" => (0..random.u8(..4)).for_each(|_| body.extend_from_slice(piece_of_text(random))),
            "number" => body.extend_from_slice(pick_seldom(random, NUMBERS, ODD_NUMBERS).as_bytes()),
            "word" => body.extend_from_slice(pick_seldom(random, WORDS, ODD_WORDS).as_bytes()),
            literal => body.extend_from_slice(literal.as_bytes()),
        }
    }
}

/// A server-sent event, whose lines end in any way.
fn sse_frame(random: &mut Rng) -> String {
    let end = pick(random, &["\n", "\n", "\r\n", "\r"]);
    let event = pick(random, &["", "event: delta", "event:thought"]);
    let before = pick(random, &["", "", "", "", ": hello", "id: 7", "retry: 1", "data:"]);
    let after = pick(random, &["", "", "", "", ":", "event: other", "id", "data: "]);
    let data = if random.u8(..100) == 0 { "[DONE]".to_owned() } else { data(random) };
    let space = pick(random, &[" ", ""]);
    let mut frame = String::new();
    for line in [before, event, &format!("data:{space}{data}"), after] {
        if !line.is_empty() {
            frame += line;
            frame += end;
        }
    }
    frame + end
}

fn json_line(random: &mut Rng) -> String {
    let (blanks, end) =
        (pick(random, &["", "", " ", "\t"]), pick(random, &["\n", "\n", "\r\n", " \n", "\n\n"]));
    format!("{blanks}{}{end}", data(random))
}

/// A frame's data, with holes.
fn data(random: &mut Rng) -> String {
    let mut fields = [
        pick(random, &["", "", "", r#""id":"a""#]),
        pick(random, &["", r#""block":0"#, r#""block":1"#]),
        pick(
            random,
            &["", r#""n":<number>"#, r#""n": <number>"#, r#""n":{"n":<number>}"#, r#""n":"<word>""#],
        ),
        pick(
            random,
            &[r#""text":"<text>""#, r#""text": "<text>""#, r#""x":[null,{"text":-1.5}],"text":"<text>""#],
        ),
        pick(
            random,
            &["", r#""counts":[<number>]"#, r#""counts":[<number>, 0,<number>]"#, r#""counts":["1",2.0]"#],
        ),
        pick(random, &["", r#""pad":"<word>""#, r#""pad":"<word>" "#, r#""x\n":"pad""#]),
        pick(random, &["", "", "", "", r#""ends":true"#, r#""ends":false"#]),
    ];
    if random.bool() {
        random.shuffle(&mut fields);
    }
    let fields: Vec<&str> = fields.into_iter().filter(|field| !field.is_empty()).collect();
    format!("{{{}}}", fields.join(","))
}

fn piece_of_text(random: &mut Rng) -> &'static [u8] {
    if random.u8(..200) == 0 { pick(random, ODD_TEXTS) } else { pick(random, TEXTS).as_bytes() }
}

fn pick_seldom(random: &mut Rng, usual: &[&'static str], odd: &[&'static str]) -> &'static str {
    let words = if random.u8(..50) == 0 { odd } else { usual };
    pick(random, words)
}

const TEXTS: &[&str] = &[
    "a",
    "words ",
    "more, ",
    "é😀",
    "東京",
    "{}",
    "eight or more of them",
    "sixteen or more of them",
    r"\n",
    r"\r",
    r"\\",
    r#"\""#,
    r"\/",
    r"\u00e9",
    r"\u0000",
    r"\ud83d\ude00",
];

/// Halves of surrogate pairs, a character that JSON forbids, half a character, and escapes that are none.
const ODD_TEXTS: &[&[u8]] = &[br"\ud83d", br"\ude00", b"\t", b"\xc3", br"\x", br"\"];

const NUMBERS: &[&str] = &["0", "1", "7", "10", "1234567", "18446744073709551615"];
const ODD_NUMBERS: &[&str] = &["18446744073709551616", "1.5", "2e1", "-1", "null", r#""3""#, "01"];

const WORDS: &[&str] = &["", "x", "some more of it"];
const ODD_WORDS: &[&str] = &[r"\n", "é"];

const DAMAGE: &[&[u8]] = &[
    b"",
    b"0",
    b"9",
    b"1e3",
    b"-",
    b".",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b",",
    b":",
    b" ",
    b"\t",
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\xff",
    b"\xa9",
    b"\0",
    b"null",
    b"data: ",
    b"event: thought",
    b"99999999999999999999",
    br#""n":1,"#,
    br#""text":"b","#,
];

/// The body whole, byte by byte, where lines end, or in a few places.
fn cut<'b>(random: &mut Rng, body: &'b [u8]) -> Vec<&'b [u8]> {
    match random.u8(..5) {
        0 => vec![body],
        1 => body.chunks(1).collect(),
        2 => body.chunks(random.usize(1..100)).collect(),
        3 => body.split_inclusive(|byte| matches!(byte, b'\n' | b'\r') && random.bool()).collect(),
        _ => {
            let mut cuts: Vec<usize> = (0..random.usize(1..5)).map(|_| random.usize(..=body.len())).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            cuts.windows(2).map(|ends| &body[ends[0]..ends[1]]).collect()
        }
    }
}

fn pick<T: Copy>(random: &mut Rng, items: &[T]) -> T {
    items[random.usize(..items.len())]
}
