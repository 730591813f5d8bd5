//! In place of the way past the network stack, in a build without it.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Whatever the length: [`Bypass::prepare`] refuses, and says why.
pub(crate) const PAYLOAD_MAX: usize = usize::MAX;

/// There is none.
#[derive(Debug)]
pub(crate) enum Bypass {}

#[derive(Debug)]
pub(crate) enum Port {}

pub(crate) struct Received {
    pub(crate) bytes: usize,
    pub(crate) bypassed: bool,
}

#[derive(PartialEq, Eq)]
pub(crate) enum Mode {
    Driver,
}

impl Bypass {
    pub(crate) fn prepare(_: SocketAddr) -> io::Result<Bypass> {
        let why = "this build has no AF_XDP; build it with the feature `xdp`";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    pub(crate) fn device(&self) -> &str {
        match *self {}
    }

    pub(crate) fn queues(&self) -> usize {
        match *self {}
    }

    pub(crate) fn mode(&self) -> Mode {
        match *self {}
    }

    pub(crate) fn payload_max(&self) -> usize {
        match *self {}
    }
}

impl Port {
    pub(crate) fn open(bypass: &Arc<Bypass>) -> io::Result<Port> {
        match **bypass {}
    }

    pub(crate) fn send(&mut self, _: &[u8]) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn push(&mut self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn unsent(&self) -> bool {
        match *self {}
    }

    pub(crate) fn receive(&mut self, _: &mut [u8]) -> io::Result<Received> {
        match *self {}
    }

    pub(crate) fn stack(&self) -> &UdpSocket {
        match *self {}
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}
