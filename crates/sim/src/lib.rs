//! Virtual time: the kernel among simulated servers.
//!
//! A *request* asks every shard at once and is answered when the last of them is; what a shard is
//! asked is a *query*. Each shard is a [`curtail_kernel::Cell`], the very code that the proxy runs,
//! with servers that are simulated: they have slots, speeds, pauses and failures, and a network
//! before them. What a simulation says of a policy is so what that policy does.
//!
//! ```
//! use std::sync::atomic::{AtomicBool, AtomicU64};
//!
//! use curtail_sim::{Candidate, PERCENTILES, Parameters, Plan, UNIT_NS, compare};
//!
//! let parameters = Parameters {
//!     shards: 10,
//!     utilization: 0.2,
//!     service: "exp:5ms".to_owned(),
//!     jitter: Some("bimodal:0.01:75ms".to_owned()), // one copy in a hundred has a hiccup
//!     requests: 5_000,
//!     ..Parameters::default()
//! };
//! let experiment = parameters.experiment()?; // everything is checked here
//! let policies = [Candidate::parse("psq", UNIT_NS)?, Candidate::parse("laedge:cc", UNIT_NS)?];
//! let (progress, stop) = (AtomicU64::new(0), AtomicBool::new(false));
//! let plan = Plan { threads: 2, percentiles: &PERCENTILES, progress: &progress, stop: &stop };
//!
//! let outcomes = compare(&experiment, &policies, &plan)?.expect("nothing stopped it");
//! let p99 = |at: usize| outcomes[at].request.as_ref()?.percentile(99.0);
//! assert!(p99(1) < p99(0), "hedging cuts the tail");
//! # Ok::<(), curtail_sim::Error>(())
//! ```
//!
//! # Service times
//!
//! A query has a service time of its own, P, which its copies share, and each copy adds a jitter J
//! of its own: S = P + J. Hedging can do something about J only, and nothing where all copies of a
//! query share it ([`JitterOf::Query`]). The offered utilization is λ·P̄ over what the servers can do
//! ([`UtilizationOf`]), so a hedge or a jitter comes on top of it.
//!
//! # Common random numbers
//!
//! Arrivals, P, the J of each copy, and the pauses and failures of each server come from streams that
//! are named by the seed, the replication and the shard, and not by the policy. So every policy
//! meets the same requests, hiccups and pauses, and the difference between two policies is much
//! surer than either figure: [`Versus`] pairs them by replication. Results depend neither on the
//! number of threads nor on which policies run beside. What goes over the network is drawn in the
//! order in which it is sent, which depends on the policy.
//!
//! # Confidence
//!
//! A percentile is that of all measured requests of all replications. Half the width of its 95 %
//! interval is Student's, from the percentiles of the replications, which are independent but for
//! arrivals that are the same in each (a trace, or deterministic ones). A percentile with fewer than
//! ten samples above it is not reported. Histograms keep three digits and report the upper end of what
//! they cannot tell apart, at most 0.1 % too much; means are exact.
//!
//! # Cost
//!
//! A query costs two events of the kernel and a scan of the servers of its shard. How many queries a
//! core simulates per second is printed by
//! `cargo run --release -p curtail-sim --example speed -- psq 50 2 0.3 200000`; they are fewer where
//! the shards are so many that their state does not fit into the caches. Memory is O(shards · slots + open requests), bounded: what would not end or not fit is refused by
//! [`Parameters::experiment`], or ends as an unstable run.
//!
//! # What it does not do
//!
//! In experiments nothing ejects a server, nothing times out, and the cell learns at once that a
//! server has failed. While all servers of a shard are down, its queries wait.
#![forbid(unsafe_code)]

pub mod advise;
mod agenda;
mod bounds;
mod calendar;
mod candidate;
mod compare;
mod draws;
mod error;
mod experiment;
mod figures;
pub mod graph;
mod load;
mod mail;
mod net;
mod outcome;
mod parallel;
mod parameters;
mod part;
mod requests;
mod run;
pub mod script;
mod shard;
mod shared;
mod sink;
mod stability;
mod student;
pub mod sweep;
mod tally;
mod train;

pub use calendar::Disturbance;
pub use candidate::Candidate;
pub use compare::{PERCENTILES, compare, total};
pub use curtail_dist::arrivals::Arrivals;
pub use error::{Error, LONGEST, shown};
pub use experiment::{Change, Experiment, JitterOf, UNIT_NS, UtilizationOf, Windows};
pub use figures::{Figures, name};
pub use load::{ServerLoad, Turned};
pub use outcome::{Outcome, Queue, Utilization, Versus, Window, check_percentiles};
pub use parallel::Plan;
pub use parameters::{Parameters, allowed};
pub use shard::{Accuracy, Share};
pub use shared::{Fluctuation, Shared, Skew, Surge, Turn};
pub use stability::Unstable;
pub use train::{Trained, Training, train};
