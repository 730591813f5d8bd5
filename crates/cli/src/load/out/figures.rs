//! The figures of a run, and the latencies over time that they show. These are exact and in bounded
//! memory, because neighboring intervals are merged when there are too many.

use std::ops::Range;

use curtail_load::{Extent, Histogram, Pace, Plan, Report, Summary};
use curtail_report::chart::curves::{Axis, Curve, Curves, draw};
use curtail_report::chart::distribution::{Latencies, Share, chart};
use curtail_report::chart::frame::{Caption, Size, bounds};
use curtail_report::chart::rows::{Length, Stack, stacks};
use curtail_report::number::three;
use curtail_report::policy::{Look, look};

/// The data to draw.
pub(super) struct Figures<'a> {
    pub(super) plan: &'a Plan,
    pub(super) report: &'a Report,
    pub(super) series: &'a Series,
}

/// Names of curves, and their styles.
fn named<const N: usize>(curves: [(&str, usize); N]) -> [(String, Look); N] {
    curves.map(|(name, color)| (name.to_owned(), look(color)))
}

pub(super) fn latencies() -> [(String, Look); 2] {
    named([("latency", 1), ("uncorrected", 3)])
}

pub(super) fn over_time() -> [(String, Look); 3] {
    named([("p50", 4), ("p99", 1), ("max", 3)])
}

pub(super) fn rates() -> [(String, Look); 2] {
    named([("achieved", 1), ("offered", 0)])
}

pub(super) fn parts(report: &Report) -> Vec<(&'static str, Look)> {
    report.split_ns.names().iter().copied().zip([3, 5, 1, 2].map(look)).collect()
}

impl Figures<'_> {
    pub(super) fn distribution(&self, which: Share, size: Size) -> Option<String> {
        // If no request had a good answer, there are no latencies, only the timeout.
        if self.report.histogram.is_empty() {
            return None;
        }
        let all = self.report.all();
        let counted = [&all, &self.report.uncorrected_histogram];
        let withheld = self.report.withheld.is_some();
        let named = latencies();
        let both = named.iter().zip(counted).map(|((name, look), counted)| {
            let look = *look;
            Latencies { name, look, counted, withheld }
        });
        let id = if which == Share::Above { "ccdf" } else { "cdf" };
        chart(id, &both.collect::<Vec<_>>(), which, size)
    }

    /// Percentiles over time.
    pub(super) fn percentiles(&self, size: Size) -> Option<String> {
        let [p50, p99, max] = over_time();
        let of = |(name, look): (String, Look), samples, value: fn(&Summary) -> Option<u64>| {
            let value =
                |piece: &Piece| Some((value(&piece.summary())?.max(1) as f64 / 1e6).log10());
            Curve { name, look, points: steps(&self.series.joined(samples), value) }
        };
        // If the whole run has enough samples for a percentile, so does each interval.
        let curves =
            [of(p50, 20, |of| of.p50), of(p99, 1_000, |of| of.p99), of(max, 1, |of| of.max)];
        let all = curves.iter().flat_map(|curve| &curve.points).map(|point| 10f64.powf(point.1));
        let (low, high) = bounds(all)?;
        let chart = Curves {
            caption: caption("over-time", size, "Latency over time", &curves, |at| {
                format!("{} ms", three(10f64.powf(at)))
            }),
            x: self.seconds(),
            y: Axis::log("Latency, ms", low, high, Size::WIDE.width),
            right: &[],
            curves: &curves,
            size,
        };
        Some(draw(&chart))
    }

    /// Rates over time.
    pub(super) fn rate(&self, size: Size) -> Option<String> {
        let [(achieved, solid), (offered, black)] = rates();
        let pieces = self.series.joined(0);
        let rate = |piece: &Piece| {
            Some(piece.len() as f64 / piece.seconds()).filter(|rate| rate.is_finite())
        };
        let points = steps(&pieces, rate);
        let end_s = points.last()?.0;
        let mut curves = vec![Curve { name: achieved, look: solid, points }];
        if let Pace::Open { profile, .. } = &self.plan.pace {
            let start_ns = self.plan.warmup_ns;
            let planned_ns = match self.plan.extent {
                Extent::Duration { ns } => ns,
                Extent::Requests(_) => ((end_s * 1e9) as u64).saturating_sub(start_ns),
            };
            // No load is offered while the run waits for the last responses.
            let due = |at_ns: u64| {
                let at_ns = at_ns.saturating_sub(start_ns).min(planned_ns);
                profile.requests(at_ns as f64, planned_ns)
            };
            let rate = |piece: &Piece| {
                Some((due(piece.until_ns) - due(piece.from_ns)) / piece.seconds())
                    .filter(|rate| *rate > 0.0)
            };
            curves.push(Curve { name: offered, look: black, points: steps(&pieces, rate) });
        }
        let high = curves.iter().flat_map(|curve| &curve.points).map(|point| point.1);
        let chart = Curves {
            caption: caption("rate", size, "Rate over time", &curves, |rate| {
                format!("{} per second", three(rate))
            }),
            x: self.seconds(),
            y: Axis::linear("Good responses per second", 0.0, high.fold(1.0, f64::max)),
            right: &[],
            curves: &curves,
            size: Size { height: size.height * 0.7, ..size },
        };
        Some(draw(&chart))
    }

    /// The parts of which each percentile consists.
    pub(super) fn parts(&self, size: Size) -> Option<String> {
        let named = parts(self.report);
        let of = Summary::<u64>::NAMES.into_iter().zip(self.report.split_ns.each());
        let bars = of.filter_map(|(name, parts)| {
            let parts = parts?.each().map(|ns| ns as f64 / 1e6)[..named.len()].to_vec();
            Some(Stack { name: name.to_owned(), parts })
        });
        let bars: Vec<Stack> = bars.collect();
        if bars.is_empty() {
            return None;
        }
        let title = "The parts of the latency at its percentiles";
        let about = "The same figures are in the table, in milliseconds.";
        let length = Length::Shares("Share of the latency");
        let caption = Caption::new("parts", size, title, about);
        Some(stacks(&caption, &named, &bars, length, " ms", size))
    }

    fn seconds(&self) -> Axis {
        let whole = self.series.joined(u64::MAX);
        let (from, until) = whole.first().map_or((0, 1), |whole| (whole.from_ns, whole.until_ns));
        Axis::until("Time, s", from as f64 / 1e9, until as f64 / 1e9)
    }
}

/// A caption with the range of each curve.
fn caption(
    id: &str,
    size: Size,
    title: &str,
    curves: &[Curve],
    text: impl Fn(f64) -> String,
) -> Caption {
    let about = curves.iter().filter_map(|curve| {
        let (low, high) = bounds(curve.points.iter().map(|point| point.1))?;
        Some(format!("{} from {} to {}.", curve.name, text(low), text(high)))
    });
    Caption::new(id, size, title, about.collect::<Vec<_>>().join(" "))
}

/// The value of each interval as two points, at its start and its end, in seconds.
fn steps(pieces: &[Piece], value: impl Fn(&Piece) -> Option<f64>) -> Vec<(f64, f64)> {
    let step = |piece: &Piece| {
        let value = value(piece)?;
        Some([(piece.from_ns as f64 / 1e9, value), (piece.until_ns as f64 / 1e9, value)])
    };
    pieces.iter().filter_map(step).flatten().collect()
}

/// Maximum number of intervals. It exceeds the width of a plot, in pixels.
const PIECES_MAX: usize = 512;

/// The latencies of an interval. Hundreds of histograms would take tens of megabytes, so an
/// interval keeps only the buckets that have a count.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Piece {
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    /// Latencies in nanoseconds in ascending order, each with its count.
    counts: Vec<(u64, u64)>,
}

impl Piece {
    fn summary(&self) -> Summary {
        let mut all = Histogram::new(3).expect("three digits");
        for (ns, count) in &self.counts {
            all.record_n(*ns, *count).expect("it resizes itself");
        }
        Summary::of(&all)
    }

    pub(super) fn len(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    pub(super) fn seconds(&self) -> f64 {
        self.until_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }

    /// Merges the next interval into this one.
    fn merge(&mut self, next: &Piece) {
        self.until_ns = self.until_ns.max(next.until_ns);
        self.counts.extend(&next.counts);
        self.counts.sort_unstable();
        self.counts.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
    }
}

/// Intervals, in order.
#[derive(Debug, Default)]
pub(super) struct Series {
    pieces: Vec<Piece>,
    /// The number of snapshots per interval.
    snapshots: usize,
    /// The number of snapshots in the last interval.
    last: usize,
}

impl Series {
    /// Adds the latencies of the next snapshot.
    pub(super) fn add(&mut self, time_ns: Range<u64>, counted: &Histogram<u64>) {
        let of = counted
            .iter_recorded()
            .map(|bucket| (bucket.value_iterated_to().min(counted.max()), bucket.count_at_value()));
        let Range { start: from_ns, end: until_ns } = time_ns;
        let piece = Piece { from_ns, until_ns, counts: of.collect() };
        if self.last < self.snapshots
            && let Some(last) = self.pieces.last_mut()
        {
            last.merge(&piece);
            self.last += 1;
            return;
        }
        if self.pieces.len() == PIECES_MAX {
            let pairs = self.pieces.chunks(2).map(|pair| {
                let mut merged = pair[0].clone();
                pair[1..].iter().for_each(|next| merged.merge(next));
                merged
            });
            self.pieces = pairs.collect();
            self.snapshots = 2 * self.snapshots.max(1);
        }
        self.pieces.push(piece);
        (self.snapshots, self.last) = (self.snapshots.max(1), 1);
    }

    /// The intervals, merged until each has `samples` samples; the remainder joins the last one.
    pub(super) fn joined(&self, samples: u64) -> Vec<Piece> {
        let mut joined: Vec<Piece> = Vec::new();
        for piece in &self.pieces {
            match joined.last_mut() {
                Some(last) if last.len() < samples => last.merge(piece),
                _ => joined.push(piece.clone()),
            }
        }
        if joined.len() > 1
            && let Some(rest) = joined.pop_if(|last| last.len() < samples)
            && let Some(last) = joined.last_mut()
        {
            last.merge(&rest);
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).expect("three digits");
        values.iter().for_each(|&value| histogram.record(value).expect("in range"));
        histogram
    }

    #[test]
    fn a_long_run_keeps_all_counts_and_all_of_its_time_in_few_intervals() {
        let mut series = Series::default();
        let snapshots = 5_000_u64;
        for at in 0..snapshots {
            series.add(at * 10..at * 10 + 10, &counted(&[1 + at % 7, 1_000]));
        }
        assert!(series.pieces.len() <= PIECES_MAX && series.pieces.len() > PIECES_MAX / 4);
        assert_eq!(series.pieces.iter().map(Piece::len).sum::<u64>(), 2 * snapshots);
        assert!(series.pieces.windows(2).all(|pair| pair[0].until_ns == pair[1].from_ns));
        assert_eq!(
            (series.pieces[0].from_ns, series.pieces.last().map(|last| last.until_ns)),
            (0, Some(snapshots * 10))
        );
        let whole = series.joined(u64::MAX);
        assert_eq!(whole.len(), 1);
        assert_eq!((whole[0].counts.len(), whole[0].summary().max), (8, Some(1_000)));
    }

    #[test]
    fn a_percentile_is_that_of_the_samples_and_has_ten_above_it() {
        let values: Vec<u64> = (1..=1_000).collect();
        let mut series = Series::default();
        series.add(0..5, &counted(&values));
        let whole = series.joined(0)[0].summary();
        assert_eq!((whole.p50, whole.p99, whole.p999), (Some(500), Some(990), None));
        assert_eq!(Piece::default().summary(), Summary::default());
    }
}
