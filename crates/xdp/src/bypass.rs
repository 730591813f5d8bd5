//! Prepares the bypass to one server before anything is measured, because attaching a program turns
//! some network cards off for a second.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{getsockopt, sockopt};
use xdp::nic::NicIndex;

use crate::bpf::{self, Mode};
use crate::filter::filter;
use crate::frame::{ETHERNET_BYTES, HEADER_BYTES, PAYLOAD_MAX, PeerAddrs};
use crate::neighbor::hop;

/// A bypass of the network stack to one server. A [`Port`](crate::Port) sends and receives over it.
#[derive(Debug)]
pub struct Bypass {
    /// The socket that reserves our port, and that receives the packets that the BPF program passes
    /// to the stack.
    pub(crate) stack: UdpSocket,
    pub(crate) addrs: PeerAddrs,
    pub(crate) map: OwnedFd,
    device: String,
    mode: Mode,
    queues: usize,
    payload_max: usize,
    /// The attachment, which keeps the program attached to the device.
    _link: OwnedFd,
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
        let map = bpf::map_of_sockets().map_err(refused)?;
        let program = filter(server, own, map.as_raw_fd());
        let program = bpf::load("curtail", program.instructions()).map_err(refused)?;
        let attached = bpf::attach(program.as_fd(), index, Mode::Driver)
            .map(|link| (link, Mode::Driver))
            .or_else(|_| {
                let link = bpf::attach(program.as_fd(), index, Mode::Generic)?;
                Ok((link, Mode::Generic))
            });
        let (link, mode) = attached.map_err(|error: io::Error| match error.kind() {
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
        Ok(Self { stack, addrs, map, device, mode, queues, payload_max, _link: link })
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

    /// Returns the point at which the program takes responses.
    pub fn mode(&self) -> Mode {
        self.mode
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
