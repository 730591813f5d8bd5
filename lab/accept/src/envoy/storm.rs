//! Requests, servers and a control plane that misbehave in every way.

use anyhow::Result;

use crate::lab::Lab;
use crate::line::Line;
use crate::verdict::{above, least, most, noted};

pub(super) const STORM_4: Line = Line {
    number: 4,
    name: "storm",
    text: "5 million requests, 1 to 4 workers: kills, pauses, broken responses, clients that leave, and xDS \
           updates every second",
    seconds: 1_500,
    quick_seconds: 120,
    needs: &["program:curl", "program:bc", "program:go", "go:xds", "pip:envoy"],
    judge: storm,
    ..Line::NEW
};

/// The policy for each number of workers.
const POLICIES: [&str; 4] = ["rescue", "laedge:cc+pc", "rescue", "psq"];

fn storm(lab: &mut Lab<'_>) -> Result<()> {
    let requests: u32 = lab.number("requests", 1_250_000, 60_000)?;
    for (policy, workers) in POLICIES.into_iter().zip(1..) {
        let script = format!(
            "sh lab/accept/files/storm.sh @curtail @module @envoy @storm @xds {policy} {workers} {requests}"
        );
        let fields = lab.run(script).fields()?;
        let of = |name: &str| fields.number(name);
        let at = format!("{workers} worker(s), {policy}");
        lab.check(format!("{at}: requests"), of("sent"), least(f64::from(requests)));
        lab.check(format!("{at}: good responses"), of("good"), least(0.9 * f64::from(requests)));
        lab.check(format!("{at}: responses to other requests"), of("wrong"), most(0.0));
        lab.check(format!("{at}: requests without a response"), of("silent"), most(0.0));
        lab.check(format!("{at}: POST requests that ran twice"), of("twice"), most(0.0));
        let open = of("started") - of("ended");
        lab.check(format!("{at}: copies that never ended"), open, most(0.0));
        lab.check(
            format!("{at}: queries and copies left"),
            of("waiting") + of("active"),
            most(0.0),
        );
        lab.check(format!("{at}: updates of the listener"), of("updates"), above(8.0));
        let growth = of("late_kb") / of("early_kb");
        lab.check(format!("{at}: memory at the end over that at a fifth"), growth, most(1.15));
        lab.check(format!("{at}: Envoy runs on"), of("alive"), least(1.0));
        lab.check(format!("{at}: bad responses"), of("bad"), noted());
    }
    Ok(())
}
