//! Rescue, step by step: how a cell uses a snapshot, and which records it publishes.

use crate::referee::Harness;
use curtail_kernel::hedge::Version::{Cleanup, NoCancel, Preempt};
use curtail_kernel::hedge::rescue::{Exploration, Record, Replaced, Snapshot, Tried, Version};
use curtail_kernel::{
    Action, CopyId, Event, Limits, NEVER_NS, Outcome, Policy, QueryId, Role, ServerId, StartReason,
    StopReason, Timestamp,
};

/// Both snapshots have a T of 100. With `LEARNED`, the next first copy that loses is audited.
const LEARNED: Snapshot = Snapshot { suspect_ns: 100, ..Snapshot::NOTHING };
const SUSPECTING: Snapshot = Snapshot { audit_every: u32::MAX, ..LEARNED };

fn harness(version: Version) -> Harness {
    suspecting(version, 2, Limits::default(), LEARNED)
}

fn suspecting(version: Version, servers: u32, limits: Limits, learned: Snapshot) -> Harness {
    let limits = Limits { cancel: version != NoCancel, ..limits };
    let policy = Policy::from(version);
    let mut harness = Harness::replicated(policy, servers, limits);
    harness.adopt(&learned);
    harness
}

#[test]
fn an_idle_server_rescues_a_query_at_the_age_t_and_the_loser_is_stopped() {
    let mut w = harness(Cleanup);
    let stuck = w.arrive(0, 0);
    assert_eq!(w.cell.next_deadline(), Timestamp(100));
    w.feed(99, Event::Tick);
    assert_eq!(w.actions, [], "it is no suspect yet");
    w.feed(100, Event::Tick);
    assert_eq!(w.starts(), [(stuck, StartReason::Rescue)]);
    let [first, second] = w.copies(stuck)[..] else { panic!("two copies") };
    assert_eq!(w.model.copies[&second].role, Role::Duplicate);
    w.adopt(&SUSPECTING);
    w.finish(130, second, Outcome::Good);
    assert_eq!(w.stops(), [(first, StopReason::Cleanup)]);
    let tried = Some(Tried { age_ns: 100, rescue: true, risked_ns: 0 });
    let record = Record::Second { ran_ns: 30, tried, crowded: false };
    assert_eq!(w.published(), [record]);
    w.feed(131, Event::Stopped { copy: first });
    w.finish_all(200);
}

#[test]
fn a_suspect_overtakes_the_queue_and_the_next_one_does_not() {
    let mut w = suspecting(Cleanup, 3, Limits::default(), LEARNED);
    let a = w.arrive(0, 0);
    let b = w.arrive(0, 0);
    let busy = w.arrive(60, 0);
    let waiting = w.arrive(61, 0);
    let last = w.arrive(62, 0);
    w.feed(100, Event::Tick);
    assert_eq!(w.actions, [], "no server is idle");
    w.finish(110, w.copies(busy)[0], Outcome::Good);
    assert_eq!(w.starts().last(), Some(&(a, StartReason::Rescue)), "the oldest suspect");
    // The rescue wins and frees two servers. The first server that becomes free serves the queue,
    // although b is also a suspect.
    let [first, second] = w.copies(a)[..] else { panic!("two copies") };
    w.adopt(&SUSPECTING);
    w.finish(120, second, Outcome::Good);
    assert_eq!(w.starts(), [(waiting, StartReason::Queue)]);
    w.feed(121, Event::Stopped { copy: first });
    assert_eq!(w.starts(), [(b, StartReason::Rescue)], "the other server has not had its turn");
    w.finish(122, w.copies(waiting)[0], Outcome::Good);
    assert_eq!(w.starts(), [(last, StartReason::Queue)]);
    w.finish_all(200);
}

#[test]
fn a_rescue_that_takes_as_long_gives_way_and_is_never_tried_again() {
    let mut w = harness(Cleanup);
    let long = w.arrive(0, 0);
    w.feed(100, Event::Tick);
    let [first, second] = w.copies(long)[..] else { panic!("two copies") };
    w.feed(199, Event::Tick);
    assert_eq!(w.actions, []);
    w.feed(200, Event::Tick);
    assert_eq!((w.actions.len(), w.cell.next_deadline()), (0, Timestamp::NEVER), "no query waits");
    let other = w.arrive(300, 0);
    assert_eq!(w.stops(), [(second, StopReason::GiveUp)]);
    w.feed(301, Event::Stopped { copy: second });
    assert_eq!(w.starts(), [(other, StartReason::Queue)]);
    w.finish(310, w.copies(other)[0], Outcome::Good);
    assert_eq!(
        w.actions.len(),
        1,
        "the response: the server is idle, and there is no second rescue"
    );
    w.published();
    w.finish(500, first, Outcome::Good);
    let tried = Some(Tried { age_ns: 100, rescue: true, risked_ns: 0 });
    assert_eq!(w.published(), [Record::First { ran_ns: 500, tried, crowded: false }]);
    w.finish_all(600);
}

#[test]
fn if_the_rescue_is_stuck_too_the_first_copy_is_stopped_and_rescued_once_more() {
    let learned = Snapshot { replaces: Some(Replaced::First), ..SUSPECTING };
    let mut w = suspecting(Cleanup, 3, Limits::default(), learned);
    let stuck = w.arrive(0, 0);
    w.feed(100, Event::Tick);
    let [first, second] = w.copies(stuck)[..] else { panic!("two copies") };
    w.feed(200, Event::Tick);
    assert_eq!(w.stops(), [(first, StopReason::GiveUp)]);
    w.feed(201, Event::Stopped { copy: first });
    assert_eq!(w.starts(), [(stuck, StartReason::Rescue)], "it has the age of the second copy");
    let [_, third] = w.copies(stuck)[..] else { panic!("two copies") };
    w.feed(301, Event::Tick);
    assert_eq!(w.actions, []);
    w.arrive(310, 0);
    w.arrive(310, 0);
    assert_eq!(w.stops(), [(third, StopReason::GiveUp)], "now it counts as long");
    w.finish(400, second, Outcome::Good);
    w.finish_all(500);
}

#[test]
fn if_such_queries_are_long_the_rescue_is_replaced_and_the_first_copy_runs_on() {
    let learned = Snapshot { replaces: Some(Replaced::Second), ..SUSPECTING };
    let mut w = suspecting(Cleanup, 3, Limits::default(), learned);
    let stuck = w.arrive(0, 0);
    w.feed(100, Event::Tick);
    let [first, second] = w.copies(stuck)[..] else { panic!("two copies") };
    w.feed(200, Event::Tick);
    assert_eq!(w.stops(), [(second, StopReason::GiveUp)]);
    w.feed(201, Event::Stopped { copy: second });
    assert_eq!(w.starts(), [(stuck, StartReason::Rescue)], "it has the age of the first copy");
    let [_, third] = w.copies(stuck)[..] else { panic!("two copies") };
    w.feed(301, Event::Tick);
    assert_eq!(w.actions, [], "now it counts as long");
    w.finish(310, first, Outcome::Good);
    assert_eq!(w.stops(), [(third, StopReason::Cleanup)]);
    w.finish_all(400);
}

#[test]
fn a_late_rescue_that_is_given_up_is_no_evidence() {
    // The same holds for a late rescue that wins: both are evidence about queries older than T.
    let mut w = harness(Cleanup);
    let long = w.arrive(0, 0);
    let busy = w.arrive(0, 0);
    w.feed(100, Event::Tick);
    w.finish(150, w.copies(busy)[0], Outcome::Good);
    let [first, second] = w.copies(long)[..] else { panic!("two copies") };
    w.feed(250, Event::Tick);
    let other = w.arrive(251, 0);
    assert_eq!(w.stops(), [(second, StopReason::GiveUp)]);
    w.feed(252, Event::Stopped { copy: second });
    w.finish(260, w.copies(other)[0], Outcome::Good);
    w.published();
    w.finish(500, first, Outcome::Good);
    assert_eq!(w.published(), [Record::First { ran_ns: 500, tried: None, crowded: false }]);
    w.finish_all(600);
}

#[test]
fn rescues_in_vain_stay_within_the_budget_and_those_that_win_are_free() {
    let limits = Limits { rescue_budget: 0.0, ..Limits::default() };
    let learned = LEARNED;
    let mut w = suspecting(Cleanup, 2, limits, learned);
    w.arrive(0, 0);
    w.feed(100, Event::Tick);
    assert_eq!(w.actions, [], "no budget, no rescue");
    w.finish_all(200);

    let limits = Limits { rescue_budget: 0.01, hedge_budget: 1.0, ..Limits::default() };
    let mut w = suspecting(Cleanup, 2, limits, learned);
    let (mut now, mut rescued) = (0, 0);
    for round in 0..100 {
        let query = w.arrive(now, 0);
        w.feed(now + 100, Event::Tick);
        let [first, ref second @ ..] = w.copies(query)[..] else { panic!("it runs") };
        rescued += second.len();
        // In the first half of the rounds, the rescue wins.
        let winner = *second.first().filter(|_| round < 50).unwrap_or(&first);
        w.finish(now + 150, winner, Outcome::Good);
        for (copy, _) in w.stops() {
            w.feed(now + 150, Event::Stopped { copy });
        }
        while let Some((&copy, _)) = w.model.copies.iter().next() {
            w.finish(now + 160, copy, Outcome::Good);
        }
        now += 1000;
    }
    assert_eq!(rescued, 50 + 16, "those saved up, and no more");
}

#[test]
fn idle_servers_duplicate_at_once_and_the_youngest_pair_makes_room() {
    let learned = Snapshot { at_once: true, ..LEARNED };
    let mut w = suspecting(Preempt, 4, Limits::default(), learned);
    let older = w.arrive(0, 0);
    let younger = w.arrive(50, 0);
    assert_eq!((w.copies(older).len(), w.copies(younger).len()), (2, 2));
    let newcomer = w.arrive(60, 0);
    let victim = w.copies(younger)[1];
    assert_eq!(w.stops(), [(victim, StopReason::Preemption)]);
    w.feed(61, Event::Stopped { copy: victim });
    assert_eq!(w.starts(), [(newcomer, StartReason::Queue)]);
    // The older copy of the other pair reaches T, and so does the newer one: the query is long.
    w.feed(100, Event::Tick);
    assert_eq!(w.actions, [], "its slot cannot be used yet");
    w.arrive(110, 0);
    assert_eq!(w.stops(), [(w.copies(older)[1], StopReason::GiveUp)]);
    w.finish_all(200);
}

#[test]
fn a_pair_whose_older_copy_has_reached_t_is_left_alone() {
    let learned = Snapshot { at_once: true, ..LEARNED };
    let mut w = suspecting(Preempt, 2, Limits::default(), learned);
    let stuck = w.arrive(0, 0);
    let other = w.arrive(1, 0);
    for (copy, _) in w.stops() {
        w.feed(2, Event::Stopped { copy });
    }
    w.finish(90, w.copies(other)[0], Outcome::Good);
    assert_eq!(w.starts(), [(stuck, StartReason::Idle)]);
    w.feed(100, Event::Tick);
    w.arrive(110, 0);
    assert_eq!(w.stops(), [], "its second copy is probably a rescue");
    w.finish_all(200);
}

#[test]
fn without_cancellation_nothing_is_stopped_and_only_short_queues_are_overtaken() {
    let learned = Snapshot { overtakes: 1, ..LEARNED };
    let mut w = suspecting(NoCancel, 2, Limits::default(), learned);
    let stuck = w.arrive(0, 0);
    let busy = w.arrive(0, 0);
    let queue: Vec<QueryId> = (1..4).map(|now| w.arrive(now, 0)).collect();
    w.feed(100, Event::Tick);
    w.finish(101, w.copies(busy)[0], Outcome::Good);
    assert_eq!(w.starts(), [(queue[0], StartReason::Queue)], "three wait");
    w.finish(102, w.copies(queue[0])[0], Outcome::Good);
    assert_eq!(w.starts(), [(queue[1], StartReason::Queue)], "two wait");
    w.finish(103, w.copies(queue[1])[0], Outcome::Good);
    assert_eq!(w.starts(), [(stuck, StartReason::Rescue)], "one waits");
    w.feed(1_000, Event::Tick);
    w.finish(1_001, w.copies(stuck)[1], Outcome::Good);
    assert_eq!(w.stops(), []);
    w.finish_all(2_000);
}

#[test]
fn an_exploration_makes_room_for_a_query_that_waits() {
    let explore =
        [Exploration { age_ns: 50, every: 2 }, Exploration { age_ns: NEVER_NS, every: 1 }];
    let learned = Snapshot { explore, ..Snapshot::NOTHING };
    let mut w = suspecting(Cleanup, 2, Limits::default(), learned);
    let ordinary = w.arrive(0, 0);
    assert_eq!(w.cell.next_deadline(), Timestamp::NEVER, "every other query is explored");
    w.finish(10, w.copies(ordinary)[0], Outcome::Good);
    let tried = w.arrive(20, 0);
    w.feed(70, Event::Tick);
    assert_eq!(w.starts(), [(tried, StartReason::Explore)]);
    let copy = w.copies(tried)[1];
    w.arrive(71, 0);
    assert_eq!(w.stops(), [(copy, StopReason::Preemption)]);
    w.feed(71, Event::Stopped { copy });
    assert_eq!(w.starts().len(), 1, "it waits no longer");
    w.finish_all(200);
    let records = w.published();
    let tried = |record: &Record| matches!(record, Record::First { tried: Some(_), .. });
    assert!(!records.iter().any(tried), "a stopped copy gives no information about its query");
    let displaced = Record::Displaced { risked_ns: 1 };
    assert!(
        records.contains(&displaced),
        "but it records how early explorations are stopped: {records:?}"
    );
}

#[test]
fn a_rescue_counts_at_t_though_an_exploration_made_room_before() {
    let explore =
        [Exploration { age_ns: 50, every: 1 }, Exploration { age_ns: NEVER_NS, every: 1 }];
    let mut w = suspecting(Cleanup, 2, Limits::default(), Snapshot { explore, ..LEARNED });
    let long = w.arrive(0, 0);
    w.feed(50, Event::Tick);
    let [first, tried] = w.copies(long)[..] else { panic!("two copies") };
    let other = w.arrive(60, 0);
    w.feed(60, Event::Stopped { copy: tried });
    w.feed(100, Event::Tick);
    w.finish(110, w.copies(other)[0], Outcome::Good);
    assert_eq!(w.starts().last(), Some(&(long, StartReason::Rescue)));
    w.published();
    w.finish(150, first, Outcome::Good);
    let tried = Some(Tried { age_ns: 110, rescue: true, risked_ns: 0 });
    assert_eq!(w.published(), [Record::First { ran_ns: 150, tried, crowded: false }]);
}

#[test]
fn a_server_whose_copy_lost_is_the_last_choice_until_it_responds() {
    // A cell of three servers scans all of them, while a cell of twelve keeps its servers in order.
    for servers in [3, 12] {
        beaten_server_is_the_last_choice(servers);
    }
}

fn beaten_server_is_the_last_choice(servers: u32) {
    let learned = SUSPECTING;
    let mut w = suspecting(Cleanup, servers, Limits::default(), learned);
    let server_of = |w: &Harness, query| w.only(query).1;
    let stuck = w.arrive(0, 0);
    let beaten = server_of(&w, stuck);
    w.feed(100, Event::Tick);
    let [first, second] = w.copies(stuck)[..] else { panic!("two copies") };
    w.finish(110, second, Outcome::Good);
    w.feed(111, Event::Stopped { copy: first });
    for now in 112..132 {
        let query = w.arrive(now, 0);
        assert_ne!(server_of(&w, query), beaten, "others are idle");
        w.finish(now, w.copies(query)[0], Outcome::Good);
    }
    let busy: Vec<QueryId> = (1..servers).map(|_| w.arrive(140, 0)).collect();
    let last = w.arrive(140, 0);
    assert_eq!(server_of(&w, last), beaten, "rather than letting a query wait");
    w.finish(150, w.copies(last)[0], Outcome::Good);
    for query in busy {
        w.finish(150, w.copies(query)[0], Outcome::Good);
    }
    let used = (151..351).any(|now| {
        let query = w.arrive(now, 0);
        let server = server_of(&w, query);
        w.finish(now, w.copies(query)[0], Outcome::Good);
        server == beaten
    });
    assert!(used, "it has responded, and counts like the others");
    w.finish_all(400);
}

#[test]
fn a_server_whose_copies_always_lose_is_slow_and_not_stuck() {
    let mut w = harness(Cleanup);
    w.adopt(&SUSPECTING);
    let mut rescues = Vec::new();
    for round in 0..200 {
        let at = 1_000 * round;
        // The other server is also busy. Otherwise the server whose copies lose would get no query.
        let mut pair = [w.arrive(at, 0), w.arrive(at, 0)];
        if w.server_of(w.copies(pair[0])[0]) == ServerId(1) {
            pair.reverse();
        }
        let [slow, fast] = pair.map(|query| w.copies(query)[0]);
        w.finish(at + 20, fast, Outcome::Good);
        w.feed(at + 100, Event::Tick);
        let all = w.copies(pair[0]);
        rescues.push(all.len() == 2);
        if let Some(&second) = all.get(1) {
            w.finish(at + 120, second, Outcome::Good);
            w.feed(at + 120, Event::Stopped { copy: slow });
        } else {
            w.finish(at + 120, slow, Outcome::Good);
        }
    }
    assert!(rescues[0], "it does not count as slow yet");
    assert!(!rescues[100..].contains(&true), "its queries take six times as long, all of them");
}

#[test]
fn an_idle_server_takes_an_old_query_that_costs_much_until_another_waits() {
    let learned = Snapshot { unusual_ns: 150, ..SUSPECTING };
    let mut w = suspecting(Cleanup, 2, Limits::default(), learned);
    let mut costly = curtail_kernel::Arrive::new(w.fresh(), curtail_kernel::GroupId(0));
    let query = costly.query;
    costly.cost_hint = core::num::NonZeroU64::new(3_000_000);
    w.feed(0, Event::Arrive(costly));
    w.feed(149, Event::Tick);
    assert_eq!(w.actions, []);
    w.feed(150, Event::Tick);
    assert_eq!(w.starts(), [(query, StartReason::Idle)], "its T is 300");
    let second = w.copies(query)[1];
    w.arrive(200, 0);
    assert_eq!(w.stops(), [(second, StopReason::Preemption)]);
    w.finish_all(250);
    let mut plain = suspecting(Cleanup, 2, Limits::default(), learned);
    plain.arrive(0, 0);
    assert_eq!(plain.cell.next_deadline(), Timestamp(100), "T");
}

#[test]
fn a_query_ages_by_what_it_costs() {
    let mut w = harness(Cleanup);
    let costs = |w: &mut Harness, now: u64, cost: u64| {
        let mut arrive = curtail_kernel::Arrive::new(w.fresh(), curtail_kernel::GroupId(0));
        arrive.cost_hint = core::num::NonZeroU64::new(cost);
        w.feed(now, Event::Arrive(arrive));
        let copy = *w.model.copies.keys().next_back().expect("it runs");
        let deadline = w.cell.next_deadline();
        w.finish(now + 10, copy, Outcome::Good);
        deadline
    };
    assert_eq!(costs(&mut w, 0, 1_000_000), Timestamp(100));
    assert_eq!(costs(&mut w, 1_000, 3_000_000), Timestamp(1_300));
    assert_eq!(costs(&mut w, 2_000, 500_000), Timestamp(2_050));
    let ran: Vec<Record> = w.published();
    assert!(matches!(ran[1], Record::Answered { age_ns: 10 }), "{ran:?}");
    assert!(matches!(ran[2], Record::First { ran_ns: 3, .. }), "{ran:?}");
    // A query without a hint is not comparable to those with hints.
    let plain = w.arrive(3_000, 0);
    assert_eq!(w.cell.next_deadline(), Timestamp::NEVER);
    w.finish(3_010, w.copies(plain)[0], Outcome::Good);
    assert_eq!(w.published(), []);
}

#[test]
fn on_a_slow_server_a_query_may_be_older() {
    let mut w = harness(Cleanup);
    let mut now = 0;
    let pair = |w: &mut Harness, now: u64| {
        w.arrive(now, 0);
        w.arrive(now, 0);
        [w.on(0)[0], w.on(1)[0]]
    };
    for _ in 0..2_000 {
        let [fast, slow] = pair(&mut w, now);
        w.finish(now + 20, fast, Outcome::Good);
        w.finish(now + 60, slow, Outcome::Good);
        now += 1_000;
    }
    let [fast, slow] = pair(&mut w, now);
    assert_eq!(w.cell.next_deadline(), Timestamp(now + 100), "on the fast one");
    w.finish(now + 20, fast, Outcome::Good);
    let age = w.cell.next_deadline().0 - now;
    assert!((280..=330).contains(&age), "three times as much, about: {age}");
    w.finish(now + 60, slow, Outcome::Good);
    // Relative to the pace of their servers, both took the same time.
    let records = w.published();
    let [.., Record::First { ran_ns: a, .. }, Record::First { ran_ns: b, .. }] = records[..] else {
        panic!("two queries ended")
    };
    assert!(a == 20 && (18..=22).contains(&b), "{a} and {b}");
}

// Audits: a first copy that lost keeps running, so that the time for which it is stuck can be
// measured.

/// Sends a query that is rescued at age T. The second copy of the query wins 20 ns later. Returns
/// its first copy.
fn rescued(harness: &mut Harness, now: u64) -> CopyId {
    let stuck = harness.arrive(now, 0);
    harness.feed(now + 100, Event::Tick);
    let [first, second] = harness.copies(stuck)[..] else { panic!("two copies") };
    harness.finish(now + 120, second, Outcome::Good);
    first
}

fn audits(harness: &mut Harness) -> Vec<Record> {
    let mut records = harness.published();
    records.retain(|record| matches!(record, Record::Audit { .. }));
    records
}

#[test]
fn a_first_copy_that_is_audited_runs_to_its_end() {
    let mut w = suspecting(Cleanup, 2, Limits::default(), LEARNED);
    let first = rescued(&mut w, 0);
    w.arrive(200, 0);
    w.arrive(210, 0);
    assert_eq!(w.stops(), [], "the first win is audited, although a query waits");
    w.finish(300, first, Outcome::Good);
    assert_eq!(audits(&mut w), [Record::Audit { ran_ns: 300, second_ns: 20 }]);
    w.finish_all(400);
}

#[test]
fn an_audited_copy_is_stopped_at_its_timeout() {
    let timed = Limits { attempt_timeout_ns: 500, cancel_timeout_ns: 50, ..Limits::default() };
    let untimed = Limits { attempt_timeout_ns: NEVER_NS, cancel_timeout_ns: 380, ..timed };
    for limits in [timed, untimed] {
        let mut w = suspecting(Cleanup, 2, limits, LEARNED);
        let first = rescued(&mut w, 0);
        assert_eq!(w.cell.next_deadline(), Timestamp(500));
        w.feed(500, Event::Tick);
        assert_eq!(w.actions, [Action::Stop { copy: first, why: StopReason::Cleanup }]);
        assert_eq!(audits(&mut w), [Record::Audit { ran_ns: 500, second_ns: 20 }], "or more");
        w.feed(510, Event::Stopped { copy: first });
        let up = |server| w.cell.core().server(ServerId(server)).up;
        assert!(up(0) && up(1), "it stopped when it was cancelled");
        w.finish_all(600);
    }
}

#[test]
fn an_audited_copy_that_does_not_stop_is_lost() {
    let limits = Limits { attempt_timeout_ns: 500, cancel_timeout_ns: 50, ..Limits::default() };
    let mut w = suspecting(Cleanup, 2, limits, LEARNED);
    let first = rescued(&mut w, 0);
    w.feed(500, Event::Tick);
    w.feed(550, Event::Tick);
    assert!(w.actions.contains(&Action::Lose { copy: first }), "{:?}", w.actions);
    w.finish_all(600);
}

#[test]
fn a_loser_that_is_not_stopped_keeps_its_whole_timeout() {
    let limits = Limits { attempt_timeout_ns: 500, cancel_timeout_ns: 300, ..Limits::default() };
    let mut w = suspecting(NoCancel, 2, limits, LEARNED);
    w.adopt(&SUSPECTING);
    let slow = rescued(&mut w, 0);
    w.feed(420, Event::Tick);
    assert_eq!(w.actions, [], "it lost 300 ns ago");
    w.feed(799, Event::Tick);
    assert_eq!(w.actions, []);
    w.finish(799, slow, Outcome::Good);
    let hung = rescued(&mut w, 1_000);
    w.feed(1_500, Event::Tick);
    w.feed(1_800, Event::Tick);
    assert!(w.actions.contains(&Action::Lose { copy: hung }), "{:?}", w.actions);
    w.finish_all(2_000);
}

#[test]
fn there_is_one_audit_at_a_time() {
    let mut w = suspecting(Cleanup, 3, Limits::default(), LEARNED);
    let audited = rescued(&mut w, 0);
    w.adopt(&LEARNED);
    let other = rescued(&mut w, 1_000);
    assert_eq!(w.stops(), [(other, StopReason::Cleanup)], "its slot is free");
    w.feed(1_121, Event::Stopped { copy: other });
    w.finish(2_000, audited, Outcome::Good);
    let next = rescued(&mut w, 3_000);
    assert_eq!(w.stops(), [], "it is due yet");
    // A lost copy yields no record, and the audit does not wait for it.
    let server = w.server_of(next);
    w.feed(3_200, Event::ServerDown { server });
    w.feed(3_201, Event::ServerUp { server });
    assert_eq!(audits(&mut w).len(), 1);
    w.adopt(&LEARNED);
    let last = rescued(&mut w, 4_000);
    assert_eq!(w.stops(), []);
    w.finish(4_200, last, Outcome::Good);
    assert_eq!(audits(&mut w), [Record::Audit { ran_ns: 200, second_ns: 20 }]);
    w.finish_all(5_000);
}

#[test]
fn a_server_whose_copy_ends_after_all_or_that_restarts_is_as_good_as_others() {
    let ends = [(Cleanup, false), (NoCancel, false), (Cleanup, true)];
    for (version, restarts) in ends {
        let mut w = suspecting(version, 3, Limits::default(), LEARNED);
        let late = rescued(&mut w, 0);
        let beaten = w.server_of(late);
        if restarts {
            w.feed(200, Event::ServerDown { server: beaten });
            w.feed(201, Event::ServerUp { server: beaten });
        } else {
            w.finish(200, late, Outcome::Good);
        }
        let mut used = |now| {
            let query = w.arrive(now, 0);
            let copy = w.copies(query)[0];
            let server = w.server_of(copy);
            w.finish(now, copy, Outcome::Good);
            server == beaten
        };
        let used = (1_000..1_100).filter(|&now| used(now)).count();
        assert!((15..=55).contains(&used), "one in three, of 100: {used}");
        w.finish_all(2_000);
    }
}
