//! Limits how fast a cell may send to each of its servers: token buckets whose rates adapt to the
//! response rates.
//!
//! Source: document 002 §4.2.2, Algorithm 2, and §4.4.2 for the alternatives. A rate is a number of
//! copies per interval δ. A server without a token is closed until it has one. If all servers of a
//! group are closed, its queries wait in the cell (back-pressure). Cost: O(1) per start and per
//! response, and O(log servers) when a server closes.
//!
//! Choices where the source leaves something open or contradicts itself (`literal` is the algorithm
//! as it is written):
//! - **The fall.** Algorithm 2 multiplies the rate by β = 0.2. But the root of its cubic function
//!   assumes, as in CUBIC, that the rate fell *by* the fraction β, to 1 − β of its value. Here the
//!   rate falls *by* the fraction β.
//! - **The response rate** is an average over [`Tuning::rate_window_ns`], and a response counts in
//!   its own average. If there are hundreds of clients, each one sees 0 or 1 responses in an
//!   interval. A rate that is compared with these numbers would jump up and down.
//! - **Responses** count if they may be returned to the client. A server that fails or refuses fast
//!   does not earn a higher rate, and each failure lowers a rate that is above the response rate.
//! - **Noise is not saturation.** Responses arrive at random, so their average rate varies even if
//!   a server keeps up. Its variance is r·δ/2W for a rate of r per interval δ and a window W. A
//!   rate falls if it is above the average by more than two standard deviations, and rises as soon
//!   as it is below the average.
//! - **Slack.** Because a response counts in its own average, a rate settles above the demand, by
//!   about one copy per window.

mod aimd;
mod bic;
mod cubic;
mod fast;
mod literal;

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::id::ServerId;
use crate::math::decay;
use crate::outcome::Outcome;
use crate::time::Timestamp;
use crate::tuning::Tuning;

/// How a rate adapts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateSpec {
    /// `cubic`: like TCP CUBIC. C3 uses this rate.
    Cubic,
    /// `aimd`: additive increase, multiplicative decrease.
    Aimd,
    /// `bic`: like TCP BIC.
    Bic,
    /// `fast:D`: like FAST TCP, toward a response time in ns.
    Fast(u64),
    /// `literal`: Algorithm 2 of document 002 as it is written. `c3:literal` uses this rate.
    Literal,
}

impl fmt::Display for RateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cubic => f.write_str("cubic"),
            Self::Aimd => f.write_str("aimd"),
            Self::Bic => f.write_str("bic"),
            Self::Literal => f.write_str("literal"),
            Self::Fast(ns) => write!(f, "fast:{}", crate::duration::format(*ns)),
        }
    }
}

/// The maximum rate, in copies per interval. Rates are bounded so that the times of the token
/// buckets, in whole nanoseconds, do not overflow.
const MOST: f64 = 1e9;

/// The number of standard deviations of the response rate that count as noise.
const SWING: f64 = 2.0;

/// The rate of one server.
#[derive(Clone, Copy, Debug)]
struct Paced {
    /// Copies per interval.
    rate: f64,
    /// The number of tokens at the time `filled`. If it is below 1, the server is closed.
    tokens: f64,
    filled: Timestamp,
    /// The average number of responses per interval, as of the time `updated`.
    received: f64,
    updated: Timestamp,
    /// R₀: the rate before the last fall.
    saturation: f64,
    /// The times of the last fall and of the last rise.
    fell: Timestamp,
    rose: Timestamp,
    /// The average response time, in ns. It is 0 before the first response.
    response_ns: f64,
}

/// The rates of a cell's servers.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    spec: RateSpec,
    tuning: Arc<Tuning>,
    servers: Vec<Paced>,
    /// The last responses of each server. The list is empty for rates that do not count responses.
    windows: Vec<literal::Window>,
}

impl Rates {
    pub(crate) fn new(spec: RateSpec, tuning: Tuning, servers: usize) -> Self {
        let start = Timestamp::default();
        let paced = Paced {
            rate: tuning.initial_rate.max(tuning.least_rate),
            tokens: tuning.burst,
            filled: start,
            received: 0.0,
            updated: start,
            saturation: tuning.initial_rate,
            fell: start,
            rose: start,
            response_ns: 0.0,
        };
        let counted = if spec == RateSpec::Literal { servers } else { 0 };
        Self {
            spec,
            tuning: Arc::new(tuning),
            servers: vec![paced; servers],
            windows: vec![literal::Window::default(); counted],
        }
    }

    /// The rate of a server, in copies per second.
    pub(crate) fn per_second(&self, server: ServerId) -> f64 {
        self.servers[server.index()].rate * 1e9 / self.tuning.interval_ns as f64
    }

    /// Takes a token for a copy. Returns when the next one is available, which is `now` or earlier
    /// if there already is one.
    pub(crate) fn spend(&mut self, server: ServerId, now: Timestamp) -> Timestamp {
        let paced = &mut self.servers[server.index()];
        paced.fill(now, &self.tuning);
        paced.tokens -= 1.0;
        self.next(server)
    }

    /// Returns the time at which a server has a token.
    pub(crate) fn next(&self, server: ServerId) -> Timestamp {
        let Paced { rate, tokens, filled, .. } = self.servers[server.index()];
        if tokens >= 1.0 {
            return filled;
        }
        // The time is rounded up, so that the token is available by then.
        let wait = (1.0 - tokens) / rate * self.tuning.interval_ns as f64;
        filled.after(wait as u64 + 1)
    }

    /// Handles the end of a copy, `took_ns` after it was sent.
    pub(crate) fn ended(&mut self, server: ServerId, now: Timestamp, took_ns: u64, how: Outcome) {
        let tuning = &*self.tuning;
        let paced = &mut self.servers[server.index()];
        match how {
            Outcome::Good | Outcome::Request => {
                paced.fill(now, tuning);
                paced.observe(now, took_ns, tuning);
                if let Some(window) = self.windows.get_mut(server.index()) {
                    window.push(now);
                }
            }
            Outcome::Refused | Outcome::Failed(_) => {
                paced.fill(now, tuning);
                paced.fade(now, tuning);
                if paced.rate <= paced.received && self.spec != RateSpec::Literal {
                    return;
                }
            }
            Outcome::Local | Outcome::OverLimit => return,
        }
        let rate = match self.spec {
            RateSpec::Cubic => paced.adapt(now, tuning, cubic::raise),
            RateSpec::Aimd => paced.adapt(now, tuning, aimd::raise),
            RateSpec::Bic => paced.adapt(now, tuning, bic::raise),
            RateSpec::Fast(target_ns) => fast::adapt(paced, now, tuning, target_ns),
            RateSpec::Literal => {
                literal::adapt(paced, &mut self.windows[server.index()], now, tuning)
            }
        };
        paced.rate = rate.clamp(tuning.least_rate, MOST);
    }
}

impl Paced {
    fn fill(&mut self, now: Timestamp, tuning: &Tuning) {
        let intervals = now.since(self.filled) as f64 / tuning.interval_ns as f64;
        self.tokens = (self.tokens + self.rate * intervals).min(tuning.burst);
        self.filled = now;
    }

    /// Decays the average of responses until now.
    fn fade(&mut self, now: Timestamp, tuning: &Tuning) {
        let windows = now.since(self.updated) as f64 / tuning.rate_window_ns as f64;
        self.received *= decay(windows);
        self.updated = now;
    }

    fn observe(&mut self, now: Timestamp, took_ns: u64, tuning: &Tuning) {
        self.fade(now, tuning);
        self.received += tuning.interval_ns as f64 / tuning.rate_window_ns as f64;
        let took = took_ns as f64;
        self.response_ns = match self.response_ns {
            0.0 => took,
            average => average + tuning.sample_weight * (took - average),
        };
    }

    /// Algorithm 2, lines 3 to 11. `raise` computes the rate after a rise.
    fn adapt(
        &mut self,
        now: Timestamp,
        tuning: &Tuning,
        raise: impl Fn(&Self, Timestamp, &Tuning) -> f64,
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

#[cfg(test)]
mod tests {
    use rand_core::Rng as _;

    use super::*;

    #[test]
    fn literal_rates_follow_algorithm_2_line_by_line() {
        let mut rates = Rates::new(RateSpec::Literal, Tuning::default(), 1);
        let mut respond = |ms: u64| {
            rates.ended(ServerId(0), Timestamp(ms * 1_000_000), 4_000_000, Outcome::Good);
            rates.servers[0].rate
        };
        // Line 5: the rate falls from 10 to β times that, and then to β times the result, because
        // it has not risen in between.
        assert_eq!([respond(100), respond(130)], [2.0, 0.4]);
        // Line 10: two responses within 20 ms; the rate starts again from (1 − β)·R₀ = 0.8 · 2 =
        // 1.6.
        let (first, second) = (respond(131), respond(132));
        assert!((1.6..1.65).contains(&first) && first < second, "{first} {second}");
        // Line 3: one response within 20 ms is below the rate, but a rate does not fall within 40
        // ms of a rise.
        assert_eq!(respond(160), second);
        assert_eq!(respond(181), 0.2 * second);
    }

    #[test]
    fn a_server_that_keeps_up_with_random_arrivals_is_not_held_back() {
        // A client that sends 300 copies per second gets responses at the same rate, as a Poisson
        // process.
        let (tuning, server, mut rng) = (Tuning::default(), ServerId(0), crate::rng(7));
        let mut rates = Rates::new(RateSpec::Cubic, tuning, 1);
        let (mut now, mut low) = (Timestamp::default(), 0);
        for response in 0..20_000 {
            // Draws an exponentially distributed gap, in half-lives: the number of leading zero
            // bits, plus a fraction.
            let bits = rng.next_u64();
            let halves = f64::from(bits.leading_zeros()) + (bits & 0xffff) as f64 / 65_536.0;
            now = now.after((halves * core::f64::consts::LN_2 / 300.0 * 1e9 / 1.04) as u64);
            rates.ended(server, now, 3_000_000, Outcome::Good);
            low += u32::from(response > 1_000 && rates.per_second(server) < 300.0);
        }
        // `low` is 8,706 if every shortfall counts as saturation, and 5,405 if every shortfall
        // beyond one standard deviation does.
        assert!(low < 4_000, "{low}");
    }
}
