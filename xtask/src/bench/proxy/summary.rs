//! What the rounds at a load say: medians, their spread, and whether the bound holds.

use serde_json::{Value, json};

/// Our p99 may be so many times the better peer's.
pub(super) const BOUND: f64 = 1.05;

/// One run of one proxy.
pub(super) struct Run {
    pub(super) proxy: &'static str,
    /// The load generator vouches for the figures.
    pub(super) valid: bool,
    pub(super) invalid_because: Vec<String>,
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    /// Good answers per second.
    pub(super) rate: f64,
    /// CPU time of the proxy per request, probes and idle turns included.
    pub(super) cpu_us: f64,
    /// CPU time of the leaves per request.
    pub(super) leaves_cpu_us: f64,
}

/// One run of each proxy.
pub(super) struct Round {
    pub(super) seed: u64,
    pub(super) runs: Vec<Run>,
}

/// A middle, and what it is the middle of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

/// One proxy over the rounds that count.
pub(super) struct Line<'a> {
    pub(super) proxy: &'a str,
    pub(super) p50_ms: Spread,
    pub(super) p99_ms: Spread,
    /// The median p99 as a multiple of the better peer's.
    pub(super) of_medians: f64,
    /// The same, round by round.
    pub(super) by_round: Spread,
    pub(super) cpu_us: Spread,
    pub(super) leaves_cpu_us: Spread,
}

/// All proxies at a load, ours first.
pub(super) struct Summary<'a> {
    pub(super) lines: Vec<Line<'a>>,
    better: &'a str,
    /// Rounds that count, of those that were to be.
    counting: usize,
    wanted: u32,
}

impl Run {
    /// For those who wait.
    pub(super) fn line(&self) -> String {
        let ms = |ms: Option<f64>| ms.map_or_else(|| "–".into(), |ms| format!("{ms:.2}"));
        let Self { proxy, p50_ms, p99_ms, cpu_us, .. } = self;
        let (p50, p99) = (ms(*p50_ms), ms(*p99_ms));
        let mut text = format!("{proxy}: p50 {p50} ms, p99 {p99} ms, {cpu_us:.0} µs CPU/request");
        if !self.valid {
            text.push_str(&format!(" (invalid: {})", self.invalid_because.join("; ")));
        }
        text
    }

    pub(super) fn document(&self) -> Value {
        json!({
            "proxy": self.proxy,
            "valid": self.valid,
            "invalid_because": self.invalid_because,
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
            "achieved_rate": self.rate,
            "cpu_us_per_request": self.cpu_us,
            "leaves_cpu_us_per_request": self.leaves_cpu_us,
        })
    }
}

impl Round {
    /// Every figure of it can be relied on.
    pub(super) fn counts(&self) -> bool {
        self.runs.iter().all(|run| run.valid && run.p50_ms.is_some() && run.p99_ms.is_some())
    }

    fn of(&self, proxy: &str, figure: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        figure(self.runs.iter().find(|run| run.proxy == proxy)?)
    }
}

impl Spread {
    /// None of no values.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Self { median, min, max })
    }

    pub(super) fn document(self) -> Value {
        json!({"median": self.median, "min": self.min, "max": self.max})
    }
}

impl<'a> Summary<'a> {
    /// Of the rounds that count; where none does, of all, and the verdict says so. None if a proxy
    /// has no figures at all.
    pub(super) fn of(names: &[&'a str], rounds: &[Round], wanted: u32) -> Option<Self> {
        let sound: Vec<&Round> = rounds.iter().filter(|round| round.counts()).collect();
        let counting = sound.len();
        let used = if sound.is_empty() { rounds.iter().collect() } else { sound };
        let spread = |name: &str, figure: fn(&Run) -> Option<f64>| {
            Spread::of(used.iter().filter_map(|round| round.of(name, figure)))
        };
        let p99 = |run: &Run| run.p99_ms;
        let (_, peers) = names.split_first()?;
        let mut better: Option<(&str, Spread)> = None;
        for &peer in peers {
            let spread = spread(peer, p99)?;
            if better.is_none_or(|(_, best)| spread.median < best.median) {
                better = Some((peer, spread));
            }
        }
        let (better, best) = better?;
        let line = |&proxy: &&'a str| {
            let p99_ms = spread(proxy, p99)?;
            let ratio = |round: &&Round| Some(round.of(proxy, p99)? / round.of(better, p99)?);
            Some(Line {
                proxy,
                p50_ms: spread(proxy, |run| run.p50_ms)?,
                p99_ms,
                of_medians: p99_ms.median / best.median,
                by_round: Spread::of(used.iter().filter_map(ratio))?,
                cpu_us: spread(proxy, |run| Some(run.cpu_us))?,
                leaves_cpu_us: spread(proxy, |run| Some(run.leaves_cpu_us))?,
            })
        };
        let lines = names.iter().map(line).collect::<Option<_>>()?;
        Some(Self { lines, better, counting, wanted })
    }

    /// Whether there are enough rounds that count.
    fn sound(&self) -> bool {
        self.counting >= self.wanted as usize
    }

    /// The bound holds, and that can be said. It is about the ratio of the medians.
    pub(super) fn holds(&self) -> bool {
        self.sound() && self.lines.first().is_some_and(|ours| ours.of_medians <= BOUND)
    }

    pub(super) fn verdict(&self) -> String {
        let ratio = self.lines.first().map_or(f64::NAN, |ours| ours.of_medians);
        let Self { better, counting, wanted, .. } = self;
        let verdict = match (self.sound(), ratio <= BOUND) {
            (true, true) => "holds",
            (true, false) => "is broken",
            (false, _) => "cannot be judged",
        };
        let rounds = match (self.sound(), counting) {
            (true, _) => format!("over {counting} rounds"),
            (false, 0) => format!("in no round that counts of {wanted}, so over all of them"),
            (false, _) => format!("over the {counting} rounds that count, of {wanted}"),
        };
        format!(
            "bound of {BOUND} × the better peer's median p99: {verdict}, {ratio:.3} × {better}'s \
             {rounds}"
        )
    }

    pub(super) fn documents(&self) -> Vec<Value> {
        let line = |line: &Line<'_>| {
            json!({
                "proxy": line.proxy,
                "p50_ms": line.p50_ms.document(),
                "p99_ms": line.p99_ms.document(),
                "ratio_of_medians": line.of_medians,
                "ratio_by_round": line.by_round.document(),
                "cpu_us_per_request": line.cpu_us.document(),
                "leaves_cpu_us_per_request": line.leaves_cpu_us.document(),
            })
        };
        self.lines.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["ours", "slow", "fast"];

    fn round(valid: bool, p99s: [f64; 3]) -> Round {
        let run = |(proxy, p99): (&'static str, f64)| Run {
            proxy,
            valid,
            invalid_because: Vec::new(),
            p50_ms: Some(1.0),
            p99_ms: Some(p99),
            rate: 1.0,
            cpu_us: 1.0,
            leaves_cpu_us: 1.0,
        };
        Round { seed: 0, runs: NAMES.into_iter().zip(p99s).map(run).collect() }
    }

    fn summary(rounds: &[Round], wanted: u32) -> Summary<'static> {
        Summary::of(&NAMES, rounds, wanted).expect("figures")
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_ones() {
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0]);
        assert_eq!(spread, Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn the_verdict_is_about_the_ratio_of_medians_to_the_better_peers() {
        // Round by round ours is at 1.1; the medians are both 10.
        let rounds = [
            round(true, [8.8, 20.0, 8.0]),
            round(true, [10.0, 20.0, 10.0]),
            round(true, [13.2, 20.0, 12.0]),
        ];
        let holds = summary(&rounds, 3);
        assert!((holds.lines[0].by_round.median - 1.1).abs() < 1e-9);
        assert_eq!(holds.lines[0].of_medians, 1.0);
        assert!(holds.holds());
        assert!(holds.verdict().contains("holds, 1.000 × fast's over 3 rounds"));
        let broken = summary(&[round(true, [10.6, 20.0, 10.0])], 1);
        assert!(!broken.holds());
        assert!(broken.verdict().contains("is broken, 1.060 × fast's"));
    }

    #[test]
    fn rounds_that_do_not_count_establish_nothing() {
        let rounds = [round(false, [99.0, 9.0, 9.0]), round(true, [1.0, 2.0, 1.0])];
        let few = summary(&rounds, 2);
        assert_eq!(few.lines[0].p99_ms.max, 1.0, "the round that does not count is left out");
        assert!(!few.holds());
        assert!(few.verdict().contains("cannot be judged"));
        let none = summary(&rounds[..1], 1);
        assert_eq!(none.lines[0].p99_ms.median, 99.0);
        assert!(none.verdict().contains("in no round that counts"));
        let mut silent = round(true, [1.0, 2.0, 3.0]);
        silent.runs[1].p99_ms = None;
        assert!(Summary::of(&NAMES, &[silent], 1).is_none());
    }
}
