//! Which network devices have a clock of their own, and so could stamp packets themselves.
//!
//! A device that can has a precision time clock (PTP), which sysfs shows. Virtual devices have none.
//! Stamps of the device would be without even the kernel's way to it; they are detected here and not used:
//! no machine that this was written on has any to try it with.

use std::fs;
use std::path::Path;

const DEVICES: &str = "/sys/class/net";
/// Most devices that are looked at.
const DEVICES_MAX: usize = 256;

/// The names of the devices with a clock, in order.
pub(crate) fn clocks() -> Vec<String> {
    clocks_in(Path::new(DEVICES))
}

/// The names of all devices, in order.
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
    fn devices_with_a_clock_are_told() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["eth1/device/ptp/ptp0", "eth0/device/ptp/ptp1", "veth0", "lo"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        assert_eq!(clocks_in(folder.path()), ["eth0", "eth1"]);
        assert_eq!(devices_in(folder.path()), ["eth0", "eth1", "lo", "veth0"]);
        assert_eq!(clocks_in(Path::new("/nowhere")), Vec::<String>::new());
    }
}
