//! Five Cassandra nodes on this machine: downloaded by Maven, configured, started and filled.
//!
//! A program based on Cassandra's own writer writes SSTables, and the nodes import them. A million
//! inserts would take these nodes a quarter of an hour.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Pid;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use xtask::cargo::output;
use xtask::needs::lacking;
use xtask::process::{Process, tied};

use crate::workload::{self, KEYSPACE, Table};

/// The number of nodes. A group consists of consecutive nodes on the ring, so with three replicas
/// there are also five groups.
pub(crate) const NODES: usize = 5;
/// The number of replicas of a record.
pub(crate) const REPLICAS: usize = 3;
/// The time within which a node must start listening. The first node does not wait for other nodes.
const START: Duration = Duration::from_secs(180);

/// The heap of each node.
const HEAP: [&str; 2] = ["-Xms384m", "-Xmx384m"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of records of one kilobyte. The skewed table has a fifth as many records, each of up
    /// to two kilobytes
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) records: u64,
}

/// Returns the host on which a node listens.
fn host(node: usize) -> String {
    format!("127.0.10.{}", node + 1)
}

/// Returns the address on which a node listens.
pub(crate) fn address(node: usize) -> String {
    host(node) + ":9042"
}

/// Connects to the first node.
pub(crate) async fn admin() -> Result<Session> {
    let session = SessionBuilder::new().known_node(address(0)).build().await;
    session.context(
        "no node listens: start the nodes with `nodes`, and wait until it prints their addresses",
    )
}

/// Returns the first token of a node's range. Nodes own equal parts of the ring.
pub(crate) fn token(node: usize) -> i64 {
    let step = (1_u128 << 64) / NODES as u128;
    (i128::from(i64::MIN) + (step * node as u128) as i128) as i64
}

/// Returns the process of a node.
pub(crate) fn process(dir: &Path, node: usize) -> Result<Pid> {
    let file = folder(dir, node).join("pid");
    let text = fs::read_to_string(&file)
        .with_context(|| format!("{}: start `nodes` first", file.display()))?;
    text.trim().parse().ok().and_then(Pid::from_raw).context("no process id")
}

fn folder(dir: &Path, node: usize) -> PathBuf {
    dir.join(format!("n{}", node + 1))
}

fn jmx_port(node: usize) -> usize {
    7199 + node
}

/// Starts the nodes and waits until they accept clients. Call this from the main thread, because the
/// nodes end with the thread that starts them.
pub(crate) fn start(dir: &Path) -> Result<Nodes> {
    for program in ["java", "mvn", "setpriv"] {
        ensure!(
            lacking(program).is_none(),
            "{program} is missing: install JDK 17, Maven and util-linux"
        );
    }
    fetch(dir)?;
    let mut nodes = Nodes(Vec::new());
    for node in 0..NODES {
        nodes.0.push(spawn(dir, node)?);
        // The first node is the seed of the others.
        if node == 0 {
            listens(&mut nodes.0[0], dir, 0)?;
        }
    }
    for (node, process) in nodes.0.iter_mut().enumerate() {
        listens(process, dir, node)?;
    }
    Ok(nodes)
}

/// The nodes' processes, which end when this value is dropped.
pub(crate) struct Nodes(Vec<Process>);

impl Drop for Nodes {
    fn drop(&mut self) {
        // All of them end at the same time.
        self.0.iter().for_each(|node| drop(node.signal("TERM")));
    }
}

/// Downloads Cassandra and its dependencies (66 MB) unless they are already there.
fn fetch(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    for (name, content) in [
        ("pom.xml", include_str!("files/pom.xml")),
        ("jvm.opts", include_str!("files/jvm.opts")),
        ("logback.xml", include_str!("files/logback.xml")),
        ("Fill.java", include_str!("files/Fill.java")),
        ("Snitch.java", include_str!("files/Snitch.java")),
    ] {
        fs::write(dir.join(name), content)?;
    }
    if dir.join("lib/fetched").exists() {
        return Ok(());
    }
    eprintln!("fetching Cassandra");
    let copy = ["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"];
    output(Command::new("mvn").args(copy).current_dir(dir))
        .context("Maven cannot fetch org.apache.cassandra:cassandra-all")?;
    Ok(fs::write(dir.join("lib/fetched"), "")?)
}

fn spawn(dir: &Path, node: usize) -> Result<Process> {
    let folder = folder(dir, node);
    fs::create_dir_all(&folder)?;
    let text = |path: &Path| path.display().to_string();
    let config = include_str!("files/cassandra.yaml")
        .replace("TOKEN", &token(node).to_string())
        .replace("ADDRESS", &host(node))
        .replace("FOLDER", &text(&folder));
    fs::write(folder.join("cassandra.yaml"), config)?;
    // The nodes have the lowest priority, so that the measuring clients run first. What they print
    // goes to the log.
    let mut java = tied("nice");
    java.args(["-n", "19", "sh", "-c", "exec java \"$@\" >&2", "java", "@jvm.opts"]).args(HEAP);
    java.args(["-javaagent:lib/jamm-0.4.0.jar", "-Xss256k", "-XX:+UseSerialGC"]);
    java.args(["-XX:MaxDirectMemorySize=128m", "-XX:+AlwaysPreTouch"]);
    let properties = [
        ("cassandra.config", format!("file://{}/cassandra.yaml", text(&folder))),
        ("cassandra.storagedir", text(&folder)),
        ("cassandra.logdir", text(&folder)),
        ("logback.configurationFile", text(&dir.join("logback.xml"))),
        ("cassandra.jmx.local.port", jmx_port(node).to_string()),
        ("cassandra-foreground", "yes".into()),
        ("cassandra.ring_delay_ms", "2000".into()),
        ("cassandra.skip_wait_for_gossip_to_settle", "0".into()),
        ("cassandra.superuser_setup_delay_ms", "0".into()),
    ];
    java.args(properties.map(|(name, value)| format!("-D{name}={value}")));
    java.arg("-cp").arg(format!("{}:lib/*", text(&folder)));
    java.arg("org.apache.cassandra.service.CassandraDaemon");
    java.current_dir(dir);
    let process = Process::start("node", java, &folder)?;
    fs::write(folder.join("pid"), process.id().to_string())?;
    Ok(process)
}

/// Waits until a node accepts clients.
fn listens(process: &mut Process, dir: &Path, node: usize) -> Result<()> {
    let log = folder(dir, node).join("node.log");
    let listens = "Starting listening for CQL clients";
    process.wait_within(START, || fs::read_to_string(&log).is_ok_and(|log| log.contains(listens)))
}

/// Switches the dynamic snitch of all nodes on or off. Without it, a coordinator that is a replica
/// reads from itself.
pub(crate) fn set_snitch(dir: &Path, on: bool) -> Result<()> {
    let mut java = Command::new("java");
    java.arg("Snitch.java").arg(on.to_string());
    java.args((0..NODES).map(|node| jmx_port(node).to_string()));
    output(java.current_dir(dir)).map(drop)
}

/// Returns a command for Cassandra's own tool, connected to a node.
pub(crate) fn tool(dir: &Path, node: usize) -> Command {
    let port = jmx_port(node).to_string();
    let mut java = java(dir);
    java.args(["-cp", "lib/*", "org.apache.cassandra.tools.NodeTool", "-p", &port]);
    java
}

/// Returns a Java command with the options of Cassandra's programs.
fn java(dir: &Path) -> Command {
    let mut java = Command::new("java");
    // Without this option, the tool would write a command history into the user's home directory.
    java.arg("@jvm.opts").arg(format!("-Duser.home={}", dir.display()));
    java.current_dir(dir);
    java
}

/// Fills the tables, unless they have at least this number of records.
pub(crate) async fn fill(dir: &Path, records: u64) -> Result<()> {
    let session = admin().await?;
    for table in [Table::Plain, Table::Skewed] {
        let marker = dir.join(format!("{}-records", table.name()));
        let there =
            fs::read_to_string(&marker).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let wanted = table.records(records);
        if there.is_none_or(|there| there < wanted) {
            eprintln!("filling {} with {wanted} records", table.name());
            create(&session, table).await?;
            write(dir, table, wanted)?;
            fs::write(&marker, wanted.to_string())?;
        }
    }
    Ok(())
}

async fn create(session: &Session, table: Table) -> Result<()> {
    let name = table.name();
    let statements = [
        format!(
            "CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': {REPLICAS}}}"
        ),
        format!("DROP TABLE IF EXISTS {KEYSPACE}.{name}"),
        workload::create(table),
    ];
    for statement in statements {
        session.query_unpaged(statement, &[]).await?;
    }
    Ok(())
}

/// Writes the data of each part of the ring, and imports it at the nodes that own it.
fn write(dir: &Path, table: Table, records: u64) -> Result<()> {
    let (name, folder) = (table.name(), dir.join("fill"));
    let mut java = java(dir);
    java.arg("-Xmx1g").args(["-cp", "lib/*", "Fill.java"]).arg(&folder);
    java.args([name, &workload::create(table), &workload::insert(table), &records.to_string()]);
    java.args([workload::fields().len(), table.field_bytes()].map(|number| number.to_string()));
    java.arg((table == Table::Skewed).to_string());
    java.args((0..NODES).map(|node| token(node).to_string()));
    output(&mut java)?;
    for node in 0..NODES {
        let parts = (0..REPLICAS).map(|back| (node + NODES - back) % NODES);
        let parts = parts.map(|part| folder.join(format!("{name}{part}")));
        let mut import = tool(dir, node);
        output(import.args(["import", "--copy-data", KEYSPACE, name]).args(parts))?;
    }
    Ok(fs::remove_dir_all(folder)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_own_equal_parts_of_the_ring() {
        let tokens: Vec<i64> = (0..NODES).map(token).collect();
        assert_eq!(tokens[0], i64::MIN);
        let parts: Vec<i64> = tokens.windows(2).map(|two| two[1].wrapping_sub(two[0])).collect();
        let last = tokens[0].wrapping_sub(tokens[NODES - 1]);
        assert!(parts.iter().all(|part| (last - part).abs() <= NODES as i64), "{parts:?} {last}");
    }
}
