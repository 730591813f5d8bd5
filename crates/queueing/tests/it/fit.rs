//! Fits find the parameters of seeded samples again, and say how well they fit.

use curtail_dist::Spec;
use curtail_queueing::fit::{
    By, Family, Fit, FitError, Parameters, Sample, best_fit, erlangs, exponential, gamma, hill,
    hyper, hyper_balanced, lognormal, pareto, weibull,
};

use crate::{assert_close, assert_near, draw};

const COUNT: usize = 50_000;

fn sample(text: &str) -> Sample {
    Sample::new(&draw(text, COUNT, 17)).expect(text)
}

/// The numbers of a fit's specification.
fn numbers(fit: &Fit) -> Vec<f64> {
    let text = fit.spec.as_ref().expect("a form").to_string();
    text.split(':').skip(1).map(|number| number.parse().expect("a number")).collect()
}

/// The fit is the family of `text` with nearly its numbers, and lies close to the samples.
fn recovers(text: &str, fit: &Fit, tolerance: f64) {
    let name = text.split(':').next().expect("a name");
    assert!(fit.spec.as_ref().is_some_and(|spec| spec.to_string().starts_with(name)), "{fit:?}");
    let expected = text.split(':').skip(1).map(|number| number.parse::<f64>().expect("a number"));
    for (found, expected) in numbers(fit).into_iter().zip(expected) {
        assert_near(found, expected, tolerance, text);
    }
    // The Kolmogorov-Smirnov distance of a true law is below 1.63/√n in 99 of 100 cases.
    assert!(fit.ks < 1.63 / (COUNT as f64).sqrt(), "{text}: {}", fit.ks);
    let spec = fit.spec.as_ref().expect("a form");
    let mean = spec.resolve(1.0).expect("in range").mean();
    let same = (mean / fit.parameters.mean() - 1.0).abs() < 1e-9;
    assert!(same || mean == fit.parameters.mean(), "{text}: {mean} is the mean of {spec}");
    assert_eq!(spec.to_string().parse::<Spec>().as_ref(), Ok(spec));
}

#[test]
fn parameters_are_recovered() {
    recovers("exp:5", &exponential(&sample("exp:5")), 0.02);
    for text in ["lognormal:2:0.5", "lognormal:2:1.5"] {
        recovers(text, &lognormal(&sample(text)).expect("spread"), 0.03);
    }
    for text in ["gamma:2:0.2", "gamma:2:1.5", "gamma:3:1"] {
        recovers(text, &gamma(&sample(text)).expect("spread"), 0.03);
    }
    for text in ["weibull:0.5:3", "weibull:1:3", "weibull:4:3"] {
        recovers(text, &weibull(&sample(text)).expect("spread"), 0.03);
    }
    for text in ["pareto:0.8:5", "pareto:2.5:5"] {
        recovers(text, &pareto(&sample(text)).expect("spread"), 0.03);
    }
    recovers("h2:1:2", &hyper_balanced(&sample("h2:1:2")).expect("variance"), 0.05);
}

#[test]
fn three_moments_find_unbalanced_phases() {
    // One in ten is ten times longer: p = 0.9, means 1 and 10.
    let (fast, slow) = (draw("exp:1", 450_000, 1), draw("exp:10", 50_000, 2));
    let sample = Sample::new(&[fast, slow].concat()).expect("valid");
    let fit = hyper(&sample).expect("variance");
    let Parameters::Hyper(law) = fit.parameters else { panic!("{fit:?}") };
    assert_near(law.probability, 0.9, 0.03, "probability");
    assert_near(1.0 / law.rates[0], 1.0, 0.05, "fast");
    assert_near(1.0 / law.rates[1], 10.0, 0.05, "slow");
    assert_eq!(fit.spec, None);
    let likely = erlangs(&sample).expect("spread");
    let Parameters::Erlangs(law) = likely.parameters else { panic!("{likely:?}") };
    assert_eq!(law.order, 1);
    assert_near(order_mean(&likely, 1), 10.0, 0.05, "slow, by likelihood");
    assert!(likely.ks < 0.01 && fit.ks < 0.02, "{} {}", likely.ks, fit.ks);
}

fn order_mean(fit: &Fit, branch: usize) -> f64 {
    let Parameters::Erlangs(law) = fit.parameters else { panic!("{fit:?}") };
    f64::from(law.order) / law.rates[branch]
}

#[test]
fn two_moments_are_the_fallback_of_three() {
    // Squares 1 and 9 make the third moment too small for any hyper-exponential.
    let values: Vec<f64> = (0..1000).map(|i| if i < 900 { 0.1 } else { 9.0 }).collect();
    let sample = Sample::new(&values).expect("valid");
    let fit = hyper(&sample).expect("variance");
    assert!(matches!(fit.parameters, Parameters::HyperBalanced(_)), "{fit:?}");
    assert_eq!(fit, hyper_balanced(&sample).expect("variance"));
    let ranking = best_fit(&sample, By::Ks);
    let balanced = |fit: &Fit| matches!(fit.parameters, Parameters::HyperBalanced(_));
    assert_eq!(ranking.fits.iter().filter(|(_, fit)| balanced(fit)).count(), 1);
}

#[test]
fn two_humps_are_two_erlangs() {
    let (low, high) = (draw("erlang:8:1", 20_000, 3), draw("erlang:8:6", 10_000, 4));
    let fit = erlangs(&Sample::new(&[low, high].concat()).expect("valid")).expect("spread");
    let Parameters::Erlangs(law) = fit.parameters else { panic!("{fit:?}") };
    assert_eq!(law.order, 8);
    assert_near(law.probability, 2.0 / 3.0, 0.02, "share of the first hump");
    assert_near(order_mean(&fit, 0), 1.0, 0.03, "first hump");
    assert_near(order_mean(&fit, 1), 6.0, 0.03, "second hump");
    assert_near(fit.parameters.mean(), 8.0 / 3.0, 0.03, "mean");
    assert!(fit.ks < 0.02, "{}", fit.ks);
}

#[test]
fn likelihoods_are_those_of_hand() {
    // Ten samples of 1 and ten of 3, exponential of mean 2: ln L = -20 ln 2 - 40/2.
    let values: Vec<f64> = (0..20).map(|i| if i < 10 { 1.0 } else { 3.0 }).collect();
    let fit = exponential(&Sample::new(&values).expect("valid"));
    let expected = -20.0 * 2.0_f64.ln() - 20.0;
    assert_near(fit.log_likelihood, expected, 1e-14, "likelihood");
    assert_near(fit.aic, 2.0 - 2.0 * expected, 1e-14, "AIC");
    // The samples have 0 below 1, 0.5 from there, and 1 from 3; the law 0.39 at 1, and 0.78 at 3.
    assert_close(fit.ks, 1.0 - (-0.5_f64).exp(), 1e-14, "KS");
}

#[test]
fn densities_integrate_to_their_distributions() {
    let sample = sample("gamma:2:0.7");
    for (family, fit) in best_fit(&sample, By::Aic).fits {
        let from = 0.5;
        let step = 1e-3;
        let mass: f64 = (0..4000)
            .map(|i| fit.parameters.ln_density(from + (f64::from(i) + 0.5) * step).exp() * step)
            .sum();
        let expected = fit.parameters.cdf(4.5) - fit.parameters.cdf(from);
        assert_close(mass, expected, 1e-5, &format!("{family:?}"));
        assert_eq!(fit.parameters.cdf(0.0), 0.0);
        assert_eq!(fit.parameters.ln_density(-1.0), f64::NEG_INFINITY);
    }
}

#[test]
fn the_family_that_was_drawn_wins() {
    for (text, family) in [
        ("exp:5", Family::Exponential),
        ("lognormal:2:1", Family::LogNormal),
        ("gamma:2:0.6", Family::Gamma),
        ("weibull:0.6:3", Family::Weibull),
        ("pareto:1.5:5", Family::Pareto),
    ] {
        let sample = sample(text);
        let ranking = best_fit(&sample, By::Aic);
        let names: Vec<Family> = ranking.fits.iter().map(|(family, _)| *family).collect();
        let rank = names.iter().position(|name| *name == family).expect("it fits");
        // Families that hold the true one may come out a hair better.
        let lead = ranking.fits[rank].1.aic - ranking.fits[0].1.aic;
        assert!(lead <= 4.0, "{text}: {lead} behind in {names:?}");
        let best = ranking.best().expect("one");
        assert!(best.ks < 0.01, "{text}: {best:?}");
        assert!(ranking.best_with_spec().is_some_and(|fit| fit.spec.is_some()));
        let by_ks = best_fit(&sample, By::Ks).fits;
        assert!(by_ks.is_sorted_by(|a, b| a.1.ks <= b.1.ks));
        assert_eq!(
            names.len() + ranking.refused.len() + fallen_back(&ranking.fits),
            Family::ALL.len()
        );
    }
}

#[test]
fn the_best_that_is_told_can_be_simulated() {
    let ranking = best_fit(&sample("pareto:0.8:5"), By::Aic);
    assert_eq!(ranking.fits[0].0, Family::Pareto, "it is the best, but has no mean");
    let spec = ranking.best_with_spec().and_then(|fit| fit.spec.as_ref()).expect("another one");
    assert!(spec.resolve(1.0).expect("a distribution").mean().is_finite(), "{spec}");
}

/// 1 if the three-moment fit fell back to the balanced one, and so is not listed.
fn fallen_back(fits: &[(Family, Fit)]) -> usize {
    let has = |family| fits.iter().any(|(name, _)| *name == family);
    usize::from(has(Family::HyperBalanced) && !has(Family::Hyper))
}

#[test]
fn regular_samples_have_no_hyper_exponential() {
    let refused = best_fit(&sample("erlang:4:2"), By::Aic).refused;
    assert!(refused.iter().any(|(family, error)| *family == Family::Hyper
        && matches!(error, FitError::TooRegular(scv) if *scv < 0.3)));
    assert!(refused[0].1.to_string().contains("use gamma"), "{refused:?}");
}

#[test]
fn hill_sees_a_tail_behind_a_body() {
    let mixed = [draw("exp:1", 45_000, 5), draw("pareto:1.5:10", 5000, 6)].concat();
    let sample = Sample::new(&mixed).expect("valid");
    assert_near(hill(&sample, 1000).expect("a tail"), 1.5, 0.1, "Hill");
    assert!(hill(&sample, 1).expect_err("no tail").to_string().contains("2 to 49999"));
    assert!(hill(&sample, mixed.len()).is_err());
}

#[test]
fn what_is_no_sample_is_refused() {
    let good: Vec<f64> = (1..=20).map(f64::from).collect();
    assert_eq!(Sample::new(&good[..9]), Err(FitError::TooFew(9)));
    assert!(Sample::new(&good[..10]).is_ok());
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut values = good.clone();
        values[3] = bad;
        let error = Sample::new(&values).expect_err("no sample").to_string();
        assert!(error.contains("sample 3") && error.contains("leave it out"), "{error}");
    }
    let mut values = good.clone();
    values[5] = 1e200;
    assert!(Sample::new(&values).expect_err("extreme").to_string().contains("another unit"));
}

#[test]
fn extreme_samples_give_fits_or_reasons() {
    let constant = Sample::new(&[3.0; 12]).expect("valid");
    assert_eq!(lognormal(&constant), Err(FitError::NoSpread(3.0)));
    let ranking = best_fit(&constant, By::Ks);
    assert_eq!(ranking.fits.len(), 1, "only the exponential needs no spread");
    assert!(ranking.refused[0].1.to_string().contains("det:3"));
    let nearly: Vec<f64> = (0..20).map(|i| 1.0 + f64::from(i) * 1e-14).collect();
    let wide: Vec<f64> = (0..20).map(|i| 10_f64.powi(8 * (i - 10))).collect();
    let outlier: Vec<f64> = (0..20).map(|i| if i == 0 { 1e80 } else { 1.0 }).collect();
    for values in [nearly, wide, outlier] {
        for (family, fit) in best_fit(&Sample::new(&values).expect("valid"), By::Aic).fits {
            assert!((0.0..=1.0).contains(&fit.ks), "{family:?}: {fit:?}");
            assert!(!fit.aic.is_nan(), "{family:?}: {fit:?}");
        }
    }
}
