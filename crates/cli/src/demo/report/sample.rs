//! Results as a demo has them, without the demo: for tests, and for looking at the report.

use std::collections::BTreeMap;

use crate::demo::gain::{Gain, Latencies};
use crate::demo::results::{Cell, Results, Setup};

/// p50, p99 and p99.9 of the policies at 10 % to 70 % utilization, and their copies per query.
/// Made up, in the shape of the paper's Figures 2 and 4: the naive hedge collapses.
const FIGURES: [(&str, [[f64; 4]; 7]); 5] = [
    (
        "random",
        [
            [25.1, 112.0, 141.0, 1.0],
            [28.6, 119.0, 158.0, 1.0],
            [32.4, 131.0, 183.0, 1.0],
            [38.2, 149.0, 224.0, 1.0],
            [46.9, 178.0, 276.0, 1.0],
            [59.8, 229.0, 341.0, 1.0],
            [81.5, 318.0, 470.0, 1.0],
        ],
    ),
    (
        "psq",
        [
            [24.3, 97.4, 118.0, 1.0],
            [25.0, 99.1, 124.0, 1.0],
            [26.2, 102.0, 131.0, 1.0],
            [28.4, 107.0, 142.0, 1.0],
            [32.1, 117.0, 163.0, 1.0],
            [38.7, 136.0, 197.0, 1.0],
            [51.2, 178.0, 261.0, 1.0],
        ],
    ),
    (
        "naive",
        [
            [22.4, 51.2, 83.1, 2.0],
            [25.5, 61.9, 97.0, 2.0],
            [32.0, 84.6, 128.0, 2.0],
            [47.3, 141.0, 212.0, 2.0],
            [214.0, 742.0, 981.0, 2.0],
            [4120.0, 7980.0, 8210.0, 2.0],
            [9330.0, 18_600.0, 19_000.0, 2.0],
        ],
    ),
    (
        "delayed:15ms",
        [
            [24.0, 58.3, 92.6, 1.21],
            [25.6, 66.1, 104.0, 1.23],
            [28.3, 79.0, 121.0, 1.27],
            [33.1, 99.8, 152.0, 1.31],
            [42.7, 144.0, 209.0, 1.36],
            [66.4, 243.0, 351.0, 1.44],
            [163.0, 611.0, 870.0, 1.53],
        ],
    ),
    (
        "laedge",
        [
            [22.6, 50.4, 81.9, 1.83],
            [23.4, 54.0, 88.3, 1.68],
            [24.9, 59.7, 97.2, 1.52],
            [27.6, 69.5, 109.0, 1.38],
            [31.9, 86.3, 131.0, 1.27],
            [38.9, 117.0, 174.0, 1.17],
            [52.0, 171.0, 252.0, 1.09],
        ],
    ),
];

/// A whole run.
pub(crate) fn results() -> Results {
    let loads: Vec<f64> = (1..=7).map(|tenth| f64::from(tenth) / 10.0).collect();
    let mut policies = BTreeMap::new();
    for (name, rows) in FIGURES {
        let cells = loads.iter().zip(rows).map(|(load, row)| cell(name, *load, row)).collect();
        policies.insert(name.to_owned(), cells);
    }
    compare(&mut policies);
    let order = FIGURES.iter().map(|(name, _)| (*name).to_owned()).collect();
    Results { loads, policies, order, setup: setup(), partial: false, report: None }
}

/// As sure of every gain as 3 % to either side.
pub(crate) fn compare(policies: &mut BTreeMap<String, Vec<Cell>>) {
    let baseline = policies["psq"].clone();
    for cells in policies.iter_mut().filter(|(name, _)| *name != "psq").map(|(_, cells)| cells) {
        for (cell, baseline) in cells.iter_mut().zip(&baseline) {
            let ratio = cell.p99_ms.zip(baseline.p99_ms).map(|(ours, theirs)| 1.0 - ours / theirs);
            cell.p99_gain = ratio.map(|value| Gain::new(value, value - 0.03, value + 0.03));
        }
    }
}

fn cell(name: &str, load: f64, [p50, p99, p999, copies]: [f64; 4]) -> Cell {
    let offered_rate = 2.0 * load / 0.005;
    // What a system that is not stable any more answers.
    let sound = !(name == "naive" && load > 0.45);
    let achieved_rate = if sound { offered_rate * 0.998 } else { 181.0 };
    Cell {
        load,
        p50_ms: Some(p50),
        p99_ms: Some(p99),
        p999_ms: Some(p999),
        copies_per_query: copies,
        offered_rate,
        achieved_rate,
        requests: 12_000,
        errors: 0,
        valid: sound,
        invalid_because: if sound {
            Vec::new()
        } else {
            vec![
                "fell short: 10860 of 12000 requests were answered well at the offered rate, 0 \
                 failed; the server does not sustain this rate"
                    .to_owned(),
            ]
        },
        ccdf: ccdf(p50, p99, p999),
        p99_gain: None,
        latencies: Latencies::default(),
    }
}

/// A tail through the three percentiles, straight in between on the scales of the plot.
fn ccdf(p50: f64, p99: f64, p999: f64) -> Vec<(f64, f64)> {
    let knots =
        [(p50 * 0.4, 1.0), (p50, 0.5), (p99, 0.01), (p999, 0.001), (p999 * 1.2, 1.0 / 12_000.0)];
    let mut points = Vec::new();
    for pair in knots.windows(2) {
        let [(from, above), (to, below)] = [pair[0], pair[1]];
        for i in 0..60 {
            let part = f64::from(i) / 60.0;
            let wiggle = 1.0 + 0.012 * (part * 19.0).sin();
            points.push((
                (from + (to - from) * part) * wiggle,
                above * f64::powf(below / above, part),
            ));
        }
    }
    points
}

fn setup() -> Setup {
    Setup {
        shards: 5,
        replicas: 2,
        slots: 1,
        corpus: "generated English-like text, Zipf-distributed words".to_owned(),
        documents: 100_000,
        service_time: "exp:5ms".to_owned(),
        hiccup: "bimodal:0.003:75ms".to_owned(),
        service_mean_ms: 5.0,
        seed: 42,
        requests: 12_000,
        honesty:
            "The searches, the sockets, and the scheduling are real; each query’s service time \
                  is stretched to a drawn length and hiccups are injected, for the corpus is too \
                  small to be slow by itself."
                .to_owned(),
        command: "curtail demo --seed 42".to_owned(),
        elapsed_s: 1_332.0,
    }
}
