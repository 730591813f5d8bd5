//! Whether a policy was worse than per-shard queuing in a world, and how much it gained.

use anyhow::Result;

use super::world::Tolerance;
use crate::eval::sim::Outcome;

/// Replications of each world.
pub(super) const REPLICATIONS: u32 = 6;

/// Student's t for six replications: below it are 97.5 % and 99.9 %.
const T_975: f64 = 2.571;
const T_999: f64 = 5.893;

/// The percentiles that count, by their names in the JSON.
pub(super) const PERCENTILES: [&str; 3] = ["p50", "p99", "p999"];

/// By how much a percentile is above that of per-shard queuing, in percent of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Excess {
    pub(super) seen: f64,
    /// It is at least so much, as sure as 99.9 %.
    pub(super) at_least: f64,
}

/// What a policy came to in a world, beside per-shard queuing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Beside {
    /// By percentile; none where there were too few requests.
    pub(super) excess: [Option<Excess>; 3],
    pub(super) p99: f64,
    pub(super) copies: f64,
    /// It kept up with the load.
    pub(super) stable: bool,
}

impl Beside {
    /// A policy beside the first one of the same run, which is per-shard queuing and stable.
    pub(super) fn new(policy: &Outcome, first: &Outcome) -> Result<Self> {
        if !policy.is_stable() {
            return Ok(Self::unstable());
        }
        let excess = PERCENTILES.map(|percentile| {
            let base = first.number(&format!("/request/{percentile}")).ok()?;
            let by = policy.number(&format!("/versus_first/difference/{percentile}")).ok()?;
            let half = policy.number(&format!("/versus_first/ci95/{percentile}")).ok()?;
            let at_least = 100.0 * (by - half * T_999 / T_975) / base;
            Some(Excess { seen: 100.0 * by / base, at_least })
        });
        let (p99, copies) = (policy.p99()?, policy.number("/copies_per_query")?);
        Ok(Self { excess, p99, copies, stable: true })
    }

    /// A policy that does not keep up with the load.
    pub(super) fn unstable() -> Self {
        let infinite = Excess { seen: f64::INFINITY, at_least: f64::INFINITY };
        let (p99, copies) = (f64::INFINITY, f64::NAN);
        Self { excess: [Some(infinite); 3], p99, copies, stable: false }
    }

    /// How far the percentile that is nearest to failing is from it, in percent: below zero it fails.
    pub(super) fn margin(&self, tolerance: Tolerance) -> f64 {
        let allowed = match tolerance {
            Tolerance::Strict => [2.0, 1.0, 1.0],
            Tolerance::Loose => [f64::INFINITY, 5.0, f64::INFINITY],
        };
        let margins = self.excess.iter().zip(allowed).filter_map(|(excess, allowed)| {
            excess.filter(|_| allowed < f64::INFINITY).map(|excess| allowed - excess.at_least)
        });
        margins.fold(f64::INFINITY, f64::min)
    }
}

/// Which part of the way from per-shard queuing to the bound a policy goes, in p99; none where there is
/// no way to go.
pub(super) fn closed(psq: f64, policy: f64, bound: f64) -> Option<f64> {
    (bound <= 0.8 * psq).then(|| (psq - policy) / (psq - bound))
}

/// The value in the middle; none of none.
pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) =
        (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(low.midpoint(*high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn beside(difference: f64, ci95: f64) -> Beside {
        let each = |x: f64| json!({"p50": x, "p99": x, "p999": x});
        let first = Outcome::of(json!({"stable": true, "request": each(10.0)}));
        let policy = Outcome::of(json!({
            "stable": true, "request": each(10.0 + difference), "copies_per_query": 1.0,
            "versus_first": {"difference": each(difference), "ci95": each(ci95)},
        }));
        Beside::new(&policy, &first).expect("whole")
    }

    #[test]
    fn what_may_be_chance_does_not_fail() {
        let worse = beside(0.3, 0.05);
        let at_least = worse.excess[1].expect("enough requests").at_least;
        assert!((at_least - (3.0 - 0.5 * T_999 / T_975)).abs() < 1e-9, "{at_least}");
        assert!(worse.margin(Tolerance::Strict) < 0.0);
        assert!(worse.margin(Tolerance::Loose) > 0.0);
        assert!(beside(0.3, 0.2).margin(Tolerance::Strict) > 0.0, "it may be chance");
    }

    #[test]
    fn the_gap_is_closed_in_parts() {
        assert_eq!(closed(10.0, 7.0, 4.0), Some(0.5));
        assert_eq!(closed(10.0, 9.0, 9.0), None, "hiccups do not matter");
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([1.0, 2.0].into_iter()), Some(1.5));
        assert_eq!(median([].into_iter()), None);
    }
}
