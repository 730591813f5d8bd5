//! The rates of document 002: CUBIC, and its algorithm as it is written.

use super::paced::{NewRate, Paced};
use crate::descriptor::Descriptor;
use crate::math::cube_root;
use crate::time::Timestamp;
use crate::tuning::Tuning;

/// `cubic`: rises steeply far below the rate before the last fall, slowly near it, and steeply again
/// beyond it. C3 uses this rate.
///
/// Source: document 002 §4.2.2 and Algorithm 2, lines 8 to 11. Cost: O(1), including a cube root.
/// Choice: γ is set so that the rate differs from R₀ by at most half a copy per interval for
/// [`Tuning::saddle_ns`].
pub static CUBIC: Descriptor<NewRate> =
    Descriptor::rate(&["cubic"], "cubic", "like TCP CUBIC", NewRate::Raise(raise));

/// `literal`: Algorithm 2 to the letter, as a reference for the choices that the other rates make. `c3:literal`
/// uses this rate.
///
/// On each response, the rate is compared with the number of responses in the last interval δ,
/// including this one. If the rate is higher, and the last rise was more than a hysteresis of 2δ
/// ago, the rate falls *to* β times its value. If the rate is lower, it rises as in CUBIC. There is
/// no noise band and no average.
///
/// Source: document 002 §4.2.2, Algorithm 2, lines 3 to 11; parameters from §4.3. Cost: O(1) per
/// response, amortized, and 8 bytes per response in the last δ. Deviations: a rate has a floor
/// ([`Tuning::least_rate`]), because a rate of 0 would never rise again. A copy that failed counts
/// as a completion, but not as a response. The source does not say in which interval it counts
/// responses. If there are hundreds of clients, the last complete interval usually contains no
/// response, so rates would stay at the floor. Counting in the interval δ that ends now is the
/// reading that favors the algorithm.
pub static LITERAL: Descriptor<NewRate> = Descriptor::rate(
    &["literal"],
    "literal",
    "Algorithm 2 of document 002 as it is written",
    NewRate::Count(adapt),
);

fn raise(paced: &Paced, now: Timestamp, tuning: &Tuning) -> f64 {
    // The unit of time is the saddle, so that γ and the times are neither very large nor very
    // small.
    let saddle = tuning.saddle_ns as f64;
    let gamma = 0.5 * 8.0;
    let since = now.since(paced.fell) as f64 / saddle;
    let reach = since - cube_root(tuning.rate_decrease * paced.saturation / gamma);
    gamma * reach * reach * reach + paced.saturation
}

fn adapt(paced: &mut Paced, now: Timestamp, tuning: &Tuning, received: f64) -> f64 {
    if paced.rate > received && now.since(paced.rose) > 2 * tuning.interval_ns {
        paced.saturation = paced.rate;
        paced.fell = now;
        return paced.rate * tuning.rate_decrease;
    }
    if paced.rate < received {
        paced.rose = now;
        return raise(paced, now, tuning).min(paced.rate + tuning.rate_step);
    }
    paced.rate
}
