//! Tests kernel timestamps: every response has them, and the parts of a latency add up.

use crate::common::{Server, echo, measure, plan_of, udp_echo};
use curtail_load::{Plan, Report, StampsBy};

fn judge(report: &Report) {
    let stamps = report.stamps.as_ref().expect("they were asked for");
    assert!(stamps.sent_coverage > 0.99 && stamps.received_coverage > 0.99, "{stamps:?}");
    assert_eq!(stamps.clock_steps, 0);
    let latency = report.latency_ns.p50.unwrap();
    let parts = report.split_ns.p50.unwrap();
    // The time in the kernel and the time in this program are reported separately.
    assert!(parts.client_wake_up > 0 && parts.wire_to_wire > 0, "{parts:?}");
    let sum = parts.schedule_lag + parts.client_send + parts.wire_to_wire + parts.client_wake_up;
    // The parts come from the requests near the percentile, so the sum is off by a few buckets.
    assert!(sum.abs_diff(latency) < latency / 4, "{parts:?} of {latency}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_on_a_stream_have_stamps() {
    let server = Server::start(echo).await;
    for stamps in [StampsBy::Kernel, StampsBy::User] {
        let plan = Plan { stamps, threads: 2, ..server.plan(1_000.0, 600) };
        let report = measure(&plan).await;
        assert_eq!((report.requests, report.errors.total()), (600, 0));
        if stamps == StampsBy::Kernel {
            judge(&report);
        } else {
            assert!(report.stamps.is_none());
            assert_eq!(report.split_ns.p50.unwrap().client_wake_up, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_have_stamps() {
    let mut plan = plan_of("udp", udp_echo(|_| 1).await, 1_000.0, 600);
    (plan.stamps, plan.connections) = (StampsBy::Kernel, 2);
    let report = measure(&plan).await;
    assert_eq!((report.requests, report.errors.total()), (600, 0));
    judge(&report);
}
