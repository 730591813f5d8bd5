//! Checks the claims of document 002 about queues that clients share (§4.2.1), by the method of
//! §4.5.

use curtail_queueing::ModelError;
use curtail_queueing::fluid::{Evolution, Fluid};

use crate::{assert_close, assert_near};

/// Returns parameters for servers with four slots and a network latency of 250 us. Times are in ms.
fn fluid(services: &[f64], exponent: u32) -> Fluid {
    Fluid {
        services: services.to_vec(),
        slots: 4,
        clients: 30,
        utilization: 0.9,
        network: 0.25,
        exponent,
        compensates: true,
        sample_weight: 0.9,
    }
}

fn evolve(fluid: &Fluid) -> Vec<Evolution> {
    fluid.evolve(3_000.0).expect("it is stable")
}

/// Returns the estimate q̂, which includes the requests in flight. The server receives the fraction
/// `share` of the rate `sent`.
fn expected(of: &Evolution, sent: f64) -> f64 {
    1.0 + 2.0 * of.mean + 2.0 * 0.25 * of.share * sent
}

#[test]
fn queues_at_a_fast_server_are_longer_by_the_root_of_the_ratio() {
    // As in Figure 4.4, the service times are 4 ms and 20 ms. The ratio of the queues is five with
    // b = 1, and the cube root of five with b = 3.
    for exponent in [1, 2, 3, 4] {
        let [fast, slow] = &evolve(&fluid(&[4.0, 20.0], exponent))[..] else { panic!("two") };
        assert!(fast.most - fast.least < 0.3 && slow.most - slow.least < 0.3, "still: {fast:?}");
        let sent = 0.9 * (4.0 / 4.0 + 4.0 / 20.0);
        let ratio = expected(fast, sent) / expected(slow, sent);
        // With b = 1, the term R̄ − 1/μ̄ is a few percent of the score.
        let tolerance = if exponent == 1 { 0.08 } else { 0.02 };
        assert_near(ratio, 5_f64.powf(1.0 / f64::from(exponent)), tolerance, "longer by");
    }
}

#[test]
fn a_cubic_score_leaves_less_behind_a_server_that_turns_slow() {
    // §4.2.1: if the fast server becomes slow, every request in its queue takes as long as at the
    // slow server.
    let [linear, cubic] = [1, 3].map(|exponent| {
        let [fast, _] = &evolve(&fluid(&[4.0, 20.0], exponent))[..] else { panic!("two") };
        fast.mean * 20.0 / 4.0
    });
    assert!(linear > 40.0 && cubic < 20.0, "{linear} ms with b = 1, {cubic} ms with b = 3");
}

#[test]
fn counting_outstanding_requests_prevents_herds() {
    for clients in [10, 150, 300] {
        let blind = Fluid { clients, utilization: 0.7, compensates: false, ..fluid(&[4.0; 3], 3) };
        let herd = evolve(&blind);
        let still = evolve(&Fluid { compensates: true, ..blind });
        for (herd, still) in herd.iter().zip(&still) {
            let (swings, calm) = (herd.most - herd.least, still.most - still.least);
            assert!(swings > 4.0 && calm < 0.1, "{clients} clients: {swings} and {calm}");
            assert_close(still.share, 1.0 / 3.0, 0.01, "a fair share");
            assert_close(still.mean, 0.7 * 4.0, 0.02, "the number that execute");
        }
    }
}

#[test]
fn invalid_parameters_are_named() {
    let good = || fluid(&[4.0], 3);
    for (bad, word) in [
        (Fluid { services: vec![], ..good() }, "no servers"),
        (Fluid { services: vec![f64::NAN], ..good() }, "service time"),
        (Fluid { slots: 0, ..good() }, "slots"),
        (Fluid { clients: 0, ..good() }, "clients"),
        (Fluid { utilization: 1.0, ..good() }, "below 1"),
        (Fluid { network: 0.0, ..good() }, "network latency"),
        (Fluid { exponent: 9, ..good() }, "exponent"),
        (Fluid { sample_weight: 1.0, ..good() }, "weight of a sample"),
        (Fluid { network: 1e-9, ..good() }, "duration"),
    ] {
        let error: ModelError = bad.evolve(1_000.0).expect_err(word);
        assert!(error.to_string().contains(word), "{error}");
    }
}
