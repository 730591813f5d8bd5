//! Gates that change, rates, and C3's ranking.

use curtail_kernel::{
    Action, Event, Fault, Feedback, Limits, Outcome, QueryId, Server, ServerId, StartReason,
    Timestamp, Topology, Tuning,
};

use crate::referee::{Harness, named};

const A: ServerId = ServerId(0);
const B: ServerId = ServerId(1);
const MS: u64 = 1_000_000;

fn tuned(tuning: Tuning) -> Limits {
    Limits { tuning, ..Limits::default() }
}

fn started(harness: &Harness) -> Vec<(QueryId, ServerId)> {
    let start = |action: &Action| match *action {
        Action::Start { query, server, .. } => Some((query, server)),
        _ => None,
    };
    harness.actions.iter().filter_map(start).collect()
}

#[test]
fn a_closed_server_gets_nothing_until_it_opens() {
    let mut w = Harness::replicated(named("least-outstanding"), 2, Limits::default());
    w.feed(0, Event::Close { server: A, until: Timestamp(100) });
    for _ in 0..3 {
        let query = w.arrive(1, 0);
        assert_eq!(w.only(query).1, B);
    }
    w.feed(2, Event::Close { server: B, until: Timestamp::NEVER });
    let waits = w.arrive(3, 0);
    assert_eq!(w.cell.next_deadline(), Timestamp(100));
    w.feed(50, Event::Close { server: A, until: Timestamp(60) });
    w.feed(60, Event::Tick);
    assert_eq!(started(&w), [(waits, A)]);
    w.feed(61, Event::Close { server: B, until: Timestamp(0) });
    let query = w.arrive(62, 0);
    assert_eq!(w.only(query).1, A, "it holds one, and the other three");
}

#[test]
fn a_limit_that_falls_stops_nothing_and_one_that_rises_serves_waiting_queries() {
    // Enough servers for the cell to keep them in order by level.
    let topology = Topology::replicated(10, 1);
    let mut w = Harness::new(named("psq"), &topology, Limits::default(), 1);
    let queries: Vec<_> = (0..12).map(|_| w.arrive(0, 0)).collect();
    assert!(w.copies(queries[10]).is_empty() && w.copies(queries[11]).is_empty());
    w.feed(1, Event::Limit { server: A, limit: 4 });
    assert_eq!(started(&w), [(queries[10], A), (queries[11], A)]);
    w.feed(2, Event::Limit { server: A, limit: 1 });
    assert_eq!(w.actions, []);
    let waits = w.arrive(3, 0);
    for (left, now) in [(2, 4), (1, 5)] {
        w.finish(now, w.on(0)[0], Outcome::Good);
        assert_eq!((w.on(0).len(), w.copies(waits).len()), (left, 0));
    }
    w.finish(6, w.on(0)[0], Outcome::Good);
    assert_eq!(started(&w), [(waits, A)]);
}

#[test]
fn tokens_come_with_time_and_the_oldest_query_gets_them() {
    // One token is available immediately, and then one more every 20 ms.
    let tuning = Tuning { initial_rate: 1.0, burst: 1.0, ..Tuning::default() };
    let groups = vec![vec![A, B], vec![B, ServerId(2)]];
    let topology = Topology { servers: vec![Server { slots: 1 }; 3], groups };
    let mut w = Harness::new(named("c3+cubic"), &topology, tuned(tuning), 1);
    let first = [0, 0, 1].map(|group| w.arrive(0, group));
    assert!(first.iter().all(|&query| w.copies(query).len() == 1), "three tokens");
    // Another group that exceeds its share can delay a query, but only by those of its queries that
    // arrived before that query.
    let greedy: Vec<_> = (0..3).map(|_| w.arrive(1, 0)).collect();
    let modest = w.arrive(2, 1);
    assert_eq!(w.cell.next_deadline(), Timestamp(20 * MS + 1));
    w.feed(20 * MS + 1, Event::Tick);
    let mut served: Vec<_> = started(&w).into_iter().map(|(query, _)| query).collect();
    served.sort_unstable();
    let third = "the third server is not of the greedy group";
    assert_eq!(served, [greedy[0], greedy[1], modest], "{third}");
    w.feed(40 * MS + 2, Event::Tick);
    assert_eq!(w.starts(), [(greedy[2], StartReason::Queue)]);
}

#[test]
fn feedback_ranks_and_ones_own_copies_count_for_every_client() {
    for (clients, expected) in [(1, A), (20, B)] {
        let tuning = Tuning { clients, sample_weight: 1.0, ..Tuning::default() };
        let mut w = Harness::replicated(named("c3"), 2, tuned(tuning));
        let queries = [w.arrive(0, 0), w.arrive(0, 0)];
        for query in queries {
            let (copy, server) = w.only(query);
            // The first server's queue is empty, and the other server's queue contains eight
            // requests.
            let queue = if server == A { 0 } else { 8 };
            w.feed(MS, Event::Feedback { copy, feedback: Feedback { queue, service_ns: MS } });
            w.finish(MS, copy, Outcome::Good);
        }
        let query = w.arrive(2 * MS, 0);
        assert_eq!(w.only(query).1, A);
        let query = w.arrive(2 * MS, 0);
        assert_eq!(w.only(query).1, expected, "one copy of mine is {clients} in all");
    }
}

/// Figure 4.1: each of three clients sends four requests at the same time to two servers that take
/// 4 and 10 ms per request. Returns the time of the last response, in ms.
fn burst(policy: &str, score_exponent: u32) -> u64 {
    let service = [4, 10];
    let mut sent = [0; 2];
    for _ in 0..3 {
        let tuning = Tuning { clients: 3, score_exponent, sample_weight: 1.0, ..Tuning::default() };
        let mut w = Harness::replicated(named(policy), 2, tuned(tuning));
        let mut queries = [w.arrive(0, 0), w.arrive(0, 0)].map(|query| w.only(query));
        queries.sort_by_key(|(_, server)| *server);
        for ((copy, _), ms) in queries.into_iter().zip(service) {
            let feedback = Feedback { queue: 0, service_ns: ms * MS };
            w.feed(ms * MS, Event::Feedback { copy, feedback });
            w.finish(ms * MS, copy, Outcome::Good);
        }
        for _ in 0..4 {
            let query = w.arrive(10 * MS, 0);
            sent[w.only(query).1.index()] += 1;
        }
    }
    (sent[0] * service[0]).max(sent[1] * service[1])
}

#[test]
fn figure_4_1_a_burst_at_three_clients() {
    assert_eq!(burst("least-outstanding", 3), 60, "as published");
    assert_eq!(burst("c3", 1), 36, "the ideal: queues that are longer where servers are faster");
    // The cubic score keeps queues short, although that is not ideal while no server changes.
    assert_eq!(burst("c3", 3), 60);
}

#[test]
fn a_higher_exponent_leaves_a_fast_server_with_a_queue_sooner() {
    // Figure 4.4: one server takes 4 ms, the other 20 ms. Their scores are equal if the queue of
    // the fast server is five times as long as that of the slow one (b = 1), or only 1.7 times as
    // long (b = 3).
    for (score_exponent, expected) in [(1, A), (3, B)] {
        let tuning = Tuning { score_exponent, sample_weight: 1.0, ..Tuning::default() };
        let mut w = Harness::replicated(named("c3"), 2, tuned(tuning));
        let queries = [w.arrive(0, 0), w.arrive(0, 0)];
        for query in queries {
            let (copy, server) = w.only(query);
            let (queue, service_ns) = if server == A { (11, 4 * MS) } else { (5, 20 * MS) };
            w.feed(30 * MS, Event::Feedback { copy, feedback: Feedback { queue, service_ns } });
            w.finish(30 * MS, copy, Outcome::Good);
        }
        let query = w.arrive(30 * MS, 0);
        assert_eq!(w.only(query).1, expected, "b = {score_exponent}");
    }
}

#[test]
fn a_server_that_fails_fast_does_not_count_as_fast() {
    let limits = Limits { eject_after: 0, retries: 0, ..Limits::default() };
    let mut w = Harness::replicated(named("c3"), 2, limits);
    let mut sent = [0; 2];
    for at in 0..200 {
        let now = at * 5 * MS;
        let query = w.arrive(now, 0);
        let (copy, server) = w.only(query);
        sent[server.index()] += 1;
        let (later, outcome) =
            if server == A { (1, Outcome::Failed(Fault::Status)) } else { (4 * MS, Outcome::Good) };
        w.finish(now + later, copy, outcome);
    }
    assert!((1..40).contains(&sent[0]), "{sent:?}: few, and not none");
}
