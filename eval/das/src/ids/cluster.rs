//! The testbed: two nodes, each with two instances of Suricata, between the duplicator and the
//! de-duplicator.
//!
//! ```text
//!  network                    node 0                        network
//!  +--------+   wire   +-------------------+   wire   +--------------+
//!  | out0 --|--------->| from0 primary to0 |--------->|-- in0        |
//!  | out1 --|--------->| from1 duplic. to1 |--------->|-- in1        |
//!  |        |          +-------------------+          |              |
//!  | out2 --|--------->  node 1, the same   --------->|-- in2        |
//!  | out3 --|--------->                     --------->|-- in3        |
//!  +--------+                                         +--------------+
//! ```
//!
//! An instance is a bridge, so a packet that comes out of it has been inspected. A node is a
//! processor and a network namespace. The rest of the network is another namespace.

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd as _, OwnedFd};

use anyhow::{Context as _, Result, ensure};
use curtail_xdp::namespace::Namespace;
use nix::ifaddrs::getifaddrs;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, bind, socket};
use nix::unistd::Pid;

use super::frame;
use crate::environment::Host;

/// The number of nodes.
pub(crate) const NODES: usize = 2;

/// The role of an instance on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Scheduled fairly.
    Primary,
    /// Scheduled only when no other process needs the processor.
    Duplicate,
}

/// The nodes, their processors, and the network around them.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: [Host; NODES],
    pub(crate) cores: [usize; NODES],
    network: Namespace,
}

/// Returns the number of an instance. Its wires have the same number.
pub(crate) fn instance(node: usize, role: Role) -> u8 {
    2 * node as u8 + u8::from(role == Role::Duplicate)
}

impl Cluster {
    pub(crate) fn new() -> Result<Self> {
        let node = || -> Result<Host> {
            Ok(Host { namespace: Namespace::new()?, address: String::new() })
        };
        let (network, nodes) = (Namespace::new()?, [node()?, node()?]);
        for (at, node) in nodes.iter().enumerate() {
            for role in [Role::Primary, Role::Duplicate] {
                wire(&network, &node.namespace, instance(at, role))?;
            }
        }
        Ok(Self { nodes, cores: cores()?, network })
    }

    /// Returns a socket that sends frames to an instance.
    pub(crate) fn sender(&self, instance: u8) -> Result<OwnedFd> {
        self.network.inside(|| {
            let name = format!("out{instance}");
            let mut devices = getifaddrs()?.filter(|device| device.interface_name == name);
            let address = devices.find_map(|device| device.address?.as_link_addr().copied());
            let address = address.with_context(|| format!("{name} has no address"))?;
            let raw = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
            bind(raw.as_raw_fd(), &address)?;
            Ok(raw)
        })
    }

    /// Returns a socket that receives the packets that an instance processed.
    pub(crate) fn receiver(&self, instance: u8) -> Result<UdpSocket> {
        self.network.inside(|| {
            let socket = UdpSocket::bind((format!("10.78.{instance}.2"), frame::PORT))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        })
    }
}

fn wire(network: &Namespace, node: &Namespace, instance: u8) -> Result<()> {
    let (mut here, mut there) = (String::new(), String::new());
    let path = node.path();
    let mac = frame::mac(instance).map(|byte| format!("{byte:02x}")).join(":");
    for (near, far) in [("out", "from"), ("in", "to")] {
        let queues = "numtxqueues 1 numrxqueues 1";
        writeln!(
            here,
            "link add {near}{instance} {queues} type veth peer name {far}{instance} {queues} netns {path}"
        )?;
        writeln!(here, "link set {near}{instance} arp off up")?;
        writeln!(there, "link set {far}{instance} arp off up")?;
    }
    writeln!(here, "link set in{instance} address {mac}")?;
    writeln!(here, "addr add 10.78.{instance}.2/24 dev in{instance}")?;
    network.ip(&here)?;
    Ok(node.ip(&there)?)
}

/// Returns the first two processors that this process may use.
fn cores() -> Result<[usize; NODES]> {
    let allowed =
        sched_getaffinity(Pid::from_raw(0)).context("cannot read the allowed processors")?;
    let all = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let two: Vec<usize> = all.take(NODES).collect();
    ensure!(
        two.len() == NODES,
        "this needs two processors, one for each node, but there is only one"
    );
    Ok([two[0], two[1]])
}

/// Pins this thread to one processor.
pub(crate) fn pin(core: usize) -> Result<()> {
    let mut only = CpuSet::new();
    only.set(core)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &only)?)
}
