//! The rate of one server: its token bucket, and how the rate adapts to responses.

use alloc::collections::VecDeque;

use crate::descriptor::{Arguments, Descriptor, Needs};
use crate::math::decay;
use crate::time::Timestamp;
use crate::tuning::Tuning;

/// The number of standard deviations of the response rate that count as noise.
const SWING: f64 = 2.0;

/// How a rate adapts at the end of a copy. Each function returns the new rate.
#[derive(Clone, Copy, Debug)]
pub enum NewRate {
    /// As in Algorithm 2, lines 3 to 11. The function returns the rate after a rise.
    Raise(fn(&Paced, Timestamp, &Tuning) -> f64),
    /// In its own way.
    Adapt(fn(&mut Paced, Timestamp, &Tuning, &Arguments) -> f64),
    /// By the number of responses in the last interval.
    Count(fn(&mut Paced, Timestamp, &Tuning, f64) -> f64),
}

impl Descriptor<NewRate> {
    /// A rate. Rates observe copies, and need timers to open servers again.
    pub const fn rate(
        forms: &'static [&'static str],
        name: &'static str,
        about: &'static str,
        builds: NewRate,
    ) -> Self {
        let needs = |_: &Arguments| Needs { copies: true, timers: true, ..Needs::NOTHING };
        Self { name, forms, about, needs, builds }
    }
}

/// The rate of one server.
#[derive(Clone, Copy, Debug)]
pub struct Paced {
    /// Copies per interval.
    pub rate: f64,
    /// The number of tokens at the time `filled`. If it is below 1, the server is closed.
    pub tokens: f64,
    /// The time of the last refill.
    pub filled: Timestamp,
    /// The average number of responses per interval, as of the time `updated`.
    pub received: f64,
    /// The time of the last response.
    pub updated: Timestamp,
    /// R₀: the rate before the last fall.
    pub saturation: f64,
    /// The time of the last fall.
    pub fell: Timestamp,
    /// The time of the last rise.
    pub rose: Timestamp,
    /// The average response time, in ns. It is 0 before the first response.
    pub response_ns: f64,
}

impl Paced {
    pub(crate) fn new(start: Timestamp, tuning: &Tuning) -> Self {
        Self {
            rate: tuning.initial_rate.max(tuning.least_rate),
            tokens: tuning.burst,
            filled: start,
            received: 0.0,
            updated: start,
            saturation: tuning.initial_rate,
            fell: start,
            rose: start,
            response_ns: 0.0,
        }
    }

    pub(crate) fn fill(&mut self, now: Timestamp, tuning: &Tuning) {
        let intervals = now.since(self.filled) as f64 / tuning.interval_ns as f64;
        self.tokens = (self.tokens + self.rate * intervals).min(tuning.burst);
        self.filled = now;
    }

    /// Decays the average of responses until now.
    pub(crate) fn fade(&mut self, now: Timestamp, tuning: &Tuning) {
        let windows = now.since(self.updated) as f64 / tuning.rate_window_ns as f64;
        self.received *= decay(windows);
        self.updated = now;
    }

    pub(crate) fn observe(&mut self, now: Timestamp, took_ns: u64, tuning: &Tuning) {
        self.fade(now, tuning);
        self.received += tuning.interval_ns as f64 / tuning.rate_window_ns as f64;
        let took = took_ns as f64;
        self.response_ns = match self.response_ns {
            0.0 => took,
            average => average + tuning.sample_weight * (took - average),
        };
    }

    /// Algorithm 2, lines 3 to 11. `raise` computes the rate after a rise.
    pub(crate) fn adapt(
        &mut self,
        now: Timestamp,
        tuning: &Tuning,
        raise: fn(&Self, Timestamp, &Tuning) -> f64,
    ) -> f64 {
        if self.rate > self.received {
            let per_window = tuning.interval_ns as f64 / tuning.rate_window_ns as f64;
            let excess = self.rate - self.received;
            if excess * excess < SWING * SWING * self.received * per_window / 2.0 {
                return self.rate;
            }
            // Responses need time to catch up with a rate that has risen.
            if now.since(self.rose) <= 2 * tuning.interval_ns {
                return self.rate;
            }
            self.saturation = self.rate;
            self.fell = now;
            return self.rate * (1.0 - tuning.rate_decrease);
        }
        let raised = raise(self, now, tuning).min(self.rate + tuning.rate_step);
        self.rose = now;
        raised
    }
}

/// The responses of a server in the last interval δ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window(VecDeque<Timestamp>);

impl Window {
    pub(crate) fn push(&mut self, now: Timestamp) {
        self.0.push_back(now);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// rrate: the number of responses in the interval δ that ends now.
    pub(crate) fn count(&mut self, now: Timestamp, tuning: &Tuning) -> f64 {
        while self.0.front().is_some_and(|&at| now.since(at) >= tuning.interval_ns) {
            self.0.pop_front();
        }
        self.0.len() as f64
    }
}
