//! A connection's bytes: sockets that never wait.
//!
//! Of datagrams, each stands behind its length ([`crate::session::LENGTH_BYTES`]): in `output` as the
//! session wrote it, in `input` as it came.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::{Buf as _, BufMut as _, BytesMut};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};

use crate::session::LENGTH_BYTES;

/// Read at once. An answer that is longer takes several turns, between which due requests are sent.
const READ_BYTES: usize = 64 << 10;

/// A socket, connected or about to be.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Socket,
    scratch: Box<[u8]>,
}

#[derive(Debug)]
enum Socket {
    Stream(TcpStream),
    Datagram(UdpSocket),
}

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// So many bytes.
    Bytes(usize),
    /// None for now.
    Nothing,
    /// The end.
    End,
}

impl Wire {
    /// Begins to connect. It is done when the socket becomes writable.
    pub(super) fn connect(address: SocketAddr, datagrams: bool) -> io::Result<Wire> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (kind, protocol) = if datagrams {
            (SocketType::DGRAM, ipproto::UDP)
        } else {
            (SocketType::STREAM, ipproto::TCP)
        };
        let socket = socket_with(family, kind, flags, Some(protocol))?;
        if !datagrams {
            // A request is one write, and must not wait for the acknowledgment of the last.
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
        Ok(Wire { socket, scratch: vec![0; READ_BYTES].into() })
    }

    /// Why connecting failed, if it did.
    pub(super) fn connected(&self) -> io::Result<()> {
        let error = match &self.socket {
            Socket::Stream(stream) => stream.take_error(),
            Socket::Datagram(socket) => socket.take_error(),
        };
        error?.map_or(Ok(()), Err)
    }

    /// Writes what the system takes from the start of `output`, and tells how many bytes.
    pub(super) fn write(&mut self, output: &mut BytesMut) -> io::Result<usize> {
        let mut written = 0;
        while !output.is_empty() {
            let result = match &mut self.socket {
                Socket::Stream(stream) => stream.write(output),
                Socket::Datagram(socket) => send(socket, output),
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

    /// Appends what has come to `input`: of datagrams, one with its length.
    pub(super) fn read(&mut self, input: &mut BytesMut) -> io::Result<Found> {
        loop {
            let result = match &mut self.socket {
                Socket::Stream(stream) => stream.read(&mut self.scratch),
                Socket::Datagram(socket) => receive(socket, &mut self.scratch),
            };
            match result {
                Ok(0) => return Ok(Found::End),
                Ok(count) => {
                    input.extend_from_slice(&self.scratch[..count]);
                    return Ok(Found::Bytes(count));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Found::Nothing),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Sends the first datagram of `output`, and tells how long it was with its length.
fn send(socket: &UdpSocket, output: &[u8]) -> io::Result<usize> {
    let (mut length, rest) = output.split_at(LENGTH_BYTES);
    let length = length.get_u32_le() as usize;
    socket.send(&rest[..length])?;
    Ok(LENGTH_BYTES + length)
}

/// The next datagram, behind its length.
fn receive(socket: &UdpSocket, into: &mut [u8]) -> io::Result<usize> {
    let (mut length, rest) = into.split_at_mut(LENGTH_BYTES);
    // The longest datagram fits.
    let count = socket.recv(rest)?;
    length.put_u32_le(count as u32);
    Ok(LENGTH_BYTES + count)
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Stream(stream) => stream.as_fd(),
            Socket::Datagram(socket) => socket.as_fd(),
        }
    }
}
