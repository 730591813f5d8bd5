//! Datagrams, some of which are lost, late, or sent twice.

use std::future::pending;
use std::net::SocketAddr;

use curtail_load::{Errors, Extent, Pace, Plan, run};
use tokio::net::UdpSocket;

const MS: u64 = 1_000_000;

fn plan(address: SocketAddr, rate: f64, requests: u64) -> Plan {
    let mut plan = Plan::new(format!("udp://{address}").parse().unwrap(), rate);
    plan.extent = Extent::Requests(requests);
    plan.pace = Pace::constant(rate);
    plan.timeout_ns = 500 * MS;
    plan
}

/// Sends back what `copies` says of the sequence number: so many times.
async fn echo(length: usize, copies: impl Fn(u64) -> usize + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut bytes = vec![0; 1 << 16];
        while let Ok((count, from)) = socket.recv_from(&mut bytes).await {
            assert_eq!(count, length);
            let number = u64::from_be_bytes(bytes[..8].try_into().unwrap());
            for _ in 0..copies(number) {
                socket.send_to(&bytes[..count], from).await.unwrap();
            }
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_come_back_and_duplicates_are_ignored() {
    let address = echo(64, |number| 1 + usize::from(number % 3 == 0)).await;
    let mut plan = plan(address, 2_000.0, 500);
    plan.connections = 2;
    let report = run(&plan, pending(), |_| {}).await.unwrap();
    assert_eq!((report.errors.total(), report.histogram.len()), (0, 500), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_datagrams_time_out_and_nothing_waits_for_them() {
    let address = echo(1000, |number| usize::from(number % 10 != 0)).await;
    let mut plan = plan(address, 1_000.0, 300);
    (plan.connections, plan.protocol.datagram_bytes) = (1, 1000);
    let report = run(&plan, pending(), |_| {}).await.unwrap();
    let errors = Errors { timeout: 30, ..Errors::default() };
    assert_eq!(report.errors, errors, "{report:?}");
    // Answers did not wait behind the lost ones.
    assert!(report.latency_ns.max.unwrap() < 400 * MS, "{report:?}");
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_told() {
    let unused = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let report = run(&plan(unused, 500.0, 20), pending(), |_| {}).await.unwrap();
    assert_eq!(report.errors.connect, 20, "{report:?}");
}
