//! A thread that runs during a measurement. It is ready before the measurement starts, and stops
//! after it ends.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, Result, anyhow};

use crate::processors::Processors;

/// A thread that stops when this value is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Worker {
    /// Starts a thread and waits until it signals that it is ready.
    pub(crate) fn start(
        name: &str,
        work: impl FnOnce(&AtomicBool, &dyn Fn()) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, ready) = sync_channel(1);
        let until = Arc::clone(&stop);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            // A second signal is dropped, because the receiver waits only for the first.
            work(&until, &|| {
                let _ = sender.try_send(());
            })
        })?;
        let mut worker = Self { stop, thread: Some(thread) };
        match ready.recv() {
            Ok(()) => Ok(worker),
            Err(_) => Err(worker.end().err().unwrap_or_else(|| anyhow!("it ended immediately"))),
        }
        .with_context(|| format!("the {name} did not start"))
    }

    /// Stops the thread and returns its result.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The result is dropped. Use `end` to get it.
        drop(self.end());
    }
}

/// The memory that the antagonist walks over, larger than the cache of a core.
const BYTES: usize = 4 << 20;
const LINE_BYTES: usize = 64;

/// Starts an antagonist that runs until the result is dropped.
pub(crate) fn antagonist(places: Processors) -> anyhow::Result<Worker> {
    Worker::start("antagonist", move |stop, ready| {
        places.be_antagonist()?;
        let mut memory = vec![0_u8; BYTES];
        ready();
        walk(&mut memory, stop);
        Ok(())
    })
}

fn walk(memory: &mut [u8], stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for byte in memory.iter_mut().step_by(LINE_BYTES) {
            *byte = byte.wrapping_add(1);
        }
        black_box(&memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_fails_returns_the_reason() {
        let failed = Worker::start("worker", |_, _| Err(anyhow!("no room"))).err();
        assert_eq!(format!("{:#}", failed.expect("it fails")), "the worker did not start: no room");
    }

    #[test]
    fn a_worker_stops_when_it_is_ended() {
        let mut worker = Worker::start("worker", |stop, ready| {
            ready();
            while !stop.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            Err(anyhow!("stopped"))
        })
        .expect("it starts");
        assert_eq!(worker.end().expect_err("its own").to_string(), "stopped");
        assert!(worker.end().is_ok(), "once is enough");
    }
}
