//! What a long run allocates, counted by the allocator of this binary: a turn costs what is new in it.
//!
//! The counts are of the whole process, so all of it is one test: nothing else runs while it counts.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use dhat::{HeapStats, Profiler};
use serde_json::Value;
use turnstream::{Event, Model, Request, Tool, ToolLoop, TurnStream};
use turnstream_testing::events::Reply;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

#[test]
fn a_turn_costs_what_is_new_in_it() {
    // One id for all calls, so that every call gets a fresh one.
    let calls = Reply::new().text(["Let me look."]).call_raw("same", "f", r#"{"x":"0123456789"}"#).events();
    let last = Reply::new().text(["That is all."]).events();
    let played = |turns: usize| {
        let model = Patient { calls: events(&calls), last: events(&last), turns };
        let profiler = Profiler::builder().testing().build();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(
            ToolLoop::new(model)
                .tool(Tool::new("f").handler(|args: Value| async move { Ok(args) }))
                .max_turns(u32::MAX)
                .max_calls(u32::MAX)
                .run(Request::new().user("go"))
                .finish(),
        );
        assert_eq!((outcome.text(), outcome.calls as usize), ("That is all.", turns));
        let used = HeapStats::get();
        drop(profiler);
        println!("{turns} turns: {} blocks, {} bytes", used.total_blocks, used.total_bytes);
        (used.total_blocks, used.total_bytes)
    };
    let ((blocks, bytes), (more_blocks, more_bytes)) = (played(1000), played(2000));
    // Blocks are a measure of work: one that is copied with everything before it is allocated again.
    assert!(10 * more_blocks <= 21 * blocks, "{blocks} blocks for half of the turns that take {more_blocks}");
    assert!(10 * more_bytes <= 22 * bytes, "{bytes} bytes for half of the turns that take {more_bytes}");
}

/// Calls for so many turns, and then answers. It keeps nothing of what it is asked.
struct Patient {
    calls: Vec<Event>,
    last: Vec<Event>,
    turns: usize,
}

impl Model for Patient {
    fn stream(&self, request: &Request) -> TurnStream {
        // A reply and its results are two messages.
        let is_last = request.conversation.messages().len() > 2 * self.turns;
        let events = if is_last { &self.last } else { &self.calls };
        TurnStream::from_events(events.clone().into_iter().map(Ok))
    }

    fn name(&self) -> &str {
        "patient"
    }
}

fn events(events: &[Result<Event, turnstream::Error>]) -> Vec<Event> {
    events.iter().map(|event| event.as_ref().unwrap().clone()).collect()
}
