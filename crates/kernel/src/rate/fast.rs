//! FAST: seeks the rate at which responses take a target time.
//!
//! Source: document 002 §4.4.2; PARDA (Gulati et al., FAST 2009), eq. 4, with rates instead of
//! windows. Cost: O(1). The rate does not depend on demand: even an unused rate rises while
//! responses are fast. Choice: once per interval, the rate moves halfway to its target, which
//! includes one extra copy per interval.

use super::Paced;
use crate::time::Timestamp;
use crate::tuning::Tuning;

pub(super) fn adapt(paced: &mut Paced, now: Timestamp, tuning: &Tuning, target_ns: u64) -> f64 {
    if now.since(paced.rose) < tuning.interval_ns {
        return paced.rate;
    }
    paced.rose = now;
    let ratio = target_ns as f64 / paced.response_ns.max(1.0);
    let wanted = (paced.rate * ratio + 1.0).min(paced.rate + tuning.rate_step);
    f64::midpoint(paced.rate, wanted)
}
