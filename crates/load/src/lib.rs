//! An honest load generator.
//!
//! # One invariant
//!
//! **When a request is sent depends only on the plan, never on the responses to earlier ones; and a request's
//! latency runs from the time it was meant to be sent.**
//!
//! A client that waits for a response before it sends the next request stops sending just when the server is
//! slow, and measures one bad request where its users would have had a hundred (coordinated omission). Here
//! the times are fixed beforehand ([`Schedule`]), and whatever delays a request after its time (a stall of
//! the server, a wait for a free connection, this machine) is in its latency.
//!
//! # What is measured
//!
//! For request *i*, with its intended time from the schedule:
//!
//! - *schedule lag*: from the intended time to the moment a connection takes the request up: the
//!   generator's own delay, and the wait for a connection when all are busy.
//! - *uncorrected latency*: from there to the end of the response's body. It includes opening a
//!   connection, if one has to be opened.
//! - *latency*: the sum of both.
//!
//! Only whole responses with a status of 2xx have a latency. Everything else is counted by kind in
//! [`Errors`], and in the percentiles as at least the time-out: a server that refuses its slowest requests is
//! not fast. What is unfinished when a run ends early counts as at least its age, because the generator would
//! otherwise leave out just the requests that a stall delays. A request has timed out once [`Plan::timeout_ns`] have passed since its *intended* time, even
//! if it never got a connection. No request that a server may have processed is sent twice. If an HTTP/2
//! server goes away and hands a request back unprocessed, it is sent again over another connection, up to 4
//! times in all; it counts once, and its latency runs from its intended time ([`Report::sent_again`]).
//!
//! # Map
//!
//! `plan` is what the user asks for. Each thread of the `engine` keeps the time, sends and receives by
//! itself, on connections of its own; the protocol of a connection is a state machine without I/O
//! (`session`). `run` joins the threads and adds up their records; `results` draws the conclusions. `agents`
//! spreads one load over several machines.
#![forbid(unsafe_code)]

pub mod agents;
pub mod calibrate;
mod engine;
mod plan;
mod results;
mod run;
mod session;

pub use curtail_dist::arrivals::{Arrivals, ArrivalsError};
pub use engine::stamp::{self, DeviceClock, PastStack, StampsBy};
pub use hdrhistogram::Histogram;
pub use plan::error::{LoadError, PlanError};
pub use plan::keys::{KeyDistribution, Keys, RENDERED_MAX};
pub use plan::profile::{Profile, RATE_MAX, STEPS_MAX, Step};
pub use plan::protocol::{AnswerEnd, Batch, Protocol, Trust};
pub use plan::queries::{QueryOrder, read_queries_for};
pub use plan::schedule::{Schedule, Slot};
pub use plan::target::{Scheme, Target};
pub use plan::{Extent, Pace, Plan, Precision, TIMEOUT_NS_MAX, parse_header};
pub use results::arrival_test::ArrivalTest;
pub use results::limit::Limit;
pub use results::note::Note;
pub use results::record::{Errors, histogram};
pub use results::report::{Failures, Report, Stamps};
pub use results::sample::Sample;
pub use results::sender::Sender;
pub use results::split::Parts;
pub use results::summary::{
    Intervals, Percentiles, SAMPLES_ABOVE_MIN, Splits, Summary, ratio_intervals,
};
pub use results::verdict::{Invalid, Withheld};
pub use results::watch::Snapshot;
pub use run::{Answer, run, run_observed, run_sampled};
pub use session::requests::{query_class, unescape};
