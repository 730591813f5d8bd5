//! Builds or installs the server of a case, starts it, pins its threads, and counts its work.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use xtask::cargo;
use xtask::process::{Process, free_port, tied};

/// The root of the repository.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The kinds of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum App {
    Memcached,
    Httpd,
}

impl App {
    pub(crate) fn name(self) -> &'static str {
        if self == App::Memcached { "memcached" } else { "httpd" }
    }

    pub(crate) fn scheme(self) -> &'static str {
        if self == App::Memcached { "memcached" } else { "http" }
    }
}

/// The setup of a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setup {
    pub(crate) app: App,
    pub(crate) workers: usize,
    /// The processors on which its threads may run.
    pub(crate) processors: String,
    /// Further options of memcached.
    #[serde(default)]
    pub(crate) options: String,
}

/// The changes of one side of a case.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// The budget for the LRU work that workers do, as MOVES:TURNS.
    pub(crate) budget: Option<String>,
    /// The processors to which workers are pinned in turn, one processor per worker.
    pub(crate) pin: Option<String>,
    /// The value for `--batch` of `curtail load`, which decides when the client writes requests.
    pub(crate) batch: Option<String>,
    /// The value for `--sampling` of `curtail profile`, which profiles this side during its turns.
    pub(crate) profile: Option<String>,
}

/// A running server.
pub(crate) struct Server {
    pub(crate) app: App,
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    /// Its files, which are deleted with it.
    pub(crate) folder: TempDir,
}

/// Figures by name. Each name ends with its unit.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// Builds or installs the requirements of a case. Returns the folder of memcached's builds.
pub(crate) fn prepare(app: App) -> Result<PathBuf> {
    let folder = Path::new(ROOT).join("target/stages/memcached-1.6.18");
    let patch = concat!(env!("CARGO_MANIFEST_DIR"), "/memcached-lru-budget.patch");
    let (is_here, what) = match app {
        App::Memcached => {
            let newer = |build: &str| {
                let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
                time(&folder.join(build)) >= time(Path::new(patch))
            };
            (newer("plain") && newer("budget"), "memcached from source")
        }
        App::Httpd => (Path::new("/usr/sbin/apache2").exists(), "apache2"),
    };
    if !is_here {
        eprintln!("installing {what}");
        let mut command = Command::new("sh");
        match app {
            App::Memcached => command
                .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/memcached.sh"))
                .arg(&folder)
                .arg(patch),
            App::Httpd => command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/httpd.sh")),
        };
        cargo::output(&mut command).with_context(|| format!("cannot install {what}"))?;
    }
    Ok(folder)
}

impl Server {
    /// Starts a server. If it is httpd, its files have these sizes.
    pub(crate) fn start(
        setup: &Setup,
        change: &Change,
        builds: &Path,
        files: &[usize],
    ) -> Result<Self> {
        let (port, folder) = (free_port()?, tempfile::tempdir()?);
        let mut command = tied("taskset");
        command.args(["--cpu-list", &setup.processors]);
        match setup.app {
            App::Memcached => {
                let build = if change.budget.is_some() { "budget" } else { "plain" };
                command.arg(builds.join(build)).args(["-u", "root", "-l", "127.0.0.1", "-U", "0"]);
                command.args(["-p", &port.to_string(), "-t", &setup.workers.to_string()]);
                command.args(setup.options.split_whitespace());
                if let Some(budget) = &change.budget {
                    command.env("MEMCACHED_LRU_BUDGET", budget);
                }
            }
            App::Httpd => {
                site(folder.path(), port, setup.workers, files)?;
                command.args(["apache2", "-X", "-f"]).arg(folder.path().join("httpd.conf"));
            }
        }
        let mut process = Process::start(setup.app.name(), command, folder.path())?;
        let address = ([127, 0, 0, 1], port).into();
        process.wait_until(|| TcpStream::connect(address).is_ok())?;
        let server = Self { app: setup.app, process, address, folder };
        if let Some(processors) = &change.pin {
            server.pin(setup.workers, processors)?;
        }
        Ok(server)
    }

    fn pin(&self, count: usize, processors: &str) -> Result<()> {
        let processors: curtail_machine::Processors =
            processors.parse().map_err(|why| anyhow::anyhow!("pin: {why}"))?;
        let workers: Vec<PathBuf> = self.threads()?.filter(|thread| is_worker(thread)).collect();
        ensure!(workers.len() >= count, "{} threads, fewer than the workers", workers.len());
        for (thread, processor) in workers.iter().zip(processors.numbers().iter().cycle()) {
            let mut only = CpuSet::new();
            only.set(*processor);
            let number = thread.file_name().and_then(|name| name.to_str()?.parse().ok());
            let Some(number) = number.and_then(Pid::from_raw) else {
                bail!("{}", thread.display())
            };
            sched_setaffinity(Some(number), &only).context("cannot pin a worker")?;
        }
        Ok(())
    }

    fn threads(&self) -> Result<impl Iterator<Item = PathBuf>> {
        let all = fs::read_dir(format!("/proc/{}/task", self.process.id()))
            .context("the server has ended")?;
        Ok(all.flatten().map(|entry| entry.path()))
    }

    /// Returns the scheduler's counters, summed over the threads so far. `background` figures cover
    /// only the threads that are not workers; the other figures include these threads.
    pub(crate) fn work(&self) -> Result<Figures> {
        let mut work = Figures::new();
        for thread in self.threads()? {
            let text = fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
            let number = |at| text.split_whitespace().nth(at)?.parse::<f64>().ok();
            let (cpu_us, slices) = (number(0).unwrap_or(0.0) / 1e3, number(2).unwrap_or(0.0));
            let text = fs::read_to_string(thread.join("sched")).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with("se.nr_migrations"));
            let migrations = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
            let background = if is_worker(&thread) { 0.0 } else { 1.0 };
            for (name, count) in [
                ("cpu_us", cpu_us),
                ("migrations", migrations.unwrap_or(0.0)),
                ("background_cpu_us", background * cpu_us),
                ("background_slices", background * slices),
            ] {
                *work.entry(name).or_default() += count;
            }
        }
        Ok(work)
    }
}

/// Whether a thread is a worker. In memcached, the workers have their own thread name; in httpd,
/// all threads have the same name.
fn is_worker(thread: &Path) -> bool {
    let name = fs::read_to_string(thread.join("comm")).unwrap_or_default();
    matches!(name.trim(), "mc-worker" | "apache2")
}

/// Writes the files `/0`, `/1` … of a website, and the server's configuration.
fn site(folder: &Path, port: u16, workers: usize, files: &[usize]) -> Result<()> {
    fs::create_dir_all(folder.join("site"))?;
    // The workers run under a different user.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    let text = include_str!("../httpd.conf")
        .replace("FOLDER", &folder.display().to_string())
        .replace("PORT", &port.to_string())
        .replace("WORKERS", &workers.to_string());
    fs::write(folder.join("httpd.conf"), text)?;
    for (number, bytes) in files.iter().enumerate() {
        fs::write(folder.join("site").join(number.to_string()), vec![b'v'; *bytes])?;
    }
    Ok(())
}
