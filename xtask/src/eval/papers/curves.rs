//! The results of a sweep: p99 of each policy over the load.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::cargo::{self, Profile};

/// Fewer requests, and a coarser grid.
const SMOKE: [&str; 6] =
    ["--requests", "8000", "--replications", "2", "--grid", "utilization=0.1..0.9:0.1"];

/// Runs a sweep of `eval/papers`, or goes on with it; returns where its results are.
pub(super) fn sweep(
    root: &Path,
    file: &str,
    name: &str,
    smoke: bool,
    flags: &[&str],
) -> Result<PathBuf> {
    let curtail = cargo::curtail(root, Profile::Release)?;
    let folder = if smoke { format!("{name}-smoke") } else { name.to_owned() };
    let out = root.join("out/papers").join(folder);
    let mut command = Command::new(curtail);
    command.arg("sweep").arg("--yes").arg("--file").arg(root.join("eval/papers").join(file));
    command.arg("--out").arg(&out).args(flags);
    if smoke {
        command.args(SMOKE);
    }
    eprintln!("sweeping {name}");
    ensure!(
        cargo::succeeds(command.stdout(std::process::Stdio::null()))?,
        "{name}: the sweep failed"
    );
    Ok(out)
}

/// A point of a sweep.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// The values of the grid.
    pub(super) at: BTreeMap<String, f64>,
    /// By policy: p99; none where it is unstable.
    p99: BTreeMap<String, Option<f64>>,
}

impl Point {
    #[cfg(test)]
    pub(super) fn new<const N: usize, const M: usize>(
        at: [(&str, f64); N],
        p99: [(&str, Option<f64>); M],
    ) -> Self {
        let at = at.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Self { at, p99: p99.into_iter().map(|(of, value)| (of.to_owned(), value)).collect() }
    }

    /// p99 of a policy of the figure, by the name that results have; none where it is unstable.
    pub(super) fn p99(&self, policy: &str) -> Option<f64> {
        *self.p99.get(policy).unwrap_or_else(|| panic!("the figure has no {policy}"))
    }

    /// By how much a policy is below another, as a share of the other.
    pub(super) fn reduction(&self, policy: &str, other: &str) -> Option<f64> {
        let (ours, theirs) = self.p99(policy).zip(self.p99(other))?;
        Some(1.0 - ours / theirs)
    }
}

/// Reads the points of a sweep.
pub(super) fn read(folder: &Path) -> Result<Vec<Point>> {
    let file = folder.join("results.jsonl");
    let text = std::fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    parse(&text)
}

/// In the order of the grid: lines are in that in which points were done.
fn parse(text: &str) -> Result<Vec<Point>> {
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    let mut lines = lines?;
    lines.sort_by_key(|line| line["point"].as_u64());
    lines.iter().map(point).collect()
}

fn point(line: &Value) -> Result<Point> {
    let grid = line["grid"].as_object().context("a point names its place in the grid")?;
    let at = grid.iter().filter_map(|(key, value)| Some((key.clone(), value.as_f64()?)));
    let outcomes = line["outcomes"].as_array().context("a point lists its outcomes")?;
    let p99 = outcomes.iter().map(|outcome| {
        let policy = outcome["policy"].as_str().context("an outcome names its policy")?;
        Ok((policy.to_owned(), outcome["request"]["p99"].as_f64()))
    });
    Ok(Point { at: at.collect(), p99: p99.collect::<Result<_>>()? })
}

/// Where the first policy becomes the slower one: between two loads of the grid, on a straight line.
pub(super) fn crossing(points: &[Point], lower: &str, higher: &str) -> Option<f64> {
    let over = |point: &Point| Some(-point.reduction(lower, higher)?);
    points.windows(2).find_map(|pair| {
        let loads = [&pair[0], &pair[1]].map(|point| point.at.get("utilization").copied());
        let (from, to) = (loads[0]?, loads[1]?);
        let before = over(&pair[0]).filter(|before| *before < 0.0)?;
        // Where it has no steady state it is slower by any measure.
        let Some(behind) = over(&pair[1]) else { return Some(f64::midpoint(from, to)) };
        (behind >= 0.0).then(|| from + (to - from) * -before / (behind - before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of a sweep with two policies.
    fn line(point: u32, load: f64, [one, two]: [f64; 2]) -> String {
        format!(
            "{{\"point\":{point},\"grid\":{{\"utilization\":{load}}},\"outcomes\":[\
             {{\"policy\":\"one\",\"request\":{{\"p99\":{one}}}}},\
             {{\"policy\":\"two\",\"request\":{{\"p99\":{two}}}}},\
             {{\"policy\":\"unstable\",\"request\":null}}]}}\n"
        )
    }

    #[test]
    fn points_are_read_in_the_order_of_the_grid() {
        let text = line(1, 0.3, [4.5, 3.0]) + &line(0, 0.1, [1.0, 2.0]);
        let points = parse(&text).expect("two points");
        assert_eq!(crossing(&points, "one", "two"), Some(0.2), "in the middle of both loads");
        assert_eq!((points[0].p99("two"), points[1].p99("unstable")), (Some(2.0), None));
    }

    #[test]
    #[should_panic(expected = "the figure has no three")]
    fn a_policy_that_is_not_in_the_figure_is_a_mistake() {
        let points = parse(&line(0, 0.1, [1.0, 2.0])).expect("a point");
        let _ = points[0].p99("three");
    }
}
