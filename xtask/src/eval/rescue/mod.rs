//! `cargo xtask eval rescue`: our own policy in hundreds of worlds, beside per-shard queuing, the bound
//! and the other policies.

mod design;
mod judge;
mod others;
mod report;
mod world;

use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context as _, Result};

use self::judge::{Beside, REPLICATIONS, closed, median};
use self::others::{OTHERS, Other};
use self::world::World;

pub(crate) use self::world::Tolerance;
use crate::eval::sim::{Outcome, Simulator};

/// The seed of the worlds that the documents tell of.
const SEED: u32 = 20_261_122;

/// What `rescue` is judged by: the base, itself, and the bound.
const JUDGED: [&str; 3] = ["psq", "rescue", "o1"];

/// A first look at a policy takes this part of the requests, but not less than these.
const BRIEF: u32 = 8;
const BRIEF_LEAST: u32 = 2_000;

/// How many worlds the documents tell of.
const WORLDS: u32 = 560;

/// How to evaluate.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// How many worlds
    #[arg(long, default_value_t = WORLDS, value_parser = clap::value_parser!(u32).range(1..=design::MOST))]
    worlds: u32,
    /// The first one
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..design::MOST))]
    from: u32,
    /// Decides the worlds
    #[arg(long, default_value_t = SEED)]
    seed: u32,
    /// The policy that is judged, beside psq and the bound o1
    #[arg(long, default_value = "rescue", value_parser = judged)]
    policy: String,
    /// Simulate all other policies, too: it takes several times as long
    #[arg(long)]
    all: bool,
}

/// A policy that can be judged.
fn judged(text: &str) -> Result<String, &'static str> {
    if text == JUDGED[0] || text == JUDGED[2] {
        return Err("that is what the others are judged by; name another policy");
    }
    Ok(text.to_owned())
}

/// A world, and what came of it.
struct Cell {
    world: World,
    /// The p99 of per-shard queuing.
    psq: f64,
    /// The policies behind it, in the order of the list.
    policies: Vec<(String, Beside)>,
}

impl Cell {
    fn policy(&self, name: &str) -> &Beside {
        let found = self.policies.iter().find(|(policy, _)| policy == name);
        &found.expect("a policy of the list").1
    }

    /// How far it is from being worse than it may be; below zero it is.
    fn margin(&self, policy: &str) -> f64 {
        self.policy(policy).margin(self.world.tolerance())
    }

    fn closed(&self, policy: &str) -> Option<f64> {
        closed(self.psq, self.policy(policy).p99, self.policy("o1").p99)
    }
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<bool> {
    let study = study(root, args)?;
    print!("{}", study.report());
    Ok(study.failed(Tolerance::Strict) + study.failed(Tolerance::Loose) == 0)
}

/// The study of the documents.
pub(crate) fn whole(root: &Path) -> Result<Study> {
    let policy = JUDGED[1].to_owned();
    study(root, &Args { worlds: WORLDS, from: 0, seed: SEED, policy, all: false })
}

/// All worlds, and what came of them.
pub(crate) struct Study {
    /// The policy that is judged.
    policy: String,
    cells: Vec<Cell>,
    /// Worlds that per-shard queuing does not keep up with.
    overloaded: usize,
    /// Worlds that were simulated anew, with more requests.
    again: usize,
}

impl Study {
    /// All that it says.
    pub(crate) fn report(&self) -> String {
        report::render(self)
    }

    /// How many worlds per-shard queuing keeps up with.
    pub(crate) fn worlds(&self, tolerance: Tolerance) -> usize {
        self.of(tolerance).count()
    }

    /// In how many of them the policy is worse than it may be.
    pub(crate) fn failed(&self, tolerance: Tolerance) -> usize {
        self.of(tolerance).filter(|cell| cell.margin(&self.policy) < 0.0).count()
    }

    /// Which parts of the gap in p99 it closes up to a load of 50 %, where hiccups matter and copies have
    /// their own: what befalls all copies of a query, no second one can undo.
    fn closed(&self) -> impl Iterator<Item = f64> {
        self.closed_by(&self.policy, 0.0..=0.5)
    }

    /// The same of any policy, at such loads.
    fn closed_by(&self, policy: &str, loads: RangeInclusive<f64>) -> impl Iterator<Item = f64> {
        let own = self.cells.iter().filter(|cell| cell.world.has_independent_hiccups());
        let these = own.filter(move |cell| loads.contains(&cell.world.utilization));
        these.filter_map(move |cell| cell.closed(policy))
    }

    /// The part in the middle, if there are any, and of how many.
    pub(crate) fn median_closed(&self) -> (Option<f64>, usize) {
        (median(self.closed()), self.closed().count())
    }

    fn of(&self, tolerance: Tolerance) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.world.tolerance() == tolerance)
    }
}

fn study(root: &Path, args: &Args) -> Result<Study> {
    let mut judged = JUDGED;
    judged[1] = &args.policy;
    let others: &[Other] = if args.all { &OTHERS } else { &[] };
    let shared = ["--replications", &REPLICATIONS.to_string(), "--yes"];
    let simulator = Simulator::new(root, &shared)?;
    let brief = Simulator::new(root, &["--replications", "1", "--yes"])?;
    let asked = Asked { simulator, brief, judged, others };
    let policy = args.policy.clone();
    let mut study = Study { policy, cells: Vec::new(), overloaded: 0, again: 0 };
    let end = (args.from + args.worlds).min(design::MOST as u32);
    for number in args.from..end {
        let world = design::world(number, args.seed);
        let cell = match asked.simulate(world.clone(), 1)? {
            Some(cell) if cell.margin(&args.policy) < 0.0 => {
                study.again += 1;
                asked.simulate(world, 4)?
            }
            cell => cell,
        };
        match cell {
            Some(cell) => {
                eprintln!("{}", report::line(&cell, &args.policy));
                study.cells.push(cell);
            }
            None => study.overloaded += 1,
        }
    }
    Ok(study)
}

/// What is asked of each world.
struct Asked<'a> {
    simulator: Simulator,
    /// For a first look.
    brief: Simulator,
    judged: [&'a str; 3],
    others: &'a [Other],
}

impl Asked<'_> {
    /// A world, with so many times the usual requests; none where it is overloaded.
    fn simulate(&self, world: World, times: u32) -> Result<Option<Cell>> {
        let others = self.others.iter().map(|other| (other.name, other.variants(&world).collect()));
        let others: Vec<(&str, Vec<String>)> = others.collect();
        let mut policies = self.judged.to_vec();
        for variant in self.keep_up(&others, &world)? {
            // The policy that is judged may be one of them.
            if !policies.contains(&variant) {
                policies.push(variant);
            }
        }
        let outcomes = simulated(&self.simulator, &policies, &world, times * world.requests())?;
        let first = &outcomes[0];
        if !first.is_stable() {
            return Ok(None);
        }
        let beside: Result<Vec<Beside>> =
            outcomes.iter().map(|outcome| Beside::new(outcome, first)).collect();
        let beside: Vec<(&str, Beside)> = policies.into_iter().zip(beside?).collect();
        let best = |variants: &[&str]| {
            let tried = beside.iter().filter(|(policy, _)| variants.contains(policy));
            Other::best(tried.map(|(_, beside)| beside.clone())).unwrap_or_else(Beside::unstable)
        };
        let judged = self.judged[1..].iter().map(|policy| ((*policy).to_owned(), best(&[policy])));
        let others = others.iter().filter(|(name, _)| *name != self.judged[1]);
        let others = others.map(|(name, variants)| {
            let variants: Vec<&str> = variants.iter().map(String::as_str).collect();
            ((*name).to_owned(), best(&variants))
        });
        let policies = judged.chain(others).collect();
        Ok(Some(Cell { world, psq: first.p99()?, policies }))
    }

    /// The variants that are not overloaded at first sight: to simulate one that is takes far longer than
    /// all the others do.
    fn keep_up<'o>(
        &self,
        others: &'o [(&str, Vec<String>)],
        world: &World,
    ) -> Result<Vec<&'o str>> {
        let variants: Vec<&str> =
            others.iter().flat_map(|(_, variants)| variants).map(String::as_str).collect();
        if variants.is_empty() {
            return Ok(variants);
        }
        let requests = (world.requests() / BRIEF).max(BRIEF_LEAST);
        let outcomes = simulated(&self.brief, &variants, world, requests)?;
        let sound = variants.into_iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_stable());
        Ok(sound.map(|(variant, _)| variant).collect())
    }
}

fn simulated(
    simulator: &Simulator,
    policies: &[&str],
    world: &World,
    requests: u32,
) -> Result<Vec<Outcome>> {
    let mut flags = world.flags();
    flags.extend(["--requests".into(), requests.to_string()]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    simulator.run(policies, &flags).with_context(|| format!("world {}: {world}", world.number))
}
