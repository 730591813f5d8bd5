//! One-dimensional searches with a bounded number of steps.

/// Returns the smallest t ≥ 0, with a relative error of about 1e-14, at which the falling function
/// `above` is at most `level`. The result is infinite if there is no such t. `scale` > 0 is a first
/// guess of the order of magnitude.
///
/// The search takes about 50 to 120 evaluations if the guess is good, and never more than 1,300.
pub(crate) fn first_at_most(above: impl Fn(f64) -> f64, level: f64, scale: f64) -> f64 {
    if above(0.0) <= level {
        return 0.0;
    }
    let mut high = scale;
    while above(high) > level {
        high *= 2.0;
        if high == f64::INFINITY {
            return high;
        }
    }
    let is_before = |t: f64| above(t) > level;
    bisect(is_before, 0.0, high, 1e-14)[1]
}

/// Returns the point between `low` and `high` at which the function changes sign, to the last
/// digits. The function must change sign there, and should be monotone.
pub(crate) fn root(f: impl Fn(f64) -> f64, low: f64, high: f64) -> f64 {
    let starts_below = f(low) < 0.0;
    let [low, high] = bisect(|x| (f(x) < 0.0) == starts_below, low, high, 0.0);
    low + (high - low) / 2.0
}

/// Halves the range between `low` and `high` around the point before which `is_before` holds, until
/// its length is this share of `high`, or until no number is left between its ends.
fn bisect(is_before: impl Fn(f64) -> bool, mut low: f64, mut high: f64, share: f64) -> [f64; 2] {
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if high - low <= share * high || middle <= low || middle >= high {
            break;
        }
        if is_before(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    [low, high]
}

/// Returns the minimum of a function with a single valley between `low` and `high`, to about 1e-9
/// of the interval. Golden-section search takes 45 evaluations.
pub(crate) fn valley(f: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    let section = (5.0_f64.sqrt() - 1.0) / 2.0;
    let mut left = high - section * (high - low);
    let mut right = low + section * (high - low);
    let (mut at_left, mut at_right) = (f(left), f(right));
    for _ in 0..43 {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - section * (high - low);
            at_left = f(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + section * (high - low);
            at_right = f(right);
        }
    }
    low + (high - low) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_function_is_inverted_from_any_guess() {
        for scale in [1e-9, 1.0, 1e9] {
            let t = first_at_most(|t| (-t).exp(), 0.01, scale);
            assert!((t - 100.0_f64.ln()).abs() < 1e-12, "{t}");
        }
        assert_eq!(first_at_most(|_| 0.2, 0.5, 1.0), 0.0);
        assert_eq!(first_at_most(|_| 0.2, 0.1, 1.0), f64::INFINITY);
    }

    #[test]
    fn a_jump_is_found_from_above() {
        let t = first_at_most(|t| if t < 3.0 { 1.0 } else { 0.0 }, 0.5, 1.0);
        assert!((t - 3.0).abs() < 1e-12 && t >= 3.0, "{t}");
    }

    #[test]
    fn roots_and_valleys_are_found() {
        assert!((root(|x| x * x - 2.0, 0.0, 2.0) - 2.0_f64.sqrt()).abs() < 1e-15);
        assert!((root(|x| 2.0 - x * x, 0.0, 2.0) - 2.0_f64.sqrt()).abs() < 1e-15);
        // A valley is flat at its minimum, so only half of the digits can be determined.
        assert!((valley(|x| (x - 0.3).powi(2), -1.0, 5.0) - 0.3).abs() < 1e-7);
    }
}
