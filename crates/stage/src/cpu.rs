//! Processors: threads of two classes, of which the low one runs when the high one does not want to.
//!
//! Source: document 003 §3.3 and §3.5, request-handler and response-handler stages, by `pthread_setschedprio`. Primaries
//! are handled on threads that the system schedules before those of duplicates, and it pre-empts for them. The strongest
//! mechanism that this process may use is taken:
//!
//! | mechanism | high | low | needs |
//! |---|---|---|---|
//! | [`Mechanism::Fifo`] | `SCHED_FIFO` | as others | privilege, and a control group with a real-time budget |
//! | [`Mechanism::Idle`] | as others | `SCHED_IDLE` | nothing; acts only among threads of one session where `autogroup` is on |
//! | [`Mechanism::None`] | as others | as others | |

use std::future::Future;
use std::io;
use std::thread;

use curtail_kernel::stage::Priority;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::sys::{self, Scheduling};

/// What separates threads of two classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// High ones run before all others.
    Fifo,
    /// Low ones run when no other wants to.
    Idle,
    /// They are alike.
    None,
}

impl Mechanism {
    /// The strongest that this process may use. It is tried, on a thread that ends.
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

    /// Makes this thread one of a class.
    ///
    /// # Errors
    /// The system does not let it.
    pub fn enter(self, priority: Priority) -> io::Result<()> {
        sys::schedule(match (self, priority) {
            (Self::Fifo, Priority::High) => Scheduling::Fifo,
            (Self::Idle, Priority::Low) => Scheduling::Idle,
            _ => Scheduling::Fair,
        })
    }

    /// As people read it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "SCHED_FIFO for primaries",
            Self::Idle => "SCHED_IDLE for duplicates",
            Self::None => "none",
        }
    }
}

/// Two threads, one per class, each of which runs the tasks of its class. They end when this is dropped.
#[derive(Debug)]
pub struct Handlers {
    classes: Classes,
    _stop: [oneshot::Sender<()>; 2],
}

/// Where tasks of each class run.
#[derive(Clone, Debug)]
pub struct Classes {
    high: Handle,
    low: Handle,
}

impl Handlers {
    /// Starts the threads.
    ///
    /// # Errors
    /// There is no thread to be had. One that may not have its class runs as others do, and that is logged.
    pub fn start(mechanism: Mechanism) -> io::Result<Self> {
        let (high, stop_high) = handler(mechanism, Priority::High)?;
        let (low, stop_low) = handler(mechanism, Priority::Low)?;
        Ok(Self { classes: Classes { high, low }, _stop: [stop_high, stop_low] })
    }

    /// Where tasks run, which keeps no thread.
    #[must_use]
    pub fn classes(&self) -> &Classes {
        &self.classes
    }
}

impl Classes {
    /// Runs a task at a class.
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
            tracing::warn!(%error, ?priority, "no priority for a thread");
        }
        // An error is the other end, dropped.
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
            let (said, heard) = std::sync::mpsc::sync_channel(1);
            handlers.classes().spawn(priority, async move {
                said.send(thread::current().name().map(str::to_owned)).unwrap();
            });
            assert_eq!(heard.recv().unwrap().as_deref(), Some(name));
        }
        let (said, heard) = std::sync::mpsc::sync_channel::<()>(1);
        handlers.classes().spawn(Priority::High, async move {
            let _said = said;
            std::future::pending::<()>().await;
        });
        drop(handlers);
        assert!(heard.recv().is_err(), "its tasks are dropped");
    }
}
