//! Keeps the time, in a thread of its own.
//!
//! The runtime's timers count in milliseconds, and its threads are busy with answers when it matters
//! most. A sleeping thread of the system is woken within about 50 µs of the time it asked for (the
//! slack of its timers), and before threads that have been computing all along.

use std::hint;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::dispatch::Dispatcher;
use crate::schedule::Schedule;

/// How much too early the thread asks to be woken: what the system is usually late by. Should it be
/// on time, the thread spins for the rest. It does not yield instead: on a busy machine, giving the
/// processor away takes milliseconds to get it back.
const WAKE_EARLY: Duration = Duration::from_micros(50);

/// The running thread. Dropping it stops the thread and waits for it, which takes microseconds.
#[derive(Debug)]
pub(crate) struct Pacer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pacer {
    /// Starts a thread that offers each slot at its time after `epoch`. Once all are offered, it
    /// sends the intended time of the last, in nanoseconds.
    pub(crate) fn start(
        schedule: Schedule,
        epoch: Instant,
        dispatcher: Arc<Dispatcher>,
    ) -> io::Result<(Pacer, oneshot::Receiver<u64>)> {
        let (finished, finish) = oneshot::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("load-pacer".to_owned()).spawn(move || {
            if let Some(last_ns) = pace(schedule, epoch, &dispatcher, &stopped) {
                // Nobody listens any more if the run was dropped.
                let _ = finished.send(last_ns);
            }
        })?;
        Ok((Pacer { stop, thread: Some(thread) }, finish))
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // An error is a panic there, which has been reported by then.
            let _ = thread.join();
        }
    }
}

/// The intended time of the last slot; `None` if it was stopped before.
fn pace(
    schedule: Schedule,
    epoch: Instant,
    dispatcher: &Dispatcher,
    stop: &AtomicBool,
) -> Option<u64> {
    let mut last_ns = 0;
    for slot in schedule {
        if !wait_until(epoch + Duration::from_nanos(slot.at_ns), stop) {
            return None;
        }
        dispatcher.offer(slot);
        last_ns = slot.at_ns;
    }
    Some(last_ns)
}

/// False if it was stopped meanwhile.
fn wait_until(due: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        if left > WAKE_EARLY {
            thread::park_timeout(left - WAKE_EARLY);
        } else {
            hint::spin_loop();
        }
    }
}
