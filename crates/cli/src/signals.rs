//! Signals, as daemons use them.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a daemon.
pub(crate) struct Termination {
    terminate: Signal,
    interrupt: Signal,
}

impl Termination {
    /// Listens from now on, so that no signal is lost between start and wait.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The signal that asks a daemon to read its configuration again. Without somebody who listens it
/// would end the process.
pub(crate) struct Hangup(Signal);

impl Hangup {
    /// Listens from now on.
    pub(crate) fn listen() -> std::io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        self.0.recv().await;
    }
}
