//! Real hiccups by the scheduler: each leaf gets a control group with a share of one core, as a
//! container with a CPU limit does. Who has used up a period's share waits for the next.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::exit::Stop;
use crate::say;

/// The scheduler's period: both hierarchies' default.
const PERIOD_US: u64 = 100_000;

/// Which kind of control groups the system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The names of the leaves' groups, before the number of the process.
const PREFIX: &str = "curtail-demo-";

/// The groups of the leaves; they are removed when this is dropped.
pub(super) struct Throttle {
    version: Version,
    /// The group that this process is in, and that leaves go back to.
    own: PathBuf,
    /// Where the leaves' groups are. In version 2 a group with processes of its own, such as ours,
    /// has none below it that share the CPU, but for the first of all.
    parent: PathBuf,
    quota_us: u64,
    groups: Vec<(PathBuf, u32)>,
}

impl Throttle {
    /// `share`: of one core, in (0, 1].
    pub(super) fn new(share: f64) -> Result<Self, Stop> {
        let (version, mount, own) = own_group().ok_or_else(|| {
            Stop::Lacking("--throttle: this system has no control groups for the CPU".into())
        })?;
        let quota_us = ((share * PERIOD_US as f64) as u64).max(1_000);
        let parent = match version {
            Version::One => own.clone(),
            Version::Two => mount.to_owned(),
        };
        sweep(&parent);
        Ok(Self { version, own, parent, quota_us, groups: Vec::new() })
    }

    /// Puts a process into a group of its own.
    pub(super) fn add(&mut self, process: u32) -> Result<(), Stop> {
        let group = self.parent.join(format!("{PREFIX}{process}"));
        self.limit(&group, process).map_err(|(path, error)| {
            let path = path.display();
            let text = format!("--throttle: {path}: {error}; it takes root outside of a container");
            Stop::Lacking(text)
        })
    }

    fn limit(&mut self, group: &Path, process: u32) -> Result<(), (PathBuf, io::Error)> {
        let write = |path: PathBuf, text: String| fs::write(&path, text).map_err(|e| (path, e));
        if self.version == Version::Two {
            write(self.parent.join("cgroup.subtree_control"), "+cpu".into())?;
        }
        fs::create_dir(group).map_err(|error| (group.to_owned(), error))?;
        self.groups.push((group.to_owned(), process));
        let quota = self.quota_us;
        match self.version {
            Version::One => {
                write(group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                write(group.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
            Version::Two => write(group.join("cpu.max"), format!("{quota} {PERIOD_US}"))?,
        }
        write(group.join("cgroup.procs"), process.to_string())
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        for (group, process) in &self.groups {
            // A group with a process in it cannot be removed; a process that ended cannot be moved.
            let _ = fs::write(self.own.join("cgroup.procs"), process.to_string());
            if let Err(error) = fs::remove_dir(group) {
                say::aside(format_args!("note: {} stays behind: {error}", group.display()));
            }
        }
    }
}

/// Removes what a demo left behind that was killed. A group with processes in it stays.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The group of this process that has the CPU's controller, below its mount.
fn own_group() -> Option<(Version, &'static Path, PathBuf)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (version, path) = find(&groups)?;
    let mount = match version {
        Version::One => "/sys/fs/cgroup/cpu",
        Version::Two => "/sys/fs/cgroup",
    };
    let mount = Path::new(mount);
    let own = mount.join(path.trim_start_matches('/'));
    own.join("cgroup.procs").exists().then_some((version, mount, own))
}

/// In `/proc/self/cgroup`: lines of `NUMBER:CONTROLLERS:PATH`, without controllers for version 2.
fn find(groups: &str) -> Option<(Version, &str)> {
    let path = |wanted: fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers = fields.next()?;
            fields.next().filter(|_| wanted(controllers))
        })
    };
    let one = path(|controllers| controllers.split(',').any(|name| name == "cpu"));
    let two = || path(str::is_empty).map(|path| (Version::Two, path));
    one.map(|path| (Version::One, path)).or_else(two)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_groups_of_earlier_demos_are_swept() {
        let parent = tempfile::tempdir().expect("a folder");
        for name in ["curtail-demo-1", "curtail-demo-2/busy", "other"] {
            fs::create_dir_all(parent.path().join(name)).expect("a folder");
        }
        sweep(parent.path());
        let left = |name: &str| parent.path().join(name).exists();
        assert!(!left("curtail-demo-1") && left("curtail-demo-2") && left("other"));
    }

    #[test]
    fn the_controller_is_found_in_both_hierarchies() {
        let one = "9:name=systemd:/\n2:cpuacct,cpu:/a/b\n0::/\n";
        assert_eq!(find(one), Some((Version::One, "/a/b")));
        assert_eq!(find("0::/user.slice/x:y\n"), Some((Version::Two, "/user.slice/x:y")));
        assert_eq!(find("3:cpuset:/\n"), None);
    }
}
