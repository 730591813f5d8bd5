//! A session that gets processor time before all other sessions on the machine.
//!
//! The kernel divides processors among sessions first (`sched_autogroup`), and then among the
//! processes of a session. A compiler in another session would take half of the nodes' processors.
//! Our own session can get precedence, and its settings disappear with it.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};
use nix::unistd::{getpid, getsid};

use crate::environment;

const AUTOGROUP: &str = "/proc/self/autogroup";

/// Runs this program again as the leader of a session, and exits with its exit code. In the leader
/// itself, this function returns. The leader ends when this process ends.
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

/// Gives precedence to the processes that this thread starts, over other processes of this session
/// and of this machine.
pub(crate) fn take_precedence() -> Result<()> {
    let us = getpid().to_string();
    environment::run(Command::new("renice").args(["--priority", "-20", "--pid", &us]))?;
    // The file is missing if the kernel groups processes only by control group.
    if fs::exists(AUTOGROUP)? {
        fs::write(AUTOGROUP, "-20").context("cannot take priority over other sessions")?;
    }
    Ok(())
}
