//! Compares the best split with a search over all splits.

use curtail_queueing::optimal_split;
use proptest::prelude::*;

use crate::{assert_close, assert_near};

fn mean_sojourn(sent: &[f64], rates: &[f64]) -> f64 {
    let in_system: f64 = sent
        .iter()
        .zip(rates)
        .map(|(sent, rate)| if sent < rate { sent / (rate - sent) } else { f64::INFINITY })
        .sum();
    in_system / sent.iter().sum::<f64>()
}

#[test]
fn two_servers_by_hand() {
    // With service rates of 4 and 1 and λ = 3.5, the slack of 1.5 is split 2:1. The rates are
    // therefore 3 and 0.5, and E[T] = (3/1 + 0.5/0.5)/3.5.
    let split = optimal_split(3.5, &[4.0, 1.0]).expect("stable");
    assert_close(split.rates[0], 3.0, 1e-12, "fast");
    assert_close(split.rates[1], 0.5, 1e-12, "slow");
    assert_near(split.mean_sojourn, 4.0 / 3.5, 1e-12, "mean");
    // The proportional rates are 2.8 and 0.7. Each server then has ρ = 0.7, so E[T] = n·ρ/(1-ρ)/λ.
    assert_near(split.proportional, 2.0 * 0.7 / 0.3 / 3.5, 1e-12, "proportional");
}

#[test]
fn slow_servers_get_nothing_at_low_load() {
    // The slow server gets nothing while √1 ≤ (4-λ)/2, which holds for λ ≤ 2.
    let split = optimal_split(1.9, &[1.0, 4.0]).expect("stable");
    assert_eq!(split.rates[0], 0.0);
    assert_close(split.rates[1], 1.9, 1e-12, "all of it");
    assert!(optimal_split(2.1, &[1.0, 4.0]).expect("stable").rates[0] > 0.0);
}

#[test]
fn a_search_over_all_splits_finds_nothing_better() {
    for (arrivals, rates) in
        [(2.0, [3.0, 1.0, 0.5]), (0.5, [3.0, 1.0, 0.5]), (4.2, [3.0, 1.0, 0.5])]
    {
        let split = optimal_split(arrivals, &rates).expect("stable");
        assert_near(mean_sojourn(&split.rates, &rates), split.mean_sojourn, 1e-12, "its own mean");
        let steps = 400;
        let part = |i: i32| arrivals * f64::from(i) / f64::from(steps);
        let mut best = f64::INFINITY;
        for i in 0..=steps {
            for j in 0..=steps - i {
                best = best.min(mean_sojourn(&[part(i), part(j), part(steps - i - j)], &rates));
            }
        }
        assert!(split.mean_sojourn <= best + 1e-12, "{arrivals}: {best}");
        assert_near(best, split.mean_sojourn, 0.01, "the search comes close");
    }
}

#[test]
fn low_loads_keep_their_digits() {
    for (arrivals, rates, sent, mean) in [
        (1e-13, [1.0, 1.0], [0.5e-13, 0.5e-13], 1.0),
        (1e-17, [1000.0, 500.0], [1e-17, 0.0], 1e-3),
        (1.0, [1e17, 1.0], [1.0, 0.0], 1e-17),
        (1.0, [1e-300, 1e300], [0.0, 1.0], 1e-300),
    ] {
        let split = optimal_split(arrivals, &rates).expect("stable");
        for (actual, expected) in split.rates.iter().zip(sent) {
            assert_near(*actual, expected, 1e-12, "sent");
        }
        assert_near(split.mean_sojourn, mean, 1e-12, "mean");
    }
}

proptest! {
    #[test]
    fn rates_add_up_and_proportional_splits_are_not_better(
        rates in prop::collection::vec(0.01..100.0_f64, 1..20),
        utilization in 0.001..0.999_f64,
    ) {
        let arrivals = utilization * rates.iter().sum::<f64>();
        let split = optimal_split(arrivals, &rates).expect("stable");
        let sent: f64 = split.rates.iter().sum();
        prop_assert!((sent - arrivals).abs() < 1e-9 * arrivals.max(1.0), "{sent} of {arrivals}");
        prop_assert!(split.rates.iter().zip(&rates).all(|(sent, rate)| (0.0..*rate).contains(sent)));
        prop_assert!(split.mean_sojourn <= split.proportional * (1.0 + 1e-9));
    }
}

#[test]
fn invalid_parameters_are_refused() {
    let text =
        |arrivals, rates: &[f64]| optimal_split(arrivals, rates).expect_err("bad").to_string();
    assert!(text(1.0, &[]).contains("at least one"));
    assert!(text(3.0, &[1.0, 2.0]).contains("below 1"));
    assert!(text(1.0, &[2.0, f64::NAN]).contains("service rate is NaN"));
    assert!(text(0.0, &[2.0]).contains("arrival rate is 0"));
}
