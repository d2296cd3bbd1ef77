//! One program's way through a measurement: it starts the server, asks it with one client, and says what that
//! cost. Programs differ in their clients only, so that all of them are measured alike.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    future::poll_fn,
    pin::Pin,
    process::ExitCode,
    rc::Rc,
    task::Poll,
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use tokio::{task::LocalSet, time::sleep};

use crate::{
    process::{cpu_time, peak_resident_kib, resident_kib},
    reply::ReplySpec,
    server::{AnyError, SERVE, Server, serve},
    wires::BenchWire,
};

/// One turn, or one run, from its request to its end.
pub type Asking = Pin<Box<dyn Future<Output = Result<(), AnyError>>>>;

/// Asks for one turn, and tells [`Seen`] of every event.
pub type Ask = Rc<dyn Fn(Rc<Seen>) -> Asking>;

/// What came out of all turns so far.
#[derive(Debug, Default)]
pub struct Seen {
    events: Cell<usize>,
    bytes: Cell<usize>,
    /// When the turn began whose first event has not come.
    begun: Cell<Option<Instant>>,
    /// How long the first event of each turn took.
    first: RefCell<Vec<Duration>>,
}

impl Seen {
    /// One event with so many bytes of text or of arguments.
    pub fn event(&self, bytes: usize) {
        self.events.set(self.events.get() + 1);
        self.bytes.set(self.bytes.get() + bytes);
        if let Some(begun) = self.begun.take() {
            self.first.borrow_mut().push(begun.elapsed());
        }
    }

    fn turn_begins(&self) {
        self.begun.set(Some(Instant::now()));
    }

    /// The median of what the first events took.
    fn first(&self) -> Duration {
        let mut first = self.first.take();
        first.sort_unstable();
        first.get(first.len() / 2).copied().unwrap_or_default()
    }
}

/// Does what the command line says. `client` makes the client of a name.
pub fn main(names: &str, client: impl FnOnce(&str, BenchWire, &str) -> Result<Ask, AnyError>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), client) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}\n\nusage: PROGRAM CLIENT {USAGE}\n  CLIENT  {names}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    arguments: &[&str],
    client: impl FnOnce(&str, BenchWire, &str) -> Result<Ask, AnyError>,
) -> Result<(), AnyError> {
    let (name, reply, mode) = match *arguments {
        [SERVE, wire, shape, size, chunk] => return serve(&ReplySpec::parse(wire, shape, size, chunk)?),
        [name, wire, shape, size, chunk, mode, number] => {
            (name, ReplySpec::parse(wire, shape, size, chunk)?, Mode::parse(mode, number)?)
        }
        _ => return Err("seven words are needed".into()),
    };
    let server = Server::start(&reply)?;
    let ask = client(name, reply.wire, server.base_url())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let used = LocalSet::new().block_on(&runtime, measure(mode, ask))?;
    drop(runtime);
    let served = server.stop()?;
    println!(
        "events {} bytes {} requests {} connections {} cpu_ns {} first_ns {} memory_bytes {} peak_kib {}",
        used.events,
        used.bytes,
        served.requests,
        served.connections,
        used.cpu_ns,
        used.first.as_nanos(),
        used.memory_bytes,
        peak_resident_kib().unwrap_or_default(),
    );
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum Mode {
    /// So many turns, one after the other. The first one is not measured, unless it is the only one.
    Sequence(usize),
    /// So many turns side by side, after one that is not measured.
    AtOnce(usize),
    /// A turn that is begun and then not polled for so many seconds.
    Pause(u64),
    /// So many turns that stay open.
    Open(usize),
}

impl Mode {
    fn parse(mode: &str, number: &str) -> Result<Self, String> {
        let number: usize = number.parse().map_err(|_| format!("`{number}` is no number"))?;
        match mode {
            "sequence" => Ok(Self::Sequence(number)),
            "at-once" => Ok(Self::AtOnce(number)),
            "pause" => Ok(Self::Pause(number as u64)),
            "open" => Ok(Self::Open(number)),
            mode => Err(format!("there is no mode `{mode}`")),
        }
    }
}

/// What the measured part took.
#[derive(Debug)]
struct Used {
    events: usize,
    bytes: usize,
    /// A turn's.
    cpu_ns: u128,
    /// From a turn's request to its first event, where turns come one after the other: the median.
    first: Duration,
    /// What came to be held: a stream's, where streams stay open.
    memory_bytes: usize,
}

async fn measure(mode: Mode, ask: Ask) -> Result<Used, AnyError> {
    let warm = Rc::new(Seen::default());
    if !matches!(mode, Mode::Sequence(1) | Mode::Pause(_) | Mode::Open(_)) {
        ask(warm).await?;
    }
    let seen = Rc::new(Seen::default());
    let (memory, cpu) = (resident_kib().unwrap_or_default(), cpu_time());
    let mut grown_from = memory;
    let turns = match mode {
        Mode::Sequence(turns) => {
            for _ in 0..turns {
                seen.turn_begins();
                ask(seen.clone()).await?;
            }
            turns
        }
        Mode::AtOnce(turns) => {
            try_join_all((0..turns).map(|_| ask(seen.clone()))).await?;
            turns
        }
        Mode::Pause(seconds) => {
            let mut turn = ask(seen.clone());
            begun(&mut turn, &seen).await?;
            grown_from = resident_kib().unwrap_or_default();
            sleep(Duration::from_secs(seconds)).await;
            1
        }
        Mode::Open(turns) => {
            for _ in 0..turns {
                tokio::task::spawn_local(ask(seen.clone()));
                // One after the other, so that the server's queue of connections does not overflow.
                tokio::task::yield_now().await;
            }
            trickled(turns, &seen).await?;
            turns
        }
    };
    let cpu = cpu_time().saturating_sub(cpu);
    let grown = resident_kib().unwrap_or_default().saturating_sub(grown_from) << 10;
    Ok(Used {
        events: seen.events.get(),
        bytes: seen.bytes.get(),
        cpu_ns: cpu.as_nanos() / turns.max(1) as u128,
        first: seen.first(),
        memory_bytes: if let Mode::Open(turns) = mode { grown / turns.max(1) } else { grown },
    })
}

/// Polls a turn until its first event, and not again.
async fn begun(turn: &mut Asking, seen: &Seen) -> Result<(), AnyError> {
    poll_fn(|context| match turn.as_mut().poll(context) {
        Poll::Ready(Ok(())) => Poll::Ready(Err("the turn ended".into())),
        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        Poll::Pending if seen.events.get() > 0 => Poll::Ready(Ok(())),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Waits until so many open streams have had several events each.
async fn trickled(turns: usize, seen: &Seen) -> Result<(), String> {
    let start = Instant::now();
    while seen.events.get() < EVENTS_OF_AN_OPEN_STREAM * turns {
        if start.elapsed() > OPEN_AT_MOST {
            return Err(format!("{turns} streams had only {} events", seen.events.get()));
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

const EVENTS_OF_AN_OPEN_STREAM: usize = 6;
const OPEN_AT_MOST: Duration = Duration::from_secs(180);

const USAGE: &str = "\
WIRE SHAPE SIZE CHUNK MODE NUMBER
  WIRE    anthropic-messages, openai-chat, openai-responses, gemini, cohere-v2, ollama, bedrock-converse
  SHAPE   text, tools, turn, huge-call: as decode_work has them;
          run: two recorded turns, the second for a request with a result;
          endless: a text without an end; trickle: one with pauses
  CHUNK   bytes a chunk, or `frame` for one frame a chunk
  MODE    sequence, at-once: NUMBER turns
          pause: one turn that is not polled for NUMBER seconds
          open: NUMBER turns that stay open";
