//! Figures as people read them.

use std::fmt::Write as _;

use super::saturate::Cost;
use super::summary::{Spread, Summary};

/// The proxies at a load. The ratios are to the better peer's p99.
pub(super) fn tails(summary: &Summary<'_>) -> String {
    let mut text = format!(
        "{:<10}{:>10}{:>18}{:>12}{:>10}{:>18}{:>10}{:>14}{:>18}{:>12}\n",
        "proxy",
        "p99 ms",
        "min – max",
        "of medians",
        "by round",
        "min – max",
        "p50 ms",
        "CPU µs/req",
        "min – max",
        "leaves µs"
    );
    for line in &summary.lines {
        let mark = match line.failed {
            0 => String::new(),
            rounds => format!("  FAILED {rounds} ×"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<10}{:>10.2}{:>18}{:>12.3}{:>10.3}{:>18}{:>10.2}{:>14.1}{:>18}{:>12.0}{mark}",
            line.proxy,
            line.p99_ms.median,
            range(line.p99_ms, 2),
            line.of_medians,
            line.by_round.median,
            range(line.by_round, 3),
            line.p50_ms.median,
            line.cpu_us.median,
            range(line.cpu_us, 1),
            line.leaves_cpu_us.median
        );
    }
    text
}

/// What a request costs.
pub(super) fn costs(costs: &[Cost]) -> String {
    let mut text = format!(
        "{:<10}{:>14}{:>18}{:>14}{:>20}{:>14}\n",
        "proxy", "CPU µs/req", "min – max", "requests/s", "min – max", "backend µs"
    );
    for cost in costs {
        let (cpu, spread) = match cost.cpu_us {
            Some(cpu) => (format!("{:.1}", cpu.median), range(cpu, 1)),
            None => ("–".into(), "–".into()),
        };
        let _ = writeln!(
            text,
            "{:<10}{:>14}{:>18}{:>14.0}{:>20}{:>14.1}",
            cost.name,
            cpu,
            spread,
            cost.rate.median,
            range(cost.rate, 0),
            cost.backend_us.median
        );
    }
    text
}

fn range(spread: Spread, digits: usize) -> String {
    format!("{:.digits$} – {:.digits$}", spread.min, spread.max)
}

#[cfg(test)]
mod tests {
    use super::super::round::tests::{NAMES, SHORT, invalid, round};
    use super::*;

    #[test]
    fn who_failed_is_marked() {
        let rounds = [round([1.0, 2.0, 1.0]), invalid([1.0, 2.0, 1.0], "slow", &[SHORT])];
        let summary = Summary::of(&NAMES, &rounds, 2).expect("figures");
        let text = tails(&summary);
        let marked: Vec<&str> = text.lines().filter(|line| line.contains("FAILED")).collect();
        assert_eq!(marked.len(), 1, "{text}");
        assert!(marked[0].starts_with("slow ") && marked[0].ends_with("FAILED 1 ×"));
    }
}
