//! The shards of a service and the places of their servers, and whether a service can be built.

use std::collections::BTreeSet;
use std::sync::Arc;

use curtail_kernel::{ConfigError, Server, ServerId, Topology};

use crate::membership::{Discovery, PLACES};
use crate::transport::Occupant;

/// The reason why a service cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no shard.
    #[error("the service has no shards; call .shard(name, servers)")]
    NoShards,
    /// A shard has no servers.
    #[error("shard {0:?} has no servers; pass at least one (name, service)")]
    NoServers(String),
    /// Two shards have the same name.
    #[error("two shards are called {0:?}; give each a name of its own")]
    SameShard(String),
    /// Two servers of a shard have the same name.
    #[error("two servers of a shard are called {0:?}; give each a name of its own")]
    SameServer(String),
    /// Nothing states which responses are failures.
    #[error(
        "nothing states which responses are failures, so a server that always fails would keep its \
         traffic; call .classify(outcome::http), or .classify(outcome::any_response) if no response \
         is one"
    )]
    NotClassified,
    /// Nothing states which requests may be sent twice.
    #[error(
        "policy {policy} sends second copies, but nothing states which requests may be sent twice; \
         call .repeatable(|request| Some(request.clone())) if all may be, or .repeatable(|_| None) \
         if only those of Query::idempotent may be"
    )]
    NotRepeatable {
        /// The name of the policy.
        policy: String,
    },
    /// The policy does not fit the other settings.
    #[error("{0}")]
    Unfit(String),
    /// The kernel rejected the service.
    #[error(transparent)]
    Kernel(#[from] ConfigError),
    /// There is no tokio runtime.
    #[error("a service needs a tokio runtime; call build() inside one")]
    NoRuntime,
}

/// Servers, and the shards that they serve. They get a cell.
pub(crate) struct CellSpec<S> {
    pub(crate) servers: Vec<Occupant<S>>,
    pub(crate) shards: Vec<ShardSpec>,
    /// The servers that join and leave later.
    pub(crate) discovery: Option<Discovery<S>>,
}

pub(crate) struct ShardSpec {
    pub(crate) name: String,
    /// Its servers, by their numbers in the cell.
    pub(crate) servers: Vec<usize>,
}

/// The places of a cell, and what is at each.
pub(crate) struct Layout<S> {
    pub(crate) topology: Topology,
    /// The names of the shards, by their groups.
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) occupants: Vec<Option<Occupant<S>>>,
    pub(crate) discovery: Option<Discovery<S>>,
}

impl<S> Layout<S> {
    pub(crate) fn new(spec: CellSpec<S>, slots: u32, places: Option<usize>) -> Self {
        let CellSpec { servers, shards, discovery } = spec;
        // Servers can join a shard that has servers of its own.
        let usual = if discovery.is_some() { PLACES } else { servers.len() };
        let count = match shards.len() {
            1 => places.unwrap_or(usual).max(servers.len()),
            _ => servers.len(),
        };
        let mut occupants: Vec<_> = servers.into_iter().map(Some).collect();
        occupants.resize_with(count, || None);
        // Four billion servers would not fit into memory, so every number fits.
        let id = |at: usize| ServerId(at as u32);
        let groups = match &shards[..] {
            [_] => vec![(0..count).map(id).collect()],
            shards => {
                shards.iter().map(|of| of.servers.iter().copied().map(id).collect()).collect()
            }
        };
        let topology = Topology { servers: vec![Server { slots }; count], groups };
        let names = shards.into_iter().map(|shard| shard.name.into()).collect();
        Self { topology, names, occupants, discovery }
    }
}

/// Checks that there are shards and servers, and that their names differ.
pub(crate) fn check<S>(cells: &[CellSpec<S>]) -> Result<(), BuildError> {
    if cells.iter().all(|cell| cell.shards.is_empty()) {
        return Err(BuildError::NoShards);
    }
    let mut names = BTreeSet::new();
    for CellSpec { servers, shards, discovery } in cells {
        for ShardSpec { name, servers: members } in shards {
            if !names.insert(name) {
                return Err(BuildError::SameShard(name.clone()));
            }
            if members.is_empty() && discovery.is_none() {
                return Err(BuildError::NoServers(name.clone()));
            }
        }
        let mut known = BTreeSet::new();
        if let Some(twice) = servers.iter().find(|server| !known.insert(&server.name)) {
            return Err(BuildError::SameServer(twice.name.to_string()));
        }
    }
    Ok(())
}
