//! The root server, which sends a query to one or two replicas of every shard and merges the
//! results.
//!
//! - `GET /search?q=QUERY&k=N` returns a [`RootResponse`] as JSON. `k` is from 1 to 1000, and
//!   defaults to 10. If not all shards respond, the client gets 503 with a [`ShardError`]. There
//!   are no partial results.
//! - `GET /health` returns 200 immediately.
//! - `GET /status` returns the shards with their servers and what the policy has learned, with the
//!   same fields as the proxy's `/status`.
//!
//! The root has one [`Cell`] per shard. The kernel thus decides which replica gets a query, when a
//! second replica also gets it, and which queries wait. There is no proxy between the root and the
//! leaves. The leaves get the path, the query string and the header `x-curtail-query` of a request
//! unchanged.
//!
//! Responses have two additional headers. `x-curtail-copies` is the number of copies started for
//! all shards together. `x-curtail-queued-us` is the longest time that a query waited for its first
//! copy in any shard, in µs. The header `server-timing` has the times of each shard: see
//! [`ShardTiming`].
//!
//! A client that disconnects abandons its queries. Every leaf is probed on `/health` every 250 ms,
//! with a timeout of 500 ms. One refused connection or two consecutive failures take a leaf down,
//! and one success restores it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use curtail_kernel::{ConfigError, Core, Limits, Policy, ServerId, Topology};
use curtail_runtime::http::{Health, Http, Probe, Settings, watch};
use curtail_runtime::{Cell, ServiceBuilder, Timers};
use tokio::task::JoinSet;
use tokio::time::sleep;

use service::RootService;

use crate::serve::{BindError, Server};

mod fan_out;
mod service;
mod timing;

pub use fan_out::{RootResponse, ShardError};
pub use timing::ShardTiming;

/// Results of up to this many bytes are read completely before they count as responses. A leaf that
/// stalls in the middle of such a result thus does not count as having responded. Few results reach
/// even a tenth of this size.
const WHOLE_BYTES: u64 = 1 << 20;

/// Creates the cells of a root and binds its address. The leaves need not be running yet.
pub async fn bind(config: RootConfig) -> Result<Server, RootServerError> {
    if config.shards.is_empty() {
        return Err(RootServerError::NoShards);
    }
    let timers = Timers::precise();
    let mut cells = ServiceBuilder::new(config.policy, config.limits, timers, config.seed);
    let priorities = config.policy.has_priorities();
    let settings = Settings { whole_bytes: WHOLE_BYTES, priorities, ..Settings::default() };
    for (shard, replicas) in (0..).zip(&config.shards) {
        let count = u32::try_from(replicas.len()).unwrap_or(u32::MAX);
        let transport = Http::new(replicas.iter().copied(), settings);
        cells
            .add(&Topology::replicated(count, config.slots), transport, ())
            .map_err(|source| RootServerError::Shard { shard, source })?;
    }
    let cells = Arc::new(cells.start());
    let service = RootService::new(&config, Arc::clone(&cells));
    let background = move || probe(cells.cells());
    Ok(Server::bind(config.listen, |at| config.announce(at), service, background).await?)
}

/// Starts a prober for each leaf.
fn probe(cells: &[Cell<Http>]) -> JoinSet<()> {
    let health = Health { probe: Probe::Get("/health".to_owned()), ..Health::default() };
    let servers = cells.iter().flat_map(|cell| {
        let count = cell.look(Core::server_count);
        (0..).take(count).map(move |server| (cell.clone(), ServerId(server)))
    });
    let servers: Vec<_> = servers.collect();
    let count = u32::try_from(servers.len()).unwrap_or(u32::MAX).max(1);
    let step = health.interval / count;
    let mut probers = JoinSet::new();
    for (at, (cell, server)) in (0..).zip(servers) {
        let (health, offset): (_, Duration) = (health.clone(), step * at);
        probers.spawn(async move {
            // Probes are spread over the interval. If all probes were sent at the same time, they
            // would cause a hiccup.
            sleep(offset).await;
            watch(cell, server, health).await;
        });
    }
    probers
}

/// The configuration of a root.
#[derive(Debug, Clone)]
pub struct RootConfig {
    /// The address to listen on. Port 0 selects a free port, which [`address`](Server::address) returns.
    pub listen: SocketAddr,
    /// The replicas of each shard.
    pub shards: Vec<Vec<SocketAddr>>,
    /// The policy of every shard.
    pub policy: Policy,
    /// Limits on the queue, the timeouts and the retries of every shard.
    pub limits: Limits,
    /// The number of queries that a leaf serves concurrently (the `slots` of the leaves).
    pub slots: u32,
    /// The seed of the random choices that break ties.
    pub seed: u64,
}

/// The reason why a root did not start.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootServerError {
    #[error("there are no shards; add at least one, with at least one replica")]
    NoShards,
    #[error("shard {shard}: {source}")]
    Shard { shard: u32, source: ConfigError },
    #[error(transparent)]
    Bind(#[from] BindError),
}

impl RootConfig {
    /// Returns a one-line description of what the root does.
    fn announce(&self, address: SocketAddr) -> String {
        let Self { policy, slots, shards, .. } = self;
        let (leaves, shards) = (shards.iter().map(Vec::len).sum::<usize>(), shards.len());
        format!(
            "root on http://{address}: {leaves} leaves of {slots} slots in {shards} shards, policy \
             {policy}"
        )
    }
}
