//! Tests servers that fail: their copies are lost and retried, and every request is counted once.

use crate::common::{assert_close, clockwork, run, run_one, with};
use curtail_sim::{Outcome, Parameters, UNIT_NS};

fn parameters() -> Parameters {
    with("shards = 2, replicas = 3, outage = 'exp:50/exp:5', requests = 10_000, replications = 3")
}

const POLICIES: [&str; 9] = [
    "psq",
    "random",
    "round-robin",
    "naive",
    "delayed:1:cc",
    "laedge",
    "laedge:cc",
    "laedge:cc+pc",
    "idealized",
];

#[track_caller]
fn assert_all_counted(outcome: &Outcome, parameters: &Parameters) {
    let measured = parameters.requests - (parameters.requests as f64 * parameters.warm_up) as u64;
    let counted = outcome.histogram.len() + outcome.requests_failed;
    assert_eq!(counted, measured * u64::from(parameters.replications), "{}", outcome.policy);
}

#[test]
fn every_request_is_answered_or_failed_once() {
    let plain = parameters();
    let far = Parameters { network: Some("exp:0.5".to_owned()), ..parameters() };
    let slow = Parameters { cancel_cost: Some("1".to_owned()), slots: 2, ..parameters() };
    let jittery = Parameters { jitter: Some("bimodal:0.02:10".to_owned()), ..far.clone() };
    for parameters in [plain, far, slow, jittery] {
        for outcome in run(&parameters, &POLICIES) {
            assert_all_counted(&outcome, &parameters);
            assert!(outcome.stable, "{}", outcome.policy);
            let rare = outcome.requests_failed * 10 < outcome.histogram.len();
            assert!(rare, "{}: {} failed", outcome.policy, outcome.requests_failed);
        }
    }
}

#[test]
fn a_lost_copy_fails_without_another_server_and_queries_wait_for_one() {
    // A request of length 1 arrives every 10 time units. An outage begins at 100.5, in the middle
    // of a copy, and ends at 1100.5.
    let outage = Some("det:100.5/det:1000".to_owned());
    let alone = Parameters { outage, requests: 100, ..clockwork() };
    let outcome = run_one(&alone, "psq");
    assert_eq!((outcome.histogram.len(), outcome.requests_failed), (99, 1));
    let longest = outcome.histogram.max() as f64 / UNIT_NS as f64;
    assert_close("the request at 110", longest, 991.5, 2e-3);
}

#[test]
fn a_retry_hides_a_failure() {
    // Three servers fail independently and rarely, so the retry of a lost copy nearly always finds
    // a server that is up. A request fails only if the second copy is also lost or if all servers
    // are down.
    let rare = Parameters { outage: Some("exp:500/exp:5".to_owned()), ..parameters() };
    let outcome = run_one(&rare, "psq");
    assert!(outcome.copies_per_query.is_some_and(|copies| copies > 1.0), "some are sent again");
    let failed = outcome.requests_failed as f64 / outcome.histogram.len() as f64;
    assert!(failed < 1e-3, "{failed}");
    // Only the copies that win are useful. Lost copies are wasted work.
    let wasted = outcome.wasted_fraction.expect("busy");
    assert!(wasted > 0.0 && wasted < 0.01, "{wasted}");
}

#[test]
fn a_server_that_returns_is_empty() {
    // Copies travel for a long time. If a server fails while a copy is on its way there, the copy
    // must not occupy the server after it is up again, because the cell considers the copy lost and
    // retries it.
    let parameters = with(
        "shards = 1, service = 'det:1', network = 'det:4', outage = 'exp:20/exp:1', \
         requests = 10_000, replications = 3",
    );
    let outcome = run_one(&parameters, "random");
    assert_all_counted(&outcome, &parameters);
    // A copy is lost if its server fails within the 4 time units before the copy arrives: 1 −
    // e^−(4/20) = 18 %. It is retried at most once, within a budget of a tenth. Servers are
    // therefore busy for less than 0.3·0.82·1.1 of the time. The true share is slightly lower,
    // because outages cut copies short.
    let busy = outcome.utilization.busy.expect("time");
    assert!(busy < 0.3 * 0.82 * 1.1, "{busy}");
    assert_close("busy", busy, 0.26, 0.1);
}
