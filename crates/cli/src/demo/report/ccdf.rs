//! The tails in whole: which share of the requests is slower than what.

use crate::demo::findings::{View, is_withheld};
use crate::demo::results::Cell;
use crate::plot::axes::Caption;
use crate::plot::curves::{self, Axis, Curve, Curves};
use crate::plot::distribution::WITHHELD;
use crate::plot::format::{policy, share, three, utilization};
use crate::plot::palette::Look;

/// Below this share the tail is a few requests: chance. As with percentiles.
const SAMPLES_ABOVE: f64 = 10.0;

/// A tail that ends beyond so many times the baseline's end leaves the chart.
const OFF_CHART: f64 = 2.5;

/// The distribution of a policy at the load of the chart.
struct Tail<'a> {
    policy: &'a str,
    look: Look,
    /// (ms, share of requests above), descending in share, without what is chance.
    points: Vec<(f64, f64)>,
}

/// The loads to show: the lowest and the highest at which both that are compared are sound.
pub(super) fn loads(view: View<'_>) -> Vec<f64> {
    let shown = |name: Option<&str>, load: f64| {
        name.and_then(|name| view.cell(name, load)).is_some_and(is_shown)
    };
    let both: Vec<f64> = view
        .results
        .loads
        .iter()
        .copied()
        .filter(|load| shown(view.baseline, *load) && shown(view.subject, *load))
        .collect();
    match both[..] {
        [first, .., last] => vec![first, last],
        _ => both,
    }
}

fn is_shown(cell: &Cell) -> bool {
    cell.valid && tail(cell).len() > 1
}

/// The policies that are measured at a load, but not shown: those that are not sound, and those
/// that are, with too few samples for a tail.
pub(super) fn left_out(view: View<'_>, load: f64) -> (Vec<&str>, Vec<&str>) {
    let left_out = |valid: bool| {
        let is = move |cell: &Cell| cell.valid == valid && !is_shown(cell);
        view.policies().filter(move |name| view.cell(name, load).is_some_and(is)).collect()
    };
    (left_out(false), left_out(true))
}

fn tail(cell: &Cell) -> Vec<(f64, f64)> {
    // A little less: whoever computed the shares rounded as well.
    let least = 0.999 * SAMPLES_ABOVE / cell.requests.max(1) as f64;
    let least = if is_withheld(cell) { least.max(WITHHELD) } else { least };
    let told = |point: &&(f64, f64)| point.1 >= least && point.0.is_finite();
    cell.ccdf.iter().filter(told).copied().collect()
}

/// Draws the tails of all policies at a load.
pub(super) fn draw(view: View<'_>, load: f64, narrow: bool) -> String {
    let tails: Vec<Tail<'_>> = view
        .looks()
        .into_iter()
        .filter_map(|(policy, look)| {
            let cell = view.cell(policy, load).filter(|cell| is_shown(cell))?;
            Some(Tail { policy, look, points: tail(cell) })
        })
        .collect();
    let smallest = tails.iter().filter_map(|tail| tail.points.last()).map(|point| point.1);
    let name = format!("Share of requests slower, at {} utilization", utilization(load));
    let (y, right) = Axis::shares_above(&name, smallest.fold(0.1, f64::min));
    let chart = Curves {
        caption: caption(view, load, narrow),
        x: Axis::linear("Latency, ms", 0.0, furthest(view, &tails)),
        y,
        right: &right,
        curves: &tails.iter().map(curve).collect::<Vec<_>>(),
        size: if narrow { (344.0, 300.0) } else { (472.0, 330.0) },
    };
    curves::draw(&chart, if narrow { "narrow" } else { "wide" })
}

/// All requests take longer than no time.
fn curve(tail: &Tail<'_>) -> Curve {
    let points = tail.points.iter().map(|(ms, above)| (*ms, above.log10()));
    Curve {
        name: policy(tail.policy).short,
        look: tail.look,
        points: [(0.0, 0.0)].into_iter().chain(points).collect(),
    }
}

/// Up to where the x axis must go.
fn furthest(view: View<'_>, tails: &[Tail<'_>]) -> f64 {
    let end = |tail: &Tail<'_>| tail.points.last().map_or(0.0, |point| point.0);
    let compared = |tail: &&Tail<'_>| [view.baseline, view.subject].contains(&Some(tail.policy));
    let limit = tails.iter().filter(compared).map(end).fold(0.0, f64::max) * OFF_CHART;
    tails.iter().map(end).filter(|end| *end <= limit).fold(f64::MIN_POSITIVE, f64::max)
}

fn caption(view: View<'_>, load: f64, narrow: bool) -> Caption {
    let at = utilization(load);
    let ends = view.policies().filter_map(|name| {
        let cell = view.cell(name, load).filter(|cell| is_shown(cell))?;
        let (ms, share_above) = *tail(cell).last()?;
        let name = policy(name).short;
        Some(format!("{name}: {} of requests above {} ms.", share(share_above), three(ms)))
    });
    Caption {
        id: format!("tail-{:.0}{}", load * 1e3, if narrow { "-narrow" } else { "" }),
        title: format!("Distribution of latency at {at} utilization"),
        description: ends.collect::<Vec<_>>().join(" "),
    }
}
