//! Line 2: requests are sent when they are meant to be.
//!
//! The lag is compared where the generator waits for a request's time and nothing else: at evenly spaced
//! requests, of which none is due while another is being sent. A Poisson process has such requests at every
//! rate, and a single thread takes up one after the other: at 50/s that is 0.1 to 0.2 % of them, at a p99
//! that the machine's own pauses reach with 0.6 to 1 %. So p99 of Poisson runs would be judged by chance; it
//! is told beside.

use std::path::Path;

use anyhow::Result;

use super::tools::{Server, example, json, median, number};
use crate::accept::finding::{Finding, Verdict};
use crate::cargo::{self, Profile};

/// Turns of the loop that does nothing and of the generator, one after the other.
const ROUNDS: u32 = 7;
/// Evenly spaced, at a rate that shares no divisor with that of the kernel's ticks, 100, 250 or 1,000/s: so they
/// meet requests at all phases, as often as times drawn at random.
const EVEN: [&str; 2] = ["1993", "10"];
/// Poisson: few enough requests per second that their sending and receiving, some 40 µs each on a virtual
/// machine, takes 0.2 % of the time; and so many seconds that there is a p99.
const SPARSE: [&str; 2] = ["50", "24"];
/// So many that one request often is due while another is being sent, which no single thread can better.
const CROWDED: [&str; 2] = ["2000", "5"];
/// Seeds of the test of the arrival process.
const SEEDS: u32 = 5;

pub(in super::super) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let tests = ["test", "-q", "-p", "curtail-load", "--lib", "arrival_test"];
    let tested = cargo::succeeds(&mut cargo::command(root, &tests))?;
    let mut findings = vec![Finding::new(
        "Poisson schedules pass the Kolmogorov–Smirnov test at 0.001, others do not",
        "400 seeds, three profiles (the tests of arrival_test)",
        tested,
    )];
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        let why = "one processor: the server would have to share the generator's";
        findings.push(Finding::new("the lag is that of a bare loop", why, Verdict::Skipped));
        return Ok(findings);
    }
    findings.extend(lags(root)?.findings());
    Ok(findings)
}

/// A figure of each round, in nanoseconds.
#[derive(Default)]
struct Lags {
    /// Lateness of the loop, and the lag of requests spaced as evenly: p95 and p99.
    bare: [Vec<f64>; 2],
    even: [Vec<f64>; 2],
    /// p99 of the lag of Poisson runs with few requests, and with many.
    sparse: Vec<f64>,
    crowded: Vec<f64>,
    /// The median of what sending takes in those.
    sending: Vec<f64>,
    /// p50 of the lag of all runs.
    p50: Vec<f64>,
    /// Poisson runs that failed the test of their process.
    failed: u32,
}

fn lags(root: &Path) -> Result<Lags> {
    let (stub, lateness) = (example(root, "stub")?, example(root, "lateness")?);
    let curtail = cargo::curtail(root, Profile::Release)?;
    let server =
        Server::start(Path::new("taskset"), &["-c", "1", &stub.display().to_string(), "http1"])?;
    let target = format!("http://{}/x", server.address);
    let [lateness, curtail] = [lateness, curtail].map(|path| path.display().to_string());
    let load = |arrivals: &str, [rate, seconds]: [&str; 2], round: u32| {
        let (duration, seed) = (format!("{seconds}s"), round.to_string());
        let plan = ["--rate", rate, "--arrivals", arrivals, "--duration", &duration];
        let how = ["--seed", &seed, "--spin", "--processors", "0", "--json"];
        json(&curtail, &[&["load", &target], &plan[..], &how[..]].concat())
    };
    let mut lags = Lags::default();
    for round in 0..ROUNDS {
        let [rate, seconds] = EVEN;
        let alone = json("taskset", &["-c", "0", &lateness, rate, seconds])?;
        let even = load("constant", EVEN, round)?;
        let [sparse, crowded] = [load("poisson", SPARSE, round)?, load("poisson", CROWDED, round)?];
        let lag = |of: &serde_json::Value, at: &str| number(of, &["schedule_lag_ns", at]);
        for (at, name) in ["p95", "p99"].into_iter().enumerate() {
            lags.bare[at].push(number(&alone, &[name]));
            lags.even[at].push(lag(&even, name));
        }
        lags.sparse.push(lag(&sparse, "p99"));
        lags.crowded.push(lag(&crowded, "p99"));
        lags.sending.push(number(&crowded, &["split_ns", "p50", "client_send"]));
        lags.p50.extend([&even, &sparse, &crowded].map(|of| lag(of, "p50")));
        let failed = [sparse, crowded].map(|of| of["arrival_test"]["failed"] != false);
        lags.failed += failed.map(|failed| u32::from(round < SEEDS && failed)).iter().sum::<u32>();
    }
    Ok(lags)
}

impl Lags {
    fn findings(&self) -> Vec<Finding> {
        let worst = self.p50.iter().copied().fold(0.0, f64::max);
        let [rate, seconds] = EVEN;
        let [bare_p95, bare_p99] = &self.bare;
        let [even_p95, even_p99] = &self.even;
        let claim =
            |name| format!("{name} of the lag at most 1.5 × that of a bare loop on the same core");
        let at_most =
            |ours: &[f64], bare: &[f64]| median(ours.to_vec()) <= 1.5 * median(bare.to_vec());
        vec![
            Finding::new(
                "requests as sent pass the test of their process",
                format!("{} of {} runs failed it", self.failed, 2 * SEEDS),
                self.failed == 0,
            ),
            Finding::new(
                "p50 of the lag under 10 µs with spinning",
                format!("{:.2} µs at most", worst / 1e3),
                worst < 10e3,
            ),
            Finding::new(
                claim("p95"),
                format!("{} µs; the loop {}", told(even_p95), told(bare_p95)),
                at_most(even_p95, bare_p95),
            ),
            Finding::new(
                claim("p99"),
                format!(
                    "{} µs in {ROUNDS} × {seconds} s of evenly {rate}/s; the loop {}. {}",
                    told(even_p99),
                    told(bare_p99),
                    self.poisson()
                ),
                at_most(even_p99, bare_p99),
            ),
        ]
    }

    /// p99 of Poisson runs, which is not judged.
    fn poisson(&self) -> String {
        let [[sparse_rate, _], [crowded_rate, _]] = [SPARSE, CROWDED];
        let rate: f64 = crowded_rate.parse().unwrap_or(f64::NAN);
        let sending_ns = median(self.sending.clone());
        let while_sending = 100.0 * -(-rate * sending_ns / 1e9).exp_m1();
        format!(
            "Poisson, not judged: {} at {sparse_rate}/s; {} at {crowded_rate}/s, where sending takes {:.1} \
             µs and {while_sending:.1} % of the gaps are shorter",
            told(&self.sparse),
            told(&self.crowded),
            sending_ns / 1e3,
        )
    }
}

/// The median and all of them, in microseconds.
fn told(figures: &[f64]) -> String {
    let all: Vec<_> = figures.iter().map(|ns| format!("{:.2}", ns / 1e3)).collect();
    format!("{:.2} ({})", median(figures.to_vec()) / 1e3, all.join(", "))
}
