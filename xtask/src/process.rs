//! Starts child processes, sends them requests, measures their CPU time, and ends them together
//! with this process.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;

/// The time limit within which a process must start to listen.
const START: Duration = Duration::from_secs(20);
/// The time limit for a process to end after SIGTERM.
const STOP: Duration = Duration::from_secs(2);

/// Returns a command. The system kills its process when the thread that started it ends. A drop
/// handler would not be enough, because a signal may kill this process. On systems other than Linux
/// it is an ordinary command.
pub fn tied(program: impl AsRef<Path>) -> Command {
    if !cfg!(target_os = "linux") {
        return Command::new(program.as_ref());
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program.as_ref());
    command
}

/// A process that ends when this value is dropped.
pub struct Process {
    name: String,
    child: process::Child,
    stdout: Option<BufReader<process::ChildStdout>>,
    /// The file to which the process writes its stderr.
    log: PathBuf,
}

impl Process {
    /// Starts a command. The stderr of the process goes to NAME.log in the folder.
    pub fn start(name: &str, mut command: Command, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {log:?}"))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        let stdout = child.stdout.take().map(BufReader::new);
        Ok(Self { name: name.to_owned(), child, stdout, log })
    }

    /// Waits until a program of this repository prints the addresses on which it listens.
    pub fn announced(&mut self) -> Result<Vec<SocketAddr>> {
        let stdout = self.stdout.as_mut().context("its stdout is taken")?;
        let mut line = String::new();
        stdout.read_line(&mut line).context("cannot read its output")?;
        let addresses = line.trim().strip_prefix("listening on ").unwrap_or_default();
        let addresses: Result<Vec<SocketAddr>, _> =
            addresses.split_whitespace().map(str::parse).collect();
        match addresses {
            Ok(addresses) if !addresses.is_empty() => Ok(addresses),
            _ => bail!("{} does not listen: {}", self.name, self.log()),
        }
    }

    /// Waits until `ready` returns true. Fails if the process ends or the usual time limit passes.
    pub fn wait_until(&mut self, ready: impl Fn() -> bool) -> Result<()> {
        self.wait_within(START, ready)
    }

    /// Waits like [`wait_until`](Self::wait_until), with another time limit.
    pub fn wait_within(&mut self, limit: Duration, ready: impl Fn() -> bool) -> Result<()> {
        let start = Instant::now();
        while !ready() {
            if self.child.try_wait()?.is_some() || start.elapsed() > limit {
                bail!("{} does not respond: {}", self.name, self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns the last lines of the process's log.
    fn log(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(10)..].join("\n");
        if last.is_empty() { "its log is empty".into() } else { last }
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the CPU time that the process has used so far, in nanoseconds.
    pub fn cpu_ns(&self) -> Result<u64> {
        cpu_ns(self.id()).with_context(|| format!("no CPU time of {}: it has ended", self.name))
    }

    /// Returns the largest amount of memory that the process has used so far, in bytes.
    pub fn peak_bytes(&self) -> Result<u64> {
        peak_bytes(self.id()).with_context(|| format!("no memory of {}: it has ended", self.name))
    }

    /// Writes a line to the process's stdin.
    pub fn tell(&mut self, line: &str) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("its stdin is taken")?;
        writeln!(stdin, "{line}").with_context(|| format!("{} does not read", self.name))
    }

    /// Closes the process's stdin, waits until the process ends, and returns its remaining output.
    pub fn finish(mut self) -> Result<String> {
        self.rest()
    }

    /// Closes the process's stdin, waits until the process ends, and parses its remaining output as
    /// JSON. An error contains the process's log.
    pub fn document<T: DeserializeOwned>(mut self) -> Result<T> {
        let rest = self.rest()?;
        let document = serde_json::from_str(&rest);
        document.with_context(|| format!("{} printed no JSON: {}", self.name, self.log()))
    }

    fn rest(&mut self) -> Result<String> {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        if let Some(stdout) = &mut self.stdout {
            stdout.read_to_string(&mut rest)?;
        }
        self.child.wait()?;
        Ok(rest)
    }

    /// Kills the process immediately.
    pub fn kill(mut self) {
        let _ = self.child.kill();
    }

    /// Sends a signal by name, such as STOP.
    pub fn signal(&self, name: &str) -> Result<()> {
        let mut kill = Command::new("kill");
        kill.arg(format!("-{name}")).arg(self.id().to_string());
        anyhow::ensure!(kill.status()?.success(), "{} does not accept {name}", self.name);
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGTERM comes first, so that the process can end its own children.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) && self.signal("TERM").is_ok() {
            let start = Instant::now();
            while start.elapsed() < STOP && self.child.try_wait().is_ok_and(|end| end.is_none()) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sums the CPU time of the living threads from the scheduler's statistics, which are in
/// nanoseconds.
fn cpu_ns(pid: u32) -> Option<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let accounts = tasks.filter_map(|task| {
        let account = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        account.split(' ').next()?.parse::<u64>().ok()
    });
    Some(accounts.sum())
}

/// Returns the peak of the resident memory.
fn peak_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Returns a port of the loopback interface that was free a moment ago, for programs that cannot
/// choose and report one themselves.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").context("no free port")?.local_addr()?.port())
}

/// Sends a GET request and returns the status and the body of the response.
pub fn ask(
    address: SocketAddr,
    target: &str,
    headers: &str,
    timeout: Duration,
) -> Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    let head =
        format!("GET {target} HTTP/1.1\r\nhost: xtask\r\n{headers}connection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").context("no head")?;
    let head = String::from_utf8_lossy(&response[..end]);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let length = head.to_ascii_lowercase();
    let length = length.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
    let body = response.split_off(end + 4);
    let whole = length.and_then(|length| length.trim().parse::<usize>().ok());
    anyhow::ensure!(whole.is_none_or(|whole| whole == body.len()), "{target}: a part of the body");
    Ok((status.context("no status")?, body))
}

/// Sends a GET request that must succeed, and returns the body.
pub fn get(address: SocketAddr, target: &str) -> Result<String> {
    let (status, body) = ask(address, target, "", Duration::from_secs(5))?;
    anyhow::ensure!(status == 200, "{target}: status {status}");
    String::from_utf8(body).context("no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_reports_its_addresses_its_output_and_its_cpu_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo listening on 127.0.0.1:1 127.0.0.1:2; cat; echo done"]);
        let mut process = Process::start("shell", shell, folder.path()).expect("it starts");
        assert_eq!(process.announced().expect("addresses").len(), 2);
        process.tell("told").expect("it reads");
        assert_eq!(process.finish().expect("text"), "told\ndone\n");
        let mut silent = Command::new("sh");
        silent.args(["-c", "echo why >&2"]);
        let mut silent = Process::start("silent", silent, folder.path()).expect("it starts");
        let error = silent.announced().expect_err("it does not listen").to_string();
        assert!(error.starts_with("silent does not listen: "), "{error}");
        let error = silent.document::<Vec<u8>>().expect_err("it printed nothing").to_string();
        assert!(error.ends_with("no JSON: why"), "{error}");
        let mut shell = Command::new("sh");
        shell.args(["-c", "while :; do :; done"]);
        let busy = Process::start("busy", shell, folder.path()).expect("it starts");
        let (before, start) = (busy.cpu_ns().expect("it runs"), Instant::now());
        while busy.cpu_ns().expect("it runs") <= before {
            assert!(start.elapsed() < Duration::from_mins(1), "{before} ns all the while");
        }
    }
}
