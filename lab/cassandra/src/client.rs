//! A client of the cluster: a driver session, optionally with a kernel cell on top of it, and the
//! contenders, which choose the replica for a read.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use curtail_kernel::{GroupId, Limits, Policy, Server, ServerId, Topology, rng};
use curtail_runtime::{Cell, Query, Services, Timers};
use futures_util::future::try_join_all;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::ExecutionError;
use scylla::policies::load_balancing::{
    DefaultPolicy, LoadBalancingPolicy, NodeIdentifier, SingleTargetLoadBalancingPolicy,
};
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tower::service_fn;
use tower::util::BoxCloneSyncService;

use crate::nodes::{self, NODES, REPLICAS};
use crate::workload::{self, Operation, Table};

/// The time after which a request counts as failed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A method that chooses replicas.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contender {
    /// The name on the command line.
    pub(crate) name: String,
    /// The kernel policy that chooses among the replicas. Each replica serves the read from its own
    /// data. `None` if the driver chooses, and Cassandra's dynamic snitch is on: then a coordinator
    /// reads from the replica that the snitch ranks first.
    pub(crate) policy: Option<Policy>,
    /// Whether the driver sends requests only to replicas of the key, not to any node.
    pub(crate) token_aware: bool,
    /// Whether a coordinator reads from another replica when the first is slower than p99.
    pub(crate) retry: bool,
}

impl FromStr for Contender {
    type Err = String;

    /// Parses `snitch` or `token-aware`, each optionally with `+retry`. Anything else is a kernel
    /// policy.
    fn from_str(text: &str) -> Result<Self, String> {
        let (base, retry) = match text.strip_suffix("+retry") {
            Some(base) => (base, true),
            None => (text, false),
        };
        let name = text.to_owned();
        if ["snitch", "token-aware"].contains(&base) {
            return Ok(Self { name, policy: None, token_aware: base == "token-aware", retry });
        }
        let policy = Policy::parse(text, None).map_err(|error| {
            format!("{error}; or use snitch or token-aware, each with or without +retry")
        })?;
        Ok(Self { name, policy: Some(policy), token_aware: true, retry: false })
    }
}

/// The settings that all clients of a contender share.
#[derive(Clone, Copy)]
pub(crate) struct ClientSettings {
    pub(crate) table: Table,
    pub(crate) consistency: Consistency,
    /// The number of clients. C3 needs it to allow for the requests of the other clients.
    pub(crate) clients: u32,
}

/// A client.
#[derive(Clone)]
pub(crate) struct Client {
    session: Arc<Session>,
    read: PreparedStatement,
    updates: Arc<[PreparedStatement]>,
    cell: Option<Cell<Services<Node, String>>>,
}

impl Client {
    pub(crate) async fn connect(
        who: &Contender,
        settings: ClientSettings,
        seed: u64,
    ) -> Result<Self> {
        let session =
            session(DefaultPolicy::builder().token_aware(who.token_aware).build(), settings);
        let session = Arc::new(session.await?);
        let mut read = session.prepare(workload::read(settings.table)).await?;
        read.set_is_idempotent(true);
        let update = |field| session.prepare(workload::update(settings.table, field));
        let updates = try_join_all(workload::fields().map(update)).await?.into();
        let cell = match &who.policy {
            None => None,
            Some(policy) => {
                let nodes = (0..NODES).map(|at| node(at, &session, &read));
                let nodes = Services::new(nodes.collect::<Result<Vec<_>>>()?);
                let mut limits =
                    Limits { timeout_ns: TIMEOUT.as_nanos() as u64, ..Limits::default() };
                limits.tuning.clients = settings.clients;
                let kernel =
                    policy.build(&topology(), limits, rng(seed)).map_err(|why| anyhow!(why))?;
                Some(Cell::new(kernel, nodes, Timers::precise()))
            }
        };
        Ok(Self { session, read, updates, cell })
    }

    /// Performs an operation and waits for the whole response.
    pub(crate) async fn ask(&self, what: Operation) -> Result<()> {
        match what {
            Operation::Read(keys) => {
                try_join_all(keys.into_iter().map(|key| self.read(key))).await?;
            }
            Operation::Update(key, field, value) => {
                self.session.execute_unpaged(&self.updates[field], (value, key)).await?;
            }
        }
        Ok(())
    }

    async fn read(&self, key: String) -> Result<()> {
        let Some(cell) = &self.cell else {
            self.session.execute_unpaged(&self.read, (key,)).await?;
            return Ok(());
        };
        let token = self.read.calculate_token(&(&key,))?.context("records have keys")?;
        let query = Query::new(key).to_group(group(token.value()));
        cell.query(query).await.map_err(|why| anyhow!("{why}"))?;
        Ok(())
    }
}

async fn session(
    choose: Arc<dyn LoadBalancingPolicy>,
    settings: ClientSettings,
) -> Result<Session> {
    let profile = ExecutionProfile::builder()
        .load_balancing_policy(choose)
        .consistency(settings.consistency)
        .request_timeout(Some(TIMEOUT))
        .build();
    let nodes: Vec<String> = (0..NODES).map(nodes::address).collect();
    let session = SessionBuilder::new()
        .known_nodes(nodes)
        .default_execution_profile_handle(profile.into_handle())
        .build()
        .await?;
    Ok(session)
}

/// Copies a statement, and directs the copy to one node.
pub(crate) fn pin(statement: &PreparedStatement, node: usize) -> Result<PreparedStatement> {
    let address = nodes::address(node).parse().context("an address")?;
    let to = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::NodeAddress(address), None);
    let mut pinned = statement.clone();
    pinned.set_load_balancing_policy(Some(to));
    Ok(pinned)
}

/// A node that reads records by key.
type Node = BoxCloneSyncService<String, (), ExecutionError>;

fn node(node: usize, session: &Arc<Session>, read: &PreparedStatement) -> Result<Node> {
    let (session, read) = (Arc::clone(session), Arc::new(pin(read, node)?));
    Ok(Node::new(service_fn(move |key: String| {
        let (session, read) = (Arc::clone(&session), Arc::clone(&read));
        async move { session.execute_unpaged(&read, (key,)).await.map(drop) }
    })))
}

/// Returns all nodes, and the groups of neighbors on the ring.
fn topology() -> Topology {
    let ring =
        |first: usize| (0..REPLICAS).map(move |next| ServerId(((first + next) % NODES) as u32));
    Topology {
        servers: vec![Server { slots: 1 }; NODES],
        groups: (0..NODES).map(|first| ring(first).collect()).collect(),
    }
}

/// Returns the group that holds a record. Its first replica is the first node at or after the
/// record's token.
fn group(token: i64) -> GroupId {
    let first = (0..NODES).find(|node| token <= nodes::token(*node));
    GroupId(first.unwrap_or(0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_at_the_node_behind_its_token_and_the_next_two() {
        for node in 0..NODES {
            assert_eq!(group(nodes::token(node)), GroupId(node as u32));
        }
        assert_eq!(group(nodes::token(1) + 1), GroupId(2));
        assert_eq!(group(i64::MAX), GroupId(0));
        let groups = topology().groups;
        assert_eq!(groups[4], [ServerId(4), ServerId(0), ServerId(1)]);
        topology().check().unwrap();
    }
    #[test]
    fn a_contender_is_the_driver_or_a_policy() {
        let of = |text: &str| {
            text.parse::<Contender>().map(|one| (one.token_aware, one.policy.is_none(), one.retry))
        };
        assert_eq!(of("snitch"), Ok((false, true, false)));
        assert_eq!(of("token-aware+retry"), Ok((true, true, true)));
        assert_eq!(of("c3"), Ok((true, false, false)));
        assert!(of("snatch").unwrap_err().contains("or use snitch or token-aware"));
    }
}
