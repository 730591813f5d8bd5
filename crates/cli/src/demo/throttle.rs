//! Real hiccups by the scheduler: each leaf gets a control group with a share of one core, as a
//! container with a CPU limit does. A leaf that has used up a period's share waits for the next.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use curtail_jitter::machine::{CpuGroup, Version};

use crate::exit::Stop;
use crate::say;

/// The scheduler's period: both hierarchies' default.
const PERIOD_US: u64 = 100_000;

/// The groups of the leaves; they are removed when this is dropped.
pub(super) struct Throttle {
    /// The group that this process is in, and that leaves go back to.
    own: CpuGroup,
    quota_us: u64,
    groups: Vec<(PathBuf, u32)>,
}

impl Throttle {
    /// `share`: of one core, in (0, 1].
    pub(super) fn new(share: f64) -> Result<Self, Stop> {
        let own = CpuGroup::of("self").ok_or_else(|| {
            Stop::Lacking("--throttle: this system has no control groups for the CPU".into())
        })?;
        let quota_us = ((share * PERIOD_US as f64) as u64).max(1_000);
        Ok(Self { own, quota_us, groups: Vec::new() })
    }

    /// Puts a process into a group of its own.
    pub(super) fn add(&mut self, process: u32) -> Result<(), Stop> {
        // In version 2 a group with processes of its own, such as ours, has none below it that share the
        // CPU, but for the first of all.
        let parent = match self.own.version {
            Version::One => self.own.path.clone(),
            Version::Two => self.own.mount.to_owned(),
        };
        let group = parent.join(format!("curtail-demo-{process}"));
        self.limit(&parent, &group, process).map_err(|error| {
            let path = group.display();
            let text = format!("--throttle: {path}: {error}; it takes root outside of a container");
            Stop::Lacking(text)
        })
    }

    fn limit(&mut self, parent: &Path, group: &Path, process: u32) -> io::Result<()> {
        let quota = self.quota_us;
        if self.own.version == Version::Two {
            fs::write(parent.join("cgroup.subtree_control"), "+cpu")?;
        }
        fs::create_dir_all(group)?;
        self.groups.push((group.to_owned(), process));
        match self.own.version {
            Version::One => {
                fs::write(group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                fs::write(group.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
            Version::Two => fs::write(group.join("cpu.max"), format!("{quota} {PERIOD_US}"))?,
        }
        fs::write(group.join("cgroup.procs"), process.to_string())
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        for (group, process) in &self.groups {
            // A group with a process in it cannot be removed; a process that ended cannot be moved.
            let _ = fs::write(self.own.path.join("cgroup.procs"), process.to_string());
            if let Err(error) = fs::remove_dir(group) {
                say::aside(format_args!("note: {} stays behind: {error}", group.display()));
            }
        }
    }
}
