//! Virtual time: the kernel among simulated servers.
#![forbid(unsafe_code)]

pub mod advise;
mod agenda;
pub mod arrivals;
mod calendar;
mod candidate;
mod compare;
mod draws;
mod error;
mod experiment;
mod outcome;
mod parallel;
mod parameters;
mod requests;
mod run;
mod shard;
mod sink;
mod stability;
mod student;
pub mod sweep;
mod tally;

pub use arrivals::Arrivals;
pub use calendar::Disturbance;
pub use candidate::Candidate;
pub use compare::{PERCENTILES, Plan, compare, total};
pub use error::Error;
pub use experiment::{Experiment, UtilizationOf};
pub use outcome::{Figures, Outcome, Queue, Utilization, Versus, name};
pub use parameters::{Parameters, UNIT_NS};
pub use shard::{Accuracy, Share};
