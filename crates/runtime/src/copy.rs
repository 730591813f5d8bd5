//! The task of one copy.

use std::cell::Cell;
use std::sync::{Arc, Weak};

use curtail_kernel::{CopyId, Outcome, ServerId};

use crate::inner::Inner;
use crate::transport::{CopyHandle, Head, Listener, Transport};

/// A copy to be started.
pub(crate) struct Launch<R> {
    pub(crate) copy: CopyId,
    pub(crate) server: ServerId,
    pub(crate) request: R,
}

/// Reports the end of a copy, however its task ends: a task that is aborted, or never polled, has
/// stopped.
pub(crate) struct Guard<T: Transport> {
    inner: Arc<Inner<T>>,
    copy: CopyId,
    ended: bool,
}

impl<T: Transport> Guard<T> {
    pub(crate) fn new(inner: Arc<Inner<T>>, copy: CopyId) -> Self {
        Self { inner, copy, ended: false }
    }

    fn finished(mut self, outcome: Outcome, response: Option<T::Response>) {
        self.ended = true;
        self.inner.finished(self.copy, outcome, response);
    }
}

impl<T: Transport> Drop for Guard<T> {
    fn drop(&mut self) {
        if self.ended {
        } else if SPAWNING.get() {
            // The runtime has shut down. To report the end would start the next copy, to end here
            // as well, one level of the stack deeper.
            self.inner.close();
        } else if std::thread::panicking() {
            // A bug in the transport: to the kernel, the server failed.
            self.inner.finished(self.copy, Outcome::Malformed, None);
        } else {
            self.inner.stopped(self.copy);
        }
    }
}

thread_local! {
    /// A task is being started on this thread.
    static SPAWNING: Cell<bool> = const { Cell::new(false) };
}

/// Starts a task, and knows it if the runtime drops it at once.
pub(crate) fn spawning<V>(spawn: impl FnOnce() -> V) -> V {
    SPAWNING.set(true);
    let spawned = spawn();
    SPAWNING.set(false);
    spawned
}

/// Sends the copy and reports what becomes of it.
pub(crate) async fn run<T: Transport>(guard: Guard<T>, launch: Launch<T::Request>) {
    let Launch { copy, server, request } = launch;
    let cell = Arc::downgrade(&guard.inner) as Weak<dyn Listener>;
    let sent = guard.inner.transport.send(server, request, CopyHandle { cell, copy }).await;
    let verdict = |good| if good { Outcome::Good } else { Outcome::Bad };
    match sent {
        Err(failure) => guard.finished(failure.into(), None),
        Ok(Head { response, good, tail: None }) => guard.finished(verdict(good), Some(response)),
        Ok(Head { response, good, tail: Some(tail) }) => {
            if !guard.inner.responded(copy, good, response) {
                return;
            }
            match tail.await {
                Ok(()) => guard.finished(verdict(good), None),
                Err(failure) => guard.finished(failure.into(), None),
            }
        }
    }
}
