//! Checks models against textbook values and against each other in special cases, and checks their
//! errors.

use curtail_queueing::models::{
    Arrivals, Hyper, Service, erlang_c, gg1, gg1_heavy_traffic, gg1_upper_bound, ggk, md1, mg1,
    mh21, mm1, mmk,
};
use curtail_queueing::{Basis, ModelError};

use crate::{assert_close, assert_near, assert_same as same};

fn poisson(rate: f64) -> Arrivals {
    Arrivals { rate, scv: 1.0 }
}

#[test]
fn mm1_matches_the_textbook() {
    // By the formulas of Kleinrock I, §3.2, with λ = 3 and μ = 4, E[T] is 1/(μ-λ) = 1, and E[N] is
    // ρ/(1-ρ) = 3.
    let queue = mm1(3.0, 4.0).expect("stable");
    assert_eq!(queue.utilization, 0.75);
    assert_eq!(queue.sojourn.mean(), 1.0);
    assert_eq!(queue.wait.mean(), 0.75);
    assert_eq!(queue.mean_in_system(), 3.0);
    assert_eq!(queue.mean_waiting(), 2.25);
    // P(W > 0) is ρ, and the median of an exponential sojourn is ln 2 times its mean.
    assert_eq!(queue.wait.above(0.0), Some(0.75));
    assert_eq!(queue.wait.quantile(0.25), Ok(0.0));
    assert_close(queue.sojourn.quantile(0.5).expect("exact"), 2.0_f64.ln(), 1e-15, "median");
}

#[test]
fn erlang_c_matches_the_tables() {
    // The probability is ρ for k = 1, 2ρ²/(1+ρ) for k = 2, and 4/9 for three servers at 2 erlangs
    // (the eye clinic of Gross and Harris, §2.3).
    assert_close(erlang_c(0.3, 1).expect("stable"), 0.3, 1e-15, "k = 1");
    assert_close(erlang_c(1.2, 2).expect("stable"), 2.0 * 0.36 / 1.6, 1e-15, "k = 2");
    assert_close(erlang_c(2.0, 3).expect("stable"), 4.0 / 9.0, 1e-15, "k = 3");
    // These values are from tables of the Erlang C formula.
    assert_close(erlang_c(4.0, 5).expect("stable"), 0.5541, 5e-5, "k = 5");
    assert_close(erlang_c(8.0, 10).expect("stable"), 0.4092, 5e-5, "k = 10");
    assert_eq!(erlang_c(0.0, 7), Ok(0.0));
    assert!(erlang_c(999_000.0, 1_000_000).expect("stable") < 0.5);
}

#[test]
fn mmk_matches_the_textbook() {
    // Three servers at 2 erlangs: E[W] = C/(kμ-λ) = 4/9.
    let queue = mmk(2.0, 1.0, 3).expect("stable");
    assert_close(queue.wait.mean(), 4.0 / 9.0, 1e-15, "mean wait");
    assert_close(queue.sojourn.mean(), 13.0 / 9.0, 1e-15, "mean sojourn");
    assert_close(queue.wait.above(1.0).expect("exact"), 4.0 / 9.0 / 1.0_f64.exp(), 1e-15, "wait");
    // Here kμ - λ = μ: with probability C, the sojourn has an Erlang distribution with two stages,
    // whose tail is e^(-t)(1+t).
    let t = 2.5_f64;
    let expected = (-t).exp() * (5.0 / 9.0 + 4.0 / 9.0 * (1.0 + t));
    assert_close(queue.sojourn.above(t).expect("exact"), expected, 1e-15, "degenerate");
    // For two servers at ρ = 0.9, the service has rate 1. With probability C = 1.62/1.9, it is
    // preceded by a wait with rate 0.2.
    let queue = mmk(1.8, 1.0, 2).expect("stable");
    let waits = 1.62 / 1.9;
    let mixture = (1.0 - waits) * (-t).exp() + waits * ((-0.2 * t).exp() - 0.2 * (-t).exp()) / 0.8;
    assert_close(queue.sojourn.above(t).expect("exact"), mixture, 1e-14, "mixture");
}

#[test]
fn md1_has_the_mean_of_pollaczek_and_khinchine() {
    // The mean is ρD/(2(1-ρ)), half that of M/M/1. The integral of P(W > t) must give the same
    // mean.
    for utilization in [0.2, 0.5, 0.9] {
        let queue = md1(utilization, 1.0).expect("stable");
        let half = mm1(utilization, 1.0).expect("stable").wait.mean() / 2.0;
        assert_near(queue.wait.mean(), half, 1e-14, "mean");
        let (step, end) = (1e-3, 200_000);
        let integral: f64 = (0..end)
            .map(|i| queue.wait.above((f64::from(i) + 0.5) * step).expect("exact") * step)
            .sum();
        assert_near(integral, half, 1e-5, "integral of the law");
        assert_close(queue.wait.above(0.0).expect("exact"), utilization, 1e-14, "P(W > 0)");
    }
}

#[test]
fn md1_has_percentiles_from_none_to_heavy_traffic() {
    // Erlang 1909: between D and 2D, P(W ≤ xD) is (1-ρ)(e^(ρx) - ρ(x-1)e^(ρ(x-1))).
    let queue = md1(0.5, 1.0).expect("stable");
    let expected = 1.0 - 0.5 * (0.75_f64.exp() - 0.25 * 0.25_f64.exp());
    assert_close(queue.wait.above(1.5).expect("exact"), expected, 1e-14, "one and a half");
    let median = queue.sojourn.quantile(0.75).expect("exact");
    assert_close(median, 1.0 + 2.0 * 1.5_f64.ln(), 1e-12, "where (1-ρ)e^(ρx) = 0.75");
    let busy = md1(1.0 - 1e-9, 1.0).expect("stable");
    let p99 = busy.wait.quantile(0.99).expect("exact");
    assert_near(p99, busy.wait.mean() * 100.0_f64.ln(), 1e-6, "heavy traffic is exponential");
}

#[test]
fn mg1_matches_the_tutorial() {
    // Document 004: E[T] = Var(S)/(2 E[IAT] (1-ρ)) + E[S](2-ρ)/(2(1-ρ)).
    let (mean, scv, rate) = (2.0, 3.5, 0.3);
    let queue = mg1(rate, Service { mean, scv }).expect("stable");
    let rho = 0.6;
    let tutorial =
        scv * mean * mean * rate / (2.0 * (1.0 - rho)) + mean * (2.0 - rho) / (2.0 - 2.0 * rho);
    assert_near(queue.sojourn.mean(), tutorial, 1e-14, "mean sojourn");
    assert_eq!(queue.wait.mean_basis(), Basis::Exact);
    assert!(matches!(queue.wait.law_basis(), Some(Basis::Approximation { .. })));
    let error = queue.sojourn.quantile(0.99).expect_err("a mean only");
    assert!(error.to_string().contains("simulate"), "{error}");
}

#[test]
fn percentiles_are_removed_if_the_skewness_contradicts_them() {
    // The services have mean 1: constant, exponential, and gamma and log-normal with a CV of c. The
    // skewness is 2c for gamma, and (c²+3)c for log-normal.
    for (scv, skewness, rate, kept) in [
        (0.0, 0.0, 0.01, true),
        (1.0, 2.0, 0.01, true),
        (4.0, 4.0, 0.01, true),
        (1.0, 4.0, 0.01, true),
        (4.0, 14.0, 0.5, false),
        (4.0, 14.0, 0.9, true),
        (0.8, f64::INFINITY, 0.9, false),
        (0.8, f64::NAN, 0.5, false),
    ] {
        let service = Service { mean: 1.0, scv };
        let all = mg1(rate, service).expect("stable");
        let given = all.clone().given_skewness(service, skewness);
        assert_eq!(given.wait.law().is_some(), kept, "{scv}, {skewness} at {rate}");
        assert_eq!(given.wait.mean(), all.wait.mean());
        assert_eq!(given.wait.above_zero(), Some(rate), "P(W > 0) is exact all the same");
        assert_eq!(given.wait.quantile(0.9).is_ok(), kept);
    }
    let exact = mm1(0.5, 1.0).expect("stable");
    let service = Service { mean: 1.0, scv: 1.0 };
    assert_eq!(exact.clone().given_skewness(service, f64::INFINITY), exact);
}

#[test]
fn models_agree_in_special_cases() {
    for rate in [0.01, 0.4, 0.95] {
        let exponential = Service { mean: 1.0, scv: 1.0 };
        let markov = mm1(rate, 1.0).expect("stable");
        same(&mmk(rate, 1.0, 1).expect("stable"), &markov);
        same(&mg1(rate, exponential).expect("stable"), &markov);
        for probability in [0.0, 0.3, 1.0] {
            let hyper = Hyper { probability, rates: [1.0, 1.0] };
            same(&mh21(rate, hyper).expect("stable"), &markov);
        }
        // A phase with probability 0 changes nothing. The rate of this phase is deliberately the
        // pole of M/M/1.
        let hyper = Hyper { probability: 1.0, rates: [1.0, 1.0 - rate] };
        same(&mh21(rate, hyper).expect("stable"), &markov);
        for scv in [0.0, 0.5, 4.0] {
            let service = Service { mean: 1.0, scv };
            let general = mg1(rate, service).expect("stable");
            same(&gg1(poisson(rate), service).expect("stable"), &general);
            same(&gg1_heavy_traffic(poisson(rate), service).expect("stable"), &general);
            same(&ggk(poisson(rate), service, 1).expect("stable"), &general);
        }
        let constant = Service { mean: 1.0, scv: 0.0 };
        let general = mg1(rate, constant).expect("stable");
        assert_near(md1(rate, 1.0).expect("stable").wait.mean(), general.wait.mean(), 1e-14, "D");
        let markov = mmk(6.0 * rate, 1.0, 6).expect("stable");
        same(&ggk(poisson(6.0 * rate), exponential, 6).expect("stable"), &markov);
    }
}

#[test]
fn mh21_has_the_moments_of_pollaczek_and_khinchine() {
    // From the law: P(W > 0) = ρ, and E[W] is λE[S²]/(2(1-ρ)) = 0.25·(0.5·2/4 +
    // 0.5·2/0.25)/(2·0.6875) for phases with means 0.5 and 2, probability 1/2, and λ = 0.25.
    let hyper = Hyper { probability: 0.5, rates: [2.0, 0.5] };
    assert_near(hyper.mean(), 1.25, 1e-14, "mean");
    assert_near(hyper.scv(), 1.72, 1e-14, "scv");
    let queue = mh21(0.25, hyper).expect("stable");
    assert_near(queue.wait.mean(), 0.25 * 4.25 / (2.0 * 0.6875), 1e-14, "mean wait");
    let law = queue.wait.law().expect("exact");
    assert_close(law.above(0.0), 0.3125, 1e-14, "P(W > 0)");
    for tail in [&queue.wait, &queue.sojourn] {
        let step = 1e-3;
        let integral: f64 = (0..150_000)
            .map(|i| tail.above((f64::from(i) + 0.5) * step).expect("exact") * step)
            .sum();
        assert_near(integral, tail.mean(), 1e-6, "integral of the law");
    }
    assert_close(queue.sojourn.above(0.0).expect("exact"), 1.0, 1e-14, "P(T > 0)");
}

#[test]
fn hyper_exponentials_have_the_requested_moments() {
    let balanced = Hyper::balanced(3.0, 9.0).expect("valid");
    assert_near(balanced.mean(), 3.0, 1e-14, "mean");
    assert_near(balanced.scv(), 9.0, 1e-13, "scv");
    assert_near(balanced.probability / balanced.rates[0], 1.5, 1e-14, "balance");
    // p = 0.9, means 1 and 10: E[S^k] = k!(0.9 + 0.1·10^k).
    let made = Hyper::from_moments([1.9, 2.0 * 10.9, 6.0 * 100.9]).expect("there is one");
    assert_near(made.probability, 0.9, 1e-12, "probability");
    assert_near(made.rates[0], 1.0, 1e-12, "fast");
    assert_near(made.rates[1], 0.1, 1e-12, "slow");
    for moments in [[1.0, 2.0, 6.0], [1.0, 1.5, 9.0], [1.0, 4.0, 20.0], [1.0, f64::NAN, 1.0]] {
        assert_eq!(Hyper::from_moments(moments), None, "{moments:?}");
    }
    assert!(Hyper::balanced(1.0, 0.9).is_err());
}

#[test]
fn gg1_refines_kingman() {
    // For ρ = 0.5, cₐ² = 0.5 and cₛ² = 0.25, Kingman's formula gives 0.375, and the factor is
    // exp(-2·0.5·0.25/(3·0.5·0.75)) = e^(-2/9).
    let (arrivals, service) = (Arrivals { rate: 0.5, scv: 0.5 }, Service { mean: 1.0, scv: 0.25 });
    let kingman = gg1_heavy_traffic(arrivals, service).expect("stable").wait.mean();
    assert_near(kingman, 0.375, 1e-14, "Kingman");
    let refined = gg1(arrivals, service).expect("stable").wait.mean();
    assert_near(refined, 0.375 * (-2.0_f64 / 9.0).exp(), 1e-14, "refined");
    // For bursty arrivals (cₐ² = 3) and cₛ² = 0.5, the factor is exp(-0.5·2/(3+2)).
    let bursty = Arrivals { rate: 0.5, scv: 3.0 };
    let wait = gg1(bursty, Service { mean: 1.0, scv: 0.5 }).expect("stable").wait.mean();
    assert_near(wait, 1.75 * (-0.2_f64).exp(), 1e-14, "bursty");
    // The bound is (0.5/0.5 + 0.5·0.25)/(2·0.5).
    let bound = gg1_upper_bound(arrivals, service).expect("stable");
    // If gaps and services are constant, queries never wait.
    let (clock, constant) = (Arrivals { rate: 0.7, scv: 0.0 }, Service { mean: 1.0, scv: 0.0 });
    assert_eq!(gg1(clock, constant).expect("stable").wait.mean(), 0.0);
    assert_near(bound.wait.mean(), 1.125, 1e-14, "bound");
    assert_eq!(bound.wait.mean_basis(), Basis::UpperBound);
    assert!(bound.wait.law().is_none());
}

#[test]
fn errors_suggest_a_fix() {
    let service = Service { mean: 1.0, scv: 1.0 };
    let infinite = Service { mean: 1.0, scv: f64::INFINITY };
    let errors = [
        (mm1(1.0, 1.0), "1, so the queue grows", "lower the arrival rate"),
        (mm1(-1.0, 1.0), "arrival rate is -1", "greater than 0"),
        (mmk(2.0, f64::NAN, 2), "service rate is NaN", "greater than 0"),
        (mmk(2.0, 1.0, 0), "number of servers is 0", "from 1"),
        (mmk(2.0, 1.0, 2), "utilization is 1", "add servers"),
        (md1(0.5, 0.0), "service time is 0", "greater than 0"),
        (mg1(0.5, infinite), "variation of the service time is infinite", "cut the tail"),
        (
            mg1(0.5, Service { mean: f64::INFINITY, scv: 1.0 }),
            "mean service time is inf",
            "time-out",
        ),
        (mg1(0.5, Service { mean: 1.0, scv: f64::NAN }), "service time is NaN", "0 or more"),
        (mg1(0.9, Service { mean: 1.0, scv: f64::MAX }), "inf", "unit of time"),
        (gg1(Arrivals { rate: 0.5, scv: -0.5 }, service), "gaps is -0.5", "0 or more"),
        (ggk(poisson(9.0), service, 9), "utilization is 1", "below 1"),
        (mh21(0.5, Hyper { probability: 1.5, rates: [1.0, 1.0] }), "1.5", "from 0 to 1"),
        (mh21(0.5, Hyper { probability: 0.5, rates: [1.0, -1.0] }), "-1", "greater than 0"),
    ];
    for (result, value, mend) in errors {
        let error: ModelError = result.expect_err(value);
        let text = error.to_string();
        assert!(text.contains(value) && text.contains(mend), "{text}");
    }
    assert!(erlang_c(f64::NAN, 3).is_err());
}

#[test]
fn predictions_report_their_basis() {
    let queue = gg1(poisson(0.5), Service { mean: 1.0, scv: 2.0 }).expect("stable");
    let bases = [queue.wait.mean_basis(), Basis::Exact, Basis::LowerBound, Basis::UpperBound];
    assert_eq!(
        bases.map(|basis| basis.to_string()),
        ["approximation (Krämer and Langenbach-Belz)", "exact", "lower bound", "upper bound"]
    );
    assert_eq!(queue.sojourn.above(1.0), None);
    assert_eq!(queue.sojourn.law_basis(), None);
}
