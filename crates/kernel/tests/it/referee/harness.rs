//! A cell and its referee, driven together.

use super::{Health, Model};
use curtail_kernel::balance::PICKS;
use curtail_kernel::hedge::rescue::{Record, Snapshot};
use curtail_kernel::hedge::{self, IDEALIZED, LearnedDelay, Records};
use curtail_kernel::{
    Action, Arguments, Arrive, CopyId, Event, GroupId, Limits, Outcome, Policy, QueryId, Scheduler,
    ServerId, StartReason, StopReason, Timestamp, Topology, rng,
};

pub(crate) struct Harness {
    pub cell: Box<dyn Scheduler>,
    pub model: Model,
    pub actions: Vec<Action>,
    free: Vec<QueryId>,
    next: u32,
}

pub(crate) fn named(text: &str) -> Policy {
    Policy::parse(text, None).expect(text)
}

/// Whether this form is itself named after a pick, so that no other pick can be added.
pub(crate) fn names_pick(form: &str) -> bool {
    PICKS.iter().any(|pick| form.split(':').next() == Some(pick.name))
}

impl Harness {
    pub(crate) fn new(policy: Policy, topology: &Topology, limits: Limits, seed: u64) -> Self {
        let cell = policy.build(topology, limits, rng(seed)).expect("a valid topology");
        Self::of(cell, policy, topology, limits)
    }

    pub(crate) fn replicated(policy: Policy, servers: u32, limits: Limits) -> Self {
        Self::new(policy, &Topology::replicated(servers, 1), limits, 1)
    }

    /// Idealized Hedge: the promises of LÆDGE with pre-emptive cancellation and a perfect
    /// predictor.
    pub(crate) fn idealized(topology: &Topology, limits: Limits, seed: u64) -> Self {
        let policy = Policy::hedged(IDEALIZED.with(Arguments::NONE));
        let cell = policy.build(topology, limits, rng(seed)).expect("a valid topology");
        Self::of(cell, named("laedge:cc+pc"), topology, limits)
    }

    fn of(cell: Box<dyn Scheduler>, policy: Policy, topology: &Topology, limits: Limits) -> Self {
        let model = Model::new(policy, topology.clone(), limits);
        Self { cell, model, actions: Vec::new(), free: Vec::new(), next: 0 }
    }

    /// Feeds an event, applies the actions to the model, and checks every promise.
    pub(crate) fn feed(&mut self, now: u64, event: Event) -> &[Action] {
        self.model.earn(self.cell.core(), Timestamp(now));
        self.model.event(Timestamp(now), &event);
        self.actions = self.cell.handle(Timestamp(now), &event).to_vec();
        self.model.hold(self.cell.core(), &event);
        for action in &self.actions {
            self.model.action(action);
            if let Action::Answer { query, .. }
            | Action::Fail { query, .. }
            | Action::Shed { query, .. } = *action
            {
                self.free.push(query);
            }
        }
        if let Event::Abandoned { query } = event {
            self.free.push(query);
        }
        self.model.settled(self.cell.core(), &event);
        self.model.check(self.cell.core());
        if matches!(event, Event::Started { .. }) && !self.model.policy.needs().starts {
            assert_eq!(self.actions, [], "this policy ignores it");
        }
        if matches!(event, Event::Tick) {
            // A query that starts now may have a timer that is due immediately.
            let again = self.cell.handle(Timestamp(now), &Event::Tick).to_vec();
            self.model.hold(self.cell.core(), &event);
            again.iter().for_each(|action| self.model.action(action));
            self.actions.extend(again);
            assert!(self.cell.next_deadline().0 > now, "all expired timers were handled");
        }
        &self.actions
    }

    /// The copies that were stopped during the last event, and the reasons.
    pub(crate) fn stops(&self) -> Vec<(CopyId, StopReason)> {
        let stop = |action: &Action| match *action {
            Action::Stop { copy, why } => Some((copy, why)),
            _ => None,
        };
        self.actions.iter().filter_map(stop).collect()
    }

    /// The queries whose copies were started during the last event, and the reasons.
    pub(crate) fn starts(&self) -> Vec<(QueryId, StartReason)> {
        let start = |action: &Action| match *action {
            Action::Start { query, why, .. } => Some((query, why)),
            _ => None,
        };
        self.actions.iter().filter_map(start).collect()
    }

    /// The copies that may answer a query, in the order in which they started.
    pub(crate) fn copies(&self, query: QueryId) -> Vec<CopyId> {
        self.model.attached(query).map(|(id, _)| *id).collect()
    }

    /// The only copy of a query, and its server.
    #[track_caller]
    pub(crate) fn only(&self, query: QueryId) -> (CopyId, ServerId) {
        let [copy] = self.copies(query)[..] else {
            panic!("{query:?} does not have exactly one copy")
        };
        (copy, self.server_of(copy))
    }

    pub(crate) fn server_of(&self, copy: CopyId) -> ServerId {
        self.model.copies[&copy].server
    }

    pub(crate) fn is_up(&self, server: ServerId) -> bool {
        self.cell.core().server(server).up
    }

    pub(crate) fn adopt(&mut self, snapshot: &Snapshot) {
        self.model.least_suspect_ns = self.model.least_suspect_ns.min(snapshot.suspect_ns);
        let trip_ns = &mut self.model.longest_round_trip_ns;
        *trip_ns = snapshot.round_trip_ns.max(*trip_ns);
        self.model.may_prefetch = snapshot.prefetch;
        self.cell.adopt(&hedge::Snapshot::new(*snapshot));
    }

    pub(crate) fn adopt_delay(&mut self, delay_ns: u64) {
        self.model.least_delay_ns = self.model.least_delay_ns.min(delay_ns);
        self.cell.adopt(&hedge::Snapshot::new(LearnedDelay { delay_ns }));
    }

    pub(crate) fn published(&mut self) -> Vec<Record> {
        let mut records = Records::default();
        self.cell.publish(&mut records);
        std::mem::take(records.list())
    }

    /// An unused query id: the one that was freed last, so that ids are reused immediately.
    pub(crate) fn fresh(&mut self) -> QueryId {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            QueryId(self.next - 1)
        })
    }

    pub(crate) fn arrive(&mut self, now: u64, group: u32) -> QueryId {
        let query = self.fresh();
        self.feed(now, Event::Arrive(Arrive::new(query, GroupId(group))));
        query
    }

    pub(crate) fn finish(&mut self, now: u64, copy: CopyId, outcome: Outcome) -> &[Action] {
        self.feed(now, Event::Finished { copy, outcome })
    }

    /// The copies on a server, oldest first.
    pub(crate) fn on(&self, server: u32) -> Vec<CopyId> {
        let mine = self.model.copies.iter().filter(|(_, c)| c.server == ServerId(server));
        mine.map(|(id, _)| *id).collect()
    }

    /// Brings all servers back, and lets new ones take absent places, after the minimum time of their ejections. Returns the time.
    fn restore_all(&mut self, mut now: u64) -> u64 {
        for server in 0..self.model.up.len() {
            let open = ServerId(server as u32);
            if self.model.is_closed(open) {
                self.feed(now, Event::Close { server: open, until: Timestamp(now) });
            }
            if self.model.up[server] == Health::Absent {
                self.feed(now, Event::ServerDown { server: open });
                self.feed(now, Event::ServerJoined { server: open });
            }
            if self.model.up[server] != Health::Up {
                self.feed(now, Event::ServerUp { server: ServerId(server as u32) });
                if self.model.up[server] != Health::Up {
                    now = now.max(self.model.standing[server].until.0);
                    self.feed(now, Event::Tick);
                }
            }
        }
        now
    }

    /// Ends all copies and checks that nothing is left.
    pub(crate) fn finish_all(&mut self, now: u64) {
        let mut now = self.restore_all(now);
        let paced = self.model.policy.rate().is_some();
        loop {
            let Some((&copy, state)) = self.model.copies.iter().next() else {
                // Servers without tokens open eventually, and held slots become free.
                let Timestamp(next) = self.cell.next_deadline();
                let holds = self.model.held.iter().any(|&held| held > 0);
                if !(paced || holds) || next == u64::MAX {
                    break;
                }
                now = now.max(next);
                self.feed(now, Event::Tick);
                continue;
            };
            now += 1;
            if state.stopping {
                self.feed(now, Event::Stopped { copy });
            } else {
                self.finish(now, copy, Outcome::Good);
            }
        }
        // The last responses may have led to ejections of servers that failed a query.
        self.restore_all(now);
        assert!(self.model.queries.is_empty() && self.model.copies.is_empty());
        for server in 0..self.model.up.len() {
            let view = self.cell.core().server(ServerId(server as u32));
            assert_eq!(view.outstanding, 0, "a leaked slot");
        }
        assert_eq!(self.cell.next_deadline(), Timestamp::NEVER, "a leaked timer");
    }
}
