//! Generates the arrival times of a process at a given rate.

use rand_pcg::Pcg64Mcg;

use super::Arrivals;
use crate::seed::{self, unit};

/// An upper bound on arrival times. It is low enough that the end time of a copy that starts then
/// is still less than the value that means "never".
const LAST_NS: u64 = 1 << 63;

/// A generator of arrival times at a given rate.
#[derive(Clone, Debug)]
pub struct Clock {
    process: Arrivals,
    rng: Pcg64Mcg,
    gap_ns: f64,
    now_ns: f64,
    /// The state of a modulated process: whether a burst is in progress, and when the current phase
    /// ends. The state of a trace: the index of the next gap.
    burst: bool,
    until_ns: f64,
    at: usize,
}

impl Clock {
    /// Creates a clock with a mean gap of `gap_ns`.
    pub fn new(process: &Arrivals, gap_ns: f64, seed: u64) -> Self {
        let mut rng = seed::rng(seed);
        // A modulated process is stationary from the start.
        let burst = matches!(process, Arrivals::Modulated { share, .. } if unit(&mut rng) < *share);
        let mut clock = Self {
            process: process.clone(),
            rng,
            gap_ns,
            now_ns: 0.0,
            burst,
            until_ns: 0.0,
            at: 0,
        };
        clock.until_ns = clock.stay();
        clock
    }

    /// Changes the mean gap of later arrivals.
    pub fn set_gap(&mut self, gap_ns: f64) {
        self.gap_ns = gap_ns;
    }

    /// Fills `times` with the next arrivals, in ns.
    pub fn fill(&mut self, times: &mut [u64]) {
        for time in times {
            *time = (self.next_ns() as u64).min(LAST_NS);
        }
    }

    /// Returns the time of the next arrival, in ns. A double represents every nanosecond exactly
    /// for 104 days.
    pub fn next_ns(&mut self) -> f64 {
        self.now_ns += match self.process {
            Arrivals::Poisson => self.gap_ns * exponential(&mut self.rng),
            Arrivals::Constant => self.gap_ns,
            Arrivals::Modulated { factor, share, .. } => self.modulated(factor, share),
            Arrivals::Trace { ref gaps, .. } => {
                let gap = self.gap_ns * gaps[self.at];
                self.at = (self.at + 1) % gaps.len();
                gap
            }
        };
        self.now_ns
    }

    /// Returns the gap to the next arrival of a modulated process.
    fn modulated(&mut self, factor: Option<f64>, share: f64) -> f64 {
        // The relative rates inside and outside bursts. Their average over time is 1.
        let (inside, outside) = match factor {
            Some(factor) => {
                let outside = 1.0 / (share * factor + 1.0 - share);
                (factor * outside, outside)
            }
            None => (1.0 / share, 0.0),
        };
        let mut work = exponential(&mut self.rng);
        let mut at = self.now_ns;
        loop {
            let rate = if self.burst { inside } else { outside } / self.gap_ns;
            let room = (self.until_ns - at) * rate;
            if work < room {
                return at + work / rate - self.now_ns;
            }
            work -= room;
            at = self.until_ns;
            self.burst = !self.burst;
            self.until_ns = at + self.stay();
        }
    }

    fn stay(&mut self) -> f64 {
        let Arrivals::Modulated { share, length_ns, .. } = self.process else { return 0.0 };
        let mean = if self.burst { length_ns } else { length_ns * (1.0 - share) / share };
        mean * exponential(&mut self.rng)
    }
}

fn exponential(rng: &mut Pcg64Mcg) -> f64 {
    rand_distr::Distribution::<f64>::sample(&rand_distr::Exp1, rng)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP_NS: f64 = 1e3;

    /// Counts the arrivals per window of 100 mean gaps.
    fn counts(process: &str, windows: usize) -> Vec<f64> {
        let process = Arrivals::parse(process, 1e6).expect(process);
        let mut clock = Clock::new(&process, GAP_NS, 7);
        let mut counts = vec![0.0; windows];
        let mut times = [0; 64];
        let mut before = 0;
        loop {
            clock.fill(&mut times);
            for &time in &times {
                assert!(time >= before, "time goes on");
                before = time;
                match counts.get_mut(time as usize / (100 * GAP_NS as usize)) {
                    Some(count) => *count += 1.0,
                    None => return counts,
                }
            }
        }
    }

    fn mean(counts: &[f64]) -> f64 {
        counts.iter().sum::<f64>() / counts.len() as f64
    }

    /// The index of dispersion: the variance of the counts divided by their mean. It is 1 for a
    /// Poisson process.
    fn dispersion(counts: &[f64]) -> f64 {
        let mean = mean(counts);
        counts.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / counts.len() as f64 / mean
    }

    #[test]
    fn poisson_arrivals_have_a_dispersion_of_one() {
        // The standard error of the index is √(2/n) = 0.01. With a bound of six standard errors,
        // the test fails by chance for one seed in 10⁸.
        let counts = counts("poisson", 20_000);
        assert!((mean(&counts) - 100.0).abs() < 6.0 * 10.0 / 20_000_f64.sqrt());
        assert!((dispersion(&counts) - 1.0).abs() < 0.06, "{}", dispersion(&counts));
    }

    #[test]
    fn constant_arrivals_have_none() {
        let counts = counts("constant", 1_000);
        assert!(counts[1..].iter().all(|&count| count == 100.0), "the first gap comes before all");
    }

    /// The rate is `a` in bursts (mean length 1/α) and `b` outside (mean length 1/β). Its average
    /// over time is 1. Bursts take up a fraction p of the time. The covariance of the rate over a
    /// lag t is (a−b)²·p·(1−p)·e^−(α+β)t, so over long windows the index is 1 +
    /// 2·(a−b)²·p·(1−p)/(α+β).
    fn long_run_dispersion(inside: f64, outside: f64, share: f64, length: f64) -> f64 {
        let (out, back) = (1.0 / length, share / (1.0 - share) / length);
        1.0 + 2.0 * (inside - outside).powi(2) * share * (1.0 - share) / (out + back)
    }

    #[test]
    fn bursts_keep_the_rate_and_raise_the_dispersion() {
        // Bursts that last one mean gap are short compared with windows of 100 gaps, so the limit
        // is a good approximation. The exact index is smaller by a fraction of about 1/(100·(α+β)),
        // which is below 1 %. The relative standard error is about √(2/n) for the index of n
        // windows, and √(index/(100·n)) for the mean. Each bound is 1 % plus six standard errors.
        // With a bound of six standard errors, the test fails by chance for one seed in 10⁸.
        for (process, inside, outside, share) in
            [("on-off:0.2:1us", 5.0, 0.0, 0.2), ("mmpp:10:0.5:1us", 20.0 / 11.0, 2.0 / 11.0, 0.5)]
        {
            let counts = counts(process, 40_000);
            let index = long_run_dispersion(inside, outside, share, 1.0);
            assert!(index > 1.5, "{process} is burstier than Poisson");
            let off = mean(&counts) / 100.0 - 1.0;
            assert!(off.abs() < 6.0 * (index / 4e6).sqrt(), "{process}: the mean is off by {off}");
            let seen = dispersion(&counts);
            assert!((seen / index - 1.0).abs() < 0.053, "{process}: {seen} for {index}");
        }
    }

    #[test]
    fn a_trace_repeats_at_the_rate_of_the_experiment() {
        let gaps = vec![1.0, 0.5, 1.5].into();
        let mut clock =
            Clock::new(&Arrivals::Trace { path: "t".into(), gaps, mean_ns: None }, GAP_NS, 7);
        let mut times = [0; 6];
        clock.fill(&mut times);
        assert_eq!(times, [1_000, 1_500, 3_000, 4_000, 4_500, 6_000]);
    }
}
