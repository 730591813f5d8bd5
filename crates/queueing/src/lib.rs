//! Queueing theory: closed forms with percentiles, bounds, and fits to samples.
//!
//! What can be known without simulating, and what simulations are checked against:
//!
//! - [`models`]: one queue, from M/M/1 to G/G/k;
#![forbid(unsafe_code)]

mod check;
mod error;
mod law;
pub mod models;
mod solve;
mod tail;

pub use error::ModelError;
pub use law::Law;
pub use tail::{Basis, Prediction, Tail};
