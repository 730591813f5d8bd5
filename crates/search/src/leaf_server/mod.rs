//! The leaf server, which serves the engine of one shard over HTTP.
//!
//! - `GET /search?q=QUERY&k=N` returns the shard's [`SearchResponse`](crate::SearchResponse) as
//!   JSON. `k` is from 1 to 1000, and defaults to 10.
//! - `GET /health` returns 200 immediately, regardless of the length of the queue.
//! - `GET /load` responds to a load probe: `endpoint-load-metrics` has the number of queries at the
//!   leaf, and the latency of recent queries that found about the same number on arrival.
//! - `GET /stats` returns [`LeafStats`] as JSON.
//!
//! # Service
//!
//! Queries are served first come, first served, in [`LeafConfig::slots`] slots. At most
//! [`LeafConfig::queue`] queries wait, and additional queries get 503. A query holds its slot from
//! the start to the end of its service. A query with `priority: u=7` (RFC 9218) is a duplicate. It
//! is served only if no other query waits, and gives its slot to a new query while its time is
//! stretched.
//!
//! # Stretched time
//!
//! A leaf always runs the real query. It may then *wait*, without spinning, until `P + J` has
//! passed since the start of service:
//!
//! - `P`, the query's own part, is drawn from [`LeafConfig::service_time`]. The draw depends only
//!   on the seed, the shard and the query key. It is the same on every replica, for every
//!   repetition, and under every policy. Without a distribution, `P` is the real time.
//! - `J`, the hiccup, is drawn from [`LeafConfig::hiccup`]. It also depends on the replica, and is
//!   drawn again for every execution of a query on that replica.
//!
//! With [`LeafConfig::slow`], a query waits until `factor × P + J` has passed if its service begins
//! in a slow period.
//!
//! The query key is the header `x-curtail-query`, or else the path and query of the request target.
//! A host in the target is ignored, because it would differ between replicas.
//!
//! # Responses report what was done
//!
//! `server-timing: queue;dur=…, real;dur=…, stretch;dur=…` (in ms: the wait for a slot, the real
//! query, the wait that stretched it), followed by `own;dur=…` and `hiccup;dur=…` if `P` and `J`
//! were drawn; `endpoint-load-metrics` (ORCA: the queue, and the time in service); `x-curtail-leaf:
//! SHARD.REPLICA`; and `x-curtail-stretched: 1` if the time was stretched.

mod config;
mod draw;
mod service;
mod slow;
mod stats;

use tokio::task::JoinSet;

pub use config::{Cancel, Hiccup, HiccupError, LeafConfig, LeafServerError};
pub use slow::{Slowdown, SlowdownError};
pub use stats::LeafStats;

use crate::leaf::Leaf;
use crate::serve::Server;
use service::LeafService;

/// Opens a shard and binds the address of its leaf.
pub async fn bind(config: LeafConfig) -> Result<Server, LeafServerError> {
    config.check()?;
    let (index, shard) = (config.index.clone(), config.shard);
    // Opening reads and checks every file of the shard, so it must not block a thread of the
    // runtime.
    let leaf = tokio::task::spawn_blocking(move || Leaf::open(&index, shard));
    let leaf = leaf.await.map_err(|_| LeafServerError::Stopped)??;
    let documents = leaf.documents();
    let service = LeafService::new(&config, leaf);
    let announce = |address| config.announce(address, documents);
    Ok(Server::bind(config.listen, announce, service, JoinSet::new).await?)
}
