//! Sample results of a demo, for tests.

use std::collections::BTreeMap;

use crate::demo::results::{Gain, Latencies, LoadPoint, Results, Setup};

/// The p99 in ms at each utilization from 10 % to 70 %, and the number of copies per query. The
/// values are made up in the shape of the paper's Figures 2 and 4, in which the naive hedge
/// collapses.
const P99_MS: [(&str, [f64; 4], f64); 3] = [
    ("psq", [97.4, 102.0, 117.0, 178.0], 1.0),
    ("naive", [51.2, 84.6, 742.0, 18_600.0], 2.0),
    ("laedge", [50.4, 59.7, 86.3, 171.0], 1.4),
];

/// A complete run.
pub(crate) fn results() -> Results {
    let loads = vec![0.1, 0.3, 0.5, 0.7];
    let cells = |p99: [f64; 4], copies: f64| {
        loads.iter().zip(p99).map(|(load, p99)| cell(*load, p99, copies)).collect::<Vec<_>>()
    };
    let policies = P99_MS.map(|(name, p99, copies)| (name.to_owned(), cells(p99, copies)));
    let mut policies = BTreeMap::from(policies);
    compare(&mut policies);
    let order = P99_MS.map(|(name, ..)| name.to_owned()).to_vec();
    let (busy_machine, partial, report) = (None, false, None);
    Results { loads, policies, order, setup: setup(), busy_machine, partial, report }
}

/// Gives every gain an interval of ±3 %.
pub(crate) fn compare(policies: &mut BTreeMap<String, Vec<LoadPoint>>) {
    let baseline = policies["psq"].clone();
    for cells in policies.iter_mut().filter(|(name, _)| *name != "psq").map(|(_, cells)| cells) {
        for (cell, baseline) in cells.iter_mut().zip(&baseline) {
            let ratio = cell.p99_ms.zip(baseline.p99_ms).map(|(ours, theirs)| 1.0 - ours / theirs);
            let ratio = ratio.filter(|_| cell.valid);
            cell.p99_gain = ratio.map(|value| Gain::new(value, value - 0.03, value + 0.03));
        }
    }
}

fn cell(load: f64, p99: f64, copies_per_query: f64) -> LoadPoint {
    let offered_rate = 2.0 * load / 0.005;
    // A run whose p99 reaches this value is not valid.
    let valid = p99 < 500.0;
    let mut histogram = curtail_load::histogram();
    for at in 0..12_000 {
        let above = (12_000.0 - f64::from(at)) / 12_000.0;
        histogram.saturating_record((-above.ln() / 100_f64.ln() * p99 * 1e6) as u64);
    }
    LoadPoint {
        load,
        p50_ms: Some(p99 * 0.3),
        p99_ms: Some(p99),
        p999_ms: Some(p99 * 1.5),
        copies_per_query,
        offered_rate,
        achieved_rate: if valid { offered_rate * 0.998 } else { 181.0 },
        requests: 12_000,
        errors: 0,
        machine: None,
        disturbed: false,
        repeated: false,
        valid,
        invalid_because: if valid { Vec::new() } else { vec!["fell short".to_owned()] },
        histogram,
        withheld: false,
        p99_gain: None,
        p99_gain_over_learned: None,
        latencies: Latencies::default(),
    }
}

fn setup() -> Setup {
    Setup {
        shards: 5,
        replicas: 2,
        slots: 1,
        corpus: "generated English-like text".to_owned(),
        documents: 100_000,
        service_time: "exp:5ms".to_owned(),
        strata: "Hiccups are drawn in strata.".to_owned(),
        hiccup: "bimodal:0.003:75ms".to_owned(),
        service_mean_ms: 5.0,
        seed: 42,
        requests: 12_000,
        honesty: "The searches, the sockets, and the scheduling are real.".to_owned(),
        command: "curtail demo --seed 42".to_owned(),
        elapsed_s: 1_332.0,
    }
}
