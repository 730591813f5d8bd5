//! Tests how the accuracy of pre-emptions is measured.

use crate::common::{assert_close, run_one, with};
use curtail_sim::{Accuracy, Parameters};

fn accuracy(parameters: &Parameters) -> Accuracy {
    run_one(parameters, "laedge:cc+pc").predictor.expect("pre-emptions")
}

fn parameters() -> Parameters {
    with(
        "shards = 2, utilization = 0.4, jitter = 'bimodal:0.02:10', requests = 20_000, replications = 2",
    )
}

#[test]
fn pre_emptions_are_counted_with_a_cost_and_with_a_network() {
    let plain = accuracy(&parameters());
    let right = plain.overall.ratio().expect("some");
    assert!(plain.overall.all > 10_000 && right > 0.5 && right < 1.0, "{plain:?}");
    assert!(plain.together.all + plain.apart.all < plain.overall.all, "hiccups are rare");
    // The cost and the latency are so small that they have hardly any effect.
    for parameters in [
        Parameters { cancel_cost: Some("0.0001".to_owned()), ..parameters() },
        Parameters { network: Some("det:0.0001".to_owned()), ..parameters() },
    ] {
        let seen = accuracy(&parameters);
        assert_close("how many", seen.overall.all as f64, plain.overall.all as f64, 0.05);
        assert_close("how good", seen.overall.ratio().expect("some"), right, 0.05);
    }
}

#[test]
fn accuracy_accounts_for_speeds() {
    // Two copies of a query have the same work, and the slower server ends its copy later. If they
    // began together, a pre-emption is right if it stops the copy on the slow server, which happens
    // half of the time.
    let speeds = vec![0.5, 1.5];
    let parameters = Parameters { jitter: None, speeds, ..parameters() };
    let overall = accuracy(&parameters).overall;
    let right = overall.ratio().expect("some");
    assert!(right > 0.1 && right < 0.9, "by works alone all would be right: {right}");
}
