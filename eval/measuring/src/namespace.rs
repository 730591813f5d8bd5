//! Network namespaces without names: they are gone when the last descriptor and thread are, so also when
//! the process is killed.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result, bail};
use nix::sched::{CloneFlags, setns, unshare};

/// A network of its own.
#[derive(Debug)]
pub(crate) struct Namespace {
    file: File,
}

impl Namespace {
    /// Makes one, without devices but loopback.
    ///
    /// # Errors
    ///
    /// Without the right to (CAP_SYS_ADMIN).
    pub(crate) fn new() -> Result<Self> {
        // A thread enters it and keeps it open for others.
        let made = thread::spawn(|| -> io::Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = made.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        let file = file.context("cannot make a network namespace; run this as root")?;
        let namespace = Self { file };
        // Its neighbors would ask for routers, and disturb.
        namespace.inside(|| {
            let quiet = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
            if fs::exists(quiet)? { fs::write(quiet, "1") } else { Ok(()) }
        })?;
        Ok(namespace)
    }

    /// A path by which other programs find it while this process lives.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Moves this thread into it.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(setns(&self.file, CloneFlags::CLONE_NEWNET)?)
    }

    /// Does something in it, on a thread of its own.
    ///
    /// # Errors
    ///
    /// Those of entering it.
    pub(crate) fn inside<T: Send, E: Send + From<io::Error>>(
        &self,
        what: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T, E> {
        let run = || {
            self.enter()?;
            what()
        };
        let joined = thread::scope(|scope| scope.spawn(run).join());
        joined.unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    }

    /// Runs `ip` in it, with each line of arguments.
    ///
    /// # Errors
    ///
    /// If it is not there or fails.
    pub(crate) fn ip(&self, lines: &str) -> Result<()> {
        self.inside(|| lines.lines().try_for_each(ip))
    }
}

fn ip(line: &str) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(line.split_whitespace()).stdin(Stdio::null());
    let output = command.output().context("cannot run ip; install iproute2")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("ip {line}: {}", said.trim());
    }
    Ok(())
}
