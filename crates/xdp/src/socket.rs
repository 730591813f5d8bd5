//! An AF_XDP socket on the first queue of a device. It sends and receives frames without the
//! network stack.
//!
//! The kernel copies frames between its own buffers and memory that it shares with us. This mode
//! works on every device. The crate `xdp` provides the rings. This module never hands out a frame,
//! so no frame outlives the memory. Source: Linux, Documentation/networking/af_xdp.rst.
//!
//! Bounds: there are at most `frames` frames in each direction, as set in [`XdpSocket::open`]. When
//! all receive frames hold unread packets, the kernel drops further packets. When all send frames
//! are still waiting to be sent, [`XdpSocket::send`] returns `WouldBlock`.

use std::error::Error as _;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use xdp::error::SocketError;
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab as _};
use xdp::socket::{PollTimeout, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{RingConfigBuilder, Umem, WakableRings};

/// A socket bound to a device. A socket belongs to one thread.
pub struct XdpSocket {
    // Fields are dropped in this order. The socket must be closed before the memory is freed,
    // because the kernel uses the memory until then.
    socket: xdp::socket::XdpSocket,
    rings: WakableRings,
    memory: Umem,
    one: HeapSlab,
    frames: u32,
    /// Whether the ring may contain frames that the kernel has not sent yet.
    unsent: bool,
}

impl XdpSocket {
    /// Opens a socket on a device in this thread's network namespace. The socket has room for
    /// `frames` frames of 2 KiB in each direction. `frames` must be a power of two.
    ///
    /// Returns `Unsupported` if the kernel has no AF_XDP, or the system's error.
    pub fn open(interface: &str, frames: u32) -> io::Result<Self> {
        let name = CString::new(interface).map_err(io::Error::other)?;
        let index = NicIndex::lookup_by_name(&name)?;
        let index =
            index.ok_or_else(|| io::Error::other(format!("{interface}: no such device")))?;
        let memory = UmemCfgBuilder {
            frame_size: FrameSize::TwoK,
            frame_count: 2 * frames,
            ..UmemCfgBuilder::default()
        };
        let mut memory = Umem::map(memory.build().map_err(io::Error::other)?)?;
        let rings = RingConfigBuilder {
            rx_count: frames,
            tx_count: frames,
            fill_count: frames,
            completion_count: frames,
        };
        let rings = rings.build().map_err(io::Error::other)?;
        let lacking = |error| lacking(interface, &error);
        let mut builder = XdpSocketBuilder::new().map_err(lacking)?;
        let built = builder.build_wakable_rings(&memory, rings);
        let (mut rings, mut flags) = built.map_err(lacking)?;
        flags.force_copy();
        // SAFETY: the memory lives as long as the socket, because of the order of the fields in
        // this struct.
        unsafe { rings.fill_ring.enqueue(&mut memory, frames as usize, false) }?;
        let socket = builder.bind(index, 0, flags).map_err(lacking)?;
        let one = HeapSlab::with_capacity(1);
        Ok(Self { socket, rings, memory, one, frames, unsent: false })
    }

    /// Waits until a frame arrives or the timeout expires.
    pub fn wait(&self, at_most: Duration) -> io::Result<()> {
        self.socket.poll_read(PollTimeout::new(Some(at_most))).map(drop)
    }

    /// Calls `read` on the oldest frame that arrived and returns its result. Returns `None` if
    /// there is no frame.
    pub fn receive<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> io::Result<Option<T>> {
        self.push()?;
        let Some(ring) = &mut self.rings.rx_ring else { return Ok(None) };
        if self.one.is_empty() {
            // SAFETY: frames in the slab are read and returned to the memory here, while the memory
            // is alive.
            unsafe { ring.recv(&self.memory, &mut self.one) };
        }
        let Some(frame) = self.one.pop_back() else { return Ok(None) };
        let result = read(&frame);
        self.memory.free_packet(frame);
        // SAFETY: as in `open`. In copy mode the kernel polls the ring itself, so no wake-up is
        // needed. The memory has at least one free frame, which is the one that was just freed. The
        // ring has room because the kernel has taken that frame out of it.
        unsafe { self.rings.fill_ring.enqueue(&mut self.memory, 1, false) }?;
        Ok(Some(result))
    }

    /// Sends a frame. If the device cannot accept the frame now, the next [`push`](Self::push)
    /// sends it. A frame that the device drops later is lost, like a frame that is lost on a wire.
    ///
    /// Returns `WouldBlock` if there is no room because the kernel has not sent earlier frames. A
    /// frame that was refused in this way is not sent later. All other errors come from the system.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let full = || io::Error::from(io::ErrorKind::WouldBlock);
        self.rings.completion_ring.dequeue(&mut self.memory, self.frames as usize);
        let ring = self.rings.tx_ring.as_mut().ok_or_else(full)?;
        // SAFETY: this function either puts the frame into the ring or returns it to the memory.
        let mut frame = unsafe { self.memory.alloc() }.ok_or_else(full)?;
        if let Err(error) = frame.append(bytes) {
            self.memory.free_packet(frame);
            return Err(io::Error::other(error));
        }
        let mut one = HeapSlab::with_capacity(1);
        one.push_front(frame);
        // SAFETY: the memory lives as long as the socket.
        unsafe { ring.send(&mut one, false) }?;
        if let Some(frame) = one.pop_back() {
            self.memory.free_packet(frame);
            return Err(full());
        }
        self.unsent = true;
        self.push()
    }

    /// Makes the kernel send the frames in the ring.
    pub fn push(&mut self) -> io::Result<()> {
        if !self.unsent {
            return Ok(());
        }
        match send(self.socket.raw_fd(), &[], MsgFlags::MSG_DONTWAIT) {
            // The device or the kernel cannot accept more frames now.
            Err(Errno::EAGAIN | Errno::ENOBUFS) => Ok(()),
            // The device dropped a frame, for example one that is too long for the other end of the
            // wire. More frames may follow in the ring.
            Err(Errno::EBUSY) => Ok(()),
            sent => {
                sent?;
                self.unsent = false;
                Ok(())
            }
        }
    }

    /// Whether frames may be pending until the next [`push`](Self::push).
    pub fn unsent(&self) -> bool {
        self.unsent
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor stays open while the socket is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.socket.raw_fd()) }
    }
}

fn lacking(interface: &str, error: &SocketError) -> io::Error {
    let step = match error {
        SocketError::SocketCreation(_) => "no socket",
        SocketError::Bind(_) => "not bound",
        _ => "no memory shared with the kernel",
    };
    // The error message of the crate `xdp` is meant for programmers, so the system's error, which
    // is its source, is returned instead.
    let system = error.source().and_then(|error| error.downcast_ref::<io::Error>());
    let message = system.map_or_else(|| error.to_string(), ToString::to_string);
    let fix = match system.and_then(io::Error::raw_os_error).map(Errno::from_raw) {
        Some(Errno::EBUSY) => ": another AF_XDP socket uses its first queue; end that program",
        Some(Errno::EPERM) => ": grant CAP_NET_RAW",
        Some(Errno::ENOBUFS) => {
            ": grant CAP_IPC_LOCK, or raise the limit of locked memory (ulimit -l 32768)"
        }
        _ => "",
    };
    let why = format!("{interface}: AF_XDP: {step}: {message}{fix}");
    io::Error::new(io::ErrorKind::Unsupported, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdp::socket::OptName;

    #[test]
    fn errors_name_the_missing_privilege_and_the_fix() {
        let failed = |errno: Errno| io::Error::from_raw_os_error(errno as i32);
        let memory = |inner| SocketError::SetSockOpt { inner, option: OptName::UmemRegion };
        for (error, expected) in [
            (SocketError::SocketCreation(failed(Errno::EPERM)), "grant CAP_NET_RAW"),
            (memory(failed(Errno::ENOBUFS)), "grant CAP_IPC_LOCK"),
            (SocketError::Bind(failed(Errno::EBUSY)), "end that program"),
            (SocketError::Bind(failed(Errno::EOPNOTSUPP)), "not supported"),
        ] {
            let why = lacking("eth0", &error).to_string();
            assert!(why.starts_with("eth0: AF_XDP: ") && why.contains(expected), "{why}");
            assert!(!why.contains('{'), "a debug format: {why}");
        }
    }
}
