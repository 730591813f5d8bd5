//! What a run does.

pub(crate) mod error;
pub(crate) mod keys;
pub(crate) mod profile;
pub(crate) mod protocol;
pub(crate) mod queries;
pub(crate) mod schedule;
pub(crate) mod share;
pub(crate) mod target;

use curtail_dist::arrivals::Arrivals;
use curtail_jitter::machine::Processors;
use curtail_kernel::duration::format;
use curtail_xdp::PAYLOAD_MAX;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde::{Deserializer, Serializer};

use crate::engine::stamp::{StampsBy, fits};
use crate::plan::error::PlanError;
use crate::plan::profile::Profile;
use crate::plan::protocol::Protocol;
use crate::plan::queries::QueryOrder;
use crate::plan::schedule::Schedule;
use crate::plan::target::{Scheme, Target};

/// The longest time-out, in nanoseconds: what the histograms hold.
pub const TIMEOUT_NS_MAX: u64 = 60_000_000_000;
const CONNECTIONS_MAX: usize = 1 << 16;
pub(crate) const THREADS_MAX: usize = 256;
/// Headers that the codec writes or leaves out by itself; passing one would have no effect.
const OWNED: [&str; 5] =
    ["connection", "keep-alive", "content-length", "transfer-encoding", "expect"];

/// What decides when requests are sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Pace {
    /// A schedule that is fixed beforehand: an open loop, as of users who do not know of each other.
    Open {
        /// The rate over time.
        profile: Profile,
        /// How requests are spread at that rate. The lengths of bursts are those at the first rate.
        #[serde(serialize_with = "serialize_arrivals", deserialize_with = "deserialize_arrivals")]
        arrivals: Arrivals,
    },
    /// Every connection sends its next request when it has the answer to the last one: a closed loop.
    /// It finds out how much a server can do. Its latencies are those of a service that never has more
    /// users than there are connections, and leave out what others would wait (coordinated omission).
    /// A connection that ended without an answer rests before it is tried again: 1 ms, twice as long after
    /// each further time in a row, and 100 ms at most.
    Closed,
}

impl Pace {
    /// Poisson arrivals at a steady rate per second.
    pub fn poisson(rate: f64) -> Pace {
        Pace::Open { profile: Profile::Steady(rate), arrivals: Arrivals::Poisson }
    }

    /// Equal gaps at a steady rate per second, the first request at once.
    pub fn constant(rate: f64) -> Pace {
        Pace::Open { profile: Profile::Steady(rate), arrivals: Arrivals::Constant }
    }
}

/// How sure the percentiles are to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Precision {
    /// Half of the 95 % confidence interval over the percentile, above 0 and below 1.
    pub relative: f64,
    /// Which percentiles, in thousandths, above 0 and below 1000.
    pub per_mille: Vec<u32>,
}

/// How much is measured, after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The server, and what to ask for if there are no [`queries`](Plan::queries).
    pub target: Target,
    /// When requests are sent.
    pub pace: Pace,
    /// How much is measured.
    pub extent: Extent,
    /// End before, as soon as the percentiles are so sure. A run that does not get there is invalid.
    pub until: Option<Precision>,
    /// Most connections at once, 1 to 65,536. Opened when first needed and kept open. The one with the
    /// fewest requests on it is used next, of several the one that comes first.
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
    /// Where the threads run: one processor for each thread, in their order; or none, and the system
    /// decides. [`Processors::reserve`] keeps others off them.
    pub processors: Processors,
    /// Who says when requests left and answers came ([`Report::stamps`](crate::Report::stamps)).
    pub stamps: StampsBy,
    /// Decides the schedule and the drawn queries; nothing else is random.
    pub seed: u64,
    /// What the protocol needs to know.
    pub protocol: Protocol,
}

impl Plan {
    /// A plan with the defaults: Poisson arrivals for 10 s, 64 connections, a backlog of 16,384,
    /// a time-out of 10 s, answers of up to 64 MiB, no warm-up, one thread that sleeps while it waits, seed 0.
    pub fn new(target: Target, rate: f64) -> Plan {
        Plan {
            target,
            pace: Pace::poisson(rate),
            extent: Extent::Duration { ns: 10_000_000_000 },
            until: None,
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
            processors: Processors::default(),
            stamps: StampsBy::User,
            seed: 0,
            protocol: Protocol::default(),
        }
    }

    /// The schedule of this plan: every call gives the same one. That of a closed loop has no times.
    pub fn schedule(&self) -> Result<Schedule, PlanError> {
        let schedule = match &self.pace {
            Pace::Open { profile, arrivals } => {
                profile.check()?;
                self.check_profile(profile)?;
                Schedule::new(profile.clone(), arrivals, self.seed)
            }
            Pace::Closed => Schedule::untimed(self.seed),
        };
        Ok(schedule
            .with_queries(self.queries.len().max(1), self.order)
            .with_keys(self.protocol.keys, self.seed)
            .with_extent(self.warmup_ns, self.extent))
    }

    fn check_profile(&self, profile: &Profile) -> Result<(), PlanError> {
        let refuse = |what: &str| Err(PlanError::Value(what.to_owned()));
        let own = format(profile.own_ns().unwrap_or(0));
        let steps = format!("the steps of the rate take {own} in all; leave the duration to them");
        match (profile, self.extent) {
            (Profile::Ramp { .. }, Extent::Requests(_)) => {
                refuse("a ramp takes a duration, not a number of requests")
            }
            (Profile::Steps(_), Extent::Requests(_)) => refuse(&steps),
            (Profile::Steps(_), Extent::Duration { ns }) if profile.own_ns() != Some(ns) => {
                refuse(&steps)
            }
            _ => Ok(()),
        }
    }

    /// Looks for what cannot be run. [`run`](crate::run) does this first.
    pub fn check(&self) -> Result<(), PlanError> {
        let refuse = |what: String| Err(PlanError::Value(what));
        self.schedule()?;
        if matches!(self.extent, Extent::Duration { ns: 0 } | Extent::Requests(0)) {
            let what =
                "the duration, or the number of requests, is zero; nothing would be measured";
            return refuse(what.to_owned());
        }
        if let (Extent::Duration { ns }, Pace::Open { profile, .. }) = (self.extent, &self.pace) {
            let rate = profile.mean(ns);
            let requests = rate * (ns as f64 / 1e9);
            if requests < 1.0 {
                // To three digits.
                let requests: f64 = format!("{requests:.2e}").parse().unwrap_or(requests);
                return Err(PlanError::FewerThanOne(format!(
                    "rate {rate:?} × duration {} is {requests:?} requests, fewer than one; use a higher rate \
                     or a longer duration",
                    format(ns)
                )));
            }
        }
        if let Some(Precision { relative, per_mille }) = &self.until
            && !(*relative > 0.0
                && *relative < 1.0
                && !per_mille.is_empty()
                && per_mille.iter().all(|per_mille| (1..1_000).contains(per_mille)))
        {
            let what =
                "a precision is above 0 % and below 100 %, of percentiles above 0 and below 100";
            return refuse(what.to_owned());
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return refuse(format!("{} connections; use 1 to 65536", self.connections));
        }
        if !(1..=THREADS_MAX).contains(&self.threads) || self.threads > self.connections {
            let most = THREADS_MAX.min(self.connections);
            let threads = self.threads;
            return refuse(format!(
                "{threads} threads; use 1 to {most}: each has a connection at least"
            ));
        }
        let processors = self.processors.numbers().len();
        if processors != 0 && processors != self.threads {
            let threads = self.threads;
            return refuse(format!(
                "threads: {threads}, processors: {processors}; name one processor for each thread"
            ));
        }
        if !(1..=TIMEOUT_NS_MAX).contains(&self.timeout_ns) {
            let time = format(self.timeout_ns);
            return refuse(format!("--timeout {time}: use more than zero and at most 60s"));
        }
        if self.stamps == StampsBy::Xdp {
            let (scheme, connections) = (self.target.scheme(), self.connections);
            if scheme != Scheme::Udp {
                return refuse(format!(
                    "past the network stack (AF_XDP) goes UDP alone, and not {scheme}://; write \
                     udp://HOST:PORT, or leave out --stamps xdp"
                ));
            }
            if connections != 1 {
                return refuse(format!(
                    "past the network stack (AF_XDP) there is one connection, on which many requests are \
                     under way at once; leave out --connections (here: {connections})"
                ));
            }
            fits(self, PAYLOAD_MAX)?;
        }
        self.check_headers()?;
        crate::session::requests::check(self)
    }

    fn check_headers(&self) -> Result<(), PlanError> {
        let refuse = |what: String| Err(PlanError::Value(what));
        let scheme = self.target.scheme();
        if !(self.headers.is_empty() || scheme.is_http() || scheme.is_grpc()) {
            return refuse(format!(
                "{scheme}:// has no use for headers; leave them out, or use http://, https://, grpc:// or \
                 grpcs://"
            ));
        }
        for (name, _) in &self.headers {
            if is_owned(name) {
                return refuse(format!(
                    "header `{name}` is written by the load generator itself; leave it out"
                ));
            }
        }
        Ok(())
    }
}

pub(crate) fn is_owned(name: &str) -> bool {
    OWNED.iter().any(|owned| owned.eq_ignore_ascii_case(name))
}

/// Reads a header of the form `name: value`, without white space around either.
pub fn parse_header(text: &str) -> Result<(String, String), PlanError> {
    let (name, value) = text.split_once(':').unwrap_or_default();
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() {
        return Err(PlanError::Value(format!(
            "header `{text}` is not `name: value`; write it as 'accept: text/plain'"
        )));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Of a burst without a unit in its text; no plan has one.
const UNIT_NS: f64 = 1e6;

/// An arrival process in a plan that is sent. A trace comes with its gaps, because its file is on the machine
/// where the plan was made: nothing here opens a file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Process {
    Text(String),
    Trace { name: String, gaps: Vec<f64>, mean_ns: Option<f64> },
}

fn serialize_arrivals<S: Serializer>(of: &Arrivals, to: S) -> Result<S::Ok, S::Error> {
    let process = match of {
        Arrivals::Trace { path, gaps, mean_ns } => Process::Trace {
            name: path.display().to_string(),
            gaps: gaps.to_vec(),
            mean_ns: *mean_ns,
        },
        other => Process::Text(other.to_string()),
    };
    process.serialize(to)
}

fn deserialize_arrivals<'de, D: Deserializer<'de>>(from: D) -> Result<Arrivals, D::Error> {
    match Process::deserialize(from)? {
        Process::Text(text) if text.starts_with("trace") => {
            Err(D::Error::custom(format!("arrivals `{text}`: the gaps of a trace are missing")))
        }
        Process::Text(text) => Arrivals::parse(&text, UNIT_NS).map_err(D::Error::custom),
        Process::Trace { name, gaps, mean_ns } => {
            let time = |gap: &f64| gap.is_finite() && *gap >= 0.0;
            // With no time in it a schedule would never get anywhere.
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            if gaps.iter().all(time) && mean >= 0.5 {
                return Ok(Arrivals::Trace { path: name.into(), gaps: gaps.into(), mean_ns });
            }
            Err(D::Error::custom(format!("trace {name}: its gaps have no mean of 1")))
        }
    }
}
