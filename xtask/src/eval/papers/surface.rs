//! Table 5.1 of document 000 (Table 2 of 001): the share of each heat map on which p99 is more than
//! 20, 30, 40 % below that of per-shard queuing.
//!
//! The sources count over probabilities from 10⁻⁵ to 10⁻¹ and do not say at which points, nor over
//! which loads. Ours are even in the load from 0.05 to 0.95 and in the logarithm of the probability.
//! Points count at which per-shard queuing has a steady state: where it has none there is no
//! percentile to be reduced. How much these choices matter is shown by the same counts over other
//! points, and a cell that is off on ours and not on one of [`Choice::EXPLAIN`] is explained.

use std::path::Path;

use anyhow::Result;

use super::curves::{Point, read, sweep};
use super::{Row, Verdict};

/// By how many points of a percentage ours may differ, for the grid is a choice.
const TOLERANCE: f64 = 6.0;

const POLICIES: [&str; 4] = ["idealized", "laedge", "laedge:cc", "laedge:cc+pc"];
const REDUCTIONS: [f64; 3] = [0.2, 0.3, 0.4];

/// Length of a hiccup, shards, requests of a replication, and the published percentages: by policy,
/// by reduction.
type Map = (u32, u32, u32, [[f64; 3]; 4]);

const MAPS: [Map; 6] = [
    (15, 5, 60_000, [[26.3, 19.6, 15.6], [9.8, 8.3, 6.4], [13.6, 11.8, 9.6], [14.4, 11.6, 10.1]]),
    (15, 50, 10_000, [[29.9, 21.5, 15.4], [13.4, 9.8, 3.8], [16.8, 12.2, 5.2], [15.9, 12.3, 9.2]]),
    (15, 500, 2_500, [[31.9, 17.9, 4.4], [12.6, 4.2, 0.2], [14.8, 5.2, 0.2], [15.5, 8.0, 0.9]]),
    (30, 5, 60_000, [[36.9, 28.1, 22.3], [9.6, 7.6, 6.2], [18.9, 13.4, 11.8], [21.8, 15.6, 12.6]]),
    (
        30,
        50,
        10_000,
        [[40.5, 29.7, 22.5], [15.2, 12.6, 11.1], [22.6, 17.4, 15.5], [23.3, 18.2, 14.5]],
    ),
    (
        30,
        500,
        2_500,
        [[43.1, 33.4, 26.7], [20.9, 19.0, 16.7], [27.2, 22.2, 20.5], [25.1, 21.2, 17.9]],
    ),
];

/// The maps of Fig. 4.7 that Table 5.1 does not count.
const LONGEST: [(u32, u32, u32); 3] = [(100, 5, 60_000), (100, 50, 10_000), (100, 500, 2_500)];

/// Draws the maps, and counts.
pub(crate) fn judge(root: &Path, smoke: bool) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (duration, shards, requests, published) in MAPS {
        let points = map(root, (duration, shards, requests), smoke)?;
        for (policy, published) in POLICIES.iter().zip(published) {
            for (&reduction, published) in REDUCTIONS.iter().zip(published) {
                let claim =
                    format!("{duration}, {shards} × 2, {policy}, > {:.0} %", reduction * 100.0);
                rows.push(cell(&claim, published, &points, policy, reduction));
            }
        }
    }
    Ok(rows)
}

/// Where so small a share of the busy points gains more than is published, the verdict is *explained*:
/// they lie where about 1 % of the requests meet a hiccup, so that p99 is one with per-shard queuing, and
/// none with a hedge that saves a few of them; or where p99 is hardly known. The documents' points need
/// not hit these.
const FEW: f64 = 0.06;

/// 000 Fig. 4.7 and §4.6.1: beyond a utilization of 60 % Idealized Hedge gains some 20 % at most, with
/// hiccups of 100 P̄ occasionally some 40 %.
pub(super) fn potential(root: &Path, smoke: bool) -> Result<Vec<Row>> {
    let known = MAPS.map(|(duration, shards, requests, _)| (duration, shards, requests));
    let mut rows = Vec::new();
    for at in known.into_iter().chain(LONGEST) {
        let (duration, shards, _) = at;
        let points = map(root, at, smoke)?;
        let busy = |point: &&Point| point.at.get("utilization").is_some_and(|load| *load > 0.61);
        let gains = points.iter().filter(busy).filter_map(|p| p.reduction("idealized", "psq"));
        let most = if duration == 100 { 0.45 } else { 0.2 };
        let claim =
            format!("{duration}, {shards} × 2, idealized: share gained beyond 60 %, at most");
        rows.push(at_most(&claim, most, &gains.collect::<Vec<_>>()));
    }
    Ok(rows)
}

/// Gains that should not exceed a bound, but at a few points.
fn at_most(claim: &str, most: f64, gains: &[f64]) -> Row {
    let mut row = Row::within(claim, (0.0, most), gains.iter().copied().fold(f64::MIN, f64::max));
    let above = gains.iter().filter(|&&gain| gain > most).count();
    if above > 0 {
        row.ours += &format!(" (above: {above} of {} points)", gains.len());
    }
    if row.verdict == Verdict::Differs && above as f64 <= FEW * gains.len() as f64 {
        row.verdict = Verdict::Explained;
    }
    row
}

/// Draws a map, by length of a hiccup, shards, and requests of a replication.
fn map(
    root: &Path,
    (duration, shards, requests): (u32, u32, u32),
    smoke: bool,
) -> Result<Vec<Point>> {
    let name = format!("heat-{duration}-{shards}");
    let (shards, requests) = (shards.to_string(), requests.to_string());
    let duration = format!("duration={duration}");
    let mut flags = vec!["--shards", &shards, "--grid", &duration];
    // Fig. 5.5, and in the same page 5.6 (cleanup beside none) and 5.7 (pre-emption beside cleanup).
    flags.extend(["--versus", "psq", "--versus", "laedge", "--versus", "laedge:cc"]);
    if smoke {
        flags.extend(["--grid", "p=1e-5..1e-1:9:log"]);
    } else {
        flags.extend(["--requests", &requests]);
    }
    let folder = sweep(root, "heat.toml", &name, smoke, &flags)?;
    eprintln!("the maps are in {}", folder.join("results.html").display());
    read(&folder)
}

/// Which points count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// Ours.
    Stable,
    /// Without loads above 0.8, which nobody would plan for.
    NoOverload,
    /// Without the rarest hiccups, where few clusters gain.
    NotRarest,
    /// With points at which per-shard queuing is unstable, as points without a gain.
    All,
    /// Every second load.
    FewerLoads,
    /// Every second probability.
    FewerProbabilities,
}

impl Choice {
    const EXPLAIN: [Self; 2] = [Self::NoOverload, Self::NotRarest];

    fn of(self, points: &[Point]) -> Vec<Point> {
        let has = |point: &Point, key: &str, range: std::ops::RangeInclusive<f64>| {
            point.at.get(key).is_some_and(|value| range.contains(value))
        };
        let stable = |point: &&Point| point.p99("psq").is_some();
        let kept = points.iter().filter(|point| self == Self::All || stable(point)).cloned();
        match self {
            Self::Stable | Self::All => kept.collect(),
            Self::NoOverload => kept.filter(|p| has(p, "utilization", 0.0..=0.801)).collect(),
            Self::NotRarest => kept.filter(|p| has(p, "p", 3e-5..=1.0)).collect(),
            Self::FewerLoads => every_second(&kept.collect::<Vec<_>>(), "utilization"),
            Self::FewerProbabilities => every_second(&kept.collect::<Vec<_>>(), "p"),
        }
    }
}

fn cell(claim: &str, published: f64, points: &[Point], policy: &str, reduction: f64) -> Row {
    let share = |choice: Choice| share(&choice.of(points), policy, reduction);
    let mut row = Row::close(claim, published, share(Choice::Stable), TOLERANCE);
    let near = |choice| (share(choice) - published).abs() <= TOLERANCE;
    if row.verdict == Verdict::Differs && Choice::EXPLAIN.into_iter().any(near) {
        row.verdict = Verdict::Explained;
    }
    row.ours = format!(
        "{:.1} ({:.1} load ≤ 0.8; {:.1} p ≥ 3·10⁻⁵; {:.1} all; {:.1}, {:.1} coarser)",
        share(Choice::Stable),
        share(Choice::NoOverload),
        share(Choice::NotRarest),
        share(Choice::All),
        share(Choice::FewerLoads),
        share(Choice::FewerProbabilities)
    );
    row
}

/// The percentage of points at which a policy is so much better than per-shard queuing.
fn share(points: &[Point], policy: &str, reduction: f64) -> f64 {
    let better = |point: &&Point| point.reduction(policy, "psq").is_some_and(|by| by > reduction);
    100.0 * points.iter().filter(better).count() as f64 / points.len() as f64
}

/// The points with every second value of a key of the grid.
fn every_second(points: &[Point], key: &str) -> Vec<Point> {
    let mut values: Vec<f64> =
        points.iter().filter_map(|point| point.at.get(key).copied()).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let kept: Vec<f64> = values.into_iter().step_by(2).collect();
    let stays = |point: &&Point| point.at.get(key).is_some_and(|value| kept.contains(value));
    points.iter().filter(stays).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_above_a_bound_are_explained_and_many_are_not() {
        let of = |above: usize| {
            let gains = [vec![0.3; above], vec![0.1; 100 - above]].concat();
            at_most("a bound", 0.2, &gains)
        };
        assert_eq!((of(0).verdict, of(6).verdict), (Verdict::Agrees, Verdict::Explained));
        assert_eq!(of(7).verdict, Verdict::Differs);
        assert_eq!(of(7).ours, "0.300 (above: 7 of 100 points)");
    }

    /// A map of two loads and two probabilities, on which a policy gains half at the lower load and
    /// the higher probability; at the higher load psq may be unstable.
    fn points(stable: bool) -> Vec<Point> {
        let point = |load: f64, p: f64| {
            let gains = load < 0.85 && p > 3e-5;
            let psq = (stable || load < 0.85).then_some(20.0);
            Point::new(
                [("utilization", load), ("p", p)],
                [("psq", psq), ("laedge", Some(if gains { 10.0 } else { 20.0 }))],
            )
        };
        [(0.5, 1e-5), (0.5, 1e-3), (0.9, 1e-5), (0.9, 1e-3)]
            .map(|(load, p)| point(load, p))
            .to_vec()
    }

    #[test]
    fn the_count_moves_with_the_choice_of_points() {
        let share = |choice: Choice, stable| share(&choice.of(&points(stable)), "laedge", 0.4);
        for (choice, stable, percent) in [
            (Choice::Stable, true, 25.0),
            (Choice::Stable, false, 50.0),
            (Choice::All, false, 25.0),
            (Choice::NoOverload, true, 50.0),
            (Choice::NotRarest, true, 50.0),
            (Choice::FewerLoads, true, 50.0),
            (Choice::FewerProbabilities, true, 0.0),
        ] {
            let is: f64 = share(choice, stable);
            assert!((is - percent).abs() < 1e-9, "{choice:?}: {is}");
        }
    }

    #[test]
    fn a_cell_is_explained_by_another_choice_and_by_no_more() {
        let verdict = |published| cell("x", published, &points(true), "laedge", 0.4).verdict;
        assert_eq!(verdict(22.0), Verdict::Agrees);
        assert_eq!(verdict(47.0), Verdict::Explained);
        assert_eq!(verdict(70.0), Verdict::Differs);
        assert_eq!(verdict(0.0), Verdict::Differs, "a coarser grid is no reason");
    }
}
