//! Stamps of the kernel: every answer has them, and the parts of a latency add up.

use std::future::pending;

use crate::common::{MS, Server, echo};
use curtail_load::{Extent, Pace, Plan, Report, StampsBy, run};
use tokio::net::UdpSocket;

fn judge(report: &Report) {
    let stamps = report.stamps.as_ref().expect("they were asked for");
    assert!(stamps.sent_coverage > 0.99 && stamps.received_coverage > 0.99, "{stamps:?}");
    assert_eq!(stamps.clock_steps, 0);
    let latency = report.latency_ns.p50.unwrap();
    let parts = report.split_ns.p50.unwrap();
    // What the kernel and this program did in between is apart.
    assert!(parts.client_wake_up > 0 && parts.wire_to_wire > 0, "{parts:?}");
    let sum = parts.schedule_lag + parts.client_send + parts.wire_to_wire + parts.client_wake_up;
    // The parts are those of the requests around the percentile: within some buckets.
    assert!(sum.abs_diff(latency) < latency / 4, "{parts:?} of {latency}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_on_a_stream_have_stamps() {
    let server = Server::start(echo).await;
    for stamps in [StampsBy::Kernel, StampsBy::User] {
        let plan = Plan { stamps, threads: 2, ..server.plan(1_000.0, 600) };
        let report = run(&plan, pending(), |_| {}).await.unwrap();
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
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut bytes = vec![0; 1 << 16];
        while let Ok((count, from)) = socket.recv_from(&mut bytes).await {
            let _ = socket.send_to(&bytes[..count], from).await;
        }
    });
    let mut plan = Plan::new(format!("udp://{address}").parse().unwrap(), 1_000.0);
    (plan.pace, plan.extent) = (Pace::constant(1_000.0), Extent::Requests(600));
    (plan.stamps, plan.connections, plan.timeout_ns) = (StampsBy::Kernel, 2, 1_000 * MS);
    let report = run(&plan, pending(), |_| {}).await.unwrap();
    assert_eq!((report.requests, report.errors.total()), (600, 0));
    judge(&report);
}
