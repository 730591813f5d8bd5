//! The examples of document 002 §5.1.3 and §5.2.4 (Figure 5.3) with numbers: how rates are
//! aggregated and propagated to callers, and how much of a deadline is left for admission. The text
//! of the source gives no numbers for its figures, so we chose these.

use curtail_kernel::Timestamp;
use curtail_kernel::flow::{
    Admission, Announcement, CallerId, Config, Drop, InstanceId, Process, RequestId, Via, Workflow,
    WorkflowId,
};

const MS: u64 = 1_000_000;
const W: WorkflowId = WorkflowId(0);

/// A process without resources of its own: only downstream services limit it.
fn process(config: Config) -> Process {
    Process::new(config, &[Workflow::default()], &[])
}

/// Simulates one interval: ten requests arrive, and each admitted one sends the given number of
/// copies to each instance.
fn interval(process: &mut Process, number: u64, calls: &[(InstanceId, u32)]) {
    for request in 0..10 {
        let now = Timestamp((number * 100 + u64::from(request) * 10) * MS);
        match process.arrive(now, RequestId(request), W, Timestamp::NEVER) {
            Admission::Admitted => {
                for &(instance, copies) in calls {
                    (0..copies).for_each(|_| process.called(instance, W));
                }
            }
            _ => assert!(process.withdraw(RequestId(request), W)),
        }
    }
    assert!(process.tick(Timestamp((number + 1) * 100 * MS)));
}

/// Returns σ′ for instances. Each of them has a service, the rate that it announces, and its number
/// of copies per request.
fn downstream(instances: &[(u32, f64, u32)], quantile: f64) -> f64 {
    let mut process = process(Config { quantile, ..Config::DEFAULT });
    let mut calls = Vec::new();
    for &(service, rate, copies) in instances {
        let instance = process.add_instance(service);
        let announcement = Announcement { rate, local: rate, via: Via::default() };
        process.announced(Timestamp(0), instance, W, announcement);
        calls.push((instance, copies));
    }
    interval(&mut process, 0, &calls);
    let view = process.view(W);
    assert_eq!(view.rate, view.downstream, "and the process admits that rate");
    view.downstream
}

#[test]
fn rates_are_divided_by_alpha_then_reduced_by_the_quantile_then_the_least_service_counts() {
    let one = [(0, 100.0, 1), (0, 50.0, 1), (0, 10.0, 1)];
    assert_eq!([0.0, 0.5, 1.0].map(|q| downstream(&one, q)), [10.0, 50.0, 100.0]);
    let twice = one.map(|(service, rate, _)| (service, rate, 2));
    assert_eq!([0.0, 0.5, 1.0].map(|q| downstream(&twice, q)), [5.0, 25.0, 50.0]);
    // With few processes, ranks are interpolated linearly.
    let few = [(0, 20.0, 1), (0, 40.0, 1)];
    assert_eq!([0.0, 0.5, 1.0].map(|q| downstream(&few, q)), [20.0, 30.0, 40.0]);
    // A second service is called four times per request: 120 / 4 = 30 is less than the median of
    // the first.
    let both = [one[0], one[1], one[2], (1, 120.0, 4)];
    assert_eq!([0.0, 0.5, 1.0].map(|q| downstream(&both, q)), [10.0, 30.0, 30.0]);
}

#[test]
fn rates_bubble_up_by_the_product_of_the_amplifications_and_each_caller_gets_its_part() {
    // Process E has a capacity of 200 requests per second. B calls it five times per request. A and
    // another process call B twice per request.
    let mut b = process(Config::DEFAULT).of_service(2);
    let mut a = process(Config::DEFAULT).of_service(1);
    let (to_e, to_b) = (b.add_instance(0), a.add_instance(0));
    let (of_a, other) = (CallerId(0), CallerId(1));
    for number in 0..10 {
        let now = Timestamp(number * 100 * MS);
        let e = Announcement { rate: 200.0, local: 200.0, via: Via::only(3) };
        b.announced(now, to_e, W, e);
        for caller in [of_a, of_a, of_a, other] {
            b.arrived_from(caller, W);
        }
        b.wanted(now, of_a, W, 300.0);
        b.wanted(now, other, W, 100.0);
        interval(&mut b, number, &[(to_e, 5)]);
        a.announced(now, to_b, W, b.announce(of_a, W));
        interval(&mut a, number, &[(to_b, 2)]);
    }
    let near = |is: f64, wanted: f64| assert!((is - wanted).abs() < 1e-9, "{is}, not {wanted}");
    near(b.view(W).rate, 40.0);
    near(b.announce(of_a, W).rate, 30.0);
    near(b.announce(other, W).rate, 10.0);
    near(a.view(W).rate, 15.0);
    assert!(a.announce(of_a, W).via.leads_to(3), "A's rate stands for E");
}

#[test]
fn a_deadline_of_300_ms_and_250_ms_at_e_leave_50_ms_for_what_is_before() {
    let mut e = process(Config::DEFAULT);
    e.completed(Timestamp(0), W, 250 * MS);
    let deadline = Timestamp(300 * MS);
    let at = |e: &mut Process, ns: u64| e.arrive(Timestamp(ns), RequestId(0), W, deadline);
    assert_eq!(at(&mut e, 50 * MS), Admission::Admitted);
    assert_eq!(at(&mut e, 50 * MS + 1), Admission::Dropped(Drop::Late));
}
