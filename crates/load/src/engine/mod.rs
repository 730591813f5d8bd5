//! A generator thread: waits for the intended times, sends requests and receives responses.
//!
//! The thread that waits for a request's time also sends the request, on its own connections.
//! Handing the request over to another thread would take longer than many services take to respond.
//! To stay on time, each iteration of the thread's loop takes at most a few microseconds.
//!
//! # How it waits
//!
//! Long before the next request is due, the thread sleeps until a socket is ready. Then it polls
//! the sockets repeatedly, and for the last microseconds it reads only the clock (`clock`).

mod clock;
mod connection;
mod flight;
pub(crate) mod observe;
mod pool;
pub mod stamp;
pub(crate) mod threads;
mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use curtail_xdp::Bypass;

use crate::engine::observe::Observer;
use crate::engine::stamp::{Conversion, Layer, StampClock};
use crate::results::arrival_test::Keep;
use crate::results::facts::{Sender, schedstat};
use crate::results::outcome::{Crowd, Outcome};
use crate::results::record::Record;
use crate::session::{Sessions, Token};
use clock::{Poller, Waited, Waiting};
use connection::Connection;
use flight::{Due, Flight};
use pool::{Assigned, Backoff, Pool};
use wire::Scratch;

pub(crate) use clock::Clock;
pub(crate) use flight::Source;

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) clock: Clock,
    pub(crate) addresses: Arc<[SocketAddr]>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) backlog_max: usize,
    pub(crate) timeout_ns: u64,
    pub(crate) spin: bool,
    /// The clock that the sockets' timestamps use. `None` if the plan does not ask for them.
    pub(crate) stamps: Option<StampClock>,
    pub(crate) bypass: Option<Arc<Bypass>>,
    /// `Threads` sets these flags, then writes a byte to the other end of `notify`.
    pub(crate) orders: Arc<Orders>,
    pub(crate) notify: UnixStream,
    /// Channels that exchange empty records for full ones. A record contains a megabyte of
    /// histograms. Copying it would delay the next requests, and a lock around it would slow down
    /// every request.
    pub(crate) empty: Receiver<Box<Record>>,
    pub(crate) full: SyncSender<Box<Record>>,
    pub(crate) warmup_ns: u64,
    pub(crate) observer: Observer,
}

#[derive(Debug, Default)]
pub(crate) struct Orders {
    pub(crate) stop: AtomicBool,
    /// Send no request that becomes due after this order, and end when all requests have ended.
    pub(crate) drain: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct Measured {
    /// The measurements that have not been handed over yet.
    pub(crate) record: Box<Record>,
    pub(crate) last_ns: u64,
    pub(crate) sender: Sender,
}

/// Measures how much idle time a thread has while it sends.
#[derive(Debug, Default)]
struct Account {
    /// The time at which the schedule began, and the `schedstat` counters at that time.
    begun: Option<(u64, Option<[u64; 2]>)>,
    done: Option<Sender>,
}

impl Account {
    fn begin(&mut self, now_ns: i64, waiting: &mut Waiting) {
        if self.begun.is_none() && now_ns >= 0 {
            waiting.idle_ns = 0;
            self.begun = Some((now_ns.unsigned_abs(), schedstat()));
        }
    }

    /// Ends the measurement of idle time unless it has already ended. Returns its result.
    fn end(&mut self, now_ns: u64, waiting: &Waiting) -> Sender {
        let (begun_ns, before) = self.begun.unwrap_or((now_ns, None));
        *self.done.get_or_insert_with(|| {
            let both = before.zip(schedstat());
            let since =
                both.map(|(before, now)| [0, 1].map(|at| now[at].saturating_sub(before[at])));
            Sender::of(now_ns.saturating_sub(begun_ns), waiting.idle_ns, since)
        })
    }
}

struct Context {
    task: Task,
    poller: Poller,
    scratch: Scratch,
    /// Converts timestamps. `None` if the plan does not ask for them.
    stamps: Option<Conversion>,
    outcomes: Vec<Outcome>,
    resends: Vec<Flight>,
    /// The number of connections in use, including the one that takes the next request.
    crowd: Crowd,
    /// Deadlines of unwritten batches in ascending order, each with its connection. Some batches
    /// may have been written already.
    batches: VecDeque<(u64, usize)>,
    record: Box<Record>,
}

const NOTIFY: u64 = u64::MAX;
/// Maximum number of requests that are sent before responses are read.
const SENDS_MAX: usize = 32;
/// Maximum number of sockets handled before newly due requests are sent.
const LOOKS_MAX: usize = 8;
/// Deferrable work, which takes a few microseconds, runs only if no request is due within this
/// time.
const QUIET_NS: i64 = 100_000;

struct Engine {
    source: Source,
    context: Context,
    pool: Pool,
    /// The pool's connections, followed by the retired connections, whose servers are going away.
    connections: Vec<Connection>,
    /// The unused indexes in `connections` that follow those of the pool.
    vacant: Vec<usize>,
    /// The intended time, the connection and the token of each request in flight, by request index.
    /// Requests expire in the order of their indexes.
    in_flight: BTreeMap<u64, (u64, usize, Token)>,
    backoff: Backoff,
    keep: Keep,
    last_ns: u64,
}

pub(crate) fn run(source: Source, task: Task) -> io::Result<Measured> {
    let (mut waiting, mut account) = (Waiting::new(task.spin), Account::default());
    let mut engine = Engine::new(source, task)?;
    while !engine.context.task.orders.stop.load(Ordering::Relaxed) {
        if engine.context.task.orders.drain.load(Ordering::Relaxed) {
            engine.source.end_at(engine.context.task.clock.now_ns());
        }
        engine.end_backoffs();
        engine.send_due(engine.context.task.clock.now_ns());
        engine.send_waiting();
        engine.end_batches();
        engine.expire();
        let Some(until_ns) = engine.next_timeout_ns() else { break };
        let now_ns = engine.context.task.clock.now_ns();
        if engine.due_ns().is_none_or(|due_ns| due_ns - now_ns > QUIET_NS) {
            engine.context.task.observer.flush();
        }
        engine.context.hand_over();
        account.begin(now_ns, &mut waiting);
        if engine.source.is_over() && engine.pool.oldest_ns().is_none() {
            // Waiting for the last responses does not count as sending time.
            account.end(at_least_zero(now_ns), &waiting);
        }
        match waiting.wait(engine.context.task.clock, until_ns, &mut engine.context.poller)? {
            Waited::Events(events) => engine.take_events(events),
            // Send due requests first, because any other work would add lag.
            Waited::Due(now_ns) => engine.send_due(now_ns),
        }
    }
    let sender = account.end(engine.context.task.clock.elapsed_ns(), &waiting);
    engine.cut();
    let Context { mut task, mut record, stamps, .. } = engine.context;
    record.unobserved = task.observer.finish();
    record.clock_steps = stamps.as_ref().map_or(0, Conversion::steps);
    Ok(Measured { record, last_ns: engine.last_ns, sender })
}

impl Context {
    fn new(task: Task) -> io::Result<Context> {
        let poller = Poller::new()?;
        poller.add(&task.notify, NOTIFY, false)?;
        let stamps = task.stamps.clone().map(|clock| Conversion::new(clock, task.clock.moment(0)));
        Ok(Context {
            poller,
            scratch: Scratch::new(stamps.as_ref().map_or(Layer::Software, Conversion::layer)),
            stamps,
            outcomes: Vec::new(),
            resends: Vec::new(),
            crowd: Crowd::default(),
            batches: VecDeque::new(),
            record: Box::new(Record::with_room(0, task.warmup_ns)),
            task,
        })
    }

    fn hand_over(&mut self) {
        if let Ok(empty) = self.task.empty.try_recv() {
            // The channel has room, because the collector has already taken the previous record.
            let _ = self.task.full.try_send(std::mem::replace(&mut self.record, empty));
        }
    }

    fn take(&mut self, outcome: Outcome) {
        self.record.add(&outcome, self.task.warmup_ns, self.task.timeout_ns);
        self.task.observer.see(outcome);
    }
}

impl Engine {
    fn new(source: Source, task: Task) -> io::Result<Engine> {
        Ok(Engine {
            source,
            pool: Pool::new(task.connections, task.backlog_max),
            connections: (0..task.connections).map(Connection::new).collect(),
            vacant: Vec::new(),
            in_flight: BTreeMap::new(),
            backoff: Backoff::default(),
            keep: Keep::new(task.threads),
            last_ns: 0,
            context: Context::new(task)?,
        })
    }

    fn due_ns(&mut self) -> Option<i64> {
        self.source.due_ns(self.pool.has_free())
    }

    fn next_timeout_ns(&mut self) -> Option<i64> {
        let in_flight = self.in_flight.first_key_value().map(|(_, (at_ns, ..))| *at_ns);
        let oldest = in_flight.into_iter().chain(self.pool.oldest_ns()).min();
        let deadline = oldest.map(|at_ns| at(at_ns.saturating_add(self.context.task.timeout_ns)));
        let batch = self.context.batches.front().map(|(until_ns, _)| at(*until_ns));
        let retry = self.backoff.first_ns().filter(|_| self.source.wants_room()).map(at);
        self.due_ns().into_iter().chain(deadline).chain(batch).chain(retry).min()
    }

    fn send_due(&mut self, mut now_ns: i64) {
        for _ in 0..SENDS_MAX {
            let Some(slot) = self.source.next(now_ns, self.pool.has_free()) else { return };
            self.last_ns = slot.at_ns;
            match self.pool.assign(slot) {
                Assigned::On(id) => self.send(id, Due::New(slot), now_ns.unsigned_abs()),
                Assigned::Queued => self.context.record.waited += u64::from(!slot.warmup),
                Assigned::Dropped => {
                    let Task { warmup_ns, timeout_ns, .. } = self.context.task;
                    self.context.record.add_dropped(slot, warmup_ns, timeout_ns);
                }
            }
            now_ns = self.context.task.clock.now_ns();
        }
    }

    fn send(&mut self, id: usize, due: Due, now_ns: u64) {
        let (slot, new) = (due.slot(), matches!(due, Due::New(_)));
        self.context.crowd = self.pool.crowd();
        let token = self.connections[id].send(due, now_ns, &mut self.context);
        if let Some(token) = token {
            self.in_flight.insert(slot.index, (slot.at_ns, id, token));
        }
        self.note(id);
        if new {
            self.context.record.sent += 1;
            if !slot.warmup {
                let since_ns = now_ns.saturating_sub(self.context.task.warmup_ns);
                self.keep.see(&mut self.context.record.sends, slot.index, since_ns);
            }
        }
    }

    fn expire(&mut self) {
        let now_ns = self.context.task.clock.elapsed_ns();
        let Some(until_ns) = now_ns.checked_sub(self.context.task.timeout_ns) else { return };
        while let Some(due) = self.pool.expire(until_ns) {
            // No connection became free in time.
            self.context.record.sent += u64::from(matches!(due, Due::New(_)));
            self.context.take(due.expired(now_ns));
        }
        while let Some((&index, &(at_ns, id, token))) = self.in_flight.first_key_value() {
            if at_ns > until_ns {
                return;
            }
            self.in_flight.remove(&index);
            self.connections[id].expire(token, &mut self.context);
            self.settle(id);
        }
    }

    /// Records the requests that are unfinished when a run ends early. Otherwise the results would
    /// omit requests that a stalled server or a late thread delays, as in a closed loop.
    fn cut(&mut self) {
        let now_ns = self.context.task.clock.now_ns();
        let elapsed_ns = at_least_zero(now_ns);
        for connection in &mut self.connections {
            connection.cut(elapsed_ns, &mut self.context.outcomes);
        }
        for outcome in std::mem::take(&mut self.context.outcomes) {
            self.context.take(outcome);
        }
        while let Some(due) = self.pool.expire(u64::MAX) {
            self.context.take(due.unfinished(elapsed_ns));
        }
        // A closed loop has no overdue requests: each is due when a connection takes it.
        while let Some(slot) = self.source.next(now_ns, false) {
            self.context.take(Outcome::overdue(slot, elapsed_ns));
        }
    }

    fn take_events(&mut self, events: usize) {
        for at in 0..events {
            if at > 0 && at.is_multiple_of(LOOKS_MAX) {
                self.send_due(self.context.task.clock.now_ns());
            }
            let ready = self.context.poller.ready(at);
            let Some(connection) = self.connections.get_mut(ready.id as usize) else {
                self.notified();
                continue;
            };
            connection.ready(ready.readable || ready.error, &mut self.context);
            self.settle(ready.id as usize);
        }
    }

    fn notified(&mut self) {
        let mut byte = [0; 8];
        // If the read fails, no byte has arrived, so there is nothing to do.
        let _ = (&self.context.task.notify).read(&mut byte);
    }

    fn settle(&mut self, id: usize) {
        self.note(id);
        self.send_waiting();
    }

    fn send_waiting(&mut self) {
        while let Some((id, due)) = self.pool.next() {
            self.send(id, due, self.context.task.clock.elapsed_ns());
        }
    }

    fn end_batches(&mut self) {
        let now_ns = self.context.task.clock.elapsed_ns();
        while let Some(&(until_ns, id)) = self.context.batches.front()
            && until_ns <= now_ns
        {
            self.context.batches.pop_front();
            self.connections[id].end_batch(until_ns, &mut self.context);
            self.settle(id);
        }
    }

    fn note(&mut self, id: usize) {
        let mut outcomes = std::mem::take(&mut self.context.outcomes);
        for outcome in outcomes.drain(..) {
            self.in_flight.remove(&outcome.slot.index);
            self.context.take(outcome);
        }
        // Keeps the allocation.
        self.context.outcomes = outcomes;
        let handed_back = !self.context.resends.is_empty();
        for flight in self.context.resends.drain(..) {
            self.in_flight.remove(&flight.slot.index);
            self.pool.put_back(flight);
        }
        if self.is_retired(id) {
            return self.release_index(id);
        }
        self.retire(id);
        let connection = &self.connections[id];
        let (outstanding, mut room) = (connection.outstanding(), connection.has_room());
        if self.source.wants_room()
            && let Some(failures) = connection.closed_failures()
        {
            self.backoff.begin(id, failures, self.context.task.clock.elapsed_ns());
            room = false;
        }
        let opens_anew = room && connection.is_closed();
        self.pool.put(id, outstanding, room);
        // Use the new connection, because the server may also have closed other open ones, which
        // this thread cannot know yet.
        if handed_back
            && opens_anew
            && let Some(due) = self.pool.next_resend()
        {
            self.send(id, due, self.context.task.clock.elapsed_ns());
        }
    }

    fn end_backoffs(&mut self) {
        if self.backoff.first_ns().is_none() {
            return;
        }
        let now_ns = self.context.task.clock.elapsed_ns();
        while let Some(id) = self.backoff.expire(now_ns) {
            let connection = &self.connections[id];
            self.pool.put(id, connection.outstanding(), connection.has_room());
        }
        // Requests that were handed back are sent before new ones.
        self.send_waiting();
    }
}

fn at_least_zero(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}

fn at(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Connections whose server is going away: they take no further requests, but some requests are
/// still in flight on them (RFC 9113 §6.8).
///
/// A user's client opens another connection immediately, and so does this generator. The old
/// connection retires: a new one takes its index, and the old one closes after its last request.
/// The number of retired connections never exceeds the thread's number of connections. At that
/// limit, connections keep their index, and requests wait. Cost: O(n) for n open requests.
impl Engine {
    /// Gives the index of this connection to a new one if the server is going away.
    pub(super) fn retire(&mut self, id: usize) {
        if !self.is_going_away(id) {
            return;
        }
        let Some(spare) = self.spare_index() else { return };
        self.connections.swap(id, spare);
        // The spare connection is closed, so the poller does not watch it.
        self.connections[id].moved(id, &self.context.poller);
        self.connections[spare].moved(spare, &self.context.poller);
        for index in self.connections[spare].requests() {
            if let Some((_, at, _)) = self.in_flight.get_mut(&index) {
                *at = spare;
            }
        }
    }

    pub(super) fn is_retired(&self, id: usize) -> bool {
        id >= self.context.task.connections
    }

    pub(super) fn release_index(&mut self, id: usize) {
        if self.connections[id].is_closed() && !self.vacant.contains(&id) {
            self.vacant.push(id);
        }
    }

    fn is_going_away(&self, id: usize) -> bool {
        !self.is_retired(id) && self.connections[id].is_going_away()
    }

    fn spare_index(&mut self) -> Option<usize> {
        if let Some(vacant) = self.vacant.pop() {
            return Some(vacant);
        }
        let spare = self.connections.len();
        if spare >= 2 * self.context.task.connections {
            return None;
        }
        self.connections.push(Connection::new(spare));
        Some(spare)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::plan::Plan;
    use crate::plan::schedule::{Extent, Part, Schedule, Share};
    use crate::results::errors::Errors;

    /// Returns a new task without orders, and the other end of its `notify`.
    pub(super) fn task(
        plan: &Plan,
        server: SocketAddr,
        bypass: Option<Arc<Bypass>>,
    ) -> (Task, UnixStream) {
        let (notified, notify) = UnixStream::pair().unwrap();
        notified.set_nonblocking(true).unwrap();
        let task = Task {
            clock: Clock::new(Instant::now() - Duration::from_secs(1)),
            addresses: [server].into(),
            sessions: Arc::new(Sessions::prepare(plan, false).unwrap()),
            connections: 1,
            threads: 1,
            backlog_max: 0,
            timeout_ns: plan.timeout_ns,
            spin: false,
            stamps: None,
            bypass,
            orders: Arc::default(),
            notify: notified,
            empty: sync_channel(1).1,
            full: sync_channel(1).0,
            warmup_ns: 0,
            observer: Observer::new(None),
        };
        (task, notify)
    }

    fn engine(requests: u64) -> (Engine, UnixStream) {
        // No server is needed, because this socket is never polled.
        let mut plan = Plan::new("udp://127.0.0.1:1".parse().unwrap(), 1e6);
        plan.extent = Extent::Requests(requests);
        let (task, notify) = task(&plan, SocketAddr::from(([127, 0, 0, 1], 1)), None);
        let share = Share::new(plan.schedule().unwrap(), Part::WHOLE, 1, 0);
        (Engine::new(Source::open(share), task).unwrap(), notify)
    }

    #[test]
    fn a_record_is_handed_over_once_for_each_offer() {
        let plan = Plan::new("udp://127.0.0.1:1".parse().unwrap(), 1.0);
        let (mut task, _notify) = task(&plan, SocketAddr::from(([127, 0, 0, 1], 1)), None);
        let ((offers, empty), (full, handed)) = (sync_channel(1), sync_channel(1));
        (task.empty, task.full) = (empty, full);
        let mut context = Context::new(task).unwrap();
        context.record.sent = 1;
        context.hand_over();
        assert!(handed.try_recv().is_err(), "nothing was offered");
        offers.send(Box::new(Record::new())).unwrap();
        context.hand_over();
        context.hand_over();
        assert_eq!(context.record.sent, 0);
        assert_eq!(handed.try_recv().unwrap().sent, 1);
        assert!(handed.try_recv().is_err());
    }

    #[test]
    fn requests_in_flight_or_overdue_when_the_run_ends_are_recorded() {
        // All requests are overdue by most of a second. One iteration of the loop sends 32.
        let (mut engine, _notify) = engine(50);
        engine.send_due(engine.context.task.clock.now_ns());
        engine.cut();
        let record = &engine.context.record;
        let errors = Errors { in_flight: 32, overdue: 18, ..Errors::default() };
        assert_eq!((record.requests, record.errors, record.unsent), (50, errors, 18));
        assert_eq!((record.at_least.len(), record.failed, record.sent), (50, 0, 32));
        assert!(record.oldest_ns >= 900_000_000, "{}", record.oldest_ns);
        assert_eq!(record.lag.len(), 50);
    }

    #[test]
    fn a_run_that_has_measured_enough_sends_only_requests_that_were_already_due() {
        let (mut engine, _notify) = engine(50);
        let now_ns = engine.context.task.clock.now_ns();
        engine.source.end_at(now_ns);
        engine.source.end_at(now_ns + 1_000);
        engine.send_due(now_ns + 1_000);
        engine.send_due(now_ns + 1_000);
        assert_eq!(engine.context.record.sent, 50, "though a turn sends fewer");
        let mut closed = Source::closed(Schedule::untimed(1), 1, 0);
        assert!(closed.next(now_ns, true).is_some());
        closed.end_at(now_ns);
        assert_eq!((closed.next(now_ns, true), closed.is_over()), (None, true), "and stays so");
        let (mut later, _notify) = self::engine(1 << 30);
        later.source.end_at(100_000);
        while later.due_ns().is_some() {
            later.send_due(now_ns);
        }
        let last_ns = later.last_ns;
        assert!((50_000..=100_000).contains(&last_ns), "{last_ns}");
    }

    #[test]
    fn due_requests_are_sent_even_if_many_sockets_are_ready() {
        for (ready, sent) in [(8, 0), (9, 20), (30, 20)] {
            let (mut engine, _notify) = engine(20);
            // Events on these sockets require no work.
            let sockets: Vec<_> = (0..ready).map(|_| UnixStream::pair().unwrap()).collect();
            for (near, far) in &sockets {
                engine.context.poller.add(near, NOTIFY, false).unwrap();
                io::Write::write_all(&mut &*far, b"x").unwrap();
            }
            let events = engine.context.poller.wait(Duration::ZERO).unwrap();
            engine.take_events(events);
            assert_eq!(engine.context.record.sent, sent, "{events}");
        }
    }
}
