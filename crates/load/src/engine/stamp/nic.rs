//! Configures a network device to timestamp packets with its own clock (PHC, /dev/ptpN) during a
//! run.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use curtail_xdp::hwstamp::{Config, capabilities, config, set_config};
use curtail_xdp::route::device_to;
use nix::errno::Errno;
use rustix::time::{DynamicClockId, clock_gettime_dynamic};
use serde::{Deserialize, Serialize};

/// Number of times that both clocks are read. Only the fastest attempt is used.
const TRIES: usize = 25;

/// A network device's clock, which timestamps packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceClock {
    /// The name of the device.
    pub device: String,
    /// The path of the clock's device file.
    pub clock: String,
    /// How far the clock was ahead of the system clock before the run, in nanoseconds.
    pub ahead_ns: i64,
    /// The maximum error of `ahead_ns`, in nanoseconds: half of the time that it took to read both
    /// clocks.
    pub within_ns: u64,
}

/// A hardware clock that can be read.
#[derive(Debug)]
pub(crate) struct Phc {
    file: File,
}

impl Phc {
    pub(crate) fn of(file: File) -> Phc {
        Phc { file }
    }

    pub(crate) fn now_ns(&self) -> io::Result<u64> {
        let now = clock_gettime_dynamic(DynamicClockId::Dynamic(self.file.as_fd()))?;
        let ns = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
        u64::try_from(ns).map_err(io::Error::other)
    }

    /// Returns how far the clock is ahead of the system clock, and half of the time that it took to
    /// read both, in nanoseconds.
    fn ahead_ns(&self) -> io::Result<(i64, u64)> {
        let system_ns = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
        };
        let mut best = (0, u64::MAX);
        for _ in 0..TRIES {
            let before = system_ns();
            let device = i64::try_from(self.now_ns()?).unwrap_or(i64::MAX);
            let half = (system_ns() - before) / 2;
            if half.unsigned_abs() < best.1 {
                best = (device - before - half, half.unsigned_abs());
            }
        }
        Ok(best)
    }
}

/// A device that timestamps all packets.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) device: DeviceClock,
    pub(crate) phc: Arc<Phc>,
    _configured: Configured,
}

impl Nic {
    /// Configures the device through which this machine reaches a server.
    ///
    /// Returns an error of the kind [`ErrorKind::Unsupported`] that names the device and the
    /// missing feature.
    pub(crate) fn prepare(addresses: &[SocketAddr]) -> io::Result<Nic> {
        let name = device_to_all(addresses)?;
        let refused = |call| {
            let name = name.clone();
            move |error| refusal(&name, call, error)
        };
        let capabilities = capabilities(&name).map_err(refused("ETHTOOL_GET_TS_INFO"))?;
        let lacking = capabilities.lacking();
        if !lacking.is_empty() {
            let lacking = lacking.join(", ");
            return Err(unsupported(format!(
                "{name} does not timestamp all packets in hardware; it lacks {lacking} (ethtool \
                 -T {name}); use --stamps kernel"
            )));
        }
        let clock = format!("/dev/ptp{}", capabilities.clock);
        let phc = File::open(&clock).map(Phc::of);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{clock}: {error}"));
        let phc = phc.map_err(named)?;
        let (ahead_ns, within_ns) = phc.ahead_ns().map_err(named)?;
        let before = config(&name).map_err(refused("SIOCGHWTSTAMP"))?;
        let _configured =
            Configured::new(&name, before, set_config).map_err(refused("SIOCSHWTSTAMP"))?;
        let device = DeviceClock { device: name.clone(), clock, ahead_ns, within_ns };
        Ok(Nic { device, phc: Arc::new(phc), _configured })
    }
}

type SetConfig = fn(&str, Config) -> Result<Config, Errno>;

/// Configures a device to timestamp all packets. Dropping it restores the previous configuration.
#[derive(Debug)]
struct Configured {
    device: String,
    /// `None` if the device already timestamped all packets.
    before: Option<Config>,
    set: SetConfig,
}

impl Configured {
    /// Returns `ERANGE` if the driver chose a configuration that leaves some packets without
    /// timestamps.
    fn new(device: &str, before: Config, set: SetConfig) -> Result<Configured, Errno> {
        let mut configured = Configured { device: device.to_owned(), before: None, set };
        if !before.stamps_all() {
            let chosen = set(device, Config::ALL)?;
            configured.before = Some(before);
            if !chosen.stamps_all() {
                return Err(Errno::ERANGE);
            }
        }
        Ok(configured)
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // The measurements are valid even if this fails. `hwstamp_ctl` shows the current
            // configuration.
            let _ = (self.set)(&self.device, before);
        }
    }
}

/// Returns the device through which this machine reaches all reachable addresses of a server.
fn device_to_all(addresses: &[SocketAddr]) -> io::Result<String> {
    let mut unreachable = None;
    let found = addresses.iter().map(|address| device_to(*address));
    let mut devices: Vec<String> =
        found.filter_map(|device| device.map_err(|error| unreachable = Some(error)).ok()).collect();
    devices.sort();
    devices.dedup();
    match &devices[..] {
        [device] => Ok(device.clone()),
        [] => {
            let none = || io::Error::new(ErrorKind::NotFound, "the host has no address");
            Err(unreachable.unwrap_or_else(none))
        }
        several => Err(unsupported(format!(
            "the host is reached through {}, each with a clock of its own; write one of its addresses",
            several.join(", ")
        ))),
    }
}

/// Explains why a device takes no hardware timestamps, given the error that a call returned.
fn refusal(device: &str, call: &str, error: Errno) -> io::Error {
    match error {
        Errno::EPERM | Errno::EACCES => io::Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "{device}: its hardware timestamps are off, and {call} needs root or \
                 CAP_NET_ADMIN; run as root, or turn them on first (hwstamp_ctl -i {device} -t 1 \
                 -r 1)"
            ),
        ),
        Errno::EOPNOTSUPP | Errno::ENOTTY | Errno::EINVAL => unsupported(format!(
            "{device}: its driver lacks {call}, so it has no hardware timestamps; use --stamps \
             kernel"
        )),
        Errno::ERANGE => unsupported(format!(
            "{device}: its driver timestamps only some of the packets that are sent and received \
             ({call}); use --stamps kernel"
        )),
        _ => {
            let kind = io::Error::from(error).kind();
            io::Error::new(kind, format!("{device}: {call}: {}", error.desc()))
        }
    }
}

fn unsupported(why: String) -> io::Error {
    io::Error::new(ErrorKind::Unsupported, why)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_error_names_the_device_the_call_and_the_fix() {
        let on = |error| refusal("eth7", "SIOCSHWTSTAMP", error);
        for (error, kind, text) in [
            (Errno::EPERM, ErrorKind::PermissionDenied, "hwstamp_ctl -i eth7 -t 1 -r 1"),
            (Errno::EOPNOTSUPP, ErrorKind::Unsupported, "its driver lacks SIOCSHWTSTAMP"),
            (Errno::ERANGE, ErrorKind::Unsupported, "timestamps only some of the packets"),
            (Errno::EBUSY, ErrorKind::ResourceBusy, "SIOCSHWTSTAMP: Device or resource busy"),
        ] {
            let refused = on(error);
            assert_eq!(refused.kind(), kind);
            let refused = refused.to_string();
            assert!(refused.starts_with("eth7: ") && refused.contains(text), "{refused}");
        }
    }

    #[test]
    fn a_device_without_a_clock_is_refused_by_name_before_it_is_configured() {
        let refused = Nic::prepare(&["127.0.0.1:9".parse().unwrap()]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        let refused = refused.to_string();
        assert!(refused.starts_with("lo does not timestamp all packets"), "{refused}");
        assert!(refused.contains("it lacks hardware-transmit, hardware-receive"), "{refused}");
    }

    thread_local! {
        static SET: RefCell<Vec<Config>> = const { RefCell::new(Vec::new()) };
    }

    fn record(_: &str, config: Config) -> Result<Config, Errno> {
        SET.with_borrow_mut(|set| set.push(config));
        Ok(config)
    }

    #[test]
    fn a_previous_configuration_is_restored_and_a_sufficient_one_is_kept() {
        let before = Config::default();
        let configured = Configured::new("eth7", before, record).unwrap();
        assert_eq!(SET.take(), [Config::ALL]);
        drop(configured);
        assert_eq!(SET.take(), [before]);
        drop(Configured::new("eth7", Config::ALL, record).unwrap());
        assert_eq!(SET.take(), []);
        // A driver that leaves some packets without timestamps.
        let fewer: SetConfig = |device, config| record(device, config).map(|_| Config::default());
        assert_eq!(Configured::new("eth7", before, fewer).err(), Some(Errno::ERANGE));
        assert_eq!(SET.take(), [Config::ALL, before]);
        let refused = Configured::new("eth7", before, |_, _| Err(Errno::EPERM));
        assert_eq!(refused.err(), Some(Errno::EPERM));
        assert_eq!(SET.take(), [], "nothing changed");
    }

    #[test]
    fn addresses_behind_one_device_resolve_to_that_device() {
        let both = ["127.0.0.1:9", "127.9.9.9:9"].map(|address| address.parse().unwrap());
        assert_eq!(device_to_all(&both).unwrap(), "lo");
        let none = device_to_all(&[]).unwrap_err().to_string();
        assert!(none.contains("the host has no address"), "{none}");
    }

    #[test]
    fn a_file_that_is_not_a_clock_cannot_be_read() {
        let phc = Phc::of(File::open("/dev/null").unwrap());
        assert!(phc.now_ns().is_err());
    }
}
