//! Document 002, chapter 5: Cicero, end to end. The graphs are in `lab/soa`. All kinds of control
//! get the same requests. This file contains the simulated lines.

mod faults;
mod live;

use anyhow::Result;
use serde_json::{Value, json};

use crate::figures::{at, each, find, list, mean, median};
use crate::lab::{Lab, repeated};
use crate::line::Line;
use crate::verdict::{above, below, least, most, noted};

pub(crate) const LINES: [Line; 15] = [
    ISOLATION_1,
    DEADLINES_2,
    GOODPUT_7,
    RECOVERY_3,
    live::SETTLE_4,
    live::LAYERS_5,
    THROUGHPUT_8,
    HOTSPOT_9,
    QUANTILE_10,
    SENSITIVITY_15,
    live::ISOLATION_LIVE_11,
    live::DEADLINES_LIVE_12,
    live::HOTROD_6,
    faults::FAULTS_13,
    faults::REPLICAS_14,
];

const ISOLATION_1: Line = Line {
    number: 1,
    name: "isolation",
    text: "simulated, Figures 5.5 and 5.6: F sends 10 times its fair share, and the others are \
           hardly affected",
    seconds: 40,
    quick_seconds: 25,
    judge: isolation,
    ..Line::NEW
};
const DEADLINES_2: Line = Line {
    number: 2,
    name: "deadlines",
    text: "simulated, Table 5.4 with a synthesized mix: p99 of latency over deadline",
    seconds: 150,
    quick_seconds: 80,
    judge: deadlines,
    ..Line::NEW
};
const GOODPUT_7: Line = Line {
    number: 7,
    name: "goodput",
    text: "simulated: responses in time at 1.0 to 2.0 times the capacity, with requests that fan \
           out",
    seconds: 40,
    quick_seconds: 15,
    judge: goodput,
    ..Line::NEW
};
const RECOVERY_3: Line = Line {
    number: 3,
    name: "recovery",
    text: "simulated: 60 s at three times the capacity, and back",
    seconds: 30,
    quick_seconds: 20,
    judge: recovery,
    ..Line::NEW
};
const THROUGHPUT_8: Line = Line {
    number: 8,
    name: "throughput",
    text: "simulated, Figure 5.7: tenants that need low latency beside 40 to 200 clients that need \
           throughput",
    seconds: 20,
    quick_seconds: 12,
    judge: throughput,
    ..Line::NEW
};
const HOTSPOT_9: Line = Line {
    number: 9,
    name: "hotspot",
    text: "simulated, Figure 5.8: B joins A on one process at 40 s and doubles at 60 s; rates \
           alone, first come, first served",
    seconds: 8,
    quick_seconds: 5,
    judge: hotspot,
    ..Line::NEW
};
const QUANTILE_10: Line = Line {
    number: 10,
    name: "quantile",
    text: "simulated, Figure 5.9: the quantile of the rates of a service's processes",
    seconds: 8,
    quick_seconds: 4,
    judge: quantile,
    ..Line::NEW
};
const SENSITIVITY_15: Line = Line {
    number: 15,
    name: "sensitivity",
    text: "simulated, 1.5 times the capacity: goodput with each parameter halved and doubled (for \
           target and the decays: 1 minus the parameter) over that of the defaults",
    seconds: 40,
    quick_seconds: 20,
    judge: sensitivity,
    ..Line::NEW
};

/// Simulates a graph under several kinds of control. `words` begin with its file.
fn graph(lab: &Lab<'_>, words: &str, controls: &str) -> Result<Value> {
    let replications = lab.number("replications", 4, 2)?;
    let controls = repeated("--control", controls);
    let words = format!("{words} --json --replications {replications} {controls}");
    lab.run(format!("@curtail graph lab/soa/{words}")).json()
}

/// The results of a graph at several loads.
struct ByLoad<const N: usize>([(&'static str, Value); N]);

impl<const N: usize> ByLoad<N> {
    fn of(
        loads: [&'static str; N],
        mut measure: impl FnMut(&str) -> Result<Value>,
    ) -> Result<Self> {
        let mut results = loads.map(|load| (load, Value::Null));
        for (load, results) in &mut results {
            *results = measure(load)?;
        }
        Ok(Self(results))
    }

    fn at(&self, load: &str) -> &Value {
        self.0.iter().find(|(of, _)| *of == load).map_or(&Value::Null, |(_, results)| results)
    }
}

fn control<'a>(results: &'a Value, name: &str) -> &'a Value {
    find(list(results), &json!({ "control": name }))
}

fn workflow<'a>(results: &'a Value, of: &str, name: &str) -> &'a Value {
    find(list(&control(results, of)["workflows"]), &json!({ "name": name }))
}

/// Returns a figure of all workflows.
fn all(results: &Value, of: &str, figure: &str) -> f64 {
    at(control(results, of), &format!("/all/{figure}"))
}

/// Returns a figure of all workflows with one kind of control over that with another one.
fn all_over(results: &Value, one: &str, other: &str, figure: &str) -> f64 {
    all(results, one, figure) / all(results, other, figure)
}

const LATE: &str = "lateness/p99";

/// Judges fair queuing and rates while F floods the services.
fn others_are_unhurt(lab: &mut Lab<'_>, flood: &Value, calm: &Value) {
    let ratio = |name: &str, figure: &str| {
        let of = |results| at(workflow(results, "fq+fifo+rc", name), figure);
        of(flood) / of(calm)
    };
    for name in ["A", "B", "C", "D", "E"] {
        let claim = format!("fair queuing and rates: p99 of {name} beside F over that without F");
        lab.check(claim, ratio(name, "/latency_ms/p99"), most(1.2));
    }
    for name in ["A", "B", "C", "D", "E", "G"] {
        let claim =
            format!("fair queuing and rates: goodput of {name} beside F over that without F");
        lab.check(claim, ratio(name, "/goodput"), least(0.98));
    }
}

fn isolation(lab: &mut Lab<'_>) -> Result<()> {
    let controls = "timeouts fifo+rc fq+fifo+rc";
    let flood = graph(lab, "isolation.toml", controls)?;
    let calm = graph(lab, "isolation.toml --without F", controls)?;
    others_are_unhurt(lab, &flood, &calm);
    for (of, name) in [("timeouts", "A"), ("timeouts", "E"), ("fifo+rc", "A"), ("fifo+rc", "G")] {
        let goodput = |results| at(workflow(results, of, name), "/goodput");
        let claim = format!(
            "rates alone, or nothing: goodput of {name} beside F over that without F, {of}"
        );
        lab.check(claim, goodput(&flood) / goodput(&calm), noted());
    }
    for how in ["/timed_out", "/dropped"] {
        let claim = "share of G's requests that time out or are rejected (published: 12 % with \
                     rates alone), fq+fifo+rc";
        lab.check(claim, at(workflow(&flood, "fq+fifo+rc", "G"), how), most(0.01));
    }
    Ok(())
}

fn deadlines(lab: &mut Lab<'_>) -> Result<()> {
    let mix = ByLoad::of(["1", "1.5", "2", "2.5"], |load| {
        let controls = "timeouts fifo+rc edf+rc lstf+rc google gradient2 dagor prices";
        graph(lab, &format!("deadlines.toml --load {load}"), controls)
    })?;
    let source = ByLoad::of(["2", "2.5"], |load| {
        let words = format!("deadlines.toml --load {load} --tune expiry=-1");
        graph(lab, &words, "fifo+rc edf+rc lstf+rc")
    })?;
    for (load, results) in &source.0 {
        for of in ["edf+rc", "lstf+rc"] {
            let claim = format!(
                "dropped at admission only, as in the source, {load} × 100 clients: {of} over \
                 fifo+rc"
            );
            lab.check(claim, all_over(results, of, "fifo+rc", LATE), below(1.0));
        }
    }
    for (_, results) in &source.0 {
        let claim =
            "dropped at admission only: LSTF over EDF (published: 0.74 and 0.85; 1.14 at 100)";
        lab.check(claim, all_over(results, "lstf+rc", "edf+rc", LATE), noted());
    }
    for (load, results) in &mix.0[2..] {
        for (of, other) in [("lstf+rc", "edf+rc"), ("edf+rc", "fifo+rc")] {
            let claim = format!("{load} × 100 clients: {of} over {other}");
            lab.check(claim, all_over(results, of, other, LATE), most(1.02));
        }
    }
    for (load, results) in &mix.0[2..] {
        let claim =
            format!("{load} × 100 clients: timeouts only over lstf+rc (published: 10.8 at 250)");
        lab.check(claim, all_over(results, "timeouts", "lstf+rc", LATE), least(10.0));
    }
    for (load, controls) in [
        ("1", &["timeouts", "fifo+rc", "edf+rc", "lstf+rc"][..]),
        ("1.5", &["timeouts", "lstf+rc"]),
        ("2", &["timeouts", "fifo+rc", "lstf+rc"]),
        ("2.5", &["timeouts", "fifo+rc", "lstf+rc"]),
    ] {
        for of in controls {
            let claim = format!("{load} × 100 clients: {of}, p99 of lateness");
            lab.check(claim, all(mix.at(load), of, LATE), noted());
        }
    }
    for (load, others) in [
        ("2", &["timeouts", "fifo+rc", "google", "gradient2", "dagor", "prices"][..]),
        ("2.5", &["gradient2", "dagor"]),
    ] {
        for other in others {
            let claim = format!(
                "{load} × 100 clients, at which others starve scans: goodput of lstf+rc over that \
                 of {other}"
            );
            lab.check(claim, all_over(mix.at(load), "lstf+rc", other, "goodput"), noted());
        }
    }
    Ok(())
}

fn goodput(lab: &mut Lab<'_>) -> Result<()> {
    let others =
        ["timeouts", "google", "gradient2", "dagor", "dagor:40ms", "prices", "prices:80ms"];
    let fan = ByLoad::of(["1", "1.25", "1.5", "2"], |load| {
        let controls = format!("fifo+rc edf+rc lstf+rc {}", others.join(" "));
        graph(lab, &format!("goodput.toml --load {load}"), &controls)
    })?;
    for (load, results) in &fan.0 {
        for other in others {
            let claim =
                format!("{load} times the capacity: goodput of lstf+rc over that of {other}");
            lab.check(claim, all_over(results, "lstf+rc", other, "goodput"), above(1.0));
        }
    }
    for (load, controls) in [
        ("1", &["lstf+rc"][..]),
        ("2", &["lstf+rc", "timeouts", "google", "gradient2", "dagor", "prices"]),
    ] {
        for of in controls {
            let claim = format!("{load} times the capacity: wasted work, {of}");
            lab.check(claim, at(control(fan.at(load), of), "/wasted_work"), noted());
        }
    }
    Ok(())
}

fn recovery(lab: &mut Lab<'_>) -> Result<()> {
    let controls = "timeouts fifo+rc fq+fifo+rc lstf+rc google gradient2 dagor prices";
    let surge = graph(lab, "recovery.toml", controls)?;
    let overload = |of| all(&surge, of, "series/79/good") / 800.0;
    let after = |of| all(&surge, of, "series/84/good") / 640.0;
    let ours = ["fifo+rc", "fq+fifo+rc", "lstf+rc"];
    for of in ours {
        let claim =
            format!("{of}: goodput in the fifth second after the overload over the offered load");
        lab.check(claim, after(of), least(0.95));
    }
    for of in ours {
        let claim = format!("{of}: work for requests without a response in time, of all work");
        lab.check(claim, at(control(&surge, of), "/wasted_work"), most(0.05));
    }
    let both = ["timeouts", "google", "gradient2", "dagor", "prices"];
    let both = both.iter().flat_map(|of| [(*of, overload(of)), (*of, after(of))]);
    let one = ["fifo+rc", "lstf+rc"].map(|of| (of, overload(of)));
    for (of, share) in both.chain(one) {
        let claim = format!(
            "{of}: goodput 60 s into the overload over the capacity; 5 s after it over the offered \
             load"
        );
        lab.check(claim, share, noted());
    }
    Ok(())
}

fn throughput(lab: &mut Lab<'_>) -> Result<()> {
    let mix = ByLoad::of(["1", "3", "5"], |load| {
        graph(lab, &format!("throughput.toml --load {load}"), "timeouts fq+fifo+rc")
    })?;
    // The share of responses in time, of all requests that need low latency.
    let in_time = |results: &Value, of: &str| {
        let workflows = list(&control(results, of)["workflows"]).iter();
        let quick: Vec<&Value> =
            workflows.filter(|of| (5.0..=15.0).contains(&at(of, "/offered"))).collect();
        let figure = |pointer| mean(&each(quick.iter().copied(), pointer));
        figure("/goodput") / figure("/offered")
    };
    for (load, results) in &mix.0 {
        let claim = format!(
            "{load} × 40 clients: responses in time, as a share of all requests that need low \
             latency (published at 5: 80 % of those admitted)"
        );
        lab.check(claim, in_time(results, "fq+fifo+rc"), least(0.98));
    }
    for (load, results) in &mix.0 {
        let claim = format!("{load} × 40 clients: the same, timeouts only (published at 1: all)");
        lab.check(claim, in_time(results, "timeouts"), noted());
    }
    for (load, results) in &mix.0 {
        let goodput = |of| at(workflow(results, of, "throughput"), "/goodput");
        let claim = format!(
            "{load} × 40 clients: throughput of these clients over that with timeouts only"
        );
        lab.check(claim, goodput("fq+fifo+rc") / goodput("timeouts"), noted());
    }
    Ok(())
}

fn hotspot(lab: &mut Lab<'_>) -> Result<()> {
    let spot = graph(lab, "hotspot.toml", "timeouts fifo+rc")?;
    let (before, joined, doubled) = (21.0..=40.0, 41.0..=60.0, 61.0..=80.0);
    // The median latency in a period over that before B joined.
    let slower = |of: &str, name: &str, period: &std::ops::RangeInclusive<f64>| {
        let series = list(&workflow(&spot, of, &format!("{name}3"))["series"]);
        let within = |period: &std::ops::RangeInclusive<f64>| {
            let seconds = series.iter().filter(|second| period.contains(&at(second, "/at_s")));
            median(&each(seconds, "/p50_ms"))
        };
        within(period) / within(&before)
    };
    for (name, when, period, bound) in [
        ("A", "from 40 to 60 s", &joined, 2.5),
        ("A", "from 60 to 80 s", &doubled, 3.0),
        ("C", "from 60 to 80 s", &doubled, 1.2),
        ("D", "from 60 to 80 s", &doubled, 1.2),
    ] {
        let claim = format!("{name}: median latency {when} over that before, fifo+rc");
        lab.check(claim, slower("fifo+rc", name, period), most(bound));
    }
    for (when, period) in [("from 40 to 60 s", &joined), ("from 60 to 80 s", &doubled)] {
        let claim = format!("A: the same {when}, timeouts only");
        lab.check(claim, slower("timeouts", "A", period), noted());
    }
    for name in ["A", "C", "D"] {
        let workflow = workflow(&spot, "fifo+rc", &format!("{name}3"));
        let claim = format!("{name}: responses in time, as a share of all requests, rates alone");
        lab.check(claim, at(workflow, "/goodput") / at(workflow, "/offered"), least(0.99));
    }
    Ok(())
}

fn quantile(lab: &mut Lab<'_>) -> Result<()> {
    let scans = ByLoad::of(["0", "0.5", "1"], |q| {
        graph(lab, &format!("quantile.toml --tune quantile={q}"), "fifo+rc")
    })?;
    let scan = |q: &str, pointer: &str| at(workflow(scans.at(q), "fifo+rc", "scan"), pointer);
    let rate = |q: &str, service: &str, figure: &str| {
        let rates = list(&workflow(scans.at(q), "fifo+rc", "scan")["rates"]);
        at(find(rates, &json!({ "service": service })), figure)
    };
    for (q, bound) in [("0", 1.1), ("1", 0.97)] {
        let claim = format!("throughput of the scan at q = 0.5 over that at q = {q}");
        lab.check(claim, scan("0.5", "/goodput") / scan(q, "/goodput"), least(bound));
    }
    for q in ["0", "0.5", "1"] {
        let claim = format!("rates at the entry at q = {q}: their sum over the throughput");
        lab.check(claim, rate(q, "fe", "/mean") / scan(q, "/goodput"), noted());
    }
    for service in ["fe", "ps", "bs"] {
        for q in ["0", "0.5", "1"] {
            let claim = format!(
                "swing of the rates of {service} at q = {q} (standard deviation over mean)"
            );
            lab.check(claim, rate(q, service, "/swing"), noted());
        }
    }
    Ok(())
}

/// Returns the goodput of all at 1.5 times the capacity, with values of parameters.
fn tuned(lab: &Lab<'_>, tune: &str) -> Result<f64> {
    let results = graph(lab, &format!("goodput.toml --load 1.5 {tune}"), "lstf+rc")?;
    Ok(all(&results, "lstf+rc", "goodput"))
}

fn sensitivity(lab: &mut Lab<'_>) -> Result<()> {
    let defaults = tuned(lab, "")?;
    for (name, values) in [
        ("interval", ["0.05", "0.2"]),
        ("quantile", ["0.25", "0.75"]),
        ("probe", ["0.01", "0.04"]),
        ("spare-gain", ["0.25", "1"]),
        ("target", ["0.9", "0.975"]),
        ("drain", ["0.25", "1"]),
        ("decay", ["0.6", "0.9"]),
        ("slow-decay", ["0.9", "0.975"]),
        ("memory", ["50", "200"]),
        ("slack", ["0.1", "0.4"]),
        ("margin", ["2", "8"]),
        ("expiry", ["0.5", "2"]),
        ("least-rate", ["0.5", "2"]),
    ] {
        for value in values {
            let goodput = tuned(lab, &format!("--tune {name}={value}"))?;
            lab.check(format!("{name} = {value}"), goodput / defaults, least(0.95));
        }
    }
    Ok(())
}
