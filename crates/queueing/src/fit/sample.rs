//! Samples for fitting: validated and sorted, with their moments.

use super::FitError;

/// The minimum number of samples for a fit.
pub(super) const MIN_SAMPLES: usize = 10;

/// The range of samples whose third moments neither overflow nor underflow.
pub(super) const SMALLEST: f64 = 1e-90;
pub(super) const LARGEST: f64 = 1e90;

/// Measured times, all in one unit. Creating a `Sample` takes O(n log n) time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// Validates samples, in any order. Each sample must be from 1e-90 to 1e90.
    pub(super) fn new(values: &[f64]) -> Result<Self, FitError> {
        for (index, &value) in values.iter().enumerate() {
            if !(value.is_finite() && value > 0.0) {
                return Err(FitError::BadSample { index, value });
            }
            if !(SMALLEST..=LARGEST).contains(&value) {
                return Err(FitError::BadUnit { index, value });
            }
        }
        if values.len() < MIN_SAMPLES {
            return Err(FitError::TooFew(values.len()));
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Ok(Self { sorted })
    }

    /// Returns the samples in ascending order.
    pub(super) fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// Returns the mean, in the unit of the samples.
    pub(super) fn mean(&self) -> f64 {
        self.average(|x| x)
    }

    /// Returns the squared coefficient of variation (with the variance divided by n), 0 or more.
    pub(super) fn scv(&self) -> f64 {
        let mean = self.mean();
        self.average(|x| (x - mean).powi(2)) / mean / mean
    }

    /// Returns the mean of the logarithms.
    pub(super) fn mean_ln(&self) -> f64 {
        self.average(f64::ln)
    }

    /// Returns the mean of a function over the samples.
    pub(super) fn average(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.sorted.iter().map(|&x| of(x)).sum::<f64>() / self.sorted.len() as f64
    }

    pub(super) fn least(&self) -> f64 {
        self.sorted.first().copied().unwrap_or_default()
    }

    pub(super) fn largest(&self) -> f64 {
        self.sorted.last().copied().unwrap_or_default()
    }

    /// Fails if all samples are equal.
    pub(super) fn spread(&self) -> Result<(), FitError> {
        if self.least() < self.largest() { Ok(()) } else { Err(FitError::NoSpread(self.least())) }
    }

    /// Returns at most `count` (1 or more) of the samples, evenly spread over their ranks.
    pub(super) fn thinned(&self, count: usize) -> Vec<f64> {
        let all = self.sorted.len();
        if all <= count {
            return self.sorted.clone();
        }
        (0..count).map(|i| self.sorted[(2 * i + 1) * all / (2 * count)]).collect()
    }
}
