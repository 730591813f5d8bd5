//! AIMD: additive increase, multiplicative decrease.
//!
//! Source: document 002 §4.4.2, which only names it; the step sizes are TCP's. Cost: O(1). Choice:
//! in each interval, the rate rises by about one copy per interval. Each response contributes its
//! share to this rise.

use super::Paced;
use crate::time::Timestamp;
use crate::tuning::Tuning;

pub(super) fn raise(paced: &Paced, _: Timestamp, _: &Tuning) -> f64 {
    paced.rate + 1.0 / paced.rate.max(1.0)
}
