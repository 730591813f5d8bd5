//! Partitions the shards of a service into cells.

use curtail_kernel::{GroupId, Server, ServerId, Topology};
use curtail_net::Address;

use super::model::Service;

/// A set of servers and the shards that they serve, managed by one [`curtail_kernel::Cell`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CellConfig {
    pub(crate) topology: Topology,
    /// The shard of each [`GroupId`], as an index into [`Service::shards`].
    pub(crate) shards: Vec<usize>,
    /// The server of each [`ServerId`], as an index into [`Service::servers`].
    pub(crate) servers: Vec<usize>,
    /// The address of each [`ServerId`].
    pub(crate) addresses: Vec<Address>,
}

/// The cells of a service, and the position of each shard in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cells {
    /// The cells, sorted by their first shard.
    pub(crate) cells: Vec<CellConfig>,
    /// The cell (an index into `cells`) and the group of each shard.
    pub(crate) shards: Vec<(usize, GroupId)>,
}

impl Service {
    /// Partitions the shards into cells. Shards that share a server, directly or through other
    /// shards, share a cell. If no server is listed twice, each shard has its own cell.
    pub(crate) fn cells(&self) -> Cells {
        let parts = self.parts();
        let mut cells: Vec<CellConfig> = Vec::new();
        let mut cell_of_part = vec![None; self.shards.len()];
        let mut local = vec![None; self.servers.len()];
        let mut shards = Vec::with_capacity(self.shards.len());
        for (shard, &part) in parts.iter().enumerate() {
            let at = *cell_of_part[part].get_or_insert_with(|| {
                cells.push(CellConfig::empty());
                cells.len() - 1
            });
            let cell = &mut cells[at];
            let replicas = &self.shards[shard].replicas;
            let group = replicas
                .iter()
                .map(|&server| *local[server].get_or_insert_with(|| cell.add(server, self)));
            let group = group.collect();
            shards.push((at, GroupId(dense(cell.shards.len()))));
            cell.topology.groups.push(group);
            cell.shards.push(shard);
        }
        Cells { cells, shards }
    }

    /// Returns, for each shard, the first shard that it is connected to.
    fn parts(&self) -> Vec<usize> {
        let mut parent: Vec<usize> = (0..self.shards.len()).collect();
        let mut first_of_server = vec![None; self.servers.len()];
        for (shard, spec) in self.shards.iter().enumerate() {
            for &server in &spec.replicas {
                let other = *first_of_server[server].get_or_insert(shard);
                let (a, b) = (root(&parent, shard), root(&parent, other));
                parent[a.max(b)] = a.min(b);
            }
        }
        (0..parent.len()).map(|shard| root(&parent, shard)).collect()
    }
}

/// Follows the parents to the root. A parent never comes after its child, so the root is the first
/// of the connected shards.
fn root(parent: &[usize], mut at: usize) -> usize {
    while parent[at] != at {
        at = parent[at];
    }
    at
}

impl CellConfig {
    fn empty() -> Self {
        let topology = Topology { servers: Vec::new(), groups: Vec::new() };
        Self { topology, shards: Vec::new(), servers: Vec::new(), addresses: Vec::new() }
    }

    fn add(&mut self, server: usize, service: &Service) -> ServerId {
        let id = ServerId(dense(self.servers.len()));
        self.topology.servers.push(Server { slots: service.slots_or_one() });
        self.servers.push(server);
        self.addresses.push(service.servers[server].clone());
        id
    }
}

/// Converts an index to an id. The index always fits, because a file with four billion servers
/// would not fit into memory.
fn dense(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 servers and shards")
}
