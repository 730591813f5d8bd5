//! `cargo xtask eval rescue`: our own policy in hundreds of worlds, beside per-shard queuing, the bound
//! and the other policies.

mod worlds;

use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::eval::sim::{Outcome, Simulator};
use crate::table;
use worlds::{Tolerance, World};

/// What policies are judged by: the base, and the bound.
const BASE: &str = "psq";
const BOUND: &str = "o1";

/// A first look at a policy takes this part of the requests, but not less than these.
const BRIEF: u32 = 8;
const BRIEF_LEAST: u32 = 2_000;

/// Replications of each world, and Student's t for them: below it are 97.5 % and 99.9 %.
const REPLICATIONS: &str = "6";
const T_975: f64 = 2.571;
const T_999: f64 = 5.893;

/// The percentiles that count, by their names in the JSON.
const PERCENTILES: [&str; 3] = ["p50", "p99", "p999"];

/// What else a service may do: what the table calls it, and the variants of which the best p99 counts, as
/// tuned for the world. N is one query more than a replica has slots.
const OTHERS: [(&str, &[&str]); 11] = [
    ("rescue:preempt", &["rescue:preempt"]),
    ("rescue:no-cancel", &["rescue:no-cancel"]),
    ("rescue+bounded:N", &["rescue+bounded:N"]),
    ("bounded:N", &["bounded:N"]),
    ("laedge", &["laedge"]),
    ("laedge:cc", &["laedge:cc"]),
    ("laedge:cc+pc", &["laedge:cc+pc"]),
    ("idealized", &["idealized"]),
    ("tied", &["tied"]),
    ("delayed, tuned", &["delayed:1.5", "delayed:3", "delayed:6"]),
    ("probabilistic, trained", &["probabilistic:auto:0.05"]),
];

/// How to evaluate.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// How many worlds
    #[arg(long, default_value_t = 560, value_parser = clap::value_parser!(u32).range(1..=worlds::MOST))]
    worlds: u32,
    /// The first one
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..worlds::MOST))]
    from: u32,
    /// Decides the worlds
    #[arg(long, default_value_t = 20_261_122)]
    seed: u32,
    /// The policy that is judged, beside psq and the bound o1
    #[arg(long, default_value = "rescue", value_parser = judged)]
    policy: String,
    /// Simulate all other policies, too: it takes several times as long
    #[arg(long)]
    all: bool,
    /// Simulate this part of the usual requests
    #[arg(long, default_value_t = 1.0)]
    part: f64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A policy that can be judged.
fn judged(text: &str) -> Result<String, &'static str> {
    if text == BASE || text == BOUND {
        return Err("that is what the others are judged by; name another policy");
    }
    Ok(text.to_owned())
}

/// What a policy came to in a world, beside per-shard queuing.
#[derive(Clone, Debug)]
struct Beside {
    policy: String,
    /// By percentile, in percent of psq's: how much it is above, and how much at least, as sure as 99.9 %.
    /// None where there were too few requests.
    excess: [Option<[f64; 2]>; 3],
    p99: f64,
    copies: f64,
}

impl Beside {
    /// A policy beside the first one of the same run, which is per-shard queuing and stable. One that does
    /// not keep up with the load is infinitely worse.
    fn new(name: &str, policy: Option<&Outcome>, first: &Outcome) -> Result<Self> {
        let policy_name = name.to_owned();
        let Some(policy) = policy.filter(|outcome| outcome.is_stable()) else {
            let excess = [Some([f64::INFINITY; 2]); 3];
            return Ok(Self { policy: policy_name, excess, p99: f64::INFINITY, copies: f64::NAN });
        };
        let excess = PERCENTILES.map(|percentile| {
            let base = first.number(&format!("/request/{percentile}")).ok()?;
            let by = policy.number(&format!("/versus_first/difference/{percentile}")).ok()?;
            let half = policy.number(&format!("/versus_first/ci95/{percentile}")).ok()?;
            Some([by, by - half * T_999 / T_975].map(|by| 100.0 * by / base))
        });
        let [p99, copies] = [policy.p99()?, policy.number("/copies_per_query")?];
        Ok(Self { policy: policy_name, excess, p99, copies })
    }

    /// How far the percentile that is nearest to failing is from it, in percent: below zero it fails.
    fn margin(&self, tolerance: Tolerance) -> f64 {
        let allowed = match tolerance {
            Tolerance::Strict => [2.0, 1.0, 1.0],
            Tolerance::Loose => [f64::INFINITY, 5.0, f64::INFINITY],
        };
        let margins = self.excess.iter().zip(allowed).filter_map(|(excess, allowed)| {
            excess.filter(|_| allowed < f64::INFINITY).map(|[_, at_least]| allowed - at_least)
        });
        margins.fold(f64::INFINITY, f64::min)
    }
}

/// A world, and what came of it.
struct Cell {
    world: World,
    /// The p99 of per-shard queuing.
    psq: f64,
    /// The judged policy, the bound, and the others.
    policies: Vec<Beside>,
}

impl Cell {
    fn policy(&self, name: &str) -> Option<&Beside> {
        self.policies.iter().find(|beside| beside.policy == name)
    }

    /// How far the judged policy is from being worse than it may be; below zero it is.
    fn margin(&self) -> f64 {
        self.policies[0].margin(self.world.tolerance())
    }

    /// Which part of the way from per-shard queuing to the bound a policy goes, in p99; none where there is
    /// no way to go.
    fn closed(&self, policy: &str) -> Option<f64> {
        let bound = self.policy(BOUND)?.p99;
        (bound <= 0.8 * self.psq)
            .then_some((self.psq - self.policy(policy)?.p99) / (self.psq - bound))
    }

    /// On one line.
    fn line(&self) -> String {
        let judged = &self.policies[0];
        let excess = judged.excess.map(|excess| {
            excess.map_or("n/a".into(), |[seen, at_least]| format!("{seen:+.2} ({at_least:+.2})"))
        });
        let closed =
            self.closed(&judged.policy).map_or("-".into(), |part| format!("{:.0}%", 100.0 * part));
        let kind = if self.world.tolerance() == Tolerance::Strict { 's' } else { 'l' };
        let verdict = if self.margin() < 0.0 { "FAILS " } else { "" };
        let (number, excess, world) = (self.world.number, excess.join(" "), &self.world);
        format!(
            "{number:4} {kind} {excess} closes {closed} copies {:.3} {verdict}{world}",
            judged.copies
        )
    }
}

/// All worlds, and what came of them.
struct Study {
    cells: Vec<Cell>,
    /// Worlds that per-shard queuing does not keep up with.
    overloaded: usize,
    /// Worlds that were simulated anew, with more requests.
    again: usize,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<bool> {
    let study = study(root, args)?;
    if args.json {
        eprint!("{}", study.report(&args.policy));
        println!("{:#}", study.document(&args.policy));
    } else {
        print!("{}", study.report(&args.policy));
    }
    Ok([Tolerance::Strict, Tolerance::Loose].iter().all(|&of| study.failed(of) == 0))
}

fn study(root: &Path, args: &Args) -> Result<Study> {
    let simulator = Simulator::new(root, &["--replications", REPLICATIONS, "--yes"])?;
    let brief = Simulator::new(root, &["--replications", "1", "--yes"])?;
    let asked = Asked { simulator, brief, args };
    let mut study = Study { cells: Vec::new(), overloaded: 0, again: 0 };
    for number in args.from..args.from.saturating_add(args.worlds) {
        let world = worlds::world(number, args.seed);
        let mut cell = asked.simulate(&world, 1)?;
        // A world that fails may do so by chance: more requests tell.
        if cell.as_ref().is_some_and(|cell| cell.margin() < 0.0) {
            study.again += 1;
            cell = asked.simulate(&world, 4)?;
        }
        match cell {
            Some(cell) => {
                eprintln!("{}", cell.line());
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
    args: &'a Args,
}

impl Asked<'_> {
    /// A world, with so many times the usual requests; none where it is overloaded.
    fn simulate(&self, world: &World, times: u32) -> Result<Option<Cell>> {
        let n = (world.slots + 1).to_string();
        let others = if self.args.all { &OTHERS[..] } else { &[] };
        let others: Vec<(&str, Vec<String>)> = others
            .iter()
            .map(|(name, of)| (*name, of.iter().map(|of| of.replace('N', &n)).collect()))
            .filter(|(name, _)| *name != self.args.policy)
            .collect();
        let requests = times * ((f64::from(world.requests()) * self.args.part) as u32);
        let mut policies = vec![BASE, &self.args.policy, BOUND];
        policies.extend(self.keep_up(&others, world)?);
        let outcomes = simulated(&self.simulator, &policies, world, requests)?;
        let first = &outcomes[0];
        if !first.is_stable() {
            return Ok(None);
        }
        let of = |name: &str, variants: &[&str]| -> Result<Beside> {
            let tried =
                policies.iter().zip(&outcomes).filter(|(policy, _)| variants.contains(policy));
            let p99 = |outcome: &Outcome| outcome.p99().unwrap_or(f64::INFINITY);
            let best = tried.map(|(_, outcome)| outcome).min_by(|a, b| p99(a).total_cmp(&p99(b)));
            Beside::new(name, best, first)
        };
        let mut all = vec![of(policies[1], &policies[1..2])?, of(BOUND, &[BOUND])?];
        for (name, variants) in &others {
            all.push(of(name, &variants.iter().map(String::as_str).collect::<Vec<_>>())?);
        }
        Ok(Some(Cell { world: world.clone(), psq: first.p99()?, policies: all }))
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

impl Study {
    fn of(&self, tolerance: Tolerance) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.world.tolerance() == tolerance)
    }

    /// In how many worlds the policy is worse than it may be.
    fn failed(&self, tolerance: Tolerance) -> usize {
        self.of(tolerance).filter(|cell| cell.margin() < 0.0).count()
    }

    /// Which parts of the gap in p99 a policy closes at such loads, where hiccups matter and copies have
    /// their own: what befalls all copies of a query, no second one can undo.
    fn closed(&self, policy: &str, loads: RangeInclusive<f64>) -> Vec<f64> {
        let own = self.cells.iter().filter(|cell| cell.world.has_independent_hiccups());
        let these = own.filter(|cell| loads.contains(&cell.world.utilization));
        these.filter_map(|cell| cell.closed(policy)).collect()
    }

    fn document(&self, policy: &str) -> Value {
        let part = |of| json!({"worlds": self.of(of).count(), "failed": self.failed(of)});
        let closed = self.closed(policy, 0.0..=0.5);
        json!({
            "worlds": self.cells.len(), "overloaded": self.overloaded, "again": self.again,
            "strict": part(Tolerance::Strict), "loose": part(Tolerance::Loose),
            "closed_worlds": closed.len(), "median_closed": median(closed),
        })
    }

    fn report(&self, policy: &str) -> String {
        let mut text = format!(
            "{} worlds, {} more were overloaded; {} simulated again with four times the requests\n",
            self.cells.len(),
            self.overloaded,
            self.again
        );
        for (name, tolerance) in [("strict", Tolerance::Strict), ("loose", Tolerance::Loose)] {
            let (failed, of) = (self.failed(tolerance), self.of(tolerance).count());
            text += &format!(
                "{name}: {failed} of {of} fail; p50, p99, p99.9 above psq's in percent:\n"
            );
            for at in 0..PERCENTILES.len() {
                let seen = self.of(tolerance).filter_map(|cell| cell.policies[0].excess[at]);
                text += &format!("  {}\n", spread(seen.map(|[seen, _]| seen).collect()));
            }
            let mut nearest: Vec<&Cell> = self.of(tolerance).collect();
            nearest.sort_by(|a, b| a.margin().total_cmp(&b.margin()));
            text.extend(nearest.iter().take(8).map(|cell| format!("  {}\n", cell.line())));
        }
        let mut kinds: Vec<&str> = self.cells.iter().map(|cell| cell.world.kind()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            let these = self.cells.iter().filter(|cell| cell.world.kind() == kind);
            let seen = these.filter_map(|cell| Some(cell.policies[0].excess[1]?[0]));
            text += &format!("hiccups {kind}: p99 above psq's, %: {}\n", spread(seen.collect()));
        }
        text += &table::aligned(&self.rows());
        let closed = self.closed(policy, 0.0..=0.5);
        let count = closed.len();
        text + &format!(
            "up to 50 %, where hiccups matter and copies have their own: closes {:.0} % of the gap in p99 \
             (median of {count})\n",
            100.0 * median(closed).unwrap_or(f64::NAN),
        )
    }

    /// Each policy: the median world, the worlds in which it is worse than per-shard queuing, and what it
    /// gains of what can be gained.
    fn rows(&self) -> Vec<Vec<String>> {
        let head = [
            "policy",
            "p50 over psq, %",
            "p99",
            "p99.9",
            "worlds above, %",
            "gap closed, load <= 0.5",
            "above",
            "copies",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let Some(first) = self.cells.first() else { return rows };
        for Beside { policy, .. } in &first.policies {
            let cells = || self.cells.iter().filter_map(|cell| cell.policy(policy));
            let shown = |value: Option<f64>, digits| {
                value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
            };
            let middle = |at: usize| {
                let seen = cells().filter_map(|cell| cell.excess[at]).map(|[seen, _]| seen);
                shown(median(seen.collect()), 2)
            };
            let is_worse = |cell: &&Beside| cell.excess[1].is_some_and(|[_, least]| least > 0.0);
            let worse = 100.0 * cells().filter(is_worse).count() as f64 / self.cells.len() as f64;
            let closed =
                |loads| shown(median(self.closed(policy, loads)).map(|part| 100.0 * part), 0);
            let copies =
                cells().map(|cell| cell.copies).filter(|copies| !copies.is_nan()).collect();
            let mut row = vec![policy.clone()];
            row.extend([middle(0), middle(1), middle(2), format!("{worse:.1}")]);
            row.extend([closed(0.0..=0.5), closed(0.5..=1.0), shown(median(copies), 3)]);
            rows.push(row);
        }
        rows
    }
}

/// The value in the middle; none of none.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let low = *values.get(values.len().checked_sub(1)? / 2)?;
    Some(low.midpoint(values[values.len() / 2]))
}

fn spread(values: Vec<f64>) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let count = values.len();
    let middle = median(values).unwrap_or(f64::NAN);
    format!("median {middle:+.2}, least {least:+.2}, most {most:+.2}, in {count} worlds")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(difference: f64, ci95: f64) -> Beside {
        let each = |x: f64| json!({"p50": x, "p99": x, "p999": x});
        let first = Outcome::of(json!({"stable": true, "request": each(10.0)}));
        let policy = Outcome::of(json!({
            "stable": true, "request": each(10.0 + difference), "copies_per_query": 1.0,
            "versus_first": {"difference": each(difference), "ci95": each(ci95)},
        }));
        Beside::new("rescue", Some(&policy), &first).expect("whole")
    }

    #[test]
    fn what_may_be_chance_does_not_fail() {
        let worse = beside(0.3, 0.05);
        let [_, at_least] = worse.excess[1].expect("enough requests");
        assert!((at_least - (3.0 - 0.5 * T_999 / T_975)).abs() < 1e-9, "{at_least}");
        assert!(worse.margin(Tolerance::Strict) < 0.0);
        assert!(worse.margin(Tolerance::Loose) > 0.0);
        assert!(beside(0.3, 0.2).margin(Tolerance::Strict) > 0.0, "it may be chance");
    }

    #[test]
    fn the_gap_is_closed_in_parts() {
        let of = |psq: f64, ours: f64, bound: f64| {
            let policies = [("rescue", ours), ("o1", bound)].map(|(policy, p99)| Beside {
                policy: policy.to_owned(),
                p99,
                ..beside(0.0, 0.0)
            });
            let world = worlds::world(0, 1);
            Cell { world, psq, policies: policies.to_vec() }.closed("rescue")
        };
        assert_eq!(of(10.0, 7.0, 4.0), Some(0.5));
        assert_eq!(of(10.0, 9.0, 9.0), None, "hiccups do not matter");
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![1.0, 2.0]), Some(1.5));
        assert_eq!(median(vec![]), None);
    }
}
