//! Creates network namespaces without names. A namespace disappears when its last descriptor is
//! closed and its last thread ends, even if the process is killed.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Creates a namespace whose only device is loopback.
    pub fn new() -> io::Result<Self> {
        // A thread creates and enters the new namespace. The open file keeps the namespace alive.
        let made = thread::spawn(|| -> io::Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = made.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        let file = file.map_err(|error| {
            let why = "cannot make a network namespace; run this as root";
            io::Error::new(error.kind(), format!("{why} ({error})"))
        })?;
        let namespace = Self { file };
        namespace.inside(|| -> io::Result<()> {
            // IPv6 would solicit routers, which slightly disturbs measurements. A failure is
            // ignored, because the file is read-only in containers and some kernels have no IPv6.
            let _ = fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
            Ok(())
        })?;
        Ok(namespace)
    }

    /// Returns a path through which other processes can open the namespace while this process is
    /// running.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Moves this thread into the namespace.
    pub fn enter(&self) -> io::Result<()> {
        Ok(setns(&self.file, CloneFlags::CLONE_NEWNET)?)
    }

    /// Runs `work` in the namespace, on a new thread.
    pub fn inside<T: Send, E: Send + From<io::Error>>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T, E> {
        let run = || {
            self.enter()?;
            work()
        };
        let joined = thread::scope(|scope| scope.spawn(run).join());
        joined.unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    }

    /// Runs `ip` in the namespace, once for each line of arguments.
    pub fn ip(&self, lines: &str) -> io::Result<()> {
        self.inside(|| lines.lines().try_for_each(ip))
    }
}

fn ip(line: &str) -> io::Result<()> {
    let mut command = Command::new("ip");
    command.args(line.split_whitespace()).stdin(Stdio::null());
    let output = command.output().map_err(|error| {
        io::Error::new(error.kind(), format!("cannot run ip; install iproute2 ({error})"))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {line}: {}", stderr.trim())))
}

/// Creates two namespaces that are joined by a veth pair. The address is 10.201.0.1 in the first
/// one and 10.201.0.2 in the second one.
pub fn pair() -> io::Result<(Namespace, Namespace)> {
    let (near, far) = (Namespace::new()?, Namespace::new()?);
    let queues = "numtxqueues 1 numrxqueues 1";
    let path = far.path();
    near.ip(&format!(
        "link add wire {queues} type veth peer name wire {queues} netns {path}\n\
         addr add 10.201.0.1/24 dev wire\nlink set wire up\nlink set lo up"
    ))?;
    far.ip("addr add 10.201.0.2/24 dev wire\nlink set wire up")?;
    Ok((near, far))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_created_even_if_proc_sys_is_read_only() {
        let mount = |line: &str| {
            let status = Command::new("mount").args(line.split_whitespace()).status();
            assert!(status.expect("there is mount").success(), "{line}");
        };
        // The new mount namespace applies to this thread and to the threads that it starts.
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNS) {
            println!("SKIPPED: {error}");
            return;
        }
        mount("--make-rprivate /");
        mount("--bind /proc/sys /proc/sys");
        mount("-o remount,ro,bind /proc/sys");
        Namespace::new().expect("it is made");
    }
}
