//! The bypass to one server, and the port that sends datagrams and receives responses over it.
//!
//! The bypass is prepared before anything is measured, because attaching a program turns some network
//! cards off for a second.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{getsockopt, sockopt};
use xdp::nic::NicIndex;

use crate::frame::{
    ETHERNET_BYTES, FRAME_MAX, HEADER_BYTES, PAYLOAD_MAX, PeerAddrs, payload, write,
};
use crate::program::{Redirect, XdpMode, filter};
use crate::route::hop;
use crate::socket::XdpSocket;

/// A bypass of the network stack to one server. A [`Port`] sends and receives over it.
#[derive(Debug)]
pub struct Bypass {
    /// The socket that reserves our port, and that receives the packets that the BPF program passes
    /// to the stack.
    pub(crate) stack: UdpSocket,
    pub(crate) addrs: PeerAddrs,
    /// The program, which is attached to the device.
    redirect: Redirect,
    device: String,
    mode: XdpMode,
    queues: usize,
    payload_max: usize,
}

impl Bypass {
    /// Finds the route and attaches the program to its device. This takes up to a second if the
    /// next hop is not resolved yet.
    pub fn prepare(server: SocketAddr) -> io::Result<Self> {
        let SocketAddr::V4(server) = server else {
            let why = format!("{server}: AF_XDP is supported only over IPv4");
            return Err(io::Error::new(ErrorKind::Unsupported, why));
        };
        let stack = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let connected = stack.connect(server);
        // The system returns `EACCES` for the broadcast address of a network.
        let broadcast = connected.as_ref().is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
        if broadcast || server.ip().is_multicast() || server.ip().is_broadcast() {
            let why =
                format!("{server} is not the address of a single server; use a unicast address");
            return Err(io::Error::new(ErrorKind::Unsupported, why));
        }
        connected?;
        stack.set_nonblocking(true)?;
        let SocketAddr::V4(own) = stack.local_addr()? else {
            return Err(io::Error::other("an IPv4 socket has an IPv6 address"));
        };
        let hop = hop(*own.ip(), *server.ip())?;
        let device = hop.device;
        let addrs =
            PeerAddrs { from: own, to: server, from_mac: hop.own_mac, to_mac: hop.next_mac };
        let index = if_nametoindex(device.as_str())?;
        let refused = |error: io::Error| match error.kind() {
            ErrorKind::PermissionDenied => {
                let why =
                    "AF_XDP needs root, or CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_IPC_LOCK";
                io::Error::new(ErrorKind::PermissionDenied, why)
            }
            kind => io::Error::new(kind, format!("{device}: {error}")),
        };
        let mut redirect = filter(server, own).map_err(refused)?;
        let mut attach = |mode| redirect.attach(index, mode).map(|()| mode);
        let attached = attach(XdpMode::Driver).or_else(|_| attach(XdpMode::Skb));
        let mode = attached.map_err(|error: io::Error| match error.kind() {
            ErrorKind::ResourceBusy | ErrorKind::AlreadyExists => {
                let why = format!(
                    "{device}: another XDP program is attached ({error}); wait until it ends, or \
                     detach it (ip link set dev {device} xdp off)"
                );
                io::Error::new(error.kind(), why)
            }
            _ => refused(error),
        })?;
        let queues = queues(index);
        let payload_max = payload_max(&stack)?;
        Ok(Self { stack, addrs, redirect, device, mode, queues, payload_max })
    }

    /// Returns the name of the device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Returns the number of receive queues. Responses that arrive on a queue other than the first
    /// go through the stack.
    pub fn queues(&self) -> usize {
        self.queues
    }

    /// Whether the program takes responses in the driver, before the kernel allocates a packet
    /// buffer. Otherwise it takes them at the entrance to the network stack.
    pub fn in_driver(&self) -> bool {
        self.mode == XdpMode::Driver
    }

    /// Returns the maximum payload length in bytes, which is at most [`PAYLOAD_MAX`].
    pub fn payload_max(&self) -> usize {
        self.payload_max
    }
}

// These functions query the network namespace of this thread, because /sys may show a different
// one.

/// Returns the maximum payload length for one packet to the peer of a connected socket.
fn payload_max(socket: &UdpSocket) -> io::Result<usize> {
    let mtu = usize::try_from(getsockopt(socket, sockopt::IpMtu)?).unwrap_or(0);
    Ok(mtu.saturating_sub(HEADER_BYTES - ETHERNET_BYTES).min(PAYLOAD_MAX))
}

/// Returns the number of receive queues, or one if the device does not report it.
fn queues(index: u32) -> usize {
    let queues = NicIndex::new(index).queue_count();
    queues.map_or(1, |queues| (queues.rx_current as usize).max(1))
}

/// The maximum number of unread responses. Their buffers take 8 MiB, and the buffers for datagrams
/// to be sent take as much. Buffers of this size allow a program to stall for a few milliseconds
/// without losing responses. A response that is lost here would be attributed to the server.
const FRAMES: u32 = 4_096;

/// The local end of a [`Bypass`]. The kernel refuses to bind a second port at the same time
/// (`EBUSY`). A port belongs to one thread. The descriptor of a port is readable when a response
/// has arrived.
pub struct Port {
    bypass: Arc<Bypass>,
    socket: XdpSocket,
    frame: Vec<u8>,
}

/// A response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The length of the response, in bytes.
    pub bytes: usize,
    /// Whether the response bypassed the stack.
    pub bypassed: bool,
}

impl Port {
    /// Opens a port.
    ///
    /// Returns `Unsupported` if the device does not support AF_XDP, or the system's error.
    pub fn open(bypass: &Arc<Bypass>) -> io::Result<Self> {
        let socket = XdpSocket::open(bypass.device(), FRAMES)?;
        bypass.redirect.set_socket(&socket)?;
        Ok(Self { bypass: Arc::clone(bypass), socket, frame: Vec::with_capacity(FRAME_MAX) })
    }

    /// Sends a datagram. If the device cannot accept the datagram now, the next
    /// [`push`](Self::push) sends it.
    ///
    /// Returns `InvalidInput` if the datagram is longer than [`PAYLOAD_MAX`]; `WouldBlock` if there
    /// is no room because the device has not sent earlier datagrams; and otherwise the system's
    /// error.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > PAYLOAD_MAX {
            let why = format!("a datagram of {} bytes; send at most {PAYLOAD_MAX}", bytes.len());
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        self.frame.clear();
        write(&mut self.frame, &self.bypass.addrs, bytes);
        self.socket.send(&self.frame)
    }

    /// Sends the datagrams that are still pending. `send` and `receive` also do this.
    pub fn push(&mut self) -> io::Result<()> {
        self.socket.push()
    }

    /// Whether a datagram may be pending until the next [`push`](Self::push).
    pub fn unsent(&self) -> bool {
        self.socket.unsent()
    }

    /// Receives a datagram into `bytes`. A datagram that does not fit is truncated. Datagrams that
    /// bypassed the stack come first, then those that the BPF program passed to the stack.
    ///
    /// Returns `WouldBlock` if there is no datagram, or the system's error.
    pub fn receive(&mut self, bytes: &mut [u8]) -> io::Result<Received> {
        let mut read = |frame: &[u8]| {
            let payload = payload(frame)?;
            let count = payload.len().min(bytes.len());
            bytes[..count].copy_from_slice(&payload[..count]);
            Some(Received { bytes: count, bypassed: true })
        };
        // Frames with inconsistent lengths are skipped.
        while let Some(received) = self.socket.receive(&mut read)? {
            if let Some(received) = received {
                return Ok(received);
            }
        }
        let count = self.bypass.stack.recv(bytes)?;
        Ok(Received { bytes: count, bypassed: false })
    }

    /// Returns the socket that becomes readable when a datagram arrives through the stack.
    pub fn stack(&self) -> &UdpSocket {
        &self.bypass.stack
    }
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("bypass", &self.bypass).finish_non_exhaustive()
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
