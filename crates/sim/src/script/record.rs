//! A log of a cell's events and actions, in order.
//!
//! A [`Recorder`] is a cell that wraps another cell, so any driver of cells can be recorded without
//! changes: the simulator, and the runtime with its sockets. Cost with a recorder: one short lock
//! and a few bytes per event and action.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curtail_kernel::hedge::{Records, Snapshot};
use curtail_kernel::{
    Action, Core, Event, Feedback, Needs, QueryId, Scheduler, ServerId, Timestamp,
};

/// An event for a cell, or an action of the cell.
///
/// Queries are numbered in order of arrival, from 0. The log does not depend on the driver's ids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// The time of the event or action.
    pub at: Timestamp,
    /// The event or action.
    pub what: Note,
}

/// See [`Entry`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Note {
    /// An event for the cell.
    Event(Event),
    /// An action of the cell.
    Action(Action),
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Timestamp(ns) = self.at;
        write!(f, "{:>8}.{:06} ms  ", ns / 1_000_000, ns % 1_000_000)?;
        match &self.what {
            Note::Event(event) => write_event(event, f),
            Note::Action(action) => write_action(action, f),
        }
    }
}

fn write_event(event: &Event, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match event {
        Event::Arrive(arrive) => write!(f, "q{} arrives", arrive.query.0),
        Event::Finished { copy, outcome } => write!(f, "c{} finished: {outcome:?}", copy.serial),
        Event::Stopped { copy } => write!(f, "c{} stopped", copy.serial),
        Event::Abandoned { query } => write!(f, "q{} is abandoned", query.0),
        Event::ServerUp { server } => write!(f, "s{} is up", server.0),
        Event::ServerUnhealthy { server, .. } => write!(f, "s{} is unhealthy", server.0),
        Event::ServerDraining { server } => write!(f, "s{} is draining", server.0),
        Event::ServerDown { server } => write!(f, "s{} is down", server.0),
        Event::Tick => write!(f, "tick"),
        Event::Received { copy, bytes } => write!(f, "c{} received: {bytes}", copy.serial),
        Event::Feedback { copy, feedback } => {
            let Feedback { queue, service_ns } = feedback;
            write!(f, "c{}'s server: {queue} left, {service_ns} ns of service", copy.serial)
        }
        other => write!(f, "{other:?}"),
    }
}

fn write_action(action: &Action, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match action {
        Action::Start { copy, query, server, role, why } => {
            write!(f, "-> start c{} of q{} on s{}", copy.serial, query.0, server.0)?;
            write!(f, ": {role:?}, {why:?}")
        }
        Action::Stop { copy, why } => write!(f, "-> stop c{}: {why:?}", copy.serial),
        Action::Answer { query, copy } => write!(f, "-> answer q{} by c{}", query.0, copy.serial),
        Action::Fail { query, why, .. } => write!(f, "-> fail q{}: {why:?}", query.0),
        Action::Shed { query, why } => write!(f, "-> shed q{}: {why:?}", query.0),
        Action::Lose { copy } => write!(f, "-> lose c{}", copy.serial),
        Action::Eject { server, why } => write!(f, "-> eject s{}: {why:?}", server.0),
        Action::Restore { server } => write!(f, "-> restore s{}", server.0),
        Action::Probe { server } => write!(f, "-> probe s{}", server.0),
    }
}

/// The entries that a [`Recorder`] has recorded. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<Entry>>>);

impl Log {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the entry with this number, if it already exists. Entries are numbered from 0.
    pub fn get(&self, at: usize) -> Option<Entry> {
        self.lock().get(at).copied()
    }

    /// Removes and returns all entries.
    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.lock())
    }
}

/// A cell that records its events and actions.
pub struct Recorder {
    cell: Box<dyn Scheduler>,
    log: Log,
    arrived: u32,
    /// The number of each query, by the driver's id.
    numbers: Vec<u32>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("log", &self.log).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Wraps a cell that has not received any events yet.
    pub fn new(cell: Box<dyn Scheduler>) -> Self {
        Self { cell, log: Log::default(), arrived: 0, numbers: Vec::new() }
    }

    /// Returns the log of its past and future events and actions.
    pub fn log(&self) -> Log {
        self.log.clone()
    }

    fn number(&mut self, query: QueryId) {
        if self.numbers.len() <= query.index() {
            self.numbers.resize(query.index() + 1, 0);
        }
        self.numbers[query.index()] = self.arrived;
        self.arrived += 1;
    }
}

impl Scheduler for Recorder {
    fn handle(&mut self, now: Timestamp, event: &Event) -> &[Action] {
        if let Event::Arrive(arrive) = event {
            self.number(arrive.query);
        }
        let Self { cell, log, numbers, .. } = self;
        let numbered = |query: &mut QueryId| *query = QueryId(numbers[query.index()]);
        let mut recorded = *event;
        match &mut recorded {
            Event::Arrive(arrive) => numbered(&mut arrive.query),
            Event::Abandoned { query } => numbered(query),
            _ => {}
        }
        let actions = cell.handle(now, event);
        let mut log = log.lock();
        log.push(Entry { at: now, what: Note::Event(recorded) });
        for mut action in actions.iter().copied() {
            match &mut action {
                Action::Start { query, .. }
                | Action::Answer { query, .. }
                | Action::Fail { query, .. }
                | Action::Shed { query, .. } => numbered(query),
                Action::Stop { .. }
                | Action::Lose { .. }
                | Action::Eject { .. }
                | Action::Restore { .. }
                | Action::Probe { .. } => {}
            }
            log.push(Entry { at: now, what: Note::Action(action) });
        }
        actions
    }

    fn next_deadline(&self) -> Timestamp {
        self.cell.next_deadline()
    }

    fn core(&self) -> &Core {
        self.cell.core()
    }

    fn score(&self, server: ServerId) -> Option<f64> {
        self.cell.score(server)
    }

    fn suspects(&self) -> u32 {
        self.cell.suspects()
    }

    fn needs(&self) -> Needs {
        self.cell.needs()
    }

    fn publish(&mut self, into: &mut Records) {
        self.cell.publish(into);
    }

    fn adopt(&mut self, snapshot: &Snapshot) {
        self.cell.adopt(snapshot);
    }
}
