//! Sends datagrams to a server and receives its responses, bypassing the network stack.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::bpf;
use crate::bypass::Bypass;
use crate::frame::{FRAME_MAX, PAYLOAD_MAX, payload, write};
use crate::socket::XdpSocket;

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
        bpf::set_socket(bypass.map.as_fd(), socket.as_fd())?;
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
