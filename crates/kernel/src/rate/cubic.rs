//! CUBIC: steep while far below the rate before the last fall, flat near it, and steep again beyond.
//!
//! Source: document 002 §4.2.2 and Algorithm 2, lines 8 to 11. Cost: O(1), a cube root.
//! Settled: γ is such that the rate stays within half a copy per interval of R₀ for [`Tuning::saddle_ns`].

use super::Paced;
use crate::math::cube_root;
use crate::time::Timestamp;
use crate::tuning::Tuning;

pub(super) fn raise(paced: &Paced, now: Timestamp, tuning: &Tuning) -> f64 {
    // In saddles: so that γ and the times are numbers of ordinary size.
    let saddle = tuning.saddle_ns as f64;
    let gamma = 0.5 * 8.0;
    let since = now.since(paced.fell) as f64 / saddle;
    let reach = since - cube_root(tuning.rate_decrease * paced.saturation / gamma);
    gamma * reach * reach * reach + paced.saturation
}
