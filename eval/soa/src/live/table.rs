//! Formats a live run as a table, next to the simulator's figures.
//!
//! Cost: none.

use std::fmt::Write as _;

use curtail_sim::graph::{Figures, ServiceOutcome, WorkflowOutcome};

use super::Outcome;

fn figure(of: Option<&Figures>, pick: fn(&Figures) -> f64, digits: usize) -> String {
    of.map_or_else(|| "-".to_owned(), |of| format!("{:.digits$}", pick(of)))
}

/// Returns the table, which has several lines.
pub(super) fn text(outcome: &Outcome) -> String {
    let (mean, simulated) = (&outcome.measured.mean, &outcome.simulated);
    let instances: Vec<String> =
        outcome.instances.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let (control, divided, scale) = (&mean.control, outcome.divided, outcome.time_scale);
    let instances = instances.join(", ");
    let mut text =
        format!("{control}, live: {instances}, 1/{divided} of the load, time × {scale}\n");
    line(&mut text, &HEAD.map(str::to_owned));
    let both = mean.workflows.iter().zip(&simulated.workflows);
    for (of, other) in both.chain([(&mean.all, &simulated.all)]) {
        line(&mut text, &workflow(of, other));
    }
    for (of, other) in mean.services.iter().zip(&simulated.services) {
        service(&mut text, of, other);
    }
    let cpu = outcome.cpu;
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let _ = writeln!(
        text,
        "wasted {} ({}); processors: services {}, clients {}, machine {}; lag {:.2} ms; errors \
         {}{}",
        percent(mean.wasted_work),
        percent(simulated.wasted_work),
        percent(cpu.processes),
        percent(cpu.clients),
        percent(cpu.machine),
        outcome.lag_ms,
        outcome.errors,
        outcome.error.as_ref().map_or_else(String::new, |error| format!(" ({error})"))
    );
    text
}

const HEAD: [&str; 11] = [
    "workflow",
    "offered",
    "goodput",
    "simulated",
    "dropped",
    "timed out",
    "p50 ms",
    "p99 ms",
    "simulated",
    "lateness p99",
    "simulated",
];

fn workflow(of: &WorkflowOutcome, simulated: &WorkflowOutcome) -> [String; 11] {
    let latency = [of, simulated].map(|of| of.latency_ms.as_ref());
    let lateness = [of, simulated].map(|of| of.lateness.as_ref());
    [
        of.name.clone(),
        format!("{:.1}/s", of.offered),
        format!("{:.1}/s", of.goodput),
        format!("{:.1}/s", simulated.goodput),
        format!("{:.1} %", 100.0 * of.dropped),
        format!("{:.1} %", 100.0 * of.timed_out),
        figure(latency[0], |of| of.p50, 1),
        figure(latency[0], |of| of.p99, 1),
        figure(latency[1], |of| of.p99, 1),
        figure(lateness[0], |of| of.p99, 3),
        figure(lateness[1], |of| of.p99, 3),
    ]
}

fn service(text: &mut String, of: &ServiceOutcome, simulated: &ServiceOutcome) {
    let _ = write!(text, "{:10}", of.name);
    for ((name, used), (_, simulated)) in of.utilization.iter().zip(&simulated.utilization) {
        let _ = write!(text, "{name} {:.0} % ({:.0} %), ", 100.0 * used, 100.0 * simulated);
    }
    let _ = writeln!(
        text,
        "rejected {:.1}/s ({:.1}/s), expired {:.1}/s ({:.1}/s)",
        of.dropped_at_admission, simulated.dropped_at_admission, of.expired, simulated.expired
    );
}

fn line(text: &mut String, cells: &[String; 11]) {
    for (at, cell) in cells.iter().enumerate() {
        let _ = if at == 0 { write!(text, "{cell:10}") } else { write!(text, "{cell:>13}") };
    }
    text.push('\n');
}
