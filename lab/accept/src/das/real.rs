//! The lines of document 003 that run real services: HDFS, a network, Suricata, three servers
//! behind a Proxy D-Stage, and the live search service.

use anyhow::Result;
use serde_json::{Value, json};

use crate::figures::{at, find, list, max, min, policy, text};
use crate::lab::Lab;
use crate::line::Line;
use crate::verdict::{above, least, most, noted};

pub(crate) const HDFS_2: Line = Line {
    number: 2,
    name: "hdfs",
    text: "unmodified HDFS, with a Proxy D-Stage in front of each DataNode: reads of 10 MB, a \
           tenth of the responses late",
    seconds: 1600,
    quick_seconds: 900,
    needs: &["java", "mvn", "setpriv", "ip"],
    judge: hdfs,
    ..Line::NEW
};
pub(crate) const NET_3: Line = Line {
    number: 3,
    name: "net",
    text: "a data-parallel network whose links are the bottleneck: flows of 50 KB, and those of a \
           web search (Figure 8)",
    seconds: 680,
    quick_seconds: 200,
    needs: &["setpriv", "ip", "tc"],
    judge: net,
    ..Line::NEW
};
pub(crate) const PRICE_3: Line = Line {
    number: 3,
    name: "price",
    text: "the price of priority (Figure 10)",
    seconds: 230,
    quick_seconds: 60,
    needs: &["setpriv", "ip", "tc", "unshare"],
    judge: price,
    ..Line::NEW
};
pub(crate) const IDS_4: Line = Line {
    number: 4,
    name: "ids",
    text: "two nodes of Suricata, each with a duplicate instance on the same processor (Figure 9)",
    seconds: 320,
    quick_seconds: 120,
    needs: &["cores:2", "setpriv", "setsid", "ip"],
    judge: ids,
    ..Line::NEW
};
pub(crate) const KNEE_5: Line = Line {
    number: 5,
    name: "knee",
    text: "the throttler of a Proxy D-Stage is within 1 of the measured knee after 5 s, and 10 s \
           after the knee moved, on three servers",
    seconds: 360,
    quick_seconds: 200,
    needs: &[
        "setpriv",
        "ip",
        "tc",
        "mke2fs",
        "/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device",
        "apt:nginx",
        "apt:haproxy",
    ],
    judge: knee,
    ..Line::NEW
};
pub(crate) const LIVE_6: Line = Line {
    number: 6,
    name: "live",
    text: "das, LÆDGE and rescue on the live search service, whose leaves run the stage",
    seconds: 550,
    quick_seconds: 260,
    judge: live,
    ..Line::NEW
};

/// Runs a part of the program `das` that prints the outcome of each policy.
fn das(lab: &Lab<'_>, flags: &str) -> Result<Value> {
    let (verb, flags) = flags.split_once(' ').unwrap_or((flags, ""));
    let real = "--json --curtail @curtail";
    lab.run(format!("@das {verb} {} {flags}", lab.var("real", real, real))).json()
}

/// Judges whether a policy is stable.
fn stable(lab: &mut Lab<'_>, claim: String, results: &Value, name: &str, wanted: bool) {
    let outcome = policy(results, name);
    lab.holds(claim, text(outcome, "/stable"), outcome["stable"] == wanted);
}

/// Returns a figure of all requests.
fn of_all(results: &Value, name: &str, figure: &str) -> f64 {
    at(policy(results, name), &format!("/classes/all/{figure}"))
}

fn hdfs(lab: &mut Lab<'_>) -> Result<()> {
    let noise = "--noise lab/papers/das-noise.txt";
    let noise = lab.var("noise", noise, noise);
    let hdfs = |flags: &str| das(lab, &format!("hdfs {noise} {flags}"));
    let [rounds, longest] = [lab.number("rounds", 2, 1)?, lab.number("longest", 3, 1)?];
    let most_reads = lab.number("reads", 700, 400)?;
    let reads = |load: &str, requests: u32, rounds: u32, others: &str| {
        hdfs(&format!(
            "--rate 50000000 --load {load} --requests {requests} --rounds {rounds} --policy random \
             --policy das {others}"
        ))
    };
    let runs = [
        ("0.15", reads("0.15", 200, rounds, "")?),
        ("0.45", reads("0.45", 300, rounds, "--policy tied")?),
        ("0.75", reads("0.75", most_reads, longest, "")?),
    ];
    let others = hdfs(
        "--rate 50000000 --load 0.75 --requests 300 --rounds 1 --policy random --policy naive \
         --policy delayed:120ms --policy delayed:480ms",
    )?;
    let more = |what: &str| hdfs(&format!("--policy random --policy das {what} --rounds 1"));
    let more = [
        ("1MB", more("--bytes 1000000 --rate 10000000 --load 0.45 --requests 600")?),
        ("network", more("--rate 50000000 --network 500000000 --load 0.45 --requests 200")?),
        ("straggler", more("--rate 50000000 --straggler 10000000 --load 0.15 --requests 150")?),
    ];
    for ((load, results), published) in runs.iter().zip(["1.45", "2.37", "1.9"]) {
        let claim =
            format!("{load}: p99 of a single copy, relative to DAS (published: {published})");
        lab.check(claim, of_all(results, "das", "gain/p99/0"), above(1.0));
    }
    for (load, results) in &runs {
        for end in ["gain/p99/1", "gain/p99/2"] {
            let claim = format!("{load}: the lowest and the highest of the rounds");
            lab.check(claim, of_all(results, "das", end), noted());
        }
    }
    for (at, name) in [(0, "das"), (1, "das"), (2, "das"), (2, "random")] {
        let (load, results) = &runs[at];
        stable(lab, format!("{load}: {name} is stable"), results, name, true);
    }
    for (name, published) in [("naive", "cloning"), ("delayed:120ms", "hedging")] {
        let claim = format!("0.75: {name} is unstable (published: {published} is unstable)");
        stable(lab, claim, &others, name, false);
    }
    let p99 = of_all(&others, "delayed:480ms", "p99");
    lab.check("0.75: p99 of hedging at 480 ms, in ms", p99, noted());
    for (at, figure, names) in [
        (0, "p99", &["random", "das"][..]),
        (1, "p99", &["random", "tied", "das"]),
        (2, "p99", &["random", "das"]),
        (2, "p50", &["random", "das"]),
    ] {
        let (load, results) = &runs[at];
        for name in names {
            let claim = format!("{load}: {figure} of {name}, in ms");
            lab.check(claim, of_all(results, name, figure), noted());
        }
    }
    for (name, results) in &more {
        for figure in ["p99", "mean"] {
            let claim = format!("{name}: {figure} of a single copy, relative to DAS");
            lab.check(claim, of_all(results, "das", &format!("gain/{figure}/0")), noted());
        }
    }
    Ok(())
}

fn net(lab: &mut Lab<'_>) -> Result<()> {
    let turns = lab.var("turns", "--rounds 2 --seconds 12", "--rounds 1 --seconds 6");
    let small = |load: &str| das(lab, &format!("net {turns} --load {load}"));
    let small = [("0.15", small("0.15")?), ("0.45", small("0.45")?), ("0.75", small("0.75")?)];
    let mixed =
        format!("net {turns} --size web-search --link 50 --load 0.45 --policy random --policy das");
    let mixed = das(lab, &mixed)?;
    for (load, results) in &small {
        stable(lab, format!("{load}: DAS is stable"), results, "das", true);
    }
    let [das, tied] = ["das", "tied"].map(|name| of_all(&small[1].1, name, "p99"));
    lab.check("0.45: p99 of DAS, relative to tied", das / tied, most(1.1));
    let claim = "web search at 0.45: p99 of a single copy, relative to DAS, small flows";
    lab.check(claim, at(policy(&mixed, "das"), "/classes/small/gain/p99/0"), above(1.0));
    let policies = [
        &["random", "tied", "das"][..],
        &["random", "naive", "delayed:60ms", "tied", "das:no-purge", "das"],
        &["random", "delayed:60ms", "tied", "das:no-purge", "das"],
    ];
    for ((load, results), policies) in small.iter().zip(policies) {
        for name in policies {
            let claim = format!("{load}: p99 of {name}, in ms");
            lab.check(claim, of_all(results, name, "p99"), noted());
        }
    }
    for name in ["naive", "delayed:60ms", "tied", "das:no-purge"] {
        let claim = format!("0.75: {name} is stable (published: it is not)");
        lab.check(claim, at(policy(&small[2].1, name), "/stable"), noted());
    }
    Ok(())
}

fn price(lab: &mut Lab<'_>) -> Result<()> {
    let prices = lab.var("prices", "--rounds 3 --seconds 12", "--rounds 1 --seconds 8");
    let document = das(lab, &format!("price {prices}"))?;
    let network = |case: &str| find(list(&document["network"]), &json!({ "case": case }));
    let low = network("low");
    // A single round has only 55 requests, so its p10 is the fifth shortest.
    let p10 = lab.number("p10", 1.2, 1.5)?;
    for (quantile, bound, published) in [
        ("p10", p10, "at most 1.2"),
        ("p20", 1.15, "at most 1.15"),
        ("p40", 1.1, "at most 1.03"),
        ("p50", 1.1, "at most 1.03"),
        ("p90", 1.1, "at most 1.03"),
        ("p99", 1.1, "at most 1.03"),
    ] {
        let claim = format!(
            "web search at 0.45 with a long flow of low priority, relative to alone: {quantile} \
             (published: {published})"
        );
        lab.check(claim, at(low, &format!("/ratio/{quantile}")), most(bound));
    }
    let claim = "the same, Mbit/s of the flow of low priority, which gets the rest of the link";
    lab.check(claim, at(low, "/background_mbit"), least(50.0));
    for quantile in ["p50", "p99"] {
        let claim = format!("the same without a lower priority for the flow: {quantile}");
        lab.check(claim, at(network("same"), &format!("/ratio/{quantile}")), above(1.0));
    }
    price_of_idle_link(lab, &document);
    price_of_disk(lab, &document);
    Ok(())
}

fn price_of_idle_link(lab: &mut Lab<'_>, document: &Value) {
    let idle = |pause: u32, case: &str| {
        find(list(&document["idle"]), &json!({"pause_ms": pause, "case": case}))
    };
    // After a pause, htb lets a plain link send a segment of many packets on credit. No real link
    // with this rate can do so.
    for (pause, over) in [(0, "plain"), (10, "segments")] {
        for quantile in ["p50", "p99"] {
            let ms = |case| at(idle(pause, case), &format!("/ms/{quantile}"));
            let claim = format!(
                "50 KB over an idle link, {pause} ms apart: two bands relative to {over}, \
                 {quantile}"
            );
            lab.check(claim, ms("bands") / ms(over), most(1.05));
        }
    }
    for quantile in ["p50", "p99"] {
        let claim = format!(
            "50 KB over an idle link, 10 ms apart: two bands relative to a plain link, which sends \
             on credit, {quantile}"
        );
        lab.check(claim, at(idle(10, "bands"), &format!("/ratio/{quantile}")), noted());
    }
}

fn price_of_disk(lab: &mut Lab<'_>, document: &Value) {
    const SIZES: [u32; 2] = [4096, 131_072];
    let low = |bytes: u32, workers: u32, reads: u32| {
        let members = json!({"bytes": bytes, "workers": workers, "reads": reads, "case": "low"});
        find(list(&document["disk"]), &members)
    };
    for bytes in SIZES {
        for quantile in ["p10", "p50"] {
            let claim = format!(
                "a disk with one read at a time, {bytes} B: 4 workers with 4 of low priority, \
                 relative to alone: {quantile}"
            );
            lab.check(claim, at(low(bytes, 4, 1), &format!("/ratio/{quantile}")), most(1.1));
        }
    }
    for bytes in SIZES {
        let claim =
            format!("the same, {bytes} B, the share of slowed requests (published: about 0.2)");
        lab.check(claim, at(low(bytes, 4, 1), "/hurt"), most(0.25));
    }
    for bytes in SIZES {
        let claim = format!("the same with 4 reads at a time, the default, {bytes} B");
        lab.check(claim, at(low(bytes, 4, 4), "/hurt"), noted());
    }
    // The worker always finds a block of low priority in progress, which is one read.
    for bytes in SIZES {
        for quantile in ["p50", "p99"] {
            let claim = format!(
                "one worker, {bytes} B, whose requests all find the disk busy with low priority, \
                 relative to alone: {quantile}"
            );
            lab.check(claim, at(low(bytes, 1, 1), &format!("/ratio/{quantile}")), most(2.1));
        }
    }
}

fn ids(lab: &mut Lab<'_>) -> Result<()> {
    let packets = lab.var("packets", "--rounds 6", "--rounds 2");
    let rates = lab.run(format!("@das ids --json {packets}")).json()?;
    let ratios = |straggler: bool| -> Vec<f64> {
        let rates = list(&rates).iter().filter(|rate| rate["straggler"] == straggler);
        rates.map(|rate| at(rate, "/ratio")).collect()
    };
    let claim = "goodput with duplicates, relative to single copies, at the worst rate";
    lab.check(claim, min(&ratios(false)), least(0.97));
    lab.check("the same with a straggler, at the best rate", max(&ratios(true)), above(1.0));
    Ok(())
}

fn knee(lab: &mut Lab<'_>) -> Result<()> {
    let knees = lab.var("knees", "--rounds 3", "--rounds 1");
    let document = lab.run(format!("@das knee --json --curtail @curtail {knees}")).json()?;
    let servers = ["fast", "disk", "network"];
    for server in servers {
        for step in ["first", "up", "down"] {
            let found = find(list(&document["steps"]), &json!({"server": server, "step": step}));
            let claim = format!(
                "{server}, {step}: the largest distance of the throttler's level from the knee"
            );
            lab.check(claim, at(found, "/off"), most(1.0));
        }
    }
    for server in servers {
        for capacity in ["low", "high"] {
            let members = json!({"server": server, "capacity": capacity});
            let claim = format!(
                "{server}, capacity {capacity}: the knee, measured with every number of slots"
            );
            lab.check(claim, at(find(list(&document["knees"]), &members), "/knee"), noted());
        }
    }
    Ok(())
}

fn live(lab: &mut Lab<'_>) -> Result<()> {
    let sizes =
        lab.var("live", "--repetitions 3 --requests 1050 --scale 2", "--repetitions 1 --scale 2");
    let policies = ["least-outstanding", "das+least-outstanding", "das", "laedge", "rescue"];
    let document = lab.run(format!(
        "@xtask eval search --compare-sim --json --name das/live --policies {} --together \
         --loads 0.3,0.6 --learning 0.2 {sizes}",
        policies.join(",")
    ));
    let document = document.json()?;
    let p99 = |name: &str, load: f64| {
        let cell = json!({"policy": name, "percentile": 99, "load": load});
        at(find(list(&document["cells"]), &cell), "/measured/ms")
    };
    for load in [0.3, 0.6] {
        for name in policies {
            let claim = format!("{load}: measured p99 of {name}, in ms");
            lab.check(claim, p99(name, load), noted());
        }
    }
    for (load, bound) in [(0.3, 1.0), (0.6, 1.1)] {
        let claim = format!("{load}: p99 of das+least-outstanding, relative to least outstanding");
        let ratio = p99("das+least-outstanding", load) / p99("least-outstanding", load);
        lab.check(claim, ratio, most(bound));
    }
    Ok(())
}
