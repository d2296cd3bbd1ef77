//! The same turns of every wire behind nginx and behind a proxy with faults: the same events where nothing is cut, and
//! the right error where something is.

use std::{ops::RangeInclusive, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Parser;
use futures_util::StreamExt;
use serde_json::Value;
use turnstream::{Client, ErrorKind, Event, Request, RunEvent, Tool, ToolLoop, openai_chat::OpenAiChat};
use turnstream_network::{
    Authority, Clients, Cut, Fault, FaultProxy, Fixture, Fixtures, Item, Nginx, NobodyListens, Oracle,
    Origin, Plan, RESULT, Site, Turn, Way, begin, difference, run, run_until,
};
use turnstream_tests::TestedWire;

/// How many turns at once on one way.
const AT_ONCE: usize = 48;
/// How long nothing may come where nothing will.
const SHORT: Duration = Duration::from_millis(100);
/// In the middle of every head, be it TLS's or HTTP's.
const IN_HEAD: usize = 40;
/// In the middle of the long body, however it is carried.
const IN_LONG_BODY: usize = 1 << 20;

#[derive(Parser)]
struct Arguments {
    /// The nginx to be tested with; without one its part is left out, and said so.
    #[arg(long)]
    nginx: Option<PathBuf>,
}

/// What must come of each turn on a way.
#[derive(Clone, Copy)]
enum Expected {
    /// What the plan alone says.
    AsPlanned,
    /// The turn is cut in the middle of its body, and all before it comes.
    Cut,
    /// The same, but for what a proxy had not read yet when it was reset itself.
    Reset,
    /// The turn goes silent in the middle of its body. How much of it comes before is a matter of time, and nothing
    /// where a proxy collects what it never gets whole.
    Silence,
    /// The turn fails before its head, with this kind and status.
    NoHead(ErrorKind, Option<u16>),
}

struct Proxies {
    fixtures: Arc<Fixtures>,
    oracle: Oracle,
    origin: Origin,
    nobody: NobodyListens,
    authority: Authority,
    turns: usize,
    wrong: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let fixtures = Arc::new(Fixtures::load()?);
    let mut proxies = Proxies {
        oracle: Oracle::new(fixtures.clone()),
        origin: Origin::start(fixtures.clone()).await?,
        nobody: NobodyListens::new()?,
        authority: Authority::new()?,
        fixtures,
        turns: 0,
        wrong: 0,
    };
    println!("| way | turns | wrong |\n|---|---|---|");
    proxies.behind_faults("", proxies.origin.port(), "http").await?;
    match &arguments.nginx {
        Some(program) => proxies.behind_nginx(program).await?,
        None => println!("skipped: nginx (not installed)"),
    }
    ensure!(proxies.wrong == 0, "{} of {} turns are wrong", proxies.wrong, proxies.turns);
    println!("{} passed, 0 failed", proxies.turns);
    Ok(())
}

impl Proxies {
    async fn behind_nginx(&mut self, program: &std::path::Path) -> anyhow::Result<()> {
        let nginx = Nginx::start(program, &self.authority, self.origin.port(), self.nobody.port()).await?;
        for site in nginx.sites.clone() {
            let url = format!("https://127.0.0.1:{}", site.port);
            let clients = self.clients(&url, |client| client);
            if site.leads_nowhere {
                // The proxy's own page, which is no wire's.
                let refused = Expected::NoHead(ErrorKind::Server, Some(502));
                self.way(&site.name(), &clients, Fault::Whole, refused).await;
                continue;
            }
            self.speaks(&clients, site).await?;
            self.conversation(&site.name(), &clients).await?;
            for fault in [
                Fault::Whole,
                Fault::SlowChunks,
                Fault::ErrorInStream,
                Fault::RateLimitedSoon,
                Fault::RateLimitedLong,
                Fault::Overloaded,
                Fault::Html,
                Fault::Gzip,
                Fault::GzipUndeclared,
                Fault::MalformedFrame,
                Fault::SilentHead,
            ] {
                let way = format!("{}: {}", site.name(), fault.name());
                self.way(&way, &clients, fault, Expected::AsPlanned).await;
            }
            for (fault, expected) in
                [(Fault::EarlyClose, Expected::Cut), (Fault::ResetInBody, Expected::Reset)]
            {
                let way = format!("{}: {}", site.name(), fault.name());
                self.way(&way, &clients, fault, expected).await;
            }
            let way = format!("{}: {}", site.name(), Fault::Stall.name());
            if site.buffers {
                let hasty = self.clients(&url, |client| client.first_byte_timeout(SHORT));
                self.way(&way, &hasty, Fault::Stall, Expected::Silence).await;
            } else {
                self.way(&way, &clients, Fault::Stall, Expected::Silence).await;
            }
            let way = format!("{}: {}", site.name(), Fault::ResetInHead.name());
            let gone = Expected::NoHead(ErrorKind::Server, Some(502));
            self.way(&way, &clients, Fault::ResetInHead, gone).await;
            self.compression_is_an_error(&url, site).await?;
            self.a_dropped_turn_reaches_the_server(&clients, site).await?;
            if !site.buffers {
                self.streams(&clients, site).await?;
                self.behind_faults(&format!("{}, and ", site.name()), site.port, "https").await?;
            }
        }
        Ok(())
    }

    /// A call, its handler, and the answer, on every wire: the events of both turns.
    async fn conversation(&mut self, way: &str, clients: &Clients) -> anyhow::Result<()> {
        let mut ended = Vec::new();
        for wire in TestedWire::ALL {
            let number = |name: &str| {
                let numbers = self.fixtures.numbers(|fixture| fixture.wire == wire && fixture.name == name);
                numbers.first().copied().context("every wire has this fixture")
            };
            let (call, answer) = (number("order-1-call")?, number("order-2-answer")?);
            let plan = Plan { answer: Some(answer), ..Plan::whole(0, call) };
            let client = clients.get(wire, plan.fault).context("every wire has a client")?;
            let tool = Tool::new("lookup_order").handler(|_: Value| async { Ok(RESULT) });
            let mut run = ToolLoop::new(client.clone()).tool(tool).run(Request::new().user(plan.message()));
            let mut items: Vec<Item> = Vec::new();
            while let Some(event) = run.next().await {
                if let RunEvent::Turn(turn) = event {
                    items.push(Ok(turn.event));
                }
            }
            let want = [call, answer].map(|number| self.oracle.want(&Plan::whole(0, number)));
            let want: Vec<Item> = want.into_iter().flatten().flat_map(|want| want.items).collect();
            ended.push(match difference(&want, &items) {
                Some(difference) => Err(anyhow!("{}: {difference}", wire.name())),
                None => Ok(()),
            });
        }
        self.report(&format!("{way}: a conversation with a call"), ended);
        Ok(())
    }

    /// A proxy with faults in front of a server or of nginx.
    async fn behind_faults(&mut self, before: &str, server: u16, scheme: &str) -> anyhow::Result<()> {
        let url = |proxy: &FaultProxy| format!("{scheme}://127.0.0.1:{}", proxy.port());
        for (name, way) in [
            ("latency of 10 ms", Way::Latency(Duration::from_millis(10))),
            ("slices of 1 byte", Way::Slices(1)),
            ("slices of 7 bytes", Way::Slices(7)),
            ("200 KiB a second", Way::Bandwidth(2048)),
        ] {
            let proxy = FaultProxy::start(server, way).await?;
            let clients = self.clients(&url(&proxy), |client| client);
            let way = format!("{before}{name}");
            self.conversation(&way, &clients).await?;
            self.way(&format!("{way}: whole"), &clients, Fault::Whole, Expected::AsPlanned).await;
        }
        for (name, cut, kind) in [
            ("reset", Cut::Reset, ErrorKind::Connect),
            ("close", Cut::Close, ErrorKind::Connect),
            ("blackhole", Cut::Blackhole, ErrorKind::FirstByteTimeout),
        ] {
            let proxy = FaultProxy::start(server, Way::Cut(cut, IN_HEAD)).await?;
            let clients = self.clients(&url(&proxy), |client| match cut {
                Cut::Blackhole => client.first_byte_timeout(SHORT),
                _ => client,
            });
            let way = format!("{before}{name} in the head");
            self.way(&way, &clients, Fault::Whole, Expected::NoHead(kind, None)).await;
        }
        for (name, cut, kind) in [
            ("reset", Cut::Reset, ErrorKind::Truncated),
            ("close", Cut::Close, ErrorKind::Truncated),
            ("blackhole", Cut::Blackhole, ErrorKind::IdleTimeout),
        ] {
            let way = format!("{before}{name} in the body");
            match scheme {
                "https" => self.cut_in_long_body(&way, server, cut, kind).await?,
                _ => self.cut_in_body(&way, server, cut).await,
            }
        }
        Ok(())
    }

    /// Each fixture has its own middle, and so its own proxy.
    async fn cut_in_body(&mut self, way: &str, server: u16, cut: Cut) {
        let numbers = self.fixtures.numbers(|_| true);
        let turns = futures_util::stream::iter(&numbers).map(async |number| {
            let fixture = self.fixtures.get(*number).context("no such fixture")?;
            let at = fixture.head_bytes() + fixture.body.len() / 2;
            let proxy = FaultProxy::start(server, Way::Cut(cut, at)).await?;
            let url = format!("http://127.0.0.1:{}", proxy.port());
            let clients = self.clients(&url, |client| match cut {
                Cut::Blackhole => client.idle_timeout(SHORT).end_grace(SHORT),
                _ => client,
            });
            let plan = Plan::whole(0, *number);
            let expected = match cut {
                Cut::Blackhole => Expected::Silence,
                Cut::Reset | Cut::Close => Expected::Cut,
            };
            let turn = self.turn(&clients, &plan, expected).await;
            turn.with_context(|| format!("{} {}", plan.message(), fixture.name))
        });
        let ended: Vec<anyhow::Result<()>> = turns.buffer_unordered(AT_ONCE).collect().await;
        self.report(way, ended);
    }

    /// Where a byte of the body is on its way, TLS and HTTP/2 alone know: it is one in the middle of a long one.
    async fn cut_in_long_body(
        &mut self,
        way: &str,
        server: u16,
        cut: Cut,
        kind: ErrorKind,
    ) -> anyhow::Result<()> {
        let proxy = FaultProxy::start(server, Way::Cut(cut, IN_LONG_BODY)).await?;
        let clients = self.clients(&format!("https://127.0.0.1:{}", proxy.port()), |client| match cut {
            Cut::Blackhole => client.idle_timeout(SHORT),
            _ => client,
        });
        let plan = Plan::whole(0, self.fixtures.long());
        let turn = run(&clients, &self.fixtures, &plan).await.context("something came after the end")?;
        let want = &self.fixtures.get(plan.fixture).context("no such fixture")?.items;
        let (end, before) = turn.items.split_last().context("nothing came")?;
        let is_cut = matches!(end, Err(error) if error.kind() == kind && error.partial());
        let is_right = is_cut
            && !before.is_empty()
            && difference(want.get(..before.len()).unwrap_or_default(), before).is_none();
        let ended =
            if is_right { Ok(()) } else { Err(anyhow!("it ends with {end:?} after {} items", before.len())) };
        self.report(way, vec![ended]);
        Ok(())
    }

    /// Every fixture on one way, with one fault.
    async fn way(&mut self, way: &str, clients: &Clients, fault: Fault, expected: Expected) {
        let numbers = self.fixtures.numbers(|fixture| match fault {
            Fault::ErrorInStream => fixture.fails(),
            Fault::MalformedFrame => !fixture.frame_ends().is_empty(),
            _ => true,
        });
        let turns = futures_util::stream::iter(&numbers).map(async |number| {
            let fixture = self.fixtures.get(*number).context("no such fixture")?;
            let at = match fault {
                Fault::MalformedFrame => fixture.frame_ends().first().copied().unwrap_or_default(),
                _ => fixture.body.len() / 2,
            };
            let plan = Plan { fault, at, failing: u32::MAX, ..Plan::whole(0, *number) };
            let turn = self.turn(clients, &plan, expected).await;
            turn.with_context(|| format!("{} {}", plan.message(), fixture.name))
        });
        let ended: Vec<anyhow::Result<()>> = turns.buffer_unordered(AT_ONCE).collect().await;
        self.report(way, ended);
    }

    fn report(&mut self, way: &str, ended: Vec<anyhow::Result<()>>) {
        let turns = ended.len();
        let wrong: Vec<String> =
            ended.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
        self.turns += turns;
        self.wrong += wrong.len();
        println!("| {way} | {turns} | {} |", wrong.len());
        wrong.iter().take(3).for_each(|wrong| println!("wrong: {wrong}"));
    }

    async fn turn(&self, clients: &Clients, plan: &Plan, expected: Expected) -> anyhow::Result<()> {
        let turn = run(clients, &self.fixtures, plan).await.context("something came after the end")?;
        let middle = self.fixtures.get(plan.fixture).context("no such fixture")?.body.len() / 2;
        match expected {
            Expected::AsPlanned => {
                let want = self.oracle.want(plan).context("no such fixture")?;
                match difference(&want.items, &turn.items) {
                    Some(difference) => bail!("{difference}"),
                    None => ensure!(turn.attempts == want.attempts, "{} attempts", turn.attempts),
                }
            }
            Expected::Cut => self.is_cut(plan, middle..=middle, ErrorKind::Truncated, &turn.items)?,
            Expected::Reset => self.is_cut(plan, 0..=middle, ErrorKind::Truncated, &turn.items)?,
            Expected::Silence => match turn.items.as_slice() {
                [Err(error)] if error.kind() == ErrorKind::FirstByteTimeout => {}
                items => self.is_cut(plan, 0..=middle, ErrorKind::IdleTimeout, items)?,
            },
            Expected::NoHead(kind, status) => {
                let [Err(error)] = turn.items.as_slice() else { bail!("it gives {:?}", turn.items) };
                let got = (error.kind(), error.status(), turn.attempts);
                ensure!(got == (kind, status, turnstream_network::MAX_ATTEMPTS), "it gives {got:?}: {error}");
            }
        }
        Ok(())
    }

    fn is_cut(
        &self,
        plan: &Plan,
        at: RangeInclusive<usize>,
        kind: ErrorKind,
        items: &[Item],
    ) -> anyhow::Result<()> {
        let fixture = self.fixtures.get(plan.fixture).context("no such fixture")?;
        ensure!(self.oracle.is_cut(fixture, at, kind, items), "no such cut gives {items:?}");
        Ok(())
    }

    fn clients(&self, url: &str, prepare: impl Fn(Client) -> Client) -> Clients {
        Clients::new(url, &self.nobody, |client| prepare(client.ca_certificate(&self.authority.pem)))
    }

    /// The protocol is the one that the site is there for.
    async fn speaks(&self, clients: &Clients, site: Site) -> anyhow::Result<()> {
        let mut turn = begin(clients, &self.fixtures, &Plan::whole(0, 0)).context("no such fixture")?;
        turn.next().await.context("nothing comes")??;
        let headers = &turn.head().context("there is no head")?.headers;
        let protocol = headers.get("x-protocol").context("nginx says no protocol")?;
        ensure!(protocol == site.protocol(), "{}: {protocol:?} was spoken", site.name());
        ensure!(headers.get("content-encoding").is_none(), "nobody asked for compression");
        Ok(())
    }

    /// A caller who asks for compression gets it, and then a typed error.
    async fn compression_is_an_error(&mut self, url: &str, site: Site) -> anyhow::Result<()> {
        let wire = OpenAiChat::new("m").key("secret").base_url(format!("{url}/v1"));
        let client = Client::new(wire.header("accept-encoding", "gzip")).ca_certificate(&self.authority.pem);
        let is_answer = |fixture: &Fixture| fixture.wire == TestedWire::OpenAiChat && !fixture.fails();
        let number = self.fixtures.numbers(is_answer);
        let plan = Plan::whole(0, number.first().copied().context("there is such a fixture")?);
        let turn = client.stream(&Request::new().user(plan.message()));
        let Turn { items, .. } = run_until(turn, usize::MAX).await.context("something came after the end")?;
        let is_right = match (site.compresses, items.last()) {
            (true, Some(Err(error))) => {
                error.kind() == ErrorKind::NotAStream && error.message().contains("compressed (gzip)")
            }
            (false, Some(Ok(Event::TurnFinished(_)))) => true,
            _ => false,
        };
        let ended = if is_right { Ok(()) } else { Err(anyhow!("it gives {items:?}")) };
        self.report(&format!("{}: asked for gzip", site.name()), vec![ended]);
        Ok(())
    }

    /// A consumer that goes away is heard of at the other end, also while a proxy collects the reply.
    async fn a_dropped_turn_reaches_the_server(
        &mut self,
        clients: &Clients,
        site: Site,
    ) -> anyhow::Result<()> {
        let numbers = self.fixtures.numbers(|fixture| fixture.name == "long-call");
        for number in &numbers {
            self.origin.go_on(false);
            self.origin.until(|counts| counts.held == 0).await?;
            let plan = Plan { fault: Fault::Held, failing: u32::MAX, ..Plan::whole(0, *number) };
            let mut turn = begin(clients, &self.fixtures, &plan).context("no such fixture")?;
            let read = async { while turn.next().await.is_some() {} };
            tokio::select! {
                () = read => bail!("the turn is over, and the server has not sent it"),
                held = self.origin.until(|counts| counts.held == 1) => held?,
            }
            drop(turn);
            self.origin.until(|counts| counts.held == 0).await?;
        }
        let ended = numbers.iter().map(|_| Ok(())).collect();
        self.report(&format!("{}: dropped, and the server hears of it", site.name()), ended);
        Ok(())
    }

    /// What the server has sent comes out while it holds back the rest.
    async fn streams(&mut self, clients: &Clients, site: Site) -> anyhow::Result<()> {
        let numbers =
            self.fixtures.numbers(|fixture| fixture.name == "long-call" && fixture.wire.sends_fragments());
        let mut ended = Vec::new();
        for number in &numbers {
            self.origin.go_on(false);
            self.origin.until(|counts| counts.held == 0).await?;
            let plan = Plan { fault: Fault::Held, failing: u32::MAX, ..Plan::whole(0, *number) };
            let want = self.oracle.want(&plan).context("no such fixture")?;
            let mut turn = begin(clients, &self.fixtures, &plan).context("no such fixture")?;
            let mut items = Vec::new();
            while !matches!(items.last(), Some(Ok(Event::CallArgumentFragment(_)))) {
                items.push(turn.next().await.context("the turn is over too early")?);
            }
            self.origin.until(|counts| counts.held == 1).await?;
            self.origin.go_on(true);
            items.extend(run_until(turn, usize::MAX).await.context("something came after the end")?.items);
            ended.push(match difference(&want.items, &items) {
                Some(difference) => Err(anyhow!("{difference}")),
                None => Ok(()),
            });
        }
        self.report(&format!("{}: half of it before the rest is sent", site.name()), ended);
        Ok(())
    }
}
