//! Measures the cost of an interval: the time that the kernel takes to compute new rates, as a
//! function of the number of workflows.
//!
//! The process has two resources, calls four instances of each of eight services, and has sixteen
//! callers. Every workflow uses all of this in every interval. In `calm` there is no bottleneck. In
//! `short`, one of the resources is the bottleneck.

use curtail_kernel::Timestamp;
use curtail_kernel::flow::{
    Announcement, CallerId, Config, InstanceId, Process, RequestId, ResourceId, ResourceSpec, Via,
    Workflow, WorkflowId,
};
use curtail_kernel::schedule::Standing;
use curtail_kernel::stage::JobId;
use serde::Serialize;

use super::{Median, cpu_ns};

const RESOURCES: u32 = 2;
const SERVICES: u32 = 8;
const INSTANCES: u32 = 32;
const CALLERS: u32 = 16;
const WARMUP: u64 = 30;
const INTERVALS: u64 = 100;

#[derive(Debug, Serialize)]
pub(super) struct Interval {
    workflows: u32,
    calm_ns: Median,
    short_ns: Median,
    /// The time per sub-task, while one sub-task of each workflow waits and their expected times
    /// differ.
    subtask_ns: Median,
}

pub(super) fn measure(workflows: u32) -> Interval {
    let interval_ns = Config::default().interval_ns;
    let (mut calm, mut short) = (process(workflows), process(workflows));
    let (mut ticks, mut subtasks) = ([Vec::new(), Vec::new()], Vec::new());
    for interval in 0..WARMUP + INTERVALS {
        let begin = Timestamp(interval * interval_ns);
        for (at, process) in [&mut calm, &mut short].into_iter().enumerate() {
            let held_ns = if at == 0 { interval_ns / 10 } else { interval_ns - 1 };
            requests(process, workflows, begin);
            let took_ns = serve(process, workflows, begin, held_ns);
            subtasks.push(took_ns / f64::from(RESOURCES * workflows));
            let took_ns = tick(process, begin.after(interval_ns));
            if interval >= WARMUP {
                ticks[at].push(took_ns);
            }
        }
    }
    let [calm_ns, short_ns] = ticks.map(Median::of);
    Interval { workflows, calm_ns, short_ns, subtask_ns: Median::of(subtasks) }
}

fn process(workflows: u32) -> Process {
    let shares = vec![Workflow::default(); workflows as usize];
    let spec = ResourceSpec { slots: workflows, queue: 10 };
    let mut process = Process::new(Config::default(), &shares, &[spec; RESOURCES as usize]);
    for at in 0..INSTANCES {
        process.add_instance(at % SERVICES);
    }
    process
}

/// Feeds the process one request of each workflow, its calls, and the announcements about it.
fn requests(process: &mut Process, workflows: u32, begin: Timestamp) {
    let via = Via::only(7);
    for at in 0..workflows {
        let workflow = WorkflowId(at);
        process.arrive(begin, RequestId(at), workflow, Timestamp::NEVER);
        for caller in 0..CALLERS {
            process.arrived_from(CallerId(caller), workflow);
            process.wanted(begin, CallerId(caller), workflow, 1.0);
        }
        for instance in (0..INSTANCES).map(InstanceId) {
            process.called(instance, workflow);
            process.returned(instance, workflow, true);
            let announced = Announcement { rate: 20.0 + f64::from(instance.0), local: 20.0, via };
            process.announced(begin, instance, workflow, announced);
        }
    }
}

/// Runs one sub-task of each workflow on each resource. Returns the CPU time in ns.
fn serve(process: &mut Process, workflows: u32, begin: Timestamp, held_ns: u64) -> f64 {
    let cpu = cpu_ns();
    for resource in (0..RESOURCES).map(ResourceId) {
        let jobs = || (0..workflows).map(|at| (JobId(at), WorkflowId(at)));
        for (job, workflow) in jobs() {
            let (standing, hint_ns) =
                (Standing::default(), Some(u64::from(job.0 % 100) * 1_000_000));
            let _ = process.subtask(begin, resource, job, workflow, &standing, hint_ns);
        }
        while process.schedule(begin, resource).is_some() {}
        for (job, _) in jobs() {
            process.done(begin.after(held_ns), resource, job);
        }
    }
    cpu_ns() - cpu
}

/// Ends an interval. Returns the CPU time in ns.
fn tick(process: &mut Process, now: Timestamp) -> f64 {
    let begin = cpu_ns();
    process.tick(now);
    while process.release(now).is_some() {}
    std::hint::black_box(process.next_deadline());
    cpu_ns() - begin
}
