//! Tests of kernel timestamps and of the bypass of the network stack, in a separate process. Other tests
//! keep all processors busy. If these tests ran alongside them, the kernel would enable timestamping
//! too late, and a ring of frames would overflow. For the bypass, a wire connects two network
//! namespaces of this process.

#[allow(dead_code, reason = "only the other tests use all of it")]
#[path = "it/common.rs"]
mod common;
#[path = "../../xdp/tests/common/mod.rs"]
mod wire;

use std::future::pending;
use std::io;
use std::net::SocketAddr;

use curtail_load::{Extent, Pace, Plan, Report, StampsBy, run};
use curtail_xdp::namespace::Namespace;

use common::{Server, echo, measure, plan_of, udp_echo};
use wire::{bind, wire};

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

fn plan(server: SocketAddr) -> Plan {
    let mut plan = Plan::new(format!("udp://{server}").parse().unwrap(), 1_000.0);
    (plan.pace, plan.extent) = (Pace::constant(1_000.0), Extent::Requests(500));
    (plan.stamps, plan.connections, plan.timeout_ns) = (StampsBy::Xdp, 1, 500_000_000);
    plan
}

/// Runs a plan in a namespace, including the threads of the run.
fn run_in(namespace: &Namespace, plan: &Plan) -> Report {
    let report = namespace.inside(|| -> io::Result<Report> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(run(plan, pending(), |_| {})).map_err(io::Error::other)
    });
    report.unwrap()
}

#[test]
fn responses_bypass_the_stack() {
    let Some((near, far)) = wire() else { return };
    let server = wire::echo(&far);
    for bytes in [16, 1_472] {
        let mut plan = plan(server);
        plan.protocol.datagram_bytes = bytes;
        let report = run_in(&near, &plan);
        assert_eq!((report.requests, report.errors.total()), (500, 0));
        let stamps = report.stamps.unwrap();
        assert_eq!((stamps.sent_coverage, stamps.received_coverage), (1.0, 1.0));
        assert_eq!(stamps.past_stack.unwrap().device, "wire");
        assert_eq!(report.split_ns.p50.unwrap().client_wake_up, 0);
    }
}

#[test]
fn a_missing_server_is_reported() {
    let Some((near, far)) = wire() else { return };
    let (socket, server) = bind(&far);
    drop(socket);
    let report = run_in(&near, &plan(server));
    assert_eq!(report.errors.total(), 500, "{:?}", report.errors);
    let first = report.failures.unwrap().first;
    // The kernel at the other end refuses the packets. The connection is reopened each time, over
    // the same socket.
    assert!(first.contains("refused"), "{first}");
    assert!(report.connections_opened > 1);
}

#[test]
fn plans_that_cannot_bypass_the_stack_are_refused_before_the_run() {
    let fine = plan("10.201.0.2:9".parse().unwrap());
    assert_eq!(fine.check(), Ok(()));
    let refused = |plan: Plan| plan.check().unwrap_err().to_string();
    let why = refused(Plan { connections: 2, ..fine.clone() });
    assert!(why.contains("leave out --connections (here: 2)"), "{why}");
    let why = refused(Plan { target: "tcp://10.201.0.2:9".parse().unwrap(), ..fine.clone() });
    assert!(why.contains("write udp://"), "{why}");
    let mut long = fine;
    long.protocol.datagram_bytes = 1_473;
    let why = refused(long);
    assert!(why.contains("1473 bytes") && why.contains("at most 1472"), "{why}");
}
