//! A server that immediately refuses requests or breaks off responses is idle again right away. No
//! pick and no hedge may prefer it for that reason: it gets the same share as a healthy server, and
//! clients see no more refusals than with round robin and a retry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use crate::actions::starts;
use crate::referee::{named, names_pick};
use curtail_kernel::balance::PICKS;
use curtail_kernel::{
    Action, Arrive, CopyId, Event, Fault, GroupId, Limits, Outcome, Policy, Probed, QueryId, Rng,
    Scheduler, ServerId, Timestamp, Topology, rng,
};
use rand_core::Rng as _;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const SERVERS: u32 = 4;
const SLOTS: u32 = 2;
const QUERIES: u32 = 6_000;
const BAD: ServerId = ServerId(0);

/// The behavior of the bad server.
#[derive(Clone, Copy)]
struct Bad {
    head: Option<Outcome>,
    end: Outcome,
    after_ns: u64,
    /// On the bad server, one copy in this number ends in this way.
    one_in: u32,
}

/// The results of a run.
#[derive(Debug, Default)]
struct Seen {
    copies: u32,
    on_bad: u32,
    failed: u32,
    ejections: u32,
}

/// Healthy servers with exponential service times and no queues, and one bad server.
struct Harness {
    cell: Box<dyn Scheduler>,
    bad: Bad,
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Event>,
    rng: Rng,
    seen: Seen,
}

fn exponential(rng: &mut Rng, mean_ns: u64) -> u64 {
    let uniform = (f64::from(rng.next_u32()) + 1.0) / 4_294_967_297.0;
    (-uniform.ln() * mean_ns as f64) as u64
}

impl Harness {
    fn at(&mut self, ns: u64, event: Event) {
        self.due.push(Reverse((ns, self.events.len() as u64, self.events.len())));
        self.events.push(event);
    }

    fn start(&mut self, now: u64, copy: CopyId, server: ServerId) {
        self.seen.copies += 1;
        self.at(now, Event::Started { copy });
        if server == BAD {
            self.seen.on_bad += 1;
            let Bad { head, end, after_ns, one_in } = self.bad;
            if !self.seen.on_bad.is_multiple_of(one_in) {
                let took = exponential(&mut self.rng, 10 * MS);
                return self.at(now + took, Event::Finished { copy, outcome: Outcome::Good });
            }
            if let Some(outcome) = head {
                self.at(now + after_ns / 2, Event::Responded { copy, outcome });
            }
            return self.at(now + after_ns, Event::Finished { copy, outcome: end });
        }
        let took = exponential(&mut self.rng, 10 * MS);
        self.at(now + took, Event::Finished { copy, outcome: Outcome::Good });
    }

    fn feed(&mut self, now: u64, event: Event) {
        for action in self.cell.handle(Timestamp(now), &event).to_vec() {
            match action {
                Action::Start { copy, server, .. } => self.start(now, copy, server),
                Action::Stop { copy, .. } => self.at(now + US, Event::Stopped { copy }),
                Action::Fail { .. } | Action::Shed { .. } => self.seen.failed += 1,
                Action::Probe { server } => {
                    let in_flight = self.cell.core().server(server).outstanding;
                    let latency_ns = if server == BAD { self.bad.after_ns } else { 10 * MS };
                    self.at(now + US, Event::Probed(Probed { server, in_flight, latency_ns }));
                }
                Action::Eject { server, .. } => {
                    self.seen.ejections += 1;
                    self.at(now + 250 * MS, Event::ServerUp { server });
                }
                Action::Answer { .. } | Action::Lose { .. } | Action::Restore { .. } => {}
            }
        }
    }

    /// Runs queries that arrive at half the capacity of the healthy servers.
    fn run(policy: Policy, bad: Bad, limits: Limits) -> Seen {
        let cell = policy.build(&Topology::replicated(SERVERS, SLOTS), limits, rng(7)).unwrap();
        let (due, events, seen) = (BinaryHeap::new(), Vec::new(), Seen::default());
        let mut harness = Self { cell, bad, due, events, rng: rng(9), seen };
        let mut arrivals = rng(11);
        let gap = 10 * MS / u64::from((SERVERS - 1) * SLOTS) * 2;
        let (mut next, mut query) = (0, 0);
        while query < QUERIES {
            let timer = harness.cell.next_deadline().0;
            let event = harness.due.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            if next <= timer.min(event) {
                harness.feed(next, Event::Arrive(Arrive::new(QueryId(query), GroupId(0))));
                query += 1;
                next += exponential(&mut arrivals, gap);
            } else if timer <= event {
                harness.feed(timer, Event::Tick);
            } else if let Some(Reverse((at, _, index))) = harness.due.pop() {
                let event = harness.events[index];
                harness.feed(at, event);
            }
        }
        harness.seen
    }
}

/// Returns every pick, and every hedge with every pick.
fn policies() -> Vec<Policy> {
    let mut policies = Vec::new();
    for form in Policy::forms() {
        let form =
            form.replace("+PICK", "").replace("[:cc]", "").replace('N', "3").replace('D', "20ms");
        let form = form.replace('Q', "0.5").replace("20ms:auto", "auto");
        policies.push(named(&form));
        if !names_pick(&form) {
            policies.extend(PICKS.iter().map(|pick| named(&format!("{form}+{}", pick.name))));
        }
    }
    assert!(policies.len() > 100, "{}", policies.len());
    policies
}

fn limits(eject_after_refusals: u32) -> Limits {
    Limits { cancel: true, eject_after: 0, eject_after_refusals, ..Limits::default() }
}

const REFUSES: Bad = Bad { head: None, end: Outcome::Refused, after_ns: 100 * US, one_in: 1 };

/// Asserts that the bad server got at most a fair share of the copies, with a margin for chance.
#[track_caller]
fn assert_fair(policy: &dyn fmt::Display, seen: &Seen) {
    let mean = f64::from(seen.copies) / f64::from(SERVERS);
    let fair = mean + 4.0 * mean.sqrt();
    assert!(
        f64::from(seen.on_bad) <= fair,
        "{policy}: the bad server got {} of {} copies; a fair share is at most {fair:.0}. Does the \
         pick prefer some servers, for example because it breaks ties by index? {seen:?}",
        seen.on_bad,
        seen.copies,
    );
}

#[test]
fn a_server_that_refuses_at_once_gets_no_more_than_its_share_with_any_policy() {
    let usual = Harness::run(Policy::ROUND_ROBIN, REFUSES, limits(0));
    for policy in policies() {
        let seen = Harness::run(policy, REFUSES, limits(0));
        assert_fair(&policy, &seen);
        // A policy that sends more copies sees more refusals.
        let most = f64::from(usual.failed) * f64::from(seen.copies) / f64::from(usual.copies);
        let most = most + 4.0 * most.sqrt();
        assert!(f64::from(seen.failed) <= most, "{policy}: {seen:?}, round-robin {usual:?}");
    }
}

#[test]
fn a_server_whose_responses_are_over_a_limit_gets_no_more_than_its_share() {
    let over = Bad { end: Outcome::OverLimit, ..REFUSES };
    for policy in ["least-outstanding", "two-choices", "c3", "peak-ewma", "psq", "laedge"] {
        let seen = Harness::run(named(policy), over, limits(0));
        assert_fair(&policy, &seen);
    }
}

#[test]
fn a_server_that_refuses_everything_is_ejected_and_one_that_refuses_some_is_not() {
    for policy in ["round-robin", "least-outstanding", "c3", "peak-ewma", "laedge"].map(named) {
        let seen = Harness::run(policy, REFUSES, limits(20));
        assert!(seen.on_bad < seen.copies / 10, "{policy}: {seen:?}");
        assert!(seen.failed < QUERIES / 100 && seen.ejections > 0, "{policy}: {seen:?}");
        let seen = Harness::run(policy, Bad { one_in: 2, ..REFUSES }, limits(20));
        assert_eq!(seen.ejections, 0, "{policy}: {seen:?}");
    }
}

#[test]
fn a_server_that_breaks_off_inside_of_its_responses_is_not_preferred_and_is_ejected() {
    let head = Some(Outcome::Good);
    for end in [Fault::Reset, Fault::Malformed].map(Outcome::Failed) {
        let breaks = Bad { head, end, after_ns: 200 * US, one_in: 1 };
        for policy in policies() {
            let seen = Harness::run(policy, breaks, limits(0));
            assert_fair(&policy, &seen);
        }
        let ejects = Limits { eject_after: 5, ..limits(0) };
        for policy in PICKS.iter().map(|pick| Policy::balance(pick)) {
            let seen = Harness::run(policy, breaks, ejects);
            assert!(seen.on_bad < seen.copies / 10, "{policy}: {seen:?}");
        }
    }
}

/// Returns a cell of three servers, and the current time. The first server, which is the fastest,
/// was down and has returned.
fn returned(policy: Policy) -> (Box<dyn Scheduler>, u64) {
    let mut cell = policy.build(&Topology::replicated(3, 1), limits(0), rng(3)).unwrap();
    let mut now = 0;
    for query in 0..60 {
        now += 20 * MS;
        let arrive = Event::Arrive(Arrive::new(QueryId(query), GroupId(0)));
        let copies = starts(cell.handle(Timestamp(now), &arrive));
        for (copy, server) in copies {
            let took = if server == BAD { 9 * MS } else { 10 * MS };
            let good = Event::Finished { copy, outcome: Outcome::Good };
            cell.handle(Timestamp(now + took), &good);
        }
    }
    now += 20 * MS;
    cell.handle(Timestamp(now), &Event::ServerDown { server: BAD });
    cell.handle(Timestamp(now + MS), &Event::ServerUp { server: BAD });
    (cell, now + 2 * MS)
}

#[test]
fn a_server_that_returns_gets_one_copy_and_then_twice_as_many_with_every_round() {
    for &pick in PICKS {
        let (mut cell, mut now) = returned(Policy::balance(pick));
        let mut held: Vec<CopyId> = Vec::new();
        let mut query = 60;
        for most in [1, 2, 4, 8] {
            for _ in 0..24 {
                let arrive = Event::Arrive(Arrive::new(QueryId(query), GroupId(0)));
                query += 1;
                let started = starts(cell.handle(Timestamp(now), &arrive));
                held.extend(started.iter().filter(|(_, server)| *server == BAD).map(|(c, _)| c));
            }
            assert!(held.len() <= most, "{pick:?}: {} of 24 at once", held.len());
            now += 10 * MS;
            for copy in held.drain(..) {
                cell.handle(Timestamp(now), &Event::Finished { copy, outcome: Outcome::Good });
            }
            // All other copies keep running: these servers are slow now.
        }
    }
}

#[test]
fn retry_after_closes_a_server_for_that_time_unless_it_is_the_last() {
    let [a, b] = [0, 1].map(ServerId);
    let limits = Limits { retry_after_max_ns: 50 * MS, ..Limits::default() };
    let mut cell =
        named("least-outstanding").build(&Topology::replicated(2, 1), limits, rng(1)).unwrap();
    let mut query = 0;
    let mut next = |cell: &mut Box<dyn Scheduler>, now| {
        query += 1;
        let arrive = Event::Arrive(Arrive::new(QueryId(query), GroupId(0)));
        starts(cell.handle(Timestamp(now), &arrive)).first().map(|(_, server)| *server)
    };
    cell.handle(Timestamp(0), &Event::RetryAfter { server: a, ns: 30_000 * MS });
    assert!((0..10).all(|_| next(&mut cell, MS) == Some(b)));
    cell.handle(Timestamp(2 * MS), &Event::RetryAfter { server: b, ns: 20 * MS });
    assert_eq!(next(&mut cell, 3 * MS), Some(b), "the last one stays open");
    assert_eq!(cell.next_deadline(), Timestamp(50 * MS), "no longer than the limit");
    cell.handle(Timestamp(50 * MS), &Event::Tick);
    assert_eq!(next(&mut cell, 50 * MS), Some(a));
}

#[test]
fn a_query_fails_at_once_if_no_other_server_opens_before_its_deadline() {
    let [a, b] = [0, 1].map(ServerId);
    let limits = Limits { timeout_ns: 100, ..Limits::default() };
    for (pause, waits) in [(60, true), (200, false)] {
        let mut w = crate::referee::Harness::replicated(Policy::ROUND_ROBIN, 2, limits);
        w.feed(0, Event::RetryAfter { server: a, ns: pause });
        let query = w.arrive(1, 0);
        let copy = w.copies(query)[0];
        w.feed(10, Event::RetryAfter { server: b, ns: pause });
        let actions = w.finish(10, copy, Outcome::Refused);
        assert_eq!(actions.is_empty(), waits, "{actions:?}");
        let actions = w.feed(60, Event::Tick);
        assert_eq!(starts(actions).first().map(|(_, server)| *server), waits.then_some(a));
        w.finish_all(70);
    }
}

#[test]
fn a_query_whose_retry_a_server_forbids_is_neither_retried_nor_hedged() {
    let mut w = crate::referee::Harness::replicated(Policy::ROUND_ROBIN, 2, Limits::default());
    let query = w.arrive(0, 0);
    let copy = w.copies(query)[0];
    w.feed(10, Event::ForbidRetry { copy });
    let actions = w.finish(10, copy, Outcome::Refused);
    assert!(matches!(actions[..], [Action::Fail { .. }]), "{actions:?}");

    // Without the event, the timer starts a second copy.
    for forbidden in [false, true] {
        let mut w = crate::referee::Harness::replicated(named("delayed:5ns"), 2, Limits::default());
        let query = w.arrive(0, 0);
        let copy = w.copies(query)[0];
        if forbidden {
            w.feed(1, Event::ForbidRetry { copy });
        }
        w.feed(5, Event::Tick);
        assert_eq!(w.copies(query).len(), 2 - usize::from(forbidden));
        w.finish_all(20);
    }
}

#[test]
fn a_response_about_the_request_wins_and_one_over_a_limit_is_not_retried() {
    for (outcome, answered, copies) in [
        (Outcome::Request, true, 1),
        (Outcome::Refused, false, 2),
        (Outcome::Local, false, 2),
        (Outcome::OverLimit, false, 1),
    ] {
        let mut w = crate::referee::Harness::replicated(Policy::ROUND_ROBIN, 2, Limits::default());
        let query = w.arrive(0, 0);
        let mut sent = 0;
        let mut answers = 0;
        while let Some(copy) = w.copies(query).first().copied() {
            sent += 1;
            let actions = w.finish(10, copy, outcome);
            answers += actions.iter().filter(|a| matches!(a, Action::Answer { .. })).count();
        }
        assert_eq!((sent, answers == 1), (copies, answered), "{outcome:?}");
        w.finish_all(20);
    }
}
