//! An open-loop load generator that measures its own lag.
//!
//! # One invariant
//!
//! **The time at which a request is sent depends only on the plan, never on the responses to
//! earlier requests; and a request's latency runs from its intended time.**
//!
//! A client that waits for a response before it sends the next request stops sending exactly when
//! the server is slow. It measures one slow request where independent users would have sent a
//! hundred (coordinated omission). Here, all send times are fixed before the run ([`Schedule`]).
//! Every delay of a request after its intended time is part of its latency: a stall of the server,
//! a wait for a free connection, or a delay in this machine.
//!
//! # What is measured
//!
//! For each request, the following times are measured, starting at its intended time in the
//! schedule:
//!
//! - *schedule lag*: the time between the intended time and the moment at which a connection takes
//!   the request. It consists of the generator's own delay and, if all connections are busy, the
//!   wait for one.
//! - *uncorrected latency*: the time from that moment to the end of the response's body. It
//!   includes opening a connection, if the request needs a new one.
//! - *latency*: the sum of the schedule lag and the uncorrected latency.
//!
//! Only a complete response with a status of 2xx, or its equivalent, has a latency. All other
//! requests are counted by kind in [`Errors`]. In the percentiles they count as at least the
//! timeout, because a server that refuses its slowest requests is not fast. A request that is
//! unfinished when a run ends early counts as at least its age; otherwise the generator would leave
//! out exactly the requests that a stall delays. A request times out [`Plan::timeout_ns`] after its
//! *intended* time, even if it never got a connection.
//!
//! No request that a server may have processed is sent twice. If an HTTP/2 server goes away and
//! hands a request back unprocessed, the request is sent again over another connection, at most 4
//! times in all. It counts once, and its latency runs from its intended time
//! ([`Report::sent_again`]).
//!
//! # Map
//!
//! `plan` describes the load, and `check` rejects a plan that cannot be run. Each thread of the
//! `engine` waits for intended times, and sends and receives on its own connections. The protocol of a connection is a state machine without I/O
//! (`session`). `run` joins the threads and adds up their records; `results` draws the conclusions.
//! `agents` spreads one load over several machines.
#![forbid(unsafe_code)]

pub mod agents;
pub mod calibrate;
mod check;
mod engine;
pub mod open_loop;
mod plan;
mod results;
mod run;
mod session;

pub use curtail_dist::arrivals::{Arrivals, ArrivalsError};
pub use engine::stamp::{self, DeviceClock, PastStack};
pub use hdrhistogram::Histogram;
pub use plan::error::{LoadError, PlanError};
pub use plan::profile::{Profile, RATE_MAX, STEPS_MAX, Step};
pub use plan::protocol::{Batch, Protocol, ResponseEnd, Trust};
pub use plan::schedule::{Extent, KeyDistribution, Keys, QueryOrder, RENDERED_MAX, Schedule, Slot};
pub use plan::target::{Scheme, Target};
pub use plan::{Pace, Plan, Precision, StampsBy, TIMEOUT_NS_MAX, parse_header};
pub use results::arrival_test::ArrivalTest;
pub use results::counts::histogram;
pub use results::errors::Errors;
pub use results::facts::Sender;
pub use results::limit::Limit;
pub use results::outcome::Outcome;
pub use results::report::{Failures, Report, Stamps};
pub use results::split::Parts;
pub use results::summary::{
    Intervals, Percentiles, SAMPLES_ABOVE_MIN, Splits, Summary, ratio_intervals,
};
pub use results::verdict::{Invalid, Note, Withheld};
pub use results::watch::Snapshot;
pub use run::{run, run_observed, run_sampled};
pub use session::requests::{query_class, read_queries_for, unescape};
