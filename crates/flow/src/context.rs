//! The context of a request while it is served: its workflow, its deadline, and its progress.
//!
//! Source: document 002 §5.2.3, the context object, and §5.2.4, *Progress metrics*.
//!
//! A context is passed on explicitly, in the extensions of a request, or by the task
//! ([`Context::scope`]). Calls and sub-tasks of one context run one after the other, so their
//! service times add up. Each branch of parallel work has its own context ([`Context::parallel`]),
//! and the service time of parallel work is the mean over its branches.
//!
//! Cost: an allocation per request and per branch, and an uncontended lock acquisition per update.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curtail_kernel::flow::{Progress, Spent, WorkflowId};
use curtail_kernel::schedule::Standing;
use http::HeaderMap;
use tokio::time::Instant;

use crate::builder::DEFAULT_WORKFLOW;
use crate::flow::{Class, Flow, lock};
use crate::metadata::{self, CallMeta};

tokio::task_local! {
    static CURRENT: Context;
}

/// The context of a request. Clones share it.
#[derive(Clone, Debug)]
pub struct Context(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    flow: Flow,
    class: Class,
    deadline: Option<Instant>,
    progress: Mutex<Progress>,
    /// If this is a parallel branch, the fork that it belongs to.
    fork: Option<Arc<Fork>>,
}

/// Parallel branches of a request.
#[derive(Debug)]
struct Fork {
    parent: Context,
    branches: u32,
    sum: Mutex<Spent>,
}

impl Context {
    pub(crate) fn new(
        flow: Flow,
        class: Class,
        deadline: Option<Instant>,
        progress: Progress,
    ) -> Self {
        let progress = Mutex::new(progress);
        Self(Arc::new(Shared { flow, class, deadline, progress, fork: None }))
    }

    /// Creates a context for a call whose request is unknown. The context has the workflow named in
    /// the call's metadata, or else the default workflow.
    #[must_use]
    pub fn of_call(flow: &Flow, headers: &HeaderMap) -> Self {
        let call = metadata::read_call(headers, flow.0.key.as_ref());
        let name = call.as_ref().map_or(DEFAULT_WORKFLOW, |call| call.workflow.as_str());
        let progress = call.as_ref().map(CallMeta::progress).unwrap_or_default();
        Self::new(flow.clone(), flow.0.classify(name), None, progress)
    }

    /// Returns the name of its workflow, even if the workflow has no configuration in this process.
    #[must_use]
    pub fn workflow(&self) -> &str {
        self.0.class.name.as_str()
    }

    pub(crate) fn id(&self) -> WorkflowId {
        self.0.class.id
    }

    /// Returns the process that serves it.
    #[must_use]
    pub fn flow(&self) -> &Flow {
        &self.0.flow
    }

    /// Returns its deadline, if it has one.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// Returns the time remaining until its deadline, if it has one.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.0.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Returns its progress.
    #[must_use]
    pub fn progress(&self) -> Progress {
        *lock(&self.0.progress)
    }

    /// Records that a resource without a scheduler has served the request for `time`.
    pub fn served(&self, time: Duration) {
        lock(&self.0.progress).served(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds the time and work spent on a call.
    pub(crate) fn joined(&self, spent: Spent) {
        lock(&self.0.progress).joined(1, spent);
    }

    /// Returns a context for each of `branches` parallel branches. Their time and work are added to
    /// this context when the last branch is dropped.
    #[must_use]
    pub fn parallel(&self, branches: u32) -> Vec<Self> {
        let sum = Mutex::new(Spent::default());
        let fork = Arc::new(Fork { parent: self.clone(), branches, sum });
        let begun = self.progress().downstream();
        let branch = |_| {
            Self(Arc::new(Shared {
                flow: self.0.flow.clone(),
                class: self.0.class.clone(),
                deadline: self.0.deadline,
                progress: Mutex::new(begun),
                fork: Some(Arc::clone(&fork)),
            }))
        };
        (0..branches).map(branch).collect()
    }

    /// Runs a future with this context as [`Self::current`]. Tasks that the future spawns do not
    /// inherit the context.
    pub fn scope<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, future)
    }

    /// Returns the context of the current task.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Writes the metadata of a call that this request makes, including `wanted`
    /// ([`Target::called`]), and the remaining time.
    ///
    /// [`Target::called`]: crate::Target::called
    pub fn write(&self, headers: &mut HeaderMap, wanted: f64) {
        self.write_as(self.0.flow.0.caller, headers, wanted);
    }

    /// Writes the metadata as [`Self::write`] does, but for a call by the process `caller`, which
    /// need not be the process that serves the request.
    pub(crate) fn write_as(&self, caller: u32, headers: &mut HeaderMap, wanted: f64) {
        let Progress { upstream, total_service_ns, total_work_ns, .. } =
            self.progress().downstream();
        let totals = Spent { service_ns: total_service_ns, work_ns: total_work_ns };
        let workflow = self.0.class.name.clone();
        let meta = CallMeta { workflow, spent: upstream, totals, caller, wanted };
        metadata::write_call(headers, Some(&meta), self.0.flow.0.key.as_ref());
        if let Some(remaining) = self.remaining() {
            metadata::shorten_timeout(headers, remaining);
        }
    }

    /// Returns the metadata for the scheduler.
    pub(crate) fn standing(&self) -> Standing {
        let deadline = self.0.flow.0.deadline(self.0.deadline);
        Standing { deadline, progress: self.progress(), priority: 0 }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(fork) = &self.fork {
            let here = lock(&self.progress).here;
            let mut sum = lock(&fork.sum);
            sum.service_ns = sum.service_ns.saturating_add(here.service_ns);
            sum.work_ns = sum.work_ns.saturating_add(here.work_ns);
        }
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        let sum = *lock(&self.sum);
        lock(&self.parent.0.progress).joined(self.branches, sum);
    }
}
