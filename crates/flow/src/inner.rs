//! One process in real time: the lock around its [`State`], the clock, and the task that lets time pass.
//!
//! Source: document 002 §5.2.4, Algorithm 3, which runs every interval.
//!
//! The task sleeps until the kernel's next deadline. It holds the process weakly, so it ends with the last
//! [`Flow`](crate::Flow). It starts with the first request, and again if the runtime that it ran in has ended.
//!
//! Cost: one task per process; it runs once per interval, and when a request that waits may go on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use curtail_kernel::Timestamp;
use curtail_kernel::flow::WorkflowId;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use crate::metadata::WorkflowName;
use crate::state::State;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) service: String,
    /// By workflow; the first one is the default.
    pub(crate) workflows: Vec<(WorkflowName, Option<Duration>)>,
    pub(crate) by_name: HashMap<String, WorkflowId>,
    pub(crate) resources: Vec<String>,
    pub(crate) drops_late: bool,
    /// The name of this process in its calls.
    pub(crate) caller: u32,
    pub(crate) since: Instant,
    pub(crate) state: Mutex<State>,
    pub(crate) notify: Arc<Notify>,
}

/// Nothing panics under the locks of this crate, so what they guard is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    /// The state, and the time since it is locked: so time does not run backwards for the kernel.
    pub(crate) fn lock(&self) -> (MutexGuard<'_, State>, Timestamp) {
        let state = lock(&self.state);
        (state, self.timestamp(Instant::now()))
    }

    /// By the kernel's clock.
    pub(crate) fn timestamp(&self, instant: Instant) -> Timestamp {
        let ns = instant.saturating_duration_since(self.since).as_nanos();
        Timestamp(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// By the kernel's clock; never where there is none.
    pub(crate) fn deadline(&self, deadline: Option<Instant>) -> Timestamp {
        deadline.map_or(Timestamp::NEVER, |instant| self.timestamp(instant))
    }

    /// The class of a workflow, and the name under which it travels. A name that is not known travels on, because
    /// services downstream may know it, but it makes no state here.
    pub(crate) fn classify(&self, name: &str) -> (WorkflowId, WorkflowName) {
        let known = |id: WorkflowId| self.workflows[id.0 as usize].0.clone();
        match self.by_name.get(name) {
            Some(&id) => (id, known(id)),
            None => {
                let default = WorkflowId(0);
                (default, WorkflowName::new(name).unwrap_or_else(|| known(default)))
            }
        }
    }

    /// Notifies the task if it would sleep for too long, and starts it where it does not run.
    pub(crate) fn arm(self: &Arc<Self>, state: &mut State) {
        if state.timer.as_ref().is_none_or(AbortHandle::is_finished) {
            let task = tokio::spawn(keep_time(Arc::downgrade(self), Arc::clone(&self.notify)));
            state.timer = Some(task.abort_handle());
        } else if state.process.next_deadline() < state.armed {
            self.notify.notify_one();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.notify.notify_one();
    }
}

async fn keep_time(inner: Weak<Inner>, notify: Arc<Notify>) {
    while let Some(inner) = inner.upgrade() {
        let next = {
            let (mut state, now) = inner.lock();
            state.advance(now);
            state.armed = state.process.next_deadline();
            inner.since + Duration::from_nanos(state.armed.0)
        };
        drop(inner);
        tokio::select! {
            () = sleep_until(next) => {}
            () = notify.notified() => {}
        }
    }
}
