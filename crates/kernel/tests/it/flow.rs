//! Cicero's control loop: which requests a process admits, and which rates it announces.

use curtail_kernel::Timestamp;
use curtail_kernel::flow::{
    Admission, Announcement, CallerId, Config, InstanceId, Process, RequestId, ResourceId,
    ResourceSpec, Turn, Via, Workflow, WorkflowId,
};
use curtail_kernel::schedule::Standing;
use curtail_kernel::stage::JobId;

const MS: u64 = 1_000_000;
const W: WorkflowId = WorkflowId(0);
const DISK: ResourceId = ResourceId(0);
const CALLER: CallerId = CallerId(0);

fn process(config: Config, workflows: usize) -> Process {
    let disk = ResourceSpec { slots: 1, queue: 1_000 };
    Process::new(config, &vec![Workflow::default(); workflows], &[disk])
}

fn announcement(rate: f64) -> Announcement {
    Announcement { rate, local: rate, via: Via::default() }
}

/// Simulates one interval. The requests of each workflow arrive evenly. Each admitted one uses the
/// disk for `service_ns`, and sends the given number of copies to each instance. Returns the number
/// of admitted requests per workflow.
fn interval(
    process: &mut Process,
    number: u64,
    requests: &[u32],
    service_ns: u64,
    calls: &[(InstanceId, u32)],
) -> Vec<u32> {
    let mut admitted = vec![0; requests.len()];
    for (workflow, &count) in requests.iter().enumerate() {
        let of = WorkflowId(workflow as u32);
        for at in 0..count {
            let step_ns = 100 * MS / u64::from(count);
            let now = Timestamp(number * 100 * MS + u64::from(at) * step_ns);
            let request = RequestId(at);
            if process.arrive(now, request, of, Timestamp::NEVER) != Admission::Admitted {
                process.withdraw(request, of);
                continue;
            }
            admitted[workflow] += 1;
            for &(instance, copies) in calls {
                (0..copies).for_each(|_| process.called(instance, of));
            }
            process
                .subtask(now, DISK, JobId(0), of, &Standing::default(), None)
                .expect("it is free");
            assert_eq!(process.schedule(now, DISK), Some(Turn::Starts(JobId(0))));
            assert_eq!(process.done(now.after(service_ns), DISK, JobId(0)), Some(service_ns));
        }
    }
    assert!(process.tick(Timestamp((number + 1) * 100 * MS)));
    admitted
}

#[test]
fn a_flooding_workflow_is_limited_to_its_share_and_the_other_is_not() {
    // A request takes 2 ms on one disk, and the target utilization leaves room for 475 per second.
    // One workflow sends 100 requests per second, and the other sends 4,000.
    let mut process = process(Config::default(), 2);
    for number in 0..20 {
        interval(&mut process, number, &[10, 400], 2 * MS, &[]);
    }
    let admitted: Vec<_> =
        (20..30).map(|number| interval(&mut process, number, &[10, 400], 2 * MS, &[])).collect();
    let sum = |workflow: usize| admitted.iter().map(|of| of[workflow]).sum::<u32>();
    assert_eq!(sum(0), 100);
    assert!((350..=380).contains(&sum(1)), "{}", sum(1));
}

#[test]
fn the_downstream_rate_is_divided_by_the_copies_per_request() {
    let mut process = process(Config::default(), 1);
    let instances = [process.add_instance(0), process.add_instance(0), process.add_instance(0)];
    let run = |process: &mut Process, rates: [f64; 3], from: u64| {
        for number in from..from + 8 {
            for (instance, rate) in instances.into_iter().zip(rates) {
                let now = Timestamp(number * 100 * MS);
                process.announced(now, instance, W, announcement(rate));
            }
            interval(process, number, &[10], 10, &instances.map(|instance| (instance, 2)));
        }
        process.view(W)
    };
    let view = run(&mut process, [60.0, 100.0, 1_000.0], 0);
    assert!((view.downstream - 50.0).abs() < 1e-6, "the median over two: {view:?}");
    assert_eq!(view.rate, view.downstream);
    let nonsense = run(&mut process, [f64::NAN, -5.0, 1_000.0], 8);
    assert!((nonsense.downstream - 50.0).abs() < 1e-6, "an invalid rate is ignored: {nonsense:?}");
    assert_eq!(nonsense.silent, 0);
}

#[test]
fn the_last_rate_of_a_silent_instance_counts_for_a_while_then_its_responses() {
    let mut process = process(Config::default(), 1);
    let instance = process.add_instance(0);
    process.announced(Timestamp(1), instance, W, announcement(20.0));
    for number in 0..60 {
        // Nine out of ten responses are good.
        (0..10).for_each(|at| process.returned(instance, W, at > 0));
        interval(&mut process, number, &[10], 10, &[(instance, 1)]);
        let view = process.view(W);
        match number {
            1..=8 => assert_eq!((view.downstream, view.silent), (20.0, 0), "{number}"),
            40.. => {
                assert_eq!(view.silent, 1);
                assert!((95.0..=105.0).contains(&view.downstream), "90 · 1.1 + 1: {view:?}");
            }
            _ => {}
        }
    }
    process.announced(Timestamp(6_000 * MS), instance, W, announcement(30.0));
    // An idle instance is not silent: its last announcement applies to requests after a pause.
    (60..100).for_each(|number| drop(interval(&mut process, number, &[0], 10, &[])));
    interval(&mut process, 100, &[10], 10, &[(instance, 1)]);
    let view = process.view(W);
    assert!(view.silent == 0 && (view.downstream - 30.0).abs() < 3.0, "{view:?}");
    // After a long pause it does not apply, because the service may have recovered since then.
    (101..160).for_each(|number| drop(interval(&mut process, number, &[0], 10, &[])));
    assert_eq!(process.view(W).downstream, f64::INFINITY);
}

#[test]
fn nonsense_starves_no_workflow_however_few_its_requests_are() {
    for nonsense in [0.0, f64::MIN_POSITIVE / 2.0, 1e300, f64::NAN, f64::NEG_INFINITY] {
        let mut process = process(Config::default(), 1);
        let instance = process.add_instance(0);
        process.announced(Timestamp(1), instance, W, announcement(30.0));
        let mut admitted = 0;
        for number in 0..200 {
            process.announced(Timestamp(number * 100 * MS), instance, W, announcement(nonsense));
            // Ten requests arrive per second, in pairs. All admitted requests get a response.
            let requests = if number % 2 == 0 { 2 } else { 0 };
            let entered = interval(&mut process, number, &[requests], 10, &[(instance, 1)])[0];
            (0..entered).for_each(|_| process.returned(instance, W, true));
            admitted += entered;
        }
        assert!(admitted >= 195, "{nonsense}: {admitted} of 200");
    }
}

#[test]
fn a_cycle_ends_where_it_would_close() {
    // Process A calls process B, which calls A.
    let config = Config::default();
    let mut a = process(config, 1).of_service(7);
    let mut b = process(config, 1).of_service(9);
    let (to_b, to_a) = (a.add_instance(0), b.add_instance(0));
    for number in 0..100 {
        let now = Timestamp(number * 100 * MS);
        a.announced(now, to_b, W, b.announce(CALLER, W));
        b.announced(now, to_a, W, a.announce(CALLER, W));
        // Process B is slow for a second. If the rates depended on each other, they would never
        // rise again.
        let service_ns = if (20..30).contains(&number) { 20 * MS } else { MS };
        interval(&mut a, number, &[10], MS, &[(to_b, 1)]);
        interval(&mut b, number, &[10], service_ns, &[(to_a, 1)]);
        if number == 29 {
            assert!(a.view(W).rate < 80.0, "{:?}", a.view(W));
        }
    }
    assert!(a.announce(CALLER, W).via.leads_to(9) && b.announce(CALLER, W).via.leads_to(7));
    assert!(a.view(W).rate > 500.0 && b.view(W).rate > 500.0, "{:?} {:?}", a.view(W), b.view(W));
}

#[test]
fn a_request_that_cannot_be_in_time_is_dropped_and_a_slow_spell_is_forgotten() {
    let mut process = process(Config::default(), 1);
    process.completed(Timestamp(0), W, 300 * MS);
    let submit = |process: &mut Process, now: u64| {
        let deadline = Timestamp((now + 100) * MS);
        process.arrive(Timestamp(now * MS), RequestId(0), W, deadline) == Admission::Admitted
    };
    assert!(!submit(&mut process, 10), "300 ms do not fit into 100");
    (1..30).for_each(|number| assert!(process.tick(Timestamp(number * 100 * MS))));
    assert!(submit(&mut process, 3_000));
    let lenient = Config { drops_late: false, ..Config::default() };
    let mut process = self::process(lenient, 1);
    process.completed(Timestamp(0), W, 300 * MS);
    assert!(submit(&mut process, 10));
}

#[test]
fn a_subtask_whose_request_is_late_is_not_served() {
    let mut process = process(Config::default(), 1);
    let late = Standing { deadline: Timestamp(50), ..Standing::default() };
    process.subtask(Timestamp(0), DISK, JobId(0), W, &Standing::default(), None).expect("room");
    process.subtask(Timestamp(0), DISK, JobId(1), W, &late, None).expect("room");
    assert_eq!(process.schedule(Timestamp(0), DISK), Some(Turn::Starts(JobId(0))));
    assert_eq!(process.schedule(Timestamp(0), DISK), None);
    assert_eq!(process.done(Timestamp(60), DISK, JobId(0)), Some(60));
    assert_eq!(process.schedule(Timestamp(60), DISK), Some(Turn::Late(JobId(1))));
    assert_eq!(process.schedule(Timestamp(60), DISK), None);
    assert_eq!(process.stage(DISK).outstanding(), 0);
}

#[test]
fn a_subtask_that_would_be_late_gives_way_to_others_that_wait() {
    let run = |expiry: f64, others: bool| {
        let mut process = process(Config { expiry, ..Config::default() }, 1);
        let soon = Standing { deadline: Timestamp(150 * MS), ..Standing::default() };
        let mut submit = |job, standing: &Standing| {
            process.subtask(Timestamp(0), DISK, JobId(job), W, standing, None).expect("room");
        };
        submit(0, &Standing::default());
        submit(1, &soon);
        if others {
            submit(2, &Standing::default());
        }
        assert_eq!(process.schedule(Timestamp(0), DISK), Some(Turn::Starts(JobId(0))));
        assert_eq!(process.done(Timestamp(100 * MS), DISK, JobId(0)), Some(100 * MS));
        assert!(process.tick(Timestamp(100 * MS)));
        process.schedule(Timestamp(100 * MS), DISK)
    };
    // The sub-tasks take 100 ms, and 50 ms are left.
    assert_eq!(run(1.0, true), Some(Turn::Late(JobId(1))));
    assert_eq!(run(1.0, false), Some(Turn::Starts(JobId(1))));
    assert_eq!(run(0.4, true), Some(Turn::Starts(JobId(1))));
    assert_eq!(run(-1.0, true), Some(Turn::Starts(JobId(1))));
}
