//! Creates a wire between two network namespaces of this process, with a server at its far end.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::thread;

use curtail_xdp::namespace::{Namespace, pair};

/// Returns the two ends of a wire. If namespaces are not permitted, it prints that the test is
/// skipped and returns `None`.
pub(crate) fn wire() -> Option<(Namespace, Namespace)> {
    match pair() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            println!("SKIPPED: {error}");
            None
        }
        pair => Some(pair.expect("a wire")),
    }
}

/// Binds a socket at the far end.
pub(crate) fn bind(far: &Namespace) -> (UdpSocket, SocketAddr) {
    let socket = far.inside(|| UdpSocket::bind("10.201.0.2:0")).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Starts a server at the far end that sends everything back.
pub(crate) fn echo(far: &Namespace) -> SocketAddr {
    let (socket, address) = bind(far);
    thread::spawn(move || {
        let mut bytes = [0; 2_000];
        while let Ok((count, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..count], from);
        }
    });
    address
}
