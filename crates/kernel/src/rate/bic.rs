//! BIC: repeatedly halves the distance to the rate before the last fall, and then rises faster and
//! faster.
//!
//! Source: document 002 §4.4.2, which names an adaptation of TCP BIC. Cost: O(1). Choice: the rate
//! takes one step per interval, to which each response contributes its share, as in AIMD. Below R₀,
//! a step is at most one copy per interval and at least a hundredth of that. Beyond R₀, a step is
//! as large as the distance from R₀.

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
