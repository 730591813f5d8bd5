//! Feedback comes from outside, so neither false nor missing feedback may flood a server or starve
//! it forever. The referee checks that no gate and no rate is exceeded.

use std::collections::BTreeSet;

use curtail_kernel::{Action, CopyId, Event, Feedback, Limits, Outcome, Timestamp, Tuning};

use crate::referee::{Harness, named};

const MS: u64 = 1_000_000;
const GATE: u32 = 16;
const SLOTS: usize = 2;

/// The copies that each of the three servers got.
#[derive(Debug, Default)]
struct Fate {
    starts: [u64; 3],
    /// The largest number of copies that the server held at the same time.
    most: [u32; 3],
    /// The longest time between two starts, in ns.
    longest: [u64; 3],
}

/// Sends a query every `every` ns until `until`. Each server serves queries in the order of
/// arrival, and takes `work` ns per query. The first server applies `report` to its true feedback
/// and sends the result. The others report the truth.
fn play(
    policy: &str,
    (every, until): (u64, u64),
    work: [u64; 3],
    report: impl Fn(Feedback) -> Option<Feedback>,
) -> Fate {
    let tuning = Tuning { clients: 3, ..Tuning::default() };
    let limits = Limits { max_outstanding: GATE, queue: 100_000, tuning, ..Limits::default() };
    let mut harness = Harness::replicated(named(policy), 3, limits);
    let mut fate = Fate::default();
    let mut last = [0; 3];
    let mut free = [[0; SLOTS]; 3];
    // The end time, the id and the server of each copy that will end.
    let mut ends: BTreeSet<(u64, CopyId, u32)> = BTreeSet::new();
    let mut arrival = 0;
    loop {
        let end = ends.first().map_or(u64::MAX, |&(at, ..)| at);
        let Timestamp(tick) = harness.cell.next_deadline();
        let now = end.min(tick).min(arrival);
        if now >= until {
            return fate;
        }
        if end == now {
            let Some((_, copy, server)) = ends.pop_first() else { unreachable!("it is first") };
            let queue = harness.on(server).len() as u32 - 1;
            let truth = Feedback { queue, service_ns: work[server as usize] };
            let reported = if server == 0 { report(truth) } else { Some(truth) };
            if let Some(feedback) = reported {
                harness.feed(now, Event::Feedback { copy, feedback });
            }
            harness.finish(now, copy, Outcome::Good);
        } else if tick == now {
            harness.feed(now, Event::Tick);
        } else {
            harness.arrive(now, 0);
            arrival += every;
        }
        for action in harness.actions.clone() {
            let Action::Start { copy, server, .. } = action else { continue };
            let at = server.index();
            fate.starts[at] += 1;
            fate.most[at] = fate.most[at].max(harness.on(server.0).len() as u32);
            fate.longest[at] = fate.longest[at].max(now - last[at]);
            last[at] = now;
            let slot = free[at].iter_mut().min().expect("it has slots");
            *slot = (*slot).max(now) + work[at];
            ends.insert((*slot, copy, server.0));
        }
    }
}

impl Fate {
    fn share(&self) -> f64 {
        self.starts[0] as f64 / self.starts.iter().sum::<u64>() as f64
    }
}

#[test]
fn a_slow_server_that_claims_to_be_idle_and_fast_is_not_flooded() {
    // The server serves 50 queries per second, and each of the others serves 500. In total, 800
    // queries arrive per second. Its claim counts only to the extent that its response times
    // confirm it. Otherwise the server would hold up to 14 copies.
    let lie = |_| Some(Feedback { queue: 0, service_ns: 0 });
    for policy in ["c3", "c3+cubic"] {
        let fate = play(policy, (MS * 10 / 8, 20_000 * MS), [40 * MS, 4 * MS, 4 * MS], lie);
        assert!(fate.most[0] <= 4 && fate.share() < 0.1, "{policy}: {fate:?}");
    }
}

#[test]
fn a_server_that_claims_to_be_stuck_is_tried_again() {
    // This server is as good as the others, and it is needed: without it, the others would be busy
    // two thirds of the time. If the others were idle, they would be preferred to it for a minute
    // or two.
    let lie = |_| Some(Feedback { queue: u32::MAX, service_ns: u64::MAX });
    for policy in ["c3", "c3+cubic"] {
        let fate = play(policy, (MS * 3 / 2, 60_000 * MS), [4 * MS; 3], lie);
        assert!(fate.share() > 0.1 && fate.longest[0] < 5_000 * MS, "{policy}: {fate:?}");
    }
}

#[test]
fn a_server_without_feedback_gets_its_share() {
    for policy in ["c3", "c3+cubic"] {
        let fate = play(policy, (2 * MS, 10_000 * MS), [4 * MS; 3], |_| None);
        assert!((0.25..0.42).contains(&fate.share()), "{policy}: {fate:?}");
    }
}

#[test]
fn servers_without_feedback_take_turns_despite_slow_responses() {
    let mut harness = Harness::replicated(named("c3"), 3, Limits::default());
    let mut sent = Vec::new();
    for query in 1..300 {
        let now = query * 5 * MS;
        harness.arrive(now, 0);
        let server = (0..3).find(|server| !harness.on(*server).is_empty()).expect("it is idle");
        let took = if query % 20 == 7 { 4 * MS } else { MS / 2 };
        harness.finish(now + took, harness.on(server)[0], Outcome::Good);
        sent.push(server);
    }
    let turns = sent.windows(3).all(|of| of[0] != of[1] && of[1] != of[2] && of[2] != of[0]);
    assert!(turns, "{sent:?}");
}
