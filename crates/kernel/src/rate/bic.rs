//! BIC: halfway to the rate before the last fall, again and again; beyond it ever faster.
//!
//! Source: document 002 §4.4.2 names an adaptation of TCP BIC. Cost: O(1).
//! Settled: one step per interval, of which each response takes its share, as in AIMD. A step is at most
//! one copy per interval below R₀, and no less than a hundredth of that; beyond R₀ it is as long as
//! the way that the rate has come since.

use super::Paced;
use crate::time::Timestamp;
use crate::tuning::Tuning;

const LEAST: f64 = 0.01;

pub(super) fn raise(paced: &Paced, _: Timestamp, tuning: &Tuning) -> f64 {
    let to_go = paced.saturation - paced.rate;
    let step = if to_go > 0.0 {
        (to_go / 2.0).clamp(LEAST, 1.0)
    } else {
        (-to_go).clamp(LEAST, tuning.rate_step)
    };
    paced.rate + step / paced.rate.max(1.0)
}
