//! Buckets of latencies that are 1.6 % wide: coarse, and so cheap that there can be many sets of them.

/// Buckets per factor of two.
const LINEAR: u32 = 64;
const LINEAR_BITS: u32 = LINEAR.ilog2();
/// Enough for the longest time-out, and some more.
pub(crate) const COUNT: usize = (37 - LINEAR_BITS as usize) * LINEAR as usize;

/// The bucket of a latency, in nanoseconds: by its highest bit, and linear within that.
pub(crate) fn index(ns: u64) -> usize {
    let high = (ns | 1).ilog2();
    let shift = high.saturating_sub(LINEAR_BITS);
    let within = (ns >> shift) as usize;
    (shift as usize * LINEAR as usize + within).min(COUNT - 1)
}

/// The middle of a bucket, in nanoseconds.
pub(crate) fn middle_ns(index: usize) -> u64 {
    let linear = LINEAR as usize;
    let shift = (index / linear).saturating_sub(1);
    let within = index - shift * linear;
    ((within as u64) << shift) + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_narrow_and_have_their_middle() {
        let mut before = 0;
        for ns in (0..20_000).chain((20_000..60_000_000_000).step_by(7_654_321)) {
            let at = index(ns);
            assert!(at >= before, "{ns}");
            assert!(at - before <= 1 || ns >= 20_000, "{ns} skips a bucket");
            assert_eq!(index(middle_ns(at)), at, "{ns}");
            assert!(middle_ns(at).abs_diff(ns) as f64 <= (ns as f64 * 0.008).max(0.5), "{ns}");
            before = at;
        }
        assert!(before < COUNT - 1, "the longest time-out has a bucket of its own");
    }
}
