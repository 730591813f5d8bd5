//! Builds or installs the server of a case, starts it, pins its threads, and counts its work.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use curtail_jitter::machine::Reading;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::child::{self, Child};

const READY: Duration = Duration::from_secs(10);

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
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    /// Its files, which are deleted with it.
    _folder: TempDir,
}

/// Figures by name. Each name ends with its unit.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// Builds or installs the requirements of a case. Returns the folder of memcached's builds.
pub(crate) fn prepare(app: App, target: &Path) -> Result<PathBuf> {
    let folder = target.join("memcached-1.6.18");
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
            App::Memcached => {
                command.args(["-c", include_str!("../memcached.sh"), "sh"]).arg(&folder).arg(patch)
            }
            App::Httpd => command.args(["-c", include_str!("../httpd.sh")]),
        };
        let out = command.stdin(Stdio::null()).output().context("cannot run sh")?;
        let stderr = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "cannot install {what}: {}", stderr.trim());
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
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let folder = tempfile::tempdir()?;
        let mut command = child::command(Path::new("taskset"));
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
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        let (process, address) = (Child::spawn(quiet)?, ([127, 0, 0, 1], port).into());
        let server = Self { process, address, _folder: folder };
        server.ready()?;
        if let Some(processors) = &change.pin {
            server.pin(setup.workers, processors)?;
        }
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    fn ready(&self) -> Result<()> {
        let start = Instant::now();
        while let Err(error) = TcpStream::connect(self.address) {
            ensure!(
                start.elapsed() < READY,
                "the server does not listen on {}: {error}",
                self.address
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn pin(&self, count: usize, processors: &str) -> Result<()> {
        let processors: curtail_jitter::machine::Processors =
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
        let all =
            fs::read_dir(format!("/proc/{}/task", self.pid())).context("the server has ended")?;
        Ok(all.flatten().map(|entry| entry.path()))
    }

    /// Returns the scheduler's counters, summed over the threads so far. `queued` is the time for
    /// which a thread was ready to run while another one ran. `background` figures cover only the
    /// threads that are not workers; the other figures include these threads. `stolen` is the time
    /// that the hypervisor withheld from the machine.
    pub(crate) fn work(&self) -> Result<Figures> {
        let mut work = Figures::from([("stolen_us", stolen_us()?)]);
        for thread in self.threads()? {
            let text = fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
            let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap_or(0.0));
            let mut next = || numbers.next().unwrap_or(0.0);
            let (cpu_us, queued_us, slices) = (next() / 1e3, next() / 1e3, next());
            let text = fs::read_to_string(thread.join("sched")).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with("se.nr_migrations"));
            let migrations = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
            let background = if is_worker(&thread) { 0.0 } else { 1.0 };
            for (name, count) in [
                ("cpu_us", cpu_us),
                ("queued_us", queued_us),
                ("slices", slices),
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

/// Returns the stolen time of all processors, with a resolution of 10 ms.
fn stolen_us() -> Result<f64> {
    let reading = Reading::take(&[]).context("no steal time in /proc/stat")?;
    Ok(reading.stolen_ns() as f64 / 1e3)
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
