//! `cargo xtask eval search --compare-sim`: the search service of the demo, measured and simulated
//! with the same parameters.
//!
//! Both have the same shards, replicas and slots, Poisson arrivals at λ = ρ r c / P̄, a P per query
//! and shard that copies share, and a J per copy. Every request of the demo is a query of its own,
//! so no P is drawn twice; requests wait for the slowest shard; LÆDGE lets the losers run. What is
//! compared is what the client measures, from when a request was due.
//!
//! # The overhead
//!
//! The simulator's machine costs nothing, ours does. What it adds is measured in the same requests
//! (`samples.rs`), and given back to the simulator where it belongs:
//!
//! - *late*, what the leaf's service took beyond P + J (its timer woke up late), occupies the leaf:
//!   drawn per copy, in addition to J;
//! - *network*, what a copy took beyond the leaf's service (sockets, and wake-ups of root and leaf),
//!   occupies a slot in the root's books but not the leaf: half of it as the latency each way;
//! - *front*, what a request took beyond its slowest shard (client, root, their sockets), occupies
//!   nothing that is simulated: its mean is added to all percentiles.
//!
//! Parts are drawn independently of each other, though on one machine they are not. Of two copies
//! only the winner's are known, which is rather the one with less.

mod estimate;
mod measured;
pub(crate) mod rule;
mod samples;
pub(crate) mod service;
mod simulated;
pub(crate) mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use measured::{Counts, Measured};
use rule::{Cell, Verdict};
use samples::Samples;
use service::{PERCENTILES, Plan, Size};
use simulated::Simulated;

/// How many times as long as the demo's the times of the service are, where nothing is said.
pub(crate) const SCALE: u32 = 3;

/// How to evaluate.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Put measured latencies beside simulated ones
    #[arg(long, required = true)]
    compare_sim: bool,
    /// One short run: it shows that all can be measured and simulated, and judges no latency
    #[arg(long)]
    smoke: bool,
    /// Make all times of the service so many times as long as the demo's: on a busy host a machine
    /// stands still for milliseconds, which tells little of a simulation of 3 ms
    #[arg(long, value_name = "N", default_value_t = SCALE,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    scale: u32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A policy at a load: what was measured beside the latencies.
#[derive(Debug)]
struct Place {
    policy: &'static str,
    load: f64,
    counts: Counts,
    /// Copies per query, simulated.
    copies: Option<f64>,
    /// Of all repetitions.
    samples: Samples,
}

/// Simulated and measured, side by side.
#[derive(Debug)]
pub(crate) struct Comparison {
    smoke: bool,
    plan: Plan,
    pub(crate) cells: Vec<Cell>,
    places: Vec<Place>,
    /// How many sound runs each cell has, at least.
    sound: usize,
    left_out: Vec<String>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<bool> {
    let comparison = compare(
        root,
        "search/compare-sim",
        Plan::search(Size::new(args.smoke, args.scale)),
        args.smoke,
    )?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&table::json(&comparison))?);
    } else {
        print!("{}", table::render(&comparison));
    }
    Ok(comparison.holds())
}

/// Measures and simulates in full, as is told where nothing else is asked for.
pub(crate) fn compare_all(root: &Path) -> Result<Comparison> {
    compare(root, "search/compare-sim", Plan::search(Size::new(false, SCALE)), false)
}

/// Measures, simulates, and keeps both in a folder of that name.
pub(crate) fn compare(root: &Path, name: &str, plan: Plan, smoke: bool) -> Result<Comparison> {
    let out = folder(root, name, smoke)?;
    let measured = measured::run(root, &out, &plan)?;
    let mut comparison = Comparison {
        smoke,
        plan,
        cells: Vec::new(),
        places: Vec::new(),
        sound: measured.least(&plan),
        left_out: measured.left_out.clone(),
    };
    comparison.simulate(root, &out, &measured)?;
    let json = serde_json::to_string_pretty(&table::json(&comparison))?;
    std::fs::write(out.join("results.json"), json)?;
    std::fs::write(out.join("table.txt"), table::render(&comparison))?;
    Ok(comparison)
}

fn folder(root: &Path, name: &str, smoke: bool) -> Result<PathBuf> {
    let name = if smoke { format!("{name}-smoke") } else { name.to_owned() };
    let out = root.join("out").join(name);
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    Ok(out)
}

impl Comparison {
    fn simulate(&mut self, root: &Path, out: &Path, measured: &Measured) -> Result<()> {
        let simulated = Simulated::new(root, self.plan.size)?;
        for &load in self.plan.loads {
            let plain = simulated.plain(self.plan.policies, load)?;
            for (&policy, plain) in self.plan.policies.iter().zip(plain) {
                let runs = measured.runs(policy, load);
                let mut samples = Samples::default();
                runs.iter().for_each(|run| samples.append(&run.samples));
                // Without a sound run there is no overhead to simulate with.
                let with_overhead = match runs.is_empty() {
                    true => [None; PERCENTILES.len()],
                    false => simulated.with_overhead(out, policy, load, &samples)?,
                };
                let latencies: Vec<&[u64]> =
                    runs.iter().map(|run| &run.samples.latency[..]).collect();
                for (at, percentile) in PERCENTILES.into_iter().enumerate() {
                    self.cells.push(Cell {
                        policy,
                        load,
                        percentile,
                        measured: estimate::pooled(&latencies, percentile),
                        simulated: plain.latencies[at],
                        with_overhead: with_overhead[at],
                    });
                }
                if runs.is_empty() {
                    continue;
                }
                let counts = Counts::mean(runs);
                let copies = plain.copies;
                self.places.push(Place { policy, load, counts, copies, samples });
            }
        }
        Ok(())
    }

    /// What was compared of a policy at a load; none where nothing was.
    pub(crate) fn cell(&self, policy: &str, load: f64, percentile: f64) -> Option<&Cell> {
        let is = |a: f64, b: f64| a.to_bits() == b.to_bits();
        let mut cells = self.cells.iter().filter(|cell| cell.policy == policy);
        cells.find(|cell| is(cell.load, load) && is(cell.percentile, percentile))
    }

    /// Copies per query that a policy sent at a load; none where there was no sound run.
    pub(crate) fn copies(&self, policy: &str, load: f64) -> Option<f64> {
        let mut places = self.places.iter().filter(|place| place.policy == policy);
        let place = places.find(|place| place.load.to_bits() == load.to_bits());
        place.map(|place| place.counts.copies)
    }

    /// Sound requests of each policy at each load, at least.
    pub(crate) fn requests(&self) -> usize {
        self.sound * self.plan.size.requests as usize
    }

    /// Were there enough sound runs?
    fn is_sound(&self) -> bool {
        self.sound >= self.plan.size.repetitions
    }

    /// Of each cell: what should be, what is, and whether that is good enough.
    pub(crate) fn told(&self) -> impl Iterator<Item = (String, String, bool)> {
        self.cells.iter().map(table::told)
    }

    /// How many cells agree, over how many runs.
    pub(crate) fn summary(&self) -> String {
        let count = |which| self.cells.iter().filter(|cell| cell.verdict() == which).count();
        format!(
            "{} of {} cells agree, {} more with overhead; each over {} sound runs or more, of {} \
             wanted; times are {} × the demo's",
            count(Verdict::Agrees),
            self.plan.cells(),
            count(Verdict::WithOverhead),
            self.sound,
            self.plan.size.repetitions,
            self.plan.size.scale
        )
    }

    /// Does the rule hold? Of a smoke run: were all cells measured?
    pub(crate) fn holds(&self) -> bool {
        let verdicts: Vec<Verdict> = self.cells.iter().map(Cell::verdict).collect();
        let measured = |cell: &Cell| cell.measured.is_some() && cell.with_overhead.is_some();
        self.is_sound()
            && match self.smoke {
                true => self.cells.len() == self.plan.cells() && self.cells.iter().all(measured),
                false => rule::holds(&verdicts, self.plan.cells()),
            }
    }
}
