//! The control group that limits a process's CPU time.

use std::fs;
use std::path::{Path, PathBuf};

/// The version of the control group hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Version 1, which has one hierarchy per controller.
    One,
    /// Version 2, which has a single hierarchy for all controllers.
    Two,
}

/// The control group of a process.
#[derive(Clone, Debug)]
pub struct CpuGroup {
    /// The version of the hierarchy.
    pub version: Version,
    /// The mount point of the hierarchy.
    pub mount: &'static Path,
    /// The directory of the group.
    pub path: PathBuf,
}

impl CpuGroup {
    /// Returns the group of a process (its ID, or `self`). `None` if it has no CPU group.
    pub fn of(process: &str) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
        let (version, path) = find(&groups)?;
        let mounts: &[&str] = match version {
            Version::One => &["/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu"],
            Version::Two => &["/sys/fs/cgroup"],
        };
        mounts.iter().find_map(|mount| {
            let mount = Path::new(*mount);
            let path = mount.join(path.trim_start_matches('/'));
            path.join("cgroup.procs").exists().then_some(Self { version, mount, path })
        })
    }
}

/// Parses `/proc/PID/cgroup`: its lines have the form `NUMBER:CONTROLLERS:PATH`. In version 2, the
/// list of controllers is empty.
fn find(groups: &str) -> Option<(Version, &str)> {
    let fields = || groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let one = fields().find(|(of, _)| of.split(',').any(|name| name == "cpu"));
    let two = || Some((Version::Two, fields().find(|(of, _)| of.is_empty())?.1));
    one.map(|(_, path)| (Version::One, path)).or_else(two)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_found_in_both_hierarchies() {
        let one = "9:name=systemd:/\n2:cpuacct,cpu:/a/b\n0::/\n";
        assert_eq!(find(one), Some((Version::One, "/a/b")));
        assert_eq!(find("0::/user.slice/x:y\n"), Some((Version::Two, "/user.slice/x:y")));
        assert_eq!(find("3:cpuset:/\n"), None);
    }
}
