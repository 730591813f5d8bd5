//! What clients that share servers know of each other, and the parameters of how they adapt.
//!
//! The source of most (document 002 §4.2, §4.3) leaves some of them open. What was chosen for those, and
//! how much depends on it, is printed by `cargo xtask eval papers c3`.

use alloc::format;
use alloc::string::String;

/// Parameters of the policies that adapt to feedback: rankings and rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// n: how many clients share the servers, this one included. A copy of one's own counts as that
    /// many in the queue of its server (002 §4.2.1).
    pub clients: u32,
    /// b, 1 to 8: how much a long queue is worse than a short one (002 §4.2.1).
    pub score_exponent: u32,
    /// The weight of a new sample in an average, above 0 and up to 1, where it comes alone. Open in the source.
    pub sample_weight: f64,
    /// Of samples that come closer together than this, each has its share of that weight, in ns. Open in the
    /// source.
    pub sample_window_ns: u64,
    /// After so long without news 1/e is left of what was known of a server, and the rest is what is
    /// known of all, in ns. Open in the source.
    pub stale_ns: u64,
    /// δ: the interval of rates, in ns (002 §4.3: 20 ms).
    pub interval_ns: u64,
    /// β: by so much of it a rate falls, above 0 and below 1 (002 §4.3: 0.2). Algorithm 2 multiplies *by* β,
    /// but its cubic function begins at 1 − β of the rate before the fall: see [`crate::rate`].
    pub rate_decrease: f64,
    /// s_max: by so much a rate rises at once, at most, per interval (002 §4.3: 10).
    pub rate_step: f64,
    /// For so long a cubic rate stays near the rate before its last fall, in ns (002 §4.3: 100 ms).
    pub saddle_ns: u64,
    /// The rate at which responses come is an average over so long, in ns. The source counts them in
    /// an interval, where a client that is one of hundreds sees 0 or 1.
    pub rate_window_ns: u64,
    /// The rate to begin with, per interval. Open in the source.
    pub initial_rate: f64,
    /// No rate falls below this, per interval: a server is heard of again. Open in the source.
    pub least_rate: f64,
    /// How many copies may be sent at once after a pause, at least 1. Open in the source.
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
    /// A parameter by its name, for command lines and tables of sensitivity.
    ///
    /// # Errors
    /// There is no such parameter, or it may not have this value.
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
            _ => return Err(format!("{name:?} is no parameter; use one of {NAMES}")),
        }
        new.check()?;
        *self = new;
        Ok(())
    }

    /// Checks that the parameters make sense.
    ///
    /// # Errors
    /// Names the first that does not.
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
            Some((_, name, allowed)) => Err(format!("{name} is out of range; give it {allowed}")),
            None => Ok(()),
        }
    }
}

const NAMES: &str = "clients, score-exponent, sample-weight, sample-window-ms, stale-ms, interval-ms, rate-decrease, \
rate-step, saddle-ms, rate-window-ms, initial-rate, least-rate, burst";
