//! Many turns at once against a server in a process of its own, and beside them consumers that do not read: what a
//! turn needs, that every one is right, and that nothing is left.

use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use tokio::{runtime::Handle, task::JoinSet};
use turnstream::{Event, TurnStream};
use turnstream_network::{
    Clients, Fault, Figures, Fixture, Fixtures, NobodyListens, Oracle, Plan, ServerProcess, begin,
    descriptors, difference, make_room_for, no_task_is_left, run, run_until, serve_until_stdin_ends,
};

/// How many wrong turns are shown.
const SHOWN: usize = 10;

#[derive(Parser)]
struct Arguments {
    /// `serve` is what the program says to itself.
    mode: Option<String>,
    /// How many turns at once.
    #[arg(long, default_value_t = 1_000)]
    turns: usize,
    /// How many consumers do not read, meanwhile.
    #[arg(long, default_value_t = 32)]
    slow: usize,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    make_room_for(arguments.turns + arguments.slow)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments.mode.as_deref() {
        None => runtime.block_on(load(&arguments)),
        Some("serve") => runtime.block_on(serve_until_stdin_ends()),
        Some(other) => bail!("{other}: no such mode"),
    }
}

async fn load(arguments: &Arguments) -> anyhow::Result<()> {
    let fixtures = Arc::new(Fixtures::load()?);
    let oracle = Oracle::new(fixtures.clone());
    let mut server = ServerProcess::start().await?;
    let nobody = NobodyListens::new()?;
    let descriptors_before = descriptors()?;
    let server_before = server.ask("figures").await?.process;

    let clients = Arc::new(Clients::new(&server.url(), &nobody, |client| client));
    // The others are over before all are there.
    let numbers = fixtures.numbers(Fixture::is_open_at_half);
    for number in &numbers {
        // Once each, so that what is made on first use is not counted as a turn's.
        let turn = run(&clients, &fixtures, &Plan::whole(0, *number)).await;
        let want = oracle.want(&Plan::whole(0, *number)).context("no such fixture")?;
        ensure!(
            turn.is_some_and(|turn| difference(&want.items, &turn.items).is_none()),
            "the first turns are wrong"
        );
    }

    let long = Plan::whole(0, fixtures.long());
    let mut unread = Vec::new();
    for _ in 0..arguments.slow {
        unread.push(unread_turn(&clients, &fixtures, &long).await?);
    }
    let blocked = server.ask(&format!("blocked {}", arguments.slow)).await?;

    let before = Figures::now()?;
    let mut turns = JoinSet::new();
    for (turn, number) in (0..arguments.turns).zip(numbers.iter().cycle()) {
        let plan = Plan { fault: Fault::Held, failing: u32::MAX, ..Plan::whole(turn as u64, *number) };
        let (clients, fixtures, oracle) = (clients.clone(), fixtures.clone(), oracle.clone());
        turns.spawn(async move {
            let want = oracle.want(&plan).context("no such fixture")?;
            let turn = run(&clients, &fixtures, &plan).await.context("something came after the end")?;
            match difference(&want.items, &turn.items) {
                Some(difference) => bail!("{difference}\n  {}", plan.message()),
                None => Ok(()),
            }
        });
    }
    let held = format!("held {}", arguments.turns);
    let at_once = tokio::select! {
        counts = server.ask(&held) => counts?,
        Some(ended) = turns.join_next() => {
            ended??;
            bail!("a turn was over before all were there");
        }
    };
    let open = Figures::now()?;
    let tasks = Handle::current().metrics().num_alive_tasks();
    server.ask("go 1").await?;
    let mut wrong = Vec::new();
    while let Some(ended) = turns.join_next().await {
        if let Err(error) = ended? {
            wrong.push(error);
        }
    }

    let still_blocked = server.ask("figures").await?;
    let want = oracle.want(&long).context("no such fixture")?;
    let mut slow_right = 0;
    for (mut items, rest) in unread {
        items.extend(run_until(rest, usize::MAX).await.context("something came after the end")?.items);
        slow_right += usize::from(difference(&want.items, &items).is_none());
    }
    drop(clients);
    no_task_is_left().await?;
    let after = Figures::now()?;
    let server_after = server.ask("open 0").await?;
    server.stop().await?;

    let each = (open.resident_bytes.saturating_sub(before.resident_bytes)) / arguments.turns.max(1) as u64;
    let body = fixtures.get(fixtures.long()).context("the long one")?.body.len();
    println!(
        "turns at once: {} ({} held by the server at the same time), {} right",
        arguments.turns,
        at_once.held,
        arguments.turns - wrong.len()
    );
    println!(
        "memory of an open turn: {:.1} KiB (its task among it; resident {} MiB before, {} MiB with all open)",
        each as f64 / 1024.0,
        mebibytes(before.resident_bytes),
        mebibytes(open.resident_bytes)
    );
    println!(
        "peak memory: {} MiB; of the server: {} MiB",
        mebibytes(after.peak_bytes),
        mebibytes(server_after.process.peak_bytes)
    );
    println!(
        "descriptors before, with all open, after: {descriptors_before}, {}, {}; of the server: {}, {}, {}",
        open.descriptors,
        after.descriptors,
        server_before.descriptors,
        at_once.process.descriptors,
        server_after.process.descriptors
    );
    println!("tasks with all open, after: {tasks}, 0");
    println!(
        "consumers that do not read: {}, {slow_right} right in the end, replies of {} MiB each",
        arguments.slow,
        mebibytes(body as u64)
    );
    println!(
        "bytes that the server could not send them: {} MiB before the other turns, {} MiB after them, {} at the end",
        mebibytes(blocked.unsent_bytes as u64),
        mebibytes(still_blocked.unsent_bytes as u64),
        server_after.unsent_bytes
    );
    for wrong in wrong.iter().take(SHOWN) {
        println!("wrong: {wrong:#}");
    }

    ensure!(wrong.is_empty(), "{} turns are wrong", wrong.len());
    ensure!(slow_right == arguments.slow, "{} slow turns are wrong", arguments.slow - slow_right);
    // Half of each is far more than sockets and libraries hold, and far less than what nobody asked for.
    ensure!(still_blocked.blocked >= arguments.slow, "the server does not wait for those who do not read");
    ensure!(still_blocked.unsent_bytes >= arguments.slow * body / 2, "the server sent what nobody read");
    ensure!(server_after.unsent_bytes == 0, "the server did not send all");
    ensure!(after.descriptors == descriptors_before, "descriptors are left");
    ensure!(
        server_after.process.descriptors == server_before.descriptors,
        "descriptors of the server are left"
    );
    println!("{} passed, 0 failed", arguments.turns + arguments.slow);
    Ok(())
}

/// A turn of which the first words have been read, and no more.
async fn unread_turn(
    clients: &Clients,
    fixtures: &Fixtures,
    plan: &Plan,
) -> anyhow::Result<(Vec<turnstream_network::Item>, TurnStream)> {
    let mut turn = begin(clients, fixtures, plan).context("no such fixture")?;
    let mut items = Vec::new();
    while !matches!(items.last(), Some(Ok(Event::TextDelta(_)))) {
        items.push(turn.next().await.context("the turn is over too early")?);
    }
    Ok((items, turn))
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}
