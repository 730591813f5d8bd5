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

use curtail_queueing::estimate::Record;

fn assert_close(actual: f64, expected: f64, tolerance: f64, name: &str) {
    let error = (actual - expected).abs();
    assert!(error <= tolerance, "{name}: {actual} is not {expected} within {tolerance}");
}

/// The tolerance is relative to the expected value.
fn assert_near(actual: f64, expected: f64, relative: f64, name: &str) {
    assert_close(actual, expected, relative * expected.abs(), name);
}

/// Returns a seeded log of a station that serves first come, first served, with Poisson arrivals.
fn station(rate: f64, service: &str, servers: usize, count: usize, seed: u64) -> Vec<Record> {
    let gaps = draw(&format!("exp:{}", 1.0 / rate), count, seed);
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
