//! Document 004, part 2: which stage varies. Live profiling needs root and an otherwise idle
//! machine.

use anyhow::Result;
use serde_json::Value;

use crate::figures::{at, numbers, text};
use crate::lab::Lab;
use crate::line::Line;
use crate::verdict::{least, most, noted};

pub(crate) const LINES: &[Line] = &[INJECTED_1, COST_2, CASES_3, COUNTER_3, TRACES_4, KNOWN_5];

const INJECTED_1: Line = Line {
    number: 1,
    name: "injected",
    text: "a server with injected delays: the variances, shares and ranking of its stages",
    seconds: 150,
    quick_seconds: 30,
    judge: injected,
    ..Line::NEW
};

const COST_2: Line = Line {
    number: 2,
    name: "cost",
    text: "memcached GET, client and server on two processors: the cost and the findings of profiling",
    seconds: 600,
    quick_seconds: 150,
    needs: &["setpriv", "taskset"],
    judge: cost,
    ..Line::NEW
};

const CASES_3: Line = Line {
    number: 3,
    name: "cases",
    text: "knobs of memcached and httpd: bounded batches and pinning improve the tail, with an interval that excludes zero; the LRU thread uses too little time to matter",
    seconds: 350,
    quick_seconds: 100,
    needs: &["setpriv", "taskset"],
    judge: cases,
    ..Line::NEW
};

const COUNTER_3: Line = Line {
    number: 3,
    name: "counter",
    text: "wrong knobs: batches where the mean is largest, pinning where batches vary",
    seconds: 200,
    quick_seconds: 60,
    needs: &["setpriv", "taskset"],
    judge: counter,
    ..Line::NEW
};

const TRACES_4: Line = Line {
    number: 4,
    name: "traces",
    text: "HotROD's traces name the service and span with most of the variance; the ranking follows when another service is made to vary",
    seconds: 550,
    needs: &["go", "setpriv"],
    judge: traces,
    ..Line::NEW
};

const KNOWN_5: Line = Line {
    number: 5,
    name: "known",
    text: "synthetic traces with a given cause (skew, shared ids, overlap, streams, number of calls, attributes): the blamed cause is right or unclear",
    seconds: 60,
    quick_seconds: 60,
    judge: known,
    ..Line::NEW
};

fn injected(lab: &mut Lab<'_>) -> Result<()> {
    let cases = lab.var("cases", "20", "4");
    let run = "cargo run --quiet --release -p curtail-probe --example injected --";
    let found = lab.run(format!("{run} {cases} 3")).json()?;
    for (claim, name, bound) in [
        ("wrong rankings", "ranked_wrong", most(0.0)),
        ("cases in which the mean gives the wrong ranking", "mean_ranks_wrong", least(1.0)),
        (
            "the largest error of a variance, compared to the server's clock, or to clocks on both sides where the machine stood still between stamp and clock",
            "variance_error",
            most(0.05),
        ),
        (
            "the same compared to one clock, which pauses of the machine distort now and then: the median of the cases",
            "plain_error",
            most(0.05),
        ),
        ("the largest error of a share", "share_error", most(0.03)),
    ] {
        lab.check(claim, at(&found, &format!("/{name}")), bound);
    }
    Ok(())
}

/// Measures a case with and without its knob.
fn stages(lab: &Lab<'_>, flags: &str, case: &str) -> Result<Value> {
    let run = "cargo run --quiet --release --manifest-path lab/Cargo.toml -p curtail-stages --";
    let measured = lab.run(format!("{run} --json {flags} {case}")).json()?;
    Ok(element(&measured, "name", case).clone())
}

/// Returns the element of a list in which a member has this value.
fn element<'a>(list: &'a Value, member: &str, value: &str) -> &'a Value {
    let mut all = list.as_array().into_iter().flatten();
    all.find(|element| element[member] == value).unwrap_or(&Value::Null)
}

/// Judges the claim that a text equals another one.
fn equal(lab: &mut Lab<'_>, claim: impl Into<String>, text: String, wanted: &str) {
    lab.all(claim, &[text], |text| text == wanted);
}

fn cost(lab: &mut Lab<'_>) -> Result<()> {
    let effort = lab.var("cost", "--rounds 12 --seconds 4", "--rounds 3 --seconds 4");
    let effort = format!("--curtail build {effort}");
    let cases = ["memcached-cost", "memcached-cost-all"];
    let [few, all] = cases.map(|case| stages(lab, &effort, case));
    let (few, all) = (few?, all?);
    let batched = "--curtail build --rounds 3 --seconds 1";
    let batched = stages(lab, batched, "memcached-batched")?;
    for (case, measured, bound) in [(cases[0], &few, 1.05), (cases[1], &all, 1.25)] {
        let claim = format!("{case}: p50 with profiling, relative to p50 before");
        lab.check(claim, at(measured, "/p50/value"), most(bound));
    }
    for (case, measured) in [(cases[0], &few), (cases[1], &all)] {
        let claim = format!("{case}: the cost as a share of the median, as reported");
        lab.check(claim, at(measured, "/profile/cost/share"), noted());
    }
    let first = "/profiles/before/stages/0";
    for (claim, found, wanted) in [
        (
            "one request at a time: the stage with the most variance",
            text(&all, "/profile/stages/0/name"),
            "tcp-to-socket",
        ),
        (
            "batches: the stage with the most variance",
            text(&batched, &format!("{first}/name")),
            "socket-to-parse",
        ),
        (
            "batches: the most likely cause",
            text(&batched, &format!("{first}/causes/0/kind")),
            "batch",
        ),
    ] {
        equal(lab, claim, found, wanted);
    }
    let claim = "batches: mean in the server with the knob, relative to without, the upper end of the interval";
    let high = at(&batched, "/profiles/compared/total/mean_ns/ratio_ci95/1");
    lab.check(claim, high, most(1.0));
    Ok(())
}

/// Measures cases with the effort of the line.
fn with_effort<const N: usize>(lab: &Lab<'_>, cases: [&str; N]) -> Result<Vec<Value>> {
    let effort = lab.var("effort", "--rounds 80 --seconds 0.2", "--quick");
    cases.into_iter().map(|case| stages(lab, &effort, case)).collect()
}

fn cases(lab: &mut Lab<'_>) -> Result<()> {
    let cases = ["memcached-high", "memcached-low", "httpd"];
    let measured = with_effort(lab, cases)?;
    for (case, measured) in [(cases[0], &measured[0]), (cases[2], &measured[2])] {
        let claim = "p99 with the knob, relative to before, the upper end of the interval";
        lab.check(format!("{case}: {claim}"), at(measured, "/p99/high"), most(1.0));
    }
    let published = [
        ["0.74 to 0.76", "0.60 to 0.66"],
        ["0.72 to 0.80", "0.68 to 0.96"],
        ["0.50 to 0.85", "0.48 to 0.81"],
    ];
    for ((case, measured), published) in cases.iter().zip(&measured).zip(published) {
        for (of, published) in ["mean", "p99"].into_iter().zip(published) {
            let claim =
                format!("{case}: {of} with the knob, relative to before (published: {published})");
            lab.check(claim, at(measured, &format!("/{of}/value")), noted());
        }
    }
    let claim =
        "memcached-low: processor time of the LRU thread per request, as a share of the server's";
    let [thread, whole] =
        ["background_cpu_us", "cpu_us"].map(|of| at(&measured[1], &format!("/medians/0/{of}")));
    lab.check(claim, thread / whole, most(0.05));
    Ok(())
}

fn counter(lab: &mut Lab<'_>) -> Result<()> {
    let cases = ["memcached-low-mean", "memcached-high-pinned"];
    let measured = with_effort(lab, cases)?;
    for (end, pointer, bound) in
        [(", the lower end of the interval", "/mean/low", least(1.0)), ("", "/mean/value", noted())]
    {
        for (at_case, published) in ["up to 1.32", "1.12"].into_iter().enumerate() {
            let claim = format!(
                "{}: mean with the knob, relative to before{end} (published: {published})",
                cases[at_case]
            );
            lab.check(claim, at(&measured[at_case], pointer), &bound);
        }
    }
    Ok(())
}

fn traces(lab: &mut Lab<'_>) -> Result<()> {
    const DATABASE: &str = "mysql: SQL SELECT";
    let hotrod =
        lab.run("@soa traces --json --curtail @curtail --dir").arg(lab.root.join("out/hotrod"));
    let hotrod = hotrod.json()?;
    let names = ["unmodified", "redis-varies"];
    let [unmodified, varies] = names.map(|name| element(&hotrod, "hotrod", name));
    let claim = "the database, which serves one query at a time, has most of the variance";
    equal(lab, format!("unmodified: {claim}"), text(unmodified, "/first"), DATABASE);
    let share = at(unmodified, "/stages/mysql:-SQL-SELECT/variance_share");
    lab.check("unmodified: the database's share of the variance", share, least(0.5));
    let claim = "after Redis was made to vary: the service with most of the variance";
    equal(lab, claim, text(varies, "/first"), "redis-manual: GetDriver");
    let redis = "/stages/redis-manual:-GetDriver";
    let claim =
        "after Redis was made to vary: its share of the variance, the lower end of the interval";
    let low = at(varies, &format!("{redis}/variance_share_ci95/0"));
    lab.check(claim, low, least(0.5));
    for (name, of) in [(names[0], unmodified), (names[1], varies)] {
        let claim = format!("{name}: the database has the largest mean");
        equal(lab, claim, text(of, "/longest"), DATABASE);
    }
    let claim =
        "Redis' mean after it was made to vary, relative to before: only the variance was changed";
    let [before, after] = [unmodified, varies].map(|of| at(of, &format!("{redis}/mean_ns")));
    lab.check(claim, after / before, most(1.5).least(0.6));
    for (name, of) in [(names[0], unmodified), (names[1], varies)] {
        lab.check(format!("{name}: number of traces"), at(of, "/requests"), least(120.0));
    }
    Ok(())
}

fn known(lab: &mut Lab<'_>) -> Result<()> {
    let tests = "cargo test --quiet -p curtail-probe --lib -- --nocapture traces::known";
    let found = lab.run(tests).lines("known causes: ")?;
    let counts = numbers(found.first().map_or("", String::as_str));
    lab.check("right cases", counts.first().copied(), least(28.0));
    lab.check("wrong cases", counts.get(2).copied(), most(0.0));
    Ok(())
}
