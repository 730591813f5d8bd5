//! Three servers, each with a bottleneck whose capacity changes while it serves.
//!
//! | server | bottleneck | a single job |
//! |---|---|---|
//! | fast | HAProxy (`maxconn`) in front of a search leaf | takes 5 ms |
//! | disk | a block device, limited by `blkio.throttle` | is paced by nginx (`limit_rate`) |
//! | network | the link, limited by `htb` | is paced by nginx |
//!
//! A paced job uses only part of the device or link, as a job does if its client is slow.
//! `blkio.throttle` works in slices of 100 ms and serves at full speed until a slice is exhausted.
//! Data then comes in bursts, but the throughput is the same, and so is the knee.

use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use curtail_stage::link;
use serde::Serialize;
use xtask::cargo::output;
use xtask::process::Process;

use super::Load;
use crate::dpnet::OVERHEAD;
use crate::environment::Host;

/// The addresses of servers, leaves, stages, and stage metrics in the namespace of each server.
const SERVER: SocketAddr = local(8000);
const LEAF: SocketAddr = local(8001);
const STAGE_PORT: u16 = 9900;
pub(super) const ADMIN: SocketAddr = local(9901);
/// The size of a response from a disk or over a link, and the rate at which nginx sends it, in
/// bytes per second (16 KB every 8 ms).
const FILE_BYTES: usize = 200_000;
const PACE: f64 = 2.04e6;
/// The control groups (version 1) that limit block devices.
const BLKIO: &str = "/sys/fs/cgroup/blkio";
const LIMIT: &str = "blkio.throttle.read_bps_device";
/// A script that mounts an image visible only to its own process, limits it, and becomes nginx. The
/// mount ends with that process.
const MOUNT: &str = "mount -o loop,ro \"$0\" \"$1\" && echo $$ > \"$2/cgroup.procs\" \
                     && echo \"$(mountpoint -d \"$1\") 1000000000\" > \"$2/$3\" && exec nginx -c \"$4\"";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Fast,
    Disk,
    Network,
}

/// The capacity of a bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Capacity {
    Low,
    High,
}

impl Capacity {
    /// Returns the number of jobs that saturate the bottleneck.
    fn jobs(self) -> u32 {
        if self == Self::Low { 3 } else { 7 }
    }

    /// Returns bytes per second: slightly less than these jobs demand, so that the last of them is
    /// guaranteed to saturate the bottleneck.
    fn rate(self) -> f64 {
        (f64::from(self.jobs()) - 0.1) * PACE
    }

    /// Returns bits per second on a link.
    fn bits(self) -> u64 {
        (self.rate() * 8.0 * OVERHEAD) as u64
    }
}

/// A running server, which ends when this value is dropped.
pub(super) struct Server {
    kind: Kind,
    pub(super) host: Host,
    curtail: String,
    folder: PathBuf,
    processes: Vec<Process>,
    // Dropped last, because it can be removed only after the processes have ended.
    group: Option<Group>,
}

const fn local(port: u16) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}

impl Server {
    /// Starts a server. Call this from the main thread, because the server ends with the thread
    /// that starts it. `folder` must not exist yet.
    pub(super) fn start(kind: Kind, host: Host, curtail: &str, folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(folder.join("files"))?;
        fs::write(folder.join("files/file"), vec![7; FILE_BYTES])?;
        let mut server = Self {
            kind,
            host,
            curtail: curtail.to_owned(),
            folder,
            processes: Vec::new(),
            group: None,
        };
        let command = match kind {
            Kind::Fast => {
                let mut leaf = server.host.command(curtail);
                leaf.args(["leaf", "--listen", &LEAF.to_string(), "--slots", "64"]);
                leaf.args(["--service-time", "lognormal:5ms:0.3"]);
                let mut leaf = Process::start("leaf", leaf, &server.folder)?;
                leaf.announced()?;
                server.processes.push(leaf);
                server.haproxy()?
            }
            Kind::Disk => server.nginx_on_disk()?,
            Kind::Network => {
                server.host.limit(Capacity::Low.bits())?;
                let mut nginx = server.host.logged("nginx");
                nginx.arg("-c").arg(server.nginx_config("files", "")?);
                nginx
            }
        };
        let mut process = Process::start("server", command, &server.folder)?;
        let listens = || TcpStream::connect(SERVER).map_err(anyhow::Error::from);
        process.wait_until(|| server.host.namespace.inside(listens).is_ok())?;
        server.processes.push(process);
        Ok(server)
    }

    fn haproxy(&self) -> Result<Command> {
        let (config, stats) = (self.folder.join("haproxy.cfg"), self.folder.join("stats"));
        let text = format!(
            "global\n nbthread 1\n stats socket {} level admin\n\
             defaults\n mode http\n timeout connect 60s\n timeout client 60s\n timeout server 60s\n\
             listen fast\n bind {SERVER}\n http-reuse always\n server leaf {LEAF} maxconn 1\n",
            stats.display()
        );
        fs::write(&config, text)?;
        let mut command = self.host.logged("haproxy");
        command.args(["-db", "-q", "-f"]).arg(config);
        Ok(command)
    }

    fn nginx_on_disk(&mut self) -> Result<Command> {
        let [image, at] = ["image", "disk"].map(|name| self.folder.join(name));
        fs::File::create(&image)?.set_len(8 << 20)?;
        let mut make = Command::new("mke2fs");
        output(make.args(["-q", "-t", "ext4", "-d"]).arg(self.folder.join("files")).arg(&image))?;
        fs::create_dir(&at)?;
        let config = self.nginx_config("disk", "directio 4k; aio threads;")?;
        let group = self.group.insert(Group::new()?);
        let mut command = self.host.logged("unshare");
        command.args(["--mount", "sh", "-c", MOUNT]).arg(image).arg(at);
        command.arg(&group.0).arg(LIMIT).arg(config);
        Ok(command)
    }

    /// Writes the configuration of nginx. Small buffers keep the pace uniform. Without a master,
    /// nginx is a single process, which ends with this one.
    fn nginx_config(&self, root: &str, reads: &str) -> Result<PathBuf> {
        let (config, folder) = (self.folder.join("nginx.conf"), self.folder.display());
        let text = format!(
            "daemon off; master_process off; user root; error_log stderr crit; pid {folder}/pid;\n\
             events {{ }}\n\
             http {{ access_log off; sendfile off; output_buffers 1 16k; limit_rate 2000000; {reads}\n\
             server {{ listen {SERVER}; root {folder}/{root}; keepalive_requests 1000000; }} }}\n"
        );
        fs::write(&config, text)?;
        Ok(config)
    }

    /// Changes the capacity.
    pub(super) fn set(&self, capacity: Capacity) -> Result<()> {
        match (self.kind, &self.group) {
            (Kind::Fast, _) => {
                let mut stats = UnixStream::connect(self.folder.join("stats"))?;
                writeln!(stats, "set maxconn server fast/leaf {}", capacity.jobs())?;
                let reply = io::read_to_string(stats)?;
                ensure!(reply.trim().is_empty(), "haproxy: {}", reply.trim());
                Ok(())
            }
            (Kind::Disk, Some(group)) => group.limit(capacity.rate() as u64),
            _ => {
                // Only the class is changed, because queueing disciplines cannot be added to a link
                // that already has them.
                let (program, line) = &link::commands("eth0", capacity.bits())[2];
                self.host.run(program, line)
            }
        }
    }

    /// Starts a stage in front of the server, and clients of the stage. Call this from the main
    /// thread, in the clients' namespace.
    pub(super) fn loaded(&self, slots: &str) -> Result<(Process, Load)> {
        let address: SocketAddr = format!("{}:{STAGE_PORT}", self.host.address).parse()?;
        let text = format!(
            "[[stage]]\nname = \"server\"\nkind = \"http\"\nlisten = \"{address}\"\n\
             server = \"{SERVER}\"\nadmin = \"{ADMIN}\"\nslots = {slots}\n"
        );
        let stage = self.host.stage(&self.curtail, &self.folder, &text)?;
        let path = if self.kind == Kind::Fast { "/search?q=tail&n=" } else { "/file?n=" };
        Ok((stage, Load::start(address, path)))
    }
}

/// The control group that limits the disk of a server.
struct Group(PathBuf);

impl Group {
    fn new() -> Result<Self> {
        let group = Path::new(BLKIO).join(format!("curtail-knee-{}", std::process::id()));
        fs::create_dir(&group).with_context(|| format!("SKIPPED: no control group {group:?}"))?;
        let group = Self(group);
        ensure!(group.0.join(LIMIT).exists(), "SKIPPED: there is no {LIMIT} in {BLKIO}");
        Ok(group)
    }

    /// Changes the limit of the group's device.
    fn limit(&self, bytes_per_s: u64) -> Result<()> {
        let limit = fs::read_to_string(self.0.join(LIMIT))?;
        let device = limit.split(' ').next().filter(|device| device.contains(':'));
        let device = device.context("the disk has no limit")?;
        Ok(fs::write(self.0.join(LIMIT), format!("{device} {bytes_per_s}"))?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
