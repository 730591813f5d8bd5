//! Compares closed forms with textbooks, with each other, and with simulations, and checks fits
//! against seeded samples.

mod bottleneck;
mod curve;
mod estimate;
mod fit;
mod fluid;
mod fork_join;
mod h2h21;
mod models;
mod properties;
mod simulation;
mod split;
mod unloaded;

use curtail_queueing::Prediction;
use curtail_queueing::estimate::Record;

fn assert_close(actual: f64, expected: f64, tolerance: f64, name: &str) {
    let error = (actual - expected).abs();
    assert!(error <= tolerance, "{name}: {actual} is not {expected} within {tolerance}");
}

/// The tolerance is relative to the expected value.
fn assert_near(actual: f64, expected: f64, relative: f64, name: &str) {
    assert_close(actual, expected, relative * expected.abs(), name);
}

/// Asserts that two predictions have the same means, and the same percentiles if both have them.
#[track_caller]
fn assert_same(one: &Prediction, other: &Prediction) {
    let names = format!("{} and {}", one.model, other.model);
    assert_near(one.utilization, other.utilization, 1e-12, &names);
    for (one, other) in [(&one.wait, &other.wait), (&one.sojourn, &other.sojourn)] {
        assert_near(one.mean(), other.mean(), 1e-11, &names);
        if let (Some(one), Some(other)) = (one.law(), other.law()) {
            for q in [0.0, 0.3, 0.5, 0.9, 0.99, 0.9999] {
                let (one, other) = (one.quantile(q).expect("in range"), other.quantile(q));
                assert_close(one, other.expect("in range"), 1e-10 * (1.0 + one), &names);
            }
        }
    }
}

/// Returns a seeded log of a station that serves first come, first served, with Poisson arrivals.
fn station(rate: f64, service: &str, servers: usize, count: usize, seed: u64) -> Vec<Record> {
    queue(&format!("exp:{}", 1.0 / rate), service, servers, count, seed)
}

/// Returns a seeded log of a station that serves first come, first served.
fn queue(gaps: &str, service: &str, servers: usize, count: usize, seed: u64) -> Vec<Record> {
    let gaps = draw(gaps, count, seed);
    let services = draw(service, count, seed + 1);
    let mut free_at = vec![0.0_f64; servers];
    let mut now = 0.0;
    let serve = |(gap, service): (f64, f64)| {
        now += gap;
        let next = free_at.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("a server");
        let start = next.max(now);
        *next = start + service;
        Record { arrival: now, start: Some(start), end: *next }
    };
    gaps.into_iter().zip(services).map(serve).collect()
}

/// Returns seeded samples of a distribution, in its own unit.
fn draw(text: &str, count: usize, seed: u64) -> Vec<f64> {
    let spec: curtail_dist::Spec = text.parse().expect(text);
    let distribution = spec.resolve(1.0).expect(text);
    let mut rng = curtail_dist::seed::rng(seed);
    (0..count).map(|_| distribution.sample(&mut rng)).collect()
}
