//! A session that comes before all others of the machine.
//!
//! The kernel shares processors among sessions first (`sched_autogroup`), and then among the processes of a session. A
//! compiler in another session would take half of the nodes' processors. A session of our own can come first, and what
//! is set for it is gone with it.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};
use nix::unistd::{getpid, getsid};

use crate::place;

const AUTOGROUP: &str = "/proc/self/autogroup";

/// Runs this program again as the leader of a session, and ends as it does. Returns in that leader. It ends with us.
pub(crate) fn lead() -> Result<()> {
    if getsid(None)? == getpid() {
        return Ok(());
    }
    let us = std::env::current_exe().context("cannot find this program")?;
    let mut again = Command::new("setpriv");
    again.args(["--pdeathsig", "KILL", "--", "setsid"]).arg(us).args(std::env::args_os().skip(1));
    let status = again.status().context("cannot run setpriv; install util-linux")?;
    std::process::exit(status.code().unwrap_or(3))
}

/// What this thread starts comes before other processes, in this session and on this machine.
pub(crate) fn take_precedence() -> Result<()> {
    let us = getpid().to_string();
    place::run(Command::new("renice").args(["--priority", "-20", "--pid", &us]))?;
    // There is no such file where the kernel knows control groups only.
    if fs::exists(AUTOGROUP)? {
        fs::write(AUTOGROUP, "-20").context("cannot come before other sessions")?;
    }
    Ok(())
}
