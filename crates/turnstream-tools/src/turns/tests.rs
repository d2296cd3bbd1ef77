use super::*;

const BOUNDS: Bounds = Bounds { turns: 3, calls: 5, tokens: Some(100), concurrency: 2 };

fn call(number: u32) -> Call {
    Call {
        call: CallIndex(number),
        part: PartIndex(number),
        id: format!("c{number}").into(),
        name: "f".into(),
        arguments: "{}".into(),
        input: InputKind::Json,
        malformed: None,
        is_sequential: false,
        is_eager: false,
        is_approved: false,
        state: CallState::Pending,
    }
}

fn sequential(number: u32) -> Call {
    Call { is_sequential: true, ..call(number) }
}

fn eager(number: u32) -> Call {
    Call { is_eager: true, ..call(number) }
}

/// A turn that made these calls, in a state before its end.
fn streaming(calls: impl IntoIterator<Item = Call>) -> Turns {
    let mut turns = Turns::default();
    turns.asked();
    calls.into_iter().for_each(|call| turns.call_came(call));
    turns
}

fn replied(reason: Reason, calls: impl IntoIterator<Item = Call>) -> Turns {
    let mut turns = streaming(calls);
    let ids = turns.calls.iter().map(|call| call.id.clone()).collect();
    turns.replied(Some(reason), Usage::new(), ids, &BOUNDS);
    turns
}

fn step(turns: &mut Turns) -> Step {
    turns.step(&BOUNDS, &mut Conversation::new())
}

fn run(calls: &[u32]) -> Step {
    Step::Run(calls.iter().copied().map(CallIndex).collect())
}

#[test]
fn every_reason_is_classified() {
    let stopped = |reason| Next::End(Verdict::Stopped(reason));
    let finished = || Next::End(Verdict::Finished);
    let table = [
        (Reason::Stop, Next::RunCalls, finished()),
        (Reason::ToolCalls, Next::RunCalls, stopped(Reason::ToolCalls)),
        (Reason::Pause, Next::RunCalls, Next::AskAgain),
        (Reason::Other, stopped(Reason::Other), finished()),
        (Reason::Length, stopped(Reason::Length), stopped(Reason::Length)),
        (Reason::ContentFilter, stopped(Reason::ContentFilter), stopped(Reason::ContentFilter)),
        (Reason::Refusal, stopped(Reason::Refusal), stopped(Reason::Refusal)),
    ];
    for (reason, with_calls, without) in table {
        assert_eq!(next(reason, true), with_calls, "{reason:?} with calls");
        assert_eq!(next(reason, false), without, "{reason:?} without calls");
    }
}

#[test]
fn at_most_so_many_calls_run_side_by_side_and_in_call_order() {
    let mut turns = replied(Reason::ToolCalls, [call(0), call(1), call(2)]);
    assert_eq!(step(&mut turns), run(&[0, 1]));
    turns.started(CallIndex(0));
    turns.started(CallIndex(1));
    assert_eq!(step(&mut turns), Step::Busy);
    turns.answered(CallIndex(1), Answer::new());
    assert_eq!(step(&mut turns), run(&[2]));
}

#[test]
fn a_sequential_call_runs_alone() {
    let mut turns = replied(Reason::ToolCalls, [call(0), sequential(1), sequential(2), call(3)]);
    assert_eq!(step(&mut turns), run(&[0]));
    for (number, then) in [(0, run(&[1])), (1, run(&[2])), (2, run(&[3])), (3, Step::Ask)] {
        turns.started(CallIndex(number));
        assert_eq!(step(&mut turns), Step::Busy);
        turns.answered(CallIndex(number), Answer::new());
        assert_eq!(step(&mut turns), then);
    }
}

#[test]
fn only_eager_calls_start_while_the_turn_streams_and_none_behind_a_sequential_one() {
    let mut turns = streaming([call(0), eager(1), sequential(2), eager(3)]);
    assert_eq!(step(&mut turns), run(&[1]));
    turns.started(CallIndex(1));
    assert_eq!(step(&mut turns), Step::Busy);
}

#[test]
fn results_are_one_message_in_the_order_of_the_message_under_its_ids() {
    let mut turns = streaming([]);
    turns.call_came(Call { part: PartIndex(1), ..call(0) });
    turns.call_came(Call { part: PartIndex(0), ..call(1) });
    turns.replied(Some(Reason::ToolCalls), Usage::new(), vec!["x".into(), "x_2".into()], &BOUNDS);
    turns.answered(CallIndex(0), "second".into());
    turns.answered(CallIndex(1), "first".into());
    let mut conversation = Conversation::new();
    assert_eq!(turns.step(&BOUNDS, &mut conversation), Step::Ask);
    let results = [ResultPart::text("x", "f", "first"), ResultPart::text("x_2", "f", "second")];
    assert_eq!(conversation.messages(), [Message::results(results)]);
}

#[test]
fn a_run_ends_after_its_turns_and_before_too_many_calls() {
    let mut turns = replied(Reason::Pause, []);
    turns.asked = 2;
    assert_eq!(step(&mut turns), Step::Ask);
    turns.asked = 3;
    assert_eq!(step(&mut turns), Step::Done(Verdict::MaxTurns));
    let mut turns = replied(Reason::ToolCalls, (0..6).map(call));
    assert_eq!(step(&mut turns), Step::Done(Verdict::MaxCalls));
    let mut turns = streaming((0..6).map(eager));
    assert_eq!(step(&mut turns), Step::Busy);
}

#[test]
fn a_run_ends_when_its_tokens_are_used_up_and_its_calls_have_run() {
    let mut turns = replied(Reason::ToolCalls, [call(0)]);
    let mut usage = Usage::new();
    (usage.input_tokens, usage.output_tokens) = (Some(90), Some(9));
    turns.usage = usage;
    assert_eq!(step(&mut turns), run(&[0]));
    turns.answered(CallIndex(0), Answer::new());
    assert_eq!(step(&mut turns), Step::Ask);
    turns.usage.output_tokens = Some(10);
    assert_eq!(step(&mut turns), Step::Done(Verdict::MaxTokens));
    // A run that has not asked yet has a turn to come, and so has one whose provider counts nothing.
    turns.usage = Usage::new();
    assert_eq!(step(&mut turns), Step::Ask);
}

#[test]
fn a_call_that_waits_blocks_the_run_until_it_is_decided() {
    let mut turns = replied(Reason::ToolCalls, [call(0), call(1)]);
    turns.wait(CallIndex(0), WaitingFor::Approval);
    turns.wait(CallIndex(1), WaitingFor::Answer);
    assert_eq!(step(&mut turns), Step::Wait);
    assert!(turns.decide(1, CallIndex(0), Decision::Run).is_err(), "another turn");
    assert!(turns.decide(0, CallIndex(1), Decision::Run).is_err(), "no handler");
    turns.decide(0, CallIndex(0), Decision::Run).unwrap();
    assert_eq!(step(&mut turns), run(&[0]));
    turns.decide(0, CallIndex(1), Decision::Answer("B".into())).unwrap();
    assert!(turns.decide(0, CallIndex(1), Decision::Answer("C".into())).is_err(), "decided twice");
}

#[test]
fn closing_answers_every_call_by_what_became_of_it() {
    let mut turns = replied(Reason::ToolCalls, [call(0), call(1), call(2)]);
    turns.answered(CallIndex(0), "A".into());
    turns.started(CallIndex(1));
    let mut conversation = Conversation::new();
    turns.close(&mut conversation, "the run was cancelled");
    let once = conversation.clone();
    turns.close(&mut conversation, "the run was cancelled");
    assert_eq!(conversation, once);
    let unknown = "The call was cancelled while it ran. Whether it had an effect is unknown.";
    let want = Message::results([
        ResultPart::text("c0", "f", "A"),
        ResultPart::text("c1", "f", unknown).with_error(),
        ResultPart::text("c2", "f", "The call was not run: the run was cancelled.").with_error(),
    ]);
    assert_eq!(conversation.messages(), [want]);
}

#[test]
fn an_interrupted_call_runs_again_only_if_it_is_idempotent() {
    let mut turns = replied(Reason::ToolCalls, [call(0), Call { name: "read".into(), ..call(1) }]);
    turns.started(CallIndex(0));
    turns.started(CallIndex(1));
    let json = serde_json::to_string(&turns).unwrap();
    let mut turns: Turns = serde_json::from_str(&json).unwrap();
    turns.interrupted(|name| name == "read");
    assert_eq!(step(&mut turns), run(&[1]));
    assert_eq!(turns.waiting().len(), 1);
}
