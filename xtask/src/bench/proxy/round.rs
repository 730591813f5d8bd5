//! One run of each proxy, and what it is good for.

use serde_json::{Value, json};

use crate::reason::Reason;

/// One run of one proxy.
pub(super) struct Run {
    pub(super) proxy: &'static str,
    /// The load generator vouches for the figures.
    pub(super) valid: bool,
    pub(super) invalid_because: Vec<String>,
    /// Requests without a good answer.
    pub(super) errors: u64,
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    /// Good answers per second.
    pub(super) rate: f64,
    /// CPU time of the proxy per request, probes and idle turns included.
    pub(super) cpu_us: f64,
    /// CPU time of the leaves per request.
    pub(super) leaves_cpu_us: f64,
}

/// What a run is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its figures can be relied on.
    Good,
    /// The load generator fell behind its schedule, and nothing else: bad luck, which says nothing
    /// about the proxy.
    Lagged,
    /// Requests were not answered well and in time, or too few for a p99. Another try would hide
    /// it.
    Failed,
}

impl Run {
    pub(super) fn fate(&self) -> Fate {
        let lag = |why: &String| Reason::of(why) == Reason::FellBehind;
        let whole = self.p50_ms.is_some() && self.p99_ms.is_some();
        match self.valid {
            true if whole => Fate::Good,
            false if !self.invalid_because.is_empty() && self.invalid_because.iter().all(lag) => {
                Fate::Lagged
            }
            _ => Fate::Failed,
        }
    }

    /// Why it is not good.
    pub(super) fn why(&self) -> String {
        match self.invalid_because.as_slice() {
            [] if self.valid => format!("too few answers for a p99, {} errors", self.errors),
            [] => "the load generator does not say why".into(),
            reasons => reasons.join("; "),
        }
    }

    /// For those who wait.
    pub(super) fn line(&self) -> String {
        let ms = |ms: Option<f64>| ms.map_or_else(|| "–".into(), |ms| format!("{ms:.2}"));
        let Self { proxy, p50_ms, p99_ms, cpu_us, errors, .. } = self;
        let (p50, p99) = (ms(*p50_ms), ms(*p99_ms));
        let mut text = format!("{proxy}: p50 {p50} ms, p99 {p99} ms, {cpu_us:.0} µs CPU/request");
        if *errors > 0 {
            text.push_str(&format!(", {errors} errors"));
        }
        match self.fate() {
            Fate::Good => {}
            Fate::Lagged => text.push_str(&format!(" (does not count: {})", self.why())),
            Fate::Failed => text.push_str(&format!(" (FAILED: {})", self.why())),
        }
        text
    }

    pub(super) fn document(&self) -> Value {
        json!({
            "proxy": self.proxy,
            "valid": self.valid,
            "invalid_because": self.invalid_because,
            "errors": self.errors,
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
            "achieved_rate": self.rate,
            "cpu_us_per_request": self.cpu_us,
            "leaves_cpu_us_per_request": self.leaves_cpu_us,
        })
    }
}

/// One run of each proxy.
pub(super) struct Round {
    pub(super) seed: u64,
    pub(super) runs: Vec<Run>,
}

impl Round {
    /// It is not to be made up for. A run of it may have failed: then that is what it shows.
    pub(super) fn counts(&self) -> bool {
        let some = |fate| self.runs.iter().any(|run| run.fate() == fate);
        some(Fate::Failed) || !some(Fate::Lagged)
    }

    /// It counts, and this proxy has something to show in it.
    pub(super) fn is_of(&self, proxy: &str) -> bool {
        self.counts() && self.run(proxy).is_some_and(|run| run.fate() != Fate::Lagged)
    }

    pub(super) fn run(&self, proxy: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.proxy == proxy)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const NAMES: [&str; 3] = ["ours", "slow", "fast"];
    pub(crate) const BEHIND: &str = "fell behind: 40 of 3000 requests were sent more than 1 ms \
                                     after their intended times; use a less busy machine, or a \
                                     lower rate";
    pub(crate) const SHORT: &str = "fell short: 2800 of 3000 requests were answered well and in \
                                    time, 200 with a bad status (5xx)";

    /// A good run of each.
    pub(crate) fn round(p99s: [f64; 3]) -> Round {
        let run = |(proxy, p99): (&'static str, f64)| Run {
            proxy,
            valid: true,
            invalid_because: Vec::new(),
            errors: 0,
            p50_ms: Some(1.0),
            p99_ms: Some(p99),
            rate: 1.0,
            cpu_us: 1.0,
            leaves_cpu_us: 1.0,
        };
        Round { seed: 0, runs: NAMES.into_iter().zip(p99s).map(run).collect() }
    }

    /// A round in which one run is not valid.
    pub(crate) fn invalid(p99s: [f64; 3], proxy: &str, reasons: &[&str]) -> Round {
        let mut round = round(p99s);
        let run = round.runs.iter_mut().find(|run| run.proxy == proxy).expect(proxy);
        run.valid = false;
        run.invalid_because = reasons.iter().copied().map(str::to_owned).collect();
        round
    }

    fn fate(reasons: &[&str]) -> Fate {
        invalid([1.0; 3], "ours", reasons).runs[0].fate()
    }

    #[test]
    fn only_a_generator_that_fell_behind_is_bad_luck() {
        assert_eq!(round([1.0; 3]).runs[0].fate(), Fate::Good);
        assert_eq!(fate(&[BEHIND]), Fate::Lagged);
        let stalled = "fell behind: 140 of 3000 requests were sent more than 1 ms after their \
                       intended times; 130 found all 64 connections busy: use more";
        for reasons in [
            &[SHORT][..],
            &[stalled],
            &[BEHIND, SHORT],
            &["nothing measured: there is no good answer"],
            &[],
        ] {
            assert_eq!(fate(reasons), Fate::Failed, "{reasons:?}");
        }
        let mut few = round([1.0; 3]);
        (few.runs[0].p99_ms, few.runs[0].errors) = (None, 20);
        assert_eq!(few.runs[0].fate(), Fate::Failed);
        assert!(few.runs[0].line().contains("20 errors (FAILED: too few answers for a p99"));
    }

    #[test]
    fn a_failure_is_not_made_up_for() {
        assert!(round([1.0; 3]).counts());
        assert!(!invalid([1.0; 3], "fast", &[BEHIND]).counts());
        assert!(invalid([1.0; 3], "fast", &[SHORT]).counts());
        let mut both = invalid([1.0; 3], "fast", &[SHORT]);
        (both.runs[0].valid, both.runs[0].invalid_because) = (false, vec![BEHIND.into()]);
        assert!(both.counts());
        assert!(!both.is_of("ours") && both.is_of("fast") && both.is_of("slow"));
    }
}
