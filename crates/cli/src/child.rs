//! Child processes of this program, from both sides: a parent starts and kills them, and a child
//! announces its address and waits for its end.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use curtail_search::Server;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::exit::{Stop, lacking};
use crate::run::Termination;
use crate::say;

/// Prefix of the first line that a child writes to stdout.
const LISTENING: &str = "listening on ";

/// How long a child may take to announce its address.
const START: Duration = Duration::from_secs(20);

/// Number of lines of a child's stderr that are kept, to explain why it failed.
const TAIL: usize = 20;

/// The flag that ties a server process to its parent.
#[derive(clap::Args)]
pub(crate) struct Tied {
    /// Exit when stdin closes, so that the process does not outlive its parent
    #[arg(long, hide = true)]
    tied_to_stdin: bool,
}

/// Flags of servers that announce their addresses only to a parent.
#[derive(clap::Args)]
pub(crate) struct Ties {
    /// Print the address on stdout
    #[arg(long, hide = true)]
    pub(crate) announce: bool,
    #[command(flatten)]
    pub(crate) tied: Tied,
}

/// Prints the child's addresses on stdout, and a description on stderr. Called in the child.
pub(crate) fn announce(addresses: &[SocketAddr], what: &str) -> Result<(), Stop> {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    say::result(format_args!("{LISTENING}{}", addresses.join(" ")))?;
    say::aside(what);
    Ok(())
}

/// Called in the child: announces a leaf or a root, and serves until the child ends.
pub(crate) async fn serve(
    server: Server,
    about: &str,
    mut endings: Endings,
) -> Result<ExitCode, Stop> {
    announce(&[server.address()], about)?;
    server.serve(async move { endings.next().await }).await;
    Ok(ExitCode::SUCCESS)
}

/// Runs a proxy or a stage, which returns the number of connections that were cut off. The first event
/// starts the drain, and the second one ends the server immediately.
pub(crate) async fn drained<S: Future<Output = usize>>(
    mut endings: Endings,
    serve: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>) -> S,
) -> ExitCode {
    let (stop, stopped) = oneshot::channel::<()>();
    let mut serving = std::pin::pin!(serve(Box::pin(async { drop(stopped.await) })));
    tokio::select! {
        cut = &mut serving => return ended(cut),
        () = endings.next() => drop(stop),
    }
    tokio::select! {
        cut = serving => ended(cut),
        () = endings.next() => {
            tracing::warn!("second signal: exiting immediately");
            ExitCode::from(1)
        }
    }
}

/// Logs the end of a drain.
fn ended(cut: usize) -> ExitCode {
    if cut > 0 {
        tracing::warn!(
            connections = cut,
            "drain timeout expired; remaining connections were closed"
        );
        return ExitCode::from(1);
    }
    tracing::info!("drained");
    ExitCode::SUCCESS
}

/// Called in the child: asks the kernel to kill the child when the thread that started it ends. A
/// stopped child (SIGSTOP) would not notice that its stdin has closed. Linux only.
pub(crate) fn end_with_parent() {
    #[cfg(target_os = "linux")]
    {
        let kill = Some(rustix::process::Signal::KILL);
        // If this fails, a running child still notices when its stdin closes.
        let _ = rustix::process::set_parent_process_death_signal(kill);
    }
}

/// The events that end a child, for use in the child itself.
pub(crate) struct Endings {
    signals: Termination,
    /// `None` if the state of stdin does not matter, or if it has closed.
    stdin: Option<tokio::io::Stdin>,
}

impl Endings {
    /// Starts listening for signals, and for the end of stdin if it is tied. When stdin closes, the
    /// parent has ended, for whatever reason. Called before the address is announced, so that no signal
    /// is missed.
    pub(crate) fn listen(tied: &Tied) -> Result<Self, Stop> {
        Ok(Self {
            signals: Termination::listen()?,
            stdin: tied.tied_to_stdin.then(tokio::io::stdin),
        })
    }

    /// Waits for the next event.
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

/// A child process, as seen by its parent. Dropping this value kills it.
pub(crate) struct Process {
    pub(crate) address: SocketAddr,
    child: Child,
}

impl Process {
    /// Starts this program with the given arguments, and waits until it listens.
    pub(crate) async fn start(name: &str, args: &[String]) -> Result<Self, Stop> {
        let lacking = |error: std::io::Error| lacking!("cannot start {name}: {error}");
        let program = std::env::current_exe().map_err(lacking)?;
        let mut command = Command::new(program);
        command.args(args).arg("--tied-to-stdin").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(lacking)?;
        let tail = capture_stderr(&mut child);
        let address = match tokio::time::timeout(START, address(&mut child)).await {
            Ok(Some(address)) => address,
            Ok(None) | Err(_) => {
                let _ = child.kill().await;
                let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
                let tail = tail.make_contiguous().join("\n");
                return Err(lacking!("{name} did not start to listen; its output: {tail:?}"));
            }
        };
        Ok(Self { address, child })
    }

    /// Returns the exit status, if the child has ended.
    pub(crate) fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns the process id while the child runs.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Ends the child by closing its stdin, and kills it if it still runs after 2 s.
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

/// Reads a child's stderr, so that the child never blocks on it, and keeps the last lines.
fn capture_stderr(child: &mut Child) -> Arc<Mutex<VecDeque<String>>> {
    let tail: Arc<Mutex<VecDeque<String>>> = Arc::default();
    if let Some(stderr) = child.stderr.take() {
        let tail = Arc::clone(&tail);
        tokio::spawn(async move {
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
                if tail.len() == TAIL {
                    tail.pop_front();
                }
                tail.push_back(line);
            }
        });
    }
    tail
}
