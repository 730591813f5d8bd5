//! Compares H2/H2/1 with its special cases, with Lindley's recursion, and with other distributions
//! that it approximates.

use curtail_queueing::ModelError;
use curtail_queueing::models::{Hyper, Service, h2h21, mg1, mg1_break_even, mh21, mm1};
use curtail_stats::student;

use crate::{assert_close, assert_near, assert_same as same, queue};

fn exponential(mean: f64) -> Hyper {
    Hyper { probability: 0.3, rates: [1.0 / mean; 2] }
}

#[test]
fn poisson_arrivals_are_a_special_case() {
    for utilization in [0.01, 0.4, 0.95, 0.9999] {
        let markov = mm1(utilization, 1.0).expect("stable");
        let gaps = exponential(1.0 / utilization);
        same(&h2h21(gaps, exponential(1.0)).expect("stable"), &markov);
        // The phases with probability 0 have a rate that is a pole of M/M/1.
        for probability in [0.0, 1.0] {
            let only = |rate: f64, other: f64| {
                let rates = if probability == 0.0 { [other, rate] } else { [rate, other] };
                Hyper { probability, rates }
            };
            let (gaps, service) = (only(utilization, 1.0), only(1.0, 1.0 - utilization));
            same(&h2h21(gaps, service).expect("stable"), &markov);
        }
        for scv in [1.000_001, 1.5, 4.0, 400.0] {
            let service = Hyper::balanced(1.0, scv).expect("valid");
            let poisson = mh21(utilization, service).expect("stable");
            same(&h2h21(gaps, service).expect("stable"), &poisson);
        }
    }
}

#[test]
fn exponential_service_matches_the_textbook() {
    // GI/M/1 (Kleinrock I, §6): the sojourn is exponential with rate μ(1-σ), σ = α(μ(1-σ)), and a
    // query waits with probability σ. The gaps have rate 1/4 or 1, each with probability 1/2, and σ
    // is computed by iteration.
    let gaps = Hyper { probability: 0.5, rates: [0.25, 1.0] };
    let alpha = |z: f64| 0.5 * (0.25 / (0.25 + z) + 1.0 / (1.0 + z));
    let sigma = (0..500).fold(0.5, |sigma: f64, _| alpha(1.0 - sigma));
    let queue = h2h21(gaps, exponential(1.0)).expect("stable");
    assert_near(queue.utilization, 0.4, 1e-14, "utilization");
    assert_near(queue.wait.above_zero().expect("exact"), sigma, 1e-12, "P(W > 0)");
    assert_near(queue.sojourn.mean(), 1.0 / (1.0 - sigma), 1e-12, "mean sojourn");
    let p99 = queue.sojourn.quantile(0.99).expect("exact");
    assert_near(p99, 100_f64.ln() / (1.0 - sigma), 1e-12, "p99");
}

const REPLICATIONS: u64 = 20;
const QUERIES: usize = 100_000;

/// An estimate with half the width of its interval.
#[derive(Debug)]
struct Estimate {
    mean: f64,
    half: f64,
}

/// Returns the mean, p50 and p99 of the wait and of the sojourn, computed with Lindley's recursion.
/// The first twentieth of each replication is left out.
fn lindley(gaps: &str, service: &str) -> [[Estimate; 3]; 2] {
    let mut figures = [(); 2].map(|()| [(); 3].map(|()| Vec::new()));
    for run in 0..REPLICATIONS {
        let log = queue(gaps, service, 1, QUERIES, 100 + 2 * run);
        let log = &log[QUERIES / 20 + 1..];
        let waits: Vec<f64> =
            log.iter().filter_map(|query| Some(query.start? - query.arrival)).collect();
        let sojourns = log.iter().map(|query| query.end - query.arrival).collect();
        for (mut times, figures) in [waits, sojourns].into_iter().zip(&mut figures) {
            let count = times.len() as f64;
            figures[0].push(times.iter().sum::<f64>() / count);
            for (q, figure) in [0.5, 0.99].into_iter().zip(&mut figures[1..]) {
                let at = (q * count) as usize;
                figure.push(*times.select_nth_unstable_by(at, f64::total_cmp).1);
            }
        }
    }
    // The intervals have a level of 99 %: 2.861 standard errors instead of 2.093.
    let estimate = |values: Vec<f64>| Estimate {
        mean: student::mean(&values).expect("values"),
        half: 2.861 / 2.093 * student::half_width(&values).expect("several"),
    };
    figures.map(|figures| figures.map(estimate))
}

#[test]
fn lindleys_recursion_agrees_within_its_intervals() {
    for (gap, gap_cv, cv) in [(2.0, 2.0, 2.0), (1.25, 1.5, 3.0), (4.0, 3.0, 1.5)] {
        let gaps = Hyper::balanced(gap, gap_cv * gap_cv).expect("valid");
        let service = Hyper::balanced(1.0, cv * cv).expect("valid");
        let queue = h2h21(gaps, service).expect("stable");
        let measured = lindley(&format!("h2:{gap}:{gap_cv}"), &format!("h2:1:{cv}"));
        for ([mean, p50, p99], tail) in measured.into_iter().zip([&queue.wait, &queue.sojourn]) {
            let quantile = |q: f64| tail.quantile(q).expect("exact");
            for (Estimate { mean, half }, exact) in
                [(mean, tail.mean()), (p50, quantile(0.5)), (p99, quantile(0.99))]
            {
                println!("{gap} {gap_cv} {cv}: {mean:.4} ±{half:.4}, exact {exact:.4}");
                assert_close(mean, exact, half, "within the interval");
                assert!(half <= 0.1 * exact, "{half} is too wide for {exact}");
            }
        }
    }
}

#[test]
fn fits_to_three_moments_are_close() {
    // With a CV of c, the skewness of a log-normal distribution is (c²+3)c, and that of a gamma
    // distribution is 2c.
    for (gaps, service, moments, skewness) in [
        ("lognormal:2:2", "lognormal:1:2", [2.0, 4.0, 4.0], [14.0, 14.0]),
        ("lognormal:1.25:2", "gamma:1:1.5", [1.25, 4.0, 2.25], [14.0, 3.0]),
        ("gamma:2:2", "lognormal:1:1.5", [2.0, 4.0, 2.25], [4.0, 7.875]),
    ] {
        let [gap, gap_scv, scv] = moments;
        let [[wait, ..], [_, _, p99]] = lindley(gaps, service);
        let gaps_fit = Hyper::fitted(gap, gap_scv, Some(skewness[0])).expect("valid");
        let service_fit = Hyper::fitted(1.0, scv, Some(skewness[1])).expect("valid");
        assert_near(service_fit.scv(), scv, 1e-9, "SCV");
        let fitted = h2h21(gaps_fit, service_fit).expect("stable");
        let tail = fitted.sojourn.quantile(0.99).expect("a law");
        let mean = fitted.wait.mean();
        println!("{gaps}, {service}: mean wait {wait:.3?}, {mean:.3}; p99 {p99:.2?}, {tail:.2}");
        assert_near(mean, wait.mean, 0.2, "mean wait");
        assert_near(tail, p99.mean, 0.15, "p99 of the sojourn");
    }
}

#[test]
fn moments_without_two_phases_are_refused() {
    for scv in [0.0, 0.99, f64::NAN, f64::INFINITY] {
        assert!(Hyper::fitted(1.0, scv, Some(2.0)).is_err(), "{scv}");
    }
    // No hyper-exponential distribution has this skewness, so the balanced one is returned.
    let balanced = Hyper::balanced(2.0, 4.0).expect("valid");
    for skewness in [1.0, f64::INFINITY, f64::NAN] {
        assert_eq!(Hyper::fitted(2.0, 4.0, Some(skewness)), Ok(balanced));
    }
    let full = h2h21(exponential(1.0), exponential(1.0)).expect_err("without end");
    assert_eq!(full, ModelError::Overload(1.0));
}

#[test]
fn less_variance_is_worth_a_longer_mean() {
    for (rate, scv) in [(0.1, 4.0), (0.5, 1.0), (0.9, 0.3), (0.999, 50.0)] {
        let service = Service { mean: 1.0, scv };
        let today = mg1(rate, service).expect("stable").sojourn.mean();
        assert_near(mg1_break_even(rate, service, scv).expect("today"), 1.0, 1e-12, "today");
        let mut last = 1.0;
        for share in [0.75, 0.5, 0.1, 0.0] {
            let mean = mg1_break_even(rate, service, share * scv).expect("a mean");
            assert!(mean > last, "{share}: {mean}");
            let even = Service { mean, scv: share * scv / mean / mean };
            assert_near(mg1(rate, even).expect("stable").sojourn.mean(), today, 1e-10, "as slow");
            last = mean;
        }
        for variance in [-1.0, f64::NAN, 1e9] {
            let error = mg1_break_even(rate, service, variance).expect_err("no mean").to_string();
            assert!(error.contains("variance of the service time"), "{error}");
        }
    }
}
