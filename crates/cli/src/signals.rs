//! Signals that end a program, handled the way daemons handle them.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a program.
pub(crate) struct Termination {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Termination {
    /// Starts listening immediately, so that a signal before the first wait is not lost.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: None,
        })
    }

    /// Like [`listen`](Self::listen), for a program that a person started: it also ends when its
    /// terminal closes, unless it runs under `nohup`.
    pub(crate) fn listen_at_terminal() -> std::io::Result<Self> {
        // With a handler for SIGXFSZ, a write beyond the file size limit (`ulimit -f`) returns an
        // error. Without one, the signal kills the process.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        let hangup = if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self { hangup, ..Self::listen()? })
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
