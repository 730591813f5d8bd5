//! A limit on a process's CPU time, like that of a container. It causes real hiccups through the
//! scheduler.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::{CpuGroup, Version};

/// The scheduler's period, in microseconds: the default of both hierarchies.
const PERIOD_US: u64 = 100_000;

/// A process in its own control group. Dropping this moves the process back.
#[derive(Debug)]
pub struct CpuLimit {
    own: CpuGroup,
    group: PathBuf,
    process: u32,
}

impl CpuLimit {
    /// Moves a process into its own group, without a limit.
    ///
    /// # Errors
    /// If the system has no control groups for the CPU, or this process is not allowed to create
    /// one. Outside a container, creating one requires root.
    pub fn new(process: u32) -> io::Result<Self> {
        let lacking = || io::Error::other("this system has no control groups for the CPU");
        let own = CpuGroup::of("self").ok_or_else(lacking)?;
        // In version 2, a group that contains processes, such as ours, cannot have child groups
        // that share the CPU. Only the root group is exempt from this rule.
        let parent = match own.version {
            Version::One => own.path.clone(),
            Version::Two => own.mount.to_owned(),
        };
        let group = parent.join(format!("curtail-{process}"));
        let about = |error: io::Error| {
            let text = format!("{}: {error}; run as root, outside of a container", group.display());
            io::Error::new(error.kind(), text)
        };
        if own.version == Version::Two {
            fs::write(parent.join("cgroup.subtree_control"), "+cpu").map_err(about)?;
        }
        fs::create_dir_all(&group).map_err(about)?;
        let limit = Self { own, group: group.clone(), process };
        fs::write(group.join("cgroup.procs"), process.to_string()).map_err(about)?;
        Ok(limit)
    }

    /// Limits the process to a share of one core, which must be above 0. Once it has used its share
    /// of a period, it waits for the next period. `None` lifts the limit.
    ///
    /// # Errors
    /// If the limit cannot be written.
    pub fn set(&self, share: Option<f64>) -> io::Result<()> {
        let quota_us = share.map(|share| ((share * PERIOD_US as f64) as u64).max(1_000));
        let quota = |none: &str| quota_us.map_or(none.to_owned(), |quota| quota.to_string());
        match self.own.version {
            Version::One => {
                fs::write(self.group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                fs::write(self.group.join("cpu.cfs_quota_us"), quota("-1"))
            }
            Version::Two => {
                fs::write(self.group.join("cpu.max"), format!("{} {PERIOD_US}", quota("max")))
            }
        }
    }
}

impl Drop for CpuLimit {
    fn drop(&mut self) {
        // A group that contains a process cannot be removed. A process that has ended cannot be
        // moved.
        let _ = fs::write(self.own.path.join("cgroup.procs"), self.process.to_string());
        if let Err(error) = fs::remove_dir(&self.group) {
            eprintln!("note: {} was not removed: {error}", self.group.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_limited_and_set_free() -> io::Result<()> {
        let mut child = Command::new("sleep").arg("60").spawn()?;
        match CpuLimit::new(child.id()) {
            Ok(limit) => {
                limit.set(Some(0.25))?;
                let group = limit.group.clone();
                let of = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
                let read = || (of("cpu.cfs_quota_us") + &of("cpu.max")).trim().to_owned();
                assert!(read().starts_with("25000"), "{}", read());
                limit.set(None)?;
                assert!(["-1", "max 100000"].contains(&&*read()), "{}", read());
                assert_eq!(of("cgroup.procs").trim(), child.id().to_string());
                drop(limit);
                assert!(!group.exists());
            }
            Err(why) => eprintln!("SKIPPED: {why}"),
        }
        child.kill()?;
        child.wait().map(|_| ())
    }
}
