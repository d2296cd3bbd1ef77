//! The table of the design's section 3, row by row: what is said to the ledger, and the events it makes.

use super::*;

const BLOCKS: Rules = Rules::new("blocks", Closing::MarkerAndMore, BodyEnd::Finishes);
const ITEMS: Rules = Rules::new("items", Closing::Marker, BodyEnd::Cuts);
const SLOTS: Rules = Rules::new("slots", Closing::TurnEnd, BodyEnd::FinishesIfClean);

/// What a decoder says.
enum Say {
    Part,
    Text(&'static str),
    Half(&'static str),
    Call(u64, &'static str, &'static str),
    Given(u64, &'static str),
    Append(u64, &'static str),
    Settle(u64, &'static str),
    Close(u64),
    CutOff(u64),
    Reason(Reason),
    End,
    Body(End),
}
use Say::{Append, Body, Call, Close, CutOff, Given, Half, Part, Settle, Text};

/// The events of a script, a line each, without parts and usage.
fn run(rules: Rules, script: &[Say]) -> Vec<String> {
    let mut ledger = Ledger::new(rules, Limits::new().argument_bytes(40).calls(3).parts(5).text_bytes(9));
    let mut part = PartIndex(0);
    for say in script {
        match say {
            Part => part = ledger.part_began(),
            Text(text) => ledger.text(part, &JsonText::from(*text)),
            Half(json) => ledger.text(part, &serde_json::from_str(json).unwrap()),
            Call(key, id, name) => {
                ledger.announce(Key::Index(*key), Announcement::new(Some(id), Some(name)));
            }
            Given(key, given) => {
                let call = Announcement::new(Some("g"), Some("f")).with_given(given);
                ledger.announce(Key::Index(*key), call);
            }
            Append(key, text) => ledger.append(&Key::Index(*key), &JsonText::from(*text)),
            Settle(key, text) => ledger.settle(&Key::Index(*key), &JsonText::from(*text)),
            Close(key) => ledger.close(&Key::Index(*key)),
            CutOff(key) => ledger.cut_off(&Key::Index(*key)),
            Say::Reason(reason) => ledger.reason(*reason, ""),
            Say::End => ledger.turn_ended(),
            Body(End::Closed) => ledger.body_ended(End::Closed),
            Body(End::Broken(_)) => ledger.body_ended(End::Broken(reset())),
        }
    }
    let mut events = Events::new();
    ledger.swap_events(&mut events);
    events.filter_map(line).collect()
}

fn line(event: Result<Event, Error>) -> Option<String> {
    Some(match event {
        Ok(Event::TurnStarted(_) | Event::PartFinished(_)) => return None,
        Ok(Event::TextDelta(delta)) => format!("text {}", delta.text),
        Ok(Event::CallStarted(call)) => format!("start {} {} {}", call.call.0, call.id, call.name),
        Ok(Event::CallArgumentFragment(piece)) => {
            format!("piece {} {}", piece.call.0, piece.fragment.as_raw_str())
        }
        Ok(Event::CallFinished(call)) => format!("finish {} {}", call.call.0, call.arguments),
        Ok(Event::CallAborted(call)) => {
            format!("abort {} {} {:?}", call.call.0, call.partial.as_raw_str(), call.reason)
        }
        Ok(Event::TurnFinished(turn)) => {
            format!("end {:?}{}", turn.reason, if turn.inferred { " inferred" } else { "" })
        }
        Ok(Event::Provider(event)) => format!("provider {} {}", event.name, event.raw),
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("{}: {} partial={}", error.kind(), error.message(), error.partial()),
    })
}

fn reset() -> Error {
    Error::new(ErrorKind::Truncated, "reset")
}

fn broken() -> Say {
    Body(End::Broken(reset()))
}

fn closed() -> Say {
    Body(End::Closed)
}

#[test]
fn a_closed_block_is_finished_when_the_turn_goes_on() {
    let script = [Call(1, "a", "f"), Append(1, "{}"), Close(1), Part, Text("x"), broken()];
    let want = ["start 0 a f", "piece 0 {}", "finish 0 {}", "text x", "truncated: reset partial=true"];
    assert_eq!(run(BLOCKS, &script), want);
}

#[test]
fn a_closed_block_at_the_output_limit_is_aborted_even_if_its_text_parses() {
    let script = [Call(1, "a", "f"), Append(1, "{}"), Close(1), Say::Reason(Reason::Length), Say::End];
    assert_eq!(run(BLOCKS, &script), ["start 0 a f", "piece 0 {}", "abort 0 {} Length", "end Length"]);
}

#[test]
fn blocks_finish_in_the_order_of_their_stops_and_unstopped_ones_last() {
    let script = [
        Call(1, "a", "f"),
        Call(2, "b", "f"),
        Call(3, "c", "f"),
        Append(1, "1"),
        Append(2, "2"),
        Append(3, "3"),
        Close(3),
        Close(2),
        Close(9),
        Say::Reason(Reason::Stop),
        Say::End,
    ];
    let lines = run(BLOCKS, &script);
    assert_eq!(lines[6..], ["finish 2 3", "finish 1 2", "finish 0 1", "end ToolCalls"]);
}

#[test]
fn input_given_whole_is_one_fragment_unless_another_comes() {
    let end = [Close(1), Say::Reason(Reason::ToolCalls), Say::End];
    let script = [Given(1, "{\"n\": 1}")].into_iter().chain(end);
    let want = ["start 0 g f", "piece 0 {\"n\": 1}", "finish 0 {\"n\": 1}", "end ToolCalls"];
    assert_eq!(run(BLOCKS, &script.collect::<Vec<_>>()), want);
    let end = [Close(1), Say::Reason(Reason::ToolCalls), Say::End];
    let script = [Given(1, "{\"n\": 1}"), Append(1, "{}")].into_iter().chain(end);
    let want = ["start 0 g f", "piece 0 {}", "finish 0 {}", "end ToolCalls"];
    assert_eq!(run(BLOCKS, &script.collect::<Vec<_>>()), want);
}

#[test]
fn a_reason_finishes_a_broken_body_of_blocks_but_not_of_slots() {
    let script = || [Part, Text("x"), Say::Reason(Reason::Stop), broken()];
    assert_eq!(run(BLOCKS, &script()), ["text x", "end Stop"]);
    assert_eq!(run(SLOTS, &script()), ["text x", "truncated: reset partial=true"]);
    assert_eq!(run(SLOTS, &[Part, Text("x"), Say::Reason(Reason::Stop), closed()]), ["text x", "end Stop"]);
    let lines = run(ITEMS, &[Part, Text("x"), Say::Reason(Reason::Stop), closed()]);
    assert_eq!(lines, ["text x", "truncated: the body ended before the turn did partial=true"]);
}

#[test]
fn a_slot_is_held_until_it_has_a_name_and_an_id() {
    let script = [
        Call(0, "", ""),
        Append(0, "{\"a\""),
        Call(0, "", "f"),
        Append(0, ":1}"),
        Call(0, "late", "other"),
        Say::Reason(Reason::Stop),
        Say::End,
    ];
    let want = ["start 0 late f", "piece 0 {\"a\":1}", "finish 0 {\"a\":1}", "end ToolCalls"];
    assert_eq!(run(SLOTS, &script), want);
}

#[test]
fn held_slots_are_announced_before_any_call_finishes() {
    let script = [
        Call(0, "", "f"),
        Append(0, "{}"),
        Call(1, "", "f"),
        Append(1, "[]"),
        Say::Reason(Reason::Stop),
        Say::End,
    ];
    let want = [
        "start 0 turnstream_call_0 f",
        "piece 0 {}",
        "start 1 turnstream_call_1 f",
        "piece 1 []",
        "finish 0 {}",
        "finish 1 []",
        "end ToolCalls",
    ];
    assert_eq!(run(SLOTS, &script), want);
}

#[test]
fn a_slot_that_never_gets_a_name_is_an_error_that_names_its_key() {
    let script = [Call(7, "x", ""), Append(7, "{}"), Say::Reason(Reason::Stop), Say::End];
    let lines = run(SLOTS, &script);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("malformed: argument text for the call with key 7"), "{lines:?}");
    let lines = run(SLOTS, &[Call(7, "x", ""), Say::Reason(Reason::Stop), Say::End]);
    assert_eq!(lines, ["end Stop"], "a slot without text is noise");
}

#[test]
fn a_call_that_was_never_announced_is_named_in_the_error() {
    let lines = run(SLOTS, &[Part, Text("ok"), Call(0, "", "f"), Append(0, "{\"p"), broken()]);
    assert_eq!(lines, ["text ok", "truncated: reset; never announced: a call of `f` partial=true"]);
}

#[test]
fn on_a_cut_only_calls_from_which_the_model_moved_on_are_finished() {
    let calls = || [Call(0, "a", "f"), Append(0, "{}"), Call(1, "b", "f"), Append(1, "{}")];
    let end = || [Say::Reason(Reason::ContentFilter), Say::End];
    let script: Vec<Say> = calls().into_iter().chain(end()).collect();
    let lines = run(SLOTS, &script);
    assert_eq!(lines[4..], ["finish 0 {}", "abort 1 {} ContentFilter", "end ContentFilter"]);
    // The last fragment belongs to the first call: neither is complete.
    let script: Vec<Say> = calls().into_iter().chain([Append(0, "\n")]).chain(end()).collect();
    let lines = run(SLOTS, &script);
    assert_eq!(lines[5..], ["abort 0 {}\n ContentFilter", "abort 1 {} ContentFilter", "end ContentFilter"]);
}

#[test]
fn blank_arguments_on_a_cut_need_a_marker() {
    let script = || [Call(0, "a", "f"), Call(1, "b", "f"), Say::Reason(Reason::Length), Say::End];
    assert_eq!(run(SLOTS, &script())[2..], ["abort 0  Length", "abort 1  Length", "end Length"]);
    let script = [Call(0, "a", "f"), Close(0), Call(1, "b", "f"), Say::Reason(Reason::Length), Say::End];
    assert_eq!(
        run(BLOCKS, &script),
        ["start 0 a f", "finish 0 ", "start 1 b f", "abort 1  Length", "end Length"]
    );
}

#[test]
fn a_text_that_is_not_one_json_value_is_aborted_as_malformed() {
    let script = [Call(0, "a", "f"), Append(0, "{}{}"), Say::Reason(Reason::Stop), Say::End];
    assert_eq!(run(SLOTS, &script)[2..], ["abort 0 {}{} Malformed", "end ToolCalls"]);
}

#[test]
fn without_a_reason_it_is_inferred_only_if_every_call_is_complete() {
    let lines = run(SLOTS, &[Call(0, "a", "f"), Append(0, "{}"), Say::End]);
    assert_eq!(lines[2..], ["finish 0 {}", "end ToolCalls inferred"]);
    assert_eq!(run(SLOTS, &[Part, Text("x"), Say::End]), ["text x", "end Stop inferred"]);
    for text in ["", "{\"p"] {
        let lines = run(SLOTS, &[Call(0, "a", "f"), Append(0, text), Say::End]);
        assert!(lines.last().unwrap().starts_with("truncated"), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("abort 0") && line.ends_with("Truncated")));
    }
}

#[test]
fn a_whole_text_extends_or_contradicts_what_came() {
    let start = || [Call(0, "a", "f"), Append(0, "{\"a\"")];
    let end = || [Close(0), Say::Reason(Reason::Stop), Say::End];
    let script: Vec<Say> =
        start().into_iter().chain([Settle(0, "{\"a\":1}"), Settle(0, "")]).chain(end()).collect();
    assert_eq!(run(ITEMS, &script)[2..], ["piece 0 :1}", "finish 0 {\"a\":1}", "end ToolCalls"]);
    let script: Vec<Say> = start().into_iter().chain([Settle(0, "{\"b\":1}")]).chain(end()).collect();
    assert_eq!(run(ITEMS, &script)[2..], ["abort 0 {\"a\" Malformed", "end ToolCalls"]);
}

#[test]
fn a_call_that_the_wire_calls_cut_never_finishes() {
    let script = [
        Call(0, "a", "f"),
        Append(0, "{}"),
        CutOff(0),
        Call(1, "b", "f"),
        Append(1, "{}"),
        Close(1),
        Say::Reason(Reason::Length),
        Say::End,
    ];
    assert_eq!(run(ITEMS, &script)[4..], ["finish 1 {}", "abort 0 {} Length", "end Length"]);
}

#[test]
fn a_fragment_for_an_unknown_key_is_an_error_and_an_empty_one_is_nothing() {
    let lines = run(BLOCKS, &[Append(5, ""), Append(5, "{")]);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("malformed: argument text for the call with key 5"), "{lines:?}");
}

#[test]
fn a_fragment_that_comes_too_late_is_handed_on_and_changes_nothing() {
    let script =
        [Call(0, "a", "f"), Append(0, "{}"), Close(0), Append(0, "x"), Say::Reason(Reason::Stop), Say::End];
    let want = [
        "start 0 a f",
        "piece 0 {}",
        "finish 0 {}",
        "provider late_fragment {\"call\":0,\"text\":\"x\"}",
        "end ToolCalls",
    ];
    assert_eq!(run(ITEMS, &script), want);
}

#[test]
fn a_held_call_keeps_its_place_among_the_parts() {
    let mut ledger = Ledger::new(SLOTS, Limits::new());
    for (key, id) in [(0, None), (1, None), (2, Some("b"))] {
        ledger.announce(Key::Index(key), Announcement::new(id, Some("f").filter(|_| key != 0)));
    }
    let part = ledger.part_began();
    ledger.text(part, &"x".into());
    ledger.reason(Reason::Stop, "");
    ledger.turn_ended();
    let mut events = Events::new();
    ledger.swap_events(&mut events);
    let started: Vec<(u32, u32, String)> = events
        .filter_map(|event| match event {
            Ok(Event::CallStarted(call)) => Some((call.part.0, call.call.0, call.id.to_string())),
            _ => None,
        })
        .collect();
    // The slot with key 0 never said anything: it is no part.
    assert_eq!(started, [(1, 0, "b".into()), (0, 1, "turnstream_call_1".into())]);
    assert_eq!(part, PartIndex(2));
}

#[test]
fn text_that_comes_after_its_part_is_handed_on() {
    let mut ledger = Ledger::new(SLOTS, Limits::new());
    let part = ledger.part_began();
    ledger.text(part, &"a".into());
    ledger.part_finished(part, None);
    ledger.text(part, &"b".into());
    ledger.turn_ended();
    let mut events = Events::new();
    ledger.swap_events(&mut events);
    let lines: Vec<String> = events.filter_map(line).collect();
    assert_eq!(lines, ["text a", "provider late_text {\"text\":\"b\"}", "end Stop inferred"]);
}

#[test]
fn halves_of_a_pair_are_joined_over_two_pieces_of_a_part() {
    let start = || [Part, Half(r#""a\ud83d""#)];
    let end = || [Say::Reason(Reason::Stop), Say::End];
    let script: Vec<Say> = start().into_iter().chain([Half(r#""\ude00b""#)]).chain(end()).collect();
    assert_eq!(run(SLOTS, &script), ["text a", "text \u{1f600}b", "end Stop"]);
    let script: Vec<Say> = start().into_iter().chain(end()).collect();
    assert_eq!(run(SLOTS, &script), ["text a", "text \u{fffd}", "end Stop"], "a normal end shows the half");
    let script: Vec<Say> = start().into_iter().chain([broken()]).collect();
    assert_eq!(run(SLOTS, &script), ["text a", "truncated: reset partial=true"], "a cut drops it");
}

#[test]
fn a_limit_met_by_the_last_half_ends_the_turn_once() {
    let half = || Half(r#""\ud83d""#);
    let script = [Part, Text("12345678"), half(), Part, half(), Say::Reason(Reason::Stop), Say::End];
    let lines = run(SLOTS, &script);
    assert_eq!(lines.len(), 2);
    assert!(lines[1].starts_with("limit_exceeded"), "{lines:?}");
}

#[test]
fn nothing_comes_after_the_end() {
    let script =
        [Part, Text("x"), Say::Reason(Reason::Stop), Say::End, Text("y"), Call(0, "a", "f"), broken()];
    assert_eq!(run(SLOTS, &script), ["text x", "end Stop"]);
}

#[test]
fn a_reason_that_is_no_cut_finishes_the_blocks_that_stopped() {
    let call = || [Call(1, "a", "f"), Append(1, "{}"), Close(1)];
    let script: Vec<Say> = call().into_iter().chain([Say::Reason(Reason::ToolCalls), broken()]).collect();
    assert_eq!(run(BLOCKS, &script)[2..], ["finish 0 {}", "end ToolCalls"]);
    let end = [Say::Reason(Reason::Length), Say::Reason(Reason::ToolCalls), Say::End];
    let script: Vec<Say> = call().into_iter().chain(end).collect();
    assert_eq!(run(BLOCKS, &script)[2..], ["abort 0 {} Length", "end Length"]);
}

#[test]
fn input_given_whole_counts_when_a_cut_or_a_missing_reason_is_judged() {
    let cut = [Call(2, "b", "f"), Append(2, "{"), Say::Reason(Reason::Length), Say::End];
    let script: Vec<Say> = [Given(1, "{\"q\":1}")].into_iter().chain(cut).collect();
    let want = ["piece 0 {\"q\":1}", "finish 0 {\"q\":1}", "abort 1 { Length", "end Length"];
    assert_eq!(run(BLOCKS, &script)[3..], want);
    let lines = run(BLOCKS, &[Given(1, "{\"q\":1}"), Close(1), Say::End]);
    assert_eq!(lines[2..], ["finish 0 {\"q\":1}", "end ToolCalls inferred"]);
}

#[test]
fn a_slot_that_said_nothing_is_no_incomplete_call() {
    assert_eq!(run(SLOTS, &[Call(0, "x", ""), Part, Text("a"), Say::End]), ["text a", "end Stop inferred"]);
}

#[test]
fn a_reason_behind_which_more_came_settles_nothing() {
    let mut ledger = Ledger::new(SLOTS, Limits::new());
    let part = ledger.part_began();
    ledger.text(part, &"a".into());
    ledger.reason(Reason::Stop, "stop");
    assert!(ledger.is_settled());
    ledger.text(part, &"b".into());
    ledger.reason(Reason::Stop, "stop");
    assert!(!ledger.is_settled());
}

#[test]
fn a_body_that_ends_in_what_came_after_the_reason_is_cut() {
    let begin = || [Part, Text("x"), Say::Reason(Reason::ToolCalls), Call(1, "a", "f")];
    for rules in [BLOCKS, SLOTS] {
        let script: Vec<Say> = begin().into_iter().chain([closed()]).collect();
        let lines = run(rules, &script);
        assert_eq!(lines[2], "abort 0  Truncated");
        assert!(lines[3].starts_with("truncated"), "{lines:?}");
        // A reason given again stands behind all of it.
        let script: Vec<Say> =
            begin().into_iter().chain([Say::Reason(Reason::ToolCalls), closed()]).collect();
        assert_eq!(run(rules, &script)[2..], ["finish 0 ", "end ToolCalls"]);
    }
}

#[test]
fn the_most_alarming_reason_counts() {
    let script =
        [Say::Reason(Reason::Stop), Say::Reason(Reason::Length), Say::Reason(Reason::ToolCalls), Say::End];
    assert_eq!(run(SLOTS, &script), ["end Length"]);
}

#[test]
fn every_limit_is_an_error_that_names_it() {
    let table: [(&str, Vec<Say>); 4] = [
        (
            "`argument_bytes`: 41 of at most 40",
            vec![Call(0, "a", "f"), Append(0, "0123456789012345678901234567890123456789x")],
        ),
        (
            "`calls`: 4 of at most 3",
            vec![Call(0, "a", "f"), Call(1, "b", "f"), Call(2, "c", "f"), Call(3, "d", "f")],
        ),
        ("`parts`: 6 of at most 5", vec![Part, Part, Part, Part, Part, Part]),
        ("`text_bytes`: 10 of at most 9", vec![Part, Text("12345"), Text("12345")]),
    ];
    let mut ledger = Ledger::new(SLOTS, Limits::new());
    ledger.limit_exceeded("calls", 1, 2);
    let mut events = Events::new();
    ledger.swap_events(&mut events);
    let error = events.pop().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::LimitExceeded, Some("calls")));
    for (want, script) in table {
        let lines = run(SLOTS, &script);
        let last = lines.last().unwrap();
        assert!(last.starts_with("limit_exceeded") && last.contains(want), "{last}");
    }
}

#[test]
fn a_made_up_id_is_like_no_other_of_the_turn() {
    let script = [
        Call(0, "turnstream_call_1", "f"),
        Append(0, "{}"),
        Call(1, "", "f"),
        Append(1, "{}"),
        Say::Reason(Reason::Stop),
        Say::End,
    ];
    assert_eq!(run(SLOTS, &script)[2], "start 1 turnstream_call_1_ f");
}

#[test]
fn news_from_before_the_start_waits_for_the_turns_name() {
    let news = |ledger: &mut Ledger| ledger.provider("news", RawJson::parse("1").unwrap());
    let events = |ledger: &mut Ledger| {
        let mut events = Events::new();
        ledger.swap_events(&mut events);
        events
            .map(|event| event.map(|event| serde_json::to_string(&event).unwrap()).unwrap())
            .collect::<Vec<_>>()
    };
    let provider = r#"{"type":"provider","name":"news","raw":1}"#;

    let mut ledger = Ledger::new(SLOTS, Limits::new());
    news(&mut ledger);
    ledger.turn_started(Some("r1"), None);
    news(&mut ledger);
    assert_eq!(events(&mut ledger), [r#"{"type":"turn_started","id":"r1"}"#, provider, provider]);

    let mut ledger = Ledger::new(SLOTS, Limits::new());
    news(&mut ledger);
    assert_eq!(events(&mut ledger), [""; 0]);
    let part = ledger.part_began();
    ledger.text(part, &JsonText::from("a"));
    let text = r#"{"type":"text_delta","part":0,"text":"a"}"#;
    assert_eq!(events(&mut ledger), [r#"{"type":"turn_started"}"#, provider, text]);

    let mut ledger = Ledger::new(SLOTS, Limits::new());
    news(&mut ledger);
    ledger.body_ended(End::Closed);
    let mut ended = Events::new();
    ledger.swap_events(&mut ended);
    assert_eq!(ended.len(), 3);
    assert_eq!(
        ended.last().unwrap().unwrap_err().message(),
        "the body ended, and nothing in it is of the wire `slots`: is it another's?"
    );

    let mut ledger = Ledger::new(SLOTS, Limits::new());
    (0..20).for_each(|_| news(&mut ledger));
    assert_eq!(events(&mut ledger).len(), 21, "not much waits, and nothing for ever");
}
