//! The shards of a service and the places of their servers, and whether a service can be built.

use std::collections::BTreeSet;
use std::sync::Arc;

use curtail_kernel::{ConfigError, Server, ServerId, Topology};

use crate::membership::{Discovery, PLACES};
use curtail_runtime::Occupant;

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
    #[error("a service needs a tokio runtime with timers and I/O; call build() inside one")]
    NoRuntime,
}

/// The largest number of places of a shard.
const MOST: usize = 65_536;

/// Servers, and the shards that they serve. They get a cell.
pub(crate) struct CellSpec<S> {
    pub(crate) servers: Vec<Occupant<S>>,
    pub(crate) shards: Vec<ShardSpec>,
    /// The servers that join and leave later.
    pub(crate) discovery: Option<Discovery<S>>,
}

impl<S> CellSpec<S> {
    /// Whether a shard can have several servers.
    pub(crate) fn may_have_peers(&self, places: Option<usize>) -> bool {
        self.servers.len() > 1
            || self.discovery.is_some()
            || places.is_some_and(|places| places > 1)
    }
}

pub(crate) struct ShardSpec {
    pub(crate) name: String,
    /// Its servers, by their numbers in the cell. `None` for all places of the cell.
    pub(crate) servers: Option<Vec<usize>>,
}

/// The places of a cell, and what is at each.
pub(crate) struct Layout<S> {
    pub(crate) topology: Topology,
    /// The names of the shards, by their groups.
    pub(crate) names: Vec<Arc<str>>,
    /// Whether its shards share servers, which are fixed.
    pub(crate) is_ring: bool,
    pub(crate) occupants: Vec<Option<Occupant<S>>>,
    pub(crate) discovery: Option<Discovery<S>>,
}

impl<S> Layout<S> {
    pub(crate) fn new(spec: CellSpec<S>, slots: u32, places: Option<usize>) -> Self {
        let CellSpec { servers, shards, discovery } = spec;
        // Servers can join a shard that has servers of its own.
        let usual = if discovery.is_some() { PLACES } else { servers.len() };
        let is_ring = shards.iter().any(|shard| shard.servers.is_some());
        let count = if is_ring { servers.len() } else { places.unwrap_or(usual) };
        let mut occupants: Vec<_> = servers.into_iter().map(Some).collect();
        occupants.resize_with(count, || None);
        // Four billion servers would not fit into memory, so every number fits.
        let id = |at: usize| ServerId(at as u32);
        let members = |shard: &ShardSpec| match &shard.servers {
            Some(servers) => servers.iter().copied().map(id).collect(),
            None => (0..count).map(id).collect(),
        };
        let groups = shards.iter().map(members).collect();
        let topology = Topology { servers: vec![Server { slots }; count], groups };
        let names = shards.into_iter().map(|shard| shard.name.into()).collect();
        Self { topology, names, is_ring, occupants, discovery }
    }
}

/// Checks that there are shards and servers, that their names differ, and that there is room for them.
pub(crate) fn check<S>(cells: &[CellSpec<S>], places: Option<usize>) -> Result<(), BuildError> {
    let unfit = |why: String| Err(BuildError::Unfit(why));
    if cells.iter().all(|cell| cell.shards.is_empty()) {
        return Err(BuildError::NoShards);
    }
    let mut names = BTreeSet::new();
    for CellSpec { servers, shards, discovery } in cells {
        for ShardSpec { name, servers: members } in shards {
            if !names.insert(name) {
                return Err(BuildError::SameShard(name.clone()));
            }
            let count = members.as_ref().map_or(servers.len(), Vec::len);
            if count == 0 && discovery.is_none() {
                return Err(BuildError::NoServers(name.clone()));
            }
            let mut known = BTreeSet::new();
            let wrong = |at: &&usize| **at >= servers.len() || !known.insert(**at);
            if let Some(at) = members.iter().flatten().find(wrong) {
                let count = servers.len();
                return unfit(format!(
                    "shard {name:?} lists server {at} of {count}, which is not there or listed twice; \
                     number the servers from 0, in the order of the ring"
                ));
            }
        }
        if let Some(places) =
            places.filter(|places| !(servers.len().max(1)..=MOST).contains(places))
        {
            return unfit(format!(
                ".places({places}) is out of range for {} servers; use at most {MOST}, and at least \
                 the number of servers",
                servers.len()
            ));
        }
        let mut known = BTreeSet::new();
        if let Some(twice) = servers.iter().find(|server| !known.insert(&server.name)) {
            return Err(BuildError::SameServer(twice.name.to_string()));
        }
    }
    Ok(())
}
