//! The results of rounds of turns: means, ratios, and a table.

use serde::Serialize;

use super::turn::Figures;

/// One rate, with or without a straggler.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// The rate divided by the capacity of both nodes.
    pub(crate) rate: f64,
    /// Packets per second that both primaries process without duplicates.
    pub(crate) capacity: f64,
    pub(crate) straggler: bool,
    pub(crate) single: Figures,
    pub(crate) das: Figures,
    /// The goodput of DAS divided by that of single copies: the geometric mean over the rounds.
    pub(crate) ratio: f64,
    /// The ratio minus two standard errors, and the ratio plus two standard errors. Both equal the
    /// ratio if there is only one round.
    pub(crate) ratio_low: f64,
    pub(crate) ratio_high: f64,
}

impl Row {
    /// Computes a row. A round contains the figures for single copies and for DAS.
    pub(crate) fn new(rate: f64, capacity: f64, straggler: bool, rounds: &[[Figures; 2]]) -> Self {
        let ratio = |[single, das]: &[Figures; 2]| (das.goodput / single.goodput).ln();
        let ratios: Vec<f64> = rounds.iter().map(ratio).collect();
        let (middle, half) = middle(&ratios);
        let [single, das] = [0, 1].map(|at| mean(rounds.iter().map(|round| round[at])));
        Self {
            rate,
            capacity,
            straggler,
            single,
            das,
            ratio: middle.exp(),
            ratio_low: (middle - half).exp(),
            ratio_high: (middle + half).exp(),
        }
    }
}

/// Returns the mean and twice its standard error.
fn middle(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, 2.0 * (squares / (count - 1.0).max(1.0) / count).sqrt())
}

fn mean(all: impl ExactSizeIterator<Item = Figures>) -> Figures {
    let count = all.len() as f64;
    let mut mean = Figures::default();
    for of in all {
        mean.offered += of.offered / count;
        mean.goodput += of.goodput / count;
        mean.primary_goodput += of.primary_goodput / count;
        mean.duplicates += of.duplicates / count;
        mean.duplicates_only += of.duplicates_only / count;
        mean.primary_drops += of.primary_drops / count;
        mean.duplicate_drops += of.duplicate_drops / count;
        mean.network_share += of.network_share / count;
        mean.gap_ms = mean.gap_ms.max(of.gap_ms);
    }
    mean
}

/// Formats one line per rate, first without and then with a straggler.
pub(crate) fn table(rows: &[Row]) -> String {
    let capacity = rows.first().map_or(0.0, |row| row.capacity);
    let mut text = format!("Capacity: {capacity:.0} packets/s on both nodes\n");
    for straggler in [false, true] {
        let node = if straggler { "One node is a straggler" } else { "No straggler" };
        text += &format!(
            "\n{node}; packets/s\n{:>5}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}  {}\n",
            "rate",
            "offered",
            "single",
            "das",
            "primary",
            "dup.",
            "only dup",
            "dropped",
            "network",
            "das/single"
        );
        for row in rows.iter().filter(|row| row.straggler == straggler) {
            let Row { rate, single, das, ratio, ratio_low, ratio_high, .. } = row;
            let interval = format!("{ratio:.3} ({ratio_low:.3} to {ratio_high:.3})");
            text += &format!(
                "{rate:>5.2}{:>9.0}{:>9.0}{:>9.0}{:>9.0}{:>9.0}{:>9.0}{:>9.0}{:>7.1}%  {interval}\n",
                das.offered,
                single.goodput,
                das.goodput,
                das.primary_goodput,
                das.duplicates,
                das.duplicates_only,
                das.offered - das.goodput,
                100.0 * das.network_share,
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(goodput: f64) -> Figures {
        Figures { goodput, ..Figures::default() }
    }

    #[test]
    fn rounds_are_compared_side_by_side() {
        let rounds = [[of(100.0), of(50.0)], [of(200.0), of(400.0)]];
        let row = Row::new(0.5, 1000.0, false, &rounds);
        assert!((row.ratio - 1.0).abs() < 1e-12, "{row:?}");
        // The logarithms are -ln 2 and ln 2, so their standard error is ln 2.
        assert!((row.ratio_low - 0.25).abs() < 1e-12, "{row:?}");
        assert!((row.ratio_high - 4.0).abs() < 1e-12, "{row:?}");
        assert_eq!((row.single.goodput, row.das.goodput), (150.0, 225.0));
    }

    #[test]
    fn a_table_has_both_parts() {
        let row = |straggler| Row::new(0.5, 1000.0, straggler, &[[of(100.0), of(150.0)]]);
        let text = table(&[row(false), row(true)]);
        assert_eq!(text.matches("1.500 (1.500 to 1.500)").count(), 2, "{text}");
    }
}
