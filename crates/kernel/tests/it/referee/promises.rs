//! The promises that must hold after every event.

use super::{Copy, Model};
use curtail_kernel::balance::LEAST_OUTSTANDING;
use curtail_kernel::hedge::{APP_TIMEOUT, CLONE, DAS, LAEDGE, NAIVE, TIED};
use curtail_kernel::stage::Priority;
use curtail_kernel::{Arguments, CopyId, Core, GroupId, QueryId, ServerId, StartReason};

impl Model {
    fn is_laedge(&self) -> bool {
        self.policy.has(&LAEDGE)
    }

    fn preempts(&self) -> bool {
        self.policy.hedge().is_some_and(|hedge| hedge == LAEDGE.with(Arguments::form(2)))
    }

    fn clones(&self) -> bool {
        self.policy.has(&CLONE)
    }

    /// Whether every query gets all its copies when it starts.
    fn hedges_at_once(&self) -> bool {
        [&NAIVE, &TIED, &DAS, &CLONE].iter().any(|hedge| self.policy.has(hedge))
    }

    /// The maximum number of copies of a query that may run at the same time.
    pub(crate) fn most_copies(&self) -> usize {
        if self.clones() { 255 } else { 2 }
    }

    /// Checks that the policy may start a duplicate on `server`, and that the duplicate takes
    /// nothing from a waiting query.
    pub(crate) fn check_duplicate(&self, query: QueryId, server: ServerId, why: StartReason) {
        let group = self.queries[&query].group;
        let learned = self.policy.learns_delay().then_some(self.least_delay_ns);
        match (self.policy, self.policy.delay_ns().or(learned)) {
            (_, Some(delay)) => {
                let over = |(_, copy): (_, &Copy)| copy.started.after(delay) <= self.now;
                assert!(why == StartReason::Delay && self.attached(query).all(over), "too early");
            }
            _ if self.hedges_at_once() => {
                assert_eq!(why, StartReason::Hedge);
                assert!(self.takes_light(server), "duplicates fill the gate");
            }
            (policy, _) if policy.rescues().is_some() => {
                return self.check_rescue(query, server, why);
            }
            _ => assert!(self.is_laedge(), "{} starts no duplicates", self.policy),
        }
        if self.is_laedge() {
            assert_eq!(self.waiting(group), [], "a duplicate starts while a query waits");
            let slots = self.slots(server);
            assert!(self.taken(server) < slots, "LÆDGE duplicates in idle slots only");
        }
        self.check_room(server);
    }

    /// Checks that a duplicate starts on a server for which no query waits.
    fn check_room(&self, server: ServerId) {
        assert!(
            !self.is_wanted(server, |_| true),
            "a duplicate takes the room of a query that waits"
        );
    }

    /// Whether the policy is the variant of rescue without slots. If so, the model cannot tell
    /// which copies wait at their servers.
    fn is_slotless(&self) -> bool {
        self.policy.rescues().is_some() && !self.policy.pulls()
    }

    /// The time from which the age of a copy is measured, or an earlier time.
    fn age_began(&self, copy: &Copy) -> curtail_kernel::Timestamp {
        let begun =
            if self.is_slotless() { copy.started } else { copy.begun.expect("it has an age") };
        let before = begun.0.saturating_sub(self.longest_round_trip_ns);
        curtail_kernel::Timestamp(before).max(copy.started)
    }

    /// Checks that only suspects overtake a queue, and never two in a row.
    fn check_rescue(&self, query: QueryId, server: ServerId, why: StartReason) {
        let idle = self.is_slotless() || self.taken(server) < self.slots(server);
        if why == StartReason::Rescue {
            assert!(idle || self.limits.cancel, "it waits on a server that cannot stop it");
            let begun = self.attached(query).map(|(_, copy)| self.age_began(copy));
            let begun = begun.min().expect("it runs");
            assert!(begun.after(self.least_suspect_ns) <= self.now, "too young for a suspect");
            let overtakes = self.is_wanted(server, |_| true);
            assert!(!(overtakes && self.overtaken[server.index()]), "the queue had its turn");
            return;
        }
        assert!(matches!(why, StartReason::Explore | StartReason::Idle), "{why:?}");
        assert!(idle, "in idle slots only");
        assert_eq!(self.waiting(self.queries[&query].group), [], "others wait");
        self.check_room(server);
    }

    /// If a copy is stopped to make room, checks that it may be stopped, and that another copy
    /// needs the room.
    pub(crate) fn check_preemption(&self, query: QueryId, server: ServerId) {
        let group = self.queries[&query].group;
        let wanted =
            !self.is_closed(server) && self.is_wanted(server, |other| other.group == group);
        match () {
            () if self.is_laedge() => {
                assert!(wanted, "{query:?} gives up a slot that no waiting query can use");
            }
            () if self.is_slotless() => {
                assert!(wanted || self.taken(server) > 1, "no other copy needs the server");
            }
            () if self.policy.rescues().is_some() => {
                if self.gate(server) > self.slots(server) && self.keeps_waiting(server) {
                    return;
                }
                // A suspect must be another query of the group. It has one copy, which runs on
                // another server.
                let suspect = |(&id, other): (&QueryId, &super::Query)| {
                    let mut copies = self.attached(id);
                    let elsewhere = copies.next().is_some_and(|(_, copy)| copy.server != server);
                    other.group == group && elsewhere && copies.next().is_none()
                };
                assert!(wanted || self.queries.iter().any(suspect), "no query needs the slot");
            }
            _ => panic!("{} does not stop copies for other queries", self.policy),
        }
    }

    /// Whether a copy waits at the server until others end.
    fn keeps_waiting(&self, server: ServerId) -> bool {
        self.copies.values().any(|copy| copy.server == server && copy.begun.is_none())
    }

    /// Checks that when a copy is given up, such as a rescue or the first copy in its place, the
    /// other copy keeps running.
    pub(crate) fn check_give_up(&self, copy: CopyId) {
        assert!(self.policy.hedges() && self.limits.cancel, "{} stops no copies", self.policy);
        let state = &self.copies[&copy];
        let query = state.query.expect("the query has not ended");
        let goes_on = |(id, other): (&CopyId, &Copy)| *id != copy && !other.stopping;
        assert!(self.attached(query).any(goes_on), "{query:?} loses its only copy");
        if self.policy.rescues().is_some() {
            let begun = self.age_began(state);
            assert!(begun.after(self.least_suspect_ns) <= self.now, "given up too early");
        }
    }

    fn check_budget(&self) {
        let in_vain = self.rescues - self.rescues_won;
        let allowed = 16.0 + self.limits.rescue_budget * self.arrivals as f64;
        assert!(in_vain as f64 <= allowed + 1e-6, "{in_vain} lost rescues, {allowed} allowed");
    }

    /// If a copy is stopped so that another copy of its query can do the work, checks that there is
    /// another copy.
    pub(crate) fn check_purge(&self, copy: CopyId) {
        let query = self.copies[&copy].query.expect("the query has not ended");
        let mut others = self.attached(query).filter(|(id, _)| **id != copy);
        match () {
            () if self.policy.has(&APP_TIMEOUT) => {
                let instead = |(_, other): (_, &Copy)| other.started == self.now && !other.stopping;
                assert!(others.any(instead), "{query:?} loses its only copy");
            }
            () if self.policy.has(&TIED) => {
                let begun = self.begun;
                let goes_on = |(id, other): (&CopyId, &Copy)| begun == Some(*id) && !other.stopping;
                assert!(others.any(goes_on), "{query:?} has no other copy that began");
            }
            _ => panic!("{} purges nothing", self.policy),
        }
    }

    /// Checks that when a tied copy begins, the other one stops.
    fn check_begun(&self, core: &Core) {
        let tied = self.policy.has(&TIED);
        let Some(copy) = self.begun.filter(|_| tied) else { return };
        let query = core.query_of(copy).expect("beginning ends no query");
        let others = self.attached(query).filter(|(id, _)| **id != copy);
        assert!(others.into_iter().all(|(_, other)| other.stopping), "both copies go on");
    }

    /// Checks that queries that got their first copy also have the others, if servers have room for
    /// them.
    fn check_fresh(&self) {
        let fresh = self.fresh.iter().filter_map(|id| Some((*id, self.queries.get(id)?)));
        for (id, query) in fresh.filter(|(_, query)| query.may_duplicate) {
            if self.attached(id).count() == self.most_copies() {
                continue;
            }
            for &server in &self.topology.groups[query.group.index()] {
                let elsewhere = self.attached(id).all(|(_, copy)| copy.server != server);
                let room = self.has_room(server);
                let left_out =
                    elsewhere && room && self.suits(server, query) && self.takes_light(server);
                assert!(!left_out, "{server:?} could have run {id:?}, too");
            }
        }
    }

    /// The number of low-priority copies on a server. They run only after all other copies on the
    /// server.
    fn light(&self, server: ServerId) -> u32 {
        let light = |copy: &&Copy| {
            copy.server == server && self.policy.priority(copy.role) == Priority::Low
        };
        self.copies.values().filter(light).count() as u32
    }

    /// Whether a server takes another low-priority copy. It does so until such copies fill half of
    /// its gate.
    fn takes_light(&self, server: ServerId) -> bool {
        !self.policy.has_priorities() || self.light(server) < self.gate(server) / 2
    }

    pub(crate) fn check(&self, core: &Core) {
        self.check_begun(core);
        // The pick may prefer a server that does not take any more duplicates.
        let may_miss = self.policy.has_priorities()
            && (0..self.topology.servers.len() as u32).map(ServerId).any(|server| {
                let most = self.limits.max_outstanding.min(self.gate(server) / 2);
                self.light(server) >= most
            });
        if self.hedges_at_once() && !may_miss && !self.hedges_refused() {
            self.check_fresh();
        }
        for at in 0..self.topology.servers.len() {
            self.check_server(core, ServerId(at as u32));
        }
        for at in 0..self.topology.groups.len() {
            self.check_group(core, GroupId(at as u32));
        }
        for &query in self.queries.keys() {
            let copies = self.attached(query).count();
            assert!(copies <= self.most_copies(), "{copies} copies of {query:?}");
            if self.policy.has(&APP_TIMEOUT) {
                let living = self.attached(query).filter(|(_, copy)| !copy.stopping).count();
                assert!(living <= 1, "the second copy is in place of the first");
            }
            assert!(core.is_live(query));
        }
        assert_eq!(self.arrivals, self.ends + self.queries.len() as u64, "every arrival ends once");
        let saved = f64::from(self.limits.retry_reserve);
        let allowed = saved + self.limits.retry_budget * self.arrivals as f64;
        assert!(self.retries as f64 <= allowed + 1e-6, "the retry budget holds");
        self.check_budget();
    }

    fn check_server(&self, core: &Core, server: ServerId) {
        let view = core.server(server);
        let outstanding = self.outstanding(server);
        assert_eq!(
            view.outstanding, outstanding,
            "{server:?} holds what started and has not ended"
        );
        assert_eq!(view.limit, self.gate(server), "the gate of {server:?}");
        assert_eq!(view.up, self.is_up(server));
        assert_eq!(view.member, self.is_member(server));
        if !self.is_open(server) {
            return;
        }
        let has_room = self.has_room(server);
        if has_room {
            assert!(
                !self.is_wanted(server, |_| true),
                "{server:?} has room while a query waits for it"
            );
        }
        let slots = self.slots(server);
        // A duplicate that the budget refused is not retried as soon as there is a token.
        let unlimited = self.limits.hedge_budget >= 1.0;
        if self.is_laedge() && unlimited && has_room && self.taken(server) < slots {
            for (&id, query) in &self.queries {
                assert!(
                    !self.wants_copy(server, id, query),
                    "{server:?} is idle, but {id:?} has one copy"
                );
            }
        }
    }

    /// Whether a server could start this query now.
    pub(crate) fn could_run(&self, query: &super::Query) -> bool {
        let mut group = self.topology.groups[query.group.index()].iter();
        group.any(|&s| self.suits(s, query) && self.has_room(s))
    }

    /// The load of a server among servers of different sizes: the one with the most idle slots, or
    /// the shortest queue, has the lowest load.
    fn load(&self, server: ServerId) -> i64 {
        let slots = i64::from(self.slots(server));
        i64::from(self.taken(server) - self.light(server)) - slots
    }

    /// Checks that a retry goes to the server that the pick prefers.
    pub(crate) fn check_balance(&self, server: ServerId, query: &super::Query) {
        let least = self.policy.pick().is(&LEAST_OUTSTANDING);
        for &other in &self.topology.groups[query.group.index()] {
            let room = self.has_room(other);
            let beaten = self.policy.rescues().is_some() && self.beaten.contains(&other);
            let better =
                room && !beaten && self.suits(other, query) && self.load(other) < self.load(server);
            assert!(!(least && better), "a retry goes to {server:?} rather than {other:?}");
        }
    }

    /// Whether some waiting query matches `by` and could be served by the server if the server had
    /// room.
    pub(crate) fn is_wanted(&self, server: ServerId, by: impl Fn(&super::Query) -> bool) -> bool {
        let mut queries = self.queries.iter().filter(|(_, query)| by(query));
        queries.any(|(&id, query)| self.waits(id) && self.suits(server, query))
    }

    /// Whether an idle server could run a second copy of this query.
    fn wants_copy(&self, server: ServerId, id: QueryId, query: &super::Query) -> bool {
        let mut copies = self.attached(id).map(|(_, copy)| copy);
        let elsewhere = |c: &Copy| c.server != server && !c.stopping;
        let single = copies.next().is_some_and(elsewhere) && copies.next().is_none();
        single
            && query.may_duplicate
            && query.deadline > self.now
            && self.suits(server, query)
            && self.waiting(query.group).is_empty()
    }

    fn check_group(&self, core: &Core, group: GroupId) {
        let members = self.members(&self.topology.groups[group.index()]);
        assert_eq!(core.members(group), members);
        let waiting: Vec<QueryId> = self.waiting(group).into_iter().map(|(_, id)| id).collect();
        assert_eq!(core.waiting_in(group).collect::<Vec<_>>(), waiting, "the queue, oldest first");
        assert_eq!(core.waiting(group) as usize, waiting.len());
        assert!(waiting.len() as u32 <= self.limits.queue, "queues stay within bounds");
        let on = |copy: &&Copy| copy.stopping && self.serves(copy.server, group);
        let stopping = self.copies.values().filter(on).count();
        assert_eq!(core.reclaiming(group) as usize, stopping);
        if self.preempts() && waiting.len() > stopping {
            for (&id, query) in &self.queries {
                let living = self.attached(id).filter(|(_, copy)| !copy.stopping).count();
                let may = query.may_duplicate && query.deadline > self.now;
                let pair = query.group == group && may && living == 2;
                let wanted =
                    |at| !self.is_closed(at) && self.is_wanted(at, |other| other.group == group);
                let of_use = self.attached(id).all(|(_, copy)| wanted(copy.server));
                assert!(!(pair && of_use), "{id:?} keeps two copies while a query waits");
            }
        }
    }
}
