//! A server that is taken out gets no new copies, but those that run on it run on: they hold slots
//! of a machine that may well be at work, and may bring good answers.

mod referee;

use curtail_kernel::hedge::Cancellation;
use curtail_kernel::{
    Action, CopyId, EjectReason, Event, Limits, Outcome, Policy, QueryId, ServerId, Topology,
};
use referee::World;

fn without_retries() -> Limits {
    Limits { eject_after: 3, retries: 0, ..Limits::default() }
}

/// Two servers of four slots, the first of which has just been taken out for three failures in a
/// row; a query and its copy that run on it.
fn taken_out() -> (World, QueryId, CopyId) {
    let mut w =
        World::new(Policy::PerShardQueue, &Topology::replicated(2, 4), without_retries(), 1);
    let queries: Vec<QueryId> = (0..8).map(|_| w.arrive(0, 0)).collect();
    let [a, b, c, last] = w.on(0)[..] else { panic!("four slots") };
    for copy in [a, b, c] {
        w.finish(1, copy, Outcome::Bad);
    }
    let out = Action::Eject { server: ServerId(0), why: EjectReason::Failures };
    assert!(w.actions.contains(&out), "{:?}", w.actions);
    let query = w.model.copies[&last].query.expect("it runs");
    assert!(queries.contains(&query));
    (w, query, last)
}

#[test]
fn a_copy_on_a_server_that_failed_others_still_answers() {
    let (mut w, query, copy) = taken_out();
    assert_eq!(w.finish(2, copy, Outcome::Good), [Action::Answer { query, copy }]);
    assert!(!w.cell.core().server(ServerId(0)).up, "probes bring it back, not answers");
}

#[test]
fn a_server_that_returns_still_holds_what_runs_on_it() {
    let (mut w, _, copy) = taken_out();
    assert!(w.cell.core().is_awaited(ServerId(0)));
    w.feed(2, Event::ServerUp { server: ServerId(0) });
    assert_eq!(w.cell.core().server(ServerId(0)).outstanding, 1);
    for _ in 0..8 {
        w.arrive(3, 0);
    }
    assert_eq!(w.on(0).len(), 4, "its gate holds");
    w.finish(4, copy, Outcome::Good);
    w.drain(5);
}

#[test]
fn a_server_that_is_gone_loses_what_runs_on_it() {
    let (mut w, query, copy) = taken_out();
    w.feed(2, Event::ServerDown { server: ServerId(0) });
    assert!(w.actions.contains(&Action::Lose { copy }), "{:?}", w.actions);
    let failed = |a: &Action| matches!(*a, Action::Fail { query: q, .. } if q == query);
    assert!(w.actions.iter().any(failed), "{:?}", w.actions);
    assert!(!w.cell.core().is_awaited(ServerId(0)));
}

#[test]
fn where_nothing_listens_what_runs_may_end() {
    let mut w =
        World::new(Policy::PerShardQueue, &Topology::replicated(2, 2), without_retries(), 1);
    for _ in 0..4 {
        w.arrive(0, 0);
    }
    let [refused, runs] = w.on(0)[..] else { panic!("two slots") };
    w.finish(1, refused, Outcome::Refused);
    assert!(!w.cell.core().server(ServerId(0)).up, "once is enough");
    let query = w.model.copies[&runs].query.expect("it runs");
    assert_eq!(w.finish(2, runs, Outcome::Good), [Action::Answer { query, copy: runs }]);
}

#[test]
fn what_ended_on_this_side_says_nothing_about_the_server() {
    let mut w =
        World::new(Policy::PerShardQueue, &Topology::replicated(2, 1), without_retries(), 1);
    for now in 0..10 {
        let query = w.arrive(now, 0);
        let copy = *w.model.attached(query).next().expect("it runs").0;
        w.finish(now, copy, Outcome::Local);
        assert!(!w.actions.iter().any(|action| matches!(action, Action::Eject { .. })));
    }
    w.drain(10);
}

#[test]
fn a_copy_that_is_being_stopped_is_no_retry() {
    let limits = Limits { cancel: true, ..Limits::default() };
    let policy = Policy::Laedge(Cancellation::Preemptive);
    let mut w = World::new(policy, &Topology::replicated(2, 1), limits, 1);
    let query = w.arrive(0, 0);
    let copies: Vec<CopyId> = w.model.attached(query).map(|(id, _)| *id).collect();
    let [older, newer] = copies[..] else { panic!("two copies") };
    w.arrive(1, 0);
    assert!(w.model.copies[&newer].stopping, "for the query that waits");
    w.finish(2, older, Outcome::Reset);
    w.feed(3, Event::Stopped { copy: newer });
    assert!(w.model.queries.contains_key(&query), "one server failed it: {:?}", w.actions);
    w.drain(4);
}
