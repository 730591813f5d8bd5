//! Runs the kernel in virtual time, with simulated servers.
//!
//! A *request* is sent to all shards at the same time and is complete when the last shard has
//! responded. The part of a request that one shard serves is a *query*. Each shard is a
//! [`curtail_kernel::Cell`], the same code that the proxy runs. Its servers are simulated: they
//! have slots, speeds, pauses and failures, and a network in front of them. A simulation therefore
//! measures the policy's own code.
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
//! A policy of one's own is a [`Candidate`] like ours: [`Candidate::parse_in`] takes its name from a
//! [catalog](curtail_kernel::Catalog), and a [`curtail_kernel::Policy`] converts to one. It can be
//! compared, swept ([`sweep`]) and scripted ([`script`]).
//!
//! # Service times
//!
//! A query has a service time P, which its copies share. Each copy also draws its own jitter J: S =
//! P + J. Hedging can only avoid J, and it has no effect if all copies of a query share their J
//! ([`JitterOf::Query`]). The offered utilization is λ·P̄ divided by the capacity of the servers
//! ([`UtilizationOf`]), so it does not include hedging and jitter.
//!
//! # Common random numbers
//!
//! Arrivals, P, the J of each copy, and the pauses and failures of each server come from random
//! streams. A stream depends on the seed, the replication and the shard, but not on the policy.
//! Every policy therefore meets the same requests, hiccups and pauses, and the difference between
//! two policies is much more certain than either figure: [`Versus`] pairs them by replication.
//! Results do not depend on the number of threads or on the other policies in the comparison.
//! Network latencies are drawn in the order in which messages are sent, which depends on the
//! policy.
//!
//! # Confidence
//!
//! A percentile is taken over all measured requests of all replications. Its 95 % confidence
//! interval is Student's, computed from the percentiles of the replications. The replications are
//! independent, except that traces and deterministic arrivals are the same in each replication. A
//! percentile with fewer than ten samples above it is not reported. Histograms keep three
//! significant digits and report the upper end of a bucket, which is at most 0.1 % too high. Means
//! are exact.
//!
//! # Cost
//!
//! The cost of a query is two kernel events and a scan of its shard's servers. The cost is higher
//! if the state of all shards does not fit into the caches. An example measures how many queries a
//! core simulates per second:
//!
//! `cargo run --release -p curtail-sim --example speed -- psq 50 2 0.3 200000`.
//!
//! Memory is O(shards · slots + open requests), and bounded: [`Parameters::experiment`] refuses
//! experiments that would not end or would not fit into memory. If queues fill the memory during a
//! run, the run ends as unstable.
//!
//! # Limitations
//!
//! In experiments, no server is ejected, nothing times out, and the cell is informed of a server's
//! failure immediately. While all servers of a shard are down, its queries wait.
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
mod pool;
mod requests;
mod run;
pub mod script;
mod setup;
mod shard;
mod sink;
mod stability;
pub mod sweep;
mod tally;
mod train;
mod world;

pub use calendar::{Disturbance, Slowdown};
pub use candidate::Candidate;
pub use compare::{PERCENTILES, compare, total};
pub use curtail_dist::arrivals::Arrivals;
pub use error::{Error, LONGEST, shown};
pub use experiment::{Experiment, JitterOf, UNIT_NS, UtilizationOf, Windows};
pub use figures::{Figures, name};
pub use load::{ServerLoad, Turned};
pub use outcome::{Outcome, Queue, Utilization, Versus, Window, check_percentiles};
pub use parallel::Plan;
pub use parameters::{Parameters, allowed};
pub use stability::Unstable;
pub use tally::{Accuracy, Share};
pub use train::{Trained, Training, train};
pub use world::{Change, Hop, LoadWindows, Shards, Shared, Skew, Speed, Surge, Turn, World};
