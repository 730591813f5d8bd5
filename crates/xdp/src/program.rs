//! XDP programs that redirect packets of a device to an AF_XDP socket. `aya` loads them, as it
//! loads the programs of `curtail-probe`. The object is compiled from C (`bpf/filter.bpf.c`,
//! `xtask/bpf.sh`).
//!
//! No map, program or attachment outlives its descriptor, so the kernel removes all of them when
//! the process ends for any reason.

use std::error::Error;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd as _};
use std::sync::{Mutex, PoisonError};

use aya::Ebpf;
pub use aya::EbpfLoader;
use aya::maps::XskMap;
pub use aya::programs::XdpMode;
use aya::programs::{ProgramError, TestRun as _, TestRunOptions, Xdp};
use aya::util::KernelVersion;

/// The return value that passes a packet to the stack (include/uapi/linux/bpf.h, `enum
/// xdp_action`).
pub const PASS: u32 = 2;

static FILTER: &[u8] = aya::include_bytes_aligned!("../bpf/filter.bpf.o");

/// A loaded program with the name `redirect`, and its map `SOCKETS`, which has room for the socket
/// of the first queue.
#[derive(Debug)]
pub struct Redirect {
    bpf: Mutex<Ebpf>,
}

/// The result of a program on one packet.
#[derive(Debug)]
pub struct Tested {
    /// The return value.
    pub action: u32,
    /// The contents of the packet after the run.
    pub packet: Vec<u8>,
}

impl Redirect {
    /// Loads an object, which the kernel verifies and compiles. The loader sets its constants.
    ///
    /// Returns the system's error, with the verifier's message if it rejects the program.
    pub fn load(loader: &mut EbpfLoader<'_>, object: &[u8]) -> io::Result<Self> {
        let bpf = loader.load(object).map_err(|error| system(&error))?;
        let mut redirect = Self { bpf: Mutex::new(bpf) };
        redirect.program()?.load().map_err(|error| match error {
            ProgramError::LoadError { ref io_error, .. } => {
                io::Error::new(io_error.kind(), error.to_string())
            }
            error => system(&error),
        })?;
        Ok(redirect)
    }

    /// Attaches the program to a device in this thread's network namespace.
    pub fn attach(&mut self, interface: u32, mode: XdpMode) -> io::Result<()> {
        // On an older kernel, `aya` would attach the program in a way that outlives this process.
        if KernelVersion::current().is_ok_and(|kernel| kernel < KernelVersion::new(5, 9, 0)) {
            let why = "the kernel has no links for XDP programs; use Linux 5.9 or later";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let attached = self.program()?.attach_to_if_index(interface, mode);
        attached.map(drop).map_err(|error| system(&error))
    }

    /// Puts an AF_XDP socket into the map. The kernel removes it when the socket is closed.
    pub fn set_socket(&self, socket: impl AsFd) -> io::Result<()> {
        let mut bpf = self.bpf.lock().unwrap_or_else(PoisonError::into_inner);
        let map = bpf.map_mut("SOCKETS").ok_or_else(|| io::Error::other("no map of sockets"))?;
        let mut map = XskMap::try_from(map).map_err(|error| system(&error))?;
        map.set(0, socket.as_fd().as_raw_fd(), 0).map_err(|error| system(&error))
    }

    /// Runs the program on a packet, without using a device.
    pub fn test(&mut self, packet: &[u8]) -> io::Result<Tested> {
        let mut out = vec![0_u8; packet.len() + 256];
        let options = TestRunOptions {
            data_in: Some(packet),
            data_out: Some(&mut out),
            ..TestRunOptions::new()
        };
        let tested = self.program()?.test_run(options).map_err(|error| system(&error))?;
        out.truncate(tested.data_size_out as usize);
        Ok(Tested { action: tested.return_value, packet: out })
    }

    fn program(&mut self) -> io::Result<&mut Xdp> {
        let bpf = self.bpf.get_mut().unwrap_or_else(PoisonError::into_inner);
        let program = bpf.program_mut("redirect").ok_or_else(|| io::Error::other("no program"))?;
        program.try_into().map_err(|error: ProgramError| system(&error))
    }
}

/// Returns the system's error that caused this one, if there is one.
fn system(error: &(dyn Error + 'static)) -> io::Error {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    let number = causes.find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error());
    number.map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error)
}

/// Loads the program that redirects the responses from one server to one port to our socket. While
/// the map has no socket, it returns `no_socket`.
fn load_filter(server: SocketAddrV4, own: SocketAddrV4, no_socket: u32) -> io::Result<Redirect> {
    // The values are in network byte order, as in the packet.
    let [server_address, own_address] = [server, own].map(|of| of.ip().to_bits().to_be());
    let [server_port, own_port] = [server, own].map(|of| of.port().to_be());
    let mut loader = EbpfLoader::new();
    loader
        .override_global("server", &server_address, true)
        .override_global("own", &own_address, true)
        .override_global("server_port", &server_port, true)
        .override_global("own_port", &own_port, true)
        .override_global("no_socket", &no_socket, true);
    Redirect::load(&mut loader, FILTER)
}

pub(crate) fn filter(server: SocketAddrV4, own: SocketAddrV4) -> io::Result<Redirect> {
    load_filter(server, own, PASS)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::frame::{PeerAddrs, write};

    const SERVER: &str = "10.200.0.1:60000";
    const US: &str = "192.168.255.2:40000";
    const DROP: u32 = 1;

    fn response(from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
        let addrs = PeerAddrs {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            from_mac: [2; 6],
            to_mac: [3; 6],
        };
        let mut frame = Vec::new();
        write(&mut frame, &addrs, payload);
        frame
    }

    /// Whether the program passes each packet to the stack because it is not ours. The map has no
    /// socket, so the program would also pass our packets to the stack. A second program drops them
    /// instead.
    fn are_left(packets: &[Vec<u8>]) -> Option<Vec<bool>> {
        let (server, us) = (SERVER.parse().unwrap(), US.parse().unwrap());
        let mut whole = match filter(server, us) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                println!("SKIPPED: BPF programs need root");
                return None;
            }
            loaded => loaded.expect("a kernel with AF_XDP, whose verifier accepts it"),
        };
        let mut dropping = load_filter(server, us, DROP).expect("the verifier accepts it");
        let action = |of: &mut Redirect, packet: &[u8]| of.test(packet).expect("it runs").action;
        let is_left = |packet: &Vec<u8>| {
            assert_eq!(action(&mut whole, packet), PASS);
            action(&mut dropping, packet) == PASS
        };
        Some(packets.iter().map(is_left).collect())
    }

    #[test]
    fn responses_of_any_length_are_redirected() {
        let packets = [0, 1, 18, 1_472].map(|length| response(SERVER, US, &vec![7; length]));
        let Some(left) = are_left(&packets) else { return };
        assert_eq!(left, [false; 4]);
    }

    #[test]
    fn other_packets_are_passed_to_the_stack() {
        let ours = response(SERVER, US, &[7; 18]);
        let changed = |at: usize, bits: u8| {
            let mut packet = ours.clone();
            packet[at] ^= bits;
            packet
        };
        let others = [
            ("ARP", changed(13, 6)),
            ("IPv4 options", changed(14, 3)),
            ("TCP", changed(23, 17 ^ 6)),
            ("a first fragment", changed(20, 0x20)),
            ("a later fragment", changed(21, 1)),
            ("another server", response("10.200.0.3:60000", US, &[7; 18])),
            ("another port of the server", response("10.200.0.1:60001", US, &[7; 18])),
            ("another address of this machine", response(SERVER, "192.168.255.3:40000", &[7; 18])),
            ("another program on this machine", response(SERVER, "192.168.255.2:40001", &[7; 18])),
            ("too short", ours[..41].to_vec()),
            ("too long", response(SERVER, US, &[7; 1_473])),
        ];
        let packets = others.clone().map(|(_, packet)| packet);
        let Some(left) = are_left(&packets) else { return };
        for ((what, _), left) in others.iter().zip(left) {
            assert!(left, "{what}");
        }
    }
}
