//! Stamps the requests of a running server: loads the eBPF programs, attaches them, and collects
//! their sums.
//!
//! ```text
//! Target (processes, ports) ─┐
//! App (marks) ─► places ─────┼─► Kernel: programs, maps ─► Session: slices of time ─► Profile
//! Options ───────────────────┘
//! ```
//!
//! All links are file descriptors of this process. The kernel therefore removes every probe when
//! the process ends, even if it crashes.

mod cost;
mod error;
mod kernel;
mod places;
mod session;
mod target;

pub use error::LiveError;
pub use session::{Options, Session};
pub use target::Target;

/// The number of ports that the programs can filter by.
const PORTS: usize = 8;
