//! A client of the cluster: a driver session, optionally with a kernel cell on top of it, and the
//! contenders, which choose the replica for a read.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use curtail::{Curtail, Policy, Query, Shard, outcome};
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
use tower::util::BoxCloneService;

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
    /// The ranges of tokens, in the order of their first nodes. `None` if the driver chooses.
    ranges: Option<Arc<[Shard<Node, String>]>>,
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
        let ranges = match who.policy {
            None => None,
            Some(policy) => Some(ranges(policy, settings, seed, &session, &read)?),
        };
        Ok(Self { session, read, updates, ranges })
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
        let Some(ranges) = &self.ranges else {
            self.session.execute_unpaged(&self.read, (key,)).await?;
            return Ok(());
        };
        let token = self.read.calculate_token(&(&key,))?.context("records have keys")?;
        ranges[range(token.value())].query(Query::idempotent(key)).await?;
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
type Node = BoxCloneService<String, (), ExecutionError>;

fn node(node: usize, session: &Arc<Session>, read: &PreparedStatement) -> Result<Node> {
    let (session, read) = (Arc::clone(session), Arc::new(pin(read, node)?));
    Ok(Node::new(service_fn(move |key: String| {
        let (session, read) = (Arc::clone(&session), Arc::clone(&read));
        async move { session.execute_unpaged(&read, (key,)).await.map(drop) }
    })))
}

/// Returns the ranges of tokens as shards, each with the nodes that have its records.
fn ranges(
    policy: Policy,
    settings: ClientSettings,
    seed: u64,
    session: &Arc<Session>,
    read: &PreparedStatement,
) -> Result<Arc<[Shard<Node, String>]>> {
    let nodes = (0..NODES).map(|at| Ok((nodes::address(at), node(at, session, read)?)));
    let nodes = nodes.collect::<Result<Vec<_>>>()?;
    let mut builder = Curtail::builder()
        .policy(policy)
        .ring(nodes, (0..NODES).map(|first| (format!("range {first}"), neighbors(first))))
        .clients(settings.clients)
        .timeout(TIMEOUT)
        .seed(seed)
        .classify(outcome::any_response)
        .repeatable(|key: &String| Some(key.clone()));
    if policy.pulls() {
        builder = builder.slots(1);
    }
    Ok(builder.build()?.shards().collect())
}

/// Returns a node and the next ones on the ring, which have the same records.
fn neighbors(first: usize) -> impl Iterator<Item = usize> {
    (0..REPLICAS).map(move |next| (first + next) % NODES)
}

/// Returns the range that has a record. Its first replica is the first node at or after the record's
/// token.
fn range(token: i64) -> usize {
    (0..NODES).find(|node| token <= nodes::token(*node)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_at_the_node_behind_its_token_and_the_next_two() {
        for node in 0..NODES {
            assert_eq!(range(nodes::token(node)), node);
        }
        assert_eq!(range(nodes::token(1) + 1), 2);
        assert_eq!(range(i64::MAX), 0);
        assert_eq!(neighbors(4).collect::<Vec<_>>(), [4, 0, 1]);
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
