//! Checks models of queries to many shards without queueing.

use curtail_queueing::HiccupService;

use crate::{assert_close, assert_near, draw};

const SERVICE: HiccupService = HiccupService { mean: 1.0, probability: 1e-3, hiccup: 15.0 };

fn p99(shards: u32, copies: u32) -> f64 {
    let law = SERVICE.all_shards(shards, copies).expect("valid");
    law.quantile(0.99).expect("in range")
}

#[test]
fn a_hedge_halves_the_tail_of_fifty_shards() {
    assert_near(p99(50, 1), 16.6, 0.01, "one copy");
    assert_near(p99(50, 2), 8.5, 0.01, "two copies");
    // A third copy does not help further, because only the exponential part remains.
    assert_near(p99(50, 3), -(-(0.99_f64.ln()) / 50.0).ln(), 1e-3, "three copies");
}

#[test]
fn one_shard_is_the_mixture() {
    let law = SERVICE.one_shard(1).expect("valid");
    let above = 0.999 * (-2.0_f64).exp() + 0.001;
    assert_close(law.above(2.0), above, 1e-15, "before the hiccup's end");
    let above = 0.999 * (-20.0_f64).exp() + 0.001 * (-5.0_f64).exp();
    assert_close(law.above(20.0), above, 1e-15, "after it");
    let pair = SERVICE.one_shard(2).expect("valid");
    assert_close(pair.above(14.0) - (-14.0_f64).exp(), 1e-6, 1e-9, "both hiccup");
    let calm = HiccupService { probability: 0.0, ..SERVICE }.one_shard(1).expect("valid");
    assert_close(calm.quantile(0.5).expect("in range"), 2.0_f64.ln(), 1e-12, "no hiccups");
}

#[test]
fn draws_agree() {
    let (shards, queries) = (20, 20_000);
    let often = HiccupService { mean: 1.0, probability: 0.01, hiccup: 15.0 };
    let mut longest: Vec<f64> = draw("exp:1+bimodal:0.01:15", shards * queries, 5)
        .chunks(shards)
        .map(|query| query.iter().copied().fold(0.0, f64::max))
        .collect();
    longest.sort_by(f64::total_cmp);
    let law = often.all_shards(20, 1).expect("valid");
    for q in [0.5, 0.9, 0.99] {
        let simulated = longest[(q * longest.len() as f64) as usize];
        assert_near(simulated, law.quantile(q).expect("in range"), 0.03, "quantile");
    }
}

#[test]
fn invalid_parameters_are_refused() {
    let refused = |service: HiccupService| service.all_shards(5, 1).expect_err("bad").to_string();
    assert!(refused(HiccupService { mean: 0.0, ..SERVICE }).contains("mean of the exponential"));
    assert!(refused(HiccupService { probability: 1.1, ..SERVICE }).contains("from 0 to 1"));
    assert!(refused(HiccupService { hiccup: f64::INFINITY, ..SERVICE }).contains("finite"));
    assert!(SERVICE.all_shards(0, 1).is_err() && SERVICE.all_shards(1, 0).is_err());
}
