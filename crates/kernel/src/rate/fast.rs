//! FAST: the rate that makes responses take a target time.
//!
//! Source: document 002 §4.4.2; PARDA (Gulati et al., FAST 2009), eq. 4, with rates in place of windows.
//! Cost: O(1). Not demand-clocked: an unused rate rises as long as responses are fast.
//! Settled: half of the way per interval, and one copy per interval on top.

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
