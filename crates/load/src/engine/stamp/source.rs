//! The source of the timestamps for requests and responses, and the resources that it needs during a
//! run. For software timestamps, this includes a socket that keeps timestamping enabled.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use curtail_xdp::Bypass;
use serde::{Deserialize, Serialize};

use crate::engine::stamp::conversion::StampClock;
use crate::engine::stamp::nic::Nic;
use crate::engine::stamp::{DeviceClock, Layer, Room, drain, enable, read};
use crate::plan::error::LoadError;
use crate::plan::{Plan, StampsBy};

/// The way in which a run bypasses the network stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastStack {
    /// The name of the device.
    pub device: String,
    /// The number of receive queues. Packets that arrive on any other queue than the first go
    /// through the stack.
    pub queues: usize,
    /// Whether responses are redirected in the device's driver. Otherwise they are redirected where
    /// they enter the network stack.
    pub in_driver: bool,
}

#[derive(Debug)]
pub(crate) enum Source {
    User,
    Kernel(Keeper),
    Hardware(Nic),
    Xdp(Arc<Bypass>),
}

impl Source {
    pub(crate) fn prepare(plan: &Plan, addresses: &[SocketAddr]) -> Result<Source, LoadError> {
        let source = Source::of(plan.stamps, addresses).map_err(LoadError::Stamps)?;
        if let Source::Xdp(bypass) = &source {
            plan.check_datagram(bypass.payload_max())?;
        }
        Ok(source)
    }

    fn of(stamps: StampsBy, addresses: &[SocketAddr]) -> io::Result<Source> {
        Ok(match stamps {
            StampsBy::User => Source::User,
            StampsBy::Kernel => Source::Kernel(Keeper::new()?),
            StampsBy::Hardware => Source::Hardware(Nic::prepare(addresses)?),
            StampsBy::Xdp => {
                let first = addresses.iter().find(|address| address.is_ipv4());
                let none = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                let address = first.or(addresses.first()).ok_or_else(none)?;
                Source::Xdp(Arc::new(Bypass::prepare(*address)?))
            }
        })
    }

    pub(crate) fn stamping(&self) -> Option<Stamping> {
        match self {
            Source::User => None,
            Source::Kernel(keeper) => Some(keeper.stamping.clone()),
            Source::Hardware(nic) => {
                Some(Stamping { hardware: vec![nic.device.clone()], ..Stamping::default() })
            }
            Source::Xdp(bypass) => {
                let past_stack = Some(PastStack {
                    device: bypass.device().to_owned(),
                    queues: bypass.queues(),
                    in_driver: bypass.in_driver(),
                });
                Some(Stamping { past_stack, ..Stamping::default() })
            }
        }
    }

    /// Returns the clock that the sockets' timestamps use.
    pub(crate) fn clock(&self) -> Option<StampClock> {
        match self {
            Source::Kernel(_) => Some(StampClock::System),
            Source::Hardware(nic) => Some(StampClock::Device(Arc::clone(&nic.phc))),
            Source::User | Source::Xdp(_) => None,
        }
    }

    pub(crate) fn bypass(&self) -> Option<&Arc<Bypass>> {
        match self {
            Source::Xdp(bypass) => Some(bypass),
            _ => None,
        }
    }
}

/// Maximum time to keep sending packets until one of them has a timestamp. Linux enables
/// timestamping in a separate task, which takes a few tens of microseconds, and longer if all
/// processors are busy.
const ENABLED_WITHIN: Duration = Duration::from_secs(1);
/// A packet that the socket sends to itself counts as lost if it has not arrived after this time.
const ARRIVES_WITHIN: Duration = Duration::from_millis(100);
const CALIBRATED: u32 = 2_000;

/// While this value exists, the kernel timestamps all packets that this machine receives.
#[derive(Debug)]
pub struct Keeper {
    /// Timestamping stays enabled as long as a socket requests it.
    _socket: UdpSocket,
    pub(crate) stamping: Stamping,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamping {
    pub(crate) unstamped: u32,
    /// The time that timestamping adds to sending and receiving a packet, in nanoseconds.
    pub(crate) cost_ns: u64,
    pub(crate) hardware_clocks: Vec<String>,
    /// The devices that timestamp the packets, one on each machine. If set, the fields above are
    /// empty.
    #[serde(default)]
    pub(crate) hardware: Vec<DeviceClock>,
    /// The bypass of the network stack. If set, the fields above are empty.
    pub(crate) past_stack: Option<PastStack>,
}

impl Stamping {
    pub(crate) fn merge(&mut self, other: Stamping) {
        self.unstamped = self.unstamped.saturating_add(other.unstamped);
        self.cost_ns = self.cost_ns.max(other.cost_ns);
        self.hardware_clocks.extend(other.hardware_clocks);
        self.hardware_clocks.sort();
        self.hardware_clocks.dedup();
        self.hardware.extend(other.hardware);
    }
}

impl Keeper {
    /// Enables timestamping, and sends packets from a socket to itself until one has a timestamp.
    pub fn new() -> io::Result<Keeper> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(socket.local_addr()?)?;
        socket.set_read_timeout(Some(ARRIVES_WITHIN))?;
        let plain_ns = round_trips(&socket, |socket| {
            socket.send(&[0; 8])?;
            socket.recv(&mut [0; 8]).map(drop)
        })?;
        enable(&socket, false, Layer::Software)?;
        let mut room = Room::new(Layer::Software);
        let (mut unstamped, start) = (0, Instant::now());
        while !stamped(&socket, &mut room)? {
            unstamped += 1;
            if start.elapsed() > ENABLED_WITHIN {
                let why = "the kernel does not timestamp packets (SO_TIMESTAMPING); leave out \
                           --stamps kernel";
                return Err(io::Error::new(io::ErrorKind::Unsupported, why));
            }
        }
        let stamped_ns = round_trips(&socket, |socket| stamped(socket, &mut room).map(drop))?;
        let cost_ns = stamped_ns.saturating_sub(plain_ns);
        let hardware_clocks = clocks();
        let stamping = Stamping { unstamped, cost_ns, hardware_clocks, ..Stamping::default() };
        Ok(Keeper { _socket: socket, stamping })
    }
}

/// Sends a packet and receives it. Returns true if it has both timestamps.
fn stamped(socket: &UdpSocket, room: &mut Room) -> io::Result<bool> {
    socket.send(&[0; 8])?;
    let (_, received) = read(socket, &mut [0; 8], room)?;
    let mut sent = false;
    drain(socket, room, |_, _| sent = true)?;
    Ok(sent && received.is_some())
}

/// Returns the median time that a packet takes from the socket to itself, in nanoseconds.
fn round_trips(
    socket: &UdpSocket,
    mut one: impl FnMut(&UdpSocket) -> io::Result<()>,
) -> io::Result<u64> {
    let mut took = Vec::with_capacity(CALIBRATED as usize);
    for _ in 0..CALIBRATED {
        let start = Instant::now();
        one(socket)?;
        took.push(start.elapsed());
    }
    took.sort_unstable();
    Ok(took[took.len() / 2].as_nanos() as u64)
}

const DEVICES: &str = "/sys/class/net";
const DEVICES_MAX: usize = 256;

pub(crate) fn clocks() -> Vec<String> {
    clocks_in(Path::new(DEVICES))
}

pub(crate) fn devices() -> Vec<String> {
    devices_in(Path::new(DEVICES))
}

fn clocks_in(folder: &Path) -> Vec<String> {
    let mut names = devices_in(folder);
    names.retain(|name| folder.join(name).join("device/ptp").is_dir());
    names
}

fn devices_in(folder: &Path) -> Vec<String> {
    let devices = fs::read_dir(folder).into_iter().flatten().flatten().take(DEVICES_MAX);
    let names = devices.filter_map(|device| device.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_with_a_clock_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["eth1/device/ptp/ptp0", "eth0/device/ptp/ptp1", "veth0", "lo"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        assert_eq!(clocks_in(folder.path()), ["eth0", "eth1"]);
        assert_eq!(devices_in(folder.path()), ["eth0", "eth1", "lo", "veth0"]);
        assert_eq!(clocks_in(Path::new("/nowhere")), Vec::<String>::new());
    }
}
