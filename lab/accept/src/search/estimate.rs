//! Percentiles of samples, with their confidence intervals.

use std::fmt;

use curtail_stats::student_quantile;

/// A figure, and the half-width of its 95 % confidence interval. The half-width is `None` if it is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) half: Option<f64>,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}", self.value)?;
        self.half.map_or(Ok(()), |half| write!(f, " ±{half:.2}"))
    }
}

/// The minimum number of samples above a percentile. With fewer samples, the value of the
/// percentile is due to chance.
const ABOVE_LEAST: f64 = 10.0;

/// Returns a percentile of the samples of all repetitions, in ms.
///
/// The confidence interval is derived from the share of samples above the percentile, and from how
/// much this share differs between repetitions (after Woodruff 1952). Long samples that are
/// concentrated in a few repetitions thus widen the interval, even if most repetitions contain no
/// such samples. A single repetition yields no interval.
pub(super) fn pooled(repetitions: &[&[u64]], percentile: f64) -> Option<Estimate> {
    let all = repetitions.concat();
    let value = of(&all, percentile)?;
    let degrees = repetitions.len() as f64 - 1.0;
    let half = (degrees > 0.0).then(|| {
        let off =
            100.0 * student_quantile(degrees) * standard_error(repetitions, percentile, value);
        let at = |percentile: f64| quantile(&all, percentile.clamp(0.0, 100.0));
        (at(percentile + off) - at(percentile - off)) / 2.0
    });
    Some(Estimate { value, half })
}

/// Returns the standard error of the share of samples above this value, in ms.
fn standard_error(repetitions: &[&[u64]], percentile: f64, value_ms: f64) -> f64 {
    let share = 1.0 - percentile / 100.0;
    let off = |samples: &&[u64]| {
        let above = samples.iter().filter(|&&ns| ns as f64 / 1e6 > value_ms).count();
        above as f64 - share * samples.len() as f64
    };
    let samples = repetitions.iter().map(|samples| samples.len()).sum::<usize>() as f64;
    let count = repetitions.len() as f64;
    let squares: f64 = repetitions.iter().map(|samples| off(samples).powi(2)).sum();
    (squares * count / (count - 1.0)).sqrt() / samples
}

/// Returns a percentile, in ms, of samples in ns. It is the lowest value that this percentage of
/// the samples does not exceed. `None` if too few samples are above it.
pub(super) fn of(samples: &[u64], percentile: f64) -> Option<f64> {
    let above = samples.len() as f64 * (1.0 - percentile / 100.0);
    // The tolerance allows for rounding: of 1,000 samples, 9.999… are above the 99th percentile.
    if above + 1e-9 < ABOVE_LEAST {
        return None;
    }
    Some(quantile(samples, percentile))
}

/// Like [`of`], but one sample is enough.
fn quantile(samples: &[u64], percentile: f64) -> f64 {
    let mut samples = samples.to_vec();
    let rank = (samples.len() as f64 * percentile / 100.0).ceil() as usize;
    let (_, value, _) = samples.select_nth_unstable(rank.saturating_sub(1));
    *value as f64 / 1e6
}

/// Returns the mean, in ms, of samples that are given in ns.
pub(super) fn mean_ms(samples: &[u64]) -> f64 {
    samples.iter().sum::<u64>() as f64 / 1e6 / samples.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns samples of 1 to 1,000 ms.
    fn thousand() -> Vec<u64> {
        (1..=1_000).rev().map(|ms| ms * 1_000_000).collect()
    }

    #[test]
    fn a_percentile_needs_ten_samples_above_it() {
        assert_eq!(of(&thousand(), 50.0), Some(500.0));
        assert_eq!(of(&thousand(), 99.0), Some(990.0));
        assert_eq!(of(&thousand()[1..], 99.0), None);
        assert_eq!(of(&[], 50.0), None);
    }

    #[test]
    fn differences_between_repetitions_set_the_interval() {
        let first = thousand();
        let second: Vec<u64> = first.iter().map(|ns| ns + 2_000_000).collect();
        let one = pooled(&[&first], 99.0).expect("enough");
        assert_eq!(one, Estimate { value: 990.0, half: None });
        // Nine of the first thousand samples and eleven of the second are above the percentile: the
        // standard error is 10⁻³, and t is 12.706.
        let two = pooled(&[&first, &second], 99.0).expect("enough");
        assert_eq!(two, Estimate { value: 991.0, half: Some((1_002.0 - 979.0) / 2.0) });
        let equal = pooled(&[&first, &first, &first], 50.0).expect("enough");
        assert_eq!(equal.half, Some(0.0));
    }

    #[test]
    fn an_unusual_repetition_widens_the_interval() {
        let calm = vec![10_000_000; 1_000];
        let mut busy = calm.clone();
        (busy.iter_mut().zip(0..200)).for_each(|(ns, more)| *ns = 90_000_000 + 1_000_000 * more);
        let mut repetitions = vec![&calm[..]; 9];
        repetitions.push(&busy);
        let Estimate { value, half } = pooled(&repetitions, 99.0).expect("enough");
        let (longest, calm) = (289.0, 10.0);
        assert_eq!((value, half), (189.0, Some((longest - calm) / 2.0)));
    }

    #[test]
    fn means_are_in_ms() {
        assert!((mean_ms(&[1_000_000, 2_000_000]) - 1.5).abs() < 1e-12);
    }
}
