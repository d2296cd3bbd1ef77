//! [`FaultProxy`]: a proxy that knows nothing but bytes, and treats those on their way to the client badly.

use std::{io, net::Ipv4Addr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::{JoinHandle, JoinSet},
};

/// What is read at once.
const PIECE_BYTES: usize = 16 << 10;

/// What happens to the bytes that a server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// They come so much later.
    Latency(Duration),
    /// They come in pieces of so many.
    Slices(usize),
    /// So many come in a hundredth of a second.
    Bandwidth(usize),
    /// After so many something else happens, on each connection anew.
    Cut(Cut, usize),
}

/// What happens instead of the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The connection is reset.
    Reset,
    /// The connection is closed.
    Close,
    /// Nothing, for ever.
    Blackhole,
}

/// A proxy in front of a port of this machine. Dropping it closes its connections.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    task: JoinHandle<()>,
}

impl FaultProxy {
    /// Starts one on a free port.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub async fn start(server: u16, way: Way) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { port, task: tokio::spawn(accept(listener, server, way)) })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, server: u16, way: Way) {
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(async move {
            // A side that goes away ends both.
            let _ = carry(client, server, way).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(client: TcpStream, server: u16, way: Way) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    if let Way::Cut(Cut::Reset, _) = way {
        client.set_zero_linger()?;
    }
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = async {
        copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let down = async {
        bring(&mut from_server, &mut to_client, way).await?;
        match way {
            Way::Cut(Cut::Blackhole, _) => std::future::pending().await,
            Way::Cut(Cut::Reset, _) => Ok(()),
            _ => to_client.shutdown().await,
        }
    };
    match way {
        // The client ends a connection that leads nowhere.
        Way::Cut(Cut::Blackhole, _) => tokio::select! { ended = up => ended, ended = down => ended },
        Way::Cut(..) => tokio::select! { biased; ended = down => ended, Err(error) = up => Err(error) },
        _ => tokio::try_join!(up, down).map(drop),
    }
}

/// Brings bytes to the client until there are no more of them.
async fn bring(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, way: Way) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    let mut left = match way {
        Way::Cut(_, at) => at,
        _ => usize::MAX,
    };
    while left > 0 {
        let count = from.read(&mut buffer).await?;
        let bytes = buffer.get(..count.min(left)).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(());
        }
        left -= bytes.len();
        match way {
            Way::Latency(time) => {
                tokio::time::sleep(time).await;
                to.write_all(bytes).await?;
            }
            Way::Slices(size) => {
                for slice in bytes.chunks(size) {
                    to.write_all(slice).await?;
                    tokio::task::yield_now().await;
                }
            }
            Way::Bandwidth(size) => {
                for slice in bytes.chunks(size) {
                    to.write_all(slice).await?;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            Way::Cut(..) => to.write_all(bytes).await?,
        }
    }
    Ok(())
}
