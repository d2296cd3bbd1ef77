//! Frames of a body that is server-sent events or JSON, whichever the server took.

use crate::{
    frame::{Frame, FrameError, Framer},
    json_values::JsonValuesFramer,
    lines::{BYTE_ORDER_MARK, PREAMBLE_BYTES},
    sse::SseFramer,
};

/// Cuts a body into frames that is either server-sent events or JSON values, as its first byte says: `{` and
/// `[` begin JSON, and anything else is read as server-sent events.
///
/// Among server-sent events, JSON that stands bare, on lines without a field's name, is a frame, too: some
/// servers write an error like this where a stream breaks.
///
/// ```
/// # use turnstream_core::{Frame, Framer, SseOrJsonFramer};
/// for body in ["data: {\"a\":1}\n\n", "[{\"a\":1}", " {\"a\":1}", ": hello\n\n{\"a\":1}\n\n"] {
///     let mut framer = SseOrJsonFramer::new(1024);
///     framer.push(body.as_bytes());
///     assert_eq!(framer.next_frame(), Some(Ok(Frame::new("", "{\"a\":1}"))));
/// }
/// ```
#[derive(Debug)]
pub struct SseOrJsonFramer {
    limit: usize,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// Blanks so far, or a part of a byte-order mark, as they came; of more than 64 KiB the first.
    Unknown(Vec<u8>),
    Sse(SseFramer),
    Json(JsonValuesFramer),
}

impl Framer for SseOrJsonFramer {
    const FRAME: &'static str = "server-sent event and no JSON";

    fn new(limit: usize) -> Self {
        Self { limit, body: Body::Unknown(Vec::new()) }
    }

    fn push(&mut self, chunk: &[u8]) {
        match &mut self.body {
            Body::Sse(sse) => sse.push(chunk),
            Body::Json(json) => json.push(chunk),
            Body::Unknown(start) => {
                let known = start.len();
                start.extend_from_slice(chunk);
                if BYTE_ORDER_MARK.starts_with(start) {
                    return;
                }
                // What was looked at before is blank, but for what might have become a byte-order mark.
                let from = match known {
                    ..BYTE_ORDER_MARK_BYTES if start.starts_with(BYTE_ORDER_MARK) => BYTE_ORDER_MARK_BYTES,
                    ..BYTE_ORDER_MARK_BYTES => 0,
                    known => known,
                };
                let first = start.iter().skip(from).position(|byte| !byte.is_ascii_whitespace());
                let Some(first) = first.map(|distance| from + distance) else {
                    return start.truncate(PREAMBLE_BYTES);
                };
                let is_json = matches!(start.get(first), Some(b'{' | b'['));
                start.drain(first.min(PREAMBLE_BYTES)..first);
                self.decide(is_json);
            }
        }
    }

    fn next_frame(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        match &mut self.body {
            Body::Sse(sse) => sse.next_frame(),
            Body::Json(json) => json.next_frame(),
            Body::Unknown(_) => None,
        }
    }

    #[inline]
    fn ahead(&self) -> &[u8] {
        match &self.body {
            Body::Sse(sse) => sse.ahead(),
            Body::Json(json) => json.ahead(),
            Body::Unknown(_) => &[],
        }
    }

    #[inline]
    fn skip(&mut self, bytes: usize) {
        match &mut self.body {
            Body::Sse(sse) => sse.skip(bytes),
            Body::Json(json) => json.skip(bytes),
            Body::Unknown(_) => {}
        }
    }

    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        if matches!(self.body, Body::Unknown(_)) {
            self.decide(false);
        }
        match &mut self.body {
            Body::Sse(sse) => sse.finish(),
            Body::Json(json) => json.finish(),
            Body::Unknown(_) => None,
        }
    }

    fn foreign(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Sse(sse) => sse.foreign(),
            Body::Json(json) => json.foreign(),
            Body::Unknown(_) => None,
        }
    }

    fn is_torn(&self) -> bool {
        match &self.body {
            Body::Json(json) => json.is_torn(),
            Body::Sse(_) | Body::Unknown(_) => false,
        }
    }
}

impl SseOrJsonFramer {
    fn decide(&mut self, is_json: bool) {
        let Body::Unknown(start) = &mut self.body else { return };
        let start = std::mem::take(start);
        self.body = if is_json {
            Body::Json(JsonValuesFramer::new(self.limit))
        } else {
            Body::Sse(SseFramer::new(self.limit).with_bare_json())
        };
        self.push(&start);
    }
}

const BYTE_ORDER_MARK_BYTES: usize = BYTE_ORDER_MARK.len();

#[cfg(test)]
mod tests {
    use super::*;

    fn frames<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<String>, Option<Vec<u8>>, bool) {
        let mut framer = SseOrJsonFramer::new(1024);
        let mut frames = Vec::new();
        let owned = |frame: Result<Frame<'_>, FrameError>| frame.unwrap().data.to_owned();
        for chunk in chunks {
            framer.push(chunk);
            while let Some(frame) = framer.next_frame() {
                frames.push(owned(frame));
            }
        }
        while let Some(frame) = framer.finish() {
            frames.push(owned(frame));
        }
        (frames, framer.foreign().map(<[u8]>::to_vec), framer.is_torn())
    }

    fn of(body: &str) -> (Vec<String>, Option<Vec<u8>>, bool) {
        let whole = frames([body.as_bytes()]);
        assert_eq!(frames(body.as_bytes().chunks(1)), whole, "{body:?} byte by byte");
        whole
    }

    #[test]
    fn the_first_byte_says_what_the_body_is() {
        let table: [(&str, &[&str], bool); 10] = [
            ("data: {\"a\":1}\n\ndata: 2\n\n", &["{\"a\":1}", "2"], false),
            ("\u{feff}\r\n\r\ndata: 1\n\n", &["1"], false),
            ("\u{feff}\n [{},1]", &["{}", "1"], false),
            ("{\"a\":\n1}", &["{\"a\":\n1}"], false),
            ("[{},{\"a\"", &["{}", "{\"a\""], true),
            ("", &[], false),
            ("\n\n", &[], false),
            ("\u{feff}", &[], false),
            (": hello\n\n", &[], false),
            ("data: 1\n\n[{\"error\":{}}]\n\n", &["1", "[{\"error\":{}}]"], false),
        ];
        for (body, want, is_torn) in table {
            let (frames, foreign, torn) = of(body);
            assert_eq!(
                (frames, foreign, torn),
                (want.iter().map(|text| (*text).to_owned()).collect(), None, is_torn),
                "{body:?}"
            );
        }
        assert_eq!(of("<html>"), (vec![], Some(b"<html>".to_vec()), false));
        assert_eq!(of("\u{feff}<html>").1.as_deref(), Some(&b"<html>"[..]));
        // Blanks stand before a field's name, and make it another one.
        for body in [" \x0c\x0c\r <html>", "  data: 1\n\n"] {
            assert_eq!(of(body), (vec![], Some(body.as_bytes().to_vec()), false));
        }
        let blanks = " ".repeat(PREAMBLE_BYTES + 7);
        assert_eq!(of(&format!("{blanks}{{}}")).0, ["{}"]);
        assert_eq!(of(&format!("\u{feff}{blanks}[{{}}]")).0, ["{}"]);
    }
}
