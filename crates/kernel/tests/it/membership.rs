//! Servers leave a cell and join it while it runs. A server that has left counts for nothing, and
//! one that takes its place has a clean record.

use crate::referee::{Harness, named};
use curtail_kernel::hedge::rescue::Snapshot;
use curtail_kernel::{
    Action, Event, FailReason, Fault, Feedback, GroupId, Limits, Outcome, Policy, Probed, ServerId,
    ShedReason, Timestamp,
};

const A: ServerId = ServerId(0);
const B: ServerId = ServerId(1);
const C: ServerId = ServerId(2);
const GROUP: GroupId = GroupId(0);
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const FAILED: Outcome = Outcome::Failed(Fault::Status);

fn harness(policy: Policy, servers: u32) -> Harness {
    Harness::replicated(policy, servers, Limits::default())
}

/// Runs a query to completion, and returns the servers of its copies. Copies on servers in `bad`
/// fail.
fn run(w: &mut Harness, now: u64, bad: &[ServerId]) -> Vec<ServerId> {
    let query = w.arrive(now, 0);
    let mut servers = Vec::new();
    while let Some(copy) = w.copies(query).first().copied() {
        servers.push(w.server_of(copy));
        let is_bad = servers.last().is_some_and(|server| bad.contains(server));
        w.finish(now, copy, if is_bad { FAILED } else { Outcome::Good });
    }
    servers
}

#[test]
fn a_server_that_leaves_finishes_its_copies_and_gets_no_more() {
    let mut w = harness(Policy::LEAST_OUTSTANDING, 2);
    let queries: Vec<_> = (0..2).map(|_| w.arrive(0, 0)).collect();
    assert_eq!(w.feed(1, Event::ServerLeft { server: A }), [], "its copy continues");
    let core = w.cell.core();
    assert_eq!(core.members(GROUP), 1);
    assert!(!core.server(A).member && !core.server(A).up && core.server(A).outstanding == 1);
    (2..12).for_each(|now| assert_eq!(run(&mut w, now, &[]), [B]));
    for query in queries {
        let copy = w.only(query).0;
        assert_eq!(w.finish(20, copy, Outcome::Good), [Action::Answer { query, copy }]);
    }
    // Neither probes nor an operator bring it back.
    w.feed(21, Event::ServerUp { server: A });
    w.feed(21, Event::ServerDraining { server: A });
    w.feed(21, Event::ServerUnhealthy { server: A, listens: true });
    w.feed(21, Event::ServerUp { server: A });
    assert!(!w.cell.core().server(A).member);
    w.finish_all(22);
}

#[test]
fn a_server_joins_only_an_absent_place_without_copies() {
    let mut w = harness(Policy::LEAST_OUTSTANDING, 2);
    assert_eq!(w.feed(0, Event::ServerJoined { server: A }), [], "a server has the place");
    w.feed(0, Event::ServerDown { server: A });
    assert_eq!(w.feed(0, Event::ServerJoined { server: A }), [], "that server is down");
    w.feed(0, Event::ServerUp { server: A });
    while w.on(0).is_empty() {
        w.arrive(1, 0);
    }
    let copy = w.on(0)[0];
    w.feed(2, Event::ServerLeft { server: A });
    assert_eq!(w.feed(3, Event::ServerJoined { server: A }), [], "its copy has not ended");
    w.finish(4, copy, Outcome::Good);
    assert_eq!(w.feed(5, Event::ServerJoined { server: A }), [Action::Restore { server: A }]);
    assert_eq!(w.cell.core().members(GROUP), 2);
    w.finish_all(6);
}

#[test]
fn a_server_that_left_and_went_down_frees_its_place() {
    let mut w = harness(Policy::LEAST_OUTSTANDING, 2);
    (0..2).for_each(|_| _ = w.arrive(0, 0));
    w.feed(1, Event::ServerLeft { server: A });
    w.feed(2, Event::ServerDown { server: A });
    assert!(w.actions.iter().any(|action| matches!(action, Action::Lose { .. })));
    assert!(!w.cell.core().server(A).member);
    w.feed(3, Event::ServerJoined { server: A });
    assert!(w.is_up(A));
    w.finish_all(4);
}

#[test]
fn queries_wait_for_a_group_without_members() {
    for policy in Policy::forms().iter().filter(|form| !form.contains(['D', 'N', 'P', '['])) {
        let cancel = named(policy).needs_cancellation();
        let limits = Limits { queue: 1, timeout_ns: 100, cancel, ..Limits::default() };
        let mut w = Harness::replicated(named(policy), 2, limits);
        for server in [A, B] {
            w.feed(0, Event::ServerLeft { server });
        }
        assert_eq!(w.cell.core().members(GROUP), 0);
        let waits = w.arrive(1, 0);
        assert_eq!(w.cell.core().waiting(GROUP), 1, "{policy}");
        let shed = w.arrive(2, 0);
        assert_eq!(w.actions, [Action::Shed { query: shed, why: ShedReason::QueueFull }]);
        w.feed(101, Event::Tick);
        assert_eq!(w.actions, [Action::Shed { query: waits, why: ShedReason::Expired }]);
        let served = w.arrive(102, 0);
        w.feed(103, Event::ServerJoined { server: B });
        assert_eq!(w.only(served).1, B, "the only member has no ramp");
        w.finish_all(104);
    }
}

#[test]
fn an_absent_place_starts_no_panic_mode_and_takes_no_part_in_one() {
    let mut w = harness(Policy::LEAST_OUTSTANDING, 3);
    w.feed(0, Event::ServerLeft { server: C });
    w.feed(0, Event::ServerUnhealthy { server: A, listens: true });
    w.feed(0, Event::ServerLeft { server: B });
    assert_eq!(run(&mut w, 1, &[]), [A], "it is the only member, so its probes are ignored");
    w.feed(2, Event::ServerLeft { server: A });
    w.arrive(3, 0);
    assert_eq!(w.cell.core().waiting(GROUP), 1);
    w.finish_all(4);
}

#[test]
fn the_ejected_fraction_is_one_of_the_members() {
    let limits = Limits { retry_reserve: 1_000, ..Limits::default() };
    for (absent, ejected) in [(0, 2), (1, 1), (2, 1), (3, 0)] {
        let mut w = Harness::replicated(Policy::ROUND_ROBIN, 4, limits);
        for server in (4 - absent..4).map(ServerId) {
            w.feed(0, Event::ServerLeft { server });
        }
        for (now, bad) in (1..100).map(|now| (now, if now < 50 { A } else { B })) {
            run(&mut w, now, &[bad]);
        }
        let views = [A, B].map(|server| w.cell.core().server(server));
        let down = views.iter().filter(|view| view.member && !view.up).count();
        assert_eq!(down, ejected, "{absent} absent places");
        w.finish_all(100);
    }
}

#[test]
fn a_request_that_was_not_sent_is_retried_once_per_other_member() {
    let limits = Limits { retries: 0, eject_after: 0, retry_reserve: 100, ..Limits::default() };
    let mut w = Harness::replicated(Policy::LEAST_OUTSTANDING, 4, limits);
    w.feed(0, Event::ServerLeft { server: ServerId(3) });
    let query = w.arrive(1, 0);
    let mut copies = 0;
    while let Some(copy) = w.copies(query).first().copied() {
        copies += 1;
        w.finish(1, copy, Outcome::Failed(Fault::ConnectFailed));
    }
    assert_eq!(copies, 3);
    w.finish_all(2);
}

#[test]
fn the_record_of_a_server_ends_with_it() {
    let mut w = harness(Policy::ROUND_ROBIN, 2);
    for now in 0..20 {
        run(&mut w, now, &[A]);
    }
    assert!(!w.is_up(A), "ejected");
    w.feed(20, Event::ServerLeft { server: A });
    w.feed(21, Event::RetryAfter { server: A, ns: SECOND });
    w.feed(21, Event::ServerJoined { server: A });
    let view = w.cell.core().server(A);
    assert!(view.up, "the minimum time of the ejection does not apply to another server");
    assert_eq!((view.held, view.limit), (0, 1), "a ramp, and no holds");
    assert!(!w.cell.core().is_closed(A), "nor does the pause");
    assert_eq!(w.cell.core().typical_ns(A), w.cell.core().typical_ns(B));
    run(&mut w, 22, &[]);
    run(&mut w, 22, &[A]);
    assert!(w.is_up(A), "it has failed once");
    w.finish_all(23);
}

#[test]
fn a_query_that_failed_on_a_server_may_go_to_its_successor() {
    let limits = Limits { eject_after: 1, ..Limits::default() };
    let mut w = Harness::replicated(Policy::PSQ, 2, limits);
    let [first, second] = [0; 2].map(|now| w.arrive(now, 0));
    let (query, other) = if w.only(first).1 == A { (first, second) } else { (second, first) };
    let copy = w.only(query).0;
    w.finish(1, copy, FAILED);
    assert_eq!(w.copies(query), [], "it waits for B");
    w.feed(2, Event::ServerLeft { server: A });
    w.feed(3, Event::ServerJoined { server: A });
    assert_eq!(w.only(query).1, A, "the new server has not failed it");
    // The response does not show that the new server is at fault.
    for query in [query, other] {
        let copy = w.only(query).0;
        w.finish(4, copy, Outcome::Good);
    }
    assert!(w.is_up(A) && w.is_up(B));
    w.finish_all(5);
}

#[test]
fn a_query_whose_servers_have_left_fails_with_its_copy() {
    let mut w = harness(Policy::LEAST_OUTSTANDING, 1);
    let query = w.arrive(0, 0);
    w.feed(1, Event::ServerLeft { server: A });
    let copy = w.only(query).0;
    let failed = Action::Fail { query, why: FailReason::CopyFailed, copy: Some(copy) };
    assert_eq!(w.finish(2, copy, FAILED), [failed]);
    w.finish_all(3);
}

#[test]
fn picks_forget_a_server_that_has_left() {
    for pick in ["peak-ewma", "c3"] {
        let mut w = harness(named(pick), 3);
        let mut now = 0;
        for _ in 0..200 {
            let query = w.arrive(now, 0);
            let (copy, server) = w.only(query);
            now += if server == A { 100 * MS } else { MS };
            w.feed(now, Event::Feedback { copy, feedback: Feedback { queue: 0, service_ns: MS } });
            w.finish(now, copy, Outcome::Good);
        }
        let slow = w.cell.score(A);
        assert!((0..20).all(|_| run(&mut w, now, &[]) != [A]), "{pick} avoids a slow server");
        w.feed(now, Event::ServerLeft { server: A });
        w.feed(now, Event::ServerJoined { server: A });
        assert!(slow.is_none() || w.cell.score(A) < slow, "{pick}");
        now += MS;
        let served = (0..20).any(|_| run(&mut w, now, &[]) == [A]);
        assert!(served, "{pick} tries the new server");
        w.finish_all(now);
    }
}

#[test]
fn the_load_that_a_server_reported_ends_with_it() {
    let mut w = harness(named("prequal"), 2);
    let fast = |server| Event::Probed(Probed { server, in_flight: 0, latency_ns: 1 });
    w.feed(0, fast(A));
    w.feed(0, Event::Probed(Probed { server: B, in_flight: 0, latency_ns: MS }));
    assert_eq!(run(&mut w, 1, &[]), [A]);
    w.feed(2, fast(A));
    w.feed(2, Event::ServerLeft { server: A });
    // Its response to a probe arrives late.
    w.feed(3, fast(A));
    w.feed(4, Event::ServerJoined { server: A });
    let picked: Vec<_> = (0..50).flat_map(|_| run(&mut w, 5, &[])).collect();
    assert!(picked.contains(&A) && picked.contains(&B), "both are picked at random");
    w.finish_all(6);
}

#[test]
fn the_rate_of_a_server_ends_with_it() {
    let mut w = harness(named("least-outstanding+cubic"), 2);
    let rate = |w: &Harness, server| w.cell.core().rate(server).expect("rates are limited");
    let initial = rate(&w, A);
    let mut now = 0;
    for _ in 0..50 {
        now += 50 * MS;
        w.feed(now, Event::Tick);
        run(&mut w, now, &[]);
    }
    assert!(rate(&w, A) != initial && rate(&w, B) != initial);
    w.feed(now, Event::ServerLeft { server: A });
    w.feed(now, Event::ServerJoined { server: A });
    assert_eq!(rate(&w, A), initial);
    assert!(rate(&w, B) != initial);
    w.finish_all(now);
}

#[test]
fn a_new_server_of_a_large_group_ramps_up_and_takes_its_share() {
    let mut w = harness(Policy::LEAST_OUTSTANDING, 12);
    for server in (6..12).map(ServerId) {
        w.feed(0, Event::ServerLeft { server });
    }
    assert_eq!(w.cell.core().members(GROUP), 6);
    (0..12).for_each(|_| _ = w.arrive(1, 0));
    assert!((0..6).all(|server| w.on(server).len() == 2));
    w.feed(2, Event::ServerJoined { server: ServerId(9) });
    assert_eq!(w.cell.core().server(ServerId(9)).limit, 1);
    let query = w.arrive(3, 0);
    assert_eq!(w.only(query).1, ServerId(9), "the least loaded server");
    w.arrive(3, 0);
    assert_eq!(w.on(9).len(), 1, "its ramp");
    let copy = w.only(query).0;
    w.finish(4, copy, Outcome::Good);
    assert_eq!(w.cell.core().server(ServerId(9)).limit, 2);
    w.finish_all(5);
}

#[test]
fn the_pace_of_a_server_that_has_left_does_not_slow_its_peers() {
    let mut w = harness(Policy::RESCUE, 3);
    w.adopt(&Snapshot { suspect_ns: 5 * MS, give_up_ns: 5 * MS, ..Snapshot::NOTHING });
    let mut now = 0;
    for _ in 0..1_000 {
        let query = w.arrive(now, 0);
        let (copy, server) = w.only(query);
        now += if server == A { MS / 10 } else { MS };
        w.finish(now, copy, Outcome::Good);
    }
    let rescued_at = |w: &mut Harness, now: u64| {
        let query = w.arrive(now, 0);
        let next = w.cell.next_deadline();
        let (copy, server) = w.only(query);
        w.finish(now + if server == A { MS / 10 } else { MS }, copy, Outcome::Good);
        next.since(Timestamp(now))
    };
    let beside_fast = (0..20).map(|i| rescued_at(&mut w, now + i * MS)).max().expect("20 times");
    assert!(beside_fast > 20 * MS, "slow servers get more time: {beside_fast}");
    now += 20 * MS;
    w.feed(now, Event::ServerLeft { server: A });
    for i in 0..20 {
        assert_eq!(rescued_at(&mut w, now + i * MS), 5 * MS, "they are as fast as any");
    }
    w.finish_all(now + 20 * MS);
}
