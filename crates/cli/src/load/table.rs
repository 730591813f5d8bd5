//! The result for people.

use curtail_load::{Invalid, Report, SAMPLES_ABOVE_MIN, Summary};

pub(super) fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

pub(super) fn table(report: &Report) -> String {
    use std::fmt::Write as _;
    let shown = |ns: Option<u64>| ns.map_or_else(|| "–".into(), ms);
    let Report { offered_rate, achieved_rate, requests, errors, .. } = report;
    let mut text = format!(
        "offered {offered_rate:.1}/s, achieved {achieved_rate:.1}/s, {requests} requests, {} \
         without a good answer",
        errors.total()
    );
    if errors.total() > 0 {
        let _ = write!(text, ": {errors}");
    }
    let rows = [
        ("latency", &report.latency_ns),
        ("uncorrected", &report.uncorrected_ns),
        ("schedule lag", &report.schedule_lag_ns),
    ];
    let head = ["", "p50", "p99", "p99.9", "max"];
    let [name, p50, p99, p999, max] = head;
    let _ = writeln!(text, "\n\n{name:<14}{p50:>14}{p99:>14}{p999:>14}{max:>14}");
    for (name, of) in rows {
        let [p50, p99, p999, max] = [of.p50, of.p99, of.p999, of.max].map(shown);
        let _ = writeln!(text, "{name:<14}{p50:>14}{p99:>14}{p999:>14}{max:>14}");
    }
    if let Some(why) = missing(report) {
        let _ = writeln!(text, "\n–: {why}");
    }
    if let Some(withheld) = &report.withheld {
        let _ = writeln!(text, "\n{withheld}");
    }
    if let Some(error) = &report.first_error {
        let _ = writeln!(text, "\nfirst failure: {error}");
    }
    for reason in &report.invalid_because {
        let verdict = if matches!(reason, Invalid::Interrupted { .. }) { "" } else { "invalid: " };
        let _ = writeln!(text, "\n{verdict}{reason}");
    }
    text.truncate(text.trim_end().len());
    text
}

/// Why there is a dash where a percentile should be, if there is any latency at all.
fn missing(report: &Report) -> Option<String> {
    missing_of(&report.latency_ns, report.withheld.is_some())
}

/// The 99.9th percentile has a line of its own where it is withheld.
fn missing_of(latency: &Summary, withheld: bool) -> Option<String> {
    latency.max?;
    let per_mille =
        [("p50", latency.p50, 500), ("p99", latency.p99, 10), ("p99.9", latency.p999, 1)];
    let lacks = |above: u32| !(above == 1 && withheld);
    let missing = per_mille.iter().filter(|(_, value, above)| value.is_none() && lacks(*above));
    let needs = missing.map(|(name, _, above)| {
        format!("{name} takes {} good answers", SAMPLES_ABOVE_MIN * 1_000 / u64::from(*above))
    });
    let needs: Vec<String> = needs.collect();
    let rule =
        format!("with fewer than {SAMPLES_ABOVE_MIN} samples above it a percentile is chance");
    (!needs.is_empty()).then(|| format!("{rule}; {}", needs.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(p99: Option<u64>, p999: Option<u64>, max: Option<u64>) -> Summary {
        Summary { p50: Some(1), p99, p999, max, ..Summary::default() }
    }

    #[test]
    fn a_dash_has_its_reason() {
        assert_eq!(missing_of(&latency(Some(1), Some(1), Some(1)), false), None);
        assert_eq!(
            missing_of(&latency(None, None, None), false),
            None,
            "nothing was measured at all"
        );
        let rule = "with fewer than 10 samples above it a percentile is chance; ";
        let of = |p99| missing_of(&latency(p99, None, Some(1)), false).expect("p99.9 is missing");
        assert_eq!(of(Some(1)), format!("{rule}p99.9 takes 10000 good answers"));
        let both = "p99 takes 1000 good answers, p99.9 takes 10000 good answers";
        assert_eq!(of(None), format!("{rule}{both}"));
        // Which has a reason of its own, on a line of its own.
        assert_eq!(missing_of(&latency(Some(1), None, Some(1)), true), None);
    }
}
