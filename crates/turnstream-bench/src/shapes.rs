//! What the bodies say.

use crate::{
    body::Body,
    wires::{BenchWire, Framing},
};

/// The body of a shape, by the name that command lines have for it.
///
/// # Errors
///
/// Where there is no such shape, or the wire does not have it.
pub fn named(wire: BenchWire, shape: &str, size: usize) -> Result<Body, String> {
    let mebibytes = size.saturating_mul(1 << 20);
    Ok(match shape {
        "text" => text(wire, size),
        "tools" => tools(wire, size),
        "turn" => turn(wire),
        "huge-call" => huge_call(wire, mebibytes),
        "huge-frame" => huge_frame(wire, mebibytes),
        "comments" if wire.framing() != Framing::ServerSentEvents => {
            return Err(format!("{} has no comments", wire.name()));
        }
        "comments" => comments(wire, size),
        "long-text" => long_text(wire, mebibytes),
        shape => return Err(format!("there is no shape `{shape}`")),
    })
}

/// A turn of the example's recorded conversation, by its number: 1 has two calls, 3 is the answer. It is written
/// as Anthropic's Messages are.
pub fn recorded_turn(number: usize) -> Body {
    let recorded = match number {
        1 => include_str!("../../../examples/support_assistant/recording/turn-1.body"),
        2 => include_str!("../../../examples/support_assistant/recording/turn-2.body"),
        _ => include_str!("../../../examples/support_assistant/recording/turn-3.body"),
    };
    Body::of_frames(recorded)
}

/// One text of so many deltas, of one word to eight words each.
pub fn text(wire: BenchWire, deltas: usize) -> Body {
    text_of(wire, deltas, Words::piece)
}

/// One text of so many deltas of one word each.
pub fn short_text(wire: BenchWire, deltas: usize) -> Body {
    text_of(wire, deltas, Words::word)
}

/// One text of at least so many bytes, in deltas of one word to eight words each.
pub fn long_text(wire: BenchWire, bytes: usize) -> Body {
    let (mut writer, mut words, mut written) = (wire.writer(), Words::default(), 0);
    while written < bytes {
        let piece = words.piece();
        written += piece.len();
        writer.text(&piece);
    }
    writer.finish()
}

/// Sixteen calls, one after the other, of about so many fragments each, with escapes and beyond ASCII.
pub fn tools(wire: BenchWire, fragments: usize) -> Body {
    let mut writer = wire.writer();
    let text = arguments(fragments * FRAGMENT_BYTES);
    for call in 0..CALLS {
        writer.call(&format!("call_mK81s{call:02}"), "create_ticket");
        for fragment in Fragments::of(&text) {
            writer.fragment(fragment);
        }
    }
    writer.finish()
}

/// A small turn as agents have them: forty text deltas, and a call of 610 bytes in 47 fragments.
pub fn turn(wire: BenchWire) -> Body {
    let (mut writer, mut words) = (wire.writer(), Words::default());
    for _ in 0..40 {
        writer.text(&words.word());
    }
    writer.call("call_mK81s00", "create_ticket");
    for fragment in Fragments::of(&arguments(610)) {
        writer.fragment(fragment);
    }
    writer.finish()
}

/// One call of so many bytes of arguments, in fragments of 13 bytes.
pub fn huge_call(wire: BenchWire, bytes: usize) -> Body {
    let mut writer = wire.writer();
    writer.call("call_mK81s00", "write_file");
    for fragment in Fragments::of(&arguments(bytes)) {
        writer.fragment(fragment);
    }
    writer.finish()
}

/// One text of so many bytes, in one frame.
pub fn huge_frame(wire: BenchWire, bytes: usize) -> Body {
    let mut writer = wire.writer();
    writer.text(&arguments(bytes));
    writer.finish()
}

/// So many comments, and one word.
pub fn comments(wire: BenchWire, count: usize) -> Body {
    let mut writer = wire.writer();
    for _ in 0..count {
        writer.comment();
    }
    writer.text("Done.");
    writer.finish()
}

fn text_of(wire: BenchWire, deltas: usize, mut next: impl FnMut(&mut Words) -> String) -> Body {
    let (mut writer, mut words) = (wire.writer(), Words::default());
    for _ in 0..deltas {
        writer.text(&next(&mut words));
    }
    writer.finish()
}

/// A JSON object of exactly so many bytes: a file to be written, as agents write them. At least 64.
fn arguments(bytes: usize) -> String {
    let (opening, closing) = (r#"{"path":"src/über.rs","content":""#, r#""}"#);
    let mut text = String::with_capacity(bytes);
    text.push_str(opening);
    for line in LINES.iter().cycle() {
        if text.len() + line.len() + closing.len() > bytes {
            break;
        }
        text.push_str(line);
    }
    while text.len() + closing.len() < bytes {
        text.push('.');
    }
    text.push_str(closing);
    text
}

/// Pieces of a text, of [`FRAGMENT_BYTES`], less where a character would be torn.
#[derive(Debug)]
struct Fragments<'t> {
    rest: &'t str,
}

impl<'t> Fragments<'t> {
    fn of(text: &'t str) -> Self {
        Self { rest: text }
    }
}

impl<'t> Iterator for Fragments<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let (fragment, rest) = self.rest.split_at(self.rest.floor_char_boundary(FRAGMENT_BYTES));
        self.rest = rest;
        (!fragment.is_empty()).then_some(fragment)
    }
}

/// Words by chance that is always the same.
#[derive(Debug, Default)]
struct Words {
    state: u64,
}

impl Words {
    /// One word.
    fn word(&mut self) -> String {
        let word = self.below(WORDS.len());
        WORDS.get(word).copied().unwrap_or_default().to_owned()
    }

    /// Mostly one word or two, at times more, up to eight.
    fn piece(&mut self) -> String {
        let most = if self.below(4) == 0 { 8 } else { 2 };
        (0..=self.below(most)).map(|_| self.word()).collect()
    }

    fn below(&mut self, bound: usize) -> usize {
        // Knuth's linear congruence; only its high bits are good.
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 33) as usize % bound
    }
}

const CALLS: usize = 16;
const FRAGMENT_BYTES: usize = 13;

/// Pieces of the content, as they stand inside a JSON string.
const LINES: [&str; 6] = [
    r"/// Überprüft die Bestellung.\n",
    r"pub fn check(order: &Order) -> Result<(), Error> {\n",
    r#"    let name = order.name().ok_or(\"no name\")?;\n"#,
    r#"    println!(\"{name}: caf\u00e9 at \\\"Zoë's\\\" 東京 \ud83d\ude00\");\n"#,
    r"    Ok(())\n",
    r"}\n\n",
];

const WORDS: [&str; 16] = [
    " the",
    " order",
    " was",
    " shipped",
    " on",
    " Tuesday",
    ",",
    " and",
    " it",
    " should",
    " arrive",
    " by",
    " the end of the",
    " week.\n",
    " A-4471",
    " café",
];
