//! The stage of a server: order, priority, feedback and purges. Random histories are compared with
//! a simple model.

use std::collections::VecDeque;

use curtail_kernel::stage::{JobId, Metadata, ProbeReply, Purged, Refused, Scheduled, Stage};
use curtail_kernel::{Feedback, Rng, Timestamp};
use rand_core::Rng as _;

const NOW: Timestamp = Timestamp(0);
const HIGH: Metadata = Metadata::HIGH;
const LOW: Metadata = Metadata::LOW;

/// Schedules jobs until none is left to start. Returns those that started.
fn starts(stage: &mut Stage, now: u64) -> Vec<u32> {
    std::iter::from_fn(|| stage.schedule(Timestamp(now))).map(|scheduled| scheduled.job.0).collect()
}

fn dispatch(stage: &mut Stage, now: u64, id: u32, meta: Metadata) -> Vec<u32> {
    stage.dispatch(Timestamp(now), JobId(id), meta).expect("there is room");
    starts(stage, now)
}

/// The reply to a probe: jobs ahead, and latency in ns.
fn probe(stage: &Stage) -> (u32, u64) {
    let ProbeReply { in_flight, latency_ns } = stage.probe();
    (in_flight, latency_ns)
}

#[test]
fn jobs_are_served_in_order_and_ids_may_be_reused() {
    let mut stage = Stage::new(2, 10);
    for id in 0..5 {
        assert_eq!(dispatch(&mut stage, id.into(), id, HIGH).len(), usize::from(id < 2));
    }
    assert_eq!(stage.purge(JobId(3)), Purged::Waited);
    assert_eq!(stage.purge(JobId(3)), Purged::NotHere, "it leaves once");
    assert_eq!(stage.purge(JobId(0)), Purged::Runs);
    assert_eq!(stage.purge(JobId(99)), Purged::NotHere, "it never was here");
    assert!(dispatch(&mut stage, 5, 3, HIGH).is_empty());
    let mut order: Vec<u32> = Vec::new();
    let mut ends = Vec::from([1, 0]);
    while let Some(id) = ends.pop() {
        let feedback = stage.finish(Timestamp(10), JobId(id)).expect("it runs");
        assert_eq!(feedback.queue, stage.outstanding(), "those that remain");
        let next = starts(&mut stage, 10);
        order.extend(&next);
        ends.extend(&next);
    }
    assert_eq!(order, [2, 4, 3]);
    assert_eq!(stage.outstanding(), 0);
    assert_eq!(stage.finish(NOW, JobId(0)), None, "a late report changes nothing");
}

#[test]
#[should_panic(expected = "job 0 is there already")]
fn an_id_belongs_to_one_job_at_a_time() {
    let mut stage = Stage::new(1, 10);
    dispatch(&mut stage, 0, 0, HIGH);
    dispatch(&mut stage, 1, 0, LOW);
}

#[test]
fn a_probe_reports_the_latency_at_the_present_load() {
    let mut stage = Stage::new(1, 10);
    assert_eq!(probe(&stage), (0, 0));
    dispatch(&mut stage, 0, 0, HIGH);
    stage.finish(Timestamp(100), JobId(0)).expect("it runs");
    assert_eq!(probe(&stage), (0, 100));
    (0..8).for_each(|id| drop(dispatch(&mut stage, 100, id, HIGH)));
    for id in 0..8 {
        let now = 200 + 100 * u64::from(id);
        stage.finish(Timestamp(now), JobId(id)).expect("it runs");
        starts(&mut stage, now);
    }
    assert_eq!(probe(&stage), (0, 100), "alone");
    (0..7).for_each(|id| drop(dispatch(&mut stage, 1_000, id, HIGH)));
    let (in_flight, latency_ns) = probe(&stage);
    assert!(in_flight == 7 && latency_ns > 700, "{latency_ns}: in line");
}

#[test]
fn feedback_leaves_the_wait_and_the_duplicates_out() {
    let mut stage = Stage::new(1, 10).preemptive();
    (0..3).for_each(|id| drop(dispatch(&mut stage, id.into(), id, HIGH)));
    dispatch(&mut stage, 3, 3, LOW);
    let end = |stage: &mut Stage, now, id| {
        let feedback = stage.finish(Timestamp(now), JobId(id)).expect("it runs");
        starts(stage, now);
        (feedback.queue, feedback.service_ns)
    };
    assert_eq!(end(&mut stage, 100, 0), (2, 100));
    assert_eq!(end(&mut stage, 130, 1), (1, 30));
    assert_eq!(end(&mut stage, 150, 2), (0, 20));
    assert_eq!(dispatch(&mut stage, 160, 0, HIGH), [0], "the duplicate has run for 10");
    assert_eq!(end(&mut stage, 200, 0), (0, 40));
    assert_eq!(end(&mut stage, 205, 3), (0, 15), "10 and 5");
}

#[test]
fn a_duplicate_gives_way_at_the_end_of_a_chunk_and_resumes_first() {
    let mut stage = Stage::new(1, 10);
    dispatch(&mut stage, 0, 0, LOW);
    dispatch(&mut stage, 0, 1, LOW);
    assert!(!stage.yields(Timestamp(1), JobId(0)), "for another duplicate it does not");
    assert!(dispatch(&mut stage, 2, 2, HIGH).is_empty(), "not before the end of a chunk");
    assert!(stage.yields(Timestamp(3), JobId(0)));
    assert_eq!(starts(&mut stage, 3), [2]);
    assert!(!stage.yields(Timestamp(3), JobId(2)) && !stage.yields(Timestamp(3), JobId(0)));
    stage.finish(Timestamp(7), JobId(2)).expect("it runs");
    let resumes = Scheduled { job: JobId(0), resumes: true, preempts: None };
    assert_eq!(stage.schedule(Timestamp(7)), Some(resumes));
}

#[test]
fn a_duplicate_that_is_pre_empted_at_its_very_end_is_done() {
    let mut stage = Stage::new(1, 10).preemptive();
    dispatch(&mut stage, 0, 0, LOW);
    assert_eq!(dispatch(&mut stage, 5, 1, HIGH), [1]);
    assert_eq!(stage.finish(Timestamp(6), JobId(0)), Some(Feedback { queue: 1, service_ns: 5 }));
    assert_eq!((stage.running(), stage.waiting()), (1, 0));
    dispatch(&mut stage, 7, 2, LOW);
    assert_eq!(stage.finish(Timestamp(8), JobId(2)), None, "it has not begun");
}

#[test]
fn a_delayed_job_waits_for_its_time_and_is_purged_before_it() {
    let mut stage = Stage::new(1, 2);
    let later = |at| Metadata { sched_time: Timestamp(at), ..LOW };
    assert!(dispatch(&mut stage, 0, 0, later(50)).is_empty());
    assert!(dispatch(&mut stage, 0, 1, later(40)).is_empty());
    let refused = stage.dispatch(NOW, JobId(2), later(60));
    assert_eq!(refused, Err(Refused), "they count among those that wait");
    assert_eq!((stage.next_deadline(), stage.waiting()), (Timestamp(40), 2));
    assert_eq!(stage.purge(JobId(1)), Purged::Waited);
    assert_eq!(starts(&mut stage, 49), []);
    assert_eq!(starts(&mut stage, 50), [0]);
    assert_eq!(stage.next_deadline(), Timestamp::NEVER);
}

#[test]
fn duplicates_are_refused_under_overload_and_primaries_keep_their_room() {
    let mut stage = Stage::new(1, 1);
    dispatch(&mut stage, 0, 0, HIGH);
    dispatch(&mut stage, 0, 1, LOW);
    assert_eq!(stage.dispatch(NOW, JobId(2), LOW), Err(Refused));
    dispatch(&mut stage, 0, 3, HIGH);
    assert_eq!(stage.dispatch(NOW, JobId(4), HIGH), Err(Refused));
}

#[test]
fn fewer_slots_stop_no_job_and_more_slots_are_used_at_once() {
    let mut stage = Stage::new(2, 10);
    (0..5).for_each(|id| drop(dispatch(&mut stage, 0, id, HIGH)));
    stage.set_slots(1);
    assert_eq!(stage.running(), 2);
    stage.finish(Timestamp(1), JobId(0)).expect("it runs");
    assert_eq!(starts(&mut stage, 1), []);
    stage.set_slots(3);
    assert_eq!(starts(&mut stage, 2), [2, 3]);
}

/// The specification of a stage, as simple as possible.
#[derive(Default)]
struct Model {
    high: VecDeque<u32>,
    low: VecDeque<u32>,
    running: Vec<u32>,
}

/// Plays a random history on a stage and the model, and compares them after each step.
fn play(seed: u64, slots: u32, preempts: bool, with_low: bool) {
    let mut rng: Rng = curtail_kernel::rng(seed);
    let mut below = |n: u32| (rng.next_u64() >> 32) as u32 % n.max(1);
    let stage = Stage::new(slots, 1_000);
    let mut stage = if preempts { stage.preemptive() } else { stage };
    let (mut model, mut is_low) = (Model::default(), Vec::new());
    for now in 0..2_000_u64 {
        let context = format!("seed {seed}, step {now}");
        match below(4) {
            0 | 1 => {
                let id = is_low.len() as u32;
                is_low.push(with_low && below(2) == 0);
                let (meta, queue) = match is_low[id as usize] {
                    true => (LOW, &mut model.low),
                    false => (HIGH, &mut model.high),
                };
                queue.push_back(id);
                stage.dispatch(Timestamp(now), JobId(id), meta).expect("there is room");
            }
            2 if !model.running.is_empty() => {
                let id = model.running.remove(below(model.running.len() as u32) as usize);
                assert!(stage.finish(Timestamp(now), JobId(id)).is_some(), "{context}");
            }
            _ if !is_low.is_empty() => {
                let id = below(is_low.len() as u32);
                let waits = model.high.contains(&id) || model.low.contains(&id);
                let expected = match (waits, model.running.contains(&id)) {
                    (true, _) => Purged::Waited,
                    (_, true) => Purged::Runs,
                    _ => Purged::NotHere,
                };
                assert_eq!(stage.purge(JobId(id)), expected, "{context}");
                model.high.retain(|&other| other != id);
                model.low.retain(|&other| other != id);
                let again = stage.purge(JobId(id));
                assert!(again != Purged::Waited, "{context}: a purge is idempotent");
            }
            _ => {}
        }
        while let Some(Scheduled { job, preempts: low, .. }) = stage.schedule(Timestamp(now)) {
            if let Some(JobId(low)) = low {
                assert!(is_low[low as usize] && !is_low[job.0 as usize], "{context}");
                model.running.retain(|&other| other != low);
                model.low.push_front(low);
            }
            let next = model.high.pop_front().or_else(|| model.low.pop_front());
            assert_eq!(next, Some(job.0), "{context}: in order");
            model.running.push(job.0);
        }
        let waits = model.high.len() + model.low.len();
        assert_eq!(
            (stage.running() as usize, stage.waiting() as usize),
            (model.running.len(), waits)
        );
        assert!(model.running.len() <= slots as usize, "{context}");
        assert!(
            waits == 0 || model.running.len() == slots as usize,
            "{context}: work is conserved"
        );
        let low_runs = model.running.iter().any(|&id| is_low[id as usize]);
        assert!(
            !preempts || model.high.is_empty() || !low_runs,
            "{context}: a duplicate delays a primary"
        );
    }
}

#[test]
fn after_any_history_priority_is_strict_and_work_conserved() {
    for seed in 0..40 {
        for slots in 1..4 {
            play(seed, slots, true, true);
            play(seed, slots, false, true);
            // Without duplicates it serves jobs in the order of arrival, whether or not it can
            // pre-empt.
            play(seed, slots, seed % 2 == 0, false);
        }
    }
}

#[test]
fn without_duplicates_a_preemptive_stage_reports_like_a_plain_one() {
    let run = |stage: Stage| -> Vec<Option<Feedback>> {
        let mut stage = stage;
        let mut rng: Rng = curtail_kernel::rng(7);
        let mut reports = Vec::new();
        for id in 0..500_u32 {
            dispatch(&mut stage, 10 * u64::from(id), id, HIGH);
            let ends = id.saturating_sub(9)..=id;
            for ends in ends.filter(|_| rng.next_u64() >> 63 == 0) {
                reports.push(stage.finish(Timestamp(10 * u64::from(id) + 5), JobId(ends)));
                starts(&mut stage, 10 * u64::from(id) + 5);
            }
        }
        reports
    };
    let plain = run(Stage::new(2, 1_000));
    assert!(plain.iter().flatten().count() > 50);
    assert_eq!(run(Stage::new(2, 1_000).preemptive()), plain);
}
