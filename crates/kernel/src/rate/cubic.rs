//! CUBIC: rises steeply far below the rate before the last fall, slowly near it, and steeply again
//! beyond it.
//!
//! Source: document 002 §4.2.2 and Algorithm 2, lines 8 to 11. Cost: O(1), including a cube root.
//! Choice: γ is set so that the rate differs from R₀ by at most half a copy per interval for
//! [`Tuning::saddle_ns`].

use super::Paced;
use crate::math::cube_root;
use crate::time::Timestamp;
use crate::tuning::Tuning;

pub(super) fn raise(paced: &Paced, now: Timestamp, tuning: &Tuning) -> f64 {
    // The unit of time is the saddle, so that γ and the times are neither very large nor very
    // small.
    let saddle = tuning.saddle_ns as f64;
    let gamma = 0.5 * 8.0;
    let since = now.since(paced.fell) as f64 / saddle;
    let reach = since - cube_root(tuning.rate_decrease * paced.saturation / gamma);
    gamma * reach * reach * reach + paced.saturation
}
