//! The first 2,000 requests of services about which nothing has been learned. Rescue is compared
//! with hedges over least outstanding that stop losers: one with a fixed delay, and one with a
//! learned delay, which is the strongest rival.

use anyhow::Result;

use crate::figures::max;
use crate::lab::Lab;
use crate::line::Line;
use crate::simulation::Outcomes;
use crate::verdict::{most, noted};

pub(super) const FIRST_7: Line = Line {
    number: 7,
    name: "first",
    text: "the first 2,000 requests after a cold start, compared with the fair rivals",
    seconds: 45,
    quick_seconds: 6,
    judge: first,
    ..Line::NEW
};

/// Services with one shard.
const ONE: [(&str, &str); 6] = [
    ("exp 0.005:15 0.3", "--utilization 0.3 --jitter bimodal:0.005:15"),
    ("exp 0.005:15 0.6", "--utilization 0.6 --jitter bimodal:0.005:15"),
    ("exp 0.02:20 0.4 x4", "--replicas 4 --utilization 0.4 --jitter bimodal:0.02:20"),
    ("det 0.005:20 0.3", "--utilization 0.3 --service det:1 --jitter bimodal:0.005:20"),
    (
        "det 0.02:20 0.3 x4",
        "--replicas 4 --utilization 0.3 --service det:1 --jitter bimodal:0.02:20",
    ),
    (
        "log-normal 0.005:30 0.3",
        "--utilization 0.3 --service lognormal:1:1.31 --jitter bimodal:0.005:30",
    ),
];

const MANY: [(&str, &str); 4] = [
    ("50 x 2 exp 0.001:15 0.2", "--shards 50 --utilization 0.2 --jitter bimodal:0.001:15"),
    ("50 x 2 exp 0.001:15 0.5", "--shards 50 --utilization 0.5 --jitter bimodal:0.001:15"),
    (
        "10 x 3 exp 0.01:20 0.4",
        "--shards 10 --replicas 3 --utilization 0.4 --jitter bimodal:0.01:20",
    ),
    (
        "50 x 3 exp 0.02:30 0.2",
        "--shards 50 --replicas 3 --utilization 0.2 --jitter bimodal:0.02:30",
    ),
];

/// Services without hiccups.
const CALM: [(&str, &str); 5] = [
    ("exp 0.3", "--utilization 0.3"),
    ("exp 0.6", "--utilization 0.6"),
    ("exp 0.8", "--utilization 0.8"),
    ("log-normal, CV 7, 0.6", "--utilization 0.6 --service lognormal:1:7.3"),
    ("det 0.6", "--utilization 0.6 --service det:1"),
];

const POLICIES: &str = "psq rescue delayed:5:cc+least-outstanding delayed:p95:cc+least-outstanding";

/// Divides figures of two policies, given by their positions, in each service.
fn ratios(services: &[Outcomes], pointer: &str, one: usize, other: usize) -> Vec<f64> {
    services.iter().map(|outcomes| outcomes.ratio(one, other, pointer)).collect()
}

fn first(lab: &mut Lab<'_>) -> Result<()> {
    let replications = lab.var("replications", "200", "20");
    let few = lab.var("few", "40", "4");
    let run = |services: &[(&str, &str)], flags: String| -> Result<Vec<Outcomes>> {
        let sim = |(_, world): &(&str, &str)| {
            let flags = format!("--yes --requests 2000 --warmup 0 --replications {flags} {world}");
            Outcomes::sim(lab, &flags, POLICIES)
        };
        services.iter().map(sim).collect()
    };
    let one = run(&ONE, format!("{replications} --shards 1"))?;
    let many = run(&MANY, few)?;
    let calm = run(&CALM, format!("{replications} --shards 1"))?;
    for services in [&one, &many] {
        let worst = max(&ratios(services, "/request/p99", 1, 3));
        lab.check("hiccups: p99 over that of the learned delay", worst, most(1.01));
    }
    for (services, names) in [(&one, &ONE[..]), (&many, &MANY[..])] {
        for ((world, _), ratio) in names.iter().zip(ratios(services, "/request/p999", 1, 3)) {
            let claim = format!("hiccups: p99.9 over that of the learned delay, {world}");
            lab.check(claim, ratio, noted());
        }
    }
    for services in [&one, &many, &calm] {
        let worst = max(&ratios(services, "/copies_per_query", 1, 3));
        lab.check("copies per query: no more than the learned delay sends", worst, most(1.01));
    }
    let worst = max(&ratios(&calm, "/request/p99", 1, 0));
    lab.check("without hiccups p99 is at most 3 % above psq's", worst, most(1.03));
    Ok(())
}
