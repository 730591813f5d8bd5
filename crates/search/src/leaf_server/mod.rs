//! A leaf as a server: one shard's engine behind HTTP.
//!
//! - `GET /search?q=QUERY&k=N` answers the shard's [`SearchAnswer`](crate::SearchAnswer) in JSON.
//!   `k` is 1 to 1000, 10 if absent.
//! - `GET /health` answers 200 at once, however long the queue is.
//! - `GET /load` answers a probe: `endpoint-load-metrics` says how many queries are there, and what they took of
//!   late when about as many were.
//! - `GET /stats` answers [`LeafStats`] in JSON.
//!
//! # Service
//!
//! Queries are served first come, first served, in [`LeafConfig::slots`] slots; at most
//! [`LeafConfig::queue`] wait, and beyond it a query gets 503. A query holds its slot from the start
//! of its service to the end, but that a query with `priority: u=7` (RFC 9218), a duplicate, is served when no other
//! is there, and gives its slot to one that comes while it is stretched.
//!
//! # Stretched time
//!
//! A leaf always runs the real query. It may then *wait*, never spin, until `P + J` has passed since
//! the start of service:
//!
//! - `P`, the query's own part, is drawn from [`LeafConfig::service_time`] by seed, shard and query
//!   key alone, so it is the same on every replica, for every repetition, under every policy.
//!   Without a distribution, `P` is the real time.
//! - `J`, the hiccup, is drawn from [`LeafConfig::hiccup`] by the replica as well, and anew for every
//!   execution of a query there.
//!
//! With [`LeafConfig::slow`], a query whose service begins in a slow period waits until `factor × P + J` has passed.
//!
//! The query key is the header `x-curtail-query`, else path and query of the request target. (Not a
//! host in it: that would tell replicas apart.)
//!
//! # Answers say what was done
//!
//! `server-timing: queue;dur=…, real;dur=…, stretch;dur=…` (ms: waiting for a slot, the real query,
//! the wait that stretched it), followed by `own;dur=…` and `hiccup;dur=…` where `P` and `J` were
//! drawn; `endpoint-load-metrics` (ORCA: the queue, and the time in service); `x-curtail-leaf: SHARD.REPLICA`; and `x-curtail-stretched: 1` if the time was stretched.

mod config;
mod draw;
mod service;
mod slow;
mod stats;

use std::future::Future;
use std::net::SocketAddr;

use tokio::net::TcpListener;

pub use config::{Cancel, Hiccup, HiccupError, LeafConfig, LeafServerError};
pub use slow::{Slowdown, SlowdownError};
pub use stats::LeafStats;

use crate::Serving;
use crate::leaf::Leaf;
use crate::serve;
use service::LeafService;

/// A leaf that has its index open and its address bound, and serves once [`LeafServer::serve`] is
/// called. Clients may connect already.
#[derive(Debug)]
pub struct LeafServer {
    listener: TcpListener,
    address: SocketAddr,
    announcement: String,
    service: LeafService,
}

impl LeafServer {
    /// Opens the shard and binds the address.
    pub async fn bind(config: LeafConfig) -> Result<Self, LeafServerError> {
        config.check()?;
        let (index, shard) = (config.index.clone(), config.shard);
        // Every file of the shard is read to be checked: not on a thread that serves others.
        let leaf = tokio::task::spawn_blocking(move || Leaf::open(&index, shard));
        let leaf = leaf.await.map_err(|_| LeafServerError::Stopped)??;
        let bound = serve::bind(config.listen).await;
        let (listener, address) =
            bound.map_err(|source| LeafServerError::Bind { address: config.listen, source })?;
        let announcement = config.announce(address, leaf.documents());
        let service = LeafService::new(&config, leaf);
        Ok(Self { listener, address, announcement, service })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// One line that says what about this leaf is real and what is stretched.
    pub fn announcement(&self) -> &str {
        &self.announcement
    }

    /// Serves until `shutdown` resolves; running queries may then finish, within 10 s.
    pub fn serve(self, shutdown: impl Future<Output = ()> + Send + 'static) -> Serving {
        self.boxed(Box::pin(shutdown))
    }

    /// See [`Serving`].
    #[inline(never)]
    fn boxed(self, shutdown: Serving) -> Serving {
        let serving = serve::serve(self.listener, self.service, shutdown);
        Box::pin(async move { _ = serving.await })
    }
}
