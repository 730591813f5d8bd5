//! What servers say of themselves comes from outside: neither a lie nor silence floods a server, or starves it
//! for good. That no gate and no rate is exceeded, the referee sees to.

use std::collections::BTreeSet;

use curtail_kernel::{Action, CopyId, Event, Feedback, Limits, Outcome, Timestamp, Tuning};

use crate::referee::{World, named};

const MS: u64 = 1_000_000;
const GATE: u32 = 16;
const SLOTS: usize = 2;

/// What became of each of three servers.
#[derive(Debug, Default)]
struct Fate {
    starts: [u64; 3],
    /// The most copies that it held.
    most: [u32; 3],
    /// The longest time between two starts, in ns.
    longest: [u64; 3],
}

/// A query every so often, for a time. Each server serves first come, first served, a query in so many ns. The
/// first says of itself what `says` makes of the truth; the others tell it.
fn play(
    policy: &str,
    (every, until): (u64, u64),
    work: [u64; 3],
    says: impl Fn(Feedback) -> Option<Feedback>,
) -> Fate {
    let tuning = Tuning { clients: 3, ..Tuning::default() };
    let limits = Limits { max_outstanding: GATE, queue: 100_000, tuning, ..Limits::default() };
    let mut world = World::replicated(named(policy), 3, limits);
    let mut fate = Fate::default();
    let mut last = [0; 3];
    let mut free = [[0; SLOTS]; 3];
    // When each copy ends, and where.
    let mut ends: BTreeSet<(u64, CopyId, u32)> = BTreeSet::new();
    let mut arrival = 0;
    loop {
        let end = ends.first().map_or(u64::MAX, |&(at, ..)| at);
        let Timestamp(tick) = world.cell.next_deadline();
        let now = end.min(tick).min(arrival);
        if now >= until {
            return fate;
        }
        if end == now {
            let Some((_, copy, server)) = ends.pop_first() else { unreachable!("it is first") };
            let queue = world.on(server).len() as u32 - 1;
            let truth = Feedback { queue, service_ns: work[server as usize] };
            let said = if server == 0 { says(truth) } else { Some(truth) };
            if let Some(feedback) = said {
                world.feed(now, Event::Feedback { copy, feedback });
            }
            world.finish(now, copy, Outcome::Good);
        } else if tick == now {
            world.feed(now, Event::Tick);
        } else {
            world.arrive(now, 0);
            arrival += every;
        }
        for action in world.actions.clone() {
            let Action::Start { copy, server, .. } = action else { continue };
            let at = server.index();
            fate.starts[at] += 1;
            fate.most[at] = fate.most[at].max(world.on(server.0).len() as u32);
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
    // It does 50 queries per second, each of the others 500; 800 come. What it says is believed only as far as
    // its responses bear it out: else it would hold up to 14 copies.
    let lie = |_| Some(Feedback { queue: 0, service_ns: 0 });
    for policy in ["c3", "c3+cubic"] {
        let fate = play(policy, (MS * 10 / 8, 20_000 * MS), [40 * MS, 4 * MS, 4 * MS], lie);
        assert!(fate.most[0] <= 4 && fate.share() < 0.1, "{policy}: {fate:?}");
    }
}

#[test]
fn a_server_that_claims_to_be_as_good_as_stopped_is_tried_again() {
    // As good as the others, and needed: they alone would be busy two thirds of the time. Were they idle, they
    // would be preferred to it for a minute or two.
    let lie = |_| Some(Feedback { queue: u32::MAX, service_ns: u64::MAX });
    for policy in ["c3", "c3+cubic"] {
        let fate = play(policy, (MS * 3 / 2, 60_000 * MS), [4 * MS; 3], lie);
        assert!(fate.share() > 0.1 && fate.longest[0] < 5_000 * MS, "{policy}: {fate:?}");
    }
}

#[test]
fn a_server_that_says_nothing_gets_its_share() {
    for policy in ["c3", "c3+cubic"] {
        let fate = play(policy, (2 * MS, 10_000 * MS), [4 * MS; 3], |_| None);
        assert!((0.25..0.42).contains(&fate.share()), "{policy}: {fate:?}");
    }
}

#[test]
fn servers_that_all_say_nothing_take_turns_whatever_one_response_takes() {
    let mut world = World::replicated(named("c3"), 3, Limits::default());
    let mut sent = Vec::new();
    for query in 1..300 {
        let now = query * 5 * MS;
        world.arrive(now, 0);
        let server = (0..3).find(|server| !world.on(*server).is_empty()).expect("it is idle");
        let took = if query % 20 == 7 { 4 * MS } else { MS / 2 };
        world.finish(now + took, world.on(server)[0], Outcome::Good);
        sent.push(server);
    }
    let turns = sent.windows(3).all(|of| of[0] != of[1] && of[1] != of[2] && of[2] != of[0]);
    assert!(turns, "{sent:?}");
}
