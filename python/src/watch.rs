//! Long work beside an interpreter: its threads go on, progress is reported, a signal ends the work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curtail_sim::Plan;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

/// How often signals are looked for, and progress is reported.
const TICK: Duration = Duration::from_millis(50);

/// The state that work and interpreter share.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// What is done of it.
    progress: AtomicU64,
    /// It is to end.
    stop: AtomicBool,
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Watch {
    /// How to run what is watched.
    pub(crate) fn plan<'a>(&'a self, threads: usize, percentiles: &'a [f64]) -> Plan<'a> {
        Plan { threads, percentiles, progress: &self.progress, stop: &self.stop }
    }

    fn ended(&self) -> MutexGuard<'_, bool> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a tick, or less where the work ends; whether it has.
    fn tick(&self) -> bool {
        let waited = self.changed.wait_timeout_while(self.ended(), TICK, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Tells that work has ended, even by a panic.
struct Ends<'a>(&'a Watch);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        *self.0.ended() = true;
        self.0.changed.notify_all();
    }
}

/// Does the work on a thread of its own, without the interpreter, and calls `progress` with what is
/// done of `total` meanwhile. After a signal, or where `progress` raises, the work is asked to stop
/// and is waited for, and what was raised goes on.
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
    // A panic is our bug; the interpreter must survive it.
    done.map_err(|_| {
        PyRuntimeError::new_err("curtail has a bug: its simulation panicked; report it")
    })
}

/// What work came to that was not stopped.
pub(crate) fn completed<T>(done: Option<T>) -> PyResult<T> {
    done.ok_or_else(|| PyKeyboardInterrupt::new_err("interrupted"))
}
