//! The testbed and its turns: two nodes, each with two instances of Suricata, between the duplicator
//! and the de-duplicator.
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

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use curtail_machine::{Processors, keep_to};
use curtail_xdp::namespace::Namespace;

use super::suricata::Instance;
use super::traffic::{self, Edge, Load, NODES, Node, Report, Role};
use crate::environment::Host;

/// The part of a turn in which the background task runs, which is 60 % as in the paper.
const STRAGGLER: [f64; 2] = [0.2, 0.8];
/// The node on which the background task runs, and its number of threads.
const STRAGGLING: usize = 0;
const BACKGROUND: usize = 3;

/// The instances and the network around them, which all turns share.
pub(super) struct Bench {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    duplicates: Vec<Instance>,
    /// The primaries end when this value is dropped.
    _primaries: Vec<Instance>,
    turns: u32,
}

/// The parameters of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// Packets per second, for both nodes together.
    pub(super) rate: f64,
    pub(super) span: Duration,
    pub(super) das: bool,
    pub(super) straggler: bool,
}

/// Results in packets per second, unless noted otherwise.
pub(super) type Figures = BTreeMap<&'static str, f64>;

impl Bench {
    /// Starts all instances. Call this from the main thread, because they end with the thread that
    /// starts them.
    pub(super) fn start() -> Result<Self> {
        let (network, allowed) = (Namespace::new()?, Processors::allowed()?);
        let cores = &allowed.numbers()[..NODES.min(allowed.numbers().len())];
        ensure!(cores.len() == NODES, "this needs two processors, one for each node");
        let mut nodes = Vec::new();
        for (number, &core) in cores.iter().enumerate() {
            let host = Host { namespace: Namespace::new()?, address: String::new() };
            let node = Node { host, core, number };
            for role in [Role::Primary, Role::Duplicate] {
                wire(&network, &node.host.namespace, node.instance(role))?;
            }
            nodes.push(node);
        }
        let folder = tempfile::tempdir()?;
        let instances = |role| -> Result<Vec<Instance>> {
            nodes.iter().map(|node| Instance::start(node, role, folder.path())).collect()
        };
        let (primaries, duplicates) = (instances(Role::Primary)?, instances(Role::Duplicate)?);
        let edges = nodes.iter().map(|node| Edge::new(&network, node)).collect::<Result<_>>()?;
        Ok(Self { nodes, edges, duplicates, _primaries: primaries, turns: 0 })
    }

    /// Runs a turn.
    pub(super) fn run(&mut self, turn: Turn) -> Result<Figures> {
        for duplicate in &self.duplicates {
            duplicate.pause(!turn.das)?;
        }
        self.turns += 1;
        let load = Load { turn: self.turns, rate: turn.rate, span: turn.span, copies: turn.das };
        let (ready, core) = (&Barrier::new(NODES + 1), self.nodes[STRAGGLING].core);
        let reports = thread::scope(|scope| -> Result<Vec<Report>> {
            let start = |edge| scope.spawn(move || Edge::drive(edge, load, ready));
            let running: Vec<_> = self.edges.iter_mut().map(start).collect();
            ready.wait();
            if turn.straggler {
                overload(core, turn.span)?;
            }
            let join = |thread: thread::ScopedJoinHandle<'_, Result<Report>>| {
                thread.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
            };
            running.into_iter().map(join).collect()
        })?;
        Ok(figures(&reports, turn.span))
    }
}

fn wire(network: &Namespace, node: &Namespace, instance: u8) -> Result<()> {
    let (mut here, mut there) = (String::new(), String::new());
    let path = node.path();
    let mac = traffic::mac(instance).map(|byte| format!("{byte:02x}")).join(":");
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

/// Runs the background task on one core for 60 % of a turn. Returns at the end of that part.
fn overload(core: usize, span: Duration) -> Result<()> {
    let [start, end] = STRAGGLER.map(|share| span.mul_f64(share));
    thread::sleep(start);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let spin = || {
            let kept = keep_to(&[core]);
            while kept.is_ok() && !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            kept
        };
        let running: Vec<_> = (0..BACKGROUND).map(|_| scope.spawn(spin)).collect();
        thread::sleep(end - start);
        stop.store(true, Ordering::Relaxed);
        let mut ended = running.into_iter().map(thread::ScopedJoinHandle::join);
        ended.try_for_each(|ended| Ok(ended.ok().context("the background task panicked")??))
    })
}

fn figures(reports: &[Report], span: Duration) -> Figures {
    let processed = |of: fn(&Report) -> &HashSet<u32>| -> HashSet<u32> {
        reports.iter().flat_map(of).copied().collect()
    };
    let (primary, duplicate) = (processed(|of| &of.primary), processed(|of| &of.duplicate));
    let only = duplicate.difference(&primary).count();
    let offered: usize = reports.iter().map(|report| report.offered).sum();
    let copies: usize = reports.iter().map(|report| report.copies).sum();
    let busy: Duration = reports.iter().map(|report| report.busy).sum();
    let gap = reports.iter().map(|report| report.gap).max().unwrap_or_default();
    let per_second = |count: usize| count as f64 / span.as_secs_f64();
    Figures::from([
        ("offered", per_second(offered)),
        // Unique packets that were processed.
        ("goodput", per_second(primary.len() + only)),
        ("primary_goodput", per_second(primary.len())),
        ("duplicates", per_second(duplicate.len())),
        // Packets that only a duplicate instance processed.
        ("duplicates_only", per_second(only)),
        // Packets that were not processed in time.
        ("primary_drops", per_second(offered - primary.len())),
        ("duplicate_drops", per_second(copies - duplicate.len())),
        // The share of a processor that the source, the duplicator and the de-duplicator used.
        ("network_share", busy.as_secs_f64() / (reports.len() as f64 * span.as_secs_f64())),
        // The longest time for which one of these threads did not run.
        ("gap_ms", gap.as_secs_f64() * 1e3),
    ])
}
