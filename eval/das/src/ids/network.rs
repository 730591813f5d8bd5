//! The traffic source, the duplicator and the de-duplicator, which run as one thread per node.
//!
//! In the paper they are separate machines. Here they share the nodes' processors, so they have
//! precedence over all instances (`SCHED_FIFO`) and do little work: a packet takes a few µs of
//! their time, but several hundred µs of a node's time. Packets are due at equal intervals and go
//! to the nodes in turn. Each thread computes which packets are its own, so threads do not share
//! any state.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use nix::unistd::gettid;

use super::cluster::{self, Cluster, NODES, Role, instance};
use super::frame::{self, Frame};
use super::seen::Seen;
use crate::environment;

/// The interval at which packets are sent and received.
const TICK: Duration = Duration::from_micros(500);
/// The threads' priority.
const PRIORITY: &str = "50";
/// After a turn, a node's queues count as empty once the node has had no output for this time.
const QUIET: Duration = Duration::from_millis(30);

/// The traffic of a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// The number of the turn. Packets of other turns are ignored.
    pub(crate) turn: u32,
    /// Packets per second, for both nodes together.
    pub(crate) rate: f64,
    pub(crate) span: Duration,
    /// Whether a copy of each packet also goes to the other node's duplicate instance.
    pub(crate) copies: bool,
}

/// The results of one node's thread in a turn.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) offered: u64,
    pub(crate) copies: u64,
    pub(crate) primary: Seen,
    pub(crate) duplicate: Seen,
    /// The longest time between two ticks.
    pub(crate) gap: Duration,
    /// Processor time that the thread used.
    pub(crate) busy: Duration,
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
pub(crate) struct Edge {
    node: usize,
    core: usize,
    primary: Port,
    duplicate: Port,
}

impl Port {
    fn new(cluster: &Cluster, instance: u8) -> Result<Self> {
        let (sender, receiver) = (cluster.sender(instance)?, cluster.receiver(instance)?);
        Ok(Self { sender, receiver, frame: Frame::new(instance) })
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
    fn receive(&self, turn: u32, seen: &mut Seen) -> Result<usize> {
        let mut tag = [0; frame::TAG];
        let mut count = 0;
        loop {
            match self.receiver.recv(&mut tag) {
                Ok(length) => match frame::parse(&tag[..length]) {
                    Some((of, number)) if of == turn => seen.mark(number),
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
    pub(crate) fn new(cluster: &Cluster, node: usize) -> Result<Self> {
        let port = |role| Port::new(cluster, instance(node, role));
        let (primary, duplicate) = (port(Role::Primary)?, port(Role::Duplicate)?);
        Ok(Self { node, core: cluster.cores[node], primary, duplicate })
    }

    /// Sends and receives for one turn, once all threads are ready. Call this on a new thread.
    pub(crate) fn drive(&mut self, load: Load, ready: &Barrier) -> Result<Report> {
        let scheduled = cluster::pin(self.core).and_then(|()| {
            let thread = gettid().to_string();
            environment::run(Command::new("chrt").args(["--fifo", "--pid", PRIORITY, &thread])).context(
                "cannot set a real-time priority; run this as root, in the root control group of \
                 cpu",
            )
        });
        ready.wait();
        scheduled?;
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
