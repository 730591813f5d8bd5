//! Fits recover the parameters of seeded samples, and measure their goodness of fit.

use curtail_dist::Spec;
use curtail_queueing::fit::{By, Fit, FitError, Law, Report};
use curtail_queueing::models::Hyper;

use crate::{assert_close, assert_near, draw};

const COUNT: usize = 50_000;

fn report(samples: Vec<f64>, by: By) -> Report {
    Report::new(samples, false, by).expect("they are samples")
}

fn drawn(text: &str) -> Report {
    report(draw(text, COUNT, 17), By::Aic)
}

fn of<'a>(report: &'a Report, family: &str) -> &'a Fit {
    let found = report.fits.iter().find(|fit| fit.family == family);
    found.unwrap_or_else(|| panic!("{family}: {:?}", report.refused))
}

/// Returns the parameters of a mixture: the order, the probability of the first phase, and the
/// means of both phases.
fn phases(fit: &Fit) -> (u32, f64, [f64; 2]) {
    let (order, Hyper { probability, rates }) = match fit.law {
        Law::Hyper(stage) => (1, stage),
        Law::Erlangs { order, stage } => (order, stage),
        _ => panic!("{fit:?}"),
    };
    (order, probability, rates.map(|rate| f64::from(order) / rate))
}

#[test]
fn parameters_are_recovered_and_the_true_family_wins() {
    for (text, family, tolerance) in [
        ("exp:5", "exponential", 0.02),
        ("lognormal:2:0.5", "log-normal", 0.03),
        ("lognormal:2:1.5", "log-normal", 0.03),
        ("gamma:2:0.2", "gamma", 0.03),
        ("gamma:2:1.5", "gamma", 0.03),
        ("gamma:3:1", "gamma", 0.03),
        ("weibull:0.5:3", "Weibull", 0.03),
        ("weibull:1:3", "Weibull", 0.03),
        ("weibull:4:3", "Weibull", 0.03),
        ("pareto:0.8:5", "Pareto", 0.03),
        ("pareto:2.5:5", "Pareto", 0.03),
        ("h2:1:2", "hyper-exponential, balanced", 0.05),
    ] {
        let report = drawn(text);
        let fit = of(&report, family);
        let spec = fit.spec.as_ref().expect("a form");
        assert_eq!(spec.split(':').next(), text.split(':').next());
        let numbers = |text: &str| {
            let numbers = text.split(':').skip(1).map(|number| number.parse().expect("a number"));
            numbers.collect::<Vec<f64>>()
        };
        for (found, expected) in numbers(spec).into_iter().zip(numbers(text)) {
            assert_near(found, expected, tolerance, text);
        }
        // The Kolmogorov-Smirnov distance of the true law is below 1.63/√n in 99 of 100 cases.
        assert!(fit.ks < 1.63 / (COUNT as f64).sqrt(), "{text}: {}", fit.ks);
        // Families that contain the true law as a special case may fit slightly better.
        let lead = fit.aic - report.fits[0].aic;
        assert!(lead <= 4.0, "{text}: {lead} behind {}", report.fits[0].family);
        assert!(report.fits.is_sorted_by(|a, b| a.aic <= b.aic));
        // The best fit can be simulated.
        let best: Spec = report.best.expect("one").parse().expect("a distribution");
        assert!(best.resolve(1.0).expect("in range").mean().is_finite(), "{text}: {best}");
    }
    let by_ks = report(draw("gamma:2:0.6", COUNT, 17), By::Ks);
    assert!(by_ks.fits.is_sorted_by(|a, b| a.ks <= b.ks));
}

#[test]
fn three_moments_find_unbalanced_phases() {
    // One in ten samples comes from a distribution whose mean is ten times as long: p = 0.9, means
    // 1 and 10.
    let mixed = [draw("exp:1", 450_000, 1), draw("exp:10", 50_000, 2)].concat();
    let report = report(mixed, By::Aic);
    for (family, most) in [("hyper-exponential", 0.02), ("mixture of Erlangs", 0.01)] {
        let fit = of(&report, family);
        let (order, probability, [fast, slow]) = phases(fit);
        assert_eq!((order, &fit.spec), (1, &None));
        assert_near(probability, 0.9, 0.03, family);
        assert_near(fast, 1.0, 0.05, family);
        assert_near(slow, 10.0, 0.05, family);
        assert!(fit.ks < most, "{fit:?}");
    }
}

#[test]
fn two_moments_are_the_fallback_of_three() {
    // With values of 0.1 and 9, the third moment is too small for any hyper-exponential.
    let values: Vec<f64> = (0..1000).map(|i| if i < 900 { 0.1 } else { 9.0 }).collect();
    let report = report(values, By::Ks);
    let hyper = report.fits.iter().filter(|fit| matches!(fit.law, Law::Hyper(_)));
    let names: Vec<&str> = hyper.map(|fit| fit.family).collect();
    assert_eq!(names, ["hyper-exponential, balanced"]);
    assert_eq!(report.fits.len() + report.refused.len(), 8 - 1);
}

#[test]
fn two_humps_are_two_erlangs() {
    let humps = [draw("erlang:8:1", 20_000, 3), draw("erlang:8:6", 10_000, 4)].concat();
    let report = report(humps, By::Aic);
    let fit = of(&report, "mixture of Erlangs");
    let (order, probability, [first, second]) = phases(fit);
    assert_eq!(order, 8);
    assert_near(probability, 2.0 / 3.0, 0.02, "share of the first hump");
    assert_near(first, 1.0, 0.03, "first hump");
    assert_near(second, 6.0, 0.03, "second hump");
    assert!(fit.ks < 0.02, "{}", fit.ks);
}

#[test]
fn likelihoods_match_hand_calculations() {
    // For ten samples of 1 and ten of 3, the exponential with mean 2 has ln L = -20 ln 2 - 40/2.
    let report = report((0..20).map(|i| if i < 10 { 1.0 } else { 3.0 }).collect(), By::Aic);
    let fit = of(&report, "exponential");
    let expected = -20.0 * 2.0_f64.ln() - 20.0;
    assert_near(fit.log_likelihood, expected, 1e-14, "likelihood");
    assert_near(fit.aic, 2.0 - 2.0 * expected, 1e-14, "AIC");
    // The distribution function of the samples is 0 below 1, 0.5 from 1 to below 3, and 1 at and
    // above 3. The distribution function of the law is 0.39 at 1 and 0.78 at 3.
    assert_close(fit.ks, 1.0 - (-0.5_f64).exp(), 1e-14, "KS");
}

#[test]
fn densities_integrate_to_their_distributions() {
    for Fit { family, law, .. } in drawn("gamma:2:0.7").fits {
        let (from, step) = (0.5, 1e-3);
        let mass: f64 = (0..4000)
            .map(|i| law.ln_density(from + (f64::from(i) + 0.5) * step).exp() * step)
            .sum();
        assert_close(mass, law.cdf(4.5) - law.cdf(from), 1e-5, family);
        assert_eq!((law.cdf(0.0), law.ln_density(-1.0)), (0.0, f64::NEG_INFINITY));
    }
}

#[test]
fn regular_samples_have_no_hyper_exponential() {
    let refused = drawn("erlang:4:2").refused;
    let families: Vec<&str> = refused.iter().map(|refused| refused.family).collect();
    assert_eq!(families, ["hyper-exponential, balanced", "hyper-exponential"]);
    assert!(refused[0].because.contains("use gamma"), "{refused:?}");
}

#[test]
fn invalid_samples_are_refused() {
    let good: Vec<f64> = (1..=20).map(f64::from).collect();
    let refused = |values: &[f64]| Report::new(values.to_vec(), false, By::Ks).expect_err("none");
    assert_eq!(refused(&good[..9]), FitError::TooFew(9));
    assert!(Report::new(good[..10].to_vec(), false, By::Ks).is_ok());
    for (bad, words) in [
        (0.0, "finer clock"),
        (-1.0, "leave it out"),
        (f64::NAN, "leave it out"),
        (f64::INFINITY, "leave it out"),
        (1e200, "another unit"),
    ] {
        let mut values = good.clone();
        values[3] = bad;
        let error = refused(&values).to_string();
        assert!(error.contains("sample 3") && error.contains(words), "{error}");
    }
}

#[test]
fn a_few_zeros_are_taken_for_half_of_the_shortest() {
    let mut values: Vec<f64> = (0..200).map(|i| 2.0 + f64::from(i % 7)).collect();
    values[0] = 0.0;
    let report = Report::new(values, true, By::Aic).expect("few");
    assert_eq!((report.zeros, report.unit), (1, "ms"));
    assert!(matches!(of(&report, "Pareto").law, Law::Pareto { min, .. } if min == 1.0));
    assert!(report.best.is_some_and(|best| best.ends_with("ms") || best.contains("ms:")));
}

#[test]
fn extreme_samples_give_fits_or_reasons() {
    let constant = report(vec![3.0; 12], By::Ks);
    assert_eq!(constant.fits.len(), 1, "only the exponential needs no spread");
    assert!(constant.refused[0].because.contains("det:3"));
    assert_eq!(constant.best.as_deref(), Some("det:3"));
    let nearly: Vec<f64> = (0..20).map(|i| 1.0 + f64::from(i) * 1e-14).collect();
    let wide: Vec<f64> = (0..20).map(|i| 10_f64.powi(8 * (i - 10))).collect();
    let outlier: Vec<f64> = (0..20).map(|i| if i == 0 { 1e80 } else { 1.0 }).collect();
    for values in [nearly, wide, outlier] {
        for fit in report(values, By::Aic).fits {
            assert!((0.0..=1.0).contains(&fit.ks) && !fit.aic.is_nan(), "{fit:?}");
        }
    }
}
