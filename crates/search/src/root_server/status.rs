//! `GET /status`: services → shards → servers, as in the proxy's.

use std::net::SocketAddr;

use curtail_kernel::{GroupId, ServerId};
use curtail_runtime::http::Http;
use curtail_runtime::{Cell, Learned, Learning};
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
    learned: Option<Learned>,
    shards: Vec<ShardStatus>,
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
        let learned = learning.map(Learning::learned);
        let shards = shards.collect();
        Self { services: [ServiceStatus { name: "search", policy, learned, shards }] }
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
