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
//! # Map
//!
//! `plan` is what is asked for. Each thread of the `engine` keeps the time, sends and receives by itself, on
//! connections of its own; what is on a connection is a protocol without I/O (`session`). `run` waits for
//! the threads and adds up their records; `results` draws the conclusions. `agents` spreads one load over
//! several machines.
#![forbid(unsafe_code)]

pub mod agents;
pub mod calibrate;
mod engine;
mod plan;
mod results;
mod run;
mod session;

pub use curtail_dist::arrivals::{Arrivals, ArrivalsError};
pub use engine::stamp::{self, PastStack, StampsBy};
pub use hdrhistogram::Histogram;
pub use plan::error::{LoadError, PlanError};
pub use plan::keys::{KeyDistribution, Keys, RENDERED_MAX};
pub use plan::profile::{Profile, RATE_MAX, STEPS_MAX, Step};
pub use plan::protocol::{AnswerEnd, Protocol, Trust};
pub use plan::queries::{QueryOrder, read_queries_for};
pub use plan::schedule::{Schedule, Slot};
pub use plan::target::{Scheme, Target};
pub use plan::{Extent, Pace, Plan, Precision, TIMEOUT_NS_MAX, parse_header};
pub use results::arrival_test::ArrivalTest;
pub use results::record::{Errors, histogram};
pub use results::report::{Failures, Report, Stamps};
pub use results::sample::Sample;
pub use results::split::Parts;
pub use results::summary::{
    Intervals, Percentiles, SAMPLES_ABOVE_MIN, Splits, Summary, ratio_intervals,
};
pub use results::verdict::{Invalid, Withheld};
pub use results::watch::Snapshot;
pub use run::{Answer, run, run_observed, run_sampled};
pub use session::requests::{query_class, unescape};
