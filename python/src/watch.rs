//! Runs long work on a separate thread. The interpreter's other threads keep running, progress is
//! reported, and a signal stops the work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curtail_sim::Plan;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

/// The interval between checks for signals, and between progress reports.
const TICK: Duration = Duration::from_millis(50);

/// The state that the work and the interpreter's thread share.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The amount of work that has been done.
    progress: AtomicU64,
    /// Whether the work should stop.
    stop: AtomicBool,
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Watch {
    /// Returns the settings with which the watched work runs.
    pub(crate) fn plan<'a>(&'a self, threads: usize, percentiles: &'a [f64]) -> Plan<'a> {
        Plan { threads, percentiles, progress: &self.progress, stop: &self.stop }
    }

    fn ended(&self) -> MutexGuard<'_, bool> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the next check is due or the work has ended. Returns whether the work has ended.
    fn tick(&self) -> bool {
        let waited = self.changed.wait_timeout_while(self.ended(), TICK, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Signals that the work has ended when this value is dropped, even if the work panicked.
struct Ends<'a>(&'a Watch);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        *self.0.ended() = true;
        self.0.changed.notify_all();
    }
}

/// Runs the work on a new thread without holding the interpreter lock. Regularly calls `progress`
/// with the amount of work done and with `total`. After a signal, or if `progress` raises an
/// exception, this stops the work, waits for it, and returns the error.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    total: u64,
    work: impl FnOnce(&Watch) -> T + Send,
) -> PyResult<T> {
    let watch = Watch::default();
    let mut raised = None;
    let done = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _ends = Ends(&watch);
            work(&watch)
        });
        while !py.detach(|| watch.tick()) {
            if raised.is_some() {
                continue;
            }
            let reported = py.check_signals().and_then(|()| match &progress {
                Some(report) => {
                    let done = watch.progress.load(Ordering::Relaxed).min(total);
                    report.call1(py, (done, total)).map(drop)
                }
                None => Ok(()),
            });
            if let Err(error) = reported {
                raised = Some(error);
                watch.stop.store(true, Ordering::Relaxed);
            }
        }
        py.detach(|| worker.join())
    });
    if let Some(error) = raised {
        return Err(error);
    }
    // A panic is a bug in curtail, and must not end the interpreter.
    done.map_err(|_| {
        PyRuntimeError::new_err("curtail has a bug: its simulation panicked; report it")
    })
}

/// Returns the result of the work, or `KeyboardInterrupt` if the work was stopped.
pub(crate) fn completed<T>(done: Option<T>) -> PyResult<T> {
    done.ok_or_else(|| PyKeyboardInterrupt::new_err("interrupted"))
}
