//! Functions that the mathematical library lacks. Accurate to about 1e-12 unless said otherwise.

/// The digamma function, the derivative of ln Γ, for x > 0.
///
/// Source: Abramowitz and Stegun 6.3.5 (recurrence) and 6.3.18 (asymptotic series).
pub(crate) fn digamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 10.0 {
        below -= 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = y
        * (1.0 / 12.0
            - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y * (1.0 / 240.0 - y * (1.0 / 132.0)))));
    below + x.ln() - 0.5 / x - series
}

/// The harmonic number 1 + 1/2 + … + 1/n.
pub(crate) fn harmonic(n: u32) -> f64 {
    const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;
    // A short sum is exact to the last digits; a long one is not worth its time.
    if n <= 64 {
        return (1..=n).rev().map(|i| 1.0 / f64::from(i)).sum();
    }
    digamma(f64::from(n) + 1.0) + EULER_GAMMA
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected}");
    }

    #[test]
    fn digamma_has_its_known_values() {
        // Abramowitz and Stegun, table 6.1: ψ(1) = -γ, ψ(1/2) = -γ - 2 ln 2, ψ(2) = 1 - γ.
        assert_close(digamma(1.0), -0.577_215_664_901_533, 1e-13);
        assert_close(digamma(0.5), -1.963_510_026_021_423, 1e-13);
        assert_close(digamma(2.0), 0.422_784_335_098_467, 1e-13);
        // Its recurrence, where only the series is used.
        assert_close(digamma(51.0) - digamma(50.0), 0.02, 1e-13);
    }

    #[test]
    fn harmonic_numbers_are_sums() {
        assert_eq!(harmonic(1), 1.0);
        assert_close(harmonic(4), 25.0 / 12.0, 1e-15);
        assert_close(harmonic(65) - harmonic(64), 1.0 / 65.0, 1e-13);
        let sum: f64 = (1..=1000).map(|i| 1.0 / f64::from(i)).sum();
        assert_close(harmonic(1000), sum, 1e-12);
    }
}
