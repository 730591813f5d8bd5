//! Tests the bypass to a server at the other end of a wire, and checks that other sockets are not
//! affected. The wire joins two network namespaces of this process.

mod common;

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use curtail_xdp::{Bypass, PAYLOAD_MAX, Port, Received};

use common::{bind, echo, wire};

/// Runs a client at one end of a wire. A server at the other end sends everything back.
fn with_echo(client: impl FnOnce(SocketAddr) + Send) {
    let Some((near, far)) = wire() else { return };
    let address = echo(&far);
    near.inside(|| -> io::Result<()> {
        client(address);
        Ok(())
    })
    .unwrap();
}

fn open(server: SocketAddr) -> Port {
    let bypass = Bypass::prepare(server).expect("a kernel with AF_XDP");
    assert_eq!((bypass.device(), bypass.payload_max()), ("wire", PAYLOAD_MAX));
    Port::open(&Arc::new(bypass)).expect("veth has AF_XDP")
}

/// Changes the settings of this end of the wire.
fn link(change: &str) {
    let mut command = std::process::Command::new("ip");
    let status = command.args(["link", "set", "wire"]).args(change.split(' ')).status();
    assert!(status.unwrap().success());
}

fn receive(port: &mut Port, bytes: &mut [u8]) -> io::Result<Received> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match port.receive(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                thread::yield_now();
            }
            received => return received,
        }
    }
}

#[test]
fn datagrams_go_to_a_server_and_back_past_the_stack() {
    with_echo(|server| {
        let mut port = open(server);
        let mut bytes = [0; 2_000];
        // Sends more datagrams than the rings have room for, so that every ring wraps.
        for (length, at) in [0, 1, 17, 18, 19, 1_000, PAYLOAD_MAX].into_iter().cycle().zip(0..1_000)
        {
            let sent = vec![at as u8; length];
            port.send(&sent).unwrap();
            let received = receive(&mut port, &mut bytes).unwrap();
            assert_eq!(received, Received { bytes: length, bypassed: true }, "{at}");
            assert_eq!(bytes[..length], sent);
        }
        let long = port.send(&vec![0; PAYLOAD_MAX + 1]).unwrap_err();
        assert_eq!(long.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn responses_passed_to_the_stack_are_received_too() {
    with_echo(|server| {
        let mut port = open(server);
        // The response is too long for our frames, so it goes to the stack, and the port reads it
        // from there.
        let long = vec![7; PAYLOAD_MAX + 1];
        port.stack().send(&long).unwrap();
        let mut bytes = [0; 2_000];
        let received = receive(&mut port, &mut bytes).unwrap();
        assert_eq!(received, Received { bytes: long.len(), bypassed: false });
        assert_eq!(bytes[..long.len()], long);
    });
}

#[test]
fn another_socket_to_the_same_server_keeps_its_responses() {
    with_echo(|server| {
        let mut port = open(server);
        let other = UdpSocket::bind("0.0.0.0:0").unwrap();
        other.connect(server).unwrap();
        other.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        other.send(b"mine").unwrap();
        let mut bytes = [0; 100];
        assert_eq!(other.recv(&mut bytes).unwrap(), 4);
        port.send(b"yours").unwrap();
        assert_eq!(receive(&mut port, &mut bytes).unwrap().bytes, 5);
        assert_eq!(port.receive(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn devices_are_looked_up_in_the_namespace_of_the_thread() {
    let Some((near, far)) = wire() else { return };
    // /sys shows the devices of the network namespace in which it was mounted.
    let queues = "numtxqueues 2 numrxqueues 2";
    let path = far.path();
    near.ip(&format!(
        "link add wide {queues} type veth peer name wide {queues} netns {path}\n\
         addr add 10.202.0.1/24 dev wide\nlink set wide mtu 1400 up"
    ))
    .unwrap();
    far.ip("addr add 10.202.0.2/24 dev wide\nlink set wide up").unwrap();
    near.inside(|| -> io::Result<()> {
        let bypass = Bypass::prepare("10.202.0.2:9".parse().unwrap())?;
        let found = (bypass.device(), bypass.payload_max(), bypass.queues());
        assert_eq!(found, ("wide", 1_372, 2));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_second_port_is_refused_with_the_fix() {
    with_echo(|server| {
        let bypass = Arc::new(Bypass::prepare(server).unwrap());
        let _first = Port::open(&bypass).unwrap();
        let why = Port::open(&bypass).unwrap_err().to_string();
        assert!(why.contains("busy") && why.contains("end that program"), "{why}");
    });
}

#[test]
fn unsupported_addresses_are_refused() {
    for (server, expected) in [
        ("[::1]:7", "IPv4"),
        ("127.0.0.1:7", "is this machine"),
        ("0.0.0.0:7", "is this machine"),
        ("224.0.0.1:7", "is not the address of a single server"),
        ("255.255.255.255:7", "is not the address of a single server"),
    ] {
        let why = Bypass::prepare(server.parse().unwrap()).unwrap_err();
        assert_eq!(why.kind(), ErrorKind::Unsupported);
        assert!(why.to_string().contains(expected), "{why}");
    }
}

#[test]
fn a_frame_that_the_device_drops_does_not_block_later_ones() {
    with_echo(|server| {
        let mut port = open(server);
        // The MTU of this end of the wire. The far end drops frames that are longer than its own
        // MTU.
        link("mtu 600");
        let _ = port.send(&[1; 1_400]);
        link("mtu 1500");
        port.send(b"here").unwrap();
        let mut bytes = [0; 2_000];
        while receive(&mut port, &mut bytes).unwrap().bytes != 4 {}
        assert_eq!(&bytes[..4], b"here");
    });
}

#[test]
fn pending_frames_are_sent_later_and_once() {
    let Some((near, far)) = wire() else { return };
    let (socket, server) = bind(&far);
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    near.inside(|| -> io::Result<()> {
        let mut port = open(server);
        link("down");
        // The frames are nevertheless in the ring, and there are more of them than the kernel sends
        // in one call.
        for number in 0..40 {
            assert_eq!(port.send(&[number]).unwrap_err().kind(), ErrorKind::NetworkDown);
        }
        link("up");
        port.send(&[40]).expect("it is in the ring");
        assert!(port.unsent(), "the kernel sends no more at once");
        assert_eq!(port.receive(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(!port.unsent());
        port.send(&[41]).unwrap();
        Ok(())
    })
    .unwrap();
    for number in 0..=41 {
        let mut bytes = [0; 9];
        assert_eq!((socket.recv(&mut bytes).unwrap(), bytes[0]), (1, number));
    }
}
