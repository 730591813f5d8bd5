//! A live run as a table, beside what the simulator says.
//!
//! Cost: none.

use std::fmt::Write as _;

use curtail_sim::graph::Figures;

use super::Outcome;

fn figure(of: Option<&Figures>, pick: fn(&Figures) -> f64, digits: usize) -> String {
    of.map_or_else(|| "-".to_owned(), |of| format!("{:.digits$}", pick(of)))
}

/// Several lines.
pub(super) fn text(outcome: &Outcome) -> String {
    let (mean, simulated) = (&outcome.measured.mean, &outcome.simulated);
    let instances: Vec<String> =
        outcome.instances.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let mut text = format!(
        "{}, live: {}, 1/{} of the load, time × {}\n",
        mean.control,
        instances.join(", "),
        outcome.divided,
        outcome.time_scale
    );
    let head = [
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
    line(&mut text, head.map(str::to_owned));
    let both = mean.workflows.iter().zip(&simulated.workflows);
    for (of, other) in both.chain([(&mean.all, &simulated.all)]) {
        let [latency, simulated_latency] = [of, other].map(|of| of.latency_ms.as_ref());
        let [lateness, simulated_lateness] = [of, other].map(|of| of.lateness.as_ref());
        line(
            &mut text,
            [
                of.name.clone(),
                format!("{:.1}/s", of.offered),
                format!("{:.1}/s", of.goodput),
                format!("{:.1}/s", other.goodput),
                format!("{:.1} %", 100.0 * of.dropped),
                format!("{:.1} %", 100.0 * of.timed_out),
                figure(latency, |of| of.p50, 1),
                figure(latency, |of| of.p99, 1),
                figure(simulated_latency, |of| of.p99, 1),
                figure(lateness, |of| of.p99, 3),
                figure(simulated_lateness, |of| of.p99, 3),
            ],
        );
    }
    for (of, other) in mean.services.iter().zip(&simulated.services) {
        let _ = write!(text, "{:10}", of.name);
        for ((name, used), (_, simulated)) in of.utilization.iter().zip(&other.utilization) {
            let _ = write!(text, "{name} {:.0} % ({:.0} %), ", 100.0 * used, 100.0 * simulated);
        }
        let (turned, expired) = (of.dropped_at_admission, of.expired);
        let _ = writeln!(
            text,
            "turned away {turned:.1}/s ({:.1}/s), expired {expired:.1}/s ({:.1}/s)",
            other.dropped_at_admission, other.expired
        );
    }
    let cpu = outcome.cpu;
    let _ = writeln!(
        text,
        "in vain {:.1} % ({:.1} %); processors: services {:.0} %, clients {:.0} %, machine {:.0} %; lag {:.2} ms; errors {}{}",
        100.0 * mean.wasted_work,
        100.0 * simulated.wasted_work,
        100.0 * cpu.processes,
        100.0 * cpu.clients,
        100.0 * cpu.machine,
        outcome.lag_ms,
        outcome.errors,
        outcome.error.as_ref().map_or_else(String::new, |error| format!(" ({error})"))
    );
    text
}

fn line(text: &mut String, cells: [String; 11]) {
    for (at, cell) in cells.iter().enumerate() {
        let _ = if at == 0 { write!(text, "{cell:10}") } else { write!(text, "{cell:>13}") };
    }
    text.push('\n');
}
