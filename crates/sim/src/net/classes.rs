//! Compares a stage that serves two classes of jobs with closed forms.

use curtail_dist::seed;
use curtail_kernel::stage::Priority;
use curtail_queueing::models::{erlang_c, mmk};

use super::servers::{Ended, Servers, Stages};
use crate::agenda::NEVER;
use crate::world::Speed;

const UNIT: f64 = 1e6;

fn exp(rng: &mut rand_pcg::Pcg64Mcg, mean: f64) -> f64 {
    -(1.0 - seed::unit(rng)).ln() * mean * UNIT
}

/// Returns the mean sojourn of the jobs of each priority. The jobs arrive at these rates and take
/// exponential times with mean 1.
fn sojourns(slots: u32, rates: [f64; 2], chunk_ns: u64, seed: u64) -> [f64; 2] {
    let speed = Speed::Constant(1.0);
    let stages =
        Stages { count: 1, slots, queue: 1_000_000, chunk_ns, stop_ns: 0, speed, changing: 0 };
    let mut servers = Servers::new(stages, 1);
    let mut rng = seed::rng(seed);
    let mut next = rates.map(|rate| exp(&mut rng, 1.0 / rate));
    let (mut arrived, mut sums, mut counts) = (Vec::new(), [0.0; 2], [0.0; 2]);
    while counts[0] + counts[1] < 200_000.0 {
        let class = usize::from(next[1] < next[0]);
        let now = next[class] as u64;
        while servers.next_end() <= now {
            let at = servers.next_end();
            if let Some((_, Ended::Done { copy, .. })) = servers.end_first(at) {
                let (class, since): (usize, u64) = arrived[copy as usize];
                sums[class] += (at - since) as f64 / UNIT;
                counts[class] += 1.0;
            }
        }
        let priority = [Priority::High, Priority::Low][class];
        let copy = arrived.len() as u32;
        arrived.push((class, now));
        servers.arrive(now, 0, copy, exp(&mut rng, 1.0), priority).expect("there is room");
        next[class] += exp(&mut rng, 1.0 / rates[class]);
    }
    [sums[0] / counts[0], sums[1] / counts[1]]
}

/// Asserts that the mean over ten seeds agrees with the truth within five of its standard errors.
#[track_caller]
fn assert_agrees(slots: u32, rates: [f64; 2], chunk_ns: u64, truth: [f64; 2]) {
    let runs: Vec<[f64; 2]> = (0..10).map(|seed| sojourns(slots, rates, chunk_ns, seed)).collect();
    for (class, truth) in truth.into_iter().enumerate() {
        let mean = runs.iter().map(|run| run[class]).sum::<f64>() / 10.0;
        let squares = runs.iter().map(|run| (run[class] - mean).powi(2)).sum::<f64>();
        let error = (squares / 90.0).sqrt();
        assert!(error < 0.03 * truth, "{error} is too vague about {truth}");
        assert!((mean - truth).abs() < 5.0 * error, "class {class}: {mean} ± {error}, not {truth}");
    }
}

const HIGH: f64 = 0.5;
const LOW: f64 = 0.3;

#[test]
fn with_preemption_the_second_class_does_not_delay_the_first() {
    let (one, all) = (1.0 - HIGH, 1.0 - HIGH - LOW);
    assert_agrees(1, [HIGH, LOW], 0, [1.0 / one, 1.0 / (one * all)]);
    // The same comparison with several servers. The mean total number of jobs is the same as with a
    // single class.
    for slots in [2, 4] {
        let k = f64::from(slots);
        let sojourn = |rate: f64| mmk(rate, 1.0, slots).expect("stable").sojourn.mean();
        let (high, both) = (HIGH * k, (HIGH + LOW) * k);
        let second = (both * sojourn(both) - high * sojourn(high)) / (LOW * k);
        assert_agrees(slots, [high, LOW * k], 0, [sojourn(high), second]);
    }
}

#[test]
fn without_preemption_the_first_class_waits_only_for_running_jobs() {
    let (one, all) = (1.0 - HIGH, 1.0 - HIGH - LOW);
    for slots in [1, 4] {
        let k = f64::from(slots);
        // Cobham's formula: the residual work of the running jobs, divided by the share of capacity
        // that this class and the higher ones leave free.
        let residual = erlang_c((HIGH + LOW) * k, slots).expect("stable");
        let waits = [residual / (k * one), residual / (k * one * all)];
        assert_agrees(slots, [HIGH * k, LOW * k], NEVER, waits.map(|wait| 1.0 + wait));
    }
}

#[test]
fn with_chunks_the_first_class_waits_for_one_chunk_at_most() {
    let chunk = UNIT as u64 / 5;
    let [high, _] = sojourns(1, [HIGH, LOW], chunk, 3);
    let alone = 1.0 / (1.0 - HIGH);
    assert!(high < alone + 0.2 / (1.0 - HIGH), "{high} beside {alone}");
}
