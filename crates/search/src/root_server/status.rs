//! `GET /status`: services → shards → servers, as in the proxy's.

use std::net::SocketAddr;

use curtail_kernel::hedge::Learner;
use curtail_kernel::{GroupId, NEVER_NS, ServerId};
use curtail_runtime::http::Http;
use curtail_runtime::{Cell, Learning};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Status<'a> {
    services: [ServiceStatus<'a>; 1],
}

#[derive(Debug, Serialize)]
struct ServiceStatus<'a> {
    name: &'static str,
    policy: &'a str,
    /// With a policy that learns.
    #[serde(skip_serializing_if = "Option::is_none")]
    learned: Option<LearnedStatus>,
    shards: Vec<ShardStatus>,
}

#[derive(Debug, Serialize)]
struct LearnedStatus {
    /// The age from which on a query is a suspect; null as long as rescues are not known to pay.
    suspect_ns: Option<u64>,
    /// The share of queries that are stuck at that age.
    stuck: f32,
    rescues_won: u64,
    rescues_lost: u64,
    explorations_won: u64,
    explorations_lost: u64,
    /// How often rescues were found not to pay any more.
    fallbacks: u64,
}

#[derive(Debug, Serialize)]
struct ShardStatus {
    name: String,
    /// Queries without a first copy.
    queue: u32,
    servers: Vec<ServerStatus>,
}

#[derive(Debug, Serialize)]
struct ServerStatus {
    address: SocketAddr,
    up: bool,
    slots: u32,
    /// Copies that it holds.
    busy: u32,
}

impl<'a> Status<'a> {
    pub(super) fn of(policy: &'a str, cells: &[Cell<Http>], learning: Option<&Learning>) -> Self {
        let shards = cells.iter().enumerate().map(|(shard, cell)| ShardStatus::of(shard, cell));
        let learned = learning.map(|learning| learning.look(LearnedStatus::of));
        let shards = shards.collect();
        Self { services: [ServiceStatus { name: "search", policy, learned, shards }] }
    }
}

impl LearnedStatus {
    fn of(learner: &Learner) -> Self {
        let status = learner.status();
        let suspect_ns = learner.snapshot().suspect_ns;
        Self {
            suspect_ns: (suspect_ns != NEVER_NS).then_some(suspect_ns),
            stuck: status.stuck,
            rescues_won: status.won,
            rescues_lost: status.lost,
            explorations_won: status.explored_won,
            explorations_lost: status.explored_lost,
            fallbacks: status.fallbacks,
        }
    }
}

impl ShardStatus {
    fn of(shard: usize, cell: &Cell<Http>) -> Self {
        let (queue, views) = cell.look(|core| {
            let servers = (0..).take(core.server_count()).map(ServerId);
            let views: Vec<_> = servers.map(|server| (server, core.server(server))).collect();
            (core.waiting(GroupId(0)), views)
        });
        let server = |(server, view): (ServerId, curtail_kernel::ServerView)| ServerStatus {
            address: cell.transport().pool(server).address(),
            up: view.up,
            slots: view.slots,
            busy: view.outstanding,
        };
        Self { name: shard.to_string(), queue, servers: views.into_iter().map(server).collect() }
    }
}
