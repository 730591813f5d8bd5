//! Rescue without knowledge of slots, and with several proxies before the same replicas. The results
//! are from the steady state.

use anyhow::Result;

use super::PERCENTILES;
use crate::figures::max;
use crate::lab::Lab;
use crate::line::Line;
use crate::simulation::Outcomes;
use crate::verdict::{least, most, noted};

pub(super) const SLOTLESS_8: Line = Line {
    number: 8,
    name: "slotless",
    text: "without slots: never worse than its pick, and compared with a learned delay over the \
           same pick",
    seconds: 25,
    quick_seconds: 4,
    judge: slotless,
    ..Line::NEW
};

/// Each proxy learns from its own queries. Its configuration contains the slots of the servers,
/// except with `client-slots`.
pub(super) const PROXIES_9: Line = Line {
    number: 9,
    name: "proxies",
    text: "1 to 16 proxies before the same replicas: never worse than the pick, and slots need \
           not be divided",
    seconds: 35,
    judge: proxies,
    ..Line::NEW
};

const LEAST: &str = "least-outstanding";
const OVER_LEAST: &str = "rescue+least-outstanding";
const HICCUPS: &str = "--jitter bimodal:0.005:15";

/// The outcomes of policies in a service.
struct Case {
    clients: u32,
    slots: u32,
    outcomes: Outcomes,
}

impl Case {
    /// Divides latencies of two policies.
    fn latency(&self, policy: usize, base: usize, of: &str) -> f64 {
        self.outcomes.ratio(policy, base, &format!("/request/{of}"))
    }
}

/// Returns the highest figure of the cases for which a condition holds.
fn worst(cases: &[Case], is: impl Fn(&Case) -> bool, of: impl Fn(&Case) -> f64) -> f64 {
    max(&cases.iter().filter(|case| is(case)).map(of).collect::<Vec<_>>())
}

fn slotless(lab: &mut Lab<'_>) -> Result<()> {
    let requests = lab.var("requests", "100000", "15000");
    let limit = lab.number("most", 1.05, 1.08)?;
    let case = |slots: u32, flags: String, policies: &str| -> Result<Case> {
        let service = format!("--yes --requests {requests} --warmup 0.3 --shards 1 --replicas 4");
        let outcomes = Outcomes::sim(lab, &format!("{service} --slots {slots} {flags}"), policies)?;
        Ok(Case { clients: 1, slots, outcomes })
    };
    let mut hiccups = Vec::new();
    for slots in [1, 4, 16] {
        for (load, pick) in
            [(0.2, LEAST), (0.4, LEAST), (0.6, LEAST), (0.8, LEAST), (0.6, "two-choices")]
        {
            let flags = format!("{HICCUPS} --utilization {load}");
            let policies = format!("{pick} rescue+{pick} delayed:p95:cc+{pick}");
            hiccups.push(case(slots, flags, &policies)?);
        }
    }
    let mut calm = Vec::new();
    for (service, cells) in [
        ("exp:1", &[(1, 0.3), (1, 0.6), (1, 0.85), (4, 0.6), (4, 0.85), (16, 0.85)][..]),
        ("lognormal:1:1.31", &[(1, 0.6), (4, 0.85)]),
        ("det:1", &[(4, 0.6)]),
    ] {
        for (slots, load) in cells {
            let flags = format!("--service {service} --utilization {load}");
            calm.push(case(*slots, flags, "least-outstanding rescue+least-outstanding")?);
        }
    }
    let over = |slots: u32, of: &str, base: usize| {
        worst(&hiccups, |case| case.slots == slots, |case| case.latency(1, base, of))
    };
    for slots in [1, 4, 16] {
        for of in ["p99", "p999"] {
            let claim = format!("hiccups, {slots} slots: {of} over that of the pick, at most");
            lab.check(claim, over(slots, of, 0), most(1.01));
        }
    }
    for of in PERCENTILES {
        lab.check(
            format!("without hiccups: {of} above that of the pick, minus the interval, at most"),
            worst(&calm, |_| true, |case| case.outcomes.excess(1, of, 1.0)),
            most(0.01),
        );
    }
    // With one slot, a query behind a stuck one waits until the stuck one is rescued. The learned
    // delay sends it to another replica.
    for (of, name, bound) in [("p99", "p99", most(limit)), ("p999", "p99.9", noted())] {
        for slots in [1, 4, 16] {
            let claim = format!("{slots} slots: {name} over that of the learned delay, at most");
            lab.check(claim, over(slots, of, 2), &bound);
        }
    }
    lab.check(
        "copies per query: no more than the learned delay sends",
        worst(&hiccups, |_| true, |case| case.outcomes.ratio(1, 2, "/copies_per_query")),
        most(1.0),
    );
    Ok(())
}

fn proxies(lab: &mut Lab<'_>) -> Result<()> {
    let requests = lab.var("requests", "60000", "60000");
    let case = |clients: u32, slots: u32, flags: String, policies: &str| -> Result<Case> {
        let service = format!("--yes --requests {requests} --warmup 0.3 --servers 4 --replicas 4");
        let flags = format!("{service} --clients {clients} --slots {slots} {flags}");
        Ok(Case { clients, slots, outcomes: Outcomes::sim(lab, &flags, policies)? })
    };
    let mut hiccups = Vec::new();
    for slots in [1, 4] {
        for load in [0.3, 0.6] {
            for clients in [1, 2, 4, 16] {
                let policies = format!("{LEAST} {OVER_LEAST} rescue delayed:p95:cc+{LEAST}");
                let flags = format!("{HICCUPS} --utilization {load}");
                hiccups.push(case(clients, slots, flags, &policies)?);
            }
        }
    }
    let mut calm = Vec::new();
    for (slots, load, all) in
        [(1, 0.6, &[2, 4, 16][..]), (1, 0.85, &[4, 16]), (4, 0.6, &[16]), (4, 0.85, &[2, 16])]
    {
        for clients in all {
            let policies = format!("{LEAST} {OVER_LEAST} rescue rescue:no-cancel");
            calm.push(case(*clients, slots, format!("--utilization {load}"), &policies)?);
        }
    }
    let mut divided = Vec::new();
    for (clients, own) in [(2, 2), (4, 1)] {
        let flags = format!("--client-slots {own} {HICCUPS} --utilization 0.6");
        divided.push(case(clients, 4, flags, "least-outstanding psq rescue")?);
    }
    judge_hiccups(lab, &hiccups);
    judge_calm(lab, &calm);
    for (policy, name, clients) in [
        (2, "rescue", 1),
        (2, "rescue", 2),
        (2, "rescue", 4),
        (2, "rescue", 16),
        (1, OVER_LEAST, 16),
    ] {
        lab.check(
            format!("{name} with {clients} proxies: p99 over that of the learned delay, at most"),
            worst(&hiccups, |case| case.clients == clients, |case| case.latency(policy, 3, "p99")),
            noted(),
        );
    }
    // Queries wait in their proxy although replicas are idle.
    for (at, policy, name, of) in
        [(0, 1, "psq", "p50"), (1, 1, "psq", "p50"), (1, 1, "psq", "p99"), (1, 2, "rescue", "p50")]
    {
        let case = &divided[at];
        let clients = case.clients;
        lab.check(
            format!("slots divided among {clients} proxies: {of} of {name} over that of the pick"),
            case.latency(policy, 0, of),
            least(1.03),
        );
    }
    Ok(())
}

fn judge_hiccups(lab: &mut Lab<'_>, cases: &[Case]) {
    for (policy, name) in [(1, OVER_LEAST), (2, "rescue")] {
        for (of, limit) in [("p99", 0.97), ("p999", 0.75)] {
            lab.check(
                format!("hiccups: {of} of {name} over that of the pick, at most"),
                worst(cases, |_| true, |case| case.latency(policy, 0, of)),
                most(limit),
            );
        }
    }
    for of in ["p99", "p999"] {
        let above = |case: &Case| {
            let versus = |policy: usize, what: &str| {
                case.outcomes.of(policy, &format!("/versus_first/{what}/{of}"))
            };
            let above = versus(2, "difference") - versus(1, "difference") - versus(2, "ci95");
            above / case.outcomes.of(0, &format!("/request/{of}"))
        };
        lab.check(
            format!(
                "all slots in every proxy: {of} of rescue above that without slots, minus the \
                 interval, at most"
            ),
            worst(cases, |_| true, above),
            most(0.01),
        );
    }
}

fn judge_calm(lab: &mut Lab<'_>, cases: &[Case]) {
    for (policy, name) in [(1, OVER_LEAST), (2, "rescue")] {
        for (of, limit) in PERCENTILES.into_iter().zip([0.03, 0.01, 0.01]) {
            lab.check(
                format!(
                    "without hiccups: {of} of {name} above that of the pick, minus the interval, at \
                     most"
                ),
                worst(cases, |_| true, |case| case.outcomes.excess(policy, of, 1.0)),
                most(limit),
            );
        }
    }
    // Copies that are sent for exploration run to completion, and each proxy sends its own.
    for of in ["p99", "p999"] {
        for clients in [4, 16] {
            lab.check(
                format!(
                    "without hiccups, where replicas cannot stop, {clients} proxies: {of} over that \
                     of the pick, at most"
                ),
                worst(cases, |case| case.clients == clients, |case| case.latency(3, 0, of)),
                noted(),
            );
        }
    }
}
