//! The second stage: the configuration as the program uses it. Unless documented otherwise, a field
//! has the meaning of the key with the same name in [`super::raw`].

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use curtail_flow::metadata::MemberKey;
use curtail_flow::{Discipline, WorkflowSpec};
use curtail_http::h1;
use curtail_kernel::{Limits, OutcomeTable, Policy};
use curtail_net::{Address, ClientTlsSpec, ServerTlsSpec};
use curtail_runtime::http::{Commit, Health, Protocol, Settings};
use ipnet::IpNet;

use crate::cost::Cost;

pub(crate) use super::raw::{Cancel, FlowRole};
pub use super::raw::{LogFormat, LogLevel};
use super::tunnels::Tunnels;

/// A valid configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub(crate) listen: Listen,
    /// Format and level of the log.
    pub log: Log,
    pub(crate) flow: Option<Flow>,
    /// A non-empty list, in file order.
    pub(crate) services: Vec<Service>,
    pub(super) warnings: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Config {
    /// Returns the settings that work but are probably not intended, each as `FILE:LINE: VALUE:
    /// what is wrong; the fix`.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns facts that an operator should be aware of although nothing is wrong, one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the number of threads that serve connections.
    pub fn workers(&self) -> usize {
        self.listen.workers
    }

    /// Returns the path of the Unix socket for clients, if there is one.
    pub fn unix(&self) -> Option<&Path> {
        self.listen.unix.as_deref()
    }

    /// Returns the numbers of services, shards and servers, as text.
    pub fn summary(&self) -> String {
        let shards: usize = self.services.iter().map(|service| service.shards.len()).sum();
        let servers: usize = self.services.iter().map(|service| service.servers.len()).sum();
        format!("{} service(s), {shards} shard(s), {servers} server(s)", self.services.len())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) http: SocketAddr,
    /// The Unix socket for clients.
    pub(crate) unix: Option<PathBuf>,
    /// The address for clients that use TLS, and the settings of TLS.
    pub(crate) https: Option<(SocketAddr, ServerTlsSpec)>,
    pub(crate) proxy_protocol: bool,
    pub(crate) request_id: bool,
    pub(crate) normalize_path: bool,
    /// The address for operators, or `None` if there is no admin listener.
    pub(crate) admin: Option<SocketAddr>,
    /// `FILE:LINE` of the keys `http`, `admin` and `https`. An entry is `None` if its key is left
    /// out.
    pub(crate) places: [Option<String>; 3],
    pub(crate) max_connections: usize,
    pub(crate) workers: usize,
    /// Maximum number of bytes in buffers for bodies.
    pub(crate) max_buffered: usize,
    pub(crate) limits: h1::Limits,
    pub(crate) timeouts: h1::Timeouts,
    /// Time limit for running requests after SIGTERM. If it is zero, the proxy does not wait for
    /// them.
    pub(crate) drain: Duration,
}

/// Format and level of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// The format of the log: human-readable text, or JSON.
    pub format: LogFormat,
    /// The lowest level that is logged.
    pub level: LogLevel,
}

/// A replicated service.
///
/// A *server* is an address. It may be a replica of several shards of the service. The shards then
/// share one server with one set of slots, and belong to the same cell (see [`Service::cells`]).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Service {
    /// The name, which is unique among the services.
    pub(crate) name: String,
    /// The policy, which is never a [`Policy::simulator_only`] policy.
    pub(crate) policy: Policy,
    /// `None` if the file has no `slots`. Policies that pull need it.
    pub(crate) slots: Option<u32>,
    pub(crate) cancel: Cancel,
    pub(crate) timeout: Duration,
    /// Limits of the service's cells.
    pub(crate) limits: Limits,
    /// Settings of the connections to the replicas.
    pub(crate) settings: Settings,
    /// The version of HTTP that the replicas get.
    pub(crate) protocol: Protocol,
    /// TLS towards the replicas, or `None` for plain connections.
    pub(crate) tls: Option<ClientTlsSpec>,
    /// Outcomes of the replicas' responses.
    pub(crate) outcomes: OutcomeTable,
    /// Settings of the health probes. If there is no path, only servers that are down are probed.
    pub(crate) health: Health,
    /// A non-empty list of routes.
    pub(crate) routes: Vec<Route>,
    /// How a request selects its shard, or `None` if there is only one shard.
    pub(crate) shard_by: Option<ShardBy>,
    /// Name of a header, in lower case.
    pub(crate) cost_hint: Option<String>,
    pub(crate) idempotent_methods: Vec<String>,
    pub(crate) debug_headers: bool,
    /// [`Listen::request_id`], which is the same for all services.
    pub(crate) request_id: bool,
    pub(crate) max_request_body: usize,
    pub(crate) replay_bytes: u64,
    pub(crate) tunnels: Tunnels,
    /// Path of the load probes, if the policy sends them.
    pub(crate) probe: Option<String>,
    /// The stage in front of the replica. It is for replicas that cannot run a stage themselves.
    pub(crate) throttle: Option<Throttle>,
    /// The role of the service. It is present only if [`Config::flow`] is present and names a
    /// service.
    pub(crate) flow: Option<FlowRole>,
    pub(crate) listen: Option<SocketAddr>,
    /// The distinct addresses of all shards, in file order. A *server index* is an index into this
    /// list.
    pub(crate) servers: Vec<Address>,
    /// A non-empty list, in file order.
    pub(crate) shards: Vec<Shard>,
}

impl Service {
    /// Returns the policy's gate: the number of copies that a server may hold.
    pub(crate) fn gate(&self) -> u32 {
        let pulls = self.policy.pulls();
        let unnamed = if pulls { self.slots_or_one() } else { self.limits.max_outstanding };
        self.policy.bound().unwrap_or(unnamed)
    }

    /// Returns the number of slots. Policies that ignore the slots get one slot.
    pub(crate) fn slots_or_one(&self) -> u32 {
        self.slots.unwrap_or(1)
    }
}

/// The process for which this proxy is the sidecar. Only `trusts` is used if no service has a role.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flow {
    pub(crate) service: String,
    pub(crate) discipline: Discipline,
    pub(crate) interval: Duration,
    /// Networks whose requests may carry metadata. The list is empty at a trust edge.
    pub(crate) trusts: Vec<IpNet>,
    pub(crate) key: Option<MemberKey>,
    pub(crate) workflow_by: Option<Key>,
    pub(crate) workflows: Vec<(String, WorkflowSpec)>,
}

impl Flow {
    /// Returns whether requests from an address may carry metadata.
    pub(crate) fn trusts(&self, peer: Option<IpAddr>) -> bool {
        peer.is_some_and(|peer| self.trusts.iter().any(|network| network.contains(&peer)))
    }
}

/// The number of concurrent requests at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Throttle {
    /// The smallest number at which the replica reaches its full throughput.
    Auto,
    Slots(u32),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    /// Whole segments at the start of the path, without a trailing slash. Empty for `/`.
    pub(crate) path_prefix: String,
    pub(crate) method: Option<String>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) commit: Commit,
    pub(crate) tunnel: bool,
    pub(crate) cost: Option<Cost>,
}

impl Route {
    /// Returns whether requests on this route may run twice.
    pub(super) fn may_repeat(&self, idempotent_methods: &[String]) -> bool {
        let by_method = || match &self.method {
            Some(method) => idempotent_methods.contains(method),
            None => !idempotent_methods.is_empty(),
        };
        self.idempotent.unwrap_or_else(by_method)
    }
}

/// How a request selects its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShardBy {
    /// The key is the shard's name.
    Name(Key),
    /// The shard is computed from the key (see [`crate::route`]).
    Hash(Key),
}

/// The part of a request that contains a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Name of a header, in lower case.
    Header(String),
    Query(String),
    /// Segments are numbered from 0, and the first one follows the leading slash: `b` is segment 1
    /// of `/a/b`.
    PathSegment(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// The name, which is unique within the service.
    pub(crate) name: String,
    /// A non-empty list of indices into [`Service::servers`], without duplicates.
    pub(crate) replicas: Vec<usize>,
}
