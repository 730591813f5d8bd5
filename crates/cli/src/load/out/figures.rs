//! The figures of a run.

use curtail_load::{Extent, Pace, Plan, Report, Summary};

use super::series::{Piece, Series};
use crate::plot::FIGURE_SIZES;
use crate::plot::axes::Caption;
use crate::plot::curves::{Axis, Curve, Curves, draw};
use crate::plot::distribution::{Latencies, Share, chart};
use crate::plot::format::three;
use crate::plot::palette::{Look, look};
use crate::plot::stack::{self, Bar, Length};

/// The size, class and id suffix of a figure.
type Size = (f64, f64, &'static str, &'static str);

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
        let (width, height, class, end) = size;
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
        let id = format!("{}{end}", if which == Share::Above { "ccdf" } else { "cdf" });
        chart(&id, &both.collect::<Vec<_>>(), which, ((width, height), class))
    }

    /// Percentiles over time.
    pub(super) fn percentiles(&self, size: Size) -> Option<String> {
        let [p50, p99, max] = over_time();
        let of = |(name, look): (String, Look), samples, value: &dyn Fn(&Piece) -> Option<u64>| {
            let value = |piece: &Piece| Some((value(piece)?.max(1) as f64 / 1e6).log10());
            Curve { name, look, points: steps(&self.series.joined(samples), value) }
        };
        // If the whole run has enough samples for a percentile, so does each interval.
        let curves = [
            of(p50, 20, &|piece| piece.percentile(500)),
            of(p99, 1_000, &|piece| piece.percentile(990)),
            of(max, 1, &Piece::max),
        ];
        let all = || curves.iter().flat_map(|curve| &curve.points).map(|point| 10f64.powf(point.1));
        let (low, high) = (all().min_by(f64::total_cmp)?, all().max_by(f64::total_cmp)?);
        let chart = Curves {
            caption: self.caption("over-time", size, "Latency over time", &curves, |at| {
                format!("{} ms", three(10f64.powf(at)))
            }),
            x: self.seconds(),
            y: Axis::log("Latency, ms", low, high, FIGURE_SIZES[0].0),
            right: &[],
            curves: &curves,
            size: (size.0, size.1),
        };
        Some(draw(&chart, size.2))
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
            caption: self.caption("rate", size, "Rate over time", &curves, |rate| {
                format!("{} per second", three(rate))
            }),
            x: self.seconds(),
            y: Axis::linear("Good responses per second", 0.0, high.fold(1.0, f64::max)),
            right: &[],
            curves: &curves,
            size: (size.0, size.1 * 0.7),
        };
        Some(draw(&chart, size.2))
    }

    /// The parts of which each percentile consists.
    pub(super) fn parts(&self, size: Size) -> Option<String> {
        let named = parts(self.report);
        let of = Summary::<u64>::NAMES.into_iter().zip(self.report.split_ns.each());
        let bars = of.filter_map(|(name, parts)| {
            let parts = parts?.each().map(|ns| ns as f64 / 1e6)[..named.len()].to_vec();
            Some(Bar { name: name.to_owned(), parts })
        });
        let bars: Vec<Bar> = bars.collect();
        if bars.is_empty() {
            return None;
        }
        let caption = Caption {
            id: format!("parts{}", size.3),
            title: "The parts of the latency at its percentiles".to_owned(),
            description: "The same figures are in the table, in milliseconds.".to_owned(),
        };
        let length = Length::Shares("Share of the latency");
        Some(stack::draw(&caption, &named, &bars, (length, " ms"), (size.0, size.2)))
    }

    fn seconds(&self) -> Axis {
        let whole = self.series.joined(u64::MAX);
        let (from, until) = whole.first().map_or((0, 1), |whole| (whole.from_ns, whole.until_ns));
        let mut axis = Axis::linear("Time, s", from as f64 / 1e9, until as f64 / 1e9);
        axis.ends.1 = until as f64 / 1e9;
        axis.ticks.retain(|(at, _)| *at <= axis.ends.1);
        axis
    }

    fn caption(
        &self,
        id: &str,
        size: Size,
        title: &str,
        curves: &[Curve],
        text: impl Fn(f64) -> String,
    ) -> Caption {
        let about = curves.iter().filter_map(|curve| {
            let values = || curve.points.iter().map(|point| point.1);
            let (low, high) = (values().min_by(f64::total_cmp)?, values().max_by(f64::total_cmp)?);
            Some(format!("{} from {} to {}.", curve.name, text(low), text(high)))
        });
        Caption {
            id: format!("{id}{}", size.3),
            title: title.to_owned(),
            description: about.collect::<Vec<_>>().join(" "),
        }
    }
}

/// The value of each interval as two points, at its start and its end, in seconds.
fn steps(pieces: &[Piece], value: impl Fn(&Piece) -> Option<f64>) -> Vec<(f64, f64)> {
    let step = |piece: &Piece| {
        let value = value(piece)?;
        Some([(piece.from_ns as f64 / 1e9, value), (piece.until_ns as f64 / 1e9, value)])
    };
    pieces.iter().filter_map(step).flatten().collect()
}
