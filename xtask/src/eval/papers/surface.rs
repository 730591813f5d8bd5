//! Table 5.1 of document 000 (Table 2 of 001): the share of each heat map on which p99 is more than
//! 20, 30, 40 % below that of per-shard queuing.
//!
//! The sources count over probabilities from 10⁻⁵ to 10⁻¹ and do not say at which points. Ours are
//! even in the load from 0.05 to 0.95 and in the logarithm of the probability. How much that matters
//! is shown by the same counts over every second load, over every second probability, and without
//! the lowest decade of probabilities, where few clusters gain: with less weight on it, the counts of
//! all policies grow by a quarter or more.

use std::path::Path;

use anyhow::Result;

use super::Row;
use super::curves::{Point, read, sweep};

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
                let claim = format!(
                    "{duration}, {shards} × 2, {policy}, > {:.0} %: percent of the map",
                    reduction * 100.0
                );
                rows.push(cell(&claim, published, &points, policy, reduction));
            }
        }
    }
    Ok(rows)
}

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
        rows.push(Row::within(
            &format!("{duration}, {shards} × 2, idealized: share gained beyond 60 %, at most"),
            (0.0, most),
            gains.fold(f64::MIN, f64::max),
        ));
    }
    Ok(rows)
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

fn cell(claim: &str, published: f64, points: &[Point], policy: &str, reduction: f64) -> Row {
    let all = share(points, policy, reduction);
    let [loads, probabilities] =
        ["utilization", "p"].map(|key| share(&every_second(points, key), policy, reduction));
    let likely: Vec<Point> = points
        .iter()
        .filter(|point| point.at.get("p").is_some_and(|&p| p > 0.99e-4))
        .cloned()
        .collect();
    let likely = share(&likely, policy, reduction);
    let mut row = Row::close(claim, published, all, TOLERANCE);
    row.ours = format!(
        "{all:.1} ({loads:.1}, {probabilities:.1} on coarser grids, {likely:.1} from 10⁻⁴ up)"
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
