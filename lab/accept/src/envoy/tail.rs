//! Tails in front of four leaves that serve first come, first served, and stop a query whose
//! connection closes.
//!
//! The program is `lab/rivals`: contenders take turns, and in a round they get the same arrivals,
//! service times and hiccups. World A has exponential service times and leaves that are 76 % busy. In
//! B and C a query takes 10 ms, and 2 % of the executions take 200 ms longer.

use anyhow::Result;
use serde_json::Value;

use crate::figures::{at, each, list, median, min, over, text};
use crate::lab::Lab;
use crate::line::Line;
use crate::verdict::{below, most, noted};

pub(super) const A_2: Line = Line {
    name: "tail-a",
    text: "exponential service times, leaves 76 % busy",
    judge: |lab| tail(lab, &A),
    ..TAIL_2
};

pub(super) const B_2: Line = Line {
    name: "tail-b",
    text: "10 ms, and 200 ms more in 2 % of the executions, 120 per second",
    judge: |lab| tail(lab, &B),
    ..TAIL_2
};

pub(super) const C_2: Line = Line {
    name: "tail-c",
    text: "10 ms, and 200 ms more in 2 % of the executions, 230 per second",
    judge: |lab| tail(lab, &C),
    ..TAIL_2
};

const TAIL_2: Line =
    Line { number: 2, seconds: 590, quick_seconds: 85, needs: &NEEDS, ..Line::NEW };

pub(super) const TWO_6: Line = Line {
    number: 6,
    name: "two",
    text: "two Envoys before the same leaves: rescue+bounded:2 and C3, compared with least request",
    seconds: 560,
    quick_seconds: 60,
    needs: &NEEDS,
    judge: two,
    ..Line::NEW
};

const NEEDS: [&str; 2] = ["program:setpriv", "pip:envoy"];

/// Leaves and their load.
struct World {
    name: &'static str,
    service: &'static str,
    /// Requests per second.
    rate: usize,
}

const A: World = World { name: "A", service: "exponential", rate: 304 };
const B: World = World { name: "B", service: "hiccups", rate: 120 };
const C: World = World { name: "C", service: "hiccups", rate: 230 };

/// Envoy without a hedge compares all leaves, and so does Envoy with one.
const PLAIN: &str = "envoy:none";
const ENVOYS: [&str; 4] = [PLAIN, "envoy:15ms", "envoy:30ms", "envoy:60ms"];
const POLICIES: [&str; 5] = ["psq", "rescue", "laedge:cc", "c3", "prequal"];
const PERCENTILES: [&str; 3] = ["p50", "p99", "p999"];

fn module(policy: &str) -> String {
    format!("module:{policy}")
}

/// The results of contenders in a world.
struct Results(Value);

impl Results {
    /// Measures contenders, each with this number of processes. `span` is the duration of a turn in
    /// seconds.
    fn measure(
        lab: &Lab<'_>,
        world: &World,
        contenders: &[String],
        proxies: usize,
        span: usize,
    ) -> Result<Self> {
        let World { name, service, rate } = world;
        let starts = lab.number("starts", 3, 1)?;
        let cold = lab.number("cold", 2 * rate, rate / 2)?;
        let warm = lab.number("span", span, 4)? * rate;
        let rivals = lab.run(format!(
            "@rivals --json --curtail @curtail --envoy @envoy --module @module --service {service} \
             --rates {rate} --starts {starts} --cold {cold} --warm {warm} --proxies {proxies} \
             --dir {}/{name} --contenders",
            lab.folder.display()
        ));
        Ok(Self(rivals.arg(contenders.join(",")).json()?))
    }

    fn of(&self, name: &str) -> &Value {
        let mut contenders = list(&self.0["contenders"]).iter();
        contenders.find(|contender| contender["name"] == name).unwrap_or(&Value::Null)
    }

    /// Returns p99 of all starts together.
    fn p99(&self, name: &str) -> f64 {
        at(self.of(name), "/warm/p99_ms")
    }

    /// Returns the median over rounds of the ratio of two p99 of the same round.
    fn ratio(&self, one: &str, other: &str) -> f64 {
        let [one, other] = [one, other].map(|name| each(list(&self.of(name)["warm_p99_ms"]), ""));
        median(&over(&one, &other))
    }

    /// Returns p99 over the lowest p99 of these contenders.
    fn over_lowest(&self, one: &str, others: &[&str]) -> f64 {
        self.p99(one) / min(&others.iter().map(|name| self.p99(name)).collect::<Vec<_>>())
    }

    /// Prints the figures of every contender. Hedges of others may be overloaded in a world, so only
    /// the runs of `ours` must be valid.
    fn print(&self, lab: &mut Lab<'_>, world: &World, ours: &[String]) {
        let name = world.name;
        for contender in list(&self.0["contenders"]) {
            let ms = PERCENTILES.map(|of| at(contender, &format!("/warm/{of}_ms")));
            let [copies, errors, invalid] = ["copies_per_request", "errors", "invalid"]
                .map(|of| at(contender, &format!("/{of}")));
            let shown = format!("{copies:.3} copies per query, {errors} errors, {invalid} invalid");
            let claim = format!("{name}, {}: p50, p99, p99.9", text(contender, "/name"));
            lab.check(claim, ms, noted().unit("ms").optional().show(shown));
        }
        for (claim, of) in [("every start is valid", "/invalid"), ("no request failed", "/errors")]
        {
            let figures: Vec<f64> = ours.iter().map(|name| at(self.of(name), of)).collect();
            lab.check(format!("{name}, ours: {claim}"), figures, most(0.0));
        }
    }
}

fn tail(lab: &mut Lab<'_>, world: &World) -> Result<()> {
    let modules: Vec<String> = POLICIES.map(module).into();
    let ours: Vec<String> = POLICIES.map(str::to_owned).into_iter().chain(modules).collect();
    let envoys = ENVOYS.map(str::to_owned).into_iter();
    let all: Vec<String> = envoys.chain(ours.iter().cloned()).collect();
    let results = Results::measure(lab, world, &all, 1, 11)?;
    results.print(lab, world, &ours);
    let name = world.name;
    for policy in POLICIES {
        let ratio = results.ratio(&module(policy), policy);
        let claim = format!("{name}, {policy}: p99 in Envoy over that of curtail proxy");
        lab.check(claim, ratio, most(1.1));
    }
    // Rescue is meant for worlds with hiccups. Other policies may do without second copies.
    for policy in POLICIES {
        let judged = policy == "rescue" && world.service == B.service;
        let bound = if judged { below(1.0) } else { noted() };
        let claim = format!("{name}, {policy}: p99 in Envoy over the lowest of Envoy's own");
        lab.check(claim, results.over_lowest(&module(policy), &ENVOYS), bound);
    }
    Ok(())
}

fn two(lab: &mut Lab<'_>) -> Result<()> {
    let ours = ["rescue+bounded:2", "c3"].map(module);
    let all = [&[PLAIN.to_owned()], &ours[..]].concat();
    for world in [A, B, C] {
        let results = Results::measure(lab, &world, &all, 2, 16)?;
        results.print(lab, &world, &ours);
        for contender in &ours {
            let name = world.name;
            let claim = format!("{name}, {contender}: p99 over that of two with least request");
            lab.check(claim, results.ratio(contender, PLAIN), below(1.0));
        }
    }
    Ok(())
}
