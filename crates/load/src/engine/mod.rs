//! One thread that keeps the time, sends and receives.
//!
//! The thread that waits for a request's time sends it itself, on connections of its own: a hand-over
//! to another thread costs a wake-up, which takes longer than many services. So that nothing else
//! makes it late, it does in one turn only as much as takes some microseconds.
//!
//! # How it waits
//!
//! Long before the next request is due it sleeps until a socket is ready; then it looks at the
//! sockets again and again; and for the last microseconds it looks only at the clock (`clock`).

mod clock;
mod connection;
mod flight;
pub(crate) mod observe;
mod poller;
mod pool;
mod rest;
pub mod stamp;
pub(crate) mod threads;
mod wire;

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use curtail_xdp::Bypass;

use crate::engine::observe::Observer;
use crate::engine::stamp::Realtime;
use crate::results::outcome::Outcome;
use crate::results::record::Record;
use crate::results::sends::Keep;
use crate::session::{Sessions, Token};
pub(crate) use clock::Clock;
use clock::{Waited, Waiting};
use connection::Connection;
pub(crate) use flight::Source;
use flight::{Due, Flight};
use poller::Poller;
use pool::{Placed, Pool};
use rest::Rest;
use wire::Scratch;

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
    pub(crate) stamps: bool,
    pub(crate) bypass: Option<Arc<Bypass>>,
    /// How it is to go on; a byte on the other end of the wake-up says to a thread that sleeps that it
    /// has changed.
    pub(crate) orders: Arc<Orders>,
    pub(crate) wake: UnixStream,
    /// Empty records come, and what was measured goes in exchange: a record is a megabyte of histograms, to
    /// copy it would make the next requests late, and a lock around it would cost every request.
    pub(crate) empty: Receiver<Box<Record>>,
    pub(crate) full: SyncSender<Box<Record>>,
    pub(crate) warmup_ns: u64,
    pub(crate) observer: Observer,
}

#[derive(Debug, Default)]
pub(crate) struct Orders {
    pub(crate) stop: AtomicBool,
    /// Send nothing more, and end when all is answered.
    pub(crate) drain: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct Measured {
    /// What it has not handed over before.
    pub(crate) record: Box<Record>,
    pub(crate) last_ns: u64,
}

#[derive(Debug)]
struct Context {
    task: Task,
    poller: Poller,
    scratch: Scratch,
    /// To understand the kernel's timestamps, where they are wanted.
    stamps: Option<Realtime>,
    outcomes: Vec<Outcome>,
    again: Vec<Flight>,
    record: Box<Record>,
}

const WAKE: u64 = u64::MAX;
/// Most requests that are sent in one turn, before answers get theirs.
const SENDS_MAX: usize = 32;
/// Most sockets that are looked at before what has become due meanwhile is sent.
const LOOKS_MAX: usize = 8;
/// What takes some microseconds and can wait is done only if nothing is due for so long.
const QUIET_NS: i64 = 100_000;

#[derive(Debug)]
struct Engine {
    source: Source,
    context: Context,
    pool: Pool,
    /// First those of the pool, then those that a server is leaving.
    connections: Vec<Connection>,
    /// Places of `connections` behind the pool's that nobody has.
    vacant: Vec<usize>,
    /// Requests under way by their index, which is the order in which they are given up: the intended
    /// time, the connection and the token there.
    flying: BTreeMap<u64, (u64, usize, Token)>,
    rest: Rest,
    keep: Keep,
    last_ns: u64,
}

pub(crate) fn run(source: Source, task: Task) -> io::Result<Measured> {
    let mut waiting = Waiting::new(task.spin);
    let mut engine = Engine::new(source, task)?;
    while !engine.context.task.orders.stop.load(Ordering::Relaxed) {
        if engine.context.task.orders.drain.load(Ordering::Relaxed) {
            engine.source = Source::Over;
        }
        engine.rouse();
        engine.send_due(engine.context.task.clock.now_ns());
        engine.send_waiting();
        engine.expire();
        let Some(wake_ns) = engine.wake_ns() else { break };
        let now_ns = engine.context.task.clock.now_ns();
        if engine.due_ns().is_none_or(|due_ns| due_ns - now_ns > QUIET_NS) {
            engine.context.task.observer.flush();
        }
        engine.context.hand_over();
        match waiting.wait(engine.context.task.clock, wake_ns, &mut engine.context.poller)? {
            Waited::Events(events) => engine.take_events(events),
            // Before anything else, for that would be lag.
            Waited::Due(now_ns) => engine.send_due(now_ns),
        }
    }
    let Context { mut task, mut record, stamps, .. } = engine.context;
    record.unobserved = task.observer.finish();
    record.clock_steps = stamps.as_ref().map_or(0, Realtime::steps);
    Ok(Measured { record, last_ns: engine.last_ns })
}

impl Context {
    fn new(task: Task) -> io::Result<Context> {
        let poller = Poller::new()?;
        poller.add(&task.wake, WAKE, false)?;
        Ok(Context {
            poller,
            scratch: Scratch::new(),
            stamps: task.stamps.then(|| Realtime::new(task.clock.moment(0))),
            outcomes: Vec::new(),
            again: Vec::new(),
            record: Box::new(Record::with_room(0, task.warmup_ns)),
            task,
        })
    }

    fn hand_over(&mut self) {
        if let Ok(empty) = self.task.empty.try_recv() {
            // There is room: whoever offers one has taken the last.
            let _ = self.task.full.try_send(std::mem::replace(&mut self.record, empty));
        }
    }

    fn take(&mut self, outcome: Outcome) {
        self.record.add(&outcome, self.task.warmup_ns);
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
            flying: BTreeMap::new(),
            rest: Rest::default(),
            keep: Keep::new(task.threads),
            last_ns: 0,
            context: Context::new(task)?,
        })
    }

    fn due_ns(&mut self) -> Option<i64> {
        self.source.due_ns(self.pool.has_free())
    }

    fn wake_ns(&mut self) -> Option<i64> {
        let flying = self.flying.first_key_value().map(|(_, (at_ns, ..))| *at_ns);
        let oldest = flying.into_iter().chain(self.pool.oldest_ns()).min();
        let deadline = oldest.map(|at_ns| at(at_ns.saturating_add(self.context.task.timeout_ns)));
        let rested = self.rest.first_ns().filter(|_| self.source.wants_room()).map(at);
        self.due_ns().into_iter().chain(deadline).chain(rested).min()
    }

    fn send_due(&mut self, mut now_ns: i64) {
        for _ in 0..SENDS_MAX {
            let Some(slot) = self.source.next(now_ns, self.pool.has_free()) else { return };
            self.last_ns = slot.at_ns;
            match self.pool.place(slot) {
                Placed::On(id) => self.send(id, Due::New(slot), now_ns.unsigned_abs()),
                Placed::Waits => self.context.record.waited += u64::from(!slot.warmup),
                Placed::Dropped => self.context.record.add_dropped(slot),
            }
            now_ns = self.context.task.clock.now_ns();
        }
    }

    fn send(&mut self, id: usize, due: Due, now_ns: u64) {
        let (slot, new) = (due.slot(), matches!(due, Due::New(_)));
        let token = self.connections[id].send(due, now_ns, &mut self.context);
        if let Some(token) = token {
            self.flying.insert(slot.index, (slot.at_ns, id, token));
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
            // It waited for a connection in vain.
            self.context.record.sent += u64::from(matches!(due, Due::New(_)));
            self.context.take(due.given_up(now_ns));
        }
        while let Some((&index, &(at_ns, id, token))) = self.flying.first_key_value() {
            if at_ns > until_ns {
                return;
            }
            self.flying.remove(&index);
            self.connections[id].expire(token, &mut self.context);
            self.settle(id);
        }
    }

    fn take_events(&mut self, events: usize) {
        for at in 0..events {
            if at > 0 && at.is_multiple_of(LOOKS_MAX) {
                self.send_due(self.context.task.clock.now_ns());
            }
            let ready = self.context.poller.ready(at);
            let Some(connection) = self.connections.get_mut(ready.id as usize) else {
                self.woken();
                continue;
            };
            connection.ready(ready.readable || ready.error, &mut self.context);
            self.settle(ready.id as usize);
        }
    }

    fn woken(&mut self) {
        let mut byte = [0; 8];
        // Without a byte there is nothing to take.
        let _ = (&self.context.task.wake).read(&mut byte);
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

    fn note(&mut self, id: usize) {
        let mut outcomes = std::mem::take(&mut self.context.outcomes);
        for outcome in outcomes.drain(..) {
            self.flying.remove(&outcome.slot.index);
            self.context.take(outcome);
        }
        // Its memory is used again.
        self.context.outcomes = outcomes;
        let handed_back = !self.context.again.is_empty();
        for flight in self.context.again.drain(..) {
            self.flying.remove(&flight.slot.index);
            self.pool.put_back(flight);
        }
        if self.has_moved_out(id) {
            return self.give_up_place(id);
        }
        self.move_out(id);
        let connection = &self.connections[id];
        let (outstanding, mut room) = (connection.outstanding(), connection.has_room());
        if self.source.wants_room()
            && let Some(in_vain) = connection.closed_in_vain()
        {
            self.rest.begin(id, in_vain, self.context.task.clock.elapsed_ns());
            room = false;
        }
        let opens_anew = room && connection.is_closed();
        self.pool.put(id, outstanding, room);
        // Others that are open may have been closed as well, which nobody knows yet.
        if handed_back
            && opens_anew
            && let Some(due) = self.pool.next_again()
        {
            self.send(id, due, self.context.task.clock.elapsed_ns());
        }
    }

    fn rouse(&mut self) {
        if self.rest.first_ns().is_none() {
            return;
        }
        let now_ns = self.context.task.clock.elapsed_ns();
        while let Some(id) = self.rest.over(now_ns) {
            let connection = &self.connections[id];
            self.pool.put(id, connection.outstanding(), connection.has_room());
        }
        // What was handed back comes before what is new.
        self.send_waiting();
    }
}

fn at(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Connections that a server is leaving: they take no further request, but some are still on them
/// (RFC 9113 §6.8).
///
/// A user's client opens another one at once, and so does this one: a leaving connection gives its place to
/// another, and ends when its last request has. There are as many of them at most as the plan has
/// connections; beyond that they stay where they are, and requests wait. Cost: O(requests on it).
impl Engine {
    /// Makes room for another connection in the place of this one, if the server is leaving it.
    pub(super) fn move_out(&mut self, id: usize) {
        if !self.is_leaving(id) {
            return;
        }
        let Some(place) = self.other_place() else { return };
        self.connections.swap(id, place);
        // It is closed, and nobody knows it yet.
        self.connections[id].moved(id, &self.context.poller);
        self.connections[place].moved(place, &self.context.poller);
        for index in self.connections[place].requests() {
            if let Some((_, at, _)) = self.flying.get_mut(&index) {
                *at = place;
            }
        }
    }

    pub(super) fn has_moved_out(&self, id: usize) -> bool {
        id >= self.context.task.connections
    }

    pub(super) fn give_up_place(&mut self, id: usize) {
        if self.connections[id].is_closed() && !self.vacant.contains(&id) {
            self.vacant.push(id);
        }
    }

    fn is_leaving(&self, id: usize) -> bool {
        !self.has_moved_out(id) && self.connections[id].is_leaving()
    }

    fn other_place(&mut self) -> Option<usize> {
        if let Some(vacant) = self.vacant.pop() {
            return Some(vacant);
        }
        let place = self.connections.len();
        if place >= 2 * self.context.task.connections {
            return None;
        }
        self.connections.push(Connection::new(place));
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::share::{Part, Share};
    use crate::plan::{Extent, Plan};
    use std::sync::mpsc::sync_channel;
    use std::time::{Duration, Instant};

    /// A task without orders, and the other end of its wake-up.
    pub(super) fn task(
        plan: &Plan,
        server: SocketAddr,
        bypass: Option<Arc<Bypass>>,
    ) -> (Task, UnixStream) {
        let (woken, wake) = UnixStream::pair().unwrap();
        woken.set_nonblocking(true).unwrap();
        let task = Task {
            clock: Clock::new(Instant::now() - Duration::from_secs(1)),
            addresses: [server].into(),
            sessions: Arc::new(Sessions::prepare(plan, false).unwrap()),
            connections: 1,
            threads: 1,
            backlog_max: 0,
            timeout_ns: plan.timeout_ns,
            spin: false,
            stamps: false,
            bypass,
            orders: Arc::default(),
            wake: woken,
            empty: sync_channel(1).1,
            full: sync_channel(1).0,
            warmup_ns: 0,
            observer: Observer::new(None),
        };
        (task, wake)
    }

    fn engine(requests: u64) -> (Engine, UnixStream) {
        // Nobody is asked: the socket is not looked at once more.
        let mut plan = Plan::new("udp://127.0.0.1:1".parse().unwrap(), 1e6);
        plan.extent = Extent::Requests(requests);
        let (task, wake) = task(&plan, SocketAddr::from(([127, 0, 0, 1], 1)), None);
        let share = Share::new(&plan, plan.schedule().unwrap(), Part::WHOLE, 0);
        (Engine::new(Source::open(share), task).unwrap(), wake)
    }

    #[test]
    fn a_record_is_handed_over_once_for_each_offer() {
        let plan = Plan::new("udp://127.0.0.1:1".parse().unwrap(), 1.0);
        let (mut task, _wake) = task(&plan, SocketAddr::from(([127, 0, 0, 1], 1)), None);
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
    fn what_falls_due_is_sent_though_many_sockets_are_ready() {
        for (ready, sent) in [(8, 0), (9, 20), (30, 20)] {
            let (mut engine, _wake) = engine(20);
            // Nothing has to be done for these.
            let sockets: Vec<_> = (0..ready).map(|_| UnixStream::pair().unwrap()).collect();
            for (near, far) in &sockets {
                engine.context.poller.add(near, WAKE, false).unwrap();
                io::Write::write_all(&mut &*far, b"x").unwrap();
            }
            let events = engine.context.poller.wait(Duration::ZERO).unwrap();
            engine.take_events(events);
            assert_eq!(engine.context.record.sent, sent, "{events}");
        }
    }
}
