//! Line 2: requests are sent when they are meant to be.

use std::path::Path;

use anyhow::Result;

use super::tools::{Server, example, json, median, number};
use crate::accept::finding::{Finding, Verdict};
use crate::cargo::{self, Profile};

/// Turns of the loop that does nothing and of the generator, one after the other.
const ROUNDS: u32 = 7;
/// Few enough requests per second that their sending and receiving, some 30 µs each on a virtual machine,
/// takes 0.2 % of the time; and so many seconds that there is a p99.
const RATE: &str = "50";
const SECONDS: &str = "24";
/// So many that one request often is due while another is being sent, which no single thread can better.
const CROWDED: &str = "2000";
const CROWDED_SECONDS: &str = "5";
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
    findings.extend(lags(root)?);
    Ok(findings)
}

fn lags(root: &Path) -> Result<Vec<Finding>> {
    let (stub, lateness) = (example(root, "stub")?, example(root, "lateness")?);
    let curtail = cargo::curtail(root, Profile::Release)?;
    let server =
        Server::start(Path::new("taskset"), &["-c", "1", &stub.display().to_string(), "http1"])?;
    let target = format!("http://{}/x", server.address);
    let [lateness, curtail] = [lateness, curtail].map(|path| path.display().to_string());
    let load = |rate: &str, seconds: &str, seed: &str| {
        let duration = format!("{seconds}s");
        let plan = ["--rate", rate, "--duration", &duration, "--seed", seed];
        let waiting = ["--spin", "--processors", "0", "--json"];
        json(&curtail, &[&["load", &target], &plan[..], &waiting[..]].concat())
    };
    let (mut bare, mut ours, mut crowded) = (vec![], vec![], vec![]);
    let (mut p50, mut sending, mut failed) = (vec![], vec![], 0);
    let mut p95 = [vec![], vec![]];
    for round in 0..ROUNDS {
        let seed = round.to_string();
        let alone = json("taskset", &["-c", "0", &lateness, RATE, SECONDS, &seed])?;
        bare.push(number(&alone, &["p99"]) / 1e3);
        let few = load(RATE, SECONDS, &seed)?;
        ours.push(number(&few, &["schedule_lag_ns", "p99"]) / 1e3);
        p95[0].push(number(&few, &["schedule_lag_ns", "p95"]));
        p95[1].push(number(&alone, &["p95"]));
        let many = load(CROWDED, CROWDED_SECONDS, &seed)?;
        crowded.push(number(&many, &["schedule_lag_ns", "p99"]) / 1e3);
        sending.push(number(&many, &["split_ns", "p50", "client_send"]) / 1e3);
        for load in [few, many] {
            p50.push(number(&load, &["schedule_lag_ns", "p50"]) / 1e3);
            failed += u32::from(round < SEEDS && load["arrival_test"]["failed"] != false);
        }
    }
    let all = |figures: &[f64]| {
        figures.iter().map(|figure| format!("{figure:.2}")).collect::<Vec<_>>().join(", ")
    };
    let (told_bare, told_ours) = (all(&bare), all(&ours));
    let (worst, bare, ours) = (p50.iter().copied().fold(0.0, f64::max), median(bare), median(ours));
    let (crowded, sending) = (median(crowded), median(sending));
    let [p95_ours, p95_bare] = p95.map(median);
    let rate: f64 = CROWDED.parse()?;
    let while_sending = 100.0 * -(-rate * sending / 1e6).exp_m1();
    Ok(vec![
        Finding::new(
            "requests as sent pass the test of their process",
            format!("{failed} of {} runs failed it", 2 * SEEDS),
            failed == 0,
        ),
        Finding::new(
            "p50 of the lag under 10 µs with spinning",
            format!("{worst:.2} µs at most"),
            worst < 10.0,
        ),
        Finding::new(
            "p95 of the lag, which the machine's pauses seldom reach, at most 1.5 × the loop's",
            format!("median {p95_ours:.0} ns; the loop {p95_bare:.0} ns"),
            p95_ours <= 1.5 * p95_bare,
        ),
        Finding::new(
            "p99 of the lag at most 1.5 × that of a bare loop on the same core",
            format!(
                "median {ours:.2} µs ({told_ours}) at {RATE}/s; the loop {bare:.2} µs ({told_bare}). At \
                 {CROWDED}/s it is {crowded:.1} µs: sending takes {sending:.1} µs, and {while_sending:.1} % \
                 of the gaps are shorter"
            ),
            ours <= 1.5 * bare,
        ),
    ])
}
