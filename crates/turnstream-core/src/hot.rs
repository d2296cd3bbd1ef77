//! The quick way for hot frames. A stream says the same envelope thousands of times, around texts that differ:
//! what was read once need not be read again.
//!
//! It is exact, and no guess. A frame is recognised only if it is, byte for byte, one that was read before, but
//! for the inside of *one* JSON string, its text; numbers that the wire reads; the values of fields that it never
//! reads; and padding. Such a frame reads as the first one did, with the other text and the other numbers. Everything
//! else, also every text that is not plainly a text (half of a surrogate pair), goes the long way.
//!
//! Where the framer can show the body's next bytes, a frame is recognised in them, framing and all: then its bytes
//! are looked at once.

use crate::{
    driver::{BadFrame, Interpret},
    frame::Frame,
    json_text::first_escape,
    ledger::Ledger,
    lines::KEPT_BYTES,
    scan::plain_run,
};

/// The hot frames of one stream, and what each means to its wire. A [`Decoder`](crate::Decoder) keeps them. An
/// interpreter that takes frames out of others, and gives them to another interpreter, keeps those that it takes out.
#[derive(Debug)]
pub struct HotFrames<M> {
    passed_over: &'static [&'static str],
    shapes: Vec<Shape<M>>,
    /// The shape that matched last: hot frames come in runs.
    latest: usize,
    /// How many shapes were learned since one matched.
    wasted: usize,
    found: Found,
}

/// What a wire says of a frame that it has read, so that frames like it need not be read again.
#[derive(Debug)]
pub struct Lesson<'f, M> {
    meaning: M,
    text: &'f str,
    numbers: Vec<&'f str>,
}

/// A frame that is like one that was learned.
#[derive(Debug)]
#[non_exhaustive]
pub struct HotFrame<'f, M> {
    /// What the frame means.
    pub meaning: &'f M,
    /// Its text.
    pub text: &'f str,
    /// Its numbers, in the order in which the [`Lesson`] named them.
    pub numbers: &'f [u64],
}

impl<'f, M> Lesson<'f, M> {
    /// All that the frame means is `meaning`, of `text`. Where that is no piece of the frame, as a text that had
    /// escapes, nothing is learned.
    pub fn new(meaning: M, text: &'f str) -> Self {
        Self { meaning, text, numbers: Vec::new() }
    }

    /// The frame has numbers, too, that change from frame to frame and mean something: pieces of the frame, whole
    /// and without a sign. Where one is not, nothing is learned.
    pub fn with_numbers(self, numbers: Vec<&'f str>) -> Self {
        Self { numbers, ..self }
    }
}

impl<M> HotFrames<M> {
    /// Knows no frame yet. `passed_over` names the fields that the wire never reads, at any depth, and whose
    /// values change from frame to frame: sequence numbers, padding.
    pub fn new(passed_over: &'static [&'static str]) -> Self {
        Self { passed_over, shapes: Vec::new(), latest: 0, wasted: 0, found: Found::default() }
    }

    /// Gives a frame to its interpreter, the quick way if it is like one that was learned.
    ///
    /// # Errors
    ///
    /// What the interpreter says of the frame.
    pub fn interpret<I: Interpret<Hot = M>>(
        &mut self,
        frame: Frame<'_>,
        interpreter: &mut I,
        ledger: &mut Ledger,
    ) -> Result<(), BadFrame> {
        if let Some(hot) = self.recognise(frame)
            && interpreter.hot(hot, ledger)
        {
            return Ok(());
        }
        if let Some(lesson) = interpreter.frame(frame, ledger)? {
            self.learn(frame, lesson);
        }
        Ok(())
    }

    /// What a frame means, its text and its numbers, if it is like one that was learned.
    fn recognise<'f>(&'f mut self, frame: Frame<'f>) -> Option<HotFrame<'f, M>> {
        let find = |shape: &mut Shape<M>, found: &mut Found| {
            if frame.event != &*shape.event {
                return None;
            }
            let (text, rest) = find(&shape.in_frame, frame.data.as_bytes(), found)?;
            if !rest.is_empty() {
                return None;
            }
            // The frame that was learned may have come in pieces, and then nowhere stood in one.
            if shape.in_body.is_none() {
                shape.in_body = around(frame.in_body, frame.data, &shape.in_frame);
            }
            Some((text, 0))
        };
        self.first(find).map(|(hot, _)| hot)
    }

    /// The same of a frame at the start of a body's next bytes, with all that belongs to its framing; and how many
    /// bytes it is.
    pub(crate) fn recognise_ahead<'f>(&'f mut self, ahead: &'f [u8]) -> Option<(HotFrame<'f, M>, usize)> {
        if ahead.is_empty() {
            return None;
        }
        self.first(|shape, found| {
            let (text, rest) = find(shape.in_body.as_deref()?, ahead, found)?;
            Some((text, ahead.len() - rest.len()))
        })
    }

    /// Learns a frame that was read the long way.
    fn learn(&mut self, frame: Frame<'_>, lesson: Lesson<'_, M>) {
        // A stream that does not repeat itself is left alone.
        let most = lesson.text.len().saturating_add(MOST_ENVELOPE);
        if self.wasted >= MOST_WASTED || frame.data.len().max(frame.in_body.len()) > most {
            return;
        }
        let Some(shape) = Shape::of(frame, lesson, self.passed_over) else { return };
        self.wasted += 1;
        if let Some(known) = self.shapes.iter_mut().find(|known| known.is_like(&shape)) {
            *known = shape;
        } else if self.shapes.len() < MOST_SHAPES {
            self.shapes.push(shape);
            self.latest = self.shapes.len() - 1;
        } else {
            self.latest = (self.latest + 1) % MOST_SHAPES;
            if let Some(old) = self.shapes.get_mut(self.latest) {
                *old = shape;
            }
        }
    }

    /// The first shape that is found, tried from the latest on.
    fn first<'f, T>(
        &'f mut self,
        find: impl Fn(&mut Shape<M>, &mut Found) -> Option<(Option<&'f str>, T)>,
    ) -> Option<(HotFrame<'f, M>, T)> {
        let Self { shapes, latest, found, .. } = self;
        // The memory of a huge text is not kept.
        if found.unescaped.capacity() > KEPT_BYTES {
            found.unescaped = Vec::new();
        }
        let (text, more) = match find(shapes.get_mut(*latest)?, found) {
            Some(it) => it,
            None => {
                let mut others = shapes.iter_mut().enumerate().filter(|(index, _)| index != latest);
                let (index, it) = others.find_map(|(index, shape)| Some((index, find(shape, found)?)))?;
                *latest = index;
                it
            }
        };
        self.wasted = 0;
        let text = match text {
            Some(text) => text,
            None => str::from_utf8(&self.found.unescaped).ok()?,
        };
        let meaning = &self.shapes.get(self.latest)?.meaning;
        Some((HotFrame { meaning, text, numbers: &self.found.numbers }, more))
    }
}

/// A frame with holes.
#[derive(Debug)]
struct Shape<M> {
    event: Box<str>,
    /// The frame's data.
    in_frame: Vec<Piece>,
    /// The frame as it stands in the body, where its data stands there in one piece.
    in_body: Option<Vec<Piece>>,
    meaning: M,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Literal(Box<[u8]>),
    /// The inside of the text's string.
    Text,
    /// A whole number that is read: the lesson's, by its place there.
    Number(usize),
    /// A whole number that nobody reads.
    AnyNumber,
    /// The inside of a string that nobody reads, in ASCII.
    Word,
    /// Blanks in front of a closing bracket.
    Padding,
}

/// What stood in a frame's holes. Kept, so that the next one costs no allocation.
#[derive(Debug, Default)]
struct Found {
    /// A text that had escapes.
    unescaped: Vec<u8>,
    numbers: Vec<u64>,
}

impl<M> Shape<M> {
    /// The shape of a frame, which is JSON.
    fn of(frame: Frame<'_>, lesson: Lesson<'_, M>, passed_over: &[&str]) -> Option<Self> {
        let in_frame = pieces(frame.data, &lesson, passed_over)?;
        let in_body = around(frame.in_body, frame.data, &in_frame);
        Some(Self { event: frame.event.into(), in_frame, in_body, meaning: lesson.meaning })
    }

    /// Whether the same frames have it.
    fn is_like(&self, other: &Self) -> bool {
        (&self.event, &self.in_frame) == (&other.event, &other.in_frame)
    }
}

/// The pieces of a frame's data. `None` where the text or a number stands nowhere in it.
fn pieces<M>(data: &str, lesson: &Lesson<'_, M>, passed_over: &[&str]) -> Option<Vec<Piece>> {
    let text_start = place_of(lesson.text.as_bytes(), data.as_bytes())?;
    let numbers = lesson.numbers.iter().map(|number| place_of(number.as_bytes(), data.as_bytes()));
    let numbers: Vec<usize> = numbers.collect::<Option<_>>()?;
    let (mut pieces, mut literal, mut at) = (Vec::new(), 0, 0);
    // Ends the literal in front of a hole, and goes on behind it.
    let mut hole = |pieces: &mut Vec<Piece>, piece, start, end| {
        pieces.push(Piece::Literal(data.as_bytes().get(literal..start).unwrap_or_default().into()));
        pieces.push(piece);
        literal = end;
    };
    let mut name = "";
    while let Some(byte) = data.as_bytes().get(at) {
        let start = at + 1;
        match byte {
            b'"' => {
                let inside = string(data.get(start..)?)?;
                let end = start + inside.len();
                if start == text_start {
                    hole(&mut pieces, Piece::Text, start, end);
                } else if passed_over.contains(&name) && plain_run(inside.as_bytes()) == inside.len() {
                    hole(&mut pieces, Piece::Word, start, end);
                }
                name = if data.get(end + 1..)?.starts_with(':') { inside } else { "" };
                at = end + 1;
            }
            b'0'..=b'9' | b'-' => {
                let number = number(data.get(at..)?);
                let end = at + number.len();
                if digits(number.as_bytes()).is_some_and(|digits| digits.len() == number.len()) {
                    match numbers.iter().position(|place| *place == at) {
                        Some(place) => hole(&mut pieces, Piece::Number(place), at, end),
                        None if passed_over.contains(&name) => hole(&mut pieces, Piece::AnyNumber, at, end),
                        None => {}
                    }
                }
                (name, at) = ("", end);
            }
            b' ' | b'\t' => {
                let rest = data.get(at..)?.trim_start_matches(BLANKS);
                let end = data.len() - rest.len();
                if rest.starts_with('}') {
                    hole(&mut pieces, Piece::Padding, at, end);
                }
                at = end;
            }
            b':' => at = start,
            _ => (name, at) = ("", start),
        }
    }
    pieces.push(Piece::Literal(data.as_bytes().get(literal..)?.into()));
    let has = |piece: Piece| pieces.contains(&piece);
    (has(Piece::Text) && (0..numbers.len()).all(|place| has(Piece::Number(place)))).then_some(pieces)
}

/// The pieces of a frame's data, and with them what stands around it in the body.
fn around(in_body: &[u8], data: &str, pieces: &[Piece]) -> Option<Vec<Piece>> {
    let start = place_of(data.as_bytes(), in_body)?;
    let (before, after) = (in_body.get(..start)?, in_body.get(start + data.len()..)?);
    let mut pieces = pieces.to_vec();
    // A frame's data begins and ends with a literal.
    if let Some(Piece::Literal(first)) = pieces.first_mut() {
        *first = [before, first].concat().into();
    }
    if let Some(Piece::Literal(last)) = pieces.last_mut() {
        *last = [last, after].concat().into();
    }
    Some(pieces)
}

/// What stands in the holes of `bytes`, if it has these pieces, and what follows them. The text is `None` if it had
/// escapes: then it is in `found`.
fn find<'f>(pieces: &[Piece], bytes: &'f [u8], found: &mut Found) -> Option<(Option<&'f str>, &'f [u8])> {
    let (mut rest, mut text) = (bytes, None);
    found.numbers.clear();
    for piece in pieces {
        match piece {
            Piece::Literal(literal) => rest = rest.strip_prefix(&**literal)?,
            Piece::Text => {
                let (plain, after) = rest.split_at_checked(plain_run(rest))?;
                if after.starts_with(b"\"") {
                    (text, rest) = (Some(str::from_utf8(plain).ok()?), after);
                } else {
                    rest = unescape(plain, after, &mut found.unescaped)?;
                }
            }
            Piece::Number(place) => {
                let (digits, after) = rest.split_at_checked(digits(rest)?.len())?;
                let number = value(digits)?;
                rest = after;
                match found.numbers.get_mut(*place) {
                    Some(known) => *known = number,
                    None => {
                        found.numbers.resize(*place, 0);
                        found.numbers.push(number);
                    }
                }
            }
            Piece::AnyNumber => rest = rest.get(digits(rest)?.len()..)?,
            Piece::Word => {
                let (word, after) = rest.split_at_checked(plain_run(rest))?;
                rest = word.is_ascii().then_some(after)?;
            }
            Piece::Padding => {
                let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
                rest = rest.get(blanks..)?;
            }
        }
    }
    Some((text, rest))
}

/// Where a piece that is not empty stands in the bytes that it was taken from.
fn place_of(piece: &[u8], bytes: &[u8]) -> Option<usize> {
    let place = (piece.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
    let is_there = !piece.is_empty() && bytes.get(place..)?.get(..piece.len())? == piece;
    is_there.then_some(place)
}

/// The inside of a JSON string, from its first byte to its quote, as it stands.
fn string(inside: &str) -> Option<&str> {
    let mut end = 0;
    loop {
        end += plain_run(inside.as_bytes().get(end..)?);
        match inside.as_bytes().get(end)? {
            b'"' => return inside.get(..end),
            b'\\' => end += 2,
            _ => return None,
        }
    }
}

/// Writes out the inside of a JSON string, which begins with `plain`, and gives what follows it. `None` for what is
/// no text, but for bytes that are no UTF-8.
fn unescape<'f>(mut plain: &'f [u8], mut after: &'f [u8], text: &mut Vec<u8>) -> Option<&'f [u8]> {
    text.clear();
    loop {
        text.extend_from_slice(plain);
        let rest = match *after {
            [b'"', ..] => return Some(after),
            [b'\\', letter @ (b'"' | b'\\' | b'/'), ref after @ ..] => {
                text.push(letter);
                after
            }
            [b'\\', b'n', ref after @ ..] => {
                text.push(b'\n');
                after
            }
            [b'\\', ..] => {
                let (character, length) = first_escape(after)?;
                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                after.get(length..)?
            }
            _ => return None,
        };
        (plain, after) = rest.split_at_checked(plain_run(rest))?;
    }
}

/// A number at the start, in whatever form.
fn number(text: &str) -> &str {
    let end = text.find(|character: char| !matches!(character, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
    text.get(..end.unwrap_or(text.len())).unwrap_or_default()
}

/// A whole number without a sign at the start, as JSON spells it.
fn digits(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    let digits = bytes.get(..end)?;
    (matches!(digits, b"0") || !matches!(digits, [] | [b'0', ..])).then_some(digits)
}

fn value(digits: &[u8]) -> Option<u64> {
    let digit = |value: u64, digit: &u8| value.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    digits.iter().try_fold(0, digit)
}

/// Others are line ends, too, and may end a frame.
const BLANKS: [char; 2] = [' ', '\t'];

/// A turn has a text, a reasoning and perhaps calls at once.
const MOST_SHAPES: usize = 4;
const MOST_WASTED: usize = 16;
const MOST_ENVELOPE: usize = 4 << 10;

#[cfg(test)]
mod tests;
