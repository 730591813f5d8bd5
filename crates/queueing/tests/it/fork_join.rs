//! Fork-join: compares the estimate with its bounds and with a simulation.

use curtail_queueing::models::mm1;
use curtail_queueing::{Basis, fork_join};

use crate::{assert_close, assert_near, draw};

#[test]
fn two_stations_are_exact_and_four_match_the_formula() {
    // According to Flatto and Hahn, the mean is (12-ρ)/8 · 1/(μ-λ), which is 11.5/8 · 2 for ρ = 0.5
    // and μ = 1.
    let pair = fork_join(0.5, 1.0, 2).expect("stable");
    assert_eq!(pair.estimate.mean(), 2.875);
    assert_eq!(pair.estimate.mean_basis(), Basis::Exact);
    assert!(pair.estimate.law().is_none());
    // H₂ is 1.5, so the bounds are 1.5/μ and 1.5/(μ-λ).
    assert_close(pair.lower.mean(), 1.5, 1e-13, "lower");
    assert_close(pair.upper.mean(), 3.0, 1e-13, "upper");
    // For n = 4, ρ = 0.6 and μ = 1, H₄/H₂ is 25/18, and the mean is (25/18 -
    // 7/18·2.4/11)·(11.4/8)/0.4.
    let four = fork_join(0.6, 1.0, 4).expect("stable");
    let expected = (25.0 / 18.0 - 7.0 / 18.0 * 2.4 / 11.0) * 1.425 / 0.4;
    assert_near(four.estimate.mean(), expected, 1e-14, "Nelson and Tantawi");
}

#[test]
fn one_station_is_mm1() {
    // The upper bound assumes independent stations, so it is a higher quantile of one of them.
    let all = fork_join(0.5, 1.0, 20).expect("stable").upper;
    let one = mm1(0.5, 1.0).expect("stable").sojourn;
    let expected = one.quantile(0.99_f64.powf(1.0 / 20.0)).expect("exact");
    assert_near(all.quantile(0.99).expect("law"), expected, 1e-12, "p99 of 20");
    let one = fork_join(0.7, 1.0, 1).expect("stable");
    let queue = mm1(0.7, 1.0).expect("stable").sojourn;
    for tail in [&one.estimate, &one.upper] {
        assert_near(tail.mean(), queue.mean(), 1e-14, "mean");
        let p99 = tail.quantile(0.99).expect("exact");
        assert_near(p99, queue.quantile(0.99).expect("exact"), 1e-12, "p99");
    }
}

#[test]
fn estimates_lie_between_the_bounds() {
    for stations in [2, 3, 10, 32, 1000] {
        for utilization in [1e-6, 0.3, 0.9, 0.999] {
            let all = fork_join(utilization, 1.0, stations).expect("stable");
            let (low, high) = (all.lower.mean(), all.upper.mean());
            assert!((low..=high).contains(&all.estimate.mean()), "{stations}, {utilization}");
            for q in [0.5, 0.99] {
                assert!(all.lower.quantile(q).expect("law") < all.upper.quantile(q).expect("law"));
            }
        }
    }
}

#[test]
fn a_simulation_lies_between_the_bounds_and_near_the_estimate() {
    const QUERIES: usize = 200_000;
    let (rate, stations) = (0.7, 8_u32);
    let gaps = draw(&format!("exp:{}", 1.0 / rate), QUERIES, 11);
    let mut longest = vec![0.0_f64; QUERIES];
    for station in 0..stations {
        let mut sojourn = 0.0_f64;
        let services = draw("exp:1", QUERIES, 100 + u64::from(station));
        for ((longest, gap), service) in longest.iter_mut().zip(&gaps).zip(services) {
            sojourn = (sojourn - gap).max(0.0) + service;
            *longest = longest.max(sojourn);
        }
    }
    let mean = longest.iter().sum::<f64>() / QUERIES as f64;
    let all = fork_join(rate, 1.0, stations).expect("stable");
    assert_near(mean, all.estimate.mean(), 0.07, "estimate");
    longest.sort_by(f64::total_cmp);
    for q in [0.5, 0.9, 0.99] {
        let simulated = longest[(q * QUERIES as f64) as usize];
        let (low, high) = (all.lower.quantile(q), all.upper.quantile(q));
        assert!((low.expect("law")..=high.expect("law") * 1.02).contains(&simulated), "{q}");
    }
}

#[test]
fn invalid_parameters_are_refused() {
    assert!(fork_join(1.0, 1.0, 3).expect_err("overload").to_string().contains("below 1"));
    assert!(fork_join(0.5, 1.0, 0).expect_err("none").to_string().contains("from 1"));
    assert!(fork_join(f64::NAN, 1.0, 3).is_err());
}
