//! Chooses the queries to watch and their time scales, and records their results.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use super::book::{Book, Measure};
use super::hints::Hints;
use super::learned::{Exploration, Record, Tried};
use super::pace::Pace;
use super::{Audited, Rescue, Version};
use crate::cell::Core;
use crate::hedge::histogram::{OCTAVE, bin};
use crate::id::{CopyId, QueryId, ServerId};
use crate::time::{NEVER_NS, Timestamp};

/// A cost hint of this value is equivalent to no hint.
pub const USUAL_COST: f64 = 1e6;

/// The minimum cost, relative to the mean: lower costs count as this one. Otherwise an unknown
/// round trip would make the relative ages of cheap queries large, and T too late for other
/// queries. A rescue of a cheaper query is not worth its round trip.
const CHEAPEST: f64 = 0.25;

const COMPARED_EVERY: u32 = 64;

/// A server counts as slow only if its mean is at least this number of bins above the fastest. This
/// corresponds to a run time that is 1.5 times as long.
const NOTICEABLE: f32 = 8.0;

#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// The pace of each server. `None` until a copy has run there.
    paces: Vec<Option<Pace>>,
    /// The number of servers that are members of the cell.
    members: u32,
    /// The lowest mean of the paces of all members, in bins. It is infinite until the paces are first compared.
    fastest: f32,
    ran: u32,
    /// The number of servers whose pace was restarted.
    new: u32,
    /// A counter of queries, used to choose those to explore.
    seen: u32,
    /// Above zero if most recent queries have cost hints, otherwise zero or below.
    hinted: i8,
    hints: Hints,
}

impl Watch {
    pub(super) fn new(servers: usize) -> Self {
        let paces = vec![None; servers];
        Self {
            paces,
            members: servers as u32,
            fastest: f32::INFINITY,
            ran: 0,
            new: 0,
            seen: 0,
            hinted: 0,
            hints: Hints::default(),
        }
    }

    /// The cost of a query relative to other queries. `None` if it is not comparable to recent
    /// queries, because they have hints and it has none, or the reverse.
    fn cost(&mut self, core: &Core, query: QueryId) -> Option<f64> {
        let hint = core.cost_hint_of(query);
        self.hinted = (self.hinted + if hint.is_some() { 1 } else { -1 }).clamp(-64, 64);
        let alike = hint.is_some() == (self.hinted > 0);
        let heeded = hint.filter(|_| self.hints.narrow());
        alike.then(|| heeded.map_or(1.0, relative_cost))
    }

    /// The typical run time of a server, divided by that of the fastest server. It is 1 if they
    /// differ too little. Servers are compared with each other, not with the past of the service:
    /// if all of them become slower, none counts as slow.
    fn slowness(&self, server: ServerId) -> f64 {
        let pace = self.paces[server.index()];
        let slower = pace.map_or(0.0, |pace| pace.mean() - self.fastest);
        if slower < NOTICEABLE { 1.0 } else { octaves(slower / OCTAVE as f32) }
    }

    /// Whether the pace of this server has changed so recently that its slowness is not known yet.
    /// False if the pace of all servers has changed.
    fn is_unsettled(&self, server: ServerId) -> bool {
        let is_new = self.paces[server.index()].is_some_and(Pace::is_new);
        is_new && self.new < self.members
    }

    /// Records the run time of a first copy, relative to the cost of its query.
    fn ran(&mut self, core: &Core, server: ServerId, ns: u64) {
        let pace = &mut self.paces[server.index()];
        let was_new = pace.is_some_and(Pace::is_new);
        match pace {
            Some(pace) => pace.add(bin(ns)),
            None => *pace = Some(Pace::new(bin(ns))),
        }
        let is_new = pace.is_some_and(Pace::is_new);
        self.new = self.new + u32::from(is_new) - u32::from(was_new);
        self.ran = self.ran.wrapping_add(1);
        if self.ran.is_multiple_of(COMPARED_EVERY) {
            self.compare(core);
        }
    }

    fn compare(&mut self, core: &Core) {
        let members = (0..).zip(&self.paces).filter(|&(at, _)| core.is_member(ServerId(at)));
        let means = members.filter_map(|(_, pace)| *pace).map(Pace::mean);
        self.fastest = means.fold(f32::INFINITY, f32::min);
    }

    /// Forgets the pace of a server that has left or joined.
    pub(super) fn forget(&mut self, core: &Core, server: ServerId) {
        let pace = self.paces[server.index()].take();
        self.new -= u32::from(pace.is_some_and(Pace::is_new));
        let all = (0..self.paces.len() as u32).map(ServerId);
        self.members = all.filter(|&server| core.is_member(server)).count() as u32;
        if self.fastest < f32::INFINITY {
            self.compare(core);
        }
    }
}

/// The cost of a query, relative to the mean.
fn relative_cost(hint: NonZeroU64) -> f64 {
    (hint.get() as f64 / USUAL_COST).max(CHEAPEST)
}

/// Returns 2 to a nonnegative power, to within 6 %. Interpolates linearly between whole powers.
fn octaves(power: f32) -> f64 {
    let whole = (power as u32).min(32);
    let part = f64::from(power) - f64::from(whole);
    (1_u64 << whole) as f64 * (1.0 + part.min(1.0))
}

impl Rescue {
    /// Begins to watch a query when its first copy begins. The age of the query is measured from
    /// `first_at`. Sets the ages that matter and a timer for the next one. Returns true if an idle
    /// server may run a second copy immediately.
    pub(super) fn begin(&mut self, core: &mut Core, query: QueryId, first_at: Timestamp) -> bool {
        if self.books.len() <= query.index() {
            self.books.resize(query.index() + 1, Book::NONE);
        }
        self.books[query.index()] = Book::NONE;
        let Some(first) = core.copies_of(query).next().filter(|_| core.may_duplicate(query)) else {
            return false;
        };
        let Some(cost) = self.watch.cost(core, query) else { return false };
        let unusual_ns = self.learned.unusual_ns;
        if self.watch.is_unsettled(first.server) {
            let server = first.server;
            let book = Book { first_at, server, cost, idle_ns: unusual_ns, ..Book::NONE };
            self.books[query.index()] = book;
            if unusual_ns != NEVER_NS {
                core.set_timer_of_live(query, book.idle_at());
            }
            return false;
        }
        let slowness = self.watch.slowness(first.server);
        let measure = Measure::stretched(cost * slowness, self.learned.round_trip_ns);
        let suspect_ns = measure.absolute(self.learned.suspect_ns);
        let give_up_ns = measure.absolute(self.learned.give_up_ns).max(suspect_ns);
        let explore_ns = measure.absolute(self.explore_ns());
        let at_once = self.version == Version::Preempt && self.learned.at_once;
        let evidence_ns = explore_ns.min(suspect_ns);
        // A query on a slow server is better off on another server. An expensive query may also be
        // stuck, if there are hiccups.
        let unusual = slowness > 1.0 || (cost != 1.0 && suspect_ns != NEVER_NS);
        let idle_ns = if unusual { explore_ns.min(unusual_ns) } else { explore_ns };
        let book = Book {
            first_at,
            server: first.server,
            waited_ns: core.now().since(first.started),
            lead_ns: core.now().since(first_at),
            cost,
            measure,
            suspect_ns,
            give_up_ns,
            idle_ns: if at_once { 0 } else { idle_ns },
            evidence_ns,
            is_settled: true,
            ..Book::NONE
        };
        self.books[query.index()] = book;
        let next =
            if at_once { book.suspect_at() } else { first_at.after(suspect_ns.min(idle_ns)) };
        if next != Timestamp::NEVER {
            core.set_timer_of_live(query, next);
        }
        at_once
    }

    /// The relative age at which this query may be explored.
    fn explore_ns(&mut self) -> u64 {
        self.watch.seen = self.watch.seen.wrapping_add(1);
        let due = |e: &&Exploration| self.watch.seen.is_multiple_of(e.every.max(1));
        let ages = self.learned.explore.iter().filter(due).map(|exploration| exploration.age_ns);
        ages.min().unwrap_or(NEVER_NS)
    }

    /// Records the result of a query that ends with the response of a copy. Returns true if the
    /// first copy should run on.
    pub(super) fn record(&mut self, core: &Core, query: QueryId, copy: CopyId) -> bool {
        let Some(book) = self.books.get(query.index()).copied().filter(Book::is_watched) else {
            return false;
        };
        let now = core.now();
        let crowded = core.waiting(core.group_of(query)) > 0 || self.is_crowded(book.server);
        let age_ns = now.since(book.first_at);
        let won = book.second.filter(|second| second.id == copy);
        if won.is_some_and(|second| second.paid) {
            self.budget.refund(core.arrivals());
        }
        // If the first copy lost, its run time is at least this age.
        let trip_ns = self.learned.round_trip_ns;
        self.watch.ran(core, book.server, Measure::stretched(book.cost, trip_ns).relative(age_ns));
        if let Some(hint) = core.cost_hint_of(query).filter(|_| book.second.is_none()) {
            let served_ns = age_ns.saturating_sub(trip_ns);
            self.watch.hints.ran(served_ns, relative_cost(hint));
        }
        if book.cost != 1.0 {
            self.records.push(Record::Answered { age_ns });
        }
        let Some(second) = won else {
            let tried = self.tried(&book, age_ns).filter(|_| book.second.is_some());
            if book.is_settled && !self.watch.is_unsettled(book.server) {
                let ran_ns = book.measure.relative(age_ns);
                self.records.push(Record::First { ran_ns, tried, crowded });
                self.record_run(&book, age_ns);
            }
            return false;
        };
        if self.watch.is_unsettled(book.server) || !second.has_begun() {
            return false;
        }
        let ran_ns = book.measure.relative(now.since(second.started));
        let lead_ns = book.measure.relative(second.started.since(book.first_at));
        if lead_ns < ran_ns / 4 {
            // The two copies started at nearly the same time, so the win of one is not evidence
            // that the other was stuck.
            let ran_ns = book.measure.relative(age_ns);
            self.records.push(Record::First { ran_ns, tried: None, crowded });
            return false;
        }
        self.records.push(Record::Second { ran_ns, tried: self.tried(&book, age_ns), crowded });
        self.audits(core, query, &book, ran_ns)
    }

    /// The evidence that the second copy of a query provides if the query ends at this age. `None`
    /// if the result of that copy is not evidence.
    fn tried(&self, book: &Book, age_ns: u64) -> Option<Tried> {
        let lead_ns = book.second.map_or(0, |second| second.started.since(book.first_at));
        let from_ns = lead_ns.max(book.evidence_ns);
        // A second copy that started late is evidence only about older queries.
        let late = lead_ns > book.evidence_ns.saturating_add(book.evidence_ns / 4);
        (book.evidence_ns != NEVER_NS && age_ns >= from_ns && !late).then(|| {
            let until_ns = book.measure.relative(age_ns.min(book.suspect_ns));
            let from = book.measure.relative(from_ns);
            let risked_ns = until_ns.saturating_sub(from);
            Tried { age_ns: from, rescue: from_ns >= book.suspect_ns, risked_ns }
        })
    }

    /// Records that the second copy of a query is about to be stopped because its slot is needed.
    pub(super) fn displaced(&mut self, core: &Core, query: QueryId) {
        let book = self.books[query.index()];
        let tried = self.tried(&book, core.now().since(book.first_at));
        if let Some(Tried { risked_ns, .. }) = tried.filter(|_| book.is_settled) {
            self.records.push(Record::Displaced { risked_ns });
        }
    }

    /// Decides whether the first copy runs on, to measure how long it is stuck. Only one copy at a
    /// time runs on in this way, because it keeps a slot that would otherwise be free.
    fn audits(&mut self, core: &Core, query: QueryId, book: &Book, second_ns: u64) -> bool {
        let second = book.second.map(|second| second.id);
        let first = core.copies_of(query).find(|copy| Some(copy.id) != second && !copy.stopping);
        let Some(first) = first else { return false };
        // Copies that wait behind the audited copy would be stuck with it. But until one audit has
        // ended, no rescue is known to pay off.
        let harms = self.is_crowded(first.server) && self.learned.audit_every > 0;
        if self.audited.is_some() || harms || !self.is_audited(first.id) {
            return false;
        }
        let Book { first_at: since, measure, .. } = *book;
        self.audited = Some(Audited { copy: first.id, since, measure, second_ns });
        true
    }

    /// Returns true for one copy in `audit_every`, chosen by a hash. All cells use the same number,
    /// so a counter in each cell would audit too often at first.
    fn is_audited(&self, copy: CopyId) -> bool {
        let every = self.learned.audit_every;
        let mixed = copy.serial.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        every != u32::MAX && mixed.is_multiple_of(u64::from(every.max(1)))
    }

    #[inline(always)]
    pub(super) fn audits_copy(&self, copy: CopyId) -> bool {
        self.audited.is_some_and(|audited| audited.copy == copy)
    }

    /// Ends the audit of a copy that has ended or is being stopped, if it was audited.
    pub(super) fn end_audit(&mut self, core: &Core, copy: CopyId) {
        let Some(audited) = self.audited.take_if(|audited| audited.copy == copy) else { return };
        let Audited { since, measure, second_ns, .. } = audited;
        let ran_ns = measure.relative(core.now().since(since));
        self.records.push(Record::Audit { ran_ns, second_ns });
    }
}
