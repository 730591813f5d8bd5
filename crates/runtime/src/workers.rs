//! Threads that serve connections, each with a tokio runtime of its own.
//!
//! A connection stays on the worker that it was assigned to, so its task never moves to another
//! thread and shares no scheduler with others. A request then costs about 1,600 instructions less
//! than on tokio's multi-threaded runtime, and workers notify each other only of decisions that
//! concern a query of another worker. Tasks do not move, so each new connection is assigned to the
//! worker with the fewest connections.
//!
//! The runtime that starts the workers is the first of them. With a single worker, the process has
//! a single thread.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

thread_local! {
    static INDEX: Cell<usize> = const { Cell::new(0) };
}

/// Returns the index of the worker that runs this code. It is 0 outside of the started threads.
pub(crate) fn index() -> usize {
    INDEX.get()
}

/// Threads that serve connections. They end when this value is dropped, and with them all tasks that
/// are still running there.
#[derive(Debug)]
pub struct Workers {
    /// Never empty.
    workers: Vec<Worker>,
    /// Dropped to end the threads.
    stop: watch::Sender<()>,
}

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

impl Workers {
    /// Uses the current runtime alone.
    ///
    /// # Panics
    /// Panics if called outside a tokio runtime.
    #[must_use]
    pub fn current() -> Self {
        let (stop, _) = watch::channel(());
        let first = Worker { runtime: Handle::current(), connections: Arc::default() };
        Self { workers: vec![first], stop }
    }

    /// Uses the current runtime and `count` - 1 further threads.
    ///
    /// # Errors
    /// The system cannot start a thread, or has too few file descriptors.
    ///
    /// # Panics
    /// Panics if called outside a tokio runtime.
    pub fn start(count: usize) -> io::Result<Self> {
        let mut started = Self::current();
        for index in 1..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let handle = runtime.handle().clone();
            let mut stopped = started.stop.subscribe();
            std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
                INDEX.set(index);
                // It ends with an error, because the sender never sends.
                let _ = runtime.block_on(stopped.changed());
                // Blocking work, such as a lookup of a name, may take long.
                runtime.shutdown_background();
            })?;
            started.workers.push(Worker { runtime: handle, connections: Arc::default() });
        }
        Ok(started)
    }

    /// Assigns a connection to the worker with the fewest connections.
    #[must_use]
    pub fn assign(&self) -> Place {
        let load = |(_, worker): &(usize, &Worker)| worker.connections.load(Ordering::Relaxed);
        let assigned = self.workers.iter().enumerate().min_by_key(load);
        let (at, worker) = assigned.expect("at least one worker");
        worker.connections.fetch_add(1, Ordering::Relaxed);
        let (runtime, connections) = (worker.runtime.clone(), Arc::clone(&worker.connections));
        Place { runtime, connections, is_here: at == index() }
    }
}

/// The place of a connection at a worker, until this value is dropped.
#[derive(Debug)]
pub struct Place {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
    is_here: bool,
}

impl Place {
    /// Returns the runtime of the worker.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns whether the worker is the one that assigned the connection.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.is_here
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_go_to_the_worker_with_the_fewest() {
        let workers = Workers::start(2).unwrap();
        let mut places: Vec<_> = (0..6).map(|_| workers.assign()).collect();
        let mut indices = Vec::new();
        for place in &places {
            indices.push(place.runtime().spawn(async { index() }).await.unwrap());
        }
        assert_eq!(indices, [0, 1, 0, 1, 0, 1]);
        // The three on the second worker leave.
        for at in [5, 3, 1] {
            drop(places.remove(at));
        }
        let place = workers.assign();
        assert_eq!(place.runtime().spawn(async { index() }).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn the_end_of_the_workers_ends_their_tasks() {
        let workers = Workers::start(2).unwrap();
        let (_first, second) = (workers.assign(), workers.assign());
        let task = second.runtime().spawn(std::future::pending::<()>());
        drop(workers);
        assert!(task.await.unwrap_err().is_cancelled());
    }
}
