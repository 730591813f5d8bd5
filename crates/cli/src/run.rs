//! How a verb runs: its runtime, signals that end it, and progress on stderr for people.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::exit::{Stop, lacking};

/// Runs `work` on all cores. What it leaves running, such as a name lookup, is not waited for.
pub(crate) fn on_all_cores<T>(work: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
    block_on(Builder::new_multi_thread(), work)
}

/// Like [`on_all_cores`], on one thread, for processes of which a machine runs many.
pub(crate) fn on_one_thread<T>(work: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
    block_on(Builder::new_current_thread(), work)
}

fn block_on<T>(
    mut builder: Builder,
    work: impl Future<Output = Result<T, Stop>>,
) -> Result<T, Stop> {
    let building = builder.enable_all().build();
    let runtime = building.map_err(|error| lacking!("cannot start the runtime: {error}"))?;
    let done = runtime.block_on(work);
    // A thread of the runtime may be blocked, for example in reading a stdin that never ends.
    runtime.shutdown_background();
    done
}

/// Keeps the runtime off these processors, which are for sending threads.
pub(crate) fn reserve(processors: &curtail_machine::Processors) -> Result<(), Stop> {
    processors.reserve().map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => {
            Stop::BadInput(format!("--processors: {error}; choose one of those"))
        }
        _ => lacking!("cannot bind threads to processors: {error}"),
    })
}

/// The signals that end a program, handled the way daemons handle them.
pub(crate) struct Termination {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Termination {
    /// Starts listening immediately, so that a signal before the first wait is not lost.
    pub(crate) fn listen() -> Result<Self, Stop> {
        Self::with_hangup(false).map_err(|error| lacking!("cannot handle signals: {error}"))
    }

    /// Like [`listen`](Self::listen), for a program that a person started: it also ends when its
    /// terminal closes, unless it runs under `nohup`.
    pub(crate) fn listen_at_terminal() -> Result<Self, Stop> {
        Self::with_hangup(true).map_err(|error| lacking!("cannot handle signals: {error}"))
    }

    fn with_hangup(at_terminal: bool) -> std::io::Result<Self> {
        if at_terminal {
            // With a handler for SIGXFSZ, a write beyond the file size limit (`ulimit -f`) returns
            // an error. Without one, the signal kills the process.
            drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        }
        let hangup = at_terminal && !ignores_hangup();
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: hangup.then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Whether this process ignores SIGHUP, as under `nohup`. Always false except on Linux.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status).is_some_and(|signals| signals & 1 != 0)
}

/// The mask of ignored signals in `/proc/PID/status`. The lowest bit is signal 1.
fn ignored(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// A spinner with a message. Nothing is shown if stderr is not a terminal.
pub(crate) fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A progress bar. Nothing is shown if stderr is not a terminal.
pub(crate) fn bar(what: &'static str, length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length).with_prefix(what);
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3} %  {left}  {msg}");
    if let Ok(style) = style {
        bar.set_style(style.with_key("left", |state: &ProgressState, text: &mut dyn Write| {
            let _ = text.write_str(&left(state.pos(), state.eta()));
        }));
    }
    bar
}

/// The remaining time; empty before the first step is done.
fn left(done: u64, eta: Duration) -> String {
    if done == 0 { String::new() } else { format!("{:#} left", HumanDuration(eta)) }
}

/// State that long work shares with its progress bar.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The amount of work that has been done.
    pub(crate) progress: AtomicU64,
    /// Whether the work should stop.
    pub(crate) stop: AtomicBool,
}

impl Watch {
    /// How to run a simulation that this watches.
    pub(crate) fn plan<'a>(
        &'a self,
        threads: usize,
        percentiles: &'a [f64],
    ) -> curtail_sim::Plan<'a> {
        let (progress, stop) = (&self.progress, &self.stop);
        curtail_sim::Plan { threads, percentiles, progress, stop }
    }
}

/// Runs the work on its own thread and shows its progress in units of the bar's length. A signal
/// sets `stop`; the function then waits for the work to return.
pub(crate) fn watched<T: Send>(
    bar: &ProgressBar,
    work: impl FnOnce(&Watch) -> T + Send,
) -> Result<T, Stop> {
    let watch = Watch::default();
    std::thread::scope(|scope| {
        let (done, mut ended) = oneshot::channel();
        let worker = scope.spawn(|| {
            let result = work(&watch);
            // If the receiver is gone, the result is still taken from the thread.
            let _ = done.send(());
            result
        });
        let listening = on_one_thread(async {
            let mut signals = Termination::listen_at_terminal()?;
            let mut ticks = tokio::time::interval(Duration::from_millis(100));
            loop {
                tokio::select! {
                    () = signals.next() => watch.stop.store(true, Ordering::Relaxed),
                    _ = &mut ended => return Ok(()),
                    _ = ticks.tick() => bar.set_position(watch.progress.load(Ordering::Relaxed)),
                }
            }
        });
        bar.finish_and_clear();
        if listening.is_err() {
            watch.stop.store(true, Ordering::Relaxed);
        }
        let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        listening.map(|()| result)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signals_that_nohup_has_ignored_are_found() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored(status), Some(0x1001));
        assert_eq!(ignored("Name:\tx\n"), None);
    }

    #[test]
    fn no_remaining_time_is_shown_before_the_first_step() {
        assert_eq!(left(0, Duration::ZERO), "");
        assert_eq!(left(1, Duration::from_secs(30)), "30s left");
    }
}
