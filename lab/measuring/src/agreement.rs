//! Computes the highest percentile up to which a method can be trusted, by comparing it with the
//! taps, which saw the same packets.
//!
//! The rule: a method agrees with the taps at a percentile if the two differ by at most 1 µs, or by
//! at most 10 % of the taps' value. A method agrees up to a percentile of the [`LADDER`] if it
//! agrees there and at all lower ones. A percentile is used only if at least ten packets are above
//! it.
//!
//! A method that is off by the same amount everywhere is wrong about latencies but right about
//! their differences. It is therefore judged a second time, after its offset at the median is
//! subtracted.

use curtail_load::{Histogram, SAMPLES_ABOVE_MIN};

/// The percentiles at which distributions are compared.
const LADDER: [f64; 10] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999];

/// The difference that is allowed at any latency.
const SLACK_NS: f64 = 1_000.0;
/// The difference that is allowed as a share of the latency.
const SLACK_SHARE: f64 = 0.1;

/// Returns the latency at a percentile. `None` if fewer than ten packets are above it.
pub(crate) fn at(of: &Histogram<u64>, percent: f64) -> Option<u64> {
    let above = of.len() as f64 * (1.0 - percent / 100.0);
    let enough = above + 1e-6 >= SAMPLES_ABOVE_MIN as f64;
    enough.then(|| of.value_at_quantile(percent / 100.0))
}

/// How far a method agrees with the taps. A percentile is `None` if they differ at the median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Agreed {
    /// The highest percentile up to which they agree.
    pub(crate) up_to: Option<f64>,
    /// The same after the offset is subtracted.
    pub(crate) less_offset_up_to: Option<f64>,
    /// The difference between the medians: the method's minus that of the taps.
    pub(crate) offset_ns: f64,
}

/// Compares a method with the taps.
pub(crate) fn agreed(measured: &Histogram<u64>, tapped: &Histogram<u64>) -> Agreed {
    let median = |of: &Histogram<u64>| of.value_at_quantile(0.5) as f64;
    let offset_ns = median(measured) - median(tapped);
    let up_to = |offset_ns: f64| {
        let agrees = |percent: &f64| {
            let pair = at(measured, *percent).zip(at(tapped, *percent));
            pair.is_some_and(|(measured, tapped)| {
                let (measured, tapped) = (measured as f64 - offset_ns, tapped as f64);
                (measured - tapped).abs() <= SLACK_NS.max(SLACK_SHARE * tapped)
            })
        };
        LADDER.into_iter().take_while(agrees).last()
    };
    Agreed { up_to: up_to(0.0), less_offset_up_to: up_to(offset_ns), offset_ns }
}

/// Considers the pairs whose tapped latencies differ by more than both slacks. Returns how often
/// the method ranks a pair as the taps do, and the number of these pairs. Each element contains the
/// method's latency and the taps' latency.
pub(crate) fn in_order(pairs: &[(u64, u64)]) -> (usize, usize) {
    let (mut right, mut all) = (0, 0);
    for (i, a) in pairs.iter().enumerate() {
        for b in &pairs[i + 1..] {
            let differ = a.1.abs_diff(b.1) as f64;
            if differ > SLACK_NS.max(SLACK_SHARE * a.1.min(b.1) as f64) {
                all += 1;
                right += usize::from(a.0.cmp(&b.0) == a.1.cmp(&b.1));
            }
        }
    }
    (right, all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::nanoseconds;

    /// Returns ten thousand packets for each microsecond from 10 to 19, and a few in the tail.
    fn distribution(offset_ns: u64, tail_ns: u64) -> Histogram<u64> {
        let mut of = nanoseconds();
        for ns in (10_000..20_000_u64).step_by(1_000) {
            of.record_n(ns + offset_ns, 10_000).expect("in range");
        }
        of.record_n(tail_ns, 50).expect("in range");
        of
    }

    #[test]
    fn a_method_agrees_up_to_the_first_percentile_that_differs() {
        let tapped = distribution(0, 100_000);
        let judge = |offset_ns, tail_ns| agreed(&distribution(offset_ns, tail_ns), &tapped);
        assert_eq!(judge(0, 100_000).up_to, Some(99.99), "ten packets of 100,050 are above");
        assert_eq!(judge(900, 100_000).up_to, Some(99.99), "within a microsecond");
        assert_eq!(judge(0, 150_000).up_to, Some(99.95), "except for the tail");
        let off = judge(5_000, 105_000);
        assert_eq!((off.up_to, off.less_offset_up_to), (None, Some(99.99)));
        assert!((off.offset_ns - 5_000.0).abs() < 20.0, "{off:?}");
    }

    #[test]
    fn percentiles_need_packets_above_them() {
        let few = distribution(0, 100_000);
        assert_eq!(at(&few, 99.99), Some(few.value_at_quantile(0.9999)));
        assert_eq!(at(&few, 99.999), None);
    }

    #[test]
    fn only_configurations_that_differ_for_the_taps_are_ranked() {
        let pairs = [(30_000, 10_000), (31_000, 10_500), (20_000, 20_000), (90_000, 50_000)];
        assert_eq!(in_order(&pairs), (3, 5), "the taps cannot distinguish the first two");
        assert_eq!(in_order(&[]), (0, 0));
    }
}
