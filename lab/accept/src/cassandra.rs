//! C3 on real Cassandra (document 002, §4.4.1): five nodes on this machine, replication factor 3,
//! and YCSB's workloads with records of a kilobyte and Zipf-distributed keys (0.99). Contenders
//! take turns on the same nodes. Ratios are geometric means over rounds, with intervals. `snitch`:
//! any node coordinates, and Cassandra's dynamic snitch chooses the replica. `snitch+retry`: in
//! addition, another replica is tried after p99. `token-aware`: the driver's default. `c3`: our
//! kernel on top of the driver, and each node reads from itself.

use anyhow::Result;
use serde_json::{Value, json};

use crate::figures::{at, find, list, max};
use crate::lab::{Lab, Server, repeated};
use crate::line::Line;
use crate::verdict::{below, least, most, noted};

pub(crate) const LINES: [Line; 3] = [DISTURBED_1, WORKLOADS_2, MORE_3];

pub(crate) const DISTURBED_1: Line = Line {
    number: 1,
    name: "disturbed",
    text: "one node of five is disturbed: C3 compared to the driver's default and the dynamic \
           snitch",
    seconds: 1100,
    quick_seconds: 600,
    needs: &["java", "mvn", "setpriv"],
    judge: disturbed,
    ..Line::NEW
};
pub(crate) const WORKLOADS_2: Line = Line {
    number: 2,
    name: "workloads",
    text: "Figures 4.6 to 4.8: YCSB's read-heavy, update-heavy and read-only workloads, C3 \
           compared to the dynamic snitch",
    seconds: 700,
    quick_seconds: 250,
    judge: workloads,
    ..DISTURBED_1
};
pub(crate) const MORE_3: Line = Line {
    number: 3,
    name: "more",
    text: "updates that join (Figure 4.11), skewed record sizes, QUORUM (4.14), 1 to 20 keys per \
           read, compaction",
    seconds: 1300,
    quick_seconds: 400,
    judge: more,
    ..DISTURBED_1
};

/// Names of contenders.
const ALL: [&str; 4] = ["snitch", "snitch+retry", "token-aware", "c3"];

fn nodes(lab: &Lab<'_>) -> String {
    lab.var("nodes", "--dir out/cassandra", "--dir out/cassandra")
}

fn start(lab: &Lab<'_>) -> Result<Server> {
    let records = lab.number("records", 1_000_000, 100_000)?;
    lab.server(format!("@cassandra {} nodes --records {records}", nodes(lab)))?.announced()
}

fn run(lab: &Lab<'_>, contenders: &str, flags: &str) -> Result<Value> {
    let records = lab.number("records", 1_000_000, 100_000)?;
    let [seconds, warmup] = [lab.number("seconds", 12, 9)?, lab.number("warmup", 60, 45)?];
    let run = format!(
        "run --json --records {records} --seconds {seconds} --generators 20 --warmup {warmup}"
    );
    let run = lab.var("run", &run, &run);
    lab.run(format!("@cassandra {} {run} {contenders} {flags}", nodes(lab))).json()
}

fn contender<'a>(results: &'a Value, name: &str) -> &'a Value {
    find(list(results), &json!({ "name": name }))
}

/// Returns a figure of C3 relative to another contender: its `ratio`, or the `low` or `high` end of
/// the interval.
fn relative(results: &Value, other: &str, figure: &str, end: &str) -> f64 {
    at(contender(results, "c3"), &format!("/over/{other}/{figure}/{end}"))
}

fn disturbed(lab: &mut Lab<'_>) -> Result<()> {
    let _nodes = start(lab)?;
    let all = repeated("--contender", &ALL.join(" "));
    let all = lab.var("all", &all, &all);
    let [rate, rounds] = [lab.number("rate", 1000, 1000)?, lab.number("rounds", 3, 2)?];
    let measure =
        |what: &str| run(lab, &all, &format!("--rate {rate} --rounds {rounds} --disturb {what}"));
    let runs = [
        ("pause:2", measure("pause:2")?),
        ("throttle:0.2:5", measure("throttle:0.2:5")?),
        ("none", measure("none")?),
    ];
    for (what, results) in &runs[..2] {
        for other in ["token-aware", "snitch", "snitch+retry"] {
            for figure in ["p99", "p999"] {
                let ratio = relative(results, other, figure, "ratio");
                let claim = format!("{what}: {figure} of reads, C3 relative to {other}");
                lab.check(claim, ratio, below(1.0));
            }
        }
    }
    // The index of dispersion is the variance over the mean of the reads per 100 ms, at the busiest
    // node. It is 1 if reads arrive at random. The coefficient of variation is not used, because it
    // is low if one node serves most reads, as with the snitch.
    for (what, results) in &runs {
        for other in ["token-aware", "snitch"] {
            let claim = format!(
                "{what}: index of dispersion of the busiest node's load, C3 relative to {other}"
            );
            lab.check(claim, relative(results, other, "dispersion", "ratio"), below(1.0));
        }
    }
    // C3 is not worse, apart from chance.
    for (what, results) in &runs {
        let figures = if *what == "none" { &["p50", "p99", "p999"][..] } else { &["p50"] };
        for other in ["token-aware", "snitch"] {
            for figure in figures {
                let claim = format!(
                    "{what}: {figure}, C3 relative to {other}: the lower end of the interval"
                );
                lab.check(claim, relative(results, other, figure, "low"), most(1.0));
            }
        }
    }
    for (what, results) in &runs {
        for other in ["token-aware", "snitch"] {
            let claim = format!(
                "{what}: throughput of a closed loop, C3 relative to {other}: the upper end of the \
                 interval"
            );
            lab.check(claim, relative(results, other, "throughput", "high"), least(1.0));
        }
    }
    for (what, results) in &runs {
        for who in ALL {
            let p99 = at(contender(results, who), "/latency/p99");
            lab.check(format!("{what}: p99 of {who}, in ms"), p99, noted());
        }
    }
    let all = runs.iter().flat_map(|(_, results)| list(results));
    let errors: Vec<f64> = all.map(|contender| at(contender, "/errors")).collect();
    lab.check("failed requests of all contenders", max(&errors), noted());
    Ok(())
}

fn workloads(lab: &mut Lab<'_>) -> Result<()> {
    let _nodes = start(lab)?;
    let [rate, rounds] = [lab.number("rate", 1000, 1000)?, lab.number("fewer", 3, 1)?];
    let both = repeated("--contender", "snitch c3");
    let mut runs = Vec::new();
    for reads in ["0.95", "0.5", "1"] {
        let flags = format!("--rate {rate} --rounds {rounds} --reads {reads}");
        runs.push((reads, run(lab, &both, &flags)?));
    }
    for ((reads, results), published) in runs.iter().zip(["0.29", "0.38", "0.38"]) {
        let p999 = |name| at(contender(results, name), "/latency/p999");
        let claim = format!(
            "{reads} reads: p99.9, C3 relative to the snitch (published, minus the median: \
             {published})"
        );
        lab.check(claim, p999("c3") / p999("snitch"), most(1.0));
    }
    for ((reads, results), published) in runs.iter().zip(["1.43", "1.26", "between"]) {
        let claim = format!(
            "{reads} reads: throughput, C3 relative to the snitch (published: {published})"
        );
        lab.check(claim, relative(results, "snitch", "throughput", "ratio"), least(1.0));
    }
    for (reads, results) in &runs {
        let claim = format!(
            "{reads} reads: index of dispersion of the busiest node's load, C3 relative to the \
             snitch"
        );
        lab.check(claim, relative(results, "snitch", "dispersion", "ratio"), noted());
    }
    Ok(())
}

fn more(lab: &mut Lab<'_>) -> Result<()> {
    let _nodes = start(lab)?;
    let rounds = lab.number("fewer", 3, 1)?;
    let three = repeated("--contender", "snitch token-aware c3");
    let measure = |flags: &str| run(lab, &three, &format!("--rounds {rounds} --rate {flags}"));
    let join = measure("300 --join 300")?;
    let skewed = measure("400 --table skewed")?;
    let quorum = measure("250 --quorum")?;
    let keys = measure("40 --keys 20")?;
    let compact = measure("400 --disturb compact")?;
    for (what, results, figure, published) in [
        ("join", &join, "after_join", "below 1"),
        ("skewed", &skewed, "p99", "0.47"),
        ("quorum", &quorum, "p999", "0.56"),
    ] {
        let claim = format!("{what}: {figure}, C3 relative to the snitch (published: {published})");
        lab.check(claim, relative(results, "snitch", figure, "ratio"), most(1.0));
    }
    for (what, results, other, published) in [
        ("keys", &keys, "token-aware", "about 1"),
        ("keys", &keys, "snitch", "-"),
        ("compact", &compact, "snitch", "-"),
        ("compact", &compact, "token-aware", "-"),
    ] {
        let claim = format!("{what}: p99, C3 relative to {other} (published: {published})");
        lab.check(claim, relative(results, other, "p99", "ratio"), noted());
    }
    Ok(())
}
