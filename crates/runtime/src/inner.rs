//! What a cell's clones share: the kernel under its lock, and the tables that name its queries and
//! copies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use curtail_kernel::hedge::{Record, Snapshot};
use curtail_kernel::{
    Action, Arrive, CopyId, Core, EjectReason, Event, FailReason, Outcome, QueryId, Scheduler,
    ServerId, Timestamp,
};
use tokio::runtime::Handle;

use crate::armed::ArmedTimers;
use crate::cell::Query;
use crate::clock::Clock;
use crate::copies::{Copies, Flight};
use crate::copy::{self, Launch};
use crate::observe::{CopyEnd, CopyInfo, EjectionCause, Observer, QueryEnd};
use crate::queries::{Queries, Sender};
use crate::response::{QueryError, QueryResponse};
use crate::timers::{OnTimeout, Timers};
use crate::transport::{Listener, Transport};

pub(crate) struct Inner<T: Transport> {
    pub(crate) transport: T,
    state: Mutex<State<T>>,
    clock: Clock,
    timers: Timers,
    runtime: Handle,
    /// The runtime has shut down: it starts no more tasks.
    closed: AtomicBool,
    observer: Box<dyn Observer>,
    me: Weak<Self>,
}

struct State<T: Transport> {
    kernel: Box<dyn Scheduler>,
    queries: Queries<T>,
    copies: Copies,
    armed: ArmedTimers,
}

/// What is done once the lock is released.
struct Effects<R> {
    launches: Vec<Launch<R>>,
    ejected: Vec<(ServerId, EjectReason)>,
    restored: Vec<ServerId>,
}

impl<R> Default for Effects<R> {
    fn default() -> Self {
        Self { launches: Vec::new(), ejected: Vec::new(), restored: Vec::new() }
    }
}

/// A copy that the event at hand is about.
struct CopyResult<T: Transport> {
    copy: CopyId,
    /// Set once it has ended; before that it is in the table.
    flight: Option<Flight>,
    /// What it answered.
    response: Option<T::Response>,
}

impl<T: Transport> Inner<T> {
    pub(crate) fn new(
        kernel: Box<dyn Scheduler>,
        transport: T,
        timers: Timers,
        observer: Box<dyn Observer>,
    ) -> Arc<Self> {
        let state = State {
            kernel,
            queries: Queries::new(),
            copies: Copies::default(),
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
            me: Weak::clone(me),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A panic under the lock is a bug of ours, in an observer or in the kernel; whatever it
        // left behind, answering the others is better than failing all of them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn arrive(&self, query: Query<T::Request>, reply: Sender<T>) -> (QueryId, u64) {
        let mut state = self.lock();
        let now = self.clock.now();
        let Query { request, group, may_duplicate, may_retry, deadline, cost_hint } = query;
        assert!(group.index() < state.kernel.core().group_count(), "{group:?} does not exist");
        let (query, ticket) = state.queries.add(request, reply, group, now);
        let deadline = deadline.map_or(Timestamp::NEVER, |at| self.clock.timestamp(at));
        let arrive = Arrive { query, group, may_duplicate, may_retry, deadline, cost_hint };
        self.handle(state, now, &Event::Arrive(arrive), None);
        (query, ticket)
    }

    pub(crate) fn abandon(&self, query: QueryId, ticket: u64) {
        let mut state = self.lock();
        if state.queries.get(query).is_none_or(|pending| pending.ticket != ticket) {
            return;
        }
        let now = self.clock.now();
        if let Some(pending) = state.queries.remove(query) {
            let took = now.since(pending.arrived);
            self.observer.query_ended(pending.group, QueryEnd::Abandoned, took);
        }
        self.handle(state, now, &Event::Abandoned { query }, None);
    }

    /// Feeds an event about a server; was it up until then?
    pub(crate) fn feed_about(&self, server: ServerId, event: &Event) -> bool {
        let state = self.lock();
        let now = self.clock.now();
        let up = state.kernel.core().server(server).up;
        self.handle(state, now, event, None);
        up
    }

    /// Feeds an event that is not about a copy.
    pub(crate) fn feed(&self, event: &Event) {
        let state = self.lock();
        let now = self.clock.now();
        self.handle(state, now, event, None);
    }

    /// The head of a response whose rest is still to come. False when the copy need not go on: one
    /// that was cancelled cannot bring the rest.
    pub(crate) fn responded(&self, copy: CopyId, good: bool, response: T::Response) -> bool {
        let mut state = self.lock();
        if state.copies.get(copy).is_none_or(|flight| flight.is_stopping()) {
            return false;
        }
        let result = CopyResult { copy, flight: None, response: Some(response) };
        let result = if good { Some(result) } else { self.hold(&mut state, result) };
        let now = self.clock.now();
        self.handle(state, now, &Event::Responded { copy, good }, result);
        true
    }

    /// A task was torn down before it ran: the runtime takes no more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn finished(&self, copy: CopyId, outcome: Outcome, response: Option<T::Response>) {
        let event = Event::Finished { copy, outcome };
        self.ended(copy, &event, CopyEnd::Finished(outcome), response);
    }

    pub(crate) fn stopped(&self, copy: CopyId) {
        self.ended(copy, &Event::Stopped { copy }, CopyEnd::Stopped(None), None);
    }

    fn ended(&self, copy: CopyId, event: &Event, end: CopyEnd, response: Option<T::Response>) {
        let mut state = self.lock();
        // A bad response is kept while its copy is still known.
        let mut result = Some(CopyResult { copy, flight: None, response });
        if end != CopyEnd::Finished(Outcome::Good) {
            result = self.hold(&mut state, result.expect("just made"));
        }
        // The kernel may give the slot away while it handles the event.
        let Some(flight) = state.copies.remove(copy) else { return };
        let result = result.unwrap_or(CopyResult { copy, flight: None, response: None });
        let now = self.clock.now();
        self.handle_end(state, now, event, CopyResult { flight: Some(flight), ..result }, end);
    }

    /// Keeps a bad response in case no copy gives a good one.
    fn hold(&self, state: &mut State<T>, result: CopyResult<T>) -> Option<CopyResult<T>> {
        let flight = state.copies.get(result.copy)?;
        let (query, ticket) = (flight.query, flight.ticket);
        let pending = state.queries.get(query).filter(|pending| pending.ticket == ticket)?;
        flight.heard = true;
        if result.response.is_some() {
            pending.held = result.response;
        }
        None
    }

    fn handle_end(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        now: Timestamp,
        event: &Event,
        mut result: CopyResult<T>,
        end: CopyEnd,
    ) {
        let mut effects = Effects::default();
        self.decide(&mut state, now, event, Some(&mut result), &mut effects);
        if let Some(flight) = result.flight {
            let end = match end {
                CopyEnd::Stopped(_) => CopyEnd::Stopped(flight.stop_reason),
                end => end,
            };
            let ran = now.since(flight.started);
            self.observer.copy_ended(flight.info, end, flight.won, ran);
        }
        drop(state);
        self.carry_out(effects);
    }

    fn handle(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        now: Timestamp,
        event: &Event,
        mut result: Option<CopyResult<T>>,
    ) {
        let mut effects = Effects::default();
        self.decide(&mut state, now, event, result.as_mut(), &mut effects);
        drop(state);
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
                    self.response(queries, copies, query, here, now);
                }
                Action::Fail { query, why, copy } => {
                    // A copy that failed and still runs has only been silent for too long.
                    let silent = copy.is_some_and(|copy| copies.get(copy).is_some());
                    self.fail(queries, query, why, silent, now);
                }
                Action::Shed { query, why } => {
                    if let Some(pending) = queries.remove(query) {
                        let took = now.since(pending.arrived);
                        self.observer.query_ended(pending.group, QueryEnd::Shed(why), took);
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
            }
        }
        self.arm(state);
    }

    fn response(
        &self,
        queries: &mut Queries<T>,
        copies: &mut Copies,
        query: QueryId,
        result: Option<&mut CopyResult<T>>,
        now: Timestamp,
    ) {
        let Some(result) = result else { return };
        let Some(pending) = queries.remove(query) else { return };
        let flight = match &mut result.flight {
            Some(flight) => flight,
            None => match copies.get(result.copy) {
                Some(flight) => flight,
                None => return,
            },
        };
        (flight.won, flight.heard) = (true, true);
        let Some(response) = result.response.take() else { return };
        let CopyInfo { server, role, .. } = flight.info;
        let took_ns = now.since(pending.arrived);
        self.observer.query_ended(pending.group, QueryEnd::Answered { server, role }, took_ns);
        let queued_ns = pending.started.map_or(0, |at| at.since(pending.arrived));
        let ran_ns = now.since(flight.started);
        let copies = pending.copies;
        let response = QueryResponse { response, server, role, queued_ns, took_ns, ran_ns, copies };
        // Where the client has just left, the response goes back to the transport unread.
        let _ = pending.reply.send(Ok(response));
    }

    fn fail(
        &self,
        queries: &mut Queries<T>,
        query: QueryId,
        why: FailReason,
        silent: bool,
        now: Timestamp,
    ) {
        let Some(pending) = queries.remove(query) else { return };
        let took = now.since(pending.arrived);
        self.observer.query_ended(pending.group, QueryEnd::Failed(why), took);
        let silent = pending.held.is_none() && silent;
        let why = if silent && why == FailReason::CopyFailed { FailReason::Timeout } else { why };
        let _ = pending.reply.send(Err(QueryError::from_fail(why, pending.held)));
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
        self.launch(effects.launches);
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
            let guard = copy::Guard::new(me, copy);
            let task = copy::spawning(|| self.runtime.spawn(copy::run(guard, launch)));
            match self.lock().copies.get(copy) {
                Some(flight) => flight.runs_as(task.abort_handle()),
                // It has ended, or was lost with its server, in the meantime.
                None => task.abort(),
            }
        }
    }

    pub(crate) fn look<V>(&self, with: impl FnOnce(&Core) -> V) -> V {
        with(self.lock().kernel.core())
    }

    pub(crate) fn suspects(&self) -> u32 {
        self.lock().kernel.suspects()
    }

    /// Moves what the cell has recorded for the learner of its service to the end of a list.
    pub(crate) fn publish(&self, into: &mut Vec<Record>) {
        self.lock().kernel.publish(into);
    }

    /// What the service has learned: it concerns queries to come, so there is nothing to do now.
    pub(crate) fn adopt(&self, snapshot: &Snapshot) {
        self.lock().kernel.adopt(snapshot);
    }

    pub(crate) fn live_queries(&self) -> usize {
        self.lock().queries.len()
    }
}

impl<T: Transport> OnTimeout for Inner<T> {
    fn on_timeout(&self) {
        let mut state = self.lock();
        state.armed.expired();
        let now = self.clock.now();
        if state.kernel.next_deadline() <= now {
            self.handle(state, now, &Event::Tick, None);
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
            let now = self.clock.now();
            self.handle(state, now, &Event::Unwanted { copy }, None);
        }
    }

    fn progress(&self, copy: CopyId) {
        self.feed(&Event::Progress { copy });
    }
}
