//! Failures eject a server only if they are evidence against it, and only while a peer does better.
//! Failures never eject more than a limited fraction of a group. If all servers of a group are bad,
//! they are used as if they were good.

use crate::referee::Harness;
use curtail_kernel::{
    Action, Arrive, CopyId, EjectReason, Event, Fault, GroupId, Limits, Outcome, Policy, QueryId,
    ServerId, Timestamp, Topology,
};

const A: ServerId = ServerId(0);
const B: ServerId = ServerId(1);
const SECOND: u64 = 1_000_000_000;

fn harness(policy: Policy, servers: u32, slots: u32) -> Harness {
    let limits = Limits { retry_reserve: 1_000, ..Limits::default() };
    Harness::new(policy, &Topology::replicated(servers, slots), limits, 1)
}

/// Runs a query to completion. Copies on servers in `bad` end with `outcome`. Returns whether the
/// last copy was good.
fn run(w: &mut Harness, now: u64, bad: &[ServerId], outcome: Outcome, may_retry: bool) -> bool {
    let mut arrive = Arrive::new(w.fresh(), GroupId(0));
    arrive.may_retry = may_retry;
    w.feed(now, Event::Arrive(arrive));
    let mut good = false;
    while let Some(copy) = w.copies(arrive.query).first().copied() {
        good = !bad.contains(&w.server_of(copy));
        w.finish(now, copy, if good { Outcome::Good } else { outcome });
    }
    good
}

/// Runs queries until server A is ejected. Every query is answered. Returns their number.
fn fail_until_ejected(w: &mut Harness, now: u64, outcome: Outcome) -> u32 {
    for queries in 1..100 {
        assert!(run(w, now, &[A], outcome, true), "the other server responds");
        if !w.is_up(A) {
            return queries;
        }
    }
    panic!("{A:?} is not ejected")
}

#[test]
fn failures_of_every_kind_eject_a_server_that_its_peer_outdoes() {
    use EjectReason::{ConnectFailed, Malformed, Reset, Status};
    let kinds = [
        (Outcome::Failed(Fault::Status), Status),
        (Outcome::Failed(Fault::Reset), Reset),
        (Outcome::Failed(Fault::Malformed), Malformed),
        (Outcome::Failed(Fault::ConnectFailed), ConnectFailed),
    ];
    for (outcome, why) in kinds {
        let mut w = harness(Policy::ROUND_ROBIN, 2, 1);
        let mut reasons = Vec::new();
        for _ in 0..20 {
            assert!(run(&mut w, 0, &[A], outcome, true));
            reasons.extend(w.actions.iter().filter_map(|action| match *action {
                Action::Eject { server, why } => Some((server, why)),
                _ => None,
            }));
        }
        // A refused connection immediately counts as evidence. Other failures become evidence when
        // the other server responds. The actions of that event are collected here.
        assert!(!w.is_up(A), "{outcome:?}");
        assert!(reasons.iter().all(|reason| *reason == (A, why)), "{reasons:?}");
        w.finish_all(1);
    }
}

#[test]
fn one_failure_ejects_no_server() {
    for outcome in [
        Outcome::Failed(Fault::ConnectFailed),
        Outcome::Failed(Fault::Status),
        Outcome::Failed(Fault::Reset),
    ] {
        let mut w = harness(Policy::ROUND_ROBIN, 2, 1);
        for _ in 0..100 {
            run(&mut w, 0, &[A], outcome, true);
            (0..4).for_each(|_| assert!(run(&mut w, 0, &[], outcome, true)));
            assert!(w.is_up(A), "its good responses end the row");
        }
    }
}

#[test]
fn a_request_that_fails_everywhere_ejects_no_server() {
    for outcome in [
        Outcome::Failed(Fault::Status),
        Outcome::Failed(Fault::Reset),
        Outcome::Failed(Fault::Malformed),
    ] {
        let mut w = harness(Policy::ROUND_ROBIN, 3, 1);
        for n in 0..200 {
            assert!(!run(&mut w, 0, &[A, B, ServerId(2)], outcome, true));
            if n % 10 == 0 {
                assert!(run(&mut w, 0, &[], outcome, true), "the service is idle but healthy");
            }
            assert!((0..3).all(|server| w.is_up(ServerId(server))));
        }
    }
}

#[test]
fn a_failure_without_a_retry_ejects_no_server_until_a_peer_does_better() {
    let mut w = harness(Policy::ROUND_ROBIN, 2, 1);
    for _ in 0..200 {
        assert!(!run(&mut w, 0, &[A, B], Outcome::Failed(Fault::Status), false));
        assert!(w.is_up(A) && w.is_up(B));
    }
    (0..20).for_each(|_| _ = run(&mut w, 0, &[A], Outcome::Failed(Fault::Status), false));
    assert!(!w.is_up(A) && w.is_up(B));
}

#[test]
fn at_least_half_of_a_group_stays() {
    for (servers, most) in [(1, 0), (2, 1), (3, 1), (4, 2), (9, 4)] {
        let mut w = harness(Policy::ROUND_ROBIN, servers, 1);
        let good = ServerId(servers - 1);
        let bad: Vec<ServerId> = (0..servers - 1).map(ServerId).collect();
        for _ in 0..100 {
            run(&mut w, 0, &[], Outcome::Failed(Fault::Status), false);
            run(&mut w, 0, &bad, Outcome::Failed(Fault::Status), false);
        }
        (0..200).for_each(|_| _ = run(&mut w, 0, &bad, Outcome::Failed(Fault::Status), false));
        let out = (0..servers).filter(|&server| !w.is_up(ServerId(server))).count();
        assert_eq!(out, most, "of {servers}");
        assert!(w.is_up(good));
    }
}

#[test]
fn the_back_off_grows_and_a_probe_alone_does_not_end_it() {
    let mut w = harness(Policy::ROUND_ROBIN, 2, 1);
    let mut now = 0;
    for span in [1, 2, 4, 8, 16, 32, 60, 60].map(|seconds| seconds * SECOND) {
        fail_until_ejected(&mut w, now, Outcome::Failed(Fault::Reset));
        w.feed(now + span - 1, Event::ServerUp { server: A });
        assert!(!w.is_up(A), "{span} ns are not over");
        assert_eq!(w.cell.next_deadline(), Timestamp(now + span));
        now += span;
        let actions = w.feed(now, Event::Tick);
        assert_eq!(actions, [Action::Restore { server: A }]);
    }
    // Server A stays healthy for a minute.
    now += 60 * SECOND;
    fail_until_ejected(&mut w, now, Outcome::Failed(Fault::Reset));
    w.feed(now, Event::ServerUp { server: A });
    w.feed(now + SECOND, Event::Tick);
    assert!(w.is_up(A), "as after a first ejection");
    w.finish_all(now + SECOND);
}

#[test]
fn an_ejection_ends_with_the_first_probe_after_its_time() {
    let mut w = harness(Policy::ROUND_ROBIN, 2, 1);
    fail_until_ejected(&mut w, 0, Outcome::Failed(Fault::Status));
    w.feed(1, Event::ServerUp { server: A });
    w.feed(2, Event::ServerUnhealthy { server: A, listens: true });
    w.feed(SECOND, Event::Tick);
    assert!(!w.is_up(A), "its last probe failed");
    w.feed(2 * SECOND, Event::ServerUp { server: A });
    assert_eq!(w.actions, [Action::Restore { server: A }]);
}

#[test]
fn an_ejection_ends_early_if_its_group_cannot_do_without_the_server() {
    let limits = Limits { retry_reserve: 1_000, queue: 9, ..Limits::default() };
    let mut w = Harness::new(Policy::PSQ, &Topology::replicated(2, 1), limits, 1);
    fail_until_ejected(&mut w, 0, Outcome::Failed(Fault::Status));
    // One query runs on server B, and the others wait.
    let queries: Vec<QueryId> = (0..5).map(|_| w.arrive(1, 0)).collect();
    w.feed(2, Event::ServerUp { server: A });
    assert!(!w.is_up(A), "four queries wait, and there is room for nine");
    let fifth = w.arrive(3, 0);
    assert!(!w.is_up(A), "only a probe brings a server back");
    w.feed(4, Event::ServerUp { server: A });
    assert!(w.is_up(A) && w.only(queries[1]).1 == A && w.model.waits(fifth), "{:?}", w.actions);
    w.finish_all(5);
}

#[test]
fn copies_on_an_ejected_server_run_on() {
    let mut w = harness(Policy::ROUND_ROBIN, 2, 4);
    let long: Vec<QueryId> = (0..2).map(|_| w.arrive(0, 0)).collect();
    fail_until_ejected(&mut w, 0, Outcome::Failed(Fault::Status));
    let on_a = w.on(0)[..].first().copied().expect("one of the two servers");
    let query = w.model.copies[&on_a].query.expect("it runs");
    assert!(long.contains(&query) && w.cell.core().is_awaited(A));
    assert_eq!(w.finish(2, on_a, Outcome::Good), [Action::Answer { query, copy: on_a }]);
    assert!(!w.is_up(A), "probes bring it back, not responses");
}

#[test]
fn an_all_bad_group_is_used_as_if_it_were_good() {
    let mut w = harness(Policy::PSQ, 2, 1);
    let waits = [w.arrive(0, 0), w.arrive(0, 0), w.arrive(0, 0)];
    w.feed(1, Event::ServerUnhealthy { server: A, listens: true });
    w.feed(1, Event::ServerUnhealthy { server: B, listens: true });
    assert!(!w.is_up(A) && !w.is_up(B));
    for query in waits {
        let copy = w.only(query).0;
        assert_eq!(w.finish(2, copy, Outcome::Good)[0], Action::Answer { query, copy });
    }
    // As soon as one server is healthy, the others get no copies.
    w.feed(3, Event::ServerUp { server: B });
    let query = w.arrive(4, 0);
    assert_eq!(w.only(query).1, B);
    w.finish_all(5);
}

#[test]
fn queries_wait_for_servers_that_drain_or_accept_no_connections() {
    let limits = Limits { timeout_ns: 100, ..Limits::default() };
    let mut w = Harness::replicated(Policy::PSQ, 2, limits);
    w.feed(0, Event::ServerDraining { server: A });
    w.feed(0, Event::ServerUnhealthy { server: B, listens: false });
    let (early, late) = (w.arrive(0, 0), w.arrive(50, 0));
    assert_eq!(w.actions, [], "it waits");
    w.feed(100, Event::Tick);
    assert!(!w.model.queries.contains_key(&early), "its deadline has passed");
    w.feed(101, Event::ServerUp { server: B });
    assert!(w.copies(late).len() == 1);
    w.finish_all(102);
}

#[test]
fn a_request_that_was_never_sent_is_retried_whatever_its_method() {
    let mut w = harness(Policy::ROUND_ROBIN, 4, 1);
    for _ in 0..50 {
        assert!(run(&mut w, 0, &[A, B, ServerId(2)], Outcome::Failed(Fault::ConnectFailed), false));
    }
    let mut w = harness(Policy::ROUND_ROBIN, 2, 1);
    let mut failed = 0;
    (0..2).for_each(|_| {
        failed += u32::from(!run(&mut w, 0, &[A], Outcome::Failed(Fault::Reset), false));
    });
    assert_eq!(failed, 1, "a query that may have been sent is not sent twice");
}

#[test]
fn retries_of_unsent_requests_stay_within_the_budget() {
    let limits = Limits { retry_reserve: 3, retry_budget: 0.0, ..Limits::default() };
    let mut w = Harness::replicated(Policy::ROUND_ROBIN, 3, limits);
    let all = [A, B, ServerId(2)];
    (0..20).for_each(|_| _ = run(&mut w, 0, &all, Outcome::Failed(Fault::ConnectFailed), false));
    assert_eq!(w.model.retries, 3);
}

#[test]
fn attempts_that_time_out_eject_a_server_that_its_peer_outdoes() {
    let limits = Limits { attempt_timeout_ns: 10, retry_reserve: 100, ..Limits::default() };
    let mut w = Harness::new(Policy::ROUND_ROBIN, &Topology::replicated(2, 8), limits, 1);
    let mut now = 0;
    while w.is_up(A) {
        let query = w.arrive(now, 0);
        now += 10;
        let copy = w.only(query).0;
        if w.server_of(copy) == A {
            w.feed(now, Event::Tick);
        }
        let copy = w.only(query).0;
        w.finish(now, copy, Outcome::Good);
        assert!(now < 1_000, "it is ejected at some point");
    }
    let why = EjectReason::Timeout;
    assert!(w.actions.contains(&Action::Eject { server: A, why }), "{:?}", w.actions);
}

/// A cancelled copy keeps its slot as long as its server sends data. If the server is silent, the
/// copy keeps the slot until the cancel timeout.
const TIMEOUT: u64 = 100;

fn timed() -> Harness {
    let limits = Limits { cancel_timeout_ns: TIMEOUT, ..Limits::default() };
    Harness::replicated(Policy::PSQ, 2, limits)
}

/// The client of this query left after the response head had arrived.
fn abandoned_stream(w: &mut Harness, now: u64) -> CopyId {
    let query = w.arrive(now, 0);
    let (copy, _) = w.only(query);
    w.feed(now, Event::Responded { copy, outcome: Outcome::Good });
    w.feed(now, Event::Unwanted { copy });
    copy
}

#[test]
fn a_silent_copy_is_lost_and_its_server_stays() {
    let mut w = timed();
    let copy = abandoned_stream(&mut w, 0);
    let server = w.model.copies[&copy].server;
    w.feed(TIMEOUT - 1, Event::Tick);
    assert_eq!(w.actions, []);
    w.feed(TIMEOUT, Event::Tick);
    assert_eq!(w.actions, [Action::Lose { copy }], "one copy ejects no server");
    assert_eq!(w.cell.core().server(server).outstanding, 0);
    assert!(w.is_up(server));
    w.finish_all(TIMEOUT);
}

#[test]
fn slow_urls_called_at_once_take_no_shard_out() {
    let mut w = timed();
    let mut now = 0;
    for _ in 0..20 {
        abandoned_stream(&mut w, now);
        abandoned_stream(&mut w, now);
        now += TIMEOUT;
        w.feed(now, Event::Tick);
        assert!((0..2).all(|server| w.is_up(ServerId(server))));
    }
    w.finish_all(now);
}

#[test]
fn a_server_that_sends_is_not_silent() {
    let mut w = timed();
    let copy = abandoned_stream(&mut w, 0);
    for now in (0..10 * TIMEOUT).step_by(TIMEOUT as usize / 2) {
        w.feed(now, Event::Progress { copy });
        w.feed(now, Event::Tick);
        assert_eq!(w.actions, []);
    }
    w.finish(10 * TIMEOUT, copy, Outcome::Good);
    w.finish_all(11 * TIMEOUT);
}
