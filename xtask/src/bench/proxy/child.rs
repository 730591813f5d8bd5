//! Processes that run until they are dropped, and what CPU time they take.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::http::get;

/// What does not listen by then will not.
const START: Duration = Duration::from_secs(20);

/// A process that is killed when this is dropped.
pub(super) struct Child {
    name: String,
    child: process::Child,
    /// What it says on stderr.
    log: PathBuf,
}

impl Child {
    /// Starts a [`tied`](crate::tied::tied) command. Its log is NAME.log in the folder.
    pub(super) fn start(name: &str, mut command: Command, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {log:?}"))?;
        // Ours end when their stdin closes; the others do not look.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Waits until one of our own says where it listens.
    pub(super) fn announced(&mut self) -> Result<SocketAddr> {
        let stdout = self.child.stdout.take().context("its stdout is taken")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("cannot read what it says")?;
        let address =
            line.strip_prefix("listening on ").and_then(|rest| rest.split_whitespace().next());
        match address.and_then(|address| address.parse().ok()) {
            Some(address) => Ok(address),
            None => bail!("{} does not listen: {}", self.name, self.said()),
        }
    }

    /// Waits until a request through it is answered with 200.
    pub(super) fn answers(&mut self, address: SocketAddr, target: &str) -> Result<()> {
        let start = Instant::now();
        loop {
            if get(address, target).is_ok() {
                return Ok(());
            }
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_some() || start.elapsed() > START {
                bail!("{} does not answer: {}", self.name, self.said());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The end of its log.
    fn said(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(10)..].join("\n");
        if last.is_empty() { "it says nothing".into() } else { last }
    }

    /// Its CPU time so far, in nanoseconds.
    pub(super) fn cpu_ns(&self) -> Result<u64> {
        let name = &self.name;
        cpu_ns(self.child.id()).with_context(|| format!("no CPU time of {name}; it has ended"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The larger of two accounts: the scheduler's own is to the nanosecond, but only of the threads
/// that live; `utime + stime` is of all that ever were, but to 10 ms, and rounded down.
fn cpu_ns(pid: u32) -> Option<u64> {
    let whole = cpu_ticks(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    Some(living_ns(pid).unwrap_or(0).max(whole * 10_000_000))
}

/// None where the system keeps no such account.
fn living_ns(pid: u32) -> Option<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let accounts = tasks.filter_map(|task| {
        let account = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        account.split(' ').next()?.parse::<u64>().ok()
    });
    accounts.reduce(|sum, account| sum + account)
}

/// `utime + stime` of a line of `/proc/PID/stat`.
fn cpu_ticks(stat: &str) -> Option<u64> {
    // The second field is a name that may hold anything but the last closing parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

/// A port of the loopback interface that was free just now. Peers cannot take one that they choose
/// and say which.
pub(super) fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    listener.local_addr().context("no free port")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = "7 (a) R 1 (b) S 1 7 7 0 -1 4194304 0 0 0 0 120 30 0 0 20 0 1 0 99 0 0";
        assert_eq!(cpu_ticks(stat), Some(150));
    }

    #[test]
    fn our_own_time_is_seen() {
        let before = cpu_ns(process::id()).expect("our own");
        burn(Duration::from_millis(30));
        assert!(cpu_ns(process::id()).expect("our own") > before);
    }

    #[test]
    fn the_time_of_threads_that_have_ended_is_kept() {
        let before = cpu_ns(process::id()).expect("our own");
        let burned = std::thread::spawn(|| {
            let own = || std::fs::read_to_string("/proc/thread-self/stat").expect("our own");
            // However busy the machine is.
            while cpu_ticks(&own()).expect("two times") < 20 {
                burn(Duration::from_millis(1));
            }
        });
        burned.join().expect("it ends");
        let after = cpu_ns(process::id()).expect("our own");
        // Of the 200 ms, for two times are rounded down to 10 ms each.
        assert!(after >= before + 180_000_000, "{before}, {after}");
    }

    fn burn(time: Duration) {
        let mut sum = 0_u64;
        let start = Instant::now();
        while start.elapsed() < time {
            sum = std::hint::black_box(sum + 1);
        }
    }
}
