//! Lines of document 002, chapter 5, that run `curtail-flow`: its layers in one process, and real
//! processes over gRPC.

use anyhow::Result;
use serde_json::{Value, json};

use super::{ByLoad, LATE, all, all_over, control, others_are_unhurt, workflow};
use crate::figures::{at, each, find, list, max, min};
use crate::lab::{Lab, repeated};
use crate::line::Line;
use crate::verdict::{least, most, noted};

pub(super) const SETTLE_4: Line = Line {
    number: 4,
    name: "settle",
    text: "after a step in capacity or demand, the rates settle within 20 intervals and do not \
           oscillate",
    seconds: 170,
    quick_seconds: 10,
    judge: settle,
    ..Line::NEW
};
pub(super) const LAYERS_5: Line = Line {
    number: 5,
    name: "layers",
    text: "the layers of curtail-flow, in one process: CPU time per hop, bytes of metadata, time \
           per interval",
    seconds: 20,
    quick_seconds: 20,
    judge: layers,
    ..Line::NEW
};
pub(super) const ISOLATION_LIVE_11: Line = Line {
    number: 11,
    name: "isolation-live",
    text: "real processes over gRPC, 2, 1, 2 and 2, a fifth of the load: F sends 10 times its fair \
           share, and the others are hardly affected",
    seconds: 310,
    quick_seconds: 310,
    judge: isolation,
    ..Line::NEW
};
pub(super) const DEADLINES_LIVE_12: Line = Line {
    number: 12,
    name: "deadlines-live",
    text: "real processes over gRPC, 2, 1, 2 and 2, a fifth of the clients: p99 of latency over \
           deadline",
    seconds: 490,
    quick_seconds: 490,
    judge: deadlines,
    ..Line::NEW
};
pub(super) const HOTROD_6: Line = Line {
    number: 6,
    name: "hotrod",
    text: "live, HotROD behind sidecars: a tenant sends 11 times its fair share, and three others \
           keep their goodput",
    seconds: 300,
    needs: &["go", "setpriv"],
    judge: hotrod,
    ..Line::NEW
};

fn settle(lab: &mut Lab<'_>) -> Result<()> {
    let [depths, widths] =
        [lab.var("depths", "1,3,10", "1,3"), lab.var("widths", "1,10,100", "1,10")];
    let settle = format!("@soa settle --json --depth {depths} --width {widths}");
    let steps = lab.run(settle).json()?;
    let steps = list(&steps);
    let claim = "number of intervals until the rates at the entry have settled: the maximum";
    lab.check(claim, max(&each(steps, "/intervals")), most(20.0));
    for (width, bound) in [(1, 0.2), (10, 0.05)] {
        let swings = each(steps.iter().filter(|step| step["width"] == width), "/swing");
        let claim = format!(
            "swing of the rates in the last 5 s (standard deviation over mean), width {width}: the \
             maximum"
        );
        lab.check(claim, max(&swings), most(bound));
    }
    let jain = min(&each(steps, "/jain"));
    lab.check("Jain's index among equal workflows: the minimum", jain, least(0.98));
    Ok(())
}

fn layers(lab: &mut Lab<'_>) -> Result<()> {
    let layers = lab.run("@soa layers --json").json()?;
    let of = |part: &str, workflows: u32, figure: &str| {
        let part = find(list(&layers[part]), &json!({ "workflows": workflows }));
        at(part, &format!("/{figure}/median"))
    };
    let ten_us = most(10_000.0).unit("ns");
    for workflows in [16, 1024] {
        let claim = format!("CPU time per hop, {workflows} workflows");
        lab.check(claim, of("hops", workflows, "cost_ns"), &ten_us);
    }
    for which in ["typical", "largest"] {
        let bytes = at(&layers, &format!("/{which}/member"));
        lab.check(format!("bytes of our member of the baggage, {which}"), bytes, most(200.0));
    }
    for which in ["typical", "largest"] {
        for what in ["timeout", "rate", "spent"] {
            let bytes = at(&layers, &format!("/{which}/{what}"));
            lab.check(format!("further bytes of {what}, {which}"), bytes, noted());
        }
    }
    for workflows in [16, 1024] {
        for figure in ["calm_ns", "short_ns"] {
            let claim = format!("CPU time per interval of 100 ms, {workflows} workflows, {figure}");
            lab.check(claim, of("intervals", workflows, figure), most(1e6).unit("ns"));
        }
    }
    for workflows in [16, 1024] {
        let claim = format!(
            "CPU time per sub-task while one sub-task of each of {workflows} workflows waits"
        );
        lab.check(claim, of("intervals", workflows, "subtask_ns"), &ten_us);
    }
    Ok(())
}

/// Runs the processes of a graph. `words` begin with its file.
fn live(lab: &Lab<'_>, words: &str, controls: &str) -> Result<Value> {
    let controls = repeated("--control", controls);
    lab.run(format!("@soa live lab/soa/{words} --json {controls}")).json()
}

fn isolation(lab: &mut Lab<'_>) -> Result<()> {
    let file = "isolation.toml --time-scale 0.5";
    let flood = live(lab, file, "timeouts fifo+rc fq+fifo+rc")?;
    let calm = live(lab, &format!("{file} --without F"), "timeouts fq+fifo+rc")?;
    others_are_unhurt(lab, &flood, &calm);
    for name in ["A", "E"] {
        let goodput = |results| at(workflow(results, "timeouts", name), "/goodput");
        let claim = format!("timeouts only: goodput of {name} beside F over that without F");
        lab.check(claim, goodput(&flood) / goodput(&calm), noted());
    }
    for of in ["timeouts", "fifo+rc", "fq+fifo+rc"] {
        let claim = format!("goodput of all over that of the simulator, {of}");
        let bound = most(1.05).least(0.95);
        lab.check(claim, over_simulated(&flood, of, "goodput"), bound);
    }
    for of in ["timeouts", "fq+fifo+rc"] {
        let claim = format!("share of the machine that was used, {of}");
        lab.check(claim, at(control(&flood, of), "/cpu/machine"), noted());
    }
    Ok(())
}

/// Returns a measured figure of all workflows over the simulated one.
fn over_simulated(results: &Value, of: &str, figure: &str) -> f64 {
    let simulated = at(control(results, of), &format!("/simulated/all/{figure}"));
    all(results, of, figure) / simulated
}

fn deadlines(lab: &mut Lab<'_>) -> Result<()> {
    let controls = "timeouts fifo+rc edf+rc lstf+rc";
    let mix = ByLoad::of(["2.5", "2"], |load| {
        live(lab, &format!("deadlines.toml --load {load}"), controls)
    })?;
    for (load, results) in &mix.0 {
        for (of, other) in [("lstf+rc", "edf+rc"), ("edf+rc", "fifo+rc")] {
            let claim = format!("{load} × 20 clients: {of} over {other}");
            lab.check(claim, all_over(results, of, other, LATE), most(1.05));
        }
    }
    for ((load, results), bound) in mix.0.iter().zip([10.0, 9.0]) {
        let claim = format!(
            "{load} × 20 clients: timeouts only over lstf+rc (simulated, a fifth of the clients: \
             15.5 at 2.5, 9.8 at 2)"
        );
        lab.check(claim, all_over(results, "timeouts", "lstf+rc", LATE), least(bound));
    }
    for (load, results) in &mix.0 {
        for of in controls.split(' ') {
            let claim =
                format!("{load} × 20 clients: p99 of lateness over that of the simulator, {of}");
            lab.check(claim, over_simulated(results, of, LATE), most(1.1).least(0.9));
        }
    }
    Ok(())
}

fn hotrod(lab: &mut Lab<'_>) -> Result<()> {
    let run = lab.run("@soa hotrod --json --curtail @curtail --dir");
    let results = run.arg(lab.root.join("out/hotrod")).json()?;
    let of = |sidecars: &str, pointer: &str| {
        at(find(list(&results), &json!({ "sidecars": sidecars })), pointer)
    };
    // The ratio was 1.4 while builds ran on the same two cores.
    let claim = "p99 of the others beside the flood over that without";
    lab.check(
        claim,
        of("flow", "/flood/others/p99_ms") / of("flow", "/calm/others/p99_ms"),
        most(1.2),
    );
    let claim = "goodput of the others beside the flood over that without";
    lab.check(
        claim,
        of("flow", "/flood/others/goodput") / of("flow", "/calm/others/goodput"),
        least(0.98),
    );
    for (sidecars, who) in [("flow", "d"), ("plain", "others"), ("plain", "d")] {
        let claim = format!("goodput beside the flood, {sidecars}: {who}");
        lab.check(claim, of(sidecars, &format!("/flood/{who}/goodput")), noted());
    }
    Ok(())
}
