//! Installs, configures, starts, pauses and ends Suricata, in a session with precedence.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::unistd::{getpid, getsid};
use xtask::cargo::output;
use xtask::process::{Process, tied};

use super::traffic::{Node, Role, WORDS};

/// The maximum number of packets that wait for a primary, and for a duplicate instance.
const PRIMARY_RING: usize = 128;
const DUPLICATE_RING: usize = 32;
/// The number of rules of each instance. With more rules, each packet takes more work.
const RULES: usize = 128;
/// The time within which an instance must start inspecting packets.
const START: Duration = Duration::from_secs(30);
const AUTOGROUP: &str = "/proc/self/autogroup";

/// A running instance.
pub(super) struct Instance(Process);

/// Installs Suricata if it is missing.
pub(super) fn install() -> Result<()> {
    if Command::new("suricata").arg("-V").output().is_ok() {
        return Ok(());
    }
    eprintln!("installing Suricata");
    output(Command::new("sh").args(["-c", include_str!("files/install.sh")]))
        .map(drop)
        .context("cannot install Suricata 7; install it by hand")
}

impl Instance {
    /// Starts an instance, and waits until it inspects packets. Its files are in a folder in `parent`.
    pub(super) fn start(node: &Node, role: Role, parent: &Path) -> Result<Self> {
        let number = node.instance(role);
        let folder = parent.join(number.to_string());
        fs::create_dir(&folder)?;
        let ring = if role == Role::Primary { PRIMARY_RING } else { DUPLICATE_RING };
        let config = include_str!("files/suricata.yaml")
            .replace("FOLDER", &folder.display().to_string())
            .replace("INPUT", &format!("from{number}"))
            .replace("OUTPUT", &format!("to{number}"))
            .replace("RING", &ring.to_string());
        fs::write(folder.join("suricata.yaml"), config)?;
        fs::write(folder.join("heavy.rules"), heavy()?)?;
        let mut command = node.host.logged("chrt");
        command.args([if role == Role::Primary { "--other" } else { "--idle" }, "0"]);
        command.args(["taskset", "--cpu-list", &node.core.to_string()]);
        command.args(["suricata", "--af-packet", "--init-errors-fatal", "-k", "none", "-c"]);
        command.arg(folder.join("suricata.yaml")).arg("-l").arg(&folder);
        let mut process = Process::start("suricata", command, &folder)?;
        let log = folder.join("suricata.log");
        process.wait_within(START, || {
            fs::read_to_string(&log).is_ok_and(|log| log.contains("Engine started"))
        })?;
        Ok(Self(process))
    }

    /// Stops or continues the instance.
    pub(super) fn pause(&self, pause: bool) -> Result<()> {
        self.0.signal(if pause { "STOP" } else { "CONT" })
    }
}

/// Returns rules that inspect every packet completely and match none. Each has a regular
/// expression, and no content keyword that could rule the packet out cheaply.
fn heavy() -> Result<String> {
    let mut text = String::new();
    for rule in 0..RULES {
        let (one, other) = (WORDS[rule % WORDS.len()], WORDS[(7 * rule + 3) % WORDS.len()]);
        let pattern = format!("({one}|{other})[^\\n]{{4,200}}({other}|{one})\\d");
        let id = 1_000_000 + rule;
        writeln!(
            text,
            "alert udp any any -> any any (msg:\"{one} {other}\"; pcre:\"/{pattern}/i\"; sid:{id};)"
        )?;
    }
    Ok(text)
}

/// Runs this program again as the leader of a session, and exits with its exit code. In the leader
/// itself, this function returns. The leader ends when this process ends.
pub(super) fn lead() -> Result<()> {
    if getsid(None)? == getpid() {
        return Ok(());
    }
    let us = std::env::current_exe().context("cannot find this program")?;
    let mut again = tied("setsid");
    again.arg(us).args(std::env::args_os().skip(1));
    let status = again.status().context("cannot run setpriv; install util-linux")?;
    std::process::exit(status.code().unwrap_or(3))
}

/// Gives precedence to the processes that this thread starts, over other processes of this session
/// and of this machine.
///
/// The kernel divides processors among sessions first (`sched_autogroup`), and then among the
/// processes of a session. A compiler in another session would take half of the nodes' processors.
/// Our own session can get precedence, and its settings disappear with it.
pub(super) fn take_precedence() -> Result<()> {
    let us = getpid().to_string();
    output(Command::new("renice").args(["--priority", "-20", "--pid", &us]))?;
    // The file is missing if the kernel groups processes only by control group.
    if fs::exists(AUTOGROUP)? {
        fs::write(AUTOGROUP, "-20").context("cannot take priority over other sessions")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_distinct() {
        let text = heavy().expect("rules");
        let mut rules: Vec<_> = text.lines().collect();
        rules.sort_unstable();
        rules.dedup();
        assert_eq!(rules.len(), RULES);
    }
}
