use super::*;

/// A message: headers of text, a payload, good checksums.
pub(crate) fn message(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut written = Vec::new();
    for (name, value) in headers {
        written.push(u8::try_from(name.len()).unwrap());
        written.extend_from_slice(name.as_bytes());
        written.push(7);
        written.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        written.extend_from_slice(value.as_bytes());
    }
    raw(&written, payload)
}

fn raw(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + headers.len() + payload.len()).unwrap();
    with_lengths(length, u32::try_from(headers.len()).unwrap(), headers, payload)
}

fn with_lengths(length: u32, headers_length: u32, headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = [length.to_be_bytes(), headers_length.to_be_bytes()].concat();
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend_from_slice(headers);
    bytes.extend_from_slice(payload);
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

fn event(name: &str, payload: &str) -> Vec<u8> {
    let headers = [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    message(&headers, payload.as_bytes())
}

type Frames = Vec<Result<(String, String), FrameError>>;

/// The frames, and what the framer says of the body at its end.
fn frames<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Frames, Option<String>) {
    let mut framer = EventStreamFramer::new(limit);
    let mut frames = Frames::new();
    let owned = |frame: Result<Frame<'_>, FrameError>| {
        frame.map(|frame| (frame.event.to_owned(), frame.data.to_owned()))
    };
    for chunk in chunks {
        framer.push(chunk);
        while let Some(frame) = framer.next_frame() {
            frames.push(owned(frame));
        }
    }
    assert_eq!(framer.finish().map(owned), None, "nothing is complete at the end that was not before");
    assert_eq!(framer.next_frame(), None);
    (frames, framer.foreign().map(|start| String::from_utf8_lossy(start).into_owned()))
}

/// The frames, the same whole, byte by byte and at every single cut.
fn check(limit: usize, body: &[u8]) -> (Frames, Option<String>) {
    let whole = frames(limit, [body]);
    assert_eq!(frames(limit, body.chunks(1)), whole, "byte by byte");
    for cut in 0..=body.len() {
        let (left, right) = body.split_at(cut);
        assert_eq!(frames(limit, [left, b"", right]), whole, "cut at {cut}");
    }
    whole
}

fn ok(event: &str, data: &str) -> Result<(String, String), FrameError> {
    Ok((event.to_owned(), data.to_owned()))
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().map(|digit| u8::try_from(digit.to_digit(16).unwrap()).unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// What does not hold of the one message of a body.
fn problem(body: &[u8]) -> String {
    match check(1 << 20, body).0.as_slice() {
        [Err(FrameError::Damaged { problem })] => problem.clone(),
        frames => panic!("{frames:?}"),
    }
}

#[test]
fn messages_of_another_encoder_are_read() {
    // Written by hand from the specification and read by botocore, too.
    let delta =
        hex("000000b100000057bd8a3a9a0b3a6576656e742d74797065070011636f6e74656e74426c6f636b44656c7461\
         0d3a636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d74\
         7970650700056576656e747b22636f6e74656e74426c6f636b496e646578223a302c2264656c7461223a7b22\
         746f6f6c557365223a7b22696e707574223a227b5c22785c223a317d227d7d2c2270223a226162227d807ea2\
         1e");
    let exception =
        hex("0000008800000061de0175f40f3a657863657074696f6e2d747970650700137468726f74746c696e67457863\
         657074696f6e0d3a636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e0d3a6d6573\
         736167652d74797065070009657863657074696f6e7b226d657373616765223a22736c6f7720646f776e227d\
         832ee072");
    let want = vec![
        ok(
            "contentBlockDelta",
            r#"{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{\"x\":1}"}},"p":"ab"}"#,
        ),
        ok("exception:throttlingException", r#"{"message":"slow down"}"#),
    ];
    assert_eq!(check(1 << 20, &[delta, exception].concat()), (want, None));
}

#[test]
fn a_message_without_a_name_or_a_payload_is_a_frame_too() {
    let mut odd = vec![4];
    odd.extend_from_slice(b"flag\0\x0b:event-type\x04\0\0\0\x07");
    let body = [message(&[], b""), raw(&odd, b"{}"), event("metadata", "")].concat();
    assert_eq!(check(1 << 20, &body).0, [ok("", ""), ok("", "{}"), ok("metadata", "")]);
}

#[test]
fn an_error_in_the_headers_alone_is_an_exception_with_its_words() {
    let error = message(
        &[(":message-type", "error"), (":error-code", "InternalError"), (":error-message", "Oh \"no\".")],
        b"",
    );
    let bare = message(&[(":message-type", "exception")], b"");
    let want = [
        ok("exception:InternalError", r#"{"message":"Oh \"no\"."}"#),
        ok("exception:unknown", r#"{"message":"the provider gave no reason"}"#),
        ok("metadata", "{}"),
    ];
    assert_eq!(check(1 << 20, &[error, bare, event("metadata", "{}")].concat()).0, want);
}

#[test]
fn a_message_that_is_torn_gives_nothing() {
    let (first, second) = (event("a", "{}"), event("b", "{}"));
    for end in 0..second.len() {
        let body = [&first[..], &second[..end]].concat();
        assert_eq!(check(1 << 20, &body), (vec![ok("a", "{}")], None), "{end}");
    }
}

#[test]
fn each_kind_of_damage_is_the_last_thing_and_says_what_it_is() {
    let good = event("a", "{}");
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    for at in 1..12 {
        assert_eq!(problem(&flipped(at)), "the checksum over its length does not hold", "byte {at}");
    }
    for at in 12..good.len() {
        let problem = problem(&flipped(at));
        assert!(
            problem.contains("checksum") || problem.contains("header") || problem.contains("UTF-8"),
            "{problem}"
        );
    }
    assert!(problem(&flipped(good.len() - 3)).contains("message checksum"));
    assert_eq!(problem(&with_lengths(15, 0, b"", b"")), "it has no room for its headers");
    assert_eq!(problem(&with_lengths(20, 5, b"", b"1234")), "it has no room for its headers");
    assert_eq!(problem(&with_lengths(17, u32::MAX, b"", b"1")), "it has no room for its headers");
    for headers in [&b"\x01"[..], b"\x09a", b"\x01a\x0a", b"\x01a\x07\0\x09b", b"\x01a\x08\0", b"\x01\xff\0"]
    {
        assert!(!problem(&raw(headers, b"{}")).is_empty(), "{headers:?}");
    }
    // What was good before the damage has come out.
    let body = [good.clone(), flipped(good.len() - 1), good.clone()].concat();
    assert!(matches!(check(1 << 20, &body).0.as_slice(), [Ok(_), Err(FrameError::Damaged { .. })]));
}

#[test]
fn a_payload_that_is_not_utf8_is_an_error_and_the_next_message_follows() {
    let body = [message(&[(":event-type", "a")], b"{\"x\":\"\xff\"}"), event("b", "{}")].concat();
    let error = FrameError::NotUtf8 { valid_up_to: 6, start: "{\"x\":\"\u{fffd}\"}".to_owned() };
    assert_eq!(check(1 << 20, &body).0, [Err(error), ok("b", "{}")]);
}

#[test]
fn headers_that_come_again_mean_the_same_and_others_are_read_anew() {
    let error = |payload: &[u8]| {
        message(&[(":message-type", "error"), (":error-code", "Oh"), (":error-message", "No.")], payload)
    };
    let none = message(&[], b"");
    let body = [
        event("a", "1"),
        event("a", "2"),
        event("a", ""),
        error(b""),
        error(b"{}"),
        error(b""),
        none.clone(),
        none,
        event("b", "3"),
        event("a", "4"),
    ];
    let words = r#"{"message":"No."}"#;
    let want = [
        ok("a", "1"),
        ok("a", "2"),
        ok("a", ""),
        ok("exception:Oh", words),
        ok("exception:Oh", "{}"),
        ok("exception:Oh", words),
        ok("", ""),
        ok("", ""),
        ok("b", "3"),
        ok("a", "4"),
    ];
    assert_eq!(check(1 << 20, &body.concat()).0, want);
}

#[test]
fn a_message_beyond_the_limit_is_told_by_its_first_bytes_and_not_kept() {
    let (fits, large) = (event("a", "{}"), event("a", "{ }"));
    let limit = fits.len();
    let body = [fits.clone(), large.clone(), fits].concat();
    assert_eq!(check(limit, &body).0, [ok("a", "{}"), Err(FrameError::too_large(limit))]);
    let mut framer = EventStreamFramer::new(limit);
    framer.push(&[&large[..12], &[0; 1 << 20]].concat());
    assert!(framer.bytes.capacity() <= 64, "{} bytes are kept", framer.bytes.capacity());
    assert_eq!(framer.next_frame(), Some(Err(FrameError::too_large(limit))));
    framer.push(&[0; 1 << 20]);
    assert_eq!(framer.next_frame(), None);
    assert_eq!(framer.bytes.capacity(), 0);
    // One that only says that it is large takes no memory for that.
    let mut framer = EventStreamFramer::new(usize::MAX);
    framer.push(&with_lengths(u32::MAX, 0, b"", b""));
    assert_eq!(framer.next_frame(), None);
    assert!(framer.bytes.capacity() <= KEPT_BYTES);
}

#[test]
fn a_body_that_is_something_else_is_shown_and_gives_no_frame() {
    let page = "<!DOCTYPE html><html><body>Bad gateway</body></html>";
    let json = r#"{"message":"The security token is expired"}"#;
    for body in [page, json, "short", "event: x\ndata: {}\n\n"] {
        assert_eq!(check(1 << 20, body.as_bytes()), (vec![], Some(body.to_owned())));
    }
    assert_eq!(check(1 << 20, "\u{feff}{\"message\":\"x\"}".as_bytes()).1.unwrap(), "{\"message\":\"x\"}");
    for blank in ["", "\n", " \r\n \r\n \r\n \r\n \r\n"] {
        assert_eq!(check(1 << 20, blank.as_bytes()), (vec![], None));
    }
    let long = page.repeat(5000);
    let foreign = frames(1 << 20, long.as_bytes().chunks(1000)).1.unwrap();
    assert_eq!(foreign, long[..FOREIGN_BYTES]);
}

#[test]
fn messages_that_were_not_asked_for_come_out_at_the_end_in_order() {
    let mut framer = EventStreamFramer::new(1 << 20);
    framer.push(&[event("a", "1"), event("b", "2")].concat());
    let mut left = Vec::new();
    while let Some(frame) = framer.finish() {
        left.push(frame.unwrap().event.to_owned());
    }
    assert_eq!(left, ["a", "b"]);
}

#[test]
fn the_memory_of_a_huge_message_is_given_back() {
    let mut framer = EventStreamFramer::new(8 << 20);
    for chunk in event("a", &"x".repeat(4 << 20)).chunks(1 << 14) {
        framer.push(chunk);
    }
    assert_eq!(framer.next_frame().unwrap().unwrap().data.len(), 4 << 20);
    let value = "x".repeat(1 << 15);
    framer.push(&message(&[("x", value.as_str()); 128], b"{}"));
    assert_eq!(framer.next_frame(), Some(Ok(Frame::new("", "{}"))));
    framer.push(&event("b", "{}"));
    assert_eq!(framer.next_frame(), Some(Ok(Frame::new("b", "{}"))));
    for kept in [&framer.bytes, &framer.headers] {
        assert!(kept.capacity() <= 2 * KEPT_BYTES, "{}", kept.capacity());
    }
}
