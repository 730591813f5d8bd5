//! The server side: a bounded queue before a number of slots, which reports its load. It is the kernel's
//! [`curtail_kernel::stage`] in real time.
//!
//! [`StageLayer`] puts one around any tower service, whose responses then carry a load report that proxies and
//! other clients read:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use curtail_runtime::http::ORCA;
//! use curtail_runtime::stage::{Stage, StageLayer, orca};
//! use tower::{Layer, ServiceExt as _};
//!
//! // Eight requests at once, and up to 100 that wait; each further one is `Overloaded`.
//! let layer = StageLayer::new(Stage::new(8, 100), orca);
//! let service = layer.layer(tower::service_fn(|_: http::Request<()>| async {
//!     Ok::<_, std::convert::Infallible>(http::Response::new("hello"))
//! }));
//! let response = service.oneshot(http::Request::new(())).await.unwrap();
//! let report = response.headers()[ORCA].to_str().unwrap();
//! assert!(report.starts_with("TEXT named_metrics.queue=0,named_metrics.service_ms="));
//! # });
//! ```
//!
//! A service without tower takes its slots by hand: [`Stage::enter`] before the work, [`Permit::finish`] after it.

mod layer;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curtail_kernel::Timestamp;
use curtail_kernel::stage::{self, Admission, JobId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::http::LoadReport;

pub use layer::{StageError, StageLayer, Staged, orca, server_timing};

/// Slots, and the bounded queue before them: first come, first served, and no newcomer gets in between.
/// Clones share them.
#[derive(Clone, Debug)]
pub struct Stage(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    since: Instant,
}

#[derive(Debug)]
struct State {
    stage: stage::Stage,
    /// By job: the sender that says that it starts.
    waiting: Vec<Option<oneshot::Sender<()>>>,
    /// Names of jobs that may be used again.
    free: Vec<u32>,
}

/// As many requests wait as may. Over HTTP this is a 503; another server may be less busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests wait; try again later")]
pub struct Overloaded;

/// A slot, taken until it is dropped.
#[derive(Debug)]
pub struct Permit(Place);

/// A job at the stage, until it is dropped.
#[derive(Debug)]
struct Place {
    shared: Arc<Shared>,
    job: u32,
    has_left: bool,
}

impl Stage {
    /// With so many slots, at least one, and room for so many requests that wait.
    #[must_use]
    pub fn new(slots: u32, queue: u32) -> Self {
        let stage = stage::Stage::new(slots, queue);
        let state = State { stage, waiting: Vec::new(), free: Vec::new() };
        Self(Arc::new(Shared { state: Mutex::new(state), since: Instant::now() }))
    }

    /// Takes a slot, after those who came before. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// The queue is full.
    pub async fn enter(&self) -> Result<Permit, Overloaded> {
        let (place, starts) = self.arrive()?;
        if let Some(starts) = starts {
            // It is sent under the lock, before its sender is dropped.
            let _ = starts.await;
        }
        Ok(Permit(place))
    }

    fn arrive(&self) -> Result<(Place, Option<oneshot::Receiver<()>>), Overloaded> {
        let now = self.0.now();
        let mut state = self.0.lock();
        let job = state.free.pop().unwrap_or(state.waiting.len() as u32);
        if job as usize == state.waiting.len() {
            state.waiting.push(None);
        }
        let starts = match state.stage.arrive(now, JobId(job)) {
            Admission::Starts => None,
            Admission::Waits => {
                let (sender, receiver) = oneshot::channel();
                state.waiting[job as usize] = Some(sender);
                Some(receiver)
            }
            Admission::Refused => {
                state.free.push(job);
                return Err(Overloaded);
            }
        };
        Ok((Place { shared: Arc::clone(&self.0), job, has_left: false }, starts))
    }

    /// How many requests run.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.0.lock().stage.running()
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.0.lock().stage.waiting()
    }

    /// The response to a probe: how many requests are there, and what they took of late when about as many were.
    #[must_use]
    pub fn probe(&self) -> LoadReport {
        let (in_flight, latency_ns) = self.0.lock().stage.probe();
        let latency = Some(Duration::from_nanos(latency_ns));
        LoadReport { in_flight: Some(in_flight), latency, ..LoadReport::default() }
    }
}

impl Shared {
    fn leave(&self, job: u32) -> Option<LoadReport> {
        let now = self.now();
        let mut state = self.lock();
        let left = state.stage.finish(now, JobId(job));
        if left.is_none() {
            state.stage.withdraw(JobId(job));
            state.waiting[job as usize] = None;
        }
        state.free.push(job);
        let left = left?;
        if let Some(next) = left.next
            && let Some(starts) = state.waiting[next.0 as usize].take()
        {
            // One that is gone by now leaves as soon as its place is dropped.
            let _ = starts.send(());
        }
        Some(left.feedback.into())
    }

    fn now(&self) -> Timestamp {
        Timestamp(u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    // Nothing panics under the lock, so what it guards is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Gives the slot back, to the request that waits longest; what the response may say: how many are left
    /// there, waiting or running, and how long this one had its slot.
    #[must_use]
    pub fn finish(mut self) -> LoadReport {
        self.0.has_left = true;
        // It runs, so it has a report.
        self.0.shared.leave(self.0.job).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.has_left {
            self.shared.leave(self.job);
        }
    }
}
