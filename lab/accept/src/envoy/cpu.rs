//! What a request costs in Envoy: with its own router, and with Curtail in the router's place.

use anyhow::Result;

use crate::bench::Cost;
use crate::figures::{median, over};
use crate::install;
use crate::lab::Lab;
use crate::line::Line;
use crate::proxies::{CURTAIL, ENVOY, MODULE, Proxy};
use crate::verdict::{Bound, above, least, most, noted};

pub(super) const CPU_3: Line = Line {
    number: 3,
    name: "cpu",
    text: "CPU per request over that of Envoy's own router, tiny responses in a closed loop",
    seconds: 240,
    quick_seconds: 30,
    needs: &["cores:2", "program:setpriv", "apt:nginx", "apt:wrk", "pip:envoy"],
    judge: cpu,
    ..Line::NEW
};

pub(super) const INSTRUCTIONS_3: Line = Line {
    number: 3,
    name: "instructions",
    text: "instructions per request over those of Envoy's own router",
    seconds: 170,
    quick_seconds: 170,
    needs: &["program:valgrind", "program:curl", "apt:nginx", "pip:envoy"],
    judge: instructions,
    ..Line::NEW
};

/// Policies in the module, and the cost that they may have over the router.
fn bounds() -> [(&'static str, Bound); 2] {
    [("psq", most(1.1)), ("rescue", most(1.15))]
}

fn cpu(lab: &mut Lab<'_>) -> Result<()> {
    let [(psq, _), (rescue, _)] = bounds();
    let sides: [(&str, Proxy, &str); 5] = [
        ("router", ENVOY, ""),
        ("psq", MODULE, psq),
        ("rescue", MODULE, rescue),
        ("curtail proxy, psq", CURTAIL, psq),
        ("curtail proxy, rescue", CURTAIL, rescue),
    ];
    let turn = |side: usize, _| {
        let (_, proxy, policy) = sides[side];
        Cost::measure(lab, Some(proxy), policy)
    };
    let found = lab.rounds(sides.len(), lab.number("rounds", 7, 1)?, turn, |_| true)?;
    let ns = |side: usize| -> Vec<f64> { found[side].iter().map(|cost| cost.proxy_ns).collect() };
    for ((policy, bound), side) in bounds().into_iter().zip(1..) {
        let claim = format!("{policy}: CPU per request over that of the router, median of rounds");
        lab.check(claim, median(&over(&ns(side), &ns(0))), bound);
    }
    for (side, (name, ..)) in sides.into_iter().enumerate() {
        lab.check(format!("{name}: CPU per request"), ns(side), above(0.0).unit("ns"));
        let rates: Vec<f64> = found[side].iter().map(|cost| cost.per_second).collect();
        lab.check(format!("{name}: requests per second"), rates, above(0.0));
    }
    Ok(())
}

/// Counts the instructions in user space. They are the same in every run, but they leave out the
/// system's part of the CPU time, which is the same for all, so their ratios are higher and have no
/// bound.
fn instructions(lab: &mut Lab<'_>) -> Result<()> {
    let count = |proxy: &str| {
        let script = format!("sh lab/accept/files/instructions.sh @curtail {proxy}");
        let run = lab.run(script).env("ENVOY", install::program(lab.root, "envoy")?);
        let fields = run.env("MODULE", install::program(lab.root, "module")?).fields()?;
        anyhow::Ok(fields.number("instructions"))
    };
    let router = count("envoy")?;
    let counts = bounds().map(|(policy, _)| (policy, count(&format!("module:{policy}"))));
    lab.check("router: instructions per request", router, least(20_000.0));
    for (policy, count) in counts {
        let count = count?;
        lab.check(format!("{policy}: instructions per request"), count, least(20_000.0));
        lab.check(format!("{policy}: over those of the router"), count / router, noted());
    }
    Ok(())
}
