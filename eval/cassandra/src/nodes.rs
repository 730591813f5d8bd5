//! Five Cassandra nodes on this machine: downloaded by Maven, configured, started, filled and
//! stopped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::workload;

/// The number of nodes. A group consists of consecutive nodes on the ring, so with three replicas
/// there are also five groups.
pub(crate) const NODES: usize = 5;
/// The time within which a node must start listening. The first node does not wait for other nodes.
const START: Duration = Duration::from_secs(180);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of records of one kilobyte. The skewed table has a fifth as many records, each of up
    /// to two kilobytes
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) records: u64,
    /// Heap size of each node
    #[arg(long, value_name = "SIZE", default_value = "384m")]
    heap: String,
}

/// Returns the address on which a node listens.
pub(crate) fn address(node: usize) -> String {
    format!("127.0.10.{}", node + 1)
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

/// Starts the nodes and waits until they accept clients.
pub(crate) fn start(args: &Args, dir: &Path) -> Result<Nodes> {
    for program in ["java", "mvn", "setpriv"] {
        let found = Command::new(program).arg("--version").output().is_ok();
        ensure!(found, "{program} is missing: install JDK 17, Maven and util-linux");
    }
    fetch(dir)?;
    let mut nodes = Nodes(Vec::new());
    for node in 0..NODES {
        nodes.0.push(spawn(args, dir, node)?);
        // The first node is the seed of the others.
        if node == 0 {
            listens(&mut nodes.0[0], dir, 0)?;
        }
    }
    for node in 1..NODES {
        listens(&mut nodes.0[node], dir, node)?;
    }
    Ok(nodes)
}

/// The nodes' processes, which end when this value is dropped.
pub(crate) struct Nodes(Vec<Child>);

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in &self.0 {
            let process = Pid::from_child(child);
            // A paused process would not react to SIGTERM.
            let _ = kill_process(process, Signal::CONT);
            let _ = kill_process(process, Signal::TERM);
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

/// Downloads Cassandra and its dependencies (66 MB) unless they are already there.
fn fetch(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join("pom.xml"), include_str!("files/pom.xml"))?;
    fs::write(dir.join("jvm.opts"), include_str!("files/jvm.opts"))?;
    fs::write(dir.join("logback.xml"), include_str!("files/logback.xml"))?;
    fs::write(dir.join("Fill.java"), include_str!("files/Fill.java"))?;
    fs::write(dir.join("Snitch.java"), include_str!("files/Snitch.java"))?;
    if dir.join("lib/fetched").exists() {
        return Ok(());
    }
    eprintln!("fetching Cassandra");
    let copy = ["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"];
    let status = Command::new("mvn").args(copy).current_dir(dir).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "Maven cannot fetch org.apache.cassandra:cassandra-all");
    Ok(fs::write(dir.join("lib/fetched"), "")?)
}

fn spawn(args: &Args, dir: &Path, node: usize) -> Result<Child> {
    let folder = folder(dir, node);
    fs::create_dir_all(&folder)?;
    let text = |path: &Path| path.display().to_string();
    let config = include_str!("files/cassandra.yaml")
        .replace("TOKEN", &token(node).to_string())
        .replace("ADDRESS", &address(node))
        .replace("FOLDER", &text(&folder));
    fs::write(folder.join("cassandra.yaml"), config)?;
    // The nodes are killed when this process ends for any reason. They have the lowest priority, so
    // that the measuring clients run first.
    let mut java = Command::new("setpriv");
    java.args(["--pdeathsig", "KILL", "--", "nice", "-n", "19", "java", "@jvm.opts"]);
    java.arg(format!("-Xms{0}", args.heap)).arg(format!("-Xmx{0}", args.heap));
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
    let log = fs::File::create(folder.join("log"))?;
    java.current_dir(dir).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let child = java.spawn().context("cannot run java")?;
    fs::write(folder.join("pid"), child.id().to_string())?;
    Ok(child)
}

/// Waits until a node accepts clients.
fn listens(child: &mut Child, dir: &Path, node: usize) -> Result<()> {
    let log = folder(dir, node).join("log");
    let start = Instant::now();
    while !fs::read_to_string(&log)?.contains("Starting listening for CQL clients") {
        if child.try_wait()?.is_some() || start.elapsed() > START {
            bail!("node {} did not start; its log is {}", node + 1, log.display());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// Switches the dynamic snitch of all nodes on or off. Without it, a coordinator that is a replica
/// reads from itself.
pub(crate) fn set_snitch(dir: &Path, on: bool) -> Result<()> {
    let mut java = Command::new("java");
    java.arg("Snitch.java").arg(on.to_string());
    java.args((0..NODES).map(|node| jmx_port(node).to_string()));
    let out = java.current_dir(dir).output().context("cannot run java")?;
    ensure!(out.status.success(), "no snitch: {}", String::from_utf8_lossy(&out.stderr));
    Ok(())
}

/// Returns a command for Cassandra's own tool, connected to a node.
pub(crate) fn tool(dir: &Path, node: usize) -> Command {
    let port = jmx_port(node).to_string();
    let mut java = java(dir);
    java.args(["-cp", "lib/*", "org.apache.cassandra.tools.NodeTool", "-p", &port]);
    java
}

/// Returns a Java command with the options of Cassandra's programs.
pub(crate) fn java(dir: &Path) -> Command {
    let mut java = Command::new("java");
    // Without this option, the tool would write a command history into the user's home directory.
    java.arg("@jvm.opts").arg(format!("-Duser.home={}", dir.display()));
    java.current_dir(dir).stdin(Stdio::null());
    java
}

/// Rewrites all data of a node, as compactions occasionally do. The process ends when the node is
/// done.
pub(crate) fn compact(dir: &Path, node: usize) -> Result<Child> {
    let mut compact = tool(dir, node);
    compact.args(["compact", workload::KEYSPACE]).stdout(Stdio::null()).stderr(Stdio::null());
    compact.spawn().context("cannot run java")
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
