//! Tests that a bypassed connection keeps its socket when it ends. A veth pair connects two
//! namespaces of this process.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use curtail_xdp::Bypass;
use curtail_xdp::namespace::pair;

use super::*;
use crate::engine::tests::task;
use crate::plan::Plan;
use crate::plan::schedule::Slot;

const DUE: Due = Due::New(Slot { index: 0, at_ns: 0, query: 0, warmup: false });

struct Harness {
    context: Context,
    _notify: UnixStream,
}

impl Harness {
    fn new(server: SocketAddr) -> Harness {
        let plan = Plan::new(format!("udp://{server}").parse().unwrap(), 1.0);
        let bypass = Arc::new(Bypass::prepare(server).expect("a kernel with AF_XDP"));
        let (task, _notify) = task(&plan, server, Some(bypass));
        Harness { context: Context::new(task).unwrap(), _notify }
    }

    fn turn(&mut self, connection: &mut Connection) {
        let events = self.context.poller.wait(Duration::from_secs(10)).unwrap();
        assert!(events > 0, "no event within ten seconds");
        for at in 0..events {
            let ready = self.context.poller.ready(at);
            connection.ready(ready.readable || ready.error, &mut self.context);
        }
    }

    fn request(&mut self, connection: &mut Connection) -> Outcome {
        connection.send(DUE, 0, &mut self.context).expect("it is on its way");
        while self.context.outcomes.is_empty() {
            self.turn(connection);
        }
        self.context.outcomes.remove(0)
    }
}

#[test]
fn with_the_bypass_a_refusal_leaves_the_socket_open_and_the_poller_idle() {
    let (near, far) = match pair() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            println!("SKIPPED: {error}");
            return;
        }
        pair => pair.expect("a wire"),
    };
    let bind = |address: SocketAddr| far.inside(|| UdpSocket::bind(address)).unwrap();
    let socket = bind("10.201.0.2:0".parse().unwrap());
    let server = socket.local_addr().unwrap();
    drop(socket);
    near.inside(|| -> io::Result<()> {
        let (mut harness, mut connection) = (Harness::new(server), Connection::new(0));
        let refused = harness.request(&mut connection).result.unwrap_err();
        assert!(refused.to_string().contains("refused"), "{refused}");
        assert!(matches!(connection.link, Link::Closed));
        let kept = connection.kept.as_ref().expect("it is kept");
        let (number, own) = (kept.as_fd().as_raw_fd(), kept.stack().unwrap().local_addr()?);
        assert_eq!(harness.context.poller.wait(Duration::ZERO)?, 0, "the poller would spin");
        // The server is back, and sends a late datagram.
        let socket = bind(server);
        socket.send_to(b"too late", own)?;
        harness.turn(&mut connection);
        assert_eq!(harness.context.poller.wait(Duration::ZERO)?, 0, "the poller would spin");
        let echo = std::thread::spawn(move || {
            let mut bytes = [0; 2_000];
            let (count, from) = socket.recv_from(&mut bytes).unwrap();
            socket.send_to(&bytes[..count], from).unwrap();
        });
        harness.request(&mut connection).result.expect("a response");
        echo.join().unwrap();
        let Link::Open { wire, .. } = &connection.link else { panic!("it is open") };
        assert_eq!((wire.as_fd().as_raw_fd(), harness.context.record.connects), (number, 2));
        Ok(())
    })
    .unwrap();
}

#[test]
fn without_stamps_only_the_latest_requests_stay_pending() {
    let mut pending = VecDeque::new();
    let all = TX_PENDING_MAX as u32 + 7;
    (0..all).for_each(|number| push_tx_pending(&mut pending, number, number % 5));
    assert!(pending.into_iter().eq((7..all).map(|number| (number, number % 5))));
}

#[test]
fn stamps_out_of_order_find_their_requests_and_old_requests_are_dropped() {
    let mut pending: VecDeque<(u32, Token)> =
        (0..100).map(|number| (number, number + 500)).collect();
    for number in [1, 3, 2, 0] {
        assert_eq!(take_tx_pending(&mut pending, number), Some(number + 500));
    }
    assert_eq!(take_tx_pending(&mut pending, 2), None, "a second time");
    assert_eq!(take_tx_pending(&mut pending, 50), Some(550));
    assert_eq!(pending.front(), Some(&(34, 534)));
    assert_eq!(take_tx_pending(&mut pending, 33), None);
}
