//! The plan of a run: what to send, when, and where.

pub(crate) mod error;
pub(crate) mod profile;
pub(crate) mod protocol;
pub(crate) mod schedule;
pub(crate) mod target;

use curtail_dist::arrivals::Arrivals;
use curtail_kernel::duration::format;
use curtail_machine::Processors;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::plan::error::{PlanError, refuse};
use crate::plan::profile::Profile;
use crate::plan::protocol::Protocol;
use crate::plan::schedule::{Extent, QueryOrder, Schedule};
use crate::plan::target::Target;

/// The longest timeout, in nanoseconds: the range of the histograms.
pub const TIMEOUT_NS_MAX: u64 = 60_000_000_000;

/// When requests are sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Pace {
    /// An open loop: a schedule that is fixed beforehand, because independent users do not wait for
    /// each other's responses.
    Open {
        /// The rate over time.
        profile: Profile,
        /// How requests are spread at that rate. Burst lengths refer to the first rate.
        #[serde(serialize_with = "serialize_arrivals", deserialize_with = "deserialize_arrivals")]
        arrivals: Arrivals,
    },
    /// A closed loop: each connection sends its next request when it has received the response to
    /// the previous one. This finds a server's capacity. It measures the latencies of a service
    /// that never has more users than there are connections. The time that additional users would
    /// have to wait is not included (coordinated omission). A connection that closed without a
    /// response backs off before it is reopened. The backoff is 1 ms at first and doubles after
    /// each further failure in a row, up to 100 ms.
    Closed,
}

impl Pace {
    /// Poisson arrivals at a steady rate per second.
    pub fn poisson(rate: f64) -> Pace {
        Pace::Open { profile: Profile::Steady(rate), arrivals: Arrivals::Poisson }
    }

    /// Equal gaps at a steady rate per second; the first request is sent immediately.
    pub fn constant(rate: f64) -> Pace {
        Pace::Open { profile: Profile::Steady(rate), arrivals: Arrivals::Constant }
    }
}

/// The source of the timestamps for requests and responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StampsBy {
    /// This program: latencies include the network stack of this machine and the program's wake-up.
    #[default]
    User,
    /// The kernel, with software timestamps (`SO_TIMESTAMPING`). The time in the network stack is
    /// then reported separately.
    Kernel,
    /// The network device, with its own clock (PHC). Its timestamps are the closest to the wire.
    /// The device must be able to timestamp all packets; configuring it requires `CAP_NET_ADMIN`.
    Hardware,
    /// This program, bypassing the stack (AF_XDP). Works only for UDP over IPv4, with one
    /// connection to a server on another machine, and with the required privileges.
    Xdp,
}

/// How precise the percentiles must be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Precision {
    /// Maximum half width of the 95 % confidence interval, divided by the percentile. Must be above
    /// 0 and below 1.
    pub relative: f64,
    /// The percentiles, in thousandths, above 0 and below 1000.
    pub per_mille: Vec<u32>,
}

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The server, and the request to send if there are no [`queries`](Plan::queries).
    pub target: Target,
    /// When requests are sent.
    pub pace: Pace,
    /// When the measurement ends.
    pub extent: Extent,
    /// Stop early once the percentiles are this precise. A run that does not reach the precision is
    /// invalid.
    pub until: Option<Precision>,
    /// Maximum number of concurrent connections, 1 to 65,536. Each is opened on first use and kept
    /// open. A request is sent on the connection with the fewest outstanding requests, or on the
    /// first of these connections if there are several.
    pub connections: usize,
    /// Maximum number of requests that wait for a connection when all are busy. The wait is part of
    /// the latency. Further requests are dropped, which makes the run invalid.
    pub backlog: usize,
    /// Headers of every HTTP and gRPC request, as name-value pairs. `Host` is added unless it is in
    /// the list.
    pub headers: Vec<(String, String)>,
    /// Requests in the format of [`read_queries_for`](crate::read_queries_for); for HTTP, request
    /// targets such as `/search?q=tail`. If empty, the run requests the target's own path, or sends
    /// [`Protocol::data`].
    pub queries: Vec<String>,
    /// The order in which queries are sent.
    pub order: QueryOrder,
    /// How long after its intended time a request times out, in nanoseconds: above zero, at most
    /// [`TIMEOUT_NS_MAX`]. Accurate to about a millisecond.
    pub timeout_ns: u64,
    /// Maximum length of a response body, in bytes. A longer body fails its request.
    pub body_bytes_max: u64,
    /// Duration of the warm-up in nanoseconds. Requests are sent but not measured until it ends.
    pub warmup_ns: u64,
    /// Number of sender threads, 1 to 256. They share the requests, connections and backlog.
    pub threads: usize,
    /// Whether threads poll instead of sleeping. They then see responses a few tens of microseconds
    /// sooner, but each occupies a processor.
    pub spin: bool,
    /// The processors on which the threads run: one per thread, in order. If empty, the system
    /// decides. [`Processors::reserve`] keeps other threads off these processors.
    pub processors: Processors,
    /// The source of send and receive timestamps ([`Report::stamps`](crate::Report::stamps)).
    pub stamps: StampsBy,
    /// Seeds the schedule and the drawn queries; nothing else is random.
    pub seed: u64,
    /// Protocol settings.
    pub protocol: Protocol,
}

impl Plan {
    /// Creates a plan with the defaults: Poisson arrivals for 10 s, 64 connections, a backlog of
    /// 16,384, a timeout of 10 s, response bodies of up to 64 MiB, no warm-up, one thread that
    /// sleeps while it waits, seed 0.
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

    /// Returns the schedule of this plan, which is the same on every call. The schedule of a closed
    /// loop contains no times.
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
            .with_keys(self.protocol.keys)
            .with_extent(self.warmup_ns, self.extent))
    }

    fn check_profile(&self, profile: &Profile) -> Result<(), PlanError> {
        let own = format(profile.own_ns().unwrap_or(0));
        let steps = format!(
            "the steps of the rate take {own} in all; leave out the duration and \
             the number of requests"
        );
        match (profile, self.extent) {
            (Profile::Ramp { .. }, Extent::Requests(_)) => {
                refuse("a ramp needs a duration, not a number of requests")
            }
            (Profile::Steps(_), Extent::Requests(_)) => refuse(steps),
            (Profile::Steps(_), Extent::Duration { ns }) if profile.own_ns() != Some(ns) => {
                refuse(steps)
            }
            _ => Ok(()),
        }
    }
}

/// Parses a header of the form `name: value` and trims both parts.
pub fn parse_header(text: &str) -> Result<(String, String), PlanError> {
    let (name, value) = text.split_once(':').unwrap_or_default();
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() {
        return refuse(format!(
            "header `{text}` is not `name: value`; write it as 'accept: text/plain'"
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// The unit of a burst length that is written without a unit. No plan contains such a burst, so its
/// value is never used.
const UNIT_NS: f64 = 1e6;

/// An arrival process in a serialized plan. The serialized form of a trace includes its gaps,
/// because the trace file exists only on the machine where the plan was made. Deserializing never
/// opens a file.
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
            // A schedule whose gaps are all zero would never advance.
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            if gaps.iter().all(time) && mean >= 0.5 {
                return Ok(Arrivals::Trace { path: name.into(), gaps: gaps.into(), mean_ns });
            }
            Err(D::Error::custom(format!("trace {name}: the mean of its gaps must be 1")))
        }
    }
}
