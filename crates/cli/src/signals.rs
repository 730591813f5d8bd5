//! Signals, as daemons use them.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a program.
pub(crate) struct Termination {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Termination {
    /// Listens from now on, so that no signal is lost between start and wait.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: None,
        })
    }

    /// The same for a program that a person started: it ends with the terminal, too, but for `nohup`.
    pub(crate) fn listen_at_terminal() -> std::io::Result<Self> {
        // Whoever writes more than a bound on files allows (`ulimit -f`) is told, rather than killed.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        let hangup = if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self { hangup, ..Self::listen()? })
    }

    /// Waits for the next one.
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

/// Was this process started so that it outlives its terminal? Known on Linux only.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status).is_some_and(|signals| signals & 1 != 0)
}

/// The signals that `/proc/PID/status` says are ignored: the lowest bit is the first.
fn ignored(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
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
}
