//! An honest load generator.
//!
//! # One invariant
//!
//! **When a request is sent depends on the plan alone, never on the answers to earlier ones; and a
//! request's latency runs from the time it was meant to be sent.**
//!
//! A client that waits for an answer before it sends the next request stops asking just when the
//! server is slow, and measures one bad request where its users would have had a hundred (coordinated
//! omission). Here the times are fixed beforehand ([`Schedule`]), and whatever delays a request after
//! its time (a stall of the server, a wait for a free connection, this machine) is in its latency.
//!
//! # Use
//!
//! Make a [`Plan`], [`run`] it in a runtime of tokio's with time and I/O enabled, read the
//! [`Report`]:
//!
//! ```no_run
//! use curtail_load::{Extent, Plan, run_observed};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut plan = Plan::new("http://127.0.0.1:8080/search?q=tail".parse()?, 500.0);
//! plan.extent = Extent::Duration { ns: 10_000_000_000 };
//! let report = run_observed(
//!     &plan,
//!     std::future::pending(), // resolves when the run is to be cut short
//!     |snapshot| eprintln!("{} sent", snapshot.sent),
//!     |answer| assert_eq!(answer.status, 200),
//! )
//! .await?;
//! if let Some(warning) = report.warning() {
//!     eprintln!("warning: {warning}");
//! }
//! println!("{:?}", report.latency_ns.p99);
//! # Ok(())
//! # }
//! ```
//!
//! # What is measured
//!
//! For request *i*, with its intended time from the schedule:
//!
//! - *schedule lag*: from the intended time to the moment a connection takes the request up. The
//!   generator's own delay, and the wait for a connection when all are busy.
//! - *uncorrected latency*: from there to the end of the answer's body. Opening a connection, where
//!   one has to be opened, is part of it.
//! - *latency*: the sum of both.
//!
//! Only whole answers with a status of 2xx have a latency. Everything else is counted by kind in
//! [`Errors`]. A request has failed with a time-out once [`Plan::timeout_ns`] have passed since its
//! *intended* time, even if it never got a connection. No request that a
//! server may have seen is sent twice. One that a server of HTTP/2 hands back unseen, as it goes away, is
//! sent again over another connection, up to 4 times in all; it counts once, and its latency runs from its
//! intended time ([`Report::sent_again`]).
//!
//! # When a report is valid
//!
//! See [`Invalid`]: the requests were sent on time, nearly all were answered at the rate they were
//! sent at, the latencies leave out next to none, none was dropped, and nobody cut the run short.
//! Where the generator was late too often for the 99.9th percentile alone, only that one is not told:
//! see [`Withheld`].
//!
//! # Map
//!
//! Each thread keeps the time, sends and receives by itself, on connections of its own (`engine`); what
//! is on a connection is a protocol without I/O (`session`). It adds up what it sees in a `record`; the
//! future of [`run`] waits for the threads and adds up their records (`threads`, `report`), and judges
//! (`verdict`). `split` tells what a percentile is made of. While it runs, `watch` tells what there is,
//! and `observe` hands over every answer or [`Sample`] to whoever wants them; who is too slow loses
//! some, and the run does not wait.
#![forbid(unsafe_code)]

pub mod agents;
mod arrival_test;
mod blocks;
mod bucket;
#[cfg(feature = "xdp")]
mod bypass;
#[cfg(not(feature = "xdp"))]
#[path = "bypass_none.rs"]
mod bypass;
pub mod calibrate;
mod conclude;
mod engine;
mod error;
mod exchange;
mod fault;
pub mod jitter;
mod keys;
pub mod machine;
mod observe;
mod outcome;
mod plan;
mod profile;
mod protocol;
mod queries;
mod record;
mod report;
mod requests;
mod run;
mod sample;
mod schedule;
mod sends;
mod session;
mod share;
mod split;
pub mod stamp;
mod stationary;
mod summary;
mod target;
mod threads;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "tls_none.rs"]
mod tls;
mod verdict;
mod watch;

pub use arrival_test::ArrivalTest;
pub use curtail_dist::arrivals::{Arrivals, ArrivalsError};
pub use error::{LoadError, PlanError, QueriesError, TargetError};
pub use hdrhistogram::Histogram;
pub use keys::{KeyDistribution, Keys, RENDERED_MAX};
pub use plan::{Extent, Pace, Plan, Precision, TIMEOUT_NS_MAX, parse_header};
pub use profile::{Profile, RATE_MAX, STEPS_MAX, Step};
pub use protocol::{AnswerEnd, Protocol, Trust};
pub use queries::{QueryOrder, read_queries, read_queries_for};
pub use record::{Errors, histogram};
pub use report::{Failures, Report, Stamps};
pub use requests::{query_class, unescape};
pub use run::{Answer, run, run_observed, run_sampled, run_until};
pub use sample::Sample;
pub use schedule::{Schedule, Slot};
pub use split::Parts;
pub use stamp::{PastStack, StampsBy};
pub use summary::{Intervals, SAMPLES_ABOVE_MIN, Splits, Summary};
pub use target::{Scheme, Target};
pub use verdict::{Invalid, Withheld};
pub use watch::Snapshot;
