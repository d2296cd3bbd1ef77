use serde::Deserialize;
use serde_json::value::RawValue;

use super::*;
use crate::{
    frame::Framer, json_text::JsonText, ndjson::NdjsonFramer, sse::SseFramer, sse_or_json::SseOrJsonFramer,
};

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: JsonText<'a>,
    /// Numbers that are read.
    #[serde(borrow, default)]
    counts: Vec<&'a RawValue>,
}

fn frame(data: &str) -> Frame<'_> {
    Frame::new("delta", data)
}

/// Has read one frame the long way.
fn learned(data: &str) -> HotFrames<u8> {
    let mut hot = HotFrames::new(&["n", "pad"]);
    let delta: Delta<'_> = serde_json::from_str(data).unwrap();
    let numbers = delta.counts.iter().map(|raw| raw.get()).collect();
    hot.learn(frame(data), Lesson::new(7, delta.text.as_str().unwrap()).with_numbers(numbers));
    hot
}

fn text(hot: &mut HotFrames<u8>, data: &str) -> Option<String> {
    let HotFrame { meaning, text, .. } = hot.recognise(frame(data))?;
    assert_eq!(*meaning, 7);
    Some(text.to_owned())
}

#[test]
fn whatever_is_recognised_reads_as_serde_reads_it() {
    let insides = [
        "",
        "b",
        "über 😀",
        "\u{1}\t",
        "\\n",
        "a\\\"b",
        "\\\\",
        "\\/",
        "\\b\\f\\r\\t",
        "\\u00e9",
        "\\uD83D\\uDE00",
        "\\u0000",
        "\\u",
        "\\u00g0",
        "\\x",
        "\\ud83d",
        "\\ude00",
        "\\ud83dx",
        "\\ud83d\\n",
        "\\u+0e9",
        "\\",
        "a\"",
        "\"",
        "a\\\\\\\"",
        "\\n\u{1}",
    ];
    let mut hot = learned(r#"{"a":[1,{"text":"no"}],"text":"first","b":null}"#);
    let mut recognised = 0;
    for inside in insides {
        for tail in ["", " ", "}"] {
            let data = format!("{{\"a\":[1,{{\"text\":\"no\"}}],\"text\":\"{inside}\",\"b\":null}}{tail}");
            let Some(quick) = text(&mut hot, &data) else { continue };
            recognised += 1;
            let slow: Delta<'_> = serde_json::from_str(&data).unwrap();
            assert_eq!(Some(&*quick), slow.text.as_str(), "{data}");
        }
    }
    assert_eq!(recognised, 12);
}

#[test]
fn any_other_byte_of_the_envelope_is_another_frame() {
    let data = r#"{"n":12,"index":0,"delta":{"x":"y"},"text":"t","pad":"abc"}"#;
    let mut hot = learned(data);
    let holes = [data.find("12"), data.find("12").map(|at| at + 1), data.find("\"t\"").map(|at| at + 1)];
    let pad = data.find("abc").unwrap();
    for at in 0..data.len() {
        for byte in ["~", "9", "\"", " ", "\\", "{", "}"] {
            let mut other = data.to_owned();
            other.replace_range(at..=at, byte);
            if holes.contains(&Some(at)) || (pad..pad + 3).contains(&at) || other == data {
                // Inside of a hole it may be the same frame; then it must be JSON.
                if text(&mut hot, &other).is_some() {
                    serde_json::from_str::<serde_json::Value>(&other).unwrap();
                }
                continue;
            }
            assert_eq!(text(&mut hot, &other), None, "{other}");
        }
    }
    assert_eq!(hot.recognise(Frame::new("other", data)).map(|hot| *hot.meaning), None);
}

#[test]
fn numbers_words_and_padding_that_nobody_reads_may_change() {
    let mut hot = learned(r#"{"n":9,"text":"t","pad":"x" }"#);
    for data in [r#"{"n":10,"text":"t","pad":""}"#, r#"{"n":0,"text":"t","pad":"e e"    }"#] {
        assert_eq!(text(&mut hot, data).as_deref(), Some("t"), "{data}");
    }
    for data in [
        r#"{"n":010,"text":"t","pad":""}"#,
        r#"{"n":,"text":"t","pad":""}"#,
        r#"{"n":1.5,"text":"t","pad":""}"#,
        r#"{"n":1,"text":"t","pad":"\n"}"#,
        r#"{"n":1,"text":"t","pad":"é"}"#,
        "{\"n\":1,\"text\":\"t\",\"pad\":\"\n\"}",
    ] {
        assert_eq!(text(&mut hot, data), None, "{data}");
    }
}

#[test]
fn a_string_that_looks_like_a_field_is_none() {
    let mut hot = learned(r#"{"a":"\"n\":1","n":"x\"","text":"t"}"#);
    assert_eq!(text(&mut hot, r#"{"a":"\"n\":1","n":"x\"","text":"u"}"#).as_deref(), Some("u"));
    assert_eq!(text(&mut hot, r#"{"a":"\"n\":2","n":"x\"","text":"u"}"#), None);
    let mut hot = learned(r#"{"a":["n",1],"text":"t"}"#);
    assert_eq!(text(&mut hot, r#"{"a":["n",2],"text":"t"}"#), None);
}

#[test]
fn a_text_that_had_escapes_is_not_learned() {
    let data = r#"{"text":"a\n"}"#;
    let mut hot = HotFrames::new(&[]);
    hot.learn(frame(data), Lesson::new(7, "a\n"));
    assert_eq!(text(&mut hot, data), None);
}

#[test]
fn numbers_that_are_read_are_handed_out_in_the_order_of_the_lesson() {
    let first = r#"{"counts":[1,20],"text":"t"}"#;
    let mut hot = HotFrames::new(&[]);
    hot.learn(
        frame(first),
        Lesson::new(7, &first[25..26]).with_numbers(vec![&first[13..15], &first[11..12]]),
    );
    let numbers = |hot: &mut HotFrames<u8>, counts: &str| {
        let data = format!(r#"{{"counts":[{counts}],"text":"u"}}"#);
        Some(hot.recognise(frame(&data))?.numbers.to_vec())
    };
    assert_eq!(numbers(&mut hot, "3,4"), Some(vec![4, 3]));
    assert_eq!(numbers(&mut hot, "0,18446744073709551615"), Some(vec![u64::MAX, 0]));
    for counts in ["3", "3,4,5", "3,-4", "03,4", "3,4.0", "3,4e1", "3,", "3,null", "0,18446744073709551616"] {
        assert_eq!(numbers(&mut hot, counts), None, "{counts}");
    }
    for (counts, is_learned) in [("1.05,-2", false), ("1,\"2\"", false), ("1e5", false), ("0", true)] {
        let data = format!(r#"{{"counts":[{counts}],"text":"t"}}"#);
        assert_eq!(text(&mut learned(&data), &data).is_some(), is_learned, "{counts}");
    }
}

#[test]
fn other_numbers_stand_as_they_are() {
    let mut hot = learned(r#"{"a":1.05,"b":-3,"n":1.5,"c":[1e5],"text":"t"}"#);
    let data = r#"{"a":1.05,"b":-3,"n":1.5,"c":[1e5],"text":"u"}"#;
    assert_eq!(text(&mut hot, data).as_deref(), Some("u"));
    for (old, new) in [("1.05", "1.06"), ("-3", "-4"), ("1.5", "2.5"), ("1e5", "2e5")] {
        assert_eq!(text(&mut hot, &data.replace(old, new)), None);
    }
}

/// Learns the first frame of a body, and recognises as many of the others as there are, in the body.
fn in_body<F: Framer>(limit: usize, body: &[u8]) -> Vec<String> {
    let mut framer = F::new(limit);
    framer.push(body);
    let mut hot = HotFrames::new(&["n", "pad"]);
    let first = framer.next_frame().unwrap().unwrap();
    let delta: Delta<'_> = serde_json::from_str(first.data).unwrap();
    hot.learn(first, Lesson::new(7, delta.text.as_str().unwrap()));
    let mut texts = Vec::new();
    while let Some((frame, length)) = hot.recognise_ahead(framer.ahead()) {
        texts.push(frame.text.to_owned());
        framer.skip(length);
    }
    texts
}

#[test]
fn a_frame_is_recognised_in_the_body_with_all_that_belongs_to_its_framing() {
    let frame = |text| format!("event: delta\ndata: {{\"text\":\"{text}\"}}\n\n");
    let body = [frame("a"), frame("b\\n"), frame("é"), frame("d")].concat();
    let after = |end: &str| [&body, end].concat().into_bytes();
    assert_eq!(in_body::<SseFramer>(1000, &after("")), ["b\n", "é", "d"]);
    for other in [
        frame("\n"),
        frame("\r"),
        frame("\\ud83d"),
        frame("e").replace("delta", "other"),
        frame("e").replace("\n\n", "\n"),
        frame("e").replace("\n\n", "\ndata: 1\n\n"),
        frame("e").replace("event", ": hello\nevent"),
    ] {
        assert_eq!(in_body::<SseFramer>(1000, &after(&other)).len(), 3, "{other}");
    }
    let torn = [body.as_bytes(), &frame("é").as_bytes()[..31], b"\xff", b"\"}\n\n"].concat();
    assert_eq!(in_body::<SseFramer>(1000, &torn).len(), 3);
    let crlf = body.replace('\n', "\r\n");
    assert_eq!(in_body::<SseFramer>(1000, crlf.as_bytes()), ["b\n", "é", "d"]);
    let lines = b"{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"text\":\"c\"}\n{\"text\":\"d\"}";
    assert_eq!(in_body::<NdjsonFramer>(1000, lines), ["b", "c"]);
}

/// Else a long frame in short pieces would be looked at again and again.
#[test]
fn a_frame_that_comes_in_pieces_is_shown_once() {
    fn check<F: Framer>(frame: &[u8]) {
        let mut framer = F::new(1000);
        framer.push(frame);
        assert!(framer.next_frame().is_some());
        for cut in 1..frame.len() {
            let (start, rest) = frame.split_at(cut);
            framer.push(start);
            assert_eq!(framer.ahead(), start, "{}", F::FRAME);
            assert_eq!(framer.next_frame(), None);
            for piece in rest.chunks(1) {
                assert_eq!(framer.ahead(), b"", "{} cut at {cut}", F::FRAME);
                assert_eq!(framer.next_frame(), None);
                framer.push(piece);
            }
            assert_eq!(framer.ahead(), b"", "{} cut at {cut}", F::FRAME);
            assert!(framer.next_frame().is_some());
        }
    }
    check::<SseFramer>(b"event: delta\ndata: {}\n\n");
    check::<SseOrJsonFramer>(b": hello\ndata: {}\n\n");
    check::<NdjsonFramer>(b"{\"a\": 1}\n");
}

#[test]
fn a_frame_that_was_learned_in_pieces_is_recognised_in_the_body_later_on() {
    let frame = |text| format!("event: delta\ndata: {{\"text\":\"{text}\"}}\n\n");
    let mut framer = SseFramer::new(1000);
    let mut hot = HotFrames::new(&[]);
    framer.push(b"event: delta\ndata: {");
    assert_eq!(framer.next_frame(), None);
    framer.push(b"\"text\":\"a\"}\n\n");
    let first = framer.next_frame().unwrap().unwrap();
    hot.learn(first, Lesson::new(7, &first.data[9..10]));
    framer.push(frame("b").repeat(2).as_bytes());
    assert!(hot.recognise_ahead(framer.ahead()).is_none());
    assert_eq!(hot.recognise(framer.next_frame().unwrap().unwrap()).unwrap().text, "b");
    let (again, length) = hot.recognise_ahead(framer.ahead()).unwrap();
    assert_eq!((again.text, length), ("b", frame("b").len()));
}

#[test]
fn a_frame_that_is_larger_than_the_limit_is_not_recognised() {
    let frame = |text: &str| format!("data: {{\"text\":\"{text}\"}}\n\n");
    let body = [frame("a"), frame("b"), frame(&"c".repeat(100))].concat();
    assert_eq!(in_body::<SseFramer>(50, body.as_bytes()), ["b"]);
    assert_eq!(in_body::<SseFramer>(150, body.as_bytes()).len(), 2);
}

#[test]
fn the_memory_of_a_huge_text_is_given_back() {
    let mut hot = learned(r#"{"text":"t"}"#);
    let huge = "\\n".repeat(1 << 20);
    assert_eq!(text(&mut hot, &format!(r#"{{"text":"{huge}"}}"#)).unwrap().len(), 1 << 20);
    assert_eq!(text(&mut hot, r#"{"text":"u"}"#).as_deref(), Some("u"));
    assert!(hot.found.unescaped.capacity() <= KEPT_BYTES, "{}", hot.found.unescaped.capacity());
}

#[test]
fn several_shapes_are_known_at_once_and_the_oldest_gives_way() {
    let data = |index: usize| format!(r#"{{"index":{index},"text":"t"}}"#);
    let mut hot = HotFrames::new(&[]);
    for index in 0..=MOST_SHAPES {
        let data = data(index);
        hot.learn(frame(&data), Lesson::new(7, &data[data.len() - 3..data.len() - 2]));
    }
    let known = |hot: &mut _| {
        (0..=MOST_SHAPES).filter(|index| text(hot, &data(*index)).is_some()).collect::<Vec<_>>()
    };
    assert_eq!(known(&mut hot), [1, 2, 3, 4]);
}

/// Those that are read all the same, as here for a number that is none of ours, do not drive the others out.
#[test]
fn a_shape_that_is_learned_again_takes_its_own_place() {
    let data = |index: usize, count: &str| format!(r#"{{"index":{index},"text":"t","counts":[{count}]}}"#);
    let mut hot = learned(&data(0, "1"));
    for _ in 0..MOST_SHAPES {
        let odd = data(1, "18446744073709551616");
        let numbers = vec![&odd[odd.len() - 22..odd.len() - 2]];
        hot.learn(frame(&odd), Lesson::new(7, &odd[19..20]).with_numbers(numbers));
    }
    assert_eq!(hot.shapes.len(), 2);
    for index in 0..2 {
        assert_eq!(text(&mut hot, &data(index, "3")).as_deref(), Some("t"));
    }
}

#[test]
fn a_stream_that_never_repeats_itself_is_left_alone() {
    let mut hot = HotFrames::new(&[]);
    for index in 0..100 {
        let data = format!(r#"{{"index":{index},"text":"t"}}"#);
        hot.learn(frame(&data), Lesson::new(7, &data[data.len() - 3..data.len() - 2]));
    }
    assert_eq!(text(&mut hot, r#"{"index":15,"text":"t"}"#).as_deref(), Some("t"));
    assert_eq!(text(&mut hot, r#"{"index":99,"text":"t"}"#), None);
}
