//! The sockets of connections, all non-blocking.
//!
//! Each datagram has its length as a prefix ([`crate::session::LENGTH_BYTES`]). The session writes
//! the prefix to `output`, and this module writes it to `input`.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, BytesMut};
use curtail_xdp::{Bypass, Port};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};

use crate::engine::stamp::{self, Layer, Room};
use crate::session::LENGTH_BYTES;

/// Maximum number of bytes per read. A longer response takes several reads, between which due
/// requests are sent.
const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Wire {
    socket: Socket,
    stamped: bool,
}

/// Buffers for reads, shared by all sockets of a thread.
#[derive(Debug)]
pub(super) struct Scratch {
    bytes: Box<[u8]>,
    room: Room,
    /// When the bytes of the last read were received, on the timestamp clock. `None` if unknown.
    pub(super) received_ns: Option<u64>,
    /// Whether the bytes of the last read bypassed the network stack.
    pub(super) bypassed: bool,
}

impl Scratch {
    pub(super) fn new(layer: Layer) -> Scratch {
        Scratch {
            bytes: vec![0; READ_BYTES].into(),
            room: Room::new(layer),
            received_ns: None,
            bypassed: false,
        }
    }
}

#[derive(Debug)]
enum Socket {
    Stream(TcpStream),
    Datagram(UdpSocket),
    PastStack(Box<Port>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Bytes(usize),
    Nothing,
    End,
}

impl Wire {
    /// Starts to connect. The socket becomes writable when it is connected.
    pub(super) fn connect(address: SocketAddr, datagrams: bool, nagle: bool) -> io::Result<Wire> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (kind, protocol) = if datagrams {
            (SocketType::DGRAM, ipproto::UDP)
        } else {
            (SocketType::STREAM, ipproto::TCP)
        };
        let socket = socket_with(family, kind, flags, Some(protocol))?;
        if !(datagrams || nagle) {
            // A request is sent with one write, which must not wait until the previous request is
            // acknowledged.
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let socket = if datagrams {
            Socket::Datagram(UdpSocket::from(socket))
        } else {
            Socket::Stream(TcpStream::from(socket))
        };
        Ok(Wire { socket, stamped: false })
    }

    pub(super) fn past_stack(bypass: &Arc<Bypass>) -> io::Result<Wire> {
        let port = Port::open(bypass)?;
        Ok(Wire { socket: Socket::PastStack(Box::new(port)), stamped: false })
    }

    /// Returns the socket for packets that still come through the stack.
    pub(super) fn stack(&self) -> Option<&UdpSocket> {
        match &self.socket {
            Socket::PastStack(port) => Some(port.stack()),
            _ => None,
        }
    }

    pub(super) fn stamp(&mut self, layer: Layer) -> io::Result<()> {
        match &self.socket {
            Socket::Stream(stream) => stamp::enable(stream, true, layer),
            Socket::Datagram(socket) => stamp::enable(socket, false, layer),
            Socket::PastStack(_) => return Ok(()),
        }?;
        self.stamped = true;
        Ok(())
    }

    /// Calls `each` for each request that left since the last call, with its number and its
    /// timestamp. The number of a datagram is the count of earlier datagrams; in a stream it is the
    /// offset of the request's last byte.
    pub(super) fn left(&self, scratch: &mut Scratch, each: impl FnMut(u32, u64)) -> io::Result<()> {
        if !self.stamped {
            return Ok(());
        }
        stamp::drain(self, &mut scratch.room, each)
    }

    pub(super) fn connected(&self) -> io::Result<()> {
        let error = match &self.socket {
            Socket::Stream(stream) => stream.take_error(),
            Socket::Datagram(socket) => socket.take_error(),
            Socket::PastStack(_) => Ok(None),
        };
        error?.map_or(Ok(()), Err)
    }

    pub(super) fn write(&mut self, output: &mut BytesMut) -> io::Result<usize> {
        let mut written = 0;
        if let Socket::PastStack(port) = &mut self.socket {
            port.push()?;
        }
        while !output.is_empty() {
            let result = match &mut self.socket {
                Socket::Stream(stream) => stream.write(output),
                Socket::Datagram(socket) => send(output, |bytes| socket.send(bytes).map(drop)),
                Socket::PastStack(port) => send(output, |bytes| port.send(bytes)),
            };
            match result {
                Ok(count) => {
                    output.advance(count);
                    written += count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Whether some written data may still be pending. The next write sends this data, even if that
    /// write adds no new data.
    pub(super) fn unsent(&self) -> bool {
        matches!(&self.socket, Socket::PastStack(port) if port.unsent())
    }

    pub(super) fn read(
        &mut self,
        input: &mut BytesMut,
        scratch: &mut Scratch,
    ) -> io::Result<Found> {
        loop {
            match self.read_once(scratch) {
                Ok(0) => return Ok(Found::End),
                Ok(count) => {
                    input.extend_from_slice(&scratch.bytes[..count]);
                    return Ok(Found::Bytes(count));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Found::Nothing),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn read_once(&mut self, scratch: &mut Scratch) -> io::Result<usize> {
        let Scratch { bytes, room, received_ns, bypassed } = scratch;
        // Reset the values first: even if this read fails, those of another connection's read must
        // not remain.
        (*received_ns, *bypassed) = (None, false);
        match (&mut self.socket, self.stamped) {
            (Socket::Stream(stream), false) => stream.read(bytes),
            (Socket::Stream(stream), true) => {
                let (count, stamp) = stamp::read(stream, bytes, room)?;
                *received_ns = stamp;
                Ok(count)
            }
            (Socket::Datagram(socket), stamped) => {
                let (mut length, rest) = bytes.split_at_mut(LENGTH_BYTES);
                // The buffer has room for the longest datagram.
                let count = if stamped {
                    let (count, stamp) = stamp::read(socket, rest, room)?;
                    *received_ns = stamp;
                    count
                } else {
                    socket.recv(rest)?
                };
                length.put_u32_le(count as u32);
                Ok(LENGTH_BYTES + count)
            }
            (Socket::PastStack(port), _) => {
                let (mut length, rest) = bytes.split_at_mut(LENGTH_BYTES);
                let received = port.receive(rest)?;
                *bypassed = received.bypassed;
                length.put_u32_le(received.bytes as u32);
                Ok(LENGTH_BYTES + received.bytes)
            }
        }
    }
}

/// Sends the first datagram of `output`. Returns its length including the prefix.
fn send(output: &[u8], send: impl FnOnce(&[u8]) -> io::Result<()>) -> io::Result<usize> {
    let (mut length, rest) = output.split_at(LENGTH_BYTES);
    let length = length.get_u32_le() as usize;
    send(&rest[..length])?;
    Ok(LENGTH_BYTES + length)
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Stream(stream) => stream.as_fd(),
            Socket::Datagram(socket) => socket.as_fd(),
            Socket::PastStack(port) => port.as_fd(),
        }
    }
}
