//! The testbed: a generator and a network function, connected by two wires.
//!
//! ```text
//!  generator                     function
//!  +-----------+   wire one    +----------+
//!  | out  ga --|-------------->|-- na     |   tap at na: the packet arrived
//!  |           |               |   |      |
//!  | in   gb <-|---------------|-- nb     |   tap at gb: it returned
//!  +-----------+   wire two    +----------+
//! ```
//!
//! Each side is a network namespace, and each wire is a pair of veth devices with one queue. The
//! testbed corresponds to Figure 3.1 of document 000, whose generator has two ports as well.

use std::ffi::CString;
use std::fmt::Write as _;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;

use anyhow::{Context as _, Result};
use curtail_xdp::namespace::Namespace;
use curtail_xdp::program::{Redirect, XdpMode};
use nix::net::if_::if_nametoindex;

use crate::frame::{ARRIVED_AT, End, RETURNED_AT, header};
use crate::program::{Onward, tap};

const fn end(interface: &'static str, wire: u8, side: u8) -> End {
    End { interface, mac: [2, 0, 0, 0, wire, side], address: Ipv4Addr::new(10, 201, wire, side) }
}

/// The device through which packets leave the generator.
pub(crate) const GENERATOR_OUT: End = end("ga", 1, 1);
/// The device at which packets arrive at the function.
pub(crate) const FUNCTION_IN: End = end("na", 1, 2);
/// The device through which packets leave the function.
pub(crate) const FUNCTION_OUT: End = end("nb", 2, 2);
/// The device at which packets return to the generator.
pub(crate) const GENERATOR_IN: End = end("gb", 2, 1);

/// Both namespaces, and the tap at the generator.
#[derive(Debug)]
pub(crate) struct Testbed {
    pub(crate) generator: Namespace,
    pub(crate) function: Namespace,
    /// The tap at the generator.
    pub(crate) returned: Tap,
}

/// An XDP program on a device. It passes packets to an AF_XDP socket if there is one.
#[derive(Debug)]
pub(crate) struct Tap {
    tap: Redirect,
}

impl Testbed {
    /// Creates the namespaces, the wires and the tap at the generator.
    pub(crate) fn new() -> Result<Self> {
        let (generator, function) = (Namespace::new()?, Namespace::new()?);
        let (mut here, mut there) = (String::new(), String::new());
        let wires = [(GENERATOR_OUT, FUNCTION_IN), (GENERATOR_IN, FUNCTION_OUT)];
        for (near, far) in &wires {
            let queues = "numtxqueues 1 numrxqueues 1";
            let (mac, other) = (mac(near), mac(far));
            let path = function.path();
            let _ = writeln!(
                here,
                "link add {} {queues} address {mac} type veth peer name {} {queues} address {other} \
                 netns {path}",
                near.interface, far.interface
            );
            up(&mut here, near, far);
            up(&mut there, far, near);
        }
        generator.ip(&here)?;
        function.ip(&there)?;
        let returned = generator.inside(|| Tap::new(&GENERATOR_IN, RETURNED_AT, None))?;
        Ok(Self { generator, function, returned })
    }

    /// Attaches a tap at the function. The tap passes packets to the function's sockets.
    pub(crate) fn tap_function(&self) -> Result<Tap> {
        self.function.inside(|| Tap::new(&FUNCTION_IN, ARRIVED_AT, None))
    }

    /// Makes the function a switch: the tap itself sends packets back.
    pub(crate) fn switch(&self) -> Result<Tap> {
        self.function.inside(|| Tap::new(&FUNCTION_IN, ARRIVED_AT, Some(&FUNCTION_OUT)))
    }
}

impl Tap {
    fn new(at: &End, stamp_at: usize, out: Option<&End>) -> Result<Self> {
        let header = header(&FUNCTION_OUT, &GENERATOR_IN);
        let index_out = out.map(index).transpose()?;
        let onward = index_out.map(|index| Onward { index, header });
        let mut tap = tap(stamp_at, onward).context("cannot load a tap; run this as root")?;
        let attached = tap.attach(index(at)?, XdpMode::Driver);
        attached.with_context(|| format!("no XDP on {}", at.interface))?;
        Ok(Self { tap })
    }

    /// Passes packets to an AF_XDP socket on the tap's device, until the socket is closed.
    pub(crate) fn hand_to(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.tap.set_socket(socket)
    }
}

fn index(end: &End) -> Result<u32> {
    let name = CString::new(end.interface)?;
    if_nametoindex(name.as_c_str()).with_context(|| format!("{}: no such device", end.interface))
}

/// Adds the commands that configure one end. Its neighbor gets a permanent entry, so no address is
/// ever resolved.
fn up(lines: &mut String, end: &End, neighbor: &End) {
    let End { interface, address, .. } = end;
    let _ = writeln!(lines, "addr add {address}/24 dev {interface}");
    let _ = writeln!(lines, "link set {interface} up");
    let (other, mac) = (neighbor.address, mac(neighbor));
    let _ = writeln!(lines, "neigh replace {other} lladdr {mac} dev {interface} nud permanent");
}

fn mac(end: &End) -> String {
    end.mac.map(|byte| format!("{byte:02x}")).join(":")
}
