//! The library: any client, any server, any policy.

use anyhow::{Context as _, Result};

use crate::figures::{first_numbers, numbers};
use crate::lab::Lab;
use crate::line::Line;
use crate::verdict::{above, below, least, most};

pub(crate) const LINES: &[Line] = &[
    Line {
        number: 1,
        name: "scatter",
        text: "three shards of two leaves, 1 % of the responses 80 ms late",
        seconds: 70,
        quick_seconds: 70,
        judge: scatter,
        ..Line::NEW
    },
    Line {
        number: 1,
        name: "tonic",
        text: "a generated gRPC client on a shard, 2 % of the responses 80 ms late",
        seconds: 70,
        quick_seconds: 70,
        judge: tonic,
        ..Line::NEW
    },
    Line {
        number: 2,
        name: "findings",
        text: "tests of the library that passed",
        seconds: 30,
        quick_seconds: 30,
        judge: findings,
        ..Line::NEW
    },
    Line {
        number: 3,
        name: "policy",
        text: "a pick and a hedge of one's own, from outside of the tree",
        seconds: 60,
        quick_seconds: 60,
        judge: policy,
        ..Line::NEW
    },
];

/// Runs an example, and returns the numbers in the line of a policy.
fn rows(lab: &Lab<'_>, example: &str) -> Result<[Vec<f64>; 2]> {
    let cargo = "cargo run --release --quiet -p curtail --example";
    let text = lab.run(format!("{cargo} {example}")).output()?.text;
    let row = |policy: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(policy));
        line.map(numbers).with_context(|| format!("{example} prints no line {policy}"))
    };
    Ok([row("least-outstanding")?, row("rescue")?])
}

/// The number in a column.
fn column(row: &[f64], at: usize) -> f64 {
    row.get(at).copied().unwrap_or(f64::NAN)
}

fn scatter(lab: &mut Lab<'_>) -> Result<()> {
    let [alone, rescue] = rows(lab, "scatter")?;
    lab.check("p99 without second copies, in ms", column(&alone, 1), above(80.0));
    lab.check("p99 with rescue, in ms", column(&rescue, 1), below(30.0));
    lab.check("copies per query with rescue", column(&rescue, 2), below(1.1));
    let failed = vec![column(&alone, 3), column(&rescue, 3)];
    lab.check("requests that failed", failed, most(0.0));
    Ok(())
}

fn tonic(lab: &mut Lab<'_>) -> Result<()> {
    let [alone, rescue] = rows(lab, "tonic")?;
    lab.check("p99 without second copies, in ms", column(&alone, 1), above(80.0));
    lab.check("p99 with rescue, in ms", column(&rescue, 1), below(30.0));
    Ok(())
}

fn findings(lab: &mut Lab<'_>) -> Result<()> {
    let test = "cargo test --quiet -p curtail --all-features --test it --test examples";
    let results = lab.run(test).lines("test result: ok.")?;
    lab.check_line(first_numbers(&results).iter().sum::<f64>(), least(31.0));
    Ok(())
}

fn policy(lab: &mut Lab<'_>) -> Result<()> {
    let run = "cargo run --quiet --locked --manifest-path examples/policy/Cargo.toml";
    let text = lab.run(run).output()?.text;
    // The columns of the table are the policy, its p99 and its copies per query.
    let p99 = |policy: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(policy));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN)
    };
    let own = p99("patient:50ms+last-used ");
    lab.check("simulated p99, relative to psq", own / p99("psq "), below(0.95));
    let swept = text.lines().filter(|line| {
        line.starts_with("utilization ") && line.contains(" patient:50ms+last-used ")
    });
    lab.check("points of the sweep", swept.count() as f64, least(2.0));
    let slowest =
        text.lines().find_map(|line| line.split_once("slowest query took ")?.1.split("ms").next());
    let slowest = slowest.and_then(|ms| ms.parse().ok()).unwrap_or(f64::NAN);
    lab.check("the slowest of 500 queries, 200 ms on a slow server, in ms", slowest, below(150.0));
    Ok(())
}
