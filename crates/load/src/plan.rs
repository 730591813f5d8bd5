//! What a run does.

use std::str::FromStr;

use crate::error::PlanError;
use crate::protocol::Protocol;
use crate::queries::QueryOrder;
use crate::schedule::Schedule;
use crate::target::Target;

/// The longest time-out, in nanoseconds: what the histograms hold.
pub const TIMEOUT_NS_MAX: u64 = 60_000_000_000;
/// The highest rate, per second. Beyond it a schedule in whole nanoseconds is no longer a schedule
/// that a machine can keep.
pub const RATE_MAX: f64 = 1e6;
const CONNECTIONS_MAX: usize = 1 << 16;
const THREADS_MAX: usize = 256;
/// Headers that the codec writes or leaves out by itself; passing one would have no effect.
const OWNED: [&str; 5] =
    ["connection", "keep-alive", "content-length", "transfer-encoding", "expect"];

/// How requests are spread over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// As from many independent users: gaps are exponential.
    #[default]
    Poisson,
    /// Equal gaps, the first request at once.
    Constant,
}

impl FromStr for Arrivals {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Arrivals, PlanError> {
        match text {
            "poisson" => Ok(Arrivals::Poisson),
            "constant" => Ok(Arrivals::Constant),
            _ => Err(PlanError::Arrivals(text.to_owned())),
        }
    }
}

/// How much is measured, after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All requests that fall into this time.
    Duration {
        /// In nanoseconds, above zero.
        ns: u64,
    },
    /// This many requests, above zero.
    Requests(u64),
}

/// What a run does.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The server, and what to ask for if there are no [`queries`](Plan::queries).
    pub target: Target,
    /// Requests per second, above 0 and at most 1,000,000.
    pub rate: f64,
    /// How they are spread over time.
    pub arrivals: Arrivals,
    /// How much is measured.
    pub extent: Extent,
    /// Most connections at once, 1 to 65,536. Opened when first needed, kept open, and the one used
    /// last is used next.
    pub connections: usize,
    /// Most requests that wait for a connection when all are busy. The wait counts in the latency.
    /// Beyond it requests are dropped, which makes the run invalid.
    pub backlog: usize,
    /// Headers of every request of HTTP and gRPC, name and value. `Host` is added unless it is among
    /// them.
    pub headers: Vec<(String, String)>,
    /// Requests as [`read_queries_for`](crate::read_queries_for) reads them; of HTTP request targets,
    /// such as `/search?q=tail`. If empty, the target's own path, or [`Protocol::data`].
    pub queries: Vec<String>,
    /// How the queries are gone through.
    pub order: QueryOrder,
    /// From a request's intended time until it has failed, in nanoseconds: above zero, at most
    /// [`TIMEOUT_NS_MAX`]. Kept to about a millisecond.
    pub timeout_ns: u64,
    /// The longest body of an answer, in bytes. A longer one fails its request.
    pub body_bytes_max: u64,
    /// How long requests are sent before the measurement begins, in nanoseconds. Those intended
    /// before its end count nowhere.
    pub warmup_ns: u64,
    /// Threads that send, 1 to 256. Each has its part of the requests, connections and backlog.
    pub threads: usize,
    /// Never sleep: answers are seen some tens of microseconds sooner, and each thread takes a
    /// processor to itself.
    pub spin: bool,
    /// Decides the schedule and the drawn queries; nothing else is random.
    pub seed: u64,
    /// What the protocol needs to know.
    pub protocol: Protocol,
}

impl Plan {
    /// A plan with the defaults: Poisson arrivals for 10 s, 64 connections, a backlog of 16,384,
    /// a time-out of 10 s, answers of up to 64 MiB, no warm-up, one thread that sleeps while it waits, seed 0.
    #[must_use]
    pub fn new(target: Target, rate: f64) -> Plan {
        Plan {
            target,
            rate,
            arrivals: Arrivals::default(),
            extent: Extent::Duration { ns: 10_000_000_000 },
            connections: 64,
            backlog: 1 << 14,
            headers: Vec::new(),
            queries: Vec::new(),
            order: QueryOrder::default(),
            timeout_ns: 10_000_000_000,
            body_bytes_max: 64 << 20,
            warmup_ns: 0,
            threads: 1,
            spin: false,
            seed: 0,
            protocol: Protocol::default(),
        }
    }

    /// The schedule of this plan: every call gives the same one.
    ///
    /// # Errors
    ///
    /// [`PlanError::Rate`].
    pub fn schedule(&self) -> Result<Schedule, PlanError> {
        if !(self.rate > 0.0 && self.rate <= RATE_MAX) {
            return Err(PlanError::Rate(self.rate));
        }
        Ok(Schedule::new(self.rate, self.arrivals, self.seed)
            .with_queries(self.queries.len().max(1), self.order)
            .with_keys(self.protocol.keys, self.seed)
            .with_extent(self.warmup_ns, self.extent))
    }

    /// Looks for what cannot be run. [`run`](crate::run) does this first.
    ///
    /// # Errors
    ///
    /// [`PlanError`] names the first value that is out of range or cannot be sent.
    pub fn check(&self) -> Result<(), PlanError> {
        self.schedule()?;
        if matches!(self.extent, Extent::Duration { ns: 0 } | Extent::Requests(0)) {
            return Err(PlanError::Empty);
        }
        if let Extent::Duration { ns } = self.extent {
            let requests = self.rate * (ns as f64 / 1e9);
            if requests < 1.0 {
                return Err(PlanError::FewerThanOne { rate: self.rate, ns, requests });
            }
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return Err(PlanError::Connections(self.connections));
        }
        if !(1..=THREADS_MAX).contains(&self.threads) || self.threads > self.connections {
            let most = THREADS_MAX.min(self.connections);
            return Err(PlanError::Threads { threads: self.threads, most });
        }
        if !(1..=TIMEOUT_NS_MAX).contains(&self.timeout_ns) {
            return Err(PlanError::Timeout { ns: self.timeout_ns });
        }
        for (name, _) in &self.headers {
            if is_owned(name) {
                return Err(PlanError::HeaderOwned(name.clone()));
            }
        }
        crate::requests::check(self)
    }
}

/// True for the name of a header that the codec writes or leaves out by itself.
pub(crate) fn is_owned(name: &str) -> bool {
    OWNED.iter().any(|owned| owned.eq_ignore_ascii_case(name))
}

/// Reads a header of the form `name: value`, without white space around either.
///
/// # Errors
///
/// [`PlanError::HeaderSyntax`] without a colon or a name.
pub fn parse_header(text: &str) -> Result<(String, String), PlanError> {
    let (name, value) = text.split_once(':').unwrap_or_default();
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() {
        return Err(PlanError::HeaderSyntax(text.to_owned()));
    }
    Ok((name.to_owned(), value.to_owned()))
}
