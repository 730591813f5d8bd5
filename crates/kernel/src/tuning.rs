//! Parameters of the policies that adapt to feedback.
//!
//! The source of most parameters (document 002 §4.2, §4.3) does not specify all of them. `cargo
//! xtask eval papers c3` prints the values that we chose for the others, and how much the results
//! depend on them.

use alloc::format;
use alloc::string::String;

/// Parameters of the policies that adapt to feedback: rankings and rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// n: number of clients that share the servers, including this one. Each copy that this client
    /// has outstanding counts as n copies in the queue of its server (002 §4.2.1).
    pub clients: u32,
    /// b, 1 to 8: exponent of the queue length in the score of a server (002 §4.2.1).
    pub score_exponent: u32,
    /// Weight of a new sample in an average, above 0 and at most 1, if no other sample is near it.
    /// The source does not specify it.
    pub sample_weight: f64,
    /// If the time between two samples is shorter than this, in ns, the weight of the second one is
    /// reduced in proportion. The source does not specify it.
    pub sample_window_ns: u64,
    /// Age, in ns, at which a server's own average and the average of all servers have equal
    /// weights in its estimate. The source does not specify it.
    pub stale_ns: u64,
    /// δ: the interval to which rates refer, in ns (002 §4.3: 20 ms).
    pub interval_ns: u64,
    /// β: the fraction by which a rate falls, above 0 and below 1 (002 §4.3: 0.2). Algorithm 2
    /// multiplies *by* β, but its cubic function starts from 1 − β of the rate before the fall: see
    /// [`crate::rate`].
    pub rate_decrease: f64,
    /// s_max: the maximum rise of a rate in one step, in copies per interval (002 §4.3: 10).
    pub rate_step: f64,
    /// How long a cubic rate stays near the rate before its last fall, in ns (002 §4.3: 100 ms).
    pub saddle_ns: u64,
    /// Averaging window of the response rate, in ns. The source counts the responses in one
    /// interval, but with hundreds of clients, each gets at most one response per interval.
    pub rate_window_ns: u64,
    /// Initial rate, in copies per interval. The source does not specify it.
    pub initial_rate: f64,
    /// Lower bound of a rate, in copies per interval, so that every server still gets copies now
    /// and then. The source does not specify it.
    pub least_rate: f64,
    /// Number of copies that may be sent in one burst after a pause, at least 1. The source does
    /// not specify it.
    pub burst: f64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            clients: 1,
            score_exponent: 3,
            sample_weight: 0.9,
            sample_window_ns: 40_000_000,
            stale_ns: 1_000_000_000,
            interval_ns: 20_000_000,
            rate_decrease: 0.2,
            rate_step: 10.0,
            saddle_ns: 100_000_000,
            rate_window_ns: 40_000_000,
            initial_rate: 10.0,
            least_rate: 0.1,
            burst: 10.0,
        }
    }
}

impl Tuning {
    /// Sets a parameter by its name, for command lines and sensitivity tables.
    ///
    /// # Errors
    /// The parameter does not exist, or the value is out of its range.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), String> {
        let mut new = *self;
        let ms = |value: f64| (value * 1e6) as u64;
        match name {
            "clients" => new.clients = value as u32,
            "score-exponent" => new.score_exponent = value as u32,
            "sample-weight" => new.sample_weight = value,
            "sample-window-ms" => new.sample_window_ns = ms(value),
            "stale-ms" => new.stale_ns = ms(value),
            "interval-ms" => new.interval_ns = ms(value),
            "rate-decrease" => new.rate_decrease = value,
            "rate-step" => new.rate_step = value,
            "saddle-ms" => new.saddle_ns = ms(value),
            "rate-window-ms" => new.rate_window_ns = ms(value),
            "initial-rate" => new.initial_rate = value,
            "least-rate" => new.least_rate = value,
            "burst" => new.burst = value,
            _ => return Err(format!("{name:?} is not a parameter; use one of {NAMES}")),
        }
        new.check()?;
        *self = new;
        Ok(())
    }

    /// Checks that every parameter is in its range.
    ///
    /// # Errors
    /// A parameter is out of range. The message names the first such parameter.
    pub fn check(&self) -> Result<(), String> {
        let times = 1..=3_600_000_000_000;
        let rates = 1e-3..=1e6;
        let wrong = [
            (!(1..=1_000_000).contains(&self.clients), "clients", "1 to 1000000"),
            (!(1..=8).contains(&self.score_exponent), "score-exponent", "1 to 8"),
            (!(1e-3..=1.0).contains(&self.sample_weight), "sample-weight", "0.001 to 1"),
            (!times.contains(&self.stale_ns), "stale-ms", "1e-6 to 3.6e6"),
            (!times.contains(&self.interval_ns), "interval-ms", "1e-6 to 3.6e6"),
            (!(0.01..=0.99).contains(&self.rate_decrease), "rate-decrease", "0.01 to 0.99"),
            (!rates.contains(&self.rate_step), "rate-step", "0.001 to 1e6"),
            (!times.contains(&self.saddle_ns), "saddle-ms", "1e-6 to 3.6e6"),
            (!times.contains(&self.rate_window_ns), "rate-window-ms", "1e-6 to 3.6e6"),
            (!rates.contains(&self.initial_rate), "initial-rate", "0.001 to 1e6"),
            (!rates.contains(&self.least_rate), "least-rate", "0.001 to 1e6"),
            (!(1.0..=1e6).contains(&self.burst), "burst", "1 to 1e6"),
        ];
        match wrong.iter().find(|(is_wrong, ..)| *is_wrong) {
            Some((_, name, allowed)) => Err(format!("{name} is out of range; use {allowed}")),
            None => Ok(()),
        }
    }
}

const NAMES: &str = "clients, score-exponent, sample-weight, sample-window-ms, stale-ms, interval-ms, rate-decrease, \
rate-step, saddle-ms, rate-window-ms, initial-rate, least-rate, burst";
