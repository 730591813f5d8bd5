//! What the rounds at a load say: medians, their spread, and whether the bound holds.

use serde_json::{Value, json};

use super::round::{Fate, Round, Run};

/// Our p99 may be so many times the better peer's.
pub(super) const BOUND: f64 = 1.05;

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
    /// Rounds that it failed in, which its figures leave out.
    pub(super) failed: usize,
}

/// A proxy that failed.
struct Failure<'a> {
    proxy: &'a str,
    rounds: usize,
    /// The first time.
    why: String,
}

/// All proxies at a load, ours first. Who has no figures is not among the lines.
pub(super) struct Summary<'a> {
    pub(super) lines: Vec<Line<'a>>,
    ours: &'a str,
    better: &'a str,
    /// Rounds that count and have figures of ours, of those that were to be, and of all.
    counting: usize,
    wanted: u32,
    rounds: usize,
    failures: Vec<Failure<'a>>,
    /// Peers that failed in half of the rounds or more: what they did answer shows little.
    silent: Vec<&'a str>,
    /// Why rounds do not count, one text for each.
    discarded: Vec<String>,
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
    /// Of the good runs of the rounds that count; where no round does, of all, and the verdict says
    /// so. None if no peer has figures.
    pub(super) fn of(names: &[&'a str], rounds: &[Round], wanted: u32) -> Option<Self> {
        let kept: Vec<&Round> = rounds.iter().filter(|round| round.counts()).collect();
        let none = kept.is_empty();
        let used = if none { rounds.iter().collect() } else { kept };
        let of = |round: &Round, proxy: &str, figure: fn(&Run) -> Option<f64>| {
            let run = round.run(proxy)?;
            if none || run.fate() == Fate::Good { figure(run) } else { None }
        };
        let spread = |proxy: &str, figure: fn(&Run) -> Option<f64>| {
            Spread::of(used.iter().filter_map(|round| of(round, proxy, figure)))
        };
        let p99 = |run: &Run| run.p99_ms;
        let (&ours, peers) = names.split_first()?;
        let peers = peers.iter().filter_map(|&peer| Some((peer, spread(peer, p99)?)));
        let (better, best) = peers.min_by(|(_, a), (_, b)| a.median.total_cmp(&b.median))?;
        let failures = failures(names, rounds);
        let mostly_good = |peer: &str| {
            2 * used.iter().filter(|round| of(round, peer, p99).is_some()).count() > used.len()
        };
        let line = |&proxy: &&'a str| {
            let p99_ms = spread(proxy, p99)?;
            let ratio = |round: &&Round| Some(of(round, proxy, p99)? / of(round, better, p99)?);
            let failure = failures.iter().find(|failure| failure.proxy == proxy);
            Some(Line {
                proxy,
                p50_ms: spread(proxy, |run| run.p50_ms)?,
                p99_ms,
                of_medians: p99_ms.median / best.median,
                by_round: Spread::of(used.iter().filter_map(ratio))?,
                cpu_us: spread(proxy, |run| Some(run.cpu_us))?,
                leaves_cpu_us: spread(proxy, |run| Some(run.leaves_cpu_us))?,
                failed: failure.map_or(0, |failure| failure.rounds),
            })
        };
        let good = |round: &&&Round| round.run(ours).is_some_and(|run| run.fate() == Fate::Good);
        Some(Self {
            lines: names.iter().filter_map(line).collect(),
            ours,
            better,
            counting: if none { 0 } else { used.iter().filter(good).count() },
            wanted,
            rounds: rounds.len(),
            silent: names[1..].iter().copied().filter(|&peer| !mostly_good(peer)).collect(),
            failures,
            discarded: discarded(rounds),
        })
    }

    /// Whether there are enough rounds that count.
    fn enough(&self) -> bool {
        self.counting >= self.wanted as usize
    }

    /// Whether that is so, and for every peer.
    fn sound(&self) -> bool {
        self.enough() && self.silent.is_empty()
    }

    fn failure(&self) -> Option<&Failure<'a>> {
        self.failures.iter().find(|failure| failure.proxy == self.ours)
    }

    /// Of the medians: what the bound is about.
    fn ratio(&self) -> Option<f64> {
        self.lines.iter().find(|line| line.proxy == self.ours).map(|line| line.of_medians)
    }

    /// The bound holds, and that can be said.
    pub(super) fn holds(&self) -> bool {
        let good = self.ratio().is_some_and(|ratio| ratio <= BOUND);
        self.failure().is_none() && self.sound() && good
    }

    pub(super) fn verdict(&self) -> String {
        let Self { better, counting, wanted, .. } = self;
        let bound = format!("bound of {BOUND} × the better peer's median p99");
        let ratio = match self.ratio() {
            Some(ratio) => format!("{ratio:.3} × {better}'s"),
            None => "no p99".to_owned(),
        };
        if let Some(failure) = self.failure() {
            let failure = failure.told(self.rounds);
            return format!("{bound}: is broken, {failure}; {ratio} over {counting} others");
        }
        let verdict = match (self.sound(), self.holds()) {
            (true, true) => "holds",
            (true, false) => "is broken",
            (false, _) => "cannot be judged",
        };
        let rounds = match (self.enough(), counting) {
            (true, _) => format!("over {counting} rounds"),
            (false, 0) => format!("in no round that counts of {wanted}, so over all of them"),
            (false, _) => format!("over the {counting} rounds that count, of {wanted}"),
        };
        let silent = match self.silent.as_slice() {
            [] => String::new(),
            peers => format!("; without enough good rounds of {}", peers.join(" and ")),
        };
        format!("{bound}: {verdict}, {ratio} {rounds}{silent}")
    }

    /// What else there is to know: peers that failed, and rounds that were made up for.
    pub(super) fn notes(&self) -> Vec<String> {
        let peers = self.failures.iter().filter(|failure| failure.proxy != self.ours);
        let mut notes: Vec<String> = peers
            .map(|failure| format!("{}, left out of its figures", failure.told(self.rounds)))
            .collect();
        if !self.discarded.is_empty() {
            let (discarded, rounds) = (self.discarded.len(), self.rounds);
            let why = self.discarded.join("; ");
            notes.push(format!("{discarded} of {rounds} rounds do not count: {why}"));
        }
        notes
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
                "failed_rounds": line.failed,
            })
        };
        self.lines.iter().map(line).collect()
    }
}

impl Failure<'_> {
    fn told(&self, rounds: usize) -> String {
        let Self { proxy, rounds: failed, why } = self;
        format!("{proxy} FAILED in {failed} of {rounds} rounds ({why})")
    }
}

fn failures<'a>(names: &[&'a str], rounds: &[Round]) -> Vec<Failure<'a>> {
    let failure = |&proxy: &&'a str| {
        let runs = rounds.iter().filter_map(|round| round.run(proxy));
        let mut failed = runs.filter(|run| run.fate() == Fate::Failed);
        let why = failed.next()?.why();
        Some(Failure { proxy, rounds: 1 + failed.count(), why })
    };
    names.iter().filter_map(failure).collect()
}

fn discarded(rounds: &[Round]) -> Vec<String> {
    let discarded = rounds.iter().enumerate().filter(|(_, round)| !round.counts());
    let why = |(number, round): (usize, &Round)| {
        let lagged = round.runs.iter().filter(|run| run.fate() == Fate::Lagged);
        let why: Vec<String> = lagged.map(|run| format!("{}: {}", run.proxy, run.why())).collect();
        format!("round {}, {}", number + 1, why.join(", "))
    };
    discarded.map(why).collect()
}

#[cfg(test)]
mod tests {
    use super::super::round::tests::{BEHIND, NAMES, SHORT, invalid, round};
    use super::*;

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
        let rounds =
            [round([8.8, 20.0, 8.0]), round([10.0, 20.0, 10.0]), round([13.2, 20.0, 12.0])];
        let holds = summary(&rounds, 3);
        assert!((holds.lines[0].by_round.median - 1.1).abs() < 1e-9);
        assert_eq!(holds.lines[0].of_medians, 1.0);
        assert!(holds.holds() && holds.notes().is_empty());
        assert!(holds.verdict().contains("holds, 1.000 × fast's over 3 rounds"));
        let broken = summary(&[round([10.6, 20.0, 10.0])], 1);
        assert!(!broken.holds());
        assert!(broken.verdict().contains("is broken, 1.060 × fast's"));
    }

    #[test]
    fn rounds_that_do_not_count_establish_nothing() {
        let rounds = [invalid([99.0, 9.0, 9.0], "slow", &[BEHIND]), round([1.0, 2.0, 1.0])];
        let few = summary(&rounds, 2);
        assert_eq!(few.lines[0].p99_ms.max, 1.0, "the round that does not count is left out");
        assert!(!few.holds());
        assert!(few.verdict().contains("cannot be judged"));
        assert_eq!(few.notes(), [format!("1 of 2 rounds do not count: round 1, slow: {BEHIND}")]);
        let none = summary(&rounds[..1], 1);
        assert_eq!(none.lines[0].p99_ms.median, 99.0);
        assert!(none.verdict().contains("in no round that counts"));
        let made_up = summary(&rounds, 1);
        assert!(made_up.holds() && made_up.notes().len() == 1);
    }

    #[test]
    fn a_failure_of_ours_breaks_the_bound() {
        let good = || round([1.0, 2.0, 1.0]);
        let rounds = [good(), invalid([1.0, 2.0, 1.0], "ours", &[BEHIND, SHORT]), good()];
        let broken = summary(&rounds, 2);
        assert!(!broken.holds(), "however many rounds there are");
        let text = format!("is broken, ours FAILED in 1 of 3 rounds ({BEHIND}; {SHORT}); 1.000 ×");
        assert!(broken.verdict().contains(&text), "{}", broken.verdict());
        assert!(broken.notes().is_empty(), "nothing is made up for: {:?}", broken.notes());
        let always = summary(&rounds[1..2], 1);
        assert!(!always.holds() && always.lines.iter().all(|line| line.proxy != "ours"));
        assert!(always.verdict().ends_with("; no p99 over 0 others"), "{}", always.verdict());
    }

    #[test]
    fn a_peer_that_fails_is_marked_and_compared_by_what_it_did_answer() {
        let rounds =
            [round([1.0, 2.0, 1.0]), invalid([1.0, 2.0, 0.1], "fast", &[SHORT]), round([1.0; 3])];
        let marked = summary(&rounds, 3);
        assert!(marked.holds(), "{}", marked.verdict());
        assert_eq!(marked.lines[2].p99_ms.min, 1.0, "what it failed in is left out");
        let failed: Vec<usize> = marked.lines.iter().map(|line| line.failed).collect();
        assert_eq!(failed, [0, 0, 1]);
        let note = format!("fast FAILED in 1 of 3 rounds ({SHORT}), left out of its figures");
        assert_eq!(marked.notes(), [note]);
        // Who mostly failed is nobody to be compared with, nor is who is left the better peer.
        let gone = summary(&rounds[1..2], 1);
        let text =
            "cannot be judged, 0.500 × slow's over 1 rounds; without enough good rounds of fast";
        assert!(!gone.holds() && gone.verdict().ends_with(text), "{}", gone.verdict());
        assert_eq!(gone.lines.len(), 2);
        assert!(!summary(&rounds[..2], 2).holds(), "half is not most");
        let mut silent = invalid([1.0; 3], "fast", &[SHORT]);
        silent.runs[1].p99_ms = None;
        assert!(Summary::of(&NAMES, &[silent], 1).is_none());
    }

    #[test]
    fn ours_needs_figures_of_its_own() {
        // A peer failed, so the round stands, but ours has nothing to show in it.
        let mut both = invalid([1.0, 2.0, 1.0], "fast", &[SHORT]);
        (both.runs[0].valid, both.runs[0].invalid_because) = (false, vec![BEHIND.into()]);
        let few = summary(&[round([1.0, 2.0, 1.0]), both], 2);
        assert!(!few.holds());
        assert!(few.verdict().contains("over the 1 rounds that count, of 2"), "{}", few.verdict());
    }
}
