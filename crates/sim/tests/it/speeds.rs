//! Tests servers with different or changing speeds, including slow intervals and pauses.

use crate::common::{DIGITS, assert_close, clockwork, mean, percentile, run_one, sharp};
use curtail_sim::{Outcome, Parameters};

/// Returns the latencies, in units, with their counts. The latencies are exact except for the
/// rounding of histograms.
fn lengths(outcome: &Outcome) -> Vec<(f64, u64)> {
    let recorded = outcome.histogram.iter_recorded();
    recorded.map(|value| (value.value_iterated_to() as f64 / 1e6, value.count_at_value())).collect()
}

#[track_caller]
fn assert_lengths(outcome: &Outcome, expected: &[(f64, u64)]) {
    let seen = lengths(outcome);
    assert_eq!(seen.len(), expected.len(), "{seen:?}");
    for ((length, count), (truth, truths)) in seen.iter().zip(expected) {
        assert_close("length", *length, *truth, DIGITS);
        assert_eq!(count, truths, "{seen:?}");
    }
}

#[test]
fn a_speed_divides_the_work() {
    for (speed, length) in [(4.0, 0.25), (0.5, 2.0)] {
        let outcome = run_one(&Parameters { speeds: vec![speed], ..clockwork() }, "psq");
        assert_lengths(&outcome, &[(length, 1_000)]);
        assert_eq!(mean(&Outcome { ci95: outcome.request.clone(), ..outcome.clone() }).0, length);
        // The utilization is relative to the capacity of the servers. At four times the speed,
        // requests arrive four times as often.
        assert_close("busy", outcome.utilization.busy.expect("time"), 0.1, 2e-3);
    }
}

#[test]
fn pauses_lengthen_exactly_the_copies_that_they_hit() {
    // The pauses are from 100.5 to 103.5, from 204 to 207, from 307.5 to 310.5, and so on, every
    // 103.5 units. Copies run from 10·n to 10·n + 1, so a pause affects the copies that it
    // overlaps. Compute which.
    let parameters = Parameters { slowdown: Some("det:100.5/det:3/0".to_owned()), ..clockwork() };
    let outcome = run_one(&parameters, "psq");
    let mut expected = std::collections::BTreeMap::new();
    for n in 1..=1_000_u64 {
        let (start, mut end) = (100 * n, 100 * n + 10); // in tenths
        for pause in (1_005..110_000).step_by(1_035) {
            if start < pause + 30 && end > pause {
                // The copy waits for the rest of the pause.
                end += pause + 30 - pause.max(start);
            }
        }
        *expected.entry(end - start).or_insert(0) += 1;
    }
    let expected: Vec<(f64, u64)> =
        expected.into_iter().map(|(tenths, count)| (tenths as f64 / 10.0, count)).collect();
    assert!(expected.len() > 3, "some wait for a part of a pause, some for all of it");
    assert_lengths(&outcome, &expected);
}

#[test]
fn replicas_pause_independently() {
    // Each server is paused for a tenth of the time. An unloaded query that runs on both is late
    // only if both are paused: 1 in 100 queries.
    let parameters = Parameters {
        replicas: 2,
        utilization: 1e-6,
        requests: 20_000,
        service: "det:0.001".to_owned(),
        slowdown: Some("exp:90/exp:10/0".to_owned()),
        ..sharp()
    };
    for (policy, share) in [("random", 0.1), ("naive", 0.01)] {
        let outcome = run_one(&parameters, policy);
        let late = outcome.histogram.len() - outcome.histogram.count_between(0, 2_000);
        let seen = late as f64 / outcome.histogram.len() as f64;
        // Requests are far apart relative to pauses, and therefore independent. Six standard
        // errors.
        let error = (share * (1.0 - share) / outcome.histogram.len() as f64).sqrt();
        assert!((seen - share).abs() < 6.0 * error, "{policy}: {seen}");
        assert!(percentile(&outcome, 50.0).0 < 0.0011);
    }
}
