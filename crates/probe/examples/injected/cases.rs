//! Random cases, and the profiler's results for them.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use curtail_machine::keep_to;
use curtail_probe::live::{LiveError, Options, Session, Target};
use curtail_probe::moments::Moments;
use curtail_probe::profile::{Profile, Sampling};
use serde::Serialize;

use crate::server::{self, Delays, On, Served};

/// The results of a case, as measured by the server and by the profiler.
#[derive(Debug, Serialize)]
struct Case {
    seed: u64,
    requests: u64,
    /// The following fields contain one value per stage: the mean in nanoseconds, the variance, and
    /// the share of the total's variance. The variance and the share are those that the server
    /// measured, followed by those that the profiler measured.
    mean_ns: [f64; 4],
    variance: [f64; 4],
    seen_variance: [f64; 4],
    share: [f64; 4],
    seen_share: [f64; 4],
    /// The largest relative error of a variance, among stages with a share of at least 1 %. The
    /// server's readings allow a range of variances, which is a single value unless the machine
    /// stood still. The error is the distance between the profiler's variance and this range.
    variance_error: f64,
    /// The same error, computed from only one reading per edge.
    plain_error: f64,
    /// The largest error of a share.
    share_error: f64,
    ranked_right: bool,
    /// Whether the stage with the largest mean differs from the stage with the largest share.
    mean_ranks_wrong: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    cases: Vec<Case>,
    ranked_wrong: usize,
    mean_ranks_wrong: usize,
    variance_error: f64,
    /// The median of the cases' plain errors.
    plain_error: f64,
    share_error: f64,
}

/// Runs all cases and prints a document.
pub(crate) fn run(cases: u64, seconds: u64) -> ExitCode {
    let done: Result<Vec<Case>, LiveError> = (1..=cases).map(|seed| case(seed, seconds)).collect();
    let cases = match done {
        Ok(cases) => cases,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(3);
        }
    };
    let largest = |of: fn(&Case) -> f64| cases.iter().map(of).fold(0.0, f64::max);
    let mut plain: Vec<f64> = cases.iter().map(|case| case.plain_error).collect();
    plain.sort_by(f64::total_cmp);
    let document = Document {
        ranked_wrong: cases.iter().filter(|case| !case.ranked_right).count(),
        mean_ranks_wrong: cases.iter().filter(|case| case.mean_ranks_wrong).count(),
        variance_error: largest(|case| case.variance_error),
        plain_error: plain.get(plain.len() / 2).copied().unwrap_or(0.0),
        share_error: largest(|case| case.share_error),
        cases,
    };
    println!("{}", serde_json::to_string(&document).expect("it is writable"));
    ExitCode::SUCCESS
}

/// Draws delays. A stage's delay is the sum of a constant, a random part for this stage alone, and
/// a random part that all stages share, so the stages are correlated. The random parts are large
/// compared with the clock tick of a virtual machine, which is 30 µs. In some requests, the clock
/// ticks between a stamp and the server's own reading.
fn drawn(seed: u64) -> impl FnMut() -> Delays + Send + 'static {
    let mut random = curtail_dist::seed::rng(seed);
    let mut unit = move || curtail_dist::seed::unit(&mut random);
    let spreads: [f64; 4] =
        std::array::from_fn(|stage| 30_000.0 + 200_000.0 * 2_f64.powi(-(stage as i32)));
    let first = (unit() * 4.0) as usize;
    let wrong = (first + 1) % 4;
    let common = unit() * 0.6;
    let constants: [f64; 4] = std::array::from_fn(|stage| {
        let more = if seed.is_multiple_of(2) && stage == wrong { 600_000.0 } else { 0.0 };
        more + 1_000.0 + 9_000.0 * unit()
    });
    move || {
        let shared = unit();
        std::array::from_fn(|stage| {
            let spread = spreads[(stage + 4 - first) % 4];
            let own = if unit() < 0.2 { 4.0 * unit() } else { unit() };
            (constants[stage] + spread * ((1.0 - common) * own + common * shared)) as u64
        })
    }
}

fn case(seed: u64, seconds: u64) -> Result<Case, LiveError> {
    // The server uses most of one processor, and the client and the profiler share the other one.
    let set_up = || {
        drop(keep_to(&[1]));
        let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
        drop(std::process::Command::new("renice").args(["-n", "-20", "-p", &thread]).output());
    };
    drop(keep_to(&[0]));
    let (address, serving) = server::serve(On::Same, drawn(seed), set_up);
    let target = Target::find(std::process::id(), Some(address.port()))?;
    let options = Options {
        app: server::app("injected", On::Same),
        sampling: Sampling::OneIn(1),
        slice: Duration::from_millis(250),
        duration: Duration::from_secs(seconds),
        connections: 64,
        allow_slow: false,
    };
    let session = Session::attach(target, options)?;
    let stop = Arc::new(AtomicBool::new(false));
    let goes_on = {
        let stop = Arc::clone(&stop);
        move || !stop.load(Ordering::Relaxed)
    };
    let client = std::thread::spawn(move || server::request(address, goes_on));
    let profile = session.run(&AtomicBool::new(false), |_| {});
    stop.store(true, Ordering::Relaxed);
    client.join().expect("the client ends");
    let served = serving.join().expect("the server ends");
    Ok(compare(seed, &profile?, &served))
}

/// For each edge, the index of the reading that is closer to the profiler's stamp. The profiler
/// stamps a read when it ends, and every other edge before the function is called.
const PLAIN: [usize; 5] = [0, 1, 0, 0, 0];
/// If two readings are at least this far apart, the machine stood still between them, because the
/// calls themselves take less time.
const STOP_NS: u64 = 100_000;

/// Returns the two possible times of each edge. If the machine stood still between the two
/// readings, these are the possible times. Otherwise, both times are equal to the plain reading.
fn possible(served: &Served) -> [[u64; 2]; 5] {
    std::array::from_fn(|at| match served.edges_ns[at] {
        [before, after] if after - before >= STOP_NS => [before, after],
        both => [both[PLAIN[at]]; 2],
    })
}

fn compare(seed: u64, profile: &Profile, served: &[Served]) -> Case {
    // The first values are the durations of each stage, one for every combination of the readings
    // at its two ends. The total is the last value.
    let mut truth = Moments::new(4 * 4 + 1);
    for served in served.iter().filter(|served| served.is_in(profile)) {
        let edges = possible(served);
        let mut values = [0.0; 4 * 4 + 1];
        for (at, value) in values[..16].iter_mut().enumerate() {
            let (stage, from, until) = (at / 4, at / 2 % 2, at % 2);
            // The duration is negative if the packet arrived after the read had begun.
            *value = edges[stage + 1][until] as f64 - edges[stage][from] as f64;
        }
        values[16] = (edges[4][0] - edges[0][0]) as f64;
        truth.record(&values);
    }
    let whole = profile.whole();
    // For each stage of the server, the corresponding stages of the profile. The server cannot
    // distinguish the time in the device, the time in TCP, and the wait for the read.
    let groups: [&[usize]; 4] = [&[0, 1, 2], &[3], &[4], &[5]];
    let sum = |a: &[usize], b: &[usize]| -> f64 {
        a.iter()
            .flat_map(|&a| b.iter().map(move |&b| (a, b)))
            .map(|(a, b)| whole.moments.covariance(a, b))
            .sum()
    };
    let total = profile.total();
    let plain = std::array::from_fn(|at| 4 * at + 2 * PLAIN[at] + PLAIN[at + 1]);
    let share = plain.map(|value: usize| truth.covariance(value, 16) / truth.variance(16));
    let seen_share = groups.map(|group| sum(group, &[total]) / whole.moments.variance(total));
    let variance = plain.map(|value| truth.variance(value));
    let seen_variance = groups.map(|group| sum(group, group));
    let mean_ns = plain.map(|value| truth.mean(value));
    let plain_error = |at: usize| (seen_variance[at] / variance[at] - 1.0).abs();
    let error = |at: usize| {
        let possible = (4 * at..4 * at + 4).map(|value| truth.variance(value));
        let (least, most) = possible.fold((f64::INFINITY, 0.0_f64), |(least, most), variance| {
            (least.min(variance), most.max(variance))
        });
        let seen = seen_variance[at];
        (seen - seen.clamp(least, most)).abs() / variance[at]
    };
    let counts = (0..4).filter(|&at| share[at].abs() >= 0.01);
    let top = |of: &[f64; 4]| (0..4).max_by(|&a, &b| of[a].total_cmp(&of[b]));
    Case {
        seed,
        requests: profile.requests(),
        variance_error: counts.clone().map(error).fold(0.0, f64::max),
        plain_error: counts.map(plain_error).fold(0.0, f64::max),
        share_error: (0..4).map(|at| (share[at] - seen_share[at]).abs()).fold(0.0, f64::max),
        ranked_right: ranks(&share, &share) == ranks(&share, &seen_share),
        mean_ranks_wrong: top(&mean_ns) != top(&share),
        mean_ns,
        variance,
        seen_variance,
        share,
        seen_share,
    }
}

/// Returns the stages with a true share of at least 1 %, the largest share first.
fn ranks(truth: &[f64; 4], share: &[f64; 4]) -> Vec<usize> {
    let mut stages: Vec<usize> = (0..4).filter(|&at| truth[at] >= 0.01).collect();
    stages.sort_by(|&a, &b| share[b].total_cmp(&share[a]));
    stages
}
