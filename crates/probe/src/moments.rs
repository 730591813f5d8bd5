//! Means, variances and covariances of several values per request.
//!
//! Source: document 004, part 2, "Computing Variability of Service Time at Each Stage": running
//! sums, or Welford's algorithm. This module uses Welford's update for single requests and Chan's
//! for whole windows. The sums from the eBPF program are exact integers. They are centered exactly
//! before they are converted to floating-point numbers.
//!
//! Cost: one multiplication for each request and pair of values.

use serde::{Deserialize, Serialize};

/// The first two moments of a vector of values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    requests: u64,
    mean: Vec<f64>,
    /// Σ (x − mean x)(y − mean y), for the pairs (0, 0), (0, 1) … (1, 1) ….
    comoment: Vec<f64>,
}

/// Returns the number of pairs that `values` values form. Each value is also paired with itself.
#[must_use]
pub const fn pairs(values: usize) -> usize {
    values * (values + 1) / 2
}

impl Moments {
    /// Creates moments for `values` values per request, without any requests.
    #[must_use]
    pub fn new(values: usize) -> Moments {
        Moments { requests: 0, mean: vec![0.0; values], comoment: vec![0.0; pairs(values)] }
    }

    /// Creates moments from integer sums: Σx for each value, and Σxy for each pair, in the order of
    /// the pairs.
    ///
    /// # Panics
    ///
    /// If the number of products differs from the number of pairs.
    #[must_use]
    pub fn from_sums(requests: u64, sums: &[u64], products: &[u128]) -> Moments {
        assert_eq!(products.len(), pairs(sums.len()), "one product per pair of values");
        let mut of = Moments::new(sums.len());
        if requests == 0 {
            return of;
        }
        of.requests = requests;
        let n = u128::from(requests);
        of.mean.iter_mut().zip(sums).for_each(|(mean, &sum)| *mean = sum as f64 / requests as f64);
        for i in 0..sums.len() {
            for j in i..sums.len() {
                let pair = of.pair(i, j);
                let expected = u128::from(sums[i]) * u128::from(sums[j]);
                // (n·Σxy − Σx·Σy) / n. This uses floating point only if the numerator overflows the
                // integers.
                of.comoment[pair] = match products[pair].checked_mul(n) {
                    Some(seen) if seen >= expected => (seen - expected) as f64 / n as f64,
                    Some(seen) => -((expected - seen) as f64 / n as f64),
                    None => products[pair] as f64 - expected as f64 / n as f64,
                };
            }
        }
        of
    }

    /// Adds a request.
    pub fn record(&mut self, values: &[f64]) {
        debug_assert_eq!(values.len(), self.mean.len());
        self.requests += 1;
        let n = self.requests as f64;
        let before: Vec<f64> = values.iter().zip(&self.mean).map(|(x, mean)| x - mean).collect();
        self.mean.iter_mut().zip(&before).for_each(|(mean, delta)| *mean += delta / n);
        let after: Vec<f64> = values.iter().zip(&self.mean).map(|(x, mean)| x - mean).collect();
        let products = before.iter().enumerate();
        let products = products.flat_map(|(i, a)| after[i..].iter().map(move |b| a * b));
        self.comoment.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
    }

    /// Adds the requests of `other`, which must have the same number of values per request.
    pub fn merge(&mut self, other: &Moments) {
        debug_assert_eq!(other.mean.len(), self.mean.len());
        if other.requests == 0 {
            return;
        }
        let (a, b) = (self.requests as f64, other.requests as f64);
        let apart: Vec<f64> = other.mean.iter().zip(&self.mean).map(|(y, x)| y - x).collect();
        for i in 0..apart.len() {
            for j in i..apart.len() {
                let pair = self.pair(i, j);
                self.comoment[pair] += other.comoment[pair] + apart[i] * apart[j] * a * b / (a + b);
            }
        }
        self.mean.iter_mut().zip(&apart).for_each(|(mean, apart)| *mean += apart * b / (a + b));
        self.requests += other.requests;
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the number of values per request.
    #[must_use]
    pub fn values(&self) -> usize {
        self.mean.len()
    }

    /// Returns the mean of a value.
    #[must_use]
    pub fn mean(&self, value: usize) -> f64 {
        self.mean[value]
    }

    /// Returns the variance of a value over the recorded requests. The result is not an estimate
    /// for a larger population.
    #[must_use]
    pub fn variance(&self, value: usize) -> f64 {
        self.covariance(value, value).max(0.0)
    }

    /// Returns the covariance of two values.
    #[must_use]
    pub fn covariance(&self, a: usize, b: usize) -> f64 {
        match self.requests {
            0 => 0.0,
            requests => self.comoment[self.pair(a.min(b), a.max(b))] / requests as f64,
        }
    }

    /// Whether this crate could have written these moments. They must contain `values` means and
    /// all pairs, with magnitudes that sums of 64-bit integers can reach.
    pub(crate) fn is_of(&self, values: usize) -> bool {
        let most = u64::MAX as f64;
        let within = |list: &[f64], most: f64| list.iter().all(|x| x.abs() <= most);
        self.mean.len() == values
            && self.comoment.len() == pairs(values)
            && within(&self.mean, most)
            && within(&self.comoment, most * most * self.requests as f64)
    }

    /// Returns the index of a pair, where `a` must be at most `b`.
    fn pair(&self, a: usize, b: usize) -> usize {
        a * (2 * self.mean.len() + 1 - a) / 2 + (b - a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
    }

    fn same(a: &Moments, b: &Moments) -> bool {
        let each = |f: fn(&Moments, usize, usize) -> f64| {
            (0..a.values()).all(|i| (i..a.values()).all(|j| close(f(a, i, j), f(b, i, j))))
        };
        a.requests() == b.requests() && each(|of, i, _| of.mean(i)) && each(Moments::covariance)
    }

    proptest! {
        #[test]
        fn sums_records_and_merged_windows_agree(
            rows in prop::collection::vec(prop::array::uniform3(0_u32..100_000), 1..60),
            at in 0_usize..60,
        ) {
            let record = |rows: &[[u32; 3]]| {
                let mut moments = Moments::new(3);
                rows.iter().for_each(|row| moments.record(&row.map(f64::from)));
                moments
            };
            let whole = record(&rows);
            let (left, right) = rows.split_at(at.min(rows.len()));
            let mut merged = record(left);
            merged.merge(&record(right));
            prop_assert!(same(&whole, &merged));
            let mut sums = [0; 3];
            let mut products = [0; 6];
            for row in &rows {
                (0..3).for_each(|i| sums[i] += u64::from(row[i]));
                let pairs = (0..3).flat_map(|i| (i..3).map(move |j| (i, j)));
                pairs.enumerate().for_each(|(pair, (i, j))| {
                    products[pair] += u128::from(row[i]) * u128::from(row[j]);
                });
            }
            prop_assert!(same(&whole, &Moments::from_sums(rows.len() as u64, &sums, &products)));
        }
    }

    #[test]
    fn a_small_variance_of_long_durations_is_exact() {
        // Two requests take about 4 s each and differ by 2 ns, so the variance is 1 ns².
        let (a, b) = (4_000_000_000_u64, 4_000_000_002);
        let products = [u128::from(a) * u128::from(a) + u128::from(b) * u128::from(b)];
        let moments = Moments::from_sums(2, &[a + b], &products);
        assert_eq!((moments.mean(0), moments.variance(0)), (4_000_000_001.0, 1.0));
    }

    #[test]
    fn no_requests_have_no_moments() {
        let mut none = Moments::from_sums(0, &[0], &[0]);
        none.merge(&Moments::new(1));
        assert_eq!((none.requests(), none.mean(0), none.variance(0)), (0, 0.0, 0.0));
    }
}
