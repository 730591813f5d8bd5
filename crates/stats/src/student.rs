//! Computes means of a few independent numbers and their confidence intervals.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Returns the mean, or `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns half the width of the 95 % confidence interval of the mean, or `None` for fewer than two
/// values.
pub fn half_width(values: &[f64]) -> Option<f64> {
    let variance = variance(values)?;
    Some(quantile(values.len() - 1) * (variance / values.len() as f64).sqrt())
}

/// Returns the sample variance, or `None` for fewer than two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    Some(squares / (values.len() - 1) as f64)
}

/// Returns the 97.5 % quantile with this many degrees of freedom, 1 or more.
pub fn quantile(freedom: usize) -> f64 {
    with(freedom).inverse_cdf(0.975)
}

/// Returns the probability of a value below `t`.
pub fn below(freedom: usize, t: f64) -> f64 {
    with(freedom).cdf(t)
}

fn with(freedom: usize) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom as f64).expect("there is a degree of freedom")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_textbook() {
        // The mean is 3, the standard deviation is 1.5811, and t with 4 degrees of freedom is
        // 2.776. Half the width is 2.776 × 1.5811 / √5.
        let width = half_width(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("five values");
        assert!((width - 1.963).abs() < 1e-3, "{width}");
        assert_eq!(half_width(&[1.0]), None);
        assert_eq!(mean(&[]), None);
    }
}
