//! The way to one server past the network stack, made ready before anything is measured: to attach a program
//! takes some network cards a second, in which they are off.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{getsockopt, sockopt};
use xdp::nic::NicIndex;

use crate::bpf::{self, Mode};
use crate::filter::filter;
use crate::frame::{ETHERNET_BYTES, Ends, HEADER_BYTES, PAYLOAD_MAX};
use crate::neighbor::hop;

/// The way to a server. A [`Port`](crate::Port) goes it.
#[derive(Debug)]
pub struct Bypass {
    /// Keeps our port from others, and gets what the program on the device leaves to the stack.
    pub(crate) stack: UdpSocket,
    pub(crate) ends: Ends,
    pub(crate) map: OwnedFd,
    device: String,
    mode: Mode,
    queues: usize,
    payload_max: usize,
    /// The program is on the device as long as there is this.
    _link: OwnedFd,
}

impl Bypass {
    /// Finds the way, and puts the program on the device that leads there. Takes up to a second where the
    /// next hop is not known yet.
    pub fn prepare(server: SocketAddr) -> io::Result<Self> {
        let SocketAddr::V4(server) = server else {
            let why = format!("{server}: AF_XDP goes over IPv4 only here");
            return Err(io::Error::new(ErrorKind::Unsupported, why));
        };
        let stack = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let connected = stack.connect(server);
        // That is what the system says of the broadcast address of a network (`EACCES`).
        let broadcast = connected.as_ref().is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
        if broadcast || server.ip().is_multicast() || server.ip().is_broadcast() {
            let why = format!("{server} is no single server; give the address of one");
            return Err(io::Error::new(ErrorKind::Unsupported, why));
        }
        connected?;
        stack.set_nonblocking(true)?;
        let SocketAddr::V4(own) = stack.local_addr()? else {
            return Err(io::Error::other("a socket of IPv4 has an address of IPv6"));
        };
        let hop = hop(*own.ip(), *server.ip())?;
        let device = hop.device;
        let ends = Ends { from: own, to: server, from_mac: hop.own_mac, to_mac: hop.next_mac };
        let index = if_nametoindex(device.as_str())?;
        let refused = |error: io::Error| match error.kind() {
            ErrorKind::PermissionDenied => {
                let why =
                    "AF_XDP takes root, or CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_IPC_LOCK";
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
                    "{device}: another program of XDP is on it ({error}); wait until it ends, or take it off \
                     (ip link set dev {device} xdp off)"
                );
                io::Error::new(error.kind(), why)
            }
            _ => refused(error),
        })?;
        let queues = queues(index);
        let payload_max = payload_max(&stack)?;
        Ok(Self { stack, ends, map, device, mode, queues, payload_max, _link: link })
    }

    /// The device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// How many queues it receives by. Answers that come by another than the first are left to the
    /// stack.
    pub fn queues(&self) -> usize {
        self.queues
    }

    /// Where on their way answers leave for us.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The longest payload, in bytes: at most [`PAYLOAD_MAX`].
    pub fn payload_max(&self) -> usize {
        self.payload_max
    }
}

// What follows asks the network that this thread is in, which need not be the one that /sys shows.

/// What fits into a packet to where a socket is connected.
fn payload_max(socket: &UdpSocket) -> io::Result<usize> {
    let mtu = usize::try_from(getsockopt(socket, sockopt::IpMtu)?).unwrap_or(0);
    Ok(mtu.saturating_sub(HEADER_BYTES - ETHERNET_BYTES).min(PAYLOAD_MAX))
}

/// One, if the device does not tell.
fn queues(index: u32) -> usize {
    let queues = NicIndex::new(index).queue_count();
    queues.map_or(1, |queues| (queues.rx_current as usize).max(1))
}
