//! Compares the exact laws with a simulation of the queue.

use curtail_queueing::Prediction;
use curtail_queueing::models::{Hyper, md1, mh21, mmk};

use crate::{assert_near, station};

const QUERIES: usize = 400_000;

/// Returns the sorted waits and sojourns.
fn simulate(rate: f64, service: &str, servers: usize) -> [Vec<f64>; 2] {
    let log = station(rate, service, servers, QUERIES, 1);
    let waits = log.iter().filter_map(|query| Some(query.start? - query.arrival)).collect();
    let sojourns = log.iter().map(|query| query.end - query.arrival).collect();
    [waits, sojourns].map(|mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times
    })
}

fn agrees(prediction: &Prediction, service: &str, servers: usize) {
    let measured = simulate(prediction.arrival_rate, service, servers);
    for (times, tail) in measured.iter().zip([&prediction.wait, &prediction.sojourn]) {
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert_near(mean, tail.mean(), 0.03, prediction.model);
        for q in [0.5, 0.9, 0.99] {
            let simulated = times[(q * times.len() as f64) as usize];
            let predicted = tail.quantile(q).expect("exact");
            assert_near(simulated, predicted, 0.05, &format!("{} at {q}", prediction.model));
        }
    }
}

#[test]
fn constant_service() {
    agrees(&md1(0.8, 1.0).expect("stable"), "det:1", 1);
}

#[test]
fn hyper_exponential_service() {
    let service = Hyper::balanced(1.0, 4.0).expect("valid");
    agrees(&mh21(0.6, service).expect("stable"), "h2:1:2", 1);
}

#[test]
fn several_servers() {
    agrees(&mmk(3.2, 1.0, 4).expect("stable"), "exp:1", 4);
}
