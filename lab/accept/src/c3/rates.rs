//! What rates have to do with C3 (document 002, chapter 4): its figures of a surge, the parameters
//! that the source does not specify, and the effects of rates in other worlds.
//!
//! A client compares its rate with the rate of the responses. In that rate, each response counts as
//! 0.5 copies per 20 ms, or as 1 copy if the source is followed to the letter. Therefore the rates
//! that 150 clients keep for a server add up to 3,750 or 7,500 copies per second, while the server
//! can handle 2,000. If few clients send much, rates limit them, and lag behind servers that change
//! their speed. If the bursts of one client overload the servers, this client waits for its own
//! rates. Without rates, all clients wait.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;

use super::{LINE, limited, p99, sim, simulate, sizes};
use crate::figures::{at, max, p99_over, policy};
use crate::lab::Lab;
use crate::line::Line;
use crate::verdict::{least, most, near, noted};

pub(crate) const C3_5: Line = Line {
    number: 5,
    text: "Figure 4.20: 10 clients, 10 servers, and three clients that surge from 15 to 60 % after \
           10 s: at most 1 % of the queries wait for a rate, so rates have no effect",
    seconds: 5,
    judge: surge,
    ..LINE
};
pub(crate) const C3_6: Line = Line {
    number: 6,
    text: "parameters that the source does not specify: p99 of c3+cubic in ms with other choices, \
           in the world of Figure 4.15 (300 clients, T = 100 ms), and of the clients that surge in \
           that of 4.20",
    seconds: 40,
    judge: parameters,
    ..LINE
};
pub(crate) const C3_10: Line = Line {
    number: 10,
    text: "effects of rates: none at high fan-in, harm if speeds change, and protection of other \
           clients from the bursts of one",
    seconds: 60,
    quick_seconds: 60,
    judge: effects,
    ..LINE
};

/// The world of Figure 4.20.
const SURGE: &str = "--servers 10 --clients 10 --replicas 3 --slots 4 --service-time exp:4ms \
                     --network det:250us --utilization 0.15 --surge 10s:3:0.6 --requests 60000 \
                     --warmup 0.25 --replications 5";

fn surge(lab: &mut Lab<'_>) -> Result<()> {
    let policies = "c3 c3+cubic c3:literal c3+fast:200ms c3+aimd c3+bic prequal";
    let results = sim(lab, &format!("{SURGE} --out out/papers/c3-4.20"), policies)?;
    let of = |name: &str, pointer: &str| at(policy(&results, name), pointer);
    // This does not check rates, because `c3` has none.
    let claim = "c3, which limits no rate: p99 of the clients whose demand stays, in ms (published \
                 with CUBIC: 19.43)";
    lab.check(claim, of("c3", "/servers/other_clients/p99"), near(19.43, 4.86));
    // In the published figures of AIMD and BIC, rates limit the clients, and overshoot while the
    // backlog drains. Our rates follow an average of the responses. Tokens for ten copies at once
    // cover the surge.
    let rates = [
        ("c3+cubic", "1", 0.001),
        ("c3:literal", "1", 0.001),
        ("c3+fast:200ms", "0.98", 0.001),
        ("c3+aimd", "1.34", 0.001),
        ("c3+bic", "1.33", 0.01),
    ];
    for (name, published, _) in rates {
        let claim = format!(
            "{name} over c3 without rates: p99 of the clients whose demand stays (published over \
             CUBIC: {published})"
        );
        lab.check(
            claim,
            of(name, "/servers/other_clients/p99") / of("c3", "/servers/other_clients/p99"),
            near(1.0, 0.02),
        );
    }
    for (name, _, share) in rates {
        let claim = format!("{name}: the share of queries that waited for a rate");
        lab.check(claim, limited(policy(&results, name)), most(share));
    }
    for name in ["c3", "c3+cubic", "c3+fast:200ms", "c3+aimd", "c3+bic", "prequal"] {
        let claim = format!("{name}: p99 of the clients that surge, in ms");
        lab.check(claim, of(name, "/servers/busy_clients/p99"), noted());
    }
    let claim = "prequal, which limits no rate: p99 of the clients whose demand stays, in ms";
    lab.check(claim, of("prequal", "/servers/other_clients/p99"), noted());
    for name in ["c3", "c3+cubic"] {
        let claim = format!(
            "{name}: the most requests at a server (published with CUBIC: a short spike of up to \
             20)"
        );
        lab.check(claim, of(name, "/servers/most_outstanding"), most(20.0));
    }
    Ok(())
}

fn parameters(lab: &mut Lab<'_>) -> Result<()> {
    for tune in [
        "sample-weight=0.9",
        "sample-weight=0.5",
        "sample-weight=0.1",
        "sample-window-ms=0",
        "sample-window-ms=200",
        "stale-ms=100",
        "stale-ms=10000",
        "initial-rate=1",
        "burst=1",
        "rate-decrease=0.8",
    ] {
        let sizes = sizes(lab);
        let flags =
            format!("{sizes} --clients 300 --utilization 0.7 --speed 3:100ms --tune {tune}");
        lab.check(tune, p99(&simulate(lab, &flags, "c3+cubic")?[0]), noted());
    }
    for tune in [
        "rate-window-ms=40",
        "rate-window-ms=20",
        "rate-window-ms=100",
        "rate-decrease=0.8",
        "burst=1",
        "burst=30",
        "saddle-ms=50",
        "saddle-ms=200",
    ] {
        let results = sim(lab, &format!("{SURGE} --tune {tune}"), "c3+cubic")?;
        let p99 = at(&results, "/0/servers/busy_clients/p99");
        lab.check(format!("surge, {tune}"), p99, noted());
    }
    Ok(())
}

/// The policies with rates.
const RATES: [&str; 2] = ["c3+cubic", "c3:literal"];
const ALL: [&str; 5] = ["c3", "c3+cubic", "c3:literal", "least-outstanding", "prequal"];

/// Simulates worlds in which few or many clients use rates.
fn worlds(lab: &Lab<'_>) -> Result<BTreeMap<&'static str, Value>> {
    let common = "--replicas 3 --slots 4 --network det:250us --yes --replications 5";
    let fifty = "--requests 100000 --servers 50 --speed 3:500ms --repair 0.1";
    let nine = "--requests 200000 --servers 9";
    let mut worlds = BTreeMap::new();
    for (what, with) in [
        ("fan-in", format!("{fifty} --clients 150 --utilization 0.7")),
        ("fan-in-overload", format!("{fifty} --clients 150 --utilization 1.2")),
        ("ten-overload", format!("{fifty} --clients 10 --utilization 1.2")),
        ("one", format!("{nine} --clients 1 --utilization 0.8 --speed 3:500ms")),
        ("three", format!("{nine} --clients 3 --utilization 0.8 --speed 3:500ms")),
        (
            "fast",
            "--requests 500000 --servers 9 --clients 1 --utilization 0.7 --speed 3:500ms".into(),
        ),
        ("skew", format!("{nine} --clients 10 --demand 0.2:0.8 --utilization 0.7 --speed 3:100ms")),
        (
            "third",
            "--requests 200000 --servers 3 --clients 3 --utilization 0.6 --turn 2s:1:0.33".into(),
        ),
        ("burst", format!("{nine} --clients 1 --utilization 0.6 --arrivals mmpp:4:0.1:500ms")),
    ] {
        let service = if what == "fast" { "exp:400us" } else { "exp:4ms" };
        let flags = format!("{common} --service-time {service} {with}");
        worlds.insert(what, sim(lab, &flags, &ALL.join(" "))?);
    }
    Ok(worlds)
}

fn effects(lab: &mut Lab<'_>) -> Result<()> {
    let worlds = worlds(lab)?;
    let of = |what: &str, name: &str, pointer: &str| at(policy(&worlds[what], name), pointer);
    for what in ["fan-in", "fan-in-overload"] {
        for rate in RATES {
            lab.check(waited(what, rate), limited(policy(&worlds[what], rate)), most(0.001));
        }
    }
    for what in ["ten-overload", "one", "three", "fast", "skew", "third", "burst"] {
        for rate in RATES {
            lab.check(waited(what, rate), limited(policy(&worlds[what], rate)), noted());
        }
    }
    let harmed = [("one", 2.0), ("three", 1.3), ("fast", 10.0), ("skew", 1.5)];
    for (what, bound) in harmed {
        for rate in RATES {
            let claim = format!("{what}: p99 over c3 without rates, {rate}");
            lab.check(claim, p99_over(&worlds[what], rate, "c3"), least(bound));
        }
    }
    for (what, _) in harmed {
        let versus = |figure| of(what, "c3+cubic", &format!("/versus_first/{figure}/p99"));
        let claim = format!(
            "{what}: p99 of c3+cubic less that of c3, less the half width of the interval of the \
             difference, in ms"
        );
        lab.check(claim, versus("difference") - versus("ci95"), least(10.0));
    }
    for what in ["fan-in", "one", "three", "fast", "skew", "third", "burst"] {
        for name in ALL {
            let p99 = of(what, name, "/request/p99");
            lab.check(format!("{what}, {name}: p99, in ms"), p99, noted());
        }
    }
    let full = ["fan-in-overload", "ten-overload", "burst"];
    for what in full {
        for name in ["c3", "c3+cubic", "c3:literal"] {
            let claim = format!("{what}, {name}: the most requests at a server");
            lab.check(claim, of(what, name, "/servers/most_outstanding"), noted());
        }
    }
    for what in full {
        for rate in RATES {
            let busy = |name| of(what, name, "/utilization/busy");
            let claim = format!(
                "{what}: how busy the servers are, {rate} over c3: both serve the same load"
            );
            lab.check(claim, busy(rate) / busy("c3"), near(1.0, 0.01));
        }
    }
    bully(lab)
}

fn waited(what: &str, rate: &str) -> String {
    format!("{what}, {rate}: the share of queries that waited for a rate")
}

fn bully(lab: &mut Lab<'_>) -> Result<()> {
    let mut runs = Vec::new();
    for seed in 42..=46 {
        let flags = format!(
            "--servers 10 --clients 10 --replicas 3 --slots 4 --network det:250us \
             --service-time exp:4ms --demand 0.1:0.8 --utilization 0.7 --arrivals mmpp:3:0.1:300ms \
             --requests 200000 --replications 1 --seed {seed}"
        );
        runs.push(sim(lab, &flags, &ALL.join(" "))?);
    }
    for (claim, figure, bound) in [
        ("one aggressive client among ten: p99 of the others", "other_clients/p99", 0.5),
        ("its own p99", "busy_clients/p99", 1.5),
        ("the most requests at a server", "most_outstanding", 0.8),
    ] {
        for rate in RATES {
            let ratio = |run: &Value| {
                let of = |name| at(policy(run, name), &format!("/servers/{figure}"));
                of(rate) / of("c3")
            };
            let ratios: Vec<f64> = runs.iter().map(ratio).collect();
            let claim = format!("{claim} over that without rates, {rate}, the worst of five seeds");
            lab.check(claim, max(&ratios), most(bound));
        }
    }
    Ok(())
}
