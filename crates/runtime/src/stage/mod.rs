//! The server's side: a stage, which is a bounded queue in front of a number of slots. A stage
//! reports its load, and runs the kernel's [`curtail_kernel::stage`] in real time.
//!
//! [`StageLayer`] puts a stage in front of any tower service. Its responses then contain a load
//! report for proxies and other clients:
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
//! A service that does not use tower uses the slots directly. It calls [`Stage::enter`] before the
//! work and [`Permit::finish`] after it.
//!
//! Duplicates enter with [`Stage::enter_as`] at low priority, and are served when no other request
//! waits. A running duplicate gives up its slot between two pieces of work
//! ([`Permit::step_aside`]). If the stage is [`Stage::preemptive`], the duplicate may also give up
//! its slot at any time while it only waits ([`Permit::spend`]).

mod layer;

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curtail_kernel::Timestamp;
use curtail_kernel::stage::{self, JobId, Metadata, Priority, ProbeReply, Scheduled, Throttler};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::http::LoadReport;

pub use layer::{Alike, Prioritize, StageError, StageLayer, Staged, orca, server_timing, urgency};

/// Slots, with a bounded queue per priority in front of them. Requests are served first come, first
/// served, and no new request overtakes. Clones share the slots.
#[derive(Clone, Debug)]
pub struct Stage(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    since: Instant,
    /// As its throttler says, and without a lock.
    is_throttled: bool,
}

#[derive(Debug)]
struct State {
    stage: stage::Stage,
    /// Where the slots are found, and not given.
    throttler: Option<Throttler>,
    /// By job: whether it runs, for those that have to know. High ones that run at once do so until they leave.
    turns: Vec<Option<watch::Sender<bool>>>,
    /// Names of jobs that may be used again.
    free: Vec<u32>,
}

/// The queue is full. Over HTTP this is a 503; another server may be less busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests are waiting; try again later")]
pub struct Overloaded;

/// A slot, taken until this is dropped.
#[derive(Debug)]
pub struct Permit {
    place: Place,
    turns: Option<watch::Receiver<bool>>,
}

/// A job at the stage, until it is dropped.
#[derive(Debug)]
struct Place {
    shared: Arc<Shared>,
    job: u32,
    has_left: bool,
}

impl Stage {
    /// Creates a stage with `slots` slots, at least one, and with room for `queue` waiting requests
    /// of each priority.
    #[must_use]
    pub fn new(slots: u32, queue: u32) -> Self {
        Self::of(stage::Stage::new(slots, queue))
    }

    /// Creates a stage in which a request of low priority immediately gives its slot to one of high
    /// priority.
    #[must_use]
    pub fn preemptive(slots: u32, queue: u32) -> Self {
        Self::of(stage::Stage::new(slots, queue).preemptive())
    }

    /// Creates a stage in front of a server that cannot be changed. A request of low priority that
    /// loses its slot is given up. If the server turns out to work on such requests, none starts
    /// for a while.
    #[must_use]
    pub fn before(slots: u32, queue: u32) -> Self {
        Self::of(stage::Stage::new(slots, queue).gives_up())
    }

    /// Creates a stage as [`Self::before`] does, except that [`Throttler`] finds the number of
    /// slots: the smallest number, from one to `most`, that gives the server's full throughput. The
    /// number follows changes of the server.
    #[must_use]
    pub fn throttled(most: u32, queue: u32) -> Self {
        let mut stage = stage::Stage::new(1, queue).gives_up();
        stage.set_low_slots(1);
        Self::with(stage, Some(Throttler::new(most)))
    }

    fn of(stage: stage::Stage) -> Self {
        Self::with(stage, None)
    }

    fn with(stage: stage::Stage, throttler: Option<Throttler>) -> Self {
        let is_throttled = throttler.is_some();
        let state = State { stage, throttler, turns: Vec::new(), free: Vec::new() };
        Self(Arc::new(Shared { state: Mutex::new(state), since: Instant::now(), is_throttled }))
    }

    /// Waits for a slot, behind the requests that arrived earlier. Dropping the future removes the
    /// request from the queue.
    ///
    /// # Errors
    /// Fails if the queue is full.
    pub async fn enter(&self) -> Result<Permit, Overloaded> {
        self.enter_as(Priority::High).await
    }

    /// Waits for a slot as [`Self::enter`] does, behind all requests of a higher priority,
    /// including those that arrive later.
    ///
    /// # Errors
    /// Fails if the queue of this priority is full.
    pub async fn enter_as(&self, priority: Priority) -> Result<Permit, Overloaded> {
        let (place, turns) = self.arrive(priority)?;
        let mut permit = Permit { place, turns };
        permit.turn(true).await;
        Ok(permit)
    }

    fn arrive(
        &self,
        priority: Priority,
    ) -> Result<(Place, Option<watch::Receiver<bool>>), Overloaded> {
        let now = self.0.now();
        let mut state = self.0.lock();
        let job = state.free.pop().unwrap_or(state.turns.len() as u32);
        if job as usize == state.turns.len() {
            state.turns.push(None);
        }
        if state.stage.dispatch(now, JobId(job), Metadata::of(priority)).is_err() {
            state.free.push(job);
            return Err(Overloaded);
        }
        let starts = state.schedule(now, Some(JobId(job)));
        let turns = (!starts || priority == Priority::Low).then(|| {
            let (sender, receiver) = watch::channel(starts);
            state.turns[job as usize] = Some(sender);
            receiver
        });
        Ok((Place { shared: Arc::clone(&self.0), job, has_left: false }, turns))
    }

    /// Reports the number of bytes that running requests have sent. A throttled stage maximizes the
    /// bytes sent per unit of time. If nothing is reported, it maximizes the requests per unit of
    /// time.
    pub fn did(&self, bytes: u64) {
        if !self.0.is_throttled {
            return;
        }
        let now = self.0.now();
        let mut state = self.0.lock();
        if state.throttler.as_mut().is_some_and(|throttler| throttler.did(now, bytes)) {
            state.schedule(now, None);
        }
    }

    /// Returns the number of requests that may run at once.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.0.lock().stage.slots()
    }

    /// Returns the number of slots that a throttled stage has found. `None` while it searches, and
    /// for other stages.
    #[must_use]
    pub fn knee(&self) -> Option<u32> {
        self.0.lock().throttler.as_ref()?.knee()
    }

    /// Returns whether the server was found to keep working on requests that have been given up.
    /// Requests of low priority wait meanwhile.
    #[must_use]
    pub fn works_on(&self) -> bool {
        self.0.lock().stage.works_on(self.0.now())
    }

    /// Returns the number of requests that run.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.0.lock().stage.running()
    }

    /// Returns the number of requests that wait.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.0.lock().stage.waiting()
    }

    /// Returns the report for a probe: the number of requests at the stage, and the latency of
    /// recent requests that found about the same number.
    #[must_use]
    pub fn probe(&self) -> LoadReport {
        let ProbeReply { in_flight, latency_ns } = self.0.lock().stage.probe();
        let latency = Some(Duration::from_nanos(latency_ns));
        LoadReport { in_flight: Some(in_flight), latency, ..LoadReport::default() }
    }
}

impl State {
    /// Whatever may run runs, and hears of it. Does a newcomer, who has no ears yet?
    fn schedule(&mut self, now: Timestamp, newcomer: Option<JobId>) -> bool {
        let mut starts = false;
        if let Some(throttler) = &self.throttler {
            self.stage.set_slots(throttler.level());
            self.stage.set_low_slots(throttler.proven());
        }
        while let Some(Scheduled { job, preempts, .. }) = self.stage.schedule(now) {
            starts |= newcomer == Some(job);
            for (job, runs) in preempts.map(|low| (low, false)).into_iter().chain([(job, true)]) {
                if let Some(turns) = &self.turns[job.0 as usize] {
                    turns.send_replace(runs);
                }
            }
        }
        if let Some(throttler) = &mut self.throttler {
            throttler.runs(now, self.stage.running_high());
        }
        starts
    }
}

impl Shared {
    /// A request leaves.
    fn leave(&self, job: u32) -> Option<LoadReport> {
        let now = self.now();
        let mut state = self.lock();
        let feedback = state.stage.finish(now, JobId(job));
        let State { stage, throttler, .. } = &mut *state;
        if let (Some(_), Some(throttler)) = (feedback, throttler)
            && stage.priority(JobId(job)) == Priority::High
        {
            throttler.left(now);
        }
        if feedback.is_none() {
            state.stage.purge(JobId(job));
        }
        state.turns[job as usize] = None;
        state.free.push(job);
        state.schedule(now, None);
        Some(feedback?.into())
    }

    fn yields(&self, job: u32) -> bool {
        let now = self.now();
        let mut state = self.lock();
        let yields = state.stage.yields(now, JobId(job));
        if yields {
            if let Some(turns) = &state.turns[job as usize] {
                turns.send_replace(false);
            }
            state.schedule(now, None);
        }
        yields
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
    /// Waits until the request has its slot, or has not.
    async fn turn(&mut self, has_slot: bool) {
        match &mut self.turns {
            // It is said under the lock, before its sender is dropped.
            Some(turns) => drop(turns.wait_for(|runs| *runs == has_slot).await),
            None if has_slot => {}
            None => std::future::pending().await,
        }
    }

    /// Lets a low-priority request give its slot to a waiting high-priority request, and waits
    /// until it has a slot again. Call this between two pieces of work.
    pub async fn step_aside(&mut self) {
        if self.turns.is_some() {
            self.place.shared.yields(self.place.job);
            self.turn(true).await;
        }
    }

    /// Waits until the request has had its slot for `time` in total. The time does not advance
    /// while another request has the slot. `sleep` sleeps until an instant.
    pub async fn spend<S: Future<Output = ()>>(
        &mut self,
        time: Duration,
        sleep: impl Fn(Instant) -> S,
    ) {
        loop {
            let left = time.saturating_sub(self.held());
            if left.is_zero() {
                return;
            }
            let Some(end) = Instant::now().checked_add(left) else {
                return std::future::pending().await;
            };
            tokio::select! {
                () = sleep(end) => {}
                () = self.turn(false) => self.turn(true).await,
            }
        }
    }

    /// Waits until the request has lost its slot. This is for work that cannot be interrupted but
    /// can be abandoned.
    pub async fn lost(&mut self) {
        self.turn(false).await;
    }

    /// How long the request has had a slot.
    fn held(&self) -> Duration {
        let Place { shared, job, .. } = &self.place;
        let now = shared.now();
        Duration::from_nanos(shared.lock().stage.served_ns(now, JobId(*job)))
    }

    /// Returns the slot to the stage, for the request that waits longest. Returns the report for
    /// the response: the number of requests that still wait or run, and the time that this one had
    /// its slot.
    #[must_use]
    pub fn finish(mut self) -> LoadReport {
        self.place.has_left = true;
        // One that has lost its slot has no report.
        self.place.shared.leave(self.place.job).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.has_left {
            self.shared.leave(self.job);
        }
    }
}
