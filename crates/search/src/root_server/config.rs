//! How a root is set up.

use std::io;
use std::net::SocketAddr;

use curtail_kernel::{ConfigError, Limits, Policy};

/// How a root is set up.
#[derive(Debug, Clone)]
pub struct RootConfig {
    /// Where it listens. Port 0 takes a free one; [`address`](super::RootServer::address) tells.
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
    pub(super) fn announce(&self, address: SocketAddr) -> String {
        let Self { policy, slots, shards, .. } = self;
        let (leaves, shards) = (shards.iter().map(Vec::len).sum::<usize>(), shards.len());
        format!(
            "root on http://{address}: {leaves} leaves of {slots} slots in {shards} shards, policy \
             {policy}"
        )
    }
}
