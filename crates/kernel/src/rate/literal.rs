//! Algorithm 2 to the letter: the yardstick of what the other rates settle differently.
//!
//! A response compares the rate with the number of responses of the last interval δ, its own included.
//! Above it, and later than a hysteresis of 2δ after the last rise, the rate falls *to* β of itself; below
//! it, the rate rises by CUBIC. There is no noise band and no average.
//!
//! Source: document 002 §4.2.2, Algorithm 2, lines 3 to 11; parameters of §4.3. Cost: O(1) per response,
//! amortized, and 8 bytes per response of the last δ.
//! Deviations: a rate has a floor ([`Tuning::least_rate`]), because one of 0 would never rise again; a copy
//! that failed counts as a completion, but not as a response. The source leaves open which interval it
//! counts in. The last whole one is 0 for most responses of a client that is one of hundreds, so rates
//! would stay at the floor; the δ that ends now is the reading that is kinder to it.

use alloc::collections::VecDeque;

use super::{Paced, cubic};
use crate::time::Timestamp;
use crate::tuning::Tuning;

/// The responses of a server in the last δ.
#[derive(Clone, Debug, Default)]
pub(super) struct Window(VecDeque<Timestamp>);

impl Window {
    pub(super) fn push(&mut self, now: Timestamp) {
        self.0.push_back(now);
    }

    /// rrate: the number of responses in the δ that ends now.
    fn count(&mut self, now: Timestamp, tuning: &Tuning) -> f64 {
        while self.0.front().is_some_and(|&at| now.since(at) >= tuning.interval_ns) {
            self.0.pop_front();
        }
        self.0.len() as f64
    }
}

pub(super) fn adapt(
    paced: &mut Paced,
    window: &mut Window,
    now: Timestamp,
    tuning: &Tuning,
) -> f64 {
    let received = window.count(now, tuning);
    if paced.rate > received && now.since(paced.rose) > 2 * tuning.interval_ns {
        paced.saturation = paced.rate;
        paced.fell = now;
        return paced.rate * tuning.rate_decrease;
    }
    if paced.rate < received {
        paced.rose = now;
        return cubic::raise(paced, now, tuning).min(paced.rate + tuning.rate_step);
    }
    paced.rate
}
