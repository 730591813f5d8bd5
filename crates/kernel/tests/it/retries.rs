//! A query whose copy failed is sent again where the balance would send a new one, and ends as one
//! that was served.

use crate::referee::{World, named};
use curtail_kernel::{
    Action, Arrive, CopyId, Event, FailReason, GroupId, Limits, Outcome, Policy, QueryId, Role,
    ServerId, StartReason, Timestamp, Topology,
};

fn plenty() -> Limits {
    Limits { retry_reserve: 1_000, eject_after: 0, ..Limits::default() }
}

#[test]
fn the_retries_of_a_server_that_crashed_are_spread() {
    for replicas in [5, 12] {
        let topology = Topology::replicated(replicas, 1);
        for (policy, most) in [(Policy::LEAST_OUTSTANDING, 1), (Policy::TWO_CHOICES, 6)] {
            let mut w = World::new(policy, &topology, plenty(), 1);
            for _ in 0..16 * replicas {
                w.arrive(0, 0);
            }
            assert!(w.on(0).len() > 12);
            for copy in w.on(0) {
                w.finish(1, copy, Outcome::Reset);
            }
            let held: Vec<usize> = (1..replicas).map(|s| w.on(s).len()).collect();
            let spread = held.iter().max().unwrap() - held.iter().min().unwrap();
            assert!(spread <= most, "{policy}: {held:?}");
            assert_eq!(held.iter().sum::<usize>(), 16 * replicas as usize, "all were sent again");
        }
    }
}

#[test]
fn two_choices_retries_choose_among_two() {
    // Server 0 fails all it gets; of the others, one is far more loaded than the other.
    let mut w = World::new(Policy::TWO_CHOICES, &Topology::replicated(3, 1), plenty(), 1);
    w.feed(0, Event::ServerDraining { server: ServerId(1) });
    w.feed(0, Event::ServerDraining { server: ServerId(0) });
    for _ in 0..100 {
        w.arrive(0, 0);
    }
    w.feed(1, Event::ServerUp { server: ServerId(0) });
    w.feed(1, Event::ServerDraining { server: ServerId(2) });
    for _ in 0..50 {
        w.arrive(1, 0);
    }
    w.feed(2, Event::ServerUp { server: ServerId(1) });
    w.feed(2, Event::ServerUp { server: ServerId(2) });
    for copy in w.on(0) {
        w.finish(3, copy, Outcome::Reset);
    }
    assert_eq!([w.on(1).len(), w.on(2).len()], [50, 100], "the lesser of both, every time");
}

/// A query on a server of its own and another server that is idle: nothing may wait.
#[test]
fn without_a_queue_an_idle_server_still_takes_a_retry() {
    let limits = Limits { queue: 0, ..plenty() };
    let mut w = World::new(Policy::PSQ, &Topology::replicated(2, 1), limits, 1);
    let query = w.arrive(0, 0);
    let (first, server) = only_copy(&w, query);
    let other = ServerId(1 - server.0);
    let actions = w.finish(1, first, Outcome::Bad);
    let (role, why) = (Role::Primary, StartReason::Retry);
    let sent = |a: &Action| {
        matches!(*a, Action::Start { query: q, server, role: r, why: w, .. }
        if (q, server, r, w) == (query, other, role, why))
    };
    assert!(matches!(actions, [action] if sent(action)), "{actions:?}");
    w.finish_all(2);
}

fn only_copy(w: &World, query: QueryId) -> (CopyId, ServerId) {
    let mut copies = w.model.attached(query).map(|(id, copy)| (*id, copy.server));
    (copies.next().expect("it runs"), copies.next()).0
}

/// Two servers of one slot, both busy, and a queue of one that is full.
fn two_waiting(limits: Limits) -> (World, QueryId, QueryId) {
    let mut w = World::new(Policy::PSQ, &Topology::replicated(2, 1), limits, 1);
    let fails = w.arrive(0, 0);
    w.arrive(0, 0);
    let waits = w.arrive(0, 0);
    (w, fails, waits)
}

#[test]
fn the_slot_of_a_failed_copy_makes_room_in_the_queue_for_its_retry() {
    let (mut w, fails, waits) = two_waiting(Limits { queue: 1, ..plenty() });
    let (copy, server) = only_copy(&w, fails);
    w.finish(1, copy, Outcome::Bad);
    assert_eq!(only_copy(&w, waits).1, server, "it may go where the other failed");
    assert!(w.model.waits(fails) && w.model.queries.contains_key(&fails), "{:?}", w.actions);
    w.finish_all(2);
}

#[test]
fn a_retry_that_finds_no_room_costs_nothing_and_is_a_failure() {
    let (mut w, fails, _) = two_waiting(Limits { queue: 1, ..plenty() });
    let (copy, server) = only_copy(&w, fails);
    w.feed(1, Event::ServerDraining { server });
    let budget = w.cell.core().retry_budget();
    let failed = Action::Fail { query: fails, why: FailReason::CopyFailed, copy: Some(copy) };
    assert_eq!(w.finish(2, copy, Outcome::Bad), [failed]);
    assert!((w.cell.core().retry_budget() - budget).abs() < 1e-9);
}

#[test]
fn a_retry_that_waited_too_long_is_a_failure() {
    let (mut w, fails, _) = two_waiting(Limits { queue: 2, timeout_ns: 100, ..plenty() });
    let (copy, _) = only_copy(&w, fails);
    w.finish(1, copy, Outcome::Bad);
    assert!(w.model.waits(fails), "for the other server");
    let actions = w.feed(100, Event::Tick);
    let failed = Action::Fail { query: fails, why: FailReason::CopyFailed, copy: Some(copy) };
    assert!(actions.contains(&failed), "{actions:?}");
    assert_eq!(w.model.now, Timestamp(100));
}

#[test]
fn an_older_query_that_waits_is_served_before_a_retry() {
    let mut w = World::new(Policy::PSQ, &Topology::replicated(3, 1), plenty(), 1);
    let queries: Vec<QueryId> = (0..3).map(|_| w.arrive(0, 0)).collect();
    // The oldest fails and waits; the youngest fails next: its server is for the oldest.
    let (copy, first) = only_copy(&w, queries[0]);
    w.finish(1, copy, Outcome::Bad);
    assert!(w.model.waits(queries[0]) && w.on(first.0).is_empty());
    let (copy, last) = only_copy(&w, queries[2]);
    w.finish(2, copy, Outcome::Bad);
    assert_eq!(only_copy(&w, queries[0]).1, last);
    assert_eq!(only_copy(&w, queries[2]).1, first);
    w.finish_all(3);
}

#[test]
fn a_copy_is_one_failure_however_it_ends() {
    let limits = Limits { attempt_timeout_ns: 10, eject_after: 2, ..plenty() };
    let mut w = World::new(Policy::LEAST_OUTSTANDING, &Topology::replicated(2, 1), limits, 1);
    let query = w.arrive(0, 0);
    let (copy, server) = only_copy(&w, query);
    w.feed(10, Event::Tick);
    w.finish(11, copy, Outcome::Bad);
    assert!(w.cell.core().server(server).up, "it failed one query once");
}

/// Of the group's three servers the first has one slot, the second one, the third two.
#[test]
fn where_a_retry_expires_every_idle_server_takes_a_duplicate() {
    let mut topology = Topology::replicated(3, 1);
    topology.servers[2].slots = 2;
    let policy = named("laedge");
    let mut w = World::new(policy, &topology, plenty(), 1);
    let only = |w: &mut World, server: u32| {
        w.feed(0, Event::ServerUp { server: ServerId(server) });
    };
    for server in 0..3 {
        w.feed(0, Event::ServerDraining { server: ServerId(server) });
    }
    let once = |w: &mut World, deadline: Timestamp| {
        let mut arrive = Arrive::new(w.fresh(), GroupId(0));
        (arrive.may_duplicate, arrive.deadline) = (false, deadline);
        w.feed(0, Event::Arrive(arrive));
        arrive.query
    };
    only(&mut w, 0);
    let retried = once(&mut w, Timestamp(10));
    only(&mut w, 1);
    let other = once(&mut w, Timestamp::NEVER);
    only(&mut w, 2);
    let singles = [w.arrive(0, 0), w.arrive(0, 0)];
    let (copy, _) = only_copy(&w, retried);
    w.finish(1, copy, Outcome::Bad);
    assert!(w.model.waits(retried) && w.on(0).is_empty(), "for another server than the first");
    // Too late for the one that waits, and nobody has ticked.
    let (copy, _) = only_copy(&w, other);
    w.finish(10, copy, Outcome::Good);
    assert!(!w.model.queries.contains_key(&retried));
    for single in singles {
        assert_eq!(w.model.attached(single).count(), 2, "an idle server is beside it");
    }
    w.finish_all(11);
}

/// Servers of two slots; of two groups, each has one of its own and shares the second. Two more
/// groups keep the first and the last busy.
#[test]
fn a_retry_that_finds_the_queue_full_lets_nobody_overtake_another_retry() {
    let mut topology = Topology::replicated(3, 2);
    topology.groups = [&[0, 1][..], &[1, 2], &[0], &[2]]
        .map(|servers| servers.iter().copied().map(ServerId).collect())
        .to_vec();
    let limits = Limits { queue: 1, ..plenty() };
    let mut w = World::new(Policy::PSQ, &topology, limits, 1);
    let arrive = |w: &mut World, groups: &[u32]| {
        groups.iter().map(|&group| w.arrive(0, group)).collect::<Vec<_>>()
    };
    // The first fills the last server; then the second has one of each group, the first server two.
    let first = arrive(&mut w, &[3, 3, 1, 2, 2, 0]);
    assert_eq!(w.on(1), [2, 5].map(|at| only_copy(&w, first[at]).0));
    // One waits of the second group, and of the first one that has failed on its own server.
    let waits = arrive(&mut w, &[1, 0]);
    let (copy, _) = only_copy(&w, first[3]);
    w.finish(1, copy, Outcome::Good);
    let (copy, server) = only_copy(&w, waits[1]);
    assert_eq!(server, ServerId(0));
    w.finish(2, copy, Outcome::Bad);
    assert!(waits.iter().all(|&query| w.model.waits(query)));
    // The older retry finds its queue full; the younger one is older than who waits.
    w.feed(3, Event::ServerDown { server: ServerId(1) });
    assert!(!w.model.queries.contains_key(&first[2]), "nobody has room for it");
    assert_eq!(only_copy(&w, first[5]).1, ServerId(0));
    assert!(waits.iter().all(|&query| w.model.waits(query)));
    w.finish_all(4);
}
