//! Child processes that end with this one and are ready once they listen.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// The time within which a process must start to listen.
const START: Duration = Duration::from_secs(20);

/// A process that is killed when this value is dropped, or when the thread that started it ends.
#[derive(Debug)]
pub(crate) struct Process(Child);

/// Returns a command that runs a program with one worker thread, in Tokio's or Go's runtime. `curtail
/// proxy` takes the number from its configuration.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command.env("TOKIO_WORKER_THREADS", "1").env("GOMAXPROCS", "1");
    command.stdin(Stdio::null());
    command
}

impl Process {
    /// Starts a program that listens at an address. Its stderr goes to the log.
    pub(crate) fn start(mut command: Command, address: SocketAddr, log: &Path) -> Result<Self> {
        command.stdout(Stdio::null()).stderr(File::create(log)?);
        let child = command.spawn().context("cannot run setpriv; install util-linux")?;
        let mut process = Self(child);
        let since = Instant::now();
        while TcpStream::connect(address).is_err() {
            if process.0.try_wait()?.is_some() || since.elapsed() > START {
                bail!("no process listens on {address}; see {}", log.display());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(process)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns an address of the loopback interface that was free a moment ago.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
