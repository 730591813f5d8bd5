//! Percentiles of turns, and the table.
//!
//! For a cold figure, a percentile of the first requests is computed for each start, and the figure
//! is the median of these percentiles. A warm figure is a percentile of the later requests of all
//! starts taken together.

use std::fmt::Write as _;

use serde::Serialize;

/// One start of a contender at a rate.
#[derive(Debug)]
pub(crate) struct Turn {
    /// Latencies in ns from the intended times.
    pub(crate) cold_ns: Vec<u64>,
    pub(crate) warm_ns: Vec<u64>,
    /// Copies counted by the leaves.
    pub(crate) copies_per_request: f64,
    /// Requests per second.
    pub(crate) achieved: f64,
    pub(crate) errors: usize,
    pub(crate) is_valid: bool,
    /// Whether the load is invalid only because the load generator fell behind.
    pub(crate) fell_behind: bool,
}

/// Percentiles in ms. `None` without requests.
#[derive(Debug, PartialEq, Serialize)]
struct Percentiles {
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    p999_ms: Option<f64>,
}

/// The results of a contender at a rate.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    rate: u32,
    name: String,
    cold: Percentiles,
    warm: Percentiles,
    copies_per_request: f64,
    /// Requests per second, as the mean over all starts.
    achieved: f64,
    /// The number of failed requests.
    errors: usize,
    /// The number of starts with an invalid load.
    invalid: usize,
    starts: usize,
}

impl Percentiles {
    fn of(percentile: impl Fn(f64) -> Option<f64>) -> Self {
        let [p50_ms, p99_ms, p999_ms] = [0.5, 0.99, 0.999].map(percentile);
        Self { p50_ms, p99_ms, p999_ms }
    }
}

/// Returns a percentile by the nearest rank, in ms.
fn percentile(mut latencies_ns: Vec<u64>, share: f64) -> Option<f64> {
    latencies_ns.sort_unstable();
    let rank = (latencies_ns.len() as f64 * share).ceil() as usize;
    latencies_ns.get(rank.checked_sub(1)?).map(|ns| *ns as f64 / 1e6)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)? / 2;
    Some(f64::midpoint(values[middle], values[values.len() / 2]))
}

/// Computes the row of one contender at one rate.
pub(crate) fn row(rate: u32, name: &str, turns: &[Turn]) -> Row {
    let cold = |share| turns.iter().filter_map(move |of| percentile(of.cold_ns.clone(), share));
    let warm: Vec<u64> = turns.iter().flat_map(|turn| turn.warm_ns.clone()).collect();
    let count = turns.len() as f64;
    Row {
        rate,
        name: name.to_owned(),
        cold: Percentiles::of(|share| median(cold(share).collect())),
        warm: Percentiles::of(|share| percentile(warm.clone(), share)),
        copies_per_request: turns.iter().map(|turn| turn.copies_per_request).sum::<f64>() / count,
        achieved: turns.iter().map(|turn| turn.achieved).sum::<f64>() / count,
        errors: turns.iter().map(|turn| turn.errors).sum(),
        invalid: turns.iter().filter(|turn| !turn.is_valid).count(),
        starts: turns.len(),
    }
}

pub(crate) fn table(rows: &[Row]) -> String {
    let three = |[p50, p99, p999]: [&str; 3]| format!("{p50:>8}{p99:>8}{p999:>8}");
    let ms = |figure: Option<f64>| figure.map_or("-".to_owned(), |ms| format!("{ms:.1}"));
    let percentiles = |of: &Percentiles| {
        three([of.p50_ms, of.p99_ms, of.p999_ms].map(ms).each_ref().map(|ms| &**ms))
    };
    let heads = three(["p50", "p99", "p99.9"]);
    let mut text = format!(
        "{:43}{:>24}{:>24}\noffered  {:34}{heads}{heads}  copies  achieved  errors  invalid\n",
        "", "cold start, ms", "warm, ms", "contender"
    );
    for row in rows {
        let Row { rate, name, copies_per_request, achieved, errors, invalid, starts, .. } = row;
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "{rate:>7}  {name:34}{}{}{copies_per_request:>8.3}{achieved:>10.1}{errors:>8}{:>9}",
            percentiles(&row.cold),
            percentiles(&row.warm),
            format!("{invalid}/{starts}"),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(cold_ms: impl IntoIterator<Item = u64>, warm_ms: &[u64]) -> Turn {
        Turn {
            cold_ns: cold_ms.into_iter().map(|ms| ms * 1_000_000).collect(),
            warm_ns: warm_ms.iter().map(|ms| ms * 1_000_000).collect(),
            copies_per_request: 1.5,
            achieved: 119.0,
            errors: 1,
            is_valid: false,
            fell_behind: false,
        }
    }

    #[test]
    fn cold_figures_are_medians_over_starts_and_warm_ones_are_of_all() {
        let turns = [turn(1..=100, &[1, 2]), turn([7], &[3]), turn([200], &[])];
        let row = row(120, "psq", &turns);
        let of = |p50, p99, p999| Percentiles { p50_ms: p50, p99_ms: p99, p999_ms: p999 };
        assert_eq!(row.cold, of(Some(50.0), Some(99.0), Some(100.0)));
        assert_eq!(row.warm, of(Some(2.0), Some(3.0), Some(3.0)));
        assert_eq!((row.errors, row.invalid), (3, 3));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        let table = table(&[row, self::row(230, "rescue", &[turn([5], &[])])]);
        assert!(
            table.ends_with("-       -       -   1.500     119.0       1      1/1\n"),
            "{table}"
        );
    }
}
