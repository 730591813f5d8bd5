//! HDFS on this machine: a NameNode and three DataNodes, each in its own network namespace, and each
//! DataNode with its own disk. Maven downloads Hadoop, which runs unmodified.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use ureq::Agent;
use xtask::cargo::output;
use xtask::needs::lacking;
use xtask::process::Process;

use super::disk::Disk;
use crate::environment::{Host, Network};

/// The number of DataNodes, all of which hold each block.
pub(super) const NODES: usize = 3;
/// The addresses of the NameNode's protocol and of its web pages.
const RPC: &str = "10.77.0.10:8020";
const PAGES: &str = "10.77.0.10:9870";
/// The port on which a DataNode serves reads over HTTP.
pub(super) const PORT: u16 = 9864;
/// The size of a block. A file has one block.
const BLOCK_BYTES: u64 = 16 << 20;

const SETTINGS: [(&str, &str); 15] = [
    ("dfs.permissions.enabled", "false"),
    ("dfs.namenode.datanode.registration.ip-hostname-check", "false"),
    ("dfs.namenode.safemode.extension", "0"),
    ("dfs.namenode.edits.noeditlogchannelflush", "true"),
    // The NameNode would skip a busy node, and the file would lack a replica.
    ("dfs.namenode.redundancy.considerLoad", "false"),
    ("dfs.namenode.handler.count", "4"),
    ("dfs.datanode.handler.count", "3"),
    ("dfs.heartbeat.interval", "1s"),
    // Without this, a node refuses files on a small disk.
    ("dfs.datanode.round-robin-volume-choosing-policy.additional-available-space", "0"),
    // The disk gets one request per packet. `sendfile` would send one per page.
    ("dfs.datanode.transferTo.allowed", "false"),
    ("io.file.buffer.size", "65536"),
    // These settings prevent background reads of the disk.
    ("dfs.block.scanner.volume.bytes.per.second", "0"),
    ("dfs.datanode.directoryscan.interval", "-1"),
    (
        "fs.getspaceused.classname",
        "org.apache.hadoop.hdfs.server.datanode.fsdataset.impl.ReplicaCachingGetSpaceUsed",
    ),
    ("hadoop.http.staticuser.user", "root"),
];

const LOG: &str = "log4j.rootLogger=INFO,C
log4j.appender.C=org.apache.log4j.ConsoleAppender
log4j.appender.C.layout=org.apache.log4j.PatternLayout
log4j.appender.C.layout.ConversionPattern=%d %p %c: %m%n
";

const NAMENODE: &str = "org.apache.hadoop.hdfs.server.namenode.NameNode";
const DATANODE: &str = "org.apache.hadoop.hdfs.server.datanode.DataNode";
/// The maximum size of a socket buffer. With larger buffers, more of a response would be read from
/// the disk after its client has closed the connection.
pub(super) const SOCKET_BYTES: u32 = 128 << 10;
/// How long to wait until all nodes serve, and until replicas are reported.
const START: Duration = Duration::from_secs(180);
/// The time limit for a request during setup.
const REQUEST: Duration = Duration::from_secs(30);

/// The files to write, and the rates of the DataNodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    pub(super) files: usize,
    pub(super) file_bytes: u64,
    /// Bytes per second that a disk reads.
    pub(super) rate: u64,
    /// Bits per second that a DataNode sends. `None` for no limit.
    pub(super) network: Option<u64>,
}

/// Running nodes. The nodes end when this value is dropped, and their stored data is deleted.
pub(super) struct Hdfs {
    pub(super) nodes: Vec<DataNode>,
    _namenode: Process,
    _namenode_host: Host,
    _state: State,
}

/// A DataNode.
pub(super) struct DataNode {
    pub(super) host: Host,
    pub(super) disk: Disk,
    process: Process,
}

/// The folder with the stored data of the nodes, their configurations and their logs.
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
    /// Starts the nodes, waits until all of them serve, and writes the files. Call this from the
    /// main thread, in the network. Hadoop is in `dir`.
    pub(super) fn start(network: &mut Network, options: Options, dir: &Path) -> Result<Self> {
        let state = State(dir.join("run"));
        if state.0.exists() {
            fs::remove_dir_all(&state.0)?;
        }
        let host = network.host(10, SOCKET_BYTES)?;
        let mut namenode = start_namenode(&host, dir)?;
        let start = |last| DataNode::start(network.host(last, SOCKET_BYTES)?, options, dir);
        let mut nodes = (11..11 + NODES as u8).map(start).collect::<Result<Vec<_>>>()?;
        for DataNode { process, host, .. } in &mut nodes {
            let address = format!("{}:{PORT}", host.address);
            process.wait_within(START, || TcpStream::connect(&address).is_ok())?;
        }
        namenode.wait_within(START, || {
            // There is no response until the NameNode listens.
            let path = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState";
            let live = ask(path).ok().and_then(|all| all["beans"][0]["NumLiveDataNodes"].as_u64());
            live == Some(NODES as u64)
        })?;
        let hdfs = Self { nodes, _namenode: namenode, _namenode_host: host, _state: state };
        hdfs.fill(options)?;
        Ok(hdfs)
    }

    /// Writes the files. Each file is written to one node, which holds the first replica. The
    /// NameNode places the others.
    fn fill(&self, options: Options) -> Result<()> {
        let content: Vec<u8> = (0..options.file_bytes).map(|at| (at % 251) as u8).collect();
        for file in 0..options.files {
            let first = &self.nodes[file % NODES].host.address;
            let to = format!("http://{first}:{PORT}/webhdfs/v1/f{file}?op=CREATE");
            agent()
                .put(format!("{to}&user.name=root&namenoderpcaddress={RPC}"))
                .send(&content)
                .with_context(|| format!("file {file} was not written"))?;
        }
        let start = Instant::now();
        for file in 0..options.files {
            let path = format!("/webhdfs/v1/f{file}?op=GETFILEBLOCKLOCATIONS&user.name=root");
            let replicas = || -> Result<Option<usize>> {
                let found = &ask(&path)?["BlockLocations"]["BlockLocation"][0]["hosts"];
                Ok(found.as_array().map(Vec::len))
            };
            while replicas()? != Some(NODES) {
                ensure!(start.elapsed() < START, "file {file} has too few replicas");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }
}

/// Returns the path and query with which a DataNode serves the start of a file. A DataNode that holds
/// the file reads it from its own disk.
pub(super) fn path(file: usize, length: u64) -> String {
    let query = format!("op=OPEN&user.name=root&namenoderpcaddress={RPC}&offset=0&length={length}");
    format!("/webhdfs/v1/f{file}?{query}")
}

/// Returns the NameNode's response as JSON.
fn ask(path: &str) -> Result<Value> {
    let response =
        agent().get(format!("http://{PAGES}{path}")).call()?.into_body().read_to_string()?;
    serde_json::from_str(&response).with_context(|| format!("not JSON: {response}"))
}

fn agent() -> Agent {
    Agent::config_builder().proxy(None).timeout_global(Some(REQUEST)).build().new_agent()
}

impl DataNode {
    fn start(host: Host, options: Options, dir: &Path) -> Result<Self> {
        if let Some(rate) = options.network {
            host.limit(rate)?;
        }
        let address = &host.address;
        let properties = [
            ("dfs.datanode.hostname", address.clone()),
            ("dfs.datanode.address", format!("{address}:9866")),
            ("dfs.datanode.http.address", format!("{address}:{PORT}")),
            ("dfs.datanode.ipc.address", format!("{address}:9867")),
        ];
        let folder = configure(dir, address, &properties)?;
        let disk = Disk::mount(&folder.join("stored"), &folder.join("disk"), options.rate)?;
        let mut command = host.logged("nsenter");
        java(command.args(disk.entered()).arg("java"), dir, &folder).arg(DATANODE);
        let process = Process::start("datanode", command, &folder)?;
        Ok(Self { host, disk, process })
    }
}

fn start_namenode(host: &Host, dir: &Path) -> Result<Process> {
    let folder = configure(dir, "namenode", &[("dfs.namenode.http-address", PAGES.into())])?;
    let mut format = host.command("java");
    output(java(&mut format, dir, &folder).args([NAMENODE, "-format", "-nonInteractive"]))?;
    let mut command = host.logged("java");
    java(&mut command, dir, &folder).arg(NAMENODE);
    Process::start("namenode", command, &folder)
}

/// Downloads HDFS and its dependencies (64 MB) unless they are already there. Returns the folder. Call
/// this before the thread enters the network, which is not connected to any other.
pub(super) fn fetch(dir: &Path) -> Result<PathBuf> {
    fs::create_dir_all(dir).with_context(|| format!("no folder {}", dir.display()))?;
    let dir = dir.canonicalize()?;
    for (program, package) in [("java", "JDK 17"), ("mvn", "Maven"), ("tc", "iproute2")] {
        ensure!(lacking(program).is_none(), "{program} is missing: install {package}");
    }
    if dir.join("lib/fetched").exists() {
        return Ok(dir);
    }
    eprintln!("fetching HDFS");
    fs::write(dir.join("pom.xml"), include_str!("pom.xml"))?;
    let copy = ["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"];
    let mut maven = Command::new("mvn");
    output(maven.args(copy).arg("-DoutputDirectory=lib").current_dir(&dir))
        .context("Maven cannot fetch org.apache.hadoop:hadoop-hdfs")?;
    fs::write(dir.join("lib/fetched"), "")?;
    Ok(dir)
}

/// Writes a node's configuration. Its folder contains `stored` with the stored data, and `disk`,
/// where a DataNode mounts that data.
fn configure(dir: &Path, name: &str, properties: &[(&str, String)]) -> Result<PathBuf> {
    let folder = dir.join("run").join(name);
    // Without these folders there are no web pages.
    for pages in ["hdfs", "datanode"] {
        fs::create_dir_all(folder.join("conf/webapps").join(pages).join("WEB-INF"))?;
    }
    fs::create_dir(folder.join("stored"))?;
    fs::create_dir(folder.join("disk"))?;
    let text = folder.display();
    let mut site = String::from("<configuration>\n");
    let mut property = |name: &str, value: &str| {
        site += &format!("<property><name>{name}</name><value>{value}</value></property>\n");
    };
    property("fs.defaultFS", &format!("hdfs://{RPC}"));
    property("hadoop.tmp.dir", &format!("{text}/tmp"));
    property("dfs.namenode.name.dir", &format!("file://{text}/stored"));
    property("dfs.namenode.rpc-address", RPC);
    property("dfs.datanode.data.dir", &format!("file://{text}/disk/hdfs"));
    property("dfs.blocksize", &BLOCK_BYTES.to_string());
    property("dfs.replication", &NODES.to_string());
    SETTINGS.iter().for_each(|(name, value)| property(name, value));
    properties.iter().for_each(|(name, value)| property(name, value));
    site += "</configuration>\n";
    fs::write(folder.join("conf/core-site.xml"), &site)?;
    fs::write(folder.join("conf/hdfs-site.xml"), &site)?;
    fs::write(folder.join("conf/log4j.properties"), LOG)?;
    Ok(folder)
}

/// Adds the Java arguments to a command that ends with `java`. The class to run has to follow them.
fn java<'a>(command: &'a mut Command, dir: &Path, folder: &Path) -> &'a mut Command {
    command.args(["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:MaxMetaspaceSize=96m"]);
    command.args(["-XX:ReservedCodeCacheSize=64m", "-Djava.net.preferIPv4Stack=true"]);
    command.arg("--add-opens=java.base/java.lang=ALL-UNNAMED");
    command.arg(format!("-Dhadoop.home.dir={}", folder.display()));
    command.arg("-cp").arg(format!("{}/conf:{}/lib/*", folder.display(), dir.display()));
    command.current_dir(folder)
}
