//! Means of few independent numbers, and how sure they are.

/// The 97.5 % quantile of Student's t with 1, 2, … degrees of freedom, from tables.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The mean; none of nothing.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Half the width of the 95 % confidence interval of the mean; none of fewer than two.
pub(crate) fn half_width(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let freedom = values.len() - 1;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / freedom as f64;
    Some(quantile(freedom) * (variance / values.len() as f64).sqrt())
}

/// The probability that Student's t with five degrees of freedom, that of six replications, is below
/// `t`. Exact.
pub(crate) fn below_of_five(t: f64) -> f64 {
    let angle = (t / 5.0_f64.sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    0.5 + (angle + sine * (cosine + 2.0 / 3.0 * cosine.powi(3))) / std::f64::consts::PI
}

/// The 97.5 % quantile with so many degrees of freedom; beyond the table the first terms of its
/// expansion around the normal one, which are exact to four digits there.
pub(crate) fn quantile(freedom: usize) -> f64 {
    if let Some(&t) = T.get(freedom - 1) {
        return t;
    }
    let z: f64 = 1.959_964;
    let n = freedom as f64;
    z + (z.powi(3) + z) / (4.0 * n)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_textbook() {
        // Mean 3, standard deviation 1.5811, t of 4 degrees 2.776: 2.776 × 1.5811 / √5.
        let width = half_width(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("five values");
        assert!((width - 1.963).abs() < 1e-3, "{width}");
        assert_eq!(half_width(&[1.0]), None);
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn the_distribution_of_five_agrees_with_tables() {
        for (t, below) in
            [(0.0, 0.5), (1.476, 0.9), (2.571, 0.975), (6.869, 0.9995), (-2.571, 0.025)]
        {
            assert!((below_of_five(t) - below).abs() < 2e-5, "{t}: {}", below_of_five(t));
        }
    }

    #[test]
    fn the_expansion_continues_the_table() {
        assert!((quantile(31) - 2.0395).abs() < 2e-3);
        assert!((quantile(120) - 1.9799).abs() < 1e-3);
    }
}
