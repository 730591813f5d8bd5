//! Queries and configures the hardware timestamps of a network device.
//!
//! Source: Linux, Documentation/networking/timestamping.rst; include/uapi/linux/net_tstamp.h and
//! ethtool.h.

use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

const GET_TS_INFO: u32 = 0x41;
const TX_ON: i32 = libc::HWTSTAMP_TX_ON as i32;
const FILTER_ALL: i32 = libc::HWTSTAMP_FILTER_ALL as i32;

/// The capabilities of a device, as `ETHTOOL_GET_TS_INFO` returns them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Capabilities {
    command: u32,
    /// The `SO_TIMESTAMPING` flags that the device supports.
    pub stamping: u32,
    /// The number N of the device's clock, /dev/ptpN. It is negative if the device has no clock.
    pub clock: i32,
    /// One bit for each supported `tx_type`.
    pub tx_types: u32,
    tx_reserved: [u32; 3],
    /// One bit for each supported `rx_filter`.
    pub rx_filters: u32,
    rx_reserved: [u32; 3],
}

impl Capabilities {
    /// Returns the missing capabilities without which the device cannot timestamp all packets.
    /// Their names are those that `ethtool -T` prints.
    pub fn lacking(&self) -> Vec<&'static str> {
        let parts = [
            (self.stamping & libc::SOF_TIMESTAMPING_TX_HARDWARE != 0, "hardware-transmit"),
            (self.stamping & libc::SOF_TIMESTAMPING_RX_HARDWARE != 0, "hardware-receive"),
            (self.stamping & libc::SOF_TIMESTAMPING_RAW_HARDWARE != 0, "hardware-raw-clock"),
            (self.clock >= 0, "a PTP hardware clock"),
            (self.tx_types & (1 << TX_ON) != 0, "transmit mode on"),
            (self.rx_filters & (1 << FILTER_ALL) != 0, "receive filter all"),
        ];
        parts.into_iter().filter(|(present, _)| !present).map(|(_, name)| name).collect()
    }
}

/// The timestamp configuration of a device: `struct hwtstamp_config`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Config {
    flags: i32,
    tx_type: i32,
    rx_filter: i32,
}

impl Config {
    /// The configuration that timestamps all sent and received packets.
    pub const ALL: Config = Config { flags: 0, tx_type: TX_ON, rx_filter: FILTER_ALL };

    /// Whether the device timestamps all packets.
    pub fn stamps_all(&self) -> bool {
        (self.tx_type, self.rx_filter) == (TX_ON, FILTER_ALL)
    }
}

/// Returns the capabilities of a device in this thread's network namespace.
///
/// Returns `EOPNOTSUPP` if its driver has none, and `ENODEV` if there is no such device.
pub fn capabilities(device: &str) -> Result<Capabilities, Errno> {
    let mut info = Capabilities { command: GET_TS_INFO, ..Capabilities::default() };
    // SAFETY: this command writes a `struct ethtool_ts_info`, and `Capabilities` has the same
    // layout.
    unsafe { ioctl(device, libc::SIOCETHTOOL, &mut info) }?;
    Ok(info)
}

/// Returns the configuration of a device.
///
/// Returns `EOPNOTSUPP` if its driver reports none.
pub fn config(device: &str) -> Result<Config, Errno> {
    let mut config = Config::default();
    // SAFETY: this request writes a `struct hwtstamp_config`, and `Config` has the same layout.
    unsafe { ioctl(device, libc::SIOCGHWTSTAMP, &mut config) }?;
    Ok(config)
}

/// Configures a device and returns the configuration that the driver chose, which may cover more
/// packets.
///
/// Returns `EPERM` without `CAP_NET_ADMIN`, `ERANGE` if the device does not support the
/// configuration, and `EOPNOTSUPP` if its driver does not support timestamps.
pub fn set_config(device: &str, mut config: Config) -> Result<Config, Errno> {
    // SAFETY: this request reads and writes a `struct hwtstamp_config`, and `Config` has the same
    // layout.
    unsafe { ioctl(device, libc::SIOCSHWTSTAMP, &mut config) }?;
    Ok(config)
}

/// # Safety
///
/// `data` must have the type that the request reads and writes.
unsafe fn ioctl<T>(device: &str, request: libc::c_ulong, data: &mut T) -> Result<(), Errno> {
    let any = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut name = [0; libc::IFNAMSIZ];
    // The last byte of the name must be zero.
    if device.len() >= name.len() {
        return Err(Errno::ENODEV);
    }
    for (to, from) in name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_data: std::ptr::from_mut(data).cast() };
    let mut parameters = libc::ifreq { ifr_name: name, ifr_ifru };
    // SAFETY: the name ends with a zero byte, and `data` lives until the call returns.
    let result = unsafe { libc::ioctl(any.as_raw_fd(), request as _, &raw mut parameters) };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_capabilities_are_listed() {
        let all = Capabilities {
            stamping: 0x7f,
            clock: 0,
            tx_types: 1 << TX_ON,
            rx_filters: 1 << FILTER_ALL,
            ..Capabilities::default()
        };
        assert!(all.lacking().is_empty());
        let software = Capabilities { stamping: 0x1a, clock: -1, ..Capabilities::default() };
        assert_eq!(software.lacking().len(), 6);
        // Many devices timestamp only the PTP packets that they receive.
        let ptp = Capabilities { rx_filters: 1 | 1 << 12, ..all };
        assert_eq!(ptp.lacking(), ["receive filter all"]);
    }

    #[test]
    fn loopback_has_no_hardware_timestamps_and_a_missing_device_is_an_error() {
        let found = capabilities("lo").expect("Linux 3.4 and later");
        assert!(found.lacking().contains(&"hardware-transmit"), "{found:?}");
        assert_eq!(config("lo"), Err(Errno::EOPNOTSUPP));
        let refused = set_config("lo", Config::ALL);
        assert!(matches!(refused, Err(Errno::EOPNOTSUPP | Errno::EPERM)), "{refused:?}");
        for gone in ["none7", "a-name-that-no-device-has"] {
            assert_eq!(capabilities(gone), Err(Errno::ENODEV));
        }
    }
}
