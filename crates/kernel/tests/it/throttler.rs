//! The throttler of a Proxy D-Stage finds the knee of several kinds of servers, and follows it.

use curtail_kernel::stage::{JobId, Metadata, Priority, Stage, Throttler};
use curtail_kernel::{Heaps, Rng, Timestamp};
use rand_core::Rng as _;

/// The legacy stage: returns the service time of a job while `there` jobs are running.
type Server = fn(now: u64, there: u32, rng: &mut Rng) -> f64;

const MS: f64 = 1e6;
const SECOND: u64 = 1_000_000_000;

fn exp(rng: &mut Rng) -> f64 {
    let unit = ((rng.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -unit.ln()
}

/// A random number from 0.8 to 1.2.
fn about_one(rng: &mut Rng) -> f64 {
    0.8 + 0.4 * (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// The service time of a job. Up to `knee` jobs run at full speed. If there are more, they share
/// that capacity evenly. A job that runs alone takes 4 ms.
fn shared(knee: f64, there: u32) -> f64 {
    4.0 * MS * (f64::from(there) / knee).max(1.0)
}

/// Runs a throttled stage in front of a server. Returns the state of its throttler at each of the
/// times `at`. Jobs arrive every `gap_ns` on average.
fn levels(server: Server, gap_ns: f64, at: &[u64], seed: u64) -> Vec<Throttler> {
    let mut rng = curtail_kernel::rng(seed);
    let (mut stage, mut throttler) = (Stage::new(1, 100_000), Throttler::new(64));
    let mut ends: Heaps<u64> = Heaps::new(1);
    let (mut next, mut id, mut found) = (0.0, 0_u32, Vec::new());
    for &time in at {
        loop {
            let end = ends.first(0).map_or(u64::MAX, |(end, _)| end);
            let now = end.min(next as u64);
            if now > time {
                break;
            }
            if end == now {
                let (_, job) = ends.first(0).expect("it ends");
                ends.remove(0, job);
                stage.finish(Timestamp(now), JobId(job)).expect("it runs");
                if throttler.left(Timestamp(now)) {
                    stage.set_slots(throttler.level());
                }
            } else {
                next += gap_ns * exp(&mut rng);
                if stage.waiting() < 50_000 {
                    stage
                        .dispatch(Timestamp(now), JobId(id), Metadata::HIGH)
                        .expect("there is room");
                    id += 1;
                }
            }
            while let Some(scheduled) = stage.schedule(Timestamp(now)) {
                let takes = server(now, stage.running(), &mut rng);
                ends.insert(0, now + takes as u64, scheduled.job.0);
            }
            throttler.runs(Timestamp(now), stage.running());
        }
        found.push(throttler.clone());
    }
    found
}

fn is_near(throttler: &Throttler, knee: u32) -> bool {
    throttler.knee().is_some_and(|found| found.abs_diff(knee) <= 1)
}

#[test]
fn the_throttler_finds_the_knee_within_five_seconds() {
    let knees: [(u32, Server); 5] = [
        (1, |_, there, rng| shared(1.0, there) * about_one(rng)),
        (2, |_, there, rng| shared(2.0, there) * about_one(rng)),
        (3, |_, there, rng| shared(3.0, there) * about_one(rng)),
        (6, |_, there, rng| shared(6.0, there) * about_one(rng)),
        (8, |_, there, rng| shared(8.0, there) * exp(rng)),
    ];
    for (knee, server) in knees {
        let found = |seed| levels(server, 2e5, &[5 * SECOND], seed).remove(0);
        let all: Vec<Throttler> = (0..20).map(found).collect();
        let near = all.iter().filter(|throttler| is_near(throttler, knee)).count();
        let knees: Vec<Option<u32>> = all.iter().map(Throttler::knee).collect();
        assert!(near >= if knee < 8 { 20 } else { 18 }, "knee {knee}: {knees:?}");
    }
}

#[test]
fn the_throttler_follows_a_knee_within_ten_seconds() {
    let server: Server = |now, there, rng| {
        let knee = if (5 * SECOND..25 * SECOND).contains(&now) { 8.0 } else { 3.0 };
        shared(knee, there) * about_one(rng)
    };
    for seed in 0..5 {
        let at = [5 * SECOND, 15 * SECOND, 25 * SECOND, 35 * SECOND];
        let found = levels(server, 2e5, &at, seed);
        for (throttler, knee) in found.iter().zip([3, 8, 8, 3]) {
            assert!(is_near(throttler, knee), "seed {seed}, knee {knee}: {throttler:?}");
        }
    }
}

#[test]
fn at_half_the_load_the_level_is_near_the_knee() {
    // The server can run 8 jobs at the same time, and the load needs half of this capacity. If the
    // level followed the load, jobs would wait needlessly.
    for seed in 0..5 {
        let level =
            levels(|_, there, rng| shared(8.0, there) * exp(rng), 1e6, &[30 * SECOND], seed);
        assert!(level[0].level() >= 6, "seed {seed}: {level:?}");
    }
}

#[test]
fn the_level_stays_while_its_slots_are_not_taken() {
    let mut throttler = Throttler::new(8);
    for now in 0..10_000_u64 {
        throttler.runs(Timestamp(now * 1_000_000), 0);
        assert!(!throttler.left(Timestamp(now * 1_000_000)));
    }
    assert_eq!(throttler.level(), 1);
}

#[test]
fn no_duplicate_delays_a_primary_while_the_level_is_searched() {
    // The server does one job of 20 ms at a time, and drops cancelled ones. Duplicates always wait.
    for seed in 0..10 {
        let mut rng = curtail_kernel::rng(seed);
        let (mut stage, mut throttler) = (Stage::new(1, 1_000).gives_up(), Throttler::new(64));
        // The jobs inside the server, in order. For each: whether it is a primary, and its
        // remaining time in ms.
        let mut inside: Vec<(JobId, bool, u64)> = Vec::new();
        let (mut next, mut name) = (0.0, 0);
        let mut dispatch = |stage: &mut Stage, now, meta| {
            name += 1;
            stage.dispatch(now, JobId(name), meta).expect("there is room");
        };
        for ms in 0..60_000_u64 {
            let now = Timestamp(ms * 1_000_000);
            if let Some((job, is_high, left)) = inside.first_mut() {
                *left -= 1;
                if *left == 0 {
                    stage.finish(now, *job).expect("it runs");
                    if *is_high {
                        throttler.left(now);
                    }
                    inside.remove(0);
                }
            }
            while next <= ms as f64 {
                next += 30.0 * exp(&mut rng);
                dispatch(&mut stage, now, Metadata::HIGH);
            }
            if stage.waiting() < 3 {
                dispatch(&mut stage, now, Metadata::LOW);
            }
            stage.set_slots(throttler.level());
            stage.set_low_slots(throttler.proven());
            while let Some(scheduled) = stage.schedule(now) {
                if let Some(low) = scheduled.preempts {
                    stage.finish(now, low).expect("it ran");
                    inside.retain(|(job, ..)| *job != low);
                }
                let is_high = stage.priority(scheduled.job) == Priority::High;
                let is_behind = inside.iter().any(|&(_, is_high, _)| !is_high);
                assert!(!(is_high && is_behind), "seed {seed}, {ms} ms: {inside:?} {throttler:?}");
                inside.push((scheduled.job, is_high, 20));
            }
            throttler.runs(now, stage.running_high());
        }
    }
}

/// A disk that reads a piece of one job per tick. It first opens each job, which takes a few ticks.
/// Jobs arrive at `load` times the disk's capacity. Returns the share of the disk's busy time in
/// which there are several jobs.
fn share_of_several(load: f64, pieces: u32, seed: u64) -> f64 {
    const TICK_NS: u64 = 3_200_000;
    const OPENING: u64 = 3;
    let mut rng = curtail_kernel::rng(seed);
    let (mut throttler, mut waiting, mut busy) = (Throttler::new(64), 0_u32, [0, 0]);
    let mut running: std::collections::VecDeque<(u64, u32)> = std::collections::VecDeque::new();
    let (mut next, ticks) = (0.0, 60 * SECOND / TICK_NS);
    for tick in 0..ticks {
        let now = Timestamp(tick * TICK_NS);
        while next <= tick as f64 {
            waiting += 1;
            next += f64::from(pieces) / load * exp(&mut rng);
        }
        let ready = running.iter().position(|(from, _)| *from <= tick);
        if let Some((from, left)) = ready.and_then(|at| running.remove(at)) {
            throttler.did(now, 131_072);
            match left {
                1 => drop(throttler.left(now)),
                // Jobs take turns.
                _ => running.push_back((from, left - 1)),
            }
        }
        while waiting > 0 && (running.len() as u32) < throttler.level() {
            waiting -= 1;
            running.push_back((tick + OPENING, pieces));
        }
        throttler.runs(now, running.len() as u32);
        busy[0] += u32::from(!running.is_empty());
        busy[1] += u32::from(running.len() > 1);
    }
    f64::from(busy[1]) / f64::from(busy[0])
}

#[test]
fn long_jobs_leave_the_level_at_one_if_one_is_enough() {
    for load in [0.15, 0.45, 0.75, 1.2] {
        for seed in 0..10 {
            let share = share_of_several(load, 76, seed);
            assert!(share < 0.2, "load {load}, seed {seed}: {share}");
        }
    }
}

/// The number of bytes that a job requests per tick of 8 ms, and in total.
const PACED: f64 = 16_384.0;
const JOB: f64 = 200_000.0;

/// Returns the levels, tick by tick. The device gets a budget of bytes every 104 ms, and serves at
/// full speed until the budget is spent. The server in front of the device paces every job.
/// `capacity` maps a time, in ms, to the number of paced jobs for which the budget suffices. At
/// least one job is always waiting.
fn sliced(capacity: impl Fn(u64) -> f64, ticks: u64, seed: u64) -> Vec<u32> {
    let mut rng = curtail_kernel::rng(seed);
    let phase = rng.next_u64() % 13;
    let (mut throttler, mut jobs, mut budget) = (Throttler::new(256), Vec::new(), 0.0_f64);
    let tick = |at: u64| {
        let now = Timestamp(at * 8_000_000);
        if (at + phase).is_multiple_of(13) {
            // What is left of a budget can be used later, but at most one full budget can be saved
            // up.
            let slice = capacity(at * 8) * PACED * 13.0;
            budget = budget.min(slice) + slice;
        }
        while jobs.len() < throttler.level() as usize {
            jobs.push(JOB);
        }
        throttler.runs(now, jobs.len() as u32);
        for left in &mut jobs {
            let bytes = (PACED * about_one(&mut rng)).min(*left).min(budget);
            (*left, budget) = (*left - bytes, budget - bytes);
            throttler.did(now, bytes as u64);
            if *left < 1.0 {
                throttler.left(now);
            }
        }
        jobs.retain(|&left| left >= 1.0);
        while jobs.len() < throttler.level() as usize {
            jobs.push(JOB);
        }
        throttler.runs(now, jobs.len() as u32);
        throttler.level()
    };
    (0..ticks).map(tick).collect()
}

#[test]
fn the_throttler_follows_the_knee_of_a_device_limited_in_slices() {
    let capacity = |ms| if (5_000..15_000).contains(&ms) { 6.9 } else { 2.9 };
    let mut far = [0; 3];
    for seed in 0..40 {
        let levels = sliced(capacity, 20_000 / 8, seed);
        for (step, (end_s, knee)) in [(5, 3_u32), (15, 7), (20, 3)].into_iter().enumerate() {
            // Other levels are tried only briefly, so the median is compared.
            let mut last = levels[(end_s - 2) * 125..end_s * 125].to_vec();
            last.sort_unstable();
            far[step] += u32::from(last[last.len() / 2].abs_diff(knee) > 1);
        }
    }
    assert!(far.iter().all(|&far| far <= 2), "{far:?} of 40 are off by more than 1");
}
