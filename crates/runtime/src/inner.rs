//! The state that clones of a cell share: the kernel under its lock, and the tables of its queries
//! and copies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use curtail_kernel::{
    Action, Arrive, CopyId, EjectReason, Event, FailReason, Feedback, Outcome, Probed, QueryId,
    Role, Scheduler, ServerId, Timestamp,
};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use crate::clock::{ArmedTimers, Clock};
use crate::failure::Failure;
use crate::observe::{CopyEnd, CopyInfo, EjectionCause, Observer, ProbeFailure};
use crate::query::{Query, QueryError, QueryResponse};
use crate::tables::{Flight, Flights, Queries, QueryResult};
use crate::timers::{OnTimeout, Timers};
use crate::transport::{CopyHandle, Head, Listener, Transport};

pub(crate) struct Inner<T: Transport> {
    pub(crate) transport: T,
    state: Mutex<State<T>>,
    clock: Clock,
    timers: Timers,
    runtime: Handle,
    /// The runtime has shut down: it starts no more tasks.
    closed: AtomicBool,
    observer: Box<dyn Observer>,
    reads_feedback: bool,
    /// For probes that are under way.
    probes: Arc<Semaphore>,
    me: Weak<Self>,
}

/// Probes of a cell that may be under way at once.
const MOST_PROBES: usize = 256;

pub(crate) struct State<T: Transport> {
    pub(crate) kernel: Box<dyn Scheduler>,
    pub(crate) queries: Queries<T>,
    copies: Flights,
    armed: ArmedTimers,
}

/// What is done once the lock is released.
struct Effects<R> {
    launches: Vec<Launch<R>>,
    ejected: Vec<(ServerId, EjectReason)>,
    restored: Vec<ServerId>,
    probes: Vec<ServerId>,
}

impl<R> Default for Effects<R> {
    fn default() -> Self {
        Self { launches: Vec::new(), ejected: Vec::new(), restored: Vec::new(), probes: Vec::new() }
    }
}

/// A copy that the event at hand is about.
struct CopyResult<T: Transport> {
    copy: CopyId,
    /// Set once it has ended; before that it is in the table.
    ended: Option<(Flight, CopyEnd)>,
    /// What it responded.
    response: Option<T::Response>,
}

impl<T: Transport> Inner<T> {
    pub(crate) fn new(
        kernel: Box<dyn Scheduler>,
        transport: T,
        timers: Timers,
        observer: Box<dyn Observer>,
    ) -> Arc<Self> {
        let reads_feedback = kernel.reads_feedback();
        let state = State {
            kernel,
            queries: Queries::new(),
            copies: Flights::default(),
            armed: ArmedTimers::default(),
        };
        Arc::new_cyclic(|me| Self {
            transport,
            state: Mutex::new(state),
            clock: Clock::new(),
            timers,
            runtime: Handle::current(),
            closed: AtomicBool::new(false),
            observer,
            reads_feedback,
            probes: Arc::new(Semaphore::new(MOST_PROBES)),
            me: Weak::clone(me),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A panic under the lock is a bug of ours, in an observer or in the kernel; whatever it
        // left behind, answering the others is better than failing all of them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn arrive(
        &self,
        query: Query<T::Request>,
        reply: oneshot::Sender<QueryResult<T>>,
    ) -> (QueryId, u64) {
        let mut state = self.lock();
        let now = self.clock.now();
        let Query { request, group, may_duplicate, may_retry, deadline, cost_hint } = query;
        assert!(group.index() < state.kernel.core().group_count(), "{group:?} does not exist");
        let (query, ticket) = state.queries.add(request, reply, group, now);
        let deadline = deadline.map_or(Timestamp::NEVER, |at| self.clock.timestamp(at));
        let arrive = Arrive { query, group, may_duplicate, may_retry, deadline, cost_hint };
        self.handle_at(state, now, &Event::Arrive(arrive), None);
        (query, ticket)
    }

    pub(crate) fn abandon(&self, query: QueryId, ticket: u64) {
        let mut state = self.lock();
        if state.queries.get(query).is_none_or(|pending| pending.ticket != ticket) {
            return;
        }
        // Its request and what was held are dropped outside of the lock.
        let _pending = state.queries.remove(query);
        self.handle(state, &Event::Abandoned { query }, None);
    }

    /// Feeds an event about a server; was it up until then?
    pub(crate) fn feed_about(&self, server: ServerId, event: &Event) -> bool {
        let state = self.lock();
        let up = state.kernel.core().server(server).up;
        self.handle(state, event, None);
        up
    }

    /// Feeds an event that is not about a copy.
    pub(crate) fn feed(&self, event: &Event) {
        self.handle(self.lock(), event, None);
    }

    /// The head of a response whose rest is still to come. False when the copy need not go on: one
    /// that was cancelled cannot bring the rest.
    fn responded(&self, copy: CopyId, outcome: Outcome, response: T::Response) -> bool {
        let mut state = self.lock();
        if state.copies.get(copy).is_none_or(|flight| flight.is_stopping()) {
            return false;
        }
        let response = Some(response);
        let wins = outcome.wins();
        let response = if wins { response } else { Self::hold(&mut state, copy, response, None) };
        let result = CopyResult { copy, ended: None, response };
        self.handle(state, &Event::Responded { copy, outcome }, Some(result));
        true
    }

    /// What a server said of itself, where the policy listens.
    fn heard(&self, copy: CopyId, feedback: Feedback) {
        if self.reads_feedback {
            self.feed(&Event::Feedback { copy, feedback });
        }
    }

    /// A task was torn down before it ran: the runtime takes no more.
    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn finished(&self, copy: CopyId, outcome: Outcome, response: Option<T::Response>) {
        let event = Event::Finished { copy, outcome };
        self.ended(copy, &event, CopyEnd::Finished(outcome), response);
    }

    fn failed(&self, copy: CopyId, why: Failure) {
        let event = Event::Finished { copy, outcome: why.outcome() };
        self.ended(copy, &event, CopyEnd::Failed(why), None);
    }

    fn stopped(&self, copy: CopyId) {
        self.ended(copy, &Event::Stopped { copy }, CopyEnd::Stopped(None), None);
    }

    fn ended(&self, copy: CopyId, event: &Event, end: CopyEnd, response: Option<T::Response>) {
        let mut state = self.lock();
        // A bad response is kept while its copy is still known.
        let response = match end {
            CopyEnd::Finished(outcome) if outcome.wins() => response,
            CopyEnd::Failed(why) => Self::hold(&mut state, copy, response, Some(why)),
            _ => Self::hold(&mut state, copy, response, None),
        };
        // The kernel may give the slot away while it handles the event.
        let Some(flight) = state.copies.remove(copy) else { return };
        self.handle(state, event, Some(CopyResult { copy, ended: Some((flight, end)), response }));
    }

    /// Keeps a bad response, or why there is none, in case no copy gives a good one; gives back what no query wants.
    fn hold(
        state: &mut State<T>,
        copy: CopyId,
        response: Option<T::Response>,
        why: Option<Failure>,
    ) -> Option<T::Response> {
        let Some(flight) = state.copies.get(copy) else { return response };
        let pending = state.queries.get(flight.query);
        let Some(pending) = pending.filter(|pending| pending.ticket == flight.ticket) else {
            return response;
        };
        flight.heard = true;
        if response.is_some() {
            pending.held = response;
        }
        pending.failure = why.or(pending.failure);
        None
    }

    fn handle(
        &self,
        state: MutexGuard<'_, State<T>>,
        event: &Event,
        result: Option<CopyResult<T>>,
    ) {
        self.handle_at(state, self.clock.now(), event, result);
    }

    fn handle_at(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        now: Timestamp,
        event: &Event,
        mut result: Option<CopyResult<T>>,
    ) {
        let mut effects = Effects::default();
        self.decide(&mut state, now, event, result.as_mut(), &mut effects);
        if let Some(CopyResult { ended: Some((flight, end)), .. }) = &result {
            let end = match *end {
                CopyEnd::Stopped(_) => CopyEnd::Stopped(flight.stop_reason),
                end => end,
            };
            let ran = now.since(flight.started);
            self.observer.copy_ended(flight.info, end, flight.won, ran);
        }
        drop(state);
        if let Some(CopyResult { ended: Some((flight, CopyEnd::Failed(why))), .. }) = &result {
            self.observer.copy_failed(flight.info, *why);
        }
        // Responses without a taker are dropped here, outside of the lock.
        drop(result);
        self.carry_out(effects);
    }

    /// Feeds the kernel and does what it says, but for what takes longer than a lock should.
    fn decide(
        &self,
        state: &mut State<T>,
        now: Timestamp,
        event: &Event,
        mut result: Option<&mut CopyResult<T>>,
        effects: &mut Effects<T::Request>,
    ) {
        let State { kernel, queries, copies, .. } = state;
        for action in kernel.handle(now, event) {
            match *action {
                Action::Start { copy, query, server, role, why } => {
                    let Some(pending) = queries.get(query) else { continue };
                    let info = CopyInfo { group: pending.group, server, role, why };
                    self.observer.copy_started(info, why);
                    if pending.started.is_none() {
                        pending.started = Some(now);
                        self.observer.query_started(pending.group, now.since(pending.arrived));
                    }
                    pending.copies += 1;
                    let ticket = pending.ticket;
                    let flight = Flight::new(copy, (query, ticket), info, now);
                    copies.add(copy, flight);
                    effects.launches.push(Launch {
                        copy,
                        server,
                        role,
                        request: pending.request.clone(),
                    });
                }
                Action::Stop { copy, why } => {
                    if let Some(flight) = copies.get(copy) {
                        self.observer.copy_cancelled(flight.info, why);
                        flight.stop(why);
                    }
                }
                Action::Answer { query, copy } => {
                    let here = result.as_deref_mut().filter(|result| result.copy == copy);
                    Self::response(queries, copies, query, here, now);
                }
                Action::Fail { query, why, copy } => {
                    // A copy that failed and still runs has only been silent for too long.
                    let silent = copy.is_some_and(|copy| copies.get(copy).is_some());
                    Self::fail(queries, query, why, silent);
                }
                Action::Shed { query, why } => {
                    if let Some(pending) = queries.remove(query) {
                        let _ = pending.reply.send(Err(QueryError::from_shed(why)));
                    }
                }
                Action::Lose { copy } => {
                    if let Some(flight) = copies.remove(copy) {
                        flight.abort();
                        let ran = now.since(flight.started);
                        self.observer.copy_ended(flight.info, CopyEnd::Lost, flight.won, ran);
                    }
                }
                Action::Eject { server, why } => effects.ejected.push((server, why)),
                Action::Restore { server } => effects.restored.push(server),
                Action::Probe { server } => effects.probes.push(server),
            }
        }
        self.arm(state);
    }

    fn response(
        queries: &mut Queries<T>,
        copies: &mut Flights,
        query: QueryId,
        result: Option<&mut CopyResult<T>>,
        now: Timestamp,
    ) {
        let Some(result) = result else { return };
        let Some(pending) = queries.remove(query) else { return };
        let flight = match &mut result.ended {
            Some((flight, _)) => flight,
            None => match copies.get(result.copy) {
                Some(flight) => flight,
                None => return,
            },
        };
        (flight.won, flight.heard) = (true, true);
        let Some(response) = result.response.take() else { return };
        let CopyInfo { server, role, .. } = flight.info;
        let took_ns = now.since(pending.arrived);
        let queued_ns = pending.started.map_or(0, |at| at.since(pending.arrived));
        let ran_ns = now.since(flight.started);
        let copies = pending.copies;
        let response = QueryResponse { response, server, role, queued_ns, took_ns, ran_ns, copies };
        // Where the client has just left, the response goes back to the transport unread.
        let _ = pending.reply.send(Ok(response));
    }

    fn fail(queries: &mut Queries<T>, query: QueryId, why: FailReason, silent: bool) {
        let Some(pending) = queries.remove(query) else { return };
        let silent = pending.held.is_none() && silent;
        let why = if silent && why == FailReason::CopyFailed { FailReason::Timeout } else { why };
        let _ = pending.reply.send(Err(QueryError::from_fail(why, pending.held, pending.failure)));
    }

    fn arm(&self, state: &mut State<T>) {
        let next = state.kernel.next_deadline();
        if let Some(at) = self.clock.instant(next)
            && state.armed.add(next)
        {
            // A caller that drops a reply may do so outside of any runtime.
            let _runtime = self.runtime.enter();
            self.timers.wake(at, Weak::clone(&self.me) as Weak<dyn OnTimeout>);
        }
    }

    fn carry_out(&self, effects: Effects<T::Request>) {
        for (server, why) in effects.ejected {
            self.ejected(server, EjectionCause::Ejected(why));
        }
        for server in effects.restored {
            self.observer.restored(server);
        }
        self.probe(effects.probes);
        self.launch(effects.launches);
    }

    /// Asks servers how they are; of more than [`MOST_PROBES`] at once, the further ones are not sent.
    fn probe(&self, servers: Vec<ServerId>) {
        for server in servers {
            if self.closed.load(Ordering::Relaxed) {
                return;
            }
            let (Some(me), Ok(permit)) =
                (self.me.upgrade(), self.probes.clone().try_acquire_owned())
            else {
                return;
            };
            self.runtime.spawn(async move {
                let answer = me.transport.probe(server).await;
                me.observer.load_probed(server, answer.is_some());
                if let Some((in_flight, latency_ns)) = answer {
                    me.feed(&Event::Probed(Probed { server, in_flight, latency_ns }));
                }
                drop(permit);
            });
        }
    }

    pub(crate) fn probe_failed(&self, server: ServerId, why: ProbeFailure) {
        self.observer.probe_failed(server, why);
    }

    pub(crate) fn ejected(&self, server: ServerId, why: EjectionCause) {
        self.observer.ejected(server, why);
        self.transport.close_idle(server);
    }

    /// Starts the tasks of new copies. Outside of the lock, as a runtime that shuts down drops a
    /// task at once, and its end is reported to us.
    fn launch(&self, launches: Vec<Launch<T::Request>>) {
        for launch in launches {
            if self.closed.load(Ordering::Relaxed) {
                return;
            }
            let Some(me) = self.me.upgrade() else { return };
            let copy = launch.copy;
            let guard = Guard { inner: me, copy, ended: false };
            // A task moves its future several times, and this one is large.
            let run = Box::pin(run(guard, launch));
            let task = spawning(|| self.runtime.spawn(run));
            match self.lock().copies.get(copy) {
                Some(flight) => flight.runs_as(task.abort_handle()),
                // It has ended, or was lost with its server, in the meantime.
                None => task.abort(),
            }
        }
    }
}

impl<T: Transport> OnTimeout for Inner<T> {
    fn on_timeout(&self) {
        let mut state = self.lock();
        state.armed.expired();
        let now = self.clock.now();
        if state.kernel.next_deadline() <= now {
            self.handle_at(state, now, &Event::Tick, None);
        } else {
            self.arm(&mut state);
        }
    }
}

impl<T: Transport> Listener for Inner<T> {
    fn unwanted(&self, copy: CopyId) {
        let mut state = self.lock();
        // The response of a loser goes unread from the start: that it may run on is the policy's choice.
        if state.copies.get(copy).is_some_and(|flight| flight.heard) {
            self.handle(state, &Event::Unwanted { copy }, None);
        }
    }

    fn progress(&self, copy: CopyId) {
        self.feed(&Event::Progress { copy });
    }

    fn began(&self, copy: CopyId) {
        self.feed(&Event::Started { copy });
    }
}

/// A copy to be started.
struct Launch<R> {
    copy: CopyId,
    server: ServerId,
    role: Role,
    request: R,
}

/// Reports the end of a copy, however its task ends: a task that is aborted, or never polled, has
/// stopped.
struct Guard<T: Transport> {
    inner: Arc<Inner<T>>,
    copy: CopyId,
    ended: bool,
}

impl<T: Transport> Guard<T> {
    fn finished(mut self, outcome: Outcome, response: Option<T::Response>) {
        self.ended = true;
        self.inner.finished(self.copy, outcome, response);
    }

    fn failed(mut self, why: Failure) {
        self.ended = true;
        self.inner.failed(self.copy, why);
    }
}

impl<T: Transport> Drop for Guard<T> {
    fn drop(&mut self) {
        if self.ended {
        } else if SPAWNING.get() {
            // The runtime has shut down. To report the end would start the next copy, to end here
            // as well, one level of the stack deeper.
            self.inner.close();
        } else if std::thread::panicking() {
            // A bug in the transport: to the kernel, the server failed.
            self.inner.failed(self.copy, Failure::Panicked);
        } else {
            self.inner.stopped(self.copy);
        }
    }
}

thread_local! {
    /// A task is being started on this thread.
    static SPAWNING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Starts a task, and knows it if the runtime drops it at once.
fn spawning<V>(spawn: impl FnOnce() -> V) -> V {
    SPAWNING.set(true);
    let spawned = spawn();
    SPAWNING.set(false);
    spawned
}

/// Sends the copy and reports what becomes of it.
async fn run<T: Transport>(guard: Guard<T>, launch: Launch<T::Request>) {
    let Launch { copy, server, role, request } = launch;
    let cell = Arc::downgrade(&guard.inner) as Weak<dyn Listener>;
    let sent = guard.inner.transport.send(server, request, CopyHandle { cell, copy, role }).await;
    let Head { response, outcome, retry_after, feedback, tail } = match sent {
        Ok(head) => head,
        Err(why) => return guard.failed(why),
    };
    if let Some(feedback) = feedback {
        guard.inner.heard(copy, feedback);
    }
    if let Some(after) = retry_after {
        let ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        guard.inner.feed(&Event::RetryAfter { server, ns });
    }
    let Some(tail) = tail else { return guard.finished(outcome, Some(response)) };
    if !guard.inner.responded(copy, outcome, response) {
        return;
    }
    match tail.await {
        Ok(()) => guard.finished(outcome, None),
        Err(why) => guard.failed(why),
    }
}
