//! Algorithm 2 to the letter, as a reference for the choices that the other rates make.
//!
//! On each response, the rate is compared with the number of responses in the last interval δ,
//! including this one. If the rate is higher, and the last rise was more than a hysteresis of 2δ
//! ago, the rate falls *to* β times its value. If the rate is lower, it rises as in CUBIC. There is
//! no noise band and no average.
//!
//! Source: document 002 §4.2.2, Algorithm 2, lines 3 to 11; parameters from §4.3. Cost: O(1) per
//! response, amortized, and 8 bytes per response in the last δ. Deviations: a rate has a floor
//! ([`Tuning::least_rate`]), because a rate of 0 would never rise again. A copy that failed counts
//! as a completion, but not as a response. The source does not say in which interval it counts
//! responses. If there are hundreds of clients, the last complete interval usually contains no
//! response, so rates would stay at the floor. Counting in the interval δ that ends now is the
//! reading that favors the algorithm.

use alloc::collections::VecDeque;

use super::{Paced, cubic};
use crate::time::Timestamp;
use crate::tuning::Tuning;

/// The responses of a server in the last interval δ.
#[derive(Clone, Debug, Default)]
pub(super) struct Window(VecDeque<Timestamp>);

impl Window {
    pub(super) fn push(&mut self, now: Timestamp) {
        self.0.push_back(now);
    }

    /// rrate: the number of responses in the interval δ that ends now.
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
