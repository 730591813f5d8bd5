//! Separates two classes of threads on the processors. Threads of the low class run when the high
//! class is idle.
//!
//! Source: document 003 §3.3 and §3.5, request-handler and response-handler stages, which use
//! `pthread_setschedprio`. Primaries are handled on threads that the system schedules before, and
//! preempts in favor of, the threads of duplicates. This crate uses the strongest mechanism that
//! the process is allowed to use:
//!
//! | mechanism | high | low | needs |
//! |---|---|---|---|
//! | [`Mechanism::Fifo`] | `SCHED_FIFO` | like other threads | privilege, and a control group with a real-time budget |
//! | [`Mechanism::Idle`] | like other threads | `SCHED_IDLE` | nothing; works only among threads of one session if `autogroup` is on |
//! | [`Mechanism::None`] | like other threads | like other threads | |

use std::future::Future;
use std::io;
use std::thread;

use curtail_kernel::stage::Priority;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::sys::{self, Scheduling};

/// A mechanism that separates two classes of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Threads of the high class run before all others.
    Fifo,
    /// Threads of the low class run when no other thread is ready.
    Idle,
    /// The classes are not separated.
    None,
}

impl Mechanism {
    /// Returns the strongest mechanism that this process is allowed to use. Each mechanism is
    /// tested on a temporary thread.
    #[must_use]
    pub fn find() -> Self {
        let tried = thread::spawn(|| {
            let works = |scheduling| sys::schedule(scheduling).is_ok();
            if works(Scheduling::Fifo) {
                return Self::Fifo;
            }
            if works(Scheduling::Idle) { Self::Idle } else { Self::None }
        });
        tried.join().unwrap_or(Self::None)
    }

    /// Moves this thread into a class.
    ///
    /// # Errors
    /// The system does not allow it.
    pub fn enter(self, priority: Priority) -> io::Result<()> {
        sys::schedule(match (self, priority) {
            (Self::Fifo, Priority::High) => Scheduling::Fifo,
            (Self::Idle, Priority::Low) => Scheduling::Idle,
            _ => Scheduling::Fair,
        })
    }

    /// Returns a human-readable description.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "SCHED_FIFO for primaries",
            Self::Idle => "SCHED_IDLE for duplicates",
            Self::None => "none",
        }
    }
}

/// Two threads, each of which runs the tasks of one class. The threads end when this value is
/// dropped.
#[derive(Debug)]
pub struct Handlers {
    classes: Classes,
    _stop: [oneshot::Sender<()>; 2],
}

/// A handle that spawns tasks on the thread for their class.
#[derive(Clone, Debug)]
pub struct Classes {
    high: Handle,
    low: Handle,
}

impl Handlers {
    /// Starts the threads.
    ///
    /// # Errors
    /// A thread cannot be started. If the system does not allow the scheduling that a class needs,
    /// the thread of this class runs like other threads, and a warning is logged.
    pub fn start(mechanism: Mechanism) -> io::Result<Self> {
        let (high, stop_high) = handler(mechanism, Priority::High)?;
        let (low, stop_low) = handler(mechanism, Priority::Low)?;
        Ok(Self { classes: Classes { high, low }, _stop: [stop_high, stop_low] })
    }

    /// Returns the handle that spawns tasks. It does not keep the threads running.
    #[must_use]
    pub fn classes(&self) -> &Classes {
        &self.classes
    }
}

impl Classes {
    /// Runs a task on the thread for a class.
    pub fn spawn(&self, priority: Priority, task: impl Future<Output = ()> + Send + 'static) {
        match priority {
            Priority::High => self.high.spawn(task),
            Priority::Low => self.low.spawn(task),
        };
    }
}

fn handler(mechanism: Mechanism, priority: Priority) -> io::Result<(Handle, oneshot::Sender<()>)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel();
    let name = format!("stage-{}", if priority == Priority::High { "high" } else { "low" });
    thread::Builder::new().name(name).spawn(move || {
        if let Err(error) = mechanism.enter(priority) {
            tracing::warn!(%error, ?priority, "cannot set the priority of a thread");
        }
        // It returns an error when the sender is dropped.
        drop(runtime.block_on(stopped));
    })?;
    Ok((handle, stop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_runs_its_tasks_on_its_own_thread_and_ends_with_its_owner() {
        let handlers = Handlers::start(Mechanism::find()).unwrap();
        for (priority, name) in [(Priority::High, "stage-high"), (Priority::Low, "stage-low")] {
            let (sender, receiver) = std::sync::mpsc::sync_channel(1);
            handlers.classes().spawn(priority, async move {
                sender.send(thread::current().name().map(str::to_owned)).unwrap();
            });
            assert_eq!(receiver.recv().unwrap().as_deref(), Some(name));
        }
        let (sender, receiver) = std::sync::mpsc::sync_channel::<()>(1);
        handlers.classes().spawn(Priority::High, async move {
            let _sender = sender;
            std::future::pending::<()>().await;
        });
        drop(handlers);
        assert!(receiver.recv().is_err(), "its tasks are dropped");
    }
}
