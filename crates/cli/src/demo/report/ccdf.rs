//! The tails in whole: which share of the requests is slower than what.

use std::fmt::Write as _;

use crate::demo::findings::{View, is_withheld};
use crate::demo::results::Cell;
use crate::plot::axes::{Caption, Frame, Scale, axes, open, text, ticks};
use crate::plot::format::{escape, policy, share, three, tick, utilization};
use crate::plot::palette::Look;

/// Below this share the tail is a few requests: chance. As with percentiles.
const SAMPLES_ABOVE: f64 = 10.0;

/// Below this share, where p99.9 is withheld, the lag of the load generator is a part of the tail.
const WITHHELD: f64 = 0.001_001;

/// A tail that ends beyond so many times the baseline's end leaves the chart.
const OFF_CHART: f64 = 2.5;

/// Points nearer to the last one than this are left out, in pixels.
const RESOLUTION: f64 = 0.7;

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
    let (width, height) = if narrow { (344.0, 300.0) } else { (472.0, 330.0) };
    let frame = Frame { width, height, left: 52.0, right: 42.0, top: 28.0, bottom: 46.0 };
    let x_ticks = ticks(0.0, furthest(view, &tails), 5.0);
    let slowest = x_ticks.last().copied().unwrap_or(1.0);
    let x = Scale { values: (0.0, slowest), positions: (frame.left, frame.plot_right()) };
    let smallest = tails.iter().filter_map(|tail| tail.points.last()).map(|point| point.1);
    let lowest = smallest.fold(0.1, f64::min).log10() - 0.1;
    let y = Scale { values: (0.0, lowest), positions: (frame.top, frame.plot_bottom()) };

    let x_ticks: Vec<_> = x_ticks.iter().map(|value| (x.at(*value), tick(*value))).collect();
    let mut y_ticks = Vec::new();
    let mut percentiles = String::new();
    for decade in 0..=(-lowest) as i32 {
        let at = y.at(f64::from(-decade));
        y_ticks.push((at, share(10f64.powi(-decade))));
        if let Some(name) = ["", "", "p99", "p99.9", "p99.99"].get(decade as usize) {
            percentiles += &text(frame.plot_right() + 4.0, at + 4.0, "start", "tick", name);
        }
    }
    let mut svg =
        open(&frame, &caption(view, load, narrow), if narrow { "narrow" } else { "wide" });
    let name = format!("Share of requests slower, at {} utilization", utilization(load));
    svg += &axes(&frame, &x_ticks, &y_ticks, ("Latency, ms", &name));
    svg += &percentiles;
    for tail in tails.iter().rev() {
        svg += &line(tail, x, y);
    }
    svg + "</svg>"
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

/// One tail; one that leaves at the right does so with an arrow.
fn line(tail: &Tail<'_>, x: Scale, y: Scale) -> String {
    let mut path = format!("M{:.1} {:.1}", x.positions.0, y.positions.0);
    let mut last = (x.positions.0, y.positions.0);
    let mut leaves = None;
    for (i, (ms, above)) in tail.points.iter().enumerate() {
        let next = (x.at(*ms), y.at(above.log10()));
        if next.0 > x.positions.1 {
            let part = (x.positions.1 - last.0) / (next.0 - last.0);
            let at = last.1 + part * (next.1 - last.1);
            let _ = write!(path, "L{:.1} {at:.1}", x.positions.1);
            leaves = Some(at);
            break;
        }
        let far = (next.0 - last.0).abs() + (next.1 - last.1).abs() >= RESOLUTION;
        if far || i + 1 == tail.points.len() {
            let _ = write!(path, "L{:.1} {:.1}", next.0, next.1);
            last = next;
        }
    }
    let name = escape(&policy(tail.policy).short);
    let mut svg = format!(
        r#"<g class="k{}"><title>{name}</title><path d="{path}" {}/>"#,
        tail.look.color,
        tail.look.stroke()
    );
    if let Some(at) = leaves {
        let _ = write!(
            svg,
            r#"<path class="head" d="M0 0L-9 4.5L-9 -4.5Z" transform="translate({:.1} {at:.1})"/>"#,
            x.positions.1
        );
    } else {
        // A line has its marker once, at its end: enough to tell it in gray.
        let _ = write!(svg, r#"<path class="mark" d="{}"/>"#, tail.look.marker(last.0, last.1));
    }
    svg + "</g>"
}
