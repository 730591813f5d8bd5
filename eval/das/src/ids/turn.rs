//! One turn: traffic through the cluster, with or without duplicates, and with or without a
//! straggler.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::cluster::{self, Cluster, NODES, Role};
use super::network::{Edge, Load, Report};
use super::seen::Seen;
use super::suricata::{Folder, Instance, Settings};

/// The part of a turn in which the background task runs, which is 60 % as in the paper.
const STRAGGLER: [f64; 2] = [0.2, 0.8];
/// The node on which the background task runs.
const STRAGGLING: usize = 0;

/// The state that all turns share.
#[derive(Debug)]
pub(crate) struct Bench {
    cluster: Cluster,
    edges: Vec<Edge>,
    duplicates: Vec<Instance>,
    /// The primaries end when this value is dropped.
    _primaries: Vec<Instance>,
    turns: u32,
    background: usize,
}

/// The parameters of a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    /// Packets per second, for both nodes together.
    pub(crate) rate: f64,
    pub(crate) span: Duration,
    pub(crate) das: bool,
    pub(crate) straggler: bool,
}

/// Results in packets per second, unless noted otherwise.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub(crate) offered: f64,
    /// Unique packets that were processed.
    pub(crate) goodput: f64,
    /// Packets that a primary processed.
    pub(crate) primary_goodput: f64,
    /// Packets that a duplicate instance processed.
    pub(crate) duplicates: f64,
    /// Packets that only a duplicate instance processed.
    pub(crate) duplicates_only: f64,
    /// Packets that were not processed in time by their primary.
    pub(crate) primary_drops: f64,
    /// Copies that no duplicate instance processed in time.
    pub(crate) duplicate_drops: f64,
    /// The share of a processor that the source, the duplicator and the de-duplicator used.
    pub(crate) network_share: f64,
    /// The longest time for which one of these threads did not run.
    pub(crate) gap_ms: f64,
}

impl Bench {
    /// Starts all instances.
    pub(crate) fn start(settings: &Settings) -> Result<Self> {
        let (cluster, folder) = (Cluster::new()?, Folder::new()?);
        let instances = |role| -> Result<Vec<Instance>> {
            let start = |node| Instance::start(&cluster, (node, role), settings, &folder);
            (0..NODES).map(start).collect()
        };
        let (primaries, duplicates) = (instances(Role::Primary)?, instances(Role::Duplicate)?);
        let edges = (0..NODES).map(|node| Edge::new(&cluster, node)).collect::<Result<_>>()?;
        let background = settings.background;
        Ok(Self { cluster, edges, duplicates, _primaries: primaries, turns: 0, background })
    }

    /// Runs a turn.
    pub(crate) fn run(&mut self, turn: Turn) -> Result<Figures> {
        for duplicate in &self.duplicates {
            duplicate.pause(!turn.das)?;
        }
        self.turns += 1;
        let load = Load { turn: self.turns, rate: turn.rate, span: turn.span, copies: turn.das };
        let (ready, core) = (&Barrier::new(NODES + 1), self.cluster.cores[STRAGGLING]);
        let edges = &mut self.edges;
        let background = if turn.straggler { self.background } else { 0 };
        let reports = thread::scope(|scope| -> Result<Vec<Report>> {
            let start = |edge| scope.spawn(move || Edge::drive(edge, load, ready));
            let running: Vec<_> = edges.iter_mut().map(start).collect();
            ready.wait();
            overload(core, background, turn.span)?;
            let join = |thread: thread::ScopedJoinHandle<'_, Result<Report>>| {
                thread.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
            };
            running.into_iter().map(join).collect()
        })?;
        Ok(figures(&reports, turn.span))
    }
}

/// Runs a background task with this number of threads on one core for 60 % of a turn. Returns at
/// the end of that part.
fn overload(core: usize, threads: usize, span: Duration) -> Result<()> {
    let [start, end] = STRAGGLER.map(|share| span.mul_f64(share));
    if threads == 0 {
        return Ok(());
    }
    thread::sleep(start);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let spin = || -> Result<()> {
            cluster::pin(core)?;
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            Ok(())
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(spin)).collect();
        thread::sleep(end - start);
        stop.store(true, Ordering::Relaxed);
        running
            .into_iter()
            .try_for_each(|thread| thread.join().ok().context("the background task panicked")?)
    })
}

fn figures(reports: &[Report], span: Duration) -> Figures {
    let (mut primary, mut duplicate) = (Seen::default(), Seen::default());
    for report in reports {
        primary.merge(&report.primary);
        duplicate.merge(&report.duplicate);
    }
    let mut unique = primary.clone();
    let only = unique.merge(&duplicate);
    let offered: u64 = reports.iter().map(|report| report.offered).sum();
    let copies: u64 = reports.iter().map(|report| report.copies).sum();
    let per_second = |count: u64| count as f64 / span.as_secs_f64();
    let gap = reports.iter().map(|report| report.gap).max().unwrap_or_default();
    Figures {
        offered: per_second(offered),
        goodput: per_second(unique.count()),
        primary_goodput: per_second(primary.count()),
        duplicates: per_second(duplicate.count()),
        duplicates_only: per_second(only),
        primary_drops: per_second(offered - primary.count()),
        duplicate_drops: per_second(copies - duplicate.count()),
        network_share: reports.iter().map(|report| report.busy).sum::<Duration>().as_secs_f64()
            / (reports.len() as f64 * span.as_secs_f64()),
        gap_ms: gap.as_secs_f64() * 1e3,
    }
}
