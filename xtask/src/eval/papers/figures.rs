//! The figures over the load: each is a sweep in `eval/papers`, with a plot, and what the texts say
//! about it.

use std::path::Path;

use anyhow::Result;

use super::Row;
use super::curves::{Point, crossing, read, sweep};

/// Draws a figure, and judges what the texts say about it.
pub(super) fn draw(root: &Path, name: &str, smoke: bool) -> Result<Vec<Row>> {
    let folder = sweep(root, &format!("{name}.toml"), name, smoke, &[])?;
    eprintln!("the plot is {}", folder.join("results.html").display());
    let points = read(&folder)?;
    Ok(match name {
        "paper-2a" => balances(&points, true),
        "paper-2b" => balances(&points, false),
        "paper-4" => idealized(&points),
        "paper-7a" => laedge(&points),
        "paper-7b" | "paper-7c" => more_replicas(&points),
        "thesis-4.2" => {
            [3.0, 6.0].iter().flat_map(|&r| balances(&with(&points, r), true)).collect()
        }
        "thesis-4.4" => vec![wider(&points)],
        "thesis-4.6" => vec![delays(&points)],
        _ => Vec::new(),
    })
}

/// The points with so many replicas.
fn with(points: &[Point], replicas: f64) -> Vec<Point> {
    let here = |point: &&Point| point.at.get("replicas") == Some(&replicas);
    points.iter().filter(here).cloned().collect()
}

fn load(point: &Point) -> f64 {
    point.at.get("utilization").copied().unwrap_or(f64::NAN)
}

/// 000 §4.4: per-shard queuing is the best balance everywhere; naive hedge wins at low loads where
/// there are hiccups, and nowhere where there are none.
fn balances(points: &[Point], hiccups: bool) -> Vec<Row> {
    let replicas = points.first().and_then(|point| point.at.get("replicas"));
    let of = replicas.map_or(String::new(), |replicas| format!(", {replicas} replicas"));
    let balances = ["bounded:2", "least-outstanding", "random"];
    let slack = 0.01; // what chance may make of equal ones
    let loses = |point: &&Point| {
        balances.iter().any(|name| point.reduction(name, "psq").is_some_and(|by| by > slack))
    };
    let lost: Vec<String> = points.iter().filter(loses).map(|p| load(p).to_string()).collect();
    let ours =
        if lost.is_empty() { "at all loads".into() } else { format!("not at {}", lost.join(", ")) };
    let mut rows = vec![Row::holds(&format!("psq is the best balance{of}"), ours, lost.is_empty())];
    let crosses = crossing(points, "naive", "psq");
    if hiccups {
        let shown = crosses.map_or("nowhere".to_owned(), |at| format!("at {at:.3}"));
        let claim = format!("naive is better at low loads, and crosses psq{of}");
        rows.push(Row::holds(&claim, shown, crosses.is_some_and(|at| (0.15..0.4).contains(&at))));
    } else {
        let best = points
            .iter()
            .filter_map(|point| point.reduction("naive", "psq"))
            .fold(f64::MIN, f64::max);
        rows.push(Row::holds(
            "without hiccups naive is never better",
            format!("by {best:.3} at best"),
            best < slack,
        ));
    }
    rows
}

/// 000 §4.6.
fn idealized(points: &[Point]) -> Vec<Row> {
    let gap = |point: &Point| Some(point.p99("psq")? - point.p99("idealized")?);
    let most = points.iter().filter_map(gap).fold(f64::MIN, f64::max);
    let at_60 = points.iter().find(|point| (load(point) - 0.6).abs() < 1e-9);
    let share = at_60.and_then(|point| point.reduction("idealized", "psq")).unwrap_or(f64::NAN);
    let bounded = |point: &Point| point.reduction("idealized", "o1").is_none_or(|by| by < 0.01);
    vec![
        Row::within("idealized below psq, at most", (0.0, 8.5), most),
        Row::within("idealized below psq at 60 %, share", (0.0, 0.1), share),
        Row::holds("o1 bounds idealized (ours)", "at all loads".into(), points.iter().all(bounded)),
    ]
}

/// 000 §5.2, §5.2.1.
fn laedge(points: &[Point]) -> Vec<Row> {
    let at = |lower, higher| crossing(points, lower, higher).unwrap_or(f64::NAN);
    // Chance decides at the lowest loads, where both are alike.
    let busy: Vec<Point> = points.iter().filter(|point| load(point) > 0.12).cloned().collect();
    let preempts = crossing(&busy, "laedge:cc+pc", "laedge:cc").unwrap_or(f64::NAN);
    vec![
        Row::within("laedge crosses psq at", (0.48, 0.58), at("laedge", "psq")),
        Row::within("laedge:cc+pc crosses laedge:cc at", (0.27, 0.37), preempts),
    ]
}

/// 000 §5.3: with more replicas LÆDGE keeps the latency of an idle system up to higher loads.
fn more_replicas(points: &[Point]) -> Vec<Row> {
    let at = crossing(points, "laedge", "psq").unwrap_or(1.0);
    vec![Row::holds(
        "with more replicas laedge is better than psq up to more than 48 %",
        format!("up to {at:.3}"),
        at > 0.48,
    )]
}

/// 000 §4.5: with more replicas the knee moves to the right.
fn wider(points: &[Point]) -> Row {
    let gain = |replicas| {
        let here = with(points, replicas);
        let at = here.iter().find(|point| (load(point) - 0.6).abs() < 1e-9);
        at.and_then(|point| point.reduction("idealized", "psq")).unwrap_or(f64::NAN)
    };
    let [two, three, six] = [2.0, 3.0, 6.0].map(gain);
    let ours = format!("{:.0} %, {:.0} %, {:.0} %", two * 100.0, three * 100.0, six * 100.0);
    let claim = "idealized gains more at 60 % with 2, 3, 6 replicas";
    Row::holds(claim, ours, two < three && three < six)
}

/// 000 §4.6: a longer delay reaches higher loads at the price of latency at low ones.
fn delays(points: &[Point]) -> Row {
    let last = |policy: &str| {
        let stable = points.iter().filter(|point| point.p99(policy).is_some_and(|p99| p99 < 40.0));
        stable.map(load).fold(f64::NAN, f64::max)
    };
    let [three, five, ten] = ["delayed:3ms", "delayed:5ms", "delayed:10ms"].map(last);
    let low = |policy| points.first().and_then(|point| point.p99(policy)).unwrap_or(f64::NAN);
    let holds = three <= five && five <= ten && low("delayed:10ms") > low("delayed:5ms");
    let ours = format!("p99 below 40 up to {three:.2}, {five:.2}, {ten:.2}");
    Row::holds("delays of 3, 5, 10: a longer one lasts to higher loads", ours, holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::papers::Verdict;

    #[test]
    fn longer_delays_last_to_higher_loads() {
        let point = |load, three, five, ten| {
            let p99 = [("delayed:3ms", three), ("delayed:5ms", five), ("delayed:10ms", ten)];
            Point::new([("utilization", load)], p99)
        };
        let mut points = vec![
            point(0.1, Some(10.0), Some(11.0), Some(13.0)),
            point(0.3, Some(19.0), Some(17.0), Some(16.0)),
            point(0.4, None, Some(37.0), Some(24.0)),
        ];
        let row = delays(&points);
        assert_eq!(
            (row.verdict, &*row.ours),
            (Verdict::Agrees, "p99 below 40 up to 0.30, 0.40, 0.40")
        );
        points[2] = point(0.4, Some(39.0), None, Some(24.0));
        assert_eq!(delays(&points).verdict, Verdict::Differs);
    }
}
