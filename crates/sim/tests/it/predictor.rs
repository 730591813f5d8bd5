//! How well copies are chosen that make room for others, as it is counted.

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
fn pre_emptions_are_counted_whatever_they_take() {
    let plain = accuracy(&parameters());
    let right = plain.overall.ratio().expect("some");
    assert!(plain.overall.all > 10_000 && right > 0.5 && right < 1.0, "{plain:?}");
    assert!(plain.together.all + plain.apart.all < plain.overall.all, "hiccups are rare");
    // Cost and latency so small that they change hardly anything.
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
fn speeds_count() {
    // Two copies of a query take the same work, which the slower server ends later. So where they
    // began together the right one to stop is that of the slow server, half of the time.
    let speeds = vec![0.5, 1.5];
    let parameters = Parameters { jitter: None, speeds, ..parameters() };
    let overall = accuracy(&parameters).overall;
    let right = overall.ratio().expect("some");
    assert!(right > 0.1 && right < 0.9, "by works alone all would be right: {right}");
}
