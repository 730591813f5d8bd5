//! Tied requests: as soon as a server begins with one copy, the other is stopped.

use crate::referee::{World, named};
use curtail_kernel::{
    Action, CopyId, Event, Limits, Outcome, QueryId, Role, StartReason, StopReason, Topology, rng,
};

fn limits() -> Limits {
    Limits { cancel: true, ..Limits::default() }
}

fn world(servers: u32) -> World {
    World::new(named("tied"), &Topology::replicated(servers, 1), limits(), 1)
}

/// A query, and its copies in the order in which they were sent.
fn pair(w: &mut World) -> (QueryId, CopyId, CopyId) {
    let query = w.arrive(0, 0);
    let [
        Action::Start { copy: first, server: one, role: Role::Primary, .. },
        Action::Start { copy: second, server: two, role: Role::Duplicate, why, .. },
    ] = w.actions[..]
    else {
        panic!("two copies at once: {:?}", w.actions)
    };
    assert_eq!(why, StartReason::Hedge);
    assert_ne!(one, two);
    (query, first, second)
}

fn purge(copy: CopyId) -> Action {
    Action::Stop { copy, why: StopReason::Purge }
}

#[test]
fn the_copy_that_begins_stops_the_other_once() {
    for (begins, other) in [(0, 1), (1, 0)] {
        let mut w = world(3);
        let (query, first, second) = pair(&mut w);
        let copies = [first, second];
        let (begins, other) = (copies[begins], copies[other]);
        assert_eq!(w.feed(1, Event::Started { copy: begins }), [purge(other)]);
        assert_eq!(w.feed(2, Event::Started { copy: begins }), [], "it was told");
        assert_eq!(w.feed(3, Event::Stopped { copy: other }), []);
        assert_eq!(w.feed(4, Event::Started { copy: begins }), [], "there is no other");
        let answer = Action::Answer { query, copy: begins };
        assert_eq!(w.finish(5, begins, Outcome::Good), [answer]);
        w.finish_all(6);
    }
}

#[test]
fn where_both_begin_the_one_that_is_heard_first_goes_on() {
    let mut w = world(2);
    let (query, first, second) = pair(&mut w);
    assert_eq!(w.feed(1, Event::Started { copy: second }), [purge(first)]);
    assert_eq!(w.feed(1, Event::Started { copy: first }), [], "it was told to stop");
    w.feed(2, Event::Stopped { copy: first });
    let answer = Action::Answer { query, copy: second };
    assert_eq!(w.finish(3, second, Outcome::Good), [answer]);
    w.finish_all(4);
}

#[test]
fn what_begins_after_its_end_changes_nothing() {
    let mut w = world(2);
    let (_, first, second) = pair(&mut w);
    w.feed(1, Event::Started { copy: first });
    w.feed(2, Event::Stopped { copy: second });
    assert_eq!(w.feed(3, Event::Started { copy: second }), []);
    assert_eq!(w.model.copies.keys().collect::<Vec<_>>(), [&first]);
    w.finish(4, first, Outcome::Good);
    assert_eq!(w.feed(5, Event::Started { copy: first }), []);
    w.finish_all(6);
}

#[test]
fn a_copy_that_is_stopping_may_still_win() {
    let mut w = world(2);
    let (query, first, second) = pair(&mut w);
    w.feed(1, Event::Started { copy: first });
    let cleanup = Action::Stop { copy: first, why: StopReason::Cleanup };
    let said = w.finish(2, second, Outcome::Good);
    assert_eq!(said, [Action::Answer { query, copy: second }, cleanup]);
    w.finish_all(3);
}

#[test]
fn where_nobody_tells_the_loser_is_stopped_when_the_other_wins() {
    let mut w = world(2);
    let (query, first, second) = pair(&mut w);
    let cleanup = Action::Stop { copy: first, why: StopReason::Cleanup };
    let said = w.finish(1, second, Outcome::Good);
    assert_eq!(said, [Action::Answer { query, copy: second }, cleanup]);
    assert_eq!(w.feed(2, Event::Started { copy: first }), [], "its query has ended");
    w.finish_all(3);
}

#[test]
fn where_the_copy_that_began_fails_the_query_is_sent_again() {
    let mut w = world(3);
    let (query, first, second) = pair(&mut w);
    w.feed(1, Event::Started { copy: first });
    assert_eq!(w.finish(2, first, Outcome::Reset), [], "the other may still answer");
    w.feed(3, Event::Stopped { copy: second });
    let [Action::Start { query: of, why: StartReason::Retry, .. }] = w.actions[..] else {
        panic!("one server has failed it: {:?}", w.actions)
    };
    assert_eq!(of, query);
    w.finish_all(4);
}

#[test]
fn where_one_server_has_room_there_is_one_copy() {
    let limits = Limits { max_outstanding: 1, ..limits() };
    let mut w = World::new(named("tied"), &Topology::replicated(3, 1), limits, 1);
    pair(&mut w);
    w.arrive(0, 0);
    let [Action::Start { copy, .. }] = w.actions[..] else { panic!("one server has room") };
    assert_eq!(w.feed(1, Event::Started { copy }), []);
    w.finish_all(2);
}

#[test]
fn servers_that_cannot_stop_are_refused() {
    let built = named("tied").build(&Topology::replicated(2, 1), Limits::default(), rng(1));
    let said = built.err().expect("it stops copies").to_string();
    assert!(said.contains("policy tied") && said.contains("cancel"), "{said}");
}
