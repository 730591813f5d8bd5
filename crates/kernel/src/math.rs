//! Exponential decay and roots, which are not available in `core`.

use core::f64::consts::LOG2_E;

/// Returns e to the power of −x, for x ≥ 0. The relative error is below 10⁻¹². O(1); the only
/// branch returns 0 for results below 2⁻¹⁰⁰⁰.
#[must_use]
pub(crate) fn decay(x: f64) -> f64 {
    // e^−x = 2^−n · 2^−f, with n whole and f from 0 to 1.
    let halvings = x * LOG2_E;
    if halvings.is_nan() || halvings >= 1_000.0 {
        return 0.0;
    }
    let whole = halvings as u64;
    let rest = (halvings - whole as f64) / LOG2_E;
    // The Taylor series of e^rest, for `rest` up to ln 2.
    let series = INVERSES.iter().rev().fold(1.0, |sum, inverse| 1.0 + sum * rest * inverse);
    f64::from_bits((1_023 - whole) << 52) / series
}

/// The inverses of 1 to 14, because multiplying is faster than dividing.
const INVERSES: [f64; 14] = {
    let mut inverses = [0.0; 14];
    let mut at = 0;
    while at < inverses.len() {
        inverses[at] = 1.0 / (at + 1) as f64;
        at += 1;
    }
    inverses
};

/// Returns the cube root of a number that is not negative. The relative error is below 10⁻¹². O(1):
/// five steps of Newton's method.
#[must_use]
pub(crate) fn cube_root(x: f64) -> f64 {
    if !(x > 0.0 && x.is_finite()) {
        return if x > 0.0 { x } else { 0.0 };
    }
    // The first guess divides the exponent by three. The relative error is below one half.
    let mut root = f64::from_bits(x.to_bits() / 3 + (682 << 52));
    for _ in 0..5 {
        root -= (root - x / (root * root)) / 3.0;
    }
    root
}

/// Returns the square root to within a thousandth, for numbers that are neither tiny nor huge.
pub(crate) fn root(x: f32) -> f32 {
    (0..12).fold(1.0_f32.max(x / 2.0), |r, _| (r + x / r) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::{cube_root, decay};

    #[test]
    fn a_cube_root_agrees_with_cbrt() {
        for exponent in -300..300 {
            for mantissa in [1.0, 1.7, 3.3, 9.99] {
                let x = mantissa * 10_f64.powi(exponent);
                let (found, expected) = (cube_root(x), x.cbrt());
                assert!((found - expected).abs() <= 1e-12 * expected, "{x}: {found} {expected}");
            }
        }
        assert_eq!((cube_root(0.0), cube_root(-8.0)), (0.0, 0.0));
        assert_eq!(cube_root(f64::INFINITY), f64::INFINITY);
    }

    #[test]
    fn decay_agrees_with_exp() {
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
