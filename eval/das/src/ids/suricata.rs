//! Installs, configures, starts, pauses and ends Suricata.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::cluster::{Cluster, Role, instance};
use super::frame::WORDS;
use crate::environment::{self, Process};

/// The time within which an instance must start inspecting packets.
const START: Duration = Duration::from_secs(30);
/// The maximum number of packets that wait for a primary.
const PRIMARY_RING: usize = 128;

/// The files that instances read when they start. They are deleted when this value is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("curtail-ids-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Options for the instances.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Settings {
    /// Number of rules of each instance. With more rules, each packet takes more work
    #[arg(long, default_value_t = 128)]
    pub(crate) rules: usize,
    /// Maximum number of packets that wait for a duplicate instance
    #[arg(long, value_name = "PACKETS", default_value_t = 32)]
    pub(crate) queue: usize,
    /// Number of threads of the background task that makes a node a straggler
    #[arg(long, value_name = "THREADS", default_value_t = 3)]
    pub(crate) background: usize,
}

/// A running instance.
#[derive(Debug)]
pub(crate) struct Instance(Process);

/// Installs Suricata if it is missing.
pub(crate) fn install() -> Result<()> {
    if Command::new("suricata").arg("-V").output().is_ok() {
        return Ok(());
    }
    eprintln!("installing Suricata");
    environment::run(Command::new("sh").args(["-c", include_str!("files/install.sh")]))
        .context("cannot install Suricata 7; install it by hand")
}

impl Instance {
    /// Starts an instance. Call this from the main thread, because the process ends with the thread
    /// that started it.
    pub(crate) fn start(
        cluster: &Cluster,
        (node, role): (usize, Role),
        settings: &Settings,
        folder: &Folder,
    ) -> Result<Self> {
        let number = instance(node, role);
        let folder = folder.0.join(number.to_string());
        fs::create_dir_all(&folder)?;
        let ring = if role == Role::Primary { PRIMARY_RING } else { settings.queue };
        let config = include_str!("files/suricata.yaml")
            .replace("FOLDER", &folder.display().to_string())
            .replace("INPUT", &format!("from{number}"))
            .replace("OUTPUT", &format!("to{number}"))
            .replace("RING", &ring.to_string());
        fs::write(folder.join("suricata.yaml"), config)?;
        fs::write(folder.join("heavy.rules"), heavy(settings.rules)?)?;
        let log = folder.join("log");
        let to = File::create(&log)?;
        let mut command = cluster.nodes[node].command("chrt");
        command.args([if role == Role::Primary { "--other" } else { "--idle" }, "0"]);
        command.args(["taskset", "--cpu-list", &cluster.cores[node].to_string()]);
        command.args(["suricata", "--af-packet", "--init-errors-fatal", "-k", "none", "-c"]);
        command.arg(folder.join("suricata.yaml")).arg("-l").arg(&folder);
        command.stdout(to.try_clone()?).stderr(to);
        let mut process = Process::start(&mut command)?;
        ready(&mut process, &log)?;
        Ok(Self(process))
    }

    /// Stops or continues the instance.
    pub(crate) fn pause(&self, pause: bool) -> Result<()> {
        let signal = if pause { Signal::STOP } else { Signal::CONT };
        Ok(kill_process(Pid::from_child(&self.0.0), signal)?)
    }
}

fn ready(process: &mut Process, log: &Path) -> Result<()> {
    let start = Instant::now();
    while !fs::read_to_string(log)?.contains("Engine started") {
        if process.0.try_wait()?.is_some() || start.elapsed() > START {
            bail!("Suricata did not start: {}", fs::read_to_string(log)?.trim());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Returns rules that inspect every packet completely and match none. Each has a regular
/// expression, and no content keyword that could rule the packet out cheaply.
fn heavy(rules: usize) -> Result<String> {
    let mut text = String::new();
    for rule in 0..rules {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_distinct() {
        let text = heavy(200).expect("rules");
        let mut rules: Vec<_> = text.lines().collect();
        rules.sort_unstable();
        rules.dedup();
        assert_eq!(rules.len(), 200);
    }
}
