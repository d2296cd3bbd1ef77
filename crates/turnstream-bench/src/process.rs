//! What this process has used.

use std::{fs, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// The time that the processor has worked for this process, in all of its threads.
pub fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// The memory that this process holds now, in KiB. None where there is no `/proc`.
pub fn resident_kib() -> Option<usize> {
    status("VmRSS:")
}

/// The most memory that this process has held, in KiB. None where there is no `/proc`.
pub fn peak_resident_kib() -> Option<usize> {
    status("VmHWM:")
}

fn status(name: &str) -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
