//! Checks every promise of the contract in every state that a small harness can reach: up to three
//! servers and four queries, with failures, early heads, slow stops, delays that pass, copies that
//! begin, clients that leave, and a server that goes down and returns, or leaves and is replaced, in every
//! order.
//!
//! States that look the same to the referee are visited only once, along a shortest path. The
//! cell's generator breaks ties, so each harness is walked with several seeds.

use std::collections::{HashSet, VecDeque};

use crate::referee::{Harness, Health, named};
use curtail_kernel::balance::PICKS;
use curtail_kernel::hedge::HEDGES;
use curtail_kernel::hedge::rescue::Snapshot;
use curtail_kernel::{
    Arrive, CopyId, Event, Fault, GroupId, Limits, Outcome, Policy, Server, ServerId, Timestamp,
    Topology, Tuning,
};

/// A possible step, and a name that is used for replays.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive,
    Begin(CopyId),
    Respond(CopyId),
    Finish(CopyId, Outcome),
    Stopped(CopyId),
    Abandon(curtail_kernel::QueryId),
    Down,
    Up,
    Leave,
    Join,
    Close,
    Open,
    Limit(u32),
    Tick,
}

struct Setup {
    policy: Policy,
    topology: Topology,
    limits: Limits,
    seed: u64,
    queries: u64,
    /// The snapshot that is used by policies that learn.
    learned: Option<Snapshot>,
    /// Whether the gate of the first server changes.
    gates: bool,
    /// Whether the first server leaves, and others take its place.
    members: bool,
}

impl Setup {
    fn start(&self) -> Harness {
        let mut harness = Harness::new(self.policy, &self.topology, self.limits, self.seed);
        if let Some(learned) = &self.learned {
            harness.adopt(learned);
        }
        harness
    }

    fn take(&self, harness: &mut Harness, now: u64, step: Step) {
        let event = match step {
            Step::Arrive => {
                let number = harness.model.arrivals as u32;
                let group = GroupId(number % self.topology.groups.len() as u32);
                let mut arrive = Arrive::new(harness.fresh(), group);
                // The second query must not be duplicated or retried.
                arrive.may_duplicate = number != 1;
                arrive.may_retry = number != 1;
                Event::Arrive(arrive)
            }
            Step::Begin(copy) => Event::Started { copy },
            Step::Respond(copy) => Event::Responded { copy, outcome: Outcome::Good },
            Step::Finish(copy, outcome) => Event::Finished { copy, outcome },
            Step::Stopped(copy) => Event::Stopped { copy },
            Step::Abandon(query) => Event::Abandoned { query },
            Step::Down => Event::ServerDown { server: ServerId(0) },
            Step::Up => Event::ServerUp { server: ServerId(0) },
            Step::Leave => Event::ServerLeft { server: ServerId(0) },
            Step::Join => Event::ServerJoined { server: ServerId(0) },
            Step::Close => Event::Close { server: ServerId(0), until: Timestamp::NEVER },
            Step::Open => Event::Close { server: ServerId(0), until: Timestamp(now) },
            Step::Limit(limit) => Event::Limit { server: ServerId(0), limit },
            Step::Tick => Event::Tick,
        };
        harness.feed(now, event);
    }

    fn replay(&self, path: &[Step]) -> Harness {
        let mut harness = self.start();
        for (now, &step) in path.iter().enumerate() {
            self.take(&mut harness, now as u64, step);
        }
        harness
    }

    fn steps(&self, harness: &Harness) -> Vec<Step> {
        let mut steps = Vec::new();
        if harness.model.arrivals < self.queries {
            steps.push(Step::Arrive);
        }
        for (&copy, state) in &harness.model.copies {
            steps.push(Step::Finish(copy, Outcome::Good));
            if state.query.is_some() {
                steps.push(Step::Finish(copy, Outcome::Failed(Fault::Reset)));
                steps.push(Step::Respond(copy));
            }
            // Other policies ignore this event.
            if self.policy.needs().starts {
                steps.push(Step::Begin(copy));
            }
            if state.stopping {
                steps.push(Step::Stopped(copy));
            }
        }
        steps.extend(harness.model.queries.keys().map(|&query| Step::Abandon(query)));
        let health = harness.model.up[0];
        steps.push(if health == Health::Down { Step::Up } else { Step::Down });
        if self.members {
            steps.push(if health == Health::Absent { Step::Join } else { Step::Leave });
        }
        if self.gates {
            let is_closed = harness.model.is_closed(ServerId(0));
            steps.push(if is_closed { Step::Open } else { Step::Close });
            steps.extend([1, 2].map(Step::Limit));
        }
        if is_due(harness) {
            steps.push(Step::Tick);
        }
        steps
    }

    /// Walks every reachable state. Returns the number of states.
    fn walk(&self) -> usize {
        let mut seen = HashSet::new();
        let mut open = VecDeque::from([Vec::new()]);
        while let Some(path) = open.pop_front() {
            let mut reached = self.replay(&path);
            for step in self.steps(&reached) {
                let mut harness = self.replay(&path);
                let _replay = Replay(self, &path, step);
                self.take(&mut harness, path.len() as u64, step);
                if seen.insert(looks(&harness)) {
                    let mut longer = path.clone();
                    longer.push(step);
                    open.push_back(longer);
                }
            }
            reached.finish_all(path.len() as u64);
        }
        seen.len()
    }
}

/// On a panic, prints the path to the state in which a promise broke.
struct Replay<'a>(&'a Setup, &'a [Step], Step);

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(setup, path, last) = self;
            let Setup { policy, topology, limits, seed, .. } = setup;
            eprintln!("{policy}, seed {seed}, {topology:?}, {limits:?}: {path:?}, then {last:?}");
        }
    }
}

/// Delays have no length in these worlds: every timer is due immediately.
fn is_due(harness: &Harness) -> bool {
    harness.cell.next_deadline() != Timestamp::NEVER
}

/// The state that the referee sees, with times and ages replaced by their ranks.
fn looks(harness: &Harness) -> String {
    let model = &harness.model;
    let mut starts: Vec<_> = model.copies.values().map(|copy| copy.started).collect();
    starts.sort_unstable();
    starts.dedup();
    let mut queries: Vec<_> = model.queries.iter().map(|(id, q)| (q.seq, *id)).collect();
    queries.sort_unstable();
    let rank = |id| queries.iter().position(|&(_, query)| query == id);
    let mut copies: Vec<_> = model
        .copies
        .values()
        .map(|c| (c.server, starts.binary_search(&c.started), c.query.map(rank), c.stopping))
        .collect();
    copies.sort_unstable();
    let of = |&(seq, id): &(u64, curtail_kernel::QueryId)| {
        let q = &model.queries[&id];
        (seq == 1, q.group, q.may_duplicate, q.may_retry, q.avoid, q.failed, q.retries)
    };
    let queries: Vec<_> = queries.iter().map(of).collect();
    let gate = (model.is_closed(ServerId(0)), model.gate(ServerId(0)));
    let (arrivals, up) = (model.arrivals, &model.up);
    format!("{arrivals} {up:?} {gate:?} {} {queries:?} {copies:?}", is_due(harness))
}

fn walk(topology: &Topology, queries: u64, policies: &[&str]) -> usize {
    let mut states = 0;
    for policy in policies.iter().map(|policy| named(policy)) {
        for seed in 0..2 {
            let cancel = policy.needs_cancellation() || seed == 1;
            let limits = Limits { cancel, eject_after: 0, queue: 3, ..Limits::default() };
            let topology = topology.clone();
            let (learned, gates, members) = (None, false, false);
            let setup = Setup { policy, topology, limits, seed, queries, learned, gates, members };
            states += setup.walk();
        }
    }
    states
}

const PULL: [&str; 6] =
    ["psq", "bounded:2", "laedge", "laedge:cc", "laedge:cc+pc", "laedge+bounded:2"];

#[test]
fn two_servers_four_queries() {
    let states = walk(&Topology::replicated(2, 1), 4, &PULL);
    assert!(states > 5_000, "only {states} states: the walk stopped early");
}

#[test]
fn three_servers_three_queries() {
    let states = walk(&Topology::replicated(3, 1), 3, &PULL);
    assert!(states > 5_000, "only {states} states: the walk stopped early");
}

#[test]
fn a_ring_of_three_servers() {
    let servers = vec![Server { slots: 1 }; 3];
    let pair = |a, b| vec![ServerId(a), ServerId(b)];
    let topology = Topology { servers, groups: vec![pair(0, 1), pair(1, 2), pair(2, 0)] };
    let states = walk(&topology, 3, &PULL);
    assert!(states > 5_000, "only {states} states: the walk stopped early");
}

#[test]
fn two_slots_each() {
    let states = walk(&Topology::replicated(2, 2), 3, &PULL);
    assert!(states > 1_000, "only {states} states: the walk stopped early");
}

#[test]
fn stuck_queries_are_rescued() {
    // A step takes 1 ns, so a query that is two steps old is a suspect.
    let learned = Snapshot { suspect_ns: 2, at_once: true, ..Snapshot::NOTHING };
    let policies = ["rescue", "rescue:preempt", "rescue:no-cancel", "rescue+bounded:2"];
    for policy in policies.map(named) {
        for (servers, queries) in [(2, 4), (3, 2)] {
            let topology = Topology::replicated(servers, 1);
            let cancel = policy != named("rescue:no-cancel");
            let limits = Limits { cancel, eject_after: 0, queue: 3, ..Limits::default() };
            let (learned, seed, gates, members) = (Some(learned), 1, false, false);
            let setup = Setup { policy, topology, limits, seed, queries, learned, gates, members };
            let states = setup.walk();
            assert!(states > 100, "{policy}: only {states} states: the walk stopped early");
        }
    }
}

#[test]
fn gates_that_move() {
    let policies =
        ["psq", "laedge:cc+pc", "rescue:preempt", "c3+cubic", "c3:literal", "tied+prequal"];
    for policy in policies.map(named) {
        let cancel = policy.needs_cancellation();
        let limits = Limits { cancel, eject_after: 0, queue: 2, ..Limits::default() };
        // The rate is so low that a token comes between steps only if a step waits for it.
        let tuning = Tuning { burst: 1.0, initial_rate: 1.0, ..Tuning::default() };
        let limits = Limits { max_outstanding: 2, tuning, ..limits };
        let topology = Topology::replicated(2, 1);
        let (seed, learned) = (1, Some(Snapshot { suspect_ns: 2, ..Snapshot::NOTHING }));
        let (queries, gates, members) = (2, true, false);
        let setup = Setup { policy, topology, limits, seed, queries, learned, gates, members };
        let states = setup.walk();
        assert!(states > 100, "{policy}: only {states} states: the walk stopped early");
    }
}

#[test]
fn servers_that_leave_and_are_replaced() {
    let policies = ["psq", "laedge:cc+pc", "rescue:preempt", "c3", "naive", "tied+prequal"];
    for policy in policies.map(named) {
        let cancel = policy.needs_cancellation();
        let limits = Limits { max_outstanding: 2, queue: 2, cancel, ..Limits::default() };
        // With one server, a group may be left without members. Failures may eject servers.
        for (servers, queries, eject_after, least) in [(1, 2, 0, 30), (2, 3, 1, 200)] {
            let limits = Limits { eject_after, ..limits };
            let topology = Topology::replicated(servers, 1);
            let (seed, learned) = (1, Some(Snapshot { suspect_ns: 2, ..Snapshot::NOTHING }));
            let (gates, members) = (false, true);
            let setup = Setup { policy, topology, limits, seed, queries, learned, gates, members };
            let states = setup.walk();
            assert!(states > least, "{policy}: only {states} states: the walk stopped early");
        }
    }
}

#[test]
fn every_pick_behind_a_gate() {
    let names: Vec<&str> = PICKS.iter().map(|pick| pick.name).collect();
    for pick in &names {
        let states = walk_behind_a_gate(2, 2, &[pick]);
        assert!(states > 50, "{pick}: only {states} states: the walk stopped early");
    }
    let policies = ["random", "least-outstanding", "round-robin", "peak-ewma"];
    let states = walk_behind_a_gate(2, 3, &policies);
    assert!(states > 1_000, "only {states} states: the walk stopped early");
}

#[test]
fn every_hedge_behind_a_gate() {
    let policies: Vec<String> = HEDGES
        .iter()
        .flat_map(|hedge| hedge.forms)
        .map(|form| {
            let text = form.replace("[:cc]", ":cc").replace("PICK", "two-choices");
            text.replace("pN", "p50").replace('D', "0ns").replace('Q', "0.5")
        })
        .collect();
    let sparse = policies.iter().map(|policy| (policy.as_str(), 50));
    let dense = ["delayed:0ns:cc", "probabilistic:0ns:0.5", "app-timeout:0ns", "clone+round-robin"];
    let dense =
        dense.into_iter().chain(["tied+least-outstanding", "naive", "das+least-outstanding"]);
    for (policy, least) in sparse.chain(dense.map(|policy| (policy, 100))) {
        for (servers, queries) in [(2, 3), (3, 2)] {
            let states = walk_behind_a_gate(servers, queries, &[policy]);
            assert!(states > least, "{policy}: only {states} states: the walk stopped early");
        }
    }
}

/// Walks worlds with a gate of two copies per server and a short queue in the cell.
fn walk_behind_a_gate(servers: u32, queries: u64, policies: &[&str]) -> usize {
    let topology = Topology::replicated(servers, 1);
    let mut states = 0;
    for policy in policies.iter().map(|policy| named(policy)) {
        let cancel = policy.needs_cancellation();
        let limits =
            Limits { max_outstanding: 2, eject_after: 0, queue: 2, cancel, ..Limits::default() };
        let topology = topology.clone();
        let (seed, learned, gates, members) = (1, None, false, false);
        let setup = Setup { policy, topology, limits, seed, queries, learned, gates, members };
        states += setup.walk();
    }
    states
}
