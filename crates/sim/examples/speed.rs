//! Measures the speed of the simulator and, for comparison, that of a Kiefer–Wolfowitz recursion
//! with the same generators, distributions and histograms. The speed of the recursion is the
//! practical limit for a simulation of per-shard queuing.
//!
//! `speed POLICY SHARDS REPLICAS UTILIZATION REQUESTS [CORE]` prints `name=value` pairs on one
//! line: shard queries per second of processor time, copies per query, and peak memory. The policy
//! `recursion` runs the recursion. Processor time does not include the time of other processes, but
//! these can still slow this one down. Measure everything that you compare on the same core.

use std::sync::atomic::{AtomicBool, AtomicU64};

use curtail_dist::{Distribution, Spec, seed};
use curtail_sim::{Candidate, PERCENTILES, Parameters, Plan, UNIT_NS, compare};
use hdrhistogram::Histogram;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

const SERVICE: &str = "exp:1";
const JITTER: &str = "bimodal:0.001:15";
const BLOCK: usize = 1024;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let ([policy, shards, replicas, utilization, requests]
    | [policy, shards, replicas, utilization, requests, _]) = &args[..]
    else {
        eprintln!("usage: speed POLICY SHARDS REPLICAS UTILIZATION REQUESTS [CORE]");
        std::process::exit(2);
    };
    if let Some(core) = args.get(5) {
        stay_on(core.parse().expect("CORE is a number"));
    }
    let parameters = Parameters {
        shards: shards.parse().expect("SHARDS is a number"),
        replicas: replicas.parse().expect("REPLICAS is a number"),
        utilization: utilization.parse().expect("UTILIZATION is a number"),
        requests: requests.parse().expect("REQUESTS is a number"),
        service: SERVICE.to_owned(),
        jitter: Some(JITTER.to_owned()),
        replications: 1,
        ..Parameters::default()
    };
    let start = seconds();
    let (p99, copies) = match policy.as_str() {
        "recursion" => (recursion(&parameters), 1.0),
        _ => simulation(&parameters, policy),
    };
    let seconds = seconds() - start;
    let queries = parameters.requests as f64 * f64::from(parameters.shards);
    let rate = queries / seconds;
    println!(
        "policy={policy} shards={shards} replicas={replicas} p99={p99:.2} per_second={rate:.0} \
         copies={copies:.3} peak_kb={}",
        peak_kb().unwrap_or_default()
    );
}

/// Returns the processor time of this process, in seconds.
fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Pins this process to one of the cores that it may use. `number` wraps around.
fn stay_on(number: usize) {
    let all = sched_getaffinity(None).expect("it may run somewhere");
    let allowed = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core));
    let nth = number % all.count() as usize;
    let mut one = CpuSet::new();
    one.set(allowed.into_iter().nth(nth).expect("the number that was counted"));
    sched_setaffinity(None, &one).expect("it may run there");
}

/// Returns the peak memory of this process, in kB. Available only on Linux.
fn peak_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// Returns the 99th percentile of request latencies, and the number of copies per query.
fn simulation(parameters: &Parameters, policy: &str) -> (f64, f64) {
    let experiment = parameters.experiment().expect("parameters of an experiment");
    let candidate = Candidate::parse(policy, UNIT_NS).expect("a policy");
    let (progress, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let plan = Plan { threads: 1, percentiles: &PERCENTILES, progress: &progress, stop: &stop };
    let outcomes = compare(&experiment, &[candidate], &plan).expect("it can run");
    let outcome = &outcomes.expect("nothing stops it")[0];
    let p99 = outcome.request.as_ref().and_then(|figures| figures.percentile(99.0));
    (p99.unwrap_or(f64::NAN), outcome.copies_per_query.unwrap_or(f64::NAN))
}

/// Uses the Kiefer–Wolfowitz recursion to compute when the servers of each shard become free. The
/// service of a query begins once the query has arrived and a server is free. Returns the 99th
/// percentile of request latencies.
fn recursion(parameters: &Parameters) -> f64 {
    let distribution = |text: &str| -> Distribution {
        let spec: Spec = text.parse().expect("a distribution");
        spec.resolve(UNIT_NS as f64).expect("a distribution")
    };
    let (service, jitter) = (distribution(SERVICE), distribution(JITTER));
    let experiment = parameters.experiment().expect("parameters of an experiment");
    let gap = distribution(&format!("exp:{}ns", experiment.gap_ns()));
    let shards = parameters.shards as usize;
    let rng = |name: &[u8], shard: usize| {
        seed::rng(seed::stream(42, &[name, &(shard as u64).to_le_bytes()]))
    };
    let mut gaps_rng = rng(b"gaps", 0);
    let mut rngs: Vec<_> = (0..shards).map(|s| (rng(b"P", s), rng(b"J", s))).collect();
    let mut free = vec![vec![0_u64; parameters.replicas as usize]; shards];
    let new = || Histogram::<u64>::new_with_bounds(1, 1 << 50, 3).expect("bounds");
    let (mut requests, mut queries) = (new(), new());
    let (mut gaps, mut scratch) = ([0.0; BLOCK], [0.0; BLOCK]);
    let (mut times, mut own, mut hiccups) = ([0_u64; BLOCK], [0_u64; BLOCK], [0_u64; BLOCK]);
    let mut now = 0.0;
    for _ in 0..parameters.requests / BLOCK as u64 {
        gap.fill(&mut gaps_rng, &mut gaps);
        for (time, gap) in times.iter_mut().zip(&gaps) {
            now += gap;
            *time = now as u64;
        }
        let mut worst = [0_u64; BLOCK];
        for (free, (p, j)) in free.iter_mut().zip(&mut rngs) {
            service.fill_ns(p, &mut scratch, &mut own);
            jitter.fill_ns(j, &mut scratch, &mut hiccups);
            for at in 0..BLOCK {
                let first = (0..free.len()).min_by_key(|&server| free[server]).expect("servers");
                let begins = free[first].max(times[at]);
                free[first] = begins + own[at] + hiccups[at];
                let latency = free[first] - times[at];
                worst[at] = worst[at].max(latency);
                queries.saturating_record(latency);
            }
        }
        worst.iter().for_each(|&latency| requests.saturating_record(latency));
    }
    requests.value_at_quantile(0.99) as f64 / UNIT_NS as f64
}
