//! The model of the referee: servers, queries and copies, in plain maps.

use std::collections::{BTreeMap, BTreeSet};

use curtail_kernel::hedge::{APP_TIMEOUT, rescue::Prefetch};
use curtail_kernel::stage::Priority;
use curtail_kernel::{
    Action, Arrive, CopyId, Core, Event, FailReason, Fault, GroupId, Limits, NEVER_NS, Outcome,
    Policy, QueryId, Role, ServerId, ShedReason, StartReason, StopReason, Timestamp, Topology,
};

use super::health::{Health, Standing};

#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub group: GroupId,
    pub seq: u64,
    pub may_duplicate: bool,
    pub may_retry: bool,
    pub deadline: Timestamp,
    /// The server on which the query last failed.
    pub avoid: Option<ServerId>,
    /// Whether it has failed on any server, even on one that has left.
    pub failed: bool,
    /// Whether nothing was sent to the last of these servers.
    unsent: bool,
    pub retries: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub server: ServerId,
    /// The query that the copy may still answer.
    pub query: Option<QueryId>,
    pub started: Timestamp,
    /// The time at which its server began to execute it, as far as can be inferred. It is `None`
    /// while the copy waits there.
    pub begun: Option<Timestamp>,
    pub role: Role,
    pub why: StartReason,
    pub stopping: bool,
    /// Whether it has failed. If so, its later reports are not evidence.
    pub(super) failed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub policy: Policy,
    pub topology: Topology,
    pub limits: Limits,
    pub now: Timestamp,
    pub up: Vec<Health>,
    pub standing: Vec<Standing>,
    /// The tokens of the hedge budget.
    hedges: f64,
    pub queries: BTreeMap<QueryId, Query>,
    pub copies: BTreeMap<CopyId, Copy>,
    pub arrivals: u64,
    pub ends: u64,
    pub retries: u64,
    /// The lowest T in any snapshot, in ns.
    pub least_suspect_ns: u64,
    pub least_delay_ns: u64,
    pub rescues: u64,
    pub rescues_won: u64,
    /// For each server, whether a suspect has moved ahead of its queue since the server last served
    /// the queue.
    pub overtaken: Vec<bool>,
    next_serial: u64,
    /// The query that the current event must answer, and the copy whose response answers it.
    due: Option<(QueryId, CopyId)>,
    /// The reason why the copy of that response was started.
    winner: Option<StartReason>,
    /// Servers that have not responded since their copy lost to a second one. The cell may prefer
    /// other servers.
    pub beaten: BTreeSet<ServerId>,
    /// The last limit that was set for each server, if any.
    pub(super) limit: Vec<Option<u32>>,
    /// For each server, the number of copies that it may hold beyond its slots. `may_prefetch`
    /// contains the prefetch parameters that were adopted last.
    pub(super) prefetch: Vec<u32>,
    pub(crate) may_prefetch: Prefetch,
    pub(crate) longest_round_trip_ns: u64,
    /// For each server, the time until which it is closed. The server opens with the next tick
    /// after that.
    pub(super) closed: Vec<Option<Timestamp>>,
    /// For each server, the tokens of its rate, and whether the cell reports it as closed.
    pub(super) buckets: Vec<(f64, bool)>,
    /// For each server, the number of slots that are held for copies that were refused or failed.
    pub(crate) held: Vec<u32>,
    /// For each server, the start times of those copies.
    pub(super) faults: Vec<Vec<Timestamp>>,
    /// The longest time that any copy took to end with a good response or to stop, in ns.
    pub(super) longest_ns: u64,
    /// For each server, the number of copies that it may hold after its return. It is `None` if the
    /// server has no ramp.
    pub(super) ramp: Vec<Option<u32>>,
    /// The copy that the server began to execute in the current event, if that matters to its
    /// query.
    pub begun: Option<CopyId>,
    /// The queries that waited before the current event.
    waited: BTreeSet<QueryId>,
    /// The queries that got a first copy in the current event.
    pub fresh: Vec<QueryId>,
    /// The copies that the current event must report as lost.
    pub(super) lost: BTreeSet<CopyId>,
    /// The server that the current event adds.
    pub(super) joining: Option<ServerId>,
}

impl Model {
    pub(crate) fn new(policy: Policy, topology: Topology, limits: Limits) -> Self {
        Self {
            policy,
            up: vec![Health::Up; topology.servers.len()],
            standing: vec![Standing::default(); topology.servers.len()],
            hedges: f64::from(limits.hedge_burst),
            overtaken: vec![false; topology.servers.len()],
            limit: vec![None; topology.servers.len()],
            prefetch: vec![0; topology.servers.len()],
            may_prefetch: Prefetch::NONE,
            longest_round_trip_ns: 0,
            closed: vec![None; topology.servers.len()],
            buckets: vec![(limits.tuning.burst, false); topology.servers.len()],
            held: vec![0; topology.servers.len()],
            faults: vec![Vec::new(); topology.servers.len()],
            longest_ns: 0,
            ramp: vec![None; topology.servers.len()],
            topology,
            limits,
            now: Timestamp(0),
            queries: BTreeMap::new(),
            copies: BTreeMap::new(),
            arrivals: 0,
            ends: 0,
            retries: 0,
            least_suspect_ns: NEVER_NS,
            least_delay_ns: NEVER_NS,
            rescues: 0,
            rescues_won: 0,
            next_serial: 0,
            due: None,
            winner: None,
            beaten: BTreeSet::new(),
            begun: None,
            waited: BTreeSet::new(),
            fresh: Vec::new(),
            lost: BTreeSet::new(),
            joining: None,
        }
    }

    pub(crate) fn attached(&self, query: QueryId) -> impl Iterator<Item = (&CopyId, &Copy)> {
        self.copies.iter().filter(move |(_, copy)| copy.query == Some(query))
    }

    pub(crate) fn outstanding(&self, server: ServerId) -> u32 {
        self.copies.values().filter(|copy| copy.server == server).count() as u32
    }

    /// The number of slots that are taken by copies, or held for copies that were refused or
    /// failed.
    pub(crate) fn taken(&self, server: ServerId) -> u32 {
        self.outstanding(server) + self.held[server.index()]
    }

    pub(crate) fn gate(&self, server: ServerId) -> u32 {
        let limit = self.limit_of(server) + self.prefetch[server.index()];
        limit.min(self.ramp[server.index()].unwrap_or(u32::MAX))
    }

    pub(super) fn limit_of(&self, server: ServerId) -> u32 {
        self.limit[server.index()].unwrap_or(match (self.policy.bound(), self.policy.pulls()) {
            (Some(n), _) => n,
            (None, true) => self.slots(server),
            (None, false) => self.limits.max_outstanding,
        })
    }

    /// Removes a copy from its server. From now on the server's gate follows the latest snapshot.
    pub(super) fn remove(&mut self, copy: CopyId) -> Option<Copy> {
        let removed = self.copies.remove(&copy)?;
        let server = removed.server;
        if self.policy.rescues().is_some() && self.policy.pulls() {
            let is_free = self.limit_of(server) == self.slots(server);
            let Prefetch { per_64, least_slots, one_in } = self.may_prefetch;
            let slots = self.slots(server);
            let may =
                is_free && slots >= least_slots && copy.serial.is_multiple_of(u64::from(one_in));
            self.prefetch[server.index()] = if may { (slots * per_64).div_ceil(64) } else { 0 };
        }
        Some(removed)
    }

    pub(crate) fn slots(&self, server: ServerId) -> u32 {
        self.topology.servers[server.index()].slots
    }

    /// Servers execute their copies in the order in which they were sent: a free slot is taken by
    /// the oldest copy that waits.
    pub(super) fn begin(&mut self) {
        for at in 0..self.topology.servers.len() {
            let server = ServerId(at as u32);
            let on = |copy: &Copy| copy.server == server;
            let executing = self.copies.values().filter(|c| on(c) && c.begun.is_some()).count();
            let idle = (self.slots(server) as usize).saturating_sub(executing);
            let waiting = self.copies.values_mut().filter(|c| on(c) && c.begun.is_none());
            for copy in waiting.take(idle) {
                copy.begun = Some(self.now);
            }
        }
    }

    /// Whether duplicates are limited and no token is left.
    pub(crate) fn hedges_refused(&self) -> bool {
        let baseline = !self.policy.is_budgeted();
        !baseline && self.limits.hedge_budget < 1.0 && self.hedges < 1.0
    }

    pub(crate) fn serves(&self, server: ServerId, group: GroupId) -> bool {
        self.topology.groups[group.index()].contains(&server)
    }

    pub(crate) fn waits(&self, query: QueryId) -> bool {
        self.attached(query).next().is_none()
    }

    /// Whether this server could serve that query if it had room.
    pub(crate) fn suits(&self, server: ServerId, query: &Query) -> bool {
        let open = self.topology.groups[query.group.index()].iter().filter(|&&s| self.is_open(s));
        let alone = open.count() == 1;
        self.is_open(server)
            && self.serves(server, query.group)
            && (query.avoid != Some(server) || alone)
    }

    pub(crate) fn waiting(&self, group: GroupId) -> Vec<(u64, QueryId)> {
        let mine = self.queries.iter().filter(|(_, q)| q.group == group);
        let mut found: Vec<_> =
            mine.filter(|(id, _)| self.waits(**id)).map(|(id, q)| (q.seq, *id)).collect();
        found.sort_unstable();
        found
    }

    /// Applies the direct effects of an event, before the cell decides anything.
    pub(crate) fn event(&mut self, now: Timestamp, event: &Event) {
        self.now = now;
        self.due = None;
        self.winner = None;
        self.begun = None;
        self.joining = None;
        self.fresh.clear();
        self.waited = self.queries.keys().copied().filter(|&query| self.waits(query)).collect();
        match *event {
            Event::Arrive(arrive) => self.arrive(&arrive),
            Event::Started { copy } => {
                let news = |copy: &Copy| copy.query.is_some() && !copy.stopping;
                self.begun = self.copies.get(&copy).filter(|&copy| news(copy)).map(|_| copy);
            }
            Event::Responded { copy, outcome } => {
                // A good head is not evidence yet, but the end of the response is.
                let is_live = self.copies.get(&copy).is_some_and(|copy| copy.query.is_some());
                if is_live && !outcome.wins() {
                    self.end_of_copy(copy, outcome);
                }
                self.responded(copy, outcome.wins());
            }
            Event::Finished { copy, outcome } => self.finished(copy, outcome),
            Event::Stopped { copy } => {
                if let Some(copy) = self.remove(copy) {
                    self.longest_ns = self.longest_ns.max(now.since(copy.started));
                }
            }
            Event::Abandoned { query } => {
                if self.queries.contains_key(&query) {
                    self.end(query);
                }
            }
            Event::ServerUp { server } => self.standing[server.index()].probed = true,
            Event::ServerUnhealthy { server, listens } => self.fails_probes(server, listens),
            Event::ServerDraining { server } if self.is_member(server) => {
                self.set_health(server, Health::Draining);
            }
            Event::ServerDown { server } => self.lose(server),
            Event::ServerLeft { server } => self.set_health(server, Health::Absent),
            Event::ServerJoined { server } => self.join(server),
            Event::Limit { server, limit } => {
                self.limit[server.index()] = Some(limit.clamp(1, Topology::MAX_GATE));
            }
            Event::Close { server, until } => {
                self.closed[server.index()] = Some(until).filter(|&until| until > now);
                self.open_paced(server.index()..server.index() + 1);
            }
            Event::RetryAfter { server, ns } => self.pause(server, ns),
            Event::ForbidRetry { copy } => {
                let query = self.copies.get(&copy).and_then(|copy| copy.query);
                let query = query.and_then(|query| self.queries.get_mut(&query));
                query.into_iter().for_each(|q| (q.may_retry, q.may_duplicate) = (false, false));
            }
            Event::Tick => {
                let closed = self.closed.iter_mut();
                closed.for_each(|until| *until = until.filter(|&until| until > now));
                self.open_paced(0..self.buckets.len());
                self.time_out();
            }
            Event::ServerDraining { .. }
            | Event::Feedback { .. }
            | Event::Received { .. }
            | Event::Probed(_)
            | Event::Unwanted { .. }
            | Event::Progress { .. }
            | Event::Forecast { .. } => {}
        }
        self.begin();
    }

    fn arrive(&mut self, arrive: &Arrive) {
        let query = Query {
            group: arrive.group,
            seq: self.arrivals,
            may_duplicate: arrive.may_duplicate,
            may_retry: arrive.may_retry,
            deadline: arrive.deadline.min(self.now.after(self.limits.timeout_ns)),
            avoid: None,
            failed: false,
            unsent: false,
            retries: 0,
        };
        self.arrivals += 1;
        let burst = f64::from(self.limits.hedge_burst);
        self.hedges = (self.hedges + self.limits.hedge_budget).min(burst);
        assert!(self.queries.insert(arrive.query, query).is_none(), "the test reuses a live id");
    }

    fn finished(&mut self, copy: CopyId, outcome: Outcome) {
        self.end_of_copy(copy, outcome);
        let query = self.copies.get(&copy).and_then(|copy| copy.query);
        self.responded(copy, outcome.wins());
        if let Some(query) = query.and_then(|query| self.queries.get_mut(&query)) {
            query.unsent = outcome == Outcome::Failed(Fault::ConnectFailed);
            query.may_retry &= outcome != Outcome::OverLimit;
        }
        if let Some(copy) = self.remove(copy) {
            self.learn(&copy, outcome);
        }
    }

    fn responded(&mut self, copy: CopyId, good: bool) {
        let Some(state) = self.copies.get(&copy) else { return };
        let Some(query) = state.query else { return };
        if good {
            self.winner = Some(state.why);
            self.due = Some((query, copy));
            let (server, second) = (state.server, state.role == Role::Duplicate);
            self.beaten.remove(&server);
            let others = self.attached(query).map(|(_, copy)| copy.server);
            let others = others.chain(self.queries[&query].avoid);
            let others: Vec<ServerId> = others.filter(|&other| second && other != server).collect();
            self.beaten.extend(others);
        } else {
            self.copy_failed(copy);
        }
    }

    pub(super) fn copy_failed(&mut self, copy: CopyId) {
        let state = self.copies.get_mut(&copy).expect("a live copy");
        let Some(query) = state.query.take() else { return };
        state.failed = true;
        let query = self.queries.get_mut(&query).expect("attached to a live query");
        query.avoid = Some(state.server);
        query.failed = true;
        query.unsent = false;
        query.may_duplicate = false;
    }

    fn time_out(&mut self) {
        let attempt_ns = self.limits.attempt_timeout_ns;
        // If the deadline of a query passes at the same time, the query ends before its copies time
        // out.
        let expired = |query: &QueryId| self.queries[query].deadline <= self.now;
        let out = |c: &Copy| {
            // Low-priority duplicates may wait for as long as primaries keep arriving.
            let timed = self.policy.priority(c.role) == Priority::High;
            let late = timed && !c.stopping && c.started.after(attempt_ns) <= self.now;
            late && !c.query.as_ref().is_some_and(expired)
        };
        let late = self.copies.iter().filter(|(_, c)| out(c));
        let mut late: Vec<_> = late.map(|(id, c)| (c.started, id.slot, *id)).collect();
        late.sort_unstable();
        for (_, _, copy) in late {
            if self.copies[&copy].query.is_some() {
                self.end_of_copy(copy, Outcome::Failed(Fault::Reset));
            }
            self.copy_failed(copy);
        }
    }

    fn end(&mut self, query: QueryId) {
        assert!(self.queries.remove(&query).is_some(), "{query:?} ended twice");
        self.ends += 1;
        for copy in self.copies.values_mut().filter(|c| c.query == Some(query)) {
            copy.query = None;
        }
    }

    pub(crate) fn action(&mut self, action: &Action) {
        match *action {
            Action::Start { copy, query, server, role, why } => {
                self.check_start(copy, query, server, role, why);
                if why == StartReason::Retry {
                    self.retries += 1;
                }
                if role == Role::Primary {
                    self.fresh.push(query);
                }
                let rescue = why == StartReason::Rescue;
                self.rescues += u64::from(rescue);
                let overtaken = rescue && self.is_wanted(server, |_| true);
                let before = self.overtaken[server.index()] && role == Role::Duplicate;
                self.overtaken[server.index()] = overtaken || before;
                let (started, begun, stopping) = (self.now, None, false);
                let query = Some(query);
                let failed = false;
                let new = Copy { server, query, started, begun, role, why, stopping, failed };
                self.copies.insert(copy, new);
                self.begin();
            }
            Action::Stop { copy, why } => self.stop(copy, why),
            Action::Answer { query, copy } => {
                assert_eq!(
                    self.due.take(),
                    Some((query, copy)),
                    "a response that no copy returned"
                );
                self.rescues_won += u64::from(self.winner == Some(StartReason::Rescue));
                self.end(query);
            }
            Action::Fail { query, why, copy } => self.fail(query, why, copy),
            Action::Shed { query, why } => self.shed(query, why),
            Action::Lose { copy } => self.check_lost(copy),
            Action::Eject { server, why } => self.eject(server, why),
            Action::Restore { server } => self.restore(server),
            Action::Probe { server } => {
                assert!(
                    self.is_open(server) && self.has_room(server),
                    "a server that may be picked"
                );
            }
        }
    }

    /// It is called after the actions of an event. Checks that a query whose response was due has
    /// been answered.
    pub(crate) fn settled(&mut self, core: &Core, event: &Event) {
        self.check_rates(core, event);
        if let Event::ServerUp { server } = *event {
            let ejected = self.up[server.index()] == Health::Ejected
                && self.standing[server.index()].until > self.now;
            let stays = ejected || !self.is_member(server);
            assert!(self.is_up(server) || stays, "it does not return");
        }
        assert!(self.joining.is_none_or(|server| self.is_up(server)), "it does not join");
        assert_eq!(self.due, None, "a good response was ignored");
        assert!(self.lost.is_empty(), "{:?} were not reported as lost", self.lost);
    }

    fn check_start(
        &mut self,
        copy: CopyId,
        query: QueryId,
        server: ServerId,
        role: Role,
        why: StartReason,
    ) {
        assert_eq!(copy.serial, self.next_serial, "serials count up");
        self.next_serial += 1;
        self.pay(server);
        assert!(self.copies.keys().all(|c| c.slot != copy.slot), "slots are unique");
        let state = self.queries.get(&query).expect("a copy of a live query");
        assert!(state.deadline > self.now, "an expired query is not started");
        assert!(self.is_open(server), "no copy is sent to a closed server");
        assert!(self.serves(server, state.group), "a server of the query's group");
        let open = self.closed[server.index()].is_none();
        assert!(open && self.taken(server) < self.gate(server), "the gate holds");
        assert!(self.attached(query).all(|(_, c)| c.server != server), "copies on two servers");
        let copies = self.attached(query).count();
        match role {
            Role::Primary => {
                assert_eq!(copies, 0, "one primary at a time");
                assert!(self.suits(server, state), "a retry goes elsewhere");
                for (&other, o) in &self.queries {
                    let older = o.seq < state.seq && other != query && self.waits(other);
                    assert!(!(older && self.suits(server, o)), "first come, first served");
                }
                if why == StartReason::Retry {
                    let group = &self.topology.groups[state.group.index()];
                    let mut members = self.members(group);
                    if self.waited.contains(&query) {
                        // Any server may have been the first to get room, and others may have left
                        // since the retry was allowed.
                        members = group.len() as u32;
                    } else {
                        self.check_balance(server, state);
                    }
                    let more = if state.unsent { members - 1 } else { 0 };
                    assert!(state.may_retry || state.unsent);
                    assert!(state.retries < u32::from(self.limits.retries).max(more));
                    self.queries.get_mut(&query).expect("live").retries += 1;
                }
            }
            Role::Duplicate => {
                let within = 1..self.most_copies();
                assert!(within.contains(&copies), "a duplicate of a running query, within bounds");
                assert!(state.may_duplicate, "an idempotent query without failures");
                assert!(!self.hedges_refused(), "the hedge budget holds");
                self.check_duplicate(query, server, why);
                self.hedges -= 1.0;
                if self.policy.has(&APP_TIMEOUT) {
                    let state = self.queries.get_mut(&query).expect("live");
                    state.may_duplicate = false; // one timeout per query
                }
            }
        }
    }

    fn stop(&mut self, copy: CopyId, why: StopReason) {
        assert!(self.limits.cancel, "copies are stopped only on servers that can stop");
        let state = self.copies.get_mut(&copy).expect("a live copy");
        assert!(!state.stopping, "stopped once");
        state.stopping = true;
        match why {
            StopReason::Cleanup => assert_eq!(state.query, None, "the copy is no longer needed"),
            StopReason::Preemption => {
                let (server, query) = (state.server, state.query);
                self.check_preemption(query.expect("the query has not ended"), server);
            }
            StopReason::Purge => self.check_purge(copy),
            StopReason::GiveUp => self.check_give_up(copy),
        }
    }

    fn fail(&mut self, query: QueryId, why: FailReason, copy: Option<CopyId>) {
        let state = &self.queries[&query];
        match why {
            FailReason::CopyFailed => {
                assert!(self.waits(query), "it had another copy");
                assert_eq!(state.failed, copy.is_some(), "the copy that failed");
            }
            FailReason::Timeout => {
                assert!(state.deadline <= self.now);
                assert!(state.failed || !self.waits(query));
            }
        }
        self.end(query);
    }

    fn shed(&mut self, query: QueryId, why: ShedReason) {
        let state = &self.queries[&query];
        assert!(self.waits(query), "a running query is not shed");
        assert!(!state.failed, "a query that was sent is not shed");
        match why {
            ShedReason::QueueFull => {
                let others = self.waiting(state.group).len() as u32 - 1;
                assert!(others >= self.limits.queue, "there was room in the queue");
                assert!(!self.could_run(state), "a server had room");
            }
            ShedReason::Expired => assert!(state.deadline <= self.now),
        }
        self.end(query);
    }
}
