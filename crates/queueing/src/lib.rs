//! Queueing theory: closed forms with percentiles, bounds, and fits to samples.
//!
//! These results do not require simulation, and simulations are checked against them:
//!
//! - [`models`]: one queue, from M/M/1 to G/G/k;
//! - [`fork_join()`]: bounds for queries that wait for the last of many queues;
//! - [`HiccupService`]: queries that wait for the last of many shards with hiccups and hedges, but
//!   without queues;
//! - [`optimal_split`]: rates for servers of different speeds;
//! - [`curve`]: latency as a function of load, fitted to measurements;
//! - [`fit`]: distributions fitted to samples;
//! - [`mod@estimate`]: rates and utilization from a log of requests;
//! - [`mod@bottleneck`]: the component that saturates first;
//! - [`fluid`]: queues of servers that clients share, over time.
//!
//! # Units
//!
//! Times are in one unit of the caller's choice, and rates are per that unit. Utilization is the
//! share of time for which a server is busy, below 1. Variability is the squared coefficient of
//! variation, variance/mean².
//!
//! # Accuracy
//!
//! Every result has a [`Basis`], which states whether it is exact, an approximation (with the name
//! of the method), or a bound. "Exact" means exact within the model. No parameter causes a panic;
//! errors name the value and the fix.
//!
//! # Use
//!
//! ```
//! use curtail_queueing::Basis;
//! use curtail_queueing::models::{Hyper, mh21, mm1};
//!
//! // Both are 70 % busy, with a mean service of 2 ms; one is more variable.
//! let steady = mm1(0.35, 0.5)?;
//! let variable = mh21(0.35, Hyper::balanced(2.0, 4.0)?)?;
//! assert_eq!(variable.sojourn.law_basis(), Some(Basis::Exact));
//! assert!(variable.sojourn.quantile(0.99)? > 2.0 * steady.sojourn.quantile(0.99)?);
//! # Ok::<(), curtail_queueing::ModelError>(())
//! ```
#![forbid(unsafe_code)]

pub mod bottleneck;
mod check;
pub mod curve;
pub mod estimate;
pub mod fit;
pub mod fluid;
mod fork_join;
mod law;
pub mod models;
mod solve;
mod split;
mod tail;

pub use check::ModelError;
pub use fork_join::{ForkJoin, HiccupService, fork_join};
pub use law::Law;
pub use split::{Split, optimal_split};
pub use tail::{Basis, Prediction, Tail};
