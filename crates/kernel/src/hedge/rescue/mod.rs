//! Rescue: gives second copies to the few queries that are probably stuck, before any waiting query
//! is served.
//!
//! Source: our own. Document 000 §8.1 calls for a framework that chooses the right behavior
//! automatically. 001 §2.5 states that hedging cannot help beyond 60 % utilization, because
//! Idealized Hedge then equals per-shard queuing. That bound holds for policies that serve every
//! waiting query before any second copy. But a stuck query also blocks a server, so rescuing it
//! first helps all queries.
//!
//! The *age* of a query is the time since its first copy began to execute. A query that has one
//! copy and an age of at least T is a *suspect*. The service learns T ([`RescueLearner`]).
//!
//! - *Cleanup*: a server that becomes free takes the oldest suspect before it serves the queue.
//!   When a query becomes a suspect, it gets its second copy immediately if a server is idle. When
//!   one copy wins, the other is stopped.
//! - *Pre-empt*: in addition, an idle server immediately duplicates the oldest query with one copy.
//!   If no server is idle and a query or a suspect waits, the newer copy of the youngest pair is
//!   stopped, but never a copy of a pair whose older copy has reached T.
//! - *No cancel*: like cleanup, but losers run to completion, and a suspect overtakes only short
//!   queues.
//!
//! *Give-up*: a rescue that has run for longer than nearly all queries do is given up. Its query is
//! long, not stuck, and is never rescued again. The second copy is stopped as soon as another query
//! waits for its slot. If hiccups are so frequent that both copies may be stuck, one of them is
//! stopped instead, and the query is rescued again alongside the other. This happens at most once
//! per query.
//!
//! *Exploration*: until there is enough evidence from rescues, idle servers run second copies of a
//! few queries early. Such a copy is stopped when a query waits. In the same way, an idle server
//! runs a second copy of a query that is older than most queries, but not unusually old for its
//! cost or its server.
//!
//! *Load bias*: a server whose copy lost to a rescue may be in trouble as a whole, so other servers
//! are preferred until it responds again.
//!
//! *Prefetch*: if round trips are long (`trip.rs`), or behind a gate that is wider than the slots,
//! this is rescue over JBSQ. Copies wait at their servers and do not age while they wait
//! (`backlog.rs`). The second copy of a suspect goes to the first server with room, before any
//! later query, and may wait there like other copies. If servers cannot stop copies, it goes only
//! to idle servers, like all other second copies. An exploration makes room for the queries that
//! wait at its server.
//!
//! *Without slots* (`rescue+PICK`): rescue runs behind a push gate, for servers whose number of
//! slots is unknown (`places.rs`). The pick immediately chooses a server for the second copy of a
//! suspect. Everything above about slots then refers to the number of slots that the service has
//! learned.
//!
//! Bounds: at most two copies per query. Lost rescues are limited to the budget's share of queries,
//! plus an accumulated reserve. Between two suspects that overtake its queue, a server serves one
//! query from the queue. Without evidence that rescues pay off, T is infinite and this is per-shard
//! queuing.
//!
//! Cost: O(log n) in the running queries of the group. Memory: proportional to the running queries,
//! plus a bounded list of records.

mod backlog;
mod book;
mod cold;
mod hints;
mod learned;
mod learner;
mod lists;
mod pace;
mod places;
mod threshold;
mod tries;
mod trip;
mod watch;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use self::backlog::Backlog;
use self::book::{Book, Measure, Second};
use self::lists::{List, Lists};
use self::places::Line;
use super::learning::{AnyLearner, AnyLearns, Journal, Learns};
use super::rule::{Hedge, NewHedge};
use crate::action::{Role, StartReason, StopReason};
use crate::balance::Pick;
use crate::cell::{Budget, CopyView, Core};
use crate::config::{Gate, Limits, Site};
use crate::descriptor::{Arguments, Compiled, Conduct, Descriptor, Needs};
use crate::id::{CopyId, GroupId, QueryId, ServerId};
use crate::time::Timestamp;

pub use learned::{Exploration, Prefetch, Record, Replaced, Snapshot, Status, Tried};
pub use learner::RescueLearner;
pub use watch::USUAL_COST;

/// `rescue`, which uses no cancellation if servers cannot stop copies. With a pick and without a
/// gate, it runs without slots, except for the pre-emptive version, which needs them.
pub static RESCUE: Descriptor<NewHedge> = Descriptor {
    name: "rescue",
    forms: &["rescue", "rescue:preempt", "rescue:no-cancel", "rescue+PICK"],
    about: "a second copy of queries that are probably stuck",
    needs: |of| Needs { cancellation: version(of) == Version::Preempt, ..NEEDS },
    builds: NewHedge {
        learner: |of, limits, gate| {
            let version = version(of).fit(limits);
            let learner = RescueLearner::new(version, limits.rescue_budget);
            let pushes = gate == Gate::Outstanding;
            Some(AnyLearner::new(if pushes { learner.without_slots() } else { learner }))
        },
        slotless: |of| version(of) != Version::Preempt,
        without_cancellation: "rescue",
        fills_idle_slots: |of| version(of) == Version::Preempt,
        simulation_cost: |_| 3.5,
        ..NewHedge::pull(|of, site| Box::new(Rescue::named(of, site)))
    },
};

const NEEDS: Needs = Needs { timers: true, hints: true, budget: true, ..Needs::NOTHING };

fn version(of: &Arguments) -> Version {
    Version::ALL[of.form]
}

/// How rescue uses cancellation. The variants are in the order of the forms of [`RESCUE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// Stops losers, and explorations whose slot is needed. Servers must be able to stop copies.
    Cleanup,
    /// Like `Cleanup`, but every query is duplicated if a slot is idle. Servers must stop copies
    /// quickly.
    Preempt,
    /// Stops nothing.
    NoCancel,
}

impl Version {
    /// Every version, in the order of the forms of [`RESCUE`].
    pub const ALL: [Self; 3] = [Self::Cleanup, Self::Preempt, Self::NoCancel];

    /// Returns this version if servers can stop copies, otherwise the version that uses no
    /// cancellation.
    #[must_use]
    pub fn fit(self, limits: &Limits) -> Self {
        if limits.cancel { self } else { Self::NoCancel }
    }

    /// The name of the version.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cleanup => "cleanup",
            Self::Preempt => "preempt",
            Self::NoCancel => "no-cancel",
        }
    }
}

const RESERVE: u32 = 16;

/// The hedge that implements rescue in one cell.
#[derive(Clone, Debug)]
pub struct Rescue {
    version: Version,
    /// Limits lost rescues.
    budget: Budget,
    learned: Snapshot,
    lists: Lists,
    backlog: Backlog,
    /// The copies at each server. `None` if slots are known.
    line: Option<Line>,
    /// A counter of responses, used to record only some of them.
    responses: u32,
    books: Vec<Book>,
    /// For each server, whether it has served a suspect before its queue since it last served a
    /// query from the queue.
    overtaken: Vec<bool>,
    watch: watch::Watch,
    records: Journal<Record>,
    /// The first copy that is allowed to run on, to measure how long it is stuck.
    audited: Option<Audited>,
}

/// A first copy that runs on although the second one won.
#[derive(Clone, Copy, Debug)]
struct Audited {
    copy: CopyId,
    since: Timestamp,
    measure: Measure,
    /// The run time of the second copy, in relative ns.
    second_ns: u64,
}

impl Rescue {
    pub(crate) fn named(of: &Arguments, site: Site<'_>) -> Self {
        let Site { topology, limits, gate } = site;
        let (servers, budget) = (topology.servers.len(), limits.rescue_budget);
        Self {
            version: version(of).fit(limits),
            budget: Budget::new(budget, if budget > 0.0 { RESERVE } else { 0 }),
            learned: Snapshot::NOTHING,
            lists: Lists::new(topology.groups.len()),
            backlog: Backlog::default(),
            line: (gate == Gate::Outstanding).then(|| Line::new(servers)),
            responses: 0,
            books: Vec::new(),
            overtaken: vec![false; servers],
            watch: watch::Watch::new(servers),
            records: Journal::default(),
            audited: None,
        }
    }

    /// Whether servers can stop copies. If they can, second copies may also be cancelled.
    fn can_stop(&self, core: &Core) -> bool {
        self.version != Version::NoCancel && core.limits().cancel
    }

    fn may_rescue(&self, core: &Core) -> bool {
        self.budget.allows(core.arrivals())
    }

    /// Adds a query to the list where it belongs. The query must not be in any list yet.
    fn enlist(&mut self, core: &Core, query: QueryId) {
        let book = &self.books[query.index()];
        if !core.may_duplicate(query) || !book.is_watched() {
            return;
        }
        let (now, group) = (core.now(), core.group_of(query));
        let mut copies = core.copies_of(query);
        match (copies.next(), copies.next()) {
            (Some(only), None) if !only.stopping && !book.long => {
                if now >= book.suspect_at() {
                    self.lists.add(List::Suspects, group, query, book.first_at);
                } else if now >= book.idle_at() {
                    self.lists.add(List::Idle, group, query, book.first_at);
                }
            }
            (Some(newer), Some(older))
                if !newer.stopping
                    && !older.stopping
                    && (book.long || now < book.suspect_at())
                    && self.can_stop(core) =>
            {
                self.lists.add(List::Pairs, group, query, book.first_at);
            }
            _ => {}
        }
    }

    fn start(&mut self, core: &mut Core, query: QueryId, server: ServerId) {
        let book = &mut self.books[query.index()];
        let suspect = core.now() >= book.suspect_at();
        let why = match () {
            () if suspect => StartReason::Rescue,
            () if book.idle_ns == book.evidence_ns => StartReason::Explore,
            () => StartReason::Idle,
        };
        let id = core.start(query, server, Role::Duplicate, why);
        let waits = match &mut self.line {
            Some(line) => line.add(server, id, self.learned.slots),
            None => core.beyond_slots(server) > 0,
        };
        let started = if waits { Timestamp::NEVER } else { core.now() };
        book.second = Some(Second { id, started, paid: suspect });
        if suspect {
            // A rescue counts as evidence at the age T, even if an exploration of the same query
            // was stopped before.
            book.evidence_ns = book.suspect_ns;
            self.budget.spend(core.arrivals());
            self.await_end(core, query);
        } else {
            self.enlist(core, query);
        }
        if waits {
            self.wait(core, server, id);
        }
    }

    /// Sets a timer for the time at which a running rescue will have run for too long.
    fn await_end(&self, core: &mut Core, query: QueryId) {
        let Book { give_up_ns, second, .. } = self.books[query.index()];
        if let Some(second) = second.filter(Second::has_begun)
            && self.can_stop(core)
        {
            core.set_timer_of_live(query, second.started.after(give_up_ns));
        }
    }

    /// Whether a server that has room may get a second copy of a query from this list. The second
    /// copy of a suspect may wait there, because it comes before all other queries, but only if it
    /// can be stopped.
    fn may_send(&self, core: &Core, server: ServerId, list: List) -> bool {
        self.is_idle(core, server) || (list == List::Suspects && self.can_stop(core))
    }

    /// Sends a second copy of a query from this list to the server that the pick chooses. Returns
    /// false if that server may not get it.
    fn send<P: Pick + ?Sized>(
        &mut self,
        core: &mut Core,
        pick: &mut P,
        query: QueryId,
        list: List,
    ) -> bool {
        let chosen = core.choose_second(pick, query);
        let Some(server) = chosen.filter(|&server| self.may_send(core, server, list)) else {
            return false;
        };
        if !core.may_hedge(query) {
            return false;
        }
        self.lists.remove(core.group_of(query), query);
        self.start(core, query, server);
        true
    }

    /// Sends the second copy of the oldest suitable query of a list to the server. Returns false if
    /// there is none.
    fn give_oldest(&mut self, core: &mut Core, server: ServerId, list: List) -> bool {
        if !self.may_send(core, server, list) {
            return false;
        }
        let suits = |query: QueryId| {
            core.may_duplicate(query) && core.copies_of(query).all(|copy| copy.server != server)
        };
        let overtakes = self.learned.overtakes;
        let most_waiting = if list == List::Suspects { overtakes } else { 0 };
        let groups = core.groups_of(server).filter(|&group| core.waiting(group) <= most_waiting);
        let oldest = groups.filter_map(|group| self.lists.first(list, group, suits)).min();
        let Some((_, query)) = oldest else { return false };
        if !core.may_hedge(query) {
            return false;
        }
        self.lists.remove(core.group_of(query), query);
        self.start(core, query, server);
        true
    }

    fn ages<P: Pick + ?Sized>(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        let (book, group) = (self.books[query.index()], core.group_of(query));
        self.lists.remove(group, query);
        let suspect = core.now() >= book.suspect_at();
        if !suspect && book.suspect_ns != crate::NEVER_NS {
            core.set_timer_of_live(query, book.suspect_at());
        }
        let (list, may) = match suspect {
            true => (List::Suspects, self.may_rescue(core)),
            false => (List::Idle, core.waiting(group) == 0),
        };
        if may && self.send(core, pick, query, list) {
            return;
        }
        self.enlist(core, query);
        if suspect && self.version != Version::NoCancel {
            self.make_way(core, group);
        }
    }

    /// Handles a query with two running copies, one of which has reached an age that matters.
    fn outlasts(&mut self, core: &mut Core, query: QueryId, newer: &CopyView) {
        // If the query was not a suspect before, it is one now. The query's second copy is probably
        // a rescue.
        self.lists.remove(core.group_of(query), query);
        let stops = self.can_stop(core);
        let book = &mut self.books[query.index()];
        let since = book.second.map_or(newer.started, |second| second.started);
        if core.now() < since.after(book.give_up_ns) {
            self.await_end(core, query);
        } else if !newer.stopping && stops {
            let first = core.copies_of(query).last().filter(|first| !first.stopping);
            let Some(first) = first else { return };
            let replaced = self.learned.replaces.filter(|_| !book.replaced);
            book.replaced |= replaced.is_some();
            match replaced {
                Some(Replaced::First) => core.stop(first.id, StopReason::GiveUp),
                Some(Replaced::Second) => core.stop(newer.id, StopReason::GiveUp),
                None => {
                    book.long = true;
                    self.give_way(core, query, newer);
                }
            }
        }
    }

    /// Stops the second copy of a long query if its slot is needed. Otherwise the copy may continue
    /// to run.
    fn give_way(&mut self, core: &mut Core, query: QueryId, newer: &CopyView) {
        if self.is_crowded(newer.server) {
            self.make_room(core, query, newer.id);
        } else {
            self.enlist(core, query);
            self.make_way(core, core.group_of(query));
        }
    }

    /// Stops the newer copy of the youngest pair whose slot is needed. Returns false if there is
    /// none.
    fn break_pair(&mut self, core: &mut Core, group: GroupId) -> bool {
        let victim = |query: QueryId| {
            let newer = core.copies_of(query).next()?;
            let elsewhere = |other| core.copies_of(other).all(|copy| copy.server != newer.server);
            let of_use = core.is_wanted(newer.server, group)
                || (core.takes_copies(newer.server)
                    && self.may_rescue(core)
                    && self.lists.first(List::Suspects, group, elsewhere).is_some());
            of_use.then_some(newer.id)
        };
        let of_use = |query| victim(query).is_some();
        let Some((_, query)) = self.lists.first(List::Pairs, group, of_use) else { return false };
        let copy = victim(query).expect("just found");
        self.make_room(core, query, copy);
        true
    }

    /// Updates the load bias after a response. The server that responded is healthy. A server whose
    /// copy lost to a rescue may be in trouble as a whole, so others are preferred until it
    /// responds again.
    fn judge(&self, core: &mut Core, query: QueryId, copy: CopyId, server: ServerId) {
        core.bias(server, false);
        let Some(book) = self.books.get(query.index()).filter(|book| book.is_watched()) else {
            return;
        };
        let won = book.second.is_some_and(|second| second.id == copy);
        if won && core.now() >= book.suspect_at() {
            core.bias(book.server, true);
        }
    }

    /// Stops a second copy to make room. The second copy of a long query was a lost rescue.
    fn make_room(&mut self, core: &mut Core, query: QueryId, copy: CopyId) {
        let long = self.books[query.index()].long;
        if !long {
            self.displaced(core, query);
            self.books[query.index()].second = None;
        }
        core.stop(copy, if long { StopReason::GiveUp } else { StopReason::Preemption });
        self.relist(core, query);
    }

    /// Stops second copies to make room for the queries of a group that wait and for its suspects.
    fn make_way(&mut self, core: &mut Core, group: GroupId) {
        // If slots are unknown, queries do not wait for slots.
        if !self.can_stop(core) || self.line.is_some() {
            return;
        }
        let suspects =
            if self.may_rescue(core) { self.lists.len(List::Suspects, group) } else { 0 };
        while core.waiting(group) + suspects > core.reclaiming(group)
            && self.break_pair(core, group)
        {}
    }

    fn relist(&mut self, core: &Core, query: QueryId) {
        self.lists.remove(core.group_of(query), query);
        if let Some(book) = self.books.get_mut(query.index()) {
            book.left_with(core.copies_of(query));
            self.enlist(core, query);
        }
    }
}

impl Compiled for Rescue {
    const NEEDS: Option<Needs> = Some(NEEDS);
}

impl<P: Pick + ?Sized> Hedge<P> for Rescue {
    fn conduct(&self) -> Conduct {
        let cancels = self.version != Version::NoCancel;
        Conduct { cleans_up: cancels, preempts: cancels, biases: true }
    }

    fn recount(&mut self, core: &Core, query: QueryId) {
        self.relist(core, query);
    }

    fn ended(&mut self, core: &Core, query: QueryId) {
        self.lists.remove(core.group_of(query), query);
    }

    fn primary_started(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        if self.waits(core, query) || !self.begin(core, query, core.now()) {
            return;
        }
        let free = core.waiting(core.group_of(query)) == 0;
        if !(free && self.send(core, pick, query, List::Idle)) {
            self.enlist(core, query);
        }
    }

    fn primary_started_late(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        if let Some(copy) = core.copies_of(query).next() {
            self.overtaken[copy.server.index()] = false;
        }
        if !self.waits(core, query) && self.begin(core, query, core.now()) {
            self.enlist(core, query);
        }
    }

    fn timer(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        if !core.may_duplicate(query) {
            return;
        }
        let mut copies = core.copies_of(query);
        match (copies.next(), copies.next()) {
            (Some(only), None) if !only.stopping => {
                drop(copies);
                self.ages(core, pick, query);
            }
            (Some(newer), Some(_)) => {
                drop(copies);
                self.outlasts(core, query, &newer);
            }
            _ => {}
        }
    }

    fn spare(&mut self, core: &mut Core, server: ServerId) -> bool {
        // Usually all lists are empty.
        if self.lists.are_empty() {
            return false;
        }
        (self.lists.any_suspects()
            && self.may_rescue(core)
            && self.give_oldest(core, server, List::Suspects))
            || self.give_oldest(core, server, List::Idle)
    }

    fn overtakes(&mut self, core: &mut Core, server: ServerId) -> bool {
        let may = self.lists.any_suspects()
            && self.may_rescue(core)
            && !self.overtaken[server.index()]
            && self.give_oldest(core, server, List::Suspects);
        self.overtaken[server.index()] |= may;
        may
    }

    fn starved(&mut self, core: &mut Core, group: GroupId) {
        self.make_way(core, group);
    }

    #[inline(always)]
    fn released(&mut self, core: &mut Core, server: ServerId, copy: CopyId) {
        if self.audits_copy(copy) {
            // It was lost or failed, so its run time is unknown.
            self.audited = None;
        }
        if self.line.is_some() {
            self.move_up(core, server, copy);
            return;
        }
        core.prefetch(server, self.prefetch_after(core, server, copy));
        if let Some(next) = self.backlog.ended(server, copy) {
            self.begins(core, next);
        }
    }

    fn forget(&mut self, core: &Core, server: ServerId) {
        self.overtaken[server.index()] = false;
        self.watch.forget(core, server);
    }

    fn suspects(&self) -> u32 {
        self.lists.suspects()
    }

    #[inline(always)]
    fn learns(&mut self) -> Option<&mut dyn AnyLearns> {
        Some(self)
    }
}

impl Learns for Rescue {
    type Learner = RescueLearner;

    fn answered(
        &mut self,
        core: &mut Core,
        query: QueryId,
        copy: CopyId,
        server: ServerId,
    ) -> bool {
        self.judge(core, query, copy, server);
        self.responses = self.responses.wrapping_add(1);
        self.record_place(copy, server);
        self.record(core, query, copy)
    }

    fn outlived(&mut self, core: &mut Core, server: ServerId, copy: CopyId) {
        core.bias(server, false);
        self.end_audit(core, copy);
    }

    fn overran(&mut self, core: &Core, copy: CopyId) {
        self.end_audit(core, copy);
    }

    fn publish(&mut self, into: &mut Vec<Record>) {
        self.records.publish(into);
    }

    fn adopt(&mut self, snapshot: &Snapshot) {
        self.learned = *snapshot;
    }
}
