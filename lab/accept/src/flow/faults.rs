//! Simulated lines of document 002, chapter 5, in which processes fail or change their speed.

use anyhow::Result;
use serde_json::Value;

use super::{all, graph, tuned, workflow};
use crate::figures::{at, each, list, max};
use crate::lab::Lab;
use crate::line::Line;
use crate::verdict::{least, most, noted};

pub(super) const FAULTS_13: Line = Line {
    number: 13,
    name: "faults",
    text: "simulated: announcements are lost and late, and processes die, are slow, are silent, or \
           announce nonsense",
    seconds: 90,
    quick_seconds: 50,
    judge: faults,
    ..Line::NEW
};
pub(super) const REPLICAS_14: Line = Line {
    number: 14,
    name: "replicas",
    text: "simulated, §5.4: flow control if callers rank replicas whose speeds change",
    seconds: 120,
    quick_seconds: 60,
    judge: replicas,
    ..Line::NEW
};

fn faults(lab: &mut Lab<'_>) -> Result<()> {
    announcements(lab)?;
    let faults = graph(lab, "faults.toml", "timeouts lstf+rc google dagor")?;
    // The requests in time in the n-th period of five seconds, in which 9,000 are offered.
    let good = |of: &str, period: u32| all(&faults, of, &format!("series/{period}/good"));
    for (what, period, of, bound) in [
        (
            "one of the store and one of the ledger are down, the second included in which this is \
             found out",
            2,
            8200.0,
            0.95,
        ),
        ("they are down, later", 3, 8200.0, 0.97),
        ("they are four times slower", 7, 7900.0, 0.97),
        ("they are silent", 11, 9000.0, 0.97),
        ("they announce nonsense", 15, 9000.0, 0.97),
        ("a shop is silent", 19, 9000.0, 0.97),
        ("a shop announces nonsense", 22, 9000.0, 0.97),
    ] {
        let claim =
            format!("while {what}: goodput over the available capacity (of 1,800 per second)");
        lab.check(claim, good("lstf+rc", period) / of, least(bound));
    }
    for (what, period) in [("down", 5), ("slow", 9), ("silent", 13), ("nonsense", 17)] {
        let claim =
            format!("{what}: goodput from the sixth second after it to the tenth over that before");
        lab.check(claim, good("lstf+rc", period) / good("lstf+rc", 1), least(0.95));
    }
    for (what, period) in [("is silent", 11), ("announces nonsense", 15)] {
        let pinned = workflow(&faults, "lstf+rc", "pinned");
        let claim = format!(
            "a workflow of 40 per second that needs one process alone, while that {what}: goodput \
             over the offered load"
        );
        lab.check(claim, at(pinned, &format!("/series/{period}/good")) / 200.0, least(0.9));
    }
    for of in ["timeouts", "google", "dagor"] {
        for (period, when) in [(7, "while they are slow"), (9, "10 s after")] {
            let claim = format!("{of}: goodput over the offered load, {when}");
            lab.check(claim, good(of, period) / 9000.0, noted());
        }
    }
    Ok(())
}

/// Judges what lost and late announcements do to goodput and to the rates.
fn announcements(lab: &mut Lab<'_>) -> Result<()> {
    let lossy =
        |loss: &str, delay: &str| tuned(lab, &format!("--tune loss={loss} --tune delay={delay}"));
    let [without, some, most_lost, all_lost] =
        [lossy("0", "0")?, lossy("0.3", "0.3")?, lossy("0.9", "1")?, lossy("1", "0")?];
    let claim = "1.5 times the capacity, 30 % of the announcements lost, 300 ms late: goodput over \
                 that without";
    lab.check(claim, some / without, least(0.95));
    lab.check("the same with 0.9 lost, 1 s late", most_lost / without, noted());
    lab.check("the same with 1 lost, 0 s late", all_lost / without, noted());
    let steps = lab.run("@soa settle --json --depth 3 --width 10 --loss 0.3 --delay 0.3").json()?;
    let claim = "the same losses and delays: number of intervals until the rates settle after a \
                 step, three services of ten: the maximum";
    lab.check(claim, max(&each(list(&steps), "/intervals")), most(20.0));
    let claim = "the same losses and delays: swing of the rates in the last 5 s (standard \
                 deviation over mean): the maximum";
    lab.check(claim, max(&each(list(&steps), "/swing")), most(0.15));
    Ok(())
}

fn replicas(lab: &mut Lab<'_>) -> Result<()> {
    let mut tier: Vec<(&str, &str, Value)> = Vec::new();
    for (load, routes) in [
        ("0.7", &["random", "c3"][..]),
        ("0.9", &["random", "c3"]),
        ("1", &["random", "c3", "least-outstanding", "two-choices"]),
        ("1.2", &["random", "c3"]),
    ] {
        for route in routes {
            let words = format!("replicas.toml --load {load} --route store={route}");
            tier.push((load, route, graph(lab, &words, "timeouts lstf+rc")?));
        }
    }
    let at_load = |load: &str, route: &str| {
        let found = tier.iter().find(|(of, by, _)| *of == load && *by == route);
        found.map_or(&Value::Null, |(_, _, results)| results)
    };
    for (load, route, of, bound) in [
        ("0.7", "random", "timeouts", 2.0),
        ("0.7", "random", "lstf+rc", 1.3),
        ("0.7", "c3", "timeouts", 0.99),
        ("0.9", "random", "timeouts", 2.0),
        ("0.9", "random", "lstf+rc", 1.3),
        ("0.9", "c3", "timeouts", 0.99),
        ("1", "random", "timeouts", 2.0),
        ("1", "random", "lstf+rc", 1.3),
        ("1", "c3", "timeouts", 2.0),
        ("1.2", "random", "lstf+rc", 1.3),
        ("1", "least-outstanding", "lstf+rc", 0.99),
        ("1", "two-choices", "lstf+rc", 1.0),
    ] {
        let claim = format!(
            "{load} times the capacity: goodput of c3 and lstf+rc over that of {route} and {of}"
        );
        let ours = all(at_load(load, "c3"), "lstf+rc", "goodput");
        lab.check(claim, ours / all(at_load(load, route), of, "goodput"), least(bound));
    }
    let shown = [
        ("0.7", "random", "timeouts"),
        ("0.7", "random", "lstf+rc"),
        ("0.7", "c3", "timeouts"),
        ("0.7", "c3", "lstf+rc"),
        ("1", "random", "lstf+rc"),
        ("1", "c3", "timeouts"),
        ("1", "c3", "lstf+rc"),
        ("1.2", "random", "lstf+rc"),
        ("1.2", "c3", "timeouts"),
        ("1.2", "c3", "lstf+rc"),
    ];
    for (load, route, of) in shown {
        let results = at_load(load, route);
        let claim =
            format!("{load} times the capacity: goodput over the offered load, {route} and {of}");
        lab.check(claim, all(results, of, "goodput") / all(results, of, "offered"), noted());
    }
    for (load, route, of) in &shown[..7] {
        let claim = format!("{load} times the capacity: p99 of responses, {route} and {of}");
        let p99 = all(at_load(load, route), of, "latency_ms/p99");
        lab.check(claim, p99, noted().unit("ms"));
    }
    Ok(())
}
