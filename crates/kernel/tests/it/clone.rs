//! Cloning: a query runs on every server of its group that has room.

use crate::referee::{World, named};
use curtail_kernel::{
    Action, Arrive, CopyId, Event, FailReason, GroupId, Limits, Outcome, QueryId, Role, Scheduler,
    ServerId, StartReason, Timestamp, Topology, rng,
};

fn world(servers: u32, limits: Limits) -> World {
    World::new(named("clone"), &Topology::replicated(servers, 1), limits, 1)
}

fn copies_of(w: &World, query: QueryId) -> Vec<CopyId> {
    w.model.attached(query).map(|(id, _)| *id).collect()
}

/// Arrives while servers 1 and 2 have room, and server 0 has not: its two copies.
fn beside_a_full_server(limits: Limits) -> (World, QueryId, CopyId, CopyId) {
    let mut w = world(3, Limits { max_outstanding: 1, ..limits });
    w.feed(0, Event::ServerDraining { server: ServerId(1) });
    w.feed(0, Event::ServerDraining { server: ServerId(2) });
    w.arrive(0, 0);
    w.feed(0, Event::ServerUp { server: ServerId(1) });
    w.feed(0, Event::ServerUp { server: ServerId(2) });
    let query = w.arrive(1, 0);
    let [first, second] = copies_of(&w, query)[..] else { panic!("two servers have room") };
    (w, query, first, second)
}

#[test]
fn every_server_gets_a_copy_at_once() {
    let mut w = world(3, Limits::default());
    let query = w.arrive(0, 0);
    let started = w.actions.iter().map(|action| match *action {
        Action::Start { query: of, role, why, .. } if of == query => (role, why),
        other => panic!("{other:?}"),
    });
    let hedge = (Role::Duplicate, StartReason::Hedge);
    let arrival = (Role::Primary, StartReason::Arrival);
    assert_eq!(started.collect::<Vec<_>>(), [arrival, hedge, hedge]);
    assert_eq!(copies_of(&w, query).len(), 3);
    assert!((0..3).all(|server| w.on(server).len() == 1));
    w.finish_all(1);
}

#[test]
fn the_first_good_answer_wins_and_the_others_keep_their_slots_until_they_finish() {
    // Though servers could stop.
    let (mut w, query, first, second) =
        beside_a_full_server(Limits { cancel: true, ..Limits::default() });
    let answer = Action::Answer { query, copy: second };
    assert_eq!(w.finish(2, second, Outcome::Good), [answer]);
    let server = w.model.copies[&first].server;
    assert_eq!(w.cell.core().server(server).outstanding, 1);
    assert_eq!(w.finish(3, first, Outcome::Good), []);
    assert_eq!(w.cell.core().server(server).outstanding, 0);
    w.finish_all(4);
}

#[test]
fn a_server_that_had_no_room_gets_no_copy_later() {
    let (mut w, query, first, second) = beside_a_full_server(Limits::default());
    let [busy] = w.on(0)[..] else { panic!("server 0 is full") };
    w.finish(2, busy, Outcome::Good);
    assert_eq!(copies_of(&w, query), [first, second]);
    w.finish_all(3);
}

#[test]
fn queries_that_wait_come_before_copies() {
    let mut w = world(2, Limits { max_outstanding: 1, ..Limits::default() });
    let a = w.arrive(0, 0);
    let (b, c) = (w.arrive(1, 0), w.arrive(1, 0));
    let [first, second] = copies_of(&w, a)[..] else { panic!("both servers") };
    w.finish(2, first, Outcome::Good);
    w.finish(3, second, Outcome::Good);
    assert_eq!([copies_of(&w, b).len(), copies_of(&w, c).len()], [1, 1]);
    w.finish_all(4);
}

#[test]
fn a_query_fails_when_its_last_copy_does() {
    let mut w = world(3, Limits { eject_after: 0, ..Limits::default() });
    let query = w.arrive(0, 0);
    let [a, b, c] = copies_of(&w, query)[..] else { panic!("three servers") };
    assert_eq!(w.finish(1, b, Outcome::Bad), []);
    assert_eq!(w.finish(2, a, Outcome::Reset), []);
    let fail = Action::Fail { query, why: FailReason::CopyFailed, copy: Some(c) };
    assert_eq!(w.finish(3, c, Outcome::Bad), [fail], "the others were its retries");
    w.finish_all(4);
}

#[test]
fn one_good_copy_among_bad_ones_is_enough() {
    let mut w = world(3, Limits { eject_after: 0, ..Limits::default() });
    let query = w.arrive(0, 0);
    let [a, b, c] = copies_of(&w, query)[..] else { panic!("three servers") };
    w.finish(1, a, Outcome::Bad);
    w.finish(2, c, Outcome::Bad);
    assert_eq!(w.finish(3, b, Outcome::Good), [Action::Answer { query, copy: b }]);
    w.finish_all(4);
}

#[test]
fn what_may_not_run_twice_does_not() {
    let mut w = world(3, Limits::default());
    let query = w.fresh();
    let arrive = Arrive { may_duplicate: false, ..Arrive::new(query, GroupId(0)) };
    w.feed(0, Event::Arrive(arrive));
    assert_eq!(copies_of(&w, query).len(), 1);
    w.finish_all(1);
}

/// Too many servers for the referee, which looks at all of them after every event.
#[test]
fn of_many_servers_255_get_a_copy_and_no_server_is_left_out_for_good() {
    const SERVERS: u32 = 300;
    let topology = Topology::replicated(SERVERS, 1);
    let mut cell = named("clone").build(&topology, Limits::default(), rng(1)).expect("a cell");
    let mut running = Vec::new();
    for query in (0..20).map(QueryId) {
        let arrive = Event::Arrive(Arrive::new(query, GroupId(0)));
        let started = cell.handle(Timestamp(0), &arrive);
        assert_eq!(started.len(), 255);
        running.extend(started.iter().map(|action| match *action {
            Action::Start { copy, .. } => copy,
            other => panic!("{other:?}"),
        }));
    }
    let held = |cell: &dyn Scheduler, s| cell.core().server(ServerId(s)).outstanding;
    assert!((0..SERVERS).all(|server| held(&*cell, server) > 0));

    let mut answers = 0;
    for copy in running {
        let good = Event::Finished { copy, outcome: Outcome::Good };
        answers += cell.handle(Timestamp(1), &good).len();
    }
    assert_eq!(answers, 20, "one for each query");
    assert!((0..SERVERS).all(|server| held(&*cell, server) == 0));
}
