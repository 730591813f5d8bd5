//! A stage in front of servers that stop cancelled jobs, and in front of servers that do not.

use curtail_kernel::stage::{JobId, Metadata, Stage};
use curtail_kernel::{Rng, Timestamp};
use rand_core::Rng as _;

const MS: u64 = 1_000_000;
const STEP: u64 = MS / 2;

fn unit(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

fn exp(rng: &mut Rng) -> f64 {
    -unit(rng).ln()
}

/// Nine jobs in ten take 4 ms, the others 64 ms.
fn hiccups(rng: &mut Rng) -> f64 {
    if unit(rng) < 0.9 { 0.4 } else { 6.4 }
}

#[derive(Clone, Copy)]
struct Scenario {
    slots: u32,
    /// The load of primaries, as a share of the server's capacity. Duplicates arrive at the same
    /// rate.
    load: f64,
    /// The service times of primaries and of duplicates, in units of 10 ms.
    work: [fn(&mut Rng) -> f64; 2],
    stops: bool,
    /// Whether jobs share the server evenly. If not, each slot serves one job at a time, first
    /// come, first served.
    shares: bool,
}

/// Runs a scenario until this number of primaries has ended. Returns two counts of primaries: those
/// that had ended when the stage stopped starting duplicates, and those that waited for a duplicate
/// inside the server for at least half of their own service time.
fn found(scenario: Scenario, primaries: u32, seed: u64) -> (Option<u32>, u32) {
    struct Job {
        name: u32,
        is_high: bool,
        left: f64,
        work: f64,
        began: u64,
    }
    let mut rng = curtail_kernel::rng(seed);
    let mut stage = Stage::new(scenario.slots, 100).gives_up();
    // `jobs` contains the work of each job, and whether the job is a primary. `gone` contains the
    // times at which clients give up on duplicates.
    let mut jobs: Vec<(bool, f64)> = Vec::new();
    let mut gone: Vec<(u64, u32)> = Vec::new();
    let mut inside: Vec<Job> = Vec::new();
    let (mut next, mut ended, mut waited, mut found) = ([0.0, 0.0], 0, 0, None);
    let gap = 10.0 * MS as f64 / scenario.load / f64::from(scenario.slots);
    for step in 0_u64.. {
        let now = step * STEP;
        for (class, next) in next.iter_mut().enumerate() {
            while *next <= now as f64 {
                *next += gap * exp(&mut rng);
                let work = 10.0 * MS as f64 * scenario.work[class](&mut rng);
                let until = now + (2e7 * exp(&mut rng)) as u64;
                let meta = [Metadata::HIGH, Metadata::LOW][class];
                if stage.dispatch(Timestamp(now), JobId(jobs.len() as u32), meta).is_ok() {
                    gone.extend((class == 1).then_some((until, jobs.len() as u32)));
                    jobs.push((class == 0, work));
                }
            }
        }
        // Ends the jobs that clients give up on. Running jobs are reported as finished, as if their
        // connections had been closed.
        gone.retain(|&(until, name)| {
            if until <= now {
                stage.purge(JobId(name));
                if stage.finish(Timestamp(now), JobId(name)).is_some() && scenario.stops {
                    inside.retain(|job| job.name != name);
                }
            }
            until > now
        });
        let share = if scenario.shares {
            (f64::from(scenario.slots) / inside.len() as f64).min(1.0)
        } else {
            1.0
        };
        let served = if scenario.shares { inside.len() } else { scenario.slots as usize };
        inside.iter_mut().take(served).for_each(|job| job.left -= STEP as f64 * share);
        inside.retain(|job| {
            if job.left <= 0.0 && stage.finish(Timestamp(now), JobId(job.name)).is_some() {
                ended += u32::from(job.is_high);
                let is_late = (now - job.began) as f64 > 1.5 * job.work + 2.0 * STEP as f64;
                waited += u32::from(job.is_high && is_late);
            }
            job.left > 0.0
        });
        while let Some(scheduled) = stage.schedule(Timestamp(now)) {
            if let Some(low) = scheduled.preempts {
                stage.finish(Timestamp(now), low).expect("it ran");
                inside.retain(|job| job.name != low.0 || !scenario.stops);
            }
            let name = scheduled.job.0;
            let (is_high, work) = jobs[name as usize];
            inside.push(Job { name, is_high, left: work, work, began: now });
        }
        if found.is_none() && stage.works_on(Timestamp(now)) {
            found = Some(ended);
        }
        if ended >= primaries {
            break;
        }
    }
    (found, waited)
}

/// Functions that draw the service times of a primary and of a duplicate.
type Draws = [fn(&mut Rng) -> f64; 2];

const WORK: [(&str, Draws); 4] = [
    ("even", [|_| 1.0, |_| 1.0]),
    ("long duplicates", [|_| 0.5, |_| 6.0]),
    ("exponential", [exp, exp]),
    ("hiccups", [hiccups, hiccups]),
];

/// Runs each combination of server, load and work with eight seeds. Passes the results of [`found`]
/// to `check`.
fn each(stops: bool, check: impl Fn(&str, &Scenario, Vec<(Option<u32>, u32)>)) {
    for (name, work) in WORK {
        for slots in [1, 2, 4] {
            for shares in [false, true] {
                for load in [0.3, 0.6] {
                    let scenario = Scenario { slots, load, work, stops, shares };
                    let all = (0..8).map(|seed| found(scenario, 4_000, seed)).collect();
                    check(
                        &format!("{name}, {slots} slots, shares {shares}, load {load}"),
                        &scenario,
                        all,
                    );
                }
            }
        }
    }
}

#[test]
fn a_server_that_does_not_stop_is_soon_sent_no_duplicates() {
    each(false, |name, scenario, mut all| {
        all.sort_unstable_by_key(|&(_, late)| late);
        let [(_, median), (_, most)] = [all[4], all[7]];
        assert!(median <= 1_000, "{name}: {all:?}");
        let is_even = name.starts_with("even") || name.starts_with("long");
        if is_even && scenario.slots <= 2 {
            let found = all.iter().filter_map(|&(at, _)| at).max();
            assert!(
                all.iter().all(|(at, _)| at.is_some()) && found <= Some(400),
                "{name}: {all:?}"
            );
            assert!(most <= 400 && (scenario.shares || most <= 150), "{name}: {all:?}");
        }
    });
}

#[test]
fn a_server_that_stops_goes_on_getting_duplicates() {
    let (wrong, runs) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    each(true, |_, _, all| {
        runs.set(runs.get() + all.len());
        wrong.set(wrong.get() + all.iter().filter(|(at, _)| at.is_some()).count());
    });
    let (wrong, runs) = (wrong.get(), runs.get());
    assert!(
        20 * wrong <= runs,
        "{wrong} of {runs} were mistaken for servers that continue to work"
    );
}

#[test]
fn primaries_preempt_duplicates_beyond_the_low_slots_though_slots_are_free() {
    let (high, low) = (Metadata::HIGH, Metadata::LOW);
    let mut stage = Stage::new(4, 10).gives_up();
    stage.set_low_slots(2);
    let now = Timestamp(0);
    for (name, meta) in [(0, low), (1, low), (2, low)] {
        stage.dispatch(now, JobId(name), meta).expect("there is room");
        assert_eq!(stage.schedule(now).is_some(), name < 2, "{name}");
    }
    for (name, gives_way) in [(3, Some(1)), (4, Some(0)), (5, None), (6, None)] {
        stage.dispatch(now, JobId(name), high).expect("there is room");
        let scheduled = stage.schedule(now).expect("it starts at once");
        assert_eq!((scheduled.job, scheduled.preempts), (JobId(name), gives_way.map(JobId)));
        if let Some(low) = scheduled.preempts {
            stage.finish(now, low).expect("it ran");
        }
        assert_eq!(stage.schedule(now), None, "the duplicate that waits goes on waiting");
    }
}
