//! The environment: namespaces behind a bridge, and programs that run in them.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use curtail_stage::link;
use curtail_xdp::namespace::Namespace;
use xtask::cargo::output;
use xtask::process::{Process, tied};

/// A network of namespaces behind a bridge. Each has one device `eth0` and an address. The network
/// disappears with this process, as its namespaces do.
#[derive(Debug)]
pub(crate) struct Network {
    hub: Namespace,
    hosts: u32,
}

/// A namespace of the network.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    pub(crate) address: String,
}

impl Network {
    /// Creates a network and moves this thread into it, to the host 10.77.0.1.
    pub(crate) fn enter(socket_bytes: u32) -> Result<Self> {
        let hub = Namespace::new()?;
        hub.ip("link add bridge type bridge\nlink set bridge up")?;
        let mut network = Self { hub, hosts: 0 };
        network.host(1, socket_bytes)?.namespace.enter()?;
        Ok(network)
    }

    /// Adds a host `10.77.0.LAST`. At most `socket_bytes` of a response are held in a socket
    /// buffer, so a transfer stops soon after its connection is closed.
    pub(crate) fn host(&mut self, last: u8, socket_bytes: u32) -> Result<Host> {
        let (namespace, port) = (Namespace::new()?, format!("port{}", self.hosts));
        self.hosts += 1;
        let (path, address) = (namespace.path(), format!("10.77.0.{last}"));
        self.hub.ip(&format!(
            "link add {port} type veth peer name eth0 netns {path}\n\
             link set {port} master bridge\nlink set {port} up"
        ))?;
        namespace
            .ip(&format!("addr add {address}/24 dev eth0\nlink set eth0 up\nlink set lo up"))?;
        namespace.inside(|| -> io::Result<()> {
            let of = |first| format!("4096 {first} {socket_bytes}");
            fs::write("/proc/sys/net/ipv4/tcp_wmem", of(16_384))?;
            fs::write("/proc/sys/net/ipv4/tcp_rmem", of(65_536))
        })?;
        Ok(Host { namespace, address })
    }
}

impl Host {
    /// Returns a command that runs a program on this host. The program ends with this process. Keep
    /// the host until the program runs, because the program looks for its namespace itself.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = tied("nsenter");
        command.arg(format!("--net={}", self.namespace.path())).args(["--", program]);
        command
    }

    /// Returns a command whose program writes everything to its log.
    pub(crate) fn logged(&self, program: &str) -> Command {
        let mut command = self.command("sh");
        command.args(["-c", "exec \"$0\" \"$@\" >&2", program]);
        command
    }

    /// Runs a program to completion. Its arguments are separated by spaces.
    pub(crate) fn run(&self, program: &str, line: &str) -> Result<()> {
        output(self.command(program).args(line.split(' '))).map(drop)
    }

    /// Limits the host's link to this rate, in two bands.
    pub(crate) fn limit(&self, bits_per_s: u64) -> Result<()> {
        let commands = link::commands("eth0", bits_per_s);
        commands.iter().try_for_each(|(program, line)| self.run(program, line))
    }

    /// Starts a stage on this host with a configuration, and waits until it listens.
    pub(crate) fn stage(&self, curtail: &str, folder: &Path, text: &str) -> Result<Process> {
        let command = stage(self.command(curtail), folder, text)?;
        let mut stage = Process::start(&self.address, command, folder)?;
        stage.announced()?;
        Ok(stage)
    }
}

/// Adds the arguments of a stage to a command that ends with `curtail`. The configuration is written
/// to a file.
pub(crate) fn stage(mut curtail: Command, folder: &Path, text: &str) -> Result<Command> {
    let file = folder.join("stage.toml");
    fs::write(&file, text)?;
    curtail.args(["stage", "--announce", "--config"]).arg(file);
    Ok(curtail)
}
