#![no_main]

//! The loop's rules: the input is a script of replies, and whatever it says, every run ends once, leaves a
//! conversation in which every call is answered, and runs no handler of a turn that was cut.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use turnstream_core::{Error, ErrorKind, Part, Reason, Request};
use turnstream_testing::{ScriptedModel, events::Reply};
use turnstream_tools::{RunEvent, RunStatus, Schema, Tool, ToolError, ToolLoop};

const WORDS: [&str; 8] =
    ["", "stop", "tool_calls", "length", "content_filter", "refusal", "pause", "something_new"];

fuzz_target!(|input: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(check(input));
});

async fn check(input: &[u8]) {
    let (settings, script) = match input {
        [settings, script @ ..] => (*settings, script),
        [] => return,
    };
    let model = script.split(|byte| *byte == b'\n').take(12).fold(ScriptedModel::new(), turn);
    let started = Arc::new(AtomicUsize::new(0));
    let tools = [("work", 0), ("fail", 1), ("stop", 2)].map(|(name, kind)| {
        let started = started.clone();
        let tool = Tool::new(name).parameters(Schema::object()).handler(move |_: Value| {
            started.fetch_add(1, Ordering::Relaxed);
            async move {
                match kind {
                    0 => Ok(json!({ "done": true })),
                    1 => Err(ToolError::new("no")),
                    _ => Err(ToolError::fatal("never")),
                }
            }
        });
        if settings & 1 == 1 { tool.sequential() } else { tool }
    });
    let mut run = ToolLoop::new(model).tools(tools).max_turns(u32::from(settings >> 4) + 1).max_calls(20);
    if settings & 2 == 2 {
        run = run.eager();
    }
    let mut run = run.run(Request::new().user("go"));
    let (mut ends, mut handlers, mut cut_turns) = (0, Vec::new(), HashSet::new());
    while let Some(event) = run.next().await {
        assert_eq!(ends, 0, "nothing comes after the end: {event:?}");
        match event {
            RunEvent::Ended(_) => ends += 1,
            RunEvent::HandlerStarted(handler) => handlers.push((handler.turn, handler.call)),
            RunEvent::TurnEnded(step) if step.reason.is_some_and(Reason::is_cut) => {
                cut_turns.insert(step.turn);
            }
            _ => {}
        }
    }
    assert_eq!(ends, 1, "a run ends once");
    assert_eq!(handlers.iter().collect::<HashSet<_>>().len(), handlers.len(), "no handler starts twice");
    if settings & 2 == 0 {
        assert!(handlers.iter().all(|(turn, _)| !cut_turns.contains(turn)), "no call of a cut turn runs");
    }
    assert!(started.load(Ordering::Relaxed) <= handlers.len(), "no handler runs unannounced");
    let outcome = run.outcome();
    if let RunStatus::Waiting(_) = outcome.status {
        return;
    }
    assert!(outcome.conversation.open_calls().is_empty(), "every call is answered");
    let mut ids = HashSet::new();
    let mut answered = HashSet::new();
    for part in outcome.conversation.messages().iter().flat_map(|message| &message.parts) {
        match part {
            Part::Call(call) => assert!(ids.insert(&*call.id), "ids are unique: {}", call.id),
            Part::Result(result) => {
                assert!(ids.contains(&*result.call_id), "a result answers a call: {}", result.call_id);
                assert!(answered.insert(&*result.call_id), "and only one does: {}", result.call_id);
            }
            _ => {}
        }
    }
    assert_eq!(ids.len(), answered.len(), "every call has its result");
}

/// One line of the script: a word for the reason, then calls.
fn turn(model: ScriptedModel, line: &[u8]) -> ScriptedModel {
    let Some((word, calls)) = line.split_first() else {
        return model.turn_error(Error::new(ErrorKind::Server, "down"));
    };
    let mut reply = Reply::new();
    for byte in calls.iter().take(8) {
        reply = match byte % 8 {
            0 => reply.text(["text"]),
            1 => reply.call_raw("same", "work", "{}"),
            2 => reply.call_raw("other", "work", ""),
            3 => reply.call_raw("broken", "work", "{\"a\""),
            4 => reply.call_raw("unknown", "nobody", "{}"),
            5 => reply.call_raw("same", "fail", "{}"),
            6 => reply.call_raw("last", "stop", "{}"),
            _ => reply.reasoning(["hm"]),
        };
    }
    model.turn(match WORDS.get(usize::from(word % 16)) {
        Some(&"") => reply.cut(),
        Some(word) => reply.stop(*word),
        None => reply.end(),
    })
}
