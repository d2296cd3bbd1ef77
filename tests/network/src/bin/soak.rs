//! Many turns with random faults, from a fixed seed: each must end in the one way that is right for it, the memory
//! must stay flat, and nothing may be left.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use futures_util::StreamExt;
use turnstream::Event;
use turnstream_network::{
    Clients, Fault, Figures, Fixtures, NobodyListens, Oracle, Plan, ServerProcess, Turn, begin, descriptors,
    difference, make_room_for, no_task_is_left, run, run_until, serve_until_stdin_ends,
};

/// After each tenth of the turns everything is let come to rest, and the memory is measured.
const TENTHS: u64 = 10;
/// How much more memory may be resident at the end than after the first tenth: what an allocator may keep for itself.
const FLAT_BYTES: u64 = 8 << 20;
/// How many wrong turns are shown.
const SHOWN: usize = 10;

#[derive(Parser)]
struct Arguments {
    /// `serve` is what the program says to itself.
    mode: Option<String>,
    /// How many turns, in all.
    #[arg(long, default_value_t = 2_000)]
    turns: u64,
    /// How many at once.
    #[arg(long, default_value_t = 256)]
    at_once: usize,
    /// The same seed gives the same turns.
    #[arg(long, default_value_t = 5)]
    seed: u64,
}

/// What came of all turns with one fault.
#[derive(Default)]
struct Tally {
    turns: u64,
    finished: u64,
    failed: BTreeMap<&'static str, u64>,
    dropped: u64,
    retried: u64,
    wrong: u64,
}

/// How one turn ended.
enum End {
    Finished,
    Failed(&'static str),
    Dropped,
}

struct Soak {
    clients: Clients,
    fixtures: Arc<Fixtures>,
    oracle: Oracle,
    seed: u64,
    at_once: usize,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    make_room_for(arguments.at_once * 2)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments.mode.as_deref() {
        None => runtime.block_on(soak(&arguments)),
        Some("serve") => runtime.block_on(serve_until_stdin_ends()),
        Some(other) => bail!("{other}: no such mode"),
    }
}

async fn soak(arguments: &Arguments) -> anyhow::Result<()> {
    let fixtures = Arc::new(Fixtures::load()?);
    let mut server = ServerProcess::start().await?;
    let nobody = NobodyListens::new()?;
    let server_before = server.ask("figures").await?.process;
    let descriptors_before = descriptors()?;

    let soak = Soak {
        clients: Clients::new(&server.url(), &nobody, |client| client),
        oracle: Oracle::new(fixtures.clone()),
        fixtures,
        seed: arguments.seed,
        at_once: arguments.at_once,
    };
    let mut tallies = BTreeMap::new();
    let mut resident = Vec::new();
    let mut wrong = Vec::new();
    for tenth in 0..TENTHS {
        let bounds = [tenth, tenth + 1].map(|tenth| arguments.turns * tenth / TENTHS);
        soak.turns(bounds[0]..bounds[1], &mut tallies, &mut wrong).await?;
        resident.push(Figures::now()?.resident_bytes);
    }
    drop(soak);
    no_task_is_left().await?;
    let after = Figures::now()?;
    let server_after = server.ask("open 0").await?;
    server.stop().await?;

    print_tallies(&tallies);
    println!();
    println!("turns: {} (seed {}, {} at once)", arguments.turns, arguments.seed, arguments.at_once);
    println!("requests: {} over {} connections", server_after.requests, server_after.connections);
    println!(
        "resident memory after each tenth, MiB: {}",
        resident.iter().map(|bytes| mebibytes(*bytes)).collect::<Vec<_>>().join(" ")
    );
    println!(
        "peak memory: {} MiB; of the server: {} MiB",
        mebibytes(after.peak_bytes),
        mebibytes(server_after.process.peak_bytes)
    );
    println!(
        "descriptors before and after: {descriptors_before} and {}; of the server: {} and {}",
        after.descriptors, server_before.descriptors, server_after.process.descriptors
    );
    println!("tasks left: 0");
    for wrong in wrong.iter().take(SHOWN) {
        println!("wrong: {wrong}");
    }

    ensure!(wrong.is_empty(), "{} turns did not end in the way that is right for them", wrong.len());
    ensure!(after.descriptors == descriptors_before, "descriptors are left");
    ensure!(
        server_after.process.descriptors == server_before.descriptors,
        "descriptors of the server are left"
    );
    let (first, last) = (resident.first().context("measured")?, resident.last().context("measured")?);
    ensure!(*last <= first + FLAT_BYTES, "the memory grew by {} MiB", mebibytes(last - first));
    println!("{} passed, 0 failed", arguments.turns);
    Ok(())
}

impl Soak {
    async fn turns(
        &self,
        numbers: std::ops::Range<u64>,
        tallies: &mut BTreeMap<Fault, Tally>,
        wrong: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        let turns = futures_util::stream::iter(numbers).map(|number| async move {
            let plan = Plan::random(self.seed, number, &self.fixtures);
            (self.turn(&plan).await, plan)
        });
        let mut turns = std::pin::pin!(turns.buffer_unordered(self.at_once));
        while let Some((ended, plan)) = turns.next().await {
            let tally = tallies.entry(plan.fault).or_default();
            tally.turns += 1;
            match ended {
                Ok((end, attempts)) => {
                    tally.retried += u64::from(attempts > 1);
                    match end {
                        End::Finished => tally.finished += 1,
                        End::Failed(kind) => *tally.failed.entry(kind).or_default() += 1,
                        End::Dropped => tally.dropped += 1,
                    }
                }
                Err(error) => {
                    tally.wrong += 1;
                    let name = self.fixtures.get(plan.fixture).map_or("", |fixture| &fixture.name);
                    wrong.push(format!("{error:#}\n  {} {name}", plan.message()));
                }
            }
        }
        Ok(())
    }

    /// Runs one turn and holds what came of it against what had to come of it.
    async fn turn(&self, plan: &Plan) -> anyhow::Result<(End, u32)> {
        let want = self.oracle.want(plan).context("no such fixture")?;
        if plan.fault == Fault::Dropped {
            return self.dropped_turn(plan, &want.items).await;
        }
        let turn = run(&self.clients, &self.fixtures, plan).await.context("something came after the end")?;
        let Turn { items, attempts } = turn;
        if let Some(difference) = difference(&want.items, &items) {
            bail!("{difference}");
        }
        ensure!(attempts == want.attempts, "{attempts} attempts instead of {}", want.attempts);
        let end = match items.last() {
            Some(Ok(Event::TurnFinished(_))) => End::Finished,
            Some(Err(error)) => End::Failed(error.kind().as_str()),
            other => bail!("the end is {other:?}"),
        };
        Ok((end, attempts))
    }

    /// The consumer goes away after a few items, or while the first is still waited for.
    async fn dropped_turn(
        &self,
        plan: &Plan,
        want: &[turnstream_network::Item],
    ) -> anyhow::Result<(End, u32)> {
        let mut turn = begin(&self.clients, &self.fixtures, plan).context("no such fixture")?;
        if plan.at == 0 {
            // One look sends the request.
            tokio::select! {
                biased;
                _ = turn.next() => {}
                () = std::future::ready(()) => {}
            }
            return Ok((End::Dropped, 1));
        }
        let turn = run_until(turn, plan.at).await.context("something came after the end")?;
        let want = want.get(..plan.at).unwrap_or(want);
        match difference(want, &turn.items) {
            Some(difference) => bail!("{difference}"),
            None => Ok((End::Dropped, turn.attempts)),
        }
    }
}

fn print_tallies(tallies: &BTreeMap<Fault, Tally>) {
    println!("| fault | turns | finished | failed | dropped | with a retry | wrong |");
    println!("|---|---|---|---|---|---|---|");
    for (fault, tally) in tallies {
        let failed: Vec<String> =
            tally.failed.iter().map(|(kind, turns)| format!("{kind} {turns}")).collect();
        let Tally { turns, finished, dropped, retried, wrong, .. } = tally;
        println!(
            "| {} | {turns} | {finished} | {} | {dropped} | {retried} | {wrong} |",
            fault.name(),
            failed.join(", ")
        );
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}
