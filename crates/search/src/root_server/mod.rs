//! The root as a server: it asks one replica of every shard, or two, and merges their answers.
//!
//! - `GET /search?q=QUERY&k=N` answers [`RootAnswer`] in JSON. `k` is 1 to 1000, 10 if absent.
//!   Either all shards answered or the client gets 503 with [`ShardError`]: nothing is served in
//!   part.
//! - `GET /health` answers 200 at once.
//! - `GET /status` answers the shards with their servers, and what the policy has learned, in the words
//!   of the proxy's `/status`.
//!
//! The root holds one [`Cell`] per shard, so the kernel decides which replica gets a query, when a
//! second one does, and what waits: there is no proxy between root and leaves. Path, query string
//! and the header `x-curtail-query` of a request go to the leaves as they came.
//!
//! Answers carry `x-curtail-copies`, the copies started for all shards together, and
//! `x-curtail-queued-us`, how long the shard that waited longest waited for its first copy, in µs.
//! Where the time of each shard went is in `server-timing`: see [`ShardTiming`].
//!
//! A client that goes away abandons its queries. Every leaf is probed on `/health`: every 250 ms,
//! with 500 ms to answer; one refused connection or two failures in a row take it down, and one
//! success brings it back.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use curtail_kernel::{ConfigError, Core, Limits, Policy, ServerId, Topology, rng};
use curtail_runtime::http::{Health, Http, Settings, watch};
use curtail_runtime::{Cell, Learning, Timers};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;

use service::RootService;

use crate::Serving;
use crate::serve;

mod fan_out;
mod service;
mod timing;

pub use fan_out::{RootAnswer, ShardError};
pub use timing::ShardTiming;

/// Answers up to so many bytes are read whole before they count, so that a leaf that stalls inside
/// of one has not answered. Few are a tenth as long.
const WHOLE_BYTES: u64 = 1 << 20;

/// A root that has its address bound, and serves once [`RootServer::serve`] is called. Clients may
/// connect already.
#[derive(Debug)]
pub struct RootServer {
    listener: TcpListener,
    address: SocketAddr,
    announcement: String,
    cells: Vec<Cell<Http>>,
    /// With a policy that learns.
    learning: Option<Arc<Learning>>,
    service: RootService,
}

impl RootServer {
    /// Makes the cells and binds the address. The leaves need not be there yet.
    pub async fn bind(config: RootConfig) -> Result<Self, RootServerError> {
        if config.shards.is_empty() {
            return Err(RootServerError::NoShards);
        }
        let timers = Timers::precise();
        let cells = (0..).zip(&config.shards);
        let cells = cells.map(|(shard, replicas)| cell(&config, shard, replicas, &timers));
        let cells = cells.collect::<Result<Vec<_>, _>>()?;
        let bound = serve::bind(config.listen).await;
        let (listener, address) =
            bound.map_err(|source| RootServerError::Bind { address: config.listen, source })?;
        let announcement = config.announce(address);
        let learning = config.policy.learner(&config.limits).map(Learning::new).map(Arc::new);
        let service = RootService::new(&config, cells.clone(), learning.clone());
        Ok(Self { listener, address, announcement, cells, learning, service })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// One line that says what this root does.
    pub fn announcement(&self) -> &str {
        &self.announcement
    }

    /// Serves until `shutdown` resolves; running requests may then finish, within 10 s.
    pub fn serve(self, shutdown: impl Future<Output = ()> + Send + 'static) -> Serving {
        self.boxed(Box::pin(shutdown))
    }

    /// See [`Serving`].
    #[inline(never)]
    fn boxed(self, shutdown: Serving) -> Serving {
        Box::pin(self.serve_until(shutdown))
    }

    async fn serve_until(self, shutdown: Serving) {
        let mut background = probe(&self.cells);
        if let Some(learning) = self.learning {
            background.spawn(async move { learning.run(&self.cells).await });
        }
        serve::serve(self.listener, self.service, shutdown).await;
        // Dropping the set ends these tasks, which must live as long as queries run.
        drop(background);
    }
}

fn cell(
    config: &RootConfig,
    shard: u32,
    replicas: &[SocketAddr],
    timers: &Timers,
) -> Result<Cell<Http>, RootServerError> {
    let count = u32::try_from(replicas.len()).unwrap_or(u32::MAX);
    let topology = Topology::replicated(count, config.slots);
    // Shards decide their ties independently of each other.
    let seed = curtail_dist::seed::stream(config.seed, &[b"root", &shard.to_le_bytes()]);
    let kernel = config
        .policy
        .build(&topology, config.limits, rng(seed))
        .map_err(|source| RootServerError::Shard { shard, source })?;
    let priorities = config.policy.has_priorities();
    let settings = Settings { whole_bytes: WHOLE_BYTES, priorities, ..Settings::default() };
    Ok(Cell::new(kernel, Http::new(replicas.iter().copied(), settings), timers.clone()))
}

/// Starts a prober per leaf.
fn probe(cells: &[Cell<Http>]) -> JoinSet<()> {
    let health = Health { path: Some("/health".to_owned()), ..Health::default() };
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
            // One after the other: all at once, they would be a hiccup of our own making.
            sleep(offset).await;
            watch(cell, server, health).await;
        });
    }
    probers
}

/// How a root is set up.
#[derive(Debug, Clone)]
pub struct RootConfig {
    /// Where it listens. Port 0 takes a free one; [`address`](RootServer::address) tells.
    pub listen: SocketAddr,
    /// By shard: its replicas.
    pub shards: Vec<Vec<SocketAddr>>,
    /// Decides over copies, for every shard apart.
    pub policy: Policy,
    /// Bounds on every shard's queue, times and retries.
    pub limits: Limits,
    /// How many queries a leaf serves at once: the leaves' own `slots`.
    pub slots: u32,
    /// Decides every tie.
    pub seed: u64,
}

/// Why a root does not start.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootServerError {
    #[error("there are no shards; give at least one, with at least one replica")]
    NoShards,
    #[error("shard {shard}: {source}")]
    Shard { shard: u32, source: ConfigError },
    #[error("cannot listen on {address}: {source}; use another address, or port 0 for a free one")]
    Bind { address: SocketAddr, source: io::Error },
}

impl RootConfig {
    /// One line that says what the root does.
    fn announce(&self, address: SocketAddr) -> String {
        let Self { policy, slots, shards, .. } = self;
        let (leaves, shards) = (shards.iter().map(Vec::len).sum::<usize>(), shards.len());
        format!(
            "root on http://{address}: {leaves} leaves of {slots} slots in {shards} shards, policy \
             {policy}"
        )
    }
}
