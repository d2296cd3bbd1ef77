//! Figures of this process, as the system counts them.

use std::{fs, io, time::Duration};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

/// How long is waited at most for what has to come by itself. Whoever waits longer waits for ever.
const PATIENCE: Duration = Duration::from_secs(60);
/// Descriptors that a process needs beside its turns.
const OWN_DESCRIPTORS: u64 = 128;

/// What a process holds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Memory that it has now (`VmRSS`).
    pub resident_bytes: u64,
    /// The most that it ever had (`VmHWM`).
    pub peak_bytes: u64,
    /// Its open descriptors.
    pub descriptors: usize,
}

impl Figures {
    /// Those of this process.
    ///
    /// # Errors
    ///
    /// On systems without `/proc`.
    pub fn now() -> anyhow::Result<Self> {
        let status = fs::read_to_string("/proc/self/status").context("these figures need /proc")?;
        let bytes = |name: &str| -> anyhow::Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such figure")?;
            let kilobytes: u64 = line.trim_matches([':', ' ', '\t', 'k', 'B']).parse()?;
            Ok(kilobytes << 10)
        };
        Ok(Self { resident_bytes: bytes("VmRSS")?, peak_bytes: bytes("VmHWM")?, descriptors: descriptors()? })
    }
}

/// How many descriptors this process has open.
///
/// # Errors
///
/// On systems without `/proc`.
pub fn descriptors() -> io::Result<usize> {
    // The folder that is read is one of them.
    Ok(fs::read_dir("/proc/self/fd")?.count() - 1)
}

/// Raises the limit of descriptors as far as it can be.
///
/// # Errors
///
/// When so many connections do not fit.
pub fn make_room_for(connections: usize) -> anyhow::Result<u64> {
    let limit = rlimit::increase_nofile_limit(u64::MAX)?;
    let needed = connections as u64 + OWN_DESCRIPTORS;
    ensure!(
        limit >= needed,
        "{needed} descriptors are needed, and the system allows {limit}: see `ulimit -Hn`"
    );
    Ok(limit)
}

/// Waits until the runtime has no task any more, those of the HTTP library among them. It has none of this
/// function's: call it from `block_on`.
///
/// # Errors
///
/// When one stays.
pub async fn no_task_is_left() -> anyhow::Result<()> {
    let metrics = Handle::current().metrics();
    let settled = async {
        while metrics.num_alive_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let settled = tokio::time::timeout(PATIENCE, settled).await;
    ensure!(settled.is_ok(), "{} tasks are left", metrics.num_alive_tasks());
    Ok(())
}
