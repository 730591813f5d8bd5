//! C3 in the data plane, compared with other policies and other proxies.
//!
//! The search service has two replicas with one slot. Each can serve 333 queries per second, but
//! the first one only 111 in the slow periods. The load is 55 % of their average capacity, and 69 %
//! of their capacity in the slow periods. Half of the load would be too much for the slow replica.
//! Periods count from the first query of a run. A run contains two slow periods and two others (a
//! quick run contains one of each). In a round, all runs have the same arrivals, queries and
//! service times. Only rescue limits the number of queries that a replica holds.
//!
//! Service times vary little here. If they varied more, p99 would reflect long queries rather than
//! queues.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use serde_json::Value;

use crate::figures::{each, list, over, text};
use crate::lab::{Lab, Server, kept_up};
use crate::line::Line;
use crate::proxies::{CURTAIL, ENVOY, HAPROXY, Proxy};
use crate::verdict::{below, noted};

pub(crate) const PROXY_9: Line = Line {
    number: 9,
    name: "proxy",
    text: "the search service, one of two replicas three times slower for 10 s periods: p99 of C3 \
           in the proxy, compared with other policies",
    seconds: 720,
    quick_seconds: 175,
    judge: proxy,
    ..Line::NEW
};

/// Policies of our proxy, and other proxies.
const FRONTS: [&str; 6] = ["c3", "least-outstanding", "rescue", "prequal", "HAProxy", "Envoy"];

fn proxy_of(front: &str) -> Proxy {
    match front {
        "HAProxy" => HAPROXY,
        "Envoy" => ENVOY,
        _ => CURTAIL,
    }
}

fn start(lab: &Lab<'_>, front: &str, leaves: &[&Server]) -> Result<Server> {
    let values = [
        ("policy", front),
        ("more", if front == "prequal" { r#"probe = "/load""# } else { "" }),
        // HAProxy does not limit the connections to a server.
        ("slots", if front == "HAProxy" { "0" } else { "1" }),
        ("selection", "N_CHOICES"),
    ];
    proxy_of(front).start(lab, "", "", leaves, &values)?.ready("/health")
}

/// Measures one front, and returns the report of the load generator.
fn measure(lab: &Lab<'_>, front: &str, round: usize) -> Result<Value> {
    let rate = lab.number("rate", 305_usize, 305)?;
    let [warmup, span] = [lab.number("warmup", 10, 5)?, lab.number("span", 40, 20)?];
    let mut queries = String::new();
    for number in 1..=rate * (warmup + span) * 2 {
        writeln!(queries, "/search?q=hedge&n={round}.{number}")?;
    }
    let file = lab.folder.join("queries.txt");
    std::fs::write(&file, queries)?;
    let service = lab.var("service", "gamma:3ms:0.3", "gamma:3ms:0.3");
    let leaf = |slow: &str| {
        let leaf = "@curtail leaf --slots 1 --queue 4096 --tied-to-stdin --service-time";
        lab.server(format!("{leaf} {service} {slow}"))?.announced()
    };
    let leaves = [leaf("--slow 3:10s")?, leaf("")?];
    let front = start(lab, front, &leaves.each_ref())?;
    let load = format!(
        "@curtail load http://{} --rate {rate} --seed 42{round} --connections 1024 \
         --duration {span}s --warmup {warmup}s --json --queries",
        front.address
    );
    lab.run(load).arg(file).json()
}

fn validity(report: &Value) -> String {
    let reasons = list(&report["invalid_because"]).iter().map(|reason| text(reason, "/text"));
    let reasons: Vec<String> = reasons.collect();
    if report["valid"] == true { "true".into() } else { format!("false [{}]", reasons.join("; ")) }
}

fn proxy(lab: &mut Lab<'_>) -> Result<()> {
    let (mut missing, mut there) = (BTreeMap::new(), Vec::new());
    for front in FRONTS {
        match lab.lacking(proxy_of(front).need) {
            Some(why) => drop(missing.insert(front, why)),
            None => there.push(front),
        }
    }
    let rounds = lab.number("rounds", 2, 1)?;
    let turn = |side: usize, round| measure(lab, there[side], round);
    let reports = lab.rounds(there.len(), rounds, turn, kept_up)?;
    let reports: BTreeMap<&str, Vec<Value>> = there.iter().copied().zip(reports).collect();
    for (of, fronts) in
        [("ours", &FRONTS[..4]), ("HAProxy", &FRONTS[4..5]), ("Envoy", &FRONTS[5..])]
    {
        let claim = format!("every run of {of} is valid");
        if let Some(why) = missing.get(fronts[0]) {
            lab.skip(claim, why);
            continue;
        }
        let runs = fronts.iter().flat_map(|front| &reports[front]).map(validity);
        lab.all(claim, &runs.collect::<Vec<_>>(), |run| run.contains("true"));
    }
    let figures = |front: &str, name: &str| each(&reports[front], &format!("/latency_ns/{name}"));
    for (of, front) in [
        ("least outstanding", "least-outstanding"),
        ("HAProxy's leastconn", "HAProxy"),
        ("Envoy's least request", "Envoy"),
    ] {
        let claim = format!("in each round p99 of C3 over that of {of}");
        match missing.get(front) {
            Some(why) => lab.skip(claim, why),
            None => {
                lab.check(claim, over(&figures("c3", "p99"), &figures(front, "p99")), below(1.0));
            }
        }
    }
    for front in FRONTS {
        for name in ["p50", "p99", "p999"] {
            let claim = format!("{front}: {name}");
            match missing.get(front) {
                Some(why) => lab.skip(claim, why),
                None => lab.check(claim, figures(front, name), noted().unit("ns")),
            }
        }
    }
    Ok(())
}
