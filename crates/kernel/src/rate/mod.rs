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

mod cubic;
mod paced;

pub use cubic::{CUBIC, LITERAL};
pub use paced::{NewRate, Paced};

use alloc::vec;
use alloc::vec::Vec;

use self::paced::Window;
use crate::descriptor::{Descriptor, Part};
use crate::id::ServerId;
use crate::outcome::Outcome;
use crate::research;
use crate::time::Timestamp;
use crate::tuning::Tuning;

/// Every rate.
pub static RATES: &[&Descriptor<NewRate>] =
    &[&CUBIC, &research::AIMD, &research::BIC, &LITERAL, &research::FAST];

/// The maximum rate, in copies per interval. Rates are bounded so that the times of the token
/// buckets, in whole nanoseconds, do not overflow.
const MOST: f64 = 1e9;

/// The rates of a cell's servers.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    how: Part<NewRate>,
    tuning: Tuning,
    servers: Vec<Paced>,
    /// The last responses of each server. The list is empty for rates that do not count responses.
    windows: Vec<Window>,
}

impl Rates {
    pub(crate) fn new(how: Part<NewRate>, tuning: Tuning, servers: usize) -> Self {
        let paced = Paced::new(Timestamp::default(), &tuning);
        let counted = if matches!(how.of.builds, NewRate::Count(_)) { servers } else { 0 };
        Self {
            how,
            tuning,
            servers: vec![paced; servers],
            windows: vec![Window::default(); counted],
        }
    }

    /// Restarts the rate of a server that has just joined.
    pub(crate) fn restart(&mut self, server: ServerId, now: Timestamp) {
        self.servers[server.index()] = Paced::new(now, &self.tuning);
        if let Some(window) = self.windows.get_mut(server.index()) {
            window.clear();
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
        let tuning = &self.tuning;
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
                if paced.rate <= paced.received && self.windows.is_empty() {
                    return;
                }
            }
            Outcome::Local | Outcome::OverLimit => return,
        }
        let rate = match self.how.of.builds {
            NewRate::Raise(raise) => paced.adapt(now, tuning, raise),
            NewRate::Adapt(adapt) => adapt(paced, now, tuning, &self.how.arguments),
            NewRate::Count(adapt) => {
                let received = self.windows[server.index()].count(now, tuning);
                adapt(paced, now, tuning, received)
            }
        };
        paced.rate = rate.clamp(tuning.least_rate, MOST);
    }
}

#[cfg(test)]
mod tests {
    use rand_core::Rng as _;

    use super::*;
    use crate::descriptor::Arguments;

    #[test]
    fn literal_rates_follow_algorithm_2_line_by_line() {
        let mut rates = Rates::new(LITERAL.with(Arguments::NONE), Tuning::default(), 1);
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
        let mut rates = Rates::new(CUBIC.with(Arguments::NONE), tuning, 1);
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
