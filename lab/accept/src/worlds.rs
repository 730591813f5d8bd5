//! Our own policy in hundreds of worlds: is it never worse than per-shard queuing?
//!
//! The rows of `files/worlds.csv` are points of a scrambled Sobol sequence (Burley 2020) with seed
//! 20261122. They cover the space of services more evenly than random points: utilization from 0.05
//! to 0.9, 1 to 500 shards with 2, 3 or 6 replicas and 1 or 4 slots, six kinds of service times with
//! or without hints, five kinds of hiccups, a round trip, and bursts. The documentation describes
//! the first 560 worlds. `--set first=560` selects worlds on which nothing was tuned. The tolerance
//! is strict if copies have their own hiccups and a stuck query can be distinguished from a long
//! one. `n` is one more than the number of slots of a replica. Confidence intervals come from six
//! replications.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use crate::figures::{max, mean, median, min};
use crate::lab::Lab;
use crate::line::Line;
use crate::simulation::Outcomes;
use crate::verdict::{least, most, noted};

pub(crate) const LINES: &[Line] = &[STUDY_1, POLICIES_2, RIVALS_3];

pub(crate) const STUDY_1: Line = Line {
    number: 1,
    name: "study",
    text: "hundreds of worlds: never worse than per-shard queuing by more than the tolerance, \
           with a confidence of 99.9 %",
    seconds: 1500,
    quick_seconds: 70,
    judge: study,
    ..Line::NEW
};

const POLICIES_2: Line = Line {
    number: 2,
    name: "policies",
    text: "all policies, compared with per-shard queuing and the bound",
    seconds: 1800,
    quick_seconds: 450,
    judge: policies,
    ..Line::NEW
};

const RIVALS_3: Line = Line {
    number: 3,
    name: "rivals",
    text: "rescue compared with delayed hedges that stop losers, over least outstanding: fixed \
           and learned delays",
    seconds: 700,
    quick_seconds: 60,
    judge: rivals,
    ..Line::NEW
};

/// The half-width of a 99.8 % interval divided by that of a 95 % interval, for six replications. A
/// value beyond one end of the 99.8 % interval is significant at 99.9 %.
const SURE: f64 = 2.2921;

const KINDS: [&str; 5] = [
    "copy-constant",
    "copy-exponential",
    "query-all-copies",
    "replica-it-stops",
    "replica-it-is-slow",
];

/// Latencies, and by how much of those of per-shard queuing they may be above them.
const STRICT: [(&str, f64); 3] = [("p50", 0.02), ("p99", 0.01), ("p999", 0.01)];

const COPIES: &str = "/copies_per_query";

/// A world, with the outcomes of several policies.
struct World {
    row: BTreeMap<String, String>,
    outcomes: Outcomes,
}

impl World {
    /// Replaces `{name}` by the value of a column.
    fn fill(&self, text: &str) -> String {
        let columns = self.row.iter();
        columns.fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("{{{name}}}"), value)
        })
    }

    fn simulate(&mut self, lab: &Lab<'_>, flags: &str, policies: &str) -> Result<()> {
        let flags = format!("--replications 6 --yes {} {}", self.row["flags"], self.fill(flags));
        self.outcomes = Outcomes::sim(lab, &flags, &self.fill(policies))?;
        Ok(())
    }

    fn is_stable(&self) -> bool {
        self.outcomes.is_stable(0)
    }

    fn is_strict(&self) -> bool {
        self.row["tolerance"] == "strict"
    }

    /// Whether hiccups matter, each copy has its own, and the utilization is in a range.
    fn is_own(&self, from: f64, to: f64) -> bool {
        let utilization = self.row["utilization"].parse().unwrap_or(f64::NAN);
        self.row["own"] == "true" && (from..=to).contains(&utilization)
    }

    fn p99(&self, policy: usize) -> f64 {
        self.outcomes.of(policy, "/request/p99")
    }

    /// Returns the share of the gap between per-shard queuing and the bound, which is the third
    /// policy, that a p99 closes. NaN if hardly any improvement is possible.
    fn closed(&self, p99: f64) -> f64 {
        let [psq, bound] = [0, 2].map(|policy| self.p99(policy));
        if bound <= 0.8 * psq { (psq - p99) / (psq - bound) } else { f64::NAN }
    }

    /// Whether the second policy violates a tolerance. A missing latency is no violation.
    fn is_harmed(&self) -> bool {
        let exceeds = |(of, limit): (&str, f64)| self.outcomes.excess(1, of, SURE) > limit;
        self.is_stable()
            && (!self.outcomes.is_stable(1)
                || self.is_strict() && STRICT.into_iter().any(exceeds)
                || exceeds(("p99", 0.05)))
    }
}

/// Runs a simulation in each of the first worlds.
fn worlds(
    lab: &Lab<'_>,
    [full, quick]: [usize; 2],
    simulate: impl Fn(&mut World) -> Result<()>,
) -> Result<Vec<World>> {
    let path = lab.data("worlds.csv");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut rows = text.lines().map(|line| line.split(',').map(str::to_owned));
    let columns: Vec<String> = rows.next().into_iter().flatten().collect();
    let (first, count) = (lab.number("first", 0, 0)?, lab.number("worlds", full, quick)?);
    let world = |row| -> Result<World> {
        let row = columns.iter().cloned().zip(row).collect();
        let mut world = World { row, outcomes: Outcomes::default() };
        simulate(&mut world)?;
        Ok(world)
    };
    rows.skip(first).take(count).map(world).collect()
}

/// Returns a figure of each world for which a condition holds.
fn each(worlds: &[World], is: impl Fn(&World) -> bool, of: impl Fn(&World) -> f64) -> Vec<f64> {
    worlds.iter().filter(|world| is(world)).map(of).collect()
}

/// Returns the number of requests of a world.
fn size(lab: &Lab<'_>) -> String {
    lab.var("size", "{requests}", "{part}")
}

fn study(lab: &mut Lab<'_>) -> Result<()> {
    let policies = format!("psq {} o1", lab.var("policy", "rescue", "rescue"));
    let worlds = worlds(lab, [560, 60], |world| {
        world.simulate(lab, &format!("--requests {}", size(lab)), &policies)?;
        // A world may fail by chance, and one that seems stable may be overloaded. Such a world runs
        // again with more requests.
        if world.is_harmed() {
            world.simulate(lab, "--requests {more}", &policies)?;
        }
        Ok(())
    })?;
    let stable: Vec<&World> = worlds.iter().filter(|world| world.is_stable()).collect();
    let minimum: f64 = lab.number("least", 500.0, 40.0)?;
    lab.check(
        format!("at least {minimum} worlds whose load per-shard queuing can handle"),
        stable.len() as f64,
        least(minimum),
    );
    let handled: Vec<String> =
        stable.iter().map(|world| world.outcomes.is_stable(1).to_string()).collect();
    lab.all("the policy can handle the load of all of these", &handled, |handled| {
        handled == "true"
    });
    let worst = |is: fn(&World) -> bool, of: &str, intervals: f64| {
        let is = |world: &World| world.is_stable() && is(world);
        max(&each(&worlds, is, |world| world.outcomes.excess(1, of, intervals)))
    };
    for (of, limit) in STRICT {
        lab.check(
            format!(
                "copies have their own hiccups, and stuck queries differ from long ones: no {of} \
                 more than {limit} above psq's"
            ),
            worst(World::is_strict, of, SURE),
            most(limit).optional(),
        );
    }
    // If replications vary widely, the intervals can hide harm.
    lab.check(
        "the same, chance included: no p50 more than 5 % above psq's",
        worst(World::is_strict, "p50", 0.0),
        most(0.05).optional(),
    );
    lab.check(
        "all others: no p99 more than 5 % above psq's",
        worst(|world| !world.is_strict(), "p99", SURE),
        most(0.05).optional(),
    );
    let closed = |world: &World| world.closed(world.p99(1));
    lab.check(
        "up to 50 %, if hiccups matter and each copy has its own: the median world closes 70 % of \
         the gap in p99",
        median(&each(&worlds, |world| world.is_own(0.0, 0.5), closed)),
        least(0.7).optional(),
    );
    for (which, reduce) in [("median", median as fn(&[f64]) -> f64), ("worst", max)] {
        for kind in KINDS {
            let is = |world: &World| world.is_stable() && world.row["kind"] == kind;
            let above = each(&worlds, is, |world| world.outcomes.excess(1, "p99", 0.0));
            let claim = format!("hiccups {kind}: p99 above psq's in the {which} world");
            lab.check(claim, reduce(&above), noted().optional());
        }
    }
    Ok(())
}

/// N is one more than the number of slots of a replica. A delayed hedge with better than random
/// picks is the fair rival.
const POLICIES: &str = "psq rescue o1 rescue:preempt rescue:no-cancel rescue+bounded:{n} \
                        bounded:{n} laedge laedge:cc laedge:cc+pc idealized tied delayed:1.5 \
                        delayed:3 delayed:6 probabilistic:auto:0.05 delayed:3+two-choices \
                        delayed:3+least-outstanding";

/// Reports the median of a figure over worlds, for each policy.
fn of_each(lab: &mut Lab<'_>, text: &str, figures: impl Fn(usize) -> Vec<f64>) {
    for (at, policy) in POLICIES.split(' ').enumerate().skip(1) {
        let claim = format!("{}: {text}", policy.replace("{n}", "N"));
        lab.check(claim, median(&figures(at)), noted().optional());
    }
}

fn policies(lab: &mut Lab<'_>) -> Result<()> {
    let requests = format!("--requests {}", size(lab));
    let worlds = worlds(lab, [48, 12], |world| world.simulate(lab, &requests, POLICIES))?;
    let stable = |world: &World| world.is_stable();
    for of in ["p50", "p99", "p999"] {
        of_each(lab, &format!("{of} above psq's in the median world"), |at| {
            each(&worlds, stable, |world| world.outcomes.excess(at, of, 0.0))
        });
    }
    of_each(lab, "copies per query in the median world", |at| {
        each(&worlds, stable, |world| world.outcomes.of(at, COPIES))
    });
    for (side, from, to) in [("up to", 0.0, 0.5), ("above", 0.5, 1.0)] {
        let text = format!("share of the gap in p99 that is closed {side} 50 %");
        let is = |world: &World| world.is_own(from, to);
        of_each(lab, &text, |at| each(&worlds, is, |world| world.closed(world.p99(at))));
        // The tuned delay is the best of the three delays in each world.
        let tuned = |world: &World| world.closed(min(&[12, 13, 14].map(|at| world.p99(at))));
        let claim = format!("delayed, tuned: {text}");
        lab.check(claim, median(&each(&worlds, is, tuned)), noted().optional());
    }
    Ok(())
}

/// The number of slots is configured for `rescue`, but not for the delayed hedges over least
/// outstanding, which do not need it.
const RIVALS: [&str; 5] = [
    "rescue",
    "delayed:3:cc+least-outstanding",
    "delayed:6:cc+least-outstanding",
    "delayed:p90:cc+least-outstanding",
    "delayed:p95:cc+least-outstanding",
];

/// The rival with the lowest p99.
struct Best {
    policy: usize,
    /// Its p99 over that of `rescue`, plus a number of intervals. 0 if only the rival keeps up with
    /// the load.
    ratio: f64,
}

impl Best {
    fn of(world: &World, intervals: f64) -> Option<Self> {
        let rivals = (1..RIVALS.len()).filter(|policy| world.outcomes.is_stable(*policy));
        let ratio = |policy| match world.is_stable() {
            true => 1.0 + world.outcomes.excess(policy, "p99", -intervals),
            false => 0.0,
        };
        let rivals = rivals.map(|policy| Self { policy, ratio: ratio(policy) });
        rivals.min_by(|a, b| a.ratio.total_cmp(&b.ratio))
    }
}

/// A hedge beats `rescue` if its p99 is lower by more than 1 % with 99.9 % confidence, or if it keeps
/// up with the load and `rescue` does not. Four rivals are compared, so some are below it by more than
/// the 95 % interval by chance. Prints these worlds.
fn rivals(lab: &mut Lab<'_>) -> Result<()> {
    let worlds = worlds(lab, [120, 12], |world| {
        world.simulate(lab, "--warmup 0.3 --requests {part}", &RIVALS.join(" "))
    })?;
    let (mut beaten, mut behind) = (Vec::new(), Vec::new());
    for world in &worlds {
        let is_beaten = Best::of(world, SURE).is_some_and(|best| best.ratio < 0.99);
        let ahead = Best::of(world, 1.0).filter(|best| best.ratio < 1.0);
        if let Some(Best { policy, ratio }) = &ahead {
            let how = if is_beaten { "beaten" } else { "behind" };
            let (number, flags) = (&world.row["number"], &world.row["flags"]);
            let (rival, percent) = (RIVALS[*policy], 100.0 * (1.0 - ratio));
            eprintln!("world {number}: {how} by {rival}, {percent:.1} % or more: {flags}");
        }
        if (0..RIVALS.len()).any(|policy| world.outcomes.is_stable(policy)) {
            beaten.push(f64::from(is_beaten));
            behind.push(f64::from(ahead.is_some()));
        }
    }
    let reached = lab.number("reached", 0.05, 1.0)?;
    lab.check(
        "share of the worlds in which one of them beats rescue",
        mean(&beaten),
        most(reached).optional(),
    );
    lab.check(
        "share of the worlds in which one of them is below rescue by more than the 95 % interval",
        mean(&behind),
        noted().optional(),
    );
    let name = |policy: usize| RIVALS[policy].trim_end_matches("+least-outstanding");
    for rival in 1..RIVALS.len() {
        let both = |world: &World| world.is_stable() && world.outcomes.is_stable(rival);
        lab.check(
            format!("{}: p99 over that of rescue in the median world", name(rival)),
            median(&each(&worlds, both, |world| world.outcomes.ratio(rival, 0, "/request/p99"))),
            noted(),
        );
    }
    for policy in 0..RIVALS.len() {
        let stable = |world: &World| world.is_stable();
        lab.check(
            format!("{}: copies per query in the median world", name(policy)),
            median(&each(&worlds, stable, |world| world.outcomes.of(policy, COPIES))),
            noted(),
        );
    }
    Ok(())
}
