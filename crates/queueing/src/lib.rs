//! Queueing theory: closed forms with percentiles, bounds, and fits to samples.
//!
//! What can be known without simulating, and what simulations are checked against:
//!
//! - [`models`]: one queue, from M/M/1 to G/G/k;
//! - [`fork_join`]: queries that wait for the last of many queues, between bounds;
//! - [`unloaded`]: the same without queues, with hiccups and hedges;
//! - [`optimal_split`]: how much to send to servers of different speeds;
//! - [`curve`]: latency over load, fitted to measurements;
//! - [`fit`]: distributions fitted to samples.
#![forbid(unsafe_code)]

mod check;
pub mod curve;
mod error;
pub mod fit;
mod fork_join;
mod law;
pub mod models;
mod solve;
mod special;
mod split;
mod tail;
pub mod unloaded;

pub use error::ModelError;
pub use fork_join::{ForkJoin, fork_join};
pub use law::Law;
pub use split::{Split, optimal_split};
pub use tail::{Basis, Prediction, Tail};
