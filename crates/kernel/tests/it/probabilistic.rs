//! Probabilistic hedge: a coin decides, once the delay is over, whether a query gets a second copy.

use crate::referee::World;
use curtail_kernel::hedge::Probabilistic;
use curtail_kernel::{
    Action, Event, Limits, Outcome, Policy, QueryId, Role, StartReason, Timestamp, Topology,
};

const DELAY: u64 = 100;

fn world(probability: f64, limits: Limits) -> World {
    let limits = Limits { hedge_budget: 1.0, ..limits };
    let policy = Policy::from(Probabilistic { delay_ns: DELAY, probability });
    World::new(policy, &Topology::replicated(3, 1), limits, 7)
}

/// How many of so many queries that have no answer after the delay get a second copy.
fn hedged(probability: f64, queries: u64) -> usize {
    let mut w = world(probability, Limits::default());
    let mut hedged = 0;
    for round in 0..queries {
        let now = round * 2 * DELAY;
        w.arrive(now, 0);
        w.feed(now + DELAY, Event::Tick);
        hedged += w.actions.len();
        w.finish_all(now + DELAY);
    }
    hedged
}

#[test]
fn at_0_nobody_gets_a_second_copy_and_at_1_everybody_does() {
    assert_eq!(hedged(0.0, 1_000), 0);
    assert_eq!(hedged(1.0, 1_000), 1_000);
}

#[test]
fn the_coin_falls_as_often_as_it_should() {
    // Five standard deviations of 10,000 tosses at 0.3 are 229.
    let hedged = hedged(0.3, 10_000);
    assert!((2_771..=3_229).contains(&hedged), "{hedged} of 10000");
}

#[test]
fn the_second_copy_goes_elsewhere_when_the_delay_is_over() {
    let mut w = world(1.0, Limits::default());
    let query = w.arrive(0, 0);
    let (&first, copy) = w.model.attached(query).next().expect("it runs");
    let there = copy.server;
    assert_eq!(w.cell.next_deadline(), Timestamp(DELAY));
    w.feed(DELAY - 1, Event::Tick);
    assert_eq!(w.actions, []);
    w.feed(DELAY, Event::Tick);
    let [Action::Start { copy: second, query: of, server, role, why }] = w.actions[..] else {
        panic!("one copy starts: {:?}", w.actions)
    };
    assert_eq!((of, role, why), (query, Role::Duplicate, StartReason::Delay));
    assert_ne!(server, there);

    assert_eq!(
        w.finish(DELAY + 1, second, Outcome::Good),
        [Action::Answer { query, copy: second }],
        "the loser runs to its end"
    );
    assert_eq!(w.finish(DELAY + 2, first, Outcome::Good), []);
    w.finish_all(DELAY + 3);
}

#[test]
fn a_query_is_asked_about_once() {
    let mut w = world(0.0, Limits::default());
    w.arrive(0, 0);
    w.feed(DELAY, Event::Tick);
    assert_eq!((w.actions.len(), w.cell.next_deadline()), (0, Timestamp::NEVER));
    w.finish_all(DELAY);
}

#[test]
fn where_no_other_server_has_room_there_is_no_second_copy() {
    let mut w = world(1.0, Limits { max_outstanding: 1, ..Limits::default() });
    let queries: Vec<QueryId> = (0..3).map(|_| w.arrive(0, 0)).collect();
    w.feed(DELAY, Event::Tick);
    assert_eq!(w.actions, []);
    assert!(queries.iter().all(|&query| w.model.attached(query).count() == 1));
    w.finish_all(DELAY);
}

#[test]
fn a_query_that_lost_its_copy_and_waits_gets_no_second_one() {
    let mut w = world(1.0, Limits { max_outstanding: 1, ..Limits::default() });
    let queries: Vec<QueryId> = (0..3).map(|_| w.arrive(0, 0)).collect();
    let (&lost, copy) = w.model.attached(queries[0]).next().expect("it runs");
    let there = copy.server;
    w.feed(1, Event::ServerDraining { server: there });
    // Torn down on our side: its query is to be sent again, and nobody has room.
    w.feed(2, Event::Stopped { copy: lost });
    assert_eq!((w.actions.len(), w.model.attached(queries[0]).count()), (0, 0));
    w.feed(DELAY, Event::Tick);
    assert_eq!(w.actions, []);
    w.finish_all(DELAY);
}
