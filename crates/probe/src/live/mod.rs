//! Stamps the requests of a running server: loads the kernel's side, attaches it, and collects what it adds up.
//!
//! ```text
//! Target (processes, ports) ─┐
//! App (marks) ─► places ─────┼─► Kernel: programs, maps ─► Session: slices of time ─► Profile
//! Options ───────────────────┘
//! ```
//!
//! All links are file descriptors of this process, so the kernel removes every probe when it ends, however it ends.

mod cost;
mod error;
mod kernel;
mod places;
mod session;
mod target;

pub use error::LiveError;
pub use session::{Options, Sampling, Session};
pub use target::Target;
