//! Rates that adapt in other ways than CUBIC.

use crate::descriptor::{Arguments, Descriptor};
use crate::rate::{NewRate, Paced};
use crate::time::Timestamp;
use crate::tuning::Tuning;

/// `aimd`: additive increase, multiplicative decrease.
///
/// Source: document 002 §4.4.2, which only names it; the step sizes are TCP's. Cost: O(1). Choice:
/// in each interval, the rate rises by about one copy per interval. Each response contributes its
/// share to this rise.
pub static AIMD: Descriptor<NewRate> = Descriptor::rate(
    &["aimd"],
    "aimd",
    "rises by a copy per interval, and falls by a fraction",
    NewRate::Raise(|paced, _, _| paced.rate + 1.0 / paced.rate.max(1.0)),
);

/// `bic`: repeatedly halves the distance to the rate before the last fall, and then rises faster and
/// faster.
///
/// Source: document 002 §4.4.2, which names an adaptation of TCP BIC. Cost: O(1). Choice: the rate
/// takes one step per interval, to which each response contributes its share, as in AIMD. Below R₀,
/// a step is at most one copy per interval and at least a hundredth of that. Beyond R₀, a step is
/// as large as the distance from R₀.
pub static BIC: Descriptor<NewRate> =
    Descriptor::rate(&["bic"], "bic", "like TCP BIC", NewRate::Raise(raise_bic));

/// `fast:D`: seeks the rate at which responses take a target time.
///
/// Source: document 002 §4.4.2; PARDA (Gulati et al., FAST 2009), eq. 4, with rates instead of
/// windows. Cost: O(1). The rate does not depend on demand: even an unused rate rises while
/// responses are fast. Choice: once per interval, the rate moves halfway to its target, which
/// includes one extra copy per interval.
pub static FAST: Descriptor<NewRate> = Descriptor::rate(
    &["fast:D"],
    "fast",
    "like FAST TCP, toward a response time",
    NewRate::Adapt(adapt_fast),
);

const LEAST: f64 = 0.01;

fn raise_bic(paced: &Paced, _: Timestamp, tuning: &Tuning) -> f64 {
    let to_go = paced.saturation - paced.rate;
    let step = if to_go > 0.0 {
        (to_go / 2.0).clamp(LEAST, 1.0)
    } else {
        (-to_go).clamp(LEAST, tuning.rate_step)
    };
    paced.rate + step / paced.rate.max(1.0)
}

fn adapt_fast(paced: &mut Paced, now: Timestamp, tuning: &Tuning, of: &Arguments) -> f64 {
    if now.since(paced.rose) < tuning.interval_ns {
        return paced.rate;
    }
    paced.rose = now;
    let target_ns = of.delay_ns.unwrap_or_default();
    let ratio = target_ns as f64 / paced.response_ns.max(1.0);
    let wanted = (paced.rate * ratio + 1.0).min(paced.rate + tuning.rate_step);
    f64::midpoint(paced.rate, wanted)
}
