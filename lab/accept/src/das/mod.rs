//! Document 003: duplication that cannot hurt. As in §5.2, there are 10 servers with one slot in
//! groups of 3, and one client. Latencies are those of requests. This file contains the simulated
//! lines.

mod real;

use anyhow::Result;
use serde_json::json;

use crate::figures::{at, find, max, min, p99_over, policy, text};
use crate::lab::{Lab, repeated};
use crate::line::Line;
use crate::verdict::{above, least, most, noted};

pub(crate) use real::{HDFS_2, IDS_4, KNEE_5, LIVE_6, NET_3, PRICE_3};

pub(crate) const LINES: [Line; 10] =
    [DAS_1, DAS_1_SHAPE, DAS_1_FORMS, DAS_1_BEST, HDFS_2, NET_3, PRICE_3, IDS_4, KNEE_5, LIVE_6];

pub(crate) const DAS_1: Line = Line {
    number: 1,
    name: "das",
    text: "no primary waits for a duplicate: mean and p99 are not above those of the same policy \
           without duplicates, at 10 to 80 %",
    seconds: 170,
    quick_seconds: 50,
    judge: unhurt,
    ..Line::NEW
};
pub(crate) const DAS_1_SHAPE: Line = Line {
    number: 1,
    name: "das",
    text: "the shape of Figures 1 and 7: 120 ms at a disk, and late responses as in §5.2 \
           (lab/papers/das-noise.txt)",
    seconds: 60,
    quick_seconds: 20,
    judge: shape,
    ..Line::NEW
};
pub(crate) const DAS_1_FORMS: Line = Line {
    number: 1,
    name: "das",
    text: "the stage compared to closed forms: M/M/k and priority queues with and without \
           pre-emption; the throttler finds a knee within 5 s and follows it within 10 s, in \
           virtual time",
    seconds: 30,
    quick_seconds: 30,
    judge: forms,
    ..Line::NEW
};
pub(crate) const DAS_1_BEST: Line = Line {
    number: 1,
    name: "das",
    text: "DAS, LÆDGE, Idealized Hedge and rescue at equal work, 10 to 90 %: the best policy by \
           load",
    seconds: 240,
    quick_seconds: 30,
    judge: best,
    ..Line::NEW
};

const WORLD: &str = "--servers 10 --replicas 3 --yes";

/// With six replications, the 99.8 % interval is this many times as wide as the 95 % interval. A
/// value above it is worse with 99.9 % confidence.
const SURE: f64 = 2.2921;

fn unhurt(lab: &mut Lab<'_>) -> Result<()> {
    const BOTH: &str = "random das das:nonpreemptive";
    const LEAST: &str = "least-outstanding das+least-outstanding";
    const INDEPENDENT: &str = "det:0.01 --jitter h2:1:3 --utilization-of total";
    let (world, suffix) = (lab.var("world", WORLD, WORLD), lab.var("suffix", "", "-smoke"));
    let loads = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8";
    let loads = lab.var("loads", loads, loads);
    let sizes =
        lab.var("sizes", "--requests 60000 --replications 6", "--requests 15000 --replications 6");
    let mut sweeps = Vec::new();
    for (name, policies, times) in [
        ("exponential", BOTH, "exp:1"),
        ("constant", BOTH, "det:1"),
        ("variable", BOTH, "h2:1:3"),
        ("heavy", BOTH, "pareto:1.5:0.33:300"),
        ("independent", BOTH, INDEPENDENT),
        ("least-exponential", LEAST, "exp:1"),
        ("least-heavy", LEAST, "pareto:1.5:0.33:300"),
        ("least-independent", LEAST, INDEPENDENT),
    ] {
        let words = format!(
            "--grid utilization={loads} {world} --service-time {times} {sizes} {}",
            repeated("--policy", policies)
        );
        sweeps.push((name, lab.sweep(words, &format!("out/papers/das-{name}{suffix}"))?));
    }
    for duplicates in ["das", "das:nonpreemptive", "das+least-outstanding"] {
        for of in ["mean", "p99"] {
            let points = sweeps.iter().flat_map(|(_, points)| points);
            let worse = points.map(|point| {
                let figure = |figure: &str| {
                    at(policy(point, duplicates), &format!("/versus_first/{figure}/{of}"))
                };
                let single = at(point, &format!("/outcomes/0/request/{of}"));
                (figure("difference") - SURE * figure("ci95")) / single
            });
            let claim =
                format!("the worst {of} above that of a single copy, beyond chance: {duplicates}");
            lab.check(claim, max(&worse.collect::<Vec<_>>()), most(0.0));
        }
    }
    for (name, duplicates, single) in [
        ("exponential", "das", "random"),
        ("independent", "das", "random"),
        ("least-independent", "das+least-outstanding", "least-outstanding"),
    ] {
        let points = sweeps.iter().filter(|(of, _)| *of == name).flat_map(|(_, points)| points);
        let ratios: Vec<f64> = points.map(|point| p99_over(point, duplicates, single)).collect();
        for extreme in [min(&ratios), max(&ratios)] {
            let claim = format!(
                "{name}: p99 of {duplicates}, relative to a single copy: the lowest and the \
                 highest of the loads"
            );
            lab.check(claim, extreme, noted());
        }
    }
    Ok(())
}

fn shape(lab: &mut Lab<'_>) -> Result<()> {
    let world = lab.var("world", WORLD, WORLD);
    let quick = "--requests 30000 --replications 4";
    let hdfs = lab.var("hdfs", "--requests 100000 --replications 5", quick);
    let policies = "random naive delayed:0ms:cc delayed:120ms delayed:480ms:cc app-timeout:480ms \
                    tied das das:no-purge das+least-outstanding";
    let simulate = |load: &str| {
        let words = format!(
            "{world} {hdfs} --service-time lognormal:120ms:0.3 --network det:1ms \
             --noise file:lab/papers/das-noise.txt --utilization {load} {}",
            repeated("--policy", policies)
        );
        lab.run(format!("@curtail sim --json {words}")).json()
    };
    let [low, middle, high] = [simulate("0.15")?, simulate("0.45")?, simulate("0.75")?];
    for (name, published) in
        [("das", ["0.69", "0.42", "0.53"]), ("das+least-outstanding", ["-", "-", "-"])]
    {
        let loads = [("0.15", &low), ("0.45", &middle), ("0.75", &high)];
        for ((load, results), published) in loads.into_iter().zip(published) {
            let claim = format!(
                "{load}: p99 of {name}, relative to a single copy (published: {published})"
            );
            lab.check(claim, p99_over(results, name, "random"), most(0.99));
        }
    }
    for (name, published) in
        [("naive", "cloning is"), ("delayed:120ms", "hedging for low loads is")]
    {
        let outcome = policy(&high, name);
        lab.holds(
            format!("0.75: {name} is unstable (published: {published})"),
            text(outcome, "/stable"),
            outcome["stable"] == false,
        );
    }
    // Hedges with purging are stable: most duplicates at high load wait, and a waiting duplicate is
    // purged before it costs anything. HDFS has no queue to purge from.
    for (load, results, name) in [
        ("0.15", &low, "delayed:480ms:cc"),
        ("0.45", &middle, "delayed:480ms:cc"),
        ("0.75", &high, "delayed:480ms:cc"),
        ("0.15", &low, "app-timeout:480ms"),
        ("0.75", &high, "app-timeout:480ms"),
        ("0.15", &low, "tied"),
        ("0.45", &middle, "tied"),
        ("0.45", &middle, "das:no-purge"),
        ("0.75", &high, "das:no-purge"),
    ] {
        let claim = format!("{load}: p99 of {name}, relative to DAS");
        lab.check(claim, p99_over(results, name, "das"), least(1.0));
    }
    let claim = "0.75: p99 of tied, relative to DAS (published: stable, too): tied uses the \
                 shorter of two random queues";
    lab.check(claim, p99_over(&high, "tied", "das"), noted());
    Ok(())
}

fn forms(lab: &mut Lab<'_>) -> Result<()> {
    let mut results = Vec::new();
    for tests in [
        "curtail-sim --lib classes::",
        "curtail-kernel --test it stage::",
        "curtail-kernel --test it throttler::",
    ] {
        results.extend(lab.run(format!("cargo test --quiet -p {tests}")).lines("test result: ")?);
    }
    lab.all(DAS_1_FORMS.text, &results, |result| result.contains("ok."));
    let passed = results.iter().map(|result| {
        let digits = result.split(|c: char| !c.is_ascii_digit()).find(|word| !word.is_empty());
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(f64::NAN)
    });
    lab.check("tests that ran", passed.collect::<Vec<f64>>(), above(2.0));
    Ok(())
}

fn best(lab: &mut Lab<'_>) -> Result<()> {
    let suffix = lab.var("suffix", "", "-smoke");
    let quick = "--requests 20000 --replications 3 --grid utilization=0.1,0.5,0.6,0.8";
    let sweep = format!("--yes --file lab/papers/das.toml {}", lab.var("sweep", "", quick));
    let points = lab.sweep(sweep, &format!("out/papers/das{suffix}"))?;
    let point = |clients: u32, load: f64| {
        find(&points, &json!({"grid": {"clients": clients, "utilization": load}}))
    };
    const DAS: &str = "das+least-outstanding";
    for (clients, load, policies) in [
        (1, 0.1, &["psq", "laedge", "idealized", "rescue", DAS][..]),
        (1, 0.5, &["psq", "laedge", "laedge:cc+pc", "least-outstanding"]),
        (1, 0.5, &["idealized", "rescue", "das", DAS]),
        (1, 0.6, &["rescue", DAS]),
        (50, 0.5, &["psq", "laedge:cc+pc", "idealized"]),
        (50, 0.8, &["laedge:cc+pc", "rescue", DAS]),
        (50, 0.5, &["rescue", "laedge", "das", DAS, "least-outstanding"]),
    ] {
        for name in policies {
            let p99 = at(policy(point(clients, load), name), "/request/p99");
            lab.check(format!("{clients} clients, {load}: p99 of {name}"), p99, noted());
        }
    }
    for load in [0.1, 0.5] {
        let claim = format!(
            "one client, {load}: p99 of DAS with least outstanding, relative to least outstanding"
        );
        lab.check(claim, p99_over(point(1, load), DAS, "least-outstanding"), most(1.0));
    }
    Ok(())
}
