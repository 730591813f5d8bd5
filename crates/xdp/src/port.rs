//! Sends to a server and receives from it, past the network stack.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::bpf;
use crate::bypass::Bypass;
use crate::frame::{FRAME_MAX, PAYLOAD_MAX, payload, write};
use crate::socket::XdpSocket;

/// Answers that wait unread, at most: 8 MiB, and as much again for what is sent. So a program that is held up
/// for some milliseconds loses none, which would look as if the server had.
const FRAMES: u32 = 4_096;

/// An end of a [`Bypass`]. There is one at a time, for the kernel refuses to bind a second (`EBUSY`), and it
/// belongs to one thread. Its descriptor is readable
/// when there is an answer.
pub struct Port {
    bypass: Arc<Bypass>,
    socket: XdpSocket,
    frame: Vec<u8>,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// How many bytes it has.
    pub bytes: usize,
    /// It came past the stack, and was not left to it.
    pub bypassed: bool,
}

impl Port {
    /// Opens it.
    ///
    /// `Unsupported` if the device has no AF_XDP, or what the system says.
    pub fn open(bypass: &Arc<Bypass>) -> io::Result<Self> {
        let socket = XdpSocket::open(bypass.device(), FRAMES)?;
        bpf::set_socket(bypass.map.as_fd(), socket.as_fd())?;
        Ok(Self { bypass: Arc::clone(bypass), socket, frame: Vec::with_capacity(FRAME_MAX) })
    }

    /// Sends a datagram, or leaves it to the next [`push`](Self::push) where the device takes none now.
    ///
    /// `InvalidInput` if it is longer than [`PAYLOAD_MAX`]; `WouldBlock` if there is no room, as the device has
    /// not sent earlier ones; or what the system says.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > PAYLOAD_MAX {
            let why = format!("a datagram of {} bytes; send at most {PAYLOAD_MAX}", bytes.len());
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        self.frame.clear();
        write(&mut self.frame, &self.bypass.ends, bytes);
        self.socket.send(&self.frame)
    }

    /// Sends what was left to it. To send and to receive does the same.
    pub fn push(&mut self) -> io::Result<()> {
        self.socket.push()
    }

    /// Something is left to the next [`push`](Self::push), perhaps.
    pub fn unsent(&self) -> bool {
        self.socket.unsent()
    }

    /// Receives a datagram into `bytes`, as much of it as there is room for: first what came past
    /// the stack, then what was left to it.
    ///
    /// `WouldBlock` if there is none; or what the system says.
    pub fn receive(&mut self, bytes: &mut [u8]) -> io::Result<Received> {
        let mut read = |frame: &[u8]| {
            let payload = payload(frame)?;
            let count = payload.len().min(bytes.len());
            bytes[..count].copy_from_slice(&payload[..count]);
            Some(Received { bytes: count, bypassed: true })
        };
        // A frame whose lengths are not right is nobody's.
        while let Some(received) = self.socket.receive(&mut read)? {
            if let Some(received) = received {
                return Ok(received);
            }
        }
        let count = self.bypass.stack.recv(bytes)?;
        Ok(Received { bytes: count, bypassed: false })
    }

    /// What is readable when something was left to the stack.
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
