//! The nodes, and between them the traffic source, the duplicator and the de-duplicator, which run as
//! one thread per node.
//!
//! In the paper they are separate machines. Here they share the nodes' processors, so they have
//! precedence over all instances (`SCHED_FIFO`) and do little work: a packet takes a few µs of
//! their time, but several hundred µs of a node's time. Packets are due at equal intervals and go
//! to the nodes in turn. Each thread computes which packets are its own, so threads do not share
//! any state.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use curtail_kernel::stage::Priority;
use curtail_machine::keep_to;
use curtail_stage::cpu::Mechanism;
use curtail_xdp::namespace::Namespace;
use etherparse::PacketBuilder;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, bind, send, socket};

use crate::environment::Host;

/// The number of nodes.
pub(super) const NODES: usize = 2;
/// The interval at which packets are sent and received.
const TICK: Duration = Duration::from_micros(500);
/// After a turn, a node's queues count as empty once the node has had no output for this time.
const QUIET: Duration = Duration::from_millis(30);

/// The length of the payload, in bytes, and its offset in a packet.
const PAYLOAD: usize = 800;
const HEADERS: usize = 14 + 20 + 8;
/// The offsets of the source port and of the checksum.
const SOURCE_PORT: Range<usize> = 34..36;
const CHECKSUM: Range<usize> = 40..42;
/// The number of flows, which differ in their source port.
const FLOWS: u32 = 1000;
/// The port on which the de-duplicator listens.
const PORT: u16 = 4000;
/// The number of bytes of a payload that `parse` reads.
const TAG: usize = 8;
/// The words that payloads consist of. The rules match pairs of them.
pub(super) const WORDS: [&str; 24] = [
    "passwd", "shadow", "select", "union", "insert", "exec", "system", "eval", "script", "cookie",
    "admin", "root", "config", "backup", "token", "secret", "login", "upload", "shell", "wget",
    "curl", "chmod", "netcat", "driver",
];

/// The role of an instance on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Scheduled fairly.
    Primary,
    /// Scheduled only when no other process needs the processor.
    Duplicate,
}

/// A node.
pub(super) struct Node {
    pub(super) host: Host,
    pub(super) core: usize,
    pub(super) number: usize,
}

impl Node {
    /// Returns the number of an instance on this node. Its wires have the same number.
    pub(super) fn instance(&self, role: Role) -> u8 {
        2 * self.number as u8 + u8::from(role == Role::Duplicate)
    }
}

/// The traffic of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// The number of the turn. Packets of other turns are ignored.
    pub(super) turn: u32,
    /// Packets per second, for both nodes together.
    pub(super) rate: f64,
    pub(super) span: Duration,
    /// Whether a copy of each packet also goes to the other node's duplicate instance.
    pub(super) copies: bool,
}

/// The results of one node's thread in a turn.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) offered: usize,
    pub(super) copies: usize,
    /// The numbers of the packets that came out of the primary and of the duplicate instance.
    pub(super) primary: HashSet<u32>,
    pub(super) duplicate: HashSet<u32>,
    /// The longest time between two ticks.
    pub(super) gap: Duration,
    /// Processor time that the thread used.
    pub(super) busy: Duration,
}

/// The wires of one instance.
#[derive(Debug)]
struct Port {
    sender: OwnedFd,
    receiver: UdpSocket,
    frame: Frame,
}

/// The ports of one node.
#[derive(Debug)]
pub(super) struct Edge {
    node: usize,
    core: usize,
    primary: Port,
    duplicate: Port,
}

impl Port {
    fn new(network: &Namespace, instance: u8) -> Result<Self> {
        network.inside(|| {
            let name = format!("out{instance}");
            let mut devices = getifaddrs()?.filter(|device| device.interface_name == name);
            let address = devices.find_map(|device| device.address?.as_link_addr().copied());
            let address = address.with_context(|| format!("{name} has no address"))?;
            let sender =
                socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
            bind(sender.as_raw_fd(), &address)?;
            let receiver = UdpSocket::bind((format!("10.78.{instance}.2"), PORT))?;
            receiver.set_nonblocking(true)?;
            Ok(Self { sender, receiver, frame: Frame::new(instance) })
        })
    }

    fn send(&mut self, turn: u32, number: u32) -> Result<()> {
        let frame = self.frame.number(turn, number);
        match send(self.sender.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT) {
            // The wire is full, and the packet is lost, as it would be in any network.
            Ok(_) | Err(Errno::EAGAIN | Errno::ENOBUFS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives the packets that the instance processed. Returns their number.
    fn receive(&self, turn: u32, seen: &mut HashSet<u32>) -> Result<usize> {
        let mut tag = [0; TAG];
        let mut count = 0;
        loop {
            match self.receiver.recv(&mut tag) {
                Ok(length) => match parse(&tag[..length]) {
                    Some((of, number)) if of == turn => {
                        seen.insert(number);
                    }
                    _ => {}
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(count),
                Err(error) => return Err(error.into()),
            }
            count += 1;
        }
    }
}

impl Edge {
    pub(super) fn new(network: &Namespace, node: &Node) -> Result<Self> {
        let port = |role| Port::new(network, node.instance(role));
        let (primary, duplicate) = (port(Role::Primary)?, port(Role::Duplicate)?);
        Ok(Self { node: node.number, core: node.core, primary, duplicate })
    }

    /// Sends and receives for one turn, once all threads are ready. Call this on a new thread.
    pub(super) fn drive(&mut self, load: Load, ready: &Barrier) -> Result<Report> {
        let scheduled = keep_to(&[self.core]).and_then(|()| Mechanism::Fifo.enter(Priority::High));
        ready.wait();
        scheduled.context(
            "cannot set a real-time priority; run this as root, in the root control group of cpu",
        )?;
        let (start, before) = (Instant::now(), cpu_time()?);
        let mut report = Report::default();
        let (mut next, mut last) = (0, Duration::ZERO);
        while last < load.span {
            let now = start.elapsed().min(load.span);
            report.gap = report.gap.max(now - last);
            last = now;
            self.send(load, &mut next, (now.as_secs_f64() * load.rate) as u32, &mut report)?;
            self.receive(load.turn, &mut report)?;
            std::thread::sleep(TICK.saturating_sub(start.elapsed() - now));
        }
        report.busy = cpu_time()? - before;
        self.drain()?;
        Ok(report)
    }

    fn send(&mut self, load: Load, next: &mut u32, due: u32, report: &mut Report) -> Result<()> {
        for number in *next..due {
            if number as usize % NODES == self.node {
                self.primary.send(load.turn, number)?;
                report.offered += 1;
            } else if load.copies {
                self.duplicate.send(load.turn, number)?;
                report.copies += 1;
            }
        }
        *next = due.max(*next);
        Ok(())
    }

    fn receive(&self, turn: u32, report: &mut Report) -> Result<usize> {
        let primary = self.primary.receive(turn, &mut report.primary)?;
        Ok(primary + self.duplicate.receive(turn, &mut report.duplicate)?)
    }

    /// Waits until the node's queues are empty. Packets that arrive during this wait do not count,
    /// because they are late.
    fn drain(&self) -> Result<()> {
        let mut last = Instant::now();
        while last.elapsed() < QUIET {
            if self.receive(0, &mut Report::default())? > 0 {
                last = Instant::now();
            }
            std::thread::sleep(TICK);
        }
        Ok(())
    }
}

/// Returns the processor time of this thread.
fn cpu_time() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split_whitespace().next().unwrap_or("0");
    Ok(Duration::from_nanos(first.parse()?))
}

/// The Ethernet address of the de-duplicator's device behind an instance.
pub(super) fn mac(instance: u8) -> [u8; 6] {
    [2, 0, 0, 0, instance, 2]
}

/// A packet for an instance: UDP over IPv4 over Ethernet. It contains the number of its turn and its
/// own number.
#[derive(Debug)]
struct Frame(Vec<u8>);

impl Frame {
    fn new(instance: u8) -> Self {
        let mut payload = vec![0; TAG];
        let mut state = 42_u32;
        while payload.len() < PAYLOAD {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            payload.extend(WORDS[(state >> 16) as usize % WORDS.len()].as_bytes());
            payload.push(b' ');
        }
        payload.truncate(PAYLOAD);
        let headers = PacketBuilder::ethernet2([2, 0, 0, 0, instance, 1], mac(instance))
            .ipv4([10, 78, instance, 1], [10, 78, instance, 2], 64)
            .udp(0, PORT);
        let mut bytes = Vec::with_capacity(HEADERS + PAYLOAD);
        headers.write(&mut bytes, &payload).expect("a vector takes all bytes");
        // The checksum is left out, because it would change with the number.
        bytes[CHECKSUM].fill(0);
        Self(bytes)
    }

    /// Sets the numbers and returns the bytes of the packet.
    fn number(&mut self, turn: u32, number: u32) -> &[u8] {
        let port = 10_000 + (number / 2 % FLOWS) as u16;
        self.0[SOURCE_PORT].copy_from_slice(&port.to_be_bytes());
        self.0[HEADERS..HEADERS + 4].copy_from_slice(&turn.to_be_bytes());
        self.0[HEADERS + 4..HEADERS + TAG].copy_from_slice(&number.to_be_bytes());
        &self.0
    }
}

/// Returns the turn and the number of a packet from its payload.
fn parse(payload: &[u8]) -> Option<(u32, u32)> {
    let (turn, rest) = payload.split_first_chunk()?;
    let (number, _) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*turn), u32::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_contain_their_numbers() {
        let mut frame = Frame::new(3);
        let bytes = frame.number(7, 70_000).to_vec();
        assert_eq!(bytes.len(), HEADERS + PAYLOAD);
        assert_eq!(parse(&bytes[HEADERS..]), Some((7, 70_000)));
        assert_eq!(parse(&bytes[..7]), None);
        assert_eq!((&bytes[12..14], &bytes[36..38]), (&[8, 0][..], &PORT.to_be_bytes()[..]));
    }

    #[test]
    fn both_nodes_get_all_flows() {
        let mut frame = Frame::new(0);
        let mut port = |number| frame.number(0, number)[SOURCE_PORT].to_vec();
        assert_eq!(port(0), port(1));
        assert_ne!(port(1), port(2));
        assert_eq!(port(0), port(2 * FLOWS));
    }
}
