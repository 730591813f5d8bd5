//! Sends to a server and receives from it, past the network stack.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::bpf;
use crate::bypass::Bypass;
use crate::frame::{FRAME_MAX, PAYLOAD_MAX, payload, write};
use crate::socket::XdpSocket;

/// Most unread responses: 8 MiB, and as much again for what is sent. So a program that stalls for some
/// milliseconds loses none, which would look like losses of the server.
const FRAMES: u32 = 4_096;

/// An end of a [`Bypass`]. There is one at a time, because the kernel refuses to bind a second (`EBUSY`), and
/// it belongs to one thread. Its descriptor is readable when there is a response.
pub struct Port {
    bypass: Arc<Bypass>,
    socket: XdpSocket,
    frame: Vec<u8>,
}

/// A response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its length.
    pub bytes: usize,
    /// It bypassed the stack.
    pub bypassed: bool,
}

impl Port {
    /// Opens a port.
    ///
    /// `Unsupported` if the device has no AF_XDP, or the system's error.
    pub fn open(bypass: &Arc<Bypass>) -> io::Result<Self> {
        let socket = XdpSocket::open(bypass.device(), FRAMES)?;
        bpf::set_socket(bypass.map.as_fd(), socket.as_fd())?;
        Ok(Self { bypass: Arc::clone(bypass), socket, frame: Vec::with_capacity(FRAME_MAX) })
    }

    /// Sends a datagram, or leaves it to the next [`push`](Self::push) if the device takes none now.
    ///
    /// `InvalidInput` if it is longer than [`PAYLOAD_MAX`]; `WouldBlock` if there is no room, because the
    /// device has not sent earlier ones; or the system's error.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > PAYLOAD_MAX {
            let why = format!("a datagram of {} bytes; send at most {PAYLOAD_MAX}", bytes.len());
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        self.frame.clear();
        write(&mut self.frame, &self.bypass.addrs, bytes);
        self.socket.send(&self.frame)
    }

    /// Sends the datagrams that were left to it. `send` and `receive` do the same.
    pub fn push(&mut self) -> io::Result<()> {
        self.socket.push()
    }

    /// A datagram may be left to the next [`push`](Self::push).
    pub fn unsent(&self) -> bool {
        self.socket.unsent()
    }

    /// Receives a datagram into `bytes`, truncated to its length: first those that bypassed the stack, then
    /// those that the program left to it.
    ///
    /// `WouldBlock` if there is none; or the system's error.
    pub fn receive(&mut self, bytes: &mut [u8]) -> io::Result<Received> {
        let mut read = |frame: &[u8]| {
            let payload = payload(frame)?;
            let count = payload.len().min(bytes.len());
            bytes[..count].copy_from_slice(&payload[..count]);
            Some(Received { bytes: count, bypassed: true })
        };
        // Skips frames with wrong lengths.
        while let Some(received) = self.socket.receive(&mut read)? {
            if let Some(received) = received {
                return Ok(received);
            }
        }
        let count = self.bypass.stack.recv(bytes)?;
        Ok(Received { bytes: count, bypassed: false })
    }

    /// The socket that is readable when a datagram came through the stack.
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
