//! Every promise of the contract holds over millions of random events, with random worlds, random
//! policies, failures, timeouts, servers that come and go, clients that leave, and late reports.
//!
//! `CURTAIL_EVENTS` sets the number of events. `CURTAIL_SEED` replays only the run with this seed.

use crate::referee::{Harness, named, names_pick};
use curtail_kernel::balance::PICKS;
use curtail_kernel::hedge::rescue::{Exploration, Prefetch, Replaced, Snapshot};
use curtail_kernel::{
    Arrive, CopyId, Event, Fault, Feedback, GroupId, Limits, NEVER_NS, Outcome, Policy, Probed,
    QueryId, Rng, Server, ServerId, Timestamp, Topology, Tuning, rng,
};
use rand_core::Rng as _;

const EVENTS_PER_WORLD: u64 = 2_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

#[test]
fn promises_hold_over_random_events() {
    if let Ok(seed) = std::env::var("CURTAIL_SEED") {
        return one_world(seed.parse().expect("CURTAIL_SEED is a number"));
    }
    let worlds = number("CURTAIL_EVENTS", 3_000_000) / EVENTS_PER_WORLD;
    // Two threads: the number of cores of the smallest machine on which this runs.
    std::thread::scope(|scope| {
        for half in 0..2 {
            scope.spawn(move || (0..worlds).filter(|w| w % 2 == half).for_each(one_world));
        }
    });
}

/// On a panic, prints the command that replays the run: it runs the tests of this name with
/// this seed.
pub(crate) struct Replay(pub u64, pub &'static str);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(seed, name) = self;
            eprintln!("replay: CURTAIL_SEED={seed} cargo test -p curtail-kernel --test it {name}");
        }
    }
}

pub(crate) fn below(rng: &mut Rng, n: u32) -> u32 {
    rng.next_u32() % n
}

pub(crate) fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[below(rng, choices.len() as u32) as usize]
}

/// A random policy. Half of the time, it gets a random pick in place of its default one.
fn policy(rng: &mut Rng) -> Policy {
    let form = pick(rng, &Policy::forms());
    let cleanup = pick(rng, &["", ":cc"]);
    let text = form.replace("[:cc]", cleanup).replace('N', pick(rng, &["3", "5"]));
    let text = text.replace("+PICK", "").replace('D', "20ns").replace('Q', "0.5");
    let composed = format!("{text}+{}", pick(rng, PICKS).name);
    let text = if names_pick(form) || below(rng, 2) == 0 { text } else { composed };
    // Sometimes the policy gets different rate limits.
    let rates = ["", "", "", "", "+cubic", "+aimd", "+bic", "+literal", "+fast:30ns", "+unpaced"];
    let rate = if form == "c3:literal" { "" } else { pick(rng, &rates) };
    named(&format!("{text}{rate}"))
}

/// One group, several disjoint ones, or a ring in which every server serves several groups.
fn topology(rng: &mut Rng) -> Topology {
    // Sometimes a group is so large that the cell keeps its servers in order.
    let count = 1 + if below(rng, 16) == 0 { 8 + below(rng, 4) } else { below(rng, 5) };
    let slots = pick(rng, &[1, 1, 2, 3]);
    let servers = (0..count).map(|_| Server { slots: 1 + below(rng, slots) }).collect();
    let groups = match below(rng, 3) {
        0 => vec![(0..count).map(ServerId).collect()],
        _ => {
            let r = 1 + below(rng, count);
            let ring = |g: u32| (0..r).map(|i| ServerId((g + i) % count)).collect();
            (0..count).map(ring).collect()
        }
    };
    Topology { servers, groups }
}

fn limits(rng: &mut Rng, cancel: bool) -> Limits {
    Limits {
        max_outstanding: pick(rng, &[1, 2, 4]),
        queue: pick(rng, &[0, 1, 3, 100]),
        timeout_ns: pick(rng, &[NEVER_NS, 300, 60]),
        attempt_timeout_ns: pick(rng, &[NEVER_NS, 100, 40]),
        cancel_timeout_ns: pick(rng, &[NEVER_NS, 200]),
        cancel,
        retries: pick(rng, &[0, 1, 1, 2]),
        retry_budget: pick(rng, &[0.0, 0.1, 1.0]),
        retry_reserve: pick(rng, &[0, 3, 100]),
        rescue_budget: pick(rng, &[0.0, 0.1, 1.0]),
        hedge_budget: pick(rng, &[0.0, 0.25, 1.0, 1.0]),
        hedge_burst: pick(rng, &[0, 1, 8]),
        eject_after: pick(rng, &[0, 1, 3]),
        eject_after_refusals: pick(rng, &[0, 1, 4]),
        retry_after_max_ns: pick(rng, &[0, 30, NEVER_NS]),
        max_ejected: pick(rng, &[0.0, 0.5, 1.0]),
        ejection_ns: pick(rng, &[0, 20]),
        ejection_max_ns: pick(rng, &[0, 100, 1_000]),
        tuning: Tuning {
            clients: pick(rng, &[1, 100]),
            interval_ns: 50,
            rate_window_ns: pick(rng, &[50, 200]),
            saddle_ns: 200,
            stale_ns: 500,
            initial_rate: pick(rng, &[0.5, 5.0]),
            burst: pick(rng, &[1.0, 3.0]),
            ..Tuning::default()
        },
    }
}

/// Returns a random snapshot that a service might have learned.
fn snapshot(rng: &mut Rng) -> Snapshot {
    let mut exploration = |ages: &[u64]| Exploration { age_ns: pick(rng, ages), every: 1 };
    Snapshot {
        explore: [exploration(&[NEVER_NS, 10, 40]), exploration(&[NEVER_NS, 0, 5])],
        suspect_ns: pick(rng, &[NEVER_NS, 10, 30, 100]),
        give_up_ns: pick(rng, &[0, 50, NEVER_NS]),
        slots: pick(rng, &[1, 2, u32::MAX]),
        overtakes: pick(rng, &[0, 1, u32::MAX]),
        replaces: pick(rng, &[None, Some(Replaced::First), Some(Replaced::Second)]),
        at_once: below(rng, 2) == 0,
        audit_every: pick(rng, &[1, 2, u32::MAX]),
        unusual_ns: pick(rng, &[0, 40, NEVER_NS]),
        round_trip_ns: pick(rng, &[0, 5, 1_000]),
        prefetch: Prefetch {
            per_64: pick(rng, &[0, 1, 64, 200]),
            least_slots: pick(rng, &[1, 2]),
            one_in: pick(rng, &[1, 2, 16]),
        },
    }
}

fn one_world(seed: u64) {
    let _replay = Replay(seed, "random_events");
    let rng = &mut rng(seed);
    let policy = policy(rng);
    let cancel = policy.needs_cancellation() || below(rng, 2) == 0;
    let (topology, limits) = (topology(rng), limits(rng, cancel));
    let harness = &mut if policy == named("laedge:cc+pc") && below(rng, 2) == 0 {
        Harness::idealized(&topology, limits, seed)
    } else {
        Harness::new(policy, &topology, limits, seed)
    };
    let load = 1 + below(rng, 8);
    let trouble = pick(rng, &[0, 1, 4]);
    let mut now = 0;
    let mut ended: Vec<CopyId> = Vec::new();
    for _ in 0..EVENTS_PER_WORLD {
        if below(rng, 64) == 0 {
            harness.adopt(&snapshot(rng));
            harness.adopt_delay(pick(rng, &[NEVER_NS, 0, 10, 30]));
            harness.published();
        }
        if below(rng, 2) == 0 {
            now += u64::from(below(rng, 20));
        }
        // Usually, a driver wakes a cell in time.
        if harness.cell.next_deadline() <= Timestamp(now) && below(rng, 4) > 0 {
            harness.feed(now, Event::Tick);
            continue;
        }
        let event = next_event(rng, harness, load, trouble, &mut ended);
        harness.feed(now, event);
    }
    harness.finish_all(now);
}

fn next_event(
    rng: &mut Rng,
    harness: &mut Harness,
    load: u32,
    trouble: u32,
    ended: &mut Vec<CopyId>,
) -> Event {
    let dice = below(rng, 20 + trouble);
    let copies: Vec<CopyId> = harness.model.copies.keys().copied().collect();
    if dice < load || (copies.is_empty() && dice < 20) {
        let mut arrive = Arrive::new(harness.fresh(), GroupId(0));
        arrive.group = GroupId(below(rng, harness.model.topology.groups.len() as u32));
        arrive.may_duplicate = below(rng, 8) > 0;
        arrive.may_retry = below(rng, 8) > 0;
        if below(rng, 8) == 0 {
            arrive.deadline = harness.model.now.after(u64::from(below(rng, 50)));
        }
        return Event::Arrive(arrive);
    }
    if dice < 19 {
        let copy = pick(rng, &copies);
        return copy_event(rng, harness, copy, trouble, ended);
    }
    let server = ServerId(below(rng, harness.model.up.len() as u32));
    match below(rng, 17) {
        14 => Event::ServerLeft { server },
        15 | 16 => Event::ServerJoined { server },
        13 => Event::RetryAfter { server, ns: u64::from(below(rng, 60)) },
        12 => {
            let (in_flight, latency_ns) = (below(rng, 5), u64::from(below(rng, 50)));
            Event::Probed(Probed { server, in_flight, latency_ns })
        }
        9 => {
            let until = harness.model.now.after(u64::from(below(rng, 40)));
            Event::Close { server, until: pick(rng, &[until, until, Timestamp::NEVER]) }
        }
        10 => Event::Close { server, until: harness.model.now },
        11 => Event::Limit { server, limit: below(rng, 6) },
        0 => Event::ServerDown { server },
        1 => Event::ServerDraining { server },
        8 => Event::ServerUnhealthy { server, listens: below(rng, 3) > 0 },
        2..=4 => Event::ServerUp { server },
        // Late reports about copies that have ended must change nothing.
        5 if !ended.is_empty() => {
            let copy = pick(rng, ended);
            let good = Event::Finished { copy, outcome: Outcome::Good };
            pick(rng, &[Event::Stopped { copy }, Event::Started { copy }, good])
        }
        _ => {
            let queries: Vec<QueryId> = harness.model.queries.keys().copied().collect();
            match queries[..] {
                [] => Event::Tick,
                _ => Event::Abandoned { query: pick(rng, &queries) },
            }
        }
    }
}

fn copy_event(
    rng: &mut Rng,
    harness: &Harness,
    copy: CopyId,
    trouble: u32,
    ended: &mut Vec<CopyId>,
) -> Event {
    let state = &harness.model.copies[&copy];
    match below(rng, 8) {
        0 => {
            let is_bad = trouble > 0 && below(rng, 4) == 0;
            let heads = [Outcome::Refused, Outcome::Failed(Fault::Status), Outcome::Request];
            let outcome = if is_bad { pick(rng, &heads) } else { Outcome::Good };
            return Event::Responded { copy, outcome };
        }
        1 => return Event::Forecast { copy, ends: Timestamp(u64::from(rng.next_u32() % 10_000)) },
        2 if below(rng, 4) == 0 => return Event::ForbidRetry { copy },
        2 => return Event::Started { copy },
        4 if below(rng, 2) == 0 => {
            let queue = pick(rng, &[0, 1, 5, u32::MAX]);
            let service_ns = pick(rng, &[0, 7, 50, u64::MAX]);
            return Event::Feedback { copy, feedback: Feedback { queue, service_ns } };
        }
        3 if state.query.is_none() => {
            return pick(rng, &[Event::Unwanted { copy }, Event::Progress { copy }]);
        }
        _ => {}
    }
    ended.push(copy);
    if ended.len() > 16 {
        ended.remove(0);
    }
    // A driver may also report a stop that was not requested, if a task was torn down.
    if (state.stopping && below(rng, 3) > 0) || below(rng, 64) == 0 {
        return Event::Stopped { copy };
    }
    let bad = [
        Outcome::Request,
        Outcome::Refused,
        Outcome::Failed(Fault::Status),
        Outcome::Failed(Fault::Reset),
        Outcome::Failed(Fault::ConnectFailed),
        Outcome::Failed(Fault::Malformed),
        Outcome::Local,
        Outcome::OverLimit,
    ];
    let failed = trouble > 0 && below(rng, 10) < trouble;
    Event::Finished { copy, outcome: if failed { pick(rng, &bad) } else { Outcome::Good } }
}
