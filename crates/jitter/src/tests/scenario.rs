//! Simulated executions of a leaf on a machine, with known hiccups.

use curtail_dist::seed;
use rand_distr::{Bernoulli, Distribution, Exp, LogNormal, Uniform};

use crate::{Executions, Floor};

/// The parameters of a simulation. Times are in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) queries: usize,
    pub(super) executions: usize,
    pub(super) mean_p: f64,
    pub(super) probability: f64,
    pub(super) duration: f64,
    /// The coefficient of variation of the duration. The duration is constant for 0, exponential
    /// for 1, and log-normal for all other values.
    pub(super) variation: f64,
    /// The probability of a pause of 1 to 4 ms.
    pub(super) pauses: f64,
    /// The number of consecutive executions with a hiccup.
    pub(super) cluster: u32,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            queries: 200,
            executions: 200,
            mean_p: 10.0,
            probability: 0.0,
            duration: 0.0,
            variation: 0.0,
            pauses: 0.005,
            cluster: 1,
        }
    }
}

/// Parses a distribution of times in milliseconds. Its samples are converted to nanoseconds.
pub(super) fn spec(text: &str) -> curtail_dist::Distribution {
    let spec: curtail_dist::Spec = text.parse().expect("a distribution");
    spec.resolve(1e6).expect("a distribution")
}

/// Returns the log-normal distribution with this mean and coefficient of variation.
pub(super) fn lognormal(mean: f64, variation: f64) -> LogNormal<f64> {
    let square = variation.powi(2).ln_1p();
    LogNormal::new(mean.ln() - 0.5 * square, square.sqrt()).expect("a distribution")
}

impl Scenario {
    pub(super) fn run(&self, number: u64) -> Executions {
        let mut rng = seed::rng(seed::stream(number, &[b"jitter", b"world"]));
        let p = Exp::new(1.0 / self.mean_p).expect("a rate");
        let own: Vec<f64> = (0..self.queries).map(|_| p.sample(&mut rng)).collect();
        let body = LogNormal::new(0.06_f64.ln(), 0.7).expect("a distribution");
        let starts = self.probability / f64::from(self.cluster);
        let is_hiccup = Bernoulli::new(starts).expect("a probability");
        let mut left = 0;
        let is_pause = Bernoulli::new(self.pauses).expect("a probability");
        let pause = Uniform::new(1.0, 4.0).expect("a range");
        let pick = Uniform::new(0, self.queries).expect("queries");
        let mut made = Executions::new(vec!["all"; self.queries]);
        for _ in 0..self.executions {
            // Each round executes each query once, starting at a random query.
            let first = pick.sample(&mut rng);
            for at in 0..self.queries {
                let query = (first + at) % self.queries;
                let mut time = own[query] + body.sample(&mut rng);
                if is_pause.sample(&mut rng) {
                    time += pause.sample(&mut rng);
                }
                if is_hiccup.sample(&mut rng) {
                    left += self.cluster;
                }
                if left > 0 {
                    left -= 1;
                    time += match self.variation {
                        0.0 => self.duration,
                        1.0 => Exp::new(1.0 / self.duration).expect("a rate").sample(&mut rng),
                        cv => lognormal(self.duration, cv).sample(&mut rng),
                    };
                }
                made.push(query, (time * 1e6) as u64);
            }
        }
        made
    }

    /// Simulates a loop that reads the clock for `seconds` on the same machine.
    pub(super) fn floor(&self, executions: &Executions, seconds: f64, number: u64) -> Floor {
        let mut rng = seed::rng(seed::stream(number, &[b"jitter", b"floor"]));
        let mean_p: f64 = (0..self.queries).filter_map(|query| executions.p_ns(query)).sum::<u64>()
            as f64
            / self.queries as f64;
        let pause = Uniform::new(1e6, 4e6).expect("a range");
        let gap = Exp::new(self.pauses.max(1e-9) / mean_p).expect("a rate");
        let (mut ran, mut gaps, mut paused) = (0.0, Vec::new(), 0);
        loop {
            ran += gap.sample(&mut rng);
            if ran > seconds * 1e9 {
                break;
            }
            let length = pause.sample(&mut rng) as u64;
            paused += length;
            gaps.push((length, 1));
        }
        Floor::new((seconds * 1e9) as u64 + paused, &gaps).expect("some time")
    }
}
