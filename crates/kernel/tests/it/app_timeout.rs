//! Application timeout: a query whose copy is late is begun anew on another server.

use crate::referee::{World, named};
use curtail_kernel::{
    Action, Arrive, CopyId, Event, GroupId, Limits, Outcome, QueryId, Role, StartReason,
    StopReason, Timestamp, Topology, rng,
};

const DELAY: u64 = 100;
const POLICY: &str = "app-timeout:100ns";

fn limits() -> Limits {
    Limits { cancel: true, ..Limits::default() }
}

fn world(limits: Limits) -> World {
    World::new(named(POLICY), &Topology::replicated(3, 1), limits, 1)
}

fn only_copy(w: &World, query: QueryId) -> CopyId {
    let copies: Vec<CopyId> = w.model.attached(query).map(|(id, _)| *id).collect();
    let [copy] = copies[..] else { panic!("one copy: {copies:?}") };
    copy
}

/// A query whose first copy was cancelled at the end of the delay, and both of its copies.
fn begun_anew(w: &mut World) -> (QueryId, CopyId, CopyId) {
    let query = w.arrive(0, 0);
    let first = only_copy(w, query);
    w.feed(DELAY - 1, Event::Tick);
    assert_eq!(w.actions, []);
    w.feed(DELAY, Event::Tick);
    let [Action::Start { copy, query: of, server, role, why }, stop] = w.actions[..] else {
        panic!("one starts, one stops: {:?}", w.actions)
    };
    assert_eq!((of, role, why), (query, Role::Duplicate, StartReason::Delay));
    assert_ne!(server, w.model.copies[&first].server);
    assert_eq!(stop, Action::Stop { copy: first, why: StopReason::Purge });
    (query, first, copy)
}

#[test]
fn the_second_copy_answers_in_place_of_the_first() {
    let mut w = world(limits());
    let (query, first, second) = begun_anew(&mut w);
    w.feed(DELAY + 1, Event::Stopped { copy: first });
    assert_eq!(w.actions, []);
    assert_eq!(only_copy(&w, query), second);
    let answer = Action::Answer { query, copy: second };
    assert_eq!(w.finish(DELAY + 2, second, Outcome::Good), [answer]);
    w.finish_all(DELAY + 3);
}

#[test]
fn the_first_copy_may_still_win_until_it_has_stopped() {
    let mut w = world(limits());
    let (query, first, second) = begun_anew(&mut w);
    let stop = Action::Stop { copy: second, why: StopReason::Cleanup };
    let said = w.finish(DELAY + 1, first, Outcome::Good);
    assert_eq!(said, [Action::Answer { query, copy: first }, stop]);
    w.finish_all(DELAY + 2);
}

#[test]
fn where_the_second_wins_the_first_is_not_told_again() {
    let mut w = world(limits());
    let (query, first, second) = begun_anew(&mut w);
    let answer = Action::Answer { query, copy: second };
    assert_eq!(w.finish(DELAY + 1, second, Outcome::Good), [answer]);
    assert_eq!(w.on(w.model.copies[&first].server.0), [first], "it holds its slot until it stops");
    w.finish_all(DELAY + 2);
}

#[test]
fn a_query_is_begun_anew_once() {
    let mut w = world(limits());
    let (query, first, second) = begun_anew(&mut w);
    w.feed(DELAY, Event::Stopped { copy: first });
    assert_eq!(w.cell.next_deadline(), Timestamp::NEVER);
    // Torn down on our side: it is sent again, but runs for as long as it takes.
    w.feed(2 * DELAY, Event::Stopped { copy: second });
    assert_eq!(w.model.attached(query).count(), 1);
    assert_eq!(w.cell.next_deadline(), Timestamp::NEVER);
    w.finish_all(3 * DELAY);
}

#[test]
fn where_no_other_server_has_room_the_first_copy_goes_on() {
    let mut w = world(Limits { max_outstanding: 1, ..limits() });
    let queries: Vec<QueryId> = (0..3).map(|_| w.arrive(0, 0)).collect();
    w.feed(DELAY, Event::Tick);
    assert_eq!(w.actions, []);
    for query in queries {
        let copy = only_copy(&w, query);
        assert!(w.finish(DELAY, copy, Outcome::Good).contains(&Action::Answer { query, copy }));
    }
    w.finish_all(DELAY);
}

#[test]
fn what_may_not_run_twice_is_not_begun_anew() {
    let mut w = world(limits());
    let query = w.fresh();
    let arrive = Arrive { may_duplicate: false, ..Arrive::new(query, GroupId(0)) };
    w.feed(0, Event::Arrive(arrive));
    assert_eq!(w.cell.next_deadline(), Timestamp::NEVER);
    w.finish_all(DELAY);
}

#[test]
fn a_copy_that_is_about_to_stop_is_no_retry() {
    let mut w = world(limits());
    let (query, first, second) = begun_anew(&mut w);
    w.finish(DELAY + 1, second, Outcome::Reset);
    assert_eq!(w.actions, [], "the first copy may still answer");
    w.feed(DELAY + 2, Event::Stopped { copy: first });
    let [Action::Start { query: of, why: StartReason::Retry, .. }] = w.actions[..] else {
        panic!("one server has failed it: {:?}", w.actions)
    };
    assert_eq!(of, query);
    w.finish_all(DELAY + 3);
}

#[test]
fn servers_that_cannot_stop_are_refused() {
    let built = named(POLICY).build(&Topology::replicated(2, 1), Limits::default(), rng(1));
    let said = built.err().expect("it stops copies").to_string();
    assert!(said.contains("app-timeout:100ns") && said.contains("cancel"), "{said}");
}
