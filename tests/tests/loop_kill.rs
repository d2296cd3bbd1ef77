//! A run of three turns whose process is killed at every single step, and goes on in another one.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::{
    collections::BTreeMap,
    env,
    error::Error as StdError,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use serde_json::{Value, json};
use turnstream::{
    CallContext, Checkpoint, CheckpointSink, Message, Model, Part, Request, RunEvent, RunStatus, Tool,
    ToolLoop, TurnStream, WaitingFor,
};
use turnstream_testing::events::Reply;
use turnstream_tests::skip;

const FOLDER: &str = "TURNSTREAM_KILL_FOLDER";
const STEP: &str = "TURNSTREAM_KILL_STEP";

#[test]
fn a_run_that_is_killed_at_any_step_goes_on_where_it_was_and_does_nothing_twice_unasked() {
    let undisturbed = Scene::new("undisturbed");
    assert!(undisturbed.play(None), "it comes to its end");
    let want = undisturbed.outcome();
    assert_eq!(undisturbed.effects(), counts([("p1", 1), ("p2", 1), ("r1", 1)]));

    let (mut step, mut interruptions, mut repetitions) = (0, 0, 0);
    loop {
        step += 1;
        let scene = Scene::new(&format!("step-{step}"));
        if scene.play(Some(step)) {
            break;
        }
        let (before, recorded) = (scene.effects(), scene.recorded());
        interruptions += scene.interrupted();
        assert!(scene.play(None), "killed at step {step}, it comes to its end in another process");
        let after = scene.effects();
        assert_eq!(scene.outcome(), want, "killed at step {step}");
        for id in recorded {
            assert_eq!(after.get(&id), before.get(&id), "{id} had its result at step {step}");
        }
        // Who is asked looks into the books, so that these happen once.
        assert_eq!((after["p1"], after["p2"]), (1, 1), "killed at step {step}");
        // What is idempotent may happen twice, and does only if it was cut between its effect and its result.
        repetitions += after["r1"] - 1;
    }
    // The kills hit what they are meant to hit: each of the three calls between its start and its result.
    assert!(step > 50, "only {step} steps");
    assert!(interruptions > 5, "only {interruptions} calls were interrupted");
    assert!((1..20).contains(&repetitions), "{repetitions} repetitions of the idempotent call");
}

/// The process that is killed. Its books, its checkpoint and its outcome are files in a folder.
#[test]
#[ignore = "it is run by the test above, in processes of its own"]
fn a_process_that_is_killed() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return skip("the process that is killed (it is started by another test)");
    };
    let killer = Killer {
        step: env::var(STEP).ok().map(|step| step.parse().unwrap()),
        steps: Arc::new(AtomicU32::new(0)),
        folder,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(killer));
}

async fn run(killer: Killer) {
    let tool_loop = ToolLoop::new(Accountant(killer.clone()))
        .tool(killer.tool("pay", "paid"))
        .tool(killer.tool("read", "42").idempotent())
        .checkpoints(Disk(killer.clone()));
    let mut run = match fs::read(killer.path("checkpoint.json")) {
        Ok(checkpoint) => tool_loop.resume(serde_json::from_slice(&checkpoint).unwrap()),
        Err(_) => tool_loop.run(Request::new().user("Pay what is due.")),
    };
    let outcome = loop {
        while let Some(event) = run.next().await {
            killer.step();
            if let RunEvent::HandlerStarted(_) = event {
                assert!(killer.path("checkpoint.json").exists(), "a turn has been saved");
            }
        }
        let waiting = run.waiting();
        if waiting.is_empty() {
            break run.outcome();
        }
        for call in waiting {
            assert_eq!(call.waiting_for, WaitingFor::Decision);
            assert_eq!(call.name, "pay", "an idempotent call runs again unasked");
            killer.step();
            match killer.books().contains(&format!("{}\n", call.id)) {
                true => run.answer(call.turn, call.call, "paid").unwrap(),
                false => run.approve(call.turn, call.call).unwrap(),
            }
        }
    };
    assert!(matches!(outcome.status, RunStatus::Finished), "{outcome:?}");
    assert!(outcome.unsaved.is_none());
    let written =
        json!({ "conversation": outcome.conversation, "text": outcome.text(), "calls": outcome.calls });
    fs::write(killer.path("outcome.json"), written.to_string()).unwrap();
}

/// Counts steps, and kills the process at one of them.
#[derive(Clone)]
struct Killer {
    step: Option<u32>,
    steps: Arc<AtomicU32>,
    folder: PathBuf,
}

impl Killer {
    fn step(&self) {
        if Some(self.steps.fetch_add(1, Ordering::SeqCst) + 1) == self.step {
            fs::write(self.path("killed"), "").unwrap();
            std::process::abort();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What has been done, a call's id a line.
    fn books(&self) -> String {
        fs::read_to_string(self.path("books")).unwrap_or_default()
    }

    /// A tool that enters its call's id into the books, and can be killed before and after.
    fn tool(&self, name: &str, answer: &'static str) -> Tool {
        let killer = self.clone();
        Tool::new(name).handler_with_context(move |_: Value, context: CallContext| {
            let killer = killer.clone();
            async move {
                killer.step();
                let books = killer.path("books");
                let mut books = fs::OpenOptions::new().create(true).append(true).open(books)?;
                writeln!(books, "{}", context.id())?;
                killer.step();
                tokio::task::yield_now().await;
                killer.step();
                Ok(answer)
            }
        })
    }
}

/// A model whose answer follows from the conversation alone, so that any process has the same one.
struct Accountant(Killer);

impl Model for Accountant {
    fn stream(&self, request: &Request) -> TurnStream {
        self.0.step();
        let messages = request.conversation.messages();
        let turns = messages.iter().filter(|message| message.calls().next().is_some()).count();
        let reply = match turns {
            0 => Reply::new().text(["First."]).call_raw("p1", "pay", "{}").call_raw("r1", "read", "{}"),
            1 => Reply::new().text(["Then."]).call_raw("p2", "pay", "{}"),
            _ => Reply::new().text(["All is ", "paid."]),
        };
        TurnStream::from_events(reply.events())
    }

    fn name(&self) -> &str {
        "accountant"
    }
}

/// Where the checkpoints go. The process can be killed before one is written, and after.
struct Disk(Killer);

impl CheckpointSink for Disk {
    async fn save(&self, checkpoint: Checkpoint) -> Result<(), Box<dyn StdError + Send + Sync>> {
        self.0.step();
        let written = self.0.path("checkpoint.new");
        fs::write(&written, serde_json::to_vec(&checkpoint)?)?;
        self.0.step();
        fs::rename(written, self.0.path("checkpoint.json"))?;
        self.0.step();
        Ok(())
    }
}

/// A folder in which one run happens, in one process or in two.
struct Scene(PathBuf);

impl Scene {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loop-kill").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Runs a process, which is killed at that step. Says whether it came to its end.
    fn play(&self, step: Option<u32>) -> bool {
        let mut process = Command::new(env::current_exe().unwrap());
        process
            .args(["--exact", "a_process_that_is_killed", "--ignored", "--nocapture"])
            .env(FOLDER, &self.0);
        process.env_remove(STEP);
        if let Some(step) = step {
            process.env(STEP, step.to_string());
        }
        let output = process.output().unwrap();
        let was_killed = fs::remove_file(self.0.join("killed")).is_ok();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() != was_killed,
            "it ends well or is killed, and fails in no other way: {said}"
        );
        !was_killed
    }

    fn outcome(&self) -> Value {
        serde_json::from_slice(&fs::read(self.0.join("outcome.json")).unwrap()).unwrap()
    }

    /// How often each call has had its effect.
    fn effects(&self) -> BTreeMap<String, usize> {
        let mut effects = BTreeMap::new();
        for id in fs::read_to_string(self.0.join("books")).unwrap_or_default().lines() {
            *effects.entry(id.to_owned()).or_default() += 1;
        }
        effects
    }

    /// The calls whose results the checkpoint on the disk has.
    fn recorded(&self) -> Vec<String> {
        let Some(checkpoint) = self.checkpoint() else { return Vec::new() };
        let typed: Checkpoint = serde_json::from_value(checkpoint.clone()).unwrap();
        let sent = typed.conversation().messages().iter().flat_map(results);
        // Results that have not been sent yet are in the part of it that is private.
        let calls = checkpoint["turns"]["calls"].as_array().unwrap().iter();
        let answered = calls.filter(|call| call["state"].get("answered").is_some());
        sent.chain(answered.map(|call| call["id"].as_str().unwrap().to_owned())).collect()
    }

    /// How many calls had started and have no result, as the checkpoint on the disk says.
    fn interrupted(&self) -> usize {
        let checkpoint = self.checkpoint().map(|checkpoint| serde_json::from_value(checkpoint).unwrap());
        checkpoint.map_or(0, |checkpoint: Checkpoint| checkpoint.waiting().len())
    }

    fn checkpoint(&self) -> Option<Value> {
        Some(serde_json::from_slice(&fs::read(self.0.join("checkpoint.json")).ok()?).unwrap())
    }
}

fn results(message: &Message) -> Vec<String> {
    let results = message.parts.iter().filter_map(|part| match part {
        Part::Result(result) => Some(result.call_id.to_string()),
        _ => None,
    });
    results.collect()
}

fn counts<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.into_iter().map(|(id, count)| (id.to_owned(), count)).collect()
}
