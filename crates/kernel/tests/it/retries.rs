//! A query whose copy failed is retried on the server that the pick would choose for a new query,
//! and it ends like any query that was served.

use crate::referee::Harness;
use curtail_kernel::{
    Action, Event, FailReason, Fault, Limits, Outcome, Policy, QueryId, Role, ServerId,
    StartReason, Timestamp, Topology,
};

fn plenty() -> Limits {
    Limits { retry_reserve: 1_000, eject_after: 0, ..Limits::default() }
}

#[test]
fn the_retries_of_a_server_that_crashed_are_spread() {
    for replicas in [5, 12] {
        let topology = Topology::replicated(replicas, 1);
        for (policy, most) in [(Policy::LEAST_OUTSTANDING, 1), (Policy::TWO_CHOICES, 6)] {
            let mut w = Harness::new(policy, &topology, plenty(), 1);
            for _ in 0..16 * replicas {
                w.arrive(0, 0);
            }
            assert!(w.on(0).len() > 12);
            for copy in w.on(0) {
                w.finish(1, copy, Outcome::Failed(Fault::Reset));
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
    // Server 0 fails every copy that it gets. One of the other two has a far higher load than the
    // other.
    let mut w = Harness::replicated(Policy::TWO_CHOICES, 3, plenty());
    let gate = |server, until| Event::Close { server: ServerId(server), until };
    w.feed(0, gate(1, Timestamp::NEVER));
    w.feed(0, gate(0, Timestamp::NEVER));
    for _ in 0..100 {
        w.arrive(0, 0);
    }
    w.feed(1, gate(0, Timestamp(1)));
    w.feed(1, gate(2, Timestamp::NEVER));
    for _ in 0..50 {
        w.arrive(1, 0);
    }
    w.feed(2, gate(1, Timestamp(2)));
    w.feed(2, gate(2, Timestamp(2)));
    for copy in w.on(0) {
        w.finish(3, copy, Outcome::Failed(Fault::Reset));
    }
    assert_eq!([w.on(1).len(), w.on(2).len()], [50, 100], "the lesser of both, every time");
}

/// One server runs a query and another one is idle, so no query may wait.
#[test]
fn without_a_queue_an_idle_server_still_takes_a_retry() {
    let limits = Limits { queue: 0, ..plenty() };
    let mut w = Harness::replicated(Policy::PSQ, 2, limits);
    let query = w.arrive(0, 0);
    let (first, server) = w.only(query);
    let other = ServerId(1 - server.0);
    let actions = w.finish(1, first, Outcome::Failed(Fault::Status));
    let (role, why) = (Role::Primary, StartReason::Retry);
    let sent = |a: &Action| {
        matches!(*a, Action::Start { query: q, server, role: r, why: w, .. }
        if (q, server, r, w) == (query, other, role, why))
    };
    assert!(matches!(actions, [action] if sent(action)), "{actions:?}");
    w.finish_all(2);
}

/// There are two busy servers with one slot each, and a full queue with a capacity of one.
fn two_waiting(limits: Limits) -> (Harness, QueryId, QueryId) {
    let mut w = Harness::replicated(Policy::PSQ, 2, limits);
    let fails = w.arrive(0, 0);
    w.arrive(0, 0);
    let waits = w.arrive(0, 0);
    (w, fails, waits)
}

#[test]
fn the_slot_of_a_failed_copy_makes_room_in_the_queue_for_its_retry() {
    let (mut w, fails, waits) = two_waiting(Limits { queue: 1, ..plenty() });
    let (copy, server) = w.only(fails);
    w.finish(1, copy, Outcome::Failed(Fault::Status));
    assert_eq!(w.only(waits).1, server, "it may go where the other failed");
    assert!(w.model.waits(fails) && w.model.queries.contains_key(&fails), "{:?}", w.actions);
    w.finish_all(2);
}

#[test]
fn a_retry_that_finds_no_room_costs_nothing_and_is_a_failure() {
    let (mut w, fails, _) = two_waiting(Limits { queue: 1, ..plenty() });
    let (copy, server) = w.only(fails);
    w.feed(1, Event::ServerDraining { server });
    let budget = w.cell.core().retry_budget();
    let failed = Action::Fail { query: fails, why: FailReason::CopyFailed, copy: Some(copy) };
    assert_eq!(w.finish(2, copy, Outcome::Failed(Fault::Status)), [failed]);
    assert!((w.cell.core().retry_budget() - budget).abs() < 1e-9);
}
