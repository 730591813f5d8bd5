//! The second stage: the configuration as the program uses it.

use std::net::SocketAddr;
use std::time::Duration;

use curtail_kernel::{Limits, Policy};

use crate::cost::Cost;

pub use super::raw::{Cancel, LogFormat, LogLevel};

/// A configuration that makes sense.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where the proxy listens.
    pub listen: Listen,
    /// What it says about itself.
    pub log: Log,
    /// The services, at least one, in the order of the file.
    pub services: Vec<Service>,
    pub(super) warnings: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Config {
    /// What works but is probably not meant, one `FILE:LINE: VALUE: what; fix` each.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What an operator should know though nothing is wrong, for `--check`: one line each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Where the proxy listens, and how long it bears with slow clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// For clients. Port 0: any free one.
    pub http: SocketAddr,
    /// For metrics, status and health; `None`: nowhere. Port 0: any free one.
    pub admin: Option<SocketAddr>,
    /// Client connections at once, 1 to 1,000,000.
    pub max_connections: usize,
    /// From the first byte of a request to the end of its head.
    pub header_timeout: Duration,
    /// From the end of a head to the end of its body.
    pub body_timeout: Duration,
    /// Between two requests of a connection.
    pub idle_timeout: Duration,
    /// For one write to a client that does not read.
    pub write_timeout: Duration,
    /// Longest head of a request, in bytes, 256 to [`curtail_http1::HEAD_BYTES_MAX`].
    pub max_header_bytes: usize,
    /// How long SIGTERM waits for running requests; zero does not wait.
    pub drain: Duration,
}

/// What the proxy says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// For people or machines.
    pub format: LogFormat,
    /// The least important message that is written.
    pub level: LogLevel,
}

/// A replicated service.
///
/// A *server* is an address. It may be a replica of several shards of the service: it is then one
/// server with one set of slots that serves all of them, and those shards share a cell (see
/// [`Service::cells`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Unique among the services.
    pub name: String,
    /// How it picks replicas and hedges. Never one that is [`Policy::simulator_only`].
    pub policy: Policy,
    /// Queries that a replica serves at once, 1 to 65,535; 1 if not given.
    pub slots: u32,
    /// Queries that a replica may hold under a policy that pushes, 1 to 65,535.
    pub max_outstanding: u32,
    /// Whether a replica stops a query that is given up.
    pub cancel: Cancel,
    /// The whole request, queueing included.
    pub timeout: Duration,
    /// One copy without a response.
    pub attempt_timeout: Duration,
    /// A cancelled copy that stays silent; 100 ms or more.
    pub cancel_timeout: Duration,
    /// When replicas are ejected, and for how long.
    pub ejection: Ejection,
    /// How replicas are probed; `None`: not at all.
    pub health: Option<Health>,
    /// Waiting queries per shard.
    pub queue: u32,
    /// The requests that go here, at least one entry.
    pub routes: Vec<Route>,
    /// How a request names its shard; `None` only with a single shard.
    pub shard_by: Option<ShardBy>,
    /// Retries per query that arrives, 0 to 1.
    pub retry_budget: f64,
    /// Duplicates per query that arrives, 0 to 1; 1 is no limit.
    pub hedge_budget: f64,
    /// Queries that may be rescued in vain, per query that arrives, 0 to 1.
    pub rescue_budget: f64,
    /// The header, in lower case, whose value is what a request is expected to cost.
    pub cost_hint: Option<String>,
    /// Methods whose requests may be retried and duplicated.
    pub idempotent_methods: Vec<String>,
    /// Do good responses carry the server, the queue time and the number of copies?
    pub debug_headers: bool,
    /// Longest request body, in bytes.
    pub max_request_body: usize,
    /// The distinct addresses of all shards, in the order of the file. A *server index* points here.
    pub servers: Vec<SocketAddr>,
    /// The shards, at least one, in the order of the file.
    pub shards: Vec<Shard>,
}

impl Service {
    /// The bounds of the service's cells.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let default = Limits::default();
        Limits {
            max_outstanding: self.max_outstanding,
            queue: self.queue,
            timeout_ns: ns(self.timeout),
            attempt_timeout_ns: ns(self.attempt_timeout),
            cancel_timeout_ns: ns(self.cancel_timeout),
            cancel: self.cancel == Cancel::Reset,
            retry_budget: self.retry_budget,
            // Without a budget there is nothing to save up, nor to begin with.
            retry_reserve: if self.retry_budget > 0.0 { default.retry_reserve } else { 0 },
            hedge_budget: self.hedge_budget,
            hedge_burst: if self.hedge_budget > 0.0 { default.hedge_burst } else { 0 },
            rescue_budget: self.rescue_budget,
            eject_after: self.ejection.after,
            max_ejected: self.ejection.share,
            ejection_ns: ns(self.ejection.time),
            ejection_max_ns: ns(self.ejection.max_time),
            ..default
        }
    }

    /// How many copies the policy lets a server hold: its gate.
    #[must_use]
    pub fn gate(&self) -> u32 {
        let unnamed = if self.policy.pulls() { self.slots } else { self.max_outstanding };
        self.policy.bound().unwrap_or(unnamed)
    }
}

fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// When replicas are ejected, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ejection {
    /// Failures in a row; 0 never ejects.
    pub after: u32,
    /// The share of a shard's replicas that may be ejected, 0 to 1.
    pub share: f64,
    /// The least time of a first ejection.
    pub time: Duration,
    /// The longest least time.
    pub max_time: Duration,
}

/// How replicas are probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Begins with a slash; visible ASCII.
    pub path: String,
    /// Between two probes of a replica.
    pub interval: Duration,
    /// A probe without a response for so long has failed.
    pub timeout: Duration,
}

/// Requests that go to a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Whole segments at the start of the path, without a slash at the end: empty for `/`.
    pub path_prefix: String,
    /// Only this method.
    pub method: Option<String>,
    /// Whether its requests may be retried and duplicated; `None`: their method says.
    pub idempotent: Option<bool>,
    /// What its requests are expected to cost where they do not say it.
    pub cost: Option<Cost>,
}

/// How a request names its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardBy {
    /// The key is the shard's name.
    Name(Key),
    /// The shard is computed from the key, see [`crate::route`].
    Hash(Key),
}

/// Where in a request a key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The value of the header of this name, in lower case.
    Header(String),
    /// The value of the query parameter of this name, percent-decoded.
    Query(String),
    /// The segment of the path with this index, percent-decoded. 0 is the first after the leading
    /// slash: `b` is segment 1 of `/a/b`.
    PathSegment(usize),
}

/// A part of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Unique in the service.
    pub name: String,
    /// Its replicas, at least one, as indices into [`Service::servers`]; no index twice.
    pub replicas: Vec<usize>,
}
