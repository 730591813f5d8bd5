//! Downloads Hadoop, configures its nodes, and runs them with Java on this machine.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::environment::run;

/// The addresses of the NameNode's protocol and of its web pages.
pub(crate) const RPC: &str = "10.77.0.10:8020";
pub(crate) const PAGES: &str = "10.77.0.10:9870";
/// The port on which a DataNode serves reads over HTTP.
pub(crate) const PORT: u16 = 9864;
/// The number of DataNodes that hold a block.
pub(crate) const REPLICATION: usize = 3;
/// The size of a block. A file has one block.
pub(crate) const BLOCK_BYTES: u64 = 16 << 20;

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

/// Downloads HDFS and its dependencies (64 MB) unless they are already there.
pub(crate) fn fetch(dir: &Path) -> Result<()> {
    let needed = [
        ("java", "JDK 17"),
        ("mvn", "Maven"),
        ("tc", "iproute2"),
        ("setpriv", "util-linux"),
        ("mount", "util-linux"),
    ];
    for (program, package) in needed {
        let found = Command::new(program).arg("--version").output().is_ok();
        ensure!(found, "{program} is missing: install {package}");
    }
    if dir.join("lib/fetched").exists() {
        return Ok(());
    }
    eprintln!("fetching HDFS");
    fs::write(dir.join("pom.xml"), include_str!("pom.xml"))?;
    let copy = ["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"];
    let mut maven = Command::new("mvn");
    maven.args(copy).arg("-DoutputDirectory=lib").current_dir(dir).stdin(Stdio::null());
    run(&mut maven).context("Maven cannot fetch org.apache.hadoop:hadoop-hdfs")?;
    Ok(fs::write(dir.join("lib/fetched"), "")?)
}

pub(crate) fn datanode_properties(address: &str) -> [(&'static str, String); 4] {
    [
        ("dfs.datanode.hostname", address.into()),
        ("dfs.datanode.address", format!("{address}:9866")),
        ("dfs.datanode.http.address", format!("{address}:{PORT}")),
        ("dfs.datanode.ipc.address", format!("{address}:9867")),
    ]
}

/// Writes a node's configuration. Its folder contains `stored` with the stored data, and `disk`,
/// where a DataNode mounts that data.
pub(crate) fn configure(dir: &Path, name: &str, properties: &[(&str, String)]) -> Result<PathBuf> {
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
    property("dfs.replication", &REPLICATION.to_string());
    SETTINGS.iter().for_each(|(name, value)| property(name, value));
    properties.iter().for_each(|(name, value)| property(name, value));
    site += "</configuration>\n";
    fs::write(folder.join("conf/core-site.xml"), &site)?;
    fs::write(folder.join("conf/hdfs-site.xml"), &site)?;
    fs::write(folder.join("conf/log4j.properties"), LOG)?;
    Ok(folder)
}

/// Adds the Java arguments to a command that ends with `java`. The class to run has to follow them.
pub(crate) fn java<'a>(
    command: &'a mut Command,
    dir: &Path,
    folder: &Path,
) -> Result<&'a mut Command> {
    let log = OpenOptions::new().create(true).append(true).open(folder.join("log"))?;
    command.args(["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:MaxMetaspaceSize=96m"]);
    command.args(["-XX:ReservedCodeCacheSize=64m", "-Djava.net.preferIPv4Stack=true"]);
    command.arg("--add-opens=java.base/java.lang=ALL-UNNAMED");
    command.arg(format!("-Dhadoop.home.dir={}", folder.display()));
    command.arg("-cp").arg(format!("{}/conf:{}/lib/*", folder.display(), dir.display()));
    Ok(command.current_dir(folder).stdout(log.try_clone()?).stderr(log))
}
