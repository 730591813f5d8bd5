//! A query waits only for queries that arrived before it, regardless of the load that others cause.
//! With rates and back-pressure, a server that opens serves the oldest query that waits for it,
//! whichever group that query belongs to.
//!
//! The consequences are checked for every query that waits. In random schedules, an adversary
//! floods a group, sends bursts when a server opens or just before it does, and ends copies at any
//! time:
//!
//! - For each query, let W be the number of queries that wait for one of its servers when it
//!   arrives. The query starts after at most W starts on its servers, and no later query starts
//!   there before it. Queues are bounded, so W is also bounded.
//! - If the gates have room, each server gets a token at least once every δ / r, where r is the
//!   lowest rate. So with k servers the query starts within (⌊W / k⌋ + 1) · δ / r.
//!
//! `CURTAIL_SEED` replays only the run with this seed.

use curtail_kernel::{
    Action, Arrive, CopyId, Event, Feedback, GroupId, Limits, Outcome, QueryId, Rng, Scheduler,
    Server, ServerId, Timestamp, Topology, Tuning, rng,
};

use crate::random_events::{Replay, below, pick};
use crate::referee::named;

const GROUPS: u32 = 6;
const REPLICAS: u32 = 3;
const EVENTS: u32 = 600;

struct Waiting {
    query: QueryId,
    group: u32,
    since: u64,
    /// W: the number of earlier queries that wait for its servers.
    older: u64,
    /// The number of copies that have started on its servers since its arrival.
    starts: u64,
}

struct Harness {
    cell: Box<dyn Scheduler>,
    tuning: Tuning,
    /// Whether every copy that may start has room, so that the duration of waits is bounded.
    timed: bool,
    now: u64,
    next: u32,
    waiting: Vec<Waiting>,
    running: Vec<CopyId>,
    /// The longest wait of any query in the first group, measured in starts.
    most: u64,
}

fn serves(group: u32, server: u32) -> bool {
    (server + GROUPS - group) % GROUPS < REPLICAS
}

fn shares(one: u32, other: u32) -> bool {
    (0..GROUPS).any(|server| serves(one, server) && serves(other, server))
}

impl Harness {
    fn new(rng: &mut Rng, seed: u64) -> Self {
        let ring = |g| (0..REPLICAS).map(|at| ServerId((g + at) % GROUPS)).collect();
        let servers = vec![Server { slots: 1 }; GROUPS as usize];
        let topology = Topology { servers, groups: (0..GROUPS).map(ring).collect() };
        let tuning = Tuning {
            clients: pick(rng, &[1, 100]),
            interval_ns: 1_000,
            rate_window_ns: 2_000,
            saddle_ns: 5_000,
            stale_ns: 50_000,
            initial_rate: pick(rng, &[0.2, 2.0]),
            burst: pick(rng, &[1.0, 4.0]),
            ..Tuning::default()
        };
        let timed = below(rng, 2) == 0;
        let max_outstanding = if timed { 10_000 } else { 4 };
        let limits = Limits { max_outstanding, queue: 10_000, tuning, ..Limits::default() };
        let cell = named("c3+cubic").build(&topology, limits, curtail_kernel::rng(seed));
        Self {
            cell: cell.expect("a valid topology"),
            tuning,
            timed,
            now: 0,
            next: 0,
            waiting: Vec::new(),
            running: Vec::new(),
            most: 0,
        }
    }

    fn arrive(&mut self, group: u32) {
        let (query, since) = (QueryId(self.next), self.now);
        self.next += 1;
        let older = self.waiting.iter().filter(|other| shares(group, other.group)).count() as u64;
        self.waiting.push(Waiting { query, group, since, older, starts: 0 });
        self.feed(&Event::Arrive(Arrive::new(query, GroupId(group))));
    }

    fn feed(&mut self, event: &Event) {
        for action in self.cell.handle(Timestamp(self.now), event).to_vec() {
            let Action::Start { copy, query, server, .. } = action else { continue };
            self.running.push(copy);
            let at = self.waiting.iter().position(|waits| waits.query == query);
            let started = self.waiting.remove(at.expect("it waits, if for no time"));
            self.check(&started);
            for (at, waits) in self.waiting.iter_mut().enumerate() {
                if serves(waits.group, server.0) {
                    waits.starts += 1;
                    let (one, other) = (waits.query, query);
                    assert!(other < one, "{other:?} starts before {one:?}, number {at} of those");
                }
            }
        }
    }

    fn check(&mut self, started: &Waiting) {
        let Waiting { query, group, since, older, starts } = *started;
        assert!(starts <= older, "{query:?} starts after {starts} others; {older} were older");
        if group == 0 {
            self.most = self.most.max(starts);
        }
        let waited = self.now - since;
        let Tuning { interval_ns, least_rate, .. } = self.tuning;
        // A token may become available up to 2 ns late.
        let token = (interval_ns as f64 / least_rate) as u64 + 2;
        let most = (older / u64::from(REPLICAS) + 1) * token;
        assert!(!self.timed || waited <= most, "{query:?} waited for {waited} ns, and not {most}");
    }

    /// Feeds a tick at every deadline until this time.
    fn pass(&mut self, until: u64) {
        loop {
            let Timestamp(next) = self.cell.next_deadline();
            if next > until {
                self.now = until;
                return;
            }
            self.now = next.max(self.now);
            self.feed(&Event::Tick);
        }
    }

    fn end_one(&mut self, rng: &mut Rng) {
        if self.running.is_empty() {
            return;
        }
        let at = below(rng, self.running.len() as u32) as usize;
        let copy = self.running.swap_remove(at);
        let (queue, service_ns) = (below(rng, 100), u64::from(below(rng, 5_000)));
        self.feed(&Event::Feedback { copy, feedback: Feedback { queue, service_ns } });
        self.feed(&Event::Finished { copy, outcome: Outcome::Good });
    }

    fn step(&mut self, rng: &mut Rng, flooded: u32) {
        match below(rng, 12) {
            0..3 => self.arrive(flooded),
            3 => (0..below(rng, 20)).for_each(|_| self.arrive(flooded)),
            // Sends a burst when the next server opens, before or after the cell opens it.
            4 => {
                let Timestamp(next) = self.cell.next_deadline();
                if next != u64::MAX {
                    self.pass(next.saturating_sub(u64::from(below(rng, 2))));
                    self.now = self.now.max(next);
                    let others = 1 + below(rng, GROUPS - 1);
                    (0..5).for_each(|_| self.arrive(others));
                    self.pass(self.now);
                }
            }
            5 => self.arrive(below(rng, GROUPS)),
            6 => self.arrive(0),
            7..10 => self.end_one(rng),
            _ => self.pass(self.now + u64::from(below(rng, 1_000))),
        }
    }
}

#[test]
fn a_query_waits_for_earlier_queries_but_not_for_a_later_flood() {
    let only = std::env::var("CURTAIL_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let mut most = 0;
    for seed in only.map_or(0..200, |seed: u64| seed..seed + 1) {
        let _replay = Replay(seed, "bounded_wait");
        let rng = &mut rng(seed);
        let mut harness = Harness::new(rng, seed);
        let flooded = 1 + below(rng, GROUPS - 1);
        (0..EVENTS).for_each(|_| harness.step(rng, flooded));
        while !harness.running.is_empty() || !harness.waiting.is_empty() {
            let Timestamp(next) = harness.cell.next_deadline();
            harness.pass(if next == u64::MAX { harness.now } else { next.max(harness.now) });
            harness.end_one(rng);
        }
        most = most.max(harness.most);
    }
    assert!(only.is_some() || most >= 20, "the adversary delayed the modest group: {most}");
}
