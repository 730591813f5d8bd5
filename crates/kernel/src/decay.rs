//! Exponential decay, for averages over time: the standard library's `exp` is not in `core`.

use core::f64::consts::LOG2_E;

/// e to the power of −x, for x of at least 0; off by less than one part in 10¹². O(1), no branches on
/// the value but for what is smaller than a float can tell from 0.
#[must_use]
pub(crate) fn decay(x: f64) -> f64 {
    // e^−x = 2^−n · 2^−f, with n whole and f from 0 to 1.
    let halvings = x * LOG2_E;
    if halvings.is_nan() || halvings >= 1_000.0 {
        return 0.0;
    }
    let whole = halvings as u64;
    let rest = (halvings - whole as f64) / LOG2_E;
    // The series of e^rest, for a rest of up to ln 2.
    let series = (1..=14).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    f64::from_bits((1_023 - whole) << 52) / series
}

#[cfg(test)]
mod tests {
    use super::decay;

    #[test]
    fn it_agrees_with_exp() {
        for i in 0..60_000 {
            let x = f64::from(i) * 0.01;
            let (found, expected) = (decay(x), (-x).exp());
            assert!((found - expected).abs() <= 1e-12 * expected, "{x}: {found} {expected}");
        }
        assert_eq!(decay(0.0), 1.0);
        assert_eq!(decay(1e300), 0.0);
        assert_eq!(decay(f64::INFINITY), 0.0);
    }
}
