//! Draws latency distributions: the share of latencies below or above each value.

use hdrhistogram::Histogram;

use super::curves::{Axis, Curve, Curves, draw};
use super::frame::{Caption, Size, bounds};
use crate::number::{share, three};
use crate::policy::Look;

/// A point of the tail is drawn only if at least this many samples are above it, as for
/// percentiles.
const SAMPLES_ABOVE: u64 = 10;

/// If the 99.9th percentile is withheld, the part of the tail below this share includes the load
/// generator's lag.
const WITHHELD: f64 = 0.001_001;

/// The latencies in nanoseconds, and their name.
pub struct Latencies<'a> {
    pub name: &'a str,
    pub look: Look,
    pub counted: &'a Histogram<u64>,
    /// Whether the 99.9th percentile and the tail above it are withheld because the load generator
    /// was late too often.
    pub withheld: bool,
}

/// Which share to draw.
#[derive(Clone, Copy, PartialEq)]
pub enum Share {
    Below,
    Above,
}

/// Returns each recorded value, in milliseconds, with the number of latencies that do not exceed
/// it.
fn cumulated(counted: &Histogram<u64>) -> impl Iterator<Item = (f64, u64)> + '_ {
    let mut below = 0;
    counted.iter_recorded().map(move |bucket| {
        below += bucket.count_since_last_iteration();
        // The bucket of the largest value can extend above that value.
        let ns = bucket.value_iterated_to().min(counted.max());
        (ns.max(1) as f64 / 1e6, below)
    })
}

/// Returns the points (ms, share) of a distribution, without the part of the tail that is due to
/// chance.
fn points(of: &Latencies<'_>, which: Share) -> Vec<(f64, f64)> {
    let all = of.counted.len();
    let least_share = if of.withheld { WITHHELD } else { 0.0 };
    let least = (SAMPLES_ABOVE as f64).max(least_share * all as f64);
    let start = of.counted.min_nz().min(of.counted.max()).max(1) as f64 / 1e6;
    let first = (start, if which == Share::Above { 1.0 } else { 0.0 });
    let recorded = cumulated(of.counted).filter_map(|(ms, below)| {
        let above = all - below;
        match which {
            Share::Below => Some((ms, below as f64 / all as f64)),
            Share::Above if above as f64 >= least => Some((ms, above as f64 / all as f64)),
            Share::Above => None,
        }
    });
    [first].into_iter().chain(recorded).collect()
}

/// Draws distributions over a logarithmic latency axis. Returns `None` if all of them have too few
/// samples. `id`, with the suffix of the size, must be unique on
/// the page.
pub fn chart(id: &str, of: &[Latencies<'_>], which: Share, size: Size) -> Option<String> {
    let shown = of.iter().filter(|one| one.counted.len() >= 2 * SAMPLES_ABOVE);
    let drawn: Vec<_> = shown.map(|one| (one, points(one, which))).collect();
    let all = || drawn.iter().flat_map(|(_, points)| points);
    let (low, high) = bounds(all().map(|point| point.0))?;
    let x = Axis::log("Latency, ms", low, high, size.width);
    let y = match which {
        Share::Above => {
            let smallest = all().map(|point| point.1).fold(1.0, f64::min);
            Axis::shares_above("Share of requests slower", smallest)
        }
        Share::Below => {
            let mut y = Axis::linear("Share of requests not slower", 0.0, 1.0);
            y.ticks.iter_mut().for_each(|(value, text)| *text = share(*value));
            y
        }
    };
    let right = if which == Share::Above { y.percentiles() } else { Vec::new() };
    let curve = |(one, points): &(&Latencies<'_>, Vec<(f64, f64)>)| {
        let place = |(ms, share): &(f64, f64)| match which {
            Share::Above => (ms.log10(), share.log10()),
            Share::Below => (ms.log10(), *share),
        };
        let points = points.iter().map(place).collect();
        Curve { name: one.name.to_owned(), look: one.look, points }
    };
    let curves: Vec<Curve> = drawn.iter().map(curve).collect();
    let caption = Caption::new(id, size, format!("{} than a latency", y.name), describe(of));
    Some(draw(&Curves { caption, x, y, right: &right, curves: &curves, size }))
}

/// Describes a chart in words, for screen readers.
fn describe(of: &[Latencies<'_>]) -> String {
    let one = |one: &Latencies<'_>| {
        let at = |quantile| three(one.counted.value_at_quantile(quantile) as f64 / 1e6);
        format!("{}: half within {} ms, 90 % within {} ms.", one.name, at(0.5), at(0.9))
    };
    of.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::look;

    fn of(counted: &Histogram<u64>, withheld: bool) -> Latencies<'_> {
        Latencies { name: "latency", look: look(1), counted, withheld }
    }

    #[test]
    fn a_tail_ends_where_ten_samples_are_left() {
        let mut counted = Histogram::new(3).expect("three digits");
        (1..=1_000_u64).for_each(|ms| counted.record(ms * 1_000_000).expect("in range"));
        let tail = points(&of(&counted, false), Share::Above);
        assert_eq!(tail.first(), Some(&(0.999_936, 1.0)));
        assert_eq!(tail.last().map(|point| point.1), Some(0.01));
        counted.record_n(1_000_000, 999_000).expect("in range");
        let last =
            |withheld| points(&of(&counted, withheld), Share::Above).last().map(|last| last.1);
        assert_eq!((last(false), last(true)), (Some(0.000_01), Some(1.0)));
        let whole = points(&of(&counted, true), Share::Below);
        assert_eq!(whole.last().map(|point| point.1), Some(1.0));
    }

    #[test]
    fn too_few_samples_make_no_chart() {
        let mut counted = Histogram::new(3).expect("three digits");
        let draw =
            |counted: &Histogram<u64>| chart("x", &[of(counted, false)], Share::Above, Size::WIDE);
        assert_eq!(draw(&counted), None);
        counted.record_n(5_000_000, 20).expect("in range");
        assert!(draw(&counted).is_some_and(|svg| svg.contains("<title>latency</title>")));
    }
}
