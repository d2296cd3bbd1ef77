//! What the programs share: what is served and what must come of it, a server that does what a turn asks it to
//! do, a proxy with faults, and figures of a process.
//!
//! A turn carries a [`Plan`] in its message. The server reads it and treats the turn accordingly; the
//! [`Oracle`] says from the same plan, with nothing but the wire's decoder, what the caller must get.

mod clients;
mod fault_proxy;
mod fixtures;
mod nginx;
mod oracle;
mod origin;
mod plan;
mod process;
mod server_process;
mod turns;

pub use clients::{Clients, MAX_ATTEMPTS, NobodyListens};
pub use fault_proxy::{Cut, FaultProxy, Way};
pub use fixtures::{Fixture, Fixtures};
pub use nginx::{Authority, Nginx, Site};
pub use oracle::{Item, Oracle, Want, decoded, difference};
pub use origin::{Counts, Origin, serve_until_stdin_ends};
pub use plan::{Fault, Plan, RESULT};
pub use process::{Figures, descriptors, make_room_for, no_task_is_left};
pub use server_process::ServerProcess;
pub use turns::{Turn, begin, run, run_until};
