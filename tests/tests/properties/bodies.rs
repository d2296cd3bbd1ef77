//! Bodies of server-sent events, of JSON lines or of AWS messages, taken apart and put together again. This
//! reader shares nothing with the one that is tested.

use std::ops::Range;

use turnstream_testing::bedrock;
use turnstream_tests::Framing;

use crate::json::Json;

/// The lines and frames of a body.
pub(crate) struct Frames {
    framing: Framing,
    pub(crate) list: Vec<Frame>,
    /// The offsets at which another frame can be put in: the start, and behind each blank line, or behind
    /// each line where lines are frames.
    pub(crate) boundaries: Vec<usize>,
    /// Each line's content, and its end with the bytes that end it. Messages have none.
    pub(crate) lines: Vec<(Range<usize>, usize)>,
}

/// One frame with data.
pub(crate) struct Frame {
    pub(crate) event: String,
    pub(crate) data: String,
    /// Where it stands, its blank line or its line end with it.
    pub(crate) range: Range<usize>,
    /// Where its data ends: a body that stops before it has not said all of it.
    pub(crate) data_end: usize,
}

impl Frame {
    /// The frame's data, if it is JSON.
    pub(crate) fn json(&self) -> Option<Json<'_>> {
        Json::parse(&self.data)
    }

    /// What the frame calls itself: the type in its data, or else its event name.
    pub(crate) fn kind(&self) -> String {
        let kind = self.json().and_then(|json| json.get("type")?.string());
        kind.filter(|kind| !kind.is_empty()).unwrap_or_else(|| self.event.clone())
    }
}

impl Frames {
    pub(crate) fn of(framing: Framing, body: &[u8]) -> Self {
        match framing {
            Framing::Messages => Self::of_messages(body),
            Framing::Sse | Framing::Lines => Self::of_text(framing, body),
        }
    }

    /// The messages up to the first that is torn or damaged.
    fn of_messages(body: &[u8]) -> Self {
        let (mut list, mut boundaries, mut start) = (Vec::new(), vec![0], 0);
        while let Some((frame, length)) = read_message(&body[start..]) {
            let end = start + length;
            list.push(Frame { range: start..end, data_end: end, ..frame });
            boundaries.push(end);
            start = end;
        }
        Self { framing: Framing::Messages, list, boundaries, lines: Vec::new() }
    }

    fn of_text(framing: Framing, body: &[u8]) -> Self {
        let start = if body.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let lines = lines_of(framing, body, start);
        if framing == Framing::Lines {
            return Self::of_lines(body, start, lines);
        }
        let (mut list, mut boundaries) = (Vec::new(), vec![start]);
        let (mut block_start, mut block) = (start, Block::default());
        for (content, end) in &lines {
            if !content.is_empty() {
                block.read(body, content.clone());
                continue;
            }
            list.extend(std::mem::take(&mut block).frame(block_start..*end));
            block_start = *end;
            boundaries.push(*end);
        }
        list.extend(block.frame(block_start..body.len()));
        Self { framing, list, boundaries, lines }
    }

    /// The bytes of a frame as this body has them.
    pub(crate) fn frame(&self, event: &str, data: &str) -> Vec<u8> {
        match self.framing {
            Framing::Sse => frame(event, data).into_bytes(),
            Framing::Lines => line(data).into_bytes(),
            Framing::Messages => bedrock::frame(event, data),
        }
    }

    /// Lines are frames, but for blank ones. A body that begins with no object has none.
    fn of_lines(body: &[u8], start: usize, lines: Vec<(Range<usize>, usize)>) -> Self {
        let is_foreign = !body[start..].trim_ascii_start().starts_with(b"{");
        let (mut list, mut boundaries) = (Vec::new(), vec![start]);
        for (content, end) in lines.iter().filter(|_| !is_foreign) {
            let data = String::from_utf8_lossy(&body[content.clone()]).into_owned();
            if !data.trim().is_empty() {
                let data_end = content.start + data.trim_end().len();
                let (event, range) = (String::new(), content.start..*end);
                list.push(Frame { event, data, range, data_end });
            }
            if *end > content.end {
                boundaries.push(*end);
            }
        }
        Self { framing: Framing::Lines, list, boundaries, lines }
    }

    /// Whether the body ends in the middle of a block.
    pub(crate) fn is_torn(&self, body: &[u8]) -> bool {
        self.boundaries.last() != Some(&body.len())
    }

    /// Every boundary, or so many of them.
    pub(crate) fn places(&self, most: usize) -> Vec<usize> {
        let stride = self.boundaries.len().div_ceil(most).max(1);
        self.boundaries.iter().copied().step_by(stride).collect()
    }
}

/// The body with frames replaced: those for which `edit` gives new data.
pub(crate) fn edited(
    body: &[u8],
    frames: &Frames,
    mut edit: impl FnMut(usize, &Frame) -> Option<String>,
) -> Vec<u8> {
    let (mut edited, mut start) = (Vec::with_capacity(body.len() * 2), 0);
    for (index, frame) in frames.list.iter().enumerate() {
        if let Some(data) = edit(index, frame) {
            edited.extend_from_slice(&body[start..frame.range.start]);
            edited.extend_from_slice(&frames.frame(&frame.event, &data));
            start = frame.range.end;
        }
    }
    edited.extend_from_slice(&body[start..]);
    edited
}

/// The body with something put in.
pub(crate) fn with_inserted(body: &[u8], place: usize, inserted: &[u8]) -> Vec<u8> {
    [&body[..place], inserted, &body[place..]].concat()
}

/// The bytes of a JSON line.
pub(crate) fn line(data: &str) -> String {
    format!("{data}\n")
}

/// The bytes of a server-sent event.
pub(crate) fn frame(event: &str, data: &str) -> String {
    let data: String = data.split('\n').map(|line| format!("data: {line}\n")).collect();
    if event.is_empty() { format!("{data}\n") } else { format!("event: {event}\n{data}\n") }
}

pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The message that these bytes begin with, if all of it is there and its checksum holds, and its length.
fn read_message(bytes: &[u8]) -> Option<(Frame, usize)> {
    let number = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
    let (length, headers) = (number(0)?, number(4)?);
    let message = bytes.get(..length).filter(|message| message.len() >= headers + 16)?;
    let (covered, checksum) = message.split_last_chunk::<4>()?;
    if checksum32(covered) != u32::from_be_bytes(*checksum) {
        return None;
    }
    let (mut rest, mut event) = (&covered[12..12 + headers], String::new());
    while let [name_length, after @ ..] = rest {
        let (name, after) = after.split_at(usize::from(*name_length));
        // All of these have text, which is type 7.
        let value_length = usize::from(u16::from_be_bytes([after[1], after[2]]));
        let (value, after) = after[3..].split_at(value_length);
        let value = str::from_utf8(value).unwrap();
        match name {
            b":event-type" => event = value.to_owned(),
            b":exception-type" => event = format!("exception:{value}"),
            _ => {}
        }
        rest = after;
    }
    let data = String::from_utf8_lossy(&covered[12 + headers..]).into_owned();
    Some((Frame { event, data, range: 0..length, data_end: length }, length))
}

/// CRC-32 of IEEE 802.3, bit by bit.
fn checksum32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xEDB8_8320 & (sum & 1).wrapping_neg()))
    })
}

fn lines_of(framing: Framing, body: &[u8], start: usize) -> Vec<(Range<usize>, usize)> {
    let (mut lines, mut start) = (Vec::new(), start);
    while start < body.len() {
        let is_end = |byte: &u8| *byte == b'\n' || (framing == Framing::Sse && *byte == b'\r');
        let length = body[start..].iter().position(is_end);
        let mut content = start..length.map_or(body.len(), |length| start + length);
        // Of a JSON line a CR is the end only with its LF.
        if framing == Framing::Lines && content.end < body.len() && body[content.clone()].ends_with(b"\r") {
            content.end -= 1;
        }
        let end = match &body[content.end..] {
            [b'\r', b'\n', ..] => content.end + 2,
            [_, ..] => content.end + 1,
            [] => content.end,
        };
        start = end;
        lines.push((content, end));
    }
    lines
}

#[derive(Default)]
struct Block {
    event: String,
    data: Vec<String>,
    data_end: usize,
}

impl Block {
    fn read(&mut self, body: &[u8], line: Range<usize>) {
        let text = String::from_utf8_lossy(&body[line.clone()]).into_owned();
        let (name, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match name {
            "event" => self.event = value,
            "data" => {
                if !value.trim().is_empty() {
                    self.data_end = line.end - (value.len() - value.trim_end().len());
                }
                self.data.push(value);
            }
            _ => {}
        }
    }

    fn frame(self, range: Range<usize>) -> Option<Frame> {
        let Self { event, data, data_end } = self;
        let data = data.join("\n");
        (!data.trim().is_empty()).then_some(Frame { event, data, range, data_end })
    }
}
