//! Arguments may be cut anywhere: between any two characters of their JSON text, inside an escape, and
//! between the halves of a surrogate pair that the frame spells as escapes.

use std::{collections::BTreeSet, fmt::Write};

use turnstream::{CallFinished, CallIndex, wire::is_json};
use turnstream_testing::{Reply, anthropic, bedrock, cohere, openai_chat, openai_responses};
use turnstream_tests::TestedWire;

use crate::{
    bodies::{Frames, edited},
    events::{decode, finished},
    inputs::inputs,
    trial::{Trial, try_all},
};

/// Argument texts with everything in them at which a client has gone wrong.
const TEXTS: [&str; 9] = [
    r#"{"text":"a\nb\t\"c\" \\ \/ \u00e9 \ud83d\ude00 \u0000"}"#,
    r#"{"text":"  two  spaces  ","empty":"","é → 😀":"👩‍👩‍👧 n̈ 日本語 𝄞𝄞"}"#,
    "{\n  \"spread\" : [ 1 , -2.50e+10 , true , null , { } , [ ] ]\r\n}\n",
    r#"{"code":"fn main() { println!(\"}{\"); } // {\"a\":1}","data":"data: [DONE]\n\n"}"#,
    r#"{"a":{"a":{"a":{"a":[[[[{"a":"}"}]]]]}}}}"#,
    "{}",
    " {}",
    "[]",
    "-12.5e3",
];
/// Up to this size a text is cut at each of its characters. There are a few texts of some kilobytes.
const EVERY_CHARACTER: usize = if cfg!(debug_assertions) { 256 } else { 2048 };
/// At how many of its characters a longer one is cut.
const SAMPLE: usize = 64;

#[test]
fn arguments_may_be_cut_anywhere() {
    let recorded =
        inputs().iter().flat_map(|input| finished(&input.whole)).map(|call| call.arguments.as_str());
    // Free text of custom tools would not finish a call whose input is JSON.
    let texts: BTreeSet<&str> = TEXTS.into_iter().chain(recorded.filter(|text| is_json(text))).collect();
    let texts: Vec<&str> = texts.into_iter().collect();
    try_all("fragments", &texts, |text| text, check);
}

fn check(arguments: &&str, trial: &mut Trial) {
    let arguments = *arguments;
    let is_long = arguments.len() > EVERY_CHARACTER;
    if is_long {
        trial.is_sampled();
    }
    // The same text twice: characters as they are, and in halves, where it has any that have.
    let in_halves = in_halves(arguments);
    let texts = [arguments].into_iter().chain((in_halves != arguments).then_some(in_halves.as_str()));
    for text in texts {
        let offsets: Vec<usize> = text.char_indices().map(|(offset, _)| offset).collect();
        let stride = if is_long { offsets.len().div_ceil(SAMPLE) } else { 1 };
        let single = offsets.iter().step_by(stride).map(|offset| vec![*offset]);
        for cuts in single.chain([offsets.clone()]) {
            for wire in TestedWire::ALL.into_iter().filter(|wire| wire.sends_fragments()) {
                trial.holds(
                    || format!("{} cut at {cuts:?} of {text:?}", wire.name()),
                    || check_cuts(wire, text, &cuts, arguments),
                );
            }
        }
    }
}

fn check_cuts(wire: TestedWire, text: &str, cuts: &[usize], arguments: &str) {
    let body = match wire {
        TestedWire::Anthropic => turn(anthropic::Reply::new(), text, cuts).body(),
        TestedWire::Cohere => turn(cohere::Reply::new(), text, cuts).body(),
        TestedWire::Gemini | TestedWire::Ollama => panic!("calls come whole on this wire"),
        TestedWire::Bedrock => turn(bedrock::Reply::new(), text, cuts).body(),
        TestedWire::OpenAiChat => turn(openai_chat::Reply::new(), text, cuts).body(),
        TestedWire::OpenAiResponses => turn(openai_responses::Reply::new(), text, cuts).body(),
    };
    let escaped =
        edited(&body, &Frames::of(wire.framing(), &body), |_, frame| Some(with_escapes(&frame.data)));
    let events = decode(wire.decoder(), &escaped);
    let want = CallFinished::new(CallIndex(0), "call_1", "write_file", arguments);
    assert_eq!(finished(&events).collect::<Vec<_>>(), [&want], "the turn ended in {:?}", events.last());
}

fn turn<F>(reply: Reply<F>, text: &str, cuts: &[usize]) -> Reply<F> {
    reply.call_raw("call_1", "write_file", text).fragments_at(cuts.iter().copied())
}

/// The text with two characters that stand for halves in place of each that has two halves in UTF-16. The
/// ones that stand for them are private: no text that is tried has them.
fn in_halves(text: &str) -> String {
    let (mut halves, mut buffer) = (String::with_capacity(text.len()), [0; 2]);
    for character in text.chars() {
        match character.encode_utf16(&mut buffer) {
            [high, low] => {
                let stand_ins =
                    [high, low].map(|half| char::from_u32(u32::from(*half) - 0xD800 + FIRST_STAND_IN));
                halves.extend(stand_ins.into_iter().flatten());
            }
            _ => halves.push(character),
        }
    }
    halves
}

/// The data with an escape for each stand-in: half a pair each, however far apart they are.
fn with_escapes(data: &str) -> String {
    let mut escaped = String::with_capacity(data.len());
    for character in data.chars() {
        match u32::from(character).checked_sub(FIRST_STAND_IN).filter(|half| *half < 0x800) {
            Some(half) => write!(escaped, "\\u{:04x}", half + 0xD800).unwrap(),
            None => escaped.push(character),
        }
    }
    escaped
}

/// Where the private characters begin.
const FIRST_STAND_IN: u32 = 0xE000;

#[test]
fn halves_become_escapes_of_the_frame() {
    assert_eq!(with_escapes(&format!("\"{}\"", in_halves("é😀"))), "\"é\\ud83d\\ude00\"");
}
