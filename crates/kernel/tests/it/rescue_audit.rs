//! Audits of rescue: a first copy that lost runs on, to see for how long it is stuck.

use crate::referee::World;
use curtail_kernel::hedge::{Record, Snapshot, Version};
use curtail_kernel::{
    Action, CopyId, Event, Limits, NEVER_NS, Outcome, Policy, QueryId, ServerId, StopReason,
    Timestamp, Topology,
};

const LEARNED: Snapshot = Snapshot { suspect_ns: 100, audit: true, ..Snapshot::NOTHING };

fn world(version: Version, servers: u32, limits: Limits) -> World {
    let limits = Limits { cancel: version != Version::NoCancel, ..limits };
    let mut world = World::new(Policy::from(version), &Topology::replicated(servers, 1), limits, 1);
    world.adopt(&LEARNED);
    world
}

/// The copies of a query, in the order in which they started.
fn copies(world: &World, query: QueryId) -> Vec<CopyId> {
    world.model.attached(query).map(|(id, _)| *id).collect()
}

/// A query that arrives is rescued at the age T, and its second copy wins 20 later; its first one.
fn rescued(world: &mut World, now: u64) -> CopyId {
    let stuck = world.arrive(now, 0);
    world.feed(now + 100, Event::Tick);
    let [first, second] = copies(world, stuck)[..] else { panic!("two copies") };
    world.finish(now + 120, second, Outcome::Good);
    first
}

fn audits(world: &mut World) -> Vec<Record> {
    let mut records = world.published();
    records.retain(|record| matches!(record, Record::Audit { .. }));
    records
}

#[test]
fn a_first_copy_that_is_audited_runs_to_its_end() {
    let mut w = world(Version::Cleanup, 2, Limits::default());
    let first = rescued(&mut w, 0);
    w.arrive(200, 0);
    w.arrive(210, 0);
    assert_eq!(w.stops(), [], "the first win is audited, though a query waits");
    w.finish(300, first, Outcome::Good);
    assert_eq!(audits(&mut w), [Record::Audit { ran_ns: 300, second_ns: 20 }]);
    w.finish_all(400);
}

#[test]
fn it_has_the_time_that_every_copy_has_and_is_stopped_then() {
    let timed = Limits { attempt_timeout_ns: 500, cancel_timeout_ns: 50, ..Limits::default() };
    let untimed = Limits { attempt_timeout_ns: NEVER_NS, cancel_timeout_ns: 380, ..timed };
    for limits in [timed, untimed] {
        let mut w = world(Version::Cleanup, 2, limits);
        let first = rescued(&mut w, 0);
        assert_eq!(w.cell.next_deadline(), Timestamp(500));
        w.feed(500, Event::Tick);
        assert_eq!(w.actions, [Action::Stop { copy: first, why: StopReason::Cleanup }]);
        assert_eq!(audits(&mut w), [Record::Audit { ran_ns: 500, second_ns: 20 }], "or more");
        w.feed(510, Event::Stopped { copy: first });
        let up = |server| w.cell.core().server(ServerId(server)).up;
        assert!(up(0) && up(1), "it has stopped when it was told to");
        w.finish_all(600);
    }
}

#[test]
fn a_server_that_does_not_stop_it_is_out() {
    let limits = Limits { attempt_timeout_ns: 500, cancel_timeout_ns: 50, ..Limits::default() };
    let mut w = world(Version::Cleanup, 2, limits);
    let first = rescued(&mut w, 0);
    w.feed(500, Event::Tick);
    w.feed(550, Event::Tick);
    assert!(w.actions.contains(&Action::Lose { copy: first }), "{:?}", w.actions);
    w.finish_all(600);
}

#[test]
fn a_loser_that_nobody_stops_has_as_long_as_if_no_copy_had_won() {
    let limits = Limits { attempt_timeout_ns: 500, cancel_timeout_ns: 300, ..Limits::default() };
    let mut w = world(Version::NoCancel, 2, limits);
    w.adopt(&Snapshot { audit: false, ..LEARNED });
    let slow = rescued(&mut w, 0);
    w.feed(420, Event::Tick);
    assert_eq!(w.actions, [], "it lost 300 ago");
    w.feed(799, Event::Tick);
    assert_eq!(w.actions, []);
    w.finish(799, slow, Outcome::Good);
    let hung = rescued(&mut w, 1_000);
    w.feed(1_500, Event::Tick);
    w.feed(1_800, Event::Tick);
    assert!(w.actions.contains(&Action::Lose { copy: hung }), "{:?}", w.actions);
    w.finish_all(2_000);
}

#[test]
fn there_is_one_at_a_time() {
    let mut w = world(Version::Cleanup, 3, Limits::default());
    let audited = rescued(&mut w, 0);
    w.adopt(&LEARNED);
    let other = rescued(&mut w, 1_000);
    assert_eq!(w.stops(), [(other, StopReason::Cleanup)], "its slot is free");
    w.feed(1_121, Event::Stopped { copy: other });
    w.finish(2_000, audited, Outcome::Good);
    let next = rescued(&mut w, 3_000);
    assert_eq!(w.stops(), [], "it is due yet");
    // What is lost tells nothing, and is not waited for.
    let server = w.model.copies[&next].server;
    w.feed(3_200, Event::ServerDown { server });
    w.feed(3_201, Event::ServerUp { server });
    assert_eq!(audits(&mut w).len(), 1);
    w.adopt(&LEARNED);
    let last = rescued(&mut w, 4_000);
    assert_eq!(w.stops(), []);
    w.finish(4_200, last, Outcome::Good);
    assert_eq!(audits(&mut w), [Record::Audit { ran_ns: 200, second_ns: 20 }]);
    w.finish_all(5_000);
}

#[test]
fn a_server_whose_copy_ends_after_all_or_that_restarts_is_as_good_as_others() {
    let ends = [(Version::Cleanup, false), (Version::NoCancel, false), (Version::Cleanup, true)];
    for (version, restarts) in ends {
        let mut w = world(version, 3, Limits::default());
        let late = rescued(&mut w, 0);
        let beaten = w.model.copies[&late].server;
        if restarts {
            w.feed(200, Event::ServerDown { server: beaten });
            w.feed(201, Event::ServerUp { server: beaten });
        } else {
            w.finish(200, late, Outcome::Good);
        }
        let mut used = |now| {
            let query = w.arrive(now, 0);
            let copy = copies(&w, query)[0];
            let server = w.model.copies[&copy].server;
            w.finish(now, copy, Outcome::Good);
            server == beaten
        };
        let used = (1_000..1_100).filter(|&now| used(now)).count();
        assert!((15..=55).contains(&used), "one in three, of 100: {used}");
        w.finish_all(2_000);
    }
}
