//! Processes of our own: how a child says that it is there and when it ends, and how a parent
//! starts it and is sure to end it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::exit::Stop;
use crate::say;
use crate::signals::Termination;

/// What a child's first line on stdout begins with.
const LISTENING: &str = "listening on ";

/// A child that has not said where it listens by then will not.
const START: Duration = Duration::from_secs(20);

/// Lines of a child's stderr that are kept, to explain its end.
const TAIL: usize = 20;

/// How a process that serves is tied to the one that started it.
#[derive(clap::Args)]
pub(crate) struct Ties {
    /// Say on stdout where it listens
    #[arg(long, hide = true)]
    pub(crate) announce: bool,
    /// End when stdin closes, so that nothing outlives who started it
    #[arg(long, hide = true)]
    pub(crate) tied_to_stdin: bool,
}

/// In the child: says where it listens, and what it is.
pub(crate) fn announce(addresses: &[SocketAddr], what: &str) -> Result<(), Stop> {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    say::result(format_args!("{LISTENING}{}", addresses.join(" ")))?;
    say::aside(what);
    Ok(())
}

/// In the child: from now on it is killed when the thread that started it ends. A child that is
/// stopped by a signal would not see its stdin close. Only Linux can do this.
pub(crate) fn end_with_parent() {
    #[cfg(target_os = "linux")]
    {
        let kill = Some(rustix::process::Signal::KILL);
        // Where it fails, stdin still does for a child that runs.
        let _ = rustix::process::set_parent_process_death_signal(kill);
    }
}

/// In the child: the reasons to end.
pub(crate) struct Endings {
    signals: Termination,
    /// None where it does not matter, or is closed already.
    stdin: Option<tokio::io::Stdin>,
}

impl Endings {
    /// Listens to signals, and to the end of stdin if the child is tied to that: a parent that
    /// dies, however it dies, takes the child along.
    pub(crate) fn listen(tied_to_stdin: bool) -> Result<Self, Stop> {
        let signals = Termination::listen();
        let signals = signals.map_err(|error| Stop::Lacking(format!("no signals: {error}")))?;
        Ok(Self { signals, stdin: tied_to_stdin.then(tokio::io::stdin) })
    }

    /// Waits for the next reason.
    pub(crate) async fn next(&mut self) {
        let closed = async {
            let Some(stdin) = &mut self.stdin else { return std::future::pending().await };
            while stdin.read(&mut [0; 64]).await.is_ok_and(|bytes| bytes > 0) {}
        };
        tokio::select! {
            () = self.signals.next() => return,
            () = closed => {}
        }
        self.stdin = None;
    }
}

/// In the parent: a process that is killed when this is dropped.
pub(crate) struct Process {
    pub(crate) address: SocketAddr,
    child: Child,
}

impl Process {
    /// Starts this program with other arguments, and waits until it listens.
    pub(crate) async fn start(name: &str, args: &[String]) -> Result<Self, Stop> {
        let lacking =
            |error: std::io::Error| Stop::Lacking(format!("{name} does not start: {error}"));
        let program = std::env::current_exe().map_err(lacking)?;
        let mut command = Command::new(program);
        command.args(args).arg("--tied-to-stdin").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(lacking)?;
        let said = listen_to(&mut child);
        let address = match tokio::time::timeout(START, address(&mut child)).await {
            Ok(Some(address)) => address,
            Ok(None) | Err(_) => {
                let _ = child.kill().await;
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                let said = said.make_contiguous().join("\n");
                return Err(Stop::Lacking(format!("{name} does not listen; it says: {said:?}")));
            }
        };
        Ok(Self { address, child })
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Its process id, while it lives.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Ends it in good order.
    pub(crate) async fn end(mut self) {
        drop(self.child.stdin.take());
        if tokio::time::timeout(Duration::from_secs(2), self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

async fn address(child: &mut Child) -> Option<SocketAddr> {
    let mut lines = BufReader::new(child.stdout.as_mut()?).lines();
    let first = lines.next_line().await.ok()??;
    first.strip_prefix(LISTENING)?.split(' ').next()?.parse().ok()
}

/// Reads a child's stderr, so that it never blocks, and keeps the last lines.
fn listen_to(child: &mut Child) -> Arc<Mutex<VecDeque<String>>> {
    let said: Arc<Mutex<VecDeque<String>>> = Arc::default();
    if let Some(stderr) = child.stderr.take() {
        let said = Arc::clone(&said);
        tokio::spawn(async move {
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                if said.len() == TAIL {
                    said.pop_front();
                }
                said.push_back(line);
            }
        });
    }
    said
}
