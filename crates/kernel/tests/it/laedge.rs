//! LÆDGE and Idealized Hedge, step by step: the state machines of document 001, Figure 3, and
//! document 000, Algorithms 1 to 3.

use crate::referee::{Harness, named};
use curtail_kernel::{
    CopyId, Event, Limits, Outcome, Policy, QueryId, Role, StopReason, Timestamp, Topology,
};

fn harness(policy: Policy, replicas: u32) -> Harness {
    let limits = Limits { cancel: policy.needs_cancellation(), ..Limits::default() };
    Harness::replicated(policy, replicas, limits)
}

fn idealized(replicas: u32) -> Harness {
    let limits = Limits { cancel: true, ..Limits::default() };
    Harness::idealized(&Topology::replicated(replicas, 1), limits, 1)
}

/// For each server, the query that it works on, numbered in order of arrival. The entry is `None`
/// if the server is idle.
fn works_on(harness: &Harness) -> Vec<Option<u32>> {
    let of = |server| harness.on(server).first().and_then(|c| harness.model.copies[c].query);
    let servers = 0..harness.model.up.len() as u32;
    servers.map(|server| of(server).map(|query| query.0)).collect()
}

fn copy_of(harness: &Harness, query: QueryId, role: Role) -> CopyId {
    let mut copies = harness.model.copies.iter();
    let mine = copies.find(|(_, c)| c.query == Some(query) && c.role == role);
    *mine.expect("this copy runs").0
}

#[test]
fn an_idle_pair_takes_both_copies_and_the_loser_runs_on() {
    let mut w = harness(named("laedge"), 2);
    let a = w.arrive(0, 0);
    assert_eq!(works_on(&w), [Some(a.0), Some(a.0)]);
    let b = w.arrive(1, 0);
    let c = w.arrive(2, 0);
    let winner = copy_of(&w, a, Role::Primary);
    w.finish(3, winner, Outcome::Good);
    assert!(w.stops().is_empty(), "plain LÆDGE stops nothing");
    // Only the freed server takes b: c still waits, so b gets no duplicate.
    assert!(works_on(&w).contains(&Some(b.0)) && works_on(&w).contains(&None));
    let loser = w.model.copies.iter().find(|(_, copy)| copy.query.is_none());
    let loser = *loser.expect("the loser holds its server").0;
    w.finish(4, loser, Outcome::Good);
    assert_eq!(w.model.attached(c).count(), 1, "then c is served, before any duplicate");
    w.finish_all(5);
}

#[test]
fn a_freed_server_duplicates_the_oldest_query() {
    let mut w = harness(named("laedge"), 3);
    let a = w.arrive(0, 0); // two of three servers
    let b = w.arrive(1, 0); // the third, alone
    let duplicate = copy_of(&w, a, Role::Duplicate);
    w.finish(2, duplicate, Outcome::Good);
    assert_eq!(w.model.attached(b).count(), 2, "b is the oldest with one copy");
    w.finish_all(3);
}

#[test]
fn cleanup_stops_the_loser_and_fills_both_servers() {
    let mut w = harness(named("laedge:cc"), 2);
    let a = w.arrive(0, 0);
    let (b, c) = (w.arrive(1, 0), w.arrive(2, 0));
    let winner = copy_of(&w, a, Role::Primary);
    w.finish(3, winner, Outcome::Good);
    let [(loser, StopReason::Cleanup)] = w.stops()[..] else { panic!("the loser is stopped") };
    w.feed(3, Event::Stopped { copy: loser });
    let mut works: Vec<_> = works_on(&w);
    works.sort_unstable();
    assert_eq!(works, [Some(b.0), Some(c.0)], "Algorithm 2, queuing mode");
    w.finish_all(4);
}

#[test]
fn preemption_gives_up_the_newer_copy_for_a_waiting_query() {
    let mut w = harness(named("laedge:cc+pc"), 2);
    let a = w.arrive(0, 0);
    let b = w.arrive(5, 0); // S1 → S2: either copy of a, by a coin
    let [(victim, StopReason::Preemption)] = w.stops()[..] else { panic!("one copy makes room") };
    w.feed(5, Event::Stopped { copy: victim });
    assert_eq!((w.model.attached(a).count(), w.model.attached(b).count()), (1, 1));
    let only = w.only(a).0;
    w.finish(9, only, Outcome::Good); // S2 → S4: b is duplicated
    assert_eq!(w.model.attached(b).count(), 2);
    let c = w.arrive(10, 0); // S4 → S2: the copy that started last makes room
    let newer = copy_of(&w, b, Role::Duplicate);
    assert_eq!(w.stops(), [(newer, StopReason::Preemption)]);
    w.feed(10, Event::Stopped { copy: newer });
    assert_eq!(w.model.attached(c).count(), 1);
    w.finish_all(11);
}

#[test]
fn one_slot_is_cleared_per_waiting_query() {
    let mut w = harness(named("laedge:cc+pc"), 4);
    let (_a, _b) = (w.arrive(0, 0), w.arrive(0, 0)); // two pairs
    w.arrive(1, 0);
    assert_eq!(w.stops().len(), 1);
    w.arrive(2, 0);
    assert_eq!(w.stops().len(), 1, "the first stop is under way, the second query needs another");
    w.arrive(3, 0);
    assert_eq!(w.stops().len(), 0, "no pair is left");
    w.finish_all(4);
}

#[test]
fn idealized_gives_up_the_copy_that_would_end_later() {
    let mut w = idealized(2);
    let a = w.arrive(0, 0);
    let (older, newer) = (copy_of(&w, a, Role::Primary), copy_of(&w, a, Role::Duplicate));
    w.feed(0, Event::Forecast { copy: older, ends: Timestamp(900) });
    w.feed(0, Event::Forecast { copy: newer, ends: Timestamp(100) });
    w.arrive(5, 0);
    assert_eq!(w.stops(), [(older, StopReason::Preemption)], "although it is the older one");
    w.finish_all(6);
}

#[test]
fn idealized_breaks_the_pair_that_saves_most() {
    let mut w = idealized(4);
    let (a, b) = (w.arrive(0, 0), w.arrive(0, 0));
    for (query, ends) in [(a, [50, 60]), (b, [50, 500])] {
        for (role, ends) in [Role::Primary, Role::Duplicate].into_iter().zip(ends) {
            let copy = copy_of(&w, query, role);
            w.feed(0, Event::Forecast { copy, ends: Timestamp(ends) });
        }
    }
    w.arrive(1, 0);
    assert_eq!(w.stops(), [(copy_of(&w, b, Role::Duplicate), StopReason::Preemption)]);
    w.finish_all(2);
}
