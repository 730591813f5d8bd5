//! A connection's bytes: sockets that never wait.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::{Buf as _, BytesMut};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};

/// Read at once. An answer that is longer takes several turns, between which due requests are sent.
const READ_BYTES: usize = 64 << 10;

/// A socket, connected or about to be.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    scratch: Box<[u8]>,
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
    pub(super) fn connect(address: SocketAddr) -> io::Result<Wire> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        // A request is one write, and must not wait for the acknowledgment of the last.
        sockopt::set_tcp_nodelay(&socket, true)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Wire { stream: TcpStream::from(socket), scratch: vec![0; READ_BYTES].into() })
    }

    /// Why connecting failed, if it did.
    pub(super) fn connected(&self) -> io::Result<()> {
        self.stream.take_error()?.map_or(Ok(()), Err)
    }

    /// Writes what the system takes from the start of `output`, and tells how many bytes.
    pub(super) fn write(&mut self, output: &mut BytesMut) -> io::Result<usize> {
        let mut written = 0;
        while !output.is_empty() {
            match self.stream.write(output) {
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

    /// Appends what has come to `input`.
    pub(super) fn read(&mut self, input: &mut BytesMut) -> io::Result<Found> {
        loop {
            match self.stream.read(&mut self.scratch) {
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

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
