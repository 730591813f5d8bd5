//! The second stage: the configuration as the program uses it. Where nothing else is said, a field
//! means what the key of its name in [`super::raw`] does.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use curtail_flow::metadata::MemberKey;
use curtail_flow::{Discipline, WorkflowSpec};
use curtail_http1 as http1;
use curtail_kernel::{Limits, OutcomeTable, Policy};
use curtail_runtime::http::{Health, Settings};
use ipnet::IpNet;

use crate::cost::Cost;

pub(crate) use super::raw::{Cancel, FlowRole};
pub use super::raw::{LogFormat, LogLevel};

/// A configuration that makes sense.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub(crate) listen: Listen,
    /// What the proxy says about itself.
    pub log: Log,
    pub(crate) flow: Option<Flow>,
    /// At least one, in the order of the file.
    pub(crate) services: Vec<Service>,
    pub(super) warnings: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Config {
    /// What works but is probably not meant, one `FILE:LINE: VALUE: what; fix` each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What an operator should know though nothing is wrong: one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How much there is of what.
    pub fn summary(&self) -> String {
        let shards: usize = self.services.iter().map(|service| service.shards.len()).sum();
        let servers: usize = self.services.iter().map(|service| service.servers.len()).sum();
        format!("{} service(s), {shards} shard(s), {servers} server(s)", self.services.len())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) http: SocketAddr,
    /// `None`: nowhere.
    pub(crate) admin: Option<SocketAddr>,
    /// Where the file says `http` and `admin`, as `FILE:LINE`; `None`: they are the defaults.
    pub(crate) places: [Option<String>; 2],
    pub(crate) max_connections: usize,
    pub(crate) limits: http1::Limits,
    pub(crate) timeouts: http1::Timeouts,
    /// Zero does not wait.
    pub(crate) drain: Duration,
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
pub(crate) struct Service {
    /// Unique among the services.
    pub(crate) name: String,
    /// Never one that is [`Policy::simulator_only`].
    pub(crate) policy: Policy,
    pub(crate) slots: u32,
    pub(crate) cancel: Cancel,
    pub(crate) timeout: Duration,
    /// The bounds of the service's cells.
    pub(crate) limits: Limits,
    /// The bounds of the connections to its replicas.
    pub(crate) settings: Settings,
    /// What the responses of its replicas are worth.
    pub(crate) outcomes: OutcomeTable,
    /// Without a path its servers are only looked at when they are down.
    pub(crate) health: Health,
    /// At least one.
    pub(crate) routes: Vec<Route>,
    /// `None` only with a single shard.
    pub(crate) shard_by: Option<ShardBy>,
    /// In lower case.
    pub(crate) cost_hint: Option<String>,
    pub(crate) idempotent_methods: Vec<String>,
    pub(crate) debug_headers: bool,
    pub(crate) max_request_body: usize,
    /// Where replicas answer probes, with a policy that sends them.
    pub(crate) probe: Option<String>,
    /// A stage before the replica, which cannot have one itself.
    pub(crate) throttle: Option<Throttle>,
    /// Only where [`Config::flow`] is there, and names its service.
    pub(crate) flow: Option<FlowRole>,
    pub(crate) listen: Option<SocketAddr>,
    /// The distinct addresses of all shards, in the order of the file. A *server index* points here.
    pub(crate) servers: Vec<SocketAddr>,
    /// At least one, in the order of the file.
    pub(crate) shards: Vec<Shard>,
}

impl Service {
    /// How many copies the policy lets a server hold: its gate.
    pub(crate) fn gate(&self) -> u32 {
        let unnamed = if self.policy.pulls() { self.slots } else { self.limits.max_outstanding };
        self.policy.bound().unwrap_or(unnamed)
    }
}

/// The process that this proxy is the sidecar of, or where none of the services has a role in it, only whether clients
/// are trusted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flow {
    pub(crate) service: String,
    pub(crate) discipline: Discipline,
    pub(crate) interval: Duration,
    /// The networks whose requests may bring metadata: none at a trust edge.
    pub(crate) trusts: Vec<IpNet>,
    pub(crate) key: Option<MemberKey>,
    pub(crate) workflow_by: Option<Key>,
    pub(crate) workflows: Vec<(String, WorkflowSpec)>,
}

impl Flow {
    /// May requests from an address bring metadata?
    pub(crate) fn trusts(&self, peer: Option<IpAddr>) -> bool {
        peer.is_some_and(|peer| self.trusts.iter().any(|network| network.contains(&peer)))
    }
}

/// How many requests a replica gets at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Throttle {
    /// As many as it needs to do as much as it can.
    Auto,
    Slots(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Whole segments at the start of the path, without a slash at the end: empty for `/`.
    pub(crate) path_prefix: String,
    pub(crate) method: Option<String>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) cost: Option<Cost>,
}

/// How a request names its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShardBy {
    /// The key is the shard's name.
    Name(Key),
    /// The shard is computed from the key, see [`crate::route`].
    Hash(Key),
}

/// Where in a request a key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// In lower case.
    Header(String),
    Query(String),
    /// 0 is the first after the leading slash: `b` is segment 1 of `/a/b`.
    PathSegment(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// Unique in the service.
    pub(crate) name: String,
    /// At least one, as indices into [`Service::servers`]; no index twice.
    pub(crate) replicas: Vec<usize>,
}
