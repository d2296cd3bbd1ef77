//! [`Clients`]: a client of every wire for every mood, each with its connections.

use std::{io, net::Ipv4Addr, time::Duration};

use tokio::net::TcpSocket;
use turnstream::{Attempt, Authorize, Client, Error, Limits, RetryPolicy};
use turnstream_tests::TestedWire;

use crate::plan::Fault;

/// How many requests a turn sends at most.
pub const MAX_ATTEMPTS: u32 = 2;
/// Short waits between attempts: what is tested is that there are some, and not how long they are.
const BASE_DELAY: Duration = Duration::from_millis(2);
/// The patience of those that are to lose it.
const SHORT: Duration = Duration::from_millis(50);
/// The patience of all others, on a machine that may be busy.
const LONG: Duration = Duration::from_secs(300);

/// The clients of one server, each made once.
#[derive(Debug)]
pub struct Clients {
    wires: Vec<(TestedWire, ByMood)>,
}

#[derive(Debug)]
struct ByMood {
    patient: Client,
    /// Waits but a moment for the next bytes.
    hasty: Client,
    /// Waits but a moment for the head.
    hasty_for_heads: Client,
    /// Asks where nobody listens.
    astray: Client,
}

/// A port that is taken, and at which nobody listens.
#[derive(Debug)]
pub struct NobodyListens {
    _socket: TcpSocket,
    port: u16,
}

/// Says to the server which attempt it is, so that it need not keep count.
struct Numbered;

impl Authorize for Numbered {
    async fn authorize(&self, attempt: &mut Attempt) -> Result<(), Error> {
        attempt.set_header("x-attempt", &attempt.number().to_string())
    }
}

impl Clients {
    /// For a server at this address. `prepare` has the last word about each.
    pub fn new(url: &str, nobody: &NobodyListens, prepare: impl Fn(Client) -> Client) -> Self {
        let of_wire = |wire: TestedWire| {
            let client = |url: &str| {
                let client = wire.client_with(url, Limits::new()).retries(policy()).authorize(Numbered);
                prepare(client.connect_timeout(LONG).first_byte_timeout(LONG).idle_timeout(LONG))
            };
            let moods = ByMood {
                patient: client(url),
                hasty: client(url).idle_timeout(SHORT).end_grace(SHORT),
                hasty_for_heads: client(url).first_byte_timeout(SHORT),
                astray: client(&format!("http://127.0.0.1:{}", nobody.port)),
            };
            (wire, moods)
        };
        Self { wires: TestedWire::ALL.into_iter().map(of_wire).collect() }
    }

    /// The one for turns to which this happens.
    pub fn get(&self, wire: TestedWire, fault: Fault) -> Option<&Client> {
        let (_, moods) = self.wires.iter().find(|(known, _)| *known == wire)?;
        Some(match fault {
            Fault::Refused => &moods.astray,
            Fault::Stall => &moods.hasty,
            Fault::SilentHead => &moods.hasty_for_heads,
            _ => &moods.patient,
        })
    }
}

impl NobodyListens {
    /// Takes a port.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn new() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let port = socket.local_addr()?.port();
        Ok(Self { _socket: socket, port })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn policy() -> RetryPolicy {
    RetryPolicy::new().max_attempts(MAX_ATTEMPTS).base_delay(BASE_DELAY).jitter(|| 0.5)
}
