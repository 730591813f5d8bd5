//! Rescue over JBSQ(N), step by step: copies wait at their servers, and their ages are measured
//! from the time at which they begin there.

use crate::referee::{Harness, named};
use curtail_kernel::hedge::rescue::{Exploration, Prefetch, Record, Snapshot};
use curtail_kernel::{
    CopyId, Event, Fault, Limits, NEVER_NS, Outcome, QueryId, Rng, ServerId, StartReason,
    StopReason, Timestamp, Topology, rng,
};
use rand_core::Rng as _;

const SUSPECTING: Snapshot =
    Snapshot { suspect_ns: 100, audit_every: u32::MAX, ..Snapshot::NOTHING };

/// One copy may wait at a server with one or two slots.
const AT_ONCE: Prefetch = Prefetch { per_64: 32, ..Prefetch::NONE };

/// Servers that have one slot and may hold two copies, and a T of 100.
fn harness(servers: u32, cancel: bool) -> Harness {
    let limits = Limits { cancel, ..Limits::default() };
    let topology = Topology::replicated(servers, 1);
    let mut harness = Harness::new(named("rescue+bounded:2"), &topology, limits, 1);
    harness.adopt(&SUSPECTING);
    harness
}

#[test]
fn a_query_that_waits_at_its_server_does_not_age() {
    let mut w = harness(2, true);
    let pair = [w.arrive(0, 0), w.arrive(0, 0)];
    let waits = w.arrive(10, 0);
    let [copy] = w.copies(waits)[..] else { panic!("it was sent") };
    let busy = w.on(w.server_of(copy).0)[0];
    let first = pair.map(|query| w.copies(query)[0]);
    let other = first[usize::from(first[0] == busy)];
    w.finish(20, other, Outcome::Good);
    assert_eq!(w.cell.next_deadline(), Timestamp(100), "of the one before it");
    w.finish(60, busy, Outcome::Good);
    assert_eq!(w.cell.next_deadline(), Timestamp(160), "it began at 60");
    w.feed(159, Event::Tick);
    assert_eq!(w.actions, [], "a server has been idle since 20");
    w.feed(160, Event::Tick);
    assert_eq!(w.starts(), [(waits, StartReason::Rescue)]);
    w.finish(170, w.copies(waits)[1], Outcome::Good);
    let [.., record] = w.published()[..] else { panic!("queries ended") };
    assert!(matches!(record, Record::Second { ran_ns: 10, .. }), "{record:?}");
    w.finish_all(200);
}

#[test]
fn a_suspect_is_sent_to_a_server_with_room_and_ages_from_when_it_begins_there() {
    let mut w = harness(2, true);
    let long = w.arrive(0, 0);
    let busy = w.arrive(50, 0);
    w.feed(100, Event::Tick);
    assert_eq!(w.starts(), [(long, StartReason::Rescue)], "before whatever comes next");
    let [first, second] = w.copies(long)[..] else { panic!("two copies") };
    w.finish(120, w.copies(busy)[0], Outcome::Good);
    assert_eq!(w.cell.next_deadline(), Timestamp(220), "the rescue has begun at 120");
    w.feed(219, Event::Tick);
    assert_eq!(w.actions, []);
    w.feed(220, Event::Tick);
    assert_eq!(w.actions, [], "it is long, and no copy waits behind its rescue");
    let stops = [221, 222].map(|now| {
        w.arrive(now, 0);
        w.stops()
    });
    assert_eq!(stops.concat(), [(second, StopReason::GiveUp)], "a copy waits behind it");
    w.feed(223, Event::Stopped { copy: second });
    w.finish(500, first, Outcome::Good);
    w.finish_all(600);
}

#[test]
fn a_rescue_that_has_not_begun_is_not_given_up_and_is_no_evidence() {
    let mut w = harness(2, true);
    let stuck = w.arrive(0, 0);
    let busy = w.arrive(90, 0);
    w.feed(100, Event::Tick);
    let [first, second] = w.copies(stuck)[..] else { panic!("two copies") };
    // The other query is also a suspect, and a server has room again.
    assert_eq!(w.cell.next_deadline(), Timestamp(190));
    w.feed(190, Event::Tick);
    assert_eq!(w.starts(), [(busy, StartReason::Rescue)]);
    assert_eq!(w.cell.next_deadline(), Timestamp::NEVER, "each waits behind the other");
    w.finish(1_000, first, Outcome::Good);
    assert_eq!(w.stops(), [(second, StopReason::Cleanup)]);
    let record = Record::First { ran_ns: 1_000, tried: None, crowded: true };
    assert_eq!(w.published(), [record]);
    assert_eq!(w.cell.next_deadline(), Timestamp(1_100), "the other rescue has begun");
    w.finish_all(1_100);
}

#[test]
fn between_two_suspects_that_overtake_at_a_server_it_serves_the_queue() {
    let mut w = harness(3, true);
    let [a, b] = [w.arrive(0, 0), w.arrive(0, 0)];
    let busy = w.arrive(60, 0);
    let at = w.server_of(w.copies(busy)[0]);
    // One more query waits at each server, and two more wait in the cell.
    let waits: Vec<QueryId> = (61..66).map(|now| w.arrive(now, 0)).collect();
    w.feed(100, Event::Tick);
    assert_eq!(w.actions, [], "no server has room");
    w.finish(110, w.copies(busy)[0], Outcome::Good);
    assert_eq!(w.starts(), [(a, StartReason::Rescue)], "the oldest suspect");
    w.finish(112, w.on(at.0)[0], Outcome::Good);
    assert_eq!(w.starts(), [(waits[3], StartReason::Queue)], "although b is a suspect, too");
    let [first, second] = w.copies(a)[..] else { panic!("two copies") };
    w.finish(115, second, Outcome::Good);
    assert_eq!(w.stops(), [(first, StopReason::Cleanup)]);
    assert_eq!(w.starts(), [(b, StartReason::Rescue)], "the queue has had its turn");
    w.finish_all(200);
}

#[test]
fn an_exploration_makes_room_for_a_query_that_is_sent_to_its_server() {
    let explore = [Exploration { age_ns: 50, every: 1 }; 2];
    let mut w = harness(2, true);
    w.adopt(&Snapshot { explore, ..Snapshot::NOTHING });
    let tried = w.arrive(0, 0);
    w.feed(50, Event::Tick);
    assert_eq!(w.starts(), [(tried, StartReason::Explore)]);
    let [_, early] = w.copies(tried)[..] else { panic!("two copies") };
    let mut stops = Vec::new();
    for now in [51, 52] {
        let query = w.arrive(now, 0);
        let there = w.server_of(w.copies(query)[0]) == w.server_of(early);
        let stopped: &[_] = if there { &[(early, StopReason::Preemption)] } else { &[] };
        assert_eq!(w.stops(), stopped);
        stops.extend_from_slice(stopped);
    }
    assert_eq!(stops.len(), 1, "one query was sent to each server");
    w.feed(53, Event::Stopped { copy: early });
    assert_eq!(w.cell.next_deadline(), Timestamp(103), "the query has begun at 53");
    w.finish_all(60);
}

#[test]
fn a_bound_below_the_slots_is_refused() {
    let topology = Topology::replicated(2, 3);
    let build = |n| named("rescue").over_bounded(n).build(&topology, Limits::default(), rng(1));
    let Err(refused) = build(2) else { panic!("two are less than three") };
    assert!(refused.to_string().contains("use at least rescue+bounded:3"), "{refused}");
    assert!(build(3).is_ok());
}

fn below(rng: &mut Rng, n: u64) -> u64 {
    rng.next_u64() % n
}

/// A random event that is possible in this state.
fn happens(rng: &mut Rng, harness: &mut Harness, now: u64) -> Event {
    if harness.cell.next_deadline() <= Timestamp(now) {
        return Event::Tick;
    }
    let copies: Vec<CopyId> = harness.model.copies.keys().copied().collect();
    if copies.is_empty() || below(rng, 5) < 2 {
        let arrive = curtail_kernel::Arrive::new(harness.fresh(), curtail_kernel::GroupId(0));
        return Event::Arrive(arrive);
    }
    let copy = copies[below(rng, copies.len() as u64) as usize];
    match below(rng, 40) {
        0 => Event::ServerDown { server: harness.server_of(copy) },
        1..=3 => Event::ServerUp { server: ServerId(below(rng, 3) as u32) },
        4 => Event::Finished { copy, outcome: Outcome::Failed(Fault::Reset) },
        _ if harness.model.copies[&copy].stopping => Event::Stopped { copy },
        _ => Event::Finished { copy, outcome: Outcome::Good },
    }
}

#[test]
fn a_bound_equal_to_the_slots_is_plain_rescue() {
    let explore =
        [Exploration { age_ns: 20, every: 2 }, Exploration { age_ns: NEVER_NS, every: 1 }];
    let mut rescues = 0;
    for seed in 0..8 {
        let (slots, cancel) = (1 + seed as u32 % 2, seed % 4 < 2);
        let limits = Limits { cancel, rescue_budget: 0.5, ..Limits::default() };
        let topology = Topology::replicated(3, slots);
        let new = |policy| Harness::new(policy, &topology, limits, seed);
        let mut plain = new(named("rescue"));
        let mut bounded = new(named("rescue").over_bounded(slots));
        let rng = &mut rng(seed);
        let mut now = 0;
        for step in 0..2_000_u32 {
            if step.is_multiple_of(100) {
                let suspect_ns = if step < 500 { NEVER_NS } else { 15 };
                let snapshot = Snapshot { explore, suspect_ns, ..Snapshot::NOTHING };
                plain.adopt(&snapshot);
                bounded.adopt(&snapshot);
            }
            now += below(rng, 8);
            let event = happens(rng, &mut plain, now);
            if let Event::Arrive(arrive) = event {
                assert_eq!(bounded.fresh(), arrive.query);
            }
            plain.feed(now, event);
            bounded.feed(now, event);
            assert_eq!(bounded.actions, plain.actions, "seed {seed}, step {step}");
            assert_eq!(bounded.cell.next_deadline(), plain.cell.next_deadline());
            assert_eq!(bounded.published(), plain.published());
        }
        rescues += plain.model.rescues;
    }
    assert!(rescues > 60, "only {rescues} rescues");
}

#[test]
fn if_round_trips_are_long_a_copy_waits_at_each_server() {
    let limits = Limits { cancel: true, ..Limits::default() };
    let mut w = Harness::new(named("rescue"), &Topology::replicated(2, 1), limits, 1);
    w.adopt(&Snapshot { prefetch: AT_ONCE, round_trip_ns: 30, ..SUSPECTING });
    let queries: Vec<QueryId> = (0..6).map(|_| w.arrive(0, 0)).collect();
    let held = |w: &Harness| queries.iter().filter(|&&query| !w.copies(query).is_empty()).count();
    assert_eq!(held(&w), 2, "gates move when a copy ends");
    w.finish(40, w.copies(queries[0])[0], Outcome::Good);
    assert_eq!(w.starts().len(), 2, "one that runs, and one that waits");
    w.finish(50, w.copies(queries[1])[0], Outcome::Good);
    assert_eq!(held(&w), 4, "all that have not ended");
    // The fourth begins when the third ends, and its age is measured from one round trip before
    // that.
    w.finish(90, w.copies(queries[2])[0], Outcome::Good);
    w.finish(100, w.copies(queries[4])[0], Outcome::Good);
    assert_eq!(w.cell.next_deadline(), Timestamp(160), "60 and T");
    w.published();
    w.finish(150, w.copies(queries[3])[0], Outcome::Good);
    let records = w.published();
    assert!(matches!(records[0], Record::First { ran_ns: 90, .. }), "{records:?}");
    assert_eq!(records[1], Record::Run { ran_ns: 60, waited_ns: 50 });
    // No query is waiting anymore. Once waiting is no longer worthwhile, only the slot is filled.
    w.adopt(&SUSPECTING);
    w.finish_all(200);
    let _ = (w.arrive(300, 0), w.arrive(300, 0));
    w.finish_all(350);
    let _ = (w.arrive(400, 0), w.arrive(400, 0));
    let waits = w.arrive(400, 0);
    assert_eq!(w.copies(waits), []);
    w.finish_all(500);
}

#[test]
fn a_query_that_begins_as_a_suspect_is_rescued_at_once() {
    let mut w = harness(2, true);
    w.adopt(&Snapshot { round_trip_ns: 300, ..SUSPECTING });
    let first = [w.arrive(0, 0), w.arrive(0, 0)].map(|query| w.copies(query)[0]);
    let waits = w.arrive(10, 0);
    let [copy] = w.copies(waits)[..] else { panic!("it was sent") };
    let before = w.on(w.server_of(copy).0)[0];
    let other = first[usize::from(first[0] == before)];
    w.finish(50, other, Outcome::Good);
    w.finish(200, before, Outcome::Good);
    assert_eq!(w.cell.next_deadline(), Timestamp(200), "not when it came of age, which is past");
    w.feed(200, Event::Tick);
    assert!(w.starts().contains(&(waits, StartReason::Rescue)), "{:?}", w.starts());
    w.finish_all(400);
}

#[test]
fn a_first_copy_with_others_behind_it_is_audited_only_if_none_ever_was() {
    for (waits, audit_every) in [(false, 1), (true, 1), (true, 0)] {
        let mut w = harness(2, true);
        w.adopt(&Snapshot { audit_every, ..SUSPECTING });
        let stuck = w.arrive(0, 0);
        w.feed(100, Event::Tick);
        let [first, second] = w.copies(stuck)[..] else { panic!("two copies") };
        if waits {
            let _ = (w.arrive(110, 0), w.arrive(110, 0));
        }
        w.finish(120, second, Outcome::Good);
        let harms = waits && audit_every > 0;
        let stops: &[_] = if harms { &[(first, StopReason::Cleanup)] } else { &[] };
        assert_eq!(w.stops(), stops);
        w.finish_all(200);
    }
}
