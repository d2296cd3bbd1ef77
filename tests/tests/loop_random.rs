//! Whatever a model says, and wherever a run is interrupted: it ends once, it leaves a conversation that can be
//! sent, and no call has its effect twice unasked.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};

use fastrand::Rng;
use serde_json::{Value, json};
use turnstream::{
    Answer, Checkpoint, Conversation, Error, ErrorKind, Part, Request, Run, RunEvent, RunStatus, Schema,
    Tool, ToolError, ToolLoop, WaitingFor,
};
use turnstream_testing::{ScriptedModel, events::Reply};

const RUNS: u64 = 3000;

const WORDS: [&str; 8] =
    ["", "stop", "tool_calls", "length", "content_filter", "refusal", "pause", "something_new"];

#[tokio::test]
async fn a_run_ends_once_leaves_a_conversation_that_can_be_sent_and_does_nothing_twice() {
    let (mut interrupted, mut statuses) = (0, HashMap::new());
    for seed in 0..RUNS {
        let mut random = Rng::with_seed(seed);
        let model = script(&mut random);
        let effects = Effects::default();
        let tool_loop = tool_loop(&mut random, model, &effects);
        let mut run = tool_loop.run(Request::new().user("go"));
        // Some are killed on the way, and go on from what was written down, twice even.
        for _ in 0..random.usize(..3) {
            for _ in 0..random.usize(..40) {
                run.next().await;
            }
            let written = serde_json::to_string(&run.checkpoint()).unwrap();
            drop(run);
            let checkpoint: Checkpoint = serde_json::from_str(&written).unwrap();
            interrupted += 1;
            run = tool_loop.resume(checkpoint);
        }
        let status = read_to_the_end(run, &mut random, seed).await;
        *statuses.entry(status).or_insert(0) += 1;
        let effects = effects.0.lock().unwrap();
        assert!(effects.values().all(|count| *count == 1), "twice: {effects:?}, seed {seed}");
    }
    // It is worth something only if much of it happens.
    assert!(interrupted > 1000, "{interrupted}");
    for status in ["finished", "stopped", "max_turns", "max_calls", "max_tokens", "stop_condition", "failed"]
    {
        assert!(statuses.get(status).is_some_and(|count| *count > 20), "{status}: {statuses:?}");
    }
}

/// Reads a run to its end, decides what waits, and checks what must hold for every run.
async fn read_to_the_end(mut run: Run, random: &mut Rng, seed: u64) -> String {
    let mut started = HashSet::new();
    loop {
        let mut ends = 0;
        while let Some(event) = run.next().await {
            assert_eq!(ends, 0, "nothing comes after the end: {event:?}, seed {seed}");
            match event {
                RunEvent::Ended(_) => ends += 1,
                RunEvent::HandlerStarted(handler) => {
                    assert!(started.insert((handler.turn, handler.call)), "it starts once, seed {seed}");
                }
                _ => {}
            }
        }
        assert_eq!(ends, 1, "a run ends once, seed {seed}");
        let waiting = run.waiting();
        if waiting.is_empty() {
            break;
        }
        for call in waiting {
            // What was interrupted may have had its effect: nobody knows better here, so it does not run again.
            match (call.waiting_for, random.bool()) {
                (WaitingFor::Approval, true) => run.approve(call.turn, call.call).unwrap(),
                (_, true) => run.answer(call.turn, call.call, Answer::new()).unwrap(),
                (_, false) => run.deny(call.turn, call.call, "No.").unwrap(),
            }
        }
    }
    let outcome = run.outcome();
    assert!(!matches!(outcome.status, RunStatus::Waiting(_)), "seed {seed}");
    can_be_sent(&outcome.conversation, seed);
    outcome.status.kind().to_string()
}

fn can_be_sent(conversation: &Conversation, seed: u64) {
    assert!(conversation.open_calls().is_empty(), "every call is answered, seed {seed}");
    let (mut called, mut answered) = (Vec::new(), Vec::new());
    for part in conversation.messages().iter().flat_map(|message| &message.parts) {
        match part {
            Part::Call(call) => called.push(&*call.id),
            Part::Result(result) => answered.push(&*result.call_id),
            _ => {}
        }
    }
    assert_eq!(called, answered, "one result a call, in their order, seed {seed}");
    assert_eq!(called.iter().collect::<HashSet<_>>().len(), called.len(), "ids are unique, seed {seed}");
    assert!(conversation.messages().iter().all(|message| !message.parts.is_empty()), "seed {seed}");
}

/// How often each call has had its effect, by the number in its arguments.
#[derive(Clone, Default)]
struct Effects(Arc<Mutex<HashMap<u64, u32>>>);

impl Effects {
    fn tool(&self, name: &str, answer: fn() -> Result<Value, ToolError>) -> Tool {
        let effects = self.clone();
        Tool::new(name).parameters(Schema::object().integer("n", "")).handler(move |args: Value| {
            let effects = effects.clone();
            async move {
                tokio::task::yield_now().await;
                *effects.0.lock().unwrap().entry(args["n"].as_u64().ok_or("no number")?).or_default() += 1;
                tokio::task::yield_now().await;
                answer()
            }
        })
    }
}

fn tool_loop(random: &mut Rng, model: ScriptedModel, effects: &Effects) -> ToolLoop {
    let tools = [
        effects.tool("work", || Ok(json!({ "done": true }))),
        effects.tool("fail", || Err("no".into())),
        effects.tool("fatal", || Err(ToolError::fatal("never"))),
        effects.tool("ask", || Ok(json!("asked"))).needs_approval_when(|args| args["n"].as_u64() != Some(3)),
        Tool::new("outside"),
    ];
    let tools = tools.map(|tool| match random.u8(..4) {
        0 => tool.sequential(),
        1 => tool.eager(),
        _ => tool,
    });
    let mut tool_loop = ToolLoop::new(model)
        .tools(tools)
        .max_turns(random.u32(1..10))
        .max_calls(random.u32(1..30))
        .concurrency(random.usize(..4))
        .max_answer_bytes(random.usize(..20));
    if random.u8(..4) == 0 {
        tool_loop = tool_loop.eager();
    }
    if random.u8(..4) == 0 {
        tool_loop = tool_loop.max_total_tokens(random.u64(1..200));
    }
    if random.u8(..8) == 0 {
        let calls = random.u32(..8);
        tool_loop = tool_loop.stop_when(move |progress| progress.calls > calls);
    }
    if random.bool() {
        tool_loop = tool_loop.last_turn_without_tools();
    }
    tool_loop
}

/// A model that says anything.
fn script(random: &mut Rng) -> ScriptedModel {
    let mut number = 0;
    (0..random.usize(1..12)).fold(ScriptedModel::new(), |model, _| {
        if random.u8(..20) == 0 {
            return model.turn_error(Error::new(ErrorKind::Server, "down"));
        }
        let mut reply = Reply::new();
        for _ in 0..random.usize(..6) {
            number += 1;
            let arguments = json!({ "n": number }).to_string();
            let name =
                ["work", "work", "work", "fail", "fatal", "ask", "outside", "nobody"][random.usize(..8)];
            let id = ["same", "other", "same_2", "new"][random.usize(..4)];
            reply = match random.u8(..8) {
                0 => reply.text(["text"]),
                1 => reply.reasoning(["hm"]),
                2 => reply.call_raw(id, name, "{\"n\""),
                3 => reply.call_raw(id, name, r#"{"n": "no number"}"#),
                _ => reply.call_raw(id, name, arguments),
            };
        }
        model.turn(match random.u8(..10) {
            0 => reply.cut(),
            1..5 => reply.stop(WORDS[random.usize(1..WORDS.len())]),
            _ => reply.end(),
        })
    })
}
