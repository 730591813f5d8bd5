//! Tests the estimated distance between the minimum service time and its infimum.

use curtail_dist::seed;

use super::scenario::spec;
use crate::{Bias, Executions, Repetitions, Stop};

/// Creates executions of queries with a P of 1 ms and jitter from this distribution.
fn executions(text: &str, queries: usize, times: usize) -> Executions {
    let jitter = spec(text);
    let mut rng = seed::rng(5);
    let mut made = Executions::new(vec!["all"; queries]);
    for at in 0..queries * times {
        made.push(at % queries, 1_000_000 + jitter.sample(&mut rng) as u64);
    }
    made
}

/// Returns the estimate and the true bias.
fn compared(text: &str, times: usize) -> (Bias, f64) {
    let made = executions(text, 200, times);
    let truth = (0..200).filter_map(|query| made.p_ns(query)).map(|p| p as f64 - 1e6).sum::<f64>();
    (made.all().bias().expect("executions"), truth / 200.0)
}

#[test]
fn the_bias_of_an_exponential_body_is_estimated_well() {
    for times in [10, 20, 43, 100, 400] {
        let (bias, truth) = compared("exp:100us", times);
        assert!((bias.ns / truth - 1.0).abs() < 0.2, "{times}: {bias:?}, {truth}");
        assert!((bias.power - 1.0).abs() < 0.2, "{times}: {bias:?}");
        assert!((bias.share / bias.ns * (1e6 + truth) - 1.0).abs() < 1e-9);
        assert!((0.0..0.1 * bias.ns).contains(&bias.standard_error_ns), "{times}: {bias:?}");
    }
}

#[test]
fn the_bias_of_other_bodies_is_of_the_right_size() {
    for (text, least, most) in [
        ("gamma:100us:0.5", 0.5, 1.5),
        ("gamma:100us:1.5", 0.7, 1.6),
        ("weibull:0.7:100us", 0.7, 1.5),
        // The minimum approaches this infimum only as the logarithm of the number of executions
        // grows.
        ("lognormal:100us:0.8", 0.4, 1.2),
    ] {
        for times in [20, 40, 100] {
            let (bias, truth) = compared(text, times);
            assert!(
                (least..most).contains(&(bias.ns / truth)),
                "{text} {times}: {bias:?}, {truth}"
            );
        }
    }
}

#[test]
fn equal_times_have_no_bias() {
    let bias = executions("det:5us", 3, 20).all().bias().expect("executions");
    assert_eq!((bias.ns, bias.share, bias.standard_error_ns), (0.0, 0.0, 0.0));
    assert!(bias.is_within(1e-12));
}

#[test]
fn with_few_executions_the_bias_is_unknown() {
    let made = executions("exp:1us", 5, 7);
    assert_eq!(made.all().bias(), None);
}

#[test]
fn repetitions_continue_until_p_converges() {
    let rule = Repetitions { least: 20, most: 200, tolerance: 0.01 };
    assert_eq!(rule.stop(&Executions::new(["all"])), Stop::NotYet);
    // The bias is 100 µs divided by k. It is therefore 1 % of P (1 ms) at k = 10, and clearly lower
    // for slightly larger k.
    assert_eq!(rule.stop(&executions("exp:100us", 200, 19)), Stop::NotYet);
    assert_eq!(rule.stop(&executions("exp:100us", 200, 20)), Stop::Converged);
    assert_eq!(rule.stop(&executions("exp:1ms", 200, 60)), Stop::NotYet);
    assert_eq!(rule.stop(&executions("exp:1ms", 200, 150)), Stop::Converged);
    assert_eq!(rule.stop(&executions("exp:100ms", 20, 200)), Stop::AtMost);
}
