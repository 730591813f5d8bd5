//! Closed forms against textbooks, against each other, and against simulation; fits against seeds.

mod curve;
mod fit;
mod fork_join;
mod models;
mod properties;
mod simulation;
mod split;
mod unloaded;

fn assert_close(actual: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (actual - expected).abs();
    assert!(error <= tolerance, "{what}: {actual} is not {expected} within {tolerance}");
}

/// Relative to the expected value.
fn assert_near(actual: f64, expected: f64, relative: f64, what: &str) {
    assert_close(actual, expected, relative * expected.abs(), what);
}

/// Seeded samples of a distribution, in its own unit.
fn draw(text: &str, count: usize, seed: u64) -> Vec<f64> {
    let spec: curtail_dist::Spec = text.parse().expect(text);
    let distribution = spec.resolve(1.0).expect(text);
    let mut rng = curtail_dist::seed::rng(seed);
    (0..count).map(|_| distribution.sample(&mut rng)).collect()
}
