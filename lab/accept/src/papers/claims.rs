//! Claims of the texts of documents 000 and 001, in numbers.

use anyhow::Result;
use serde_json::Value;

use crate::figures::{crossing, each, max, mean, over, policy};
use crate::lab::Lab;
use crate::line::Line;
use crate::simulation::{Outcomes, Points};
use crate::verdict::{above, least, listed, most, near};

/// The running example.
const HICCUPS: &str = "--jitter bimodal:0.001:15 --seed 42";

pub(crate) const CLAIMS_1: Line = Line {
    number: 1,
    name: "claims",
    text: "the claims of the texts about the running example, in numbers",
    seconds: 240,
    quick_seconds: 60,
    judge: |lab| {
        unloaded(lab)?;
        calm(lab)?;
        preemptions(lab)?;
        trained(lab)?;
        rivals(lab)?;
        noise(lab)?;
        lucene(lab)?;
        collapse(lab)
    },
    ..Line::NEW
};

pub(crate) const CROSSINGS_1: Line = Line {
    name: "crossings",
    text: "where curves cross (000 §4.4, §5.2, §5.2.1)",
    seconds: 200,
    quick_seconds: 60,
    judge: crossings,
    ..CLAIMS_1
};

pub(crate) const GAPS_1: Line = Line {
    name: "gaps",
    text: "the distances of the policies from Idealized Hedge (000 §4.6, §5.2)",
    seconds: 100,
    quick_seconds: 40,
    judge: gaps,
    ..CLAIMS_1
};

pub(crate) const BALANCES_1: Line = Line {
    name: "balances",
    text: "the order of the balances, by paired differences that exclude zero (000 §4.4)",
    seconds: 200,
    quick_seconds: 60,
    judge: balances,
    ..CLAIMS_1
};

/// Simulates the policies at each load, with samples of the line's size.
fn simulated(lab: &Lab<'_>, flags: &str, loads: &[f64], policies: &str) -> Result<Points> {
    let sizes = lab.var("sizes", "--requests 100000", "--requests 20000 --replications 4");
    Points::sim(lab, &format!("{flags} {sizes}"), loads.iter().copied(), policies)
}

fn unloaded(lab: &mut Lab<'_>) -> Result<()> {
    let points = simulated(lab, HICCUPS, &[0.0005], "psq naive")?;
    lab.check("unloaded, psq (000 §4.4)", points.p99("psq"), near(16.6, 0.166));
    lab.check("unloaded, naive", points.p99("naive"), near(8.5, 0.085));
    Ok(())
}

fn calm(lab: &mut Lab<'_>) -> Result<()> {
    let points = simulated(lab, "", &[0.1, 0.4, 0.6, 0.8], "psq idealized laedge")?;
    let request = |point: &Value, name: &str| policy(point, name)["request"].clone();
    let same = points.0.iter().all(|point| {
        request(point, "psq").is_object() && request(point, "psq") == request(point, "idealized")
    });
    let figures: Vec<String> = points.p99("idealized").iter().map(f64::to_string).collect();
    lab.holds("without jitter, idealized equals psq, digit for digit", listed(&figures), same);
    lab.check(
        "laedge's p99 over psq's without hiccups, 40, 60 % (000 §5.2 claims it with hiccups)",
        points.within("utilization", 0.4, 0.6).ratio("laedge", "psq"),
        near(1.0, 0.02).published("converges to psq's").contradicts(most(1.25).least(1.1)),
    );
    Ok(())
}

fn preemptions(lab: &mut Lab<'_>) -> Result<()> {
    let points = simulated(lab, HICCUPS, &[0.4], "laedge:cc+pc")?;
    let right = |when: &str| {
        let of = |what| points.of("laedge:cc+pc", &format!("/predictor/{when}/{what}"));
        over(&of("right"), &of("all"))
    };
    for (claim, when, bound) in [
        ("right pre-emptions, all (000 §5.2.1)", "overall", most(1.0).least(0.99)),
        ("right pre-emptions with a hiccup, started together", "together", near(0.5, 0.05)),
        ("right pre-emptions with a hiccup, started apart", "apart", near(0.19, 0.03)),
    ] {
        lab.check(claim, right(when), bound);
    }
    Ok(())
}

/// The training of the sources did not capture the hiccups, which one query in a thousand has (001
/// §3.3). Our training targets the percentile of queries that determines p99 of requests.
fn trained(lab: &mut Lab<'_>) -> Result<()> {
    let loads = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
    let points = simulated(lab, HICCUPS, &loads, "psq probabilistic:auto")?;
    let difference = |from, to| {
        let points = points.within("utilization", from, to);
        points.of("probabilistic:auto", "/versus_first/difference/p99")
    };
    let bound = above(0.0).published("above psq's at all loads");
    lab.check(
        "p-hedge minus psq at 10 % (000 §4.6)",
        difference(0.1, 0.1),
        bound.clone().contradicts(most(-6.0).least(-7.5)),
    );
    lab.check("p-hedge minus psq at 40 to 60 %", difference(0.4, 0.6), bound);
    Ok(())
}

fn rivals(lab: &mut Lab<'_>) -> Result<()> {
    let policies = "psq laedge idealized rescue";
    let points = simulated(lab, HICCUPS, &[0.3, 0.5, 0.6, 0.7], policies)?;
    let light = points.at("utilization", 0.3);
    lab.check(
        "median of laedge over psq's at 30 % (000 §5.4, 001 §4.2)",
        over(&light.of("laedge", "/request/p50"), &light.of("psq", "/request/p50")),
        most(1.02).published("not above psq's").contradicts(near(1.24, 0.03)),
    );
    let busy = points.within("utilization", 0.5, 0.7);
    lab.check(
        "laedge's p99 over psq's at 50, 60, 70 % (000 §5.2)",
        busy.ratio("laedge", "psq"),
        near(1.0, 0.02)
            .published("converges to psq's from about 50 %")
            .contradicts(most(1.09).least(0.95)),
    );
    lab.check(
        "rescue's p99 over idealized's, 50, 60, 70 % (000 §4.6)",
        busy.ratio("rescue", "idealized"),
        least(0.99).published("no hedging is below idealized").contradicts(most(0.9).least(0.75)),
    );
    lab.check(
        "rescue's p99 over psq's at 60, 70 % (000 §4.6)",
        points.within("utilization", 0.6, 0.7).ratio("rescue", "psq"),
        least(0.9)
            .published("no hedging has a significant benefit from about 60 % on")
            .contradicts(most(0.9).least(0.7)),
    );
    Ok(())
}

/// The sources do not specify the mean of their exponential noise. Here it equals the mean of the
/// hiccups.
fn noise(lab: &mut Lab<'_>) -> Result<()> {
    let flags = "--jitter exp:0.015 --seed 42";
    let points = simulated(lab, flags, &[0.2, 0.3, 0.4], "psq idealized laedge")?;
    lab.check(
        "idealized's p99 over psq's under exponential noise, 20, 30, 40 % (000 §5.4, 001 §4.1)",
        points.ratio("idealized", "psq"),
        least(0.99).published("not below psq's"),
    );
    lab.check(
        "laedge's p99 over psq's under exponential noise",
        points.ratio("laedge", "psq"),
        near(1.0, 0.05).published("almost psq's").contradicts(most(1.25).least(1.14)),
    );
    Ok(())
}

/// The hiccups of Table 6.1 as multiples of its mean P: 10.162 ms / 0.637 ms and 10.249 ms /
/// 0.926 ms.
fn lucene(lab: &mut Lab<'_>) -> Result<()> {
    let curve = |lab: &Lab<'_>, jitter: &str, loads: &[f64]| {
        let flags = format!("--shards 5 --jitter {jitter} --seed 42");
        simulated(lab, &flags, loads, "psq laedge")
    };
    let loads = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65];
    let compute = curve(lab, "bimodal:0.0027:15.95", &loads)?;
    let loads = [0.05, 0.1, 0.15, 0.2, 0.25, 0.35, 0.45];
    let general = curve(lab, "bimodal:0.0109:11.07", &loads)?;
    let gain = |points: &Points, to: f64| {
        let points = points.within("utilization", 0.0, to);
        mean(&over(&points.gap("psq", "laedge"), &points.p99("psq")))
    };
    lab.check(
        "laedge's gain in p99 under the noise of Table 6.1, compute VM, mean of 5 to 55 % (000 §6.2, \
         simulated here)",
        gain(&compute, 0.56),
        near(0.49, 0.05).published("0.49, measured").contradicts(near(0.38, 0.05)),
    );
    lab.check(
        "the same, general-purpose VM, mean of 5 to 25 %",
        gain(&general, 0.26),
        near(0.4, 0.05).published("0.40, measured").contradicts(near(0.33, 0.04)),
    );
    lab.check(
        "laedge crosses psq on the compute VM at",
        compute.crossing("laedge", "psq"),
        near(0.6, 0.05).published("0.60, measured"),
    );
    lab.check(
        "laedge crosses psq on the general-purpose VM at",
        general.crossing("laedge", "psq"),
        near(0.27, 0.05).published("0.27, measured").contradicts(near(0.41, 0.04)),
    );
    Ok(())
}

fn collapse(lab: &mut Lab<'_>) -> Result<()> {
    // A policy that collapses has no steady state, so it has no latency. Any other latency is small.
    let collapses = |lab: &Lab<'_>, policy: &str, loads: &[f64]| -> Result<f64> {
        let points = simulated(lab, HICCUPS, loads, policy)?;
        let first = points.0.iter().map(|point| &point["outcomes"][0]);
        let shares: Vec<f64> = each(first, "/request/p99").iter().map(|p99| p99 / 1e9).collect();
        Ok(crossing(loads, &shares))
    };
    let bound = near(0.6, 0.05).published("0.60");
    lab.check(
        "delayed:5 without cancellation collapses at a load of about (001 §3.3)",
        collapses(lab, "delayed:5", &[0.4, 0.45, 0.55])?,
        bound.clone().contradicts(near(0.5, 0.04)),
    );
    lab.check(
        "delayed:5:cc collapses at a load of about",
        collapses(lab, "delayed:5:cc", &[0.6, 0.75, 0.9])?,
        bound.contradicts(near(0.82, 0.06)),
    );
    Ok(())
}

fn crossings(lab: &mut Lab<'_>) -> Result<()> {
    for (name, base, loads, bound) in [
        ("naive", "psq", &[0.15, 0.21, 0.23, 0.25, 0.27, 0.35][..], most(0.26).least(0.23)),
        ("laedge", "psq", &[0.4, 0.46, 0.49, 0.52, 0.55, 0.58, 0.66], most(0.58).least(0.48)),
        (
            "laedge:cc+pc",
            "laedge:cc",
            &[0.2, 0.26, 0.29, 0.32, 0.35, 0.38, 0.44],
            most(0.37).least(0.27),
        ),
    ] {
        let points = simulated(lab, HICCUPS, loads, &format!("{base} {name}"))?;
        lab.check(format!("{name} crosses {base} at"), points.crossing(name, base), bound);
    }
    Ok(())
}

fn gaps(lab: &mut Lab<'_>) -> Result<()> {
    let loads = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6];
    let points = simulated(lab, HICCUPS, &loads, "psq laedge idealized")?;
    below_psq_at_60(lab, &points);
    lab.check("idealized below psq, at most", max(&points.gap("psq", "idealized")), near(8.0, 0.5));
    let above = points.within("utilization", 0.05, 0.501).gap("laedge", "idealized");
    lab.check("laedge above idealized, at most", max(&above), most(4.3).least(3.4));
    lab.check("laedge above idealized, 5–50 %, mean", mean(&above), near(2.16, 0.3));
    Ok(())
}

/// Judges the gain of Idealized Hedge at a high load.
pub(super) fn below_psq_at_60(lab: &mut Lab<'_>, points: &Points) {
    let points = points.at("utilization", 0.6);
    let gain = over(&points.gap("psq", "idealized"), &points.p99("psq"));
    lab.check("idealized below psq at 60 %, share", gain, above(0.0).most(0.1));
}

fn balances(lab: &mut Lab<'_>) -> Result<()> {
    // The balances differ only a little.
    let long = lab.var("long", "--requests 500000", "--requests 150000");
    let mut differences = Vec::new();
    for load in [0.2, 0.5, 0.7] {
        for pair in ["psq", "bounded:2", "least-outstanding", "random"].windows(2) {
            let flags = format!("{HICCUPS} {long} --utilization {load}");
            let outcomes = Outcomes::sim(lab, &flags, &pair.join(" "))?;
            let worse = |what| outcomes.of(1, &format!("/versus_first/{what}/p99"));
            differences.push(worse("difference") / worse("ci95"));
        }
    }
    lab.check(
        "psq < bounded:2 < least-outstanding < random at 20, 50 and 70 %: differences relative to \
         chance",
        differences,
        above(1.0),
    );
    Ok(())
}
