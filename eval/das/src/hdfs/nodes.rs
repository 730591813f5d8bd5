//! HDFS on this machine: a NameNode and DataNodes, each in its own network namespace, and each
//! DataNode with its own disk.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::disk::Disk;
use super::hadoop::{self, BLOCK_BYTES, PAGES, RPC, configure, java};
pub(crate) use super::hadoop::{PORT, REPLICATION};
use crate::environment::{Host, Network, Process, run};

const NAMENODE: &str = "org.apache.hadoop.hdfs.server.namenode.NameNode";
const DATANODE: &str = "org.apache.hadoop.hdfs.server.datanode.DataNode";
/// The maximum size of a socket buffer. With larger buffers, more of a response would be read from
/// the disk after its client has closed the connection.
const SOCKET_BYTES: u32 = 128 << 10;
/// How long to wait until all nodes serve, and until replicas are reported.
const START: Duration = Duration::from_secs(180);
/// The time limit for a request during setup.
const REQUEST: Duration = Duration::from_secs(30);

/// The nodes to start, and the files to write.
#[derive(Debug)]
pub(crate) struct Options {
    /// Number of DataNodes.
    pub(crate) nodes: usize,
    /// Bytes per second that a disk reads.
    pub(crate) rate: u64,
    /// Bits per second that a DataNode sends. `None` for no limit.
    pub(crate) network: Option<u64>,
    pub(crate) files: usize,
    pub(crate) file_bytes: u64,
}

/// Running nodes. The nodes end when this value is dropped, and their stored data is deleted.
#[derive(Debug)]
pub(crate) struct Hdfs {
    pub(crate) client: Host,
    pub(crate) nodes: Vec<DataNode>,
    namenode: Process,
    state: State,
    _network: Network,
    _namenode_host: Host,
}

/// A DataNode.
#[derive(Debug)]
pub(crate) struct DataNode {
    pub(crate) process: Process,
    pub(crate) host: Host,
    disk: Arc<Disk>,
}

/// The folder with the stored data of the nodes, their configurations and their logs.
#[derive(Debug)]
struct State(PathBuf);

impl Drop for State {
    fn drop(&mut self) {
        // The stored data is deleted, and the logs stay.
        let Ok(folders) = fs::read_dir(&self.0) else { return };
        for folder in folders.flatten() {
            let _ = fs::remove_dir_all(folder.path().join("stored"));
        }
    }
}

impl Hdfs {
    /// Starts the nodes, waits until all of them serve, and writes the files.
    pub(crate) fn start(options: &Options, dir: &Path) -> Result<Self> {
        ensure!((REPLICATION..=9).contains(&options.nodes), "3 to 9 nodes");
        ensure!((1..=BLOCK_BYTES).contains(&options.file_bytes), "a file has at most 16 MB");
        fs::create_dir_all(dir).with_context(|| format!("no folder {}", dir.display()))?;
        let dir = &dir.canonicalize()?;
        hadoop::fetch(dir)?;
        let state = State(dir.join("run"));
        if state.0.exists() {
            fs::remove_dir_all(&state.0)?;
        }
        let mut network = Network::new()?;
        let client = network.host(1, SOCKET_BYTES)?;
        let namenode_host = network.host(10, SOCKET_BYTES)?;
        let namenode = start_namenode(&namenode_host, dir)?;
        let mut nodes = Vec::new();
        for node in 0..options.nodes {
            let host = network.host(11 + node as u8, SOCKET_BYTES)?;
            nodes.push(DataNode::start(host, options, dir, node)?);
        }
        let mut hdfs = Self {
            client,
            nodes,
            namenode,
            state,
            _network: network,
            _namenode_host: namenode_host,
        };
        hdfs.wait_until_live()?;
        hdfs.fill(options)?;
        Ok(hdfs)
    }

    /// Returns the path and query with which a DataNode serves part of a file. A DataNode that
    /// holds the file reads it from its own disk.
    pub(crate) fn path(&self, file: usize, offset: u64, length: u64) -> String {
        let part = format!("offset={offset}&length={length}");
        format!("/webhdfs/v1/f{file}?op=OPEN&user.name=root&namenoderpcaddress={RPC}&{part}")
    }

    /// Returns the DataNodes that hold a file.
    pub(crate) fn locations(&self, file: usize) -> Result<Vec<usize>> {
        let path = format!("/webhdfs/v1/f{file}?op=GETFILEBLOCKLOCATIONS&user.name=root");
        let found = self.json(&path)?;
        let hosts = &found["BlockLocations"]["BlockLocation"][0]["hosts"];
        let hosts =
            hosts.as_array().with_context(|| format!("no block of file {file}: {found}"))?;
        let node = |host: &Value| {
            let found = self.nodes.iter().position(|node| *host == *node.host.address);
            found.with_context(|| format!("no DataNode is {host}"))
        };
        hosts.iter().map(node).collect()
    }

    /// Changes the number of bytes per second that a DataNode's disk reads.
    pub(crate) fn set_rate(&self, node: usize, rate: u64) {
        self.nodes[node].disk.set_rate(rate);
    }

    /// Returns the number of bytes that a DataNode's disk has read so far.
    pub(crate) fn read_bytes(&self, node: usize) -> u64 {
        self.nodes[node].disk.read_bytes()
    }

    fn wait_until_live(&mut self) -> Result<()> {
        let (start, logs) = (Instant::now(), self.state.0.display());
        loop {
            // There is no response until the NameNode listens.
            let path = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState";
            let live =
                self.json(path).ok().and_then(|all| all["beans"][0]["NumLiveDataNodes"].as_u64());
            if live == Some(self.nodes.len() as u64) {
                return Ok(());
            }
            let processes = self.nodes.iter_mut().map(|node| &mut node.process);
            for process in processes.chain([&mut self.namenode]) {
                ensure!(process.0.try_wait()?.is_none(), "a node ended; logs are in {logs}");
            }
            ensure!(start.elapsed() < START, "{live:?} DataNodes are live; logs are in {logs}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Writes the files. Each file is written to one node, which holds the first replica. The
    /// NameNode places the others.
    fn fill(&self, options: &Options) -> Result<()> {
        let content: Vec<u8> = (0..options.file_bytes).map(|at| (at % 251) as u8).collect();
        for file in 0..options.files {
            let first = &self.nodes[file % self.nodes.len()].host.address;
            let path =
                format!("/webhdfs/v1/f{file}?op=CREATE&user.name=root&namenoderpcaddress={RPC}");
            let response = self.http(&format!("{first}:{PORT}"), "PUT", &path, &content)?;
            ensure!(response.contains("201 Created"), "file {file} was not written: {response}");
        }
        let start = Instant::now();
        for file in 0..options.files {
            while self.locations(file)?.len() < REPLICATION {
                ensure!(start.elapsed() < START, "file {file} has too few replicas");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Returns the NameNode's response as JSON.
    fn json(&self, path: &str) -> Result<Value> {
        let response = self.http(PAGES, "GET", path, &[])?;
        let (_, body) = response.split_once("\r\n\r\n").context("a response without an end")?;
        serde_json::from_str(body).with_context(|| format!("not JSON: {response}"))
    }

    fn http(&self, to: &str, method: &str, path: &str, body: &[u8]) -> Result<String> {
        let address = to.parse()?;
        let head = format!("{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
        let response = self.client.namespace.inside(|| -> io::Result<String> {
            let mut stream = TcpStream::connect_timeout(&address, REQUEST)?;
            stream.set_read_timeout(Some(REQUEST))?;
            stream.write_all(&[head.as_bytes(), body].concat())?;
            let mut response = String::new();
            stream.read_to_string(&mut response)?;
            Ok(response)
        });
        response.with_context(|| format!("no response from {to}"))
    }
}

impl DataNode {
    fn start(host: Host, options: &Options, dir: &Path, node: usize) -> Result<Self> {
        if let Some(rate) = options.network {
            host.limit(rate)?;
        }
        let name = format!("dn{}", node + 1);
        let folder = configure(dir, &name, &hadoop::datanode_properties(&host.address))?;
        let mut command = host.command("unshare");
        let (stored, at) = (folder.join("stored"), folder.join("disk"));
        let disk = Disk::mount(&mut command, &stored, &at, options.rate)?;
        let process = Process::start(java(command.arg("java"), dir, &folder)?.arg(DATANODE))?;
        Ok(Self { process, host, disk })
    }
}

fn start_namenode(host: &Host, dir: &Path) -> Result<Process> {
    let properties = [("dfs.namenode.http-address", PAGES.into())];
    let folder = configure(dir, "nn", &properties)?;
    let mut format = host.command("java");
    java(&mut format, dir, &folder)?.args([NAMENODE, "-format", "-nonInteractive"]);
    run(&mut format).with_context(|| format!("logs are in {}", folder.display()))?;
    Process::start(java(&mut host.command("java"), dir, &folder)?.arg(NAMENODE))
}
