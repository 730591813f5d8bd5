//! One process of a service in real time: the lock around its [`State`], the clock, and the task that
//! advances time.
//!
//! Source: document 002 §5.2.2, *Per-process local model per-workflow*, and §5.2.4, Algorithm 3, which
//! runs every interval.
//!
//! The task sleeps until the kernel's next deadline. It holds a weak reference to the process, so
//! it ends with the last [`Flow`]. The task is started by the first request. If its
//! runtime has shut down, the next request starts a new task.
//!
//! Cost: one task per process, which runs once per interval and when a waiting request may be
//! admitted. A clone increments a reference count.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use curtail_kernel::Timestamp;
use curtail_kernel::flow::{Announcement, View, WorkflowId};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use crate::metadata::{MemberKey, WorkflowName};
use crate::state::State;

/// One process of a service. Clones share it. It ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Flow(pub(crate) Arc<Inner>);

impl Flow {
    /// Returns the name of its service.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.0.service
    }

    /// Returns the announcement for a caller, which contains its share of the rate. Returns `None`
    /// if the caller has not called recently. The layers add it to responses.
    #[must_use]
    pub fn announcement(&self, workflow: &str, caller: u32) -> Option<Announcement> {
        let class = self.0.classify(workflow);
        let (state, _) = self.0.lock();
        state.announcement(class.id, caller)
    }
}

/// The class of a request, and the name that its calls carry.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) id: WorkflowId,
    pub(crate) name: WorkflowName,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) service: String,
    /// Names and configured deadlines, by workflow. The first workflow is the default.
    pub(crate) workflows: Vec<(WorkflowName, Option<Duration>)>,
    pub(crate) by_name: HashMap<String, WorkflowId>,
    /// Number of classes of the default workflow: its own class, and the classes whose ids follow
    /// those of the workflows.
    pub(crate) buckets: u32,
    pub(crate) resources: Vec<String>,
    pub(crate) drops_late: bool,
    /// The key that signs metadata.
    pub(crate) key: Option<MemberKey>,
    /// The number that identifies this process in its calls.
    pub(crate) caller: u32,
    pub(crate) since: Instant,
    pub(crate) state: Mutex<State>,
    pub(crate) notify: Arc<Notify>,
}

/// Locks a mutex. Code under the locks of this crate does not panic, so poisoning is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    /// Locks the state, then reads the clock. In the reverse order, time could run backwards for
    /// the kernel.
    pub(crate) fn lock(&self) -> (MutexGuard<'_, State>, Timestamp) {
        let state = lock(&self.state);
        (state, self.timestamp(Instant::now()))
    }

    /// Converts an instant to the kernel's clock.
    pub(crate) fn timestamp(&self, instant: Instant) -> Timestamp {
        let ns = instant.saturating_duration_since(self.since).as_nanos();
        Timestamp(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Converts a deadline to the kernel's clock. A missing deadline becomes [`Timestamp::NEVER`].
    pub(crate) fn deadline(&self, deadline: Option<Instant>) -> Timestamp {
        deadline.map_or(Timestamp::NEVER, |instant| self.timestamp(instant))
    }

    /// Returns the class of a workflow, and the name that its calls carry. An unknown name is
    /// passed on, because services downstream may have a configuration for it, but it creates no
    /// state in this process.
    pub(crate) fn classify(&self, name: &str) -> Class {
        let known = |id: WorkflowId| self.workflows[id.0 as usize].0.clone();
        match self.by_name.get(name) {
            Some(&id) => Class { id, name: known(id) },
            None => {
                let name = WorkflowName::new(name).unwrap_or_else(|| known(WorkflowId(0)));
                Class { id: self.bucket(name.as_str()), name }
            }
        }
    }

    /// Returns the class of a workflow without a configuration. The table's hasher is randomly
    /// keyed.
    fn bucket(&self, name: &str) -> WorkflowId {
        match self.buckets {
            1 => WorkflowId(0),
            buckets => match self.by_name.hasher().hash_one(name) % u64::from(buckets) {
                0 => WorkflowId(0),
                bucket => WorkflowId(self.workflows.len() as u32 + bucket as u32 - 1),
            },
        }
    }

    /// Returns the index of a class among the workflows. Buckets belong to the default workflow.
    pub(crate) fn at(&self, id: WorkflowId) -> usize {
        Some(id.0 as usize).filter(|&at| at < self.workflows.len()).unwrap_or(0)
    }

    /// Returns the configured deadline of a workflow.
    pub(crate) fn own_deadline(&self, id: WorkflowId) -> Option<Duration> {
        self.workflows[self.at(id)].1
    }

    /// Returns the contents of a rejection: the announcement for the caller, and the time needed to
    /// process the queued requests at the current rate.
    pub(crate) fn turned_away(
        &self,
        workflow: WorkflowId,
        caller: Option<u32>,
    ) -> (Option<Announcement>, Duration) {
        let (state, _) = self.lock();
        let View { rate, waiting, .. } = state.process.view(workflow);
        let drains_in = Duration::try_from_secs_f64(f64::from(waiting) / rate);
        let announced = caller.and_then(|caller| state.announcement(workflow, caller));
        (announced, drains_in.unwrap_or_default())
    }

    /// Wakes the task if it would otherwise sleep past the next deadline, and starts it if it is
    /// not running.
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

#[cfg(test)]
mod tests {
    use crate::{RequestMeta, ResourceSpec};

    use super::*;

    fn flow(buckets: u32) -> Flow {
        let disk = ResourceSpec { slots: 1, queue: 100 };
        let builder = Flow::builder("shop").workflow("known", crate::Workflow::default());
        builder.resource("disk", disk).hash_buckets(buckets).build().expect("sound")
    }

    /// Sends 100 requests for one tenant, one every 50 ms, while another tenant sends 10 times the
    /// capacity of the disk. Returns how many of the 100 meet their deadlines.
    async fn good_beside_a_flood(flow: &Flow, tenant: &str, flood: &str) -> u32 {
        let request = |name: &str| {
            let (flow, name) = (flow.clone(), name.to_owned());
            async move {
                let meta = RequestMeta { timeout: Some(Duration::from_millis(100)), call: None };
                let admitted = flow.admit(&name, &meta).await.ok()?;
                let context = admitted.context().clone();
                let work = tokio::time::sleep(Duration::from_millis(10));
                context.subtask("disk", None, work).await.ok()?;
                admitted.finish(true);
                (context.remaining()? > Duration::ZERO).then_some(())
            }
        };
        let mut calls = Vec::new();
        for ms in 0..7_000 {
            tokio::spawn(request(flood));
            // Give the rates two seconds to settle.
            if ms >= 2_000 && ms % 50 == 0 {
                calls.push(tokio::spawn(request(tenant)));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut good = 0;
        for call in calls {
            good += u32::from(call.await.expect("no panic").is_some());
        }
        good
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_tenant_that_floods_harms_only_those_in_its_bucket() {
        let many = flow(16);
        let bucket = |name: &str| many.0.classify(name).id;
        let other = (0..).map(|at| format!("tenant-{at}"));
        let other = other.into_iter().find(|name| bucket(name) != bucket("flood"));
        let other = other.expect("there are other buckets");
        let good = good_beside_a_flood(&many, &other, "flood").await;
        assert!(good >= 95, "{good} of 100");
        let good = good_beside_a_flood(&flow(1), &other, "flood").await;
        assert!(good < 50, "{good} of 100 in one class");
    }

    #[tokio::test(start_paused = true)]
    async fn names_from_outside_make_no_classes_and_no_metrics() {
        let (one, many) = (flow(1), flow(1_024));
        for at in 0..3_000 {
            let name = format!("tenant-{at}");
            assert_eq!(many.0.classify(&name).id, many.0.classify(&name).id);
            for flow in [&one, &many] {
                let admitted = flow.admit(&name, &RequestMeta::default()).await;
                admitted.expect("no limit").finish(true);
            }
        }
        assert_eq!(many.0.classify("known").id, WorkflowId(1));
        let [one, many] = [&one, &many].map(Flow::snapshot);
        assert_eq!(many.workflows.len(), 2);
        assert_eq!(many.workflow("default").map(|of| of.admitted), Some(3_000));
        assert_eq!(many.workflow("default"), one.workflow("default"));
        assert_eq!(many.resource("disk"), one.resource("disk"));
    }
}
