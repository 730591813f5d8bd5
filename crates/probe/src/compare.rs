//! Compares two profiles, before and after a change. Each difference is reported with an interval.
//! The interval of a ratio is computed by a bootstrap that draws the windows of the two profiles
//! independently. It is computed on a logarithmic scale, so swapping the profiles inverts the ratio
//! and its interval.
//!
//! Cost: two resamples of moments, and two resamples of a histogram per common stage.

use serde::Serialize;

use crate::profile::{Profile, Window};
use crate::rank::spread;
use crate::resample;

/// The minimum number of requests. With fewer requests, the p99 depends on fewer than ten slow
/// ones.
pub const REQUESTS_MIN: u64 = 1_000;
/// The relative difference between request rates up to which two loads count as equal.
pub const RATE_TOLERANCE: f64 = 0.05;

/// The changes from profile A to profile B.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The change in the duration of the whole request.
    pub total: Row,
    /// The changes in the stages that both profiles contain, in the order of A.
    pub stages: Vec<Row>,
    /// The stages that occur only in A.
    pub only_a: Vec<String>,
    /// The stages that occur only in B.
    pub only_b: Vec<String>,
    /// Reasons to distrust the comparison.
    #[serde(skip)]
    pub warnings: Vec<Warning>,
}

/// The changes in a stage's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names of the fields document them")]
pub struct Row {
    pub name: String,
    pub mean_ns: Change,
    pub sd_ns: Change,
    pub p50_ns: Change,
    pub p99_ns: Change,
}

/// The change in one figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names of the fields document them")]
pub struct Change {
    pub a: f64,
    pub b: f64,
    /// B over A.
    pub ratio: f64,
    /// `None` if there are too few windows.
    pub ratio_ci95: Option<[f64; 2]>,
    pub verdict: Verdict,
}

/// Whether B is better than A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The figure is lower in B, and chance alone does not explain the difference.
    Better,
    /// The figure is higher in B, and chance alone does not explain the difference.
    Worse,
    /// The difference may be due to chance.
    NoDifference,
    /// There are too few windows to decide.
    Unknown,
}

/// A reason to distrust a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names of the fields document them")]
pub enum Warning {
    /// The two profiles are the same.
    Same,
    /// One of the profiles has too few requests for reliable percentiles.
    FewRequests { profile: char, requests: u64 },
    /// The profiles stamped different shares of the requests, so the measurement slowed one server
    /// down more than the other.
    SamplingDiffers { a: Option<u32>, b: Option<u32> },
    /// The loads differed, as the rates of stamped requests show.
    RatesDiffer { a: f64, b: f64 },
}

/// Compares two profiles. `seed` determines the resamples. Returns `None` if the profiles have no
/// stage in common.
#[must_use]
pub fn compare(a: &Profile, b: &Profile, seed: u64) -> Option<Comparison> {
    // "2 others" may stand for different stages in the two profiles.
    let is_sum =
        |name: &str| name.strip_suffix(" others").is_some_and(|of| of.parse::<u32>().is_ok());
    if !a.stages.iter().any(|name| b.stages.contains(name) && !is_sum(name)) {
        return None;
    }
    let find = |name: &String| b.stages.iter().position(|other| other == name);
    let pairs = a.stages.iter().enumerate().filter_map(|(at, name)| Some((at, find(name)?)));
    let pairs: Vec<_> = pairs.chain([(a.stages.len(), b.stages.len())]).collect();
    let windows = a.windows.len().min(b.windows.len());
    let [of_a, of_b] = [(a, 0), (b, 1)].map(|(profile, side)| {
        let places: Vec<usize> =
            pairs.iter().map(|pair| if side == 0 { pair.0 } else { pair.1 }).collect();
        // If both profiles used the same draws, their resamples would not be independent.
        parts(profile, &places, seed.wrapping_add(side))
    });
    let mut rows = pairs.iter().zip(of_a.iter().zip(&of_b)).map(|(&(at, _), (a_part, b_part))| {
        let change = |figure: usize| change(a_part, b_part, figure, windows);
        let name = a.stages.get(at).map_or("total", String::as_str).to_owned();
        let [mean_ns, sd_ns, p50_ns, p99_ns] = [0, 1, 2, 3].map(change);
        Row { name, mean_ns, sd_ns, p50_ns, p99_ns }
    });
    let stages: Vec<Row> = rows.by_ref().take(pairs.len() - 1).collect();
    let only = |these: &Profile, others: &Profile| {
        these.stages.iter().filter(|name| !others.stages.contains(name)).cloned().collect()
    };
    Some(Comparison {
        total: rows.next().expect("the total is the last pair"),
        stages,
        only_a: only(a, b),
        only_b: only(b, a),
        warnings: warnings(a, b),
    })
}

/// The mean, standard deviation, p50 and p99 of a stage, for the profile and for each of its
/// resamples.
struct Part {
    points: [f64; 4],
    resampled: Vec<[f64; 4]>,
}

/// Returns the figures of the given stages. The index after the last stage stands for the total.
fn parts(profile: &Profile, places: &[usize], seed: u64) -> Vec<Part> {
    let whole: Window = profile.whole();
    let value = |at: usize| if at == profile.stages.len() { profile.total() } else { at };
    let windows = &profile.windows;
    let moments = resample::moments(windows, seed, |of| {
        let figures = |&at: &usize| (of.mean(value(at)), of.variance(value(at)).sqrt());
        places.iter().map(figures).collect::<Vec<_>>()
    });
    let of = |(nth, &at): (usize, &usize)| {
        let spread = spread(&whole, value(at), at);
        let [p50, p99] = [spread.p50_ns, spread.p99_ns].map(|ns| ns.unwrap_or(f64::NAN));
        let quantiles = resample::quantiles(windows, at, seed, [0.5, 0.99]);
        let resampled = moments.iter().zip(quantiles).map(|(of, [p50, p99])| {
            let (mean, sd) = of[nth];
            [mean, sd, p50, p99]
        });
        Part { points: [spread.mean_ns, spread.sd_ns, p50, p99], resampled: resampled.collect() }
    };
    places.iter().enumerate().map(of).collect()
}

fn change(a: &Part, b: &Part, figure: usize, windows: usize) -> Change {
    let ratio = b.points[figure] / a.points[figure];
    let both = a.resampled.iter().zip(&b.resampled);
    let logs = both.map(|(a, b)| (b[figure] / a[figure]).ln()).collect();
    let ratio_ci95 = resample::interval(ratio.ln(), logs, windows).map(|ends| ends.map(f64::exp));
    let verdict = match ratio_ci95 {
        Some([_, high]) if high < 1.0 => Verdict::Better,
        Some([low, _]) if low > 1.0 => Verdict::Worse,
        Some(_) => Verdict::NoDifference,
        None => Verdict::Unknown,
    };
    Change { a: a.points[figure], b: b.points[figure], ratio, ratio_ci95, verdict }
}

fn warnings(a: &Profile, b: &Profile) -> Vec<Warning> {
    let few = [('A', a), ('B', b)].map(|(profile, of)| (profile, of.requests()));
    let few = few.into_iter().filter(|(_, requests)| *requests < REQUESTS_MIN);
    let mut found: Vec<Warning> =
        few.map(|(profile, requests)| Warning::FewRequests { profile, requests }).collect();
    if a == b {
        found.push(Warning::Same);
    }
    let [sampling_a, sampling_b] = [a, b].map(|of| of.cost.map(|cost| cost.one_in));
    if sampling_a != sampling_b {
        found.push(Warning::SamplingDiffers { a: sampling_a, b: sampling_b });
        return found;
    }
    let rate = |of: &Profile| {
        let length_ns: f64 = of.windows.iter().map(|window| window.length_ns as f64).sum();
        of.requests() as f64 / length_ns * 1e9
    };
    let (a, b) = (rate(a), rate(b));
    if (a - b).abs() > RATE_TOLERANCE * a.max(b) {
        found.push(Warning::RatesDiffer { a, b });
    }
    found
}
