//! Tests hedges step by step, for starts and stops whose times the referee cannot predict.

use crate::referee::{Harness, named};
use curtail_kernel::{
    Action, Arrive, CopyId, Event, FailReason, Fault, GroupId, Limits, Outcome, Policy, QueryId,
    Role, Scheduler, ServerId, StartReason, StopReason, Timestamp, Topology, rng,
};

const DELAY: u64 = 100;

/// Servers that have one slot and can stop copies, and an unlimited hedge budget.
fn harness(policy: Policy, servers: u32) -> Harness {
    let limits = Limits { cancel: true, hedge_budget: 1.0, eject_after: 0, ..Limits::default() };
    Harness::replicated(policy, servers, limits)
}

#[test]
fn policies_that_stop_copies_refuse_servers_that_cannot() {
    for text in
        ["app-timeout:100ns", "tied", "das", "laedge:cc", "delayed:1ms:cc", "rescue:preempt"]
    {
        let built = named(text).build(&Topology::replicated(2, 1), Limits::default(), rng(1));
        let error = built.err().expect(text).to_string();
        assert!(error.contains(&format!("policy {text}")) && error.contains("cancel"), "{error}");
    }
}

/// A query whose first copy has not responded within the delay, and both of its copies.
fn late(w: &mut Harness) -> (QueryId, CopyId, CopyId) {
    let query = w.arrive(0, 0);
    let (first, server) = w.only(query);
    w.feed(DELAY - 1, Event::Tick);
    assert_eq!(w.actions, []);
    w.feed(DELAY, Event::Tick);
    let Action::Start { copy: second, query: of, server: other, role, why } = w.actions[0] else {
        panic!("a copy starts: {:?}", w.actions)
    };
    assert_eq!((of, role, why), (query, Role::Duplicate, StartReason::Delay));
    assert_ne!(server, other);
    (query, first, second)
}

#[test]
fn app_timeout_restarts_a_late_query_on_another_server() {
    let mut w = harness(named("app-timeout:100ns"), 3);
    let (query, first, second) = late(&mut w);
    assert_eq!(w.actions[1..], [Action::Stop { copy: first, why: StopReason::Purge }]);
    w.feed(DELAY + 1, Event::Stopped { copy: first });
    assert_eq!(w.actions, []);
    let answer = Action::Answer { query, copy: second };
    assert_eq!(w.finish(DELAY + 2, second, Outcome::Good), [answer]);
    w.finish_all(DELAY + 3);
}

#[test]
fn a_copy_that_is_about_to_stop_is_no_retry() {
    let mut w = harness(named("app-timeout:100ns"), 3);
    let (query, first, second) = late(&mut w);
    w.finish(DELAY + 1, second, Outcome::Failed(Fault::Reset));
    assert_eq!(w.actions, [], "the first copy may still respond");
    w.feed(DELAY + 2, Event::Stopped { copy: first });
    assert_eq!(w.starts(), [(query, StartReason::Retry)], "one server has failed it");
    w.finish_all(DELAY + 3);
}

fn probabilistic(probability: f64) -> Policy {
    named(&format!("probabilistic:{DELAY}ns:{probability}"))
}

#[test]
fn a_probabilistic_hedge_tosses_a_coin_once_the_delay_is_over() {
    // For 10,000 tosses with a probability of 0.3, five standard deviations are 229.
    for (probability, expected) in [(0.0, 0..=0), (0.3, 2_771..=3_229), (1.0, 10_000..=10_000)] {
        let mut w = harness(probabilistic(probability), 3);
        let mut hedged = 0;
        for now in (0..10_000).map(|round| round * 2 * DELAY) {
            w.arrive(now, 0);
            w.feed(now + DELAY, Event::Tick);
            hedged += w.actions.len();
            w.finish_all(now + DELAY);
        }
        assert!(expected.contains(&hedged), "{hedged} of 10000 at {probability}");
    }
}

#[test]
fn the_loser_of_a_probabilistic_hedge_runs_to_its_end() {
    let mut w = harness(probabilistic(1.0), 3);
    let (query, first, second) = late(&mut w);
    let answer = Action::Answer { query, copy: second };
    assert_eq!(w.finish(DELAY + 1, second, Outcome::Good), [answer]);
    assert_eq!(w.finish(DELAY + 2, first, Outcome::Good), []);
    w.finish_all(DELAY + 3);
}

#[test]
fn the_tied_copy_that_begins_stops_the_other_once() {
    for begins in [0, 1] {
        let mut w = harness(named("tied"), 3);
        let query = w.arrive(0, 0);
        let copies = w.copies(query);
        let (begins, other) = (copies[begins], copies[1 - begins]);
        let purge = Action::Stop { copy: other, why: StopReason::Purge };
        assert_eq!(w.feed(1, Event::Started { copy: begins }), [purge]);
        assert_eq!(w.feed(2, Event::Started { copy: begins }), [], "it is stopping");
        w.feed(3, Event::Stopped { copy: other });
        assert_eq!(w.feed(4, Event::Started { copy: begins }), [], "there is no other");
        let answer = Action::Answer { query, copy: begins };
        assert_eq!(w.finish(5, begins, Outcome::Good), [answer]);
        w.finish_all(6);
    }
}

#[test]
fn if_no_start_is_reported_the_loser_is_stopped_when_the_other_wins() {
    let mut w = harness(named("tied"), 2);
    let query = w.arrive(0, 0);
    let [first, second] = w.copies(query)[..] else { panic!("two copies") };
    let cleanup = Action::Stop { copy: first, why: StopReason::Cleanup };
    let actions = w.finish(1, second, Outcome::Good);
    assert_eq!(actions, [Action::Answer { query, copy: second }, cleanup]);
    w.finish_all(2);
}

#[test]
fn a_clone_runs_on_every_server_at_once_and_losers_run_to_their_ends() {
    let mut w = harness(named("clone"), 3);
    let query = w.arrive(0, 0);
    let reasons = [StartReason::Arrival, StartReason::Hedge, StartReason::Hedge];
    assert_eq!(w.starts(), reasons.map(|why| (query, why)));
    assert!((0..3).all(|server| w.on(server).len() == 1));
    let [first, second, third] = w.copies(query)[..] else { panic!("three servers") };
    // The losers keep running, although servers could stop them.
    let answer = Action::Answer { query, copy: second };
    assert_eq!(w.finish(2, second, Outcome::Good), [answer]);
    let server = w.server_of(first);
    assert_eq!(w.cell.core().server(server).outstanding, 1);
    assert_eq!(w.finish(3, first, Outcome::Good), []);
    assert_eq!(w.finish(4, third, Outcome::Good), []);
    w.finish_all(5);
}

#[test]
fn a_server_that_had_no_room_gets_no_clone_later() {
    let limits = Limits { max_outstanding: 1, ..Limits::default() };
    let mut w = Harness::replicated(named("clone"), 2, limits);
    w.feed(0, Event::ServerDraining { server: ServerId(1) });
    let busy = w.arrive(0, 0);
    w.feed(0, Event::ServerUp { server: ServerId(1) });
    let query = w.arrive(1, 0);
    let only = w.only(query);
    w.finish(2, w.only(busy).0, Outcome::Good);
    assert_eq!(w.only(query), only);
    w.finish_all(3);
}

#[test]
fn a_query_fails_when_its_last_clone_does() {
    let mut w = harness(named("clone"), 3);
    let query = w.arrive(0, 0);
    let [a, b, c] = w.copies(query)[..] else { panic!("three servers") };
    assert_eq!(w.finish(1, b, Outcome::Failed(Fault::Status)), []);
    assert_eq!(w.finish(2, a, Outcome::Failed(Fault::Reset)), []);
    let fail = Action::Fail { query, why: FailReason::CopyFailed, copy: Some(c) };
    assert_eq!(
        w.finish(3, c, Outcome::Failed(Fault::Status)),
        [fail],
        "the others were its retries"
    );
    w.finish_all(4);
}

/// Runs without the referee, because the referee examines all servers after every event.
#[test]
fn a_clone_has_255_copies_at_most_and_no_server_is_left_out_for_good() {
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

/// Runs a thousand queries, one at a time. Returns the number of copies, and the number of queries
/// that were refused a duplicate.
fn copies(policy: Policy, hedge_budget: f64) -> (u64, u64) {
    let limits = Limits { cancel: true, hedge_budget, hedge_burst: 4, ..Limits::default() };
    let mut w = Harness::replicated(policy, 2, limits);
    let mut copies = 0;
    for at in 0..1_000 {
        let query = w.arrive(1_000 * at, 0);
        w.feed(1_000 * at + 100, Event::Tick);
        let mine: Vec<_> = w.model.attached(query).map(|(id, _)| *id).collect();
        copies += mine.len() as u64;
        for copy in mine {
            match w.model.copies.get(&copy).map(|copy| copy.stopping) {
                Some(true) => _ = w.feed(1_000 * at + 200, Event::Stopped { copy }),
                Some(false) => _ = w.finish(1_000 * at + 200, copy, Outcome::Good),
                None => {}
            }
        }
    }
    (copies, w.cell.core().hedges_refused())
}

#[test]
fn duplicates_stay_within_the_budget_and_refusals_are_counted() {
    let policies = [
        named("delayed:100ns"),
        named("probabilistic:100ns:1.0"),
        named("tied"),
        named("laedge"),
        named("laedge:cc+pc"),
    ];
    for policy in policies {
        assert_eq!(copies(policy, 1.0), (2_000, 0), "{policy}: a budget of 1 is no limit");
        // The first query's token is lost, because it would exceed the burst.
        let (sent, refused) = copies(policy, 0.25);
        assert!((1_250..=1_254).contains(&sent), "{policy}: {sent}");
        assert_eq!(sent + refused, 2_000, "{policy}");
        assert_eq!(copies(policy, 0.0), (1_004, 996), "{policy}: the burst");
    }
}

#[test]
fn app_timeout_does_not_restart_without_a_token() {
    let (sent, refused) = copies(named("app-timeout:100ns"), 0.0);
    assert_eq!((sent, refused), (1_004, 996));
}

#[test]
fn baselines_are_not_limited() {
    for policy in [named("naive"), named("clone")] {
        assert_eq!(copies(policy, 0.0), (2_000, 0), "{policy}");
    }
}

#[test]
fn duplicates_of_das_are_no_load_and_leave_half_of_a_gate_to_others() {
    let limits = Limits { cancel: true, max_outstanding: 4, eject_after: 0, ..Limits::default() };
    let attempt_timeout_ns = 1_000;
    let limits = Limits { attempt_timeout_ns, ..limits };
    let mut w = Harness::replicated(named("das+least-outstanding"), 2, limits);
    let held = |w: &Harness, s| w.cell.core().server(ServerId(s)).outstanding;
    let queries: Vec<QueryId> = (0..4).map(|at| w.arrive(at, 0)).collect();
    assert_eq!(
        (held(&w, 0), held(&w, 1)),
        (4, 4),
        "a primary and a duplicate of each pair at both"
    );
    let copies = |w: &Harness, query| w.model.attached(query).count();
    assert!(queries.iter().all(|&query| copies(&w, query) == 2));
    // All primaries have left, so only duplicates remain: two at each server, which fill half of
    // the gate.
    for &query in &queries {
        let primary = w.model.attached(query).find(|(_, copy)| copy.role == Role::Primary);
        let primary = *primary.expect("it runs").0;
        w.finish(10, primary, Outcome::Failed(Fault::Reset));
    }
    let next: Vec<QueryId> = (11..15).map(|at| w.arrive(at, 0)).collect();
    assert!(next.iter().all(|&query| copies(&w, query) == 1), "no further duplicates");
    assert_eq!((held(&w, 0), held(&w, 1)), (4, 4), "in order, as if there were no duplicates");
    // The attempts of primaries time out, and the queries are retried. Duplicates may wait.
    w.feed(1_100, Event::Tick);
    assert!(queries.iter().all(|&query| copies(&w, query) == 1), "they wait in the queue");
}

#[test]
fn a_duplicate_that_is_given_up_is_no_retry() {
    for primary_first in [true, false] {
        let mut w = harness(named("das"), 3);
        let query = w.arrive(0, 0);
        let role = |w: &Harness, copy: &CopyId| w.model.copies[copy].role;
        let mut copies = w.copies(query);
        copies.sort_by_key(|copy| (role(&w, copy) == Role::Duplicate) == primary_first);
        for (now, copy) in (1..).zip(&copies) {
            let is_primary = role(&w, copy) == Role::Primary;
            w.finish(
                now,
                *copy,
                if is_primary { Outcome::Failed(Fault::Reset) } else { Outcome::Local },
            );
        }
        // One server failed the query.
        assert_eq!(w.starts(), [(query, StartReason::Retry)], "primary first: {primary_first}");
        // Now two servers have failed it.
        let again = w.copies(query);
        assert_eq!(again.len(), 1);
        w.finish(3, again[0], Outcome::Failed(Fault::Reset));
        assert!(matches!(w.actions[..], [Action::Fail { .. }]), "{:?}", w.actions);
    }
}
