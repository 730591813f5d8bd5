//! The state that clones of a cell share: the kernel under its lock, and the tables of its queries
//! and copies.
//!
//! An event goes to the kernel under the lock. The kernel's decisions about a query are left in the
//! query's entry, and the future of the query ([`Reply`](crate::Reply)) is woken to carry them out.
//! If the event is about a copy of that query, its future gets them directly.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use curtail_kernel::{
    Action, Arrive, CopyId, EjectReason, Event, Fault, Feedback, Needs, Outcome, Probed, QueryId,
    Scheduler, ServerId, ServerView, Timestamp,
};
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::clock::{ArmedTimers, Clock};
use crate::copy::Copy;
use crate::failure::Failure;
use crate::observe::{CopyEnd, CopyInfo, EjectionCause, Observer, ProbeFailure};
use crate::query::{FailedCopy, Query, QueryError};
use crate::tables::{
    Flight, Flights, Mail, Pending, Queries, QueryKey, QueryResult, answer, failure,
};
use crate::timers::{OnTimeout, Timers};
use crate::transport::{Listener, Transport};

pub(crate) struct Inner<T: Transport> {
    pub(crate) transport: T,
    state: Mutex<State<T>>,
    clock: Clock,
    timers: Timers,
    pub(crate) runtime: Handle,
    /// The runtime has shut down: it starts no more tasks.
    closed: AtomicBool,
    observer: Box<dyn Observer>,
    needs: Needs,
    /// For probes that are under way.
    probes: Arc<Semaphore>,
    me: Weak<Self>,
}

/// Probes of a cell that may be under way at once.
const MOST_PROBES: usize = 256;

pub(crate) struct State<T: Transport> {
    pub(crate) kernel: Box<dyn Scheduler>,
    pub(crate) queries: Queries<T>,
    copies: Flights<T>,
    armed: ArmedTimers,
}

/// What is done once the lock is released.
struct Effects<T: Transport> {
    /// The query whose future reports the event, and the decisions about it.
    own: Option<QueryKey>,
    mail: Mail<T>,
    /// In the order of the decisions.
    signals: SmallVec<[Signal<T>; 1]>,
    /// Rare, so it takes little room.
    servers: Option<Box<ServerEffects>>,
}

/// Decisions about servers.
#[derive(Default)]
struct ServerEffects {
    ejected: Vec<(ServerId, EjectReason)>,
    restored: Vec<ServerId>,
    probes: Vec<ServerId>,
}

enum Signal<T: Transport> {
    /// Something was decided about the query of this future.
    Resume(Waker),
    Stop(Arc<Copy<T>>),
}

/// An event for the kernel.
struct Input<'e, T: Transport> {
    event: &'e Event,
    /// The query whose future reports the event, and gets the decisions about itself directly.
    own: Option<QueryKey>,
    /// The copy that the event is about.
    result: Option<CopyResult<T>>,
}

impl<'e, T: Transport> Input<'e, T> {
    /// An event that no query reports.
    fn of(event: &'e Event) -> Self {
        Self { event, own: None, result: None }
    }
}

/// A query that has arrived.
pub(crate) struct Arrived<T: Transport> {
    pub(crate) key: QueryKey,
    /// The earlier of the client's deadline and the one that follows from the cell's timeout.
    pub(crate) deadline: Option<Instant>,
    /// The decisions about it.
    pub(crate) mail: Mail<T>,
}

/// A copy that the event at hand is about.
struct CopyResult<T: Transport> {
    copy: CopyId,
    /// Set once the copy has ended. Before that, it is in the table.
    ended: Option<(Flight<T>, CopyEnd)>,
    /// Its response, which may be bad.
    response: Option<T::Response>,
    /// The outcome of the response.
    outcome: Outcome,
}

impl<T: Transport> Inner<T> {
    pub(crate) fn new(
        kernel: Box<dyn Scheduler>,
        transport: T,
        timers: Timers,
        observer: Box<dyn Observer>,
    ) -> Arc<Self> {
        let needs = kernel.needs();
        let state = State {
            kernel,
            queries: Queries::new(),
            copies: Flights::new(),
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
            needs,
            probes: Arc::new(Semaphore::new(MOST_PROBES)),
            me: Weak::clone(me),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A panic under the lock is a bug of ours, in an observer or in the kernel; whatever it
        // left behind, answering the others is better than failing all of them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Feeds a query.
    pub(crate) fn arrive(&self, query: &Query<T::Request>) -> Arrived<T> {
        let mut state = self.lock();
        let now = self.clock.now();
        let &Query { group, may_duplicate, may_retry, deadline, cost_hint, .. } = query;
        assert!(group.index() < state.kernel.core().group_count(), "{group:?} does not exist");
        let deadline = deadline.map_or(Timestamp::NEVER, |at| self.clock.timestamp(at));
        let timeout_ns = state.kernel.core().limits().timeout_ns;
        let ends = self.clock.instant(deadline.min(now.after(timeout_ns)));
        let key = state.queries.add(group, now);
        let query = key.id;
        let arrive = Arrive { query, group, may_duplicate, may_retry, deadline, cost_hint };
        let event = Event::Arrive(arrive);
        let input = Input { event: &event, own: Some(key), result: None };
        Arrived { key, deadline: ends, mail: self.handle_at(state, now, input) }
    }

    /// Takes the decisions about a query. If there are none, `waker` is used for the next one.
    pub(crate) fn collect(&self, key: QueryKey, waker: &Waker) -> Option<Mail<T>> {
        let mut state = self.lock();
        let mail = state.queries.take_mail(key);
        if mail.is_none() {
            state.queries.set_waker(key, waker);
        }
        mail
    }

    /// The future of a query is dropped. Returns the decisions that it has not seen.
    pub(crate) fn abandon(&self, key: QueryKey) -> Mail<T> {
        let mut state = self.lock();
        if state.queries.live(key).is_none() {
            return state.queries.take_mail(key).unwrap_or_default();
        }
        // What the query holds is dropped outside of the lock.
        let removed = state.queries.remove(key.id);
        let event = Event::Abandoned { query: key.id };
        let mut mail = self.handle(state, Input { event: &event, own: Some(key), result: None });
        mail.starts.extend(removed.map(|(_, pending)| pending.starts).unwrap_or_default());
        mail
    }

    /// Feeds an event about a server. Returns the state of the server before the event.
    pub(crate) fn feed_about(&self, server: ServerId, event: &Event) -> ServerView {
        let state = self.lock();
        let before = state.kernel.core().server(server);
        self.handle(state, Input::of(event));
        before
    }

    /// Feeds an event that is not about a copy.
    pub(crate) fn feed(&self, event: &Event) {
        self.handle(self.lock(), Input::of(event));
    }

    /// The head of a response whose rest is still to come. Returns `None` if the copy was cancelled,
    /// so that the rest is not needed.
    pub(crate) fn responded(
        &self,
        copy: CopyId,
        outcome: Outcome,
        response: T::Response,
        own: Option<QueryKey>,
    ) -> Option<Mail<T>> {
        let mut state = self.lock();
        let ends = |flight: &mut Flight<T>| flight.is_stopping() && !flight.copy.is_bound();
        if state.copies.get(copy).is_none_or(ends) {
            return None;
        }
        let response = Some(response);
        let wins = outcome.wins();
        let response =
            if wins { response } else { self.hold(&mut state, copy, outcome, response, None) };
        let result = Some(CopyResult { copy, ended: None, response, outcome });
        let event = Event::Responded { copy, outcome };
        Some(self.handle(state, Input { event: &event, own, result }))
    }

    /// The load that a server reports, for policies that use it.
    pub(crate) fn load_reported(&self, copy: CopyId, feedback: Feedback) {
        if self.needs.feedback {
            self.feed(&Event::Feedback { copy, feedback });
        }
    }

    /// The size of a response that is about to end, for policies that use it.
    pub(crate) fn received(&self, copy: CopyId, bytes: u64) {
        if self.needs.bytes {
            self.feed(&Event::Received { copy, bytes });
        }
    }

    /// The runtime shuts down, and starts no more tasks.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether tasks can still be started.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }

    pub(crate) fn finished(
        &self,
        copy: CopyId,
        outcome: Outcome,
        response: Option<T::Response>,
        own: Option<QueryKey>,
    ) -> Mail<T> {
        let event = Event::Finished { copy, outcome };
        let end = CopyEnd::Finished(outcome);
        self.carry_out(self.note_end(copy, end, response, &event, own))
    }

    pub(crate) fn failed(&self, copy: CopyId, why: Failure, own: Option<QueryKey>) -> Mail<T> {
        let event = Event::Finished { copy, outcome: why.outcome() };
        self.carry_out(self.note_end(copy, CopyEnd::Failed(why), None, &event, own))
    }

    /// A copy stopped, for another reason than a decision of the kernel.
    pub(crate) fn stopped(&self, copy: CopyId) {
        self.carry_out(self.note_stopped(copy));
    }

    fn note_stopped(&self, copy: CopyId) -> Effects<T> {
        self.note_end(copy, CopyEnd::Stopped(None), None, &Event::Stopped { copy }, None)
    }

    fn note_end(
        &self,
        copy: CopyId,
        end: CopyEnd,
        response: Option<T::Response>,
        event: &Event,
        own: Option<QueryKey>,
    ) -> Effects<T> {
        let mut state = self.lock();
        // A bad response is kept while its copy is still known.
        let (outcome, why) = match end {
            CopyEnd::Finished(outcome) => (outcome, None),
            CopyEnd::Failed(why) => (why.outcome(), Some(why)),
            CopyEnd::Stopped(_) | CopyEnd::Lost => (Outcome::Local, None),
        };
        let is_held = !matches!(end, CopyEnd::Finished(outcome) if outcome.wins());
        let response =
            if is_held { self.hold(&mut state, copy, outcome, response, why) } else { response };
        // The kernel may give the slot away while it handles the event.
        let Some(flight) = state.copies.remove(copy) else { return Effects::new(own) };
        let result = Some(CopyResult { copy, ended: Some((flight, end)), response, outcome });
        self.note(state, self.clock.now(), Input { event, own, result })
    }

    /// Keeps a bad response, or the reason why there is none, in case no copy gives a good one.
    /// Returns a response that its query does not want.
    fn hold(
        &self,
        state: &mut State<T>,
        copy: CopyId,
        outcome: Outcome,
        response: Option<T::Response>,
        why: Option<Failure>,
    ) -> Option<T::Response> {
        let Some(flight) = state.copies.get(copy) else { return response };
        let Some(pending) = state.queries.live(flight.query) else { return response };
        flight.heard = true;
        if let Some(response) = response {
            let now = self.clock.now();
            pending.held = Some(Box::new(answer(pending, flight, response, outcome, now)));
        }
        pending.unsent += u32::from(outcome == Outcome::Failed(Fault::ConnectFailed));
        let server = flight.info.server;
        pending.last = why.map(|why| FailedCopy { server, why }).or(pending.last);
        None
    }

    fn handle(&self, state: MutexGuard<'_, State<T>>, input: Input<'_, T>) -> Mail<T> {
        self.handle_at(state, self.clock.now(), input)
    }

    fn handle_at(
        &self,
        state: MutexGuard<'_, State<T>>,
        now: Timestamp,
        input: Input<'_, T>,
    ) -> Mail<T> {
        self.carry_out(self.note(state, now, input))
    }

    /// Feeds the kernel, and releases the lock.
    fn note(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        now: Timestamp,
        mut input: Input<'_, T>,
    ) -> Effects<T> {
        let mut effects = Effects::new(input.own);
        self.decide(&mut state, now, &mut input, &mut effects);
        // Responses that no query wants are dropped with the input, outside of the lock.
        let result = &input.result;
        if let Some(CopyResult { ended: Some((flight, end)), .. }) = result {
            let end = match *end {
                CopyEnd::Stopped(_) => CopyEnd::Stopped(flight.stop_reason),
                end => end,
            };
            let ran = now.since(flight.started);
            self.observer.copy_ended(flight.info, end, flight.won, ran);
        }
        drop(state);
        if let Some(CopyResult { ended: Some((flight, CopyEnd::Failed(why))), .. }) = result {
            self.observer.copy_failed(flight.info, *why);
        }
        effects
    }

    /// Feeds the kernel, and leaves its decisions in the tables and in `effects`.
    fn decide(
        &self,
        state: &mut State<T>,
        now: Timestamp,
        input: &mut Input<'_, T>,
        effects: &mut Effects<T>,
    ) {
        let State { kernel, queries, copies, .. } = state;
        for action in kernel.handle(now, input.event) {
            match *action {
                Action::Start { copy, query, server, role, why } => {
                    let Some((key, pending)) = queries.get(query) else { continue };
                    let info = CopyInfo { group: pending.group, server, role, why };
                    self.observer.copy_started(info, why);
                    if pending.started.is_none() {
                        pending.started = Some(now);
                        self.observer.query_started(pending.group, now.since(pending.arrived));
                    }
                    let attempt = pending.copies - pending.unsent;
                    let copy = Arc::new(Copy::new(copy, info, attempt));
                    pending.copies += 1;
                    copies.add(Flight::new(Arc::clone(&copy), key, info, now));
                    effects.start(queries, key, copy);
                }
                Action::Stop { copy, why } => {
                    let Some(flight) = copies.get(copy) else { continue };
                    self.observer.copy_cancelled(flight.info, why);
                    flight.stop_reason = Some(why);
                    effects.signals.push(Signal::Stop(Arc::clone(&flight.copy)));
                }
                Action::Lose { copy } => {
                    let Some(flight) = copies.remove(copy) else { continue };
                    let ran = now.since(flight.started);
                    self.observer.copy_ended(flight.info, CopyEnd::Lost, flight.won, ran);
                    effects.signals.push(Signal::Stop(flight.copy));
                }
                Action::Answer { query, copy } => {
                    let result = input.result.as_mut().filter(|result| result.copy == copy);
                    let Some(result) = result else { continue };
                    let Some(response) = result.response.take() else { continue };
                    let outcome = result.outcome;
                    let flight = match &mut result.ended {
                        Some((flight, _)) => Some(flight),
                        None => copies.get(copy),
                    };
                    let Some(flight) = flight else { continue };
                    (flight.won, flight.heard) = (true, true);
                    effects.end(queries, query, |pending| {
                        Ok(answer(pending, flight, response, outcome, now))
                    });
                }
                Action::Fail { query, why, copy } => {
                    // If the copy that failed is still running, it has only been silent for too
                    // long.
                    let silent = copy.is_some_and(|copy| copies.get(copy).is_some());
                    effects.end(queries, query, |pending| Err(failure(pending, why, silent)));
                }
                Action::Shed { query, why } => {
                    effects.end(queries, query, |_| Err(QueryError::from_shed(why)));
                }
                Action::Eject { server, why } => effects.servers().ejected.push((server, why)),
                Action::Restore { server } => effects.servers().restored.push(server),
                Action::Probe { server } => effects.servers().probes.push(server),
            }
        }
        self.arm(state);
    }

    fn arm(&self, state: &mut State<T>) {
        let next = state.kernel.next_deadline();
        if next == Timestamp::NEVER || state.armed.covers(next) {
            return;
        }
        if let Some(at) = self.clock.instant(next) {
            state.armed.add(next);
            // A caller that drops a reply may do so outside of any runtime.
            let _runtime = self.runtime.enter();
            self.timers.wake(at, Weak::clone(&self.me) as Weak<dyn OnTimeout>);
        }
    }

    fn carry_out(&self, effects: Effects<T>) -> Mail<T> {
        let Effects { own: _, mail, signals, servers } = effects;
        if let Some(servers) = servers {
            self.report(*servers);
        }
        if !signals.is_empty() {
            self.send_signals(signals);
        }
        mail
    }

    fn send_signals(&self, mut signals: SmallVec<[Signal<T>; 1]>) {
        // A copy that stops frees a slot. What the kernel decides then comes after what it decided
        // before.
        let mut at = 0;
        while at < signals.len() {
            match &signals[at] {
                Signal::Resume(waker) => waker.wake_by_ref(),
                Signal::Stop(copy) => {
                    if copy.stop() {
                        let more = self.note_stopped(copy.id());
                        if let Some(servers) = more.servers {
                            self.report(*servers);
                        }
                        signals.extend(more.signals);
                    }
                }
            }
            at += 1;
        }
    }

    #[cold]
    fn report(&self, servers: ServerEffects) {
        let ServerEffects { ejected, restored, probes } = servers;
        for (server, why) in ejected {
            self.ejected(server, EjectionCause::Ejected(why));
        }
        for server in restored {
            self.observer.restored(server);
        }
        self.probe(probes);
    }

    /// Sends load probes. Probes beyond [`MOST_PROBES`] at the same time are left out.
    fn probe(&self, servers: Vec<ServerId>) {
        for server in servers {
            if !self.is_open() {
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
}

impl<T: Transport> Effects<T> {
    fn new(own: Option<QueryKey>) -> Self {
        Self { own, mail: Mail::default(), signals: SmallVec::new(), servers: None }
    }

    fn servers(&mut self) -> &mut ServerEffects {
        self.servers.get_or_insert_default()
    }

    /// Leaves a copy for the future of its query to send.
    fn start(&mut self, queries: &mut Queries<T>, key: QueryKey, copy: Arc<Copy<T>>) {
        if self.own == Some(key) {
            self.mail.starts.push(copy);
        } else if let Some(pending) = queries.live(key) {
            pending.starts.push(copy);
            self.signals.extend(pending.waker.take().map(Signal::Resume));
        }
    }

    /// Ends a query.
    fn end(
        &mut self,
        queries: &mut Queries<T>,
        query: QueryId,
        result: impl FnOnce(&mut Pending<T>) -> QueryResult<T>,
    ) {
        let Some((key, pending)) = queries.get(query) else { return };
        let end = result(pending);
        if self.own == Some(key) {
            self.mail.end = Some(end);
            // Copies of earlier events that the future has not seen.
            self.mail.starts.append(&mut pending.starts);
            queries.remove(query);
        } else {
            self.signals.extend(queries.end(query, end).map(Signal::Resume));
        }
    }
}

impl<T: Transport> OnTimeout for Inner<T> {
    fn on_timeout(&self) {
        let mut state = self.lock();
        state.armed.expired();
        let now = self.clock.now();
        if state.kernel.next_deadline() <= now {
            self.handle_at(state, now, Input::of(&Event::Tick));
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
            self.handle(state, Input::of(&Event::Unwanted { copy }));
        }
    }

    fn progress(&self, copy: CopyId) {
        self.feed(&Event::Progress { copy });
    }

    fn began(&self, copy: CopyId) {
        self.feed(&Event::Started { copy });
    }

    fn bind(&self, copy: CopyId) {
        if let Some(flight) = self.lock().copies.get(copy) {
            flight.copy.bind();
        }
    }
}
