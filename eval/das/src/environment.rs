//! The environment: namespaces behind a bridge, and programs that run in them.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use curtail_stage::link;
use curtail_xdp::namespace::Namespace;

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
    pub(crate) fn new() -> Result<Self> {
        let hub = Namespace::new()?;
        hub.ip("link add bridge type bridge\nlink set bridge up")?;
        Ok(Self { hub, hosts: 0 })
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
    /// Returns a command that runs a program on this host. The program ends with this process.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "nsenter"]);
        command.arg(format!("--net={}", self.namespace.path())).arg(program);
        command.stdin(Stdio::null());
        command
    }

    /// Limits the host's link to this rate, in two bands.
    pub(crate) fn limit(&self, bits_per_s: u64) -> Result<()> {
        let commands = link::commands("eth0", bits_per_s);
        commands
            .iter()
            .try_for_each(|(program, line)| run(self.command(program).args(line.split(' '))))
    }

    /// Starts a stage on this host with a configuration, which is written to a file.
    pub(crate) fn stage(&self, curtail: &str, file: &Path, text: &str) -> Result<Process> {
        fs::write(file, text)?;
        let mut command = self.command(curtail);
        command.args(["stage", "--config"]).arg(file).stderr(Stdio::null());
        Process::start(&mut command)
    }
}

/// Runs a program to completion. Fails if the program fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// Runs a program and returns its output. Fails if the program fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().with_context(|| format!("cannot run {name}"))?;
    let stderr = String::from_utf8_lossy(&out.stderr);
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    ensure!(out.status.success(), "{name} {}: {}", words.join(" "), stderr.trim());
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Waits until a server listens.
pub(crate) fn listens(address: SocketAddr) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(_) => return Ok(()),
            Err(error) if start.elapsed() > Duration::from_secs(10) => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A process that ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Self).with_context(|| format!("cannot run {name}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
