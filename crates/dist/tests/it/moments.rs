//! Checks that draws have the promised moments.

use curtail_dist::{Distribution, Spec, seed};

const MS: f64 = 1e6;
const DRAWS: usize = 200_000;

fn resolve(text: &str) -> Distribution {
    text.parse::<Spec>().expect(text).resolve(MS).expect(text)
}

fn draw(text: &str, count: usize) -> Vec<f64> {
    let distribution = resolve(text);
    let mut rng = seed::rng(seed::stream(7, &[text.as_bytes()]));
    (0..count).map(|_| distribution.sample(&mut rng)).collect()
}

fn average(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn assert_close(actual: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (actual - expected).abs();
    assert!(error <= tolerance, "{what}: {actual} is not {expected} within {tolerance}");
}

/// Each entry contains the text, the mean in milliseconds and the squared coefficient of variation.
/// Both were calculated manually.
const MOMENTS: &[(&str, f64, f64)] = &[
    ("exp:5ms", 5.0, 1.0),
    ("exp:5", 5.0, 1.0),
    ("det:3ms", 3.0, 0.0),
    ("det:0", 0.0, 0.0),
    ("lognormal:2ms:0.5", 2.0, 0.25),
    ("lognormal:2ms:0", 2.0, 0.0),
    ("gamma:2ms:0.5", 2.0, 0.25),
    ("gamma:2ms:2", 2.0, 4.0),
    ("gamma:2ms:0", 2.0, 0.0),
    ("erlang:1:2ms", 2.0, 1.0),
    ("erlang:4:2ms", 2.0, 0.25),
    ("h2:1ms:1", 1.0, 1.0),
    ("h2:1ms:3", 1.0, 9.0),
    // alpha m/(alpha-1); 1/(alpha(alpha-2)).
    ("pareto:5:4ms", 5.0, 1.0 / 15.0),
    // With alpha = 1 and bounds 1 and e, the mean is 1/(1-1/e), and the second moment is e.
    ("pareto:1:1:2.718281828459045", 1.581_976_706_869_326, 0.086_161_269_630_487_5),
    ("weibull:1:3ms", 3.0, 1.0),
    // For shape 2 (Rayleigh), the mean is √π/2 times the scale, and the squared CV is 4/π - 1.
    ("weibull:2:1ms", 0.886_226_925_452_758, 0.273_239_544_735_162_7),
    ("bimodal:0.25:8ms", 2.0, 3.0),
    ("bimodal:0:8ms", 0.0, 0.0),
    ("bimodal:1:8ms", 8.0, 0.0),
    // Second moment 0.25·2·8².
    ("hiccup:0.25:8ms", 2.0, 7.0),
    ("hiccup:1:8ms", 8.0, 1.0),
    ("uniform:1ms:3ms", 2.0, 1.0 / 12.0),
    ("uniform:2:2", 2.0, 0.0),
    // The means and variances of independent terms add up, so the result is (4 + 36)/5².
    ("exp:2ms+bimodal:0.2:15ms", 5.0, 40.0 / 25.0),
];

#[test]
fn moments_equal_those_computed_by_hand() {
    for &(text, mean_ms, scv) in MOMENTS {
        let distribution = resolve(text);
        assert_close(distribution.mean() / MS, mean_ms, 1e-9, text);
        assert_close(distribution.scv(), scv, 1e-9, text);
        let variance = scv * (mean_ms * MS).powi(2);
        assert_close(distribution.variance(), variance, 1e-8 * variance + 1e-9, text);
    }
}

#[test]
fn skewness_equals_that_computed_by_hand() {
    for (text, skewness) in [
        ("exp:5ms", 2.0),
        ("det:3ms", 0.0),
        // (c²+3)c.
        ("lognormal:2ms:0.5", 1.625),
        // 2c.
        ("gamma:2ms:0.5", 1.0),
        ("erlang:4:2ms", 1.0),
        // The means of the phases are 1/(1 ± √0.6), and the third moment is 60. The skewness is
        // therefore (60 - 3·4 - 1)/8.
        ("h2:1ms:2", 47.0 / 8.0),
        // 2(1+α)/(α-3)·√((α-2)/α).
        ("pareto:5:4ms", 6.0 * 0.6_f64.sqrt()),
        ("pareto:3:1ms", f64::INFINITY),
        ("pareto:1.5:1ms", f64::INFINITY),
        ("weibull:1:3ms", 2.0),
        // For shape 2 (Rayleigh), the skewness is 2√π(π-3)/(4-π)^1.5.
        ("weibull:2:1ms", 0.631_110_657_818_937),
        // (1-2p)/√(p(1-p)).
        ("bimodal:0.25:8ms", 0.5 / 0.1875_f64.sqrt()),
        // The third moment is 0.25·6·8³. Subtracting 3·2·28 and 2³ gives the third central moment.
        ("hiccup:0.25:8ms", 592.0 / 28_f64.powf(1.5)),
        ("uniform:1ms:3ms", 0.0),
        // Third central moments add up: (2·2³ + 15³·0.2·0.8·0.6)/40^1.5.
        ("exp:2ms+bimodal:0.2:15ms", 340.0 / 40_f64.powf(1.5)),
    ] {
        let actual = resolve(text).skewness();
        assert!(actual == skewness || (actual - skewness).abs() < 1e-9, "{text}: {actual}");
    }
    let bounded = resolve("pareto:2.5:1ms:100ms");
    let cubes = average(
        draw("pareto:2.5:1ms:100ms", DRAWS)
            .iter()
            .map(|x| ((x - bounded.mean()) / bounded.variance().sqrt()).powi(3)),
    );
    assert_close(bounded.skewness() / cubes, 1.0, 0.2, "bounded");
}

#[test]
fn samples_have_the_moments_of_their_distribution() {
    for &(text, ..) in MOMENTS {
        let distribution = resolve(text);
        let samples = draw(text, DRAWS);
        let mean = average(samples.iter().copied());
        let squares: Vec<f64> = samples.iter().map(|x| (x - mean).powi(2)).collect();
        let variance = average(squares.iter().copied());
        let spread_of_squares = average(squares.iter().map(|s| (s - variance).powi(2))).sqrt();

        // The tolerance is five standard errors. The seeds are fixed, so this never fails by
        // chance.
        let width = 5.0 / (DRAWS as f64).sqrt();
        let rounding = 1e-9 * distribution.mean() + 1e-9;
        let deviation = distribution.variance().sqrt();
        assert_close(mean, distribution.mean(), width * deviation + rounding, text);
        let band = width * spread_of_squares + rounding;
        assert_close(variance, distribution.variance(), band, text);
    }
}

#[test]
fn heavy_tails_have_infinite_moments() {
    assert!(resolve("pareto:1:1ms").mean().is_infinite());
    assert!(resolve("pareto:2:1ms").mean().is_finite());
    assert!(resolve("pareto:2:1ms").variance().is_infinite());
    assert!(resolve("pareto:2:1ms").scv().is_infinite());
    assert!(resolve("exp:1ms+pareto:0.5:1ms").mean().is_infinite());
    assert!(resolve("pareto:0.5:1ms:9ms").variance().is_finite());
}

#[test]
fn samples_stay_inside_their_support() {
    let within = |text: &str, low: f64, high: f64| {
        for x in draw(text, 10_000) {
            assert!((low * MS..=high * MS).contains(&x), "{text} drew {x}");
        }
    };
    within("uniform:1ms:3ms", 1.0, 3.0);
    within("pareto:1.5:2ms", 2.0, f64::INFINITY);
    within("pareto:0.3:2ms:50ms", 2.0, 50.0);
    within("pareto:1e-6:2ms:50ms", 2.0, 50.0);
    assert!(draw("bimodal:0.3:8ms", 1000).iter().all(|&x| x == 0.0 || x == 8.0 * MS));
    // Draws from the heaviest tail that can be specified are clamped to the range of a clock.
    within("pareto:1e-6:1ms", 0.0, curtail_dist::MAX_SAMPLE_NS / MS);
}

#[test]
fn bounded_pareto_has_its_quantiles() {
    // Solves F(x) = (1 - (m/x)^a)/(1 - (m/M)^a) = 1/2.
    let (alpha, min, max) = (1.5_f64, 1.0_f64, 20.0_f64);
    let mass = 1.0 - (min / max).powf(alpha);
    let median = min * (1.0 - 0.5 * mass).powf(-1.0 / alpha) * MS;
    let samples = draw("pareto:1.5:1:20", DRAWS);
    let below = samples.iter().filter(|&&x| x < median).count() as f64 / DRAWS as f64;
    assert_close(below, 0.5, 2.5 / (DRAWS as f64).sqrt(), "share below the median");
}

#[test]
fn hyper_exponential_branches_have_balanced_means() {
    // CV² = 9: p = (1 + √0.8)/2, and each branch contributes half of the mean. These two conditions
    // determine the distribution function.
    let p = f64::midpoint(1.0, 0.8_f64.sqrt());
    let at = 2.0;
    let above = p * (-2.0 * p * at).exp() + (1.0 - p) * (-2.0 * (1.0 - p) * at).exp();
    let samples = draw("h2:1ms:3", DRAWS);
    let share = samples.iter().filter(|&&x| x > at * MS).count() as f64 / DRAWS as f64;
    assert_close(share, above, 5.0 * (above / DRAWS as f64).sqrt(), "share above two means");
}

#[test]
fn times_without_units_are_multiples_of_the_unit() {
    let spec: Spec = "lognormal:2:0.5+bimodal:0.5:3".parse().expect("valid");
    let one = spec.resolve(1.0).expect("valid");
    let million = spec.resolve(MS).expect("valid");
    assert_close(million.mean(), one.mean() * MS, 1e-3, "mean");
    assert_close(million.scv(), one.scv(), 1e-12, "scv");
    let sample = |d: &Distribution| d.sample(&mut seed::rng(3));
    assert_close(sample(&million), sample(&one) * MS, 1.0, "sample");

    let absolute: Spec = "exp:5ms".parse().expect("valid");
    assert_eq!(absolute.resolve(1.0).expect("valid").mean(), 5.0 * MS);
}

#[test]
fn resolve_errors_name_the_reason() {
    let refuse = |text: &str, unit_ns: f64| {
        text.parse::<Spec>().expect(text).resolve(unit_ns).expect_err(text).to_string()
    };
    for unit_ns in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refuse("exp:1", unit_ns).contains("positive"), "{unit_ns}");
    }
    assert!(refuse("exp:1e18s", 1.0).contains("292 years"));
    assert!(refuse("exp:1e-20", 1.0).contains("1e-6"));
    assert!(refuse("exp:1+det:1e300", MS).contains("`1e300`"));
}

#[test]
fn draws_do_not_change() {
    // Recorded experiments depend on these draws, so this test must fail if the library changes its
    // algorithm.
    for (text, ns) in [
        ("exp:5ms", 1_031_936.0),
        ("lognormal:5ms:1", 535_367.0),
        ("gamma:5ms:2", 252.0),
        ("erlang:4:5ms", 1_016_519.0),
        ("h2:5ms:3", 4_549_622.0),
        ("pareto:2:5ms", 21_941_976.0),
        ("pareto:2:5ms:9ms", 5_092_241.0),
        ("weibull:2:5ms", 8_599_313.0),
        ("uniform:0ms:5ms", 259_632.0),
    ] {
        assert_eq!(resolve(text).sample(&mut seed::rng(1)).round(), ns, "{text}");
    }
}
