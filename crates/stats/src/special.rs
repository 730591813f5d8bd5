//! Distribution functions that statrs lacks or supports only for small parameters. Results are
//! accurate to about 1e-12 unless noted otherwise.

use statrs::distribution::{ContinuousCDF as _, Normal};
use statrs::function::gamma::{gamma_lr, ln_gamma};

/// Returns the distribution function of the standard normal at `z`.
pub fn normal_cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// Above this shape, the cube root of the gamma distribution is approximated as normal.
const LARGE_SHAPE: f64 = 1e5;

/// Returns the distribution function at `x` of the gamma distribution with this shape and scale 1:
/// the regularized lower incomplete gamma function P(shape, x).
///
/// For shapes over 1e5, uses the Wilson–Hilferty transformation, with an error below 1e-6, because
/// the series in statrs takes O(√shape) steps.
pub fn gamma_cdf(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x == f64::INFINITY {
        return 1.0;
    }
    if shape > LARGE_SHAPE {
        let spread = 1.0 / (9.0 * shape);
        return normal_cdf(((x / shape).cbrt() - (1.0 - spread)) / spread.sqrt());
    }
    gamma_lr(shape, x).clamp(0.0, 1.0)
}

/// Returns the distribution function at `x` of the beta distribution with these parameters, both
/// above 0: the regularized incomplete beta function I(x; a, b).
///
/// The continued fraction in statrs stops after 140 terms. That is not enough here, because counts
/// can reach millions.
///
/// Source: Numerical Recipes §6.4 (continued fraction by Lentz's method, on the side where it
/// converges fast). Cost: O(√max(a, b)), bounded. Results are accurate to about 1e-6 for parameters
/// up to 1e8.
pub fn beta_cdf(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    let value = if x < (a + 1.0) / (a + b + 2.0) {
        front.exp() * beta_fraction(a, b, x) / a
    } else {
        1.0 - front.exp() * beta_fraction(b, a, 1.0 - x) / b
    };
    value.clamp(0.0, 1.0)
}

/// The maximum number of terms. The fraction requires about 8·√max(a, b) terms.
const MAX_TERMS: u32 = 10_000;

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    for m in 1..=MAX_TERMS {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut factor = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            factor = c * d;
            h *= factor;
        }
        if (factor - 1.0).abs() < 4.0 * f64::EPSILON {
            break;
        }
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected}");
    }

    #[test]
    fn gamma_cdf_is_erlangs_for_whole_shapes() {
        for stages in [1_u32, 2, 5, 30] {
            for x in [0.1_f64, 1.0, 4.0, 29.0, 31.0, 80.0] {
                let mut term = (-x).exp();
                let mut above = 0.0;
                for i in 0..stages {
                    above += term;
                    term *= x / f64::from(i + 1);
                }
                assert_close(gamma_cdf(f64::from(stages), x), 1.0 - above, 1e-13);
            }
        }
    }

    #[test]
    fn large_shapes_continue_the_exact_ones() {
        for z in [-3.0, -0.5, 0.0, 1.0, 4.0] {
            let below = LARGE_SHAPE + z * LARGE_SHAPE.sqrt();
            let exact = gamma_cdf(LARGE_SHAPE, below);
            assert_close(gamma_cdf(LARGE_SHAPE * (1.0 + 1e-12), below), exact, 1e-6);
        }
        assert_eq!(gamma_cdf(3.0, 0.0), 0.0);
        assert_eq!(gamma_cdf(3.0, f64::INFINITY), 1.0);
    }

    #[test]
    fn beta_cdf_is_a_sum_of_binomial_probabilities() {
        // I(x; k, n - k + 1) is the probability of k or more successes in n trials.
        for (n, x) in [(10_u32, 0.3_f64), (40, 0.02), (200, 0.7)] {
            let mut term = (1.0 - x).powi(n as i32);
            let mut below = term;
            for k in 1..=n {
                let exact = 1.0 - below;
                let value = beta_cdf(f64::from(k), f64::from(n - k + 1), x);
                assert_close(value, exact, 1e-12);
                term *= f64::from(n - k + 1) / f64::from(k) * x / (1.0 - x);
                below += term;
            }
        }
    }

    #[test]
    fn beta_cdf_has_half_below_the_middle_for_large_equal_parameters() {
        for a in [0.5, 1.0, 1e3, 1e6, 5e7] {
            assert_close(beta_cdf(a, a, 0.5), 0.5, 1e-6);
        }
        assert_eq!(beta_cdf(2.0, 3.0, 0.0), 0.0);
        assert_eq!(beta_cdf(2.0, 3.0, 1.0), 1.0);
    }
}
